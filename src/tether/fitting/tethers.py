"""Cells and bounds for a problem."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from tether.data import Array, Target
from tether.evidence import Question, strongest
from tether.fitting.boxes import Boxed, build_boxes
from tether.fitting.config import (
    FitConfig,
    resolve_evidence,
    resolve_target,
)
from tether.fitting.problem import Problem
from tether.foundation.progress import Reporter, silent
from tether.geometry.cells import Cells, build_cells, pin_memories
from tether.geometry.memories import fit_memories
from tether.programs import EnclosureError
from tether.tethers.bounds import Bounds, IntervalBounds, bound_by_intervals
from tether.tethers.calibration import calibrate

COVERAGE = 0.995
"""Quantile of held-out inputs that the coverage radius must reach."""
_REACH = 1.25
"""The coverage radius, as a multiple of what covers that quantile."""
_LEAST_CELLS = 10
_ROWS_PER_CELL = 50


@dataclass(frozen=True, eq=False)
class Partition:
    """Cells, and what finding them took."""

    cells: Cells
    seconds: float


@dataclass(frozen=True, eq=False)
class Celled:
    """Bounds over cells, and what they took.

    Attributes:
        partition: the cells.
        bounds: what holds over them.
        target: what is bounded.
        seconds: to build the bounds.
        why: in a line, why nothing is proved; None where it is, or a level was asked for.
        boxed: what came with bounds over boxes.
    """

    partition: Partition
    bounds: Bounds
    target: Target
    seconds: float
    why: str | None = None
    boxed: Boxed | None = None

    @property
    def cells(self) -> Cells:
        """The cells."""
        return self.partition.cells


def build_cells_for(
    problem: Problem, config: FitConfig, *, scale: Array | None = None, reporter: Reporter = silent
) -> Partition:
    """Memories and cells from the training parts; the radius from the validation parts.

    Args:
        problem: whose inputs they partition.
        config: how many there are.
        scale: (D,) of the inputs: what makes cells small along one of them; by default as the data spread.
        reporter: opens a progress display.
    """
    start = time.monotonic()
    boxed, count = config.bounds == "affine", config.memories
    scale = problem.scaling.scale if scale is None else scale
    if boxed:  # they only say where the data are: enough rows in each to tell a spread
        count = min(count, max(_LEAST_CELLS, len(problem.training_inputs) // _ROWS_PER_CELL))
    with reporter("Memories") as progress:
        memories = fit_memories(problem.training_inputs / scale, count, seed=config.seed, progress=progress)
    if not boxed:
        memories = pin_memories(memories, problem.probes[0].inputs / scale, problem.pinned / scale)
    cells = build_cells(
        memories,
        scale,
        held_out=[problem.data[1].inputs, problem.probes[1].inputs],
        quantile=COVERAGE,
        schema=problem.split.train.schema,
        domain=None if boxed else config.domain,
        reach=_REACH,
    )
    return Partition(cells, time.monotonic() - start)


def build_tether(problem: Problem, config: FitConfig, *, reporter: Reporter = silent) -> Celled:
    """Bounds of the kind that `config` asks for, over cells of their own."""
    partition = build_cells_for(problem, config, reporter=reporter)
    start = time.monotonic()
    build = _build_affine if config.bounds == "affine" else _build_interval
    built = build(problem, config, partition, reporter)
    return replace(built, seconds=time.monotonic() - start)


def _build_affine(problem: Problem, config: FitConfig, partition: Partition, reporter: Reporter) -> Celled:
    boxed = build_boxes(problem, partition.cells, config, problem.pinned, reporter=reporter)
    target = resolve_target(config.target, problem.split.train)
    return Celled(partition, boxed.bounds, target, 0.0, boxed.why, boxed)


def _build_interval(problem: Problem, config: FitConfig, partition: Partition, reporter: Reporter) -> Celled:
    train, cells = problem.split.train, partition.cells
    target = resolve_target(config.target, train)
    sampling = config.sampling.seeded(config.seed)
    box = cells.box_lower, cells.box_upper
    question = Question(problem.trusted, train.schema, target, *box, sampling=sampling)
    with reporter("What M's code allows (the first time: compiling)"):  # a minute or two, once on a machine
        evidence, why = resolve_evidence(config.evidence, config.bounds, question, problem.observed_inputs)
    common = (cells, problem.trusted, train.schema, target)

    def bound() -> IntervalBounds:
        return bound_by_intervals(
            *common, inputs=problem.training_inputs, evidence=evidence, sampling=sampling, reporter=reporter
        )

    try:
        bounds = bound()
    except EnclosureError as error:  # over a cell, as where a condition is not decided
        if config.evidence is not None:
            raise
        unproved = f"M ({problem.trusted.name}) cannot be proved: {error}"
        evidence, why = strongest(problem.trusted, config.bounds, question, unproved=unproved)
        bounds = bound()
    if evidence.draws:  # fresh ones, after bounds were built from others
        bounds = calibrate(bounds, *common, evidence=evidence, seed=config.seed)
    return Celled(partition, bounds, target, 0.0, why)
