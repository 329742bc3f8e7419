"""What a study consists of: a plan, its folder, and tasks that each leave files of their own there.

The folder of a study holds ``study.json`` (what was asked for), ``data/`` (one file per seed), ``runs/``
(one entry of ``results.json``, a certificate and arrays per finished run), ``checkpoints/`` and
``progress/`` while runs go on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from tether.fitting import TETHERED
from tether.foundation.atomic import write_json
from tether.foundation.documents import items, mapping, read_json, record, text, whole
from tether_studies.ablation import ablation_entries
from tether_studies.registry import find_study
from tether_studies.searching import search_entries
from tether_studies.study import Entry, Scale, Study

TRUSTED = "Trusted"
Part = Literal["tables", "search", "ablation"]
_ENTRIES: dict[Part, Callable[[Study, Scale], tuple[Entry, ...]]] = {
    "tables": lambda study, scale: study.entries(scale),
    "search": search_entries,
    "ablation": ablation_entries,
}
_OTHER_WORK = 3000.0
"""Of making data or measuring M alone, in steps of a tiny network."""


@dataclass(frozen=True)
class Plan:
    """What was asked for; a folder is only taken up again for the same.

    Attributes:
        study: its name.
        scale: of data and runs.
        seeds: one run of every entry for each.
        options: the study's own.
        part: its tables; or the search for their settings; or which change to the paper's method does what.
    """

    study: str
    scale: Scale
    seeds: tuple[int, ...]
    options: Mapping[str, str]
    part: Part = "tables"

    @property
    def definition(self) -> Study:
        """The study itself, as its options ask for it."""
        return find_study(self.study).with_options(self.options)

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """The runs, for each seed."""
        return _ENTRIES[self.part](self.definition, self.scale)


@dataclass(frozen=True)
class Task:
    """One process's work: the data of a seed, or one run. `entry` -1: M alone; None: data."""

    plan: Plan
    folder: Path
    seed: int
    entry: int | None

    @property
    def name(self) -> str:
        """As the overview shows it."""
        what = "data" if self.entry is None else self.method_name
        return f"{self.study}: {what}, seed {self.seed}"

    @property
    def method_name(self) -> str:
        """Of the run."""
        return TRUSTED if self.entry == -1 else self.row.name

    @property
    def row(self) -> Entry:
        """Of the study's tables."""
        assert self.entry is not None
        return self.plan.entries[self.entry]

    @property
    def slug(self) -> str:
        """In file names."""
        if self.entry is None:
            return f"data-{self.seed}"
        words = self.method_name.lower().replace("δ", "increment")
        return f"{'-'.join(''.join(c if c.isalnum() else ' ' for c in words).split())}-{self.seed}"

    @property
    def result(self) -> Path:
        """What exists once the task is done."""
        if self.entry is None:
            return self.folder / "data" / f"{self.seed}.npz"
        return self.folder / "runs" / f"{self.slug}.json"

    @property
    def study(self) -> str:
        """Of whose folder it is."""
        return self.folder.name

    @property
    def work(self) -> float:
        """About how much there is to do: a step costs more where layers are wide."""
        if self.entry in (None, -1):
            return _OTHER_WORK
        hidden = self.row.changes.get("hidden") or self.plan.definition.config(self.plan.scale).hidden or ()
        return self.row.steps * (1 + sum(a * b for a, b in pairwise(hidden)) / 1e5)

    @property
    def settings(self) -> str:
        """Of the run; none for data and for M alone."""
        return self.row.settings if self.entry is not None and self.entry >= 0 else ""

    @property
    def done(self) -> bool:
        """Whether the result exists, and of these settings."""
        if not self.result.exists() or not self.settings:
            return self.result.exists()
        return read_run(self.result).get("settings") == self.settings

    @property
    def progress(self) -> Path:
        """Where the process says how far it is."""
        return self.folder / "progress" / f"{self.slug}.json"

    @property
    def checkpoint(self) -> Path:
        """Where training is saved while it goes on."""
        return self.folder / "checkpoints" / f"{self.slug}.safetensors"

    @property
    def explorer(self) -> Path:
        """What the report's explorer shows, of the run that is explored."""
        return self.result.with_suffix(".explorer.json")

    @property
    def is_explored(self) -> bool:
        """Whether the run is the one whose model the report shows: the last tethered, of the first seed."""
        entries = self.plan.entries if self.plan.part == "tables" else ()
        tethered = [k for k, entry in enumerate(entries) if entry.method.name == TETHERED.name]
        return self.seed == self.plan.seeds[0] and self.entry in tethered[-1:]

    @property
    def failure(self) -> Path:
        """What went wrong, if it did."""
        return self.folder / "runs" / f"{self.slug}.error.txt"


def read_run(path: Path) -> dict[str, Any]:
    """One entry of ``results.json``, as its run left it."""
    return read_json(path, record({"method": text}), "a run of a study")


_ASKED = record(
    {"study": text, "scale": text, "seeds": items(whole()), "options": mapping(text), "part": text}
)


def open_folder(plan: Plan, folder: Path) -> None:
    """Makes the folder of a study, or takes up one made for the same plan."""
    check_plan(plan)
    asked = {**asdict(plan), "seeds": list(plan.seeds)}
    path = folder / "study.json"
    if path.is_file():
        began = read_json(path, _ASKED, "what a study was asked for")
        if began != json.loads(json.dumps(asked)):
            raise ValueError(
                f"`{folder}` must hold this study to continue it; it holds {began['study']} at scale "
                f"{began['scale']} with seeds {began['seeds']} and options {began['options']} "
                f"({began['part']}). "
                "Choose another `--out`."
            )
    elif holds_other_files(folder, path.name):
        raise ValueError(f"`{folder}` must be new, empty or a study to continue; it holds other files.")
    folder.mkdir(parents=True, exist_ok=True)
    # First: killed between the two, the folder is known again.
    write_json(path, asked)
    for name in ("data", "runs", "progress", "checkpoints"):
        (folder / name).mkdir(exist_ok=True)


def check_plan(plan: Plan) -> None:
    """Raises ValueError where the study cannot be run as asked; nothing is written before."""
    find_study(plan.study).check_options(plan.options)
    plan.definition.check_installed()


def holds_other_files(folder: Path, mark: str) -> bool:
    """Whether a folder without its `mark` holds more than what a killed attempt to write that left."""
    if not folder.exists():
        return False
    return not folder.is_dir() or any(not path.name.startswith(f".{mark}.") for path in folder.iterdir())


def tasks_of(plan: Plan, folder: Path) -> tuple[list[Task], list[Task]]:
    """Tasks that make the data, and tasks that use them, longest first within a seed."""
    entries = plan.entries
    order = sorted(range(len(entries)), key=lambda k: -entries[k].steps)
    alone = [-1] if plan.part == "tables" else []
    data = [Task(plan, folder, seed, None) for seed in plan.seeds]
    runs = [
        Task(plan, folder, seed, entry)
        for place, seed in enumerate(plan.seeds)
        for entry in [*alone, *order]
        if entry < 0 or place < (entries[entry].seeds or len(plan.seeds))
    ]
    return data, runs
