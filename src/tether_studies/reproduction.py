"""The whole paper: all studies, every method, every seed, in one pool of processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tether.foundation.atomic import write_json
from tether_studies.overview import Overview
from tether_studies.runner import run_all
from tether_studies.study import Scale
from tether_studies.tasks import Plan, Task, check_plan, holds_other_files, open_folder, tasks_of

_MARK = "reproduction.json"
STUDIES = ("vehicle", "pancreas", "drones")
"""Of the paper, in its order."""


@dataclass(frozen=True)
class Reproduction:
    """What is run where.

    Attributes:
        plans: of each study, by the name of its folder.
        out: the folder above these.
    """

    plans: Mapping[str, Plan]
    out: Path

    def folder(self, name: str) -> Path:
        """Of one study."""
        return self.out / name


def plan_reproduction(
    scale: Scale, seeds: Sequence[int], out: Path, *, traces: str | None = None
) -> Reproduction:
    """The paper's studies; the pancreas once more on the paper's own traces, where their folder is given."""
    plans = {name: Plan(name, scale, tuple(seeds), {}) for name in STUDIES}
    if traces is not None:
        plans["pancreas-traces"] = Plan("pancreas", scale, tuple(seeds), {"traces": traces})
    return Reproduction(plans, out)


def reproduce(
    reproduction: Reproduction, *, jobs: int, watch: Callable[[Overview], None] | None = None
) -> list[Task]:
    """Runs what is not done yet; the tasks that failed."""
    _open(reproduction)
    stages: list[list[Task]] = [[], []]
    for name, plan in reproduction.plans.items():
        for stage, tasks in zip(stages, tasks_of(plan, reproduction.folder(name)), strict=True):
            stage += tasks
    # The longest first, so that no process is left alone with one of them at the end.
    stages[1].sort(key=lambda task: -task.work)
    return run_all(stages, jobs=jobs, watch=watch)


def _open(reproduction: Reproduction) -> None:
    out = reproduction.out
    known = (out / _MARK).is_file()
    if not known and holds_other_files(out, _MARK):
        raise ValueError(f"`{out}` must be new, empty or a reproduction to continue; it holds other files.")
    for plan in reproduction.plans.values():
        check_plan(plan)
    out.mkdir(parents=True, exist_ok=True)
    # First: killed or refused below, the folder is known again.
    write_json(out / _MARK, {"studies": list(reproduction.plans)})
    for name, plan in reproduction.plans.items():
        open_folder(plan, reproduction.folder(name))
