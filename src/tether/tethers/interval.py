"""The paper's tether: a constant range per cell."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from tether.data import Array
from tether.geometry.cells import Cells
from tether.tethers.bounds import IntervalBounds
from tether.tethers.lookup import CellTether
from tether.tethers.tether import Limits, Room, RowRoom


class IntervalTether(CellTether):
    """Outputs between constants of the cell; see :class:`IntervalBounds`."""

    kind: ClassVar[str] = "interval"
    lower: Tensor
    upper: Tensor
    delta: Tensor

    def __init__(self, cells: Cells, bounds: IntervalBounds) -> None:
        super().__init__(cells, bounds)
        if not (bounds.lower <= bounds.upper).all():
            raise ValueError("`bounds` must have lower <= upper in every cell and output.")
        self._bounds = bounds
        self.keep({name: getattr(bounds, name) for name in ("lower", "upper", "delta")})

    @property
    def bounds(self) -> IntervalBounds:
        """What each cell allows, and how that is known."""
        return self._bounds

    def derive(self) -> None:
        """Takes up the buffers as they are."""
        arrays = {name: getattr(self, name).cpu().numpy().copy() for name in ("lower", "upper", "delta")}
        self._bounds = replace(self._bounds, **arrays)

    def room(self, inputs: Tensor) -> Room:
        """Limits of the cell of each input (N, D)."""
        return self._room(self.lookup(inputs))

    def room_at_once(self, inputs: Array) -> RowRoom:
        """The same."""
        if self.lower.device.type != "cpu":
            return super().room_at_once(inputs)
        cell, bounds = self.lookup.cell_of(inputs), self._bounds
        lower = bounds.lower.take(cell, axis=0)
        return RowRoom(lower, bounds.upper.take(cell, axis=0), np.zeros_like(lower))

    def limits(self, inputs: Tensor) -> Limits:
        """The same, with delta of the cell."""
        place = self.lookup.place(inputs)
        delta = self.delta.index_select(0, place.cell)
        return Limits(*self._room(place.cell), delta, place.cell, place.in_domain)

    def _room(self, cell: Tensor) -> Room:
        lower = self.lower.index_select(0, cell)
        return Room(lower, self.upper.index_select(0, cell), torch.zeros_like(lower))
