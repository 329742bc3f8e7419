"""Models that jump: known over the whole box, with half of the jump where it is and next to nothing elsewhere."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tether
from tether.foundation.errors import CertificateError
from tether.model.assembling import constrained_model

SCHEMA = tether.make_schema(["x", "v"], ["u"])
EDGE = 0.3


def moved(s, change):
    return np.stack([s[:, 0] + 0.1 * s[:, 1], s[:, 1] + change], axis=1)


def coulomb(s, u):
    return moved(s, 0.1 * (u[:, 0] - 0.5 * np.sign(s[:, 1])))


def quantised(s, u):
    return moved(s, 0.1 * np.floor(2 * u[:, 0]) + 0.01 * np.rint(3 * s[:, 0]))


def gears(s, u):
    return moved(s, np.where(u[:, 0] > EDGE, 0.2 * s[:, 0] ** 2 + 0.1 * s[:, 1], 0.1 * np.sin(s[:, 0])))


def sawtooth(s, u):
    return moved(s, 0.1 * (3 * s[:, 0] + u[:, 0]) % 0.25 + 0.02 * (u[:, 0] // 0.7))


def by_branches(s, u):
    rows = []
    for (x, v), (force,) in zip(s, u, strict=True):
        if v > EDGE:
            friction = -0.3
        elif v < -EDGE:
            friction = 0.3
        else:
            friction = -v
        rows.append([x + 0.1 * v, v + 0.1 * (force + friction)])
    return np.array(rows)


def counted(s, u):
    """A truth value as a number, of two inputs."""
    return moved(s, 0.1 * u[:, 0] + 0.3 * (s[:, 0] + s[:, 1] > EDGE))


def nested(s, u):
    level = np.where(s[:, 1] > 0, np.floor(4 * u[:, 0]), np.where(u[:, 0] < 0, -1.0, 2.0))
    return moved(s, 0.05 * level * np.cos(s[:, 0]))


MODELS = {
    function.__name__: function
    for function in (coulomb, quantised, gears, sawtooth, by_branches, counted, nested)
}
LARGEST_JUMP = {"coulomb": 0.1, "quantised": 0.12, "gears": 0.9, "sawtooth": 0.3, "by_branches": 0.0, "counted": 0.3,
                "nested": 0.75}  # fmt: skip


@pytest.fixture(scope="module", params=MODELS)
def fitted(request):
    function = MODELS[request.param]
    rng = np.random.default_rng(0)
    states, controls = rng.uniform(-1, 1, (600, 2)), rng.uniform(-2, 2, (600, 1))
    after = function(states, controls) + rng.normal(0, 0.01, (600, 2))
    data = tether.Transitions.from_arrays(
        states, controls, after, episodes=np.arange(600) // 30, schema=SCHEMA
    )
    training = tether.TrainingConfig(steps=5)
    return tether.fit(
        data, trusted=function, evidence="proved", leaves=3000, memories=10, hidden=(4,), training=training
    ), function  # fmt: skip


def near_jumps(model, rng, rows):
    """Inputs of the box, many of them next to where the models jump, to the last place."""
    tree = model.bounds.tree
    inputs = rng.uniform(tree.lower, tree.upper, (rows, 3))
    places = np.array([0.0, EDGE, -EDGE, 0.5, 0.25, 0.7, 1.0, 1 / 6, 0.5 / 3, 1.5])
    chosen = rng.random(inputs.shape) < 0.5
    inputs = np.where(chosen, rng.choice(places, inputs.shape), inputs)
    inputs[:, 1] = np.where(rng.random(rows) < 0.2, EDGE - inputs[:, 0], inputs[:, 1])
    ulps = rng.integers(-3, 4, inputs.shape)
    inputs = inputs + ulps * np.spacing(inputs) * chosen
    return np.clip(inputs, tree.lower, tree.upper)


def test_all_of_the_box_is_known(fitted):
    assert fitted[0].bounds.known_share == 1.0
    assert np.isfinite(fitted[0].bounds.remainder).all()


def test_no_weights_leave_delta(fitted):
    model, function = fitted
    inputs = near_jumps(model, np.random.default_rng(1), 60_000)
    found = model.predict(inputs[:, :2], inputs[:, 2:], details=True)
    assert found.in_domain.all()
    trusted = function(inputs[:, :2], inputs[:, 2:])
    for end in (found.lower, found.upper):
        assert (np.abs(end - trusted) <= found.delta).all()


def test_the_jump_is_halved_and_the_rest_is_sharp(fitted):
    model, function = fitted
    speed = model.bounds.output == 1
    worst = model.bounds.remainder[speed].max()
    assert worst <= 0.5 * LARGEST_JUMP[function.__name__] + 0.01
    inputs = np.random.default_rng(2).uniform([-1, -1, -2], [1, 1, 2], (5000, 3))
    assert np.median(model.bounds.remainder_at(inputs)[:, 1]) < 0.005


def test_it_is_certified_attacked_and_verified(fitted, tmp_path):
    model, function = fitted
    assert tether.certify(model, function).certified
    assert not tether.attack(model, function, evaluations=20_000).broken
    tether.save(model, tmp_path / "model.safetensors")
    assert tether.verify(tmp_path / "model.safetensors", function).verified


def test_less_than_half_of_a_jump_is_found_out(fitted, tmp_path):
    model, function = fitted
    if not LARGEST_JUMP[function.__name__]:
        pytest.skip("it does not jump")
    bounds = model.bounds
    worst = np.argmax(np.where(bounds.output == 1, bounds.remainder, 0.0))
    remainder = bounds.remainder.copy()
    remainder[worst] *= 0.9
    false = constrained_model(model.network, model.frame, model.cells, replace(bounds, remainder=remainder))
    with pytest.raises(CertificateError):
        tether.certify(false, function)
    tether.save(false, tmp_path / "model.safetensors")
    with pytest.raises(CertificateError, match="not verified"):
        tether.verify(tmp_path / "model.safetensors", function)
