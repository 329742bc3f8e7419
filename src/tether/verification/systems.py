"""Tables, linear systems and determinants over many boxes at once.

A table (``np.interp``) is straight between its points: its extremes over an interval are at the ends and at
points between them. NumPy computes ``slope * (x - point) + value``, with five roundings of at most the change
along a piece and one of the result.

For a linear system, C is about the inverse of the matrices' middle, |I - C A| <= R for all A of the box, y
encloses C b, and ``x = y + (I - C A) x``. If some w >= 0 has ``R (|y| + t + w) <= w`` with t > 0, the
spectral radius of R is below 1 (Collatz and Wielandt), so that A is regular, and ``|x - y| <= w``. The
columns of the inverse are the solutions for the columns of the unit matrix.

LAPACK's solution is the exact one for a matrix A + E (Higham, Accuracy and Stability of Numerical Algorithms,
theorem 9.4): |E| <= c u |L| |U|, with partial pivoting at most ``c u n 2^(n-1)`` of the largest entry in its
column. There c is 3 n; it is taken as 6 (n + 1), because libraries multiply by reciprocals.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether.verification import intervals
from tether.verification.intervals import Array, Interval, add_down, add_up, magnitude

_U = 2.0**-53
_MORE = 1 + 2.0**-40
_FAINT = 1e-322
_SMALL = 1e-290
"""Beside the size of a column, of which a share counts as an error: more than what underflows comes to, or
pivots below the least normal number, by which OpenBLAS does not divide."""
UNDERFLOW = 1e-320
"""More than all products of a small system that underflow come to."""
_LARGEST = 1e290
"""Beyond it something may overflow on the way to a solution that does not."""
_NEARLY = 1 + 2.0**-48
"""For at most ten roundings of sums of positive numbers."""


# Tables -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Table:
    """Points that rise, and values; straight between them, and constant beyond.

    Attributes:
        points: (n,).
        values: (n,).
    """

    points: Array
    values: Array

    @classmethod
    def of(cls, data: tuple[tuple[str, ...], tuple[str, ...]]) -> Table:
        """From what a node bears."""
        return cls(*(np.array([float.fromhex(text) for text in part]) for part in data))

    @property
    def pieces(self) -> Interval:
        """(n - 1,) limits of the slope of each piece."""
        x, y = self.points, self.values
        rise = add_down(y[1:], -y[:-1]), add_up(y[1:], -y[:-1])
        return intervals.divide(rise, (add_down(x[1:], -x[:-1]), add_up(x[1:], -x[:-1])))

    def at(self, x: Array) -> Interval:
        """Limits of the exact value at numbers."""
        if len(self.points) == 1:
            return self._within(x, self.values[0])
        last = len(self.points) - 1
        piece = np.clip(np.searchsorted(self.points, x, side="right") - 1, 0, last - 1)
        inside = np.clip(x, self.points[0], self.points[-1])
        slope, point = self.pieces, self.points[piece]
        away = add_down(inside, -point), add_up(inside, -point)
        change = intervals.multiply((slope[0][piece], slope[1][piece]), away)
        low, high = intervals.add((self.values[piece], self.values[piece]), change)
        for end, beyond in ((0, x <= self.points[0]), (last, x >= self.points[-1])):
            low, high = np.where(beyond, self.values[end], low), np.where(beyond, self.values[end], high)
        return low, high

    def _within(self, x: Array, value: float) -> Interval:
        same = np.where(np.isnan(x), np.nan, value)
        return same, same

    def over(self, x: Interval) -> tuple[Interval, Interval, Any]:
        """Range of the exact value, range of the slope, and what NumPy's value is off by at most."""
        a, b = np.broadcast_arrays(*(np.asarray(end, dtype=np.float64) for end in x))
        unknown = np.isnan(a) | np.isnan(b)
        ends = self.at(a), self.at(b)
        low, high = np.minimum(ends[0][0], ends[1][0]), np.maximum(ends[0][1], ends[1][1])
        between = (a[..., None] <= self.points) & (self.points <= b[..., None])
        low = np.minimum(low, np.where(between, self.values, np.inf).min(axis=-1))
        high = np.maximum(high, np.where(between, self.values, -np.inf).max(axis=-1))
        met = (a[..., None] <= self.points[1:]) & (self.points[:-1] <= b[..., None])
        outside = (a <= self.points[0]) | (b >= self.points[-1])
        slopes = self.pieces
        least = np.where(met, slopes[0], np.inf).min(axis=-1, initial=np.inf)
        most = np.where(met, slopes[1], -np.inf).max(axis=-1, initial=-np.inf)
        least, most = (
            np.where(outside, np.minimum(least, 0.0), least),
            np.where(outside, np.maximum(most, 0.0), most),
        )
        sizes = np.maximum(np.abs(self.values[1:]), np.abs(self.values[:-1]))
        size = np.where(met, sizes, 0.0).max(axis=-1, initial=0.0)
        wide = np.where(met, np.diff(self.points), 0.0).max(axis=-1, initial=0.0)
        off = size * (12 * _U * _MORE) + _FAINT * (wide + 1)
        return (
            intervals.unknown(unknown, (low, high)),
            intervals.unknown(unknown, (least, most)),
            np.where(unknown, np.nan, off),
        )


# Linear systems -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Solved:
    """Solutions and inverses of a system over each of B boxes; NaN where a matrix may be singular.

    Attributes:
        solution: (B, n) each, exact and LAPACK's.
        inverse: (B, n, n) each.
        widest: (B, n) what LAPACK's matrix is off by, at most, in each column.
    """

    solution: Interval
    inverse: Interval
    widest: Array


def solved(matrix: Interval, right: Interval) -> Solved:
    """From limits (B, n, n) of the matrix and (B, n) of the right side."""
    size = matrix[0].shape[-1]
    largest = magnitude(matrix).max(axis=-2)
    widest = (largest + _SMALL) * (6.0 * (size + 1) * size * 2.0 ** (size - 1) * _U * _MORE)
    wider = add_down(matrix[0], -widest[:, None, :]), add_up(matrix[1], widest[:, None, :])
    close = _inverses(0.5 * matrix[0] + 0.5 * matrix[1])
    rest = np.where((largest < _LARGEST)[:, None, :], _rest(close, wider), np.nan)
    near = add_down(right[0], -UNDERFLOW), add_up(right[1], UNDERFLOW)
    exact = _product(close, (near[0][:, :, None], near[1][:, :, None]))
    low, high = np.concatenate([close, exact[0]], axis=2), np.concatenate([close, exact[1]], axis=2)
    away = _away(rest, np.maximum(np.abs(low), np.abs(high)))
    ends = add_down(low, -away), add_up(high, away)
    most = magnitude((ends[0][:, :, size], ends[1][:, :, size])).max(axis=1) * np.maximum(
        largest.max(axis=1), 1
    )
    kept = (np.maximum(most, magnitude(right).max(axis=1)) < _LARGEST)[:, None]
    solution = np.where(kept, ends[0][:, :, size], np.nan), np.where(kept, ends[1][:, :, size], np.nan)
    return Solved(solution, (ends[0][:, :, :size], ends[1][:, :, :size]), widest)


def _inverses(middle: Array) -> Array:
    """About the inverses; NaN where there is none. No proof rests on how close they are."""
    fine = np.isfinite(middle).all(axis=(1, 2))
    found = np.full_like(middle, np.nan)
    try:
        found[fine] = np.linalg.inv(middle[fine])
    except np.linalg.LinAlgError:  # one of them stops all
        for row in np.flatnonzero(fine):
            with suppress(np.linalg.LinAlgError):
                found[row] = np.linalg.inv(middle[row])
    return found


def _product(factor: Array, other: Interval) -> Interval:
    """(B, n, m) a matrix of numbers times one of intervals."""
    total: Interval = intervals.ZERO
    for k in range(factor.shape[2]):
        part = factor[:, :, k, None]
        total = intervals.add(
            total, intervals.multiply((part, part), tuple(end[:, None, k, :] for end in other))
        )  # type: ignore[arg-type]
    return total


def _rest(close: Array, matrix: Interval) -> Array:
    """(B, n, n) at least |I - C A|."""
    unit = np.eye(close.shape[1])
    return magnitude(intervals.subtract((unit, unit), _product(close, matrix)))


def _away(rest: Array, size: Array) -> Array:
    """(B, n, m) how far solutions are from C b of that size; NaN where that cannot be shown."""
    count = rest.shape[1]
    top = size.max(axis=1, keepdims=True)
    start = (size + (top * 1e-18 + 1e-300)) * _NEARLY
    try:
        guess = np.linalg.solve(np.eye(count) - rest, rest @ start)
    except np.linalg.LinAlgError:
        guess = np.full_like(start, np.nan)
    guess = guess * (1 + 2e-13) + 1e-300
    reached = (rest @ (start + guess)) * _NEARLY + _FAINT
    shown = (guess >= 0) & (reached <= guess)
    # One column that is shown shows that the matrix is regular; each needs its own bound.
    return np.where(shown.all(axis=1, keepdims=True), guess, np.nan)


def determinant_slack(value: Interval, columns: list[Interval]) -> Any:
    """How far NumPy's determinant may be from the exact one, given the sums of sizes along the columns.

    Its factors are those of A + E: column by column the determinant changes, by Hadamard's inequality, at
    most by the product of lengths of columns times ``(1 + √n e)^n - 1``. NumPy adds up logarithms of the
    pivots and takes the exponential, which errs by roundings of the sizes of these logarithms: at most twice
    the positive ones and that of the determinant.
    """
    count = len(columns)
    error = 6.0 * (count + 1) * count * 2.0 ** (count - 1) * _U * _MORE
    product, positive = np.float64(1.0), np.float64(0.0)
    for part in columns:
        most = np.maximum(part[1], 0.0) + _SMALL
        product = product * most * _MORE
        positive = positive + np.maximum(np.log(np.maximum(most * 2.0 ** (count - 1), 1e-300)), 0.0) + 1e-12
    slack = product * (1.5 * count**1.5 * error) * _MORE
    most = (magnitude(value) + slack) * _MORE
    least = np.maximum(np.maximum(value[0], -value[1]) - slack, 0.0) * (1 - 2.0**-40)
    logs = most * np.abs(np.log(np.maximum(most, 1e-300)))
    logs = np.maximum(logs, np.where(least > 0, most * np.abs(np.log(np.maximum(least, 1e-300))), 0.37))
    return (slack + 12 * (count + 4) * _U * (2 * most * (positive + 1) + logs)) * _MORE + _FAINT
