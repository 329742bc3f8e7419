"""Arithmetic on pairs of bounds, rounded outward.

A pair ``(lower, upper)`` of float64 arrays stands for all real arrays between them. Every function
here returns a pair that contains the exact real result for every choice of reals in its operands, and
also the float64 result that NumPy computes from floats in its operands.

Sound because: float64 ``+ - * /`` and ``sqrt`` are correctly rounded, so that one unit in the last
place, outward, contains the exact result. ``v ± |v| 2**-52`` is at least that unit wherever the result
is normal. Where it is not (underflow, overflow, ``0 * inf``) the processor's status flags say so, and a
slower, careful version takes over. Exact zeros stay exact, which keeps absent derivatives absent.

A pair whose two members are the *same object* is a point, which halves the work of a product.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Pair = tuple[Any, Any]  # (lower, upper): float64 arrays of one shape

ULP = 2.0**-52
# The least accurate of NumPy's vectorised functions err by 4 units in the last place (AVX-512, stated in
# numpy/numpy#19478; on AVX2 we measured at most 1.7). Twice that separates the exact value at an end of
# a box from the float64 value at a neighbouring point; two more are margin.
LIBRARY = 10 * ULP
FAINT = 1e-322  # a few steps of the subnormal grid
LARGEST = float(np.finfo(np.float64).max)


def point(value: Any) -> Pair:
    """The pair of a single, exact value."""
    return value, value


def is_point(pair: Pair) -> bool:
    """Whether the pair is known to be a single value."""
    return pair[0] is pair[1]


def _flags_are_reported() -> bool:
    try:
        with np.errstate(all="raise"):
            np.square(np.full(8, 1e-200))
    except FloatingPointError:
        return True
    return False


# False where the platform has no status flags (WebAssembly): everything then takes the careful path.
_FLAGS = _flags_are_reported()


def _guarded(fast: Callable[..., Pair], careful: Callable[..., Pair]) -> Callable[..., Pair]:
    """`fast` where no status flag is raised, else `careful`."""

    def operation(*operands: Any) -> Pair:
        if _FLAGS:
            try:
                with np.errstate(all="raise"):
                    return fast(*operands)
            except FloatingPointError:
                pass
        with np.errstate(all="ignore"):
            return careful(*operands)

    return operation


def _widen(lower: Array, upper: Array, relative: float = ULP) -> Pair:
    return lower - np.abs(lower) * relative, upper + np.abs(upper) * relative


def _step(lower: Array, upper: Array) -> Pair:
    return np.nextafter(lower, -np.inf), np.nextafter(upper, np.inf)


outward = _guarded(_widen, _step)


def _inflate_fast(lower: Array, upper: Array) -> Pair:
    return _widen(lower, upper, LIBRARY)


def _inflate_careful(lower: Array, upper: Array) -> Pair:
    lower, upper = np.minimum(lower, LARGEST), np.maximum(upper, -LARGEST)
    down, up = (np.maximum(np.abs(bound) * LIBRARY, FAINT) for bound in (lower, upper))
    return np.where(lower == 0, 0.0, lower - down), np.where(upper == 0, 0.0, upper + up)


inflate = _guarded(_inflate_fast, _inflate_careful)
inflate.__doc__ = "Bounds of a library function from its values at the ends; a zero is taken to be exact."


def _sum_of(one: Pair, two: Pair) -> Pair:
    lower = one[0] + two[0]
    return lower, (lower if is_point(one) and is_point(two) else one[1] + two[1])


add = _guarded(lambda one, two: _widen(*_sum_of(one, two)), lambda one, two: _step(*_sum_of(one, two)))


def negative(pair: Pair) -> Pair:
    """Exact."""
    lower = -pair[1]
    return lower, (lower if is_point(pair) else -pair[0])


def subtract(one: Pair, two: Pair) -> Pair:
    """All differences."""
    return add(one, negative(two))


def _combinations(one: Pair, two: Pair) -> list[tuple[Array, Array]]:
    ends_one = one[:1] if is_point(one) else one
    ends_two = two[:1] if is_point(two) else two
    return [(end_one, end_two) for end_one in ends_one for end_two in ends_two]


def _extremes(candidates: list[Array]) -> Pair:
    if len(candidates) == 1:
        return candidates[0], candidates[0]
    lower, upper = np.minimum(candidates[0], candidates[1]), np.maximum(candidates[0], candidates[1])
    for candidate in candidates[2:]:
        lower, upper = np.minimum(lower, candidate), np.maximum(upper, candidate)
    return lower, upper


def _careful_extremes(results: list[Array], exact: list[Array]) -> Pair:
    """Hull of results, each widened a step unless known to be an exact zero."""

    def widened(limit: float) -> Pair:
        pairs = zip(results, exact, strict=True)
        return _extremes([np.where(zero, result, np.nextafter(result, limit)) for result, zero in pairs])

    return widened(-np.inf)[0], widened(np.inf)[1]


def _multiply_fast(one: Pair, two: Pair) -> Pair:
    return _widen(*_extremes([x * y for x, y in _combinations(one, two)]))


def _multiply_careful(one: Pair, two: Pair) -> Pair:
    pairs = _combinations(one, two)
    # An infinite bound stands for finite numbers without limit, so that zero times it is zero.
    limits = [((x == 0) & np.isinf(y)) | ((y == 0) & np.isinf(x)) for x, y in pairs]
    products = [np.where(limit, 0.0, x * y) for (x, y), limit in zip(pairs, limits, strict=True)]
    return _careful_extremes(
        products, [((x == 0) | (y == 0)) & (p == 0) for (x, y), p in zip(pairs, products, strict=True)]
    )


multiply = _guarded(_multiply_fast, _multiply_careful)


def _divide_fast(one: Pair, two: Pair) -> Pair:
    return _widen(*_extremes([x / y for x, y in _combinations(one, two)]))


def _divide_careful(one: Pair, two: Pair) -> Pair:
    pairs = _combinations(one, two)
    limits = [np.isinf(x) & np.isinf(y) for x, y in pairs]
    quotients = [np.where(limit, 0.0, x / y) for (x, y), limit in zip(pairs, limits, strict=True)]
    return _careful_extremes(
        quotients, [(x == 0) & (q == 0) for (x, _), q in zip(pairs, quotients, strict=True)]
    )


divide = _guarded(_divide_fast, _divide_careful)
divide.__doc__ = "All quotients. The caller has made sure that the divisor does not contain 0."


def magnitude(pair: Pair) -> Array:
    """Largest absolute value."""
    return np.abs(pair[0]) if is_point(pair) else np.maximum(np.abs(pair[0]), np.abs(pair[1]))


def absolute(pair: Pair) -> Pair:
    """Exact range of the absolute value."""
    return np.maximum(np.maximum(pair[0], -pair[1]), 0.0), magnitude(pair)


def square(pair: Pair) -> Pair:
    """All squares; tighter than a product, because both factors are the same number."""
    least, most = absolute(pair)
    lower, upper = multiply((least, least), (least, least)), multiply((most, most), (most, most))
    return np.maximum(lower[0], 0.0), upper[1]


def hull(one: Pair, two: Pair) -> Pair:
    """Smallest pair that contains both."""
    return np.minimum(one[0], two[0]), np.maximum(one[1], two[1])


def total(pair: Pair, axis: int) -> Pair:
    """Sum over one axis, whatever the order in which NumPy adds.

    Sound because the error of a float sum of n terms, in any order, is at most (n - 1) 2**-53 times
    the sum of magnitudes (to first order), once for these bounds and once for NumPy's own sum.
    """
    with np.errstate(all="ignore"):
        scale = magnitude(pair).sum(axis=axis)
        slack = scale * ((np.shape(pair[0])[axis] + 4) * ULP)
        slack = np.where((scale > 0) & (slack < FAINT), FAINT, slack)
        lower, upper = (np.asarray(bound.sum(axis=axis)) for bound in pair)
        lower = np.where(np.isinf(scale), -np.inf, lower - slack)
        upper = np.where(np.isinf(scale), np.inf, upper + slack)
    return outward(lower, upper)


def contract(pair: Pair, constant: Array) -> Pair:
    """``pair @ constant``, for a constant matrix, finite bounds, and any order of summation.

    Sound because the error of a float inner product of n terms, fused or not, is at most n 2**-53
    times the inner product of magnitudes (to first order), and 1e-300 covers what underflows.
    """
    size = np.abs(constant)
    scale = magnitude(pair)
    reached = (scale > 0).astype(np.float64) @ (size > 0).astype(np.float64)
    slack = (scale @ size) * ((constant.shape[-2] + 8) * ULP) + 1e-300 * reached
    rising, falling = np.maximum(constant, 0.0), np.minimum(constant, 0.0)
    lower = pair[0] @ rising + pair[1] @ falling
    upper = pair[1] @ rising + pair[0] @ falling
    return outward(lower - slack, upper + slack)
