"""Certificates attacked: a million random inputs and a gradient search, against the worst weights there are."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from tether.claims.certificate import certify
from tether.evidence import Sampled, SamplingConfig
from tether.fitting import FitConfig, build_tether, fit, prepare
from tether.foundation.errors import CertificateError
from tether.learning.config import TrainingConfig
from tether_studies import parked_car


@pytest.fixture(scope="module", params=["increment", "next_state"])
def certified(request):
    transitions = parked_car.drive(episodes=20, steps=60)
    return fit(
        transitions,
        trusted=parked_car.TRUSTED,
        probes=parked_car.parked(transitions, count=1200),
        bounds="interval",
        memories=150,
        evidence="lipschitz",
        target=request.param,
        domain=parked_car.DOMAIN,
        hidden=(16,),
        training=TrainingConfig(steps=50, evaluate_every=50),
    )


def worst_ratio(model, inputs):
    """Largest distance to M over delta that any weights could reach, at inputs in the domain; (N,).

    Whatever the weights, an output lies in [lower, upper], so the worst is one of the two ends.
    """
    prediction = model.predict(inputs[:, :3], inputs[:, 3:], details=True)
    wrapped = model.schema.wrap_inputs(inputs[:, :3], inputs[:, 3:])
    trusted = parked_car.TRUSTED(wrapped[:, :3], wrapped[:, 3:], model.schema)
    ends = [model.schema.distance(end, trusted) for end in (prediction.lower, prediction.upper)]
    ratio = (np.maximum(*ends) / prediction.delta).max(axis=1)
    return np.where(prediction.in_domain, ratio, 0.0)


def random_inputs(model, rows, rng):
    """Half of them uniform in the domain box, half around memories at up to the radius."""
    cells = model.cells
    uniform = rng.uniform(cells.box_lower, cells.box_upper, (rows // 2, 5))
    direction = rng.standard_normal((rows - rows // 2, 5))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    reach = cells.radii.max() * rng.choice([0.1, 0.9, 0.999999, 1.0], (len(direction), 1))
    near = cells.memories[rng.integers(0, len(cells), len(direction))] + reach * direction
    return np.concatenate([uniform, near * cells.scale])


def test_a_million_random_inputs(certified):
    rng = np.random.default_rng(0)
    inside, worst = 0, 0.0
    for _ in range(10):
        ratio = worst_ratio(certified, random_inputs(certified, 100_000, rng))
        inside += int((ratio > 0).sum())
        worst = max(worst, float(ratio.max()))
    assert inside > 100_000, "the attack must reach the domain"
    assert 0.5 < worst <= 1.0


def test_gradient_attack(certified):
    """Ascent on the ratio by finite differences, from the worst of many starts."""
    rng = np.random.default_rng(1)
    inputs = random_inputs(certified, 50_000, rng)
    inputs = inputs[np.argsort(-worst_ratio(certified, inputs))[:300]]
    best = worst_ratio(certified, inputs)
    step = 0.05 * certified.cells.radii.max() * certified.cells.scale
    for round_ in range(60):
        width = step * 0.92**round_
        gradient = np.stack(
            [
                worst_ratio(certified, inputs + width * unit) - worst_ratio(certified, inputs - width * unit)
                for unit in np.eye(5) * 1e-3
            ],
            axis=1,
        )
        gradient /= np.linalg.norm(gradient, axis=1, keepdims=True) + 1e-30
        moved = inputs + width * (gradient + 0.2 * rng.standard_normal(gradient.shape))
        ratio = worst_ratio(certified, moved)
        better = ratio > best
        inputs[better], best[better] = moved[better], ratio[better]
    assert 0.5 < best.max() <= 1.0


@pytest.mark.parametrize("factor", [1.0, 1e6])
def test_predictions_themselves(certified, factor):
    rng = np.random.default_rng(2)
    weights = {name: value.clone() for name, value in certified.network.state_dict().items()}
    with torch.no_grad():
        for parameter in certified.network.parameters():
            parameter.mul_(factor)
    inputs = random_inputs(certified, 50_000, rng)
    prediction = certified.predict(inputs[:, :3], inputs[:, 3:], details=True)
    certified.network.load_state_dict(weights)
    trusted = parked_car.TRUSTED(inputs[:, :3], inputs[:, 3:], certified.schema)
    distance = certified.schema.distance(prediction.next_states, trusted)
    assert prediction.in_domain.sum() > 1000
    assert (distance <= prediction.delta).all()
    assert np.isinf(prediction.delta[~prediction.in_domain]).all()


def test_certify_refuses_another_trusted_model(certified):
    for shift in (50.0, 1e-6):
        other = replace(parked_car.TRUSTED, function=lambda s, u, by=shift: parked_car.unicycle(s, u) + by)
        with pytest.raises(CertificateError, match="must be the model the bounds were built with"):
            certify(certified, other)
    with pytest.raises(CertificateError, match="the claim cannot be derived again: .* must have constants"):
        certify(certified, parked_car.unicycle)


@pytest.mark.parametrize("factor", [0.9, np.nan])
def test_certify_derives_the_claim_again(certified, factor):
    """A delta understated by a tenth is beyond what sampling finds; deriving it anew finds it."""
    false = copy.deepcopy(certified)
    false.tether.delta.mul_(factor)
    false.tether.derive()
    with pytest.raises(CertificateError, match="derived anew, delta is larger than the model file says"):
        certify(false, parked_car.TRUSTED)
    steeper = replace(parked_car.TRUSTED, increment_lipschitz=2 * parked_car.TRUSTED.increment_lipschitz,
                      lipschitz=2 * parked_car.TRUSTED.lipschitz)  # fmt: skip
    with pytest.raises(CertificateError, match="derived anew, delta is larger"):
        certify(certified, steeper)


def test_sampled_is_never_called_a_guarantee():
    transitions = parked_car.drive(episodes=8, steps=30)
    config = FitConfig(
        bounds="interval", memories=30, evidence="sampled",
        sampling=SamplingConfig(per_cell=4, refinements=0),
    )  # fmt: skip
    problem = prepare(transitions, trusted=parked_car.unicycle, config=config)
    tether = build_tether(problem, config)
    assert tether.bounds.evidence == Sampled()
    model = fit(
        transitions,
        trusted=parked_car.unicycle,
        config=replace(config, hidden=(4,), training=TrainingConfig(steps=5, evaluate_every=5)),
    )
    certificate = certify(model, parked_car.unicycle)
    assert not certificate.certified
    assert "not a guarantee" in certificate.claim
    # So few samples must be found out by fresh ones, and the certificate says so instead of raising.
    assert certificate.conformance.recheck.max_ratio > 1
    assert certificate.conformance.recheck.outside_bounds > 0.1
