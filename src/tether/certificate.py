"""The certificate: the claim, its numbers, its assumptions, and how it was established.

Nothing here looks at how the network was trained: the claim holds for any weights.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, overload

import numpy as np
import torch
from torch import nn

from tether.bounds import Bounds, IntervalBounds, blend_rounding, output_rounding
from tether.boxclaims import concerns, known_share, points_in_leaves, rederive_boxes, remainder_at
from tether.calibration import (
    draw_in_domain,
    draws_allowed,
    draws_needed,
    exceedance,
    pieces,
    refuted,
)
from tether.cells import CellSampler
from tether.constrained import ConstrainedModel, is_constrained
from tether.data import Array, Probes, Schema, Transitions
from tether.errors import CertificateError
from tether.model import Model
from tether.monotone import MonotoneCertificate, MonotoneModel, as_affine, certify_monotone, is_monotone
from tether.ranges import Range, lipschitz_range, proved_range
from tether.remainders import expand
from tether.single import single_delta
from tether.trusted import TrustedModel, as_trusted, check_trusted
from tether.wording import MEANING, assumptions, statistical_claim


@dataclass(frozen=True)
class OutputDelta:
    """Distance to the trusted model for one output, in its physical unit.

    Attributes:
        name: of the output.
        unit: of the output.
        maximum: over cells.
        median: over cells.
        held_out: median and 99 % quantile over held-out inputs in the domain, each with the delta of its
            own distance to its memory; None where no held-out inputs were given.
        lemma: Lemma 4's bound (constant times diameter), None where no constant is known.
        worst_cells: the cells with the largest delta, worst first.
        single: over cells, of the model executed in float32 (:func:`tether.single_precision`); None where
            float32 is too coarse for its domain, or delta not known over whole coverage balls.
        remainder: with box bounds, what of delta is not room: largest over the box, and 99 % quantile over
            held-out inputs.
    """

    name: str
    unit: str
    maximum: float
    median: float
    held_out: tuple[float, float] | None
    lemma: float | None
    worst_cells: tuple[int, ...]
    single: float | None
    remainder: tuple[float, float | None] | None = None


@dataclass(frozen=True)
class Domain:
    """Where the claim holds: within its cell's radius (scaled) of the nearest memory and inside the box.

    Attributes:
        radius: smallest and largest over cells; None: anywhere in the box.
        box: limits by input.
        coverage_D: share of held-out D in the domain.
        coverage_omega: likewise of Ω.
        coverage_box: share of the box by volume; 1 but for regions over which nothing is known of M.
    """

    radius: tuple[float, float] | None
    box: dict[str, tuple[float, float]]
    coverage_D: float | None
    coverage_omega: float | None
    coverage_box: float | None = None


@dataclass(frozen=True)
class BandClaim:
    """What is claimed of reality, by statistics; never mixed with what is claimed of M.

    Attributes:
        probability: at least how likely each output of a new row of a new episode lies in the band.
        alpha: share of rows that may lie outside, as asked for.
        inside: share of the rows it was calibrated on that lie inside; less than asked for where probes close
            the room although reality leaves M.
        episodes: how many it was calibrated on; with few of them little can be claimed.
        missed: by output, the share of held-out rows outside; None where there are none.
        rows: rows of training and validation data, in that order, to look at.
    """

    probability: float
    alpha: float
    inside: float
    episodes: int
    missed: tuple[float, ...] | None
    rows: tuple[int, ...]


@dataclass(frozen=True)
class Recheck:
    """What fresh points, never used to build the bounds, showed.

    Attributes:
        points: how many were drawn, inside every cell.
        max_ratio: largest distance from M to the far end of the bounds, over delta.
        farthest: per output, the largest such distance.
        outside_bounds: share of points at which M itself lies outside the bounds.
    """

    points: int
    max_ratio: float
    farthest: tuple[float, ...]
    outside_bounds: float


@dataclass(frozen=True)
class Certificate:
    """The claim about one model, in numbers. :meth:`as_dict` is what ``certificate.json`` holds."""

    claim: str
    evidence: str
    certified: bool
    deltas: tuple[OutputDelta, ...]
    domain: Domain
    assumptions: tuple[str, ...]
    recheck: Recheck
    trusted_name: str
    trusted_source_sha256: str | None
    band: BandClaim | None = None
    concerns: tuple[str, ...] = ()
    """Why nobody could use it, in sentences; none: it is useful."""

    def as_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class ApproximationCost:
    """What constraining costs in accuracy, checked on held-out rows for a bare network f_θ.

    Attributes:
        epsilon: per output, the largest error of f_θ.
        alpha_diameter: per output, α max|S| of the paper's Theorem; None for a network whose
            Lipschitz constant is not known.
        paper_bound: per output, 2ε + α max|S|.
        paper_holds: share of rows and outputs that respect the paper's bound.
        sharp_holds: share that respect ``|Γ(f) - x| <= |f - x| + t``, with t the tether miss.
        tether_miss: per output, the largest distance of the truth from the bounds.
        tether_miss_share: share of rows and outputs whose truth lies outside the bounds.
    """

    epsilon: tuple[float, ...]
    alpha_diameter: tuple[float, ...] | None
    paper_bound: tuple[float, ...] | None
    paper_holds: float | None
    sharp_holds: float
    tether_miss: tuple[float, ...]
    tether_miss_share: float


@overload
def certify(
    model: ConstrainedModel,
    trusted: TrustedModel | Any,
    *,
    transitions: Transitions | None = None,
    probes: Probes | None = None,
    points_per_cell: int = 16,
    seed: int = 1,
) -> Certificate: ...


@overload
def certify(
    model: MonotoneModel,
    trusted: TrustedModel | Any,
    *,
    transitions: Transitions | None = None,
    probes: Probes | None = None,
    points_per_cell: int = 16,
    seed: int = 1,
) -> MonotoneCertificate: ...


def certify(
    model: ConstrainedModel | MonotoneModel,
    trusted: TrustedModel | Any,
    *,
    transitions: Transitions | None = None,
    probes: Probes | None = None,
    points_per_cell: int = 16,
    seed: int = 1,
) -> Certificate | MonotoneCertificate:
    """States what is guaranteed about `model`, after checking it against M at fresh points.

    Args:
        model: the model; its weights do not matter.
        trusted: M.
        transitions: held-out D, to measure coverage on; a monotone model's is always 100 %.
        probes: held-out Ω, likewise.
        points_per_cell: fresh points drawn inside each cell.
        seed: of the draw; must differ from the one the bounds were built with.

    Raises:
        CertificateError: where a fresh point contradicts a claim that is more than an estimate.
    """
    if is_monotone(model):
        points = points_per_cell * len(model.tether.cells)
        return certify_monotone(model, as_affine(trusted), points=points, seed=seed)
    if not is_constrained(model):
        raise CertificateError(
            "`model` must be a constrained model; an unconstrained one has no certificate."
        )
    trusted = as_trusted(trusted)
    check_trusted(trusted, model.cells.centers, model.schema)
    boxes = model.bounds.kind == "boxes"
    if not boxes:
        _check_same_model(model, trusted)
    fresh = recheck(model, trusted, points_per_cell=points_per_cell, seed=seed)
    evidence = model.bounds.evidence
    if evidence == "statistical":
        _draw_again(model, trusted, seed=seed)
    elif boxes:
        rederive_boxes(model, trusted)
    else:
        _rederive(model, trusted)
    if evidence in ("lipschitz", "proved") and not fresh.max_ratio <= 1:
        raise CertificateError(
            f"the claim must hold at every point; a fresh point reached {fresh.max_ratio:.6g} times delta. "
            "The trusted model or its Lipschitz constants are not those the bounds were built with."
        )
    coverage = [None if part is None else _coverage(model, part.inputs) for part in (transitions, probes)]
    held_out = None if transitions is None else transitions.inputs
    found = fresh.farthest if evidence == "sampled" else None
    deltas = output_deltas(model, found=found, held_out=held_out)
    return Certificate(
        claim=claim_of(model.bounds),
        evidence=evidence,
        certified=evidence != "sampled",
        deltas=deltas,
        domain=_domain(model, *coverage),
        assumptions=assumptions(evidence, model.schema.angles),
        recheck=fresh,
        trusted_name=trusted.name,
        trusted_source_sha256=trusted.source_digest,
        band=band_claim(model, transitions),
        concerns=concerns(model, trusted, transitions) if boxes and transitions is not None else (),
    )


def _domain(model: ConstrainedModel, coverage_D: float | None, coverage_omega: float | None) -> Domain:
    bounds, cells = model.bounds, model.cells
    if bounds.kind == "boxes":
        lower, upper, radius, share = bounds.tree.lower, bounds.tree.upper, None, known_share(bounds)
    else:
        lower, upper, share = cells.box_lower, cells.box_upper, None
        radius = float(cells.radii.min()), float(cells.radii.max())
    limits = zip(lower.tolist(), upper.tolist(), strict=True)
    box = dict(zip(model.schema.inputs, limits, strict=True))
    return Domain(radius, box, coverage_D, coverage_omega, share)


def _box_deltas(model: ConstrainedModel, held_out: Array | None) -> tuple[OutputDelta, ...]:
    """Delta of each output over the box and held-out inputs (N, D), and what of it is not room."""
    bounds, schema = model.bounds, model.schema
    assert bounds.kind == "boxes"
    spread = None if held_out is None else delta_quantiles(model, held_out)
    away = None if held_out is None else remainder_at(bounds, held_out)
    deltas = []
    for k, name in enumerate(schema.outputs):
        own = (bounds.output == k) & np.isfinite(bounds.remainder)
        worst = np.flatnonzero(own)[np.argsort(-bounds.delta[own], kind="stable")[:5]]
        beyond = None if away is None or not len(away) else float(np.quantile(away[:, k], 0.99))
        deltas.append(
            OutputDelta(
                name=name,
                unit=schema.unit(name),
                maximum=float(bounds.delta[own].max(initial=0.0)),
                median=float(np.median(bounds.delta[own])) if own.any() else 0.0,
                held_out=None if spread is None else (float(spread[0, k]), float(spread[1, k])),
                lemma=None,
                worst_cells=tuple(worst.tolist()),
                single=None,
                remainder=(float(bounds.remainder[own].max(initial=0.0)), beyond),
            )
        )
    return tuple(deltas)


def band_claim(model: ConstrainedModel, transitions: Transitions | None) -> BandClaim | None:
    """The statistical claim that a model's room came with, and how often held-out rows lie outside."""
    noted = model.record.get("band")
    if noted is None:
        return None
    missed = None
    if transitions is not None:
        found = model.predict(transitions.states, transitions.controls, details=True)
        truth = model.schema.near(transitions.next_states, 0.5 * found.lower + 0.5 * found.upper)
        missed = tuple(((truth < found.lower) | (truth > found.upper)).mean(axis=0).tolist())
    return BandClaim(missed=missed, **{**noted, "rows": tuple(noted["rows"])})


def approximation_cost(
    model: ConstrainedModel, unconstrained: Model, transitions: Transitions
) -> ApproximationCost:
    """Clips `unconstrained` to the bounds of `model` and checks both bounds on the error it then has."""
    states, controls = transitions.states, transitions.controls
    bounds = model.predict(states, controls, details=True)
    middle = 0.5 * bounds.lower + 0.5 * bounds.upper
    bare = model.schema.near(unconstrained.predict(states, controls), middle)
    truth = model.schema.near(transitions.next_states, middle)
    clipped = np.minimum(np.maximum(bare, bounds.lower), bounds.upper)
    error, bare_error = np.abs(clipped - truth), np.abs(bare - truth)
    miss = np.maximum(np.maximum(bounds.lower - truth, truth - bounds.upper), 0.0)
    rounding = 8 * np.finfo(np.float64).eps * (np.abs(truth) + np.abs(bare))
    epsilon = bare_error.max(axis=0)
    slopes = _output_slopes(unconstrained)
    reach = None if slopes is None else slopes * 2 * model.cells.radii.max()
    paper = None if reach is None else 2 * epsilon + reach
    return ApproximationCost(
        epsilon=tuple(epsilon.tolist()),
        alpha_diameter=None if reach is None else tuple(reach.tolist()),
        paper_bound=None if paper is None else tuple(paper.tolist()),
        paper_holds=None if paper is None else float((error <= paper).mean()),
        sharp_holds=float((error <= bare_error + miss + rounding).mean()),
        tether_miss=tuple(miss.max(axis=0).tolist()),
        tether_miss_share=float((miss > 0).mean()),
    )


def recheck(
    model: ConstrainedModel, trusted: TrustedModel, *, points_per_cell: int = 16, seed: int = 1
) -> Recheck:
    """M at fresh points inside every cell, against the bounds and delta there."""
    rng = np.random.default_rng([seed, 0x7E7])
    if model.bounds.kind == "boxes":
        flat = points_in_leaves(model.bounds.tree, points_per_cell, rng)
    else:
        points = CellSampler(model.cells).sample(points_per_cell, rng=rng, thin=2)
        flat = points.reshape(-1, points.shape[2])
    values = trusted.target(flat, model.schema, model.frame.target)
    limits = model.limits(flat)
    lower, upper, delta = limits.lower, limits.upper, np.where(np.isfinite(limits.delta), limits.delta, 1e300)
    farthest = model.schema.farthest(values, lower, upper)
    # Finite even where delta is zero, because JSON has no word for infinity.
    ratio = np.minimum(farthest / np.maximum(delta, np.finfo(np.float64).tiny), np.finfo(np.float64).max)
    values = model.schema.near(values, 0.5 * lower + 0.5 * upper)
    outside = ((values < lower) | (values > upper)).any(axis=1)
    return Recheck(len(flat), float(ratio.max()), tuple(farthest.max(axis=0).tolist()), float(outside.mean()))


def _check_same_model(model: ConstrainedModel, trusted: TrustedModel) -> None:
    """A claim about one M says nothing of another; M at the memories tells them apart."""
    assert model.bounds.kind != "boxes"
    now = trusted.target(model.cells.centers, model.schema, model.frame.target)
    gap = model.schema.distance(now, model.bounds.center)
    # Another machine's sine may differ in the last place, a model worth the name by more.
    tolerance = 1e-9 * (np.abs(model.bounds.center) + model.frame.outputs.scale)
    if (gap > tolerance).any():
        cell, output = np.unravel_index(int(np.argmax(gap / tolerance)), gap.shape)
        raise CertificateError(
            "`trusted` must be the model the bounds were built with; at the memory of cell "
            f"{cell} output '{model.schema.outputs[output]}' differs by {gap[cell, output]:.6g}. Fit anew."
        )


def _rederive(model: ConstrainedModel, trusted: TrustedModel) -> None:
    """Derives delta again from M; a model file that claims less than that is refused."""
    evidence, cells, schema, target = model.bounds.evidence, model.cells, model.schema, model.frame.target
    assert model.bounds.kind != "boxes"
    if evidence == "sampled":
        return
    try:
        if model.bounds.kind == "affine":
            again = expand(cells, trusted, schema, target, evidence=evidence)
            claimed = model.bounds.expansion
            # Around the claimed center and slope M is farther off by as much as they differ from M's.
            center = schema.near(claimed.center, again.center) - again.center
            shift = replace(claimed, center=center, jacobian=claimed.jacobian - again.jacobian)
            shift = shift.magnitude(cells)
            size = claimed.magnitude(cells)
            shift += output_rounding(size, cells, schema, target)
            shift += blend_rounding(size, model.bounds.blend, schema)
            # Slope and offset apart, on the same shells: then the claim dominates at every distance.
            needed = np.concatenate(
                [again.remainder.slopes, (again.remainder.offset + shift)[:, None]], axis=1
            )
            stated = np.concatenate([claimed.remainder.slopes, claimed.remainder.offset[:, None]], axis=1)
            if not np.array_equal(claimed.remainder.radii, again.remainder.radii):
                stated = np.full_like(needed, -np.inf)
        else:
            bound = lipschitz_range if evidence == "lipschitz" else proved_range
            outer = bound(cells, trusted, schema, target)
            needed = schema.capped(_gap(model.bounds, outer, schema))
            stated = model.bounds.delta
    except ValueError as error:
        raise CertificateError(f"the claim cannot be derived again: {error}") from None
    tolerance = 1e-9 * np.abs(needed)
    if needed.shape != stated.shape or not (needed <= stated + tolerance).all():
        raise CertificateError(
            "the claim must follow from the trusted model again; derived anew, delta is larger than the "
            "model file says. The file or the trusted model's constants have changed: fit anew."
        )


def _gap(bounds: IntervalBounds, outer: Range, schema: Schema) -> Array:
    """(K, P) how far outputs in the bounds can be from M in its range, of angles on the bounds' own turn."""
    still = 0.5 * bounds.lower + 0.5 * bounds.upper
    middle = outer.middle(still)
    turns = schema.near(middle, still) - middle
    return np.maximum(bounds.upper - (outer.lower + turns), outer.upper + turns - bounds.lower)


def _draw_again(model: ConstrainedModel, trusted: TrustedModel, *, seed: int) -> None:
    """As many fresh draws as the claim rests on; refused if they are incredible were it true."""
    bounds, schema = model.bounds, model.schema
    assert bounds.kind != "boxes"
    assert bounds.epsilon is not None and bounds.beta is not None
    rng = np.random.default_rng([seed, 0xCE47])
    draws, exceeded = draws_needed(bounds.epsilon, bounds.beta), 0
    for count in pieces(draws):
        inputs = draw_in_domain(model.cells, count, schema, rng)
        seen = exceedance(bounds, model.cells, trusted, schema, model.frame.target, inputs=inputs)
        exceeded += seen.exceeded
    if refuted(exceeded, draws, bounds.epsilon):
        raise CertificateError(
            f"at most a fraction {bounds.epsilon:g} of inputs must exceed delta; of {draws} fresh draws "
            f"{exceeded} did. The file or the trusted model has changed: fit anew."
        )


def claim_of(bounds: Bounds) -> str:
    """The claim in words, by the evidence it rests on."""
    if bounds.evidence != "statistical":
        return MEANING[bounds.evidence]
    epsilon, beta = bounds.epsilon, bounds.beta
    assert epsilon is not None and beta is not None
    return statistical_claim(epsilon, beta, draws_needed(epsilon, beta), draws_allowed(epsilon, beta))


def _coverage(model: ConstrainedModel, inputs: Array) -> float:
    return float(model.limits(inputs).in_domain.mean())


def output_deltas(
    model: ConstrainedModel, *, found: tuple[float, ...] | None = None, held_out: Array | None = None
) -> tuple[OutputDelta, ...]:
    """Delta of each output over cells and held-out inputs (N, D); never below what was `found` since."""
    if model.bounds.kind == "boxes":
        return _box_deltas(model, held_out)
    delta, lemma = model.bounds.delta, model.bounds.lemma
    worst = np.argsort(-delta, axis=0, kind="stable")[:5]
    single = _single_delta(model)
    spread = None if held_out is None else delta_quantiles(model, held_out)
    return tuple(
        OutputDelta(
            name=name,
            unit=model.schema.unit(name),
            maximum=max(float(delta[:, k].max()), found[k] if found else 0.0),
            median=float(np.median(delta[:, k])),
            held_out=None if spread is None else (float(spread[0, k]), float(spread[1, k])),
            lemma=None if lemma is None else float(lemma[k]),
            worst_cells=tuple(worst[:, k].tolist()),
            single=None if single is None else float(single[k]),
        )
        for k, name in enumerate(model.schema.outputs)
    )


def _single_delta(model: ConstrainedModel) -> Array | None:
    """(P,) the largest delta of the model executed in float32; None where nothing can be said."""
    # The others speak of the cells that float64 picks, and float32 may pick the other of two nearly tied.
    if model.bounds.evidence not in ("proved", "lipschitz"):
        return None
    try:
        return single_delta(model).max(axis=0)
    except ValueError:
        return None


def delta_quantiles(model: Model, inputs: Array) -> Array | None:
    """(2, P) median and 99 % quantile of delta over the inputs (N, D) in the domain; None if none is."""
    limits = model.limits(inputs)
    delta = limits.delta[limits.in_domain]
    return np.quantile(delta, [0.5, 0.99], axis=0) if len(delta) else None


def _output_slopes(model: Model) -> Array | None:
    """(P,) Lipschitz constants of the prediction per unit of scaled distance; None if not known."""
    if not isinstance(model.network, nn.Sequential):
        return None
    slope = 1.0
    for layer in model.network:
        if isinstance(layer, nn.Linear):
            slope *= float(torch.linalg.matrix_norm(layer.weight.detach().double(), 2))
        elif not isinstance(layer, nn.ReLU):
            return None
    scale, schema = model.frame.inputs.scale, model.schema
    # A plain input enters the network divided by its scale, an angle by way of its sine and cosine.
    slope *= max([1.0, *scale[schema.input_angles]])
    slopes = slope * model.frame.outputs.scale
    return (
        slopes + schema.base(scale[None, : len(schema.states)])[0]
        if model.frame.target == "increment"
        else slopes
    )
