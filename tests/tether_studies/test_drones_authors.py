"""Flights like the authors': their rows, their split, their trusted model. Skipped where there are none."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tether.fitting import prepare
from tether_studies.drones.authors import (
    AUTHORS_TRUSTED,
    check_flights,
    explicit_quadrotor,
    held_out,
    read_flights,
)
from tether_studies.drones.study import AUTHORS_STUDY, _measure_authors

_BESIDE = Path(__file__).parents[3] / "shared" / "reference" / "drone_flights"
FLIGHTS = Path(os.environ.get("TETHER_FLIGHTS") or _BESIDE)
needs_flights = pytest.mark.skipif(
    not FLIGHTS.is_dir(),
    reason="there are no flights of the authors' kind: set TETHER_FLIGHTS to their folder",
)


@pytest.fixture
def recorded(tmp_path) -> Path:
    """Files of the right shape; each state tells its drone, step and column."""
    drone, step, column = np.ix_(np.arange(6), np.arange(2880), np.arange(20))
    states = 1e-4 * step + 10.0 * drone + 1e-6 * column
    states[..., 16:] *= 1e4
    for name in ("circling", "hovering"):
        np.savez(tmp_path / f"{name}.npz", states=states, commands=states[..., 16:])
    return tmp_path


@pytest.mark.parametrize("seed", [0, 3])
def test_rows_are_in_the_authors_order(recorded, seed):
    data = read_flights(recorded, "paper", seed=seed)
    config = AUTHORS_STUDY.config("paper")
    problem = prepare(
        data.transitions, trusted=AUTHORS_TRUSTED, probes=data.probes,
        config=type(config)(**{**config.__dict__, "seed": seed}),
    )  # fmt: skip
    assert [len(part.inputs) for part in problem.data] == [15_000, 282, 1_992]
    assert [len(part.inputs) for part in problem.probes] == [15_000, 282, 1_992]
    train, _, test = (part.inputs for part in problem.data)
    # The first half of the flight, drone after drone, then the second.
    assert train[0, 0] == 0.0 and train[1416, 0] == 10.0 and train[6 * 1416, 0] == pytest.approx(0.1416)
    assert set(np.round(test[:, 0], -1)) == {40.0, 50.0}, "two drones"
    assert problem.data[0].next_states[0, 0] == pytest.approx(1e-4)
    assert sum(held_out("paper")) == pytest.approx(2274 / 17274)


def test_files_that_are_missing_or_of_another_shape(recorded, tmp_path):
    with pytest.raises(ValueError, match="`flights` must be a folder; there is none at"):
        check_flights(tmp_path / "none")
    np.savez(recorded / "hovering.npz", states=np.zeros((2, 5, 20)), commands=np.zeros((2, 5, 4)))
    with pytest.raises(
        ValueError, match=r"`hovering.npz` must hold 2880 steps of six drones; got \(2, 5, 20\)"
    ):
        read_flights(recorded, "smoke", seed=0)
    (recorded / "hovering.npz").unlink()
    with pytest.raises(ValueError, match="`flights` must hold hovering.npz"):
        check_flights(recorded)


def test_their_trusted_model_hovers_and_falls():
    states, still = np.zeros((2, 20)), np.zeros((2, 4))
    states[:, 6] = 1.0
    still[0] = np.sqrt(0.027 * 9.81 / 4 / 3.16e-10) / 1e4
    following = explicit_quadrotor(states, still)
    np.testing.assert_allclose(following[0], 0.0, atol=1e-15)
    # Velocity first, then position with it.
    assert following[1, 8] == pytest.approx(-9.81 / 240) and following[1, 2] == pytest.approx(-9.81 / 240**2)


@needs_flights
def test_their_flights_are_as_they_are_told_to_be():
    data = read_flights(FLIGHTS, "paper", seed=0)
    config = AUTHORS_STUDY.config("paper")
    problem = prepare(data.transitions, trusted=AUTHORS_TRUSTED, probes=data.probes, config=config)
    rms = np.sqrt(((problem.data[2].trusted - problem.split.test.next_states) ** 2).mean(axis=0))
    assert rms[:3].max() < 1e-3, "M is nearly right about positions on D"
    tests = problem.probes[2].inputs
    assert tests[:, 2].min() > 1.5 > 0.4 > problem.data[0].inputs[:, 2].max()


@needs_flights
def test_middles_of_cells_on_a_few_of_their_rows():
    data = read_flights(FLIGHTS, "smoke", seed=0)
    config = AUTHORS_STUDY.config("smoke")
    problem = prepare(data.transitions, trusted=AUTHORS_TRUSTED, probes=data.probes, config=config)
    measured = _measure_authors(problem, explicit_quadrotor)
    assert measured.arrays["mid_cell"].shape == (len(measured.arrays["counts"]), 4)
    assert measured.arrays["mid_cell"].max() < 1e-3 and measured.values["omega_above_D"] > 1.0
    assert not _measure_authors(problem, lambda states, controls: controls).values
