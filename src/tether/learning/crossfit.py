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
_HARMLESS = 0.002
"""By what share the squared error of all rows may rise where episodes by their weight gain surely."""
_USUAL = 3.0
"""Times the median over episodes of M's squared error, up to which an episode is like the others."""
_FEW_ROWS = 20
"""Of an episode, below which how far M is off in it is not taken at its word."""


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
        fold_weights: (K, P, F) without each of the folds.
        fold_intercepts: (K, P).
    """

    weights: Array
    intercept: Array
    held_out: Array
    fold_weights: Array
    fold_intercepts: Array

    def predict_held_out(self, features: Array, fold: Numbers) -> Array:
        """(N, P) at features (N, F), each without its fold (N,)."""
        found = np.empty((len(features), len(self.intercept)))
        for k, (weights, intercept) in enumerate(zip(self.fold_weights, self.fold_intercepts, strict=True)):
            found[fold == k] = features[fold == k] @ weights.T + intercept
        return found


def weigh_episodes(wanted: Array, episodes: NDArray) -> Array:
    """(N,) by what rows count, alike within an episode and 1 on average.

    A machine that was shaken, or measured badly, for a few episodes would decide every sum of squares, and be
    fitted at the cost of all others. As in weighted least squares, an episode counts by how far M is off in
    it, where that is beyond what is usual.

    Args:
        wanted: (N, P) what M is off by.
        episodes: (N,).
    """
    _, number = np.unique(episodes, return_inverse=True)
    count = np.bincount(number)
    total = np.stack([np.bincount(number, weights=column) for column in (wanted**2).T], axis=1)
    usual = _USUAL * np.median(total / count[:, None], axis=0)
    # Of a few rows the mean square says little: they are taken for usual ones until they are many.
    seen = (total + _FEW_ROWS * usual) / (count + _FEW_ROWS)[:, None]
    share = np.divide(usual, seen, out=np.ones_like(seen), where=seen > usual).mean(axis=1)[number]
    return share / share.mean()


def fit_ridge(features: Array, wanted: Array, fold: Numbers, weight: Array | None = None) -> Ridge:
    """From features (N, F) to what is wanted (N, P), with folds (N,); rows count by a weight (N,)."""
    weight = np.ones(len(features)) if weight is None else weight
    paths = [_Path.of(*(part[fold != k] for part in (features, wanted, weight))) for k in np.unique(fold)]
    held_out, least = np.zeros_like(wanted), np.full(wanted.shape[1], np.inf)
    penalties = np.full(wanted.shape[1], _PENALTIES[-1])
    for penalty in _PENALTIES:
        answers = np.empty_like(wanted)
        for k, path in enumerate(paths):
            answers[fold == k] = path.predict(features[fold == k], penalty)
        error = weight @ (answers - wanted) ** 2
        better = error < least
        held_out[:, better], least[better], penalties[better] = answers[:, better], error[better], penalty
    weights, intercept = _Path.of(features, wanted, weight).solve(penalties)
    without = [path.solve(penalties) for path in paths]
    return Ridge(weights, intercept, held_out, *map(np.array, zip(*without, strict=True)))


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
    def of(cls, features: Array, wanted: Array, weight: Array) -> _Path:
        share = weight / weight.sum()
        center, mean = share @ features, share @ wanted
        scale = np.sqrt(share @ (features - center) ** 2)
        scale = np.where(scale > 1e-9 * (np.abs(center) + 1), scale, np.inf)
        scaled = (features - center) / scale
        counted = (scaled * weight[:, None]).T
        sizes, directions = np.linalg.eigh(counted @ scaled)
        products = directions.T @ (counted @ (wanted - mean))
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
    by least squares, it is used; else the one that surely helps most: doubt shrinks a correction. Of a few
    episodes no interval says anything; what each of them asks for at least is used in any case.

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
    agreed = np.divide(along, size, out=np.zeros_like(size), where=size > 0).min()
    return max(float(gains[best]) if surely[best] > 0 else 0.0, float(np.clip(agreed, 0.0, 1.0)))


def harmless_share(correction: Array, wanted: Array) -> float:
    """The largest share of a correction (N,), held out, that all rows alike have nothing against.

    With it their squared error is at most a little above that without.
    """
    size, along, whole = correction @ correction, correction @ wanted, wanted @ wanted
    if size == 0:
        return 0.0
    return float((along + np.sqrt(along**2 + _HARMLESS * whole * size)) / size)


def _t_quantile(degrees: int) -> float:
    """The 97.5 % quantile of Student's t, or up to 6 % more."""
    return 1.96 + 2.37 / degrees + 2.82 / degrees**2 + 5.56 / degrees**3
