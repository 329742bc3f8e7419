"""No tether: a network on its own, or beside M."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from tether.data import Array
from tether.tethers.tether import Limits, Room, RowRoom, Tether


class FreeTether(Tether):
    """No limits, and no domain in which anything is promised.

    Args:
        outputs: P.
    """

    kind: ClassVar[str] = "unconstrained"
    bounded: ClassVar[bool] = False

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.outputs = outputs

    @property
    def memories(self) -> None:
        """There are none."""
        return

    def room(self, inputs: Tensor) -> Room:
        """Everything."""
        anchor = inputs.new_zeros(inputs.shape[0], self.outputs)
        return Room(torch.full_like(anchor, -torch.inf), torch.full_like(anchor, torch.inf), anchor)

    def room_at_once(self, inputs: Array) -> RowRoom:
        """The same."""
        anchor = np.zeros((len(inputs), self.outputs))
        return RowRoom(anchor - np.inf, anchor + np.inf, anchor)

    def limits(self, inputs: Tensor) -> Limits:
        """The same; no cell, no domain, no delta."""
        room = self.room(inputs)
        nowhere = torch.full_like(inputs[:, 0], -1, dtype=torch.int64)
        return Limits(*room, room.upper, nowhere, torch.zeros_like(nowhere, dtype=torch.bool))
