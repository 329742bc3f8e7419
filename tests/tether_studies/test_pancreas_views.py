from __future__ import annotations

import numpy as np
import pytest

from tether.data import fit_scaling
from tether_studies.pancreas.armax import Armax, fit_armax
from tether_studies.pancreas.clinical import clarke_zones, time_in_range, zone_shares
from tether_studies.pancreas.data import insulin_columns, simulate_data
from tether_studies.pancreas.figures import (
    PatientDay,
    armax_figure,
    error_grid_figure,
    patient_day_figure,
    rises_figure,
)
from tether_studies.pancreas.monotonicity import Rises, attack_monotonicity, measure_monotonicity
from tether_studies.pancreas.views import limits_lines

# (reference, predicted, zone): inside each region of the grid of Clarke et al. (1987), and on its corners.
POINTS = [
    (100, 100, "A"), (50, 60, "A"), (70, 70, "A"), (200, 240, "A"), (200, 160, "A"), (0, 0, "A"), (400, 400, "A"),
    (100, 121, "B"), (100, 79, "B"), (300, 200, "B"), (200, 120, "B"), (290, 399, "B"), (71, 60, "A"), (85, 65, "B"),
    (100, 210, "C"), (100, 211, "C"), (280, 395, "C"), (160, 41, "C"), (175, 60, "C"),
    (250, 100, "D"), (240, 70.5, "D"), (400, 180, "D"), (50, 100, "D"), (60, 80, "D"), (65, 90, "D"), (10, 179, "D"),
    (200, 60, "E"), (180, 70, "E"), (60, 181, "E"), (50, 300, "E"), (70, 180, "E"),
]  # fmt: skip


@pytest.mark.parametrize(("reference", "predicted", "zone"), POINTS)
def test_clarke_zones(reference: float, predicted: float, zone: str) -> None:
    assert clarke_zones(np.array([float(reference)]), np.array([float(predicted)]))[0] == zone


def test_shares_add_up() -> None:
    rng = np.random.default_rng(0)
    reference, predicted = rng.uniform(0, 400, (2, 5000))
    shares = zone_shares(reference, predicted)
    assert sum(shares.values()) == pytest.approx(1)
    assert min(shares.values()) > 0
    assert time_in_range(np.array([60.0, 70.0, 180.0, 181.0])) == {
        "below": 0.25,
        "in_range": 0.5,
        "above": 0.25,
    }
    assert zone_shares(reference, reference)["A"] == 1
    with pytest.raises(ValueError, match="columns of one length"):
        clarke_zones(reference[:, None], predicted)


@pytest.fixture(scope="module")
def data():
    return simulate_data("smoke")


@pytest.fixture(scope="module")
def fit(data):
    return fit_armax(data)


def test_rises_of_known_models(data, fit) -> None:
    for key, value in measure_monotonicity(fit.model, data).items():
        assert value == 0, key
    # A model that rises by 2 mg/dl per unit of the oldest insulin and falls with all the rest.
    weights = -np.abs(fit.model.weights)
    oldest = insulin_columns(data.schema)[0]
    weights[oldest] = 2.0
    rising = Armax(weights, 0.0, 30)
    found = measure_monotonicity(rising, data)
    assert 1.9 < found["monotonicity_rise_max"] <= 2.0 + 1e-9
    assert found["monotonicity_violations"] == pytest.approx(0.1, abs=0.02)
    assert found["monotonicity_rise_mean"] == pytest.approx(0.1 * 1.6, abs=0.03)
    assert found["monotonicity_violations_every_lag"] == pytest.approx(1 / 11)
    assert found["monotonicity_rise_max_worst_100"] <= found["monotonicity_rise_max"]
    assert Rises.of(np.array([-1.0, 0.0, 2.0, 1.0])) == Rises(2.0, 0.75, 0.5)


def test_the_attack_finds_a_rise_of_rounding_alone(data, fit) -> None:
    scale = fit_scaling(data.inputs).scale
    clean = attack_monotonicity(fit.model, data.inputs, data.schema, scale, pairs=50_000)
    assert (clean.pairs, clean.rises, clean.largest) == (50_000, 0, 0.0)

    def reordered(states, controls):
        # The same affine model, but insulin enters and leaves again: monotone on paper, not in float64.
        inputs = np.concatenate([states, controls], axis=1)
        dose = inputs[:, insulin_columns(data.schema)].sum(axis=1)
        return ((fit.model(states, controls)[:, 0] + 0.7 * dose) - 0.7 * dose)[:, None]

    assert attack_monotonicity(reordered, data.inputs, data.schema, scale, pairs=50_000).rises > 0


def test_figures_draw(data, fit) -> None:
    rows = data.take(np.arange(100))
    observed, predicted = rows.next_states[:, 0], fit.model(rows.states, rows.controls)[:, 0]
    day = PatientDay(
        observed, predicted, predicted - 1, predicted + 1, predicted, rows.controls[:, 0], rows.states[:, -1]
    )
    grid = error_grid_figure(observed, {f"Method {k}": predicted for k in range(5)})
    assert sum(axis.get_visible() for axis in grid.axes) == 5
    assert len(armax_figure(fit, data.schema).axes) == 3
    assert len(rises_figure({"Vanilla": (1.0, 0.1), "Tethered": (0.0, 0.0)}).axes) == 2
    assert len(patient_day_figure(day, name="adult#001").axes) == 4


def test_a_sigmoid_is_not_said_to_leave_its_limits_alone() -> None:
    named = {"Constrained (8)": 0.0, "Constrained (paper) (8)": 0.0, "Constrained (paper, clip) (8)": 0.2}
    groups = {
        name: [{"method": name.removesuffix(" (8)"), "limits_reached_D": share}]
        for name, share in named.items()
    }
    rarely, often, everywhere = limits_lines({"Vanilla": [{"method": "Vanilla"}], **groups})
    assert "what Augmented Lagrangian learns" in rarely
    assert rarely.endswith("stop: Constrained (8) 0.00 %.")
    assert often.endswith("Constrained (paper, clip) (8) 20.00 %.")
    assert everywhere.endswith("act on all of them: Constrained (paper) (8).")
