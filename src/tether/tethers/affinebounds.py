"""Affine bounds: models of M over the leaves of a tree, and room by what the data show.

Over each leaf of an output's tree ``A(s) = value + slope (s - reference)``, with a remainder that is at least
``|M - A|``. In a leaf of second order ``sum_q curvature_q (s - c)_i (s - c)_j`` is added, over pairs q =
(i, j) of inputs, with c the point that the leaf was expanded around. Outputs stay within a half-width of A,
so that every one of them is within ``delta = remainder + half-width`` of M, anywhere in the operating box.
Where M bends decides the leaves; where the data are, the cells and their half-widths.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tether.data import HALF_TURN, Array, Schema
from tether.evidence import Evidence, Question
from tether.evidence.curvature import Pairs, bend_at, bend_slope, no_pairs
from tether.evidence.expansions import Bent, middles
from tether.foundation.errors import CertificateError
from tether.geometry.boxtree import BoxTree
from tether.geometry.cells import Cells
from tether.programs import EnclosureError
from tether.programs.rounding import FAINT
from tether.tethers.draws import draw_in_box, draw_over

_MOST_POINTS = 200_000
_LARGEST = 1e100
"""Beyond it a remainder is none: `verify` reads no larger number, and squares of such overflow."""


class Region(NamedTuple):
    """Where something is claimed: a box, (D,) each, and the smallest and largest radius of coverage in it.

    Without a radius anywhere in the box.
    """

    lower: Array
    upper: Array
    radius: tuple[float, float] | None


@dataclass(frozen=True, eq=False)
class AffineBounds:
    """Bounds over a box, in the units of the target.

    Attributes:
        tree: a tree of boxes for each output, L leaves in all.
        reference: (D,) where A is written from.
        value: (L,) A there.
        slope: (L, D).
        remainder: (L,) at least the distance from M to A over the leaf, roundings of both included; infinite
            where nothing is known of M, which is outside the domain.
        half_width: (K, P) by cell, how far an output may be from A.
        most: (P,) delta that no row exceeds, infinite where none was asked for.
        pinned: (D,) the value on which all probes agree, for inputs where they do (a parked car: speed 0, yaw
            rate 0), and NaN for the rest. There M is followed exactly; the room opens to the full half-width
            within a small distance.
        angles: (P,) which outputs are angles.
        evidence: how the remainder is known.
        curvature: (L, Q), 0 in leaves of first order; no columns where all are.
        pairs: (Q, 2) inputs that it is of, each ascending, each pair once.
    """

    tree: BoxTree
    reference: Array
    value: Array
    slope: Array
    remainder: Array
    half_width: Array
    most: Array
    pinned: Array
    angles: NDArray[np.bool_]
    evidence: Evidence
    curvature: Array | None = None
    pairs: Pairs = field(default_factory=no_pairs)
    kind: ClassVar[Literal["affine"]] = "affine"
    over: ClassVar[str] = "boxes"
    """What a claim is over, as :mod:`tether.foundation.wording` calls it."""

    def __post_init__(self) -> None:
        if not ((self.half_width >= 0) & np.isfinite(self.half_width)).all():
            raise ValueError("`half_width` must be finite and at least 0 in every cell and output.")
        if not (self.remainder >= 0).all():
            raise ValueError("`remainder` must be at least 0 in every leaf.")
        if self.curvature is None:
            object.__setattr__(self, "curvature", np.zeros((len(self.value), 0)))
        self._check_curvature()

    def _check_curvature(self) -> None:
        pairs, inputs = self.pairs, len(self.reference)
        ascending = (pairs[:, 0] <= pairs[:, 1]) & (pairs[:, 0] >= 0) & (pairs[:, 1] < inputs)
        if not ascending.all() or len({tuple(pair) for pair in pairs.tolist()}) != len(pairs):
            raise ValueError("`pairs` must be of inputs, ascending, each pair once.")
        if self.bends.shape != (len(self.value), len(pairs)) or not np.isfinite(self.bends).all():
            raise ValueError("`curvature` must be finite, one for each leaf and pair.")
        if len(pairs) and not self.evidence.encloses:
            raise ValueError(
                f"`order` must be 1 for evidence `{self.evidence.name}`; got 2. Second order needs `proved`."
            )

    @property
    def bends(self) -> Array:
        """(L, Q) curvatures."""
        assert self.curvature is not None
        return self.curvature

    @property
    def order(self) -> int:
        """2 where there are leaves of second order."""
        return 2 if len(self.pairs) else 1

    @property
    def size(self) -> int:
        """Bytes of what is held by leaf, and of the trees."""
        held = (self.value, self.slope, self.remainder, self.bends, *self.tree.nodes)
        return sum(part.nbytes for part in held)

    @cached_property
    def centre(self) -> Array:
        """(L, D) around which leaves were expanded, and curvatures are counted from."""
        lower, upper = self.tree.boxes()
        return middles(lower, upper, self.pinned)[0]

    @cached_property
    def swing(self) -> Array:
        """(L,) at most what curvatures add to A anywhere in a leaf."""
        if self.order == 1:
            return np.zeros(len(self.value))
        lower, upper = self.tree.boxes()
        reach = np.maximum(np.abs(upper - self.centre), np.abs(self.centre - lower))
        return bend_at(np.abs(self.bends), self.pairs, reach)

    @property
    def lemma(self) -> None:
        """Lemma 4 speaks of constant bounds only."""
        return

    @property
    def output(self) -> NDArray[np.int64]:
        """(L,) which output each leaf belongs to."""
        return self.tree.owner

    @property
    def room(self) -> Array:
        """(P,) largest half-width."""
        return self.half_width.max(axis=0)

    @property
    def delta(self) -> Array:
        """(L,) distance to M anywhere in a leaf, were its room the largest there is."""
        output, known = self.output, np.isfinite(self.remainder)
        # Where nothing is known and nothing was asked for, infinity less infinity would be no number.
        left = np.where(known, self.most[output], 0.0) - np.where(known, self.remainder, 0.0)
        delta = self.remainder + np.clip(left, 0.0, self.room[output])
        return np.where(self.angles[output], np.minimum(delta, HALF_TURN), delta)

    def known(self, inputs: Array) -> NDArray[np.bool_]:
        """(N,) whether inputs (N, D) lie in the box, where something is known of every output."""
        finite = np.isfinite(self.remainder)[self.tree.find(inputs)]
        return self.tree.contains(inputs) & np.logical_and.reduce(finite, axis=1)

    def draw(self, cells: Cells, count: int, schema: Schema, rng: np.random.Generator) -> Array:
        """(count, D) independent inputs of the domain, from the distribution that `over` names."""
        if self.evidence.over is not None:
            return draw_over(self.evidence.over, self.known, count, schema, rng)
        return draw_in_box(self.tree, self.known, cells, count, schema, rng)

    def points(self, cells: Cells, each: int, rng: np.random.Generator) -> Array:
        """(N, D) points of the domain inside every leaf, a third of them in corners and on faces."""
        del cells
        each = max(1, min(each, _MOST_POINTS // self.tree.leaves))
        lower, upper = self.tree.boxes()
        share = rng.random((self.tree.leaves * each, len(self.tree.lower)))
        edge = rng.random(share.shape) < rng.choice([0.0, 0.0, 0.5], (len(share), 1))
        share = np.where(edge, np.round(share), share)
        low, high = np.repeat(lower, each, axis=0), np.repeat(upper, each, axis=0)
        found = np.clip(low + share * (high - low), low, high)
        # Where nothing is known of M it may have no value.
        return found[self.known(found)]

    def region(self, cells: Cells) -> Region:
        """The whole box."""
        del cells
        return Region(self.tree.lower, self.tree.upper, None)

    @property
    def known_share(self) -> float:
        """Share of the box, by volume, over which something is known of every output."""
        lower, upper = self.tree.boxes()
        extent = self.tree.upper - self.tree.lower
        part = np.divide(upper - lower, extent, out=np.ones_like(lower), where=extent > 0).prod(axis=1)
        return float(1 - min(1.0, part[~np.isfinite(self.remainder)].sum()))

    def by_output(self) -> list[tuple[NDArray[np.int64], Array]]:
        """Of each output, the leaves over which something is known, and their deltas."""
        delta, output, finite = self.delta, self.output, np.isfinite(self.remainder)
        leaves = [np.flatnonzero(finite & (output == k)) for k in range(len(self.most))]
        return [(own, delta[own]) for own in leaves]

    def remainder_of(self, output: int) -> float:
        """The largest of an output, over leaves of which something is known."""
        own = (self.output == output) & np.isfinite(self.remainder)
        return float(self.remainder[own].max(initial=0.0))

    def remainder_at(self, inputs: Array) -> Array:
        """(N, P) of those inputs (N, D) that lie in the domain."""
        return self.remainder[self.tree.find(inputs)][self.known(inputs)]

    def recognise(self, question: Question, cells: Cells, scale: Array) -> None:
        """Another M shows where remainders are derived again, or in draws."""
        del question, cells, scale

    def derive_again(self, evidence: Evidence, question: Question, cells: Cells) -> None:
        """Derives every remainder again.

        Raises:
            CertificateError: one is larger than claimed.
        """
        del cells
        lower, upper = self.tree.boxes()
        rows = np.flatnonzero(np.isfinite(self.remainder))
        middle, _ = middles(lower[rows], upper[rows], self.pinned)
        slope, output = self.slope[rows], self.output[rows]
        value = self.value[rows] + (slope * (middle - self.reference)).sum(axis=1)
        needed, bent = np.empty(len(rows)), (self.bends[rows] != 0).any(axis=1)
        try:
            expander = evidence.expander(question)
            for second, own in ((False, np.flatnonzero(~bent)), (True, np.flatnonzero(bent))):
                if not len(own):
                    continue
                given = (output[own], lower[rows[own]], upper[rows[own]])
                model = {"slope": slope[own], "value": value[own]}
                curved = Bent(self.bends[rows[own]], self.pairs)
                needed[own] = (
                    expander.needed_bent(*given, **model, bent=curved)
                    if second
                    else expander.needed(*given, **model)
                )
        except (ValueError, EnclosureError) as error:
            raise CertificateError(f"the claim cannot be derived again: {error}") from None
        rounding = self.rounding(question.schema)[rows]
        short = needed + 0.5 * rounding > self.remainder[rows] * (1 + 1e-9)
        if short.any():
            first = int(np.argmax(short))
            raise CertificateError(
                "the claim must follow from the trusted model again; derived anew, the remainder of output "
                f"'{question.schema.outputs[output[first]]}' in leaf {rows[first]} is larger than the model "
                "file says. The file or the trusted model has changed: fit anew."
            )

    def unit_of_widening(self, *, times: float = 1.0) -> AffineBounds:
        """Bounds whose delta is what delta grows by: in proportion, and some of what is usual elsewhere."""
        output, finite = self.output, np.isfinite(self.remainder)
        size = np.abs(self.value) + np.abs(self.slope) @ (self.tree.upper - self.tree.lower) + self.swing
        floor = np.zeros(len(self.most))
        for k in range(len(floor)):
            own = finite & (output == k)
            usual = np.median(self.remainder[own]) if own.any() else 0.0
            floor[k] = 0.1 * usual + 1e-9 * size[output == k].max(initial=0.0) + np.finfo(np.float64).tiny
        # As if angles were on a line: in proportion to remainders, without an end at half a turn.
        flat, none = np.zeros_like(self.angles), np.full_like(self.most, np.inf)
        still = np.zeros_like(self.half_width)
        unit = np.full_like(self.remainder, np.inf)
        unit[finite] = times * (self.remainder + floor[output])[finite]
        return replace(self, remainder=unit, half_width=still, most=none, angles=flat)

    def widened(self, times: float, evidence: Evidence, schema: Schema) -> AffineBounds:
        """With so many units more, by the evidence that asked for them; what is huge then is no claim."""
        del schema
        remainder = self.remainder + self.unit_of_widening(times=times).remainder
        return replace(self, remainder=np.where(remainder > _LARGEST, np.inf, remainder), evidence=evidence)

    def evaluate(self, inputs: Array) -> Array:
        """(N, P) A at physical inputs (N, D)."""
        leaf = self.tree.find(inputs)
        flat = self.value[leaf] + np.einsum("npd,nd->np", self.slope[leaf], inputs - self.reference)
        if self.order == 1:
            return flat
        return flat + bend_at(self.bends[leaf], self.pairs, inputs[:, None] - self.centre[leaf])

    def steepness(self, inputs: Array) -> Array:
        """(N, P, D) the slope of A there, within its leaf."""
        leaf = self.tree.find(inputs)
        if self.order == 1:
            return self.slope[leaf]
        away = inputs[:, None] - self.centre[leaf]
        return self.slope[leaf] + bend_slope(self.bends[leaf], self.pairs, away)

    def rounding(self, schema: Schema) -> Array:
        """(L,) at least what rounding changes of an output that is made from A."""
        tree, output = self.tree, self.output
        reach = np.maximum(np.abs(tree.lower - self.reference), np.abs(tree.upper - self.reference))
        size = np.abs(self.value) + np.abs(self.slope) @ reach + self.room[output]
        size = size + np.where(np.isfinite(self.remainder), self.remainder, 0.0) + self.swing
        rounding = output_rounding_over(tree.lower, tree.upper, schema, pairs=len(self.pairs))(size, output)
        return rounding + self._underflow(size)

    def _underflow(self, size: Array) -> Array:
        """(L,) what is lost where numbers are too small to be held; nothing where there are none but 0."""
        curved, terms = (self.bends != 0).any(axis=1), len(self.reference) + 16
        farthest = (self.tree.upper - self.tree.lower).max()
        lost = FAINT * (terms + len(self.pairs) * (2 + farthest) * curved)
        return np.where((size > 0) | curved, lost, 0.0)


def output_rounding_over(
    lower: Array, upper: Array, schema: Schema, *, pairs: int = 0
) -> Callable[[Array, NDArray[np.int64]], Array]:
    """Rounding of ``state + increment`` and of A over a box, by size of the target and by output.

    With `pairs` of inputs A has as many terms more.
    """
    extent = np.maximum(np.abs(lower), np.abs(upper))[None, : len(schema.states)]
    # Unwrapping an angle passes through numbers of a few turns.
    more = schema.base(extent)[0] + 4 * np.pi * schema.output_angles
    factor = (32 + 4 * (len(schema.inputs) + pairs)) * np.finfo(np.float64).eps
    return lambda size, output: factor * (size + more[output])
