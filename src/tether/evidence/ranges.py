"""M's range over each cell's coverage region, by the evidence it rests on.

`sampled` is an estimate from inside: it never exceeds the true range. `lipschitz` is a range from
outside: it always contains the true one, if the constants the user gave are right. `proved` is a range
from outside by outward-rounded interval arithmetic on M's own NumPy code.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tether.data import Array, Schema, Target
from tether.evidence.question import SamplingConfig, target_program
from tether.foundation.progress import Reporter, silent
from tether.geometry.cells import Cells, CellSampler
from tether.programs import enclose, enclose_range
from tether.trusted import TrustedModel


@dataclass(frozen=True, eq=False)
class Range:
    """Lower and upper limit of M's target per cell and output, (K, P) each."""

    lower: Array
    upper: Array

    def middle(self, otherwise: Array) -> Array:
        """(K, P) halfway between the limits; `otherwise` where they are not finite."""
        finite = np.isfinite(self.lower) & np.isfinite(self.upper)
        lower, upper = np.where(finite, self.lower, otherwise), np.where(finite, self.upper, otherwise)
        return 0.5 * lower + 0.5 * upper


@dataclass(eq=False)
class _Extremes:
    """The smallest and largest values seen so far per cell and output, and where."""

    lower: Array
    upper: Array
    lowest: Array
    """(K, P, D) where the lower limit was seen."""
    highest: Array

    def absorb(self, cell: NDArray[np.int64], inputs: Array, values: Array) -> None:
        """Takes (N,) cells, (N, D) inputs and (N, P) values into account."""
        for output in range(values.shape[1]):
            column = values[:, output]
            self._improve(cell, inputs, column, self.lower[:, output], self.lowest[:, output], 1.0)
            self._improve(cell, inputs, -column, self.upper[:, output], self.highest[:, output], -1.0)

    @staticmethod
    def _improve(cell, inputs, column, limit, place, sign) -> None:
        # One row per cell: the smallest value comes first in its run after sorting by (cell, value).
        order = np.lexsort((column, cell))
        first = order[np.r_[True, np.diff(cell[order]) > 0]]
        better = first[column[first] < sign * limit[cell[first]]]
        limit[cell[better]] = sign * column[better]
        place[cell[better]] = inputs[better]


def sampled_range(
    cells: Cells,
    trusted: TrustedModel,
    schema: Schema,
    target: Target,
    *,
    inputs: Array,
    around: Array | None = None,
    config: SamplingConfig = SamplingConfig(),
    reporter: Reporter = silent,
) -> Range:
    """The range of M seen at the memories, at `inputs` in coverage, and at points drawn inside cells.

    Each lowest and highest point is then moved along the cell's own slope of M, by many random moves
    or by few; what improves is kept.

    Args:
        cells: the cells.
        trusted: M.
        schema: what the columns mean.
        target: whether next states or increments are bounded.
        inputs: (N, D) inputs of D and Ω; those outside the coverage regions are left out.
        around: (K, P) what angles of a cell are moved by whole turns to be nearest to; None: M at its memory.
        config: how hard to look.
        reporter: opens progress displays.
    """
    rng = np.random.default_rng(config.seed)
    sampler = CellSampler(cells)
    location = cells.locate(inputs)
    covered = location.in_domain
    drawn = sampler.sample(config.per_cell, rng=rng)
    count, _, dimensions = drawn.shape
    places = np.concatenate([cells.centers, inputs[covered], drawn.reshape(-1, dimensions)])
    everywhere = np.arange(count)
    owners = np.concatenate([everywhere, location.cell[covered], np.repeat(everywhere, config.per_cell)])
    with reporter("Trusted model in cells") as progress:
        values = trusted.target(places, schema, target, progress=progress)
    around = values[:count] if around is None else around
    values = schema.near(values, around[owners])
    outputs = values.shape[1]
    nowhere = np.empty((count, outputs, dimensions))
    limits = np.full((count, outputs), np.inf)
    extremes = _Extremes(limits, -limits, nowhere, nowhere.copy())
    extremes.absorb(owners, places, values)
    slopes = fitted_slopes(
        drawn / cells.scale, values[-count * config.per_cell :].reshape(count, -1, outputs)
    )
    cell = np.tile(np.repeat(everywhere, outputs), 2)
    uphill = np.concatenate([-slopes, slopes]).reshape(-1, dimensions)
    with reporter("Extremes of each cell") as progress:
        for round_ in range(config.refinements):
            starts = np.concatenate([extremes.lowest, extremes.highest]).reshape(-1, dimensions)
            # Many moves find the extreme of an affine M; few explore around that of a curved one.
            moves = 24 if round_ == 0 else (1, 2, 4)[round_ % 3]
            places = sampler.climb(cell, starts, uphill, moves, rng=rng)
            values = schema.near(trusted.target(places, schema, target), around[cell])
            extremes.absorb(cell, places, values)
            progress(round_ + 1, config.refinements)
    return Range(extremes.lower, extremes.upper)


def fitted_slopes(points: Array, values: Array) -> Array:
    """(K, P, D) least-squares slope of each output over the points of each cell."""
    centred = points - points.mean(axis=1, keepdims=True)
    gram = centred.transpose(0, 2, 1) @ centred
    # A ridge, because a cell may be flat in some direction or hold fewer points than inputs.
    ridge = 1e-6 * np.trace(gram, axis1=1, axis2=2) / gram.shape[1] + np.finfo(np.float64).tiny
    gram += ridge[:, None, None] * np.eye(gram.shape[1])
    moments = centred.transpose(0, 2, 1) @ (values - values.mean(axis=1, keepdims=True))
    return np.linalg.solve(gram, moments).transpose(0, 2, 1)


def lipschitz_range(cells: Cells, trusted: TrustedModel, schema: Schema, target: Target) -> Range:
    """M at each memory plus and minus the most it can change within the coverage radius.

    Sound over the whole ball around the memory, not only its part inside the cell, so that it does
    not matter which of two nearly tied memories rounding picks.
    """
    constants = trusted.lipschitz_constants(schema, target)
    if constants is None:
        raise ValueError(
            "evidence `lipschitz` must have constants of the trusted model; got none. "
            "Pass `TrustedModel(M, lipschitz=...)`, or use evidence `sampled`."
        )
    change = cells.outer_radii[:, None] * reach_per_radius(constants, cells.scale)
    values = trusted.target(cells.centers, schema, target)
    margin = rounding_margin(values, change)
    return Range(values - change - margin, values + change + margin)


def proved_range(cells: Cells, trusted: TrustedModel, schema: Schema, target: Target) -> Range:
    """M over the whole ball around each memory, by interval arithmetic and by the mean-value theorem.

    Both are sound, so their intersection is.
    """
    centers, reach = cells.centers, cells.outer_radii[:, None] * cells.scale * (1 + 1e-12)
    lower = np.minimum(np.maximum(centers - reach - 1e-12 * np.abs(centers), cells.box_lower), centers)
    upper = np.maximum(np.minimum(centers + reach + 1e-12 * np.abs(centers), cells.box_upper), centers)
    dx = len(schema.states)
    program = target_program(trusted, schema, target, lower, upper)
    over_box = enclose(program, lower, upper, states=dx)
    point = enclose_range(program, centers, centers, states=dx)
    largest = np.maximum(np.abs(over_box.jacobian_lower), np.abs(over_box.jacobian_upper))
    change = cells.outer_radii[:, None] * length(largest * cells.scale) * (1 + 1e-12)
    low = np.maximum(over_box.lower, np.nextafter(point.lower - change, -np.inf))
    high = np.minimum(over_box.upper, np.nextafter(point.upper + change, np.inf))
    # M's code may return an angle any number of turns away from where it is unwrapped to.
    seen = trusted.target(centers, schema, target)
    turns = (
        2 * np.pi * np.round((seen - 0.5 * (point.lower + point.upper)) / (2 * np.pi)) * schema.output_angles
    )
    # M's own roundings are known; those of its turns here are in proportion to what it returns.
    margin = rounding_margin(np.maximum(np.abs(low), np.abs(high)) + 4 * np.abs(turns), np.zeros(1))
    margin = margin + over_box.rounding
    return Range(low + turns - margin, high + turns + margin)


def reach_per_radius(constants: Array, scale: Array) -> Array:
    """(P,) most that an output with these Lipschitz constants changes per unit of scaled distance.

    For (P, D) constants the supremum of ``sum_d L_d scale_d |z_d|`` over the unit ball is the
    2-norm of ``L scale``; for (P, 1) the physical Euclidean length is at most the largest scale.
    """
    if constants.shape[1] == len(scale):
        return length(constants * scale)
    return constants[:, 0] * scale.max()


def length(vectors: Array) -> Array:
    """2-norm along the last axis, without the underflow and overflow of squaring small and large numbers."""
    largest = np.abs(vectors).max(axis=-1, keepdims=True)
    unit = np.divide(vectors, largest, out=np.zeros_like(vectors), where=largest > 0)
    return np.linalg.norm(unit, axis=-1) * largest[..., 0]


def rounding_margin(values: Array, change: Array) -> Array:
    """Covers the roundings of the few operations that combine `values` and `change`."""
    return 16 * np.finfo(np.float64).eps * (np.abs(values) + change)
