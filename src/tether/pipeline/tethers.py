"""Cells and bounds for a problem."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from tether.bounds import (
    Bounds,
    CellBounds,
    Observations,
    bound_by_expansions,
    bound_by_intervals,
    within_budget,
)
from tether.calibration import calibrate
from tether.cells import Cells, build_cells, pin_memories
from tether.data import Array, Target
from tether.memories import fit_memories
from tether.metric import bending_weights
from tether.pipeline.boxes import Boxed, build_boxes
from tether.pipeline.config import (
    FitConfig,
    TetherKind,
    resolve_budget,
    resolve_evidence,
    resolve_inputs,
    resolve_target,
)
from tether.pipeline.problem import Problem
from tether.progress import Reporter, silent
from tether.ranges import Evidence

BLENDED_CELLS = 8
"""How many cells a smooth tether blends."""
_LEAST_CELLS = 10
_ROWS_PER_CELL = 50


@dataclass(frozen=True, eq=False)
class Partition:
    """Cells, and what finding them took."""

    cells: Cells
    seconds: float


@dataclass(frozen=True, eq=False)
class Tether:
    """Bounds over cells, and what they took."""

    kind: TetherKind
    partition: Partition
    bounds: Bounds
    target: Target
    seconds: float
    boxed: Boxed | None = None

    @property
    def cells(self) -> Cells:
        """The cells."""
        return self.partition.cells


def pinned_inputs(problem: Problem, config: FitConfig) -> Array:
    """(D,) the values at which M is followed exactly, NaN where none; see `FitConfig.follow`."""
    return problem.pinned if config.follow == "agreed" else np.full_like(problem.pinned, np.nan)


def build_cells_for(problem: Problem, config: FitConfig, *, reporter: Reporter = silent) -> Partition:
    """Memories and cells from the training parts; the radius from the validation parts."""
    start = time.monotonic()
    scale = problem.scaling.scale
    if config.metric == "trusted" or (config.metric is None and config.bounds == "affine"):
        target = resolve_target(config.target, problem.split.train)
        schema = problem.split.train.schema
        scale = scale / bending_weights(
            problem.trusted, problem.training_inputs, schema, target, seed=config.seed
        )
    scale = scale * resolve_inputs("stretch", config.stretch, problem.split.train.schema, 1.0)
    count = config.memories
    if config.bounds == "boxes":  # they only say where the data are: enough rows in each to tell a spread
        count = min(count, max(_LEAST_CELLS, len(problem.training_inputs) // _ROWS_PER_CELL))
    with reporter("Memories") as progress:
        memories = fit_memories(problem.training_inputs / scale, count, seed=config.seed, progress=progress)
    if config.bounds != "boxes":
        memories = pin_memories(
            memories, problem.probes[0].inputs / scale, pinned_inputs(problem, config) / scale
        )
    cells = build_cells(
        memories,
        scale,
        held_out=[problem.data[1].inputs, problem.probes[1].inputs],
        quantile=config.coverage,
        schema=problem.split.train.schema,
        domain=None if config.bounds == "boxes" else config.domain,
        reach=config.reach,
    )
    return Partition(cells, time.monotonic() - start)


def build_tether(
    problem: Problem,
    config: FitConfig,
    *,
    kind: TetherKind | None = None,
    partition: Partition | None = None,
    reporter: Reporter = silent,
) -> Tether:
    """Bounds over cells; `kind` and `partition` default to what `config` says."""
    partition = partition or build_cells_for(problem, config, reporter=reporter)
    kind = kind or config.bounds
    start = time.monotonic()
    train = problem.split.train
    target = resolve_target(config.target, train)
    sampling = replace(config.sampling, seed=config.seed)
    evidence = resolve_evidence(config.evidence, kind, problem.trusted)
    # Statistical evidence is calibrated on fresh draws, after bounds were built from others.
    built: Evidence = "sampled" if evidence == "statistical" else evidence
    common = (partition.cells, problem.trusted, train.schema, target)
    if kind == "boxes":
        pinned = pinned_inputs(problem, config)
        boxed = build_boxes(problem, partition.cells, config, pinned, reporter=reporter)
        return Tether(kind, partition, boxed.bounds, target, time.monotonic() - start, boxed)
    bounds: CellBounds
    if kind == "interval":
        bounds = bound_by_intervals(
            *common, inputs=problem.training_inputs, evidence=built, sampling=sampling, reporter=reporter
        )
    else:
        bounds = bound_by_expansions(
            *common,
            observations=Observations(
                train.inputs,
                train.target(target),
                pinned_inputs(problem, config),
                problem.probes[0].inputs if config.follow == "cells" else None,
            ),
            evidence=built,
            sampling=sampling,
            blend=BLENDED_CELLS if config.smooth else 0,
        )
    if evidence == "statistical":
        bounds = calibrate(bounds, *common, sampling=sampling)
    budget = resolve_budget(config.delta, train.schema)
    if budget is not None and bounds.kind == "affine":
        bounds = within_budget(bounds, budget, train.schema)
    return Tether(kind, partition, bounds, target, time.monotonic() - start)
