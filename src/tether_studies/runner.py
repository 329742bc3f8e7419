"""Runs of studies in parallel, each with files of its own: a killed study goes on where it was.

In processes of this machine, or on a cluster whose workers see the same folder.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tether.fitting import (
    Fit,
    FitConfig,
    Learned,
    Problem,
    judge,
    learn_method,
    measure_losses,
    measure_trusted,
    prepare,
)
from tether.foundation.atomic import write_bytes, write_json, write_text
from tether.foundation.errors import DivergedError, StorageError
from tether.foundation.executors import in_processes
from tether.foundation.progress import Report, Reporter
from tether.model import Model
from tether.report.explorer import explorer_data
from tether.trusted import TrustedModel
from tether_studies.noise import NoisyFeatures, noisy_network
from tether_studies.overview import Overview, Watcher
from tether_studies.searching import diverged
from tether_studies.storing import read_arrays, read_data, write_arrays, write_data
from tether_studies.study import Measured, Outcome, StudyData
from tether_studies.tasks import Plan, Task, read_run, tasks_of

_ATTACKS = {"smoke": 20_000, "paper": 400_000}


def run_all(
    stages: Sequence[Sequence[Task]], *, jobs: int, watch: Callable[[Overview], None] | None = None
) -> list[Task]:
    """Runs what is not done yet, stage after stage; the tasks that failed.

    Args:
        stages: a stage begins when the one before has ended.
        jobs: processes at a time, one thread each; 1: this one. A cluster in use takes their place.
        watch: told every two seconds how things stand.
    """
    everything = [task for stage in stages for task in stage]
    for task in everything:
        task.failure.unlink(missing_ok=True)
        task.progress.unlink(missing_ok=True)
    with _watched(everything, watch):
        for stage in stages:
            missing = [task for task in stage if not task.done]
            for _ in in_processes(jobs).map(_perform_once, zip(missing)):
                pass
    return [task for task in everything if not task.done]


@contextmanager
def _watched(tasks: Sequence[Task], watch: Callable[[Overview], None] | None) -> Iterator[None]:
    """Tells every two seconds, and at the end, how tasks stand."""
    if watch is None:
        yield
        return
    watcher, ended = Watcher(tasks), threading.Event()

    def repeat() -> None:
        while not ended.wait(2.0):
            watch(watcher.look())

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    watch(watcher.look())


def outcome_of(plan: Plan, folder: Path) -> Outcome:
    """What the finished runs left behind."""
    _, tasks = tasks_of(plan, folder)
    done = [task for task in tasks if task.done]
    done.sort(key=lambda task: (task.entry, task.seed))
    runs = [read_run(task.result) for task in done]
    arrays = {(t.method_name, t.seed): read_arrays(t.result.with_suffix(".npz")) for t in done}
    files = {seed: folder / "data" / f"{seed}.npz" for seed in plan.seeds}
    data = {seed: read_data(path) for seed, path in files.items() if path.exists()}
    return Outcome(plan.scale, runs, arrays, plan.options, data)


def _perform_once(task: Task) -> None:
    """A task that another process may have done before it was killed."""
    _begin_process()
    if not task.done:
        _perform(task)


@cache
def _begin_process() -> None:
    """One thread for sums, and of a worker an end when its parent ends, however it ends."""
    torch.set_num_threads(1)
    if multiprocessing.parent_process() is not None:
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
    problem = _problem(data, study.trusted(data, config), config)
    if task.entry == -1:
        measured = study.measure(problem, problem.trusted.function)  # type: ignore[arg-type]
        _finish(task, measure_trusted(problem, task.seed).as_dict() | measured.values, measured.arrays, [])
        return
    if plan.part != "tables":
        _finish(task, _try_out(task, problem, config), {}, [])
        return
    recast = study.recasts.get(task.row.recast or "")
    own = problem if recast is None else _problem(recast.data(data), recast.trusted, config)
    fitted = _fit(task, own, config)
    step = fitted.model.predict if recast is None else recast.restore(fitted.model.predict)
    # As the row is called: affine bounds may do with fewer memories than were asked for.
    measures = replace(fitted.measures, memories=task.row.memories or fitted.measures.memories)
    if recast is not None:
        measures = replace(measures, losses=measure_losses(problem, step))
    values = measures.as_dict()
    if fitted.certificate is not None:
        values["certificate"] = fitted.certificate.as_dict()
    measured = study.measure(problem, step)
    seen = study.inspect(own, fitted, plan.scale) if study.inspect else Measured({}, {})
    history = [asdict(evaluation) for evaluation in fitted.history.evaluations]
    _finish(task, values | measured.values | seen.values, {**measured.arrays, **seen.arrays}, history)


def _try_out(task: Task, problem: Problem, config: FitConfig) -> dict[str, Any]:
    """One run of a search, which looks at validation rows alone, or of an ablation."""
    told: dict[str, Any] = {"method": task.row.method.name, "memories": task.row.memories, "seed": task.seed}
    try:
        learned = _learn(task, problem, config)
    except DivergedError:
        if task.plan.part != "search":
            raise
        return told | diverged(task.row.steps)
    told |= {"steps": learned.history.steps, "best_step": learned.history.best_step}
    if task.plan.part == "search":
        best = asdict(learned.history.best)
        return told | {name: best[name] for name in ("validation_error", "constraint_loss_omega_mean")}
    losses = asdict(measure_losses(problem, learned.model.predict))
    return told | losses | _limits(problem, learned.model)


def _limits(problem: Problem, model: Model) -> dict[str, float]:
    """How wide the limits are on held-out D, in units of the outputs' spread; how often M is outside."""
    test = problem.split.test
    found = model.predict(test.states, test.controls, details=True)
    spread = problem.split.train.next_states.std(axis=0)
    trusted = test.schema.near(problem.data[2].trusted, 0.5 * found.lower + 0.5 * found.upper)
    outside = (trusted < found.lower) | (trusted > found.upper)
    return {
        "limits_half_width": float(np.median(0.5 * (found.upper - found.lower) / spread)),
        "limits_trusted_outside": float(outside.any(axis=1).mean()),
    }


def _problem(data: StudyData, trusted: TrustedModel, config: FitConfig) -> Problem:
    return prepare(data.transitions, trusted=trusted, probes=data.probes, config=config)


def _fit(task: Task, problem: Problem, config: FitConfig) -> Fit:
    """The method of a task, trained, measured, and certified where it can be."""
    learned = _learn(task, problem, config)
    # One process: the others are busy with other runs.
    fitted = judge(problem, learned, evaluations=_ATTACKS[task.plan.scale], jobs=1)
    if task.is_explored:
        _explore(task, fitted.model, problem)
    return fitted


def _learn(task: Task, problem: Problem, config: FitConfig) -> Learned:
    """The method of a task, trained."""
    try:
        return _learn_from(task, problem, config)
    except StorageError:
        # Of other settings or another version, or damaged: begun anew, or the study would fail for ever.
        if not task.checkpoint.exists():
            raise
        task.checkpoint.unlink()
        return _learn_from(task, problem, config)


def _learn_from(task: Task, problem: Problem, config: FitConfig) -> Learned:
    """The same, from the task's checkpoint where there is one."""
    row, reporter = task.row, _file_reporter(task, 0.0, 0.9)
    schema = problem.split.train.schema
    learned = learn_method(
        problem,
        row.method,
        config,
        built=row.build(problem, config, reporter) if row.build else None,
        network=noisy_network(schema, row.noise, config) if row.noise else None,
        checkpoint=lambda name: task.checkpoint,
        reporter=reporter,
    )
    if isinstance(learned.model.network, NoisyFeatures):
        learned.model.network = learned.model.network.network
    return learned


def _explore(task: Task, model: Model, problem: Problem) -> None:
    """Writes what the report's explorer shows, which needs M and the network."""
    test, probes = problem.split.test, problem.probe_sets[2]
    data = explorer_data(model, problem.trusted, test, probes, name=f"{task.method_name}, seed {task.seed}")
    write_json(task.explorer, data)


def _finish(task: Task, result: dict[str, Any], arrays: Mapping[str, np.ndarray], history: list) -> None:
    write_arrays(task.result.with_suffix(".npz"), arrays)
    # Last: its presence says that the run is done.
    write_json(task.result, result | {"settings": task.settings, "history": history})
    task.checkpoint.unlink(missing_ok=True)
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
