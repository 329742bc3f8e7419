"""Bounds (the paper's C_{M,δ}): the limits that the output must respect, cell by cell.

`interval` (the paper): constants ``lower <= upper`` per cell, the range of M seen over it. With a sound
outer range ``[L, U]`` of M over the coverage, every output inside the bounds is within
``delta = max(upper - L, U - lower)`` of M (paper, Lemma 4, with the range instead of the constant).
Linear in the size of a cell.

`affine` (ours): a first-order model of M per cell, ``A(s) = center + jacobian (s - memory)``, and a
half-width h. Outputs stay in ``A(s) ± h``; with a remainder ``e >= |M - A|``, ``delta = h + e``. The
remainder is quadratic in the size of a cell, zero where M is affine, and M is not needed at run time.

Angles are compared on the circle: whatever is combined is first moved by whole turns to one turn, and no
delta of an angle exceeds half a turn. Several A are averaged after each was moved by whole turns to be
nearest to that of the nearest cell, A_0. Sound because M lies within e_k of A_k on the circle: let M' be M,
moved to within e_0 of A_0. A_k, moved by some number of turns, is within e_k of M', so within e_0 + e_k of
A_0; with both below a quarter turn that is less than half a turn, so that it is the one nearest to A_0. All
are then near the same M'. Where a cell that takes part has a remainder of a quarter turn or more, delta is
half a turn.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from tether.boxes import BoxBounds, output_rounding_over
from tether.cells import Cells
from tether.data import HALF_TURN, QUARTER_TURN, Array, Schema, Target
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


@dataclass(frozen=True, eq=False)
class Observations:
    """What the data show, and where M must be followed exactly.

    Attributes:
        inputs: (N, D) physical inputs of labelled data.
        targets: (N, P) what was observed there.
        pinned: (D,) as in :class:`AffineBounds`.
        followed: (R, D) physical inputs in whose cells M must be followed exactly, whatever the data of the
            cell and its neighbours show; None: there are none.
    """

    inputs: Array
    targets: Array
    pinned: Array
    followed: Array | None = None


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
        epsilon: for `statistical` evidence, the share of inputs that may exceed delta.
        beta: for `statistical` evidence, one minus the confidence of that.
    """

    lower: Array
    upper: Array
    delta: Array
    center: Array
    evidence: Evidence
    lemma: Array | None = None
    epsilon: float | None = None
    beta: float | None = None
    kind: ClassVar[Literal["interval"]] = "interval"


@dataclass(frozen=True, eq=False)
class AffineBounds:
    """Affine bounds of each cell, in the units of the target.

    Attributes:
        expansion: A and its remainder.
        half_width: (K, P) how far an output may be from A.
        evidence: how the remainder is known.
        pinned: (D,) the value on which all probes agree, for inputs where they do (of a vehicle at rest,
            speed 0), and NaN for the rest. There M is followed exactly; the room opens to the full
            half-width within a small distance.
        angles: (P,) which outputs are angles; None: none is.
        blend: how many neighbouring cells are blended to make the bounds continuous; 0: the nearest
            cell's hold alone.
        epsilon: for `statistical` evidence, the share of inputs that may exceed delta.
        beta: for `statistical` evidence, one minus the confidence of that.
    """

    expansion: Expansion
    half_width: Array
    evidence: Evidence
    pinned: Array
    blend: int = 0
    epsilon: float | None = None
    beta: float | None = None
    angles: NDArray[np.bool_] = None  # type: ignore[assignment]
    kind: ClassVar[Literal["affine"]] = "affine"

    def __post_init__(self) -> None:
        if self.angles is None:
            object.__setattr__(self, "angles", np.zeros(self.half_width.shape[1], dtype=bool))
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
        return self.at_rim(self.half_width)

    def at_rim(self, half_width: Array | float) -> Array:
        """(K, P) delta at the rim of each coverage region, were that the half-width.

        Of angles half a turn at most, and just that where blended cells may be turns apart.
        """
        rim = self.expansion.remainder.rim
        delta = half_width + rim
        if not self.angles.any():
            return delta
        circle = np.minimum(delta, HALF_TURN)
        if self.blend:
            # A hair less than a quarter turn, because a row's remainder may round up from the rim's.
            circle = np.where(rim >= QUARTER_TURN * (1 - 1e-9), HALF_TURN, circle)
        return np.where(self.angles, circle, delta)


CellBounds = IntervalBounds | AffineBounds
Bounds = CellBounds | BoxBounds


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
    center = trusted.target(cells.centers, schema, target)
    outer: Range | None = None
    if evidence == "lipschitz":
        outer = lipschitz_range(cells, trusted, schema, target)
    elif evidence == "proved":
        outer = proved_range(cells, trusted, schema, target)
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


def bound_by_expansions(
    cells: Cells,
    trusted: TrustedModel,
    schema: Schema,
    target: Target,
    *,
    observations: Observations,
    evidence: Evidence = "proved",
    sampling: SamplingConfig = SamplingConfig(),
    blend: int = 0,
) -> AffineBounds:
    """Affine bounds of every cell, as wide as the labelled data ask for.

    Args:
        cells: the cells.
        trusted: M.
        schema: what the columns mean.
        target: whether next states or increments are bounded.
        observations: labelled training data, and what probes pin.
        evidence: how the remainder is known.
        sampling: how many points a sampled remainder rests on.
        blend: how many neighbouring cells to blend.
    """
    expansion = expand(cells, trusted, schema, target, evidence=evidence, sampling=sampling)
    cell = cells.locate(observations.inputs).cell
    deviation = schema.distance(observations.targets, expansion.evaluate(cells, observations.inputs, cell))
    half_width = EVIDENCE_MARGIN * pooled_deviation(cells, cell, deviation)
    if observations.followed is not None:
        half_width[cells.locate(observations.followed).cell] = 0.0
    size = expansion.magnitude(cells) + half_width
    rounding = output_rounding(size, cells, schema, target)
    remainder = expansion.remainder
    rounding = rounding + blend_rounding(size + remainder.rim, blend, schema)
    padded = Remainder(remainder.radii, remainder.slopes, remainder.offset + rounding)
    padded = Expansion(expansion.center, expansion.jacobian, padded)
    _check_finite(padded.remainder.rim + half_width, schema)
    angles = schema.output_angles
    return AffineBounds(padded, half_width, evidence, observations.pinned, blend, angles=angles)


def blend_rounding(size: Array, blend: int, schema: Schema) -> Array:
    """(P,) rounding of averages over `blend` cells whose values are at most `size` (K, P).

    Weights sum to one, and averages are taken, up to this; any cell may take part beside any other. An angle
    is first moved to within half a turn of another, by as many turns as fit between two of these values. The
    float64 number for 2π, its product, the difference and the quotient that counts the turns are each off by
    a rounding of at most twice the largest value: a tenth of this.
    """
    if not blend:
        return np.zeros(size.shape[1])
    largest = size.max(axis=0) + 2 * np.pi * schema.output_angles
    return 8 * (blend + 8) * np.finfo(np.float64).eps * largest


def _check_finite(delta: Array, schema: Schema) -> None:
    if not np.isfinite(delta).all():
        cell, output = np.argwhere(~np.isfinite(delta))[0]
        raise CertificateError(
            f"the trusted model must be bounded over every cell; in cell {cell} output "
            f"'{schema.outputs[output]}' is not. Use more memories, or narrow the domain."
        )


def within_budget(bounds: AffineBounds, budget: Array, schema: Schema) -> AffineBounds:
    """`bounds` made narrower where they are not within a delta of `budget` (P,).

    Raises:
        CertificateError: where the remainder alone exceeds it, naming cell, output and shortfall.
    """
    # A last rounding of the sum of both must not exceed the budget either.
    room = budget * (1 - 1e-12) - bounds.at_rim(0.0)
    if (room < 0).any():
        cell, output = np.unravel_index(int(np.argmin(room / budget)), room.shape)
        raise CertificateError(
            f"`delta` must leave room for the remainder; in cell {cell} output '{schema.outputs[output]}' "
            f"the remainder exceeds {budget[output]:.4g} by {-room[cell, output]:.4g}. "
            "Allow more memories or a larger delta."
        )
    return replace(bounds, half_width=np.minimum(bounds.half_width, room))


def fitting_radii(bounds: AffineBounds, budget: Array, *, slack: float = 0.0) -> Array:
    """(K,) the largest radii, at most the present ones, at which delta keeps to `budget` (P,); 0: none.

    At most half of the budget is kept for the half-width that the data ask for.
    """
    remainder = bounds.expansion.remainder
    kept = np.minimum(bounds.half_width, 0.5 * budget)
    allowed = budget * (1 - 1e-9 - slack) - kept
    if bounds.blend:
        # Cells that are blended must be less than half a turn apart, or the budget be as much.
        turning = bounds.angles & (budget < HALF_TURN)
        allowed = np.where(turning, np.minimum(allowed, QUARTER_TURN * (1 - 1e-6 - slack)), allowed)
    allowed = (allowed - remainder.offset)[:, None]
    # Within a shell the remainder is a straight line: it reaches what is allowed at this distance.
    reach = np.full_like(remainder.slopes, np.inf)
    with np.errstate(over="ignore"):
        np.divide(allowed, remainder.slopes, out=reach, where=remainder.slopes > 0)
    reach = np.where(allowed < 0, 0.0, reach).min(axis=2)
    return np.minimum(reach, remainder.radii).max(axis=1)


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
        remedy = (
            "Give a larger constant, or use evidence `sampled`."
            if evidence == "lipschitz"
            else "This is a defect of Tether: please report it."
        )
        raise CertificateError(
            f"`{evidence}` must bound the trusted model's change; in cell {cell} output "
            f"'{schema.outputs[output]}' was seen {excess[cell, output]:.3g} beyond what it allows. {remedy}"
        )
