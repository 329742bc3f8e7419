"""Second-order models of M over boxes, and by proof how far M can be from them.

``A(s) = value + slope (s - m) + sum_q curvature_q (s - m)_i (s - m)_j`` over pairs q = (i, j) of inputs. With
H the second derivatives that the curvatures stand for, by Taylor's theorem along the segment from m to s

    M(s) - A(s) = (M(m) - value) + (M'(m) - slope) (s - m)
                  + integral over t from 0 to 1 of (1 - t) (s - m)' (M''(m + t (s - m)) - H) (s - m).

After a share t of the way a point lies in the box shrunk to t around m: of n equal pieces of the way, piece k
lies in shell k of n, and its weight, the integral of 1 - t over it, is ``(1 - (k - 1/2) / n) / n``. So the
last term is at most the weighted sum of the deviations of M'' from H over the shells, times the ways.

Sound because it is used only where M, its derivatives and its second derivatives have finite bounds over the
whole box: then no condition in it is undecided, no step function jumps, and the derivatives of its program
are those of one smooth function.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tether.data import Array
from tether.programs import Enclosure, Program, evaluate
from tether.programs.derivatives import gradient
from tether.programs.rounding import FAINT

_EPS = np.finfo(np.float64).eps
MOST_PAIRS = 64
"""Pairs of inputs that curvatures are of, in all outputs together."""

Pairs = NDArray[np.int64]


def faintly(values: Array) -> Array:
    """With more added than a few roundings below the smallest normal number can have lost; 0 stays 0.

    A way of 1e99 makes much of what a slope of 1e-324 was off by.
    """
    return np.where(values > 0, values + FAINT, values)


def over_way(deviation: Array, way: Array) -> Array:
    """What a deviation makes of a way, rounded up where it is faint; 0 if either is."""
    return np.where((deviation == 0) | (way == 0), 0.0, deviation * way + FAINT)


def no_pairs() -> Pairs:
    """Those of first-order models."""
    return np.empty((0, 2), np.int64)


def bend_at(curvature: Array, pairs: Pairs, away: Array) -> Array:
    """(...,) what curvatures (..., Q) add at ways (..., D) from the middle, in the order of the pairs."""
    total = np.zeros(np.broadcast_shapes(curvature.shape[:-1], away.shape[:-1]))
    for q, (i, j) in enumerate(pairs):
        total = total + curvature[..., q] * away[..., i] * away[..., j]
    return total


def bend_slope(curvature: Array, pairs: Pairs, away: Array) -> Array:
    """(..., D) the derivative of that."""
    total = np.zeros(np.broadcast_shapes((*curvature.shape[:-1], 1), away.shape))
    for q, (i, j) in enumerate(pairs):
        total[..., i] += curvature[..., q] * away[..., j]
        total[..., j] += curvature[..., q] * away[..., i]
    return total


@dataclass(frozen=True, eq=False)
class Hessian:
    """Second derivatives of one output of M, by its program.

    Attributes:
        program: of the derivatives by `inputs`.
        inputs: (G,) all that the output depends on.
    """

    program: Program
    inputs: NDArray[np.int64]

    @classmethod
    def of(cls, program: Program) -> Hessian | None:
        """Of the only output of a program; None where it has none that is known."""
        found = gradient(program)
        return None if found is None else cls(found[0], np.array(found[1], dtype=np.int64))

    def over(self, lower: Array, upper: Array) -> tuple[Array, Array]:
        """(K, G, G) least and greatest over boxes (K, D); NaN where they are not bounded."""
        found = evaluate(self.program, lower, upper, derivatives=True, rounding=False)
        low, high = found.jacobian_lower[:, :, self.inputs], found.jacobian_upper[:, :, self.inputs]
        # What is not defined has no derivatives, be it constant.
        lost = np.where(np.isfinite(found.lower) & np.isfinite(found.upper), 0.0, np.nan)[:, :, None]
        low, high = low + lost, high + lost
        # Either order of differentiation gives the same: both hold what there is.
        return np.maximum(low, low.swapaxes(1, 2)), np.minimum(high, high.swapaxes(1, 2))

    def pairs(self, lower: Array, upper: Array) -> set[tuple[int, int]]:
        """Those along which the output may bend over the box (D,)."""
        low, high = (part[0] for part in self.over(lower[None], upper[None]))
        rows, columns = np.nonzero(~((low == 0) & (high == 0)))
        own = self.inputs
        return {(int(own[i]), int(own[j])) for i, j in zip(rows, columns, strict=True) if own[i] <= own[j]}

    def positions(self, pairs: Pairs) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Which pairs are of inputs that the output depends on, and where they are in `inputs`."""
        known = np.flatnonzero(np.isin(pairs, self.inputs).all(axis=1))
        return known, *(np.searchsorted(self.inputs, pairs[known, side]) for side in (0, 1))

    def spread(self, curvature: Array, pairs: Pairs) -> Array:
        """(K, G, G) the second derivatives that curvatures (K, Q) stand for: exact, but for underflow."""
        count = len(self.inputs)
        found = np.zeros((len(curvature), count, count))
        known, rows, columns = self.positions(pairs)
        for q, i, j in zip(known, rows, columns, strict=True):
            found[:, i, j] = found[:, j, i] = curvature[:, q] * (2.0 if i == j else 1.0)
        return found

    def taken(self, second: Array, pairs: Pairs) -> Array:
        """(K, Q) the curvatures of second derivatives (K, G, G)."""
        curvature = np.zeros((len(second), len(pairs)))
        known, rows, columns = self.positions(pairs)
        for q, i, j in zip(known, rows, columns, strict=True):
            curvature[:, q] = second[:, i, j] * (0.5 if i == j else 1.0)
        return curvature


@dataclass(frozen=True, eq=False)
class Bending:
    """M's second derivatives at the middles of boxes and over shells around them.

    Attributes:
        hessian: of the output.
        point: at the middles, (K, G, G) least and greatest.
        shells: over the boxes shrunk, the whole boxes last.
        ways: (K, G) largest way from the middle along each input.
    """

    hessian: Hessian
    point: tuple[Array, Array]
    shells: list[tuple[Array, Array]]
    ways: Array

    @classmethod
    def boxes(
        cls, hessian: Hessian, middle: Array, shells: list[tuple[Array, Array]], reach: Array
    ) -> Bending:
        """Over shells of boxes (K, D) around their middles (K, D), with the largest ways (K, D) in them."""
        parts = [(middle, middle), *shells]
        below, above = (np.concatenate(part) for part in zip(*parts, strict=True))
        found = zip(*(np.split(part, len(parts)) for part in hessian.over(below, above)), strict=True)
        point, *rest = found
        return cls(hessian, point, rest, reach[:, hessian.inputs])

    def choices(self, pairs: Pairs) -> list[Array]:
        """(K, Q) curvatures to choose from: at the middle, and the middle of what there is over the box."""
        return [
            self.hessian.taken(_finite(0.5 * low + 0.5 * high), pairs)
            for low, high in (self.point, self.shells[-1])
        ]

    def deviation(self, curvature: Array, pairs: Pairs) -> Array:
        """(K, G, G) at most what each pair of inputs contributes to the last term; infinite: not bounded."""
        stated = self.hessian.spread(curvature, pairs)
        count = len(self.shells)
        total = np.zeros_like(stated)
        with np.errstate(invalid="ignore", over="ignore"):
            for k, (low, high) in enumerate(self.shells):
                weight = (1 - (k + 0.5) / count) / count
                away = np.maximum(np.maximum(high - stated, stated - low), 0.0)
                away = np.where(np.isnan(low) | np.isnan(high), np.inf, away)
                total = total + weight * faintly(away)
            total = faintly((total + 8 * _EPS * np.abs(stated)) * (1 + 32 * _EPS))
            found = over_way(over_way(total, self.ways[:, :, None]), self.ways[:, None, :])
        return np.where(np.isnan(found), np.inf, found)


def quadratic_remainder(
    bending: Bending,
    point: Enclosure,
    whole: Enclosure,
    reach: Array,
    *,
    value: Array,
    slope: Array,
    curvature: Array,
    pairs: Pairs,
) -> tuple[Array, Array]:
    """(K, D) shares of the remainder and (K,) itself, of second-order models over boxes.

    Args:
        bending: second derivatives there.
        point: M and its derivatives at the middles.
        whole: the same over the boxes, with roundings.
        reach: (K, D) largest way from the middle along each input.
        value: (K,) at the middle.
        slope: (K, D) there.
        curvature: (K, Q).
        pairs: (Q, 2).
    """
    parts = bending.deviation(curvature, pairs)
    with np.errstate(invalid="ignore", over="ignore"):
        gap = np.maximum(np.abs(value - point.lower[:, 0]), np.abs(value - point.upper[:, 0]))
        gap = gap + 4 * _EPS * np.abs(value) + whole.rounding[:, 0] * (1 + 4 * _EPS)
        steep = np.maximum(point.jacobian_upper[:, 0] - slope, slope - point.jacobian_lower[:, 0])
        steep = faintly((steep + 4 * _EPS * np.abs(slope)) * (1 + 16 * _EPS))
        shares = over_way(steep, reach)
        shares[:, bending.hessian.inputs] += parts.sum(axis=2)
        terms = parts.shape[1] ** 2 + slope.shape[1] + 16
        remainder = (shares.sum(axis=1) + gap) * (1 + terms * _EPS)
    moving = reach > 0
    bounded = np.isfinite(whole.jacobian_lower[:, 0]) & np.isfinite(whole.jacobian_upper[:, 0])
    sound = np.logical_and.reduce(bounded | ~moving, axis=1)
    sound &= np.isfinite(whole.lower[:, 0]) & np.isfinite(whole.upper[:, 0])
    # Of inputs that the output does not depend on no curvature is accounted for.
    known, _, _ = bending.hessian.positions(pairs)
    sound &= ~np.delete(curvature != 0, known, axis=1).any(axis=1)
    shares = np.where(np.isnan(shares), np.inf, shares)
    return shares, np.where(sound & ~np.isnan(remainder), remainder, np.inf)


def _finite(values: Array) -> Array:
    return np.where(np.isfinite(values), values, 0.0)
