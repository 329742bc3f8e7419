"""The study's own sections of its report: trusted model, monotonicity, clinical view, authors' figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tether.data import Array
from tether.fitting import MONOTONE
from tether.report.page import Picture, Section
from tether.report.seeds import grouped, values_of
from tether.report.tables import Grid, number, percent
from tether_studies.matrix import CONSTRAINED_PAPER, CONSTRAINED_PAPER_LAGRANGIAN
from tether_studies.pancreas.armax import Armax, ArmaxFit
from tether_studies.pancreas.authors import figures_of
from tether_studies.pancreas.clinical import ZONES, time_in_range
from tether_studies.pancreas.data import glucose_schema
from tether_studies.pancreas.monotonicity import WORST
from tether_studies.pancreas.simulator import SAMPLE_MINUTES
from tether_studies.shown import SHOWN, one_of_each
from tether_studies.study import Outcome

_TRACE_MINUTES = 1
"""A column of the authors' traces is a minute."""
_SIGMOID = {CONSTRAINED_PAPER.name, CONSTRAINED_PAPER_LAGRANGIAN.name}
_RARELY = 0.01
"""Share of predictions that limits stop, below which they hardly act."""


def pancreas_sections(outcome: Outcome) -> list[Section]:
    """All of them; figures show the first seed."""
    seed = min(seed for _, seed in outcome.arrays)
    shown = {name: arrays for (name, own), arrays in outcome.arrays.items() if own == seed}
    few = {name: shown[name] for name in one_of_each(shown, (*SHOWN, MONOTONE.name))}
    sections = [_armax(outcome, shown, seed), _monotonicity(outcome, list(few)), _clinical(outcome, few)]
    return [*sections, _authors(outcome)] if "traces" in outcome.options else sections


def _armax(outcome: Outcome, shown: Mapping[str, Mapping[str, Array]], seed: int) -> Section:
    from tether.report.figures import as_svg
    from tether_studies.pancreas.figures import armax_figure

    title = "The trusted model"
    if "Trusted" not in shown:
        return Section(title)
    arrays = shown["Trusted"]
    run = next(run for run in outcome.runs if run["method"] == "Trusted" and run["seed"] == seed)
    schema = glucose_schema(insulin="mode", meal="") if "traces" in outcome.options else glucose_schema()
    weights = arrays["armax_weights"]
    model = Armax(weights, float(arrays["armax_intercept"]), len(schema.states))
    fit = ArmaxFit(
        model, run["armax_error"], run["armax_unconstrained_error"], 0.0, arrays["armax_held"].astype(bool)
    )
    text = (
        "ARMAX: an affine function of the 31 inputs, the exact least-squares solution on the training part "
        f"of D with insulin weights of at most 0. Error there {number(fit.error)} (mg/dl)², without the "
        f"constraint {number(fit.unconstrained_error)}; {int(fit.held.sum())} of 11 insulin weights are held "
        "at 0."
    )
    caption = "What one unit more of each input does to predicted glucose, by signal and lag."
    return Section(title, [text], pictures=[Picture(as_svg(armax_figure(fit, schema)), caption, "armax")])


def _monotonicity(outcome: Outcome, few: Sequence[str]) -> Section:
    from tether.report.figures import as_svg
    from tether_studies.pancreas.figures import rises_figure

    keys = {
        "all: max": "monotonicity_rise_max",
        "mean": "monotonicity_rise_mean",
        "rose": "monotonicity_violations",
        "every lag: max": "monotonicity_rise_max_every_lag",
        "mean ": "monotonicity_rise_mean_every_lag",
        "rose ": "monotonicity_violations_every_lag",
        f"worst {WORST}: max": f"monotonicity_rise_max_worst_{WORST}",
        "mean  ": f"monotonicity_rise_mean_worst_{WORST}",
        "rose  ": f"monotonicity_violations_worst_{WORST}",
    }
    groups = grouped(outcome.runs)
    rows = [
        (name, *(_cell(key, values_of(group, key)) for key in keys.values()))
        for name, group in groups.items()
    ]
    grid = Grid(
        "Rise of predicted glucose [mg/dl] where insulin is raised by 0.6 to 1.0 of its unit, all else "
        "equal; means over seeds",
        ("method", *keys),
        tuple(rows),
    )
    rises = {
        name: (
            float(np.mean(values_of(groups[name], "monotonicity_rise_max"))),
            float(np.mean(values_of(groups[name], "monotonicity_rise_mean"))),
        )
        for name in few
    }
    texts = [
        "“all”: a random one of the ten past insulin values is raised in every held-out input. “every lag”: "
        "each of the eleven insulin inputs in turn. “worst 100”: as “all”, on the inputs that the method "
        "predicts worst. “rose”: share of pairs in which the prediction rose at all.",
        *_attack_lines(outcome.runs),
        *limits_lines(groups),
    ]
    caption = "Rises over all held-out inputs, mean over seeds. Insulin lowers glucose: they should be 0."
    return Section(
        "Delta-monotonicity", texts, [grid], [Picture(as_svg(rises_figure(rises)), caption, "rises")]
    )


def _cell(key: str, values: Sequence[float]) -> str:
    if not values:
        return "-"
    mean = float(np.mean(values))
    return percent(mean) if "violations" in key and mean > 0 else number(mean)


def _attack_lines(runs: Sequence[dict[str, Any]]) -> list[str]:
    attacked = [run for run in runs if "monotonicity_attack_pairs" in run]
    if not attacked:
        return []
    pairs = sum(run["monotonicity_attack_pairs"] for run in attacked)
    rises = sum(run["monotonicity_attack_rises"] for run in attacked)
    return [
        f"Attack on {MONOTONE.name}: {pairs:,} pairs, near data and far from them, insulin raised by "
        f"anything from one unit in the last place to ten times its scale; {rises:,} rose."
    ]


def limits_lines(groups: Mapping[str, Sequence[dict[str, Any]]]) -> list[str]:
    """Why Constrained is no better than its loss: how often limits act."""
    rarely, often, everywhere = [], [], []
    for name, group in groups.items():
        reached = values_of(group, "limits_reached_D")
        if not reached or not name.startswith("Constrained"):
            continue
        share = float(np.mean(reached))
        if group[0]["method"] in _SIGMOID:
            everywhere.append(name)
        else:
            (rarely if share < _RARELY else often).append(f"{name} {percent(share)}")
    told = {
        "Over a cell in 31 dimensions M ranges widely; where constant limits hardly act, Constrained learns "
        "what Augmented Lagrangian learns. Held-out predictions that limits stop: ": rarely,
        "Where limits are narrower they act. Held-out predictions that they stop: ": often,
        "A sigmoid puts every prediction between its limits, which act on all of them: ": everywhere,
    }
    return [f"{text}{', '.join(names)}." for text, names in told.items() if names]


def _clinical(outcome: Outcome, few: Mapping[str, Mapping[str, Array]]) -> Section:
    from tether.report.figures import as_svg
    from tether_studies.pancreas.figures import error_grid_figure

    first = next(iter(few.values()))
    columns = [*(f"zone_{zone}" for zone in ZONES), "time_below", "time_in_range", "time_above"]
    observed = time_in_range(first["observed"])
    rows = [
        ("Observed (first seed)", *("-" for _ in ZONES), *(percent(share) for share in observed.values()))
    ]
    for name, group in grouped(outcome.runs).items():
        rows.append((name, *(percent(float(np.mean(values_of(group, key)))) for key in columns)))
    grid = Grid(
        "Clarke error grid and time in range (70 to 180 mg/dl) of what each method predicts; means of seeds",
        ("method", *(f"zone {zone}" for zone in ZONES), "below", "in range", "above"),
        tuple(rows),
    )
    caption = "Clarke error grid: A is clinically accurate, B benign, C to E are errors that harm."
    figure = error_grid_figure(first["observed"], {n: a["predicted"] for n, a in few.items()})
    pictures = [Picture(as_svg(figure), caption, "error_grid"), *_days(outcome, few)]
    return Section("Clinical view", grids=[grid], pictures=pictures)


def _days(outcome: Outcome, few: Mapping[str, Mapping[str, Array]]) -> list[Picture]:
    from tether.report.figures import as_svg
    from tether_studies.pancreas.figures import PatientDay, patient_day_figure

    traces = "traces" in outcome.options
    fields = ("observed", "predicted", "lower", "upper", "trusted", "insulin", "meal")
    name = "the traces' patient" if traces else outcome.options.get("patient", "adult#001")
    pictures = []
    for method, arrays in few.items():
        if method.startswith("Tethered"):
            day = PatientDay(*(arrays[f"day_{field}"] for field in fields))
            figure = patient_day_figure(
                day,
                name=f"{name}, {method}",
                minutes=_TRACE_MINUTES if traces else SAMPLE_MINUTES,
                units=("mode", "") if traces else ("U", "g"),
            )
            slug = "patient_day_monotone" if method.startswith(MONOTONE.name) else "patient_day"
            caption = (
                f"A held-out day as {method} predicts it, and the band that no weights of its network could "
                "leave. Where the band has no width, M is followed exactly."
            )
            pictures.append(Picture(as_svg(figure), caption, slug))
    return pictures


def _authors(outcome: Outcome) -> Section:
    """Ours beside what the authors' published logs and table say."""
    keys = {
        "approximation_loss_D": "error on D",
        "constraint_loss_omega_mean": "to M on Ω",
        "constraint_loss_omega_max": "worst on Ω",
        "monotonicity_rise_max": "largest rise",
        "monotonicity_rise_mean": "mean rise",
    }
    groups = grouped(outcome.runs)
    rows = []
    for name, group in groups.items():
        ours = [number(float(np.mean(values_of(group, key)))) for key in keys]
        theirs = [number(figures_of(name).get(key)) for key in keys]
        rows.append((name, *(f"{a} ({b})" for a, b in zip(ours, theirs, strict=True))))
    grid = Grid("Ours (the authors')", ("method", *keys.values()), tuple(tuple(row) for row in rows))
    text = (
        "The authors' figures are the last lines of their published logs, mean over seeds, and their table "
        "of rises. Their M was fitted 36 times worse, and their rises were measured on the 100 easiest "
        "points; ours are over all held-out points."
    )
    return Section("Beside the authors' figures", [text], [grid])
