from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from tether_studies.pancreas.patients import load_patient, patient_names
from tether_studies.pancreas.simulator import (
    SAMPLE_MINUTES,
    BasalBolus,
    Sensor,
    Threshold,
    simulate,
    simulate_minutes,
)

HOURLY = Path(__file__).with_name("simglucose_hourly.csv")
"""Written by `benchmarks/crosscheck_pancreas.py --table` from simglucose 0.2.11."""
MEALS = {7 * 60: 50.0, 12 * 60: 80.0, 19 * 60: 60.0}


def day_of_meals(episodes: int = 1) -> np.ndarray:
    meals = np.zeros((episodes, 24 * 60))
    meals[:, list(MEALS)] = list(MEALS.values())
    return meals


def test_glucose_agrees_with_simglucose_for_all_patients() -> None:
    with HOURLY.open(newline="") as file:
        expected = {
            row["patient"]: [float(v) for k, v in row.items() if k != "patient"]
            for row in csv.DictReader(file)
        }
    assert set(expected) == set(patient_names())
    assert len(expected) == 30
    for name, hourly in expected.items():
        person, meals = load_patient(name), day_of_meals()
        insulin = person.basal + meals / person.grams_per_unit
        glucose = simulate_minutes(person, meals=meals, insulin=insulin, start=person.steady_state[None])
        assert np.abs(glucose[0, ::60] - hourly).max() < 0.005, name


@pytest.mark.parametrize("name", ["adolescent#003", "adult#001", "child#010"])
def test_basal_insulin_keeps_the_steady_state(name: str) -> None:
    person = load_patient(name)
    nothing = np.zeros((1, 600))
    glucose = simulate_minutes(
        person, meals=nothing, insulin=nothing + person.basal, start=person.steady_state[None]
    )
    assert np.abs(glucose - person.steady_glucose).max() < 1e-3


def test_controllers_and_minutes_give_the_same_glucose() -> None:
    # The controllers' insulin, played back by the clock, must lead to the same glucose.
    person, meals = load_patient("adult#001"), day_of_meals(2)
    controllers = [BasalBolus(dose=0.7), Threshold(high_multiple=2.0)]
    traces = simulate(person, meals=meals, controllers=controllers, initial_glucose=np.array([150.0, 180.0]))
    rates = np.repeat(traces.insulin[:, 1:] / SAMPLE_MINUTES, SAMPLE_MINUTES, axis=1)
    start = person.starting_at(np.array([150.0, 180.0]))
    glucose = simulate_minutes(person, meals=meals, insulin=rates, start=start)
    np.testing.assert_allclose(glucose[:, ::SAMPLE_MINUTES], traces.glucose, rtol=1e-9)
    np.testing.assert_allclose(traces.meal.sum(axis=1), sum(MEALS.values()))
    np.testing.assert_allclose(traces.glucose[:, 0], [150.0, 180.0])


def test_basal_bolus_doses_as_its_formula_says() -> None:
    person = load_patient("adult#001")
    meals = np.zeros((1, 60))
    meals[0, 12] = 70.0
    traces = simulate(
        person, meals=meals, controllers=[BasalBolus(dose=0.5)], initial_glucose=np.array([200.0])
    )
    sensor = traces.sensor[0, 2]
    bolus = 0.5 * (70.0 / person.grams_per_unit + (sensor - 140.0) / person.glucose_per_unit)
    assert traces.insulin[0, 3] == pytest.approx(person.basal * SAMPLE_MINUTES + bolus)
    np.testing.assert_allclose(np.delete(traces.insulin[0], 3), person.basal * SAMPLE_MINUTES)


def test_threshold_pump_switches_on_what_the_sensor_shows() -> None:
    person = load_patient("adult#001")
    noise = np.zeros((1, 13))
    noise[0, 4], noise[0, 8] = 200.0, -90.0
    traces = simulate(
        person,
        meals=np.zeros((1, 60)),
        controllers=[Threshold(low=100, high=170, low_multiple=0.25, high_multiple=2.0)],
        initial_glucose=np.array([140.0]),
        noise=noise,
    )
    multiples = traces.insulin[0] / (person.basal * SAMPLE_MINUTES)
    expected = np.ones(13)
    expected[5], expected[9] = 2.0, 0.25
    np.testing.assert_allclose(multiples, expected)


def test_more_insulin_lowers_glucose_in_every_patient() -> None:
    for name in patient_names():
        person, meals = load_patient(name), day_of_meals(2)[:, :600]
        insulin = np.full_like(meals, person.basal)
        insulin[1, 60:65] += 0.2
        glucose = simulate_minutes(
            person, meals=meals, insulin=insulin, start=np.tile(person.steady_state, (2, 1))
        )
        # Plasma insulin acts at once, if little: after an hour every patient is lower.
        assert (glucose[1, 120:] < glucose[0, 120:]).all(), name


def test_sensor_noise_has_the_published_distribution() -> None:
    sensor = Sensor()
    noise = sensor.noise(2000, 100, rng=np.random.default_rng(0))
    assert noise.shape == (2000, 100)
    # At the knots, sinh of a stationary autoregression with variance c²/(1 - c²), in closed form.
    variance = sensor.correlation**2 / (1 - sensor.correlation**2)
    growth = np.exp(variance / sensor.shape_delta**2 / 2)
    mean = sensor.location - sensor.spread * growth * np.sinh(sensor.shape_gamma / sensor.shape_delta)
    late_knots = noise[:, 60::3]
    assert late_knots.mean() == pytest.approx(mean, abs=0.3)
    correlation = np.corrcoef(late_knots[:, 0], late_knots[:, 1])[0, 1]
    assert correlation == pytest.approx(sensor.correlation, abs=0.06)


def test_mistakes_are_named() -> None:
    person = load_patient("adult#001")
    with pytest.raises(ValueError, match="`patient` must be one of .*; got 'adult#011'"):
        load_patient("adult#011")
    with pytest.raises(ValueError, match="`meals` must last a multiple of 5 minutes; got 7"):
        simulate(person, meals=np.zeros((1, 7)), controllers=[Threshold()], initial_glucose=np.ones(1))
    with pytest.raises(ValueError, match=r"`controllers` must have shape \(2,\); got \(1,\)"):
        simulate(person, meals=np.zeros((2, 10)), controllers=[Threshold()], initial_glucose=np.ones(2))
