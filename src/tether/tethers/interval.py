"""The paper's tether: a constant range per cell."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor

from tether.geometry.cells import Cells
from tether.tethers.bounds import IntervalBounds
from tether.tethers.lookup import CellTether
from tether.tethers.tether import Limits, Room


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

    def room_at_once(self, inputs: Tensor) -> Room:
        """The same."""
        return self._room(self.lookup.at_once(inputs))

    def limits(self, inputs: Tensor) -> Limits:
        """The same, with delta of the cell."""
        place = self.lookup.place(inputs)
        delta = self.delta.index_select(0, place.cell)
        return Limits(*self._room(place.cell), delta, place.cell, place.in_domain)

    def _room(self, cell: Tensor) -> Room:
        lower = self.lower.index_select(0, cell)
        return Room(lower, self.upper.index_select(0, cell), torch.zeros_like(lower))
