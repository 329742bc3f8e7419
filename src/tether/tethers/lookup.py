"""The nearest memory of an input in torch, as fast as in NumPy: one operation that torch can trace.

On a CPU it is the search of :mod:`tether.geometry.nearest`; elsewhere, distances to all memories. The nearest
is exact in either.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tether.data import Array
from tether.geometry.cells import Cells
from tether.geometry.nearest import nearest_torch, query_packed
from tether.tethers.bounds import Bounds
from tether.tethers.tether import Fixed, Tether


class Place(NamedTuple):
    """Where inputs fall.

    Attributes:
        cell: (N,) index of the nearest memory.
        in_domain: (N,) whether the input lies in that cell's coverage region.
    """

    cell: Tensor
    in_domain: Tensor


@torch.library.custom_op("tether::nearest", mutates_args=())
def _nearest(
    points: Tensor, memories: Tensor, center: Tensor, extent: Tensor, blocks: Tensor, offsets: Tensor
) -> Tensor:
    if points.device.type != "cpu":
        return nearest_torch(points, memories)[0]
    packed = (part.detach().numpy() for part in (memories, center, extent, blocks, offsets))
    return torch.from_numpy(query_packed(points.detach().contiguous().numpy(), *packed).cell)


@_nearest.register_fake
def _(
    points: Tensor, memories: Tensor, center: Tensor, extent: Tensor, blocks: Tensor, offsets: Tensor
) -> Tensor:
    del memories, center, extent, blocks, offsets
    return points.new_empty(points.shape[0], dtype=torch.int64)


def by_row(operation: Any) -> Any:
    """Rows do not know of one another, so that rows of a batch of batches are just more rows."""

    def batched(info: Any, in_dims: Any, points: Tensor, *rest: Any) -> Any:
        del info
        if in_dims[0] is None or any(dim is not None for dim in in_dims[1:]):
            raise TypeError("what is mapped over must be the inputs; got the memories of a tether.")
        points = points.movedim(in_dims[0], 0)
        return operation(points.flatten(0, 1), *rest).unflatten(0, points.shape[:2]), 0

    return batched


_nearest.register_vmap(by_row(_nearest))


class CellLookup(Fixed):
    """Cells of physical inputs (N, C); the same cells as :class:`Cells` finds."""

    memories: Tensor
    edges: Tensor
    scale: Tensor
    radii: Tensor
    box_lower: Tensor
    box_upper: Tensor
    index_center: Tensor
    index_extent: Tensor
    index_blocks: Tensor
    index_offsets: Tensor

    STORED = ("memories", "edges", "scale", "radii", "box_lower", "box_upper")

    def __init__(self, cells: Cells) -> None:
        super().__init__()
        self.keep({name: getattr(cells, name) for name in self.STORED})
        self._derive(cells)
        self.register_load_state_dict_post_hook(_derive_again)

    def _derive(self, cells: Cells) -> None:
        """What follows from the stored arrays."""
        self.cells = cells
        """The cells as NumPy sees them."""
        device, index = self.memories.device, cells.index
        self._packed = (index.memories, *index.packed.values())
        for name, values in index.packed.items():
            moved = torch.from_numpy(np.ascontiguousarray(values)).to(device)
            self.register_buffer(f"index_{name}", moved, persistent=False)

    @property
    def _index(self) -> tuple[Tensor, ...]:
        return (
            self.memories,
            self.index_center,
            self.index_extent,
            self.index_blocks,
            self.index_offsets,
        )

    def forward(self, inputs: Tensor) -> Tensor:
        """(N,) the exactly nearest memory of physical inputs (N, C)."""
        return _nearest((inputs / self.scale).detach(), *self._index)

    def at_once(self, inputs: Tensor) -> Tensor:
        """The same cells (N,), for predictions, which nothing traces."""
        if inputs.device.type == "cpu":
            return torch.from_numpy(self.cell_of(inputs.numpy()))
        return nearest_torch(inputs / self.scale, self.memories)[0]

    def cell_of(self, inputs: Array) -> NDArray[np.int64]:
        """The same of an array."""
        points = np.ascontiguousarray(inputs / self.cells.scale)
        return query_packed(points, *self._packed).cell

    def place(self, inputs: Tensor) -> Place:
        """The same, with domain membership."""
        if inputs.device.type == "cpu":
            found = self.cells.locate(inputs.numpy())
            return Place(*map(torch.from_numpy, (found.cell, found.in_domain)))
        cell, squared = nearest_torch(inputs / self.scale, self.memories)
        radii = self.radii.index_select(0, cell)
        inside = ((inputs >= self.box_lower) & (inputs <= self.box_upper)).all(dim=1)
        return Place(cell, inside & (squared <= radii * radii))


def _derive_again(module: Any, incompatible: Any) -> None:
    del incompatible
    arrays = {name: getattr(module, name).cpu().numpy().copy() for name in CellLookup.STORED}
    module._derive(Cells(**arrays))


class CellTether(Tether):
    """A tether whose limits are known by cell.

    Args:
        cells: which input belongs where.
        bounds: what each cell allows.
    """

    operators = ("sigmoid", "clip", "project")

    def __init__(self, cells: Cells, bounds: Bounds) -> None:
        super().__init__()
        if not (bounds.delta >= 0).all():
            raise ValueError(
                "`bounds` must have a delta of at least 0 in every cell and output; got NaN or less."
            )
        self.lookup = CellLookup(cells)
        self.register_load_state_dict_post_hook(_take_up)

    @property
    def cells(self) -> Cells:
        """Which input belongs where."""
        return self.lookup.cells

    @property
    def limited(self) -> bool:
        """By bounds over cells or leaves."""
        return True

    @abstractmethod
    def derive(self) -> None:
        """Takes up the buffers as they are."""


def _take_up(module: Any, incompatible: Any) -> None:
    del incompatible
    module.derive()
