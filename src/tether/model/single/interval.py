"""Interval bounds in float32: rounded inwards; one too narrow for that becomes a single number.

How far that number is outside is added to delta. There is nothing else to round but the last sum.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from tether.geometry.cells import Cells
from tether.model.frame import Frame
from tether.model.single.balls import ball_tables, base_size
from tether.model.single.rounding import (
    FLUSHED,
    HALF_TURN,
    UNIT,
    Single,
    check_sizes,
    compensation_of,
    down,
    near,
    up,
)
from tether.model.single.tether import SingleRoom, SingleTether, rounded_up
from tether.tethers.bounds import IntervalBounds


class SingleInterval(SingleTether):
    """Outputs between two constants of the nearest memory's cell."""

    lower: Tensor
    upper: Tensor
    spread: Tensor
    limit: Tensor

    def __init__(self, cells: Cells, bounds: IntervalBounds, frame: Frame) -> None:
        super().__init__()
        schema = frame.schema
        compensation = compensation_of(cells.memories.shape[1])
        tables, balls = _tables(bounds), ball_tables(cells, schema)
        size = np.maximum(np.abs(tables["lower"]), np.abs(tables["upper"])).astype(np.float64)
        check_sizes(tables, size)
        if frame.target == "increment":
            size = size + base_size(cells, schema)
        # Sums of a row may round up where these did not: more than they can, on top.
        largest = (tables["spread"] + UNIT * size * (1 + 2.0**-10)) * compensation**4
        largest = np.where(schema.output_angles, np.minimum(largest, HALF_TURN), largest)
        self.largest, self.compensation = largest.max(axis=0), rounded_up(compensation)
        self.per_row = len(cells)
        self.keep(tables | balls)

    def room(self, inputs: Tensor) -> SingleRoom:
        """The limits of the nearest memory's cell."""
        nearest, cell = self.squared_distances(inputs).min(dim=1)
        lower, inside = self.lower[cell], self.within_box(inputs) & (nearest <= self.limit[cell])
        return SingleRoom(lower, self.upper[cell], torch.zeros_like(lower), self.spread[cell], cell, inside)


def _tables(bounds: IntervalBounds) -> dict[str, Single]:
    lower, upper = up(bounds.lower), down(bounds.upper)
    narrow = lower > upper
    middle = near(0.5 * bounds.lower + 0.5 * bounds.upper)
    lower, upper = np.where(narrow, middle, lower), np.where(narrow, middle, upper)
    outside = np.maximum(np.maximum(bounds.lower - lower, upper - bounds.upper), 0.0)
    spread = (bounds.delta + outside) * (1 + 1e-15) + 8 * FLUSHED
    return {"lower": lower, "upper": upper, "spread": up(spread)}
