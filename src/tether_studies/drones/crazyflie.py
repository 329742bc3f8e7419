"""Crazyflie 2.x in X configuration: the published constants, in SI units and revolutions per minute.

The numbers are those that ``gym-pybullet-drones`` (Panerati et al., 2021) collects: mass, inertia and
motor coefficients from Förster's identification (2015) and Landry's thesis, ground effect after Shi et
al. (2019), downwash from flights at the Dynamic Systems Lab, Toronto.
"""

from __future__ import annotations

import numpy as np

GRAVITY = 9.8
MASS = 0.027
INERTIA = (1.4e-5, 1.4e-5, 2.17e-5)
"""Principal moments about the body's axes."""
ARM = 0.0397
BODY_RADIUS, BODY_HEIGHT = 0.06, 0.025
"""Of the cylinder that collides."""

THRUST = 3.16e-10
"""Newtons per squared revolution per minute of one motor."""
TORQUE = 7.94e-12
"""Newton metres about the vertical, likewise."""
THRUST_TO_WEIGHT = 2.25
HOVER_SPEED = float(np.sqrt(MASS * GRAVITY / (4 * THRUST)))
"""Motor speed at which four motors carry the weight, 14,469 revolutions per minute."""
TOP_SPEED = HOVER_SPEED * float(np.sqrt(THRUST_TO_WEIGHT))

LEVER = ARM / float(np.sqrt(2))
"""Distance of a propeller from the roll and from the pitch axis."""
PROPELLERS = LEVER * np.array([[1.0, -1.0], [-1.0, -1.0], [-1.0, 1.0], [1.0, 1.0]])
"""(4, 2) where the propellers are, forward and left of the middle."""
SPINS = np.array([-1.0, 1.0, -1.0, 1.0])
"""Sign of the torque that each propeller's drag puts on the body."""

PROPELLER_RADIUS = 0.0231348
DRAG = np.array([9.1785e-7, 9.1785e-7, 10.311e-7])
"""Newtons per metre per second of airspeed and radian per second of all motors, along the body's axes."""
GROUND_EFFECT = 11.36859
LEAST_EFFECTIVE_HEIGHT = 0.25 * PROPELLER_RADIUS * float(np.sqrt(15 * GROUND_EFFECT / 4))
"""Height below which the ground effect grows no more (38 mm)."""
DOWNWASH_STRENGTH, DOWNWASH_SPREAD, DOWNWASH_OFFSET = 2267.18, 0.16, -0.11
