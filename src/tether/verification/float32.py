"""The delta of a model that is executed in float32, worked out again from its file.

The error analysis is the one that the format states (a model's float32 tables are made from its file by it):
with ``u = 2^-24`` and D inputs,

- *A* is moved in float64 to a float32 point of each leaf: its middle, but what is pinned where the leaf holds
  that. Rounding its coefficients, its products and their sum costs ``κ (S + h)``, ``κ = (D + 8) u (1 +
  2^-10)``, with S the size of A's parts and h the half-width.
- *Second order*: of a leaf with curvatures Q terms are added, ``C_ij (s - m)_i (s - m)_j`` around the same
  point m, where the slope is then another. Each takes five roundings, and one more of the sum: D + Q + 2
  stands for D.
- *Cells* are found by distances that err by a relative (D + 8) u and by how far rounding moves a memory.
  *Leaves* are found without error: a float32 number is below a threshold if and only if it is below the
  smallest float32 number that is at least that threshold. Nothing between 0 and 2^-126 is a threshold.
- The last sum costs u of the output, flushing to zero 2^-126 an operation, and a factor of ``1 + (D + 24)
  2^-23``, taken four times over the roundings of a row, makes up for those of delta itself.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tether.data import Array
from tether.verification.claim import Claim

_U, _EPS, _FLUSHED = 2.0**-24, 2.0**-52, 2.0**-126
_HALF_TURN = float(np.float32(np.pi))


def single_deltas(claim: Claim) -> list[float | None]:
    """Per output, the largest delta in float32; None where float32 is too coarse, or nothing can be said."""
    none: list[float | None] = [None] * len(claim.schema.outputs)
    if not claim.level.everywhere:
        return none
    with np.errstate(all="ignore"):
        if not _box_is_held(claim) or not _scales_are_held(claim):
            return none
        delta = _boxes(claim) if claim.kind == "boxes" else _interval(claim)
    return none if delta is None else delta.tolist()


def _box_is_held(claim: Claim) -> bool:
    """Whether float32 numbers that are not subnormal are left of every input's range."""
    low, high = _up(claim.box[0]), _down(claim.box[1])
    faint = [(values != 0) & (np.abs(values) < _FLUSHED) for values in (low, high)]
    low = np.where(faint[0], np.where(low > 0, _FLUSHED, 0.0), low)
    high = np.where(faint[1], np.where(high < 0, -_FLUSHED, 0.0), high)
    angles = claim.schema.input_angles
    low = np.where(angles, np.maximum(low, _up(np.array(-np.pi))), low)
    high = np.where(angles, np.minimum(high, _down(np.array(np.nextafter(np.pi, 0.0)))), high)
    return bool((low <= high).all())


def _scales_are_held(claim: Claim) -> bool:
    scale = claim.cells("scale")
    return bool(((scale >= 2.0**-60) & (scale <= 2.0**60)).all())


# --- boxes


def _boxes(claim: Claim) -> Array | None:
    trees, known, inputs = claim.trees, claim.claimed, len(claim.schema.inputs)
    cuts = _up(trees.threshold[trees.cut >= 0])
    if ((cuts != 0) & (np.abs(cuts) < _FLUSHED)).any():
        return None
    slope = np.where(known[:, None], claim.bounds("slope"), 0.0)
    own = np.where(known, claim.bounds("value"), 0.0)
    point = _points(claim)
    away = point - claim.bounds("reference")
    reach = np.maximum(np.abs(trees.upper - point), np.abs(point - trees.lower))
    bend = _Bend.of(claim, point, reach, slope)
    value = _nearest(own + (slope * away).sum(axis=1) + bend.value)
    rough = np.abs(own) + (np.abs(slope) * np.abs(away)).sum(axis=1)
    slope = slope + bend.slope
    size = np.abs(value) + ((np.abs(slope) * reach).sum(axis=1) + bend.swing) * (1 + 64 * _U)
    largest = 1 + float(reach.max()) + float(np.abs(slope).max()) + float(size.max())
    slack = (inputs + 4) * _EPS * rough + (16 + 4 * inputs) * _FLUSHED * largest
    slack = slack + bend.slack + (len(claim.pairs) + 4) * _EPS * rough * bool(claim.pairs)
    remainder = _up((claim.bounds("remainder") + slack) * (1 + 1e-15)).astype(np.float64)
    tables = (point, value, _nearest(slope), _down(claim.bounds("half_width")), remainder[known])
    if not all(np.isfinite(table).all() for table in (*tables, _nearest(claim.curvature))):
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
    def of(cls, claim: Claim, point: Array, reach: Array, slope: Array) -> _Bend:
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
        slack = terms * _EPS * (rough + (steep * reach).sum(axis=1))
        slack = slack + 8 * terms * _FLUSHED * (1 + float(reach.max())) ** 2 * (1 + float(largest.max()))
        return cls(value, more, swing, slack, largest * reach.max(axis=1))


def _points(claim: Claim) -> Array:
    """(L, D) float32 numbers around which the leaves' A is written."""
    low, high, pinned = claim.trees.lower, claim.trees.upper, claim.bounds("pinned")
    middle = np.minimum(np.maximum(0.5 * low + 0.5 * high, low), high)
    return _nearest(np.where((low <= pinned) & (pinned <= high), pinned, middle))


def _over_leaves(claim: Claim, remainder: Array, size: Array) -> Array | None:
    """(P,) the largest delta of each output's leaves, from remainders (L,) and sizes of A (L,)."""
    output, known, inputs = claim.trees.owner, claim.claimed, len(claim.schema.inputs)
    room = _down(claim.bounds("half_width")).max(axis=0)[output]
    left = np.maximum(np.where(known, claim.bounds("most")[output], 0.0) - remainder, 0.0)
    width = np.minimum(room, _down(left)).astype(np.float64)
    if not (size + width < 2.0**100).all():
        return None
    compensation = _compensation(claim)
    magnified = (inputs + _more(claim) + 8) * _U * (1 + 2.0**-10)
    spread = width + remainder + magnified * (size + width) * compensation
    size = size + width
    if claim.target == "increment":
        extent = np.maximum(np.abs(claim.trees.lower), np.abs(claim.trees.upper))
        size = size + extent[np.arange(len(size)), claim.schema.advanced[output]]
    delta = (spread + _U * size * (1 + 2.0**-10)) * compensation**4
    delta = np.where(claim.schema.output_angles[output], np.minimum(delta, _HALF_TURN), delta)
    return np.array([delta[known & (output == k)].max() for k in range(len(claim.schema.outputs))])


# --- intervals


def _outer(claim: Claim) -> Array:
    """(K,) the radii that no accepted input exceeds, as the model rounds them."""
    memories, scale = claim.cells("memories"), claim.cells("scale")
    box = np.maximum(np.abs(claim.cells("box_lower")), np.abs(claim.cells("box_upper"))) / scale
    largest, inputs = max(float(box.max()), float(np.abs(memories).max())), memories.shape[1]
    return claim.cells("radii") * (1 + (inputs + 8) * _EPS) + 8 * _EPS * largest * np.sqrt(inputs)


def _moved(claim: Claim) -> Array:
    """(K, D) by how much rounding moves the memories."""
    return _nearest(claim.centers) - claim.centers


def _shift(claim: Claim) -> Array:
    lengths = np.sqrt(((_moved(claim) / claim.cells("scale")) ** 2).sum(axis=1))
    return lengths * (1 + 1e-12) + np.sqrt(claim.cells("memories").shape[1]) * 2.0**-62


def _balls_are_held(claim: Claim) -> bool:
    """Whether rounding leaves something of every ball."""
    inner = (_outer(claim) - _shift(claim)) / (1 + (claim.cells("memories").shape[1] + 12) * _U)
    return bool((inner > 2.0**-50).all())


def _interval(claim: Claim) -> Array | None:
    if not _balls_are_held(claim):
        return None
    low, high = _up(claim.bounds("lower")), _down(claim.bounds("upper"))
    middle = _nearest(0.5 * claim.bounds("lower") + 0.5 * claim.bounds("upper"))
    low, high = np.where(low > high, middle, low), np.where(low > high, middle, high)
    outside = np.maximum(np.maximum(claim.bounds("lower") - low, high - claim.bounds("upper")), 0.0)
    spread = _up((claim.bounds("delta") + outside) * (1 + 1e-15) + 8 * _FLUSHED).astype(np.float64)
    size = np.maximum(np.abs(low), np.abs(high)).astype(np.float64)
    if not (np.isfinite(spread) & (size < 2.0**100)).all():
        return None
    if claim.target == "increment":
        ball = np.abs(claim.centers) + _outer(claim)[:, None] * claim.cells("scale")
        box = np.maximum(np.abs(claim.box[0]), np.abs(claim.box[1]))
        size = size + np.minimum(ball, box)[:, claim.schema.advanced]
    largest = (spread + _U * size * (1 + 2.0**-10)) * _compensation(claim) ** 4
    return np.where(claim.schema.output_angles, np.minimum(largest, _HALF_TURN), largest).max(axis=0)


def _compensation(claim: Claim) -> float:
    return 1 + (len(claim.schema.inputs) + _more(claim) + 24) * 2 * _U


def _more(claim: Claim) -> int:
    """Terms that leaves of second order have besides."""
    return len(claim.pairs) + 2 if claim.pairs else 0


def _nearest(values: Array) -> Array:
    return np.asarray(values, np.float64).astype(np.float32).astype(np.float64)


def _down(values: Array) -> Array:
    rounded = np.asarray(values, np.float64).astype(np.float32)
    return np.where(rounded > values, np.nextafter(rounded, np.float32(-np.inf)), rounded)


def _up(values: Array) -> Array:
    return -_down(-np.asarray(values, np.float64))
