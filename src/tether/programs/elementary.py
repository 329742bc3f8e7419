"""Ranges of elementary functions over intervals, and of their slopes; compiled.

Ranges come from a library's values at the ends, and at extreme points inside, inflated by more than it and
NumPy can err. NaN limits say that the function is not defined, or its slope not bounded, on the interval.
"""

from __future__ import annotations

import math

import numpy as np

from tether.programs import graph as codes
from tether.programs.rounding import (
    FAINT,
    LIBRARY,
    TINY,
    ULP,
    add_down,
    add_up,
    divide,
    down,
    inflate,
    inlined,
    magnitude,
    multiply,
    root,
    smallest,
    square,
    up,
)

# Beyond this an argument's own grid is coarse and the library's reduction less certain: sine and cosine are
# then only known to lie in [-1, 1].
FAR = 1e5
_RADIANS = math.pi / 180
_DEGREES = 180 / math.pi
_LN2 = math.log(2.0)
_LN10 = math.log(10.0)


@inlined
def reaches(a, b, offset, period):
    """Whether ``offset + k period`` may lie in [a, b] for an integer k (yes when in doubt).

    The slack of 1e-9 periods is far above the rounding of ``x / period`` for ``|x| <= 1e5``; next to an
    extreme point it changes the bound by less than the slack squared, below one unit in the last place.
    """
    return math.floor((b - offset) / period + 1e-9) >= math.ceil((a - offset) / period - 1e-9)


@inlined
def sine(a, b, shift):
    """Range of sin(x + shift): 0 for the sine, π/2 for the cosine."""
    if not (abs(a) <= FAR and abs(b) <= FAR):
        return -1.0, 1.0
    one = math.sin(a) if shift == 0.0 else math.cos(a)
    two = math.sin(b) if shift == 0.0 else math.cos(b)
    low, high = inflate(min(one, two), max(one, two))
    if a != b:
        if reaches(a, b, math.pi / 2 - shift, 2 * math.pi):
            high = 1.0
        if reaches(a, b, -math.pi / 2 - shift, 2 * math.pi):
            low = -1.0
    return max(low, -1.0), min(high, 1.0)


@inlined
def tangent(a, b):
    """Range of tan, clear of its poles."""
    if not (abs(a) <= FAR and abs(b) <= FAR) or reaches(a, b, math.pi / 2, math.pi):
        return np.nan, np.nan
    return inflate(math.tan(a), math.tan(b))


@inlined
def exponential(a, b):
    """All exponentials; an underflow to 0 still leaves room above."""
    low, high = inflate(math.exp(a), math.exp(b))
    return max(low, 0.0), max(high, FAINT)


@inlined
def cosh(a, b):
    """Range of cosh."""
    low, high = inflate(math.cosh(smallest(a, b)), math.cosh(magnitude(a, b)))
    return max(low, 1.0), high


@inlined
def integer_power(a, b, exponent):
    """``x ** n`` for an integer n, even powers across 0 included."""
    if exponent < 0.0 and a <= 0.0 and b >= 0.0:
        return np.nan, np.nan
    even = exponent % 2.0 == 0.0
    c, d = (smallest(a, b), magnitude(a, b)) if even else (a, b)
    p, q = math.pow(c, exponent), math.pow(d, exponent)
    low, high = (q, p) if exponent < 0.0 else (p, q)
    low, high = inflate(low, high)
    # An underflow to zero still leaves room on the side that the base lies on.
    if c < 0.0 and low == 0.0:
        low = -FAINT
    if d > 0.0 and high == 0.0:
        high = FAINT
    if even or c >= 0.0:
        low = max(low, 0.0)
    elif d <= 0.0:
        high = min(high, 0.0)
    return low, high


@inlined
def real_power(a, b, c, d):
    """``x ** y`` for positive x: monotone in each, so that the corners hold the extremes."""
    if a < 0.0 or (a == 0.0 and c <= 0.0):
        return np.nan, np.nan
    p, q, r, s = math.pow(a, c), math.pow(a, d), math.pow(b, c), math.pow(b, d)
    low, high = inflate(min(min(p, q), min(r, s)), max(max(p, q), max(r, s)))
    low = max(low, 0.0)
    if b > 0.0:
        high = max(high, FAINT)
    return low, high


@inlined
def angle(a, b, c, d):
    """Range of arctan2 of y in [a, b] and x in [c, d]: the extremes, clear of the cut, lie at corners."""
    if meets_cut(a, b, c):  # a zero may be -0.0, on the other side
        return inflate(-math.pi, math.pi)
    p, q, r, s = math.atan2(a, c), math.atan2(a, d), math.atan2(b, c), math.atan2(b, d)
    low, high = inflate(min(min(p, q), min(r, s)), max(max(p, q), max(r, s)))
    if low == 0.0 and a < 0.0:
        low = -FAINT
    if high == 0.0 and b > 0.0:
        high = FAINT
    return low, high


@inlined
def meets_cut(a, b, c):
    """Whether y in [a, b] and x of at least c may lie where arctan2 jumps, or at the origin."""
    return c <= 0.0 and a <= 0.0 and b >= 0.0


@inlined
def angle_slope(q, a, b, c, d):
    """Slope of the angle, on the circle, by y (q is 0) or x; NaN where these may be the origin."""
    e, f = square(a, b)
    g, h = square(c, d)
    e, f = add_down(e, g), add_up(f, h)
    if e <= 0.0:
        return np.nan, np.nan
    if q == 0:
        return divide(c, d, e, f)
    e, f = divide(a, b, e, f)
    return -f, -e


@inlined
def length_slope(a, b, c, d):
    """Slope of a length in [c, d] by a part in [a, b]: part / whole; in [-1, 1] even at length 0."""
    if c <= 0.0:
        return -1.0, 1.0
    low, high = divide(a, b, c, d)
    return max(low, -1.0), min(high, 1.0)


@inlined
def step_count(a, b, c, d):
    """Which period of `mod` [a, b] lies in, for a divisor in [c, d]; NaN where it meets two."""
    if c <= 0.0 and d >= 0.0:
        return np.nan
    low, high = divide(a, b, c, d)
    count = np.floor(low)
    return count if count == np.floor(high) and math.isfinite(low) and math.isfinite(high) else np.nan


@inlined
def sign(x):
    """-1, 0 or 1."""
    return 1.0 if x > 0.0 else (-1.0 if x < 0.0 else 0.0)


@inlined
def softplus_sum(x, y):
    """log(exp x + exp y)."""
    return max(x, y) + math.log1p(math.exp(-abs(x - y)))


@inlined
def unary_range(operation, a, b, value):
    """Range over [a, b] of a function of one argument; NaN: not defined throughout."""
    if operation == codes.NEGATIVE:
        return -b, -a
    if operation == codes.ABSOLUTE:
        return smallest(a, b), magnitude(a, b)
    if operation == codes.SQUARE:
        return square(a, b)
    if operation == codes.RECIPROCAL:
        return (np.nan, np.nan) if a <= 0.0 and b >= 0.0 else divide(1.0, 1.0, a, b)
    if operation == codes.SQRT:
        return (np.nan, np.nan) if a < 0.0 else root(a, b)
    if operation == codes.SIN:
        return sine(a, b, 0.0)
    if operation == codes.COS:
        return sine(a, b, math.pi / 2)
    if operation == codes.INTEGER_POWER:
        return integer_power(a, b, value)
    if operation == codes.REAL_POWER:
        return real_power(a, b, value, value)
    if operation == codes.PRODUCT:
        slack = value * ULP
        return down(a - abs(a) * slack), up(b + abs(b) * slack)
    if operation == codes.DEG2RAD:
        return multiply(a, b, _RADIANS * (1 - 4 * ULP), _RADIANS * (1 + 4 * ULP))
    if operation == codes.RAD2DEG:
        return multiply(a, b, _DEGREES * (1 - 4 * ULP), _DEGREES * (1 + 4 * ULP))
    return _library_range(operation, a, b)


@inlined
def _library_range(operation, a, b):
    if operation == codes.EXP:
        return exponential(a, b)
    if operation == codes.TAN:
        return tangent(a, b)
    if operation == codes.EXP2:
        low, high = inflate(math.pow(2.0, a), math.pow(2.0, b))
        return max(low, 0.0), max(high, FAINT)
    if operation == codes.EXPM1:
        low, high = inflate(math.expm1(a), math.expm1(b))
        return max(low, -1.0), high
    if operation == codes.TANH:
        low, high = inflate(math.tanh(a), math.tanh(b))
        return max(low, -1.0), min(high, 1.0)
    if operation == codes.ARCTAN:
        return inflate(math.atan(a), math.atan(b))
    if operation == codes.SINH:
        return inflate(math.sinh(a), math.sinh(b))
    if operation == codes.COSH:
        return cosh(a, b)
    if operation == codes.ARCSINH:
        return inflate(math.asinh(a), math.asinh(b))
    if operation == codes.CBRT:
        return inflate(np.cbrt(a), np.cbrt(b))
    return _partial_range(operation, a, b)


@inlined
def _partial_range(operation, a, b):
    """Those that are not defined everywhere, and steps."""
    if operation == codes.LOG1P:
        return (np.nan, np.nan) if a <= -1.0 else inflate(math.log1p(a), math.log1p(b))
    if operation == codes.LOG or operation == codes.LOG2 or operation == codes.LOG10:
        if a <= 0.0:
            return np.nan, np.nan
        if operation == codes.LOG:
            return inflate(math.log(a), math.log(b))
        if operation == codes.LOG2:
            return inflate(np.log2(a), np.log2(b))
        return inflate(math.log10(a), math.log10(b))
    if operation == codes.ARCSIN or operation == codes.ARCCOS:
        if a < -1.0 or b > 1.0:
            return np.nan, np.nan
        if operation == codes.ARCSIN:
            return inflate(math.asin(a), math.asin(b))
        low, high = inflate(math.acos(b), math.acos(a))
        return max(low, 0.0), high
    if operation == codes.ARCCOSH:
        return (np.nan, np.nan) if a < 1.0 else inflate(math.acosh(a), math.acosh(b))
    if operation == codes.ARCTANH:
        return (np.nan, np.nan) if a <= -1.0 or b >= 1.0 else inflate(math.atanh(a), math.atanh(b))
    if not (math.isfinite(a) and math.isfinite(b)):
        return np.nan, np.nan
    if operation == codes.SIGN:
        return sign(a), sign(b)
    if operation == codes.FLOOR:
        return np.floor(a), np.floor(b)
    if operation == codes.CEIL:
        return np.ceil(a), np.ceil(b)
    if operation == codes.TRUNC:
        return np.trunc(a), np.trunc(b)
    if operation == codes.RINT:
        return np.rint(a), np.rint(b)
    return np.nan, np.nan


@inlined
def unary_slope(operation, a, b, low, high, value):
    """Slope over [a, b] of a function of one argument with range [low, high]; NaN: not bounded."""
    if operation == codes.NEGATIVE:
        return -1.0, -1.0
    if operation == codes.PRODUCT:
        return 1.0, 1.0
    if operation == codes.ABSOLUTE:
        return 1.0 if a > 0.0 else -1.0, -1.0 if b < 0.0 else 1.0
    if operation == codes.SQUARE:
        return add_down(a, a), add_up(b, b)
    if operation == codes.SIN:
        return sine(a, b, math.pi / 2)
    if operation == codes.COS:
        c, d = sine(a, b, 0.0)
        return -d, -c
    if operation == codes.SQRT:
        return (np.nan, np.nan) if a <= 0.0 else divide(0.5, 0.5, low, high)
    if operation == codes.RECIPROCAL:
        c, d = square(low, high)
        return -d, -c
    if operation == codes.INTEGER_POWER:
        c, d = (a, b) if value == 2.0 else integer_power(a, b, value - 1.0)
        return multiply(value, value, c, d)
    if operation == codes.REAL_POWER:
        if a <= 0.0 and value < 1.0:
            return np.nan, np.nan
        lesser = value - 1.0
        c, d = real_power(a, b, down(lesser) if a > 0.0 else max(down(lesser), TINY), up(lesser))
        return multiply(value, value, c, d)
    if operation == codes.DEG2RAD:
        return _RADIANS * (1 - 4 * ULP), _RADIANS * (1 + 4 * ULP)
    if operation == codes.RAD2DEG:
        return _DEGREES * (1 - 4 * ULP), _DEGREES * (1 + 4 * ULP)
    return _library_slope(operation, a, b, low, high)


@inlined
def _library_slope(operation, a, b, low, high):
    if operation == codes.EXP:
        return low, high
    if operation == codes.EXPM1:
        return exponential(a, b)
    if operation == codes.EXP2:
        return multiply(low, high, down(_LN2), up(_LN2))
    if operation == codes.TAN:
        c, d = square(low, high)
        return add_down(1.0, c), add_up(1.0, d)
    if operation == codes.TANH:  # 1 / cosh² keeps its relative precision where 1 - tanh² would cancel
        c, d = cosh(a, b)
        c, d = square(c, d)
        return divide(1.0, 1.0, c, d)
    if operation == codes.ARCTAN:
        c, d = square(a, b)
        return divide(1.0, 1.0, add_down(1.0, c), add_up(1.0, d))
    if operation == codes.SINH:
        return cosh(a, b)
    if operation == codes.COSH:
        return inflate(math.sinh(a), math.sinh(b))
    if operation == codes.ARCSINH:
        c, d = square(a, b)
        c, d = root(add_down(1.0, c), add_up(1.0, d))
        return divide(1.0, 1.0, c, d)
    return _partial_slope(operation, a, b, low, high)


@inlined
def _partial_slope(operation, a, b, low, high):
    if operation == codes.LOG:
        return divide(1.0, 1.0, a, b)
    if operation == codes.LOG1P:
        return divide(1.0, 1.0, max(add_down(1.0, a), TINY), add_up(1.0, b))
    if operation == codes.LOG2 or operation == codes.LOG10:
        scale = _LN2 if operation == codes.LOG2 else _LN10
        c, d = multiply(a, b, down(scale), up(scale))
        return divide(1.0, 1.0, max(c, TINY), d)
    if operation == codes.CBRT:  # 1 / (3 cbrt²)
        if a <= 0.0 and b >= 0.0:
            return np.nan, np.nan
        c, d = square(low, high)
        c, d = multiply(3.0, 3.0, c, d)
        return divide(1.0, 1.0, max(c, TINY), d)
    if operation == codes.ARCSIN or operation == codes.ARCCOS or operation == codes.ARCTANH:
        if a <= -1.0 or b >= 1.0:
            return np.nan, np.nan
        c, d = square(a, b)
        c, d = max(add_down(1.0, -d), TINY), min(add_up(1.0, -c), 1.0)
        if operation != codes.ARCTANH:
            c, d = root(c, d)
        c, d = divide(1.0, 1.0, max(c, TINY), d)
        return (-d, -c) if operation == codes.ARCCOS else (c, d)
    if operation == codes.ARCCOSH:
        if a <= 1.0:
            return np.nan, np.nan
        c, d = square(a, b)
        c, d = root(max(add_down(c, -1.0), 0.0), add_up(d, -1.0))
        return (np.nan, np.nan) if c <= 0.0 else divide(1.0, 1.0, c, d)
    return 0.0, 0.0


@inlined
def logaddexp(a, b, c, d):
    """Range of log(exp x + exp y), which rises in both; errs by roundings of its largest part."""
    low, high = softplus_sum(a, c), softplus_sum(b, d)
    slack_low = LIBRARY * (max(abs(a), abs(c)) + 1.0)
    slack_high = LIBRARY * (max(abs(b), abs(d)) + 1.0)
    return down(low - slack_low), up(high + slack_high)


@inlined
def share(a, b):
    """Range of 1 / (1 + exp(x)) for x in [a, b]: the slope of logaddexp."""
    c, d = exponential(a, b)
    low, high = divide(1.0, 1.0, add_down(1.0, c), add_up(1.0, d))
    return max(low, 0.0), min(high, 1.0)
