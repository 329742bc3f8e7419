"""Memories: a growing neural gas over the inputs (Fritzke 1995; the paper's A and E).

The gas grows from two nodes. Each presentation moves the nearest node and its neighbours towards an input,
links the two nearest nodes, and drops links that were not renewed; every so often a node is inserted where
the accumulated error is largest. `fit_memories` then settles the nodes on the data and guarantees what the
cells need: exactly the number asked for, every one of them the nearest to some input.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import numpy as np

from tether.foundation.kernels import compiled
from tether.geometry.gas import Gas, Rates, new_gas, present, with_wider_links
from tether.geometry.nearest import Nearest, NearestIndex
from tether.geometry.parts import PartedIndex, shared_out

_CHUNK = 8192  # presentations between two calls of `progress`
_REACH = 1e6  # later inputs may lie this many extents of the first ones away: float32 still resolves them
_SMALLEST_EXTENT = 1e-300  # whose inverse is still finite
_AT_ONCE = 20_000  # nodes of one gas: every presentation looks at all of them
_PART = 2_000  # nodes of each, where there are several
_PART_ROWS = 50_000  # inputs that say where parts are


@dataclass(frozen=True, kw_only=True)
class GasConfig:
    """Settings of the gas; the names in brackets are Fritzke's.

    Attributes:
        insertion_interval: Presentations between two insertions (λ).
        winner_rate: How far the nearest node moves towards an input, as a fraction (ε_b).
        neighbour_rate: How far its neighbours move (ε_n).
        maximum_age: A link older than this is dropped (a_max).
        insertion_decay: What an insertion leaves of the error of the two nodes it relieves (α).
        step_decay: Fraction of every error forgotten at each presentation (1 - d).
        settling_rounds: After growth, how often the nodes move to the mean of their inputs.
    """

    insertion_interval: int = 100
    winner_rate: float = 0.2
    neighbour_rate: float = 0.002
    maximum_age: int = 50
    insertion_decay: float = 0.5
    step_decay: float = 0.0005
    settling_rounds: int = 4

    def __post_init__(self) -> None:
        for field in fields(self):
            name, value = field.name, getattr(self, field.name)
            least = 0 if name == "settling_rounds" else 1
            if field.type == "int" and not (isinstance(value, int) and value >= least):
                raise ValueError(f"`{name}` must be a whole number, {least} or more; got {value}. Change it.")
            if field.type == "float" and not 0.0 <= value < 1.0:
                raise ValueError(f"`{name}` must be in [0, 1); got {value}. Give a fraction.")


@dataclass(frozen=True)
class Neighbours:
    """Neighbours of every memory, row after row: those of `k` are `indices[indptr[k]:indptr[k + 1]]`.

    Attributes:
        indptr: (K + 1,) int64.
        indices: (2E,) int64, ascending within a row.
    """

    indptr: np.ndarray
    indices: np.ndarray


@dataclass(frozen=True)
class Memories:
    """The nodes and links of a gas.

    Attributes:
        nodes: (K, D) float64.
        edges: (E, 2) int64, each with its lower end first, sorted, none twice.
    """

    nodes: np.ndarray
    edges: np.ndarray

    def neighbours(self) -> Neighbours:
        """The edges seen from each memory."""
        both = np.concatenate([self.edges, self.edges[:, ::-1]])
        both = both[np.lexsort((both[:, 1], both[:, 0]))]
        degree = np.bincount(both[:, 0], minlength=len(self.nodes))
        return Neighbours(np.concatenate([[0], np.cumsum(degree)]), both[:, 1].copy())


@compiled
def _move_to_means(nodes, inputs, cell):
    """Every node with inputs to their mean, which rounding must not take out of their range."""
    count, dimensions = nodes.shape
    members = np.zeros(count)
    sums = np.zeros((count, dimensions))
    lower, upper = np.empty((count, dimensions)), np.empty((count, dimensions))
    for row in range(inputs.shape[0]):
        k = cell[row]
        for d in range(dimensions):
            value = inputs[row, d]
            sums[k, d] += value
            lower[k, d] = value if members[k] == 0.0 else min(lower[k, d], value)
            upper[k, d] = value if members[k] == 0.0 else max(upper[k, d], value)
        members[k] += 1.0
    for k in range(count):
        if members[k] > 0.0:
            for d in range(dimensions):
                nodes[k, d] = min(max(sums[k, d] / members[k], lower[k, d]), upper[k, d])


class GrowingNeuralGas:
    """A gas that takes in data as they come.

    Args:
        count: Number of nodes to grow to, at least 2.
        seed: Of the order of presentation.
        config: Settings of the gas.

    Example:
        >>> inputs = np.random.default_rng(0).normal(size=(5000, 2))
        >>> GrowingNeuralGas(20).partial_fit(inputs).memories().nodes.shape
        (20, 2)
    """

    def __init__(self, count: int, *, seed: int = 0, config: GasConfig = GasConfig()) -> None:
        if count < 2:
            raise ValueError(f"`count` must be at least 2; got {count}. A gas grows from two nodes.")
        self._count, self._random = count, np.random.default_rng(seed)
        self._rates = Rates(
            config.insertion_interval,
            np.float32(config.winner_rate),
            np.float32(config.neighbour_rate),
            config.maximum_age,
            config.insertion_decay,
            1.0 - config.step_decay,
        )
        self._gas: Gas | None = None
        self._centre, self._unit = np.zeros(0), 1.0

    def partial_fit(self, inputs: np.ndarray) -> GrowingNeuralGas:
        """Presents every input once, in random order; grows while there are fewer than `count` nodes.

        Args:
            inputs: (N, D) finite numbers, scaled. The first call needs two rows or more, and sets the extent
                that later ones must not exceed a million times.

        Returns:
            The gas itself.
        """
        inputs = _checked_inputs(inputs)
        prepared = self._prepared(inputs)
        self._present(prepared, self._random.permutation(len(prepared)))
        return self

    def memories(self) -> Memories:
        """The nodes and links as they are now. A node may be the nearest to no input."""
        if self._gas is None:
            raise ValueError(
                "`partial_fit` must come before `memories`; got no inputs. Give some data first."
            )
        gas, count = self._gas, int(self._gas.totals[0])
        rows = gas.blocks.transpose(0, 2, 1).reshape(-1, gas.blocks.shape[1])[:count]
        nodes = rows.astype(np.float64) / self._unit + self._centre
        used = np.arange(gas.links.shape[1]) < gas.degree[:count, None]
        pairs = np.stack([np.nonzero(used)[0], gas.links[:count][used]], axis=1)
        return Memories(nodes, _sorted_edges(pairs))

    def _prepared(self, inputs: np.ndarray) -> np.ndarray:
        """Float32 copy, centred and in units of the first data's extent; starts the gas the first time."""
        if self._gas is None:
            if len(inputs) < 2:
                raise ValueError(f"`inputs` must hold at least 2 rows; got {len(inputs)}. Give more data.")
            self._centre = inputs.mean(axis=0)
            extent = float(np.abs(inputs - self._centre).max())
            self._unit = 1.0 / extent if extent > _SMALLEST_EXTENT else 1.0
            prepared = ((inputs - self._centre) * self._unit).astype(np.float32)
            self._gas = new_gas(self._count, prepared[self._random.choice(len(inputs), 2, replace=False)])
            return prepared
        if inputs.shape[1] != len(self._centre):
            raise ValueError(
                f"`inputs` must have {len(self._centre)} columns as before; got {inputs.shape[1]}. "
                "Give the same inputs in the same order."
            )
        prepared = (inputs - self._centre) * self._unit
        if np.abs(prepared).max(initial=0.0) > _REACH:
            raise ValueError(
                f"`inputs` must lie within {_REACH:.0e} times the extent of the first ones; got "
                f"{np.abs(prepared).max():.3g}. Scale the inputs, or start a new gas."
            )
        return prepared.astype(np.float32)

    def _present(self, prepared: np.ndarray, order: np.ndarray) -> None:
        assert self._gas is not None  # `_prepared` made it
        while (done := present(self._gas, prepared, order, self._rates)) < len(order):
            order = order[done:]
            self._gas = with_wider_links(self._gas)


def fit_memories(
    inputs: np.ndarray,
    count: int,
    *,
    seed: int = 0,
    config: GasConfig = GasConfig(),
    progress: Callable[[int, int], None] | None = None,
) -> Memories:
    """Fits exactly `count` memories, each the nearest to at least one input, none twice.

    Args:
        inputs: (N, D) finite numbers, scaled.
        count: Number of memories, at most the number of distinct inputs.
        seed: Same seed, same memories.
        config: Settings of the gas.
        progress: Called with the presentations done and the presentations in all, every few thousand.

    Returns:
        Memories within the bounding box of the inputs, and the links of the gas between them.
    """
    inputs = _checked_inputs(inputs)
    if count < 1:
        raise ValueError(f"`count` must be at least 1; got {count}. Ask for at least one memory.")
    if count > len(inputs):
        raise _too_few_distinct(inputs, count)
    if count > _AT_ONCE:
        return _fit_in_parts(inputs, count, seed, config, progress)
    nodes, edges = np.zeros((1, inputs.shape[1])), np.zeros((0, 2), np.int64)
    if count > 1:
        nodes, edges = _grow(inputs, count, seed, config, progress)
    edges, _ = _settle(inputs, nodes, edges, config.settling_rounds)
    return Memories(nodes, _link_the_lonely(nodes, edges))


def _fit_in_parts(
    inputs: np.ndarray,
    count: int,
    seed: int,
    config: GasConfig,
    progress: Callable[[int, int], None] | None,
) -> Memories:
    """A gas in each of several parts of the inputs, as dense as the error asks for; all settle together.

    Growing one gas is quadratic in its nodes. What is lost is that nodes do not wander from part to part.
    """
    sample = np.random.default_rng(seed).choice(len(inputs), min(len(inputs), _PART_ROWS), replace=False)
    middles = fit_memories(inputs[sample], -(-count // _PART), seed=seed, config=config).nodes
    home = NearestIndex(middles).query(inputs)
    rows = [np.flatnonzero(home.cell == part) for part in np.unique(home.cell)]
    most = np.array([len(np.unique(inputs[part], axis=0)) for part in rows])
    if most.sum() < count:
        raise _too_few_distinct(inputs, count)
    error = np.array([home.squared_distance[part].sum() for part in rows])
    counts = shared_out(count, error, most)
    firsts, grown = np.cumsum([0, *counts[:-1]]), []
    for part, (own, number) in enumerate(zip(rows, counts, strict=True)):
        grown.append(fit_memories(inputs[own], int(number), seed=seed + part, config=config))
        if progress is not None:
            progress(int(counts[: part + 1].sum()), count)
    nodes = np.concatenate([one.nodes for one in grown])
    edges = np.concatenate([one.edges + first for one, first in zip(grown, firsts, strict=True)])
    edges, nearest = _settle(inputs, nodes, edges, 0)
    # An input whose nearest node grew in another part lies between that one and the nearest of its own part.
    across = []
    for own, first, number in zip(rows, firsts, counts, strict=True):
        here = first + NearestIndex(nodes[first : first + number].copy()).query(inputs[own]).cell
        pairs = np.stack([here, nearest.cell[own]], axis=1)
        across.append(pairs[here != nearest.cell[own]])
    return Memories(nodes, _link_the_lonely(nodes, np.concatenate([edges, *across])))


def _grow(
    inputs: np.ndarray,
    count: int,
    seed: int,
    config: GasConfig,
    progress: Callable[[int, int], None] | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Nodes (count, D) and links; where nodes were lost on the way, copies of the first stand in."""
    gas = GrowingNeuralGas(count, seed=seed, config=config)
    prepared = gas._prepared(inputs)
    total, done = count * config.insertion_interval, 0
    while done < total:
        order = gas._random.permutation(len(prepared))[: total - done]
        for start in range(0, len(order), _CHUNK):
            gas._present(prepared, order[start : start + _CHUNK])
            done += len(order[start : start + _CHUNK])
            if progress is not None:
                progress(done, total)
    grown = gas.memories()
    nodes = np.clip(grown.nodes, inputs.min(axis=0), inputs.max(axis=0))  # float32 may round out of the box
    return np.concatenate([nodes, np.repeat(nodes[:1], count - len(nodes), axis=0)]), grown.edges


def _settle(
    inputs: np.ndarray, nodes: np.ndarray, edges: np.ndarray, rounds: int
) -> tuple[np.ndarray, Nearest]:
    """Moves nodes, in place, to the means of their cells and dead nodes to where the error is.

    Returns the edges, and the nearest node of each input.

    Ends because the total error falls with every relocation: no assignment of inputs to nodes comes twice.
    """
    previous = None
    done = 0
    while True:
        found = (PartedIndex if len(nodes) > _AT_ONCE else NearestIndex)(nodes).query(inputs)
        dead = np.flatnonzero(np.bincount(found.cell, minlength=len(nodes)) == 0)
        settled = done >= rounds or (previous is not None and np.array_equal(previous, found.cell))
        if len(dead) == 0 and done > 0 and settled:
            return edges, found
        _move_to_means(nodes, inputs, found.cell)
        edges = _relocate(inputs, nodes, edges, found.cell, dead)
        previous = found.cell
        done += 1


def _relocate(
    inputs: np.ndarray, nodes: np.ndarray, edges: np.ndarray, cell: np.ndarray, dead: np.ndarray
) -> np.ndarray:
    """Puts dead nodes, in place, on the farthest input of the worst cells, one each; returns the edges."""
    if len(dead) == 0:
        return edges
    squared = ((inputs - nodes[cell]) ** 2).sum(axis=1)
    error = np.bincount(cell, squared, minlength=len(nodes))
    # A cell whose inputs are all equal has no error: its node, their mean, is exactly there.
    owners = np.argsort(-error, kind="stable")[: min(len(dead), np.count_nonzero(error))]
    if len(owners) == 0:
        raise _too_few_distinct(inputs, len(nodes))
    farthest = np.zeros(len(nodes), np.int64)
    nearest_first = np.argsort(squared, kind="stable")
    farthest[cell[nearest_first]] = nearest_first  # the last one written, the farthest, stays
    moved = dead[: len(owners)]
    nodes[moved] = inputs[farthest[owners]]
    kept = edges[~np.isin(edges, moved).any(axis=1)]
    return np.concatenate([kept, np.stack([moved, owners], axis=1)])


def _link_the_lonely(nodes: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Links nodes that relocations left alone to the nearest other node; returns sorted edges."""
    degree = np.bincount(edges.ravel(), minlength=len(nodes))
    lonely = np.flatnonzero(degree == 0) if len(nodes) > 1 else np.zeros(0, np.int64)
    closest = np.empty_like(lonely)
    for place, node in enumerate(lonely):
        squared = ((nodes - nodes[node]) ** 2).sum(axis=1)
        squared[node] = np.inf
        closest[place] = np.argmin(squared)
    return _sorted_edges(np.concatenate([edges, np.stack([lonely, closest], axis=1)]))


def _sorted_edges(pairs: np.ndarray) -> np.ndarray:
    return np.unique(np.sort(pairs, axis=1), axis=0).astype(np.int64).reshape(-1, 2)


def _checked_inputs(inputs: np.ndarray) -> np.ndarray:
    # Contiguous and writable, because Numba would compile anew for any other kind of array.
    matrix = np.require(inputs, np.float64, ["C", "A", "W"])
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(
            f"`inputs` must have shape (rows, columns), neither of them 0; got {matrix.shape}. "
            "Give one row for each input."
        )
    if not np.isfinite(matrix).all():
        bad = int(np.flatnonzero(~np.isfinite(matrix).all(axis=1))[0])
        raise ValueError(
            f"`inputs` must be finite; got {matrix[bad]} in row {bad}. Remove or repair such rows."
        )
    return matrix


def _too_few_distinct(inputs: np.ndarray, count: int) -> ValueError:
    distinct = len(np.unique(inputs, axis=0))
    if distinct >= count:
        return ValueError(
            f"`inputs` must differ by more than float64 can square; got {count} memories for rows closer "
            "than that. Scale the inputs."
        )
    return ValueError(
        f"memories must be at most the number of distinct inputs; got {count} memories for {distinct} "
        "distinct inputs. Ask for fewer memories or give more data."
    )
