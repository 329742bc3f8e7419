"""The certificate: what is claimed of a model, after checking it against M at fresh points.

Nothing here looks at how the network was trained: the claim holds for any weights.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tether.claims.claims import Band, Certificate, Conformance, Domain, OutputDelta, Recheck
from tether.claims.construction import certify_by_construction
from tether.claims.usefulness import concerns
from tether.data import Array, Probes, Transitions
from tether.evidence import Evidence, Question
from tether.evidence.distributions import Drawn
from tether.foundation.errors import CertificateError
from tether.foundation.wording import assumptions
from tether.model import Model
from tether.model.assembling import constrained_model
from tether.model.single import single_delta
from tether.tethers.calibration import exceedance, pieces
from tether.trusted import TrustedModel, as_trusted, check_trusted


def certify(
    model: Model,
    trusted: TrustedModel | Any,
    *,
    transitions: Transitions | None = None,
    probes: Probes | None = None,
    points_per_cell: int = 16,
    seed: int = 1,
    over: Any | None = None,
) -> Certificate:
    """States what is guaranteed about `model`, after checking it against M at fresh points.

    Args:
        model: the model; its weights do not matter.
        trusted: M.
        transitions: held-out D, to measure coverage on; that of a monotone or direct model is always 100 %.
        probes: held-out Ω, likewise.
        points_per_cell: fresh points drawn inside each cell or leaf.
        seed: of the draw; must differ from the one the bounds were built with.
        over: the function over whose draws a statistical claim is, where the model was read from a file.

    Raises:
        CertificateError: where a fresh point contradicts a claim that is more than an estimate.
    """
    if not model.tether.holds:
        raise CertificateError(
            "`model` must be a constrained model; one that may go any distance from the trusted model has no "
            "certificate."
        )
    if not model.tether.limited:
        points = points_per_cell * (model.tether.memories or len(model.frame.landmarks()))
        return certify_by_construction(model, trusted, points=points, seed=seed)
    trusted = as_trusted(trusted)
    check_trusted(trusted, model.cells.centers, model.schema)
    model = model if over is None else drawn_by(model, over)
    fresh = _established(model, trusted, points_per_cell, seed)
    held = _conformance(model, trusted, fresh, transitions, probes)
    band = band_claim(model, transitions)
    claims = (held,) if band is None else (held, band)
    return Certificate(claims, trusted.name, trusted.source_digest)


def drawn_by(model: Model, function: Any) -> Model:
    """The model with the function over whose draws its claim is, which its file cannot hold."""
    evidence = model.bounds.evidence
    if not isinstance(evidence.over, Drawn):
        raise ValueError(
            "`over` must come with a claim over what a function draws; this one is over other inputs. Leave "
            "it out."
        )
    bounds = replace(model.bounds, evidence=replace(evidence, over=evidence.over.given(function)))
    return constrained_model(model.network, model.frame, model.cells, bounds, operator=model.operator)


def carry_over(certificate: Certificate, model: Model, *, transitions: Transitions) -> Certificate:
    """What was certified of a tether, of a model with the same tether and other weights; M is not needed.

    Everything that follows from the tether follows again; what was measured on data is measured on the new.

    Args:
        certificate: of the model before.
        model: with its tether.
        transitions: held-out new data.
    """
    if not model.tether.limited:
        return certificate
    held, omega = certificate.conformance, certificate.domain.coverage_omega
    found = None if held.certified else held.recheck.farthest
    held = replace(
        held,
        deltas=output_deltas(model, found=found, held_out=transitions.inputs),
        domain=replace(_domain(model, transitions, None), coverage_omega=omega),
    )
    band = band_claim(model, transitions)
    return replace(certificate, claims=(held,) if band is None else (held, band))


def _established(model: Model, trusted: TrustedModel, points_per_cell: int, seed: int) -> Recheck:
    """What fresh points showed, after the claim was established again by the evidence it rests on."""
    bounds, again = model.bounds, _Again(model, trusted)
    bounds.recognise(again.question, model.cells, model.frame.outputs.scale)
    fresh = recheck(model, trusted, points_per_cell=points_per_cell, seed=seed)
    bounds.evidence.recheck(again, seed=seed)
    if bounds.evidence.everywhere and not fresh.max_ratio <= 1:
        raise CertificateError(
            f"the claim must hold at every point; a fresh point reached {fresh.max_ratio:.6g} times delta. "
            "The trusted model or its Lipschitz constants are not those the bounds were built with."
        )
    return fresh


@dataclass(frozen=True, eq=False)
class _Again:
    """A model's claim as the evidence it rests on looks at it; see :class:`tether.evidence.Claimed`."""

    model: Model
    trusted: TrustedModel

    @property
    def question(self) -> Question:
        """M over where something is claimed."""
        model, bounds = self.model, self.model.bounds
        region = bounds.region(model.cells)
        pinned = getattr(bounds, "pinned", None)
        return Question(self.trusted, model.schema, model.frame.target, region.lower, region.upper, pinned)

    def derive(self, evidence: Evidence) -> None:
        """Derives delta again from M."""
        self.model.bounds.derive_again(evidence, self.question, self.model.cells)

    def exceeded(self, draws: int, rng: np.random.Generator) -> int:
        """At how many of so many fresh draws delta is exceeded."""
        model, total = self.model, 0
        about = (model.bounds, model.cells, self.trusted, model.schema, model.frame.target)
        for count in pieces(draws):
            inputs = model.bounds.draw(model.cells, count, model.schema, rng)
            total += exceedance(*about, inputs=inputs).exceeded
        return total


def _conformance(
    model: Model,
    trusted: TrustedModel,
    fresh: Recheck,
    transitions: Transitions | None,
    probes: Probes | None,
) -> Conformance:
    evidence = model.bounds.evidence
    held_out = None if transitions is None else transitions.inputs
    found = None if evidence.certifies else fresh.farthest
    return Conformance(
        claim=evidence.claim(model.bounds.over),
        evidence=evidence.name,
        deltas=output_deltas(model, found=found, held_out=held_out),
        domain=_domain(model, transitions, probes),
        assumptions=assumptions(evidence.name, model.schema.angles),
        recheck=fresh,
        concerns=() if transitions is None else concerns(model, trusted, transitions),
        why=model.record.get("why"),
    )


def _domain(model: Model, transitions: Transitions | None, probes: Probes | None) -> Domain:
    region = model.bounds.region(model.cells)
    limits = zip(region.lower.tolist(), region.upper.tolist(), strict=True)
    box = dict(zip(model.schema.inputs, limits, strict=True))
    data, omega = (
        None if part is None else float(model.limits(part.inputs).in_domain.mean())
        for part in (transitions, probes)
    )
    return Domain(region.radius, box, data, omega, model.bounds.known_share)


def band_claim(model: Model, transitions: Transitions | None) -> Band | None:
    """The statistical claim that a model's room came with, and how often held-out rows lie outside."""
    noted = model.record.get("band")
    if noted is None:
        return None
    missed = None
    if transitions is not None:
        found = model.predict(transitions.states, transitions.controls, details=True)
        truth = model.schema.near(transitions.next_states, 0.5 * found.lower + 0.5 * found.upper)
        missed = tuple(((truth < found.lower) | (truth > found.upper)).mean(axis=0).tolist())
    return Band(missed=missed, **{**noted, "rows": tuple(noted["rows"])})


def recheck(model: Model, trusted: TrustedModel, *, points_per_cell: int = 16, seed: int = 1) -> Recheck:
    """M at fresh points inside every cell or leaf, against the bounds and delta there."""
    rng = np.random.default_rng([seed, 0x7E7])
    flat = model.bounds.points(model.cells, points_per_cell, rng)
    if not len(flat):
        raise CertificateError("the claim must be about something; over no part of the box M is known.")
    values = trusted.target(flat, model.schema, model.frame.target)
    limits = model.limits(flat)
    lower, upper, delta = limits.lower, limits.upper, np.where(np.isfinite(limits.delta), limits.delta, 1e300)
    farthest = model.schema.farthest(values, lower, upper)
    # Finite even where delta is zero, because JSON has no word for infinity.
    ratio = np.minimum(farthest / np.maximum(delta, np.finfo(np.float64).tiny), np.finfo(np.float64).max)
    values = model.schema.near(values, 0.5 * lower + 0.5 * upper)
    outside = ((values < lower) | (values > upper)).any(axis=1)
    return Recheck(len(flat), float(ratio.max()), tuple(farthest.max(axis=0).tolist()), float(outside.mean()))


def output_deltas(
    model: Model, *, found: tuple[float, ...] | None = None, held_out: Array | None = None
) -> tuple[OutputDelta, ...]:
    """Delta of each output over cells or leaves and held-out inputs (N, D); never below what was `found`."""
    bounds, schema = model.bounds, model.schema
    lemma, single = bounds.lemma, _single_delta(model)
    spread = None if held_out is None else delta_quantiles(model, held_out)
    away = None if held_out is None else bounds.remainder_at(held_out)
    deltas = []
    for k, (places, delta) in enumerate(bounds.by_output()):
        worst = places[np.argsort(-delta, kind="stable")[:5]]
        remainder = bounds.remainder_of(k)
        beyond = None if away is None or not len(away) else float(np.quantile(away[:, k], 0.99))
        deltas.append(
            OutputDelta(
                name=schema.outputs[k],
                unit=schema.unit(schema.outputs[k]),
                maximum=max(float(delta.max(initial=0.0)), found[k] if found else 0.0),
                median=float(np.median(delta)) if len(delta) else 0.0,
                held_out=None if spread is None else (float(spread[0, k]), float(spread[1, k])),
                lemma=None if lemma is None else float(lemma[k]),
                worst_cells=tuple(worst.tolist()),
                single=None if single is None else float(single[k]),
                remainder=None if remainder is None else (remainder, beyond),
            )
        )
    return tuple(deltas)


def _single_delta(model: Model) -> Array | None:
    """(P,) the largest delta of the model executed in float32; None where nothing can be said."""
    # The others speak of the cells that float64 picks, and float32 may pick the other of two nearly tied.
    if not model.bounds.evidence.everywhere:
        return None
    try:
        return single_delta(model)
    except ValueError:
        return None


def delta_quantiles(model: Model, inputs: Array) -> Array | None:
    """(2, P) median and 99 % quantile of delta over the inputs (N, D) in the domain; None if none is."""
    limits = model.limits(inputs)
    delta = limits.delta[limits.in_domain]
    return np.quantile(delta, [0.5, 0.99], axis=0) if len(delta) else None
