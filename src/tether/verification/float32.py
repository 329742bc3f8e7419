"""The delta of a model that is executed in float32, worked out again from its file.

The error analysis is the one that the format states (a model's float32 tables are made from its file by
it): with
``u = 2^-24``, D inputs and B blended cells, memories are rounded in physical units and A is moved there;
rounding A,
its products, their sum and the average costs ``κ (S + h)``, ``κ = (D + 2B + 8) u (1 + 2^-10)``, with S the
size of A's parts and h the half-width, and 8 u more where angles are moved by whole turns before they are
averaged; the last
sum costs u of the output; and a factor of ``1 + (D + 2B + 24) 2^-23`` makes up for the roundings of delta
itself.
"""

from __future__ import annotations

import numpy as np

from tether.data import Array
from tether.verification.claim import Claim

_U, _EPS, _FLUSHED = 2.0**-24, 2.0**-52, 2.0**-126
_HALF_TURN = float(np.float32(np.pi))
_QUARTER = float(np.nextafter(np.float32(0.5 * np.pi), np.float32(0.0)))


def single_deltas(claim: Claim) -> list[float | None]:
    """Per output, the largest delta in float32; None where float32 is too coarse, or nothing can be said."""
    none: list[float | None] = [None] * len(claim.schema.outputs)
    if claim.kind == "boxes" or claim.evidence not in ("proved", "lipschitz"):
        return none
    with np.errstate(all="ignore"):
        delta = _interval(claim) if claim.kind == "interval" else _affine(claim)
    return none if delta is None or not _room(claim) else delta.max(axis=0).tolist()


def _outer(claim: Claim) -> Array:
    """(K,) the radii that no accepted input exceeds, as the model rounds them."""
    memories, scale = claim.cells("memories"), claim.cells("scale")
    box = np.maximum(np.abs(claim.cells("box_lower")), np.abs(claim.cells("box_upper"))) / scale
    largest, inputs = max(float(box.max()), float(np.abs(memories).max())), memories.shape[1]
    return claim.cells("radii") * (1 + (inputs + 8) * _EPS) + 8 * _EPS * largest * np.sqrt(inputs)


def _moved(claim: Claim) -> Array:
    """(K, D) by how much rounding moves the memories."""
    return claim.centers.astype(np.float32) - claim.centers


def _shift(claim: Claim) -> Array:
    lengths = np.sqrt(((_moved(claim) / claim.cells("scale")) ** 2).sum(axis=1))
    return lengths * (1 + 1e-12) + np.sqrt(claim.cells("memories").shape[1]) * 2.0**-62


def _room(claim: Claim) -> bool:
    """Whether rounding leaves something of every ball and of the box."""
    scale, inputs = claim.cells("scale"), claim.cells("memories").shape[1]
    if not ((scale >= 2.0**-60) & (scale <= 2.0**60)).all():
        return False
    radii = _outer(claim)
    if claim.kind == "affine":
        radii = np.minimum(radii, claim.bounds("radii")[:, -1])
    if not ((radii - _shift(claim)) / (1 + (inputs + 12) * _U) > 2.0**-50).all():
        return False
    low, high = _up(claim.cells("box_lower")), _down(claim.cells("box_upper"))
    angles = claim.schema.input_angles
    low = np.where(angles, np.maximum(low, _up(np.array(-np.pi))), low)
    high = np.where(angles, np.minimum(high, _down(np.array(np.nextafter(np.pi, 0.0)))), high)
    return bool((low <= high).all())


def _interval(claim: Claim) -> Array | None:
    low, high = _up(claim.bounds("lower")), _down(claim.bounds("upper"))
    middle = (0.5 * claim.bounds("lower") + 0.5 * claim.bounds("upper")).astype(np.float32)
    low, high = np.where(low > high, middle, low), np.where(low > high, middle, high)
    outside = np.maximum(np.maximum(claim.bounds("lower") - low, high - claim.bounds("upper")), 0.0)
    spread = _up((claim.bounds("delta") + outside) * (1 + 1e-15) + 8 * _FLUSHED).astype(np.float64)
    size = np.maximum(np.abs(low), np.abs(high)).astype(np.float64)
    return _finished(claim, spread, spread, size, 0.0, _compensation(claim))


def _affine(claim: Claim) -> Array | None:
    inputs, blend, angles = len(claim.schema.inputs), claim.blended, claim.schema.output_angles
    moved, jacobian, scale = _moved(claim), claim.bounds("jacobian"), claim.cells("scale")
    shifted = np.einsum("kpd,kd->kp", jacobian, moved)
    center = (claim.bounds("center") + shifted).astype(np.float32)
    outer = _outer(claim)
    offset = _up((claim.bounds("offset") + _slack(claim, moved, outer)) * (1 + 1e-15)).astype(np.float64)
    width = _down(claim.bounds("half_width")).astype(np.float64)
    compensation = _compensation(claim)
    far = outer * (1 + 64 * _U) * compensation + _up(_shift(claim) * (1 + 2.0**-20)).astype(np.float64)
    remainder = _up(claim.bounds("slopes")).max(axis=1) * far[:, None] + offset
    steep = np.sqrt(((jacobian * scale) ** 2).sum(axis=2))
    size = np.abs(center) + steep * outer[:, None] * (1 + 64 * _U)
    turned = bool(blend and angles.any())
    size = np.where(angles, size + size.max(axis=0) + 4, size) if turned else size
    magnified = (inputs + 2 * blend + 8 + 8 * turned) * _U * (1 + 2.0**-10)
    spread = width + remainder + magnified * (size + width) * compensation
    return _finished(claim, spread, remainder, size + width, magnified * turned, compensation)


def _slack(claim: Claim, moved: Array, outer: Array) -> Array:
    """(K, P) what moving A in float64, and flushing to zero, may cost."""
    inputs, jacobian = len(claim.schema.inputs), np.abs(claim.bounds("jacobian"))
    center, scale = np.abs(claim.bounds("center")), claim.cells("scale")
    rough = center + np.einsum("kpd,kd->kp", jacobian, np.abs(moved))
    magnitude = center + (jacobian @ scale) * outer[:, None]
    largest = 1 + float((outer.max() * scale).max()) + float(jacobian.max()) + float(magnitude.max())
    return (inputs + 4) * _EPS * rough + (16 + 4 * inputs + 4 * claim.blended) * _FLUSHED * largest


def _compensation(claim: Claim) -> float:
    return 1 + (len(claim.schema.inputs) + 2 * claim.blended + 24) * 2 * _U


def _finished(
    claim: Claim, spread: Array, remainder: Array, size: Array, turning: float, compensation: float
) -> Array | None:
    """With the last sum, and on the circle; None where a number is too large for float32."""
    if not (np.isfinite(spread) & (size < 2.0**100)).all():
        return None
    if claim.target == "increment":
        ball = np.abs(claim.centers) + _outer(claim)[:, None] * claim.cells("scale")
        box = np.maximum(np.abs(claim.cells("box_lower")), np.abs(claim.cells("box_upper")))
        size = size + np.minimum(ball, box)[:, claim.schema.advanced]
    largest = (spread + _U * size * (1 + 2.0**-10)) * compensation**4
    if turning:
        apart = (remainder + turning * size) * compensation**4 >= _QUARTER
        largest = np.where(apart, np.maximum(largest, _HALF_TURN), largest)
    return np.where(claim.schema.output_angles, np.minimum(largest, _HALF_TURN), largest)


def _down(values: Array) -> Array:
    rounded = np.asarray(values, np.float64).astype(np.float32)
    return np.where(rounded > values, np.nextafter(rounded, np.float32(-np.inf)), rounded)


def _up(values: Array) -> Array:
    return -_down(-np.asarray(values, np.float64))
