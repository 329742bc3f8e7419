"""No tether: a network on its own, or beside M."""

from __future__ import annotations

import torch
from torch import Tensor

from tether.tethers.tether import Room, Tether


class FreeTether(Tether):
    """No limits.

    Args:
        outputs: P.
    """

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.outputs = outputs

    def room(self, inputs: Tensor) -> Room:
        """Everything."""
        anchor = inputs.new_zeros(inputs.shape[0], self.outputs)
        return Room(torch.full_like(anchor, -torch.inf), torch.full_like(anchor, torch.inf), anchor)
