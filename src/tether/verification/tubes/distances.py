"""How far a model may be, with any weights or with those of a file, from a line over a set: box by box."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import product
from typing import NamedTuple

import numpy as np
from flint import arb
from numpy.typing import NDArray

from tether.foundation.executors import current
from tether.foundation.progress import Report
from tether.verification import intervals
from tether.verification.claim import ROUNDOFF
from tether.verification.elementary import constant
from tether.verification.interpreter import enclose, exact_values
from tether.verification.intervals import Array, Interval, add_down, add_up, multiply_up
from tether.verification.leafclaims import LeafClaim
from tether.verification.leaves import model_at, slopes_at
from tether.verification.networks import FileNetwork, cut_off, less_share
from tether.verification.roundings import leaf_rounding
from tether.verification.tracing import Program

Index = NDArray[np.int64]
_TURN = constant(lambda: 2 * arb.pi())
_SHELLS = 4
_ROUNDS = 20
_MOST_BOXES = 50_000
_BOXES = 512
"""In one go."""
_FEW_LEAVES = 64
"""A box that touches more is not looked at leaf by leaf."""
_PINNED_REACH = 0.05
"""Scaled distance from what all probes agree on at which a tether is fully open, as the model has it."""
LESS_THAN_A_TURN = 6.28


class Task(NamedTuple):
    """A step: that the target is nowhere farther from a line than there is left.

    Attributes:
        place: which step, for a message.
        low: (D,) the box of its inputs, angles on the line.
        high: (D,).
        point: (D,) where the line has its value.
        turns: (D,) whole turns from there to the box.
        value: (P,).
        slope: (P, D).
        left: (P,).
    """

    place: str
    low: Array
    high: Array
    point: Array
    turns: Array
    value: Array
    slope: Array
    left: Array


@dataclass(frozen=True, eq=False)
class _Boxes:
    """B boxes of one output: ends (B, D) as the model sees them, whole turns (B, D), and their tasks (B,)."""

    task: Index
    low: Array
    high: Array
    turns: Array

    @property
    def middles(self) -> _Boxes:
        """A point of each."""
        middle = np.clip(0.5 * self.low + 0.5 * self.high, self.low, self.high)
        return replace(self, low=middle, high=middle.copy())

    def take(self, rows: NDArray) -> _Boxes:
        """Some of them."""
        return _Boxes(self.task[rows], self.low[rows], self.high[rows], self.turns[rows])


class _View(NamedTuple):
    """What is known of the target less A, over B boxes and L leaves: a line, and what lies beyond it.

    Attributes:
        value: (B,) of the line at the boxes' middles.
        slope: (B, D).
        low: (B, L) at most what the target is beyond A and the line.
        high: (B, L) at least that.
        sums: whether adding the line to A may round, beyond what remainders cover.
    """

    value: Array
    slope: Array
    low: Array
    high: Array
    sums: bool


def first_unshown(
    claim: LeafClaim,
    program: Program | None,
    tasks: list[Task],
    progress: Report | None,
    network: FileNetwork | None = None,
) -> str | None:
    """What cannot be shown of the first step that fails; None where all can be."""
    if not tasks:  # it ended where it began
        return None
    outputs = len(claim.schema.outputs)
    show = partial(_unshown, claim, program, tasks, network, _pieces(claim.schema.input_angles, tasks))
    for output, reason in enumerate(current().map(show, zip(range(outputs)))):
        if reason is not None:
            return reason
        if progress is not None:
            progress(len(tasks) * (output + 1), len(tasks) * outputs)
    return None


def first_untied(
    program: Program, angles: NDArray[np.bool_], names: list[str], tasks: list[Task]
) -> str | None:
    """The same of a rule in NumPy, which sees these angles and gives columns of these names."""
    if not tasks:
        return None
    for output, name in enumerate(names):
        over = _Lines.of(program, output, tasks)
        reason = _not_within(over, _pieces(angles, tasks), tasks, name, output, "that the rule")
        if reason is not None:
            return reason
    return None


def first_beyond(
    program: Program,
    angles: NDArray[np.bool_],
    names: list[str],
    tasks: list[Task],
    limits: list[Interval],
) -> str | None:
    """What cannot be shown of the first set over which a rule may leave limits (P,); None if all can be."""
    for output, name in enumerate(names):
        ends = np.array([(low[output], high[output]) for low, high in limits]).reshape(-1, 2)
        rows = np.flatnonzero(np.isfinite(ends).any(axis=1))
        if not len(rows):
            continue
        own = [tasks[k]._replace(left=limits[k][1] - limits[k][0]) for k in rows]
        lines = _Lines.of(program, output, own)
        over = _Ends(**vars(lines), low=ends[rows, 0], high=ends[rows, 1])
        reason = _not_within(over, _pieces(angles, own), own, name, output, "that the rule")
        if reason is not None:
            return reason
    return None


def _unshown(
    claim: LeafClaim,
    program: Program | None,
    tasks: list[Task],
    network: FileNetwork | None,
    boxes: _Boxes,
    output: int,
) -> str | None:
    """The same of one output, over boxes that hold all tasks."""
    over = _Over.beside(_Lines.of(program, output, tasks), claim, output, network)
    return _not_within(over, boxes, tasks, claim.output(output), output, "that the model")


def _not_within(
    over: _Lines, boxes: _Boxes, tasks: list[Task], name: str, output: int, which: str
) -> str | None:
    """What cannot be shown of the first task, of one column over boxes that hold all tasks."""
    for round_ in range(_ROUNDS):
        boxes = boxes.take(~over.all_shown(boxes))
        if not len(boxes.task):
            break
        # What does not hold at one point of a box holds over no part of it that has this point.
        hopeless = ~over.all_shown(boxes.middles)
        if hopeless.any() or round_ == _ROUNDS - 1 or len(boxes.task) > _MOST_BOXES:
            task = tasks[int(boxes.task[int(np.argmax(hopeless))])]
            return (
                f"{task.place}: {name}: its box leaves {task.left[output]:.6g}, and {which} "
                "stays within it cannot be shown"
            )
        boxes = over.halved(boxes, widest=round_ % 3 == 2)
    return None


def _pieces(angles: NDArray[np.bool_], tasks: list[Task]) -> _Boxes:
    """Every task's box, cut where an angle passes ±π, as the model sees the pieces."""
    found = []
    for number, task in enumerate(tasks):
        ways = [
            np.arange(_turns_of(a, -1.0), _turns_of(b, 1.0) + 1)
            if angle and not (a >= -np.pi and b < np.pi)  # what is at π itself the model sees at -π
            else np.zeros(1)
            for a, b, angle in zip(task.low, task.high, angles, strict=True)
        ]
        for turns in map(np.array, product(*ways)):
            whole = intervals.multiply((turns, turns), _TURN)
            low, high = intervals.subtract((task.low, task.high), whole)
            low, high = np.where(turns == 0, task.low, low), np.where(turns == 0, task.high, high)
            low = np.where(angles, np.maximum(low, -np.pi), low)
            high = np.where(angles, np.minimum(high, np.pi), high)
            if (low <= high).all():
                found.append((number, low, high, turns))
    number, low, high, turns = zip(*found, strict=True)
    return _Boxes(np.array(number), *(np.array(part) for part in (low, high, turns)))


def _turns_of(angle: float, side: float) -> float:
    """The whole turns of an angle, or of one that cannot be told from it."""
    doubt = 1e-9 + 16 * ROUNDOFF * abs(angle)
    return float(np.floor((angle + side * doubt + np.pi) / (2 * np.pi)))


class _Enclosed(NamedTuple):
    """M over B boxes: at their middles, its slopes by shells, its error, its range, and the boxes' reach."""

    value: Interval
    slopes: list[Interval]
    error: Array
    ranged: Interval
    longest: Array


@dataclass(frozen=True, eq=False)
class _Lines:
    """One column of all tasks, which is that of a rule in NumPy.

    Attributes:
        program: of the column alone; None where it is not to be used.
        value: (N,) of the lines.
        slope: (N, D).
        point: (N, D).
        turns: (N, D).
        left: (N,).
        turning: whether the column is known up to whole turns.
    """

    program: Program | None
    value: Array
    slope: Array
    point: Array
    turns: Array
    left: Array
    turning: bool = False

    @classmethod
    def of(cls, program: Program | None, output: int, tasks: list[Task]) -> _Lines:
        """Of these tasks."""
        own = None if program is None else program.only(output)
        lines = [[task.value[output] for task in tasks], [task.slope[output] for task in tasks]]
        rest = [
            [task.point for task in tasks],
            [task.turns for task in tasks],
            [task.left[output] for task in tasks],
        ]
        value, slope, point, turns, left = (np.array(part) for part in (*lines, *rest))
        return cls(own, value, slope, point, turns, left)

    @property
    def whole(self) -> Array:
        """(D,) what boxes are measured by where nothing else says along which input to cut."""
        return np.ones(self.point.shape[1])

    def shown(self, boxes: _Boxes) -> NDArray[np.bool_]:
        """(B,) whether the rule is, all over each box, within what is left of the line."""
        with np.errstate(all="ignore"):
            middle = np.clip(0.5 * boxes.low + 0.5 * boxes.high, boxes.low, boxes.high)
            slope = self.slope[boxes.task]
            found = self._enclosed(boxes, middle)
            ends = self._by_model(found, middle, self._line(boxes, middle), (slope, slope.copy()))
            left = self.left[boxes.task]
            return (ends[0] >= -left) & (ends[1] <= left)

    def all_shown(self, boxes: _Boxes) -> NDArray[np.bool_]:
        """(B,) the same, so many in one go as memory has room for."""
        starts = range(0, len(boxes.task), _BOXES)
        parts = [self.shown(boxes.take(np.arange(k, min(k + _BOXES, len(boxes.task))))) for k in starts]
        return np.concatenate(parts) if parts else np.empty(0, dtype=bool)

    def _line(self, boxes: _Boxes, at: Array) -> Interval:
        """(B,) the lines at points (B, D) of the boxes."""
        value, slope = self.value[boxes.task], self.slope[boxes.task]
        more = boxes.turns - self.turns[boxes.task]
        turned = intervals.multiply((more, more.copy()), _TURN)
        turned = tuple(np.where(more == 0, 0.0, end) for end in turned)
        way = intervals.subtract((at, at), (self.point[boxes.task], self.point[boxes.task]))
        way = intervals.add(way, (turned[0], turned[1]))
        total: Interval = (value, value)
        for d in range(at.shape[1]):
            own = slope[:, d]
            total = intervals.add(total, intervals.multiply((own, own.copy()), (way[0][:, d], way[1][:, d])))
        return total

    def _enclosed(self, boxes: _Boxes, middle: Array) -> _Enclosed | None:
        """M over the boxes; None where M is not to be used."""
        if self.program is None:
            return None
        below, above, count = [], [], len(middle)
        reach = add_up(middle, -boxes.low), add_up(boxes.high, -middle)
        for share in np.arange(1, _SHELLS) / _SHELLS:
            below.append(np.maximum(add_down(middle, -multiply_up(reach[0], share)), boxes.low))
            above.append(np.minimum(add_up(middle, multiply_up(reach[1], share)), boxes.high))
        found = enclose(
            self.program,
            np.concatenate([*below, boxes.low]),
            np.concatenate([*above, boxes.high]),
            slopes=True,
        )
        whole = slice(count * (_SHELLS - 1), None)
        low, high = (part[:, 0] for part in exact_values(self.program, middle))
        slopes = [found.slopes[0].get(d, intervals.ZERO) for d in range(middle.shape[1])]
        ranged = found.lower[0, whole], found.upper[0, whole]
        return _Enclosed((low, high), slopes, found.error[0, whole], ranged, np.maximum(*reach))

    def _by_model(self, found: _Enclosed | None, middle: Array, line: Interval, slope: Interval) -> Interval:
        """(B,) least and greatest of M less the line, by its derivatives and by its range."""
        count = len(middle)
        if found is None:
            none = np.full(count, np.inf)
            return -none, none
        (low, high), ranged, longest = found.value, found.ranged, found.longest
        line = self._turned(line, (low, high))
        change, spread = np.zeros(count), np.zeros(count)
        for d, steep in enumerate(found.slopes):
            stated = slope[0][:, d], slope[1][:, d]
            change = add_up(change, _share(steep, stated, longest[:, d]))
            along = multiply_up(intervals.magnitude(stated), longest[:, d])
            spread = add_up(spread, np.where(longest[:, d] == 0, 0.0, along))
        change = add_up(change, found.error)
        least = add_down(add_down(low, -line[1]), -change)
        most = add_up(add_up(high, -line[0]), change)
        least = np.fmax(least, add_down(add_down(ranged[0], -line[1]), -spread))
        most = np.fmin(most, add_up(add_up(ranged[1], -line[0]), spread))
        known = np.isfinite(ranged[0]) & np.isfinite(ranged[1])
        return np.where(known & ~np.isnan(least), least, -np.inf), np.where(
            known & ~np.isnan(most), most, np.inf
        )

    def _turned(self, line: Interval, near: Interval) -> Interval:
        """A line of an angle, by whole turns near to something."""
        if not self.turning:
            return line
        count = np.round((0.5 * near[0] + 0.5 * near[1] - 0.5 * line[0] - 0.5 * line[1]) / (2 * np.pi))
        count = np.where(np.isfinite(count), count, 0.0)
        whole = intervals.multiply((count, count.copy()), _TURN)
        whole = tuple(np.where(count == 0, 0.0, end) for end in whole)
        return intervals.add(line, (whole[0], whole[1]))

    def halved(self, boxes: _Boxes, *, widest: bool = False) -> _Boxes:
        """Every box in two, along the input that contributes most, or is widest where that is not known.

        What contributes is how M bends; the room that cells leave changes along other inputs too, so that
        boxes are to be cut along the `widest` now and then.
        """
        extent = boxes.high - boxes.low
        whole = self.whole
        shares = extent / np.where(whole > 0, whole, 1.0)
        if self.program is not None and not widest:
            stated = self.slope[boxes.task]
            with np.errstate(all="ignore"):
                found = enclose(self.program, boxes.low, boxes.high, slopes=True).slopes[0]
            parts = [
                _share(found.get(d, intervals.ZERO), (stated[:, d], stated[:, d]), extent[:, d], shells=1)
                for d in range(extent.shape[1])
            ]
            known = np.stack(parts, axis=1)
            shares = np.where(np.isfinite(known).all(axis=1, keepdims=True), known + 1e-12 * shares, shares)
        shares = np.where(extent > 0, shares, -1.0)
        column, rows = np.argmax(shares, axis=1), np.arange(len(extent))
        middle = 0.5 * boxes.low[rows, column] + 0.5 * boxes.high[rows, column]
        low, high = boxes.low.copy(), boxes.high.copy()
        high[rows, column] = low[rows, column] = middle
        return _Boxes(
            np.tile(boxes.task, 2), np.concatenate([boxes.low, low]), np.concatenate([high, boxes.high]),
            np.tile(boxes.turns, (2, 1)),
        )  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True)
class _Ends(_Lines):
    """One column of all tasks, which is that of a rule, and ends (N,) that it must keep between."""

    low: Array
    high: Array

    def shown(self, boxes: _Boxes) -> NDArray[np.bool_]:
        """(B,) whether the rule does, all over each box."""
        assert self.program is not None
        found = enclose(self.program, boxes.low, boxes.high, slopes=False)
        return (found.lower[0] >= self.low[boxes.task]) & (found.upper[0] <= self.high[boxes.task])


@dataclass(frozen=True, eq=False, kw_only=True)
class _Over(_Lines):
    """One output of all tasks, which is a model's.

    Attributes:
        claim: what the model file says.
        output: which.
        leaves: (L,) of its tree.
        network: of the file, where its weights are those that count.
    """

    claim: LeafClaim
    output: int
    leaves: Index
    network: FileNetwork | None

    @classmethod
    def beside(cls, lines: _Lines, claim: LeafClaim, output: int, network: FileNetwork | None) -> _Over:
        """Of these lines."""
        leaves = np.flatnonzero(claim.trees.owner == output)
        return cls(
            lines.program, lines.value, lines.slope, lines.point, lines.turns, lines.left,
            bool(claim.schema.output_angles[output]),
            claim=claim, output=output, leaves=leaves, network=network,
        )  # fmt: skip

    @property
    def whole(self) -> Array:
        """(D,) the operating box."""
        return self.claim.box[1] - self.claim.box[0]

    def shown(self, boxes: _Boxes) -> NDArray[np.bool_]:
        """(B,) whether the target is, all over each box, within what is left of the line."""
        with np.errstate(all="ignore"):
            middle = np.clip(0.5 * boxes.low + 0.5 * boxes.high, boxes.low, boxes.high)
            line = self._line(boxes, middle)
            touched = self._touched(boxes)
            remainder = self.claim.bounds("remainder")[self.leaves]
            known = np.where(touched, remainder[None], 0.0).max(axis=1) < np.inf
            found = self._enclosed(boxes, middle)
            ends: Interval | None = None
            for view in self._views(boxes, middle, remainder):
                own = self._seen(boxes, middle, line, touched, remainder, view, found)
                ends = own if ends is None else self._both(own, ends)
            assert ends is not None
            left = self.left[boxes.task]
            # The line is any number of turns away from the model's, where the output is an angle.
            return (ends[0] >= -left) & (ends[1] <= left) & known

    def _views(self, boxes: _Boxes, middle: Array, remainder: Array) -> list[_View]:
        """Whatever the weights, the open half-width; of a network, what it adds, and a line it follows."""
        least, widest = self._room(boxes)
        rest = np.maximum(self.claim.bounds("most")[self.output] - remainder, 0.0)
        # Where nothing is known and nothing was asked for, infinity less infinity; such leaves are refused.
        rest = np.where(np.isnan(rest), 0.0, rest)
        width = np.minimum(widest[:, None], intervals.up(rest)[None])
        none, flat = np.zeros(len(middle)), np.zeros_like(middle)
        views = [_View(none, flat, -width, width, False)]
        if self.network is None:
            return views
        short = np.minimum(least[:, None], np.maximum(intervals.down(rest), 0.0)[None])
        added = self.network.over(boxes.low, boxes.high, middle, self.output)
        ends = added.low[:, None], added.high[:, None]
        views.append(_View(none, flat, *cut_off(ends, short, width), True))
        known = np.isfinite(added.apart)
        if known.any():
            open_ = np.clip(added.high, -widest, widest) - np.clip(added.low, -widest, widest)
            share = np.where(added.high > added.low, open_ / (added.high - added.low), 1.0)
            share = np.where(np.maximum(added.high, -added.low) <= least, 1.0, np.clip(share, 0.0, 1.0))
            share = np.where(known, share, 0.0)
            within = np.where(known, added.low, 0.0)[:, None], np.where(known, added.high, 0.0)[:, None]
            low, high = less_share(within, short, width, share[:, None])
            apart = np.where(known, added.beside(share), np.inf)[:, None]
            beyond = add_down(low, -apart), add_up(high, apart)
            views.append(_View(share * added.value, share[:, None] * added.slope, *beyond, True))
        return views

    def _seen(
        self,
        boxes: _Boxes,
        middle: Array,
        line: Interval,
        touched: NDArray[np.bool_],
        remainder: Array,
        view: _View,
        found: _Enclosed | None,
    ) -> Interval:
        """(B,) least and greatest of the target less the line, by one view of it."""
        slope = self.slope[boxes.task]
        line = intervals.subtract(line, (view.value, view.value))
        own = intervals.subtract((slope, slope), (view.slope, view.slope))
        least, most = self._by_model(found, middle, line, own)
        sums = self._roundings if view.sums else np.zeros(len(self.leaves))
        off = add_up(remainder, sums)[None]
        far_low = np.where(touched, add_down(view.low, -off), np.inf).min(axis=1)
        far_high = np.where(touched, add_up(view.high, off), -np.inf).max(axis=1)
        low, high = add_down(least, far_low), add_up(most, far_high)
        few = np.flatnonzero(
            (touched.sum(axis=1) <= _FEW_LEAVES) & np.isfinite(far_low) & np.isfinite(far_high)
        )
        if len(few):
            some = _View(view.value[few], view.slope[few], view.low[few], view.high[few], view.sums)
            low[few], high[few] = self._by_leaves(
                boxes.take(few), middle[few], touched[few], some, off, least[few], most[few]
            )
        return low, high

    @cached_property
    def _roundings(self) -> Array:
        """(L,) at least what adding a network's output to A loses, anywhere in the operating box."""
        ends = (np.broadcast_to(end, (len(self.leaves), len(end))) for end in self.claim.box)
        rounding = leaf_rounding(self.claim, self.leaves, *ends)
        return np.where(np.isfinite(rounding), rounding, 0.0)

    def _touched(self, boxes: _Boxes) -> NDArray[np.bool_]:
        """(B, L) leaves of this output that boxes touch."""
        trees = self.claim.trees
        hit = np.ones((len(boxes.task), len(self.leaves)), dtype=bool)
        for d in range(boxes.low.shape[1]):
            hit &= trees.lower[self.leaves, d][None] <= boxes.high[:, d : d + 1]
            hit &= trees.upper[self.leaves, d][None] >= boxes.low[:, d : d + 1]
        return hit

    def _room(self, boxes: _Boxes) -> Interval:
        """(B,) at most and at least what is open of the half-width of this output, anywhere in each box."""
        claim, scale = self.claim, self.claim.cells("scale")
        memories = claim.cells("memories")
        low, high = (
            intervals.down(intervals.down(boxes.low / scale)),
            intervals.up(intervals.up(boxes.high / scale)),
        )
        near, far = np.zeros((len(low), len(memories))), np.zeros((len(low), len(memories)))
        for d in range(low.shape[1]):
            below, above = low[:, d, None] - memories[None, :, d], memories[None, :, d] - high[:, d, None]
            near += np.maximum(np.maximum(below, above), 0.0) ** 2
            far += np.maximum(np.abs(below), np.abs(above)) ** 2
        # Distances are off by some roundings; a cell that is farther than another everywhere is not the
        # nearest.
        candidate = near * (1 - 1e-9) <= far.min(axis=1, keepdims=True) * (1 + 1e-9)
        half_width = claim.bounds("half_width")[None, :, self.output]
        room = np.where(candidate, half_width, 0.0).max(axis=1)
        least = np.where(candidate, half_width, np.inf).min(axis=1)
        pinned = claim.bounds("pinned")
        agreed = np.isfinite(pinned)
        if not agreed.any():
            return least, room
        away = np.maximum(np.abs(boxes.low - pinned), np.abs(boxes.high - pinned))[:, agreed]
        share = np.minimum((away / (scale[agreed] * _PINNED_REACH)).max(axis=1) * (1 + 1e-14), 1.0)
        beside = np.maximum(np.maximum(boxes.low - pinned, pinned - boxes.high), 0.0)[:, agreed]
        inner = np.minimum((beside / (scale[agreed] * _PINNED_REACH)).max(axis=1) * (1 - 1e-14), 1.0)
        return least * inner * inner * (1 - 1e-14), np.minimum(room, room * share * share * (1 + 1e-14))

    def _by_leaves(
        self,
        boxes: _Boxes,
        at: Array,
        touched: NDArray[np.bool_],
        view: _View,
        off: Array,
        least: Array,
        most: Array,
    ) -> Interval:
        """(B,) least and greatest of the target less the line, leaf by leaf."""
        box, place = np.nonzero(touched)
        leaf, some = self.leaves[place], boxes.take(box)
        trees = self.claim.trees
        inner = replace(
            some, low=np.maximum(some.low, trees.lower[leaf]), high=np.minimum(some.high, trees.upper[leaf])
        )
        inner = replace(inner, high=np.maximum(inner.low, inner.high))
        middle = np.clip(0.5 * inner.low + 0.5 * inner.high, inner.low, inner.high)
        own = model_at(self.claim, leaf, middle)
        for d in range(middle.shape[1]):
            along = view.slope[box, d]
            way = intervals.subtract((middle[:, d], middle[:, d].copy()), (at[box, d], at[box, d]))
            own = intervals.add(own, intervals.multiply((along, along), way))
        own = intervals.add(own, (view.value[box], view.value[box]))
        line = self._turned(self._line(inner, middle), own)
        reach = np.maximum(add_up(inner.high, -middle), add_up(middle, -inner.low))
        doubt = leaf_rounding(self.claim, leaf, inner.low, inner.high)
        for number, (one, two) in enumerate(self.claim.pairs):
            bend = multiply_up(np.abs(self.claim.curvature[leaf, number]), reach[:, one])
            doubt = add_up(doubt, multiply_up(bend, reach[:, two]))
        for d, steep in enumerate(slopes_at(self.claim, leaf, middle)):
            stated = self.slope[inner.task, d]
            apart = intervals.subtract(steep, (stated, stated))
            apart = intervals.magnitude(intervals.add(apart, (view.slope[box, d], view.slope[box, d])))
            doubt = add_up(doubt, np.where(reach[:, d] == 0, 0.0, multiply_up(apart, reach[:, d])))
        beyond = view.low[box, place], view.high[box, place]
        low = add_down(add_down(add_down(own[0], -line[1]), -doubt), beyond[0])
        high = add_up(add_up(add_up(own[1], -line[0]), doubt), beyond[1])
        far = off[0][place]
        low, high = self._both(
            (low, high),
            (add_down(add_down(least[box], -far), beyond[0]), add_up(add_up(most[box], far), beyond[1])),
        )
        below, above = np.full(len(touched), np.inf), np.full(len(touched), -np.inf)
        np.minimum.at(below, box, low)
        np.maximum.at(above, box, high)
        return below, above

    def _both(self, one: Interval, other: Interval) -> Interval:
        """What lies in both intervals; anything where nothing does, for then what is stated is false.

        An angle is in each of them up to turns of their own: these are the same where both together reach
        over less than a turn, and otherwise one of the two has to do.
        """
        low, high = np.maximum(one[0], other[0]), np.minimum(one[1], other[1])
        if self.claim.schema.output_angles[self.output]:
            apart = ~(np.maximum(one[1], other[1]) - np.minimum(one[0], other[0]) < LESS_THAN_A_TURN)
            narrower = other[1] - other[0] < one[1] - one[0]
            low = np.where(apart, np.where(narrower, other[0], one[0]), low)
            high = np.where(apart, np.where(narrower, other[1], one[1]), high)
        known = low <= high
        return np.where(known, low, -np.inf), np.where(known, high, np.inf)


def _share(part: Interval, stated: Interval, reach: Array, shells: int = _SHELLS) -> Array:
    """(B,) what one input contributes: its mean deviation over shells, times its reach."""
    below, above = (np.tile(end, shells) for end in stated)
    gap = np.maximum(add_up(part[1], -below), add_up(above, -part[0]))
    mean = np.zeros(len(reach))
    for shell in np.maximum(gap, 0.0).reshape(shells, -1):
        mean = add_up(mean, shell)
    mean = np.where(mean == 0, 0.0, intervals.up(mean / shells))
    return np.where(reach == 0, 0.0, multiply_up(mean, reach))
