"""Folds, ridge regression and gains, against what can be computed another way."""

import numpy as np
import pytest

from tether.learning.crossfit import (
    FOLDS,
    _t_quantile,
    best_share,
    fit_ridge,
    fold_by_episode,
    harmless_share,
    trusted_share,
    weigh_episodes,
)


def test_episodes_stay_together() -> None:
    episodes = np.repeat(np.arange(12) * 7, 5)
    fold = fold_by_episode(episodes, seed=3)
    assert set(fold) == set(range(FOLDS))
    assert all(len(set(fold[episodes == name])) == 1 for name in episodes)
    assert not np.array_equal(fold, fold_by_episode(episodes, seed=4))
    assert set(fold_by_episode(np.array([5, 5, 9]), seed=0)) == {0, 1}


def test_ridge_recovers_a_linear_map() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(200, 3)) * [1.0, 100.0, 0.01] + [5.0, 0.0, 1.0]
    wanted = features @ np.array([[1.0, 0.0], [0.02, -0.01], [30.0, 0.0]]) + [0.5, -2.0]
    found = fit_ridge(features, wanted, fold_by_episode(np.arange(200) // 10, seed=0))
    assert np.allclose(features @ found.weights.T + found.intercept, wanted, atol=1e-5)
    assert np.allclose(found.held_out, wanted, atol=1e-5)


def test_ridge_answers_are_held_out() -> None:
    """As when the fold's rows are not there at all."""
    rng = np.random.default_rng(1)
    features, wanted = rng.normal(size=(60, 4)), rng.normal(size=(60, 2))
    fold = fold_by_episode(np.arange(60) // 5, seed=0)
    found = fit_ridge(features, wanted, fold)
    changed = wanted.copy()
    changed[fold == 2] += 1e-9  # moves no penalty, and would move answers that had seen it
    assert np.array_equal(fit_ridge(features, changed, fold).held_out[fold == 2], found.held_out[fold == 2])
    assert np.allclose(found.predict_held_out(features, fold), found.held_out, rtol=1e-12, atol=1e-12)
    # Of noise next to nothing is learned.
    assert (found.held_out**2).mean() < 0.1 * (wanted**2).mean()


def test_a_constant_feature_is_left_alone() -> None:
    features = np.column_stack([np.ones(40), np.arange(40.0)])
    found = fit_ridge(features, 2 * features[:, 1:], np.arange(40) % 4)
    assert found.weights[0, 0] == 0
    assert found.weights[0, 1] == pytest.approx(2, rel=1e-4)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_best_share_finds_the_mixture(share: float) -> None:
    rng = np.random.default_rng(2)
    first, second = rng.normal(size=(2, 500))
    assert best_share(first, second, 0.8 * (first + share * (second - first))) == pytest.approx(share)


def test_what_helps_in_every_episode_is_trusted() -> None:
    rng = np.random.default_rng(3)
    wanted = rng.normal(size=1000)
    episodes = np.arange(1000) // 50
    assert trusted_share(wanted, wanted, episodes) == 1
    assert trusted_share(2 * wanted, wanted, episodes) == pytest.approx(0.5)
    assert trusted_share(0.5 * wanted, wanted, episodes) == 1  # never amplified
    assert trusted_share(-wanted, wanted, episodes) == 0
    assert trusted_share(np.zeros(1000), wanted, episodes) == 0


def test_what_helps_by_chance_is_not() -> None:
    """Of corrections that have nothing to do with what is wanted, at most a few are trusted at all."""
    rng = np.random.default_rng(4)
    episodes = np.arange(400) // 20
    trusted = [trusted_share(rng.normal(size=400), rng.normal(size=400), episodes) > 0 for _ in range(400)]
    assert np.mean(trusted) < 0.06


def test_one_episode_alone_convinces_nobody() -> None:
    wanted = np.concatenate([100 * np.ones(50), np.zeros(450)])
    correction = np.concatenate([100 * np.ones(50), np.ones(450)])
    assert trusted_share(correction, wanted, np.arange(500) // 50) == 0
    assert trusted_share(wanted, wanted, np.zeros(500)) == 0


def test_of_a_few_episodes_that_differ_the_least_is_used() -> None:
    """No interval over two episodes is above zero, however much each of them gains."""
    wanted = np.concatenate([np.full(50, 10.0), np.ones(50)])
    episodes = np.arange(100) // 50
    assert trusted_share(wanted / 0.8, wanted, episodes) == pytest.approx(0.8)
    assert trusted_share(np.where(episodes == 0, wanted, 2 * wanted), wanted, episodes) == pytest.approx(0.5)
    assert trusted_share(np.where(episodes == 0, wanted, -wanted), wanted, episodes) == 0


@pytest.mark.parametrize(("degrees", "exact"), [(1, 12.706), (2, 4.303), (5, 2.571), (30, 2.042)])
def test_student(degrees: int, exact: float) -> None:
    assert exact - 0.002 <= _t_quantile(degrees) <= 1.06 * exact


def test_episodes_in_which_m_is_far_off_count_less() -> None:
    rng = np.random.default_rng(5)
    episodes = np.arange(1000) // 100
    wanted = rng.normal(size=(1000, 2))
    assert np.array_equal(weigh_episodes(wanted, episodes), np.ones(1000))  # all alike
    wanted[episodes == 4] *= 10
    weight = weigh_episodes(wanted, episodes)
    assert weight.mean() == pytest.approx(1)
    assert (np.ptp(weight.reshape(10, 100), axis=1) == 0).all()
    # What it adds to the sum of squares is that of a few others.
    assert 0.02 < weight[450] / weight[0] < 0.06
    assert (weigh_episodes(np.zeros((30, 2)), np.arange(30)) == 1).all()
    # One row alone says little of its episode.
    alone = weigh_episodes(rng.normal(size=(1000, 1)), np.arange(1000))
    assert alone.min() > 0.6


def test_a_wild_episode_does_not_decide_the_ridge() -> None:
    rng = np.random.default_rng(6)
    episodes = np.arange(1000) // 50
    features = rng.normal(size=(1000, 1))
    wanted = features + 0.1 * rng.normal(size=(1000, 1))
    wild = episodes == 3
    wanted[wild] = -30 * features[wild]
    fold = fold_by_episode(episodes, seed=0)
    counted = fit_ridge(features, wanted, fold, weigh_episodes(wanted, episodes))
    alike = fit_ridge(features, wanted, fold)
    assert abs(counted.weights[0, 0] - 1) < 0.4
    assert abs(alike.weights[0, 0] - 1) > 0.8


def test_weights_of_whole_numbers_are_rows_that_are_repeated() -> None:
    rng = np.random.default_rng(7)
    features, wanted = rng.normal(size=(60, 3)), rng.normal(size=(60, 2))
    fold, count = np.arange(60) % 4, rng.integers(1, 4, 60)
    one = fit_ridge(features, wanted, fold, count.astype(float))
    other = fit_ridge(*(np.repeat(part, count, axis=0) for part in (features, wanted, fold)))
    assert np.allclose(one.weights, other.weights)
    assert np.allclose(one.intercept, other.intercept)


def test_a_harmless_share_adds_next_to_nothing() -> None:
    rng = np.random.default_rng(8)
    wanted, correction = rng.normal(size=(2, 2000))
    share = harmless_share(correction, wanted)
    rise = ((wanted - share * correction) ** 2).sum() / (wanted**2).sum() - 1
    assert rise == pytest.approx(0.002)
    assert harmless_share(wanted, wanted) > 1.9
    assert harmless_share(np.zeros(5), np.ones(5)) == 0
