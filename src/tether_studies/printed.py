"""The paper's own method, as it is printed and as its authors sample it, from the library's parts.

Cells are by the spread of the data. The limits of a cell are the range of M over what the authors look at:
its memory, the data and probes in it, the midpoints to its neighbours in the gas's graph, and points between
those until there are 25. Nothing climbs to extremes and no memory is moved, so M leaves its own limits where
the authors' M does; what is known of delta is an estimate.

What is not taken over are the mistakes of their code (``docs/differences.md``): the cell of an input is its
nearest memory among all.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tether.data import Array, Target
from tether.evidence import Sampled, SamplingConfig
from tether.fitting import Built, FitConfig, Method, Problem
from tether.fitting.tethers import COVERAGE
from tether.foundation.limits import MOST_STEPS
from tether.foundation.progress import Reporter, silent
from tether.geometry.cells import Cells, build_cells, pin_memories
from tether.geometry.memories import Memories, fit_memories
from tether.geometry.nearest import NearestIndex
from tether.tethers import tether_over
from tether.tethers.bounds import IntervalBounds, bound_by_intervals

Sampling = Literal["authors", "climbed"]
Growth = Literal["growing", "at once"]

SAMPLES = 25
"""Points at least at which M is asked in a cell with two neighbours or more."""
FIXED = {"update_every": MOST_STEPS}
"""Training settings with which multipliers stay what they are at the start: the squared distance to M, on D
and on Ω, with weight 1. The authors' code has no update either; it takes half the mean over outputs of both,
where this takes the output farthest from M, as the paper prints."""
CLIMBS = SamplingConfig(refinements=2)
"""Of cells whose extremes of M are climbed to, as the library does."""
# Of the library that the authors used, as they call it.
_WINNER, _NEIGHBOUR, _OLDEST = 0.2, 0.05, 100


@dataclass(frozen=True)
class PaperBounds:
    """Builds the paper's tether, or one that differs from it in something.

    Attributes:
        target: what is bounded; the paper bounds next states.
        sampling: where M is asked in a cell: where the `authors` do, or at extremes that are `climbed` to.
        gas: whether it grows, as the paper says, or begins with all its memories and sees each input once, as
            in the authors' code.
        on_probes: whether memories whose cells hold probes are moved to what all of these agree on.
    """

    target: Target = "next_state"
    sampling: Sampling = "authors"
    gas: Growth = "growing"
    on_probes: bool = False

    def __call__(self, problem: Problem, config: FitConfig, reporter: Reporter) -> Built:
        """The tether for a problem, with `config.memories` cells."""
        start = time.monotonic()
        cells = self._cells(problem, config, reporter)
        found = time.monotonic()
        bounds = self._bounds(cells, problem, config)
        return Built(
            tether_over(cells, bounds),
            self.target,
            anchored=False,
            seconds_memories=found - start,
            seconds_bounds=time.monotonic() - found,
        )

    def _cells(self, problem: Problem, config: FitConfig, reporter: Reporter) -> Cells:
        scale = problem.scaling.scale
        inputs = problem.training_inputs / scale
        if self.gas == "at once":
            memories = gas_at_once(inputs, config.memories, seed=config.seed)
        else:
            with reporter("Memories") as progress:
                memories = fit_memories(inputs, config.memories, seed=config.seed, progress=progress)
        if self.on_probes:
            memories = pin_memories(memories, problem.probes[0].inputs / scale, problem.pinned / scale)
        return build_cells(
            memories,
            scale,
            held_out=[problem.data[1].inputs, problem.probes[1].inputs],
            quantile=COVERAGE,
            schema=problem.split.train.schema,
            domain=config.domain,
        )

    def _bounds(self, cells: Cells, problem: Problem, config: FitConfig) -> IntervalBounds:
        schema = problem.split.train.schema
        if self.sampling == "authors":
            return bound_as_authors(cells, problem, self.target, seed=config.seed)
        common = (cells, problem.trusted, schema, self.target)
        sampling = CLIMBS.seeded(config.seed)
        return bound_by_intervals(*common, inputs=problem.training_inputs, sampling=sampling)


def bound_as_authors(cells: Cells, problem: Problem, target: Target, *, seed: int) -> IntervalBounds:
    """The range of M over the points that the authors look at in each cell."""
    schema, trusted = problem.split.train.schema, problem.trusted
    center = trusted.target(cells.centers, schema, target)
    inputs = problem.training_inputs
    cell, points = authors_points(cells, inputs, np.random.default_rng(seed))
    values = schema.near(trusted.target(points, schema, target), center[cell])
    lower, upper = center.copy(), center.copy()
    np.minimum.at(lower, cell, values)
    np.maximum.at(upper, cell, values)
    return IntervalBounds(lower, upper, schema.capped(upper - lower), center, Sampled())


def authors_points(cells: Cells, inputs: Array, rng: np.random.Generator) -> tuple[NDArray[np.int64], Array]:
    """(N,) cells and (N, D) points at which the authors ask M there, besides the memories.

    Args:
        cells: the cells.
        inputs: (M, D) data and probes to learn from.
        rng: of the points between midpoints.
    """
    both = np.concatenate([cells.edges, cells.edges[:, ::-1]])
    both = both[np.argsort(both[:, 0], kind="stable")]
    middles = 0.5 * (cells.centers[both[:, 0]] + cells.centers[both[:, 1]])
    held = cells.index.query(inputs / cells.scale).cell
    seen = 1 + np.bincount(held, minlength=len(cells)) + np.bincount(both[:, 0], minlength=len(cells))
    filled, fill = _between_midpoints(cells, both[:, 0], middles, SAMPLES - seen, rng)
    return np.concatenate([held, both[:, 0], filled]), np.concatenate([inputs, middles, fill])


def _between_midpoints(
    cells: Cells,
    owner: NDArray[np.int64],
    middles: Array,
    missing: NDArray[np.int64],
    rng: np.random.Generator,
) -> tuple[NDArray[np.int64], Array]:
    """Points of the parallelograms that a memory and two of its midpoints span, where some are missing.

    They may lie outside the cell, as the authors' do.
    """
    degree = np.bincount(owner, minlength=len(cells))
    first = np.concatenate([[0], np.cumsum(degree)[:-1]])
    wanted = np.where(degree >= 2, np.maximum(missing, 0), 0)
    cell = np.repeat(np.arange(len(cells)), wanted)
    one = rng.integers(0, degree[cell])
    other = rng.integers(0, degree[cell] - 1)
    other += other >= one  # two different ones
    memory = cells.centers[cell]
    ways = [middles[first[cell] + which] - memory for which in (one, other)]
    shares = rng.random((2, len(cell), 1))
    return cell, memory + shares[0] * ways[0] + shares[1] * ways[1]


def gas_at_once(inputs: Array, count: int, *, seed: int) -> Memories:
    """A gas as the authors run it: all memories at inputs drawn by chance, then every input once.

    Args:
        inputs: (N, D) scaled.
        count: of memories.
        seed: of the draw and of the order.
    """
    rng = np.random.default_rng(seed)
    distinct = np.unique(inputs, axis=0)
    nodes = distinct[rng.choice(len(distinct), min(count, len(distinct)), replace=False)].copy()
    ages: list[dict[int, int]] = [{} for _ in nodes]
    for row in rng.permutation(len(inputs)):
        _present(nodes, ages, inputs[row])
    edges = sorted({(min(a, b), max(a, b)) for a, others in enumerate(ages) for b in others})
    # Two that have met at one place would share a cell.
    kept = np.unique(nodes, axis=0, return_index=True)[1]
    return _without_others(Memories(nodes, np.array(edges, np.int64).reshape(-1, 2)), np.sort(kept))


def _present(nodes: Array, ages: list[dict[int, int]], point: Array) -> None:
    """Moves the nearest memory and its neighbours, links the two nearest, and forgets old links."""
    away = nodes - point
    first, second = np.argpartition(np.einsum("kd,kd->k", away, away), 1)[:2].tolist()
    nodes[first] -= _WINNER * away[first]
    for other in ages[first]:
        nodes[other] -= _NEIGHBOUR * away[other]
        ages[first][other] += 1
        ages[other][first] += 1
    ages[first][second] = ages[second][first] = 0
    for other in [other for other, age in ages[first].items() if age > _OLDEST]:
        del ages[first][other], ages[other][first]


def _without_others(memories: Memories, kept: NDArray[np.int64]) -> Memories:
    number = np.full(len(memories.nodes), -1)
    number[kept] = np.arange(len(kept))
    edges = number[memories.edges]
    return Memories(memories.nodes[kept], edges[(edges >= 0).all(axis=1)])


def constrained(name: str) -> Method:
    """A row of the paper's method, or of one that differs from it."""
    return Method(name, "interval", "augmented_lagrangian", "next_state")


def mid_cell_distance(problem: Problem, count: int, *, seed: int) -> float:
    """Mean squared distance to M on held-out Ω of the middle of each cell's limits: no network at all."""
    config = FitConfig(memories=count, seed=seed)
    cells = PaperBounds(gas="at once")._cells(problem, config, silent)
    bounds = bound_as_authors(cells, problem, "next_state", seed=seed)
    test = problem.probes[2]
    cell = NearestIndex(cells.memories).query(test.inputs / cells.scale).cell
    middle = (0.5 * (bounds.lower + bounds.upper))[cell]
    return float((problem.split.test.schema.distance(middle, test.trusted) ** 2).mean())
