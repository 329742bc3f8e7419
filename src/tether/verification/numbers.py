"""Numbers that carry a range and a gradient, by the ball arithmetic of python-flint.

A :class:`Number` stands for every value that an expression takes over a box of inputs, and for its partial
derivatives there. Ranges are pairs (least, greatest) of `arb` balls, each of which holds the end that exact
interval arithmetic would give; `arb` does all of the rounding, so that there is none to get wrong here. A
comparison holds only where it holds for every number in the balls; one that does not, either way, raises.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real
from typing import Any

from flint import arb  # pyright: ignore[reportAttributeAccessIssue]

Span = tuple[Any, Any]
"""Least and greatest value, `arb` each; one and the same object where there is but one value."""
PRECISION = 96
"""Bits; flint's context must be set to this."""

_ZERO, _ONE = arb(0), arb(1)
_NONE: Span = (_ZERO, _ZERO)


class UnboundedError(Exception):
    """Something that cannot be bounded over a box, in words."""


# Ranges ---------------------------------------------------------------------------------------------


def point(value: Any) -> Span:
    """One exact number."""
    if isinstance(value, arb):
        return value, value
    if not isinstance(value, Real):
        raise UnboundedError(f"a {type(value).__name__} among the numbers")
    exact = arb(int(value)) if float(value).is_integer() and abs(value) < 2**53 else arb(float(value))
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
    return _least(*corners), _greatest(*corners)


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
    return _least(*ends), _greatest(*ends)


def _least(first: Any, *others: Any) -> Any:
    for other in others:
        first = first.min(other)
    return first


def _greatest(first: Any, *others: Any) -> Any:
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
    """x to a whole number."""
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
        return _least(*ends), _greatest(*ends)
    if half_turns[0] == half_turns[1]:
        if (half_turns[0] / 2).is_integer():
            return _least(*ends), _ONE
        return -_ONE, _greatest(*ends)
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


def _above(one: Span, least: int, name: str) -> Span:
    if not one[0] > least:
        raise UnboundedError(f"np.{name} of numbers that may be {least} or less")
    return one


def _root(one: Span) -> Span:
    if not one[0] >= 0:
        raise UnboundedError("np.sqrt of numbers that may be negative")
    return rising("sqrt")(one)


def _hyperbolic_cosine(one: Span) -> Span:
    return rising("cosh")(absolute(one))


def _one_plus(one: Span) -> Span:
    return add((_ONE, _ONE), one)


def _arc_slope(one: Span) -> Span:
    return reciprocal(_root(_one_plus(negative(power(one, 2)))))


def _unit_slope(one: Span) -> Span:
    if one[0] > 0:
        return _ONE, _ONE
    return (-_ONE, -_ONE) if one[1] < 0 else (-_ONE, _ONE)


def _root_slope(one: Span) -> Span:
    return reciprocal(multiply(point(2), _root(_above(one, 0, "sqrt"))))


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
    return _NONE


def _constant(factor: Callable[[], Any]) -> tuple[Callable[[Span], Span], Callable[[Span], Span]]:
    return lambda one: multiply(one, point(factor())), lambda _: point(factor())


_TO_RADIANS = _constant(lambda: arb.pi() / 180)
_TO_DEGREES = _constant(lambda: 180 / arb.pi())

UNARY: dict[str, tuple[Callable[[Span], Span], Callable[[Span], Span]]] = {
    "absolute": (absolute, _unit_slope),
    "fabs": (absolute, _unit_slope),
    "square": (lambda one: power(one, 2), lambda one: multiply(point(2), one)),
    "reciprocal": (reciprocal, lambda one: negative(power(reciprocal(one), 2))),
    "sqrt": (_root, _root_slope),
    "exp": (rising("exp"), rising("exp")),
    "expm1": (rising("expm1"), rising("exp")),
    "log": (lambda one: rising("log")(_above(one, 0, "log")), lambda one: reciprocal(_above(one, 0, "log"))),
    "log1p": (
        lambda one: rising("log1p")(_above(one, -1, "log1p")),
        lambda one: reciprocal(_one_plus(_above(one, -1, "log1p"))),
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


# Numbers --------------------------------------------------------------------------------------------


class Number:
    """A range, and a range for the derivative by each input it depends on.

    Attributes:
        span: the values.
        gradient: the derivatives, by input; an input left out has none.
    """

    __slots__ = ("gradient", "span")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, span: Span, gradient: dict[int, Span]) -> None:
        self.span, self.gradient = span, gradient

    def chain(self, slope: Span) -> dict[int, Span]:
        """The gradient times the slope of an outer function."""
        return {key: multiply(part, slope) for key, part in self.gradient.items()}

    def __neg__(self) -> Number:
        return Number(negative(self.span), {key: negative(part) for key, part in self.gradient.items()})

    def __pos__(self) -> Number:
        return self

    def __abs__(self) -> Number:
        return unary("absolute", self)

    def __add__(self, other: Any) -> Number:
        other = as_number(other)
        return Number(add(self.span, other.span), _merged(self.gradient, other.gradient))

    def __sub__(self, other: Any) -> Number:
        if other is self:
            return Number(_NONE, {})
        return self + -as_number(other)

    def __rsub__(self, other: Any) -> Number:
        return -self + other

    def __mul__(self, other: Any) -> Number:
        if other is self:
            return unary("square", self)
        other = as_number(other)
        gradient = self.chain(other.span)
        if other.gradient:
            gradient = _merged(gradient, other.chain(self.span))
        return Number(multiply(self.span, other.span), gradient)

    def __truediv__(self, other: Any) -> Number:
        other = as_number(other)
        inverse = reciprocal(other.span)
        span = multiply(self.span, inverse)
        gradient = self.chain(inverse)
        if other.gradient:
            gradient = _merged(gradient, other.chain(negative(multiply(span, inverse))))
        return Number(span, gradient)

    def __rtruediv__(self, other: Any) -> Number:
        return as_number(other) / self

    def __pow__(self, other: Any) -> Number:
        if isinstance(other, Number):
            return unary("exp", other * unary("log", self))
        if float(other).is_integer() and abs(other) < 2**31:
            exponent = int(other)
            if exponent in (0, 1):
                return as_number(1) if exponent == 0 else self
            slope = multiply(point(exponent), power(self.span, exponent - 1))
            return Number(power(self.span, exponent), self.chain(slope))
        if other == 0.5:
            return unary("sqrt", self)
        return self._real_power(float(other))

    def _real_power(self, exponent: float) -> Number:
        base = _above(self.span, 0, "power")

        def raised(by: Any) -> Span:
            ends = base[0] ** by, base[1] ** by
            return (ends[0], ends[1]) if by >= 0 else (ends[1], ends[0])

        slope = multiply(point(exponent), raised(arb(exponent) - 1))
        return Number(raised(arb(exponent)), self.chain(slope))

    def __rpow__(self, other: Any) -> Number:
        return unary("exp", self * unary("log", as_number(other)))

    def __mod__(self, other: Any) -> Number:
        return self - (self // other) * as_number(other)

    def __floordiv__(self, other: Any) -> Number:
        return unary("floor", self / as_number(other))

    __radd__, __rmul__ = __add__, __mul__

    def __lt__(self, other: Any) -> bool:
        a, b = self.span, as_number(other).span
        return _decided(a[1] < b[0], a[0] >= b[1])

    def __le__(self, other: Any) -> bool:
        a, b = self.span, as_number(other).span
        return _decided(a[1] <= b[0], a[0] > b[1])

    def __gt__(self, other: Any) -> bool:
        return as_number(other) < self

    def __ge__(self, other: Any) -> bool:
        return as_number(other) <= self

    def __eq__(self, other: Any) -> bool:
        a, b = self.span, as_number(other).span
        same = a[0] is a[1] and b[0] is b[1] and a[0] == b[0]
        return _decided(same, a[1] < b[0] or a[0] > b[1])

    def __ne__(self, other: Any) -> bool:
        return not self == other

    def __bool__(self) -> bool:
        return self != 0

    def conjugate(self) -> Number:
        """Itself: numbers here are real."""
        return self


def _merged(one: dict[int, Span], two: dict[int, Span]) -> dict[int, Span]:
    if not two:
        return one
    merged = dict(one)
    for key, part in two.items():
        merged[key] = add(merged[key], part) if key in merged else part
    return merged


def _decided(true: bool, false: bool) -> bool:
    if true == false:
        raise UnboundedError("a condition that holds in one part of a cell and not in another")
    return true


def as_number(value: Any) -> Number:
    """A constant, or the number itself."""
    return value if isinstance(value, Number) else Number(point(value), {})


def unary(name: str, value: Any) -> Number:
    """One of :data:`UNARY` of a number."""
    number = as_number(value)
    rule, slope = UNARY[name]
    return Number(rule(number.span), number.chain(slope(number.span)) if number.gradient else {})


def minimum(one: Any, two: Any) -> Number:
    """The lesser; where either may be, the hull of both gradients."""
    if _is_infinite(one) or _is_infinite(two):
        return as_number(two if one == math.inf else one if two == math.inf else -math.inf)
    left, right = as_number(one), as_number(two)
    if left.span[1] < right.span[0]:
        return left
    if right.span[1] < left.span[0]:
        return right
    span = left.span[0].min(right.span[0]), left.span[1].min(right.span[1])
    keys = left.gradient.keys() | right.gradient.keys()
    either = {key: hull(left.gradient.get(key, _NONE), right.gradient.get(key, _NONE)) for key in keys}
    return Number(span, either)


def maximum(one: Any, two: Any) -> Number:
    """The greater."""
    return -minimum(-one, -two)


def _is_infinite(value: Any) -> bool:
    return not isinstance(value, Number) and math.isinf(value)


def angle(one: Any, two: Any) -> Number:
    """arctan2 clear of its cut and of the origin: the extremes over a box lie at its corners."""
    y, x = as_number(one), as_number(two)
    if not (x.span[0] > 0 or y.span[0] > 0 or y.span[1] < 0):
        raise UnboundedError("np.arctan2 across its cut")
    corners = [arb.atan2(a, b) for a in y.span for b in x.span]
    inverse = reciprocal(add(power(y.span, 2), power(x.span, 2)))
    slopes = multiply(x.span, inverse), negative(multiply(y.span, inverse))
    gradient = _merged(y.chain(slopes[0]), x.chain(slopes[1]))
    return Number((_least(*corners), _greatest(*corners)), gradient)


def length(parts: list[Any]) -> Number:
    """Euclidean length; its slope by each part lies in [-1, 1] even where the length is 0."""
    numbers = [as_number(part) for part in parts]
    squares = _NONE
    for number in numbers:
        squares = add(squares, power(number.span, 2))
    whole = _root(squares)
    gradient: dict[int, Span] = {}
    for number in numbers:
        slope = (-_ONE, _ONE)
        if whole[0] > 0:
            share = multiply(number.span, reciprocal(whole))
            slope = share[0].max(-_ONE), share[1].min(_ONE)
        gradient = _merged(gradient, number.chain(slope))
    return Number(whole, gradient)
