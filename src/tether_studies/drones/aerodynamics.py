"""What the air does that a rigid body alone does not know: drag, ground effect, downwash.

The formulas are those of ``gym-pybullet-drones``; drag acts along the body's axes, as identified.
"""

from __future__ import annotations

import numpy as np

from tether.data import Array
from tether_studies.drones import crazyflie

_FAR = 10.0
"""Metres beyond which a drone is not felt."""


def drag(airspeed: Array, motor_speeds: Array) -> Array:
    """Force (N, 3) along the body's axes, from the airspeed along them (N, 3) and motor speeds (N, 4)."""
    turning = 2 * np.pi / 60 * motor_speeds.sum(axis=1, keepdims=True)
    return -crazyflie.DRAG * turning * airspeed


def ground_effect(heights: Array, motor_speeds: Array) -> Array:
    """Extra thrust (N, 4) of propellers at `heights` (N, 4)."""
    ratio = crazyflie.PROPELLER_RADIUS / (4 * np.maximum(heights, crazyflie.LEAST_EFFECTIVE_HEIGHT))
    return crazyflie.THRUST * motor_speeds**2 * crazyflie.GROUND_EFFECT * ratio**2


def downwash(positions: Array) -> Array:
    """Force (N,) that pushes each of N drones at `positions` (N, 3) down, from all drones above it."""
    apart = positions[None, :, :] - positions[:, None, :]
    above, squared = apart[:, :, 2], apart[:, :, 0] ** 2 + apart[:, :, 1] ** 2
    felt = (above > 0) & (squared < _FAR**2)
    rise = np.where(felt, above, 1.0)
    strength = crazyflie.DOWNWASH_STRENGTH * (crazyflie.PROPELLER_RADIUS / (4 * rise)) ** 2
    # The published spread passes through zero 0.69 m below a drone, where nothing but the axis is hit.
    spread = np.maximum((crazyflie.DOWNWASH_SPREAD * rise + crazyflie.DOWNWASH_OFFSET) ** 2, 1e-12)
    return np.where(felt, strength * np.exp(-0.5 * squared / spread), 0.0).sum(axis=1)
