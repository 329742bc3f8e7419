"""Verdicts of the pancreas study.

Tethered is judged by its least favourable number of memories, rivals by their most favourable one.
"""

from __future__ import annotations

from collections.abc import Sequence

from tether.fitting import MONOTONE
from tether.report.seeds import grouped, values_of
from tether.report.tables import number, percent
from tether_studies.claims import (
    VARIANTS,
    Said,
    conformance_claims,
    factor_claim,
    family,
    mean_of,
    memories_claim,
    paper_claims,
)
from tether_studies.pancreas.authors import figures_of
from tether_studies.study import Claim, Outcome

_ERROR, _OMEGA = "approximation_loss_D", "constraint_loss_omega_mean"
_RISES = {"max": "monotonicity_rise_max", "mean": "monotonicity_rise_mean"}
_NOISY = "noisy insulin"
_RIVALS = ("Vanilla", "Augmented Lagrangian", "Constrained")
_SAID = Said(mean=10.0, on_data=10.0, trend=False)
"""By an order of magnitude, on Ω and on D; of memories it shows rises only."""


def pancreas_claims(outcome: Outcome) -> list[Claim]:
    """The paper's claims, then ours."""
    return [
        *_paper(outcome),
        *_accuracy(outcome),
        *_monotonicity(outcome),
        *_monotone(outcome),
        *_certified(outcome),
    ]


def _paper(outcome: Outcome) -> list[Claim]:
    """With the authors' figures, where the data are theirs."""
    claims = paper_claims(outcome, _SAID)
    for kind, rivals in VARIANTS.items():
        names = family(outcome, kind)
        if not names:
            continue
        own = names[-1]
        begin = f"The paper, of {own}:"
        for rival in rivals:
            for called, key in (("in the mean", _RISES["mean"]), ("at most", _RISES["max"])):
                said = f"{begin} rises by a tenth of {rival} where insulin is raised, {called}"
                claims.append(_beside(outcome, said, rival, own, key, 10.0))
        if len(names) > 1:
            keys = {"largest rise": _RISES["max"], "mean rise": _RISES["mean"]}
            claims.append(memories_claim(outcome, begin, names, keys, "where insulin is raised"))
    return claims


def _accuracy(outcome: Outcome) -> list[Claim]:
    claims = [
        _against(outcome, f"Tethered's error on D is below {rival}'s", rival, "Tethered", _ERROR, 1.0)
        for rival in (*_RIVALS, *(f"{name} Δ" for name in _RIVALS), "Trusted")
    ]
    said = (
        "Tethered is 100 times closer to M on Ω (0 by construction: cells that hold a probe follow M) than "
        "Constrained, mean"
    )
    return [*claims, _against(outcome, said, "Constrained", "Tethered", _OMEGA, 100.0)]


def _monotonicity(outcome: Outcome) -> list[Claim]:
    """Like against like: with noise on insulin, and without."""
    pairs = [("Tethered", rival) for rival in _RIVALS]
    pairs += [(f"Tethered, {_NOISY}", f"{rival}, {_NOISY}") for rival in _RIVALS[:2]]
    return [
        _against(
            outcome,
            f"{own}'s {which} rise over all held-out inputs is 5 times below {rival}'s",
            rival,
            own,
            key,
            5.0,
        )
        for which, key in _RISES.items()
        for own, rival in pairs
    ]


def _monotone(outcome: Outcome) -> list[Claim]:
    """Of the monotone option, beside Tethered with as many memories."""
    name = family(outcome, MONOTONE.name)[-1]
    runs = grouped(outcome.runs)[name]
    keys = [
        key for key in runs[0] if key.startswith(("monotonicity_rise_max", "monotonicity_attack_largest"))
    ]
    worst = max(max(values_of(runs, key)) for key in keys)
    pairs, fewest = (f(values_of(runs, "monotonicity_attack_pairs")) for f in (sum, min))
    rises = sum(values_of(runs, "monotonicity_attack_rises"))
    beside = name.replace(MONOTONE.name, "Tethered")
    ours, theirs = (mean_of(outcome, method, _ERROR) for method in (name, beside))
    enough = outcome.scale == "smoke" or fewest >= 1e7
    return [
        Claim(
            f"{name} never rises: held-out pairs and attack, at least 1e7 pairs per seed at paper scale",
            f"largest rise {number(worst)} mg/dl, {rises:,.0f} of {pairs:,.0f} attacking pairs rose",
            worst == 0 and rises == 0 and enough,
        ),
        Claim(
            f"… its error on D is at most 10 % above {beside}'s",
            f"{number(ours)} against {number(theirs)}: {100 * (ours / theirs - 1):+.1f} %",
            ours <= 1.1 * theirs,
        ),
    ]


def _certified(outcome: Outcome) -> list[Claim]:
    names = [*family(outcome, "Tethered"), *family(outcome, MONOTONE.name)]
    runs = [run for name in names for run in grouped(outcome.runs)[name]]
    covered = min(values_of(runs, "coverage_D") + values_of(runs, "coverage_omega"))
    level, _, attack = conformance_claims(outcome, names)
    return [level, Claim("… cover all of held-out D and Ω", percent(covered), covered == 1), attack]


def _against(outcome: Outcome, said: str, worse: str, better: str, key: str, factor: float) -> Claim:
    """That `better` is at least `factor` times below `worse`; with the authors' figures where they compare.

    Of a method with several numbers of memories, that one which makes the claim hardest is taken.
    """
    high = min(family(outcome, worse), key=lambda name: mean_of(outcome, name, key))
    low = max(family(outcome, better), key=lambda name: mean_of(outcome, name, key))
    return _beside(outcome, said, high, low, key, factor)


def _beside(outcome: Outcome, said: str, high: str, low: str, key: str, factor: float) -> Claim:
    """A claim about two rows, with the authors' figures for them."""
    claim = factor_claim(outcome, said, high, low, key, factor)
    return Claim(said, claim.measured + _authors(outcome, (low, high), key), claim.holds)


def _authors(outcome: Outcome, names: Sequence[str], key: str) -> str:
    theirs = [figures_of(name).get(key) for name in names]
    if "traces" not in outcome.options or None in theirs:
        return ""
    return f" (the authors: {number(theirs[0])} against {number(theirs[1])})"
