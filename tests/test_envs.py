"""Gymnasium environments whose world is a model, held against Gymnasium's own checks."""

from __future__ import annotations

import copy
import importlib
import subprocess
import sys
from functools import cache

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import tether
from conftest import frictionless
from test_adapt import drive
from tether.data import make_schema
from tether.envs import ModelEnv, ModelVectorEnv
from tether.model import Model


@cache
def learned() -> Model:
    training = tether.TrainingConfig(steps=40)
    return tether.fit(
        drive(0.3, episodes=12, seed=0),
        trusted=frictionless,
        training=training,
        memories=20,
        leaves=50,
        hidden=(8,),
    )


def quadratic(states, controls, following):
    del controls
    return -(states**2).sum(axis=1) - (following**2).sum(axis=1)


@pytest.mark.filterwarnings("ignore:.*(symmetric and normalized|infinity)")
def test_gymnasium_accepts_it():
    check_env(ModelEnv(learned(), quadratic, horizon=20), skip_render_check=True)


def test_a_step_is_the_model():
    model, env = learned(), ModelEnv(learned(), quadratic, horizon=3)
    state, _ = env.reset(seed=1, options={"state": [0.3, -0.2]})
    action = np.array([0.1])
    following, reward, terminated, truncated, info = env.step(action)
    known = model.predict(state[None], action[None], details=True)
    np.testing.assert_array_equal(following, known.next_states[0])
    np.testing.assert_array_equal(info["delta"], known.delta[0])
    assert info["in_domain"] and not terminated and not truncated
    assert reward == quadratic(state[None], None, following[None])[0]
    ends = [env.step(action)[3] for _ in range(2)]
    assert ends == [False, True]


def test_leaving_the_domain_ends_is_flagged_or_follows_m():
    model = learned()
    far = {"state": [1e3, 0.0]}
    ended = ModelEnv(model, quadratic)
    ended.reset(options=far)
    assert ended.step([0.0])[3]
    flagged = ModelEnv(model, quadratic, outside="flag")
    flagged.reset(options=far)
    *_, truncated, info = flagged.step([0.0])
    assert not truncated and not info["in_domain"] and np.isinf(info["delta"]).all()
    followed = ModelEnv(model, quadratic, outside="fallback", trusted=frictionless)
    followed.reset(options=far)
    np.testing.assert_array_equal(
        followed.step([0.5])[0], frictionless(np.array([[1e3, 0.0]]), np.array([[0.5]]))[0]
    )


def test_many_are_as_one_each():
    model = learned()
    many = ModelVectorEnv(model, quadratic, count=5, horizon=4)
    states, _ = many.reset(seed=3)
    ones = [ModelEnv(model, quadratic, horizon=4) for _ in range(5)]
    for env, state in zip(ones, states, strict=True):
        env.reset(options={"state": state})
    many.action_space.seed(0)
    for _ in range(4):
        actions = many.action_space.sample()
        found, rewards, _, truncated, _ = many.step(actions)
        for k, env in enumerate(ones):
            told = env.step(actions[k])
            np.testing.assert_allclose(told[0], found[k], rtol=0, atol=1e-7)
            assert told[1] == pytest.approx(rewards[k]) and told[3] == truncated[k]
        if truncated.any():
            break
    assert truncated.any()
    before = many.step(many.action_space.sample())
    assert (before[1][truncated] == 0).all() and not before[3][truncated].any(), "those that ended begin anew"
    assert all(many.observation_space.contains(each[0]) for each in (before,))


def test_seeds_are_kept():
    first, second = (ModelVectorEnv(learned(), quadratic, count=3).reset(seed=7)[0] for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert ModelEnv(learned(), quadratic, start=lambda rng: [0.5, 0.0]).reset()[0].tolist() == [0.5, 0.0]


@pytest.mark.parametrize(("settings", "said"), [
    ({"horizon": 0}, "`horizon` must be a whole number of at least 1; got 0"),
    ({"outside": "ignore"}, "`outside` must be 'truncate', 'flag' or 'fallback'; got 'ignore'"),
    ({"outside": "fallback"}, "outside='fallback' must have the trusted model"),
    ({"actions": (1.0, -1.0)}, "`actions` must be limits, low <= high"),
])  # fmt: skip
def test_settings_are_checked(settings, said):
    with pytest.raises(ValueError, match=said):
        ModelEnv(learned(), quadratic, **settings)


def test_a_model_of_some_states_is_no_world():
    model = copy.deepcopy(learned())
    model.schema = make_schema(["x", "v"], ["u"], ["x"])
    with pytest.raises(ValueError, match="`model` must predict every state to be a world; got outputs x"):
        ModelEnv(model, quadratic)


def test_a_reward_of_another_shape_is_refused():
    env = ModelEnv(learned(), lambda states, controls, following: 0.0)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="`reward` must give one number for each of 1 rows"):
        env.step([0.0])


def test_without_gymnasium_one_line_says_what_to_install(monkeypatch):
    monkeypatch.delitem(sys.modules, "tether.envs")
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(
        ImportError, match=r"must have gymnasium.*Run `pip install 'tether-dynamics\[gymnasium\]'`"
    ):
        importlib.import_module("tether.envs")


def test_its_pages_write_it_after_a_bare_import():
    code = "import tether; print(tether.envs.ModelEnv.__name__, tether.export.export.__name__)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["ModelEnv", "export"]
