"""Outward-rounded arithmetic on arrays of intervals.

An interval is a pair of float64 arrays, least and greatest. What comes back holds the exact result of
every choice
of reals in the operands, and the float64 result that NumPy computes. NaN means that nothing is known (a
division by 0, infinity less infinity); it stays NaN in whatever is made of it.

Sound because float64 ``+ - * /`` and ``sqrt`` are rounded to nearest, and rounding is monotone: one step of
`nextafter` outward from the rounded end holds the exact end, subnormal numbers included. A sum knows by
Knuth's two-sum whether it was rounded, and which way; exact sums stay exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Interval = tuple[Any, Any]
"""Least and greatest; float64 arrays of one shape, or numbers."""

ZERO: Interval = (np.float64(0.0), np.float64(0.0))
ONE: Interval = (np.float64(1.0), np.float64(1.0))
UNIT: Interval = (np.float64(-1.0), np.float64(1.0))


def down(values: Any) -> Any:
    """The next smaller numbers."""
    return np.nextafter(values, -np.inf)


def up(values: Any) -> Any:
    """The next greater numbers."""
    return np.nextafter(values, np.inf)


def _residue(one: Any, two: Any, total: Any) -> Any:
    """What rounding took off a sum, exactly; NaN where it overflowed."""
    rest = total - one
    return (one - (total - rest)) + (two - rest)


def add_down(one: Any, two: Any) -> Any:
    """A sum rounded down."""
    total = one + two
    return np.where(_residue(one, two, total) >= 0, total, down(total))


def add_up(one: Any, two: Any) -> Any:
    """A sum rounded up."""
    total = one + two
    return np.where(_residue(one, two, total) <= 0, total, up(total))


def multiply_up(one: Any, two: Any) -> Any:
    """A product of numbers of at least 0, rounded up; 0 times a finite number stays 0."""
    exact = (one == 0) | (two == 0) | (one == 1) | (two == 1)
    value = one * two
    return np.where(exact, value, up(value))


def divide_up(one: Any, two: Any) -> Any:
    """A quotient of numbers of at least 0, rounded up."""
    value = one / two
    return np.where(one == 0, value, up(value))


def root_up(values: Any) -> Any:
    """A square root rounded up."""
    value = np.sqrt(values)
    return np.where(values == 0, value, up(value))


def add(one: Interval, two: Interval) -> Interval:
    """Sum."""
    return add_down(one[0], two[0]), add_up(one[1], two[1])


def negative(one: Interval) -> Interval:
    """Exact."""
    return -one[1], -one[0]


def subtract(one: Interval, two: Interval) -> Interval:
    """Difference."""
    return add_down(one[0], -two[1]), add_up(one[1], -two[0])


def _clamped(least: Any, greatest: Any, one: Interval, two: Interval) -> Interval:
    """Ends moved outward, but not over a 0 that signs forbid."""
    positive = ((one[0] >= 0) & (two[0] >= 0)) | ((one[1] <= 0) & (two[1] <= 0))
    opposite = ((one[0] >= 0) & (two[1] <= 0)) | ((one[1] <= 0) & (two[0] >= 0))
    least, greatest = down(least), up(greatest)
    least = np.where(positive, np.maximum(least, 0.0), least)
    greatest = np.where(opposite, np.minimum(greatest, 0.0), greatest)
    nothing = ((one[0] == 0) & (one[1] == 0) & (least == least)) | (
        (two[0] == 0) & (two[1] == 0) & (least == least)
    )
    return np.where(nothing, 0.0, least), np.where(nothing, 0.0, greatest)


def multiply(one: Interval, two: Interval) -> Interval:
    """Product."""
    if two[0] is two[1] or (np.ndim(two[0]) == 0 and two[0] == two[1]):
        return _scaled(one, two[0])
    if one[0] is one[1] or (np.ndim(one[0]) == 0 and one[0] == one[1]):
        return _scaled(two, one[0])
    corners = one[0] * two[0], one[0] * two[1], one[1] * two[0], one[1] * two[1]
    least = np.minimum(np.minimum(corners[0], corners[1]), np.minimum(corners[2], corners[3]))
    greatest = np.maximum(np.maximum(corners[0], corners[1]), np.maximum(corners[2], corners[3]))
    return _clamped(least, greatest, one, two)


def _scaled(one: Interval, factor: Any) -> Interval:
    if np.ndim(factor) == 0:
        if factor == 1:
            return one
        if factor == -1:
            return negative(one)
        return _by_constant(one, factor) if factor >= 0 else negative(_by_constant(one, -factor))
    ends = one[0] * factor, one[1] * factor
    return _clamped(np.minimum(*ends), np.maximum(*ends), one, (factor, factor))


def _by_constant(one: Interval, factor: Any) -> Interval:
    """Times a number of at least 0 (or NaN): signs stay, and a 0 that an end is stays exact."""
    least, greatest = one[0] * factor, one[1] * factor
    exact = (one[0] == 0) | (factor == 0), (one[1] == 0) | (factor == 0)
    least = np.where(exact[0], least, np.where(one[0] > 0, np.maximum(down(least), 0.0), down(least)))
    greatest = np.where(exact[1], greatest, np.where(one[1] < 0, np.minimum(up(greatest), 0.0), up(greatest)))
    return least, greatest


def divide(one: Interval, two: Interval) -> Interval:
    """Quotient; NaN where the divisor may be 0."""
    clear = (two[0] > 0) | (two[1] < 0)
    low, high = np.where(clear, two[0], np.nan), np.where(clear, two[1], np.nan)
    corners = one[0] / low, one[0] / high, one[1] / low, one[1] / high
    least = np.minimum(np.minimum(corners[0], corners[1]), np.minimum(corners[2], corners[3]))
    greatest = np.maximum(np.maximum(corners[0], corners[1]), np.maximum(corners[2], corners[3]))
    return _clamped(least, greatest, one, (low, high))


def absolute(one: Interval) -> Interval:
    """|x|, exact."""
    least = np.maximum(np.maximum(one[0], -one[1]), 0.0)
    return least, np.maximum(-one[0], one[1])


def magnitude(one: Interval) -> Any:
    """The largest |x|."""
    return np.maximum(np.abs(one[0]), np.abs(one[1]))


def square(one: Interval) -> Interval:
    """X², never below 0."""
    least, greatest = absolute(one)
    low, high = least * least, greatest * greatest
    exact = (least == 0) | (least == 1), (greatest == 0) | (greatest == 1)
    low = np.where(exact[0], low, np.maximum(down(low), 0.0))
    return low, np.where(exact[1], high, up(high))


def root(one: Interval) -> Interval:
    """Square root; NaN where the argument may be negative."""
    fine = one[0] >= 0
    least, greatest = np.sqrt(np.where(fine, one[0], np.nan)), np.sqrt(np.where(fine, one[1], np.nan))
    low = np.where(least == 0, least, np.maximum(down(least), 0.0))
    return low, np.where(greatest == 0, greatest, up(greatest))


def power(one: Interval, exponent: int) -> Interval:
    """X to a whole number, by squaring: of |x| where that is even, with the sign where it is odd."""
    if exponent < 0:
        return divide(ONE, power(one, -exponent))
    if exponent == 0:
        return np.where(np.isnan(one[0]), np.nan, 1.0), np.where(np.isnan(one[1]), np.nan, 1.0)
    if exponent % 2 == 0:
        return _repeated(absolute(one), exponent)
    # An odd power rises: its ends are those of the ends, each with its own sign.
    ends = [_repeated((np.abs(end), np.abs(end)), exponent) for end in one]
    low = np.where(one[0] >= 0, ends[0][0], -ends[0][1])
    high = np.where(one[1] >= 0, ends[1][1], -ends[1][0])
    return np.where(np.isnan(one[0]), np.nan, low), np.where(np.isnan(one[1]), np.nan, high)


def _repeated(one: Interval, exponent: int) -> Interval:
    result: Interval | None = None
    while exponent:
        if exponent & 1:
            result = one if result is None else multiply(result, one)
        exponent >>= 1
        one = square(one) if exponent else one
    assert result is not None
    return result


def hull(one: Interval, two: Interval) -> Interval:
    """Both and what lies between."""
    return np.minimum(one[0], two[0]), np.maximum(one[1], two[1])


def choose(condition: Any, one: Interval, two: Interval) -> Interval:
    """`one` where the condition holds, else `two`."""
    return np.where(condition, one[0], two[0]), np.where(condition, one[1], two[1])


def unknown(where: Any, one: Interval) -> Interval:
    """NaN where told."""
    return np.where(where, np.nan, one[0]), np.where(where, np.nan, one[1])
