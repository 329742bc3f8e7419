"""Transitions of circling drones (D), probes in hover (Ω), and how predictions are fed back.

A row spans one control step (1/48 s): the commands are constant over it, and it is the step at which a
controller would ask a model. Of the 20 states a model predicts the 12 that are free (position, angles,
velocity, body rates). The other 8 follow: the quaternion is that of the angles, and the motors turn as
commanded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tether.claims.rollout import Step, rollout
from tether.data import Array, Box, Probes, Schema, Transitions, make_schema, wrap_angle
from tether.foundation.progress import Reporter, silent
from tether_studies.drones import crazyflie
from tether_studies.drones.attitude import quaternion_of
from tether_studies.drones.simulator import LEAST_SPACING, CirclePlan, Flight, fly_circle

Scale = Literal["smoke", "paper"]

_POSITION, _ANGLES = ("x", "y", "z"), ("roll", "pitch", "yaw")
_QUATERNION = ("quaternion_x", "quaternion_y", "quaternion_z", "quaternion_w")
_VELOCITY = ("velocity_x", "velocity_y", "velocity_z")
_RATES = ("rate_roll", "rate_pitch", "rate_yaw")
_MOTORS = tuple(f"motor_{k}" for k in range(4))
_COMMANDS = tuple(f"command_{k}" for k in range(4))
STATES = (*_POSITION, *_QUATERNION, *_ANGLES, *_VELOCITY, *_RATES, *_MOTORS)
OUTPUTS = (*_POSITION, *_ANGLES, *_VELOCITY, *_RATES)
_UNITS = {
    **dict.fromkeys(_POSITION, "m"),
    **dict.fromkeys(_ANGLES, "rad"),
    **dict.fromkeys(_VELOCITY, "m/s"),
    **dict.fromkeys(_RATES, "rad/s"),
    **dict.fromkeys((*_MOTORS, *_COMMANDS), "rpm"),
}

SCHEMA: Schema = make_schema(STATES, _COMMANDS, OUTPUTS, units=_UNITS, angles=["yaw"])
"""20 states, 4 commands, 12 outputs. Roll does not wrap: a drone on its back is out of the domain."""
WHOLE_SCHEMA: Schema = make_schema(STATES, _COMMANDS, units=_UNITS, angles=["yaw"])
"""The same with all 20 states as outputs, for rollouts."""
DOMAIN: Box = {
    **dict.fromkeys(_ANGLES[:2], (-0.35, 0.35)),
    **dict.fromkeys(_RATES[:2], (-2.0, 2.0)),
    "rate_yaw": (-0.25, 0.25),
    **dict.fromkeys(_COMMANDS, (0.9 * crazyflie.HOVER_SPEED, 1.1 * crazyflie.HOVER_SPEED)),
}
"""The flight envelope, beyond which nothing is claimed: 20 degrees of tilt, thrust within a fifth."""
_LOST = 1e6


@dataclass(frozen=True)
class Campaign:
    """How much is flown.

    Attributes:
        flights: how many flights; one is one episode, because its drones feel each other's downwash.
        steps: control steps of each flight.
        drones: in each flight.
        probes: how many hovering inputs.
        held_out: share of the flights (and probes) for validation, and the same again for the test.
    """

    flights: int
    steps: int
    drones: int = 6
    probes: int = 19_000
    held_out: float = 2 / 19

    @property
    def rows(self) -> int:
        """Transitions in all."""
        return self.flights * self.steps * self.drones


CAMPAIGNS: dict[Scale, Campaign] = {
    "smoke": Campaign(flights=19, steps=24, probes=2_850),
    # 45 flights to learn from (15,120 rows), 6 to choose by and 6 to measure on (2,016 rows each).
    "paper": Campaign(flights=57, steps=56, probes=19_000),
}


def draw_plans(campaign: Campaign, *, seed: int = 0) -> list[CirclePlan]:
    """A plan for each flight: circles of different size, speed, direction, height and headings."""
    rng = np.random.default_rng(seed)
    # Drawn by how hard the drones turn, not by how long a round takes: else hard turns, and with them the
    # steepest attitudes, would be rare, and those of a flight held out unlike all flights learned from.
    low = [0.34, 0.05, 0.15, LEAST_SPACING, -np.pi]
    high = [0.5, 1.2, 0.4, 0.2, np.pi]
    plans = []
    for _ in range(campaign.flights):
        radius, acceleration, lowest, spacing, phase = rng.uniform(low, high).tolist()
        period = 2 * np.pi * float(np.sqrt(radius / acceleration) * rng.choice([-1, 1]))
        yaws = tuple(rng.uniform(-np.pi, np.pi, campaign.drones).tolist())
        drones, own = campaign.drones, int(rng.integers(2**31))
        plans.append(CirclePlan(drones, radius, period, lowest, spacing, phase, yaws, 0.02, seed=own))
    return plans


def fly(scale: Scale | Campaign = "paper", *, seed: int = 0, reporter: Reporter = silent) -> Transitions:
    """Simulates a campaign: D.

    Args:
        scale: how much is flown, by name or in numbers.
        seed: of plans, disturbances and gusts.
        reporter: opens a progress display.
    """
    campaign = _campaign(scale)
    plans, flights = draw_plans(campaign, seed=seed), []
    with reporter("Flights") as progress:
        for plan in plans:
            flights.append(fly_circle(plan, campaign.steps))
            progress(len(flights), len(plans))
    return as_transitions(flights)


def as_transitions(flights: Sequence[Flight]) -> Transitions:
    """Rows of all flights: flight by flight, drone by drone, in the order of time."""
    outputs = list(SCHEMA.advances)
    before = [_rows(flight.states[:-1]) for flight in flights]
    after = [_rows(flight.states[1:])[:, outputs] for flight in flights]
    commands = [_rows(flight.commands) for flight in flights]
    episodes = np.repeat(np.arange(len(flights)), [len(rows) for rows in before])
    parts = [np.concatenate(part) for part in (before, commands, after)]
    return Transitions.from_arrays(*parts, episodes=episodes, schema=SCHEMA)


def as_flights(transitions: Transitions, *, drones: int = 6) -> list[Flight]:
    """The flights that rows of :func:`as_transitions` came from, or of whole episodes of them."""
    flights = []
    for episode in np.unique(transitions.episodes):
        part = transitions.take(transitions.episodes == episode)
        last = complete(part.states, part.controls, part.next_states)
        before, after, commands = (
            np.swapaxes(rows.reshape(drones, -1, rows.shape[1]), 0, 1)
            for rows in (part.states, last, part.controls)
        )
        flights.append(Flight(np.concatenate([before, after[-1:]]), commands))
    return flights


def hover_probes(
    like: Transitions, *, scale: Scale | Campaign = "paper", seed: int = 0, count: int | None = None
) -> Probes:
    """Ω: drones that hover anywhere in the space of `like`, facing anywhere.

    Level, at rest, motors turning and commanded to turn at hover speed.
    """
    count, rng = count or _campaign(scale).probes, np.random.default_rng(seed)
    position = like.states[:, :3]
    low = [*position.min(axis=0), -np.pi]
    placed = rng.uniform(low, [*position.max(axis=0), np.pi], (count, 4))
    states = hovering(placed[:, :3], placed[:, 3])
    return Probes.from_arrays(states, hover_commands(count), schema=SCHEMA)


def hovering(positions: Array, yaws: Array) -> Array:
    """States (N, 20) of drones that hover at positions (N, 3), facing yaws (N,)."""
    still = np.zeros((len(yaws), 3))
    angles = still.copy()
    angles[:, 2] = yaws
    return np.concatenate(
        [positions, quaternion_of(angles), angles, still, still, hover_commands(len(yaws))], axis=1
    )


def hover_commands(count: int) -> Array:
    """Commands (count, 4) that carry the weight."""
    return np.full((count, 4), crazyflie.HOVER_SPEED)


def carried(states: Array, controls: Array, outputs: Array) -> Array:
    """Next quaternions and motor speeds (N, 8), which no model predicts, from what one does (N, 12).

    The quaternion is that of the predicted angles; motors turn as commanded, within what they can.
    """
    del states
    motors = np.clip(controls, 0.0, crazyflie.TOP_SPEED)
    return np.concatenate([quaternion_of(outputs[:, 3:6]), motors], axis=1)


def complete(states: Array, controls: Array, outputs: Array) -> Array:
    """Next states (N, 20) from the 12 predicted ones (N, 12) and the rest, :func:`carried`."""
    known = outputs.copy()
    known[:, 5] = wrap_angle(known[:, 5])
    rest = carried(states, controls, known)
    parts = (known[:, :3], rest[:, :4], known[:, 3:], rest[:, 4:])
    return np.concatenate(parts, axis=1)


def whole_step(predict: Step) -> Step:
    """A step of all 20 states, from one that predicts 12 (a model's ``predict``, or M).

    A number beyond 1e6 stays there: a model that has lost its drone need not be followed to infinity.
    """

    def step(states: Array, controls: Array) -> Array:
        outputs = np.clip(predict(states, controls), -_LOST, _LOST)
        return complete(states, controls, outputs)

    return step


def roll_out(predict: Step, states: Array, commands: Array) -> Array:
    """Trajectories (T + 1, N, 20) from states (N, 20) under commands (T, N, 4), predictions fed back."""
    return rollout(whole_step(predict), states, commands, schema=WHOLE_SCHEMA)


def _campaign(scale: Scale | Campaign) -> Campaign:
    if isinstance(scale, Campaign):
        return scale
    if scale not in CAMPAIGNS:
        raise ValueError(f"`scale` must be one of {', '.join(CAMPAIGNS)}; got {scale!r}.")
    return CAMPAIGNS[scale]


def _rows(values: Array) -> Array:
    """(N T, C) rows from (T, N, C) values, drone by drone."""
    return np.swapaxes(values, 0, 1).reshape(-1, values.shape[2])
