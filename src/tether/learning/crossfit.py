"""Learned from some episodes, judged on the others: folds, ridge regression, how far to trust what helps.

Every labelled row has an answer from a model that never saw its episode, and what is chosen is chosen by
those answers. Rows of one episode are nearly copies of one another, so episodes are what is counted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tether.data import Array

FOLDS = 5
Numbers = NDArray[np.int64]

_PENALTIES = np.logspace(-6, 6, 25)
"""Of the ridge regression, on columns of spread 1, that are tried."""
_GAINS = np.linspace(0.05, 1.0, 20)
_SHARES = np.linspace(0.0, 1.0, 21)


def fold_by_episode(episodes: NDArray, *, seed: int) -> Numbers:
    """(N,) a fold for each row, from 0; rows of one of the episodes (N,) share it."""
    names, number = np.unique(episodes, return_inverse=True)
    return np.random.default_rng(seed).permutation(len(names))[number] % min(FOLDS, len(names))


@dataclass(frozen=True, eq=False)
class Ridge:
    """A linear regression, its penalty for each output by rows held out.

    Attributes:
        weights: (P, F).
        intercept: (P,).
        held_out: (N, P) at each row, by what the other folds alone would have given.
    """

    weights: Array
    intercept: Array
    held_out: Array


def fit_ridge(features: Array, wanted: Array, fold: Numbers) -> Ridge:
    """From features (N, F) to what is wanted (N, P), with folds (N,)."""
    paths = [_Path.of(features[fold != k], wanted[fold != k]) for k in np.unique(fold)]
    held_out, least = np.zeros_like(wanted), np.full(wanted.shape[1], np.inf)
    penalties = np.full(wanted.shape[1], _PENALTIES[-1])
    for penalty in _PENALTIES:
        answers = np.empty_like(wanted)
        for k, path in enumerate(paths):
            answers[fold == k] = path.predict(features[fold == k], penalty)
        error = ((answers - wanted) ** 2).sum(axis=0)
        better = error < least
        held_out[:, better], least[better], penalties[better] = answers[:, better], error[better], penalty
    weights, intercept = _Path.of(features, wanted).solve(penalties)
    return Ridge(weights, intercept, held_out)


@dataclass(frozen=True, eq=False)
class _Path:
    """A ridge regression of some rows for every penalty: columns are scaled by their own spread."""

    center: Array
    scale: Array
    mean: Array
    sizes: Array
    directions: Array
    products: Array

    @classmethod
    def of(cls, features: Array, wanted: Array) -> _Path:
        center, scale, mean = features.mean(axis=0), features.std(axis=0), wanted.mean(axis=0)
        scale = np.where(scale > 1e-9 * (np.abs(center) + 1), scale, np.inf)
        scaled = (features - center) / scale
        sizes, directions = np.linalg.eigh(scaled.T @ scaled)
        products = directions.T @ (scaled.T @ (wanted - mean))
        return cls(center, scale, mean, np.maximum(sizes, 0.0), directions, products)

    def solve(self, penalty: Array | float) -> tuple[Array, Array]:
        """Weights (P, F) and intercept (P,) for a penalty, or for one of each output (P,)."""
        shrunk = self.products / (self.sizes[:, None] + np.broadcast_to(penalty, self.mean.shape))
        weights = (self.directions @ shrunk).T / self.scale
        return weights, self.mean - weights @ self.center

    def predict(self, features: Array, penalty: float) -> Array:
        weights, intercept = self.solve(penalty)
        return features @ weights.T + intercept


def best_share(first: Array, second: Array, wanted: Array) -> float:
    """The share in [0, 1] of `second`, the rest being `first`, with which they come nearest to `wanted`.

    All are (N,), the first two held out; their mixture may be scaled by at most 1.
    """
    mixed = first + _SHARES[:, None] * (second - first)
    total, along = (mixed**2).sum(axis=1), mixed @ wanted
    scale = np.clip(np.divide(along, total, out=np.zeros_like(along), where=total > 0), 0.0, 1.0)
    return float(_SHARES[np.argmin(scale**2 * total - 2 * scale * along)])


def trusted_share(correction: Array, wanted: Array, episodes: NDArray) -> float:
    """The share in [0, 1] of a correction to use: 0 where none surely helps.

    What it takes from the squared error differs from episode to episode; it surely helps where the 95 %
    confidence interval of the mean (Student's t) is above zero. If that is so of the share that helps most,
    by least squares, it is used; else the one that surely helps most: doubt shrinks a correction.

    Args:
        correction: (N,) held out.
        wanted: (N,) what it should be.
        episodes: (N,).
    """
    _, number = np.unique(episodes, return_inverse=True)
    along, size = (np.bincount(number, weights=w) for w in (correction * wanted, correction**2))
    if len(size) < 2:
        return 0.0
    most = np.clip(along.sum() / size.sum(), 0.0, 1.0) if size.sum() > 0 else 0.0
    gains = np.append(_GAINS, most)
    helped = 2 * gains[:, None] * along - gains[:, None] ** 2 * size
    error = helped.std(axis=1, ddof=1) / np.sqrt(len(size))
    surely = helped.mean(axis=1) - _t_quantile(len(size) - 1) * error
    best = -1 if surely[-1] > 0 else int(np.argmax(surely))
    return float(gains[best]) if surely[best] > 0 else 0.0


def _t_quantile(degrees: int) -> float:
    """The 97.5 % quantile of Student's t, or up to 6 % more."""
    return 1.96 + 2.37 / degrees + 2.82 / degrees**2 + 5.56 / degrees**3
