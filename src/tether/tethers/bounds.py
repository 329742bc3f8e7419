"""Bounds (the paper's C_{M,δ}): the limits that the output must respect, cell by cell.

`interval` (the paper): constants ``lower <= upper`` per cell, the range of M seen over it. With a sound
outer range ``[L, U]`` of M over the coverage, every output inside the bounds is within
``delta = max(upper - L, U - lower)`` of M (paper, Lemma 4, with the range instead of the constant).
Linear in the size of a cell.

`affine` (ours): first-order models of M over boxes; see :mod:`tether.tethers.affinebounds`.

Angles are compared on the circle: whatever is combined is first moved by whole turns to one turn, and no
delta of an angle exceeds half a turn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from tether.data import Array, Schema, Target
from tether.evidence import Evidence, Question, Sampled, SamplingConfig
from tether.evidence.ranges import Range, reach_per_radius, sampled_range
from tether.foundation.errors import CertificateError
from tether.foundation.progress import Reporter, silent
from tether.geometry.cells import Cells, CellSampler
from tether.programs import EnclosureError
from tether.tethers.affinebounds import AffineBounds, Region, output_rounding_over
from tether.tethers.draws import draw_in_domain, draw_over
from tether.trusted import TrustedModel

EVIDENCE_MARGIN = 1.1
"""How much wider than the deviations seen in the data a monotone or direct tether is."""


@dataclass(frozen=True, eq=False)
class IntervalBounds:
    """Interval bounds of each cell, in the units of the target.

    Attributes:
        lower: (K, P) smallest output allowed.
        upper: (K, P) largest output allowed.
        delta: (K, P) distance to M; what it is worth depends on `evidence`.
        center: (K, P) M at the memories, by which another M is recognised.
        evidence: how delta is known.
        lemma: (P,) Lemma 4's bound, Lipschitz constant times the diameter of a coverage region, or
            None where no constant is known.
    """

    lower: Array
    upper: Array
    delta: Array
    center: Array
    evidence: Evidence
    lemma: Array | None = None
    kind: ClassVar[Literal["interval"]] = "interval"
    over: ClassVar[str] = "cells"
    """What a claim is over, as :mod:`tether.foundation.wording` calls it."""
    known_share: ClassVar[None] = None
    """Share of the box over which something is known: for cells nobody measures it."""

    def draw(self, cells: Cells, count: int, schema: Schema, rng: np.random.Generator) -> Array:
        """(count, D) independent inputs of the domain, from the distribution that `over` names."""
        if self.evidence.over is not None:
            return draw_over(self.evidence.over, self._known_by(cells), count, schema, rng)
        return draw_in_domain(cells, count, schema, rng)

    @staticmethod
    def _known_by(cells: Cells) -> Callable[[Array], NDArray[np.bool_]]:
        return lambda inputs: cells.locate(inputs).in_domain

    def points(self, cells: Cells, each: int, rng: np.random.Generator) -> Array:
        """(N, D) points inside every cell."""
        drawn = CellSampler(cells).sample(each, rng=rng, thin=2)
        return drawn.reshape(-1, drawn.shape[2])

    def region(self, cells: Cells) -> Region:
        """Where something is claimed."""
        return Region(cells.box_lower, cells.box_upper, (float(cells.radii.min()), float(cells.radii.max())))

    def by_output(self) -> list[tuple[NDArray[np.int64], Array]]:
        """Of each output, the cells and their deltas."""
        return [(np.arange(len(column)), column) for column in self.delta.T]

    def remainder_of(self, output: int) -> None:
        """Delta is not told apart into room and remainder."""
        del output

    def remainder_at(self, inputs: Array) -> None:
        """The same."""
        del inputs

    def recognise(self, question: Question, cells: Cells, scale: Array) -> None:
        """A claim about one M says nothing of another; M at the memories tells them apart.

        Raises:
            CertificateError: M is another one; `scale` (P,) is what its outputs are like.
        """
        schema = question.schema
        gap = schema.distance(question.values(cells.centers), self.center)
        # Another machine's sine may differ in the last place, a model worth the name by more.
        tolerance = 1e-9 * (np.abs(self.center) + scale)
        if (gap > tolerance).any():
            cell, output = np.unravel_index(int(np.argmax(gap / tolerance)), gap.shape)
            raise CertificateError(
                "`trusted` must be the model the bounds were built with; at the memory of cell "
                f"{cell} output '{schema.outputs[output]}' differs by {gap[cell, output]:.6g}. Fit anew."
            )

    def derive_again(self, evidence: Evidence, question: Question, cells: Cells) -> None:
        """Derives delta again from M's range over the cells.

        Raises:
            CertificateError: it is larger than claimed.
        """
        schema = question.schema
        outer = _again(evidence.range_over, cells, question.trusted, schema, question.target)
        _check_again(schema.capped(self._gap(outer, schema)), self.delta)

    def _gap(self, outer: Range, schema: Schema) -> Array:
        """(K, P) how far outputs in the bounds can be from M in its range, of angles on the bounds' turn."""
        still = 0.5 * self.lower + 0.5 * self.upper
        middle = outer.middle(still)
        turns = schema.near(middle, still) - middle
        return np.maximum(self.upper - (outer.lower + turns), outer.upper + turns - self.lower)

    def unit_of_widening(self, *, times: float = 1.0) -> IntervalBounds:
        """Bounds whose delta is what delta grows by: in proportion, and some of what is usual elsewhere."""
        width = self.upper - self.lower
        floor = 1e-9 * np.abs(self.center).max(axis=0) + np.finfo(np.float64).tiny
        return replace(self, delta=times * (width + 0.1 * np.median(width, axis=0) + floor))

    def widened(self, times: float, evidence: Evidence, schema: Schema) -> IntervalBounds:
        """With so many units more, by the evidence that asked for them."""
        more = self.unit_of_widening(times=times).delta
        return replace(self, delta=schema.capped(self.delta + more), evidence=evidence)


Bounds = IntervalBounds | AffineBounds


def _again(bound: Callable[..., Any], *given: Any) -> Any:
    """What bounds M once more."""
    try:
        return bound(*given)
    except (ValueError, EnclosureError) as error:
        raise CertificateError(f"the claim cannot be derived again: {error}") from None


def _check_again(needed: Array, stated: Array) -> None:
    tolerance = 1e-9 * np.abs(needed)
    if needed.shape != stated.shape or not (needed <= stated + tolerance).all():
        raise CertificateError(
            "the claim must follow from the trusted model again; derived anew, delta is larger than the "
            "model file says. The file or the trusted model's constants have changed: fit anew."
        )


def bound_by_intervals(
    cells: Cells,
    trusted: TrustedModel,
    schema: Schema,
    target: Target,
    *,
    inputs: Array,
    evidence: Evidence = Sampled(),
    sampling: SamplingConfig = SamplingConfig(),
    reporter: Reporter = silent,
) -> IntervalBounds:
    """Interval bounds of every cell.

    Args:
        cells: the cells.
        trusted: M.
        schema: what the columns mean.
        target: whether next states or increments are bounded.
        inputs: (N, D) inputs of D and Ω that may be used to build the bounds.
        evidence: how delta is known.
        sampling: how hard the sampled range looks.
        reporter: opens progress displays.
    """
    center = trusted.target(cells.centers, schema, target)
    outer = evidence.range_over(cells, trusted, schema, target)
    # Angles that are seen belong on the turn around what is known of them.
    around = center if outer is None else outer.middle(center)
    inner = sampled_range(
        cells, trusted, schema, target, inputs=inputs, around=around, config=sampling, reporter=reporter
    )
    outer = outer or inner
    size = np.maximum(np.abs(inner.lower), np.abs(inner.upper))
    rounding = output_rounding(size, cells, schema, target)
    _check_contained(inner, outer, rounding, schema, evidence)
    gap = np.maximum(inner.upper - outer.lower, outer.upper - inner.lower)
    constants = trusted.lipschitz_constants(schema, target)
    lemma = None
    if constants is not None:
        lemma = 2 * cells.outer_radii.max() * reach_per_radius(constants, cells.scale)
    delta = gap + 2 * rounding
    _check_finite(delta, schema)
    delta = schema.capped(delta)
    return IntervalBounds(inner.lower, inner.upper, delta, center, evidence, lemma)


def _check_finite(delta: Array, schema: Schema) -> None:
    if not np.isfinite(delta).all():
        cell, output = np.argwhere(~np.isfinite(delta))[0]
        raise CertificateError(
            f"the trusted model must be bounded over every cell; in cell {cell} output "
            f"'{schema.outputs[output]}' is not. Use more memories, or narrow the domain."
        )


def pooled_deviation(cells: Cells, cell: NDArray[np.int64], deviation: Array) -> Array:
    """(K, P) largest deviation seen in each cell and its neighbours in the gas's graph.

    A cell without labelled data of its own gets 0, whatever its neighbours saw: where nothing was
    observed, M is followed exactly.
    """
    own = np.zeros((len(cells), deviation.shape[1]))
    np.maximum.at(own, cell, deviation)
    pooled = own.copy()
    for one, other in (cells.edges.T, cells.edges.T[::-1]):
        np.maximum.at(pooled, one, own[other])
    labelled = np.bincount(cell, minlength=len(cells)) > 0
    return np.where(labelled[:, None], pooled, 0.0)


def output_rounding(size: Array, cells: Cells, schema: Schema, target: Target) -> Array:
    """(K, P): rounding of ``state + increment``, of A and of M's own float64 evaluation.

    `size` (K, P) bounds the target's magnitude. The factor allows for the D products of A(s) and for
    M to err by some dozens of units in the last place of what it adds up.
    """
    del target
    rounding = output_rounding_over(cells.box_lower, cells.box_upper, schema)
    return rounding(size, np.arange(size.shape[1]))


def _check_contained(inner: Range, outer: Range, rounding: Array, schema: Schema, evidence: Evidence) -> None:
    """A value of M outside its outer range by more than rounding refutes what that range rests on.

    An angle cannot be outside a whole turn; within less than one, values seen are on the range's own turn.
    """
    excess = np.maximum(outer.lower - inner.lower, inner.upper - outer.upper) - rounding
    round_ = schema.output_angles & (outer.upper - outer.lower >= 2 * np.pi)
    excess = np.where(round_, -np.inf, excess)
    if (excess > 0).any():
        cell, output = np.unravel_index(int(np.argmax(excess)), excess.shape)
        raise CertificateError(
            f"`{evidence.name}` must bound the trusted model's change; in cell {cell} output "
            f"'{schema.outputs[output]}' was seen {excess[cell, output]:.3g} beyond what it allows. "
            f"{evidence.refuted_by}"
        )
