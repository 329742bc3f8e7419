"""Smooth tethers: as certified as others, and continuous where cells meet."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import tether
from tether.attack import attack
from tether.certificate import certify
from tether.constrained import ConstrainedModel
from tether.pipeline import TETHERED, FitConfig, build_tether, prepare, train_method
from tether.training import TrainingConfig
from tether_studies import parked_car


@pytest.fixture(scope="module")
def models():
    transitions = parked_car.drive(episodes=20, steps=60)
    config = FitConfig(
        memories=120, bounds="affine", evidence="proved", smooth=True, domain=parked_car.DOMAIN, hidden=(16, 16),
        training=TrainingConfig(steps=60, evaluate_every=60),
    )  # fmt: skip
    problem = prepare(
        transitions,
        trusted=parked_car.TRUSTED,
        probes=parked_car.parked(transitions, count=500),
        config=config,
    )
    built = build_tether(problem, config)
    smooth = train_method(problem, TETHERED, config, tether=built).model
    stepped = ConstrainedModel(smooth.network, smooth.frame, built.cells, replace(built.bounds, blend=0))
    return problem, smooth, stepped


def jumps(model, start, stop, pieces):
    """Largest change of the prediction between neighbouring points of a segment, over its length."""
    inputs = start + np.linspace(0, 1, pieces + 1)[:, None] * (stop - start)
    outputs = model.predict(inputs[:, :3], inputs[:, 3:]) - inputs[:, :3]
    return np.abs(np.diff(outputs, axis=0)).max(axis=0)


def test_continuous_across_faces_where_the_stepped_one_jumps(models):
    """Halving the step halves the largest change of a continuous function; a jump stays."""
    problem, smooth, stepped = models
    ratios = {"smooth": [], "stepped": []}
    tests = problem.split.test.inputs
    rng = np.random.default_rng(0)
    for _ in range(6):
        start, stop = tests[rng.integers(0, len(tests), 2)]
        for name, model in (("smooth", smooth), ("stepped", stepped)):
            coarse, fine = (jumps(model, start, stop, pieces) for pieces in (500, 8_000))
            ratios[name].append(float((fine / np.maximum(coarse, 1e-12)).max()))
    assert np.median(ratios["smooth"]) < 0.2
    assert np.median(ratios["stepped"]) > 0.8


def test_certified_and_attacked(models):
    problem, smooth, _ = models
    certificate = certify(smooth, problem.trusted, transitions=problem.split.test)
    assert certificate.evidence == "proved" and certificate.domain.coverage_D > 0.95
    found = attack(smooth, problem.trusted, evaluations=30_000)
    assert 0.2 < found.max_ratio <= 1.0
    remainder = smooth.bounds.expansion.remainder
    half = replace(smooth.bounds.expansion, remainder=replace(remainder, slopes=0.2 * remainder.slopes))
    bounds = replace(smooth.bounds, expansion=half)
    broken = ConstrainedModel(smooth.network, smooth.frame, smooth.cells, bounds)
    assert attack(broken, problem.trusted, evaluations=30_000).broken


def test_weights_are_convex_and_only_of_cells_that_hold_the_input(models):
    problem, smooth, _ = models
    inputs = problem.training_inputs
    location = smooth.cells.locate(inputs)
    place = smooth.tether.lookup.place(torch.from_numpy(inputs))
    found = smooth.tether._around(torch.from_numpy(inputs), place.cell, distance=place.distance)
    cell, weight, distance = (part.numpy() for part in (found.cell, found.weight, found.distance))
    assert (weight >= 0).all() and np.allclose(weight.sum(axis=1), 1, atol=1e-12)
    used = (weight > 0) & location.in_domain[:, None]
    assert (distance <= smooth.cells.radii[cell])[used].all()
    assert (used.sum(axis=1) > 1).mean() > 0.5


def test_torch_gives_the_same(models):
    problem, smooth, _ = models
    states, controls = problem.split.test.states, problem.split.test.controls
    forward = smooth(torch.from_numpy(states), torch.from_numpy(controls)).detach().numpy()
    np.testing.assert_allclose(forward, smooth.predict(states, controls), rtol=0, atol=1e-9)


def test_saved_and_loaded(models, tmp_path):
    problem, smooth, _ = models
    tether.save(smooth, tmp_path / "model.safetensors")
    again = tether.load(tmp_path / "model.safetensors")
    assert again.bounds.blend == smooth.bounds.blend > 0
    states, controls = problem.split.test.states, problem.split.test.controls
    np.testing.assert_array_equal(again.predict(states, controls), smooth.predict(states, controls))


def test_rounding_alone_keeps_within_delta():
    """An affine M far from the origin: nothing but rounding is left of delta, and averages round too."""
    rng = np.random.default_rng(3)
    states = 1e4 + rng.uniform(-1, 1, (2000, 3))
    turn = rng.normal(size=(3, 3))
    data = tether.Transitions.from_arrays(
        states, np.zeros((2000, 0)), states @ turn, episodes=np.arange(2000) // 50
    )
    model = tether.fit(
        data, trusted=lambda s, u: s @ turn, bounds="affine", evidence="proved", smooth=True, memories=100,
        hidden=(4,), training=TrainingConfig(steps=2, evaluate_every=2),
    )  # fmt: skip
    certify(model, lambda s, u: s @ turn)
    found = attack(model, lambda s, u: s @ turn, evaluations=50_000)
    assert found.max_ratio <= 1.0 and found.delta < 1e-6


def test_steps_cannot_be_smooth():
    with pytest.raises(ValueError, match="`smooth` must come with bounds 'affine'"):
        FitConfig(smooth=True)
