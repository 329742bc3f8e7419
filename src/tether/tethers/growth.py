"""A tree of boxes for M, grown where its models are not good enough yet.

Each output has a tree of its own, over the inputs along which it bends: an input along which it is known not
to is never cut. Leaves are cut in half along the input that contributes most to the
remainder; those first near rows, most of the time, and else those with the largest remainder.

Where many inputs bend, rows are few: of a two-link arm (six inputs that bend) a fifth of held-out rows lie in
leaves that hold no other row, and A is off the most there; so the tree is grown for a cloud around the rows.
And a proof overrates what some inputs contribute: M's values and slopes in the cloud have a say in where and
along what is cut. Together that took A's error from 0.9 of M's to 0.15, and what is proved to a half, with as
many leaves.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tether.data import Array
from tether.evidence import Expander, Leaves
from tether.evidence.curvature import Pairs, bend_at, bend_slope
from tether.evidence.expansions import Look
from tether.evidence.question import on_circle
from tether.foundation.progress import Report
from tether.geometry.boxtree import BoxTree

_LEAST_BATCH = 64
_THINNEST = 1e-9
"""Share of the box below which a leaf is not cut further."""
_STUBBORN = 12
"""Cuts in a row after which a leaf that got no better is not cut further: M jumps in it."""
_HOPELESS = 4
"""Such cuts that one counts for after which M is not defined where it is looked at: nowhere, mostly."""
_LOOKS = 8
"""Places in a leaf at which it is looked whether M is defined anywhere."""
_BETTER = 0.9
_ELSEWHERE = 8
"""One of so many cuts goes to the largest remainder of the box.

Of Gymnasium's pendulum one of 2, of 4 and of 8 leave A an error of 0.027, 0.012 and 0.004 of M's on held-out
rows, and 0.08, 0.11 and 0.11 rad/s in the worst leaf; it was chosen there.
"""

_FEW = 3
"""Inputs that an output bends along, up to which a proof rates them well by itself, and rows are dense."""
_ENOUGH = 3
"""Inputs in a leaf from which it is seen what bends there."""

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
        cloud: (C, D) inputs in the box like those to come: most cuts go where these are; None: to the rows.
    """

    tolerance: Array
    rows: Array
    most: int = 20_000
    near_rows: Array | None = None
    demanded: Array | None = None
    cloud: Array | None = None


@dataclass(frozen=True, eq=False)
class Grown:
    """A tree with its models.

    Attributes:
        tree: P trees with L leaves in all.
        leaves: (L,) models, in the order of the tree's leaves.
        output: (L,) which output a leaf belongs to.
        bends: (P, D) along which inputs each output bends.
        stopped: what ended the growth.
        pairs: (Q, 2) inputs that curvatures of the models are of.
    """

    tree: BoxTree
    leaves: Leaves
    output: Numbers
    bends: NDArray[np.bool_]
    stopped: Stopped
    pairs: Pairs


def grow(expander: Expander, aim: Aim, *, progress: Report | None = None) -> Grown:
    """Trees for M's outputs over the box that the expander was made for."""
    growth, outputs = _Growth(expander, aim), len(aim.tolerance)
    most = min(aim.most, expander.most_leaves or aim.most)
    rows = cloud = _Placed.of(aim.rows, outputs)
    seen = None
    if aim.cloud is not None and growth.bends.sum(axis=1).max() > _FEW:
        cloud, seen = _Placed.of(aim.cloud, outputs), expander.look(aim.cloud)
    while True:
        count = len(growth.node)
        held = rows.count(count)
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
        bend = None if seen is None else _Bend.of(cloud, seen, growth.leaves, expander.pairs)
        wanting, along = growth.choose(wanting, score, cloud.count(count), bend, most - count)
        if not len(wanting):
            return growth.finish("nothing left to cut")
        cuts = growth.split(wanting, along, held)
        for placed in (rows,) if cloud is rows else (rows, cloud):
            placed.move(cuts)


@dataclass(frozen=True, eq=False)
class _Placed:
    """Inputs (N, D), and `place` (N, P) the leaf of each in each tree."""

    inputs: Array
    place: Numbers

    @classmethod
    def of(cls, inputs: Array, outputs: int) -> _Placed:
        return cls(inputs, np.tile(np.arange(outputs), (len(inputs), 1)))

    def count(self, leaves: int) -> Numbers:
        """(L,) how many each leaf holds."""
        return np.bincount(self.place.ravel(), minlength=leaves)

    def move(self, cuts: _Cuts) -> None:
        """Moves inputs that lie right of a cut to the leaf there."""
        slot = np.full(int(cuts.right[0]), -1)
        slot[cuts.leaf] = np.arange(len(cuts.leaf))
        for column in self.place.T:
            touched = np.flatnonzero(slot[column] >= 0)
            which = slot[column[touched]]
            beyond = self.inputs[touched, cuts.along[which]] >= cuts.threshold[which]
            column[touched[beyond]] = cuts.right[which[beyond]]


@dataclass(frozen=True, eq=False)
class _Bend:
    """How M bends at inputs in leaves; to choose by, nothing rests on it.

    Attributes:
        weight: (L,) number of them, times the root mean square of what A is off by there.
        shares: (L, D) what each input contributes: changes of slope, times the way from the middle.
    """

    weight: Array
    shares: Array

    @classmethod
    def of(cls, placed: _Placed, seen: Look, leaves: Leaves, pairs: Pairs) -> _Bend:
        """From what M is there."""
        place, count = placed.place, len(leaves.value)
        away = placed.inputs[:, None] - leaves.middle[place]
        off = seen.values - leaves.value[place] - (leaves.slope[place] * away).sum(axis=2)
        steep = leaves.slope[place]
        if len(pairs):
            off = off - bend_at(leaves.curvature[place], pairs, away)
            steep = steep + bend_slope(leaves.curvature[place], pairs, away)
        missed = np.bincount(place.ravel(), on_circle(off, seen.angles).ravel() ** 2, minlength=count)
        part = (seen.slopes - steep) * away
        np.abs(part, out=part)
        by_input = part.T.swapaxes(1, 2)
        columns = [np.bincount(place.ravel(), column.ravel(), minlength=count) for column in by_input]
        number = placed.count(count)
        shares = np.where(number[:, None] >= _ENOUGH, np.stack(columns, axis=1), 0.0)
        return cls(np.sqrt(missed * number), shares)


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
        self.edges = self.expander.edges[np.argsort(self.expander.edges[:, 2])]
        self.cut = np.full(outputs, -1)
        self.threshold = np.zeros(outputs)
        self.children = np.full((outputs, 2), -1)
        self.node = np.arange(outputs)  # of each leaf
        self.output = np.arange(outputs)
        self.beside = np.zeros(outputs, dtype=bool)  # whether what a leaf was cut from held rows
        self.stubborn = np.zeros(outputs, np.int64)  # cuts in a row that left it as bad
        self.jump = np.zeros(outputs)  # the largest that no cut makes smaller
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

    def choose(
        self, wanting: Numbers, score: Array, near: Numbers, bend: _Bend | None, most: int
    ) -> tuple[Numbers, Numbers]:
        """At most so many of the leaves that want it to cut next, and along which input.

        Args:
            wanting: leaves.
            score: (L,) remainders in units of what is tolerated.
            near: (L,) how many inputs that matter each holds.
            bend: how M bends there, where that is seen.
            most: leaves that may be added.
        """
        direction = self.direction(wanting)
        wanting, direction = wanting[direction >= 0], direction[direction >= 0]
        if not len(wanting):
            return wanting, direction
        weight = (near + self.beside).astype(np.float64) if bend is None else bend.weight
        urgent = np.minimum(score[wanting], 1e150) * weight[wanting]
        far = self.over(self.aim.tolerance[self.output])[wanting]
        quota = min(max(_LEAST_BATCH, len(self.node) // 2), most)
        by_rows, by_size = _first(urgent, far, self.output[wanting], quota)
        if bend is not None:
            # What is cut for the proof's sake is cut by the proof, as far as there is one.
            unknown = np.logical_or.reduce(~np.isfinite(self.leaves.shares[wanting]), axis=1)
            unknown[by_rows] = True
            direction = np.where(unknown, self.direction(wanting, bend.shares), direction)
        first = np.union1d(by_rows, by_size)[:quota]
        return wanting[first], self._knowing(wanting[first], direction[first], near[wanting[first]] > 0)

    def _knowing(self, chosen: Numbers, direction: Numbers, asked: NDArray[np.bool_]) -> Numbers:
        """Of leaves of which nothing is known, the input to cut that leaves a half of which something is.

        That M is not defined all over a leaf may be the doing of an input along which it hardly bends. Tried
        where it is asked for, for what a pole that no rows are near leaves is not worth knowing.
        """
        unknown = np.flatnonzero(asked & ~np.isfinite(self.leaves.remainder[chosen]))
        if not len(unknown):
            return direction
        leaves, output = chosen[unknown], self.output[chosen[unknown]]
        low, high = self.low[leaves], self.high[leaves]
        found, least = self.direction(leaves), np.full(len(leaves), np.inf)  # else the widest
        for column in range(low.shape[1]):
            able = self.bends[output, column] & ((high - low)[:, column] / self.extent[column] > _THINNEST)
            if not able.any():
                continue
            upper, lower = high[able].copy(), low[able].copy()
            upper[:, column] = lower[:, column] = self._threshold(leaves[able], np.full(able.sum(), column))
            halves = np.concatenate([low[able], lower]), np.concatenate([upper, high[able]])
            left = self.expander.expand(np.tile(output[able], 2), *halves).remainder
            left = left.reshape(2, -1).min(axis=0)
            better = left < least[able]
            rows = np.flatnonzero(able)[better]
            found[rows], least[rows] = column, left[better]
        direction = direction.copy()
        direction[unknown] = found
        return direction

    def direction(self, chosen: Numbers, seen: Array | None = None) -> Numbers:
        """The input to cut of each leaf chosen; -1: none is left.

        By what inputs contribute to the remainder; and by what is seen of that (L, D), where something is:
        the geometric mean of both, because the remainder must fall as well.
        """
        shares = self.leaves.shares[chosen]
        if seen is not None:
            largest = np.where(np.isfinite(shares), shares, 0.0).max(axis=1, keepdims=True)
            proved = np.where(np.isfinite(shares), shares, np.where(largest > 0, largest, 1.0))
            both = np.sqrt(proved * seen[chosen])
            shares = np.where(both.max(axis=1, keepdims=True) > 0, both, shares)
        width = (self.high - self.low)[chosen] / self.extent
        able = self.bends[self.output[chosen]] & (width > _THINNEST)
        # Where nothing is known of shares, the widest.
        known = np.isfinite(shares)
        largest = np.where(known, shares, 0.0).max(axis=1, keepdims=True)
        weight = np.where(known, shares, np.maximum(largest, 1.0) * (1 + width))
        weight = np.where(able, weight * (1 + 1e-12 * width), -np.inf)
        return np.where(able.any(axis=1), np.argmax(weight, axis=1), -1)

    def split(self, chosen: Numbers, along: Numbers, held: Numbers) -> _Cuts:
        """Cuts leaves in two; the left half keeps the leaf's number. Leaves hold so many rows (L,)."""
        self.beside[chosen] = held[chosen] > 0
        self.beside = np.concatenate([self.beside, self.beside[chosen]])
        rows = np.arange(len(chosen))
        threshold = self._threshold(chosen, along)
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
        as_bad = (self.leaves.remainder[both] > _BETTER * before).astype(np.int64)
        # Where nothing is known, and M may not be defined at all, rows alone are worth going on for.
        unknown = np.flatnonzero(~(np.isfinite(before) | self.beside[both]))
        as_bad[unknown] = self._unknown(both[unknown])
        tries = np.where(as_bad > 0, np.tile(self.stubborn[chosen], 2) + as_bad, 0)
        tries[self._at_a_jump(both)] = _STUBBORN
        self.stubborn = np.concatenate([self.stubborn, tries[len(chosen) :]])
        self.stubborn[chosen] = tries[: len(chosen)]
        return _Cuts(chosen, along, threshold, right)

    def _threshold(self, chosen: Numbers, along: Numbers) -> Array:
        """(K,) where leaves are cut along inputs: at the edge that is next to the middle, or there."""
        low, high = self.low[chosen, along], self.high[chosen, along]
        threshold = 0.5 * low + 0.5 * high
        for output, column in np.unique(self.edges[:, :2], axis=0):
            rows = np.flatnonzero((self.output[chosen] == output) & (along == column))
            values = self.edges[(self.edges[:, :2] == (output, column)).all(axis=1), 2]
            right = np.searchsorted(values, threshold[rows])
            beside = values[np.clip(right - 1, 0, None)], values[np.clip(right, None, len(values) - 1)]
            below, above = (np.abs(value - threshold[rows]) for value in beside)
            nearest = np.where(below < above, *beside)
            inside = (low[rows] < nearest) & (nearest < high[rows])
            threshold[rows[inside]] = nearest[inside]
        return threshold

    def _at_a_jump(self, leaves: Numbers) -> Numbers:
        """Which of leaves (K,) hold little but a jump along inputs that they are too thin to be cut along.

        Of leaves that no rows are near, also those that are no worse than the largest jump there is.
        """
        thin = ((self.high - self.low)[leaves] <= _THINNEST * self.extent) & self.bends[self.output[leaves]]
        rows = np.flatnonzero(thin.any(axis=1) & np.isfinite(self.leaves.remainder[leaves]))
        if not len(rows):
            return rows
        own, thin = leaves[rows], thin[rows]
        output, middle, remainder = self.output[own], self.leaves.middle[own], self.leaves.remainder[own]
        ends = (np.where(thin, part[own], middle) for part in (self.low, self.high))
        jump = self.expander.expand(output, *ends).remainder
        jump = np.where(np.isfinite(jump), jump, 0.0)
        np.maximum.at(self.jump, output, jump)
        most = np.where(self.beside[own], 0.0, self.jump[output])
        return rows[remainder <= np.maximum(jump / _BETTER, most)]

    def _unknown(self, leaves: Numbers) -> Numbers:
        """How many cuts in vain one is that made these leaves (K,): 0 where something is known of M now."""
        left = np.flatnonzero(~np.isfinite(self.leaves.remainder[leaves]))
        vain, own = np.zeros(len(leaves), np.int64), leaves[left]
        low, high = self.low[own, None], self.high[own, None]
        share = np.random.default_rng(len(self.node)).random((len(own), _LOOKS, low.shape[2]))
        seen = self.expander.look((low + share * (high - low)).reshape(-1, low.shape[2]))
        known = np.ones(1, dtype=bool)
        if seen is not None:
            known = seen.known[np.arange(len(seen.known)), np.repeat(self.output[own], _LOOKS)]
            known = known.reshape(len(own), _LOOKS).any(axis=1)
        vain[left] = np.where(known, 1, _HOPELESS)
        return vain

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
        used = np.flatnonzero((leaves.curvature != 0).any(axis=0))
        leaves = replace(leaves, curvature=leaves.curvature[:, used])
        return Grown(tree, leaves, self.output, self.bends, stopped, self.expander.pairs[used])


def _first(near: Array, far: Array, output: Numbers, quota: int) -> tuple[Numbers, Numbers]:
    """Which leaves to cut next: most of them near rows, an eighth where the remainder is largest.

    By `near` for those, by `far` for the others: data may not take all that the rest of the box needs.

    As many of each output that is not good enough yet, so that one that never will be leaves something to the
    others.
    """
    near, far = np.minimum(near, 1e300), np.minimum(far, 1e300)
    outputs = np.unique(output)
    chosen: list[tuple[Numbers, Numbers]] = []
    for k in outputs:
        own = np.flatnonzero(output == k)
        each = max(1, quota // len(outputs))
        by_rows = own[np.argsort(-near[own], kind="stable")]
        by_rows = by_rows[: min(each - each // _ELSEWHERE, int((near[own] > 0).sum()))]
        by_size = own[np.argsort(-far[own], kind="stable")][: each - len(by_rows)]
        chosen.append((by_rows, by_size))
    by_rows, by_size = (np.concatenate(part) for part in zip(*chosen, strict=True))
    return by_rows, by_size
