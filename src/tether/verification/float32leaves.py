"""Deltas in float32 of what is claimed over leaves; the error analysis is that of `float32`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tether.data import Array
from tether.verification.float32 import EPS, FLUSHED, HALF_TURN, U, compensation, down, nearest, up
from tether.verification.leafclaims import LeafClaim


def largest_delta(claim: LeafClaim) -> Array | None:
    """(P,) per output; None where float32 is too coarse."""
    trees, known, inputs = claim.trees, claim.claimed, len(claim.schema.inputs)
    cuts = up(trees.threshold[trees.cut >= 0])
    if ((cuts != 0) & (np.abs(cuts) < FLUSHED)).any():
        return None
    slope = np.where(known[:, None], claim.bounds("slope"), 0.0)
    own = np.where(known, claim.bounds("value"), 0.0)
    point = _points(claim)
    away = point - claim.bounds("reference")
    reach = np.maximum(np.abs(trees.upper - point), np.abs(point - trees.lower))
    bend = _Bend.of(claim, point, reach, slope)
    value = nearest(own + (slope * away).sum(axis=1) + bend.value)
    rough = np.abs(own) + (np.abs(slope) * np.abs(away)).sum(axis=1)
    slope = slope + bend.slope
    size = np.abs(value) + ((np.abs(slope) * reach).sum(axis=1) + bend.swing) * (1 + 64 * U)
    largest = 1 + float(reach.max()) + float(np.abs(slope).max()) + float(size.max())
    slack = (inputs + 4) * EPS * rough + (16 + 4 * inputs) * FLUSHED * largest
    slack = slack + bend.slack + (len(claim.pairs) + 4) * EPS * rough * bool(claim.pairs)
    remainder = up((claim.bounds("remainder") + slack) * (1 + 1e-15)).astype(np.float64)
    tables = (point, value, nearest(slope), down(claim.bounds("half_width")), remainder[known])
    if not all(np.isfinite(table).all() for table in (*tables, nearest(claim.curvature))):
        return None
    if not (bend.steepest < 2.0**100).all():
        return None
    return _over_leaves(claim, np.where(known, remainder, 0.0), size)


class _Bend(NamedTuple):
    """What curvatures make of A around float32 points (L, D); zeros where there are none.

    Attributes:
        value: (L,) that they add at the point.
        slope: (L, D) that they add to its slope there.
        swing: (L,) the largest that their terms can be in the leaf.
        slack: (L,) what moving them rounds in float64, but for the value's own parts, and flushing costs.
        steepest: (L,) the largest product on the way.
    """

    value: Array
    slope: Array
    swing: Array
    slack: Array
    steepest: Array

    @classmethod
    def of(cls, claim: LeafClaim, point: Array, reach: Array, slope: Array) -> _Bend:
        """From slopes (L, D) at the reference, in leaves that reach so far (L, D) from the points."""
        count = len(point)
        value, swing, more = np.zeros(count), np.zeros(count), np.zeros_like(point)
        if not claim.pairs:
            return cls(value, more, swing, swing, swing)
        away, steep, rough = point - claim.centre, np.abs(slope), np.zeros(count)
        curvature = np.where(claim.claimed[:, None], claim.curvature, 0.0)
        for number, (one, two) in enumerate(claim.pairs):
            own = curvature[:, number]
            value = value + own * away[:, one] * away[:, two]
            rough = rough + np.abs(own * away[:, one] * away[:, two])
            swing = swing + np.abs(own) * reach[:, one] * reach[:, two]
            for along, other in ((one, two), (two, one)):
                more[:, along] += own * away[:, other]
                steep[:, along] += np.abs(own * away[:, other])
        terms, largest = len(claim.pairs) + 4, np.abs(curvature).max(axis=1)
        slack = terms * EPS * (rough + (steep * reach).sum(axis=1))
        slack = slack + 8 * terms * FLUSHED * (1 + float(reach.max())) ** 2 * (1 + float(largest.max()))
        return cls(value, more, swing, slack, largest * reach.max(axis=1))


def _points(claim: LeafClaim) -> Array:
    """(L, D) float32 numbers around which the leaves' A is written."""
    low, high, pinned = claim.trees.lower, claim.trees.upper, claim.bounds("pinned")
    middle = np.minimum(np.maximum(0.5 * low + 0.5 * high, low), high)
    return nearest(np.where((low <= pinned) & (pinned <= high), pinned, middle))


def _over_leaves(claim: LeafClaim, remainder: Array, size: Array) -> Array | None:
    """(P,) the largest delta of each output's leaves, from remainders (L,) and sizes of A (L,)."""
    output, known, inputs = claim.trees.owner, claim.claimed, len(claim.schema.inputs)
    room = down(claim.bounds("half_width")).max(axis=0)[output]
    left = np.maximum(np.where(known, claim.bounds("most")[output], 0.0) - remainder, 0.0)
    width = np.minimum(room, down(left)).astype(np.float64)
    if not (size + width < 2.0**100).all():
        return None
    terms = inputs + (len(claim.pairs) + 2 if claim.pairs else 0)
    more = compensation(terms)
    magnified = (terms + 8) * U * (1 + 2.0**-10)
    spread = width + remainder + magnified * (size + width) * more
    size = size + width
    if claim.target == "increment":
        extent = np.maximum(np.abs(claim.trees.lower), np.abs(claim.trees.upper))
        size = size + extent[np.arange(len(size)), claim.schema.advanced[output]]
    delta = (spread + U * size * (1 + 2.0**-10)) * more**4
    delta = np.where(claim.schema.output_angles[output], np.minimum(delta, HALF_TURN), delta)
    return np.array([delta[known & (output == k)].max() for k in range(len(claim.schema.outputs))])
