"""The trusted model M: a rigid quadrotor in plain NumPy, without air.

It takes the steps that the simulator's engine takes (semi-implicit Euler at 240 Hz, five per control step), so
that in still air at rest both agree to the last digits. Thrusts grow with the square of the commanded motor
speed; motors follow commands at once. Written in roll, pitch, yaw and body rates rather than quaternions: then
M depends on 13 of the 24 inputs and bends along few of them, and its enclosures over cells are tight.
"""

from __future__ import annotations

import numpy as np

from tether.data import Array
from tether.studies.drones import crazyflie
from tether.studies.drones.simulator import PHYSICS_HERTZ, STEP_SECONDS, SUBSTEPS
from tether.trusted import TrustedModel

_SECONDS = 1 / PHYSICS_HERTZ
_LIFT = crazyflie.THRUST / crazyflie.MASS
_INERTIA_X, _INERTIA_Y, _INERTIA_Z = crazyflie.INERTIA
# Angular acceleration about each axis per squared motor speed, (4,) each.
_ROLL = crazyflie.THRUST * crazyflie.PROPELLERS[:, 1] / _INERTIA_X
_PITCH = -crazyflie.THRUST * crazyflie.PROPELLERS[:, 0] / _INERTIA_Y
_YAW = crazyflie.TORQUE * crazyflie.SPINS / _INERTIA_Z
# What gravity alone does to velocity and position in a control step.
_FALL_VELOCITY = np.array([0.0, 0.0, crazyflie.GRAVITY * SUBSTEPS * _SECONDS])
_FALL = np.array([0.0, 0.0, crazyflie.GRAVITY * SUBSTEPS * (SUBSTEPS + 1) / 2 * _SECONDS**2])
# How a turn about two axes turns a body of unequal inertia about the third.
_GYRO_X = (_INERTIA_Y - _INERTIA_Z) / _INERTIA_X
_GYRO_Y = (_INERTIA_Z - _INERTIA_X) / _INERTIA_Y
_GYRO_Z = (_INERTIA_X - _INERTIA_Y) / _INERTIA_Z


def quadrotor(states: Array, controls: Array) -> Array:
    """Next position, angles, velocity and body rates (N, 12) from states (N, 20) and commands (N, 4)."""
    angles, rates = list(states[:, 7:10].T), list(states[:, 13:16].T)
    squared = controls**2
    lift = _LIFT * squared.sum(axis=1)
    torques = [squared @ axis for axis in (_ROLL, _PITCH, _YAW)]
    # Thrust along the axes that the body had when the step began, and the motion it has led to.
    turned, gained, moved = [0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]
    for _ in range(SUBSTEPS):
        gained = [g + d for g, d in zip(gained, _vertical_axis(turned), strict=True)]
        moved = [m + g for m, g in zip(moved, gained, strict=True)]
        rates = _accelerated(rates, torques)
        turned = _turned(turned, rates)
        angles = _rotated(angles, _rotated(angles, angles, rates, 0.5 * _SECONDS), rates, _SECONDS)
    attitude = list(states[:, 3:7].T)
    push = [_SECONDS * lift * part for part in _into_world(attitude, gained)]
    shift = [_SECONDS**2 * lift * part for part in _into_world(attitude, moved)]
    velocity = states[:, 10:13] + np.stack(push, axis=1) - _FALL_VELOCITY
    position = states[:, 0:3] + STEP_SECONDS * states[:, 10:13] + np.stack(shift, axis=1) - _FALL
    return np.concatenate([position, np.stack(angles, axis=1), velocity, np.stack(rates, axis=1)], axis=1)


def _vertical_axis(quaternion: list[Array]) -> list[Array]:
    """The body's vertical axis, of a quaternion x, y, z, w."""
    x, y, z, w = quaternion
    return [2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x**2 + y**2)]


def _turned(quaternion: list[Array], rates: list[Array]) -> list[Array]:
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


def _into_world(attitude: list[Array], vector: list[Array]) -> list[Array]:
    """A vector along the body's axes, along the world's."""
    x, y, z, w = attitude
    forward, left, up = vector
    return [
        (1 - 2 * (y**2 + z**2)) * forward + 2 * (x * y - w * z) * left + 2 * (x * z + w * y) * up,
        2 * (x * y + w * z) * forward + (1 - 2 * (x**2 + z**2)) * left + 2 * (y * z - w * x) * up,
        2 * (x * z - w * y) * forward + 2 * (y * z + w * x) * left + (1 - 2 * (x**2 + y**2)) * up,
    ]


def _accelerated(rates: list[Array], torques: list[Array]) -> list[Array]:
    """Body rates after one physics step."""
    x, y, z = rates
    gyroscopic = (_GYRO_X * y * z, _GYRO_Y * z * x, _GYRO_Z * x * y)
    return [r + _SECONDS * (t + g) for r, t, g in zip(rates, torques, gyroscopic, strict=True)]


def _rotated(angles: list[Array], at: list[Array], rates: list[Array], seconds: float) -> list[Array]:
    """Angles after turning at body rates, for the speeds that these have at the angles `at`."""
    x, y, z = rates
    roll, pitch, _ = at
    sideways = np.sin(roll) * y + np.cos(roll) * z
    speeds = (x + np.tan(pitch) * sideways, np.cos(roll) * y - np.sin(roll) * z, sideways / np.cos(pitch))
    return [a + seconds * s for a, s in zip(angles, speeds, strict=True)]


TRUSTED = TrustedModel(quadrotor)
