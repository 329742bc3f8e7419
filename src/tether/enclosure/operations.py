"""NumPy's ufuncs on intervals: range from `rounding` and `elementary`, derivative by the chain rule."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tether.enclosure import elementary, rounding
from tether.enclosure.decision import COMPARE, Decision
from tether.enclosure.derivative import Derivative, choose, plus
from tether.enclosure.elementary import UNARY
from tether.enclosure.interval import UFUNCS, Interval, as_interval
from tether.enclosure.refusal import refuse, refuse_unsupported
from tether.enclosure.rounding import Pair

_UNIT = rounding.point(np.float64(1.0))


def _unary(ufunc: np.ufunc, value: Any) -> Interval:
    argument = as_interval(value, ufunc.__name__)
    rule = UNARY[ufunc]
    bounds = rule.range(argument.bounds)
    derivative = argument.derivative
    if derivative is not None:
        derivative = derivative.times(rule.slope(argument.bounds, bounds))
    return Interval.of(bounds, derivative)


def _chain(bounds: Pair, parts: list[tuple[Interval, Callable[[], Pair]]]) -> Interval:
    """Total derivative of a function of several intervals, slopes computed only where needed."""
    shape = np.shape(bounds[0])
    result = None
    for part, slope in parts:
        if part.derivative is not None:
            result = plus(result, part.derivative.broadcast(shape).times(slope()))
    return Interval.of(bounds, result)


def _parts(one: Any, two: Any, operation: str, *, infinite: bool = False) -> tuple[Interval, Interval]:
    return as_interval(one, operation, infinite=infinite), as_interval(two, operation, infinite=infinite)


def _spread(interval: Interval, shape: tuple[int, ...]) -> Derivative | None:
    return None if interval.derivative is None else interval.derivative.broadcast(shape)


def add(one: Any, two: Any) -> Interval:
    """Sum."""
    left, right = _parts(one, two, "add")
    bounds = rounding.add(left.bounds, right.bounds)
    shape = np.shape(bounds[0])
    return Interval.of(bounds, plus(_spread(left, shape), _spread(right, shape)))


def negative(one: Any) -> Interval:
    """Exact negation."""
    derivative = one.derivative
    if derivative is not None:
        derivative = Derivative(derivative.columns, rounding.negative(derivative.bounds))
    return Interval.of(rounding.negative(one.bounds), derivative)


def subtract(one: Any, two: Any) -> Interval:
    """Difference; exactly zero for an array minus itself."""
    if one is two:
        return Interval.of(rounding.point(np.zeros(one.shape)))
    left, right = _parts(one, two, "subtract")
    return add(left, negative(right))


def multiply(one: Any, two: Any) -> Interval:
    """Product; a square for an array times itself."""
    if one is two:
        return _unary(np.square, one)
    left, right = _parts(one, two, "multiply")
    bounds = rounding.multiply(left.bounds, right.bounds)
    return _chain(bounds, [(left, lambda: right.bounds), (right, lambda: left.bounds)])


def divide(one: Any, two: Any) -> Interval:
    """Quotient; refuses a divisor that contains 0."""
    left, right = _parts(one, two, "divide")
    elementary.refuse_zero(right.bounds, "divide")
    bounds = rounding.divide(left.bounds, right.bounds)

    def left_slope() -> Pair:
        return elementary.reciprocal(right.bounds)

    def right_slope() -> Pair:
        return rounding.negative(rounding.divide(bounds, right.bounds))

    return _chain(bounds, [(left, left_slope), (right, right_slope)])


def power(one: Any, two: Any) -> Interval:
    """Power: by an integer, by a number (positive base), of a constant, or of two intervals."""
    base, exponent = _parts(one, two, "power")
    if isinstance(two, Interval):
        return _general_power(base, exponent)
    numbers = np.unique(exponent.lower)
    if len(numbers) != 1:
        refuse(
            "power",
            "must be given one exponent for the whole array; got several",
            "Raise each column by itself",
        )
    # An exponent that broadcasts still shapes the result.
    shape = np.broadcast_shapes(base.shape, exponent.shape)
    result = _scalar_power(base, float(numbers[0]))
    return result if result.shape == shape else add(result, np.zeros(shape))


def _scalar_power(base: Interval, number: float) -> Interval:
    if number == 0.5:
        return _unary(np.sqrt, base)
    if number.is_integer() and abs(number) <= 2**31:
        return _integer_power(base, int(number))
    exponent = as_interval(number, "power").bounds
    bounds = elementary.real_power(base.bounds, exponent)

    def slope() -> Pair:
        elementary.refuse_steep(base.bounds, number)
        lesser = rounding.subtract(exponent, _UNIT)
        return rounding.multiply(exponent, elementary.real_power(base.bounds, lesser))

    return _chain(bounds, [(base, slope)])


def _integer_power(base: Interval, number: int) -> Interval:
    if number == 0:
        return Interval.of(rounding.point(np.ones(base.shape)))
    if number == 1:
        return base.copy()
    bounds = elementary.integer_power(base.bounds, number)

    def slope() -> Pair:
        factor = as_interval(number, "power").bounds
        lesser = base.bounds if number == 2 else elementary.integer_power(base.bounds, number - 1)
        return rounding.multiply(factor, lesser)

    return _chain(bounds, [(base, slope)])


def _general_power(base: Interval, exponent: Interval) -> Interval:
    bounds = elementary.real_power(base.bounds, exponent.bounds)

    def base_slope() -> Pair:
        elementary.refuse_steep(base.bounds, float(exponent.lower.min(initial=np.inf)))
        lesser = rounding.subtract(exponent.bounds, _UNIT)
        return rounding.multiply(exponent.bounds, elementary.real_power(base.bounds, lesser))

    def exponent_slope() -> Pair:
        return rounding.multiply(bounds, elementary.logarithm(base.bounds))

    return _chain(bounds, [(base, base_slope), (exponent, exponent_slope)])


def arctan2(one: Any, two: Any) -> Interval:
    """Angle; refuses a box that meets the cut or the origin."""
    y, x = _parts(one, two, "arctan2")
    bounds = elementary.angle(y.bounds, x.bounds)
    in_y, in_x = (partial(_angle_slope, y.bounds, x.bounds, which) for which in range(2))
    return _chain(bounds, [(y, in_y), (x, in_x)])


def _angle_slope(y: Pair, x: Pair, which: int) -> Pair:
    return elementary.angle_slopes(y, x)[which]


def hypot(one: Any, two: Any) -> Interval:
    """Length; its slope is bounded even at the origin."""
    left, right = _parts(one, two, "hypot")
    bounds = elementary.length(left.bounds, right.bounds)
    parts = [(part, partial(elementary.length_slope, part.bounds, bounds)) for part in (left, right)]
    return _chain(bounds, parts)


def minimum(one: Any, two: Any) -> Interval:
    """Lesser of two; where either may be, the hull of both derivatives."""
    left, right = _parts(one, two, "minimum", infinite=True)
    lower, upper = (np.minimum(a, b) for a, b in zip(left.bounds, right.bounds, strict=True))
    first = left.upper < right.lower
    undecided = ~first & ~(right.upper < left.lower)
    shape = np.shape(lower)
    return Interval.of(
        (lower, upper), choose(first, _spread(left, shape), _spread(right, shape), either=undecided)
    )


def maximum(one: Any, two: Any) -> Interval:
    """Greater of two."""
    left, right = _parts(one, two, "maximum", infinite=True)
    return negative(minimum(negative(left), negative(right)))


def remainder(one: Any, two: Any) -> Interval:
    """``x mod c`` where the box stays within one period."""
    left, right = _parts(one, two, "mod")
    if right.derivative is not None:
        refuse_unsupported("mod")
    count = Interval.of(elementary.remainder_count(left.bounds, right.bounds))
    return subtract(left, multiply(count, right))


def floor_divide(one: Any, two: Any) -> Interval:
    """``x // c`` where it is constant over the box."""
    left, right = _parts(one, two, "floor_divide")
    return Interval.of(elementary.remainder_count(left.bounds, right.bounds))


def _compare(ufunc: np.ufunc, one: Any, two: Any) -> Decision:
    left, right = _parts(one, two, ufunc.__name__, infinite=True)
    return COMPARE[ufunc](left.bounds, right.bounds)


UFUNCS.update({ufunc: partial(_unary, ufunc) for ufunc in UNARY})
UFUNCS.update({ufunc: partial(_compare, ufunc) for ufunc in COMPARE})
UFUNCS.update(
    {
        np.add: add,
        np.subtract: subtract,
        np.multiply: multiply,
        np.divide: divide,
        np.negative: negative,
        np.positive: lambda one: one.copy(),
        np.conjugate: lambda one: one.copy(),
        np.power: power,
        np.float_power: power,
        np.arctan2: arctan2,
        np.hypot: hypot,
        np.minimum: minimum,
        np.fmin: minimum,
        np.maximum: maximum,
        np.fmax: maximum,
        np.remainder: remainder,
        np.floor_divide: floor_divide,
    }
)
