"""No rollout of a model leaves its tube, whatever the weights; and nothing narrower would do."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

import tether
from tether.claims.rollout import rollout
from tether.claims.tubes import attack_tube, tube
from tether.claims.tubes.attacking import extreme_rollouts
from tether.data import Transitions, make_schema
from tether.fitting import DIRECT, TETHERED, FitConfig, build_for, prepare
from tether.fitting.methods import train_method

TRAINING = tether.TrainingConfig(steps=20, dtype="float64")


def pendulum(states, controls):
    """Gymnasium's, with its kinks."""
    angle, speed = states[:, 0], states[:, 1]
    torque = np.clip(controls[:, 0], -2.0, 2.0)
    speed = np.clip(speed + 0.05 * (15.0 * np.sin(angle) + 3.0 * torque), -8.0, 8.0)
    return np.stack([angle + 0.05 * speed, speed], axis=1)


def car(states, controls):
    """A unicycle."""
    x, y, heading = states.T
    step = 0.1 * controls[:, 0]
    return np.stack(
        [x + step * np.cos(heading), y + step * np.sin(heading), heading + 0.1 * controls[:, 1]], axis=1
    )


def _logged(function, schema, lower, upper, seed=0):
    rng = np.random.default_rng(seed)
    inputs = rng.uniform(lower, upper, (600, len(lower)))
    dx = len(schema.states)
    states, controls = inputs[:, :dx], inputs[:, dx:]
    after = function(states, controls) + 0.01 * np.sin(7 * inputs[:, :1]) * np.ptp(inputs[:, :dx], axis=0)
    return Transitions.from_arrays(states, controls, after, episodes=np.arange(600) // 30, schema=schema)


@cache
def learned(name: str, method: str = "affine", target: str = "increment"):
    """A model of some system, hardly trained: what is tested holds for any weights."""
    schemas = {
        "pendulum": (pendulum, ["angle", "speed"], ["torque"], ["angle"], [-3.1, -7.0, -2.0]),
        "car": (
            car,
            ["x", "y", "heading"],
            ["speed", "yaw_rate"],
            ["heading"],
            [-9.0, -9.0, -3.1, -3.0, -1.0],
        ),
    }
    function, states, controls, angles, low = schemas[name]
    schema = make_schema(states, controls, angles=angles)
    data = _logged(function, schema, np.array(low), -np.array(low))
    config = FitConfig(
        memories=40, leaves=300, hidden=(8,), training=TRAINING, evidence="proved", target=target
    )
    how = TETHERED if method == "affine" else DIRECT
    problem = prepare(data, trusted=function, config=config)
    return train_method(problem, how, config, built=build_for(problem, how, config)).model, function


CASES = {
    "a point": dict(system="pendulum", start=[3.0, 0.5], controls=np.zeros((20, 1))),
    "over ±π, a box": dict(system="pendulum", start=([3.05, 0.8], [3.2, 1.0]), controls=np.full((20, 1), 0.5)),
    "free controls": dict(system="pendulum", start=[0.3, 0.0], controls=([-0.5], [0.5]), steps=8),
    "next states": dict(system="pendulum", start=[3.0, 0.9], controls=np.zeros((20, 1)), target="next_state"),
    "beside M": dict(system="pendulum", start=[3.0, 0.5], controls=np.zeros((20, 1)), method="direct"),
    "a car": dict(system="car", start=[0.0, 0.0, 3.0], controls=np.tile([1.0, 0.5], (15, 1))),
    "many cars": dict(system="car", start=np.array([[0, 0, k] for k in (-3.1, 0, 2, 9.0)]),
                      controls=np.tile([1.0, 0.5], (10, 1))),
    "a box in parts": dict(system="car", start=([0, 0, 0.0], [0.1, 0.1, 1.0]), controls=np.tile([1.0, 0.2], (10, 1)),
                           halvings=2),
    "few generators": dict(system="car", start=[0, 0, 1.0], controls=np.tile([1.0, 0.2], (12, 1)), generators=6),
}  # fmt: skip


def _tube(case: str):
    given = dict(CASES[case])
    model, function = learned(
        given.pop("system"), given.pop("method", "affine"), given.pop("target", "increment")
    )
    return model, tube(model, function, given.pop("start"), given.pop("controls"), **given)


@pytest.mark.parametrize("case", CASES)
def test_no_rollout_leaves(case):
    model, found = _tube(case)
    assert found.complete, found.reasons
    worst = attack_tube(model, found, rollouts=4000)
    assert worst.max_ratio <= 1
    # From a point the first step is as wide as the limits are: nothing narrower would do.
    if np.array_equal(*found.start):
        assert worst.max_ratio > 0.995


@pytest.mark.parametrize("case", ["a point", "a car", "beside M"])
def test_one_percent_less_is_broken(case):
    model, found = _tube(case)
    middle, half = 0.5 * (found.lower + found.upper), found.half_width
    shrunk = replace(found, lower=middle - 0.99 * half, upper=middle + 0.99 * half)
    assert attack_tube(model, shrunk, rollouts=4000).broken


@pytest.mark.parametrize("weight", [0.0, 1.0, 1e6, -1e6])
def test_the_models_own_rollouts(weight):
    model, found = _tube("over ±π, a box")
    kept = {name: value.clone() for name, value in model.network.state_dict().items()}
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for value in model.network.parameters():
            value.copy_(weight * torch.randn(value.shape, generator=generator, dtype=value.dtype))
    low, high = found.start
    starts = np.random.default_rng(0).uniform(low, high, (200, 2))
    paths = rollout(model, starts, np.full((20, 200, 1), 0.5))
    model.network.load_state_dict(kept)
    assert found.contains(paths.transpose(1, 0, 2)).all()


def test_rollouts_go_on_from_where_they_are_when_a_tube_has_ended():
    model, function = learned("pendulum")
    found = tube(model, function, [3.0, 1.2], np.zeros((40, 1)))
    assert 0 < found.ended < 30
    row, rng = np.zeros(50, dtype=np.int64), np.random.default_rng(0)
    paths = extreme_rollouts(model, found, np.tile([3.0, 1.2], (50, 1)), row, rng)
    angle = paths[~np.isnan(paths[:, found.ended + 1]).any(axis=1)][:, : found.ended + 2, 0]
    assert len(angle) and (angle[:, -2] > np.pi).any()
    assert np.abs(np.diff(angle, axis=1)).max() < 1


@pytest.mark.parametrize("seed", range(10))
def test_random_systems(seed):
    rng = np.random.default_rng(seed)
    states = int(rng.integers(1, 5))
    schema = make_schema([f"x{k}" for k in range(states)], ["u"], angles=["x0"] if seed % 2 else [])
    mix, bend = 0.2 * rng.normal(size=(states, states)), rng.normal(size=(states, states + 1))

    def system(now, controls):
        inside = np.concatenate([now, controls], axis=1)
        turned = np.concatenate([np.sin(inside[:, :1]), inside[:, 1:]], axis=1) if seed % 2 else inside
        return now + 0.1 * np.tanh(turned @ bend.T) + 0.1 * np.sin(turned[:, :states]) @ mix.T

    high = np.full(states + 1, 3.0)
    data = _logged(system, schema, -high, high, seed)
    config = FitConfig(memories=20, leaves=60 * states, hidden=(4,), training=TRAINING, evidence="proved")
    problem = prepare(data, trusted=system, config=config)
    model = train_method(problem, TETHERED, config, built=build_for(problem, TETHERED, config)).model
    start = rng.uniform(-1, 1, (3, states))
    found = tube(model, system, (start, start + 0.05), rng.uniform(-1, 1, (6, 1)))
    worst = attack_tube(model, found, rollouts=3000)
    assert worst.max_ratio <= 1
