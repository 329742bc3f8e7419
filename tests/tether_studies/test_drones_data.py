"""Transitions, probes, and feeding predictions back."""

import numpy as np
import pytest

from tether_studies.drones import crazyflie
from tether_studies.drones.attitude import quaternion_of
from tether_studies.drones.data import (
    CAMPAIGNS,
    DOMAIN,
    OUTPUTS,
    SCHEMA,
    STATES,
    Campaign,
    as_flights,
    as_transitions,
    complete,
    draw_plans,
    fly,
    hover_probes,
    roll_out,
)
from tether_studies.drones.simulator import fly_circle
from tether_studies.drones.trusted import quadrotor

SMALL = Campaign(flights=3, steps=8, drones=6)


@pytest.fixture(scope="module")
def flights():
    return [fly_circle(plan, SMALL.steps) for plan in draw_plans(SMALL, seed=3)]


@pytest.fixture(scope="module")
def data(flights):
    return as_transitions(flights)


def test_columns():
    assert len(STATES) == 20 and len(OUTPUTS) == 12 and len(SCHEMA.controls) == 4
    assert min(SCHEMA.advances) >= 0
    assert [STATES[k] for k in SCHEMA.advances] == list(OUTPUTS)
    assert SCHEMA.unit("rate_roll") == "rad/s" and SCHEMA.unit("command_0") == "rpm"


def test_campaigns_have_the_papers_size():
    paper = CAMPAIGNS["paper"]
    held_out = round(paper.held_out * paper.flights)
    per_flight = paper.drones * paper.steps
    assert paper.drones == 6
    assert (paper.flights - 2 * held_out) * per_flight >= 15_000 and held_out * per_flight >= 2_000
    assert paper.probes - 2 * round(paper.held_out * paper.probes) >= 15_000
    assert round(paper.held_out * paper.probes) >= 2_000
    assert CAMPAIGNS["smoke"].rows < paper.rows / 5


def test_rows_follow_one_another(data, flights):
    assert len(data) == SMALL.rows and len(np.unique(data.episodes)) == SMALL.flights
    first = data.take(data.episodes == 0)
    # Drone by drone, in the order of time.
    np.testing.assert_array_equal(first.states[:8], flights[0].states[:-1, 0])
    chained = complete(first.states[:7], first.controls[:7], first.next_states[:7])
    np.testing.assert_allclose(chained, first.states[1:8], atol=1e-14)


def test_the_eight_other_states_follow_from_the_twelve(data):
    np.testing.assert_array_equal(data.states[:, 3:7], quaternion_of(data.states[:, 7:10]))
    after = complete(data.states, data.controls, data.next_states)
    np.testing.assert_allclose(np.linalg.norm(after[:, 3:7], axis=1), 1.0, atol=1e-14)
    np.testing.assert_array_equal(after[:, 16:], data.controls)
    too_fast = complete(data.states, data.controls * 2, data.next_states)
    assert (too_fast[:, 16:] == crazyflie.TOP_SPEED).all()


def test_completion_wraps_the_yaw(data):
    outputs = data.next_states[:1].copy()
    outputs[0, 5] = np.pi + 0.1
    turned = complete(data.states[:1], data.controls[:1], outputs)
    assert turned[0, 9] == pytest.approx(-np.pi + 0.1)
    np.testing.assert_array_equal(turned[:, 3:7], quaternion_of(turned[:, 7:10]))


def test_flights_are_recovered(data, flights):
    for one, two in zip(as_flights(data), flights, strict=True):
        np.testing.assert_allclose(one.states, two.states, atol=1e-13)
        np.testing.assert_array_equal(one.commands, two.commands)


def test_flying_is_deterministic_and_depends_on_the_seed(data):
    again = fly(SMALL, seed=3)
    assert again.digest() == data.digest()
    assert fly(SMALL, seed=4).digest() != data.digest()


def test_unknown_scale_is_refused():
    with pytest.raises(ValueError, match="`scale` must be one of smoke, paper; got 'large'"):
        fly("large")  # type: ignore[arg-type]


def test_data_lie_in_the_flight_envelope(data):
    for name, limits in DOMAIN.items():
        assert isinstance(limits, tuple)
        values = data.inputs[:, SCHEMA.inputs.index(name)]
        assert limits[0] < values.min() and values.max() < limits[1], name


def test_probes_hover(data):
    probes = hover_probes(data, count=500, seed=1)
    assert len(probes) == 500 and len(hover_probes(data, scale="smoke")) == CAMPAIGNS["smoke"].probes
    assert (probes.controls == crazyflie.HOVER_SPEED).all() and (
        probes.states[:, 16:] == crazyflie.HOVER_SPEED
    ).all()
    assert not probes.states[:, [3, 4, 7, 8, *range(10, 16)]].any()
    low, high = data.states[:, :3].min(axis=0), data.states[:, :3].max(axis=0)
    assert ((probes.states[:, :3] >= low) & (probes.states[:, :3] <= high)).all()
    assert np.ptp(probes.states[:, 9]) > 6


def test_rollout_of_one_step_is_the_prediction(data):
    states, controls = data.states[:4], data.controls[:4]
    path = roll_out(quadrotor, states, controls[None])
    assert path.shape == (2, 4, 20)
    np.testing.assert_array_equal(path[1], complete(states, controls, quadrotor(states, controls)))


def test_rollout_of_the_simulator_itself_is_the_flight(flights):
    flight = flights[0]
    truth = iter(flight.states[1:])
    path = roll_out(
        lambda states, controls: next(truth)[:, list(SCHEMA.advances)], flight.states[0], flight.commands
    )
    np.testing.assert_allclose(path, flight.states, atol=1e-14)


def test_rollout_of_a_model_that_explodes_stays_finite(data):
    def explode(states, controls):
        return 1e3 * (1 + np.abs(quadrotor(np.clip(states, -10, 10), controls)) + np.abs(states[:, :12]))

    path = roll_out(explode, data.states[:2], np.repeat(data.controls[None, :2], 200, axis=0))
    assert np.isfinite(path).all()
