"""Rollouts that judge a correction, against what can be worked out by hand."""

import numpy as np
import pytest

import tether
from tether.fitting.rolling import FACTORS, HORIZON, carrying_factor, one_after_another, windows


def decaying(rate: float, episodes: int = 4, rows: int = 120) -> tether.Transitions:
    """x falls by a rate; rows of an episode follow one another."""
    start = np.linspace(1, 2, episodes)[:, None]
    path = start * (1 - rate) ** np.arange(rows + 1)
    number = np.repeat(np.arange(episodes), rows)
    columns = path[:, :-1].reshape(-1, 1), np.zeros((episodes * rows, 0)), path[:, 1:].reshape(-1, 1)
    return tether.Transitions.from_arrays(*columns, episodes=number)


def stepping(true_rate: float, helps: float):
    """M stands still; a correction adds a share of what is missing, or of its opposite."""

    def step(states, controls, began, factor):
        return states - helps * factor[:, None] * true_rate * states

    return step


def test_windows_follow_one_another() -> None:
    data = decaying(0.01)
    found = windows(data)
    assert found.shape == (8, HORIZON)  # two of 50 in each of 120 rows
    assert len(np.unique(found)) == found.size
    assert (np.ptp(data.episodes[found], axis=1) == 0).all()
    gone = np.delete(np.arange(len(data)), 30)  # a row is missing
    holed = windows(data.take(gone))
    steps = np.abs(data.take(gone).states[holed[:, 1:]] - data.take(gone).next_states[holed[:, :-1]])
    assert steps.max() == 0


@pytest.mark.parametrize(("helps", "factor"), [(1.0, 1.0), (-1.0, 0.0), (2.0, 0.5)])
def test_what_carries_is_kept(helps: float, factor: float) -> None:
    data = decaying(0.02)
    assert carrying_factor(data, stepping(0.02, helps), np.ones(len(data))) == factor


def test_what_runs_away_is_not() -> None:
    data = decaying(0.02)

    def step(states, controls, began, factor):
        return np.where(factor[:, None] > 0, states * 1e10, states)

    assert carrying_factor(data, step, np.ones(len(data))) == 0
    # Where M itself runs away, rollouts say nothing.
    assert carrying_factor(data, lambda states, *_: states * 1e10, np.ones(len(data))) == 1


def test_rows_without_a_next_one_have_nothing_to_say() -> None:
    data = decaying(0.02)
    alone = data.take(np.arange(0, len(data), 2))
    assert carrying_factor(alone, stepping(0.02, -1.0), np.ones(len(alone))) == 1


def test_the_row_a_rollout_began_at_is_told() -> None:
    data = one_after_another(decaying(0.02), decaying(0.03))
    seen = []

    def step(states, controls, began, factor):
        seen.append((began, factor))
        return states

    carrying_factor(data, step, np.ones(len(data)))
    began, factor = seen[-1]
    assert np.array_equal(np.unique(factor), FACTORS)
    assert np.array_equal(np.unique(began), windows(data)[:, 0])
