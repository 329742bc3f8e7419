"""Claims that several studies make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether.evidence import Proved
from tether.report.seeds import grouped, values_of
from tether.report.styles import kind_of
from tether.report.tables import number, percent, ratio
from tether_studies.study import Claim, Outcome


def mean_of(outcome: Outcome, name: str, key: str) -> float:
    """Mean over seeds of one method."""
    return float(np.mean(values_of(grouped(outcome.runs)[name], key)))


def shared_seeds(outcome: Outcome, names: Sequence[str]) -> set[int]:
    """Seeds that all of these methods were run with."""
    groups = grouped(outcome.runs)
    seeds = set.intersection(*({run["seed"] for run in groups[name]} for name in names))
    if not seeds:
        raise ValueError(f"methods must share a seed to be compared; {', '.join(names)} share none.")
    return seeds


def means_of(outcome: Outcome, names: Sequence[str], key: str) -> list[float]:
    """Means of several methods, over the seeds that all of them were run with."""
    seeds, groups = shared_seeds(outcome, names), grouped(outcome.runs)
    return [float(np.mean([r[key] for r in groups[name] if r["seed"] in seeds])) for name in names]


def seeds_told(outcome: Outcome, names: Sequence[str]) -> str:
    """What a verdict on these methods rests on, where it is fewer seeds than the study has; else nothing."""
    seeds = sorted(shared_seeds(outcome, names))
    if len(seeds) == len({run["seed"] for run in outcome.runs}):
        return ""
    return f" (one seed alone, {seeds[0]})" if len(seeds) == 1 else f" (seeds {', '.join(map(str, seeds))})"


def factor_claim(outcome: Outcome, said: str, worse: str, better: str, key: str, factor: float) -> Claim:
    """That one method's mean over seeds is at least `factor` times below another's."""
    groups = grouped(outcome.runs)
    high, low = means_of(outcome, (worse, better), key)
    times = "∞" if low == 0 else f"{high / low:.3g}"
    steps = groups[better][0]["steps"], groups[worse][0]["steps"]
    # Said, because a method that was given fewer steps might do better with more.
    after = "" if steps[0] == steps[1] or 0 in steps else f" (after {steps[0]:,} and {steps[1]:,} steps)"
    told = f"{low:.3g} against {high:.3g}: {times} times{after}{seeds_told(outcome, (worse, better))}"
    return Claim(said, told, low * factor <= high)


def conformance_claims(outcome: Outcome, names: Sequence[str]) -> list[Claim]:
    """That certificates are proved, cover held-out inputs and withstood the attack, in every seed."""
    runs = [run for name in names for run in grouped(outcome.runs).get(name, [])]
    levels = sorted({run["evidence_level"] for run in runs})
    covered = min(values_of(runs, "coverage_D") + values_of(runs, "coverage_omega"))
    attacked = max(values_of(runs, "attack_max_ratio"))
    tried = sum(values_of(runs, "attack_evaluations"))
    return [
        Claim("Tethered's certificates are proved", ", ".join(levels), levels == [Proved.name]),
        Claim("… cover at least 99 % of held-out D and Ω", percent(covered), covered >= 0.99),
        Claim("… withstand attack", f"{ratio(attacked)} of delta, {tried:,.0f} inputs", attacked <= 1),
    ]


@dataclass(frozen=True)
class Said:
    """What the paper says of its constrained models in one study, in numbers.

    Attributes:
        mean: by how much closer to M they are than a rival on Ω, in the mean.
        largest: likewise the largest distance; None: it says nothing.
        up_to: by how much at most, in the mean and in the largest; None: it names no such figure.
        on_data: likewise the mean on D.
        within: steps in which they learn; None: it says that of another study only, and they are asked for a
            tenth of the Lagrangian's steps, which is our figure.
        trend: whether it says of this study that more memories are better.
        leap: whether it says so of the last number of memories in particular.
    """

    mean: float
    largest: float | None = None
    up_to: float | None = None
    on_data: float | None = None
    within: int | None = None
    trend: bool = True
    leap: bool = False


ELSEWHERE = "As the paper says of"
"""How a verdict begins that asks of one study what the paper says of another: it is not counted as its."""
_TENTH, _LEAP = 10.0, 10.0


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
            (_OMEGA, said.mean, f"{_times(said.mean)}closer to M on Ω, mean"),
            (_WORST, said.largest, f"{_times(said.largest)}closer to M on Ω, worst"),
            (_OMEGA, said.up_to, f"up to {_times(said.up_to)}closer to M on Ω, mean"),
            (_WORST, said.up_to, f"up to {_times(said.up_to)}closer to M on Ω, worst"),
            (_TO_M, said.on_data, f"{_times(said.on_data)}closer to M on D, mean"),
        ):
            if factor is not None:
                claims.append(factor_claim(outcome, f"{begin} {what}, than {rival}", rival, own, key, factor))
    if len(names) > 1:
        trend = begin if said.trend else f"{ELSEWHERE} the car and the drones, of {own}:"
        claims.append(memories_claim(outcome, trend, names, {"mean": _OMEGA, "worst": _WORST}, "on Ω"))
    if said.leap and len(names) > 1:
        claims.append(_leap_claim(outcome, begin, names))
    claims.append(_steps_claim(outcome, own, rivals[1], said.within))
    return claims


_ORDERS = {
    1e3: "three orders of magnitude ",
    1e4: "four orders of magnitude ",
    1e6: "six orders of magnitude ",
}


def _times(factor: float | None) -> str:
    if factor is None or factor == 1:
        return ""
    return _ORDERS.get(factor, f"{factor:,.0f} times ")


def _similar_claim(outcome: Outcome, begin: str, own: str, rivals: Sequence[str]) -> Claim:
    error, *theirs = means_of(outcome, (own, *rivals), _ERROR)
    told = ", ".join(f"{name} {number(value)}" for name, value in zip(rivals, theirs, strict=True))
    text = f"{begin} approximation loss on D similar (at most {SIMILAR:g} times the smaller of the rivals')"
    seeds = seeds_told(outcome, (own, *rivals))
    return Claim(text, f"{number(error)}; {told}{seeds}", error <= SIMILAR * min(theirs))


def memories_claim(
    outcome: Outcome, begin: str, names: Sequence[str], keys: Mapping[str, str], where: str
) -> Claim:
    """That what is measured falls with memories, over the seeds that all were run with.

    Args:
        outcome: of the study.
        begin: whose claim it is, of which method.
        names: of its rows, ascending.
        keys: what falls, by what it is called.
        where: it is measured.
    """
    table = np.array([means_of(outcome, names, key) for key in keys.values()])
    groups = grouped(outcome.runs)
    counts = ", ".join(str(groups[name][0]["memories"]) for name in names)
    told = "; ".join(f"{kind} {', '.join(map(number, row))}" for kind, row in zip(keys, table, strict=True))
    said = f"{begin} improves with memories ({counts}) {where}, {' and '.join(keys)}"
    return Claim(said, f"{told}{seeds_told(outcome, names)}", bool((np.diff(table) < 0).all()))


def _leap_claim(outcome: Outcome, begin: str, names: Sequence[str]) -> Claim:
    """That the last number of memories is far better than the one before."""
    before, after = names[-2:]
    groups = grouped(outcome.runs)
    counts = " to ".join(str(groups[name][0]["memories"]) for name in (before, after))
    said = f"{begin} a large gain from {counts} memories on Ω, mean (at least {_LEAP:g} times)"
    return factor_claim(outcome, said, before, after, _OMEGA, _LEAP)


def reached_after(history: Sequence[Mapping[str, Any]], key: str, level: float) -> int | None:
    """The first step evaluated at which a loss is at most so high; None: never."""
    return next((line["step"] for line in history if line[key] <= level), None)


def _steps_claim(outcome: Outcome, own: str, rival: str, within: int | None) -> Claim:
    """That it takes few steps to be as near to M on validation Ω as the Lagrangian ends."""
    groups = grouped(outcome.runs)
    ends = {run["seed"]: run["history"][-1] for run in groups[rival]}
    reached = [
        (reached_after(run["history"], _OMEGA, ends[run["seed"]][_OMEGA]), ends[run["seed"]]["step"])
        for run in groups[own]
        if run["seed"] in ends
    ]
    told = ", ".join("never" if step is None else f"{step:,} of {of:,}" for step, of in reached)
    if within is None:
        begin, few = f"{ELSEWHERE} the car, of {own}:", "a tenth of its steps"
        holds = all(step is not None and _TENTH * step <= of for step, of in reached)
    else:
        begin, few = f"The paper, of {own}:", f"{within:,} steps"
        holds = all(step is not None and step <= within and step < of for step, of in reached)
    said = f"{begin} reaches where {rival} ends on Ω within {few}, every seed"
    return Claim(said, f"steps: {told}{seeds_told(outcome, (own, rival))}", holds)


def _fails_claim(outcome: Outcome, name: str) -> Claim:
    """That the Lagrangian is farther from M on D than reality is."""
    both = ("Trusted", name)
    reality, theirs = means_of(outcome, both, _ERROR)[0], means_of(outcome, both, _TO_M)[1]
    said = f"The paper: {name} fails to conform on in-distribution D (is farther from M than reality is)"
    told = f"{number(theirs)} against {number(reality)}{seeds_told(outcome, both)}"
    return Claim(said, told, theirs > reality)
