"""A cascaded PID position controller for all drones at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tether.data import Array, wrap_angle
from tether_studies.drones import crazyflie
from tether_studies.drones.attitude import angles_of, into_body, rotation_of

_ALLOCATION = np.linalg.inv(
    np.stack(
        [
            np.ones(4),
            crazyflie.PROPELLERS[:, 1],
            -crazyflie.PROPELLERS[:, 0],
            crazyflie.SPINS * crazyflie.TORQUE / crazyflie.THRUST,
        ]
    )
)
"""(4, 4) thrust of each motor from total thrust and torques."""


@dataclass(frozen=True)
class Gains:
    """Of the position loop (1/s², 1/s³, 1/s) and of the attitude loop (1/s², 1/s), and limits.

    Attributes:
        position: acceleration per metre off.
        integral: acceleration per metre second off.
        velocity: acceleration per metre per second off.
        attitude: angular acceleration per radian off, about the body's axes.
        rates: angular acceleration per radian per second off.
        tilt: largest slope of the thrust asked for, as a tangent.
        memory: largest integral, metre seconds.
    """

    position: float = 8.0
    integral: float = 2.0
    velocity: float = 4.5
    attitude: tuple[float, float, float] = (180.0, 180.0, 30.0)
    rates: tuple[float, float, float] = (22.0, 22.0, 9.0)
    tilt: float = 0.6
    memory: float = 0.5


@dataclass(frozen=True, eq=False)
class Reference:
    """Where N drones should be: position, velocity, acceleration (N, 3) each, and yaw (N,)."""

    position: Array
    velocity: Array
    acceleration: Array
    yaw: Array


class PositionController:
    """Motor-speed commands that follow a reference.

    Position, velocity and integral errors ask for an acceleration; thrust is its part along the body's
    vertical axis, and the tilt that would align the two is what the attitude loop follows.
    """

    def __init__(self, drones: int, step_seconds: float, gains: Gains = Gains()) -> None:
        self._gains, self._step_seconds = gains, step_seconds
        self._integral = np.zeros((drones, 3))

    def command(
        self, position: Array, quaternion: Array, velocity: Array, rates: Array, goal: Reference
    ) -> Array:
        """Motor speeds (N, 4), from positions, quaternions, velocities and body rates of N drones."""
        gains = self._gains
        error = goal.position - position
        self._integral = np.clip(self._integral + self._step_seconds * error, -gains.memory, gains.memory)
        wanted = (
            goal.acceleration
            + gains.position * error
            + gains.integral * self._integral
            + gains.velocity * (goal.velocity - velocity)
        )
        wanted[:, 2] = np.maximum(wanted[:, 2] + crazyflie.GRAVITY, 0.3 * crazyflie.GRAVITY)
        wanted[:, :2] = np.clip(wanted[:, :2], *(gains.tilt * wanted[:, 2:] * sign for sign in (-1, 1)))
        rotation = rotation_of(quaternion)
        thrust = crazyflie.MASS * (wanted * rotation[:, :, 2]).sum(axis=1)
        return self._motors(thrust, self._angular_acceleration(rotation, rates, wanted, goal.yaw))

    def _angular_acceleration(self, rotation: Array, rates: Array, wanted: Array, yaw: Array) -> Array:
        """(N, 3) about the body's axes, towards the thrust `wanted` (N, 3) and the yaw (N,)."""
        direction = into_body(rotation, wanted / np.linalg.norm(wanted, axis=1, keepdims=True))
        heading = wrap_angle(yaw - angles_of(rotation)[:, 2])
        error = np.stack([-direction[:, 1], direction[:, 0], heading], axis=1)
        return np.array(self._gains.attitude) * error - np.array(self._gains.rates) * rates

    @staticmethod
    def _motors(thrust: Array, acceleration: Array) -> Array:
        torques = np.array(crazyflie.INERTIA) * acceleration
        thrusts = np.concatenate([thrust[:, None], torques], axis=1) @ _ALLOCATION.T
        speeds = np.sqrt(np.maximum(thrusts, 0.0) / crazyflie.THRUST)
        return np.minimum(speeds, crazyflie.TOP_SPEED)
