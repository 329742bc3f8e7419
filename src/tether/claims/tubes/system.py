"""The system tube: where reality stays, by statistics over whole episodes; never mixed with what is proved.

Around the learned model's own rollout, a band that grows with the steps as the errors of rollouts did,
times one factor. The factor comes from held-out episodes: the score of a stretch of T steps is the largest
error at any of them and in any state, in units of the band. By hierarchical conformal prediction (Lee,
Barber and Willett, 2023): with n episodes that each weigh ``1 / (n + 1)``, shared by their stretches, and
the rest at infinity, a stretch of a new episode like these has a score of at most the (1 - α)-quantile with
probability of at least 1 - α: the real trajectory is then in the tube at all T steps at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tether.claims.rollout import rollout
from tether.data import HALF_TURN, Array, Schema, Transitions, near
from tether.foundation.limits import check_whole
from tether.model import Model

_SHAPED_BY = 4
"""One episode in so many gives the band its shape, unless other data are given for that."""
_QUANTILES, _FLOORS = (0.5, 0.9, 0.99, 1.0), (0.0, 0.1, 0.25, 0.5, 1.0)
_SHAPES: list[tuple[float | None, float]] = [(None, 1.0), *product(_QUANTILES, _FLOORS)]
"""Of errors after each step, and at least which share of the constant band: shapes to choose from."""
_SPLITS = 20
"""Of the episodes that these are chosen by."""
_LEAST = 1e-9
"""Of the constant band, what the shape is at least, so that no score is infinite."""
_MOST_STRETCHES = 20_000


@dataclass(frozen=True, eq=False)
class SystemBand:
    """How far reality is from rollouts of a model, after each step.

    Attributes:
        half_width: (T + 1, dx).
        alpha: chance that a stretch leaves it, at most.
        episodes: how many it was calibrated on.
        stretches: of T steps, in these.
        constant: (dx,) the band that does not grow with the steps and is calibrated likewise, for comparison.
    """

    half_width: Array
    alpha: float
    episodes: int
    stretches: int
    constant: Array

    @property
    def words(self) -> str:
        """What is claimed."""
        return (
            f"System tube (statistical): with probability of at least {1 - self.alpha:.4g}, over new "
            f"episodes like the {self.episodes} held-out ones and a stretch of {len(self.half_width) - 1} "
            "steps of such an episode, the real trajectory stays in it at all of these steps at once. It is "
            "of the weights at hand."
        )

    def around(self, path: Array) -> tuple[Array, Array]:
        """Lower and upper ends around rollouts (..., T + 1, dx)."""
        return path - self.half_width, path + self.half_width


@dataclass(frozen=True, eq=False)
class _Stretches:
    """K stretches of T steps: states (K, T + 1, dx), controls (K, T, du) and episodes (K,)."""

    states: Array
    controls: Array
    episode: NDArray[Any]


def calibrate_system(
    model: Model,
    held_out: Transitions,
    *,
    steps: int,
    alpha: float = 0.1,
    shape: Transitions | None = None,
    seed: int = 0,
) -> SystemBand:
    """The band that holds stretches of T steps of episodes like those held out.

    Args:
        model: the model with the weights at hand.
        held_out: episodes that had no part in fitting it.
        steps: T.
        alpha: chance of leaving it.
        shape: other episodes to see by how errors grow; by default one in four of those held out, which
            then do not count as calibrated on.
        seed: of which these are.

    Raises:
        ValueError: there are too few episodes for alpha, or none is long enough.
    """
    check_whole("steps", steps, least=1, most=100_000)
    if not 0 < alpha < 1:
        raise ValueError(f"`alpha` must lie between 0 and 1; got {alpha}.")
    errors, episode = _errors(model, stretches(held_out, steps), held_out.schema)
    names = np.unique(episode)
    if shape is None:
        chosen = np.random.default_rng(seed).permutation(names)[: max(1, len(names) // _SHAPED_BY)]
        own = np.isin(episode, chosen)
        shaping, shaped = errors[own], episode[own]
        errors, episode = errors[~own], episode[~own]
    else:
        shaping, shaped = _errors(model, stretches(shape, steps), held_out.schema)
    count = len(np.unique(episode))
    if not alpha >= 1 / (count + 1):
        beside = f" ({len(names) - count} of {len(names)} say how errors grow)" if shape is None else ""
        raise ValueError(
            f"`alpha` must be at least 1 / (n + 1) for n episodes to calibrate on; got {alpha} for "
            f"{count}{beside}. Hold out more episodes, or ask for a larger `alpha`."
        )
    flat = np.maximum(np.quantile(shaping.max(axis=1), 0.9, axis=0), np.finfo(np.float64).tiny)
    # On the circle nothing is farther than half a turn.
    most = np.array([HALF_TURN if name in model.schema.angles else np.inf for name in model.schema.states])
    scale = _shape(shaping, shaped, flat, most, alpha, count, seed)
    factor = _factor((errors[:, 1:] / scale[1:]).max(axis=(1, 2)), episode, alpha)
    even = _factor((errors[:, 1:] / flat).max(axis=(1, 2)), episode, alpha)
    half_width = np.minimum(factor * scale, most)
    half_width[0] = 0.0
    return SystemBand(half_width, alpha, count, len(errors), np.minimum(even * flat, most))


def _shape(
    errors: Array, episode: NDArray[Any], flat: Array, most: Array, alpha: float, count: int, seed: int
) -> Array:
    """(T + 1, dx) how a band may grow: of some shapes the one that is narrowest for other episodes.

    Errors (K, T + 1, dx) are of episodes that the factor does not look at: any choice is fair. But a shape
    that suits the episodes it is made from may need a large factor for others, above all where few are
    calibrated on: so each is made from some, its factor found on as many others as will be (`count`, or
    half), and what counts is the mean width over such splits.
    """
    names, rng = np.unique(episode), np.random.default_rng([seed, 0x5A])
    others = max(1, min(count, len(names) // 2))
    level = max(alpha, 1 / (others + 1))
    widths = np.zeros(len(_SHAPES))
    for _ in range(_SPLITS if len(names) > 1 else 0):
        held = np.isin(episode, rng.permutation(names)[:others])
        for number, scale in enumerate(_shapes(errors[~held], flat)):
            factor = _factor((errors[held, 1:] / scale[1:]).max(axis=(1, 2)), episode[held], level)
            widths[number] += (np.minimum(factor * scale[1:], most) / flat).mean()
    return _shapes(errors, flat)[int(np.argmin(widths))]


def _shapes(errors: Array, flat: Array) -> list[Array]:
    """Of each of `_SHAPES` (T + 1, dx), the constant one first."""
    found = []
    quantiles = {share: np.quantile(errors, share, axis=0) for share in _QUANTILES}
    for share, floor in _SHAPES:
        grown = np.zeros_like(errors[0])
        if share is not None:
            grown = np.maximum.accumulate(quantiles[share], axis=0)
        found.append(np.maximum(grown, max(floor, _LEAST) * flat))
    return found


def stretches(data: Transitions, steps: int) -> _Stretches:
    """All stretches of so many steps without a gap, or evenly chosen ones where there are too many."""
    order = np.argsort(data.schema.advanced)
    after = data.next_states[:, order]
    angles = np.array([name in data.schema.angles for name in data.schema.states])
    gap = after[:-1] - data.states[1:]
    gap = np.where(angles, np.abs(near(gap, np.zeros(1))), np.abs(gap))
    size = 1e-9 * (1 + np.abs(data.states[1:]))
    going = (data.episodes[:-1] == data.episodes[1:]) & (gap <= size).all(axis=1)
    # How many transitions follow one another up to each, itself included.
    run = np.ones(len(after), dtype=np.int64)
    for k in np.flatnonzero(going).tolist():
        run[k + 1] = run[k] + 1
    last = np.flatnonzero(run >= steps)
    if not len(last):
        raise ValueError(
            f"held-out data must have {steps} steps in a row somewhere; got none. Use fewer steps."
        )
    last = last[np.unique(np.linspace(0, len(last) - 1, _MOST_STRETCHES).astype(np.int64))]
    rows = last[:, None] + np.arange(1 - steps, 1)
    path = np.concatenate([data.states[rows], after[rows[:, -1:]]], axis=1)
    return _Stretches(path, data.controls[rows], data.episodes[last])


def _errors(model: Model, some: _Stretches, schema: Schema) -> tuple[Array, NDArray[Any]]:
    """(K, T + 1, dx) distances of rollouts from what happened, on the circle for angles; and episodes."""
    paths = rollout(model, some.states[:, 0], some.controls.transpose(1, 0, 2), schema=schema)
    gap = paths.transpose(1, 0, 2) - some.states
    angles = np.array([name in schema.angles for name in schema.states])
    return np.abs(np.where(angles, near(gap, np.zeros(1)), gap)), some.episode


def _factor(score: Array, episode: NDArray[Any], alpha: float) -> float:
    """The least score with a share 1 - α at or below, by episodes of equal weight and one at infinity."""
    _, number, count = np.unique(episode, return_inverse=True, return_counts=True)
    weight = 1 / ((len(count) + 1) * count[number])
    order = np.argsort(score, kind="stable")
    total = np.cumsum(weight[order])
    place = int(np.searchsorted(total, (1 - alpha) * (1 - 1e-12)))
    return float(score[order[min(place, len(order) - 1)]])


def inside_share(model: Model, band: SystemBand, data: Transitions) -> tuple[float, float]:
    """Share of stretches of other data in the tube, each episode weighted alike; and in the constant band."""
    errors, episode = _errors(model, stretches(data, len(band.half_width) - 1), data.schema)
    _, number, count = np.unique(episode, return_inverse=True, return_counts=True)
    weight = 1 / (len(count) * count[number])
    inside = (errors[:, 1:] <= band.half_width[1:]).all(axis=(1, 2))
    even = (errors[:, 1:] <= band.constant).all(axis=(1, 2))
    return float((weight * inside).sum()), float((weight * even).sum())


def nominal(model: Model, starts: ArrayLike, controls: Array) -> Array:
    """(N, T + 1, dx) the model's own rollouts from starts (N, dx) with controls (N, T, du)."""
    path = rollout(model, starts, controls.transpose(1, 0, 2))
    return path.transpose(1, 0, 2)
