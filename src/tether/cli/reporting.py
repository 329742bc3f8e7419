"""The verb that puts finished runs on one page: report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tether.cli.terminal import say, writing
from tether.report.building import build_report


def report(
    folders: Annotated[list[Path], typer.Argument(help="Folders of finished runs or studies.")],
    out: Annotated[Path, typer.Option(help="The page; an older one is replaced.")] = Path("report.html"),
) -> None:
    """One self-contained page of any finished runs, studies or reproductions."""
    if out.suffix.lower() != ".html":
        raise ValueError(f"`{out}` must end in .html; got '{out.suffix}'. The report is a page.")
    with writing(out):
        page = build_report(folders, out)
    say(f"report: {page}", wrap=False)
