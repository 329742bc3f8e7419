"""A first-order model of M per cell, and as much room around it as the data ask for."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tether.bounds import PINNED_REACH, AffineBounds
from tether.cells import Cells
from tether.tethers.blending import closeness, one_turn, opening
from tether.tethers.lookup import CellLookup
from tether.tethers.tether import Room, Tether


class _Around(NamedTuple):
    """The cells that take part, (N, B), and their weights; None: there is but one."""

    cell: Tensor
    weight: Tensor | None


class AffineTether(Tether):
    """Outputs within a half-width of A(s) = center + jacobian (s - memory); see :class:`AffineBounds`."""

    center: Tensor
    jacobian: Tensor
    half_width: Tensor
    pinned: Tensor
    pinned_rate: Tensor
    angles: Tensor

    def __init__(self, cells: Cells, bounds: AffineBounds) -> None:
        super().__init__()
        self.lookup = CellLookup(cells)
        expansion = bounds.expansion
        arrays: dict[str, NDArray] = {
            "center": expansion.center,
            "jacobian": expansion.jacobian,
            "half_width": bounds.half_width,
            "angles": bounds.angles,
        }
        agreed = np.isfinite(bounds.pinned)
        arrays["pinned"] = np.where(agreed, bounds.pinned, 0.0)
        arrays["pinned_rate"] = np.where(agreed, 1 / (cells.scale * PINNED_REACH), 0.0)
        for name, values in arrays.items():
            self.register_buffer(name, torch.from_numpy(np.array(values)))
        self.blend = min(bounds.blend, len(cells) - 1)
        self.turns = bool(bounds.angles.any())
        self.pins = bool(agreed.any())

    def room(self, inputs: Tensor) -> Room:
        """A(s) plus and minus what is open of the half-width."""
        anchor, width = self._parts(inputs, self._around(inputs, self.lookup(inputs)))
        return Room(anchor - width, anchor + width, anchor)

    def _around(self, inputs: Tensor, nearest: Tensor) -> _Around:
        """The nearest cell alone, or the cells that are blended.

        Where no ball holds the input the nearest cell answers alone, and the input is not in the domain.
        """
        if self.blend < 2:
            return _Around(nearest[:, None], None)
        cell, squared = self.lookup.around(inputs, self.blend + 1)
        weight = closeness(squared, self.lookup.radii[cell[:, :-1]])
        total = weight.sum(dim=1, keepdim=True)
        alone = total <= 0
        first = torch.arange(self.blend, device=inputs.device) == 0
        cell = torch.where(alone & first, nearest[:, None], cell[:, :-1])
        weight = torch.where(alone, first.to(weight.dtype), weight / torch.where(alone, 1.0, total))
        return _Around(cell, weight)

    def _parts(self, inputs: Tensor, around: _Around) -> tuple[Tensor, Tensor]:
        """(N, P) A(s), and the half-width as far as it is open.

        Sound because each cell bounds the distance from M to its own A at the input, and the distance to an
        average is at most the average of the distances, once all A are near the same turn of M.
        """
        offset = inputs[:, None] - self.lookup.centers[around.cell]
        anchors = self.center[around.cell] + (self.jacobian[around.cell] @ offset[..., None])[..., 0]
        if around.weight is not None and self.turns:
            anchors = torch.where(self.angles, one_turn(anchors, around.weight), anchors)
        width = _average(self.half_width[around.cell], around.weight)
        if self.pins:
            width = width * opening(inputs, self.pinned, self.pinned_rate)
        return _average(anchors, around.weight), width


def _average(parts: Tensor, weight: Tensor | None) -> Tensor:
    """(N, P) of (N, B, P) with weights (N, B); of one part, itself."""
    return parts[:, 0] if weight is None else (weight[..., None] * parts).sum(dim=1)
