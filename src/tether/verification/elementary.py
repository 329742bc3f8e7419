"""Ranges and slopes of elementary functions over intervals, from `arb` balls (python-flint) at their ends.

`arb` encloses the exact value at an end; the enclosure is rounded outward to float64, and moved outward by
as much as NumPy's own function may err, so that a range also holds whatever NumPy returns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from flint import arb, ctx

from tether.verification.intervals import (
    ONE,
    UNIT,
    Array,
    Interval,
    absolute,
    add,
    choose,
    divide,
    down,
    hull,
    multiply,
    negative,
    power,
    root,
    square,
    subtract,
    unknown,
    up,
)

PRECISION = 96
"""Bits of flint's balls."""
LIBRARY = 4 * 2.0**-52
"""What a function of NumPy's or the C library's may err by, relative to its value; sqrt errs by no more than
rounding."""
_FAINT = 4e-323
_ROUNDED, _INFLATED = 1.5 * 2.0**-52, 5.5 * 2.0**-52
_inflation = [_INFLATED]


@contextmanager
def exact_only() -> Iterator[None]:
    """Ranges of the exact value alone, not of what NumPy's functions return."""
    _inflation.append(_ROUNDED)
    try:
        yield
    finally:
        _inflation.pop()


def float_slack(slack: Any) -> Any:
    """What a range is widened by for float64 results; nothing where the exact value is asked for."""
    return slack if _inflation[-1] == _INFLATED else slack * 0.0


@contextmanager
def precision() -> Iterator[None]:
    """Flint's working precision, for as long as it is needed."""
    before = ctx.prec
    ctx.prec = PRECISION
    try:
        yield
    finally:
        ctx.prec = before


def _ends(value: Any) -> tuple[float, float]:
    """The float64 numbers around a ball."""
    if not value.is_finite():
        return np.nan, np.nan
    middle = float(value)
    if value == middle:
        return middle, middle
    return float(np.nextafter(float(value.lower()), -np.inf)), float(
        np.nextafter(float(value.upper()), np.inf)
    )


def _near(value: Any) -> tuple[float, float]:
    """The same where :func:`inflated` follows, which has room for a rounding and the ball."""
    middle = float(value)
    if middle and -_LARGE < middle < _LARGE and value.rel_accuracy_bits() > 64:
        return middle, middle
    return _ends(value)


def at(function: Callable[[Any], Any], points: Any) -> Interval:
    """Enclosures of a function at exact points, but for :func:`inflated`; each point once."""
    flat = np.ascontiguousarray(points, dtype=np.float64)
    key = function, flat.shape, flat.tobytes()
    known = _KNOWN.get(key)
    if known is None:
        distinct, where = np.unique(flat.ravel(), return_inverse=True)
        found = np.full((len(distinct), 2), np.nan)
        with precision():
            for k, point in enumerate(distinct.tolist()):
                if math.isfinite(point):
                    found[k] = _near(function(arb(point)))
        found = found[where].reshape(*flat.shape, 2)
        known = _KNOWN[key] = found[..., 0], found[..., 1]
        if len(_KNOWN) > _REMEMBERED:
            _KNOWN.pop(next(iter(_KNOWN)))
    return known


_KNOWN: dict[Any, Interval] = {}
_REMEMBERED = 64
_LARGE = 1e300


def constant(value: Callable[[], Any]) -> Interval:
    """A number that float64 does not hold, such as π."""
    with precision():
        low, high = _ends(value())
    return np.float64(low), np.float64(high)


def inflated(one: Interval) -> Interval:
    """Moved outward by what a library function may err, and a unit in the last place; exact zeros stay."""
    low, high = one
    return low - np.where(low == 0, 0.0, np.maximum(np.abs(low) * _inflation[-1], _FAINT)), high + np.where(
        high == 0, 0.0, np.maximum(np.abs(high) * _inflation[-1], _FAINT)
    )


def _rising(
    function: Callable[[Any], Any], least: float = -np.inf, most: float = np.inf
) -> Callable[..., Interval]:
    def range_of(one: Interval) -> Interval:
        if one[0] is one[1]:
            low, high = at(function, one[0])
        else:
            both = at(function, np.stack(np.broadcast_arrays(one[0], one[1])))
            low, high = both[0][0], both[1][1]
        low, high = inflated((low, high))
        # An end at which the function is not defined leaves nothing known at the other.
        bad = np.isnan(low) | np.isnan(high)
        return unknown(bad, (np.maximum(low, least), np.minimum(high, most)))

    return range_of


def _half_turns(one: Interval, quarter: float) -> Interval:
    """First and last whole number of half-turns that may lie in an interval, counted from a quarter."""
    # x / π in float64 is off by less than 4 roundings, the difference by one more.
    turns = [end / np.pi - quarter for end in one]
    slack = [(np.abs(end) + 1) * 2.0**-50 for end in turns]
    return np.ceil(turns[0] - slack[0]), np.floor(turns[1] + slack[1])


def _cosine_like(function: Callable[[Any], Any], quarter: float) -> Callable[[Interval], Interval]:
    """The cosine (quarter 0) or sine (1/2): 1 at 2k, -1 at 2k + 1 half-turns from the quarter."""

    def range_of(one: Interval) -> Interval:
        if one[0] is one[1]:
            low, high = inflated(at(function, one[0]))
            return np.maximum(low, -1.0), np.minimum(high, 1.0)
        values = at(function, np.stack(np.broadcast_arrays(one[0], one[1])))
        low, high = inflated((values[0].min(axis=0), values[1].max(axis=0)))
        first, last = _half_turns(one, quarter)
        even = 2 * np.ceil(first / 2) <= last
        odd = 2 * np.ceil((first - 1) / 2) + 1 <= last
        far = ~((np.abs(first) < _FAR) & (np.abs(last) < _FAR))
        bad = np.isnan(low) | np.isnan(high)
        low = np.where(odd | far, -1.0, np.maximum(low, -1.0))
        return unknown(bad, (low, np.where(even | far, 1.0, np.minimum(high, 1.0))))

    return range_of


_FAR = 2.0**30  # half-turns beyond which the extremes in between are not counted

cosine = _cosine_like(lambda x: x.cos(), 0.0)
sine = _cosine_like(lambda x: x.sin(), 0.5)


def _tangent(one: Interval) -> Interval:
    first, last = _half_turns(one, 0.5)
    clear = (first > last) & (np.abs(first) < _FAR) & (np.abs(last) < _FAR)
    return unknown(~clear, _rising_tangent(one))


_rising_tangent = _rising(lambda x: x.tan())


def _within(low: float, high: float, rule: Callable[[Interval], Interval]) -> Callable[[Interval], Interval]:
    """Unknown unless the argument lies in a closed interval."""

    def range_of(one: Interval) -> Interval:
        fine = (one[0] >= low) & (one[1] <= high)
        return rule((np.where(fine, one[0], np.nan), np.where(fine, one[1], np.nan)))

    return range_of


def _above(limit: float, rule: Callable[[Interval], Interval]) -> Callable[[Interval], Interval]:
    """Unknown unless the argument lies above a limit."""

    def range_of(one: Interval) -> Interval:
        fine = one[0] > limit
        return rule((np.where(fine, one[0], np.nan), np.where(fine, one[1], np.nan)))

    return range_of


_exp = _rising(lambda x: x.exp(), 0.0)
_sinh = _rising(lambda x: x.sinh())
_cosh_of_size = _rising(lambda x: x.cosh(), 1.0)
_cube_root = _rising(lambda x: x.root(3) if x >= 0 else -((-x).root(3)))


def _falling(rule: Callable[[Interval], Interval]) -> Callable[[Interval], Interval]:
    def range_of(one: Interval) -> Interval:
        return negative(rule(one))

    return range_of


def _cosh(one: Interval) -> Interval:
    return _cosh_of_size(absolute(one))


def _arc_slope(one: Interval) -> Interval:
    return divide(ONE, root(subtract(ONE, square(one))))


def _over(value: Callable[[], Any]) -> Callable[[Interval], Interval]:
    """1 / (x c) for a constant c."""
    return lambda one: divide(ONE, multiply(one, constant(value)))


def _times(value: Callable[[], Any]) -> tuple[Callable[..., Interval], Callable[..., Interval]]:
    """A function x c, and its slope c."""
    return _rising(lambda x: x * value()), lambda one: unknown(np.isnan(one[0]), constant(value))


_two_to_the = _rising(lambda x: (x * arb(2).log()).exp(), 0.0)


def _unit_slope(one: Interval) -> Interval:
    low, high = np.where(one[0] > 0, 1.0, -1.0), np.where(one[1] < 0, -1.0, 1.0)
    return unknown(np.isnan(one[0]) | np.isnan(one[1]), (low, high))


RANGES: dict[str, Callable[[Interval], Interval]] = {
    "sqrt": root,
    "exp": _exp,
    "expm1": _rising(lambda x: x.expm1(), -1.0),
    "exp2": _two_to_the,
    "log": _above(0.0, _rising(lambda x: x.log())),
    "log1p": _above(-1.0, _rising(lambda x: x.log1p())),
    "log2": _above(0.0, _rising(lambda x: x.log() / arb(2).log())),
    "log10": _above(0.0, _rising(lambda x: x.log() / arb(10).log())),
    "sin": sine,
    "cos": cosine,
    "tan": _tangent,
    "arcsin": _within(-1.0, 1.0, _rising(lambda x: x.asin())),
    "arccos": _within(-1.0, 1.0, _falling(_rising(lambda x: -x.acos()))),
    "arctan": _rising(lambda x: x.atan()),
    "sinh": _sinh,
    "cosh": _cosh,
    "tanh": _rising(lambda x: x.tanh(), -1.0, 1.0),
    "arcsinh": _rising(lambda x: x.asinh()),
    "arccosh": _within(1.0, np.inf, _rising(lambda x: x.acosh(), 0.0)),
    "arctanh": _within(-1.0, 1.0, _rising(lambda x: x.atanh())),
    "cbrt": _cube_root,
    "absolute": absolute,
    "square": square,
    "negative": negative,
}
SLOPES: dict[str, Callable[[Interval, Interval], Interval]] = {
    "sqrt": lambda one, value: divide((0.5, 0.5), value),
    "exp": lambda one, value: value,
    "expm1": lambda one, value: _exp(one),
    "exp2": lambda one, value: multiply(value, constant(lambda: arb(2).log())),
    "log": lambda one, value: divide(ONE, _positive(one)),
    "log1p": lambda one, value: divide(ONE, _positive(add(ONE, one))),
    "log2": lambda one, value: _over(lambda: arb(2).log())(_positive(one)),
    "log10": lambda one, value: _over(lambda: arb(10).log())(_positive(one)),
    "sin": lambda one, value: cosine(one),
    "cos": lambda one, value: negative(sine(one)),
    "tan": lambda one, value: add(ONE, square(value)),
    "arcsin": lambda one, value: _arc_slope(one),
    "arccos": lambda one, value: negative(_arc_slope(one)),
    "arctan": lambda one, value: divide(ONE, add(ONE, square(one))),
    "sinh": lambda one, value: _cosh(one),
    "cosh": lambda one, value: _sinh(one),
    "tanh": lambda one, value: _square_of_reciprocal(_cosh(one)),
    "arcsinh": lambda one, value: divide(ONE, root(add(ONE, square(one)))),
    "arccosh": lambda one, value: divide(ONE, root(subtract(square(one), ONE))),
    "arctanh": lambda one, value: divide(ONE, subtract(ONE, square(one))),
    "cbrt": lambda one, value: divide(ONE, multiply(square(value), (3.0, 3.0))),
    "absolute": lambda one, value: _unit_slope(one),
    "square": lambda one, value: multiply(one, (2.0, 2.0)),
}
for _name, _factor in {"deg2rad": lambda: arb.pi() / 180, "rad2deg": lambda: 180 / arb.pi()}.items():
    RANGES[_name], _slope = _times(_factor)
    SLOPES[_name] = lambda one, value, _slope=_slope: _slope(one)


def _positive(one: Interval) -> Interval:
    return unknown(~(one[0] > 0), one)


def _square_of_reciprocal(one: Interval) -> Interval:
    low, high = square(divide(ONE, one))
    return low, np.minimum(high, 1.0)


def real_power(one: Interval, exponent: float) -> Interval:
    """X to a real number, for x above 0, or at least 0 where the exponent is positive."""
    fine = (one[0] > 0) | ((one[0] == 0) & (exponent > 0))
    base = np.where(fine, one[0], np.nan), np.where(fine, one[1], np.nan)
    if exponent >= 0:
        return _rising(lambda x: _raised(x, exponent), 0.0)(base)
    return negative(_rising(lambda x: -_raised(x, exponent), -np.inf, 0.0)(base))


def _raised(x: Any, exponent: float) -> Any:
    return arb(0) if x == 0 else x ** arb(exponent)


def real_power_slope(one: Interval, exponent: float) -> Interval:
    """Slope of a real power, p x^(p - 1), which only rises or only falls: its ends are those of the range."""
    base = _positive(one) if exponent < 1 else unknown(~(one[0] >= 0), one)

    def slope(x: Any) -> Any:
        return arb(0) if x == 0 else arb(exponent) * x ** (arb(exponent) - 1)

    ends = at(slope, np.stack(np.broadcast_arrays(base[0], base[1])))
    low, high = inflated((ends[0].min(axis=0), ends[1].max(axis=0)))
    return unknown(np.isnan(base[0]) | np.isnan(base[1]), (low, high))


def power_slope(one: Interval, exponent: int) -> Interval:
    """Slope of a whole power."""
    if exponent == 0:
        return multiply(one, (0.0, 0.0))
    return multiply(power(one, exponent - 1), (float(exponent), float(exponent)))


def off_cut(y: Interval, x: Interval) -> Any:
    """Whether arctan2 does not jump, neither at its cut nor at the origin."""
    return (x[0] > 0) | (y[0] > 0) | (y[1] < 0)


def angle(y: Interval, x: Interval) -> Interval:
    """arctan2: clear of its cut and of the origin the extremes over a box lie at its corners."""
    clear = off_cut(y, x)
    result: Interval | None = None
    for a in y:
        for b in x:
            corner = _angle_at(np.where(clear, a, np.nan), np.where(clear, b, np.nan))
            result = corner if result is None else hull(result, corner)
    assert result is not None
    turn = constant(arb.pi)[1]
    unknown_ = np.isnan(y[0]) | np.isnan(y[1]) | np.isnan(x[0]) | np.isnan(x[1])
    return inflated(choose(clear | unknown_, result, (-turn, turn)))


def _angle_at(y: Array, x: Array) -> Interval:
    pairs = np.stack(np.broadcast_arrays(y, x), axis=-1)
    distinct, where = np.unique(pairs.reshape(-1, 2), axis=0, return_inverse=True)
    found = np.full((len(distinct), 2), np.nan)
    with precision():
        for k, (a, b) in enumerate(distinct.tolist()):
            if np.isfinite(a) and np.isfinite(b):
                found[k] = _ends(arb.atan2(arb(a), arb(b)))
    found = found[where.ravel()].reshape(*pairs.shape[:-1], 2)
    return found[..., 0], found[..., 1]


def angle_slopes(y: Interval, x: Interval) -> tuple[Interval, Interval]:
    """Slopes of arctan2 in y and in x."""
    squared = add(square(y), square(x))
    return divide(x, squared), negative(divide(y, squared))


def length(parts: list[Interval]) -> Interval:
    """Euclidean length, whatever the order of the sum."""
    total = square(parts[0])
    for part in parts[1:]:
        total = add(total, square(part))
    low, high = root(total)
    return inflated((low, high)) if len(parts) > 1 else absolute(parts[0])


def length_slope(part: Interval, whole: Interval) -> Interval:
    """By a part: in [-1, 1] even where the length is 0."""
    share = divide(part, whole)
    share = np.maximum(share[0], -1.0), np.minimum(share[1], 1.0)
    return unknown(np.isnan(whole[0]) | np.isnan(whole[1]), choose(whole[0] > 0, share, UNIT))


def log_add(one: Interval, two: Interval) -> Interval:
    """log(exp x + exp y), which rises in both: the greater, and log1p of the exponential of minus the gap."""
    low, high = (_log_add_at(a, b) for a, b in zip(one, two, strict=True))
    return inflated((low[0], high[1]))


_soft = _rising(lambda x: (-x).exp().log1p())


def _log_add_at(one: Any, two: Any) -> Interval:
    gap = np.abs(one - two)
    gap = np.maximum(down(gap), 0.0), up(gap)
    extra = _soft((gap[1], gap[1]))[0], _soft((gap[0], gap[0]))[1]
    top = np.maximum(one, two)
    return add((top, top), (np.maximum(extra[0], 0.0), extra[1]))


def share(one: Interval, two: Interval) -> Interval:
    """Exp x / (exp x + exp y), the slope of :func:`log_add` by x."""
    low, high = divide(ONE, add(ONE, _exp(subtract(two, one))))
    return np.maximum(low, 0.0), np.minimum(high, 1.0)
