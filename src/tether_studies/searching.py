"""The same search for every method: learning rates and numbers of steps, judged on validation rows alone.

With the study's own network, whose best learning rate is not that of a smaller one, and fewer steps than the
study's own, with a seed that the study's tables do not use. The error on D alone chooses, as the paper's
text and everybody's habit have it; what that costs on Ω is told beside it.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tether.report.page import Section
from tether.report.tables import Grid, number
from tether_studies.study import Entry, Scale, Study

SEED = 0
"""Of searches and ablations; tables are of seeds that chose nothing."""
RATES: dict[Scale, tuple[float, ...]] = {"smoke": (1e-3, 1e-2), "paper": (1e-3, 3e-3, 1e-2, 3e-2, 1e-1)}
"""Between 0.001 and 0.1, as in the paper."""
_WIDTHS: dict[Scale, int] = {"smoke": 32, "paper": 256}
"""Of ablations."""
_SHARE: dict[Scale, float] = {"smoke": 0.25, "paper": 0.25}
"""Of the steps of the study's own runs."""
_ERROR, _OMEGA = "validation_error", "constraint_loss_omega_mean"


def narrowed(study: Study, scale: Scale, entry: Entry) -> Entry:
    """A row with a smaller network and fewer steps, for one seed."""
    hidden = tuple(min(width, _WIDTHS[scale]) for width in study.config(scale).hidden or ())
    return replace(_shortened(entry, scale), changes={**entry.changes, "hidden": hidden})


def _shortened(entry: Entry, scale: Scale) -> Entry:
    """A row with fewer steps, for one seed."""
    return replace(entry, steps=max(50, round(_SHARE[scale] * entry.steps)), seeds=1)


def search_entries(study: Study, scale: Scale) -> tuple[Entry, ...]:
    """Every method of the matrix, with its most memories, at every rate and number of steps.

    From rows that no search has settled: a second one tries what the first tried, whatever that chose.
    """
    last = {entry.method.name: entry for entry in study.searched(scale)}
    return tuple(
        _named(_shortened(replace(entry, steps=round(share * entry.steps)), scale), rate)
        for entry in last.values()
        for share in study.shares
        for rate in RATES[scale]
    )


def _named(entry: Entry, rate: float) -> Entry:
    """A row for one rate; its name says which, and how long."""
    name = f"{entry.method.name} @ {rate:g} x {entry.steps}"
    training = {**entry.training, "learning_rate": rate}
    return replace(entry, method=replace(entry.method, name=name), training=training)


def settings_of(run: Mapping[str, Any]) -> tuple[str, float, int]:
    """Method, learning rate and steps of a run of a search."""
    method, setting = run["method"].rsplit(" @ ", 1)
    rate, steps = setting.split(" x ")
    return method, float(rate), int(steps)


def diverged(steps: int) -> dict[str, Any]:
    """What is known of a trial whose loss was no number any more: a rate too large is never chosen."""
    return {"steps": steps, "best_step": None, _ERROR: None, _OMEGA: None}


def _error_of(run: Mapping[str, Any]) -> float:
    return math.inf if run[_ERROR] is None else run[_ERROR]


def best_settings(runs: Sequence[Mapping[str, Any]]) -> dict[str, tuple[float, float]]:
    """By method, the learning rate and the share of steps with the smallest error on validation rows."""
    tried = [(*settings_of(run), _error_of(run)) for run in runs]
    most = max(steps for _, _, steps, _ in tried)
    best: dict[str, tuple[float, float, float]] = {}
    for method, rate, steps, error in tried:
        if method not in best or error < best[method][0]:
            best[method] = (error, rate, steps / most)
    return {method: (rate, share) for method, (_, rate, share) in best.items()}


def chosen_lines(study: str, runs: Sequence[Mapping[str, Any]]) -> str:
    """The lines of ``chosen.csv`` that a search comes to."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for method, (rate, share) in best_settings(runs).items():
        writer.writerow([study, method, f"{rate:g}", f"{share:.4g}"])
    return text.getvalue()


def _by_method(runs: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Trials by method, in their order."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for run in runs:
        groups.setdefault(settings_of(run)[0], []).append(run)
    return groups


def _tried(run: Mapping[str, Any], least: float, *, chosen: bool) -> tuple[str, ...]:
    """A trial as a row, beside the least error of its method."""
    method, rate, steps = settings_of(run)
    began = (method, f"{rate:g}", f"{steps:,}")
    if run[_ERROR] is None:
        return (*began, "diverged", "", "", "", "")
    beside = number(run[_ERROR] / least) if least else "-"
    step = f"{run['best_step']:,}"
    return (*began, number(run[_ERROR]), beside, number(run[_OMEGA]), step, "✓" if chosen else "")


def _trials_grid(groups: Mapping[str, Sequence[Mapping[str, Any]]]) -> Grid:
    rows = []
    for group in groups.values():
        best = min(group, key=_error_of)
        rows += [_tried(run, _error_of(best), chosen=run is best) for run in group]
    header = ("method", "learning rate", "steps", "validation error", "over the method's least", "to M on Ω",
              "best step", "chosen")  # fmt: skip
    title = (
        "Validation rows: squared error on D, in units of the outputs of that method, so that it compares "
        "within a method only; squared distance to M on Ω, physical units, which compares across methods"
    )
    return Grid(title, header, tuple(rows))


def _cost_grid(groups: Mapping[str, Sequence[Mapping[str, Any]]]) -> Grid:
    """Of each method, what was chosen beside the trial that is nearest to M on Ω."""
    rows = []
    for method, group in groups.items():
        ended = [run for run in group if run[_ERROR] is not None]
        if not ended:
            continue
        chosen, nearest = min(ended, key=_error_of), min(ended, key=lambda run: run[_OMEGA])
        more = f"{_error_of(nearest) / _error_of(chosen):.3g}" if _error_of(chosen) else "-"
        settings = [f"{rate:g}, {steps:,}" for _, rate, steps in map(settings_of, (chosen, nearest))]
        rows.append((method, settings[0], number(chosen[_OMEGA]), settings[1], number(nearest[_OMEGA]), more))
    header = ("method", "chosen: rate, steps", "its Ω", "nearest on Ω: rate, steps", "its Ω ",
              "its error over the chosen's")  # fmt: skip
    return Grid("What choosing by the error on D alone costs on Ω", header, tuple(rows))


def search_section(runs: Sequence[Mapping[str, Any]]) -> Section:
    """What was tried, what was best, and what it costs a method with two aims that one of them chooses."""
    groups = _by_method(runs)
    texts = [
        f"Seed {SEED}, which no table uses; every method has the same {len(runs) // len(groups)} trials, "
        "with the study's own network and a quarter of its steps. The error on validation rows of D alone "
        "chooses, as it chooses the weights that a run keeps.",
        "Errors are in units of each method's own outputs (next states, increments, or what the tether "
        "leaves to learn): they are not comparable from one method to another.",
        "A method that trades error on D for distance to M may be chosen far from M: the second table says "
        "how far, and what the trial nearest to M would have cost in error.",
    ]
    return Section("Search", texts, [_trials_grid(groups), _cost_grid(groups)])
