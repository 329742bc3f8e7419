"""What is learned where nothing is asked for: never worse than M, one plain network, the same by seed."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import tether
from tether.data import find_glitches
from tether.files.storage import network_spec
from tether.fitting import TETHERED, FitConfig, build_for, prepare
from tether.fitting.choosing import choose
from tether.learning.config import TrainingConfig
from tether.learning.examples import Examples, TrainingData
from tether.learning.training import train
from tether.model import Ensemble, mlp

STEP = 0.05
SCHEMA = tether.make_schema(["position", "speed"], ["force"])
CONFIG = FitConfig(bounds="affine", training=TrainingConfig(steps=300, evaluate_every=50))


def trusted(states, controls):
    speed = states[:, 1] + STEP * (controls[:, 0] - np.sin(states[:, 0]))
    return np.stack([states[:, 0] + STEP * states[:, 1], speed], axis=1)


def driven(drag: float, noise: float = 0.003, episodes: int = 16):
    """With drag that M does not know of, and noise; positions as M has them."""
    rng = np.random.default_rng(0)
    states, parts = rng.normal(size=(episodes, 2)), []
    for _ in range(40):
        controls = rng.uniform(-2, 2, (episodes, 1))
        following = trusted(states, controls)
        following[:, 1] -= STEP * drag * states[:, 1] * np.abs(states[:, 1])
        parts.append((states, controls, following + rng.normal(0, noise, following.shape)))
        states = following
    columns = (np.concatenate(part) for part in zip(*parts, strict=True))
    number = np.tile(np.arange(episodes), 40)
    return tether.Transitions.from_arrays(*columns, episodes=number, schema=SCHEMA)


@pytest.fixture(scope="module")
def model():
    return tether.fit(driven(drag=0.3), trusted=trusted, config=CONFIG)


def error(step, part):
    return np.sqrt(((step(part.states, part.controls) - part.next_states) ** 2).mean(axis=0))


def test_what_can_be_learned_is(model) -> None:
    test = driven(drag=0.3).split().test
    share = error(model.predict, test) / error(trusted, test)
    assert share[0] <= 1.01  # noise, to which nothing is added
    assert share[1] < 0.6
    assert model.record["gain"][1] > 0.9


def test_a_few_glitches_decide_nothing() -> None:
    # Six rows in 8,000 in which a ship's position was 0 made it two and three times as wrong as M in all others.
    data, glitches = driven(drag=0.3, episodes=32), (50, 210, 470, 890)
    order = np.argsort(data.episodes, kind="stable")
    states, controls, following, episodes = (
        getattr(data, name)[order] for name in ("states", "controls", "next_states", "episodes")
    )
    following[:-1][episodes[1:] == episodes[:-1]] = states[1:][episodes[1:] == episodes[:-1]]
    for row in glitches:
        following[row, 0] = states[row + 1, 0] = 5000.0
    spoilt = tether.Transitions.from_arrays(states, controls, following, episodes=episodes, schema=SCHEMA)
    wild = find_glitches(spoilt)
    assert np.flatnonzero(wild).tolist() == [row + k for row in glitches for k in (0, 1)]
    model = tether.fit(spoilt, trusted=trusted, config=CONFIG)
    whole = spoilt.split()
    test = whole.test.take(np.flatnonzero(~find_glitches(whole.test)))
    assert find_glitches(whole.train).any()
    assert model.frame.outputs.scale[0] < 0.01  # of noise, and not of thousands
    assert model.frame.inputs.scale[0] < 100
    inside = model.predict(test.states, test.controls, details=True)
    assert inside.in_domain.all() and inside.delta.max() < 1  # 5,000 where scales and box knew of them
    # Nor do those of validation rows, too few by themselves to tell what is usual, stretch the box.
    assert len(whole.validation) < 300 and np.abs(whole.validation.states).max() > 1000
    assert np.ptp([model.bounds.tree.lower, model.bounds.tree.upper], axis=0)[0] < 100
    share = error(model.predict, test) / error(trusted, test)
    assert share[0] <= 1.01
    assert share[1] < 0.6


def test_it_is_one_plain_network_that_is_saved(model, tmp_path) -> None:
    assert network_spec(model.network)["kind"] == "mlp"
    tether.save(model, tmp_path / "model.safetensors")
    test = driven(drag=0.3).split().test
    again = tether.load(tmp_path / "model.safetensors")
    assert np.array_equal(
        again.predict(test.states, test.controls), model.predict(test.states, test.controls)
    )


def test_the_seed_decides(model) -> None:
    again = tether.fit(driven(drag=0.3), trusted=trusted, config=CONFIG)
    for one, other in zip(model.network.parameters(), again.network.parameters(), strict=True):
        assert torch.equal(one, other)


def test_of_an_m_that_is_right_nothing_is_changed() -> None:
    data = driven(drag=0.0)
    model = tether.fit(data, trusted=trusted, config=CONFIG)
    assert model.record["gain"] == [0.0, 0.0]
    test = data.split().test
    base = model.frame.base(test.states)
    assert np.array_equal(model.predict(test.states, test.controls), base + model.limits(test.inputs).anchor)


def test_a_network_that_was_asked_for_is_trained_alone() -> None:
    config = replace(CONFIG, hidden=(16,))
    model = tether.fit(driven(drag=0.3), trusted=trusted, config=config)
    assert network_spec(model.network)["widths"] == [3, 16, 2]
    own = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
    assert tether.fit(driven(drag=0.3), trusted=trusted, network=own, config=CONFIG).network is own


class _Stopped(Exception):
    pass


def test_a_stopped_run_goes_on_to_the_same_weights(tmp_path) -> None:
    config = replace(CONFIG, training=replace(CONFIG.training, checkpoint_seconds=0.0))
    problem = prepare(driven(drag=0.3), trusted=trusted, config=config)
    built = build_for(problem, TETHERED, config)

    @contextmanager
    def stopping(title):
        def report(step, steps):
            if step == 160:
                raise _Stopped

        yield report

    whole = choose(problem, TETHERED, config, built=built)

    def checkpoint(name):
        return tmp_path / f"{name}.safetensors"

    with pytest.raises(_Stopped):
        choose(problem, TETHERED, config, built=built, checkpoint=checkpoint, reporter=stopping)
    assert len(list(tmp_path.iterdir())) == 1
    resumed = choose(problem, TETHERED, config, built=built, checkpoint=checkpoint)
    pairs = zip(whole.run.model.network.parameters(), resumed.run.model.network.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)
    assert np.array_equal(whole.gain, resumed.gain)


def test_no_member_learns_from_its_own_fold(model) -> None:
    """Rows of a fold are changed beyond recognition: the network that leaves it out stays what it was."""
    rng = np.random.default_rng(1)
    states, controls = rng.normal(size=(200, 2)), rng.uniform(-2, 2, (200, 1))
    inputs, answers = np.concatenate([states, controls], axis=1), trusted(states, controls) - states
    fold = np.arange(200) % 3

    def trained(target):
        networks = [mlp(3, 2, (8,), seed=seed) for seed in range(3)]
        learner = tether.Model(Ensemble(networks, torch.zeros(3), torch.ones(3)), model.frame, model.tether)
        rows, probes = Examples(inputs, answers, target, fold), Examples(inputs, answers)
        data = TrainingData(rows, probes, rows, probes)
        train(learner, data, TrainingConfig(steps=20, evaluate_every=20))
        assert isinstance(learner.network, Ensemble)
        return learner.network.members()

    changed = answers.copy()
    changed[fold == 1] += 0.01
    differ = [
        any(not torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))
        for one, other in zip(trained(answers), trained(changed), strict=True)
    ]
    assert differ == [True, False, True]
