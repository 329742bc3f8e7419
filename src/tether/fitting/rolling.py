"""How far a correction carries: rollouts over pieces of episodes, each by what never saw its episode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tether.data import Array, Transitions, joined

HORIZON = 50
"""Steps of a rollout, where episodes are that long."""
FACTORS = np.linspace(0.0, 1.0, 6)
"""By which the gain of an output may be shrunk."""
_MOST_WINDOWS = 100
_SLACK = np.log(1.05)
"""By how much the error of rollouts may exceed the least that one factor for all outputs gives."""
_HARMLESS = np.log(1.01)
"""By how much it may exceed M's own."""
_WORTH = 8.0
"""Per cent of the error of rollouts that one per cent of the error over one step is worth."""
_SWEEPS = 2
_SMALLEST = 1e-12
"""Share of M's squared error that counts as none."""

Numbers = NDArray[np.int64]
Stepping = Callable[[Array, Array, Numbers, Array], Array]
"""Next states (N, P) from states (N, dx), controls (N, du), and for each of them the row of the episodes that
it began at (N,) and the shares of the gains (N, P) that it is to use."""


def one_after_another(first: Transitions, second: Transitions) -> Transitions:
    """The rows of both."""
    names = ("states", "controls", "next_states", "episodes")
    both = {name: np.concatenate([getattr(part, name) for part in (first, second)]) for name in names}
    return replace(first, **both)


def windows(part: Transitions) -> Numbers:
    """(W, T) numbers of rows that follow one another, none in two of them."""
    ends = np.append(np.flatnonzero(~joined(part)) + 1, len(part))
    starts = np.append(0, ends[:-1])
    length = int(min(HORIZON, np.median(ends - starts)))
    pieces = [np.arange(a, b - length + 1, length) for a, b in zip(starts, ends, strict=True)]
    firsts = np.concatenate(pieces)
    kept = np.linspace(0, len(firsts) - 1, min(len(firsts), _MOST_WINDOWS)).astype(np.int64)
    return firsts[kept, None] + np.arange(length)


def carrying_factors(part: Transitions, step: Stepping, over_one: Array, weight: Array) -> Array:
    """(P,) by what to shrink a correction that helps over one step, so that rollouts do not suffer from it.

    What is right on average over one step may still be fed back: of measured states, half of what can be
    predicted may be their own noise. With the factors taken, rollouts come about as near to what was observed
    as with M alone, and nearly as near as with any one factor for all outputs; among those it is weighed what
    they gain over many steps and over one.

    Args:
        part: episodes.
        step: see :data:`Stepping`.
        over_one: (F, P) logarithm of the error over one step, by factor.
        weight: (N,) by what each row of the episodes counts; pieces with a row of 0 are left out.
    """
    count = over_one.shape[1]
    rows = windows(part) if part.schema.rolls_out and len(part) > 1 else np.empty((0, 0), dtype=np.int64)
    rows = rows[(weight[rows] > 0).all(axis=1)]
    if len(rows) == 0 or rows.shape[1] < 2:
        return np.ones(count)
    judge = _Judge(part, step, rows, weight)
    alike = np.repeat(np.arange(len(FACTORS))[:, None], count, axis=1)
    rolled = judge(alike)
    if not np.isfinite(rolled[0]):
        return np.ones(count)
    most = min(rolled[0] + _HARMLESS, rolled.min() + _SLACK)

    def cost(chosen: Numbers, rolled: Array) -> Array:
        single = np.take_along_axis(over_one, chosen, axis=0).mean(axis=1)
        return np.where(rolled <= most, rolled + _WORTH * single, np.inf)

    best = alike[np.argmin(cost(alike, rolled))]
    for _ in range(_SWEEPS if count > 1 else 0):
        before = best
        for output in range(count):
            tried = np.repeat(best[None], len(FACTORS), axis=0)
            tried[:, output] = np.arange(len(FACTORS))
            best = tried[np.argmin(cost(tried, judge(tried)))]
        if np.array_equal(before, best):
            break
    return FACTORS[best]


@dataclass(frozen=True, eq=False)
class _Judge:
    """What rollouts over some rows (W, T) of episodes make of factors."""

    part: Transitions
    step: Stepping
    rows: Numbers
    weight: Array

    def __call__(self, chosen: Numbers) -> Array:
        """(C,) mean over outputs of the logarithm of the error of rollouts over M's, of numbers (C, P)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            sums = self._sums(FACTORS[chosen])
            known = np.broadcast_to((self._own > 0).all(axis=0), sums.shape)
            found = 0.5 * np.log(sums / self._own).mean(axis=(0, 2), where=known)
        # Where M's own are lost, nothing can be said; others that are lost are the worst.
        return np.where(np.isnan(found) & np.isfinite(self._own).all(), np.inf, found)

    @cached_property
    def _own(self) -> Array:
        return self._sums(np.zeros((1, len(self.part.schema.outputs))))

    def _sums(self, factors: Array) -> Array:
        """(2, C, P) of squared errors: every piece alike, and by the weight of its episode."""
        error = _errors(self.part, self.step, self.rows, factors)
        by_weight = np.tensordot(error, self.weight[self.rows[:, 0]], ([1], [0]))
        return np.stack([error.mean(axis=1), by_weight])


def _errors(part: Transitions, step: Stepping, rows: Numbers, factors: Array) -> Array:
    """(C, W, P) mean over steps of the squared error, by factors (C, P); infinite where a rollout is lost."""
    schema, many = part.schema, len(factors)
    order = np.argsort(schema.advances)
    began, factor = np.tile(rows[:, 0], many), np.repeat(factors, len(rows), axis=0)
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


def error_over_one(correction: Array, wanted: Array, weight: Array) -> Array:
    """(F, P) logarithm of the error over one step as a share of M's, by factor of a correction (N, P).

    Of all rows that count alike, and by their weight (N,); 0 for an output that M never misses.
    """
    found = np.zeros((2, len(FACTORS), wanted.shape[1]))
    for k, share in enumerate(((weight > 0).astype(np.float64), weight)):
        whole, along, size = (share @ part for part in (wanted**2, wanted * correction, correction**2))
        left = whole - 2 * FACTORS[:, None] * along + FACTORS[:, None] ** 2 * size
        np.divide(left, whole, out=found[k], where=whole > 0)
    return 0.5 * np.log(np.maximum(found, _SMALLEST), where=found > 0, out=np.zeros_like(found)).mean(axis=0)
