"""A comparison as the terminal shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tether.cli.terminal import console, say
from tether.data import Schema
from tether.monotone import MonotoneCertificate
from tether.report.tables import (
    Grid,
    certificate_lines,
    delta_grid,
    errors_grid,
    number,
    ratio,
    results_grid,
    rich_table,
)
from tether.runs import Comparison, verdict


def show_comparison(
    comparison: Comparison, report: Path, *, headings: Mapping[str, str] | None = None
) -> None:
    """Table, certificate, verdict and the path of the report; `headings` of columns that were added."""
    say()
    console.print(rich_table(results_grid(comparison.results, headings)))
    errors = errors_grid(comparison.results, comparison.problem.split.train.schema.units)
    if errors is not None:
        say()
        console.print(rich_table(errors))
    say()
    console.print(rich_table(delta_grid(comparison.certificate.deltas, comparison.certificate.evidence)))
    for line in certificate_lines(comparison.certificate, comparison.cost):
        say(line)
    say()
    say(verdict(comparison), style="bold")
    say(f"report: {report}", wrap=False)


def show_monotone(
    certificate: MonotoneCertificate, schema: Schema, *, results: Sequence[dict[str, Any]] = ()
) -> None:
    """Table and certificate of a model that is monotone by construction."""
    if results:
        say()
        console.print(rich_table(results_grid(results, {})))
    rows = tuple(
        (name, schema.unit(name) or "-", number(delta["max"]), number(delta["median"]))
        for name, delta in certificate.delta.items()
    )
    header = ("output", "unit", "delta, worst cell", "median cell")
    say()
    console.print(rich_table(Grid("Distance to the trusted model, evidence level proved", header, rows)))
    lines = [
        f"Evidence level: {certificate.evidence}. {certificate.claim}",
        f"Declared inputs: {', '.join(certificate.declared)}.",
        f"Fresh check: {certificate.points} new points came to at most {ratio(certificate.max_ratio)} of "
        "delta.",
        *(f"Assumes: {line}" for line in certificate.assumptions),
    ]
    for line in lines:
        say(line)
