"""Arithmetic on intervals, rounded outward, compiled; every function takes and gives limits as floats.

``lower <= upper`` stands for all reals between them, infinite limits for finite numbers without limit.
Results contain the exact real result for every choice of reals in the operands, and so the float64 result
that NumPy computes from floats in them: rounding to nearest cannot cross a float64 limit. NaN stands for
undefined.

Sound because float64 ``+ - * /`` and ``sqrt`` are correctly rounded, so that one unit in the last place,
outward, contains the exact result. ``|x| 2**-52`` is at least that unit where x is normal, and 5e-324 is
where it is not. Exact zeros and exact sums stay exact, which keeps constant derivatives constant.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np

ULP = 2.0**-52
TINY = 5e-324
LARGEST = float(np.finfo(np.float64).max)
# NumPy's least accurate vectorised functions err by 4 units in the last place (AVX-512, stated in
# numpy/numpy#19478; on AVX2 we measured at most 1.7), the compiled ones here by 1. This covers the exact
# value from ours and NumPy's from the exact, with margin.
LIBRARY = 10 * ULP
FAINT = 1e-322
"""A few steps of the subnormal grid."""


def inlined(function: Any) -> Any:
    """Compiled into its callers; division by zero gives infinities, as in NumPy."""
    return numba.njit(nogil=True, error_model="numpy")(function)


@inlined
def down(x):
    """A float below every real that rounds to x."""
    if x == np.inf:
        return LARGEST
    return x - (abs(x) * ULP + TINY)


@inlined
def up(x):
    """A float above every real that rounds to x."""
    if x == -np.inf:
        return -LARGEST
    return x + (abs(x) * ULP + TINY)


@inlined
def add_down(x, y):
    """At most x + y; that itself where it is exact, by the error of a sum being a float (Knuth)."""
    total = x + y
    part = total - x
    error = (x - (total - part)) + (y - part)
    below = total - (abs(total) * ULP + TINY)
    result = below if error < 0.0 else total
    return LARGEST if total == np.inf else result


@inlined
def add_up(x, y):
    """At least x + y."""
    return -add_down(-x, -y)


@inlined
def product(x, y):
    """X y, where 0 times an infinite limit is 0: that stands for finite numbers without limit."""
    if (x == 0.0 and math.isinf(y)) or (y == 0.0 and math.isinf(x)):
        return 0.0
    return x * y


@inlined
def multiply(a, b, c, d):
    """All products of a number in [a, b] and one in [c, d]."""
    if (a == 0.0 and b == 0.0 and c == c) or (c == 0.0 and d == 0.0 and a == a):
        return 0.0, 0.0
    if a == 1.0 and b == 1.0:
        return c, d
    if c == 1.0 and d == 1.0:
        return a, b
    if not (abs(a) < np.inf and abs(b) < np.inf and abs(c) < np.inf and abs(d) < np.inf):
        if a != a or b != b or c != c or d != d:
            return np.nan, np.nan
        p, q, r, s = product(a, c), product(a, d), product(b, c), product(b, d)
    else:
        p, q, r, s = a * c, a * d, b * c, b * d
    low = down(min(min(p, q), min(r, s)))
    high = up(max(max(p, q), max(r, s)))
    # Signs that are known stay known, whatever underflows.
    if (a >= 0.0 and c >= 0.0) or (b <= 0.0 and d <= 0.0):
        low = max(low, 0.0)
    if (a >= 0.0 and d <= 0.0) or (b <= 0.0 and c >= 0.0):
        high = min(high, 0.0)
    return low, high


@inlined
def multiply_lanes(a, b, c, d, low, high, lanes):
    """Products of the intervals [a, b] and [c, d] of so many lanes, without a branch for each.

    Exact zeros stay exact, as they do in :func:`multiply`, which takes over where a limit is not finite.
    """
    unlimited = 0
    for lane in range(lanes):
        p, q = a[lane] * c[lane], a[lane] * d[lane]
        r, s = b[lane] * c[lane], b[lane] * d[lane]
        least = p if p < q else q
        other = r if r < s else s
        least = least if least < other else other
        most = p if p > q else q
        other = r if r > s else s
        most = most if most > other else other
        none = (a[lane] == 0.0 and b[lane] == 0.0) or (c[lane] == 0.0 and d[lane] == 0.0)
        low[lane] = 0.0 if none else least - (abs(least) * ULP + TINY)
        high[lane] = 0.0 if none else most + (abs(most) * ULP + TINY)
        # Not finite exactly where one of the four is not: infinite less infinite is NaN, and stays so.
        doubt = (p - p) + (q - q) + (r - r) + (s - s)
        unlimited += 1 if doubt != 0.0 else 0
    if unlimited:
        for lane in range(lanes):
            low[lane], high[lane] = multiply(a[lane], b[lane], c[lane], d[lane])


@inlined
def quotient(x, y):
    """X / y for limits; infinite over infinite is 0, as any number is beside numbers without limit."""
    if math.isinf(x) and math.isinf(y):
        return 0.0
    return x / y


@inlined
def divide(a, b, c, d):
    """All quotients of a number in [a, b] by one in [c, d], which does not hold 0."""
    if a == 0.0 and b == 0.0:
        return 0.0, 0.0
    if c == 1.0 and d == 1.0:
        return a, b
    p, q, r, s = quotient(a, c), quotient(a, d), quotient(b, c), quotient(b, d)
    low = down(min(min(p, q), min(r, s)))
    high = up(max(max(p, q), max(r, s)))
    if (a >= 0.0 and c > 0.0) or (b <= 0.0 and d < 0.0):
        low = max(low, 0.0)
    if (a >= 0.0 and d < 0.0) or (b <= 0.0 and c > 0.0):
        high = min(high, 0.0)
    return low, high


@inlined
def magnitude(a, b):
    """Largest absolute value in [a, b]."""
    return max(abs(a), abs(b))


@inlined
def smallest(a, b):
    """Smallest absolute value in [a, b]."""
    return max(max(a, -b), 0.0)


@inlined
def square(a, b):
    """All squares; tighter than a product, because both factors are the same number."""
    least, most = smallest(a, b), magnitude(a, b)
    if most == 0.0:
        return 0.0, 0.0
    return max(down(least * least), 0.0), up(most * most)


@inlined
def root(a, b):
    """All square roots of numbers that are not negative."""
    high = up(math.sqrt(b)) if b > 0.0 else 0.0
    return max(down(math.sqrt(min(a, LARGEST))), 0.0), high


@inlined
def inflate(a, b):
    """Limits of a library function from its values at the ends; a zero is taken to be exact."""
    low, high = min(a, LARGEST), max(b, -LARGEST)
    if low != 0.0:
        low = low - max(abs(low) * LIBRARY, FAINT)
    if high != 0.0:
        high = high + max(abs(high) * LIBRARY, FAINT)
    return low, high
