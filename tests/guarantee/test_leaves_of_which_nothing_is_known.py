"""Where M jumps or has a pole a leaf is left out of the domain, and the rest is certified as ever."""

from dataclasses import replace

import numpy as np
import pytest

import tether
from tether.learning.config import TrainingConfig


def pole(states, controls):
    return np.column_stack([states[:, 0] + 1e-3 / (states[:, 1] - 0.37), 0.9 * states[:, 1] + controls[:, 0]])


def told(states, controls):
    """Says itself where it has no answer."""
    near = np.abs(states[:, 1] - 0.37) < 0.02
    return np.column_stack(
        [states[:, 0] + np.where(near, np.nan, 0.1 * states[:, 1] ** 2), 0.9 * states[:, 1] + controls[:, 0]]
    )


def halved(states, controls):
    """One output is not defined in half of the box, where much is known of the other."""
    return np.column_stack(
        [states[:, 0] + 0.1 * np.sqrt(states[:, 1] - 0.37), 0.9 * states[:, 1] + np.sin(controls[:, 0])]
    )


def data(trusted):
    rng = np.random.default_rng(0)
    states, controls = rng.uniform(-1, 1, (600, 2)), rng.uniform(-1, 1, (600, 1))
    if trusted is halved:
        states[:, 1] = 0.5 + 0.4 * states[:, 1] ** 2
    states[:, 1] = np.where(np.abs(states[:, 1] - 0.37) < 0.05, 0.6, states[:, 1])
    return tether.Transitions.from_arrays(
        states, controls, trusted(states, controls) + 0.01 * np.sin(3 * states), episodes=np.arange(600) // 20
    )


@pytest.mark.parametrize("trusted", [pole, told])
@pytest.mark.parametrize("delta", [None, 2.0])
def test_the_rest_of_the_box_is_certified(trusted, delta, tmp_path):
    model = tether.fit(
        data(trusted), trusted=trusted, bounds="affine", evidence="proved", delta=delta, leaves=400,
        hidden=(8,), training=TrainingConfig(steps=40),
    )  # fmt: skip
    certificate = tether.certify(model, trusted)
    assert certificate.certified
    assert np.isfinite([each.maximum for each in certificate.deltas]).all()
    rng = np.random.default_rng(1)
    tree = model.bounds.tree
    inputs = rng.uniform(tree.lower, tree.upper, (20_000, 3))
    found = model.predict(inputs[:, :2], inputs[:, 2:], details=True)
    assert 0.9 < found.in_domain.mean() <= 1
    inside = found.in_domain
    away = np.abs(found.next_states - trusted(inputs[:, :2], inputs[:, 2:]))
    assert (away[inside] <= found.delta[inside]).all()
    assert not tether.attack(model, trusted, evaluations=20_000).broken
    tether.save(model, tmp_path / "model.safetensors")
    again = tether.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(again.predict(inputs[:, :2], inputs[:, 2:]), found.next_states)
    assert tether.verify(tmp_path / "model.safetensors", trusted).verified


def barely(states, controls):
    """Bends along the product; that it is not defined all over the box is the first input's doing."""
    level = states[:, 0] - 1e-4 * states[:, 0] / (0.95 + states[:, 0])
    return np.column_stack([level, states[:, 1] + 0.1 * states[:, 1] * controls[:, 0] + level])


def test_an_output_that_is_known_does_not_make_m_be_asked():
    config = tether.FitConfig(leaves=400, hidden=(4,), training=TrainingConfig(steps=5))
    box = {"x0": (-1, 1), "x1": (-1, 1), "u0": (-1, 1)}
    model = tether.fit(data(halved), trusted=halved, config=replace(config, domain=box, evidence="proved"))
    rng = np.random.default_rng(1)
    inputs = rng.uniform(-1, 1, (20_000, 3))
    with np.errstate(invalid="ignore"):
        values = halved(inputs[:, :2], inputs[:, 2:])
    found = model.predict(inputs[:, :2], inputs[:, 2:], details=True)
    assert 0.25 < found.in_domain.mean() < 0.32
    assert (np.abs(found.next_states - values) <= found.delta)[found.in_domain].all()
    assert tether.certify(model, halved).certified


def chaotic(states, controls):
    """A proof knows next to nothing of the first output, which is not defined everywhere."""
    x, y, a = states[:, 0], states[:, 1], states[:, 0]
    for _ in range(10):
        a = np.sin(2 * a + 3 * y * controls[:, 0]) - np.cos(3 * a * y) + a * x
    return np.column_stack([0.3 * a + np.sqrt(y + 0.5), y + 0.1 * controls[:, 0]])


def test_a_loose_proof_is_kept_where_values_cannot_be_had():
    rng = np.random.default_rng(0)
    states, controls = rng.uniform(-0.4, 1, (600, 2)), rng.uniform(-1, 1, (600, 1))
    rows = tether.Transitions.from_arrays(
        states, controls, chaotic(states, controls), episodes=np.arange(600) // 20
    )
    config = tether.FitConfig(
        leaves=300, hidden=(4,), training=TrainingConfig(steps=5), domain={"x1": (-1, 1)}
    )
    model = tether.fit(rows, trusted=chaotic, config=config)
    assert model.bounds.evidence.name == "proved"
    assert 0.5 < model.bounds.known_share < 1


def test_leaves_are_cut_along_what_makes_them_known():
    rng = np.random.default_rng(0)
    states, controls = rng.uniform(-0.9, 1, (600, 2)), rng.uniform(-1, 1, (600, 1))
    after = barely(states, controls) + 0.003 * np.sin(3 * states)
    rows = tether.Transitions.from_arrays(states, controls, after, episodes=np.arange(600) // 20)
    config = tether.FitConfig(leaves=300, hidden=(4,), memories=20, training=TrainingConfig(steps=5))
    model = tether.fit(rows, trusted=barely, config=config)
    found = model.predict(states, controls, details=True)
    assert found.in_domain.mean() > 0.95
    assert np.median(found.delta, axis=0).max() < 0.02


def test_that_it_was_asked_where_it_has_no_answer_is_nobodys_trouble(recwarn):
    rng = np.random.default_rng(0)
    states, controls = rng.uniform(-1, 1, (600, 2)), rng.uniform(-1, 1, (600, 1))
    states[:, 1] = 0.37 + 0.4 * states[:, 1] ** 2  # a jitter around these asks for a root of less than 0
    after = halved(states, controls) + 0.01 * np.sin(3 * states)
    rows = tether.Transitions.from_arrays(states, controls, after, episodes=np.arange(600) // 20)
    config = tether.FitConfig(leaves=100, hidden=(8,), training=TrainingConfig(steps=10))
    model = tether.fit(rows, trusted=halved, config=config)
    assert tether.certify(model, halved).certified
    assert not tether.attack(model, halved, evaluations=5_000).broken
    assert not [str(heard.message) for heard in recwarn if heard.category is RuntimeWarning]
