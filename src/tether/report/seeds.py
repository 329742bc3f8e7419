"""Runs of several seeds together: tables of what was measured and certified."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tether.report.tables import Grid, number, percent, ratio, run_name

LOSSES = {
    "approximation_loss_D": "error on D",
    "constraint_loss_D_mean": "to M on D",
    "constraint_loss_omega_mean": "to M on Ω",
    "constraint_loss_omega_max": "worst on Ω",
}


def grouped(runs: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Runs by name of the method, seeds together, in the order of the runs."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        groups.setdefault(run_name(run), []).append(run)
    return groups


def values_of(runs: Iterable[dict[str, Any]], key: str) -> list[float]:
    """What was measured over seeds."""
    return [run[key] for run in runs if run.get(key) is not None]


def has_cells(run: Mapping[str, Any]) -> bool:
    """Whether a run's model has cells, so that something is certified, or at least estimated, of it."""
    return "coverage_D" in run and "delta_certified" in run


def seeds_grid(runs: Sequence[dict[str, Any]], extra: Mapping[str, str]) -> Grid:
    """Mean over seeds, and its interval where there are several; one row per method.

    How many seeds each row has is a column where they are not equally many.
    """
    columns = {**LOSSES, **extra}
    groups = grouped(runs)
    counts = {name: len({run.get("seed") for run in group}) for name, group in groups.items()}
    told = ("seeds",) if len(set(counts.values())) > 1 else ()
    rows = [
        (name, *(str(counts[name]) for _ in told), *(_spread(values_of(group, key)) for key in columns))
        for name, group in groups.items()
    ]
    over = ", mean ± half of its 95 % interval over seeds" if max(counts.values(), default=1) > 1 else ""
    alone = " (rows of one seed have none)" if told and 1 in counts.values() else ""
    title = (
        f"Held-out data{over}{alone}; squared errors and squared distances to the trusted model M, physical "
        "units"
    )
    return Grid(title, ("method", *told, *columns.values()), tuple(rows))


def _spread(values: Sequence[float]) -> str:
    if not values:
        return "-"
    middle = number(float(np.mean(values)))
    return middle if len(values) < 2 else f"{middle} ± {number(interval_of(values))}"


def interval_of(values: Sequence[float]) -> float:
    """Half the width of Student's 95 % interval of a mean of two values or more."""
    quantile = _STUDENT[min(len(values) - 1, len(_STUDENT)) - 1]
    return quantile * float(np.std(values, ddof=1)) / float(np.sqrt(len(values)))


_STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
"""Quantiles for one to ten degrees of freedom; that of ten, which is too wide, for more."""


def certificates_grid(runs: Sequence[dict[str, Any]]) -> Grid:
    """What is certified of each method with cells: the worst over seeds."""
    rows = []
    for name, group in grouped(runs).items():
        held = [run for run in group if has_cells(run)]
        if held:
            tried, found = sum(values_of(held, "attack_evaluations")), values_of(held, "attack_max_ratio")
            rows.append(
                (
                    name,
                    held[0]["evidence_level"],
                    percent(min(values_of(held, "coverage_D"))),
                    percent(min(values_of(held, "coverage_omega"))),
                    ratio(max(found)) if found else "-",
                    f"{tried:,.0f}" if tried else "-",
                )
            )
    header = ("method", "evidence", "coverage D", "coverage Ω", "attack / delta", "inputs tried")
    several = any(len(group) > 1 for group in grouped(runs).values())
    title = "Certificates, worst of all seeds of the row" if several else "Certificates"
    return Grid(title, header, tuple(rows))


def deltas_grid(runs: Sequence[dict[str, Any]], units: Mapping[str, str]) -> Grid:
    """Certified delta of each output by method: worst cell, and the median held-out input, worst seed."""
    held = {n: [r for r in g if has_cells(r)] for n, g in grouped(runs).items()}
    held = {name: group for name, group in held.items() if group}
    # Of all methods, because one may be fitted in other outputs than the rest.
    outputs = list(dict.fromkeys(name for group in held.values() for name in group[0]["delta_certified"]))
    rows = [
        (f"{output} [{units.get(output) or '-'}]", *(_delta(group, output) for group in held.values()))
        for output in outputs
    ]
    return Grid("Delta: worst cell / median held-out input", ("output", *held), tuple(rows))


def _delta(group: Sequence[dict[str, Any]], output: str) -> str:
    if output not in group[0]["delta_certified"]:
        return "-"
    worst = max(run["delta_certified"][output]["max"] for run in group)
    middles = [run["delta_D"][output]["median"] for run in group if run["delta_D"]]
    return f"{number(worst)} / {number(max(middles, default=None))}"
