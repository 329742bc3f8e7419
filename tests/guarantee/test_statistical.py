"""Statistical evidence: the share it claims holds on draws it has not seen, and a false claim is refused."""

from dataclasses import replace

import numpy as np
import pytest

from tether.claims.certificate import certify
from tether.evidence import Statistical
from tether.evidence.statistical import binomial_tail, draws_allowed, draws_needed, refuted
from tether.fitting import FitConfig, prepare, train_method
from tether.fitting.methods import CONSTRAINED, TETHERED
from tether.foundation.errors import CertificateError
from tether.learning.config import TrainingConfig
from tether.model.assembling import constrained_model
from tether.tethers.calibration import exceedance
from tether_studies import parked_car


@pytest.fixture(scope="module", params=["interval", "affine"])
def drawn(request):
    transitions = parked_car.drive(episodes=20, steps=60)
    kind = request.param
    config = FitConfig(
        memories=80,
        bounds=kind,
        leaves=300,
        evidence=Statistical(epsilon=0.01, beta=1e-4),
        domain=parked_car.DOMAIN,
        hidden=(8,),
        training=TrainingConfig(steps=2, evaluate_every=2),
    )
    # A black box: no constants, no derivative.
    problem = prepare(transitions, trusted=parked_car.unicycle, config=config)
    method = CONSTRAINED if kind == "interval" else TETHERED
    return problem, train_method(problem, replace(method, loss="squared_error"), config).model


def test_the_share_holds_on_draws_of_its_own(drawn):
    problem, model = drawn
    inputs = model.bounds.draw(model.cells, 40_000, model.schema, np.random.default_rng(99))
    assert model.limits(inputs).in_domain.all()
    seen = exceedance(
        model.bounds, model.cells, problem.trusted, model.schema, model.frame.target, inputs=inputs
    )
    assert seen.exceeded / seen.draws < 0.01
    # Over boxes the corners that were looked at are where this M is farthest from its first-order models.
    assert seen.exceeded > 0 or model.bounds.kind == "affine"


def test_the_certificate_states_what_it_rests_on(drawn):
    problem, model = drawn
    certificate = certify(model, problem.trusted)
    assert certificate.certified and certificate.evidence == "statistical"
    for words in ("confidence 1 - 0.0001", "a share 0.01", f"{draws_needed(0.01, 1e-4)} independent draws"):
        assert words in certificate.claim
    assert "memory drawn uniformly" in certificate.claim


def test_a_delta_made_smaller_is_refused(drawn):
    problem, model = drawn
    bounds = model.bounds
    if bounds.kind == "interval":
        bounds = replace(bounds, delta=0.7 * bounds.delta)
    else:
        bounds = replace(bounds, remainder=0.3 * bounds.remainder)
    model = constrained_model(model.network, model.frame, model.cells, bounds)
    with pytest.raises(
        CertificateError, match=r"at most a fraction 0.01 of inputs must exceed delta; of \d+ fresh"
    ):
        certify(model, problem.trusted)


def test_order_statistics_against_the_binomial():
    """With k of n allowed, a fraction ε or more would show so few exceedances with probability at most β."""
    for epsilon, beta in ((1e-3, 1e-6), (0.01, 1e-4), (0.1, 0.01)):
        draws, allowed = draws_needed(epsilon, beta), draws_allowed(epsilon, beta)
        assert 1 - binomial_tail(allowed + 1, draws, epsilon) <= beta
        assert 1 - binomial_tail(allowed + 2, draws, epsilon) > beta
    scipy_stats = pytest.importorskip("scipy.stats")
    assert binomial_tail(7, 500, 0.01) == pytest.approx(scipy_stats.binom.sf(6, 500, 0.01), rel=1e-9)
    assert not refuted(10, 1000, 0.01) and refuted(60, 1000, 0.01)


def test_the_claim_fails_about_as_rarely_as_it_says():
    """Repeated on a distribution whose exceedance is known: at most β of the repetitions are wrong."""
    epsilon, beta = 0.05, 0.05
    draws, allowed = draws_needed(epsilon, beta), draws_allowed(epsilon, beta)
    rng = np.random.default_rng(0)
    limits = np.sort(rng.random((20_000, draws)), axis=1)[:, -1 - allowed]
    assert 0.5 * beta < (1 - limits > epsilon).mean() <= beta * 1.05


@pytest.mark.parametrize(("name", "value"), [("epsilon", 0.0), ("beta", 1.0)])
def test_shares_are_between_zero_and_one(name, value):
    with pytest.raises(ValueError, match=f"`{name}` must be between 0 and 1; got {value}"):
        Statistical(**{name: value})
