"""What can be claimed of a model, each claim with its numbers, evidence and assumptions; and all together.

Claims are never mixed: what holds of the model and M, what holds of the model alone, what reality does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, TypeVar

from tether.evidence import as_evidence
from tether.foundation.shown import Facts, Shown, measured


@dataclass(frozen=True)
class OutputDelta:
    """Distance to the trusted model for one output, in its physical unit.

    Attributes:
        name: of the output.
        unit: of the output.
        maximum: over cells or leaves.
        median: over cells or leaves.
        held_out: median and 99 % quantile over held-out inputs in the domain, each with the delta at that
            very input; None where no held-out inputs were given.
        lemma: Lemma 4's bound (constant times diameter), None where no constant is known.
        worst_cells: the cells or leaves with the largest delta, worst first.
        single: over cells, of the model executed in float32 (:func:`tether.single_precision`); None where
            float32 is too coarse for its domain, or delta not known over whole coverage balls.
        remainder: with first-order models over boxes, what of delta is not room: largest over the box, and
            99 % quantile over held-out inputs.
    """

    name: str
    unit: str
    maximum: float
    median: float
    held_out: tuple[float, float] | None = None
    lemma: float | None = None
    worst_cells: tuple[int, ...] = ()
    single: float | None = None
    remainder: tuple[float, float | None] | None = None


@dataclass(frozen=True)
class Domain:
    """Where the claim holds: within its cell's radius (scaled) of the nearest memory and inside the box.

    Attributes:
        radius: smallest and largest over cells; None: anywhere in the box.
        box: limits by input; an input that is not named has none.
        coverage_D: share of held-out D in the domain.
        coverage_omega: likewise of Ω.
        coverage_box: least share of the box by volume; 1 but for regions over which nothing is known of M.
    """

    radius: tuple[float, float] | None
    box: dict[str, tuple[float, float]]
    coverage_D: float | None
    coverage_omega: float | None
    coverage_box: float | None = None


@dataclass(frozen=True)
class Recheck:
    """What fresh points, never used to build the bounds, showed.

    Attributes:
        points: how many were drawn, inside every cell or leaf.
        max_ratio: largest distance from M to the far end of the bounds, over delta.
        farthest: per output, the largest such distance.
        outside_bounds: share of points at which M itself lies outside the bounds.
    """

    points: int
    max_ratio: float
    farthest: tuple[float, ...]
    outside_bounds: float


@dataclass(frozen=True)
class Conformance:
    """The model stays within delta of M, for any weights.

    Attributes:
        claim: in words.
        evidence: name of the level it rests on.
        deltas: by output.
        domain: where it holds.
        assumptions: what it rests on besides, in sentences.
        recheck: what fresh points showed.
        concerns: why nobody could use it, in sentences; none: it is useful.
        why: in a line, why nothing stronger could be had of M; None: a level was asked for, or it is the
            strongest.
    """

    claim: str
    evidence: str
    deltas: tuple[OutputDelta, ...]
    domain: Domain
    assumptions: tuple[str, ...]
    recheck: Recheck
    concerns: tuple[str, ...] = ()
    why: str | None = None

    @property
    def by_output(self) -> dict[str, dict[str, float]]:
        """Worst and median delta by name, as ``results.json`` has them."""
        return {delta.name: {"max": delta.maximum, "median": delta.median} for delta in self.deltas}

    @property
    def certified(self) -> bool:
        """Whether anything is claimed, or only estimated."""
        level = as_evidence(self.evidence)
        return level is not None and level.certifies


@dataclass(frozen=True)
class Monotonicity:
    """No prediction rises in declared inputs, for any weights.

    Attributes:
        claim: in words.
        declared: names of these inputs.
        assumptions: what it rests on, in sentences.
    """

    claim: str
    declared: tuple[str, ...]
    assumptions: tuple[str, ...]
    certified = True


@dataclass(frozen=True)
class Band:
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
    certified = True


Claim = Conformance | Monotonicity | Band
_Kind = TypeVar("_Kind", Conformance, Monotonicity, Band)


@dataclass(frozen=True, repr=False)
class Certificate(Shown):
    """Everything that is claimed of one model. :meth:`as_dict` is what ``certificate.json`` holds.

    Attributes:
        claims: the model's distance to M first.
        trusted_name: of M.
        trusted_source_sha256: of its source, where Python can show it.
    """

    claims: tuple[Claim, ...]
    trusted_name: str
    trusted_source_sha256: str | None

    @property
    def certified(self) -> bool:
        """Whether each of them is a claim, and none an estimate."""
        return all(claim.certified for claim in self.claims)

    @property
    def conformance(self) -> Conformance:
        """The model stays within delta of M."""
        found = self._first(Conformance)
        assert found is not None
        return found

    @property
    def monotonicity(self) -> Monotonicity | None:
        """No prediction rises in declared inputs."""
        return self._first(Monotonicity)

    @property
    def band(self) -> Band | None:
        """Reality lies in the band."""
        return self._first(Band)

    @property
    def evidence(self) -> str:
        """What the distance to M rests on."""
        return self.conformance.evidence

    @property
    def claim(self) -> str:
        """What is claimed of the distance to M, in words."""
        return self.conformance.claim

    @property
    def deltas(self) -> tuple[OutputDelta, ...]:
        """That distance, by output."""
        return self.conformance.deltas

    @property
    def domain(self) -> Domain:
        """Where it holds."""
        return self.conformance.domain

    @property
    def concerns(self) -> tuple[str, ...]:
        """Why nobody could use it, in sentences."""
        return self.conformance.concerns

    def facts(self) -> tuple[str, Facts]:
        """What it comes to; :meth:`as_dict` has everything."""
        units = {delta.name: delta.unit for delta in self.deltas}
        held = {delta.name: delta.held_out[0] for delta in self.deltas if delta.held_out}
        domain = self.domain
        facts = {
            "evidence": self.evidence,
            "delta, worst": measured({delta.name: delta.maximum for delta in self.deltas}, units),
            "delta, median": measured(held, units) + " (held-out data)" if held else "",
            "claim": self.claim,
            "domain": _box(domain.box) or "every finite input",
            "why not more": self.conformance.why or "",
            "of little use": "; ".join(self.concerns),
        }
        word = "Certificate" if self.certified else "No certificate, an estimate"
        return f"{word}: distance to {self.trusted_name}", {
            name: fact for name, fact in facts.items() if fact
        }

    def covering(self, **coverage: float | None) -> Certificate:
        """With shares of the domain that were measured elsewhere."""
        held = self.conformance
        held = replace(held, domain=replace(held.domain, **coverage))
        others = tuple(claim for claim in self.claims if claim is not self.conformance)
        return replace(self, claims=(held, *others))

    def as_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON; the conformance claim's beside what is said of all."""
        monotonicity, band = self.monotonicity, self.band
        return {
            **asdict(self.conformance),
            "certified": self.certified,
            "trusted_name": self.trusted_name,
            "trusted_source_sha256": self.trusted_source_sha256,
            "monotonicity": None if monotonicity is None else asdict(monotonicity),
            "band": None if band is None else asdict(band),
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Certificate:
        """What :meth:`as_dict` wrote; what older ones do not say is left at its default."""
        parts = {
            "deltas": tuple(_made(OutputDelta, delta) for delta in content["deltas"]),
            "domain": _made(Domain, content["domain"]),
            "recheck": _made(Recheck, content["recheck"]),
            "assumptions": tuple(content["assumptions"]),
            "concerns": tuple(content.get("concerns", ())),
        }
        claims = [_made(Conformance, {**content, **parts})]
        for name, kind in (("monotonicity", Monotonicity), ("band", Band)):
            if content.get(name):
                claims.append(_made(kind, content[name]))
        return cls(tuple(claims), content["trusted_name"], content["trusted_source_sha256"])

    def _first(self, kind: type[_Kind]) -> _Kind | None:
        return next((claim for claim in self.claims if isinstance(claim, kind)), None)


def _box(limits: Mapping[str, tuple[float, float]]) -> str:
    return ", ".join(f"{name} {low:.3g} to {high:.3g}" for name, (low, high) in limits.items())


def _made(kind: Any, content: Mapping[str, Any]) -> Any:
    """A dataclass from a table that may hold what a newer version added, or lack what has a default."""
    return kind(**{field.name: content[field.name] for field in fields(kind) if field.name in content})
