"""The verb that puts finished runs on one page: report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tether.cli.starting import starting
from tether.cli.terminal import say, writing


def report(
    folders: Annotated[list[Path], typer.Argument(help="Folders of finished runs, or above them.")],
    out: Annotated[Path, typer.Option(help="The page; an older one is replaced.")] = Path("report.html"),
) -> None:
    """One self-contained page of any finished runs."""
    if out.suffix.lower() != ".html":
        raise ValueError(f"`{out}` must end in .html; got '{out.suffix}'. The report is a page.")
    with starting():
        from tether.report.building import build_report
    with writing(out):
        page = build_report(folders, out)
    say(f"report: {page}", wrap=False)
