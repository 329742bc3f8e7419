"""Ranges of expressions over boxes, by the ball arithmetic of python-flint.

A range is a pair (least, greatest) of `arb` balls, each of which holds the end that exact interval arithmetic
would give; `arb` does all of the rounding, so that there is none to get wrong here. A comparison of balls is
true only where it holds for every number in them: where no case is certain, the general one is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any

from flint import arb

Span = tuple[Any, Any]
"""Least and greatest value, `arb` each; one and the same object where there is but one value."""
PRECISION = 96
"""Bits; flint's context must be set to this."""

_ZERO, _ONE = arb(0), arb(1)
NOTHING: Span = (_ZERO, _ZERO)
UNIT: Span = (-_ONE, _ONE)


class UnboundedError(Exception):
    """Something that cannot be bounded over a box, in words."""


def point(value: Any) -> Span:
    """One exact number, as float64 has it."""
    if isinstance(value, arb):
        return value, value
    if not isinstance(value, Real):
        raise UnboundedError(f"a {type(value).__name__} among the numbers")
    exact = arb(float(value))
    return exact, exact


def add(one: Span, two: Span) -> Span:
    """Sum."""
    low = one[0] + two[0]
    return (low, low) if one[0] is one[1] and two[0] is two[1] else (low, one[1] + two[1])


def negative(one: Span) -> Span:
    """Negation."""
    high = -one[0]
    return (high, high) if one[0] is one[1] else (-one[1], high)


def multiply(one: Span, two: Span) -> Span:
    """Product: two corners where signs are certain, else all four."""
    a, b = one
    c, d = two
    if a is b:
        return _scaled(a, two)
    if c is d:
        return _scaled(c, one)
    if a >= 0:
        if c >= 0:
            return a * c, b * d
        if d <= 0:
            return b * c, a * d
    elif b <= 0:
        if c >= 0:
            return a * d, b * c
        if d <= 0:
            return b * d, a * c
    corners = a * c, a * d, b * c, b * d
    return least(*corners), greatest(*corners)


def _scaled(factor: Any, span: Span) -> Span:
    low, high = span
    if low is high:
        product = factor * low
        return product, product
    if factor >= 0:
        return factor * low, factor * high
    if factor <= 0:
        return factor * high, factor * low
    ends = factor * low, factor * high
    return least(*ends), greatest(*ends)


def least(first: Any, *others: Any) -> Any:
    """The least."""
    for other in others:
        first = first.min(other)
    return first


def greatest(first: Any, *others: Any) -> Any:
    """The greatest."""
    for other in others:
        first = first.max(other)
    return first


def hull(one: Span, two: Span) -> Span:
    """Both ranges and what lies between."""
    return one[0].min(two[0]), one[1].max(two[1])


def reciprocal(one: Span) -> Span:
    """1 / x, clear of 0."""
    low, high = one
    if not (low > 0 or high < 0):
        raise UnboundedError("a division by numbers that may be 0")
    top = 1 / low
    return (top, top) if low is high else (1 / high, top)


def absolute(one: Span) -> Span:
    """|x|."""
    low, high = one
    if low >= 0:
        return one
    if high <= 0:
        return negative(one)
    # Sound because |x| is at least 0 and, where both ends have a sign, at least the nearer end.
    top = low.abs_upper().max(high.abs_upper()) if low is not high else low.abs_upper()
    return _ZERO, top


def power(one: Span, exponent: int) -> Span:
    """X to a whole number."""
    if exponent < 0:
        return reciprocal(power(one, -exponent))
    if exponent == 0:
        return _ONE, _ONE
    if exponent % 2 == 0:
        one = absolute(one)
    low = one[0] ** exponent
    return (low, low) if one[0] is one[1] else (low, one[1] ** exponent)


def rising(name: str) -> Callable[[Span], Span]:
    """Range of a rising function of flint's."""

    def apply(one: Span) -> Span:
        low = getattr(one[0], name)()
        return (low, low) if one[0] is one[1] else (low, getattr(one[1], name)())

    return apply


def cosine(one: Span) -> Span:
    """cos: the ends, and 1 or -1 where the range may hold a multiple of π."""
    low, high = one
    if low is high:
        value = low.cos()
        return value, value
    half_turns = (low / arb.pi()).lower().ceil(), (high / arb.pi()).upper().floor()
    ends = low.cos(), high.cos()
    if half_turns[0] > half_turns[1]:
        return least(*ends), greatest(*ends)
    if half_turns[0] == half_turns[1]:
        if (half_turns[0] / 2).is_integer():
            return least(*ends), _ONE
        return -_ONE, greatest(*ends)
    return -_ONE, _ONE


def sine(one: Span) -> Span:
    """sin(x) = cos(x - π/2)."""
    if one[0] is one[1]:
        value = one[0].sin()
        return value, value
    quarter = arb.pi() / 2
    return cosine((one[0] - quarter, one[1] - quarter))


def tangent(one: Span) -> Span:
    """tan, clear of its poles."""
    poles = [(end / arb.pi() - arb(0.5)) for end in one]
    if not poles[0].lower().ceil() > poles[1].upper().floor():
        raise UnboundedError("np.tan across a pole")
    return rising("tan")(one)


def _within(one: Span, low: int, high: int, name: str) -> Span:
    if not (one[0] > low and one[1] < high):
        raise UnboundedError(f"np.{name} of numbers that may reach {low} or {high}")
    return one


def above(one: Span, limit: int, name: str) -> Span:
    """The range itself, if it lies above the limit."""
    if not one[0] > limit:
        raise UnboundedError(f"np.{name} of numbers that may be {limit} or less")
    return one


def root(one: Span) -> Span:
    """Square root."""
    if not one[0] >= 0:
        raise UnboundedError("np.sqrt of numbers that may be negative")
    return rising("sqrt")(one)


def _hyperbolic_cosine(one: Span) -> Span:
    return rising("cosh")(absolute(one))


def _one_plus(one: Span) -> Span:
    return add((_ONE, _ONE), one)


def _arc_slope(one: Span) -> Span:
    return reciprocal(root(_one_plus(negative(power(one, 2)))))


def _unit_slope(one: Span) -> Span:
    if one[0] > 0:
        return _ONE, _ONE
    return (-_ONE, -_ONE) if one[1] < 0 else (-_ONE, _ONE)


def _root_slope(one: Span) -> Span:
    return reciprocal(multiply(point(2), root(above(one, 0, "sqrt"))))


def _falling_arc(one: Span) -> Span:
    high, low = (end.acos() for end in _within(one, -1, 1, "arccos"))
    return low, high


def _step(name: str, of: Callable[[Any], Any]) -> Callable[[Span], Span]:
    def apply(one: Span) -> Span:
        ends = of(one[0].lower()), of(one[1].upper())
        if not ends[0] == ends[1]:
            raise UnboundedError(f"np.{name} that jumps")
        return ends[0], ends[0]

    return apply


def _flat(_: Span) -> Span:
    return NOTHING


def _constant(factor: Callable[[], Any]) -> tuple[Callable[[Span], Span], Callable[[Span], Span]]:
    return lambda one: multiply(one, point(factor())), lambda _: point(factor())


_TO_RADIANS = _constant(lambda: arb.pi() / 180)
_TO_DEGREES = _constant(lambda: 180 / arb.pi())

UNARY: dict[str, tuple[Callable[[Span], Span], Callable[[Span], Span]]] = {
    "absolute": (absolute, _unit_slope),
    "fabs": (absolute, _unit_slope),
    "square": (lambda one: power(one, 2), lambda one: multiply(point(2), one)),
    "reciprocal": (reciprocal, lambda one: negative(power(reciprocal(one), 2))),
    "sqrt": (root, _root_slope),
    "exp": (rising("exp"), rising("exp")),
    "expm1": (rising("expm1"), rising("exp")),
    "log": (lambda one: rising("log")(above(one, 0, "log")), lambda one: reciprocal(above(one, 0, "log"))),
    "log1p": (
        lambda one: rising("log1p")(above(one, -1, "log1p")),
        lambda one: reciprocal(_one_plus(above(one, -1, "log1p"))),
    ),
    "sin": (sine, cosine),
    "cos": (cosine, lambda one: negative(sine(one))),
    "tan": (tangent, lambda one: _one_plus(power(tangent(one), 2))),
    "arcsin": (lambda one: rising("asin")(_within(one, -1, 1, "arcsin")), _arc_slope),
    "arccos": (_falling_arc, lambda one: negative(_arc_slope(one))),
    "arctan": (rising("atan"), lambda one: reciprocal(_one_plus(power(one, 2)))),
    "sinh": (rising("sinh"), _hyperbolic_cosine),
    "cosh": (_hyperbolic_cosine, rising("sinh")),
    "tanh": (rising("tanh"), lambda one: power(reciprocal(_hyperbolic_cosine(one)), 2)),
    "sign": (_step("sign", lambda end: end.sgn()), _flat),
    "floor": (_step("floor", lambda end: end.floor()), _flat),
    "ceil": (_step("ceil", lambda end: end.ceil()), _flat),
    "trunc": (_step("trunc", lambda end: end.floor() if end >= 0 else end.ceil()), _flat),
    "deg2rad": _TO_RADIANS,
    "radians": _TO_RADIANS,
    "rad2deg": _TO_DEGREES,
    "degrees": _TO_DEGREES,
}
"""Range and slope of the functions of one argument, by NumPy's names."""
