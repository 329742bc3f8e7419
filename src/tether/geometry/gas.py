"""The growing neural gas itself, as kernels: present an input, move, link, age, insert (Fritzke 1995).

Apart from the distances, a presentation costs no more than the node's neighbourhood: errors decay through one
common factor, and the age of a link is read off the wins of its two ends instead of being counted up.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from tether.foundation.kernels import compiled
from tether.geometry.nearest import BLOCK, GROUP, block_shape, score_one

_SMALLEST_FACTOR = 1e-100  # the common factor of the errors is folded into them below this

# Node `k` lies in lane `k % BLOCK` of block `k // BLOCK`.

# A call would count references to the nine arrays of the gas, which costs more than what most of these do.
_inlined = numba.njit(inline="always", nogil=True)


class Gas(NamedTuple):
    """The state of the gas, changed in place. `C` nodes at most, `L` links of a node at most."""

    blocks: np.ndarray  # (B, D, BLOCK) float32 positions
    offsets: np.ndarray  # (B, BLOCK) float32, 0 where there is a node and infinite elsewhere
    errors: np.ndarray  # (C,) to be multiplied by `factor`
    wins: np.ndarray  # (C,) how often the node was nearest
    degree: np.ndarray  # (C,) number of links
    links: np.ndarray  # (C, L) the nodes at the other end
    stamps: np.ndarray  # (C, L) sum of the wins of both ends when the link was last renewed
    totals: np.ndarray  # (2,) nodes, presentations
    factor: np.ndarray  # (1,)


class Rates(NamedTuple):
    """Settings of the gas, as kernels see them."""

    insertion_interval: int
    winner: np.float32
    neighbour: np.float32
    maximum_age: int
    insertion_decay: float
    kept: float


@_inlined
def _two_nearest(gas, point, scores, minima):
    """The nearest two nodes and the squared distance to the first."""
    groups = (gas.totals[0] + GROUP - 1) // GROUP
    first_group = 0
    for group in range(groups):
        score_one(point, gas.blocks, gas.offsets, scores, minima, group)
        if minima[0, group] < minima[0, first_group]:
            first_group = group
    best, runner_up = np.float32(np.inf), np.float32(np.inf)
    first, second = first_group * GROUP, -1
    for k in range(first_group * GROUP, (first_group + 1) * GROUP):
        score = scores[0, k]
        if score < best:
            second, runner_up = first, best
            first, best = k, score
        elif score < runner_up:
            second, runner_up = k, score
    for group in range(groups):
        if group != first_group and minima[0, group] < runner_up:
            for k in range(group * GROUP, (group + 1) * GROUP):
                if scores[0, k] < runner_up:
                    second, runner_up = k, scores[0, k]
    return first, second, best


@_inlined
def _move(gas, node, point, rate):
    block, lane = node // BLOCK, node % BLOCK
    for d in range(point.shape[0]):
        gas.blocks[block, d, lane] += rate * (point[d, 0] - gas.blocks[block, d, lane])


@_inlined
def _find(gas, node, other):
    for place in range(gas.degree[node]):
        if gas.links[node, place] == other:
            return place
    return -1


@_inlined
def _half_link(gas, node, other):
    place = _find(gas, node, other)
    if place < 0:
        place = gas.degree[node]
        gas.degree[node] += 1
    gas.links[node, place] = other
    gas.stamps[node, place] = gas.wins[node] + gas.wins[other]


@_inlined
def _half_unlink(gas, node, place):
    last = gas.degree[node] - 1
    gas.links[node, place] = gas.links[node, last]
    gas.stamps[node, place] = gas.stamps[node, last]
    gas.degree[node] = last


@_inlined
def _unlink(gas, node, place):
    other = gas.links[node, place]
    _half_unlink(gas, node, place)
    _half_unlink(gas, other, _find(gas, other, node))


@compiled
def _remove(gas, node):
    """Drops a node without links; the last node takes its number."""
    last = gas.totals[0] - 1
    gas.totals[0] = last
    for place in range(gas.degree[last]):
        other = gas.links[last, place]
        gas.links[other, _find(gas, other, last)] = node
        gas.links[node, place] = other
        gas.stamps[node, place] = gas.stamps[last, place]
    gas.degree[node], gas.wins[node], gas.errors[node] = gas.degree[last], gas.wins[last], gas.errors[last]
    for d in range(gas.blocks.shape[1]):  # a slice would triple the time to compile
        gas.blocks[node // BLOCK, d, node % BLOCK] = gas.blocks[last // BLOCK, d, last % BLOCK]
    gas.offsets[last // BLOCK, last % BLOCK] = np.inf


@compiled
def _drop_old_links(gas, node, maximum_age):
    for place in range(gas.degree[node] - 1, -1, -1):
        other = gas.links[node, place]
        if gas.wins[node] + gas.wins[other] - gas.stamps[node, place] > maximum_age:
            _unlink(gas, node, place)
            if gas.degree[other] == 0:
                last = gas.totals[0] - 1
                _remove(gas, other)
                node = other if node == last else node


@compiled
def _insert(gas, decay):
    """A new node halfway between the node of largest error and the worst of its neighbours."""
    worst, place = 0, 0
    for node in range(gas.totals[0]):
        if gas.errors[node] > gas.errors[worst]:
            worst = node
    for candidate in range(gas.degree[worst]):
        if gas.errors[gas.links[worst, candidate]] > gas.errors[gas.links[worst, place]]:
            place = candidate
    other, new = gas.links[worst, place], gas.totals[0]
    gas.totals[0] += 1
    for d in range(gas.blocks.shape[1]):
        middle = gas.blocks[worst // BLOCK, d, worst % BLOCK] + gas.blocks[other // BLOCK, d, other % BLOCK]
        gas.blocks[new // BLOCK, d, new % BLOCK] = np.float32(0.5) * middle
    gas.offsets[new // BLOCK, new % BLOCK] = 0.0
    gas.degree[new], gas.wins[new] = 0, 0
    _unlink(gas, worst, place)
    for end in (worst, other):
        _half_link(gas, end, new)
        _half_link(gas, new, end)
        gas.errors[end] *= decay
    gas.errors[new] = gas.errors[worst]


@compiled
def present(gas, inputs, order, rates):
    """Presents `inputs[order]` one by one; stops early, with nothing half done, if a row of links is full.

    Returns:
        How many were presented.
    """
    point = np.empty((inputs.shape[1], 1), np.float32)
    scores = np.empty((1, gas.offsets.size), np.float32)
    minima = np.empty((1, gas.offsets.size // GROUP), np.float32)
    for step in range(order.shape[0]):
        for d in range(inputs.shape[1]):
            point[d, 0] = inputs[order[step], d]
        first, second, distance = _two_nearest(gas, point, scores, minima)
        if max(gas.degree[first], gas.degree[second]) == gas.links.shape[1] and _find(gas, first, second) < 0:
            return step
        gas.wins[first] += 1
        gas.errors[first] += distance / gas.factor[0]
        _move(gas, first, point, rates.winner)
        for place in range(gas.degree[first]):
            _move(gas, gas.links[first, place], point, rates.neighbour)
        _half_link(gas, first, second)
        _half_link(gas, second, first)
        _drop_old_links(gas, first, rates.maximum_age)
        gas.totals[1] += 1
        if gas.totals[1] % rates.insertion_interval == 0 and gas.totals[0] < gas.errors.shape[0]:
            _insert(gas, rates.insertion_decay)
        gas.factor[0] *= rates.kept
        if gas.factor[0] < _SMALLEST_FACTOR:
            for node in range(gas.totals[0]):
                gas.errors[node] *= gas.factor[0]
            gas.factor[0] = 1.0
    return order.shape[0]


def new_gas(count: int, start: np.ndarray) -> Gas:
    """A gas of two linked nodes at `start` (2, D) float32, with room for `count`."""
    blocks = np.zeros(block_shape(count, start.shape[1]), np.float32)
    blocks[0, :, :2] = start.T
    offsets = np.full((len(blocks), BLOCK), np.inf, np.float32)
    offsets[0, :2] = 0.0
    degree = np.zeros(count, np.int64)
    degree[:2] = 1
    links = np.zeros((count, 32), np.int64)
    links[0, 0] = 1
    return Gas(
        blocks=blocks,
        offsets=offsets,
        errors=np.zeros(count),
        wins=np.zeros(count, np.int64),
        degree=degree,
        links=links,
        stamps=np.zeros_like(links),
        totals=np.array([2, 0]),
        factor=np.ones(1),
    )


def with_wider_links(gas: Gas) -> Gas:
    """The same gas with room for twice as many links of a node."""
    links, stamps = (
        np.concatenate([table, np.zeros_like(table)], axis=1) for table in (gas.links, gas.stamps)
    )
    return gas._replace(links=links, stamps=stamps)
