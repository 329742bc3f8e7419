"""What a tether is: limits that depend on the input, as a torch module whose geometry are buffers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tether.data import Array
from tether.geometry.cells import Cells
from tether.tethers.bounds import Bounds
from tether.trusted import TrustedModel

_PIECE = 8192
REACH = 1e3
"""Scales away from the centre of the inputs up to which the delta of a certificate includes rounding."""


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


class Limits(NamedTuple):
    """A :class:`Room`, and what is known of each row.

    Attributes:
        lower: (N, P).
        upper: (N, P).
        anchor: (N, P).
        delta: (N, P) distance to M of every output allowed, for rows in the domain.
        cell: (N,) the cell that answers; -1 where there are none.
        in_domain: (N,) whether the guarantee covers the row.
    """

    lower: Tensor
    upper: Tensor
    anchor: Tensor
    delta: Tensor
    cell: Tensor
    in_domain: Tensor


class RowLimits(NamedTuple):
    """:class:`Limits` as arrays."""

    lower: Array
    upper: Array
    anchor: Array
    delta: Array
    cell: NDArray[np.int64]
    in_domain: NDArray[np.bool_]


class RowRoom(NamedTuple):
    """:class:`Room` as arrays."""

    lower: Array
    upper: Array
    anchor: Array


class Fixed(nn.Module):
    """A module whose buffers keep their dtype: casting a model changes its predictions, not its geometry."""

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        def moved(values: Tensor) -> Tensor:
            there = fn(values)
            return there if there.dtype == values.dtype else values.to(there.device)

        return super()._apply(moved, recurse)

    def keep(self, arrays: dict[str, NDArray], *, persistent: bool = True) -> None:
        """Registers a copy of each array as a buffer of its name."""
        for name, values in arrays.items():
            self.register_buffer(name, torch.from_numpy(np.array(values, order="C")), persistent=persistent)


class Tether(Fixed, ABC):
    """Limits on the target that hold whatever the weights.

    Inputs are physical, (N, D), float64, with angles in [-π, π).
    """

    kind: ClassVar[str]
    """As files and tables call it."""
    operators: ClassVar[tuple[str, ...]] = ("clip",)
    """How outputs may be kept between the limits."""
    bounded: ClassVar[bool] = True
    """Whether there are limits: then angles to learn from are moved by whole turns to be near them."""
    over_boxes: ClassVar[bool] = False
    """Whether M is known over the boxes of a tree: then `bounds` has one."""
    declared: NDArray[np.int64] = np.empty(0, dtype=np.int64)
    """Inputs in which no prediction rises."""

    @abstractmethod
    def room(self, inputs: Tensor) -> Room:
        """Where outputs may be at inputs (N, D): torch operations without a branch, differentiable."""

    @abstractmethod
    def limits(self, inputs: Tensor) -> Limits:
        """The same bits, with delta, cell and domain membership; for predictions, which nothing traces."""

    def room_across(self, inputs: Tensor, frame: Any) -> Room:
        """The same numbers, with gradients over several leaves, if there are any, not within one."""
        del frame
        return self.room(inputs)

    def strides(self) -> Array | None:
        """(D,) how far these reach along each input; None without leaves."""
        return None

    def room_at_once(self, inputs: Array) -> RowRoom:
        """The room (N, P) for a prediction: the same bits, and refusing what :meth:`limits` refuses."""
        return RowRoom(*self.rows(inputs)[:3])

    def unmet_premise(self, network: nn.Module, frame: Any) -> str | None:
        """What the limits ask of the rest of a model, its :class:`Frame` included, and do not get."""
        del network, frame
        return None

    @property
    def cells(self) -> Cells:
        """Which input belongs where."""
        raise TypeError(f"a model with cells is needed; a tether of kind '{self.kind}' has none.")

    @property
    def bounds(self) -> Bounds:
        """What each cell allows, and how that is known."""
        raise TypeError(f"a model with bounds by cell is needed; a tether of kind '{self.kind}' has none.")

    @property
    def memories(self) -> int | None:
        """How many there are; None where the limits do not depend on any."""
        return len(self.cells)

    @property
    def holds(self) -> bool:
        """Whether outputs are kept within a finite distance of M."""
        return self.bounded

    @property
    def limited(self) -> bool:
        """Whether it holds in a part of the inputs only, by bounds over cells or leaves."""
        return False

    @property
    def deltas(self) -> list[Array]:
        """Of each output, the distance to M over each part of the domain that something is known of."""
        return [delta for _, delta in self.bounds.by_output()]

    @property
    def evidence(self) -> str:
        """How delta is known."""
        return self.bounds.evidence.name

    @torch.no_grad()
    def rows(self, inputs: Array) -> RowLimits:
        """:meth:`limits` of arrays (N, D), in pieces that memory has room for."""
        device = next(self.buffers(), torch.empty(0)).device
        pieces = torch.from_numpy(np.ascontiguousarray(inputs)).split(_PIECE)
        parts = [[part.cpu().numpy() for part in self.limits(piece.to(device))] for piece in pieces]
        if len(parts) == 1:
            return RowLimits(*parts[0])
        return RowLimits(*(np.concatenate(part) for part in zip(*parts, strict=True)))


class WholeTether(Tether):
    """A tether that knows M itself, so that what is claimed holds at every input, by construction."""

    @property
    def evidence(self) -> str:
        """By the argument of docs/guarantees.md."""
        return "proved"

    @abstractmethod
    def unlike(self, trusted: TrustedModel) -> str | None:
        """What `trusted` must be and is not, in a sentence; None: it may be the M that the tether knows."""

    @abstractmethod
    def places(self, frame: Any) -> Array:
        """(N, D) physical inputs, near which the data were, to look for counter-examples around."""

    @abstractmethod
    def usual_size(self, frame: Any) -> Array:
        """(P,) size of what is added up to which the delta of a certificate includes rounding."""

    @abstractmethod
    def largest_delta(self, size: Array) -> Array:
        """(K, P) distance to M in each cell, one where there are none, for sizes of at most `size` (P,)."""
