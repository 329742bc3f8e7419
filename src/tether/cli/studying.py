"""Verbs that run what is built in: demo, study."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from tether.cli.parsing import integers
from tether.cli.results import show_comparison
from tether.cli.terminal import command_line, console
from tether.progress import console_reporter
from tether.report.tables import rich_table, run_name
from tether.runs import RunFolder
from tether.studies.demo import demo_config, run_demo
from tether.studies.registry import NAMES, find_study
from tether.studies.runner import Plan, Task, open_folder, outcome_of, run_all, tasks_of
from tether.studies.summary import certificates_grid, claim_lines, seeds_grid, study_command, write_summary


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("runs/demo"),
    seed: int = 0,
    steps: Annotated[int | None, typer.Option(help="Gradient steps per method.")] = None,
) -> None:
    """A parked car in under a minute: what drifts, what does not, and a certificate."""
    config = demo_config(seed)
    if steps is not None:
        config = replace(config, training=replace(config.training, steps=steps))
    folder = RunFolder.create(_fresh(out) if out == Path("runs/demo") else out, command_line())
    comparison, report = run_demo(folder, config=config, reporter=console_reporter(console))
    show_comparison(comparison, report)


def study(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(NAMES)}.")],
    out: Annotated[Path, typer.Option(help="Folder; an interrupted study in it goes on.")],
    scale: Annotated[Literal["smoke", "paper"], typer.Option(help="Of data, networks and runs.")] = "smoke",
    seeds: Annotated[str, typer.Option(help="Comma separated; by default 0 at smoke, 0,1,2 at paper.")] = "",
    jobs: Annotated[int | None, typer.Option(help="Processes; by default one per core.")] = None,
) -> None:
    """A case study: every method, every seed, tables, figures, certificates and verdicts."""
    find_study(name)
    numbers = integers("seeds", seeds) or ([0] if scale == "smoke" else [0, 1, 2])
    plan = Plan(name, scale, tuple(numbers), {})
    open_folder(plan, out)
    failed = run_all(
        tasks_of(plan, out), jobs=jobs or os.cpu_count() or 1, reporter=console_reporter(console)
    )
    _show_study(plan, out, failed)


def _show_study(plan: Plan, out: Path, failed: list[Task]) -> None:
    for task in failed:
        console.print(f"failed: {task.name}: {task.failure}", style="bold red", highlight=False)
    outcome = outcome_of(plan, out)
    if {task.method_name for task in tasks_of(plan, out)[1]} > {run_name(run) for run in outcome.runs}:
        raise typer.Exit(1)
    report = write_summary(plan, out, command=study_command(plan, out), failed=failed)
    console.print(rich_table(seeds_grid(outcome.runs, plan.definition.headings)))
    console.print(rich_table(certificates_grid(outcome.runs)))
    for line in claim_lines(plan.definition.claims(outcome)):
        console.print(line, highlight=False)
    console.print(f"report: {report}", highlight=False, soft_wrap=True)
    if failed:
        raise typer.Exit(1)


def _fresh(base: Path) -> Path:
    """`base`, or `base-2`, `base-3`, ...: the demo may be run again and overwrites nothing."""
    number, path = 1, base
    while path.exists() and any(path.iterdir()):
        number += 1
        path = base.with_name(f"{base.name}-{number}")
    return path
