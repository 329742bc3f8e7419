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
from tether.studies.drones.simulator import PHYSICS_HERTZ, SUBSTEPS
from tether.trusted import TrustedModel

_SECONDS = 1 / PHYSICS_HERTZ
_LIFT = crazyflie.THRUST / crazyflie.MASS
_INERTIA_X, _INERTIA_Y, _INERTIA_Z = crazyflie.INERTIA
# Angular acceleration about each axis per squared motor speed, (4,) each.
_ROLL = crazyflie.THRUST * crazyflie.PROPELLERS[:, 1] / _INERTIA_X
_PITCH = -crazyflie.THRUST * crazyflie.PROPELLERS[:, 0] / _INERTIA_Y
_YAW = crazyflie.TORQUE * crazyflie.SPINS / _INERTIA_Z
# How a turn about two axes turns a body of unequal inertia about the third.
_GYRO_X = (_INERTIA_Y - _INERTIA_Z) / _INERTIA_X
_GYRO_Y = (_INERTIA_Z - _INERTIA_X) / _INERTIA_Y
_GYRO_Z = (_INERTIA_X - _INERTIA_Y) / _INERTIA_Z


def quadrotor(states: Array, controls: Array) -> Array:
    """Next position, angles, velocity and body rates (N, 12) from states (N, 20) and commands (N, 4)."""
    position, angles = list(states[:, 0:3].T), list(states[:, 7:10].T)
    velocity, rates = list(states[:, 10:13].T), list(states[:, 13:16].T)
    squared = controls**2
    lift = _LIFT * squared.sum(axis=1)
    torques = [squared @ axis for axis in (_ROLL, _PITCH, _YAW)]
    for _ in range(SUBSTEPS):
        rates = _turn(rates, torques)
        push = _thrust_direction(angles)
        velocity = [v + _SECONDS * lift * d for v, d in zip(velocity, push, strict=True)]
        velocity[2] = velocity[2] - _SECONDS * crazyflie.GRAVITY
        middle = _rotated(angles, angles, rates, 0.5 * _SECONDS)
        angles = _rotated(angles, middle, rates, _SECONDS)
        position = [p + _SECONDS * v for p, v in zip(position, velocity, strict=True)]
    return np.stack([*position, *angles, *velocity, *rates], axis=1)


def _turn(rates: list[Array], torques: list[Array]) -> list[Array]:
    """Body rates after one physics step."""
    x, y, z = rates
    gyroscopic = (_GYRO_X * y * z, _GYRO_Y * z * x, _GYRO_Z * x * y)
    return [r + _SECONDS * (t + g) for r, t, g in zip(rates, torques, gyroscopic, strict=True)]


def _thrust_direction(angles: list[Array]) -> list[Array]:
    """The body's vertical axis, along the world's axes."""
    roll, pitch, yaw = angles
    forward, left = np.cos(roll) * np.sin(pitch), -np.sin(roll)
    return [
        np.cos(yaw) * forward - np.sin(yaw) * left,
        np.sin(yaw) * forward + np.cos(yaw) * left,
        np.cos(roll) * np.cos(pitch),
    ]


def _rotated(angles: list[Array], at: list[Array], rates: list[Array], seconds: float) -> list[Array]:
    """Angles after turning at body rates, for the speeds that these have at the angles `at`."""
    x, y, z = rates
    roll, pitch, _ = at
    sideways = np.sin(roll) * y + np.cos(roll) * z
    speeds = (x + np.tan(pitch) * sideways, np.cos(roll) * y - np.sin(roll) * z, sideways / np.cos(pitch))
    return [a + seconds * s for a, s in zip(angles, speeds, strict=True)]


TRUSTED = TrustedModel(quadrotor)
