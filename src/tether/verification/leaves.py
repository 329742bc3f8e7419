"""A at points of leaves, in numbers that hold what it is without rounding, and M's distance from it there."""

from __future__ import annotations

import numpy as np
from flint import arb
from numpy.typing import NDArray

from tether.verification import intervals
from tether.verification.claim import Claim
from tether.verification.elementary import constant
from tether.verification.intervals import Array, Interval, add_up

Index = NDArray[np.int64]
_TURN = constant(lambda: 2 * arb.pi())


def points_of(claim: Claim, low: Array, high: Array) -> Array:
    """(B, D) from which M is followed: the middle, or the pinned values of a box that holds them all."""
    pinned = claim.bounds("pinned")
    middle = np.clip(0.5 * low + 0.5 * high, low, high)
    free = np.isnan(pinned)
    held = np.logical_and.reduce(free | ((low <= pinned) & (pinned <= high)), axis=1)
    return np.where(held[:, None] & ~free, pinned, middle)


def model_at(claim: Claim, leaf: Index, point: Array) -> Interval:
    """(B,) least and greatest that A of leaves (B,) can be at points (B, D)."""
    value, slope = claim.bounds("value")[leaf], claim.bounds("slope")[leaf]
    total = value, value
    for column, reference in enumerate(claim.bounds("reference").tolist()):
        at = point[:, column]
        way = intervals.subtract((at, at), (reference, reference))
        total = intervals.add(total, intervals.multiply((slope[:, column], slope[:, column]), way))
    return total


def gap_at(claim: Claim, output: Index, exact: Interval, model: Interval) -> tuple[Interval, Array]:
    """What to add to M, in whole turns, and how far it can then be from A; of outputs (B,), each (B,).

    Sound because a distance on the circle is at most that on the line, whatever turns are added.
    """
    low, high = exact
    count = np.round((0.5 * model[0] + 0.5 * model[1] - 0.5 * low - 0.5 * high) / (2 * np.pi))
    count = np.where(np.isfinite(count) & claim.schema.output_angles[output], count, 0.0)
    whole = intervals.multiply((count, count), _TURN)
    turns = np.where(count == 0, 0.0, whole[0]), np.where(count == 0, 0.0, whole[1])
    low, high = intervals.add((low, high), turns)
    return turns, np.maximum(add_up(high, -model[0]), add_up(model[1], -low))
