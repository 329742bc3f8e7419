"""Tries to break a tube: rollouts with extreme weights, from extreme starts, under extreme controls.

Whatever the weights, a prediction is one of the numbers between the limits, and any of them can be had: so a
rollout may take any, anew at each step. Some are always at the same ends, some change ends now and then, some
throw a coin at each step, some are anywhere between.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether.claims.carrying import Rule, check_carried, follow
from tether.claims.tubes.controls import Boxed
from tether.claims.tubes.making import Tube
from tether.claims.tubes.network import Weights
from tether.data import Array
from tether.foundation.limits import MOST_DRAWS, check_seed, check_whole
from tether.foundation.progress import Report
from tether.model import Model

_CHUNK = 8192
_CHANGES = np.array([0.0, 0.05, 0.2, 1.0])
"""How often, at a step, a rollout changes the end it is at."""


@dataclass(frozen=True)
class TubeAttack:
    """The worst rollout found.

    Attributes:
        max_ratio: largest distance from the middle of the tube over its half-width; above 1 it is refuted.
        rollouts: how many were tried.
        state: name of the state where it was found.
        step: and after which step.
        row: from which start.
        spread: (T + 1, dx) half of what all rollouts of the first start spread over.
    """

    max_ratio: float
    rollouts: int
    state: str
    step: int
    row: int
    spread: Array

    @property
    def broken(self) -> bool:
        """Whether a rollout left the tube."""
        return self.max_ratio > 1


def attack_tube(
    model: Model,
    found: Tube,
    *,
    rollouts: int = 10_000,
    seed: int = 0,
    policy: Any = None,
    carried: Rule | None = None,
    progress: Report | None = None,
) -> TubeAttack:
    """Looks for a rollout of the model, with any weights, that leaves the tube.

    Args:
        model: the model; its weights do not matter, unless the tube is for these alone.
        found: the tube.
        rollouts: how many to try, over all starts.
        seed: of the search.
        policy: the feedback that the tube is for, if it is.
        carried: the rule that states follow which the model does not predict, if there are any.
        progress: told (rollouts tried, rollouts to try).
    """
    check_whole("rollouts", rollouts, least=1, most=MOST_DRAWS)
    check_seed("seed", seed)
    check_carried("a tube", found.schema, carried)
    if policy is not None and isinstance(found.controls, Boxed):
        raise ValueError("`policy` must be left out: the tube has no use for it; got a function.")
    if found.weights is not None and Weights(model).digest != found.weights:
        raise ValueError("`model` must have the weights that the tube is for; it has others. Make it anew.")
    rng = np.random.default_rng([seed, 0x7B])
    lower, upper = found.start
    best = TubeAttack(0.0, 0, found.schema.states[0], 0, 0, np.zeros((found.steps + 1, lower.shape[1])))
    ends = [np.full((found.steps + 1, lower.shape[1]), sign * np.inf) for sign in (1, -1)]
    for begin in range(0, rollouts, _CHUNK):
        count = min(_CHUNK, rollouts - begin)
        row = (begin + np.arange(count)) % len(found)
        share = rng.random((count, lower.shape[1]))
        share = np.where(rng.random((count, 1)) < 0.7, np.round(share), share)
        states = np.clip(lower[row] + share * (upper[row] - lower[row]), lower[row], upper[row])
        paths = extreme_rollouts(model, found, states, row, rng, policy, carried)
        best = max(best, _worst(found, paths, row, begin), key=lambda one: one.max_ratio)
        own = paths[row == 0]
        if len(own):
            ends = [np.fmin(ends[0], own.min(axis=0)), np.fmax(ends[1], own.max(axis=0))]
        if progress is not None:
            progress(begin + count, rollouts)
    return TubeAttack(best.max_ratio, rollouts, best.state, best.step, best.row, 0.5 * (ends[1] - ends[0]))


def extreme_rollouts(
    model: Model,
    found: Tube,
    states: Array,
    row: NDArray[np.int64],
    rng: np.random.Generator,
    policy: Any = None,
    carried: Rule | None = None,
) -> Array:
    """(K, T + 1, dx) rollouts from states (K, dx), near the tube's own turns; NaN outside the domain."""
    schema, steps = found.schema, found.steps
    side = rng.integers(0, 2, (len(states), len(schema.outputs))).astype(float)
    change = rng.choice(_CHANGES, (len(states), 1))
    between = rng.random((len(states), 1)) < 0.1
    high = rng.integers(0, 2, (len(states), len(schema.controls))).astype(float)
    paths, alive = [states], np.ones(len(states), dtype=bool)
    for step in range(steps):
        flips = rng.random(side.shape) < change
        side = np.where(flips, rng.integers(0, 2, side.shape), side)
        high = np.where(rng.random(high.shape) < change, rng.integers(0, 2, high.shape), high)
        dx = len(schema.states)
        wrapped = schema.wrap_inputs(paths[-1], np.zeros((len(states), len(schema.controls))))[:, :dx]
        controls = found.controls_at(step, row, high, wrapped, policy)
        inputs = schema.wrap_inputs(wrapped, controls)
        # Those that have left the domain are no numbers any more: any other stands for them.
        inputs = np.where(alive[:, None], inputs, inputs[np.argmax(alive)] if alive.any() else 0.0)
        limits = model.limits(inputs)
        share = np.where(between, rng.random(side.shape), side)
        if found.weights is None:
            target = limits.lower + share * (limits.upper - limits.lower)
            following = model.frame.base(inputs[:, :dx]) + np.clip(target, limits.lower, limits.upper)
        else:
            following = model.predict(inputs[:, :dx], inputs[:, dx:])
        alive &= limits.in_domain
        whole = follow(schema, carried, inputs[:, :dx], inputs[:, dx:], following)
        paths.append(np.where(alive[:, None], whole, np.nan))
    return _unwrapped(found, np.stack(paths, axis=1), row)


def _unwrapped(found: Tube, paths: Array, row: NDArray[np.int64]) -> Array:
    """On the tube's own turns; after its end, beside where each was one step before."""
    angles = np.array([name in found.schema.angles for name in found.schema.states])
    lower, upper = found.ends
    middle, moved = (0.5 * lower + 0.5 * upper)[row], paths.copy()
    for step in range(found.steps + 1 if angles.any() else 0):
        near = np.where(np.isnan(middle[:, step]), moved[:, step - 1], middle[:, step])
        with np.errstate(invalid="ignore"):
            turns = np.round((near - paths[:, step]) / (2 * np.pi)) * angles
        turned = paths[:, step] + 2 * np.pi * np.where(np.isfinite(turns), turns, 0.0)
        moved[:, step] = np.where(turns == 0, paths[:, step], turned)
    return moved


def _worst(found: Tube, paths: Array, row: NDArray[np.int64], begin: int) -> TubeAttack:
    del begin
    lower, upper = (end[row] for end in found.ends)
    # Whole turns are taken off in floats here, and 2π is not one.
    turned = np.array([name in found.schema.angles for name in found.schema.states]) * 1e-13
    with np.errstate(invalid="ignore"):
        middle, half = 0.5 * lower + 0.5 * upper, 0.5 * (upper - lower)
        inside = (paths >= lower - turned) & (paths <= upper + turned)
        ratio = np.abs(paths - middle) / np.maximum(half, 1e-300)
    ratio = np.where(inside, np.minimum(ratio, 1.0), ratio)
    ratio = np.where(np.isnan(ratio), 0.0, ratio)
    ratio[:, 0] = np.where(ratio[:, 0] > 1, ratio[:, 0], 0.0)  # a start is where it was put
    worst = np.unravel_index(int(np.argmax(ratio)), ratio.shape)
    name = found.schema.states[worst[2]]
    return TubeAttack(float(ratio[worst]), len(paths), name, int(worst[1]), int(row[worst[0]]), np.empty(0))
