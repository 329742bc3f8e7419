"""A at points of leaves, in numbers that hold what it is without rounding, and M's distance from it there."""

from __future__ import annotations

import numpy as np
from flint import arb
from numpy.typing import NDArray

from tether.verification import intervals
from tether.verification.elementary import constant
from tether.verification.intervals import Array, Interval, add_up
from tether.verification.leafclaims import LeafClaim

Index = NDArray[np.int64]
_TURN = constant(lambda: 2 * arb.pi())


def model_at(claim: LeafClaim, leaf: Index, point: Array) -> Interval:
    """(B,) least and greatest that A of leaves (B,) can be at points (B, D)."""
    value, slope = claim.bounds("value")[leaf], claim.bounds("slope")[leaf]
    total = value, value
    for column, reference in enumerate(claim.bounds("reference").tolist()):
        at = point[:, column]
        way = intervals.subtract((at, at), (reference, reference))
        total = intervals.add(total, intervals.multiply((slope[:, column], slope[:, column]), way))
    curvature = claim.curvature[leaf]
    for number, (one, two) in enumerate(claim.pairs):
        ways = _way(claim, leaf, point, one), _way(claim, leaf, point, two)
        product = intervals.square(ways[0]) if one == two else intervals.multiply(*ways)
        own = curvature[:, number]
        total = intervals.add(total, intervals.multiply((own, own), product))
    return total


def slopes_at(claim: LeafClaim, leaf: Index, point: Array) -> list[Interval]:
    """By input, (B,) least and greatest that the slope of A of leaves (B,) can be at points (B, D)."""
    slope, curvature = claim.bounds("slope")[leaf], claim.curvature[leaf]
    found: list[Interval] = [(column, column) for column in slope.T]
    for number, (one, two) in enumerate(claim.pairs):
        own = curvature[:, number], curvature[:, number]
        for along, other in ((one, two), (two, one)):  # of a square both, which is twice
            part = intervals.multiply(own, _way(claim, leaf, point, other))
            found[along] = intervals.add(found[along], part)
    return found


def swing_of(claim: LeafClaim) -> Array:
    """(L,) at most what curvatures add to A anywhere in a leaf, but for roundings."""
    far, total = np.zeros_like(claim.trees.lower), np.zeros(len(claim))
    if claim.pairs:
        far = np.maximum(np.abs(claim.trees.upper - claim.centre), np.abs(claim.centre - claim.trees.lower))
    for number, (one, two) in enumerate(claim.pairs):
        total = total + np.abs(claim.curvature[:, number]) * far[:, one] * far[:, two]
    return total


def _way(claim: LeafClaim, leaf: Index, point: Array, column: int) -> Interval:
    """(B,) from where curvatures are counted."""
    centre, at = claim.centre[leaf, column], point[:, column]
    return intervals.subtract((at, at), (centre, centre))


def gap_at(claim: LeafClaim, output: Index, exact: Interval, model: Interval) -> tuple[Interval, Array]:
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
