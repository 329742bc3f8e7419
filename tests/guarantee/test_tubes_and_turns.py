"""Tubes of angles: what is known twice, up to turns, is not made narrower than it is; nor shown of a forged file."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tether
from tether.claims.tubes import attack_tube, save_tube, tube
from tether.claims.tubes.zonotopes import Zonotopes
from tether.data import Transitions, make_schema
from tether.fitting import TETHERED, FitConfig, build_for, prepare
from tether.fitting.methods import train_method
from tether.foundation.atomic import content_digest, read_tensors, write_tensors
from tether.verification.tubes import verify_tube


def bowl(states, controls):
    del controls
    return np.column_stack([states[:, 0], 4.2 * states[:, 0] ** 2])


def shallow(states, controls):
    del controls
    return np.column_stack([states[:, 0], 0.4 * states[:, 0] ** 2])


def steered(states, controls):
    """Not the same at π and at -π."""
    return np.column_stack([states[:, 0] + 0.1 * controls[:, 0], states[:, 1]])


def _learned(function, leaves, noise, angle="heading"):
    rng = np.random.default_rng(0)
    inputs = rng.uniform(-1, 1, (200, 3))
    after = function(inputs[:, :2], inputs[:, 2:]) + noise * rng.normal(size=(200, 2))
    schema = make_schema(["x", "heading"], ["u"], angles=[angle])
    data = Transitions.from_arrays(
        inputs[:, :2], inputs[:, 2:], after, episodes=np.arange(200) // 10, schema=schema
    )
    config = FitConfig(
        memories=10, leaves=leaves, hidden=(4,), training=tether.TrainingConfig(steps=5), evidence="proved",
        target="next_state",
    )  # fmt: skip
    problem = prepare(data, trusted=function, config=config)
    return train_method(problem, TETHERED, config, built=build_for(problem, TETHERED, config)).model


def test_what_an_angle_does_over_more_than_half_a_turn_is_held():
    model = _learned(bowl, 100, 0.1)
    found = tube(model, bowl, ([-1.0, 0.0], [1.0, 0.0]), np.zeros((1, 1)))
    assert not attack_tube(model, found, rollouts=2000).broken


def test_a_control_of_half_a_turn_is_where_the_model_sees_it():
    model = _learned(steered, 8, 1e-3, angle="u")
    for controls in (np.full((1, 1), np.pi), (np.array([3.0]), np.array([np.pi]))):
        found = tube(model, steered, [0.0, 0.0], controls, steps=1)
        following = model.predict(np.zeros((1, 2)), np.full((1, 1), np.pi))
        assert following[0, 0] < -0.3
        assert found.contains(np.concatenate([np.zeros((1, 2)), following]))[1]


def test_what_overflows_ends_a_tube():
    nothing = Zonotopes(np.zeros((1, 2)), np.array([[[np.inf, 1.0], [np.nan, 1.0]]]))
    assert not np.isfinite(nothing.radius).any()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A model file, the model, and a tube of one step from a point."""
    folder = tmp_path_factory.mktemp("turns")
    model = _learned(shallow, 8, 1e-3)
    tether.save(model, folder / "model.safetensors")
    save_tube(tube(model, shallow, [0.77, 0.0], np.zeros((1, 1))), folder / "tube.json")
    return folder, model, json.loads((folder / "tube.json").read_text())


def _verify(folder, content, model="model.safetensors"):
    (folder / "changed.json").write_text(json.dumps(content))
    return verify_tube(folder / "changed.json", shallow, folder / model)


def _somewhere_else(content, value):
    """That the heading is next to a value."""
    row = json.loads(json.dumps(content))["starts"][0]
    move, after = row["parts"][0]["moves"][0], row["parts"][0]["sets"][1]
    move["value"][1], move["slope"][1], move["point"] = value, [0.0] * 3, [0.77, 0.0, 0.0]
    generators = np.array(after["generators"])
    generators[1, :] = 0.0
    generators[1, -1] = 1e-6
    after["center"][1], after["generators"] = value, generators.tolist()
    row["lower"][1][1], row["upper"][1][1] = value - 2e-6, value + 2e-6
    return content | {"starts": [row]}


def test_another_trusted_model_is_refused(made):
    def other(states, controls):
        return shallow(states, controls) + 0.1

    with pytest.raises(ValueError, match="must be the trusted model that the model was fitted to"):
        tube(made[1], other, [0.77, 0.0], np.zeros((1, 1)))


def test_half_a_turn_from_both_is_not_shown(made):
    folder, model, content = made
    assert _verify(folder, content).not_vouched == ("its words", "the deltas")
    here = np.array([[0.77, 0.0, 0.0]])
    between = 0.5 * (model.bounds.evaluate(here)[0, 1] + shallow(here[:, :2], None)[0, 1])
    with pytest.raises(tether.CertificateError, match="cannot be shown"):
        _verify(folder, _somewhere_else(content, between + np.pi))


def test_columns_and_evidence_are_those_of_the_model(made):
    folder, _, content = made
    swapped = content["schema"] | {"states": ["heading", "x"]}
    with pytest.raises(tether.CertificateError, match="its columns must be those of"):
        _verify(folder, content | {"schema": swapped})
    with pytest.raises(tether.CertificateError, match="its evidence must be `proved`"):
        _verify(folder, content | {"evidence": "construction"})


def test_a_model_that_states_a_false_distance_shows_no_tube(made, monkeypatch):
    folder, _, _ = made
    tensors, words = read_tensors(folder / "model.safetensors")
    words.pop("digest")
    tensors["bounds.remainder"] = tensors["bounds.remainder"] * 1e-3
    forged = words | {"digest": content_digest(tensors, words)}
    write_tensors(folder / "forged.safetensors", tensors, forged)
    other = tether.load(folder / "forged.safetensors")
    monkeypatch.setattr("tether.claims.tubes.making.check_trusted", lambda *given: None)
    save_tube(tube(other, shallow, [0.77, 0.0], np.zeros((1, 1))), folder / "forged.json")
    content = json.loads((folder / "forged.json").read_text())
    with pytest.raises(tether.CertificateError, match="not verified"):
        _verify(folder, content, "forged.safetensors")
