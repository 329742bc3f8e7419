"""The trusted model M: a rigid quadrotor in plain NumPy, without air.

It takes the steps that the simulator's engine takes (semi-implicit Euler at 240 Hz, five per control
step), so that without air both agree. Thrusts grow with the square of the commanded motor speed; motors
follow commands at once. A step is worked out along the axes that the body had at its start, and turned into
the world once, by the quaternion: a polynomial of low degree, whose enclosures over cells are a third as
wide as with sines and cosines of the yaw. Roll, pitch and yaw follow from body rates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tether.data import Array
from tether.trusted import TrustedModel
from tether_studies.drones import crazyflie
from tether_studies.drones.simulator import PHYSICS_HERTZ, STEP_SECONDS, SUBSTEPS

_Parts = Sequence[Any]
"""The parts of a vector, an array over rows each; over boxes where the model is enclosed."""

_SECONDS = 1 / PHYSICS_HERTZ
_HOVER_THRUST = crazyflie.MASS * crazyflie.GRAVITY / 4
_INERTIA_X, _INERTIA_Y, _INERTIA_Z = crazyflie.INERTIA
# Angular acceleration about each axis from each motor at hover speed, (4,) each.
_ROLL = _HOVER_THRUST * crazyflie.PROPELLERS[:, 1] / _INERTIA_X
_PITCH = -_HOVER_THRUST * crazyflie.PROPELLERS[:, 0] / _INERTIA_Y
_YAW = _HOVER_THRUST * crazyflie.TORQUE / crazyflie.THRUST * crazyflie.SPINS / _INERTIA_Z
# How many physics steps' worth of gravity velocity and position have felt when a control step ends.
_FALL_VELOCITY = np.array([0.0, 0.0, crazyflie.GRAVITY * SUBSTEPS])
_FALL = np.array([0.0, 0.0, crazyflie.GRAVITY * SUBSTEPS * (SUBSTEPS + 1) / 2])
# How a turn about two axes turns a body of unequal inertia about the third.
_GYRO_X = (_INERTIA_Y - _INERTIA_Z) / _INERTIA_X
_GYRO_Y = (_INERTIA_Z - _INERTIA_X) / _INERTIA_Y
_GYRO_Z = (_INERTIA_X - _INERTIA_Y) / _INERTIA_Z


def quadrotor(states: Array, controls: Array) -> Array:
    """Next position, angles, velocity and body rates (N, 12) from states (N, 20) and commands (N, 4)."""
    angles, rates = list(states[:, 7:10].T), list(states[:, 13:16].T)
    # Relative to thrusts in hover: there they are 1 to the last digit, and a hover stays one for ever.
    thrusts = (controls / crazyflie.HOVER_SPEED) ** 2
    lift = crazyflie.GRAVITY * (thrusts.sum(axis=1) / 4)
    torques = [thrusts @ axis for axis in (_ROLL, _PITCH, _YAW)]
    # Thrust along the axes that the body had when the step began, and the motion it has led to.
    turned, gained, moved = [0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]
    for _ in range(SUBSTEPS):
        gained = [g + d for g, d in zip(gained, _vertical_axis(turned), strict=True)]
        moved = [m + g for m, g in zip(moved, gained, strict=True)]
        rates = _accelerated(rates, torques)
        turned = _turned(turned, rates)
        angles = _rotated(angles, _rotated(angles, angles, rates, 0.5 * _SECONDS), rates, _SECONDS)
    attitude = list(states[:, 3:7].T)
    push = np.stack([lift * part for part in _into_world(attitude, gained)], axis=1) - _FALL_VELOCITY
    shift = np.stack([lift * part for part in _into_world(attitude, moved)], axis=1) - _FALL
    velocity = states[:, 10:13] + _SECONDS * push
    position = states[:, 0:3] + STEP_SECONDS * states[:, 10:13] + _SECONDS**2 * shift
    return np.concatenate([position, np.stack(angles, axis=1), velocity, np.stack(rates, axis=1)], axis=1)


def _vertical_axis(quaternion: _Parts) -> list[Any]:
    """The body's vertical axis, of a quaternion x, y, z, w."""
    x, y, z, w = quaternion
    return [2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x**2 + y**2)]


def _turned(quaternion: _Parts, rates: _Parts) -> list[Any]:
    """A quaternion x, y, z, w after one physics step at body rates, to second order in the angle."""
    x, y, z, w = quaternion
    a, b, c = (0.5 * _SECONDS * rate for rate in rates)
    kept = 1 - 0.5 * (a**2 + b**2 + c**2)
    return [
        x * kept + w * a + y * c - z * b,
        y * kept + w * b + z * a - x * c,
        z * kept + w * c + x * b - y * a,
        w * kept - x * a - y * b - z * c,
    ]


def _into_world(attitude: _Parts, vector: _Parts) -> list[Any]:
    """A vector along the body's axes, along the world's."""
    x, y, z, w = attitude
    forward, left, up = vector
    return [
        (1 - 2 * (y**2 + z**2)) * forward + 2 * (x * y - w * z) * left + 2 * (x * z + w * y) * up,
        2 * (x * y + w * z) * forward + (1 - 2 * (x**2 + z**2)) * left + 2 * (y * z - w * x) * up,
        2 * (x * z - w * y) * forward + 2 * (y * z + w * x) * left + (1 - 2 * (x**2 + y**2)) * up,
    ]


def _accelerated(rates: _Parts, torques: _Parts) -> list[Any]:
    """Body rates after one physics step."""
    x, y, z = rates
    gyroscopic = (_GYRO_X * y * z, _GYRO_Y * z * x, _GYRO_Z * x * y)
    return [r + _SECONDS * (t + g) for r, t, g in zip(rates, torques, gyroscopic, strict=True)]


def _rotated(angles: _Parts, at: _Parts, rates: _Parts, seconds: float) -> list[Any]:
    """Angles after turning at body rates, for the speeds that these have at the angles `at`."""
    x, y, z = rates
    roll, pitch, _ = at
    sideways = np.sin(roll) * y + np.cos(roll) * z
    speeds = (x + np.tan(pitch) * sideways, np.cos(roll) * y - np.sin(roll) * z, sideways / np.cos(pitch))
    return [a + seconds * s for a, s in zip(angles, speeds, strict=True)]


TRUSTED = TrustedModel(quadrotor)
