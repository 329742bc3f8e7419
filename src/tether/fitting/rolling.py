"""How far a correction carries: rollouts over pieces of episodes, each by what never saw its episode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tether.data import Array, Transitions

HORIZON = 50
"""Steps of a rollout, where episodes are that long."""
FACTORS = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
"""By which all gains may be shrunk together."""
_MOST_WINDOWS = 200
_SAME = 1e-9
"""Relative distance within which a state is the one that was next."""
_ABOUT_BEST = np.log(1.01)
"""By how much the error of rollouts may exceed the least, for a correction that is better over one step."""

Numbers = NDArray[np.int64]
Stepping = Callable[[Array, Array, Numbers, Array], Array]
"""Next states (N, P) from states (N, dx), controls (N, du), and for each of them the row of the episodes that
it began at (N,) and the share of the gain (N,) that it is to use."""


def one_after_another(first: Transitions, second: Transitions) -> Transitions:
    """The rows of both."""
    names = ("states", "controls", "next_states", "episodes")
    both = {name: np.concatenate([getattr(part, name) for part in (first, second)]) for name in names}
    return replace(first, **both)


def windows(part: Transitions) -> Numbers:
    """(W, T) numbers of rows that follow one another, none in two of them."""
    schema, states = part.schema, part.states
    gap = schema.distance(part.next_states[:-1], states[1:, schema.advances])
    near = gap <= _SAME * (1 + np.abs(states[1:, schema.advances]))
    follows = np.logical_and.reduce(near, axis=1) & (part.episodes[1:] == part.episodes[:-1])
    ends = np.append(np.flatnonzero(~follows) + 1, len(part))
    starts = np.append(0, ends[:-1])
    length = int(min(HORIZON, np.median(ends - starts)))
    pieces = [np.arange(a, b - length + 1, length) for a, b in zip(starts, ends, strict=True)]
    firsts = np.concatenate(pieces)
    kept = np.linspace(0, len(firsts) - 1, min(len(firsts), _MOST_WINDOWS)).astype(np.int64)
    return firsts[kept, None] + np.arange(length)


def carrying_factor(part: Transitions, step: Stepping, weight: Array) -> float:
    """By what to shrink a correction that helps over one step, so that rollouts do not suffer from it.

    The largest of a few factors with which rollouts come about as near to what was observed as with any: what
    is right on average over one step may still be fed back.

    Args:
        part: episodes.
        step: see :data:`Stepping`.
        weight: (N,) by what each row of the episodes counts.
    """
    rows = windows(part) if part.schema.rolls_out and len(part) > 1 else np.empty((0, 0), dtype=np.int64)
    if rows.shape[1] < 2:
        return 1.0
    error = _errors(part, step, rows)
    with np.errstate(divide="ignore", invalid="ignore"):
        # Every piece alike, and by the weight of its episode.
        sums = np.stack([error.mean(axis=1), np.tensordot(error, weight[rows[:, 0]], ([1], [0]))])
        score = 0.5 * np.log(sums / sums[:, :1]).mean(
            axis=(0, 2), where=(sums > 0).all(axis=1, keepdims=True)
        )
    if not np.isfinite(score[0]):
        return 1.0
    score = np.nan_to_num(score, nan=np.inf)
    return float(FACTORS[score <= score.min() + _ABOUT_BEST].max())


def _errors(part: Transitions, step: Stepping, rows: Numbers) -> Array:
    """(F, W, P) mean over steps of the squared error, by factor; infinite where a rollout runs away."""
    schema, many = part.schema, len(FACTORS)
    order = np.argsort(schema.advances)
    began, factor = np.tile(rows[:, 0], many), np.repeat(FACTORS, len(rows))
    start = states = part.states[began]
    lost = np.zeros(len(began), dtype=bool)
    total = np.zeros((len(began), len(schema.outputs)))
    with np.errstate(all="ignore"):
        for numbers in np.tile(rows, (many, 1)).T:
            found = step(states, part.controls[numbers], began, factor)
            total += schema.distance(found, part.next_states[numbers]) ** 2
            lost |= ~np.isfinite(total).all(axis=1)
            states = np.where(lost[:, None], start, found[:, order])
    total[lost] = np.inf
    return total.reshape(many, len(rows), -1) / rows.shape[1]
