"""The package's own functions are the reference: compiled, guarded, integrated."""

import sys

import numpy as np
import pytest

from tether_studies.vehicle.package import load_car, load_dynamics, package_module
from tether_studies.vehicle.simulator import WALKING_PACE, guarded_rates, load_simulator

pytest.importorskip(
    "vehiclemodels",
    reason="commonroad-vehicle-models is not installed: pip install commonroad-vehicle-models==3.0.2",
)

FIDELITIES = ["multibody", "drift"]


def shipped(fidelity: str):
    dynamics = load_dynamics()
    return dynamics.multibody_as_shipped if fidelity == "multibody" else dynamics.drift_as_shipped


def package_parameters():
    return package_module("parameters_vehicle2").parameters_vehicle2()


def driven_states(
    fidelity: str, speeds: np.ndarray, rng: np.random.Generator, *, steps: int = 8
) -> np.ndarray:
    """States in the middle of turning, braking and accelerating."""
    simulator = load_simulator(fidelity)
    states = simulator.start(rng.uniform(-3, 3, (len(speeds), 3)), speeds)
    commands = np.column_stack([rng.uniform(-3, 2, len(speeds)), rng.uniform(-0.06, 0.06, len(speeds))])
    for _ in range(steps):
        states = simulator.advance(states, commands)
    return states


def rates(fidelity: str, state: np.ndarray, control: np.ndarray) -> np.ndarray:
    filled = np.full(len(state), np.nan)
    guarded_rates(fidelity)(state.copy(), control, load_car(), filled)
    return filled


@pytest.mark.parametrize("fidelity", FIDELITIES)
def test_above_walking_pace_the_guard_changes_nothing(fidelity: str, rng: np.random.Generator):
    states = driven_states(fidelity, rng.uniform(3.0, 25.0, 60), rng)
    # A wheel in a bend is slower than the car; these are far enough above.
    states = states[states[:, 3] - 0.7 * np.abs(states[:, 5]) > 1.2 * WALKING_PACE]
    assert len(states) > 40
    parameters = package_parameters()
    for state in states:
        control = np.array([rng.uniform(-0.4, 0.4), rng.uniform(-5, 3)])
        expected = shipped(fidelity)(list(state), list(control), parameters)
        np.testing.assert_array_equal(rates(fidelity, state, control), expected)


def test_as_shipped_the_package_divides_by_zero_where_the_guard_does_not():
    simulator = load_simulator()
    state = simulator.start(np.zeros((1, 3)), np.array([0.5]))[0]
    state[5] = 2 * state[3] / load_car().T_r  # the inner rear wheel stands still
    with pytest.raises(ZeroDivisionError):
        load_dynamics().multibody_as_shipped(state.tolist(), [0.0, 0.0], package_parameters())
    assert np.isfinite(rates("multibody", state, np.zeros(2))).all()


def test_the_guard_blends_without_a_jump():
    simulator = load_simulator()
    speeds = np.linspace(0.0, 2.0, 400)
    states = simulator.start(np.zeros((len(speeds), 3)), speeds)
    along = np.stack([rates("multibody", state, np.array([0.0, 1.0])) for state in states])
    assert np.abs(np.diff(along[:, 3])).max() < 0.05


@pytest.mark.parametrize("fidelity", FIDELITIES)
def test_steps_are_of_fourth_order_and_accurate(fidelity: str, rng: np.random.Generator):
    simulator = load_simulator(fidelity)
    # Commands held for long, so that no limit begins or ceases to bind within the step; those have kinks.
    states = simulator.start(rng.uniform(-3, 3, (24, 3)), rng.uniform(6.0, 18.0, 24))
    commands = np.column_stack([rng.uniform(-2, 2, 24), rng.uniform(-0.06, 0.06, 24)])
    for _ in range(10):
        states = simulator.advance(states, commands)
    exact = simulator.measure(simulator.advance(states, commands, refinement=16))
    errors = [
        np.abs(simulator.measure(simulator.advance(states, commands, refinement=k)) - exact).max()
        for k in (0.5, 1, 2)
    ]
    assert errors[1] < 1e-8
    assert np.log2(errors[0] / errors[1]) > 3.5
    assert np.log2(errors[1] / errors[2]) > 3.5


def test_a_whole_stop_is_accurate_too(rng: np.random.Generator):
    simulator = load_simulator()
    states = driven_states("multibody", np.linspace(0.2, 4.0, 8), rng)
    commands = np.column_stack([np.linspace(-6, 2, 8), np.linspace(-0.3, 0.3, 8)])
    coarse, fine = states, states
    for _ in range(10):
        coarse, fine = simulator.advance(coarse, commands), simulator.advance(fine, commands, refinement=4)
    assert np.abs(simulator.measure(coarse) - simulator.measure(fine)).max() < 1e-5


@pytest.mark.parametrize("fidelity", FIDELITIES)
def test_a_braked_car_stops_and_stays(fidelity: str):
    simulator = load_simulator(fidelity)
    states = simulator.start(np.zeros((3, 3)), np.array([0.0, 1.0, 9.0]))
    braking = np.tile([-4.0, 0.2], (3, 1))
    for _ in range(40):
        states = simulator.advance(states, braking)
    stopped = simulator.measure(states)
    assert np.abs(stopped[:, 3:]).max() < 1e-4
    assert (states[:, 3] >= 0).all()
    for _ in range(20):
        states = simulator.advance(states, np.zeros((3, 2)))
    # What is left is the last creep of a car that has all but stopped; the one that never moved has none.
    assert np.abs(simulator.measure(states)[:, :3] - stopped[:, :3]).max() < 1e-5
    assert np.abs(simulator.measure(states)[0, :3]).max() == 0


def test_it_drives_off_again_straight_ahead():
    simulator = load_simulator()
    states = simulator.start(np.array([[10.0, -20.0, 2.0]]), np.zeros(1))
    for _ in range(30):
        states = simulator.advance(states, np.array([[2.0, 0.0]]))
    x, y, heading, speed, _ = simulator.measure(states)[0]
    assert speed == pytest.approx(0.95 * 6.0, rel=0.02)
    assert np.arctan2(y + 20.0, x - 10.0) == pytest.approx(2.0, abs=0.01)
    assert heading == pytest.approx(2.0, abs=0.01)


def test_less_friction_slides_further():
    simulator = load_simulator()
    states = np.repeat(simulator.start(np.zeros((1, 3)), np.array([12.0])), 2, axis=0)
    for _ in range(12):
        states = simulator.advance(states, np.tile([-7.0, 0.0], (2, 1)), np.array([1.0, 0.4]))
    dry, snow = simulator.measure(states)
    assert snow[3] > dry[3] + 3.0 and snow[0] > dry[0] + 1.0


def test_rows_do_not_know_each_other(rng: np.random.Generator):
    simulator = load_simulator()
    states = driven_states("multibody", rng.uniform(0, 15, 30), rng)
    commands, friction = rng.uniform(-0.1, 0.1, (30, 2)), rng.choice([0.4, 1.0], 30)
    together = simulator.advance(states, commands, friction)
    for row in (0, 13, 29):
        part = slice(row, row + 1)
        np.testing.assert_array_equal(
            simulator.advance(states[part], commands[part], friction[part]), together[part]
        )


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "vehiclemodels.init_ks", None)
    with pytest.raises(ValueError, match=r"pip install commonroad-vehicle-models"):
        package_module("init_ks")
