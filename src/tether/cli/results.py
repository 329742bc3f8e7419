"""A comparison as the terminal shows it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tether.cli.terminal import console, say
from tether.files.runs import Comparison, verdict
from tether.report.tables import (
    SYMBOLS,
    certificate_lines,
    delta_grid,
    delta_words,
    errors_grid,
    percent,
    results_grid,
    rich_table,
)


def show_comparison(
    comparison: Comparison, report: Path, *, headings: Mapping[str, str] | None = None
) -> None:
    """Table, certificate, verdict and the path of the report; `headings` of columns that were added."""
    say()
    say(SYMBOLS)
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
        kept = comparison.kept.model.record.get("delta_kept_D")
        if kept is not None:
            say(f"The delta asked for holds at {percent(kept)} of held-out rows, in every output.")
        say()
        say(verdict(comparison), style="bold red" if certificate.concerns else "bold")
    say(f"report: {report}", wrap=False)
