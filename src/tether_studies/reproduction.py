"""The whole paper: all studies, every method, every seed, in one pool of processes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tether.foundation.atomic import write_json
from tether.report.page import Section
from tether_studies.overview import Overview
from tether_studies.runner import run_all
from tether_studies.study import Scale
from tether_studies.summary import study_command, write_ablation
from tether_studies.tasks import Plan, Task, check_plan, holds_other_files, open_folder, tasks_of
from tether_studies.trying import ablation_stages

_MARK = "reproduction.json"
STUDIES = ("vehicle", "pancreas", "drones")
"""Of the paper, in its order."""


@dataclass(frozen=True)
class Reproduction:
    """What is run where.

    Attributes:
        plans: of each study, by the name of its folder.
        ablations: likewise, of studies whose chapter tells what each change to the paper's method does.
        out: the folder above these.
    """

    plans: Mapping[str, Plan]
    ablations: Mapping[str, Plan]
    out: Path

    def folder(self, name: str) -> Path:
        """Of one study."""
        return self.out / name

    def ablation_folder(self, name: str) -> Path:
        """Of the ablation of one study."""
        return self.out / f"{name}-ablation"

    def ablation_of(self, name: str, failed: Sequence[Task]) -> list[Section]:
        """What the chapter of a study tells of its ablation; nothing while runs of it are missing."""
        folder = self.ablation_folder(name)
        if name not in self.ablations or any(folder in task.folder.parents for task in failed):
            return []
        plan = self.ablations[name]
        return [write_ablation(plan, folder, command=study_command(plan, folder))]


def plan_reproduction(
    scale: Scale,
    seeds: Sequence[int],
    out: Path,
    *,
    traces: str | None = None,
    flights: str | None = None,
) -> Reproduction:
    """The paper's studies, also where its authors park, on their traces and on flights like theirs."""
    options = {"vehicle-patch": ("vehicle", {"omega": "patch"})}
    if traces is not None:
        options["pancreas-traces"] = ("pancreas", {"traces": traces})
    if flights is not None:
        options["drones-authors"] = ("drones", {"flights": flights})
    plans = {name: Plan(name, scale, tuple(seeds), {}) for name in STUDIES}
    plans |= {name: Plan(study, scale, tuple(seeds), given) for name, (study, given) in options.items()}
    theirs = dict(options.values())
    ablations = {
        name: Plan(name, scale, tuple(seeds), theirs.get(name, {}), part="ablation") for name in STUDIES
    }
    return Reproduction(plans, ablations, out)


def reproduce(
    reproduction: Reproduction, *, jobs: int, watch: Callable[[Overview], None] | None = None
) -> list[Task]:
    """Runs what is not done yet; the tasks that failed."""
    _open(reproduction)
    stages: list[list[Task]] = [[], []]
    for name, plan in reproduction.plans.items():
        for stage, tasks in zip(stages, tasks_of(plan, reproduction.folder(name)), strict=True):
            stage += tasks
    for name, plan in reproduction.ablations.items():
        found = ablation_stages(plan, reproduction.ablation_folder(name))
        for stage, tasks in zip(stages, found, strict=True):
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
