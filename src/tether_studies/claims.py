"""Claims that several studies make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether.report.seeds import grouped, values_of
from tether.report.styles import kind_of
from tether.report.tables import number, percent, ratio
from tether_studies.study import Claim, Outcome


def mean_of(outcome: Outcome, name: str, key: str) -> float:
    """Mean over seeds of one method."""
    return float(np.mean(values_of(grouped(outcome.runs)[name], key)))


def means_of(outcome: Outcome, names: Sequence[str], key: str) -> list[float]:
    """Means of several methods, over the seeds that all of them were run with."""
    groups = grouped(outcome.runs)
    seeds = set.intersection(*({run["seed"] for run in groups[name]} for name in names))
    if not seeds:
        raise ValueError(f"methods must share a seed to be compared; {', '.join(names)} share none.")
    return [float(np.mean([r[key] for r in groups[name] if r["seed"] in seeds])) for name in names]


def factor_claim(outcome: Outcome, said: str, worse: str, better: str, key: str, factor: float) -> Claim:
    """That one method's mean over seeds is at least `factor` times below another's."""
    groups = grouped(outcome.runs)
    high, low = means_of(outcome, (worse, better), key)
    times = "∞" if low == 0 else f"{high / low:.3g}"
    steps = groups[better][0]["steps"], groups[worse][0]["steps"]
    # Said, because a method that was given fewer steps might do better with more.
    after = "" if steps[0] == steps[1] or 0 in steps else f" (after {steps[0]:,} and {steps[1]:,} steps)"
    return Claim(said, f"{low:.3g} against {high:.3g}: {times} times{after}", low * factor <= high)


def conformance_claims(outcome: Outcome, names: Sequence[str]) -> list[Claim]:
    """That certificates are proved, cover held-out inputs and withstood the attack, in every seed."""
    runs = [run for name in names for run in grouped(outcome.runs).get(name, [])]
    levels = sorted({run["evidence_level"] for run in runs})
    covered = min(values_of(runs, "coverage_D") + values_of(runs, "coverage_omega"))
    attacked = max(values_of(runs, "attack_max_ratio"))
    tried = sum(values_of(runs, "attack_evaluations"))
    return [
        Claim("Tethered's certificates are proved", ", ".join(levels), levels == ["proved"]),
        Claim("… cover at least 99 % of held-out D and Ω", percent(covered), covered >= 0.99),
        Claim("… withstand attack", f"{ratio(attacked)} of delta, {tried:,.0f} inputs", attacked <= 1),
    ]


@dataclass(frozen=True)
class Said:
    """What the paper says of its constrained models in one study, in numbers.

    Attributes:
        mean: by how much closer to M they are than a rival on Ω, in the mean.
        largest: likewise the largest distance; None: it says nothing.
        on_data: likewise the mean on D.
        fewer_steps: how many times fewer steps they need than the Lagrangian.
    """

    mean: float
    largest: float | None = None
    on_data: float | None = None
    fewer_steps: float = 10.0


BY_CONSTRUCTION = " (0 by construction where all probes agree: there it follows M)"
"""Said where that number stands."""
SIMILAR = 2.0
"""Errors are similar up to this factor."""
VARIANTS: dict[str, tuple[str, str]] = {
    "Constrained (paper)": ("Vanilla", "Lagrangian (paper)"),
    "Constrained (paper, AL)": ("Vanilla", "Augmented Lagrangian"),
    "Constrained (paper, clip)": ("Vanilla", "Augmented Lagrangian"),
    "Constrained": ("Vanilla", "Augmented Lagrangian"),
    "Constrained Δ": ("Vanilla Δ", "Augmented Lagrangian Δ"),
}
"""Constrained as the paper states it, and as it is changed; its rivals are the same but for its limits."""
_ERROR, _TO_M, _OMEGA, _WORST = (
    "approximation_loss_D",
    "constraint_loss_D_mean",
    "constraint_loss_omega_mean",
    "constraint_loss_omega_max",
)


def family(outcome: Outcome, kind: str) -> list[str]:
    """A method's rows, one for each number of memories, ascending."""
    return [name for name in grouped(outcome.runs) if kind_of(name) == kind]


def paper_claims(outcome: Outcome, said: Said) -> list[Claim]:
    """Everything that the paper claims in every study, of its method as it states it and of each variant."""
    claims = []
    for kind, (vanilla, lagrangian) in VARIANTS.items():
        if family(outcome, kind) and {vanilla, lagrangian} <= set(grouped(outcome.runs)):
            claims += _of_variant(outcome, said, kind, (vanilla, lagrangian))
    lagrangians = dict.fromkeys(rivals[1] for rivals in VARIANTS.values())
    return claims + [_fails_claim(outcome, name) for name in lagrangians if name in grouped(outcome.runs)]


def _of_variant(outcome: Outcome, said: Said, kind: str, rivals: tuple[str, str]) -> list[Claim]:
    names = family(outcome, kind)
    own = names[-1]
    begin = f"The paper, of {own}:"
    claims = [_similar_claim(outcome, begin, own, rivals)]
    for rival in rivals:
        for key, factor, what in (
            (_OMEGA, said.mean, "closer to M on Ω, mean"),
            (_WORST, said.largest, "closer to M on Ω, worst"),
            (_TO_M, said.on_data, "closer to M on D, mean"),
        ):
            if factor is not None:
                text = f"{begin} {_times(factor)}{what}, than {rival}"
                claims.append(factor_claim(outcome, text, rival, own, key, factor))
    if len(names) > 1:
        claims.append(_memories_claim(outcome, begin, names))
    claims.append(_steps_claim(outcome, begin, own, rivals[1], said.fewer_steps))
    return claims


def _times(factor: float) -> str:
    return "" if factor == 1 else f"{factor:,.0f} times "


def _similar_claim(outcome: Outcome, begin: str, own: str, rivals: Sequence[str]) -> Claim:
    error, *theirs = means_of(outcome, (own, *rivals), _ERROR)
    told = ", ".join(f"{name} {number(value)}" for name, value in zip(rivals, theirs, strict=True))
    text = f"{begin} approximation loss on D similar (at most {SIMILAR:g} times the smaller of the rivals')"
    return Claim(text, f"{number(error)}; {told}", error <= SIMILAR * min(theirs))


def _memories_claim(outcome: Outcome, begin: str, names: Sequence[str]) -> Claim:
    """That mean and worst distance on Ω fall with memories, over the seeds that all were run with."""
    groups = grouped(outcome.runs)
    seeds = set.intersection(*({run["seed"] for run in groups[name]} for name in names))
    table = np.array(
        [
            [np.mean([run[key] for run in groups[name] if run["seed"] in seeds]) for name in names]
            for key in (_OMEGA, _WORST)
        ]
    )
    counts = ", ".join(str(groups[name][0]["memories"]) for name in names)
    told = "; ".join(
        f"{kind} {', '.join(map(number, row))}" for kind, row in zip(("mean", "worst"), table, strict=True)
    )
    said = f"{begin} improves with memories ({counts}) on Ω, mean and worst"
    return Claim(
        said, f"{told} (seeds {', '.join(map(str, sorted(seeds)))})", bool((np.diff(table) < 0).all())
    )


def reached_after(history: Sequence[Mapping[str, Any]], key: str, level: float) -> int | None:
    """The first step evaluated at which a loss is at most so high; None: never."""
    return next((line["step"] for line in history if line[key] <= level), None)


def _steps_claim(outcome: Outcome, begin: str, own: str, rival: str, fewer: float) -> Claim:
    """That it takes so many times fewer steps to be as near to M on validation Ω as the Lagrangian ends."""
    groups = grouped(outcome.runs)
    ends = {run["seed"]: run["history"][-1] for run in groups[rival]}
    reached = [
        (reached_after(run["history"], _OMEGA, ends[run["seed"]][_OMEGA]), ends[run["seed"]]["step"])
        for run in groups[own]
        if run["seed"] in ends
    ]
    told = ", ".join("never" if step is None else f"{step:,} of {of:,}" for step, of in reached)
    holds = all(step is not None and fewer * step <= of for step, of in reached)
    said = f"{begin} reaches where {rival} ends on Ω in {fewer:g} times fewer steps, every seed"
    return Claim(said, f"steps: {told}", holds)


def _fails_claim(outcome: Outcome, name: str) -> Claim:
    """That the Lagrangian is farther from M on D than reality is."""
    reality, theirs = mean_of(outcome, "Trusted", _ERROR), mean_of(outcome, name, _TO_M)
    said = f"The paper: {name} fails to conform on in-distribution D (is farther from M than reality is)"
    return Claim(said, f"{number(theirs)} against {number(reality)}", theirs > reality)
