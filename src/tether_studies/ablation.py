"""Which change to the paper's method gains or loses which order of magnitude.

Every combination of operator, sampling, loss, target and gas, on the study's data and, where they are given,
on the authors': the sixth factor. On the vehicle that is Ω alone; on the others all data and M go with it.
The effect of one change is the mean, over all combinations of the others, of the logarithm of the ratio.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from tether.report.page import Picture, Section
from tether.report.tables import Grid, number
from tether_studies.printed import FIXED, PaperBounds, constrained
from tether_studies.searching import narrowed
from tether_studies.study import Entry, Scale, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FACTORS: dict[str, tuple[str, str]] = {
    "operator": ("sigmoid", "clip"),
    "sampling": ("authors", "climbed"),
    "loss": ("fixed", "augmented"),
    "target": ("next_state", "increment"),
    "gas": ("at once", "growing"),
    "data": ("the authors'", "ours"),
}
"""As the authors have it, and as it is changed."""
ALL_DATA = "all data and M"
"""What changes with the last factor, where it is more than Ω."""
_LOSSES = {
    "approximation_loss_D": "error on D",
    "constraint_loss_omega_mean": "to M on Ω",
    "constraint_loss_omega_max": "worst on Ω",
}
_MEMORIES: dict[Scale, int] = {"smoke": 60, "paper": 500}
_FLOOR = 1e-30
"""Below which a logarithm says nothing."""


@dataclass(frozen=True)
class Combination:
    """Levels of the factors that a run has, but for its data."""

    operator: str
    sampling: str
    loss: str
    target: str
    gas: str

    @property
    def name(self) -> str:
        """As a run is called."""
        return ", ".join((self.operator, self.sampling, self.loss, self.target.replace("_", " "), self.gas))

    def entry(self, study: Study, scale: Scale) -> Entry:
        """The run."""
        like = next(entry for entry in study.matrix(scale) if entry.method.name == "Constrained (paper)")
        fixed = FIXED if self.loss == "fixed" else {"update_every": 100}
        target: Any = self.target
        bounds = PaperBounds(target, self.sampling, self.gas)  # type: ignore[arg-type]
        entry = replace(
            like,
            method=replace(constrained(self.name), target=target),
            memories=_MEMORIES[scale],
            changes={"target": self.target, "operator": self.operator},
            training={**like.training, **fixed},
            build=bounds,
        )
        return narrowed(study, scale, entry)


def combinations(scale: Scale) -> list[Combination]:
    """All of them; at smoke scale the authors' own, each change alone, and all changes."""
    levels = [FACTORS[name] for name in ("operator", "sampling", "loss", "target", "gas")]
    every = [Combination(*chosen) for chosen in product(*levels)]
    if scale == "paper":
        return every
    changes = {c: sum(v != pair[0] for v, pair in zip(_levels(c), levels, strict=True)) for c in every}
    return [c for c in every if changes[c] in (0, 1, len(levels))]


def _levels(combination: Combination) -> tuple[str, ...]:
    return (
        combination.operator,
        combination.sampling,
        combination.loss,
        combination.target,
        combination.gas,
    )


def ablation_entries(study: Study, scale: Scale) -> tuple[Entry, ...]:
    """A run for each combination; none of a study without the paper's method."""
    if not study.matrix(scale):
        return ()
    return tuple(combination.entry(study, scale) for combination in combinations(scale))


@dataclass(frozen=True)
class Effect:
    """What one change does.

    Attributes:
        factor: that is changed.
        orders: by loss, the mean of log10(changed / before): negative where it gains.
        least: by loss, the smallest of the logarithms.
        most: by loss, the largest.
        pairs: of runs that differ in nothing else.
    """

    factor: str
    orders: Mapping[str, float]
    least: Mapping[str, float]
    most: Mapping[str, float]
    pairs: int


Levelled = tuple[tuple[str, ...], Mapping[str, Any]]
"""Levels of all factors, and the run."""


def levelled(runs: Sequence[Mapping[str, Any]], whose: str) -> list[Levelled]:
    """Runs of one set of data with the levels of their factors."""
    names = {combination.name: _levels(combination) for combination in combinations("paper")}
    return [((*names[run["method"]], whose), run) for run in runs]


def effects(runs: Sequence[Levelled], data: str = ALL_DATA) -> list[Effect]:
    """Of every factor of which runs exist that differ in nothing else; `data`: what the last one changes."""
    found, names = dict(runs), _names(data)
    return [
        effect for effect in (_effect(found, k, names[k]) for k in range(len(names))) if effect is not None
    ]


def _names(data: str) -> list[str]:
    return [data if name == "data" else name for name in FACTORS]


def _effect(runs: Mapping[tuple[str, ...], Mapping[str, Any]], place: int, name: str) -> Effect | None:
    before, after = list(FACTORS.values())[place]
    pairs = [
        (run, runs[(*levels[:place], after, *levels[place + 1 :])])
        for levels, run in runs.items()
        if levels[place] == before and (*levels[:place], after, *levels[place + 1 :]) in runs
    ]
    if not pairs:
        return None
    ratios = {key: np.log10([max(b[key], _FLOOR) / max(a[key], _FLOOR) for a, b in pairs]) for key in _LOSSES}
    return Effect(
        f"{name}: {before} → {after}",
        {key: float(values.mean()) for key, values in ratios.items()},
        {key: float(values.min()) for key, values in ratios.items()},
        {key: float(values.max()) for key, values in ratios.items()},
        len(pairs),
    )


def ablation_section(runs: Sequence[Levelled], data: str = ALL_DATA) -> Section:
    """Effects, their figure, and every run; `data`: what changes between the authors' data and ours."""
    # Here, because drawing takes half a second to import and most runs draw nothing.
    from tether.report.figures import as_svg

    found = effects(runs, data)
    rows = tuple(
        (
            effect.factor,
            *(f"{effect.orders[k]:+.1f} ({effect.least[k]:+.1f} to {effect.most[k]:+.1f})" for k in _LOSSES),
            str(effect.pairs),
        )
        for effect in found
    )
    orders = Grid(
        "Orders of magnitude by which a change multiplies a loss: mean (least to most) over pairs of runs "
        "that differ in nothing else; below 0 is better",
        ("change", *_LOSSES.values(), "pairs"),
        rows,
    )
    widths = ("half-width of limits", "M outside")
    every = Grid(
        "Every run, held-out rows; half the width of the limits in units of each output's spread, and how "
        "often M lies outside of them on D",
        (*_names(data), *_LOSSES.values(), *widths),
        tuple((*levels, *_told(run)) for levels, run in runs),
    )
    caption = "Orders of magnitude by which a change multiplies a loss; to the left is better."
    pictures = [Picture(as_svg(effects_figure(found)), caption, "ablation")] if found else []
    return Section("Ablation of the paper's method", [], [orders, every], pictures)


def _told(run: Mapping[str, Any]) -> list[str]:
    return [number(run[key]) for key in (*_LOSSES, "limits_half_width", "limits_trusted_outside")]


def effects_figure(found: Sequence[Effect]) -> Figure:
    """A bar for every change and loss, with its range."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from tether.report.figures import styled

    with styled():
        figure = Figure(figsize=(8, 0.9 + 0.62 * len(found)), layout="constrained")
        FigureCanvasAgg(figure)
        axis = figure.subplots()
        colours = ("#E69F00", "#0072B2", "#56B4E9")
        for k, (key, title) in enumerate(_LOSSES.items()):
            places = -np.arange(len(found)) - 0.26 * (k - 1)
            means = np.array([effect.orders[key] for effect in found])
            low = means - [effect.least[key] for effect in found]
            high = [effect.most[key] for effect in found] - means
            axis.barh(places, means, height=0.24, color=colours[k], label=title)
            axis.errorbar(means, places, xerr=[low, high], fmt="none", ecolor="#333333", lw=0.7, capsize=1.5)
        axis.axvline(0.0, color="#333333", lw=0.8)
        axis.set_yticks(-np.arange(len(found)), [effect.factor for effect in found])
        axis.set(xlabel="orders of magnitude")
        figure.legend(loc="outside lower center", ncols=3)
    return figure
