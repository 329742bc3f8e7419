"""The trusted models: a unicycle, and a car that never slips, in plain NumPy so that delta can be proved.

Both place the car at the middle of its rear axle, the one point of a car that moves along its heading.
The heading used is that of the middle of the step, which is right to second order: with the heading of
its beginning a car that turns by 0.5 rad/s at 10 m/s would be 2.5 cm off after every step.
"""

from __future__ import annotations

import numpy as np

from tether.data import Array
from tether.studies.vehicle.simulator import STEP_SECONDS
from tether.trusted import TrustedModel

TOP_SPEED = 20.0
"""Speed [m/s] up to which the Lipschitz constants hold."""

_WHEELBASE = 2.58
"""Of the car [m], as its maker says."""
_RESPONSE = 0.65
"""Share of the way to its steady value that the yaw rate goes in a step; fitted to one town, as is:"""
_SLEW = 0.026
"""Most that the steering angle changes the yaw rate's steady value by in a step [rad]."""
_DRIVE = 0.95
"""Share of the commanded acceleration that moves the car; the rest spins its wheels up."""


def unicycle(states: Array, controls: Array) -> Array:
    """Next pose (N, 3) from poses (x, y, heading) and (speed, yaw rate) at the beginning of the step."""
    x, y, heading = states.T
    speed, yaw_rate = controls.T
    distance, middle = STEP_SECONDS * speed, heading + 0.5 * STEP_SECONDS * yaw_rate
    return np.stack(
        [x + distance * np.cos(middle), y + distance * np.sin(middle), heading + STEP_SECONDS * yaw_rate],
        axis=1,
    )


def kinematic_car(states: Array, controls: Array) -> Array:
    """Next (x, y, heading, speed, yaw rate) (N, 5) from those and (acceleration, steering angle) asked for.

    Speed follows the acceleration asked for and never falls below zero; the yaw rate follows the steering
    as fast as the wheels can be turned; the pose follows both as a unicycle does.
    """
    x, y, heading, speed, yaw_rate = states.T
    acceleration, steering = controls.T
    next_speed = np.maximum(speed + _DRIVE * STEP_SECONDS * acceleration, 0.0)
    steady, most = speed * np.tan(steering) / _WHEELBASE, _SLEW * speed / _WHEELBASE
    change = np.minimum(np.maximum(_RESPONSE * (steady - yaw_rate), -most), most)
    next_yaw_rate = yaw_rate + change
    distance = 0.5 * STEP_SECONDS * (speed + next_speed)
    turn = 0.5 * STEP_SECONDS * (yaw_rate + next_yaw_rate)
    middle = heading + 0.5 * turn
    return np.stack(
        [
            x + distance * np.cos(middle),
            y + distance * np.sin(middle),
            heading + turn,
            next_speed,
            next_yaw_rate,
        ],
        axis=1,
    )


_POSITION = [0.0, 0.0, STEP_SECONDS * TOP_SPEED, STEP_SECONDS, 0.5 * STEP_SECONDS**2 * TOP_SPEED]
_INCREMENT = np.array([_POSITION, _POSITION, [0.0, 0.0, 0.0, 0.0, STEP_SECONDS]])
TRUSTED = TrustedModel(unicycle, lipschitz=_INCREMENT + np.eye(3, 5), increment_lipschitz=_INCREMENT)
"""The unicycle, for states (x, y, heading); its constants hold up to TOP_SPEED."""
RICH_TRUSTED = TrustedModel(kinematic_car)
"""The car that never slips, for states (x, y, heading, speed, yaw rate)."""
