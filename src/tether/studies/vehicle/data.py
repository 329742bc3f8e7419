"""Transitions (D) and probes (Ω) of the vehicle study.

Two variants. `pose`, as in the paper: states (x, y, heading), controls (speed, yaw rate). `rich`: speed and
yaw rate are states too, and the controls are what the driver asks for, an acceleration and a steering
angle. Speed and yaw rate are always those measured at the beginning of the step; the authors' code
computed the yaw rate from the next heading, which puts the label into the input.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from tether.data import Box, Probes, Schema, Transitions, make_schema
from tether.progress import Reporter, silent
from tether.studies.vehicle.driving import Recording, drive_episodes
from tether.studies.vehicle.simulator import Fidelity
from tether.studies.vehicle.town import HALF_WIDTH
from tether.studies.vehicle.trusted import TOP_SPEED

Scale = Literal["smoke", "paper"]
Variant = Literal["pose", "rich"]

EPISODES: dict[Scale, int] = {"smoke": 40, "paper": 170}
STEPS: dict[Scale, int] = {"smoke": 50, "paper": 100}
"""Rows of an episode; at paper scale 170 episodes of 100 rows are 15,000 + 2,000."""
PROBES: dict[Scale, int] = {"smoke": 2000, "paper": 17_000}
TEST_SHARE = 2_000 / 17_000
"""Share of episodes and probes to hold out for the paper's 2,000 test rows."""

_UNITS = {
    "x": "m", "y": "m", "heading": "rad", "speed": "m/s", "yaw_rate": "rad/s",
    "acceleration": "m/s²", "steering": "rad",
}  # fmt: skip
_POSE, _MOTION, _COMMANDS = ("x", "y", "heading"), ("speed", "yaw_rate"), ("acceleration", "steering")


def _schema(states: tuple[str, ...], controls: tuple[str, ...]) -> Schema:
    units = {name: _UNITS[name] for name in (*states, *controls)}
    return make_schema(states, controls, units=units, angles=["heading"])


SCHEMAS: dict[Variant, Schema] = {
    "pose": _schema(_POSE, _MOTION),
    "rich": _schema(_POSE + _MOTION, _COMMANDS),
}
_MAP: Box = {"x": (-HALF_WIDTH, HALF_WIDTH), "y": (-HALF_WIDTH, HALF_WIDTH)}
DOMAINS: dict[Variant, Box] = {
    "pose": {**_MAP, "speed": (0.0, TOP_SPEED), "yaw_rate": (-1.5, 1.5)},
    "rich": {
        **_MAP, "speed": (0.0, TOP_SPEED), "yaw_rate": (-1.5, 1.5),
        "acceleration": (-8.0, 4.0), "steering": (-0.6, 0.6),
    },
}  # fmt: skip
"""Limits of inputs beyond which nothing is claimed."""


def drive_town(
    scale: Scale = "paper",
    *,
    seed: int = 0,
    variant: Variant = "pose",
    fidelity: Fidelity = "multibody",
    reporter: Reporter = silent,
) -> Transitions:
    """D: cars driven through the town of `seed`."""
    with reporter("Driving through town") as progress:
        recording = drive_episodes(
            episodes=EPISODES[scale], steps=STEPS[scale], seed=seed, fidelity=fidelity, progress=progress
        )
    return as_transitions(recording, variant)


def as_transitions(recording: Recording, variant: Variant = "pose") -> Transitions:
    """The recording as rows, one episode per car."""
    now, after = recording.measured[:-1], recording.measured[1:]
    steps, cars = now.shape[:2]
    states, controls = (now, recording.commands) if variant == "rich" else (now[..., :3], now[..., 3:])
    parts = (states, controls, after[..., : states.shape[-1]])
    # By car, then by time.
    flat = [np.swapaxes(part, 0, 1).reshape(cars * steps, -1) for part in parts]
    ids = np.repeat(np.arange(cars), steps)
    return Transitions.from_arrays(*flat, episodes=ids, schema=SCHEMAS[variant])


def parked_probes(
    transitions: Transitions, *, count: int = PROBES["paper"], seed: int = 0, half_width: float = HALF_WIDTH
) -> Probes:
    """Ω: parked cars anywhere on the map, facing anywhere, with nothing asked of them.

    Args:
        transitions: D, of either variant; names the columns.
        count: number of probes.
        seed: of the draw.
        half_width: the map lies within ± this of the origin [m].
    """
    still = {name: 0.0 for name in transitions.schema.inputs if name not in _POSE}
    box: Box = {
        "x": (-half_width, half_width), "y": (-half_width, half_width), "heading": (-np.pi, np.pi), **still
    }  # fmt: skip
    return Probes.from_box(box, count=count, like=transitions, seed=seed)
