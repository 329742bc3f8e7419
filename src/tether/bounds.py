"""Bounds (the paper's C_{M,δ}): the limits that the output must respect, cell by cell.

`interval` (the paper): constants ``lower <= upper`` per cell, the range of M seen over it. With a sound
outer range ``[L, U]`` of M over the coverage, every output inside the bounds is within
``delta = max(upper - L, U - lower)`` of M (paper, Lemma 4, with the range instead of the constant).
Linear in the size of a cell.

`affine` (ours): a first-order model of M per cell, ``A(s) = center + jacobian (s - memory)``, and a
half-width h. Outputs stay in ``A(s) ± h``; with a remainder ``e >= |M - A|``, ``delta = h + e``. The
remainder is quadratic in the size of a cell, zero where M is affine, and M is not needed at run time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from tether.cells import Cells, Location
from tether.data import Array, Schema, Target
from tether.errors import CertificateError
from tether.progress import Reporter, silent
from tether.ranges import (
    Evidence,
    Range,
    SamplingConfig,
    lipschitz_range,
    proved_range,
    reach_per_radius,
    sampled_range,
)
from tether.remainders import Expansion, Remainder, expand
from tether.trusted import TrustedModel

EVIDENCE_MARGIN = 1.1
"""How much wider than the deviations seen in the data an affine or direct tether is."""
PINNED_REACH = 0.05
"""Scaled distance from what all probes agree on at which an affine tether is fully open."""


@dataclass(frozen=True, eq=False)
class Limits:
    """What the bounds say about rows of inputs, in the units of the target; (N, P) each.

    Attributes:
        lower: smallest output allowed.
        upper: largest.
        anchor: what the network's output is added to: A(s) for an affine tether, M(s) for a direct one.
        delta: distance to M of every output allowed.
    """

    lower: Array
    upper: Array
    anchor: Array
    delta: Array


@dataclass(frozen=True, eq=False)
class Observations:
    """What the data show, and where M must be followed exactly.

    Attributes:
        inputs: (N, D) physical inputs of labelled data.
        targets: (N, P) what was observed there.
        pinned: (D,) as in :class:`AffineBounds`.
    """

    inputs: Array
    targets: Array
    pinned: Array


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

    def limits(self, cells: Cells, inputs: Array, location: Location) -> Limits:
        """Limits at physical inputs (N, D)."""
        cell = location.cell
        return Limits(self.lower[cell], self.upper[cell], np.zeros_like(self.lower[cell]), self.delta[cell])


@dataclass(frozen=True, eq=False)
class AffineBounds:
    """Affine bounds of each cell, in the units of the target.

    Attributes:
        expansion: A and its remainder.
        half_width: (K, P) how far an output may be from A.
        evidence: how the remainder is known.
        pinned: (D,) the value on which all probes agree, for inputs where they do (a parked car: speed 0,
            yaw rate 0), and NaN for the rest. There M is followed exactly; the room opens to the full
            half-width within a small distance.
    """

    expansion: Expansion
    half_width: Array
    evidence: Evidence
    pinned: Array
    kind: ClassVar[Literal["affine"]] = "affine"

    def __post_init__(self) -> None:
        if not ((self.half_width >= 0) & np.isfinite(self.half_width)).all():
            raise ValueError("`half_width` must be finite and at least 0 in every cell and output.")

    @property
    def center(self) -> Array:
        """(K, P) M at the memories."""
        return self.expansion.center

    @property
    def lemma(self) -> None:
        """Lemma 4 speaks of constant bounds only."""
        return

    @property
    def delta(self) -> Array:
        """(K, P) distance to M at the rim of each coverage region, where it is largest."""
        return self.half_width + self.expansion.remainder.rim

    def limits(self, cells: Cells, inputs: Array, location: Location) -> Limits:
        """Limits at physical inputs (N, D); delta shrinks towards the memory."""
        cell = location.cell
        anchor = self.expansion.evaluate(cells, inputs, cell)
        width = self.half_width[cell] * self.opening(cells, inputs)[:, None]
        distance = location.distance + (cells.outer_radii - cells.radii)[cell]
        delta = width + self.expansion.remainder.at(cell, distance)
        return Limits(anchor - width, anchor + width, anchor, delta)

    def opening(self, cells: Cells, inputs: Array) -> Array:
        """(N,) share of the half-width that is open: 0 where inputs agree with the probes, 1 away."""
        columns = ~np.isnan(self.pinned)
        if not columns.any():
            return np.ones(len(inputs))
        away = (inputs[:, columns] - self.pinned[columns]) / cells.scale[columns]
        return np.minimum(np.abs(away).max(axis=1) / PINNED_REACH, 1.0)


Bounds = IntervalBounds | AffineBounds


def bound_by_intervals(
    cells: Cells,
    trusted: TrustedModel,
    schema: Schema,
    target: Target,
    *,
    inputs: Array,
    evidence: Evidence = "sampled",
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
    inner = sampled_range(cells, trusted, schema, target, inputs=inputs, config=sampling, reporter=reporter)
    outer = inner
    if evidence == "lipschitz":
        outer = lipschitz_range(cells, trusted, schema, target)
    elif evidence == "proved":
        outer = proved_range(cells, trusted, schema, target)
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
    center = trusted.target(cells.centers, schema, target)
    return IntervalBounds(inner.lower, inner.upper, delta, center, evidence, lemma)


def bound_by_expansions(
    cells: Cells,
    trusted: TrustedModel,
    schema: Schema,
    target: Target,
    *,
    observations: Observations,
    budget: Array | None = None,
    evidence: Evidence = "proved",
    sampling: SamplingConfig = SamplingConfig(),
) -> AffineBounds:
    """Affine bounds of every cell, as wide as the labelled data ask for and the budget allows.

    Args:
        cells: the cells.
        trusted: M.
        schema: what the columns mean.
        target: whether next states or increments are bounded.
        observations: labelled training data, and what probes pin.
        budget: (P,) the delta to stay within, if any.
        evidence: how the remainder is known.
        sampling: how many points a sampled remainder rests on.

    Raises:
        CertificateError: where the remainder alone exceeds the budget, naming cell, output and shortfall.
    """
    expansion = expand(cells, trusted, schema, target, evidence=evidence, sampling=sampling)
    cell = cells.locate(observations.inputs).cell
    deviation = np.abs(observations.targets - expansion.evaluate(cells, observations.inputs, cell))
    half_width = EVIDENCE_MARGIN * pooled_deviation(cells, cell, deviation)
    rounding = output_rounding(expansion.magnitude(cells) + half_width, cells, schema, target)
    remainder = expansion.remainder
    padded = Remainder(remainder.radii, remainder.slopes, remainder.offset + rounding)
    if budget is not None:
        half_width = np.minimum(half_width, _room(budget, padded, schema))
    padded = Expansion(expansion.center, expansion.jacobian, padded)
    _check_finite(padded.remainder.rim + half_width, schema)
    return AffineBounds(padded, half_width, evidence, observations.pinned)


def _check_finite(delta: Array, schema: Schema) -> None:
    if not np.isfinite(delta).all():
        cell, output = np.argwhere(~np.isfinite(delta))[0]
        raise CertificateError(
            f"the trusted model must be bounded over every cell; in cell {cell} output "
            f"'{schema.outputs[output]}' is not. Use more memories, or narrow the domain."
        )


def _room(budget: Array, remainder: Remainder, schema: Schema) -> Array:
    """(K, P) what a budget leaves for the half-width once the remainder is paid."""
    # A last rounding of the sum of both must not exceed the budget either.
    room = budget * (1 - 1e-12) - remainder.rim
    if (room < 0).any():
        cell, output = np.unravel_index(int(np.argmin(room / budget)), room.shape)
        raise CertificateError(
            f"`delta` must leave room for the remainder; in cell {cell} output '{schema.outputs[output]}' "
            f"the remainder exceeds {budget[output]:.4g} by {-room[cell, output]:.4g}. "
            "Allow more memories or a larger delta."
        )
    return room


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
    eps = np.finfo(np.float64).eps
    dx = len(schema.states)
    extent = np.maximum(np.abs(cells.box_lower), np.abs(cells.box_upper))[None, :dx]
    size = size + schema.base(extent)
    # Unwrapping an angle passes through numbers of a few turns.
    return (32 + 4 * len(schema.inputs)) * eps * (size + 4 * np.pi * schema.output_angles)


def _check_contained(inner: Range, outer: Range, rounding: Array, schema: Schema, evidence: Evidence) -> None:
    """A value of M outside its outer range by more than rounding refutes what that range rests on."""
    excess = np.maximum(outer.lower - inner.lower, inner.upper - outer.upper) - rounding
    if (excess > 0).any():
        cell, output = np.unravel_index(int(np.argmax(excess)), excess.shape)
        remedy = (
            "Give a larger constant, or use evidence `sampled`."
            if evidence == "lipschitz"
            else "This is a defect of Tether: please report it."
        )
        raise CertificateError(
            f"`{evidence}` must bound the trusted model's change; in cell {cell} output "
            f"'{schema.outputs[output]}' was seen {excess[cell, output]:.3g} beyond what it allows. {remedy}"
        )
