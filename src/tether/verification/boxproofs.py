"""Box claims: over every leaf, that M is within the remainder of A, shown by interval arithmetic on M's code.

Along the straight way from any point c of a box to an input s of it, ``M(s) - M(c) - J (s - c)`` is the
integral of the derivative's deviation from J, times ``s - c``. After a share t of the way a point lies in the
box shrunk to t around c. Of n equal parts of the way, part k lies in shell k of n; so the integral is, input
by input, at most the mean of what is enclosed over the shells. With J the slope of A, ``|M - A|`` is at most
that plus ``|M(c) - A(c)|``. M's range over the box less that of A is another bound. A third goes in two
steps: along some inputs, all by which M may jump among them, where its range bounds it, and from there along
the rest, where it cannot jump, by its slopes over the whole box. Some are those by which it may jump; or,
where that is not enough, all but those along which M has A's own slope. The smallest counts.

Where A is of second order with second derivatives H, ``M(s) - A(s)`` is what it is at c, and what the slopes
of M and A at c differ by times ``s - c``, and by Taylor's theorem the integral over the way of ``1 - t``
times the deviation of M's second derivatives from H, times ``s - c`` twice: part k of the way weighs
``(1 - (k - 1/2) / n) / n``. That holds where M's range, slopes and second derivatives are known over the
whole box.

Where that is not enough, shells are made finer, and then boxes are cut in half along the input that
contributes most: what holds over all pieces holds over the leaf. What still cannot be shown is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from tether.foundation.executors import current
from tether.verification import intervals
from tether.verification.claim import HALF_TURN
from tether.verification.curvatures import Pair, enclose_bend
from tether.verification.interpreter import Flow, enclose, exact_values, reason
from tether.verification.intervals import Array, Interval, add_down, add_up, multiply_up
from tether.verification.leafclaims import LeafClaim
from tether.verification.leaves import gap_at, model_at, slopes_at
from tether.verification.roundings import leaf_rounding
from tether.verification.tracing import Program

Index = NDArray[np.int64]
_EFFORTS = (4, 16, 4, 4, 4, 8, 8, 8)
"""Shells tried in turn; from the third time on, what was not shown is cut in half before."""
_WHOLE = 2
_WORTH_EFFORT = 4.0
"""How much more than stated may be needed for more effort to be made."""
_BOXES = 4096
"""Boxes in one go: what fits into a processor's cache."""
_LEAVES = _BOXES // _EFFORTS[0]


def leaf_shortfalls(claim: LeafClaim, program: Program) -> Iterator[tuple[int, str | None]]:
    """How many leaves more were looked at, and what cannot be shown of the first that fails."""
    owner = claim.trees.owner
    for output in range(len(claim.schema.outputs)):
        own, part = np.flatnonzero(owner == output), program.only(output)
        unclaimed = int((~claim.claimed[own]).sum())
        if unclaimed:
            yield unclaimed, None
        own = own[claim.claimed[own]]
        # Those of second order apart, whose proof is another.
        kinds = (own[~claim.curved[own]], own[claim.curved[own]])
        pieces = [kind[start : start + _LEAVES] for kind in kinds for start in range(0, len(kind), _LEAVES)]
        show = partial(_first_shortfall, claim, part, output)
        yield from zip(map(len, pieces), current().map(show, zip(pieces)), strict=True)


def _first_shortfall(claim: LeafClaim, program: Program, output: int, leaves: Index) -> str | None:
    stated = claim.bounds("remainder")
    # No two angles are farther apart, if there are two: M must have a value.
    round_ = bool(claim.schema.output_angles[output])
    boxes = _Boxes(claim, program, output, leaves, claim.trees.lower[leaves], claim.trees.upper[leaves])
    for effort, shells in enumerate(_EFFORTS):
        boxes = boxes.halved() if effort >= _WHOLE else boxes
        needed, off = boxes.needed(shells)
        enough = needed <= stated[boxes.leaf]
        failed = ~(enough | (round_ & np.isfinite(needed) & (stated[boxes.leaf] >= HALF_TURN)))
        if not failed.any():
            return None
        # Where M and A are too far apart at one point, nothing can help; nor at the last.
        with np.errstate(over="ignore"):
            ratio = needed / np.maximum(stated[boxes.leaf], 1e-300)
        hopeless = failed & ((off > stated[boxes.leaf]) | (ratio > _WORTH_EFFORT) & np.isfinite(ratio))
        if effort == len(_EFFORTS) - 1:
            hopeless = failed
        if hopeless.any():
            return boxes.words(int(np.argmax(hopeless)), needed)
        boxes = boxes.take(failed)
    return None


@dataclass(frozen=True, eq=False)
class _Boxes:
    """Boxes that are leaves of one output, or pieces of such.

    Attributes:
        claim: the claim.
        program: of the output alone.
        output: which.
        leaf: (B,) the leaf that each belongs to.
        low: (B, D) its ends.
        high: (B, D).
    """

    claim: LeafClaim
    program: Program
    output: int
    leaf: Index
    low: Array
    high: Array

    def take(self, rows: NDArray[np.bool_] | slice) -> _Boxes:
        """Some of them."""
        own = (self.leaf[rows], self.low[rows], self.high[rows])
        return _Boxes(self.claim, self.program, self.output, *own)

    @property
    def slope(self) -> Array:
        """(B, D) of A."""
        return self.claim.bounds("slope")[self.leaf]

    def needed(self, shells: int) -> tuple[Array, Array]:
        """(B,) a remainder that is enough, NaN where none is known, and how far M is off at one point."""
        parts = [
            self._part(slice(k, k + _BOXES // shells), shells)
            for k in range(0, len(self.leaf), _BOXES // shells)
        ]
        return tuple(np.concatenate(part) for part in zip(*parts, strict=True))  # type: ignore[return-value]

    def _part(self, rows: slice, shells: int) -> tuple[Array, Array]:
        part = self.take(rows)
        point = self.claim.followed_from(part.low, part.high)
        with np.errstate(all="ignore"):
            return part._over_bent(point, shells) if part.bent else part._over(point, shells)

    @property
    def bent(self) -> bool:
        """Whether A is of second order, in all of them or in none."""
        return bool(self.claim.curved[self.leaf[:1]].all())

    def _over_bent(self, point: Array, shells: int) -> tuple[Array, Array]:
        found = enclose_bend(self.program, *self._shells(point, shells))
        whole = slice(len(self.leaf) * (shells - 1), None)
        reach = np.maximum(add_up(self.high, -point), add_up(point, -self.low))
        model = model_at(self.claim, self.leaf, point)
        low, high = exact_values(self.program, point)
        output = np.full(len(point), self.output)
        _, needed = gap_at(self.claim, output, (low[:, 0], high[:, 0]), model)
        steep = enclose(self.program, point, point, slopes=True).slopes[0]
        for column, own in enumerate(slopes_at(self.claim, self.leaf, point)):
            part = steep.get(column, intervals.ZERO)
            gap = np.maximum(add_up(part[1], -own[0]), add_up(own[1], -part[0]))
            tilt = multiply_up(np.maximum(gap, 0.0), reach[:, column])
            needed = add_up(needed, np.where(reach[:, column] == 0, 0.0, tilt))
        for pair, part in self._bends(found.curves, reach, shells).items():
            needed = add_up(needed, part if pair[0] == pair[1] else 2 * part)
        needed = add_up(needed, np.broadcast_to(found.flow.error, len(point) * shells)[whole])
        needed = np.where(self._is_smooth(found.flow, reach, shells), needed, np.nan)
        rounding = leaf_rounding(self.claim, self.leaf, self.low, self.high)
        return add_up(needed, rounding), self._least(low[:, 0], high[:, 0], model)

    def _bends(self, curves: dict[Pair, Interval], reach: Array, shells: int) -> dict[Pair, Array]:
        """(B,) by pairs of inputs, at most what the deviation of second derivatives makes of the way."""
        stated = {pair: self.claim.curvature[self.leaf, k] for k, pair in enumerate(self.claim.pairs)}
        nothing = np.zeros(len(self.leaf))
        found = {}
        for pair in curves.keys() | stated.keys():
            one, two = pair
            # A square stands for half of the second derivative: twice that is exact.
            own = np.tile(stated.get(pair, nothing) * (2.0 if one == two else 1.0), shells)
            part = curves.get(pair, intervals.ZERO)
            away = np.maximum(np.maximum(add_up(part[1], -own), add_up(own, -part[0])), 0.0)
            total = nothing
            for k, shell in enumerate(away.reshape(shells, -1)):
                # Shells are a power of two: the weight is exact.
                total = add_up(total, multiply_up(shell, (1 - (k + 0.5) / shells) / shells))
            grown = multiply_up(multiply_up(total, reach[:, one]), reach[:, two])
            found[pair] = np.where((reach[:, one] == 0) | (reach[:, two] == 0), 0.0, grown)
        return found

    def _is_smooth(self, flow: Flow, reach: Array, shells: int) -> NDArray[np.bool_]:
        """(B,) whether M's range is known over the whole box, and its slopes along what has a width."""
        count = len(self.leaf)
        last = slice(count * (shells - 1), None)

        def known(part: Interval) -> NDArray[np.bool_]:
            ends = (np.broadcast_to(end, count * shells)[last] for end in part)
            return np.logical_and.reduce([np.isfinite(end) for end in ends])

        smooth = known(flow.range)
        for column, part in flow.slopes.items():
            smooth = smooth & (known(part) | (reach[:, column] == 0))
        return smooth

    def _over(self, point: Array, shells: int) -> tuple[Array, Array]:
        below, above = self._shells(point, shells)
        found = enclose(self.program, below, above, slopes=True)
        whole = slice(len(self.leaf) * (shells - 1), None)
        model = model_at(self.claim, self.leaf, point)
        low, high = exact_values(self.program, point)
        output = np.full(len(point), self.output)
        turns, gap = gap_at(self.claim, output, (low[:, 0], high[:, 0]), model)
        reach = np.maximum(add_up(self.high, -point), add_up(point, -self.low))
        change = self._change(found.slopes[0], reach, shells)
        by_slope = add_up(add_up(gap, change), found.error[0, whole])
        # M's range holds what float64 makes of M.
        seen = intervals.add((found.lower[0, whole], found.upper[0, whole]), turns)
        spread = np.zeros(len(gap))
        for column in range(reach.shape[1]):
            spread = add_up(spread, multiply_up(np.abs(self.slope[:, column]), reach[:, column]))
        ends = add_down(model[0], -spread), add_up(model[1], spread)
        by_range = np.maximum(add_up(seen[1], -ends[0]), add_up(ends[1], -seen[0]))
        # Nothing is known of M where its range is not.
        by_slope = np.where(np.isfinite(by_range), by_slope, np.nan)
        over = {
            k: (part[0] + np.zeros(len(below)), part[1] + np.zeros(len(below)))
            for k, part in found.slopes[0].items()
        }
        over = {k: (part[0][whole], part[1][whole]) for k, part in over.items()}
        rounding = leaf_rounding(self.claim, self.leaf, self.low, self.high)
        needed = np.fmin(by_slope, by_range)
        lost, still = self._lost_or_still(over, reach)
        short = ~(add_up(needed, rounding) <= self.claim.bounds("remainder")[self.leaf])
        for first in (lost, ~still & short[:, None]):
            in_steps = self._in_steps(point, model, turns, over, reach, first & (reach > 0))
            in_steps = np.where(np.isfinite(by_range), add_up(in_steps, found.error[0, whole]), np.nan)
            needed = np.fmin(needed, in_steps)
        needed = add_up(needed, rounding)
        # Where slopes are not known its range says little of a box, and may say more of its halves.
        stated = self.claim.bounds("remainder")[self.leaf]
        unknown = np.isnan(by_slope) & ~(needed <= stated)
        if self.claim.schema.output_angles[self.output]:  # nothing is farther than half a turn
            unknown &= stated < HALF_TURN
        return np.where(unknown, np.nan, needed), self._least(low[:, 0], high[:, 0], model)

    def _lost_or_still(
        self, slopes: dict[int, Interval], reach: Array
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """(B, D) the inputs along which slopes are not known, and those along which they are A's own."""
        lost, still = np.zeros(reach.shape, dtype=bool), np.zeros(reach.shape, dtype=bool)
        for column in range(reach.shape[1]):
            part = slopes.get(column, (np.zeros(len(reach)), np.zeros(len(reach))))
            lost[:, column] = np.isnan(part[0]) | np.isnan(part[1])
            own = self.slope[:, column]
            still[:, column] = (part[0] == own) & (part[1] == own)
        return lost, still

    def _in_steps(
        self,
        point: Array,
        model: Interval,
        turns: Interval,
        slopes: dict[int, Interval],
        reach: Array,
        first: NDArray[np.bool_],
    ) -> Array:
        """(B,) the third bound but for rounding, by slopes over the whole boxes; NaN where there is none.

        First along some inputs (B, D), all by which M may jump among them: else slopes are not known of the
        rest, and nothing is found.
        """
        needed = np.full(len(reach), np.nan)
        rows = np.flatnonzero(first.any(axis=1) & (~first & (reach > 0)).any(axis=1))
        if not len(rows):
            return needed
        low, high = (np.where(first, end, point)[rows] for end in (self.low, self.high))
        found = enclose(self.program, low, high, slopes=False)
        turns = turns[0][rows], turns[1][rows]
        seen = intervals.add((found.lower[0], found.upper[0]), turns)
        jumping, moved = np.zeros(len(rows)), np.zeros(len(rows))
        for column in range(reach.shape[1]):
            stated, along = self.slope[rows, column], reach[rows, column]
            part = slopes.get(column, (np.zeros(len(reach)), np.zeros(len(reach))))
            gap = np.maximum(add_up(part[1][rows], -stated), add_up(stated, -part[0][rows]))
            by_jump = multiply_up(np.abs(stated), along)
            by_move = np.where(along == 0, 0.0, multiply_up(np.maximum(gap, 0.0), along))
            held = first[rows, column]
            jumping = add_up(jumping, np.where(held, by_jump, 0.0))
            moved = add_up(moved, np.where(held, 0.0, by_move))
        ends = add_down(model[0][rows], -jumping), add_up(model[1][rows], jumping)
        apart = np.maximum(add_up(seen[1], -ends[0]), add_up(ends[1], -seen[0]))
        needed[rows] = add_up(apart, moved)
        return needed

    def _shells(self, point: Array, shells: int) -> tuple[Array, Array]:
        """(shells B, D) the boxes shrunk around their points, outward; the whole ones last."""
        reach = add_up(point, -self.low), add_up(self.high, -point)
        below, above = [], []
        for share in np.arange(1, shells) / shells:
            below.append(np.maximum(add_down(point, -multiply_up(reach[0], share)), self.low))
            above.append(np.minimum(add_up(point, multiply_up(reach[1], share)), self.high))
        return np.concatenate([*below, self.low]), np.concatenate([*above, self.high])

    def _change(self, slopes: dict[int, Interval], reach: Array, shells: int) -> Array:
        """(B,) at most what the derivative's deviation from A's slope makes of the way from the point."""
        total = np.zeros(len(reach))
        for column in range(reach.shape[1]):
            total = add_up(total, self._share(slopes, reach, shells, column))
        return total

    def _share(self, slopes: dict[int, Interval], reach: Array, shells: int, column: int) -> Array:
        """(B,) what one input contributes: its mean deviation over the shells times its reach."""
        part = slopes.get(column, intervals.ZERO)
        stated = np.tile(self.slope[:, column], shells)
        gap = np.maximum(add_up(part[1], -stated), add_up(stated, -part[0]))
        mean = np.zeros(len(reach))
        for shell in np.maximum(gap, 0.0).reshape(shells, -1):
            mean = add_up(mean, shell)
        # The number of shells is a power of two: an exact share, but for what underflows.
        mean = np.where(mean == 0, 0.0, intervals.up(mean / shells))
        thin = reach[:, column] == 0
        return np.where(thin, 0.0, multiply_up(mean, reach[:, column]))

    def _least(self, low: Array, high: Array, model: Interval) -> Array:
        """(B,) at least how far M is from A at the points; 0 on the circle, where turns may help."""
        if self.claim.schema.output_angles[self.output]:
            return np.zeros(len(low))
        apart = np.maximum(add_down(low, -model[1]), add_down(model[0], -high))
        return np.where(np.isnan(apart), 0.0, apart)

    def halved(self) -> _Boxes:
        """Every box in two, along the input that contributes most."""
        with np.errstate(all="ignore"):
            shares = self._shares()
        column, rows = np.argmax(shares, axis=1), np.arange(len(self.leaf))
        middle = 0.5 * self.low[rows, column] + 0.5 * self.high[rows, column]
        middle = np.clip(middle, self.low[rows, column], self.high[rows, column])
        low, high = self.low.copy(), self.high.copy()
        high[rows, column] = low[rows, column] = middle
        ends = np.concatenate([self.low, low]), np.concatenate([high, self.high])
        return _Boxes(self.claim, self.program, self.output, np.tile(self.leaf, 2), *ends)

    def _shares(self) -> Array:
        """(B, D) what each input contributes; where nothing is known, by its width in the box."""
        reach = 0.5 * self.high - 0.5 * self.low
        shares = self._bent_shares(reach) if self.bent else self._straight_shares(reach)
        extent = self.claim.box[1] - self.claim.box[0]
        width = (self.high - self.low) / np.where(extent > 0, extent, 1.0)
        inputs = [node.data for node in self.program.nodes if node.operation == "input"]
        used = np.isin(np.arange(reach.shape[1]), inputs)
        known = np.isfinite(shares).all(axis=1, keepdims=True)
        return np.where(used, np.where(known, shares, width), -1.0)

    def _straight_shares(self, reach: Array) -> Array:
        slopes = enclose(self.program, self.low, self.high, slopes=True).slopes[0]
        return np.stack([self._share(slopes, reach, 1, d) for d in range(reach.shape[1])], axis=1)

    def _bent_shares(self, reach: Array) -> Array:
        shares = np.zeros_like(reach)
        for (one, two), part in self._bends(
            enclose_bend(self.program, self.low, self.high).curves, reach, 1
        ).items():
            shares[:, one] += part
            shares[:, two] += part
        return shares

    def words(self, row: int, needed: Array) -> str:
        """Why a box is not shown."""
        leaf, name = int(self.leaf[row]), self.claim.output(self.output)
        have = self.claim.bounds("remainder")[leaf]
        if not np.isnan(needed[row]):
            return f"leaf {leaf}: {name}: the remainder is {have:.6g}, not the {needed[row]:.6g} needed"
        why = reason(self.program, self.low[row : row + 1], self.high[row : row + 1])
        why = "second derivatives without a bound" if self.bent and why == "no bound" else why
        return f"leaf {leaf}: {name}: the trusted model has {why}"
