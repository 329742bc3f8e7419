"""Verbs that run what comes with Tether: demo, study, reproduce."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tether.cli.parsing import integers
from tether.cli.starting import starting
from tether.cli.terminal import Scheduler, command_line, console, say
from tether.foundation.documents import shorten
from tether.foundation.limits import MOST_PROCESSES, check_seed, check_whole
from tether.foundation.progress import console_reporter
from tether_studies.registry import NAMES, find_study

if TYPE_CHECKING:
    from tether_studies.tasks import Plan, Task


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("runs/demo"),
    seed: int = 0,
    steps: Annotated[int | None, typer.Option(help="Gradient steps per method.")] = None,
) -> None:
    """A parked car in about a minute: what drifts, what does not, and a certificate."""
    with starting():
        from tether.cli.results import show_comparison
        from tether.files.runs import RunFolder
        from tether_studies.demo import HEADINGS, demo_config, run_demo
    config = demo_config(seed)
    if steps is not None:
        config = replace(config, training=replace(config.training, steps=steps))
    folder = RunFolder.create(_fresh(out) if out == Path("runs/demo") else out, command_line())
    comparison, report = run_demo(folder, config=config, reporter=console_reporter(console))
    show_comparison(comparison, report, headings=HEADINGS)


_MOST_SEEDS = 1000
Out = Annotated[Path, typer.Option(help="Folder; what was interrupted in it goes on.")]
ScaleOption = Annotated[Literal["smoke", "paper"], typer.Option(help="Of data, networks and runs.")]
Seeds = Annotated[
    str, typer.Option(help="Comma separated; by default 0 at smoke, 3,4,5, which chose nothing, at paper.")
]
Jobs = Annotated[int | None, typer.Option(help="Processes; by default one per core.")]
Flights = Annotated[
    str | None, typer.Option(help="Drones: folder of flights like the paper's own, instead of a simulation.")
]
Traces = Annotated[
    str | None, typer.Option(help="Pancreas: folder of the paper's own traces, instead of the simulator.")
]


def study(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(NAMES)}.")],
    out: Out,
    scale: ScaleOption = "smoke",
    seeds: Seeds = "",
    jobs: Jobs = None,
    patient: Annotated[str | None, typer.Option(help="Pancreas: a virtual patient, as adult#001.")] = None,
    traces: Traces = None,
    flights: Flights = None,
    omega: Annotated[
        str | None, typer.Option(help="Vehicle: 'patch' parks all cars where the paper's authors do.")
    ] = None,
    search: Annotated[
        bool, typer.Option("--search", help="Search learning rates and steps on validation rows instead.")
    ] = False,
    ablation: Annotated[
        bool,
        typer.Option("--ablation", help="Change the paper's method, one thing after the other, instead."),
    ] = False,
    scheduler: Scheduler = None,
) -> None:
    """A case study: every method, every seed, tables, figures, certificates and verdicts."""
    with starting():
        from tether.foundation.executors import spread_over
        from tether.report.seeds import certificates_grid, seeds_grid
        from tether.report.tables import rich_table
        from tether_studies.cli.watching import watching
        from tether_studies.runner import outcome_of, run_all
        from tether_studies.summary import claim_lines, judge, study_command, write_summary
        from tether_studies.tasks import Plan, open_folder, tasks_of
    options = {"patient": patient, "traces": traces, "flights": flights, "omega": omega}
    given = {option: value for option, value in options.items() if value is not None}
    find_study(name).check_options(given)
    if search and ablation:
        raise ValueError("`--search` must come without `--ablation`; got both. Run one after the other.")
    plan, processes = Plan(name, scale, _seeds(seeds, scale), given), _jobs(jobs)
    if search or ablation:
        with spread_over(scheduler):
            _try_out(plan, out, processes, "search" if search else "ablation")
        return
    with spread_over(scheduler), watching(console) as watch:
        open_folder(plan, out)
        failed = run_all(tasks_of(plan, out), jobs=processes, watch=watch)
    _show_failed(failed)
    outcome = outcome_of(plan, out)
    report = write_summary(plan, out, command=study_command(plan, out), failed=failed)
    console.print(rich_table(seeds_grid(outcome.runs, plan.definition.headings)))
    console.print(rich_table(certificates_grid(outcome.runs)))
    for line in claim_lines(judge(plan, outcome)):
        say(line)
    say(f"report: {report}", wrap=False)
    if failed:
        raise typer.Exit(1)


def _try_out(plan: Plan, out: Path, jobs: int, part: Literal["search", "ablation"]) -> None:
    """The search for settings, or the ablation of the paper's method, with the one seed for these."""
    from rich.console import Console

    from tether.report.tables import rich_table
    from tether_studies.cli.watching import watching
    from tether_studies.searching import SEED
    from tether_studies.summary import study_command, write_ablation, write_search
    from tether_studies.trying import run_ablation, run_search

    plan = replace(plan, part=part, seeds=(SEED,))
    if not plan.entries:
        raise ValueError(f"the study must have a matrix of methods for `--{part}`; '{plan.study}' has none.")
    command = study_command(plan, out)
    with watching(console) as watch:
        if part == "search":
            failed = run_search(plan, out, jobs=jobs, watch=watch)
        else:
            failed = run_ablation(plan, out, jobs=jobs, watch=watch)
    _show_failed(failed)
    if failed:
        raise typer.Exit(1)
    section = (write_search if part == "search" else write_ablation)(plan, out, command=command)
    for text in section.paragraphs:
        say(text)
    wide = Console(width=10_000)
    for table in map(rich_table, section.grids):
        if wide.measure(table).maximum <= console.width:  # else numbers would be cut off
            console.print(table)
    say(f"{part}: {out / f'{part}.md'}", wrap=False)


def reproduce(
    out: Out,
    scale: ScaleOption = "smoke",
    seeds: Seeds = "",
    jobs: Jobs = None,
    traces: Annotated[
        str | None, typer.Option(help="Folder of the paper's own glucose traces, to run on these as well.")
    ] = None,
    flights: Annotated[
        str | None, typer.Option(help="Folder of flights like the paper's own, to run on these as well.")
    ] = None,
    scheduler: Scheduler = None,
) -> None:
    """The whole paper: all studies, every table and figure, and a verdict per claim."""
    with starting():
        from tether.foundation.executors import spread_over
        from tether.report.building import build_report
        from tether.report.seeds import seeds_grid
        from tether.report.tables import rich_table
        from tether_studies.cli.watching import watching
        from tether_studies.reproduction import plan_reproduction
        from tether_studies.reproduction import reproduce as run_reproduction
        from tether_studies.runner import outcome_of
        from tether_studies.summary import claim_lines, judge, study_command, write_summary
    processes = _jobs(jobs)
    asked = plan_reproduction(scale, _seeds(seeds, scale), out, traces=traces, flights=flights)
    with spread_over(scheduler), watching(console) as watch:
        failed = run_reproduction(asked, jobs=processes, watch=watch)
    _show_failed(failed)
    for name, plan in asked.plans.items():
        folder = asked.folder(name)
        own = [task for task in failed if task.folder == folder]
        more = asked.ablation_of(name, failed)
        write_summary(plan, folder, command=study_command(plan, folder), failed=own, more=more)
        outcome = outcome_of(plan, folder)
        say()
        say(f"{name}: {plan.definition.title}", style="bold")
        console.print(rich_table(seeds_grid(outcome.runs, plan.definition.headings)))
        for line in claim_lines(judge(plan, outcome)):
            say(line)
    report = build_report([asked.folder(name) for name in asked.plans], out / "report.html")
    say(f"report: {report}", wrap=False)
    if failed:
        raise typer.Exit(1)


def _seeds(text: str, scale: str) -> tuple[int, ...]:
    numbers = integers("seeds", text)
    if len(set(numbers)) < len(numbers) or min(numbers, default=0) < 0 or len(numbers) > _MOST_SEEDS:
        raise ValueError(
            f"`--seeds` must be at most {_MOST_SEEDS} different whole numbers >= 0; got '{shorten(text)}'."
        )
    for number in numbers:
        check_seed("--seeds", number)
    return tuple(numbers) or ((0,) if scale == "smoke" else (3, 4, 5))


def _jobs(asked: int | None) -> int:
    if asked is not None:
        check_whole("--jobs", asked, least=1, most=MOST_PROCESSES)
    return asked or os.cpu_count() or 1


def _show_failed(failed: list[Task]) -> None:
    for task in failed:
        say(f"failed: {task.name}: {task.failure}", style="bold red")


def _fresh(base: Path) -> Path:
    """`base`, or `base-2`, `base-3`, ...: the demo may be run again and overwrites nothing."""
    number, path = 1, base
    while path.exists() and any(path.iterdir()):
        number += 1
        path = base.with_name(f"{base.name}-{number}")
    return path
