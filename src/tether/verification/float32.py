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

import numpy as np

from tether.data import Array
from tether.verification.claim import Claim

U, EPS, FLUSHED = 2.0**-24, 2.0**-52, 2.0**-126
HALF_TURN = float(np.float32(np.pi))


def single_deltas(claim: Claim) -> list[float | None]:
    """Per output, the largest delta in float32; None where float32 is too coarse, or nothing can be said."""
    none: list[float | None] = [None] * len(claim.schema.outputs)
    if not claim.level.everywhere:
        return none
    with np.errstate(all="ignore"):
        if not _box_is_held(claim) or not _scales_are_held(claim):
            return none
        delta = claim.single_delta()
    return none if delta is None else delta.tolist()


def _box_is_held(claim: Claim) -> bool:
    """Whether float32 numbers that are not subnormal are left of every input's range."""
    low, high = up(claim.box[0]), down(claim.box[1])
    faint = [(values != 0) & (np.abs(values) < FLUSHED) for values in (low, high)]
    low = np.where(faint[0], np.where(low > 0, FLUSHED, 0.0), low)
    high = np.where(faint[1], np.where(high < 0, -FLUSHED, 0.0), high)
    angles = claim.schema.input_angles
    low = np.where(angles, np.maximum(low, up(np.array(-np.pi))), low)
    high = np.where(angles, np.minimum(high, down(np.array(np.nextafter(np.pi, 0.0)))), high)
    return bool((low <= high).all())


def _scales_are_held(claim: Claim) -> bool:
    scale = claim.cells("scale")
    return bool(((scale >= 2.0**-60) & (scale <= 2.0**60)).all())


def compensation(terms: int) -> float:
    """A factor that makes up for the roundings of delta itself, of so many terms."""
    return 1 + (terms + 24) * 2 * U


def nearest(values: Array) -> Array:
    """Rounded to the nearest float32 number."""
    return np.asarray(values, np.float64).astype(np.float32).astype(np.float64)


def down(values: Array) -> Array:
    """Rounded down."""
    rounded = np.asarray(values, np.float64).astype(np.float32)
    return np.where(rounded > values, np.nextafter(rounded, np.float32(-np.inf)), rounded)


def up(values: Array) -> Array:
    """Rounded up."""
    return -down(-np.asarray(values, np.float64))
