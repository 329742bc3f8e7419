"""What a float32 tether is: limits, delta and domain at float32 inputs, as a torch module of tables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tether.data import Array
from tether.geometry.cells import Cells
from tether.model.single.rounding import Single, near, up

_SCALES = (2.0**-60, 2.0**60)


class SingleRoom(NamedTuple):
    """Where outputs may be, and what is known of each row; N rows, P outputs.

    Attributes:
        lower: (N, P) smallest target allowed.
        upper: (N, P) largest.
        anchor: (N, P) what the network's output is added to.
        spread: (N, P) delta but for the last sum and for the roundings of delta itself.
        cell: (N,) the nearest memory, or one nearly as near.
        in_domain: (N,) whether the guarantee covers the row.
    """

    lower: Tensor
    upper: Tensor
    anchor: Tensor
    spread: Tensor
    cell: Tensor
    in_domain: Tensor


class SingleTether(nn.Module, ABC):
    """Limits in float32 that hold whatever the weights.

    Attributes:
        largest: (P,) float64, the largest delta over the domain.
        compensation: the last factor of the error analysis.
        per_row: about how many numbers a row takes on the way.
    """

    largest: Array
    compensation: float
    per_row: int
    centers: Tensor
    inverse_scale: Tensor
    box_lower: Tensor
    box_upper: Tensor

    @abstractmethod
    def room(self, inputs: Tensor) -> SingleRoom:
        """At float32 inputs (N, D), without a branch on them."""

    def keep(self, arrays: dict[str, NDArray]) -> None:
        """Registers each array as a buffer of its name."""
        for name, values in arrays.items():
            self.register_buffer(name, torch.from_numpy(np.ascontiguousarray(values)))

    def within_box(self, inputs: Tensor) -> Tensor:
        """(N,) whether inputs lie in the box, its limits included."""
        return ((inputs >= self.box_lower) & (inputs <= self.box_upper)).all(dim=1)

    def squared_distances(self, inputs: Tensor) -> Tensor:
        """(N, K) to the memories, scaled; column by column, because one matrix product would cancel."""
        total = torch.zeros_like(inputs[:, :1] - self.centers[:, 0])
        for d in range(inputs.shape[1]):
            gap = (inputs[:, d : d + 1] - self.centers[:, d]) * self.inverse_scale[d]
            total = total + gap * gap
        return total


def memory_tables(cells: Cells) -> dict[str, Single]:
    """Memories in physical units, and what differences from them are multiplied by."""
    if not ((cells.scale >= _SCALES[0]) & (cells.scale <= _SCALES[1])).all():
        raise ValueError(f"`scale` must lie within {_SCALES} for float32; got {cells.scale.tolist()}.")
    return {"centers": near(cells.centers), "inverse_scale": near(1 / cells.scale)}


def rounded_up(factor: float) -> float:
    """A float32 number, so that a factor as executed is no smaller than as derived."""
    return float(up(factor))
