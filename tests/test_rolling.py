"""Rollouts that judge a correction, against what can be worked out by hand."""

import numpy as np
import pytest

import tether
from tether.fitting.rolling import (
    FACTORS,
    HORIZON,
    carrying_factors,
    error_over_one,
    one_after_another,
    windows,
)


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
        return states - helps * factor * true_rate * states

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


INDIFFERENT = np.zeros((len(FACTORS), 1))
"""Over one step."""


@pytest.mark.parametrize(("helps", "factor"), [(1.0, 1.0), (-1.0, 0.0), (2.5, 0.4)])
def test_what_carries_is_kept(helps: float, factor: float) -> None:
    data = decaying(0.02)
    found = carrying_factors(data, stepping(0.02, helps), INDIFFERENT, np.ones(len(data)))
    assert found == pytest.approx([factor])


def test_one_step_is_weighed_against_many() -> None:
    data = decaying(0.02)
    step = stepping(0.02, 0.01)  # over many steps it helps by 1 %
    for over_one, factor in [(0.01, 0.0), (-0.01, 1.0), (0.001, 1.0)]:
        found = carrying_factors(data, step, over_one * FACTORS[:, None], np.ones(len(data)))
        assert found == pytest.approx([factor])


def test_outputs_are_shrunk_each_for_itself() -> None:
    one, other = decaying(0.02), decaying(0.02, episodes=4)
    columns = [np.concatenate([getattr(one, name), getattr(other, name)], axis=1)
               for name in ("states", "controls", "next_states")]  # fmt: skip
    data = tether.Transitions.from_arrays(*columns, episodes=one.episodes)

    def step(states, controls, began, factor):
        return states - factor * 0.02 * np.array([1.0, -1.0]) * states  # the second correction is upside down

    found = carrying_factors(data, step, np.zeros((len(FACTORS), 2)), np.ones(len(data)))
    assert found == pytest.approx([1.0, 0.0])


def test_error_over_one_step_is_a_share_of_that_of_the_trusted_model() -> None:
    wanted = np.array([[1.0, 0.0, 2.0], [-1.0, 0.0, 2.0]])
    correction = np.array([[0.5, 1.0, 2.0], [-0.5, 1.0, -2.0]])
    found = np.exp(error_over_one(correction, wanted, np.ones(2)))
    assert found[[0, -1], 0] == pytest.approx([1.0, 0.5])
    assert found[:, 1] == pytest.approx(1.0)  # nothing is missed
    assert found[-1, 2] == pytest.approx(np.sqrt(2.0))


def test_what_runs_away_is_not() -> None:
    data = decaying(0.02)

    def step(states, controls, began, factor):
        return np.where(factor > 0, states * 1e10, states)

    assert carrying_factors(data, step, INDIFFERENT, np.ones(len(data))) == 0
    # Where M itself runs away, rollouts say nothing.
    lost = carrying_factors(data, lambda states, *_: states * 1e10, INDIFFERENT, np.ones(len(data)))
    assert lost == 1


def test_rows_without_a_next_one_have_nothing_to_say() -> None:
    data = decaying(0.02)
    alone = data.take(np.arange(0, len(data), 2))
    assert carrying_factors(alone, stepping(0.02, -1.0), INDIFFERENT, np.ones(len(alone))) == 1


def test_the_row_a_rollout_began_at_is_told() -> None:
    data = one_after_another(decaying(0.02), decaying(0.03))
    seen = []

    def step(states, controls, began, factor):
        seen.append((began, factor))
        return states

    carrying_factors(data, step, INDIFFERENT, np.ones(len(data)))
    began, factor = seen[0]
    assert np.array_equal(np.unique(factor), FACTORS)
    assert np.array_equal(np.unique(began), windows(data)[:, 0])
