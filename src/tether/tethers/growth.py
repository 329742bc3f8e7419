"""A tree of boxes for M, grown where its first-order models are not good enough yet.

Each output has a tree of its own, over the inputs along which it bends: an input along which it is known not
to is never cut. Leaves are cut in half along the input that contributes most to the
remainder; those first that hold rows, half of the time, and else those with the largest remainder.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tether.data import Array
from tether.evidence import Expander, Leaves
from tether.foundation.progress import Report
from tether.geometry.boxtree import BoxTree

_LEAST_BATCH = 64
_THINNEST = 1e-9
"""Share of the box below which a leaf is not cut further."""
_STUBBORN = 12
"""Cuts in a row after which a leaf that got no better is not cut further: M jumps in it."""
_BETTER = 0.9

Numbers = NDArray[np.int64]
Stopped = Literal["tolerance", "budget", "calls of the trusted model", "nothing left to cut"]


@dataclass(frozen=True, eq=False)
class Aim:
    """What a tree is grown for.

    Attributes:
        tolerance: (P,) remainder that is good enough.
        rows: (N, D) inputs in the box near which it matters most.
        most: leaves at most, in all trees.
        near_rows: (P,) remainder that is good enough where rows are, in a leaf or in the other half of what
            it was cut from; None: no other than elsewhere.
        demanded: (P,) remainder that leaves which hold rows must have before others are cut; None: any.
    """

    tolerance: Array
    rows: Array
    most: int = 20_000
    near_rows: Array | None = None
    demanded: Array | None = None


@dataclass(frozen=True, eq=False)
class Grown:
    """A tree with its first-order models.

    Attributes:
        tree: P trees with L leaves in all.
        leaves: (L,) models, in the order of the tree's leaves.
        output: (L,) which output a leaf belongs to.
        bends: (P, D) along which inputs each output bends.
        stopped: what ended the growth.
    """

    tree: BoxTree
    leaves: Leaves
    output: Numbers
    bends: NDArray[np.bool_]
    stopped: Stopped


def grow(expander: Expander, aim: Aim, *, progress: Report | None = None) -> Grown:
    """Trees for M's outputs over the box that the expander was made for."""
    growth = _Growth(expander, aim)
    most = min(aim.most, expander.most_leaves or aim.most)
    place = np.tile(np.arange(len(aim.tolerance)), (len(aim.rows), 1))  # (N, P) leaf of each row
    while True:
        count = len(growth.node)
        held = np.bincount(place.ravel(), minlength=count)
        score = growth.score(held)
        if progress is not None:
            progress(min(count, most), most)
        missing = np.flatnonzero(score > 1)
        if not len(missing):
            return growth.finish("tolerance")
        if count >= most:
            return growth.finish("budget" if most == aim.most else "calls of the trusted model")
        able = growth.stubborn < _STUBBORN
        wanting = growth.demanded(held)
        wanting = wanting[able[wanting]]
        wanting = wanting if len(wanting) else missing[able[missing]]
        direction = growth.direction(wanting)
        wanting, direction = wanting[direction >= 0], direction[direction >= 0]
        if not len(wanting):
            return growth.finish("nothing left to cut")
        quota = min(max(_LEAST_BATCH, count // 2), most - count)
        weight = held[wanting] + growth.beside[wanting]
        far = growth.over(aim.tolerance[growth.output])
        first = _first(score[wanting], far[wanting], weight, growth.output[wanting], quota)
        _move(place, aim.rows, growth.split(wanting[first], direction[first], held))


class _Cuts(NamedTuple):
    """Leaves that were cut: along which input, where, and which leaf took the right half, the left none."""

    leaf: Numbers
    along: Numbers
    threshold: Array
    right: Numbers


@dataclass
class _Growth:
    """Leaves so far, as arrays that grow."""

    expander: Expander
    aim: Aim
    leaves: Leaves = field(init=False)

    def __post_init__(self) -> None:
        outputs = len(self.aim.tolerance)
        self.lower, self.upper = self.expander.question.lower, self.expander.question.upper
        self.bends = self.expander.bends
        self.cut = np.full(outputs, -1)
        self.threshold = np.zeros(outputs)
        self.children = np.full((outputs, 2), -1)
        self.node = np.arange(outputs)  # of each leaf
        self.output = np.arange(outputs)
        self.beside = np.zeros(outputs, dtype=bool)  # whether what a leaf was cut from held rows
        self.stubborn = np.zeros(outputs, np.int64)  # cuts in a row that left it as bad
        self.low = np.repeat(self.lower[None], outputs, axis=0)
        self.high = np.repeat(self.upper[None], outputs, axis=0)
        self.leaves = self.expander.expand(self.output, self.low, self.high)
        self.extent = np.where(self.upper > self.lower, self.upper - self.lower, 1.0)

    def score(self, held: Numbers) -> Array:
        """(L,) remainder in units of what is tolerated, where leaves hold so many rows (L,)."""
        far, near = self.aim.tolerance, self.aim.near_rows
        near = far if near is None else near
        tolerance = np.where((held > 0) | self.beside, near[self.output], far[self.output])
        return self.over(tolerance)

    def demanded(self, held: Numbers) -> Numbers:
        """Leaves that must be cut before others are, where leaves hold so many rows (L,)."""
        if self.aim.demanded is None:
            return np.empty(0, np.int64)
        return np.flatnonzero((held > 0) & (self.leaves.remainder > self.aim.demanded[self.output]))

    def over(self, tolerance: Array) -> Array:
        """(L,) remainder over a tolerance (L,)."""
        with np.errstate(over="ignore"):
            return self.leaves.remainder / tolerance

    def direction(self, chosen: Numbers) -> Numbers:
        """The input to cut of each leaf chosen; -1: none is left."""
        shares = self.leaves.shares[chosen]
        width = (self.high - self.low)[chosen] / self.extent
        able = self.bends[self.output[chosen]] & (width > _THINNEST)
        # Where nothing is known of shares, the widest.
        known = np.isfinite(shares)
        largest = np.where(known, shares, 0.0).max(axis=1, keepdims=True)
        weight = np.where(known, shares, np.maximum(largest, 1.0) * (1 + width))
        weight = np.where(able, weight * (1 + 1e-12 * width), -np.inf)
        return np.where(able.any(axis=1), np.argmax(weight, axis=1), -1)

    def split(self, chosen: Numbers, along: Numbers, held: Numbers) -> _Cuts:
        """Cuts leaves in half; the left half keeps the leaf's number. Leaves hold so many rows (L,)."""
        self.beside[chosen] = held[chosen] > 0
        self.beside = np.concatenate([self.beside, self.beside[chosen]])
        rows = np.arange(len(chosen))
        threshold = 0.5 * self.low[chosen, along] + 0.5 * self.high[chosen, along]
        low, high = self.low[chosen], self.high[chosen]
        low[rows, along] = threshold
        self.high[chosen, along] = threshold
        right = len(self.node) + rows
        self._branch(chosen, along, threshold)
        self.output = np.concatenate([self.output, self.output[chosen]])
        self.low, self.high = np.concatenate([self.low, low]), np.concatenate([self.high, high])
        both = np.concatenate([chosen, right])
        before = np.tile(self.leaves.remainder[chosen], 2)
        self.leaves = self.leaves.replaced(
            chosen, self.expander.expand(self.output[both], self.low[both], self.high[both])
        )
        as_bad = np.isfinite(before) & (self.leaves.remainder[both] > _BETTER * before)
        tries = np.where(as_bad, np.tile(self.stubborn[chosen], 2) + 1, 0)
        self.stubborn = np.concatenate([self.stubborn, tries[len(chosen) :]])
        self.stubborn[chosen] = tries[: len(chosen)]
        return _Cuts(chosen, along, threshold, right)

    def _branch(self, chosen: Numbers, along: Numbers, threshold: Array) -> None:
        """Two nodes below that of each leaf chosen."""
        nodes, count = self.node[chosen], len(chosen)
        self.cut[nodes], self.threshold[nodes] = along, threshold
        self.children[nodes] = len(self.cut) + np.arange(2 * count).reshape(count, 2)
        self.node[chosen] = self.children[nodes, 0]
        self.node = np.concatenate([self.node, self.children[nodes, 1]])
        self.cut = np.concatenate([self.cut, np.full(2 * count, -1)])
        self.threshold = np.concatenate([self.threshold, np.zeros(2 * count)])
        self.children = np.concatenate([self.children, np.full((2 * count, 2), -1)])

    def finish(self, stopped: Stopped) -> Grown:
        """What was grown."""
        left, right = self.children[:, 0].copy(), self.children[:, 1].copy()
        left[self.node] = np.arange(len(self.node))
        roots = np.arange(len(self.bends))
        tree = BoxTree(self.lower, self.upper, roots, self.cut, self.threshold, left, right)
        leaves = self.expander.settle(self.leaves, self.output, self.low, self.high)
        return Grown(tree, leaves, self.output, self.bends, stopped)


def _first(score: Array, far: Array, held: Numbers, output: Numbers, quota: int) -> Numbers:
    """Which leaves to cut next: half of them where rows are, half where the remainder is largest.

    By what is asked near rows for the one half, by what is asked everywhere for the other: data may not take
    what the rest of the box needs.

    As many of each output that is not good enough yet, so that one that never will be leaves something to the
    others.
    """
    score, far = np.minimum(score, 1e300), np.minimum(far, 1e300)
    outputs = np.unique(output)
    chosen = []
    for k in outputs:
        own = np.flatnonzero(output == k)
        each = max(1, quota // len(outputs))
        by_rows = own[np.argsort(-score[own] * held[own], kind="stable")]
        by_rows = by_rows[: min(-(-each // 2), int((held[own] > 0).sum()))]
        by_size = own[np.argsort(-far[own], kind="stable")][: each - len(by_rows)]
        chosen.append(np.union1d(by_rows, by_size))
    return np.concatenate(chosen)[:quota]


def _move(place: Numbers, rows: Array, cuts: _Cuts) -> None:
    """Moves rows that lie right of a cut to the leaf there; `place` (N, P) is their leaf in each tree."""
    slot = np.full(int(cuts.right[0]), -1)
    slot[cuts.leaf] = np.arange(len(cuts.leaf))
    for column in place.T:
        touched = np.flatnonzero(slot[column] >= 0)
        which = slot[column[touched]]
        beyond = rows[touched, cuts.along[which]] >= cuts.threshold[which]
        column[touched[beyond]] = cuts.right[which[beyond]]
