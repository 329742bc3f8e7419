"""Searches and ablations: runs that make no tables, on one seed that no table uses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tether_studies.overview import Overview
from tether_studies.runner import run_all
from tether_studies.searching import SEED
from tether_studies.tasks import Plan, Task, open_folder, tasks_of

Watch = Callable[[Overview], None] | None
OURS, AUTHORS = "ours", "the authors'"
"""Whose data they are."""
_FOLDERS = {OURS: "ours", AUTHORS: "authors"}
_AUTHORS_DATA = ("traces", "flights", "omega")
"""Options that bring the authors' data."""


def run_search(plan: Plan, folder: Path, *, jobs: int, watch: Watch = None) -> list[Task]:
    """Runs what is not done yet; the tasks that failed."""
    open_folder(plan, folder)
    return run_all(tasks_of(plan, folder), jobs=jobs, watch=watch)


def ablation_plans(plan: Plan, folder: Path) -> dict[str, tuple[Plan, Path]]:
    """By whose data they are: the study's, and the authors' where options, or the study, give theirs."""
    theirs = {name: value for name, value in plan.options.items() if name in _AUTHORS_DATA}
    theirs = theirs or dict(plan.definition.authors)
    options = {name: value for name, value in plan.options.items() if name not in _AUTHORS_DATA}
    given = {OURS: options} | ({AUTHORS: options | theirs} if theirs else {})
    return {
        whose: (replace(plan, options=own, part="ablation", seeds=(SEED,)), folder / _FOLDERS[whose])
        for whose, own in given.items()
    }


def ablation_stages(plan: Plan, folder: Path) -> list[list[Task]]:
    """What makes the data, and what uses them."""
    stages: list[list[Task]] = [[], []]
    for own, where in ablation_plans(plan, folder).values():
        open_folder(own, where)
        for stage, tasks in zip(stages, tasks_of(own, where), strict=True):
            stage += tasks
    return stages


def run_ablation(plan: Plan, folder: Path, *, jobs: int, watch: Watch = None) -> list[Task]:
    """Runs what is not done yet; the tasks that failed."""
    return run_all(ablation_stages(plan, folder), jobs=jobs, watch=watch)
