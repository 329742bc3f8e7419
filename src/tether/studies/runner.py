"""Runs of a study in parallel processes, each in its own files, so that a killed study goes on where it was.

The folder of a study holds ``study.json`` (what was asked for), ``data/`` (one file per seed), ``runs/``
(one entry of ``results.json``, a certificate and arrays per finished run), ``checkpoints/`` and
``progress/`` while runs go on.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tether.atomic import write_bytes, write_json, write_text
from tether.attack import attack
from tether.certificate import certify
from tether.constrained import ConstrainedModel
from tether.pipeline import (
    FitConfig,
    Problem,
    build_tether,
    measure,
    measure_losses,
    measure_trusted,
    prepare,
    train_method,
)
from tether.progress import Report, Reporter, silent
from tether.studies.registry import find_study
from tether.studies.storing import read_arrays, read_data, write_arrays, write_data
from tether.studies.study import Entry, Measured, Outcome, Scale, Study, StudyData
from tether.trusted import TrustedModel

_ATTACKS = {"smoke": 20_000, "paper": 1_000_000}
TRUSTED = "Trusted"


@dataclass(frozen=True)
class Plan:
    """What was asked for; a folder is only taken up again for the same.

    Attributes:
        study: its name.
        scale: of data and runs.
        seeds: one run of every entry for each.
        options: the study's own.
    """

    study: str
    scale: Scale
    seeds: tuple[int, ...]
    options: Mapping[str, str]

    @property
    def definition(self) -> Study:
        """The study itself."""
        return find_study(self.study)


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
        return f"{self.plan.study}: {what}, seed {self.seed}"

    @property
    def method_name(self) -> str:
        """Of the run."""
        return TRUSTED if self.entry == -1 else self.row.name

    @property
    def row(self) -> Entry:
        """Of the study's tables."""
        assert self.entry is not None
        return self.plan.definition.entries(self.plan.scale)[self.entry]

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
    def progress(self) -> Path:
        """Where the process says how far it is."""
        return self.folder / "progress" / f"{self.slug}.json"

    @property
    def failure(self) -> Path:
        """What went wrong, if it did."""
        return self.folder / "runs" / f"{self.slug}.error.txt"


def open_folder(plan: Plan, folder: Path) -> None:
    """Makes the folder of a study, or takes up one made for the same plan."""
    asked = {**asdict(plan), "seeds": list(plan.seeds)}
    path = folder / "study.json"
    if path.is_file():
        began = json.loads(path.read_text(encoding="utf-8"))
        if began != json.loads(json.dumps(asked)):
            raise ValueError(
                f"`{folder}` must hold this study to continue it; it holds {began['study']} at scale "
                f"{began['scale']} with seeds {began['seeds']} and options {began['options']}. "
                "Choose another `--out`."
            )
    elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"`{folder}` must be new, empty or a study to continue; it holds other files.")
    for name in ("data", "runs", "progress", "checkpoints"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    write_json(path, asked)


def tasks_of(plan: Plan, folder: Path) -> tuple[list[Task], list[Task]]:
    """Tasks that make the data, and tasks that use them, longest first within a seed."""
    entries = plan.definition.entries(plan.scale)
    order = [-1, *sorted(range(len(entries)), key=lambda k: -entries[k].steps)]
    data = [Task(plan, folder, seed, None) for seed in plan.seeds]
    return data, [Task(plan, folder, seed, entry) for seed in plan.seeds for entry in order]


def run_all(tasks: Sequence[Sequence[Task]], *, jobs: int, reporter: Reporter = silent) -> list[Task]:
    """Runs what is not done yet, stage after stage; the tasks that failed.

    Args:
        tasks: stages; a stage begins when the one before has ended.
        jobs: processes at a time, one thread each.
        reporter: opens a progress display.
    """
    everything = [task for stage in tasks for task in stage]
    for task in everything:
        task.failure.unlink(missing_ok=True)
    context = multiprocessing.get_context("spawn")
    with reporter(f"{len(everything)} runs in {jobs} processes") as progress:
        for stage in tasks:
            missing = [task for task in stage if not task.result.exists()]
            with ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin_process) as pool:
                pending: set[Future] = {pool.submit(_perform, task) for task in missing}
                while pending:
                    _, pending = wait(pending, timeout=2.0, return_when=FIRST_COMPLETED)
                    progress(*_share_done(everything))
    return [task for task in everything if not task.result.exists()]


def outcome_of(plan: Plan, folder: Path) -> Outcome:
    """What the finished runs left behind."""
    _, tasks = tasks_of(plan, folder)
    done = [task for task in tasks if task.result.exists()]
    done.sort(key=lambda task: (task.entry, task.seed))
    runs = [json.loads(task.result.read_text(encoding="utf-8")) for task in done]
    arrays = {(t.method_name, t.seed): read_arrays(t.result.with_suffix(".npz")) for t in done}
    files = {seed: folder / "data" / f"{seed}.npz" for seed in plan.seeds}
    data = {seed: read_data(path) for seed, path in files.items() if path.exists()}
    return Outcome(plan.scale, runs, arrays, data)


def _share_done(tasks: Sequence[Task]) -> tuple[int, int]:
    """Thousandths of all tasks: each counts by its steps."""
    weights = [1000 if t.entry in (None, -1) else t.row.steps for t in tasks]
    done = 0.0
    for task, weight in zip(tasks, weights, strict=True):
        if task.result.exists():
            done += weight
        elif task.progress.exists():
            try:
                done += weight * json.loads(task.progress.read_text(encoding="utf-8"))["share"]
            except (OSError, ValueError):
                continue
    return int(done), sum(weights)


def _begin_process() -> None:
    """One thread for sums, and an end when the parent ends, however it ends."""
    torch.set_num_threads(1)
    threading.Thread(target=_leave_with, args=(os.getppid(),), daemon=True).start()


def _leave_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def _perform(task: Task) -> None:
    """One task in its own process; a failure is written down and does not stop the others."""
    try:
        if task.entry is None:
            _simulate(task)
        else:
            _run(task)
    except Exception:
        write_text(task.failure, traceback.format_exc())


def _simulate(task: Task) -> None:
    plan = task.plan
    data = plan.definition.simulate(plan.scale, task.seed, plan.options, _file_reporter(task, 0.0, 1.0))
    write_data(task.result, data)


def _run(task: Task) -> None:
    study, plan = task.plan.definition, task.plan
    data = read_data(task.folder / "data" / f"{task.seed}.npz")
    base = study.config(plan.scale)
    config = replace(base, seed=task.seed) if task.entry == -1 else task.row.config(base, task.seed)
    problem = own = _problem(data, study.trusted(data, config), config)
    if task.entry == -1:
        measured = study.measure(problem, problem.trusted.function)  # type: ignore[arg-type]
        _finish(task, measure_trusted(problem, task.seed) | measured.values, measured.arrays, [])
        return
    method, recast = task.row.method, study.recasts.get(task.row.recast or "")
    if recast is not None:
        own = _problem(recast.data(data), recast.trusted, config)
    tether = build_tether(own, config, kind=method.tether) if method.celled else None  # type: ignore[arg-type]
    run = train_method(
        own,
        method,
        config,
        tether=tether,
        checkpoint=task.folder / "checkpoints" / f"{task.slug}.safetensors",
        reporter=_file_reporter(task, 0.0, 0.9),
    )
    result = measure(own, run, tether)
    step = run.model.predict if recast is None else recast.restore(run.model.predict)
    if recast is not None:
        result |= measure_losses(problem, step)
    measured = study.measure(problem, step)
    inspected = Measured({}, {}) if study.inspect is None else study.inspect(own, run.model)
    if isinstance(run.model, ConstrainedModel):
        found = attack(run.model, own.trusted, evaluations=_ATTACKS[plan.scale], seed=task.seed)
        result["attack_max_ratio"], result["attack_evaluations"] = found.max_ratio, found.evaluations
        certificate = certify(
            run.model,
            own.trusted,
            transitions=own.split.test,
            probes=own.probe_sets[2],
            seed=task.seed + 1,
        )
        result["certificate"] = certificate.as_dict()
    result |= measured.values | inspected.values
    arrays = {**measured.arrays, **inspected.arrays}
    _finish(task, result, arrays, [asdict(e) for e in run.history.evaluations])


def _problem(data: StudyData, trusted: TrustedModel, config: FitConfig) -> Problem:
    return prepare(data.transitions, trusted=trusted, probes=data.probes, config=config)


def _finish(task: Task, result: dict[str, Any], arrays: Mapping[str, np.ndarray], history: list) -> None:
    write_arrays(task.result.with_suffix(".npz"), arrays)
    # Last: its presence says that the run is done.
    write_json(task.result, result | {"history": history})
    (task.folder / "checkpoints" / f"{task.slug}.safetensors").unlink(missing_ok=True)
    task.progress.unlink(missing_ok=True)


def _file_reporter(task: Task, low: float, high: float) -> Reporter:
    """Says in a small file how far the task is, at most twice a second."""

    @contextmanager
    def open_display(title: str) -> Iterator[Report]:
        del title
        last = 0.0

        def report(done: int, total: int) -> None:
            nonlocal last
            if time.monotonic() - last > 0.5:
                last = time.monotonic()
                share = low + (high - low) * min(1.0, done / max(total, 1))
                write_bytes(task.progress, json.dumps({"share": share}).encode())

        yield report

    return open_display
