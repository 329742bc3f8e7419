from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tether_studies.pancreas.data import (
    AHEAD,
    HELD_OUT,
    HISTORY,
    LOW_GLUCOSE,
    OBSERVED,
    cut_transitions,
    glucose_schema,
    insulin_columns,
    low_glucose_probes,
    read_paper_traces,
    read_traces,
    simulate_data,
    simulate_scenario,
)

TRACES = Path(__file__).parents[2].parent / "shared" / "reference" / "pancreas_traces"


def test_rows_hold_what_was_known_then_and_the_glucose_after() -> None:
    traces = simulate_scenario(OBSERVED, "smoke", seed=3)
    data = cut_transitions(traces, glucose_schema())
    assert data.schema.inputs[insulin_columns(data.schema)[-1]] == "insulin_next"
    per_episode = traces.glucose.shape[1] - HISTORY + 1 - AHEAD
    for row in (0, per_episode + 17, len(data) - 1):
        episode, place = divmod(row, per_episode)
        now = place + HISTORY - 1
        past = slice(now - HISTORY + 1, now + 1)
        np.testing.assert_array_equal(data.states[row, :10], traces.sensor[episode, past])
        np.testing.assert_array_equal(data.states[row, 10:20], traces.insulin[episode, past])
        np.testing.assert_array_equal(data.states[row, 20:], traces.meal[episode, past])
        assert data.controls[row, 0] == traces.insulin[episode, now + 1]
        assert data.next_states[row, 0] == traces.sensor[episode, now + AHEAD]
        assert data.episodes[row] == episode


def test_paper_scale_has_the_papers_rows() -> None:
    data, probes = simulate_data("paper"), low_glucose_probes("paper")
    split = data.split(validation=HELD_OUT, test=HELD_OUT)
    assert (len(split.train), len(split.validation), len(split.test)) == (18_750, 2_500, 2_500)
    assert len(probes) == 23_750
    assert data.states.shape[1] == 30
    assert data.schema.outputs == ("glucose",)


def test_scenarios_are_what_they_say() -> None:
    for scenario in (OBSERVED, LOW_GLUCOSE):
        traces = simulate_scenario(scenario, "smoke", seed=1)
        low, high = scenario.initial_glucose
        assert (traces.glucose[:, 0] >= low - 1e-9).all()
        assert (traces.glucose[:, 0] <= high + 1e-9).all()
        eaten = traces.meal.sum(axis=1)
        assert (eaten >= 3 * scenario.carbohydrates[0] - 1e-9).all()
        assert (eaten <= 3 * scenario.carbohydrates[1] + 1e-9).all()
        # Glucose stays within what the sensor can show, so that nothing is cut off.
        assert traces.glucose.min() > 39
    meals = [k for k, name in enumerate(glucose_schema().inputs) if name.startswith("meal")]
    assert not low_glucose_probes("smoke").states[:, meals].any()


def test_data_are_a_function_of_the_seed() -> None:
    one, two, other = (simulate_data("smoke", seed=seed, sensor_noise=True).inputs for seed in (5, 5, 6))
    np.testing.assert_array_equal(one, two)
    assert (one != other).any()


def test_sensor_noise_shows_in_glucose_only() -> None:
    noisy = simulate_scenario(OBSERVED, "smoke", sensor_noise=True)
    assert np.abs(noisy.sensor - noisy.glucose).std() > 3
    quiet = simulate_scenario(OBSERVED, "smoke")
    assert np.abs(quiet.sensor - quiet.glucose).max() <= 0.5
    np.testing.assert_array_equal(quiet.sensor, np.round(quiet.sensor))


def test_mistakes_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="`scale` must be 'smoke' or 'paper'; got 'huge'"):
        simulate_data("huge")  # type: ignore[arg-type]
    paths = [tmp_path / f"{name}.csv" for name in ("glucose", "insulin", "meal")]
    for path in paths:
        path.write_text("1,2,3\n4,5,6\n")
    with pytest.raises(ValueError, match="at least 15 samples; got 3"):
        cut_transitions(read_traces(*paths), glucose_schema())
    paths[2].write_text("1,2\n4,5\n")
    with pytest.raises(
        ValueError, match=r"`meal.csv` must have the shape of `glucose.csv`, \(2, 3\); got \(2, 2\)"
    ):
        read_traces(*paths)
    paths[2].write_text("1,2,x\n4,5,6\n")
    with pytest.raises(ValueError, match="`meal.csv` must be a table of numbers"):
        read_traces(*paths)
    paths[2].write_text("1,2,nan\n4,5,6\n")
    with pytest.raises(ValueError, match="`meal.csv` must hold finite numbers"):
        read_traces(*paths)


@pytest.mark.skipif(not TRACES.exists(), reason="the paper's traces are not here (../shared/reference)")
def test_the_papers_traces_are_read() -> None:
    data, probes = read_paper_traces(TRACES)
    assert len(data) == len(probes) == 50 * (725 - HISTORY + 1 - AHEAD)
    assert set(np.unique(data.controls)) == {1.0, 2.0, 3.0}
    assert data.states[:, 0].reshape(50, -1)[:, 0].min() > 150
    assert not probes.states[:, 20:].any()
