"""Cells: which memory an input belongs to, where a cell ends, and points drawn inside it.

Distances are Euclidean in scaled coordinates, ``inputs / scale``. The cell of an input is the
exactly nearest memory (ties to the lowest index), never a guess from the gas's graph. The *coverage*
of a cell is its part within the cell's radius of its memory and inside the domain box; everything that is
claimed is claimed on the union of the coverage regions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tether.data import Array, Box, Schema, check_known
from tether.foundation.kernels import compiled, compiled_reordered, in_threads
from tether.geometry.memories import Memories
from tether.geometry.nearest import NearestIndex, exact_squared_distance

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
        radii: (K,) scaled radius of each coverage region; one number stands for all.
        box_lower: (D,) domain box, physical units.
        box_upper: (D,) domain box, physical units.
    """

    memories: Array
    edges: NDArray[np.int64]
    scale: Array
    radii: Array
    box_lower: Array
    box_upper: Array

    def __post_init__(self) -> None:
        radii = np.broadcast_to(np.asarray(self.radii, np.float64), len(self.memories)).copy()
        if not ((radii > 0).all() and (self.scale > 0).all()):
            raise ValueError("`radii` and `scale` must be positive.")
        object.__setattr__(self, "radii", radii)

    def __len__(self) -> int:
        return len(self.memories)

    @cached_property
    def index(self) -> NearestIndex:
        """The prepared nearest-memory search."""
        return NearestIndex(self.memories)

    @cached_property
    def centers(self) -> Array:
        """(K, D) memories in physical units."""
        return self.memories * self.scale

    @cached_property
    def outer_radii(self) -> Array:
        """(K,) radii that no input which :meth:`locate` accepts exceeds in exact arithmetic.

        Sound because scaling moves each coordinate by at most one rounding of its magnitude, the
        centre (rounded to physical units and back) by another, and the sum of D squares and its
        comparison by a relative (D + 4) roundings.
        """
        dimensions = self.memories.shape[1]
        reach = np.maximum(np.abs(self.box_lower), np.abs(self.box_upper)) / self.scale
        magnitude = float(np.max(np.maximum(reach, np.abs(self.memories).max(axis=0))))
        return self.radii * (1 + (dimensions + 8) * _EPS) + 8 * _EPS * magnitude * np.sqrt(dimensions)

    def locate(self, inputs: Array) -> Location:
        """Cell, distance and domain membership of physical inputs (N, D)."""
        found = self.index.query(inputs / self.scale)
        radii = self.radii[found.cell]
        near = found.squared_distance <= radii * radii
        return Location(found.cell, np.sqrt(found.squared_distance), near & self.in_box(inputs))

    def in_box(self, inputs: Array) -> NDArray[np.bool_]:
        """(N,) whether physical inputs (N, D) lie in the domain box."""
        return np.logical_and.reduce((inputs >= self.box_lower) & (inputs <= self.box_upper), axis=1)

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
    reach: float = 1.25,
) -> Cells:
    """Cells with one common radius that covers the given quantile of every held-out set.

    Args:
        memories: nodes in scaled coordinates.
        scale: (D,).
        held_out: sets of physical inputs (N, D) that neither memories nor bounds have seen.
        quantile: fraction of each set to cover, in (0, 1].
        schema: names of the inputs.
        domain: limits of inputs by name; an input left out is limited by the coverage radius alone.
        reach: the radius, as a multiple of what covers that quantile.
    """
    index = NearestIndex(memories.nodes)
    distances = [np.sqrt(index.query(inputs / scale).squared_distance) for inputs in held_out]
    # By default some slack, because the held-out sets are a few episodes themselves: without it the next
    # few are covered to 97 % at times, with it to 99.5 % in all of five draws. A radius of zero
    # (every held-out input sits on a memory) would leave regions without an interior.
    radius = reach * max(float(np.quantile(d, quantile)) for d in distances)
    radius = max(radius, 1e-9 * (1.0 + float(np.abs(memories.nodes).max())))
    lower = (memories.nodes.min(axis=0) - radius) * scale
    upper = (memories.nodes.max(axis=0) + radius) * scale
    check_known("domain", domain or {}, "inputs", schema.inputs)
    for name, limits in (domain or {}).items():
        column = schema.inputs.index(name)
        low, high = limits if isinstance(limits, tuple) else (limits, limits)
        centers = memories.nodes[:, column] * scale[column]
        if centers.min() < low or centers.max() > high:
            raise ValueError(
                f"`domain` must contain the data and probes; got {low}:{high} for '{name}', which leaves out "
                "some of them. Widen it, or drop those rows."
            )
        lower[column], upper[column] = max(lower[column], low), min(upper[column], high)
    return Cells(memories.nodes, memories.edges, scale, np.full(len(memories.nodes), radius), lower, upper)


def pin_memories(memories: Memories, probes: Array, pinned: Array) -> Memories:
    """Memories whose cells hold probes, moved to where all probes agree.

    Around such a memory a first-order model of M is exact along what the probes share, however
    the other inputs vary.

    Args:
        memories: nodes in scaled coordinates.
        probes: (N, D) in scaled coordinates.
        pinned: (D,) scaled value on which all probes agree, NaN where they do not.
    """
    columns = ~np.isnan(pinned)
    if not columns.any():
        return memories
    nodes = memories.nodes.copy()
    # Moving some memories may give probes to others, which then move too; a few rounds settle it.
    for _ in range(4):
        holders = np.unique(NearestIndex(nodes).query(probes).cell)
        moved = nodes.copy()
        moved[np.ix_(holders, columns)] = pinned[columns]
        if len(np.unique(moved, axis=0)) < len(moved) or np.array_equal(moved, nodes):
            break
        nodes = moved
    return replace(memories, nodes=nodes)


class _Geometry(NamedTuple):
    """The cells as kernels see them."""

    memories: Array
    neighbours: NDArray[np.int32]
    """(K, L) the nearest other memories of each memory, nearest first."""
    distances: Array
    """(K, L) how far they are at least."""
    scale: Array
    radii: Array
    box_lower: Array
    box_upper: Array


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
    def _geometry(self) -> _Geometry:
        cells = self.cells
        memories = cells.memories
        count = min(len(memories) - 1, _LISTED_NEIGHBOURS)
        ids = np.empty((len(memories), count), dtype=np.int32)
        distances = np.empty((len(memories), count))
        if count:
            for start in range(0, len(memories), 1024):
                _list_neighbours(memories, start, ids[start : start + 1024], distances[start : start + 1024])
        return _Geometry(memories, ids, distances, cells.scale, cells.radii, cells.box_lower, cells.box_upper)

    def sample(
        self,
        per_cell: int,
        *,
        rng: np.random.Generator,
        thin: int = 1,
        cell: NDArray[np.int64] | None = None,
    ) -> Array:
        """(C, per_cell, D) physical points; `thin` moves lie between two points of a chain.

        Args:
            per_cell: points of each cell.
            rng: of the draw.
            thin: moves per point.
            cell: (C,) the cells to draw in; None: all of them.
        """
        cell = np.arange(len(self.cells)) if cell is None else cell
        chains, dimensions = len(cell), self.cells.memories.shape[1]
        points = np.empty((chains, per_cell, dimensions))
        here = self.cells.centers[cell]
        # Directions are drawn in slabs so that memory stays bounded whatever the number of chains.
        slab = max(1, int(4e6) // (chains * dimensions * thin))
        for begin in range(0, per_cell, slab):
            moves = (min(begin + slab, per_cell) - begin) * thin
            directions = rng.standard_normal((moves, chains, dimensions))
            jumps = rng.random((moves, chains))
            path = self.walk(cell, here, directions, jumps)
            points[:, begin : begin + moves // thin] = path[:, thin - 1 :: thin]
            here = path[:, -1]
        return points

    def walk(self, cell: NDArray[np.int64], starts: Array, directions: Array, jumps: Array) -> Array:
        """Chains of points that stay in their cells.

        Args:
            cell: (C,) cell of each chain.
            starts: (C, D) physical start of each chain; one outside its cell's coverage is replaced
                by the memory.
            directions: (T, C, D) scaled direction of each move, of any length but zero.
            jumps: (T, C) where on the chord a move ends, 0 at its back and 1 at its front.

        Returns:
            (C, T, D) physical points.
        """
        moves, chains, dimensions = directions.shape
        points = np.empty((chains, moves, dimensions))
        scaled = starts / self.cells.scale
        units = directions / np.linalg.norm(directions, axis=2, keepdims=True)
        # Chain by chain, so that a piece of the chains is contiguous.
        units, places = np.ascontiguousarray(units.transpose(1, 0, 2)), np.ascontiguousarray(jumps.T)

        def run(rows: slice) -> None:
            _walk(scaled[rows], cell[rows], units[rows], places[rows], self._geometry, points[rows])

        in_threads(run, chains)
        return points

    def climb(
        self, cell: NDArray[np.int64], starts: Array, slopes: Array, moves: int, *, rng: np.random.Generator
    ) -> Array:
        """Points of their cells, moved from their starts up a slope by random moves that all gain height.

        Args:
            cell: (C,) cell of each chain.
            starts: (C, D) physical start of each chain.
            slopes: (C, D) scaled direction in which to gain; zeros: any direction will do.
            moves: moves per chain.
            rng: of directions and jumps.

        Returns:
            (C, D) physical points.
        """
        chains, dimensions = starts.shape
        points = np.empty((chains, dimensions))
        scaled = starts / self.cells.scale
        directions = rng.standard_normal((chains, moves, dimensions))
        places = 1.0 - 0.5 * rng.random((chains, moves)) ** 3

        def run(rows: slice) -> None:
            parts = (part[rows] for part in (scaled, cell, slopes, directions, places))
            _climb(*parts, self._geometry, points[rows])

        in_threads(run, chains)
        return points


def _list_neighbours(memories: Array, start: int, ids: NDArray[np.int32], distances: Array) -> None:
    """Fills in the nearest other memories of some rows, and a lower bound on how far each is."""
    block = memories[start : start + len(ids)]
    norms = (memories**2).sum(axis=1)
    squared = norms[start : start + len(ids), None] - 2 * block @ memories.T + norms
    squared[np.arange(len(ids)), start + np.arange(len(ids))] = np.inf
    count = ids.shape[1]
    nearest = np.argpartition(squared, count - 1, axis=1)[:, :count]
    found = np.take_along_axis(squared, nearest, axis=1)
    order = np.argsort(found, axis=1)
    ids[:] = np.take_along_axis(nearest, order, axis=1)
    # The distances prune the search, so what cancellation may have added to them is taken off.
    error = 8 * (memories.shape[1] + 4) * _EPS * norms.max()
    distances[:] = np.sqrt(np.maximum(np.take_along_axis(found, order, axis=1) - error, 0.0))


@compiled_reordered
def _rough_squared_distance(point, memory):
    total = 0.0
    for d in range(point.shape[0]):
        gap = point[d] - memory[d]
        total += gap * gap
    return total


@compiled
def _inside(point, cell, geometry):
    """Whether `cell` is the exactly nearest memory of `point`, and within the radius."""
    memories, neighbours = geometry.memories, geometry.neighbours
    own = exact_squared_distance(point, memories[cell])
    if not own <= geometry.radii[cell] * geometry.radii[cell]:
        return False
    # A memory more than twice as far from the cell's own memory as the point is cannot be nearer.
    far = 2.0 * np.sqrt(own) * (1.0 + 1e-9) + 1e-300
    for k in range(neighbours.shape[1]):
        if geometry.distances[cell, k] > far:
            return True
        other = neighbours[cell, k]
        # Only a near tie needs the exact sum: reordering changes a sum of squares by a few roundings.
        if _rough_squared_distance(point, memories[other]) > own * (1.0 + 1e-9) + 1e-290:
            continue
        gap = exact_squared_distance(point, memories[other])
        if gap < own or (gap == own and other < cell):
            return False
    if neighbours.shape[1] == memories.shape[0] - 1:
        return True
    for other in range(memories.shape[0]):
        gap = exact_squared_distance(point, memories[other])
        if gap < own or (gap == own and other < cell):
            return False
    return True


@compiled_reordered
def _chord(point, direction, cell, geometry):
    """Range of t for which point + t direction stays in ball, box and (listed) half-spaces."""
    memories, radius = geometry.memories, geometry.radii[cell]
    along = 0.0
    own = 0.0
    for d in range(point.shape[0]):
        gap = point[d] - memories[cell, d]
        along += gap * direction[d]
        own += gap * gap
    root = np.sqrt(max(0.0, along * along - own + radius * radius))
    backward, forward = -along - root, -along + root
    for d in range(point.shape[0]):
        if direction[d] != 0.0:
            one = (geometry.box_lower[d] / geometry.scale[d] - point[d]) / direction[d]
            two = (geometry.box_upper[d] / geometry.scale[d] - point[d]) / direction[d]
            backward, forward = max(backward, min(one, two)), min(forward, max(one, two))
    offset = np.sqrt(own)
    for k in range(geometry.neighbours.shape[1]):
        # The bisector is at least this far from the point: neither it nor a later one can bind.
        if 0.5 * geometry.distances[cell, k] - offset > max(forward, -backward):
            break
        other = geometry.neighbours[cell, k]
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


@compiled
def _settle(point, cell, geometry, physical, trial):
    """Round trip of `point` through physical units, into `physical` and `trial`; whether it is covered."""
    for d in range(point.shape[0]):
        physical[d] = point[d] * geometry.scale[d]
        trial[d] = physical[d] / geometry.scale[d]
        if not geometry.box_lower[d] <= physical[d] <= geometry.box_upper[d]:
            return False
    return _inside(trial, cell, geometry)


@compiled
def _walk(starts, cell, directions, jumps, geometry, points):
    chains, moves, dimensions = directions.shape
    moved, kept, trial = np.empty(dimensions), np.empty(dimensions), np.empty(dimensions)
    physical = np.empty(dimensions)
    for chain in range(chains):
        own = cell[chain]
        here = starts[chain].copy()
        if not _settle(here, own, geometry, kept, trial):
            here[:] = geometry.memories[own]
            kept[:] = here * geometry.scale
        for move in range(moves):
            backward, forward = _chord(here, directions[chain, move], own, geometry)
            jump = backward + jumps[chain, move] * (forward - backward)
            for d in range(dimensions):
                moved[d] = here[d] + jump * directions[chain, move, d]
            if _settle(moved, own, geometry, physical, trial):
                for d in range(dimensions):
                    here[d], kept[d] = trial[d], physical[d]
            for d in range(dimensions):
                points[chain, move, d] = kept[d]


@compiled
def _point_up(direction, slope, straight):
    """Makes `direction` a unit vector that gains height: the slope itself, or any on its side."""
    gain = 0.0
    steepness = 0.0
    for d in range(slope.shape[0]):
        gain += slope[d] * direction[d]
        steepness += slope[d] * slope[d]
    length = 0.0
    for d in range(slope.shape[0]):
        if straight and steepness > 0.0:
            direction[d] = slope[d]
        elif gain < 0.0:
            direction[d] = -direction[d]
        length += direction[d] * direction[d]
    length = np.sqrt(length)
    for d in range(slope.shape[0]):
        direction[d] /= length


@compiled
def _climb(starts, cell, slopes, directions, jumps, geometry, points):
    chains, moves, dimensions = directions.shape
    moved, trial, physical = np.empty(dimensions), np.empty(dimensions), np.empty(dimensions)
    for chain in range(chains):
        own = cell[chain]
        here = starts[chain].copy()
        if not _settle(here, own, geometry, points[chain], trial):
            here[:] = geometry.memories[own]
            points[chain] = here * geometry.scale
        for move in range(moves):
            _point_up(directions[chain, move], slopes[chain], move == 0)
            forward = _chord(here, directions[chain, move], own, geometry)[1]
            for d in range(dimensions):
                moved[d] = here[d] + jumps[chain, move] * forward * directions[chain, move, d]
            if _settle(moved, own, geometry, physical, trial):
                for d in range(dimensions):
                    here[d], points[chain, d] = trial[d], physical[d]
