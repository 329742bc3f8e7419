"""Claims that several studies make."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tether.report.seeds import grouped, values_of
from tether.report.tables import percent, ratio
from tether_studies.study import Claim, Outcome


def mean_of(outcome: Outcome, name: str, key: str) -> float:
    """Mean over seeds of one method."""
    return float(np.mean(values_of(grouped(outcome.runs)[name], key)))


def factor_claim(outcome: Outcome, said: str, worse: str, better: str, key: str, factor: float) -> Claim:
    """That one method's mean over seeds is at least `factor` times below another's."""
    groups = grouped(outcome.runs)
    high, low = mean_of(outcome, worse, key), mean_of(outcome, better, key)
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
