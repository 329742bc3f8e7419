"""delta as the input: memories grow where the remainder does not fit."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import count

import numpy as np

from tether.bounds import AffineBounds, fitting_radii
from tether.cells import Cells, pin_memories
from tether.data import Array
from tether.errors import CertificateError
from tether.memories import Memories
from tether.nearest import NearestIndex
from tether.pipeline.config import FitConfig, resolve_budget
from tether.pipeline.problem import Problem
from tether.pipeline.tethers import (
    Partition,
    Tether,
    build_cells_for,
    build_tether,
    pinned_inputs,
)
from tether.progress import Reporter, silent

LEAST_COVERAGE = 0.99
"""Share of held-out D and of held-out Ω that a tether built for a delta covers."""


def build_tether_within(problem: Problem, config: FitConfig, *, reporter: Reporter = silent) -> Tether:
    """A tether that keeps to `config.delta` in every cell and covers what `config.coverage` asks for.

    A cell whose remainder does not fit gets a smaller radius, and likely inputs that this leaves
    uncovered get memories of their own, until held-out inputs of D and Ω are covered.

    Raises:
        CertificateError: once memories exceed half of the distinct inputs, naming the cell and the output
            whose remainder fits least, and by how much.
    """
    schema = problem.split.train.schema
    budget = resolve_budget(config.delta, schema)
    if budget is None or config.bounds == "boxes":
        return build_tether(problem, config, reporter=reporter)
    start = time.monotonic()
    most = len(np.unique(problem.training_inputs, axis=0)) // 2
    wide = build_cells_for(problem, config, reporter=reporter).cells
    rng = np.random.default_rng(config.seed)
    with reporter("Memories where the remainder does not fit") as progress:
        for attempt in count(1):
            # Other draws in every attempt: those of the last must be independent of what they judge.
            trial = replace(config, delta=None, seed=config.seed + 7919 * attempt)
            bounds = build_tether(problem, trial, kind="affine", partition=Partition(wide, 0.0)).bounds
            assert bounds.kind == "affine"
            fitted = _fitted(wide, bounds, budget)
            # Some slack for the next episodes: held-out ones are a few themselves.
            surely = replace(fitted, radii=0.9 * fitted.radii)
            covered = _least_coverage(problem, surely)
            progress(int(1000 * min(1.0, covered / config.coverage)), 1000)
            missed, reach = _missed(_likely_inputs(problem, wide, rng), surely)
            enough = covered >= config.coverage or (
                len(missed) == 0 and _least_coverage(problem, fitted) >= LEAST_COVERAGE
            )
            if enough:
                return build_tether(problem, config, partition=Partition(fitted, time.monotonic() - start))
            chosen = _cover(missed, reach, most - len(wide), rng)
            if len(chosen) == 0:
                raise _shortfall(
                    problem, wide, bounds, budget, f"{_growth(config, wide, most)} {100 * covered:.1f} %"
                )
            wide = _grown(problem, config, wide, chosen)
    raise AssertionError("memories grow in every attempt, so the loop ends above")


def _fitted(cells: Cells, bounds: AffineBounds, budget: Array) -> Cells:
    """`cells` with radii at which each keeps to the budget; next to nothing where none does."""
    # Fresh draws will widen statistical bounds by another amount.
    slack = 0.3 if bounds.evidence == "statistical" else 0.0
    rounding = cells.outer_radii - cells.radii
    radii = fitting_radii(bounds, budget, slack=slack) * (1 - 1e-9) - rounding
    return replace(cells, radii=np.clip(radii, 1e-12 * cells.radii, cells.radii))


def _least_coverage(problem: Problem, cells: Cells) -> float:
    """Of held-out D and Ω, whichever is covered less."""
    parts = (problem.data[1], problem.probes[1])
    return min(float(cells.locate(part.inputs).in_domain.mean()) for part in parts)


def _likely_inputs(problem: Problem, cells: Cells, rng: np.random.Generator) -> Array:
    """(N, D) training inputs, and as many beside them as the next episodes will bring.

    Those are training inputs of D moved by what lies between held-out inputs and the nearest training
    input, so that they are as far from the training data, and in such directions, as new data will be.
    """
    seen, held_out = problem.data[0].inputs, problem.data[1].inputs
    nearest = NearestIndex(seen / cells.scale).query(held_out / cells.scale).cell
    offsets = (held_out - seen[nearest])[rng.integers(0, len(held_out), len(seen))]
    # At times farther than any held-out input: the next episodes may be.
    moved = seen + rng.uniform(0, 1.5, (len(seen), 1)) * offsets
    dx = len(problem.split.train.schema.states)
    moved = problem.split.train.schema.wrap_inputs(moved[:, :dx], moved[:, dx:])
    likely = np.concatenate([problem.training_inputs, moved])
    return likely[cells.in_box(likely)]


def _missed(inputs: Array, cells: Cells) -> tuple[Array, Array]:
    """Scaled inputs (N, D) that no cell covers, and the radius (N,) of the cell each falls into."""
    location = cells.locate(inputs)
    outside = ~location.in_domain
    return inputs[outside] / cells.scale, cells.radii[location.cell[outside]]


def _grown(problem: Problem, config: FitConfig, wide: Cells, chosen: Array) -> Cells:
    """`wide` with the scaled inputs (N, D) as further memories, each tied to its nearest old one."""
    nearest = NearestIndex(wide.memories).query(chosen).cell
    ties = np.column_stack([nearest, len(wide) + np.arange(len(chosen))])
    memories = pin_memories(
        Memories(np.concatenate([wide.memories, chosen]), np.concatenate([wide.edges, ties])),
        problem.probes[0].inputs / wide.scale,
        pinned_inputs(problem, config) / wide.scale,
    )
    radii = np.full(len(memories.nodes), wide.radii.max())
    return replace(wide, memories=memories.nodes, edges=memories.edges, radii=radii)


def _cover(missed: Array, reach: Array, most: int, rng: np.random.Generator) -> Array:
    """(C, D) some of the scaled points `missed` (N, D), none within reach (N,) of another, at most `most`."""
    order = rng.permutation(len(missed))
    points, reach = missed[order], reach[order]
    chosen = []
    while len(points) and len(chosen) < most:
        chosen.append(points[0])
        near = ((points - points[0]) ** 2).sum(axis=1) <= reach[0] ** 2
        near[0] = True
        points, reach = points[~near], reach[~near]
    return np.array(chosen)


def _growth(config: FitConfig, cells: Cells, most: int) -> str:
    """How many memories the search has come to, which is not the number asked for."""
    limit = ", as many as the data allow," if len(cells) >= most else ""
    if len(cells) <= config.memories:
        return f"with {len(cells)} memories{limit}"
    return f"with {len(cells)} memories, grown from {config.memories}{limit or ','}"


def _shortfall(
    problem: Problem, cells: Cells, bounds: AffineBounds, budget: Array, covered: str
) -> CertificateError:
    """Names the cell and the output whose remainder fits least where held-out inputs lie.

    `covered` says with how many memories how many of them are covered.
    """
    inputs = np.concatenate([problem.data[1].inputs, problem.probes[1].inputs])
    location = cells.locate(inputs)
    remainder = bounds.expansion.remainder.at(location.cell, np.minimum(location.distance, cells.radii.max()))
    row, output = np.unravel_index(int(np.argmax(remainder / budget)), remainder.shape)
    name = problem.split.train.schema.outputs[output]
    excess = remainder[row, output] - budget[output]
    if excess <= 0:
        return CertificateError(
            f"`delta` must leave {100 * LEAST_COVERAGE:.0f} % of held-out inputs covered; {covered} are, "
            "although the remainder fits: the others lie too far from training data. Bring more data, or a "
            "wider domain; neither `delta` nor `memories` need change."
        )
    return CertificateError(
        f"`delta` must leave room for the remainder; {covered} of held-out inputs are covered, and in "
        f"cell {location.cell[row]} output '{name}' the remainder exceeds {budget[output]:.4g} by "
        f"{excess:.4g}. Allow a larger `delta` (`memories` is only where the search starts), bring more data "
        "or a smaller domain."
    )
