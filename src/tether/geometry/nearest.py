"""The exactly nearest memory of every input.

"Exact" has one meaning here, in float64: the squared distance is the sum over dimensions, *in order*, of
`(x_d - m_d)²`, every operation rounded once and none fused, and the nearest memory is the one with the
smallest such number, the lowest index among equals. Everything below returns that, bit for bit.

A float32 filter over all memories finds the few that can be nearest (its rounding error is bounded, see
`_filter_slack`), then only those are measured in float64. The filter is written in vectors of eight, because
LLVM's own vectoriser reaches a third of its speed. Kernels release the GIL and large queries run on plain
Python threads: unlike Numba's `prange` that is safe from several threads and after a fork.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from tether.foundation.kernels import compiled, in_threads

if TYPE_CHECKING:
    import torch

BLOCK = 8  # memories side by side, one to each lane of an AVX2 vector (LLVM splits it in two elsewhere)
GROUP = 8 * BLOCK  # memories that share one stored minimum
_POINTS = 4  # inputs scored together
_FAR = 1e15  # inputs farther than this many radii of the memories skip the float32 filter
_SAFE_RADIUS = 1e140  # memories larger than this, or smaller than its inverse, skip it too
_SMALL_WORK = 2e8  # multiply-adds, ten milliseconds, below which starting threads costs more than it saves
_EACH = 1000  # multiply-adds that an input takes as long as, however few memories there are
_TORCH_CHUNK = 1 << 20  # distances held at once by `nearest_torch`


# ----------------------------------------------------------------------------------------------------
# Vector code. `blocks` is (B, D, BLOCK) float32, `offsets` (B, BLOCK), `points` (D, points), `scores`
# (points, B * BLOCK), `minima` (points, groups), all C-contiguous.


class _VectorCode:
    """Writes vector instructions at the builder's position."""

    vector = ir.VectorType(ir.FloatType(), BLOCK)
    lane_numbers = ir.VectorType(ir.IntType(32), BLOCK)

    def __init__(self, builder: Any, index_type: Any) -> None:
        self.builder, self.index_type = builder, index_type

    def number(self, value: int) -> Any:
        return ir.Constant(self.index_type, value)

    def add(self, index: Any, value: int) -> Any:
        return self.builder.add(index, self.number(value))

    def times(self, index: Any, value: int) -> Any:
        return self.builder.mul(index, self.number(value))

    def load(self, data: Any, index: Any) -> Any:
        return self.builder.load(self._address(data, index), align=4)

    def store(self, value: Any, data: Any, index: Any) -> None:
        self.builder.store(value, self._address(data, index), align=4)

    def spread(self, data: Any, index: Any) -> Any:
        """One float in all lanes."""
        value = self.builder.load(self.builder.gep(data, [index]))
        undefined = ir.Constant(self.vector, ir.Undefined)
        first = self.builder.insert_element(undefined, value, ir.Constant(ir.IntType(32), 0))
        return self.builder.shuffle_vector(first, undefined, ir.Constant(self.lane_numbers, [0] * BLOCK))

    def smaller(self, left: Any, right: Any) -> Any:
        return self.builder.select(self.builder.fcmp_ordered("<", left, right), left, right)

    def smallest_lane(self, value: Any) -> Any:
        for step in (4, 2, 1):
            turned = ir.Constant(self.lane_numbers, [(lane + step) % BLOCK for lane in range(BLOCK)])
            value = self.smaller(value, self.builder.shuffle_vector(value, value, turned))
        return self.builder.extract_element(value, ir.Constant(ir.IntType(32), 0))

    def minus_product(self, total: Any, point: Any, memory: Any) -> Any:
        """`total - point * memory`, fused where the machine can: only the filter uses it."""
        product = self.builder.fmul(point, memory, flags=("contract",))
        return self.builder.fsub(total, product, flags=("contract",))

    def plus_square(self, total: Any, point: Any, memory: Any) -> Any:
        """`total + (point - memory)²`, never fused, so that it is the same on every machine."""
        difference = self.builder.fsub(point, memory)
        return self.builder.fadd(total, self.builder.fmul(difference, difference))

    def _address(self, data: Any, index: Any) -> Any:
        return self.builder.bitcast(self.builder.gep(data, [index]), self.vector.as_pointer())


def _emit_group_scores(context: Any, builder: Any, signature: Any, args: Any, points: int) -> Any:
    """Scores of `points` inputs against the GROUP memories of one group, and their minimum."""
    *array_args, group = args
    kinds = signature.args[:-1]
    arrays = [make_array(kind)(context, builder, arg) for kind, arg in zip(kinds, array_args, strict=True)]
    point_data, block_data, offset_data, score_data, minimum_data = (array.data for array in arrays)
    block_shape, score_shape, minimum_shape = (
        cgutils.unpack_tuple(builder, arrays[position].shape) for position in (1, 3, 4)
    )
    dimensions = block_shape[1]
    code = _VectorCode(builder, group.type)
    accumulate = code.plus_square if points == 1 else code.minus_product
    # Enough independent sums to hide the latency of an addition, few enough to stay in registers.
    together = range(4 if points == 1 else 2)
    infinity = ir.Constant(code.vector, [math.inf] * BLOCK)
    best = [cgutils.alloca_once_value(builder, infinity) for _ in range(points)]
    sums = [[cgutils.alloca_once(builder, code.vector) for _ in together] for _ in range(points)]
    block_size = code.times(dimensions, BLOCK)

    with cgutils.for_range(builder, code.number(GROUP // BLOCK // len(together))) as step:
        column = builder.add(code.times(group, GROUP), code.times(step.index, BLOCK * len(together)))
        for block in together:
            start = code.load(offset_data, code.add(column, block * BLOCK))
            for point in range(points):
                builder.store(start, sums[point][block])
        first = builder.mul(column, dimensions)
        with cgutils.for_range(builder, dimensions) as dimension:
            row = builder.add(first, code.times(dimension.index, BLOCK))
            places = [builder.add(row, code.times(block_size, block)) for block in together]
            memory = [code.load(block_data, place) for place in places]
            for point in range(points):
                value = code.spread(point_data, code.add(code.times(dimension.index, points), point))
                for block in together:
                    total = builder.load(sums[point][block])
                    builder.store(accumulate(total, value, memory[block]), sums[point][block])
        for point in range(points):
            place = builder.add(code.times(score_shape[1], point), column)
            for block in together:
                total = builder.load(sums[point][block])
                code.store(total, score_data, code.add(place, block * BLOCK))
                builder.store(code.smaller(total, builder.load(best[point])), best[point])
    for point in range(points):
        place = builder.add(code.times(minimum_shape[1], point), group)
        builder.store(code.smallest_lane(builder.load(best[point])), builder.gep(minimum_data, [place]))
    return context.get_dummy_value()


def _group_scores(points: int) -> Any:
    def typed(typing_context, inputs, blocks, offsets, scores, minima, group):
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return _emit_group_scores(context, builder, signature, args, points)

        return types.void(inputs, blocks, offsets, scores, minima, types.intp), codegen

    return intrinsic(typed)


# `offset - point · memory`, for four points at once.
_score_four = _group_scores(_POINTS)
# `offset + |point - memory|²`, for one point; the offset is infinite where there is no memory.
score_one = _group_scores(1)


# ----------------------------------------------------------------------------------------------------
# Kernels.


@compiled
def exact_squared_distance(point, memory):
    """Sum over dimensions, in order, every operation rounded once."""
    total = 0.0
    for d in range(point.shape[0]):
        difference = point[d] - memory[d]
        total += difference * difference
    return total


@compiled
def _scan_all(point, memories, row, cell, squared_distance):
    best, winner = np.inf, 0
    for k in range(memories.shape[0]):
        distance = exact_squared_distance(point, memories[k])
        if distance < best:
            best, winner = distance, k
    cell[row], squared_distance[row] = winner, best


@compiled
def _scan_candidates(point, memories, slack, scores, minima, row, cell, squared_distance):
    """Measures, in float64, every memory whose score is within `slack` of the smallest."""
    limit = minima[0]
    for group in range(minima.shape[0]):
        limit = min(limit, minima[group])
    limit = np.float32(limit + slack)
    best, winner = np.inf, -1
    for group in range(minima.shape[0]):
        if minima[group] <= limit:
            for k in range(group * GROUP, min((group + 1) * GROUP, memories.shape[0])):
                if scores[k] <= limit:
                    distance = exact_squared_distance(point, memories[k])
                    if distance < best:
                        best, winner = distance, k
    if winner < 0:  # not reached with finite numbers; never index with it
        _scan_all(point, memories, row, cell, squared_distance)
    else:
        cell[row], squared_distance[row] = winner, best


@compiled
def _filter_slack(dimensions, norm, radius):
    """How far above the smallest score the score of the exact winner can be.

    A score is half the squared distance less a term common to all memories, in units of the memories'
    extent. With u = 2^-24: rounding point and memory to float32 changes it by at most 2u norm radius,
    rounding the half norm by u radius²/2, and the D + 1 additions by (D + 1)u (norm radius + radius²/2). The
    float64 distance it stands for is itself rounded, by (D + 2) 2^-53 of at most (norm + radius)². The sum of
    these is doubled because two memories are compared, and again to cover second-order terms and underflow.
    """
    single = norm * radius + radius * radius
    double = (norm + radius) * (norm + radius)
    return 4.0 * (dimensions + 8) * (2.0**-24 * single + 2.0**-53 * double)


@compiled
def _query(inputs, memories, centre, extent, blocks, offsets, cell, squared_distance):
    count, dimensions = inputs.shape
    unit, radius = extent[0], extent[1]
    groups = blocks.shape[0] * BLOCK // GROUP
    points = np.empty((dimensions, _POINTS), np.float32)
    scores = np.empty((_POINTS, groups * GROUP), np.float32)
    minima = np.empty((_POINTS, groups), np.float32)
    norms = np.empty(_POINTS, np.float64)
    for first in range(0, count, _POINTS):
        for p in range(_POINTS):
            total = 0.0
            for d in range(dimensions):
                value = (inputs[min(first + p, count - 1), d] - centre[d]) * unit
                points[d, p] = value
                total += value * value
            norms[p] = math.sqrt(total)
        for group in range(groups if unit > 0.0 else 0):
            _score_four(points, blocks, offsets, scores, minima, group)
        for p in range(min(_POINTS, count - first)):
            row = first + p
            if unit > 0.0 and norms[p] < _FAR:
                slack = _filter_slack(dimensions, norms[p], radius)
                _scan_candidates(
                    inputs[row], memories, slack, scores[p], minima[p], row, cell, squared_distance
                )
            else:
                _scan_all(inputs[row], memories, row, cell, squared_distance)


@compiled
def _pack(memories, centre, extent, blocks, offsets):
    """Centres and scales the memories into float32 blocks.

    `extent` receives the unit they are multiplied by (left at 0: do not filter) and their largest norm.
    """
    count, dimensions = memories.shape
    largest = 0.0
    for d in range(dimensions):
        for k in range(count):
            centre[d] += memories[k, d] * (1.0 / count)
        for k in range(count):
            largest = max(largest, abs(memories[k, d] - centre[d]))
    if not 1.0 / _SAFE_RADIUS < largest < _SAFE_RADIUS:
        return
    unit = 2.0 ** -math.floor(math.log2(largest))
    radius = 0.0
    for k in range(count):
        total = 0.0
        for d in range(dimensions):
            value = (memories[k, d] - centre[d]) * unit
            blocks[k // BLOCK, d, k % BLOCK] = value
            total += value * value
        offsets[k // BLOCK, k % BLOCK] = 0.5 * total
        radius = max(radius, total)
    extent[0], extent[1] = unit, math.sqrt(radius)


# ----------------------------------------------------------------------------------------------------
# The public face.


@dataclass(frozen=True)
class Nearest:
    """The nearest memory of each input.

    Attributes:
        cell: (N,) int64, index of the nearest memory, the lowest among equals.
        squared_distance: (N,) float64, squared distance to it.
    """

    cell: np.ndarray
    squared_distance: np.ndarray


def block_shape(count: int, dimensions: int) -> tuple[int, int, int]:
    """Shape (B, D, BLOCK) of the float32 blocks that hold `count` memories, whole groups of them."""
    return -(-count // GROUP) * (GROUP // BLOCK), dimensions, BLOCK


class NearestIndex:
    """Memories prepared for many queries. Safe to query from several threads at once.

    Args:
        memories: (K, D) finite numbers; copied.

    Example:
        >>> index = NearestIndex(np.array([[0.0, 0.0], [1.0, 1.0]]))
        >>> index.query(np.array([[0.9, 0.8]])).cell
        array([1])
    """

    def __init__(self, memories: np.ndarray) -> None:
        self.memories = np.array(_matrix("memories", memories))
        count, dimensions = self.memories.shape
        if count == 0:
            raise ValueError("`memories` must hold at least 1 row; got 0. Give at least one memory.")
        self._centre = np.zeros(dimensions)
        self._extent = np.zeros(2)
        self._blocks = np.zeros(block_shape(count, dimensions), np.float32)
        self._offsets = np.full((self._blocks.shape[0], BLOCK), np.inf, np.float32)
        _pack(self.memories, self._centre, self._extent, self._blocks, self._offsets)

    @property
    def packed(self) -> dict[str, np.ndarray]:
        """What :func:`query_packed` is given besides the memories."""
        return {
            "center": self._centre,
            "extent": self._extent,
            "blocks": self._blocks,
            "offsets": self._offsets,
        }

    def query(self, inputs: np.ndarray) -> Nearest:
        """Finds the exactly nearest memory of each input.

        Args:
            inputs: (N, D) finite numbers. (Not checked: a row with NaN gets some valid cell.)

        Returns:
            The cells and squared distances, bit-equal to brute force in float64.
        """
        inputs = _matrix("inputs", inputs)
        if inputs.shape[1] != self.memories.shape[1]:
            raise ValueError(
                f"`inputs` must have as many columns as `memories`; got {inputs.shape[1]} and "
                f"{self.memories.shape[1]}. Give the same inputs in the same order."
            )
        return query_packed(inputs, self.memories, self._centre, self._extent, self._blocks, self._offsets)


def query_packed(
    inputs: np.ndarray,
    memories: np.ndarray,
    center: np.ndarray,
    extent: np.ndarray,
    blocks: np.ndarray,
    offsets: np.ndarray,
) -> Nearest:
    """:meth:`NearestIndex.query` of the arrays that an index consists of, all C-contiguous."""
    count = inputs.shape[0]
    cell, squared = np.empty(count, np.int64), np.empty(count, np.float64)

    def run(rows: slice) -> None:
        _query(inputs[rows], memories, center, extent, blocks, offsets, cell[rows], squared[rows])

    if count * (memories.size + _EACH) < _SMALL_WORK:
        _query(inputs, memories, center, extent, blocks, offsets, cell, squared)
    else:
        in_threads(run, count)
    return Nearest(cell, squared)


def nearest(inputs: np.ndarray, memories: np.ndarray) -> Nearest:
    """Finds the exactly nearest memory of each input; keep a `NearestIndex` to ask more than once.

    Args:
        inputs: (N, D).
        memories: (K, D).

    Returns:
        The cells and squared distances, bit-equal to brute force in float64.
    """
    return NearestIndex(memories).query(inputs)


def nearest_torch(inputs: torch.Tensor, memories: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The same as `nearest` in torch operations, on any device that has float64.

    Args:
        inputs: (N, D).
        memories: (K, D), on the device of `inputs`.

    Returns:
        The cells (N,) int64 and the squared distances (N,) float64, bit-equal to `nearest`.
    """
    inputs, memories = inputs.detach().double(), memories.detach().double()
    cell = inputs.new_empty(inputs.shape[0]).long()
    squared_distance = inputs.new_empty(inputs.shape[0])
    rows = max(1, _TORCH_CHUNK // memories.shape[0])
    for start in range(0, inputs.shape[0], rows):
        piece = inputs[start : start + rows]
        total = piece.new_zeros(piece.shape[0], memories.shape[0])
        for d in range(inputs.shape[1]):
            # Two roundings, one for the product and one for the sum: `addcmul` might fuse them.
            difference = piece[:, d, None] - memories[None, :, d]
            total += difference.mul_(difference)
        squared_distance[start : start + rows], cell[start : start + rows] = total.min(dim=1)
    return cell, squared_distance


_REQUIRED = ("C", "A", "W")


def _matrix(name: str, values: np.ndarray) -> np.ndarray:
    # Contiguous and writable, because Numba would compile anew for any other kind of array.
    matrix = np.require(values, np.float64, _REQUIRED)
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise ValueError(
            f"`{name}` must have shape (rows, columns); got {np.shape(values)}. Give one row for each point."
        )
    return matrix
