"""What drones are measured by, and the figures."""

import numpy as np
import pytest

from tether.report.figures import as_png, as_svg
from tether_studies.drones.data import Campaign, as_flights, fly, roll_out
from tether_studies.drones.trusted import quadrotor
from tether_studies.drones.views import (
    HOVER_STEPS,
    _spread,
    flight_figure,
    hover_deviation,
    hover_figure,
    hover_starts,
    one_flight,
    rollout_error,
    rollout_figure,
    view_results,
)


@pytest.fixture(scope="module")
def data():
    return fly(Campaign(flights=2, steps=24), seed=7)


def drifting(states, controls):
    outputs = quadrotor(states, controls)
    outputs[:, 0] += 0.01
    return outputs


def test_the_trusted_model_holds_its_hover(data):
    deviation = hover_deviation(quadrotor, hover_starts(data, count=5))
    assert deviation.shape == (HOVER_STEPS + 1, 5)
    assert not deviation.any()


def test_a_drifting_model_does_not(data):
    deviation = hover_deviation(drifting, hover_starts(data, count=5), steps=10)
    np.testing.assert_allclose(deviation, 0.01 * np.arange(11)[:, None] * np.ones(5), atol=1e-12)


def test_open_loop_error_grows_from_zero(data):
    flight = one_flight(data)
    assert flight.states.shape == (25, 12, 20)
    assert one_flight(data, steps=5).commands.shape == (5, 12, 4)
    error = rollout_error(quadrotor, flight)
    assert error.shape == (25, 12) and not error[0].any()
    assert 1e-6 < np.median(error[1]) < 1e-3 < np.median(error[-1]) < 0.1
    results = view_results(np.zeros((3, 2)), error)
    assert results["hover_deviation"] == 0.0 and results["rollout_error_max"] == error[-1].max()


def test_figures_are_drawn(data):
    starts, flight = hover_starts(data, count=4), one_flight(data)
    methods = {"Trusted": quadrotor, "Vanilla": drifting, "Tethered (10)": quadrotor}
    deviations = {name: hover_deviation(step, starts, steps=8) for name, step in methods.items()}
    errors = {name: rollout_error(step, flight) for name, step in methods.items()}
    one = as_flights(data)[0]
    paths = {"Vanilla": roll_out(drifting, one.states[0], one.commands)}
    figures = {
        "Left in hover": hover_figure(deviations),
        "Held-out flights": rollout_figure(errors),
        "From above": flight_figure(one, paths, methods=list(methods)),
        "From the side": flight_figure(one),
    }
    drawn = {text: as_svg(figure) for text, figure in figures.items()}
    assert all(text in picture for text, picture in drawn.items())
    assert ">0 m<" in drawn["Left in hover"] and ">0.08 m<" in drawn["Left in hover"]
    assert as_png(figures["From above"]).startswith(b"\x89PNG")


def test_labels_stay_apart_and_in_the_picture():
    places = _spread(np.array([0.0, 0.0, 0.95, 0.96, 0.97]), 0.1, 1.0)
    assert (np.diff(places) >= 0.1 - 1e-12).all() and places[0] == 0.0 and places[-1] == pytest.approx(0.95)
