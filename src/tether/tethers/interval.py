"""The paper's tether: a constant range per cell."""

from __future__ import annotations

import torch
from torch import Tensor

from tether.bounds import IntervalBounds
from tether.cells import Cells
from tether.tethers.lookup import CellLookup
from tether.tethers.tether import Room, Tether


class IntervalTether(Tether):
    """Outputs between constants of the cell; see :class:`IntervalBounds`."""

    lower: Tensor
    upper: Tensor

    def __init__(self, cells: Cells, bounds: IntervalBounds) -> None:
        super().__init__()
        self.lookup = CellLookup(cells)
        for name in ("lower", "upper"):
            self.register_buffer(name, torch.from_numpy(getattr(bounds, name).copy()))

    def room(self, inputs: Tensor) -> Room:
        """Limits of the cell of each input (N, D)."""
        cell = self.lookup(inputs)
        lower = self.lower[cell]
        return Room(lower, self.upper[cell], torch.zeros_like(lower))
