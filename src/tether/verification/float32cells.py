"""Deltas in float32 of what is claimed over cells; the error analysis is that of `float32`."""

from __future__ import annotations

import numpy as np

from tether.data import Array
from tether.verification.cellclaims import CellClaim
from tether.verification.float32 import EPS, FLUSHED, HALF_TURN, U, compensation, down, nearest, up


def _outer(claim: CellClaim) -> Array:
    """(K,) the radii that no accepted input exceeds, as the model rounds them."""
    memories, scale = claim.cells("memories"), claim.cells("scale")
    box = np.maximum(np.abs(claim.cells("box_lower")), np.abs(claim.cells("box_upper"))) / scale
    largest, inputs = max(float(box.max()), float(np.abs(memories).max())), memories.shape[1]
    return claim.cells("radii") * (1 + (inputs + 8) * EPS) + 8 * EPS * largest * np.sqrt(inputs)


def _moved(claim: CellClaim) -> Array:
    """(K, D) by how much rounding moves the memories."""
    return nearest(claim.centers) - claim.centers


def _shift(claim: CellClaim) -> Array:
    lengths = np.sqrt(((_moved(claim) / claim.cells("scale")) ** 2).sum(axis=1))
    return lengths * (1 + 1e-12) + np.sqrt(claim.cells("memories").shape[1]) * 2.0**-62


def _balls_are_held(claim: CellClaim) -> bool:
    """Whether rounding leaves something of every ball."""
    inner = (_outer(claim) - _shift(claim)) / (1 + (claim.cells("memories").shape[1] + 12) * U)
    return bool((inner > 2.0**-50).all())


def largest_delta(claim: CellClaim) -> Array | None:
    """(P,) per output; None where float32 is too coarse."""
    if not _balls_are_held(claim):
        return None
    low, high = up(claim.bounds("lower")), down(claim.bounds("upper"))
    middle = nearest(0.5 * claim.bounds("lower") + 0.5 * claim.bounds("upper"))
    low, high = np.where(low > high, middle, low), np.where(low > high, middle, high)
    outside = np.maximum(np.maximum(claim.bounds("lower") - low, high - claim.bounds("upper")), 0.0)
    spread = up((claim.bounds("delta") + outside) * (1 + 1e-15) + 8 * FLUSHED).astype(np.float64)
    size = np.maximum(np.abs(low), np.abs(high)).astype(np.float64)
    if not (np.isfinite(spread) & (size < 2.0**100)).all():
        return None
    if claim.target == "increment":
        ball = np.abs(claim.centers) + _outer(claim)[:, None] * claim.cells("scale")
        box = np.maximum(np.abs(claim.box[0]), np.abs(claim.box[1]))
        size = size + np.minimum(ball, box)[:, claim.schema.advanced]
    largest = (spread + U * size * (1 + 2.0**-10)) * compensation(len(claim.schema.inputs)) ** 4
    return np.where(claim.schema.output_angles, np.minimum(largest, HALF_TURN), largest).max(axis=0)
