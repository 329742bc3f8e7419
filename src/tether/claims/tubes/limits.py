"""How far a model may be from a first-order model over pieces of a set, whatever its weights.

Over a leaf an affine tether keeps its outputs within the open part of a half-width of A, the leaf's own
first-order model: that alone bounds them, whatever M is. Where M is proved, they are within delta of M
besides. Over each leaf that a piece touches the smaller of the two counts, and of all leaves the largest.
Of the weights at hand it is known besides what the network adds to A (see :mod:`.network`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether.claims.tubes.expansion import Away, Lines, Over
from tether.claims.tubes.kernels import gather, over_leaves, widths
from tether.claims.tubes.network import Correction, Weights
from tether.claims.tubes.pieces import TURN, Pieces
from tether.claims.tubes.zonotopes import EPS
from tether.data import Array, Schema, Target
from tether.model import Model
from tether.tethers.affine import AffineTether
from tether.tethers.affinebounds import AffineBounds
from tether.tethers.direct import DirectTether
from tether.trusted import TrustedModel

_RECOGNISED = 2000
"""At most so many leaves, from all over the box, at whose middles M is recognised."""


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


@dataclass(frozen=True, eq=False)
class Added:
    """What a network at hand adds over Q pieces, and the share of it that a line is to follow.

    Attributes:
        correction: what it adds before it is cut off.
        share: (Q, P) less than 1 where it may be cut off.
    """

    correction: Correction
    share: Array

    @property
    def line(self) -> tuple[Array, Array]:
        """(Q, P) value at the middles and (Q, P, D) slope of that share."""
        return self.share * self.correction.value, self.share[:, :, None] * self.correction.slope

    @property
    def apart(self) -> Array:
        """(Q, P) how far that share may be from its line, as this is rounded."""
        own = self.correction
        rounded = 8 * EPS * (np.abs(own.value) + own.spread + np.where(self.share > 0, own.apart, 0.0))
        return np.where(self.share > 0, self.share * own.apart + rounded, 0.0) * (1 + 4 * EPS)

    def taken_off(self, slope: Array, over: Over, reach: Array) -> tuple[Array, Over]:
        """Lines (C, Q, P) less this one, over pieces that reach (Q, D) from their middles."""
        value, own = self.line
        rest, moved = slope - own, over[0] - value
        size = np.abs(over[0]) + np.abs(value) + np.einsum("cqpd,qd->cqp", np.abs(slope) + np.abs(own), reach)
        return rest, (moved, over[1] + (reach.shape[1] + 8) * EPS * size)


class TubeLimits(ABC):
    """What a tether says of sets of inputs.

    Attributes:
        proved: whether M's program may be used: the distance to M is proved.
        target: whether next states or increments are bounded.
    """

    proved: bool
    target: str
    weights: str | None = None
    """The digest of the only weights that it speaks of; None: of any."""

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

    def added(self, pieces: Pieces) -> Added | None:
        """What the network at hand adds; None where weights do not matter."""
        del pieces
        return None

    @abstractmethod
    def reach(
        self,
        lines: Lines,
        pieces: Pieces,
        over: Over,
        away: Away | None,
        added: Added | None = None,
        near: Away | None = None,
    ) -> Reach:
        """Where the model can be beside lines.

        Args:
            lines: C candidates for each of N rows.
            pieces: Q of them.
            over: the lines at the middles of pieces.
            away: M beside the lines; None where M is not to be used.
            added: what the network at hand adds.
            near: M beside the lines less that.
        """


def limits_of(model: Model, *, own_weights: bool = False) -> TubeLimits:
    """What a model's tether says of sets, whatever the weights; or for those at hand alone."""
    tether = model.tether
    if own_weights and not tether.over_boxes:
        raise TypeError(
            "`model` must have an affine tether, the default, for a tube of its own weights; got "
            f"'{tether.kind}'."
        )
    if tether.kind not in _BY_KIND or not tether.holds:
        raise TypeError(
            "`model` must have an affine tether, the default, or a direct one with a finite half-width; got "
            f"'{tether.kind}'. Tubes of others are not known."
        )
    return _BY_KIND[tether.kind](model, Weights(model) if own_weights else None)


def check_trusted(model: Model, trusted: TrustedModel) -> None:
    """Raises where M answers otherwise than the model's: what is around that holds no rollout.

    A direct model asks an M of its own; what is proved of an affine one is a distance to M over its leaves.
    """
    schema, frame = model.schema, model.frame
    tether: Any = model.tether
    if tether.kind == DirectTether.kind:
        (asked, answers), (own, before) = (
            one.where_it_answers(tether.places(frame), schema) for one in (trusted, tether.trusted)
        )
        same = np.array_equal(asked, own) and np.array_equal(answers, before)
    elif tether.over_boxes and tether.bounds.evidence.encloses:
        same = _is_near(tether.bounds, trusted, schema, frame.target)
    else:
        return
    if not same:
        raise ValueError("`trusted` must be the trusted model that the model was fitted to; got another.")


def _is_near(bounds: AffineBounds, trusted: TrustedModel, schema: Schema, target: Target) -> bool:
    """Whether M is within the remainder of leaves at their middles, but for roundings."""
    lower, upper = (end[:: -(-len(end) // _RECOGNISED)] for end in bounds.tree.boxes())
    middles = np.clip(0.5 * lower + 0.5 * upper, lower, upper)
    middles = middles[bounds.known(middles)]
    own, answers = bounds.evaluate(middles), trusted.target(middles, schema, target)
    gap = np.abs(own - answers)
    gap = np.where(schema.output_angles, np.abs(gap - TURN * np.round(gap / TURN)), gap)
    size = np.abs(own) + np.abs(answers) + TURN * schema.output_angles + np.abs(schema.base(middles))
    return bool((gap <= bounds.remainder[bounds.tree.find(middles)] + 1e-12 * size).all())


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

    def reach(
        self,
        lines: Lines,
        pieces: Pieces,
        over: Over,
        away: Away | None,
        added: Added | None = None,
        near: Away | None = None,
    ) -> Reach:
        """M's own distance, and the half-width."""
        del lines, added, near
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

    def __init__(self, model: Model, network: Weights | None = None) -> None:
        tether: Any = model.tether
        self.network, self.weights = network, None if network is None else network.digest
        bounds: AffineBounds = tether.bounds
        self.bounds, self.cells, self.schema = bounds, model.cells, model.schema
        self.target = model.frame.target
        self.proved = bounds.evidence.encloses
        rate = tether.pinned_rate.cpu().numpy()
        self.pinned, self.rate = np.where(rate > 0, tether.pinned.cpu().numpy(), 0.0), rate
        left = tether.left.cpu().numpy()
        numbers = (bounds.value, bounds.slope, bounds.reference, bounds.remainder, left)
        rounding = bounds.rounding(model.schema)
        curved = (bounds.bends, bounds.pairs, bounds.centre if bounds.order > 1 else np.zeros((0, len(rate))))
        self._leaves, self._coarse = (*numbers, rounding, *curved), np.zeros(len(bounds.most))
        np.maximum.at(self._coarse, bounds.output, rounding)
        tree, count = bounds.tree, len(bounds.tree.cut)
        self._below = (
            *(np.empty((count, len(tree.lower))) for _ in range(2)),
            *(np.zeros(count) for _ in range(3)),
            np.zeros(count, dtype=np.int64),
            np.zeros(count, dtype=np.bool_),
            np.zeros((count, len(tree.lower)), dtype=np.bool_),
        )
        gather(*tree.nodes, tree.lower, tree.upper, bounds.remainder, left, *self._below)

    @property
    def box(self) -> tuple[Array, Array]:
        """That of the trees."""
        return self.bounds.tree.lower, self.bounds.tree.upper

    @cached_property
    def largest(self) -> Array:  # type: ignore[override]
        """The state, and the largest of what is added to it anywhere."""
        bounds, tree = self.bounds, self.bounds.tree
        reach = np.maximum(np.abs(tree.lower - bounds.reference), np.abs(tree.upper - bounds.reference))
        size = np.abs(bounds.value) + np.abs(bounds.slope) @ reach + bounds.swing
        most = np.zeros(len(bounds.most))
        known = np.isfinite(bounds.remainder)
        np.maximum.at(most, bounds.output[known], size[known])
        return (most + bounds.room + TURN) * (1 + 1e-9)

    def lines(self, pieces: Pieces) -> Lines:
        """A of the leaves that the rows' centres lie in."""
        middle, bounds = pieces.middle[pieces.first], self.bounds
        return Lines(bounds.evaluate(middle)[None], bounds.steepness(middle)[None])

    def added(self, pieces: Pieces) -> Added | None:
        """The share is that of the whole way from end to end which is left where it is cut off."""
        if self.network is None:
            return None
        correction = self.network.over(pieces)
        short, room = self.room(pieces)
        low, high = correction.ends
        with np.errstate(invalid="ignore"):
            left = np.clip(high, -room, room) - np.clip(low, -room, room)
            share = np.where(high > low, left / (high - low), 1.0)
        share = np.where((high <= short) & (low >= -short), 1.0, np.clip(share, 0.0, 1.0))
        return Added(correction, np.where(np.isfinite(correction.apart) & np.isfinite(share), share, 0.0))

    def reach(
        self,
        lines: Lines,
        pieces: Pieces,
        over: Over,
        away: Away | None,
        added: Added | None = None,
        near: Away | None = None,
    ) -> Reach:
        """Over all leaves touched."""
        tree, rows = self.bounds.tree, len(pieces.first)
        shape = (len(over[0]), rows, len(self.bounds.most))
        low, high = np.full(shape, np.inf), np.full(shape, -np.inf)
        delta, unknown = np.zeros(shape[1:]), np.zeros(rows, dtype=np.bool_)
        none = np.full_like(over[0], np.inf)
        ends = (-none, none) if away is None else (away.low, away.high)
        over_leaves(
            *map(np.ascontiguousarray, (
                pieces.row, pieces.lower, pieces.upper, pieces.middle, *over, *ends, lines.slope,
                *self.room(pieces),
            )),
            away is not None, *map(np.ascontiguousarray, self._of_network(pieces, added, near, none)),
            self._coarse, *tree.nodes, *self._below, *self._leaves,
            self.bounds.most, self.schema.output_angles, low, high, delta, unknown,
        )  # fmt: skip
        return Reach(low, high, delta, unknown)

    def _of_network(
        self, pieces: Pieces, added: Added | None, near: Away | None, none: Array
    ) -> tuple[Array, ...]:
        """What the kernel is told of the network: nothing, where weights do not matter."""
        ends = (-none, none) if near is None else (near.low, near.high)
        shape = (len(pieces.row), len(self.bounds.most))
        if added is None:
            far, zero = np.full(shape, np.inf), np.zeros(shape)
            return -far, far, zero, np.zeros((*shape, pieces.lower.shape[1])), zero, zero, *ends
        return *added.correction.ends, *added.line, added.share, added.apart, *ends

    def room(self, pieces: Pieces) -> tuple[Array, Array]:
        """(Q, P) at most and at least what is open of the half-width anywhere in each piece."""
        shape = (len(pieces.row), len(self.bounds.most))
        least, room = np.full(shape, np.inf), np.zeros(shape)
        scale = self.cells.scale
        below, above = (_outward(end / scale, side) for end, side in ((pieces.lower, -1), (pieces.upper, 1)))
        widths(below, above, self.cells.memories, self.bounds.half_width, least, room)
        if not (self.rate > 0).any():
            return least, room
        away = np.maximum(np.abs(pieces.lower - self.pinned), np.abs(pieces.upper - self.pinned)) * self.rate
        share = np.minimum(away.max(axis=1) * (1 + 8 * EPS), 1.0)
        beside = np.maximum(np.maximum(pieces.lower - self.pinned, self.pinned - pieces.upper), 0.0)
        inner = np.minimum((beside * self.rate).max(axis=1) * (1 - 8 * EPS), 1.0)
        least = least * (inner * inner * (1 - 16 * EPS))[:, None]
        return least, room * np.minimum(share * share * (1 + 8 * EPS), 1.0)[:, None] * (1 + 8 * EPS)


def _outward(values: Array, side: int) -> Array:
    return values + side * 4 * EPS * np.abs(values)


def _even(model: Model, network: Weights | None) -> EvenLimits:
    del network
    width: Any = model.tether.half_width
    return EvenLimits(width.cpu().numpy(), model.schema, model.frame.target)


_BY_KIND = {AffineTether.kind: LeafLimits, DirectTether.kind: _even}
"""By the kind of a tether that holds."""
