"""The embedded demonstration: a car whose tyres slip, and a trusted unicycle.

The car is driven around a square of 100 m. Its body follows the commanded yaw rate with a lag and
slides outwards in turns, so the unicycle is a good model of it but not an exact one. The probes are
parked cars: no speed, no yaw rate, anywhere on the map, facing anywhere.
"""

from __future__ import annotations

import numpy as np

from tether.data import Array, Box, Probes, Schema, Transitions, make_schema
from tether.trusted import TrustedModel

STEP_SECONDS = 0.1
TOP_SPEED = 15.0
HALF_WIDTH = 50.0
_SUBSTEPS = 20
_YAW_LAG = 0.15
_SLIP_LAG = 0.25
_SLIP = 0.02

SCHEMA: Schema = make_schema(
    ["x", "y", "heading"],
    ["speed", "yaw_rate"],
    units={"x": "m", "y": "m", "heading": "rad", "speed": "m/s", "yaw_rate": "rad/s"},
    angles=["heading"],
)
DOMAIN: Box = {"speed": (0.0, TOP_SPEED), "yaw_rate": (-1.0, 1.0)}


def unicycle(states: Array, controls: Array) -> Array:
    """The trusted model M: next pose (N, 3) of a unicycle, exact for straight driving."""
    x, y, heading = states.T
    speed, yaw_rate = controls.T
    distance = speed * STEP_SECONDS
    return np.stack(
        [x + distance * np.cos(heading), y + distance * np.sin(heading), heading + yaw_rate * STEP_SECONDS],
        axis=1,
    )


_POSITION = [0.0, 0.0, STEP_SECONDS * TOP_SPEED, STEP_SECONDS, 0.0]
_INCREMENT = np.array([_POSITION, _POSITION, [0.0, 0.0, 0.0, 0.0, STEP_SECONDS]])
TRUSTED = TrustedModel(unicycle, lipschitz=_INCREMENT + np.eye(3, 5), increment_lipschitz=_INCREMENT)
"""The unicycle with its Lipschitz constants, which hold where speed is at most TOP_SPEED."""


def drive(*, episodes: int = 60, steps: int = 150, seed: int = 0) -> Transitions:
    """Transitions of the slipping car under smooth random driving, all episodes at once."""
    rng = np.random.default_rng(seed)
    pose = np.column_stack([rng.uniform(-30, 30, (episodes, 2)), rng.uniform(-np.pi, np.pi, episodes)])
    body = np.zeros((episodes, 2))
    states, controls, outcomes = [], [], []
    for wish in _driver(rng, episodes, steps):
        states.append(pose)
        controls.append(_steer_back(pose, wish))
        pose, body = car(controls[-1], pose, body)
        outcomes.append(pose)
    ids = np.tile(np.arange(episodes), steps)
    flat = [np.concatenate(part) for part in (states, controls, outcomes)]
    return Transitions.from_arrays(*flat, episodes=ids, schema=SCHEMA)


def parked(like: Transitions, *, count: int = 9000, seed: int = 0) -> Probes:
    """Probes: parked cars anywhere on the map, facing anywhere."""
    box: Box = {
        "x": (-HALF_WIDTH, HALF_WIDTH),
        "y": (-HALF_WIDTH, HALF_WIDTH),
        "heading": (-np.pi, np.pi),
        "speed": 0.0,
        "yaw_rate": 0.0,
    }
    return Probes.from_box(box, count=count, like=like, seed=seed)


def _driver(rng: np.random.Generator, episodes: int, steps: int) -> Array:
    """(T, E, 2) speed and yaw rate: random targets followed smoothly, some stops."""
    hold = 25
    targets = rng.uniform([0, -0.8], [TOP_SPEED, 0.8], (steps // hold + 2, episodes, 2))
    targets[rng.random(targets.shape[:2]) < 0.15] = 0.0
    controls = np.empty((steps, episodes, 2))
    now = targets[0]
    for step in range(steps):
        now = now + 0.15 * (targets[1 + step // hold] - now)
        controls[step] = now
    return controls


def _steer_back(pose: Array, control: Array) -> Array:
    """Turns a car that leaves the map towards its middle."""
    bearing = np.arctan2(-pose[:, 1], -pose[:, 0]) - pose[:, 2]
    bearing = (bearing + np.pi) % (2 * np.pi) - np.pi
    leaving = np.hypot(pose[:, 0], pose[:, 1]) > 0.7 * HALF_WIDTH
    yaw_rate = np.where(leaving, np.clip(bearing, -0.8, 0.8), control[:, 1])
    return np.column_stack([control[:, 0], yaw_rate])


def car(control: Array, pose: Array, body: Array) -> tuple[Array, Array]:
    """One step of the car: pose (E, 3) and hidden body state (yaw rate, lateral speed) (E, 2)."""
    dt = STEP_SECONDS / _SUBSTEPS
    x, y, heading = pose.T
    yaw_rate, slide = body.T
    speed, command = control.T
    for _ in range(_SUBSTEPS):
        # Less grip at speed: the car yaws less than asked, and slides outwards.
        grip = 1 / (1 + (speed / 25.0) ** 2)
        yaw_rate = yaw_rate + dt / _YAW_LAG * (grip * command - yaw_rate)
        slide = slide + dt / _SLIP_LAG * (-_SLIP * speed**2 * yaw_rate / (1 + 0.1 * speed) - slide)
        rolling = np.where(speed > 0.05, 1.0, 0.0)
        x = x + dt * (speed * np.cos(heading) - rolling * slide * np.sin(heading))
        y = y + dt * (speed * np.sin(heading) + rolling * slide * np.cos(heading))
        heading = heading + dt * rolling * yaw_rate
    return np.column_stack([x, y, heading]), np.column_stack([yaw_rate, slide])
