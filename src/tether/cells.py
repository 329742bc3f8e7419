"""Cells: which memory an input belongs to, where a cell ends, and points drawn inside it.

Distances are Euclidean in scaled coordinates, ``inputs / scale``. The cell of an input is the
exactly nearest memory (ties to the lowest index), never a guess from the gas's graph. The *coverage*
of a cell is its part within ``radius`` of its memory and inside the domain box; everything that is
claimed is claimed on the union of the coverage regions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numba
import numpy as np
from numpy.typing import NDArray

from tether.data import Array, Box, Schema
from tether.memories import Memories
from tether.nearest import NearestIndex

_LISTED_NEIGHBOURS = 512
_EPS = np.finfo(np.float64).eps


@dataclass(frozen=True, eq=False)
class Location:
    """Where inputs fall.

    Attributes:
        cell: (N,) index of the nearest memory.
        distance: (N,) scaled distance to it.
        in_domain: (N,) whether the input lies in that cell's coverage region.
    """

    cell: NDArray[np.int64]
    distance: Array
    in_domain: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Facets:
    """Half-spaces between graph neighbours (the paper's H_ij).

    A scaled point z is on the side of memory ``pairs[e, 0]`` where ``normals[e] @ z < offsets[e]``.

    Attributes:
        pairs: (E, 2) memories i, j.
        normals: (E, D) m_j - m_i.
        offsets: (E,) where the perpendicular bisector lies along the normal.
    """

    pairs: NDArray[np.int64]
    normals: Array
    offsets: Array


@dataclass(frozen=True, eq=False)
class Cells:
    """The Voronoi cells of the memories, and their coverage.

    Attributes:
        memories: (K, D) in scaled coordinates.
        edges: (E, 2) edges of the gas's graph.
        scale: (D,) positive scale of each input.
        radius: scaled radius of every coverage region.
        box_lower: (D,) domain box, physical units.
        box_upper: (D,) domain box, physical units.
    """

    memories: Array
    edges: NDArray[np.int64]
    scale: Array
    radius: float
    box_lower: Array
    box_upper: Array

    def __len__(self) -> int:
        return len(self.memories)

    @cached_property
    def index(self) -> NearestIndex:
        """The prepared nearest-memory search."""
        return NearestIndex(self.memories)

    @property
    def centers(self) -> Array:
        """(K, D) memories in physical units."""
        return self.memories * self.scale

    @property
    def outer_radius(self) -> float:
        """A radius no input that :meth:`locate` accepts exceeds in exact arithmetic.

        Sound because scaling moves each coordinate by at most one rounding of its magnitude, the
        centre (rounded to physical units and back) by another, and the sum of D squares and its
        comparison by a relative (D + 4) roundings.
        """
        dimensions = self.memories.shape[1]
        reach = np.maximum(np.abs(self.box_lower), np.abs(self.box_upper)) / self.scale
        magnitude = float(np.max(np.maximum(reach, np.abs(self.memories).max(axis=0))))
        return self.radius * (1 + (dimensions + 8) * _EPS) + 8 * _EPS * magnitude * np.sqrt(dimensions)

    def locate(self, inputs: Array) -> Location:
        """Cell, distance and domain membership of physical inputs (N, D)."""
        found = self.index.query(inputs / self.scale)
        in_box = ((inputs >= self.box_lower) & (inputs <= self.box_upper)).all(axis=1)
        near = found.squared_distance <= self.radius * self.radius
        return Location(found.cell, np.sqrt(found.squared_distance), near & in_box)

    def facets(self) -> Facets:
        """Perpendicular bisectors between graph neighbours."""
        first, second = self.memories[self.edges[:, 0]], self.memories[self.edges[:, 1]]
        normals = second - first
        return Facets(self.edges, normals, np.einsum("ed,ed->e", normals, (first + second) / 2))


def build_cells(
    memories: Memories,
    scale: Array,
    *,
    held_out: list[Array],
    quantile: float,
    schema: Schema,
    domain: Box | None = None,
) -> Cells:
    """Cells with one common radius that covers the given quantile of every held-out set.

    Args:
        memories: nodes in scaled coordinates.
        scale: (D,).
        held_out: sets of physical inputs (N, D) that neither memories nor bounds have seen.
        quantile: fraction of each set to cover, in (0, 1].
        schema: names of the inputs.
        domain: limits of inputs by name; an input left out is limited by the coverage radius alone.
    """
    index = NearestIndex(memories.nodes)
    distances = [np.sqrt(index.query(inputs / scale).squared_distance) for inputs in held_out]
    # Five per cent of slack, because the held-out sets are samples themselves. A radius of zero
    # (every held-out input sits on a memory) would leave regions without an interior.
    radius = 1.05 * max(float(np.quantile(d, quantile)) for d in distances)
    radius = max(radius, 1e-9 * (1.0 + float(np.abs(memories.nodes).max())))
    lower = (memories.nodes.min(axis=0) - radius) * scale
    upper = (memories.nodes.max(axis=0) + radius) * scale
    for name, limits in (domain or {}).items():
        if name not in schema.inputs:
            raise ValueError(f"`domain` must name inputs ({', '.join(schema.inputs)}); got {name}.")
        column = schema.inputs.index(name)
        low, high = limits if isinstance(limits, tuple) else (limits, limits)
        if (memories.nodes[:, column] * scale[column] < low).any() or (
            memories.nodes[:, column] * scale[column] > high
        ).any():
            raise ValueError(
                f"`domain` must contain the data and probes; got {low}:{high} for '{name}', which leaves out "
                "some of them. Widen it, or drop those rows."
            )
        lower[column], upper[column] = max(lower[column], low), min(upper[column], high)
    return Cells(memories.nodes, memories.edges, scale, radius, lower, upper)


@dataclass(frozen=True, eq=False)
class CellSampler:
    """Draws points inside the coverage of every cell at once, by hit-and-run.

    From a point of the cell it picks a random direction, finds the chord on which cell, ball and box
    all hold, and jumps to a uniform point of it; the stationary law is uniform. Rejection would do in
    two dimensions and never ends in twenty. Every point returned was checked against the exact
    assignment, after the round trip through physical units.
    """

    cells: Cells

    @cached_property
    def _neighbours(self) -> tuple[NDArray[np.int32], Array]:
        """Nearest other memories of each memory (K, L), and their distances, ascending."""
        memories = self.cells.memories
        count = min(len(memories) - 1, _LISTED_NEIGHBOURS)
        ids = np.empty((len(memories), count), dtype=np.int32)
        distances = np.empty((len(memories), count))
        if count:
            for start in range(0, len(memories), 1024):
                _list_neighbours(memories, start, ids[start : start + 1024], distances[start : start + 1024])
        return ids, distances

    def sample(self, per_cell: int, *, rng: np.random.Generator, thin: int = 1) -> Array:
        """(K, per_cell, D) physical points; `thin` moves lie between two points of a chain."""
        starts = np.arange(len(self.cells))
        return self.walk(starts, self.cells.centers, per_cell, rng=rng, thin=thin)

    def walk(
        self,
        cell: NDArray[np.int64],
        starts: Array,
        count: int,
        *,
        rng: np.random.Generator,
        thin: int = 1,
        reach: float = 1.0,
    ) -> Array:
        """Chains of points that stay in their cells.

        Args:
            cell: (C,) cell of each chain.
            starts: (C, D) physical start of each chain; one outside its cell's coverage is replaced
                by the memory.
            count: points kept per chain.
            rng: of directions and jumps.
            thin: moves per kept point.
            reach: fraction of the chord a jump may use; below 1 the walk stays near its start.

        Returns:
            (C, count, D) physical points.
        """
        chains, dimensions = starts.shape
        points = np.empty((chains, count, dimensions))
        ids, distances = self._neighbours
        cells = self.cells
        position = starts / cells.scale
        # Directions are drawn in slabs so that memory stays bounded whatever the number of chains.
        slab = max(1, int(4e6) // max(1, chains * dimensions * thin))
        for begin in range(0, count, slab):
            end = min(begin + slab, count)
            moves = (end - begin) * thin
            directions = rng.standard_normal((moves, chains, dimensions))
            directions /= np.linalg.norm(directions, axis=2, keepdims=True)
            _walk(
                position, cell, directions, rng.random((moves, chains)), reach, thin,
                cells.memories, ids, distances, cells.scale, cells.radius,
                cells.box_lower, cells.box_upper, points[:, begin:end],
            )  # fmt: skip
        return points


def _list_neighbours(memories: Array, start: int, ids: NDArray[np.int32], distances: Array) -> None:
    block = memories[start : start + len(ids)]
    squared = (block**2).sum(1)[:, None] - 2 * block @ memories.T + (memories**2).sum(1)
    squared[np.arange(len(ids)), start + np.arange(len(ids))] = np.inf
    count = ids.shape[1]
    nearest = np.argpartition(squared, count - 1, axis=1)[:, :count]
    # The order is only a search order, but the distances prune, so they are computed without cancellation.
    exact = np.sqrt(((memories[nearest] - block[:, None]) ** 2).sum(axis=2))
    order = np.argsort(exact, axis=1, kind="stable")
    ids[:] = np.take_along_axis(nearest, order, axis=1)
    distances[:] = np.take_along_axis(exact, order, axis=1)


@numba.njit(cache=True, inline="always")
def _squared_distance(point, memory):
    total = 0.0
    for d in range(point.shape[0]):
        gap = point[d] - memory[d]
        total += gap * gap
    return total


@numba.njit(cache=True)
def _inside(point, cell, memories, ids, distances, radius):
    """Whether `cell` is the exactly nearest memory of `point`, and within the radius."""
    own = _squared_distance(point, memories[cell])
    if not own <= radius * radius:
        return False
    # A memory more than twice as far from the cell's own memory as the point is cannot be nearer.
    far = 2.0 * np.sqrt(own) * (1.0 + 1e-9) + 1e-300
    for k in range(ids.shape[1]):
        if distances[cell, k] > far:
            return True
        other = ids[cell, k]
        gap = _squared_distance(point, memories[other])
        if gap < own or (gap == own and other < cell):
            return False
    if ids.shape[1] == memories.shape[0] - 1:
        return True
    for other in range(memories.shape[0]):
        gap = _squared_distance(point, memories[other])
        if gap < own or (gap == own and other < cell):
            return False
    return True


@numba.njit(cache=True)
def _chord(point, direction, cell, memories, ids, distances, radius, low, high):
    """Range of t for which point + t direction stays in ball, box and (listed) half-spaces."""
    along = 0.0
    own = 0.0
    for d in range(point.shape[0]):
        gap = point[d] - memories[cell, d]
        along += gap * direction[d]
        own += gap * gap
    root = np.sqrt(max(0.0, along * along - own + radius * radius))
    backward, forward = -along - root, -along + root
    for d in range(point.shape[0]):
        if direction[d] > 0.0:
            forward = min(forward, (high[d] - point[d]) / direction[d])
            backward = max(backward, (low[d] - point[d]) / direction[d])
        elif direction[d] < 0.0:
            forward = min(forward, (low[d] - point[d]) / direction[d])
            backward = max(backward, (high[d] - point[d]) / direction[d])
    offset = np.sqrt(own)
    for k in range(ids.shape[1]):
        # The bisector is at least this far from the point: neither it nor a later one can bind.
        if 0.5 * distances[cell, k] - offset > max(forward, -backward):
            break
        other = ids[cell, k]
        slack = 0.0
        rate = 0.0
        for d in range(point.shape[0]):
            normal = memories[other, d] - memories[cell, d]
            slack += normal * (0.5 * (memories[other, d] + memories[cell, d]) - point[d])
            rate += normal * direction[d]
        if rate > 0.0:
            forward = min(forward, slack / rate)
        elif rate < 0.0:
            backward = max(backward, slack / rate)
    return min(backward, 0.0), max(forward, 0.0)


@numba.njit(cache=True)
def _settle(point, cell, memories, ids, distances, scale, radius, box_lower, box_upper, physical, trial):
    """Round trip of `point` through physical units, into `physical` and `trial`; whether it is covered."""
    for d in range(point.shape[0]):
        physical[d] = point[d] * scale[d]
        trial[d] = physical[d] / scale[d]
        if not box_lower[d] <= physical[d] <= box_upper[d]:
            return False
    return _inside(trial, cell, memories, ids, distances, radius)


@numba.njit(cache=True, parallel=True)
def _walk(
    position, cell, directions, jumps, reach, thin,
    memories, ids, distances, scale, radius, box_lower, box_upper, points,
):  # fmt: skip
    chains, dimensions = position.shape
    low, high = box_lower / scale, box_upper / scale
    for chain in numba.prange(chains):
        own = cell[chain]
        here = position[chain].copy()
        kept = np.empty(dimensions)
        trial = np.empty(dimensions)
        physical = np.empty(dimensions)
        if not _settle(here, own, memories, ids, distances, scale, radius, box_lower, box_upper, kept, trial):
            here[:] = memories[own]
            kept[:] = memories[own] * scale
        for move in range(directions.shape[0]):
            direction = directions[move, chain]
            backward, forward = _chord(here, direction, own, memories, ids, distances, radius, low, high)
            jump = reach * (backward + jumps[move, chain] * (forward - backward))
            moved = here + jump * direction
            if _settle(
                moved, own, memories, ids, distances, scale, radius, box_lower, box_upper, physical, trial
            ):
                here[:] = trial
                kept[:] = physical
            if (move + 1) % thin == 0:
                points[chain, move // thin] = kept
        position[chain] = kept / scale
