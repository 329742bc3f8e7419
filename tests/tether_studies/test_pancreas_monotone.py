from __future__ import annotations

import numpy as np
import pytest
import torch

from tether.claims.construction import certify_by_construction
from tether.fitting import MONOTONE, Built, FitConfig, build_monotone_tether, prepare, train_method, untrained
from tether.fitting.monotone import monotone_network
from tether.foundation.errors import CertificateError
from tether.learning.config import TrainingConfig
from tether.model.monotone import MonotoneNetwork, ordered_linear
from tether.tethers.monotone import MonotoneTether
from tether.trusted import TrustedModel
from tether.trusted.affine import AffineModel
from tether_studies.pancreas.armax import fit_armax
from tether_studies.pancreas.data import HELD_OUT, glucose_schema, low_glucose_probes, simulate_data
from tether_studies.pancreas.monotonicity import attack_monotonicity


def built(tether):
    return Built(tether, "next_state", network=monotone_network)


@pytest.fixture(autouse=True)
def one_thread():
    """Two threads would wait for each other longer than they work on networks this small."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def config() -> FitConfig:
    training = TrainingConfig(steps=300, evaluate_every=100)
    return FitConfig(
        memories=100,
        target="next_state",
        bounds="affine",
        decreasing=tuple(name for name in glucose_schema().inputs if name.startswith("insulin")),
        hidden=(20, 20, 20),
        validation=HELD_OUT,
        test=HELD_OUT,
        training=training,
    )


@pytest.fixture(scope="module")
def study(config):
    data = simulate_data("smoke")
    model = fit_armax(data.split(validation=HELD_OUT, test=HELD_OUT).train).model.affine
    problem = prepare(data, trusted=TrustedModel(model), probes=low_glucose_probes("smoke"), config=config)
    return problem, build_monotone_tether(problem, config)


def attacked(model, problem, pairs: int = 40_000):
    test = problem.split.test
    return attack_monotonicity(
        model.predict, test.inputs, test.schema, problem.scaling.scale, pairs=pairs, seed=1
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [1.0, 1e4])
def test_no_weights_make_it_rise(study, config, dtype, size) -> None:
    problem, tether = study
    model = untrained(problem, config, built(tether))
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.network.parameters():
            parameter.copy_(size * torch.randn(parameter.shape, generator=generator))
    model.network.to(dtype).eval()
    found = attacked(model, problem, pairs=20_000)
    assert (found.rises, found.largest) == (0, 0.0)


def test_trained_it_is_no_worse_than_m_and_stays_within_delta(study, config) -> None:
    problem, tether = study
    model = train_method(problem, MONOTONE, config, built=built(tether)).model
    assert attacked(model, problem).rises == 0
    test = problem.split.test
    answers = model.predict(test.states, test.controls, details=True)
    trusted = problem.data[2].trusted
    assert answers.in_domain.all()
    assert (np.abs(answers.next_states - trusted) <= answers.delta).all()
    error, alone = (np.mean((values - test.next_states) ** 2) for values in (answers.next_states, trusted))
    assert error < alone


def test_within_delta_far_from_any_data(study, config) -> None:
    problem, tether = study
    model = untrained(problem, config, built(tether))
    with torch.no_grad():
        for parameter in model.network.parameters():
            parameter.mul_(1e3)
    model.network.eval()
    inputs = np.random.default_rng(0).standard_normal((2000, 31)) * 1e6
    answers = model.predict(inputs[:, :30], inputs[:, 30:], details=True)
    assert answers.in_domain.all()
    distance = np.abs(answers.next_states - tether.trusted(inputs[:, :30], inputs[:, 30:]))
    assert (distance <= answers.delta).all()


def test_untrained_it_follows_m(study, config) -> None:
    problem, tether = study
    model = untrained(problem, config, built(tether))
    with torch.no_grad():
        for layer in model.network.side_layers[-1:]:
            layer.weight.zero_()
        model.network.monotone_weights[-1].zero_()
    model.network.eval()
    test = problem.split.test
    np.testing.assert_allclose(model.predict(test.states, test.controls), problem.data[2].trusted, atol=0.05)


def test_rows_answer_the_same_in_any_batch(study, config) -> None:
    problem, tether = study
    model = untrained(problem, config, built(tether))
    model.network.eval()
    test = problem.split.test.take(np.arange(65))
    together = model.predict(test.states, test.controls)
    model.network.train()
    np.testing.assert_array_equal(model.predict(test.states, test.controls), together)
    alone = [model.predict(test.states[k : k + 1], test.controls[k : k + 1]) for k in range(65)]
    np.testing.assert_array_equal(np.concatenate(alone), together)


def test_network_falls_in_declared_features_and_may_rise_in_others() -> None:
    network = MonotoneNetwork(6, 2, decreasing=[1, 4], hidden=(16, 16), seed=3).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
        features = torch.randn(1000, 6, generator=torch.Generator().manual_seed(2))
        for column in range(6):
            raised = features.clone()
            raised[:, column] += 0.5
            change = network(raised) - network(features)
            assert (change <= 0).all() == (column in (1, 4)), column
            assert (change != 0).any()


def test_training_and_prediction_compute_the_same_function() -> None:
    network = MonotoneNetwork(6, 2, decreasing=[1, 4], hidden=(16, 16), seed=3)
    features = torch.randn(50, 6, generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(network.train()(features), network.eval()(features))
    weight, bias = torch.randn(3, 6), torch.randn(3)
    torch.testing.assert_close(ordered_linear(features, weight, bias), features @ weight.T + bias)


def test_it_learns_what_is_monotone_but_neither_convex_nor_concave() -> None:
    generator = torch.Generator().manual_seed(0)
    features = 2 * torch.rand(256, 2, generator=generator) - 1
    target = -torch.tanh(4 * features[:, 1:]) * (1 + features[:, :1]) + features[:, :1] ** 2
    network = MonotoneNetwork(2, 1, decreasing=[1], hidden=(20, 20), seed=0)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    for _ in range(300):
        optimizer.zero_grad()
        loss = ((network(features) - target) ** 2).mean()
        loss.backward()
        optimizer.step()
    assert float(loss.detach()) < 0.02 * float(target.var())


def changed(tether, **given):
    names = ("trusted", "states", "declared", "cells", "half_width", "pinned")
    own = {name: getattr(tether, name) for name in names} | {"half_width": tether.half_width.numpy()}
    return MonotoneTether(**(own | given))


def test_mistakes_are_named(study) -> None:
    with pytest.raises(ValueError, match="`decreasing` must name some features of 3"):
        MonotoneNetwork(3, 1, decreasing=[3], hidden=(4,))
    with pytest.raises(ValueError, match="`hidden` and `monotone_hidden` must list as many"):
        MonotoneNetwork(3, 1, decreasing=[0], hidden=(4, 4), monotone_hidden=(4,))
    _, tether = study
    rising = AffineModel(np.ones((1, 31)), [0.0])
    with pytest.raises(ValueError, match="`trusted` must have weights of at most 0"):
        changed(tether, trusted=rising)
    with pytest.raises(ValueError, match="`cells` and `pinned` must have a column for each of the 21 inputs"):
        changed(tether, declared=tether.declared[1:])
    with pytest.raises(ValueError, match="`declared` must be some of 31 inputs in ascending order"):
        changed(tether, declared=tether.declared[::-1])
    with pytest.raises(ValueError, match="`half_width` must be finite and at least 0"):
        changed(tether, half_width=-tether.half_width.numpy() - 1)


def test_cells_that_hold_probes_follow_m(study, config) -> None:
    problem, _ = study
    tether = build_monotone_tether(problem, config, follow_probes=True)
    model = untrained(problem, config, built(tether))
    with torch.no_grad():
        for parameter in model.network.parameters():
            parameter.mul_(1e3)
    model.network.eval()
    inputs = problem.probes[0].inputs
    np.testing.assert_array_equal(model.predict(inputs[:, :30], inputs[:, 30:]), problem.probes[0].trusted)
    assert (tether.half_width > 0).any(), "open elsewhere"


def test_certificate_states_what_holds_and_checks_its_premises(study, config) -> None:
    problem, tether = study
    model = untrained(problem, config, built(tether))
    model.network.eval()
    inputs, trusted = problem.split.test.inputs, tether.trusted
    certificate = certify_by_construction(model, trusted, inputs=inputs, points=5000, seed=1)
    assert certificate.certified and certificate.evidence == "proved"
    assert certificate.conformance.recheck.max_ratio <= 1
    assert (
        certificate.monotonicity.declared[0] == "insulin_9" and len(certificate.monotonicity.declared) == 11
    )
    assert certificate.deltas[0].maximum >= tether.half_width.max()
    other = AffineModel(trusted.weights, trusted.intercept + 1e-12)
    with pytest.raises(CertificateError, match="`trusted` must be the model the tether was built with"):
        certify_by_construction(model, other, points=10, seed=1)
    model.network = MonotoneNetwork(31, 1, decreasing=[0], hidden=(4,))
    with pytest.raises(CertificateError, match="the network must be monotone in the declared inputs"):
        certify_by_construction(model, trusted, points=10, seed=1)
