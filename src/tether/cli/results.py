"""A comparison as the terminal shows it."""

from __future__ import annotations

from pathlib import Path

from tether.cli.terminal import console
from tether.report.tables import certificate_lines, delta_grid, results_grid, rich_table
from tether.runs import Comparison, study_columns, verdict


def show_comparison(comparison: Comparison, report: Path) -> None:
    """Table, certificate, verdict and the path of the report."""
    console.print()
    console.print(rich_table(results_grid(comparison.results, study_columns(comparison.results))))
    console.print()
    console.print(rich_table(delta_grid(comparison.certificate.deltas, comparison.certificate.evidence)))
    for line in certificate_lines(comparison.certificate, comparison.cost):
        console.print(line, highlight=False)
    console.print()
    console.print(verdict(comparison), style="bold", highlight=False)
    console.print(f"report: {report}", highlight=False, soft_wrap=True)
