"""How far a model may be from a first-order model over pieces of a set, whatever its weights.

Over a leaf an affine tether keeps its outputs within the open part of a half-width of A, the leaf's own first-order
model: that alone bounds them, whatever M is. Where M is proved, they are within delta of M besides. Over each leaf
that a piece touches the smaller of the two counts, and of all leaves the largest.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tether.claims.tubes.expansion import Away, Lines, Over
from tether.claims.tubes.pieces import TURN, Pieces
from tether.claims.tubes.zonotopes import EPS
from tether.data import Array, Schema
from tether.foundation.kernels import compiled
from tether.model import Model
from tether.tethers.affine import AffineTether
from tether.tethers.affinebounds import AffineBounds
from tether.tethers.direct import DirectTether


_MANY_LEAVES = 32
"""A piece that touches more of them is bounded by its distance to M alone, if that is known."""


@dataclass(frozen=True, eq=False)
class Reach:
    """What is known of a model's outputs over the pieces of N rows.

    Attributes:
        low: (C, N, P) at most the target less each candidate line; infinite where not known.
        high: (C, N, P) at least that.
        delta: (N, P) the largest distance to M over what the pieces touch.
        unknown: (N,) whether they touch inputs of which nothing is claimed.
    """

    low: Array
    high: Array
    delta: Array
    unknown: NDArray[np.bool_]


class TubeLimits(ABC):
    """What a tether says of sets of inputs.

    Attributes:
        proved: whether M's program may be used: the distance to M is proved.
        target: whether next states or increments are bounded.
    """

    proved: bool
    target: str

    @property
    @abstractmethod
    def box(self) -> tuple[Array, Array]:
        """(D,) the operating box."""

    @property
    @abstractmethod
    def largest(self) -> Array:
        """(P,) at least the magnitude of what a prediction of an angle can be."""

    def lines(self, pieces: Pieces) -> Lines | None:
        """A candidate of its own for each row."""
        del pieces
        return None

    @abstractmethod
    def reach(self, lines: Lines, pieces: Pieces, over: Over, away: Away | None) -> Reach:
        """Where the model can be beside lines.

        Args:
            lines: C candidates for each of N rows.
            pieces: Q of them.
            over: the lines at the middles of pieces.
            away: M beside the lines; None where M is not to be used.
        """


def limits_of(model: Model) -> TubeLimits:
    """What a model's tether says of sets."""
    tether = model.tether
    if isinstance(tether, AffineTether):
        return LeafLimits(model)
    if isinstance(tether, DirectTether) and tether.holds:
        return EvenLimits(tether.half_width.cpu().numpy(), model.schema, model.frame.target)
    raise TypeError(
        "`model` must have an affine tether, the default, or a direct one with a finite half-width; got "
        f"'{tether.kind}'. Tubes of others are not known."
    )


@dataclass(frozen=True, eq=False)
class EvenLimits(TubeLimits):
    """Outputs within one half-width of M, at every input; 0: M itself.

    Attributes:
        half_width: (P,).
        schema: what the columns mean.
        target: whether next states or increments are bounded.
        lower: (D,) a box to stay in; by default any.
        upper: (D,).
    """

    half_width: Array
    schema: Schema
    target: str = "next_state"
    lower: Array | None = None
    upper: Array | None = None
    proved = True

    @property
    def box(self) -> tuple[Array, Array]:
        """No limits."""
        none = np.full(len(self.schema.inputs), np.inf)
        return -none if self.lower is None else self.lower, none if self.upper is None else self.upper

    @property
    def largest(self) -> Array:
        """An angle is near the one it follows."""
        return 2 * TURN + self.half_width

    def reach(self, lines: Lines, pieces: Pieces, over: Over, away: Away | None) -> Reach:
        """M's own distance, and the half-width."""
        assert away is not None
        size = np.abs(over[0]).max(axis=0) + 2 * TURN + np.abs(pieces.middle).max(axis=1, keepdims=True)
        delta = self.half_width * (1 + 4 * EPS) + 16 * EPS * size
        rows = pieces.first
        low = np.minimum.reduceat(_outward(away.low - delta, -1), rows, axis=1)
        high = np.maximum.reduceat(_outward(away.high + delta, 1), rows, axis=1)
        most = np.maximum.reduceat(delta, rows, axis=0)
        return Reach(low, high, most, np.zeros(len(rows), dtype=bool))


class LeafLimits(TubeLimits):
    """An affine tether over the leaves that pieces touch."""

    def __init__(self, model: Model) -> None:
        tether = model.tether
        assert isinstance(tether, AffineTether)
        bounds: AffineBounds = tether.bounds
        self.bounds, self.cells, self.schema = bounds, model.cells, model.schema
        self.target = model.frame.target
        self.proved = bounds.evidence.name == "proved"
        rate = tether.pinned_rate.cpu().numpy()
        self.pinned, self.rate = np.where(rate > 0, tether.pinned.cpu().numpy(), 0.0), rate
        left = tether.left.cpu().numpy()
        numbers = (bounds.value, bounds.slope, bounds.reference, bounds.remainder, left)
        self._leaves = (*numbers, bounds.rounding(model.schema))
        tree, count = bounds.tree, len(bounds.tree.cut)
        self._below = (
            *(np.empty((count, len(tree.lower))) for _ in range(2)),
            *(np.zeros(count) for _ in range(2)),
            np.zeros(count, dtype=np.int64),
            np.zeros(count, dtype=np.bool_),
            np.zeros((count, len(tree.lower)), dtype=np.bool_),
        )
        _gather(*tree.nodes, tree.lower, tree.upper, bounds.remainder, left, *self._below)

    @property
    def box(self) -> tuple[Array, Array]:
        """That of the trees."""
        return self.bounds.tree.lower, self.bounds.tree.upper

    @cached_property
    def largest(self) -> Array:  # type: ignore[override]
        """The state, and the largest of what is added to it anywhere."""
        bounds, tree = self.bounds, self.bounds.tree
        reach = np.maximum(np.abs(tree.lower - bounds.reference), np.abs(tree.upper - bounds.reference))
        size = np.abs(bounds.value) + np.abs(bounds.slope) @ reach
        most = np.zeros(len(bounds.most))
        known = np.isfinite(bounds.remainder)
        np.maximum.at(most, bounds.output[known], size[known])
        return (most + bounds.room + TURN) * (1 + 1e-9)

    def lines(self, pieces: Pieces) -> Lines:
        """A of the leaves that the rows' centres lie in."""
        middle, bounds = pieces.middle[pieces.first], self.bounds
        leaf = bounds.tree.find(middle)
        slope = bounds.slope[leaf]
        value = bounds.value[leaf] + np.einsum("npd,nd->np", slope, middle - bounds.reference)
        return Lines(value[None], slope[None])

    def reach(self, lines: Lines, pieces: Pieces, over: Over, away: Away | None) -> Reach:
        """Over all leaves touched."""
        tree, rows = self.bounds.tree, len(pieces.first)
        shape = (len(over[0]), rows, len(self.bounds.most))
        low, high = np.full(shape, np.inf), np.full(shape, -np.inf)
        delta, unknown = np.zeros(shape[1:]), np.zeros(rows, dtype=np.bool_)
        none = np.full_like(over[0], np.inf)
        ends = (-none, none) if away is None else (away.low, away.high)
        _over_leaves(
            pieces.row, pieces.lower, pieces.upper, pieces.middle, *over, *ends, lines.slope,
            self.room(pieces), away is not None, *tree.nodes, *self._below, *self._leaves,
            self.bounds.most, self.schema.output_angles, low, high, delta, unknown,
        )  # fmt: skip
        return Reach(low, high, delta, unknown)

    def room(self, pieces: Pieces) -> Array:
        """(Q, P) at least what is open of the half-width anywhere in each piece."""
        room = np.zeros((len(pieces.row), len(self.bounds.most)))
        scale = self.cells.scale
        below, above = (_outward(end / scale, side) for end, side in ((pieces.lower, -1), (pieces.upper, 1)))
        _widest(below, above, self.cells.memories, self.bounds.half_width, room)
        if not (self.rate > 0).any():
            return room
        away = np.maximum(np.abs(pieces.lower - self.pinned), np.abs(pieces.upper - self.pinned)) * self.rate
        share = np.minimum(away.max(axis=1) * (1 + 8 * EPS), 1.0)
        return room * np.minimum(share * share * (1 + 8 * EPS), 1.0)[:, None] * (1 + 8 * EPS)


def _outward(values: Array, side: int) -> Array:
    return values + side * 4 * EPS * np.abs(values)


@compiled
def _widest(lower, upper, memories, half_width, room):
    """Fills `room` (Q, P) with the largest half-width of the cells that boxes (Q, D) may touch.

    A cell can answer for a point of a box only if the nearest that its memory comes to the box is not farther
    than the farthest that some other's is from it. All in scaled inputs.
    """
    count, inputs = memories.shape
    nearest = np.empty(count)
    for piece in range(len(lower)):
        best = np.inf
        for k in range(count):
            near, far = 0.0, 0.0
            for d in range(inputs):
                below, above = lower[piece, d] - memories[k, d], memories[k, d] - upper[piece, d]
                out = max(max(below, above), 0.0)
                # From a memory to the far end: the larger of both ways.
                whole = max(abs(below), abs(above))
                near += out * out
                far += whole * whole
            nearest[k] = near
            best = min(best, far)
        for k in range(count):
            if nearest[k] <= best * (1.0 + 1e-9):
                for output in range(half_width.shape[1]):
                    room[piece, output] = max(room[piece, output], half_width[k, output])


@compiled
def _gather(
    roots, cut, threshold, left_node, right_node, lower, upper, remainder, left,
    node_lower, node_upper, node_remainder, node_left, node_count, node_unknown, node_cuts,
):  # fmt: skip
    """Fills, for every node, its box, and of the leaves below it the largest remainder and room, the number,
    whether something is not known of one, and along which inputs they are cut."""
    order = np.empty(len(cut), np.int64)
    found = 0
    for root in roots:
        order[found] = root
        found += 1
        node_lower[root], node_upper[root] = lower, upper
    done = 0
    while done < found:
        node = order[done]
        done += 1
        if cut[node] >= 0:
            for child in (left_node[node], right_node[node]):
                node_lower[child], node_upper[child] = node_lower[node], node_upper[node]
                order[found] = child
                found += 1
            node_upper[left_node[node], cut[node]] = threshold[node]
            node_lower[right_node[node], cut[node]] = threshold[node]
    for k in range(found - 1, -1, -1):
        node = order[k]
        if cut[node] < 0:
            leaf = left_node[node]
            node_count[node], node_unknown[node] = 1, not remainder[leaf] < np.inf
            node_remainder[node] = remainder[leaf] if remainder[leaf] < np.inf else 0.0
            node_left[node] = left[leaf]
            continue
        one, two = left_node[node], right_node[node]
        node_cuts[node] = node_cuts[one] | node_cuts[two]
        node_cuts[node, cut[node]] = True
        node_count[node] = node_count[one] + node_count[two]
        node_unknown[node] = node_unknown[one] or node_unknown[two]
        node_remainder[node] = max(node_remainder[one], node_remainder[two])
        node_left[node] = max(node_left[one], node_left[two])


@compiled
def _over_leaves(
    row, lower, upper, middle, values, errors, away_low, away_high, slopes, room, proved,
    roots, cut, threshold, left_node, right_node,
    node_lower, node_upper, node_remainder, node_left, node_count, node_unknown, node_cuts,
    value, slope, reference, remainder, left, rounding, most, turning,
    least, greatest, delta, unknown,
):  # fmt: skip
    """Fills `least`, `greatest` (C, N, P), `delta` (N, P) and `unknown` (N,) from all leaves that pieces (Q, D) touch.

    What holds of all leaves below a node holds of those that a piece touches. So nodes inside a piece are not
    gone below to find the largest delta; and where a piece touches very many leaves, that delta from M is used
    alone, which then is next to nothing beside what M itself does over the piece.
    """
    inputs, candidates = lower.shape[1], values.shape[0]
    unit = 2.0**-52
    units = (4 * inputs + 32) * unit
    waiting, touched = np.empty(len(cut), np.int64), np.empty(len(value), np.int64)
    center, reach = np.empty(inputs), np.empty(inputs)
    turn = 2 * np.pi
    for piece in range(len(row)):
        n = row[piece]
        for p in range(len(roots)):
            waiting[0] = roots[p]
            depth, count, farthest = 1, 0, 0.0
            while depth > 0:
                depth -= 1
                node = waiting[depth]
                whole = cut[node] < 0
                if not whole and (proved and count + node_count[node] > _MANY_LEAVES):
                    whole = True
                    for d in range(inputs):
                        beyond = node_lower[node, d] < lower[piece, d] or node_upper[node, d] > upper[piece, d]
                        if node_cuts[node, d] and beyond:
                            whole = False
                            break
                if whole:
                    unknown[n] = unknown[n] or node_unknown[node]
                    width = min(room[piece, p], node_left[node] * (1.0 + 4.0 * unit))
                    far = node_remainder[node] + width
                    # No row of a leaf has a delta above the one asked for, but by a remainder that has.
                    far = min(far, max(most[p], node_remainder[node]) * (1.0 + 4.0 * unit))
                    farthest = max(farthest, far * (1.0 + 4.0 * unit))
                    if cut[node] < 0:
                        touched[count] = node
                    count += node_count[node]
                    continue
                if upper[piece, cut[node]] >= threshold[node]:
                    waiting[depth] = right_node[node]
                    depth += 1
                if lower[piece, cut[node]] < threshold[node]:
                    waiting[depth] = left_node[node]
                    depth += 1
            delta[n, p] = max(delta[n, p], farthest)
            if proved and count > _MANY_LEAVES:
                for c in range(candidates):
                    low, high = away_low[c, piece, p] - farthest, away_high[c, piece, p] + farthest
                    least[c, n, p] = min(least[c, n, p], low - 4.0 * unit * abs(low))
                    greatest[c, n, p] = max(greatest[c, n, p], high + 4.0 * unit * abs(high))
                continue
            for k in range(count):
                home, leaf = touched[k], left_node[touched[k]]
                if not remainder[leaf] < np.inf:
                    continue
                width = min(room[piece, p], left[leaf] * (1.0 + 4.0 * unit))
                far = (remainder[leaf] + width) * (1.0 + 4.0 * unit)
                # A at the middle of what the piece and the leaf share.
                own, size = value[leaf], abs(value[leaf])
                for d in range(inputs):
                    low = max(lower[piece, d], node_lower[home, d])
                    high = max(min(upper[piece, d], node_upper[home, d]), low)
                    center[d] = min(max(0.5 * low + 0.5 * high, low), high)
                    reach[d] = max(high - center[d], center[d] - low)
                    own += slope[leaf, d] * (center[d] - reference[d])
                    size += abs(slope[leaf, d]) * abs(center[d] - reference[d])
                for c in range(candidates):
                    line, sizes, spread = values[c, piece, p], size + abs(values[c, piece, p]), 0.0
                    for d in range(inputs):
                        along = slopes[c, n, p, d]
                        line += along * (center[d] - middle[piece, d])
                        sizes += abs(along) * abs(center[d] - middle[piece, d])
                        spread += abs(slope[leaf, d] - along) * reach[d]
                    gap = own - line
                    if turning[p]:
                        count_ = np.round(gap / turn)
                        gap -= count_ * turn
                        sizes += turn * abs(count_)
                    doubt = spread * (1.0 + units) + units * (sizes + abs(gap)) + rounding[leaf]
                    doubt += errors[c, piece, p] + width
                    low = max(gap - doubt, away_low[c, piece, p] - far)
                    high = min(gap + doubt, away_high[c, piece, p] + far)
                    slack = 8.0 * unit * (abs(gap) + doubt + far) + 1e-320
                    least[c, n, p] = min(least[c, n, p], low - slack)
                    greatest[c, n, p] = max(greatest[c, n, p], high + slack)
