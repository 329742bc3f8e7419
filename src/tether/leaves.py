"""A first-order model of one output of M over each of many boxes, and by proof how far M can be from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tether.data import HALF_TURN, Array
from tether.programs import Enclosure, Program, evaluate

_EPS = np.finfo(np.float64).eps
SHELLS = 4
"""Nested boxes over which derivatives are enclosed."""


@dataclass(frozen=True, eq=False)
class Leaves:
    """A(s) = value + slope (s - middle) over each of K boxes.

    Attributes:
        middle: (K, D).
        value: (K,).
        slope: (K, D).
        remainder: (K,) at least ``|M - A|`` over the box, for M's exact value and for what NumPy computes of
            it; infinite where nothing is known.
        shares: (K, D) what each input contributes to the remainder.
    """

    middle: Array
    value: Array
    slope: Array
    remainder: Array
    shares: Array

    def take(self, rows: NDArray[np.int64]) -> Leaves:
        """Some of them."""
        return Leaves(*(part[rows] for part in self._parts()))

    def replaced(self, rows: NDArray[np.int64], others: Leaves) -> Leaves:
        """With the first of the others in the place of some, and the rest of the others at the end."""
        joined = [
            np.concatenate([a, b[len(rows) :]]) for a, b in zip(self._parts(), others._parts(), strict=True)
        ]
        for part, other in zip(joined, others._parts(), strict=True):
            part[rows] = other[: len(rows)]
        return Leaves(*joined)

    @classmethod
    def joined(cls, parts: list[Leaves]) -> Leaves:
        """One after the other."""
        return cls(*(np.concatenate(part) for part in zip(*(p._parts() for p in parts), strict=True)))

    def _parts(self) -> tuple[Array, ...]:
        return self.middle, self.value, self.slope, self.remainder, self.shares


def expand_boxes(
    program: Program, lower: Array, upper: Array, *, pinned: Array | None = None, angle: bool = False
) -> Leaves:
    """First-order models over boxes (K, D) of the only output of `program`.

    Around their middles; a box that holds the `pinned` values (D,), NaN for inputs that have none, around
    these, and by M's derivative there: where M is followed exactly, it is so to first order.

    By the mean-value theorem along the segment from the middle m to s: ``M(s) - M(m) - J (s - m)`` is the
    integral along it of the derivative's deviation from J, times ``s - m``. Sound because after a share t of
    the way a point lies in the box shrunk to t around m: of n equal pieces of the way, piece k lies in shell
    k of n, and the integral is at most the mean of the deviations enclosed over the shells. J is the
    derivative at the middle, or the middle of what is enclosed over the box, whichever leaves less; or 0,
    where M's range over the box says more than its derivatives do (a slope may be infinite).
    """
    middle = np.clip(0.5 * lower + 0.5 * upper, lower, upper)
    held = np.zeros(len(lower), dtype=bool)
    if pinned is not None and not np.isnan(pinned).all():
        agreed = np.isnan(pinned) | ((lower <= pinned) & (pinned <= upper))
        held = np.logical_and.reduce(agreed, axis=1)
        middle = np.where(held[:, None] & ~np.isnan(pinned), pinned, middle)
    reach = np.maximum(upper - middle, middle - lower) * (1 + _EPS)
    point = evaluate(program, middle, middle, derivatives=True)
    shells = [
        evaluate(program, *_shell(lower, upper, middle, k / SHELLS), derivatives=True, rounding=k == SHELLS)
        for k in range(1, SHELLS + 1)
    ]
    whole = shells[-1]
    value = _finite(0.5 * point.lower + 0.5 * point.upper)[:, 0]
    gap = np.maximum(np.abs(value - point.lower[:, 0]), np.abs(value - point.upper[:, 0]))
    gap = gap + 4 * _EPS * np.abs(value) + whole.rounding[:, 0] * (1 + 4 * _EPS)
    choices = (
        0.5 * (point.jacobian_lower + point.jacobian_upper)[:, 0],
        0.5 * (whole.jacobian_lower + whole.jacobian_upper)[:, 0],
    )
    models = [_by_slopes(_finite(slope), shells, reach, gap) for slope in choices]
    models.append(_by_range(whole))
    remainders = np.stack([remainder for _, _, remainder in models])
    if angle:  # on the circle nothing is farther than half a turn
        remainders = np.minimum(remainders, HALF_TURN)
    best = np.where(held & np.isfinite(remainders[0]), 0, np.argmin(remainders, axis=0))
    rows = np.arange(len(lower))
    slopes = np.stack([slope for slope, _, _ in models])[best, rows]
    shares = np.stack([part for _, part, _ in models])[best, rows]
    ranged = 0.5 * whole.lower[:, 0] + 0.5 * whole.upper[:, 0]
    value = np.where(best == len(choices), _finite(ranged), value)
    return Leaves(middle, value, slopes, remainders[best, rows], shares)


def _shell(lower: Array, upper: Array, middle: Array, share: float) -> tuple[Array, Array]:
    """The boxes, shrunk to a share around their middles, outward."""
    if share == 1:
        return lower, upper
    slack = 4 * _EPS * np.maximum(np.abs(lower), np.abs(upper))
    below = np.maximum(middle - share * (middle - lower) - slack, lower)
    above = np.minimum(middle + share * (upper - middle) + slack, upper)
    return below, above


def _by_slopes(slope: Array, shells: list[Enclosure], reach: Array, gap: Array) -> tuple[Array, Array, Array]:
    """Slope (K, D), shares (K, D) and remainder (K,) with that slope."""
    deviation = np.zeros_like(slope)
    undefined = np.zeros(len(slope), dtype=bool)
    for shell in shells:
        with np.errstate(invalid="ignore", over="ignore"):
            beyond = np.maximum(shell.jacobian_upper[:, 0] - slope, slope - shell.jacobian_lower[:, 0])
        deviation = deviation + _infinite(beyond) / len(shells)
        # Where a value is not defined, derivatives say nothing of the jump there may be.
        undefined |= np.isnan(shell.lower[:, 0]) | np.isnan(shell.upper[:, 0])
    deviation = (deviation + 4 * _EPS * np.abs(slope)) * (1 + 16 * _EPS)
    with np.errstate(invalid="ignore", over="ignore"):
        shares = _infinite(np.where(reach > 0, deviation * reach, 0.0))
        remainder = (shares.sum(axis=1) + gap) * (1 + (slope.shape[1] + 8) * _EPS)
    return slope, shares, np.where(undefined, np.inf, _infinite(remainder))


def _by_range(whole: Enclosure) -> tuple[Array, Array, Array]:
    """The same without any slope, from M's range, which contains what NumPy computes."""
    low, high = whole.lower[:, 0], whole.upper[:, 0]
    with np.errstate(invalid="ignore", over="ignore"):
        half = 0.5 * (high - low) + 8 * _EPS * np.maximum(np.abs(low), np.abs(high))
    slope = np.zeros(whole.jacobian_lower.shape[::2])
    return slope, np.full_like(slope, np.nan), _infinite(half * (1 + 4 * _EPS))


def _finite(values: Array) -> Array:
    return np.where(np.isfinite(values), values, 0.0)


def _infinite(values: Array) -> Array:
    """What is no number is not bounded."""
    return np.where(np.isnan(values), np.inf, values)
