"""Ranges of elementary functions over boxes, and of their slopes.

A `Unary` has a range and a slope, both pairs from pairs. Ranges come from NumPy's own values at the
ends, and at extreme points inside, inflated by more than NumPy can err. Slopes are only asked for
where derivatives are wanted; for a kink (``abs``) they are the hull of the generalized derivative.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether.enclosure.refusal import refuse_where
from tether.enclosure.rounding import (
    FAINT,
    Pair,
    absolute,
    add,
    divide,
    inflate,
    is_point,
    negative,
    outward,
    point,
    square,
    subtract,
)

_ONE = point(np.float64(1.0))
# Beyond this an argument's own grid is coarse and NumPy's reduction less certain: sine and cosine are
# then only known to lie in [-1, 1].
_FAR = 1e5


@dataclass(frozen=True)
class Unary:
    """Range of a function over a box, and of its slope from argument and range."""

    range: Callable[[Pair], Pair]
    slope: Callable[[Pair, Pair], Pair]


def _quiet(function: Callable[..., Any], *values: Any) -> Any:
    with np.errstate(all="ignore"):
        return function(*values)


def _at_ends(function: Callable[..., Any], pair: Pair, *, falling: bool = False) -> Pair:
    """Inflated range of a monotone library function."""
    lower = _quiet(function, pair[0])
    upper = lower if is_point(pair) else _quiet(function, pair[1])
    return inflate(upper, lower) if falling else inflate(lower, upper)


def _rising(
    function: Callable[..., Any], least: float = -np.inf, most: float = np.inf
) -> Callable[[Pair], Pair]:
    def bounds(pair: Pair) -> Pair:
        lower, upper = _at_ends(function, pair)
        return np.maximum(lower, least), np.minimum(upper, most)

    return bounds


def reciprocal(pair: Pair, operation: str = "divide") -> Pair:
    """One over every value; refuses a box that contains 0."""
    refuse_zero(pair, operation)
    return divide(_ONE, pair)


def refuse_zero(pair: Pair, operation: str) -> None:
    """Refuse a divisor that contains 0."""
    offending = (pair[0] <= 0) & (pair[1] >= 0)
    refuse_where(
        offending, operation, "must not divide by an interval that contains 0", pair, "Use smaller boxes"
    )


# Trigonometry ---------------------------------------------------------------------------------------


def _reaches(pair: Pair, offset: float, period: float) -> Any:
    """Whether ``offset + k period`` may lie in the box for an integer k (yes when in doubt).

    The slack of 1e-9 periods is far above the rounding of ``x / period`` for ``|x| <= 1e5``; next to an
    extreme point it changes the bound by less than the slack squared, below one unit in the last place.
    """
    first, last = ((bound - offset) / period for bound in pair)
    return np.floor(last + 1e-9) >= np.ceil(first - 1e-9)


def _wave(function: Callable[..., Any], top: float) -> Callable[[Pair], Pair]:
    """Range of sine or cosine, whose maximum lies at `top`."""

    def bounds(pair: Pair) -> Pair:
        far = ~((np.abs(pair[0]) <= _FAR) & (np.abs(pair[1]) <= _FAR))
        unknown = np.isnan(pair[0])
        near = (np.where(far & ~unknown, 0.0, pair[0]), np.where(far & ~unknown, 0.0, pair[1]))
        one, two = _quiet(function, near[0]), _quiet(function, near[1])
        lower, upper = inflate(np.minimum(one, two), np.maximum(one, two))
        low = far | _reaches(near, top - np.pi, 2 * np.pi)
        high = far | _reaches(near, top, 2 * np.pi)
        lower = np.where(low & ~unknown, -1.0, np.maximum(lower, -1.0))
        return lower, np.where(high & ~unknown, 1.0, np.minimum(upper, 1.0))

    return bounds


sine, cosine = _wave(np.sin, np.pi / 2), _wave(np.cos, 0.0)


def _tangent(pair: Pair) -> Pair:
    far = (np.abs(pair[0]) > _FAR) | (np.abs(pair[1]) > _FAR)
    offending = far | _reaches(pair, np.pi / 2, np.pi)
    refuse_where(
        offending, "tan", "must not meet a pole (π/2 + kπ, or beyond 1e5)", pair, "Use smaller boxes"
    )
    return _at_ends(np.tan, pair)


def _inverse(function: Callable[..., Any], *, falling: bool) -> Callable[[Pair], Pair]:
    def bounds(pair: Pair) -> Pair:
        offending = (pair[0] < -1) | (pair[1] > 1)
        name = function.__name__
        refuse_where(offending, name, "must be given values in [-1, 1]", pair, "Use np.clip(x, -1, 1) first")
        return _at_ends(function, pair, falling=falling)

    return bounds


def _inverse_slope(name: str) -> Callable[[Pair, Pair], Pair]:
    def slope(pair: Pair, _: Pair) -> Pair:
        offending = (pair[0] <= -1) | (pair[1] >= 1)
        refuse_where(offending, name, "has no bounded slope at -1 and 1", pair, "Use smaller boxes")
        return divide(_ONE, root(subtract(_ONE, square(pair))))

    return slope


# Roots, logarithms, exponentials --------------------------------------------------------------------


def root(pair: Pair) -> Pair:
    """Square root, which float64 rounds correctly."""
    refuse_where(pair[0] < 0, "sqrt", "must not be given negative values", pair, "Use np.maximum(x, 0) first")
    lower, upper = outward(np.sqrt(pair[0]), np.sqrt(pair[1]))
    return np.maximum(lower, 0.0), upper


def _root_slope(pair: Pair, value: Pair) -> Pair:
    instead = "Use np.hypot or np.linalg.norm for lengths, or add a small positive constant"
    refuse_where(pair[0] <= 0, "sqrt", "has no bounded slope at 0", pair, instead)
    return divide(point(np.float64(0.5)), value)


def _logarithm(function: Callable[..., Any], above: float) -> Callable[[Pair], Pair]:
    def bounds(pair: Pair) -> Pair:
        rule = f"must be given values above {above:g}"
        refuse_where(
            pair[0] <= above, function.__name__, rule, pair, "Use np.maximum first, or smaller boxes"
        )
        return _at_ends(function, pair)

    return bounds


def exponential(pair: Pair) -> Pair:
    """All exponentials; an underflow to 0 still leaves room above."""
    lower, upper = _at_ends(np.exp, pair)
    return np.maximum(lower, 0.0), np.maximum(upper, FAINT)


def logarithm(pair: Pair) -> Pair:
    """Natural logarithm."""
    return _logarithm(np.log, 0.0)(pair)


def _hyperbolic_cosine(pair: Pair) -> Pair:
    lower, upper = _at_ends(np.cosh, absolute(pair))
    return np.maximum(lower, 1.0), upper


_hyperbolic_sine = _rising(np.sinh)


# Steps and kinks ------------------------------------------------------------------------------------


def _absolute_slope(pair: Pair, _: Pair) -> Pair:
    return np.where(pair[0] > 0, 1.0, -1.0), np.where(pair[1] < 0, -1.0, 1.0)


def _constant_step(function: Callable[..., Any]) -> Callable[[Pair], Pair]:
    """A step function where it is constant over each box."""

    def bounds(pair: Pair) -> Pair:
        value = function(pair[0])
        rule = "must be constant over each box"
        refuse_where(
            value != function(pair[1]), function.__name__, rule, pair, "Use smaller boxes, or leave it out"
        )
        return value, value

    return bounds


def _flat(pair: Pair, _: Pair) -> Pair:
    zero = np.zeros_like(pair[0])
    return zero, zero


def _scaled(function: Callable[..., Any]) -> Unary:
    """A unit conversion: one product with a constant that is itself rounded."""
    return Unary(_rising(function), lambda _pair, _value: _at_ends(function, _ONE))


UNARY: dict[np.ufunc, Unary] = {
    np.absolute: Unary(absolute, _absolute_slope),
    np.fabs: Unary(absolute, _absolute_slope),
    np.square: Unary(square, lambda pair, _: add(pair, pair)),
    np.reciprocal: Unary(
        lambda pair: reciprocal(pair, "reciprocal"), lambda _, value: negative(square(value))
    ),
    np.sqrt: Unary(root, _root_slope),
    np.exp: Unary(exponential, lambda _, value: value),
    np.expm1: Unary(_rising(np.expm1, least=-1.0), lambda pair, _: exponential(pair)),
    np.log: Unary(_logarithm(np.log, 0.0), lambda pair, _: reciprocal(pair)),
    np.log1p: Unary(_logarithm(np.log1p, -1.0), lambda pair, _: reciprocal(add(_ONE, pair))),
    np.sin: Unary(sine, lambda pair, _: cosine(pair)),
    np.cos: Unary(cosine, lambda pair, _: negative(sine(pair))),
    np.tan: Unary(_tangent, lambda _, value: add(_ONE, square(value))),
    np.arcsin: Unary(_inverse(np.arcsin, falling=False), _inverse_slope("arcsin")),
    np.arccos: Unary(
        _inverse(np.arccos, falling=True), lambda pair, value: negative(_inverse_slope("arccos")(pair, value))
    ),
    np.arctan: Unary(_rising(np.arctan), lambda pair, _: reciprocal(add(_ONE, square(pair)))),
    np.sinh: Unary(_hyperbolic_sine, lambda pair, _: _hyperbolic_cosine(pair)),
    np.cosh: Unary(_hyperbolic_cosine, lambda pair, _: _hyperbolic_sine(pair)),
    # 1 / cosh² keeps its relative precision where 1 - tanh² would cancel.
    np.tanh: Unary(_rising(np.tanh, -1.0, 1.0), lambda pair, _: square(reciprocal(_hyperbolic_cosine(pair)))),
    np.sign: Unary(_constant_step(np.sign), _flat),
    np.floor: Unary(_constant_step(np.floor), _flat),
    np.ceil: Unary(_constant_step(np.ceil), _flat),
    np.trunc: Unary(_constant_step(np.trunc), _flat),
    np.deg2rad: _scaled(np.deg2rad),
    np.radians: _scaled(np.radians),
    np.rad2deg: _scaled(np.rad2deg),
    np.degrees: _scaled(np.degrees),
}


# Two arguments --------------------------------------------------------------------------------------


def integer_power(pair: Pair, exponent: int) -> Pair:
    """``x ** n`` for an integer n, even powers across 0 included."""
    if exponent == 2:
        return square(pair)
    if exponent < 0:
        refuse_zero(pair, f"power({exponent})")
    if exponent % 2 == 0:
        pair = absolute(pair)
    lower, upper = (_quiet(np.power, bound, float(exponent)) for bound in pair)
    if exponent < 0:
        lower, upper = upper, lower
    lower, upper = inflate(lower, upper)
    # An underflow to zero still leaves room on the side that the base lies on.
    lower = np.where((pair[0] < 0) & (lower == 0), -FAINT, lower)
    upper = np.where((pair[1] > 0) & (upper == 0), FAINT, upper)
    return (np.maximum(lower, 0.0), upper) if exponent % 2 == 0 else (lower, upper)


def real_power(base: Pair, exponent: Pair) -> Pair:
    """``x ** y`` for positive x: monotone in each, so that the corners hold the extremes."""
    offending = (base[0] < 0) | ((base[0] == 0) & (exponent[0] <= 0))
    instead = "Use an integer exponent, or np.maximum on the base"
    refuse_where(offending, "power", "must be given a positive base for a real exponent", base, instead)
    corners = [_quiet(np.power, one, two) for one in base for two in exponent]
    lower, upper = inflate(np.minimum.reduce(corners), np.maximum.reduce(corners))
    return np.maximum(lower, 0.0), np.where(base[1] > 0, np.maximum(upper, FAINT), upper)


def refuse_steep(base: Pair, exponent: float) -> None:
    """Refuse the slope of ``x ** p``, p < 1, at 0."""
    offending = (base[0] <= 0) & (exponent < 1)
    refuse_where(
        offending, "power", "has no bounded slope at 0 for an exponent below 1", base, "Use smaller boxes"
    )


def angle(y: Pair, x: Pair) -> Pair:
    """Range of arctan2: the extremes of the angle over a box clear of the cut lie at its corners."""
    offending = (x[0] <= 0) & (y[0] <= 0) & (y[1] >= 0)
    rule = "must not meet its cut (y = 0, x <= 0); first y given"
    refuse_where(
        offending,
        "arctan2",
        rule,
        y,
        "Turn the axes so that the angle stays clear of π, or use smaller boxes",
    )
    corners = [_quiet(np.arctan2, one, two) for one in y for two in x]
    lower, upper = inflate(np.minimum.reduce(corners), np.maximum.reduce(corners))
    return np.where((lower == 0) & (y[0] < 0), -FAINT, lower), np.where(
        (upper == 0) & (y[1] > 0), FAINT, upper
    )


def angle_slopes(y: Pair, x: Pair) -> tuple[Pair, Pair]:
    """Slopes of arctan2 in y and in x."""
    radius = add(square(y), square(x))
    refuse_zero(radius, "arctan2")
    return divide(x, radius), negative(divide(y, radius))


def length(one: Pair, two: Pair) -> Pair:
    """Range of hypot."""
    ends = zip(absolute(one), absolute(two), strict=True)
    lower, upper = (_quiet(np.hypot, a, b) for a, b in ends)
    lower, upper = inflate(lower, upper)
    return np.maximum(lower, 0.0), upper


def length_slope(part: Pair, whole: Pair) -> Pair:
    """Slope of a Euclidean length in one part: part / whole, and in [-1, 1] even where the length is 0."""
    safe = np.maximum(whole[0], np.finfo(np.float64).tiny)
    lower, upper = divide(part, (safe, np.maximum(whole[1], safe)))
    lower = np.where(whole[0] > 0, np.maximum(lower, -1.0), -1.0)
    return lower, np.where(whole[0] > 0, np.minimum(upper, 1.0), 1.0)


def remainder_count(pair: Pair, divisor: Pair) -> Pair:
    """Which period of `mod` each box lies in; refuses a box that meets two."""
    refuse_zero(divisor, "mod")
    lower, upper = divide(pair, divisor)
    count = np.floor(lower)
    instead = "Leave angles unwrapped inside M, or use smaller boxes"
    refuse_where(count != np.floor(upper), "mod", "must stay within one period over each box", pair, instead)
    return count, count
