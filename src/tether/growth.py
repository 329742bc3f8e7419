"""A tree of boxes for M, grown where its first-order models are not good enough yet.

Each output has a tree of its own, over the inputs along which it bends: an input whose derivative is proved
constant over the box is never cut. Leaves are cut in half along the input that contributes most to the remainder;
those first that hold rows, half of the time, and else those with the largest remainder.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tether.data import Array
from tether.geometry.boxtree import BoxTree
from tether.leaves import Leaves, expand_boxes
from tether.programs import Program, evaluate
from tether.progress import Report

_LINEAR = 1e-9
"""Relative width of a derivative over the whole box up to which it is taken for constant; the proof does not rest
on it."""
_LEAST_BATCH = 64
_THINNEST = 1e-9
"""Share of the box below which a leaf is not cut further."""

Stopped = Literal["tolerance", "budget", "nothing left to cut"]


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
    output: NDArray[np.int64]
    bends: NDArray[np.bool_]
    stopped: Stopped


def bending_inputs(program: Program, lower: Array, upper: Array) -> NDArray[np.bool_]:
    """(D,) along which inputs the only output of a program may bend over the box: by proof not along the rest."""
    whole = evaluate(program, lower[None], upper[None], derivatives=True, rounding=False)
    low, high = whole.jacobian_lower[0, 0], whole.jacobian_upper[0, 0]
    with np.errstate(invalid="ignore"):
        constant = high - low <= _LINEAR * np.maximum(np.abs(low), np.abs(high))
    if not np.isfinite([whole.lower[0, 0], whole.upper[0, 0]]).all():  # a jump has any derivative
        used = np.zeros(len(lower), dtype=bool)
        used[np.unique(program.tape.inputs)] = True
        return used & ~constant | used & np.isnan(low)
    return ~constant


class _Cuts(NamedTuple):
    """Leaves that were cut: along which input, where, and which leaf took the right half; the left keeps its own
    number."""

    leaf: NDArray[np.int64]
    along: NDArray[np.int64]
    threshold: Array
    right: NDArray[np.int64]


@dataclass
class _Growth:
    """Leaves so far, as arrays that grow."""

    programs: list[Program]
    angles: NDArray[np.bool_]
    tolerance: Array
    lower: Array
    upper: Array
    cut: NDArray[np.int64] = field(init=False)
    threshold: Array = field(init=False)
    children: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        self.bends = np.stack([bending_inputs(p, self.lower, self.upper) for p in self.programs])
        outputs = len(self.programs)
        self.cut = np.full(outputs, -1)
        self.threshold = np.zeros(outputs)
        self.children = np.full((outputs, 2), -1)
        self.node = np.arange(outputs)  # of each leaf
        self.output = np.arange(outputs)
        self.low = np.repeat(self.lower[None], outputs, axis=0)
        self.high = np.repeat(self.upper[None], outputs, axis=0)
        self.leaves = self._expand(self.output, self.low, self.high)
        self.extent = np.where(self.upper > self.lower, self.upper - self.lower, 1.0)

    def _expand(self, output: NDArray[np.int64], low: Array, high: Array) -> Leaves:
        order = np.argsort(output, kind="stable")
        parts = []
        for k in np.unique(output):
            rows = order[output[order] == k]
            parts.append(expand_boxes(self.programs[k], low[rows], high[rows], angle=bool(self.angles[k])))
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        return Leaves.joined(parts).take(back)

    @property
    def score(self) -> Array:
        """(L,) remainder in units of what is tolerated."""
        return self.leaves.remainder / self.tolerance[self.output]

    def direction(self, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        """The input to cut of each leaf chosen; -1: none is left."""
        shares = self.leaves.shares[chosen]
        width = (self.high - self.low)[chosen] / self.extent
        able = self.bends[self.output[chosen]] & (width > _THINNEST)
        # Where nothing is known of shares, the widest.
        known = np.isfinite(shares)
        largest = np.where(known, shares, 0.0).max(axis=1, keepdims=True)
        weight = np.where(known, shares, np.maximum(largest, 1.0) * (1 + width))
        weight = np.where(able, weight * (1 + 1e-12 * width), -np.inf)
        direction = np.argmax(weight, axis=1)
        return np.where(able.any(axis=1), direction, -1)

    def split(self, chosen: NDArray[np.int64], direction: NDArray[np.int64]) -> _Cuts:
        """Cuts leaves in half."""
        rows = np.arange(len(chosen))
        threshold = 0.5 * self.low[chosen, direction] + 0.5 * self.high[chosen, direction]
        nodes, first = self.node[chosen], len(self.cut)
        self.cut[nodes], self.threshold[nodes] = direction, threshold
        self.children[nodes] = first + np.stack([2 * rows, 2 * rows + 1], axis=1)
        new = 2 * len(chosen)
        self.cut = np.concatenate([self.cut, np.full(new, -1)])
        self.threshold = np.concatenate([self.threshold, np.zeros(new)])
        self.children = np.concatenate([self.children, np.full((new, 2), -1)])
        right = len(self.node) + rows
        low, high = self.low[chosen].copy(), self.high[chosen].copy()
        low[rows, direction] = threshold
        self.high[chosen, direction] = threshold
        self.node[chosen] = self.children[nodes, 0]
        self.node = np.concatenate([self.node, self.children[nodes, 1]])
        self.output = np.concatenate([self.output, self.output[chosen]])
        self.low, self.high = np.concatenate([self.low, low]), np.concatenate([self.high, high])
        halves = self._expand(
            np.tile(self.output[chosen], 2),
            np.concatenate([self.low[chosen], low]),
            np.concatenate([self.high[chosen], high]),
        )
        for name in Leaves.__dataclass_fields__:
            values = getattr(self.leaves, name)
            values[chosen] = getattr(halves, name)[rows]
            object.__setattr__(self.leaves, name, np.concatenate([values, getattr(halves, name)[len(rows) :]]))
        return _Cuts(chosen, direction, threshold, right)

    def finish(self, stopped: Stopped) -> Grown:
        inner = self.cut >= 0
        left, right = np.where(inner, self.children[:, 0], -1), self.children[:, 1]
        left[self.node] = np.arange(len(self.node))
        roots = np.arange(len(self.programs))
        tree = BoxTree(self.lower, self.upper, roots, self.cut, self.threshold, left, right)
        return Grown(tree, self.leaves, self.output, self.bends, stopped)


def grow(
    program: Program,
    lower: Array,
    upper: Array,
    *,
    tolerance: Array,
    rows: Array,
    angles: NDArray[np.bool_],
    most: int = 20_000,
    progress: Report | None = None,
) -> Grown:
    """Trees for the outputs of a program over a box.

    Args:
        program: M's target.
        lower: (D,) the box.
        upper: (D,).
        tolerance: (P,) remainder that is good enough.
        rows: (N, D) inputs in the box near which it matters most.
        angles: (P,) which outputs are angles.
        most: leaves at most, in all trees.
        progress: told how many there are.
    """
    programs = [program.only(k) for k in range(len(tolerance))]
    growth = _Growth(programs, angles, tolerance, lower, upper)
    place = np.tile(np.arange(len(tolerance)), (len(rows), 1))  # (N, P) leaf of each row
    while True:
        score, count = growth.score, len(growth.node)
        if progress is not None:
            progress(min(count, most), most)
        wanting = np.flatnonzero(score > 1)
        if not len(wanting):
            return growth.finish("tolerance")
        if count >= most:
            return growth.finish("budget")
        direction = growth.direction(wanting)
        wanting, direction = wanting[direction >= 0], direction[direction >= 0]
        if not len(wanting):
            return growth.finish("nothing left to cut")
        held = np.bincount(place.ravel(), minlength=count)[wanting]
        quota = min(max(_LEAST_BATCH, count // 2), most - count)
        first = _first(score[wanting], held, quota)
        chosen, along = wanting[first], direction[first]
        _moved(place, rows, growth.split(chosen, along))


def _first(score: Array, held: NDArray[np.int64], quota: int) -> NDArray[np.int64]:
    """Half of the quota where rows are, half where the remainder is largest."""
    score = np.minimum(score, 1e300)
    by_rows = np.argsort(-np.where(held > 0, score * np.sqrt(held), -1.0), kind="stable")
    by_rows = by_rows[: min(quota // 2, int((held > 0).sum()))]
    by_size = np.argsort(-score, kind="stable")[: quota - len(by_rows)]
    return np.union1d(by_rows, by_size)


def _moved(place: NDArray[np.int64], rows: Array, cuts: _Cuts) -> None:
    """Moves rows that lie right of a cut to the leaf there."""
    slot = np.full(cuts.right[0], -1)
    slot[cuts.leaf] = np.arange(len(cuts.leaf))
    for column in place.T:
        touched = np.flatnonzero(slot[column] >= 0)
        which = slot[column[touched]]
        beyond = rows[touched, cuts.along[which]] >= cuts.threshold[which]
        column[touched[beyond]] = cuts.right[which[beyond]]
