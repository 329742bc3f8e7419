"""Transitions (D) and probes (Ω) of the vehicle study.

Two choices of inputs. `pose`, as in the paper: states (x, y, heading), controls (speed, yaw rate). `rich`:
speed and yaw rate are states too, and the controls are what the driver asks for, an acceleration and a
steering angle. Speed and yaw rate are always those measured at the beginning of the step; the authors' code
computed the yaw rate from the next heading, which puts the label into the input.

Two choices of outputs. The next pose on the map, as in the paper; or (variants `body` and `rich_body`) how
far the car moves along its own axes and turns. The second says the same, and :func:`as_pose_step` makes
poses of it again; but the trusted model then does not depend on place and heading and hardly bends, so that
a few hundred cells bound it to a millimetre.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from tether.claims.rollout import Step
from tether.data import Array, Box, Probes, Schema, Transitions
from tether.foundation.progress import Reporter, silent
from tether.trusted import TrustedModel
from tether_studies.vehicle.driving import Recording, drive_episodes
from tether_studies.vehicle.simulator import Fidelity
from tether_studies.vehicle.town import HALF_WIDTH
from tether_studies.vehicle.trusted import (
    BODY_TRUSTED,
    RICH_BODY_TRUSTED,
    RICH_TRUSTED,
    TOP_SPEED,
    TRUSTED,
    compose,
)

Scale = Literal["smoke", "paper"]
Variant = Literal["pose", "body", "rich", "rich_body"]

EPISODES: dict[Scale, int] = {"smoke": 40, "paper": 380}
"""At paper scale 380 episodes of 50 rows are 15,000 + 2,000 + 2,000. Short ones, because a street driven
along in one direction at one speed says little about the others."""
STEPS: dict[Scale, int] = {"smoke": 50, "paper": 50}
PROBES: dict[Scale, int] = {"smoke": 2000, "paper": 19_000}
TEST_SHARE = 2_000 / 19_000
"""Share of episodes and probes to hold out for the paper's 2,000 test rows, and as many for validation."""
PATCH = 0.5
"""Half the side of the square at the origin in which the authors' parked cars are: their code divides the
limits of the map by its size twice [m]."""

_UNITS = {
    "x": "m", "y": "m", "heading": "rad", "speed": "m/s", "yaw_rate": "rad/s",
    "acceleration": "m/s²", "steering": "rad", "ahead": "m", "left": "m", "turn": "rad",
}  # fmt: skip
_POSE, _MOTION, _COMMANDS = ("x", "y", "heading"), ("speed", "yaw_rate"), ("acceleration", "steering")
_BODY = ("ahead", "left", "turn")


def _schema(rich: bool, body: bool) -> Schema:
    states, controls = (_POSE + _MOTION, _COMMANDS) if rich else (_POSE, _MOTION)
    outputs = _BODY + states[3:] if body else states
    units = {name: _UNITS[name] for name in (*states, *controls, *outputs)}
    advances = tuple(states.index(name) if name in states else -1 for name in outputs)
    return Schema(states, controls, outputs, units, ("heading",), advances)


SCHEMAS: dict[Variant, Schema] = {
    "pose": _schema(rich=False, body=False),
    "body": _schema(rich=False, body=True),
    "rich": _schema(rich=True, body=False),
    "rich_body": _schema(rich=True, body=True),
}
_DRIVEN: Box = {
    "x": (-HALF_WIDTH, HALF_WIDTH), "y": (-HALF_WIDTH, HALF_WIDTH),
    "speed": (0.0, TOP_SPEED), "yaw_rate": (-1.5, 1.5),
}  # fmt: skip
_ASKED: Box = {"acceleration": (-8.0, 4.0), "steering": (-0.6, 0.6)}
DOMAINS: dict[Variant, Box] = {
    "pose": _DRIVEN,
    "body": _DRIVEN,
    "rich": {**_DRIVEN, **_ASKED},
    "rich_body": {**_DRIVEN, **_ASKED},
}
"""Limits of inputs beyond which nothing is claimed."""
TRUSTED_MODELS: dict[Variant, TrustedModel] = {
    "pose": TRUSTED,
    "body": BODY_TRUSTED,
    "rich": RICH_TRUSTED,
    "rich_body": RICH_BODY_TRUSTED,
}
"""What each variant trusts."""


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
    rich, body = variant.startswith("rich"), variant.endswith("body")
    states, controls = (now, recording.commands) if rich else (now[..., :3], now[..., 3:])
    outcomes = _moved(now, after) if body else after
    outcomes = outcomes[..., : states.shape[-1]]
    parts = (states, controls, outcomes)
    # By car, then by time.
    flat = [np.swapaxes(part, 0, 1).reshape(cars * steps, -1) for part in parts]
    ids = np.repeat(np.arange(cars), steps)
    return Transitions.from_arrays(*flat, episodes=ids, schema=SCHEMAS[variant])


def as_body(transitions: Transitions) -> Transitions:
    """Transitions of variant `pose` or `rich` as those of `body` or `rich_body`, row by row."""
    rich = "speed" in transitions.schema.outputs
    schema = SCHEMAS["rich_body" if rich else "body"]
    moved = _moved(transitions.states, transitions.next_states)
    return replace(transitions, next_states=moved, schema=schema)


def _moved(now: Array, after: Array) -> Array:
    """(..., 3 or more) metres ahead and to the left, radians turned; what follows is taken over."""
    (dx, dy, turn), heading = np.moveaxis(after - now, -1, 0)[:3], now[..., 2]
    cosine, sine = np.cos(heading), np.sin(heading)
    moved = np.stack([cosine * dx + sine * dy, cosine * dy - sine * dx, turn], axis=-1)
    return np.concatenate([moved, after[..., 3:]], axis=-1)


def as_pose_step(predict: Step) -> Step:
    """A step of next states from one of variant `body` or `rich_body`, for rollouts and comparisons."""
    return lambda states, controls: compose(states, predict(states, controls))


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
