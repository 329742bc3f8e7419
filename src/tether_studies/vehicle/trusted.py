"""The trusted models: a unicycle, and a car that never slips, in plain NumPy so that delta can be proved.

Both place the car at the middle of its rear axle, the one point of a car that moves along its heading.
The heading used is that of the middle of the step, which is right to second order: with the heading of
its beginning a car that turns by 0.5 rad/s at 10 m/s would be 2.5 cm off after every step.
"""

from __future__ import annotations

import numpy as np

from tether.data import Array
from tether.trusted import TrustedModel
from tether_studies.vehicle.simulator import STEP_SECONDS

TOP_SPEED = 20.0
"""Speed [m/s] up to which the Lipschitz constants hold."""

_WHEELBASE = 2.58
"""Of the car [m], as its maker says."""
_RESPONSE = 0.1
"""Share of the way to its steady value that the yaw rate goes in a step; fitted to one town.

The wheels turn no faster than 0.4 rad/s. A limit on the change says that better and halves the error, but
has kinks: what it gains in accuracy it loses several times over in the remainder that can be proved.
"""
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
    with a lag; the pose follows both as a unicycle does.
    """
    x, y, heading = states.T[:3]
    distance, turn, speed, yaw_rate = _motion(states, controls)
    middle = heading + 0.5 * turn
    ahead = [x + distance * np.cos(middle), y + distance * np.sin(middle)]
    return np.stack([*ahead, heading + turn, speed, yaw_rate], axis=1)


def _motion(states: Array, controls: Array) -> list[Array]:
    """Distance, turn, next speed and next yaw rate of the car that never slips, (N,) each."""
    speed, yaw_rate = states.T[3:]
    acceleration, steering = controls.T
    next_speed = np.maximum(speed + _DRIVE * STEP_SECONDS * acceleration, 0.0)
    steady = speed * np.tan(steering) / _WHEELBASE
    next_yaw_rate = yaw_rate + _RESPONSE * (steady - yaw_rate)
    distance = 0.5 * STEP_SECONDS * (speed + next_speed)
    return [distance, 0.5 * STEP_SECONDS * (yaw_rate + next_yaw_rate), next_speed, next_yaw_rate]


def unicycle_displacement(states: Array, controls: Array) -> Array:
    """The unicycle as the car sees it: metres ahead and to the left, radians turned (N, 3).

    It says the same as :func:`unicycle`, but neither place nor heading matter to it, and it hardly bends.
    """
    del states
    speed, yaw_rate = controls.T
    return np.stack(_along_own_axes(STEP_SECONDS * speed, STEP_SECONDS * yaw_rate), axis=1)


def kinematic_displacement(states: Array, controls: Array) -> Array:
    """As the car sees it (N, 5): metres ahead and to the left, radians turned, next speed and yaw rate."""
    distance, turn, speed, yaw_rate = _motion(states, controls)
    return np.stack([*_along_own_axes(distance, turn), speed, yaw_rate], axis=1)


def _along_own_axes(distance: Array, turn: Array) -> list[Array]:
    return [distance * np.cos(0.5 * turn), distance * np.sin(0.5 * turn), turn]


def compose(states: Array, displacements: Array) -> Array:
    """Next states (N, dx) of cars that move by `displacements` of their own axes.

    The first three states are the pose, the first three displacements (ahead, left, turn); what follows
    is taken over as it is. The next heading is not wrapped.
    """
    (x, y, heading), (ahead, left, turn) = states.T[:3], displacements.T[:3]
    cosine, sine = np.cos(heading), np.sin(heading)
    pose = [x + ahead * cosine - left * sine, y + ahead * sine + left * cosine, heading + turn]
    return np.stack([*pose, *displacements.T[3:]], axis=1)


_POSITION = [0.0, 0.0, STEP_SECONDS * TOP_SPEED, STEP_SECONDS, 0.5 * STEP_SECONDS**2 * TOP_SPEED]
_INCREMENT = np.array([_POSITION, _POSITION, [0.0, 0.0, 0.0, 0.0, STEP_SECONDS]])
TRUSTED = TrustedModel(unicycle, lipschitz=_INCREMENT + np.eye(3, 5), increment_lipschitz=_INCREMENT)
"""The unicycle, for states (x, y, heading); its constants hold up to TOP_SPEED."""
RICH_TRUSTED = TrustedModel(kinematic_car)
"""The car that never slips, for states (x, y, heading, speed, yaw rate)."""
BODY_TRUSTED = TrustedModel(unicycle_displacement)
"""The unicycle, for outputs (ahead, left, turn)."""
RICH_BODY_TRUSTED = TrustedModel(kinematic_displacement)
"""The car that never slips, for outputs (ahead, left, turn, speed, yaw rate)."""
