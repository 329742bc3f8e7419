"""Attitudes: roll, pitch and yaw (yaw last about the vertical), unit quaternions (x, y, z, w), matrices."""

from __future__ import annotations

import numpy as np

from tether.data import Array


def quaternion_of(angles: Array) -> Array:
    """Unit quaternions (N, 4) of roll, pitch and yaw (N, 3); of the two that fit, the one they give."""
    sine, cosine = np.sin(angles / 2).T, np.cos(angles / 2).T
    roll, pitch, yaw = zip(cosine, sine, strict=True)
    return np.stack(
        [
            roll[1] * pitch[0] * yaw[0] - roll[0] * pitch[1] * yaw[1],
            roll[0] * pitch[1] * yaw[0] + roll[1] * pitch[0] * yaw[1],
            roll[0] * pitch[0] * yaw[1] - roll[1] * pitch[1] * yaw[0],
            roll[0] * pitch[0] * yaw[0] + roll[1] * pitch[1] * yaw[1],
        ],
        axis=1,
    )


def _quadratic_form() -> Array:
    """(16, 9) what each product of two components of a quaternion adds to each entry of its matrix."""
    x, y, z, w = range(4)
    terms = [
        [(y, y, -2), (z, z, -2)], [(x, y, 2), (w, z, -2)], [(x, z, 2), (w, y, 2)],
        [(x, y, 2), (w, z, 2)], [(x, x, -2), (z, z, -2)], [(y, z, 2), (w, x, -2)],
        [(x, z, 2), (w, y, -2)], [(y, z, 2), (w, x, 2)], [(x, x, -2), (y, y, -2)],
    ]  # fmt: skip
    form = np.zeros((4, 4, 9))
    for entry, products in enumerate(terms):
        for one, other, factor in products:
            form[one, other, entry] = factor
    return form.reshape(16, 9)


_FORM = _quadratic_form()
_IDENTITY = np.eye(3)


def rotation_of(quaternions: Array) -> Array:
    """Matrices (N, 3, 3) that take the body's axes to the world's, of unit quaternions (N, 4)."""
    # One matrix product: written out entry by entry it takes a third of a simulated step.
    products = (quaternions[:, :, None] * quaternions[:, None, :]).reshape(-1, 16)
    return _IDENTITY + (products @ _FORM).reshape(-1, 3, 3)


def angles_of(rotations: Array) -> Array:
    """Roll, pitch and yaw (N, 3) of matrices (N, 3, 3)."""
    roll = np.arctan2(rotations[:, 2, 1], rotations[:, 2, 2])
    pitch = -np.arcsin(np.clip(rotations[:, 2, 0], -1.0, 1.0))
    yaw = np.arctan2(rotations[:, 1, 0], rotations[:, 0, 0])
    return np.stack([roll, pitch, yaw], axis=1)


def into_body(rotations: Array, vectors: Array) -> Array:
    """World vectors (N, 3) along the body's axes."""
    return (vectors[:, None, :] @ rotations)[:, 0]
