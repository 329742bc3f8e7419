"""What a tether is: limits that depend on the input, as a torch module whose geometry are buffers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Tensor, nn


class Room(NamedTuple):
    """Where outputs may be, in the units of the target; N rows, P outputs.

    Attributes:
        lower: (N, P) smallest output allowed.
        upper: (N, P) largest.
        anchor: (N, P) what the network's output is added to: A(s) of an affine tether, M(s) of a direct one.
    """

    lower: Tensor
    upper: Tensor
    anchor: Tensor


class Fixed(nn.Module):
    """A module whose buffers keep their dtype: casting a model changes its predictions, not its geometry."""

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        def moved(values: Tensor) -> Tensor:
            there = fn(values)
            return there if there.dtype == values.dtype else values.to(there.device)

        return super()._apply(moved, recurse)


class Tether(Fixed, ABC):
    """Limits on the target that hold whatever the weights.

    Inputs are physical, (N, D), float64, with angles in [-π, π).
    """

    @abstractmethod
    def room(self, inputs: Tensor) -> Room:
        """Where outputs may be at inputs (N, D): torch operations without a branch, differentiable."""
