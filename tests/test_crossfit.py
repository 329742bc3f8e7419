"""Folds, ridge regression and gains, against what can be computed another way."""

import numpy as np
import pytest

from tether.learning.crossfit import FOLDS, _t_quantile, best_share, fit_ridge, fold_by_episode, trusted_share


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


@pytest.mark.parametrize(("degrees", "exact"), [(1, 12.706), (2, 4.303), (5, 2.571), (30, 2.042)])
def test_student(degrees: int, exact: float) -> None:
    assert exact - 0.002 <= _t_quantile(degrees) <= 1.06 * exact
