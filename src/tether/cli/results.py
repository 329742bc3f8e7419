"""A comparison as the terminal shows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from tether.cli.terminal import console, say
from tether.files.runs import Comparison, verdict
from tether.report.boxes import wild_rows
from tether.report.tables import (
    certificate_lines,
    delta_grid,
    delta_words,
    errors_grid,
    percent,
    results_grid,
    rich_table,
    symbols,
)

_MOST_WILD = 3
"""Rows to look at that are named; the report has more."""


def show_comparison(
    comparison: Comparison, report: Path, *, headings: Mapping[str, str] | None = None
) -> None:
    """Table, certificate, verdict and the path of the report; `headings` of columns that were added."""
    say()
    say(symbols(comparison.results))
    say()
    console.print(rich_table(results_grid(comparison.results, headings)))
    errors = errors_grid(comparison.results, comparison.problem.split.train.schema.units)
    if errors is not None:
        say()
        console.print(rich_table(errors))
    certificate = comparison.certificate
    if certificate is not None:
        say()
        say(delta_words(certificate.deltas))
        say()
        console.print(rich_table(delta_grid(certificate.deltas, certificate.evidence)))
        for line in certificate_lines(certificate, comparison.cost):
            say(line)
        for line in _wild_lines(comparison):
            say(line)
        kept = comparison.kept.model.record.get("delta_kept_D")
        if kept is not None:
            say(f"The delta asked for holds at {percent(kept)} of held-out rows, in every output.")
        say()
        say(verdict(comparison), style="bold red" if certificate.concerns else "bold")
    say(f"report: {report}", wrap=False)


def _wild_lines(comparison: Comparison) -> Iterator[str]:
    """Where in the log the rows are that the certificate says to look at."""
    certificate = comparison.certificate
    if certificate is None or certificate.band is None or comparison.problem.transitions.places is None:
        return
    rows = wild_rows(comparison.kept.model, comparison.problem, certificate.band.rows)
    if rows:
        outputs = comparison.problem.transitions.schema.outputs
        shown = ", ".join(f"{wild.place} ({outputs[wild.output]})" for wild in rows[:_MOST_WILD])
        yield f"Look at {shown}{' and others' if len(rows) > _MOST_WILD else ''}; rows are counted from 0."
