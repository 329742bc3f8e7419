"""Weights that blend neighbouring cells, so that a model is continuous across their faces.

A convex combination of bounds that are valid at an input is valid there. A cell may take part wherever
its coverage ball holds the input; its weight falls to zero at the rim of that ball, and towards the
distance of the first neighbour that takes no part, so that none enters or leaves with a jump.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tether.cells import Cells, Location
from tether.data import Array
from tether.nearest import query_few

RIM = 0.1
"""Share of the coverage radius over which a cell's weight falls to zero."""


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """The cells that take part at each input.

    Attributes:
        cell: (N, B).
        distance: (N, B) scaled distance to their memories.
        weight: (N, B) at least 0, positive only where the cell's coverage ball holds the input; a row
            sums to 1 up to rounding.
    """

    cell: NDArray[np.int64]
    distance: Array
    weight: Array


def neighbourhood(cells: Cells, inputs: Array, location: Location, count: int) -> Neighbourhood:
    """Up to `count` cells around each physical input (N, D), with their weights.

    Where no ball holds the input the nearest cell answers alone, and the input is not in the domain.
    """
    count = min(count, len(cells) - 1)
    if count < 2:
        ones = np.ones((len(inputs), 1))
        return Neighbourhood(location.cell[:, None], location.distance[:, None], ones)
    scaled = inputs / cells.scale
    cell = query_few(scaled, cells.memories, **cells.index.packed, count=count + 1)
    squared = ((scaled[:, None] - cells.memories[cell]) ** 2).sum(axis=2)
    order = np.argsort(squared, axis=1, kind="stable")
    cell, squared = np.take_along_axis(cell, order, axis=1), np.take_along_axis(squared, order, axis=1)
    cell, distance = cell[:, :count], np.sqrt(squared[:, :count])
    span = squared[:, -1:] - squared[:, :1]
    closeness = np.divide(
        squared[:, -1:] - squared[:, :count], span, out=np.ones_like(distance), where=span > 0
    )
    radii = cells.radii[cell]
    weight = closeness * np.clip((radii - distance) / (RIM * radii), 0.0, 1.0)
    total = weight.sum(axis=1, keepdims=True)
    alone = total[:, 0] <= 0
    cell[alone, 0], distance[alone, 0] = location.cell[alone], location.distance[alone]
    weight[alone, 0], total[alone] = 1.0, 1.0
    return Neighbourhood(cell, distance, weight / total)


def one_turn(anchors: Array, weight: Array) -> Array:
    """Angles (N, B, P), each moved by whole turns to be nearest to the first that has a weight (N, B).

    The first cell is the nearest, unless rounding put one before it whose ball does not hold the input.
    """
    first = (weight > 0).argmax(axis=1)[:, None, None]
    reference = np.take_along_axis(anchors, first, axis=1)
    return anchors - 2 * np.pi * np.round((anchors - reference) / (2 * np.pi))
