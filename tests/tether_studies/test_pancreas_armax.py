from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import lsq_linear

from tether.programs import enclose
from tether.trusted import TrustedModel, check_trusted
from tether_studies.pancreas.armax import fit_armax, solve_nonpositive
from tether_studies.pancreas.data import insulin_columns, read_paper_traces, simulate_data

TRACES = Path(__file__).parents[2].parent / "shared" / "reference" / "pancreas_traces"


@pytest.mark.parametrize("seed", range(20))
def test_solution_is_the_best_of_all_active_sets(seed: int) -> None:
    rng = np.random.default_rng(seed)
    design, target = rng.standard_normal((40, 8)) @ rng.standard_normal((8, 8)), rng.standard_normal(40)
    signed = np.arange(8) >= 3
    weights = solve_nonpositive(design, target, signed)
    assert (weights[signed] <= 0).all()
    best = np.inf
    for kept in product([False, True], repeat=5):
        columns = np.concatenate([np.ones(3, dtype=bool), kept])
        candidate = np.linalg.lstsq(design[:, columns], target, rcond=None)[0]
        if (candidate[3:] <= 0).all():
            best = min(best, float(np.sum((design[:, columns] @ candidate - target) ** 2)))
    assert np.sum((design @ weights - target) ** 2) == pytest.approx(best, rel=1e-12)


def test_fit_is_the_optimum_that_scipy_finds() -> None:
    data = simulate_data("smoke")
    fit = fit_armax(data)
    design = np.column_stack([data.inputs, np.ones(len(data))])
    upper = np.full(design.shape[1], np.inf)
    upper[insulin_columns(data.schema)] = 0
    other = lsq_linear(design, data.next_states[:, 0], (-np.inf, upper), method="bvls")
    assert fit.error == pytest.approx(2 * other.cost / len(data), rel=1e-6)
    assert fit.optimality < 1e-10
    assert fit.unconstrained_error <= fit.error
    error = fit.model(data.states, data.controls) - data.next_states
    assert np.mean(error**2) == pytest.approx(fit.error, rel=1e-6)
    assert (fit.model.weights[insulin_columns(data.schema)] <= 0).all()
    assert (fit.model.weights[fit.held] == 0).all()


def test_model_keeps_the_contract_and_is_enclosed_as_affine() -> None:
    data = simulate_data("smoke")
    model = fit_armax(data).model
    check_trusted(TrustedModel(model), data.inputs, data.schema)
    far = np.full((1, 31), 1e4)
    enclosed = enclose(model, -far, far, states=30)
    np.testing.assert_allclose(enclosed.jacobian_lower[0, 0], model.weights, rtol=1e-12)
    np.testing.assert_allclose(enclosed.jacobian_upper[0, 0], model.weights, rtol=1e-12)


@pytest.mark.skipif(not TRACES.exists(), reason="the paper's traces are not here (../shared/reference)")
def test_exact_fit_of_the_papers_traces() -> None:
    data, _ = read_paper_traces(TRACES)
    assert fit_armax(data).error == pytest.approx(0.14, abs=0.01)
