"""A first-order model of M per cell, and as much room around it as the data ask for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from tether.bounds import AffineBounds
from tether.cells import Cells
from tether.data import HALF_TURN, QUARTER_TURN, Array
from tether.remainders import Expansion, Remainder
from tether.tethers.blending import PINNED_REACH, closeness, one_turn, opening
from tether.tethers.lookup import CellTether
from tether.tethers.tether import Limits, Room


class _Around(NamedTuple):
    """The cells that take part, (N, B), and their weights; None: there is but one, (N,)."""

    cell: Tensor
    squared: Tensor
    weight: Tensor | None


class AffineTether(CellTether):
    """Outputs within a half-width of A(s) = center + jacobian (s - memory); see :class:`AffineBounds`."""

    kind: ClassVar[str] = "affine"
    center: Tensor
    jacobian: Tensor
    radii: Tensor
    slopes: Tensor
    offset: Tensor
    half_width: Tensor
    pinned: Tensor
    pinned_rate: Tensor
    angles: Tensor

    def __init__(self, cells: Cells, bounds: AffineBounds) -> None:
        super().__init__(cells, bounds)
        self._bounds = bounds
        expansion, remainder = bounds.expansion, bounds.expansion.remainder
        agreed = np.isfinite(bounds.pinned)
        self.keep(
            {
                "center": expansion.center,
                "jacobian": expansion.jacobian,
                "radii": remainder.radii,
                "slopes": remainder.slopes,
                "offset": remainder.offset,
                "half_width": bounds.half_width,
                "angles": bounds.angles,
                "pinned": np.where(agreed, bounds.pinned, 0.0),
                "pinned_rate": np.where(agreed, 1 / (cells.scale * PINNED_REACH), 0.0),
            }
        )
        self.blend = min(bounds.blend, len(cells) - 1)
        self.turns = bool(bounds.angles.any())
        self.pins = bool(agreed.any())

    @property
    def bounds(self) -> AffineBounds:
        """What each cell allows, and how that is known."""
        return self._bounds

    def derive(self) -> None:
        """Takes up the buffers as they are."""
        expansion = Expansion(
            self._array("center"),
            self._array("jacobian"),
            Remainder(self._array("radii"), self._array("slopes"), self._array("offset")),
        )
        agreed = self._array("pinned_rate") > 0
        self._bounds = replace(
            self._bounds,
            expansion=expansion,
            half_width=self._array("half_width"),
            pinned=np.where(agreed, self._array("pinned"), np.nan),
            angles=self._array("angles"),
        )
        self.turns, self.pins = bool(self._bounds.angles.any()), bool(agreed.any())

    def _array(self, name: str) -> Array:
        return getattr(self, name).cpu().numpy().copy()

    def unmet_premise(self, network: nn.Module, frame: Any) -> str | None:
        """Outputs that are angles must be angles to the bounds."""
        del network
        if np.array_equal(self._bounds.angles, frame.schema.output_angles):
            return None
        return "`bounds` must say of the outputs that are angles that they are"

    def room(self, inputs: Tensor) -> Room:
        """A(s) plus and minus what is open of the half-width."""
        nearest = self.lookup(inputs)
        around = self._blended(inputs, nearest, None) if self.blend >= 2 else _Around(nearest, nearest, None)
        anchor, width = self._parts(inputs, around)
        return Room(anchor - width, anchor + width, anchor)

    def limits(self, inputs: Tensor) -> Limits:
        """The same, with delta, which shrinks towards the memory."""
        place = self.lookup.place(inputs)
        if self.blend >= 2:
            around = self._blended(inputs, place.cell, place.squared)
        else:
            around = _Around(place.cell, place.squared, None)
        anchor, width = self._parts(inputs, around)
        remainders = self._remainders(around)
        delta = width + _average(remainders, around.weight)
        if self.turns:
            delta = self._on_circle(delta, remainders, around.weight)
        return Limits(anchor - width, anchor + width, anchor, delta, place.cell, place.in_domain)

    def _blended(self, inputs: Tensor, nearest: Tensor, distance: Tensor | None) -> _Around:
        """The cells that are blended.

        Where no ball holds the input the nearest cell answers alone, and the input is not in the domain.
        """
        cell, squared = self.lookup.around(inputs, self.blend + 1)
        weight = closeness(squared, self.lookup.radii[cell[:, :-1]])
        total = weight.sum(dim=1, keepdim=True)
        alone = total <= 0
        first = torch.arange(self.blend, device=inputs.device) == 0
        cell = torch.where(alone & first, nearest[:, None], cell[:, :-1])
        if distance is not None:
            squared = torch.where(alone & first, distance[:, None], squared[:, :-1])
        weight = torch.where(alone, first.to(weight.dtype), weight / torch.where(alone, 1.0, total))
        return _Around(cell, squared, weight)

    def _parts(self, inputs: Tensor, around: _Around) -> tuple[Tensor, Tensor]:
        """(N, P) A(s), and the half-width as far as it is open.

        Sound because each cell bounds the distance from M to its own A at the input, and the distance to an
        average is at most the average of the distances, once all A are near the same turn of M.
        """
        cell, weight = around.cell, around.weight
        rows = inputs if weight is None else inputs[:, None]
        offset = rows - _of(self.lookup.centers, cell)
        anchors = _of(self.center, cell) + (_of(self.jacobian, cell) @ offset[..., None])[..., 0]
        if weight is not None and self.turns:
            anchors = torch.where(self.angles, one_turn(anchors, weight), anchors)
        width = _average(_of(self.half_width, cell), weight)
        if self.pins:
            width = width * opening(inputs, self.pinned, self.pinned_rate)
        return _average(anchors, weight), width

    def _remainders(self, around: _Around) -> Tensor:
        """(N, B, P) how far M can be from A of each cell, at the distance of the input from its memory."""
        distance = (around.squared.sqrt() + _of(self.lookup.slack, around.cell))[..., None]
        shells = self.radii.shape[1]
        shell = (_of(self.radii, around.cell) < distance).sum(dim=-1).clamp_max(shells - 1)
        slopes = _of(self.slopes.flatten(0, 1), around.cell * shells + shell)
        return slopes * distance + _of(self.offset, around.cell)

    def _on_circle(self, delta: Tensor, remainders: Tensor, weight: Tensor | None) -> Tensor:
        """`delta` (N, P), of angles half a turn at most, and just that where blended cells may be apart."""
        circle = delta.clamp_max(HALF_TURN)
        if weight is not None:
            apart = ((remainders >= QUARTER_TURN) & (weight > 0)[..., None]).any(dim=1)
            circle = torch.where(apart, HALF_TURN, circle)
        return torch.where(self.angles, circle, delta)


def _of(table: Tensor, cell: Tensor) -> Tensor:
    """Rows of `table` (K, ...) for cells (N,) or (N, B); for one row much faster than `table[cell]`."""
    if cell.dim() == 1:
        return table.index_select(0, cell)
    return table.index_select(0, cell.flatten()).unflatten(0, cell.shape)


def _average(parts: Tensor, weight: Tensor | None) -> Tensor:
    """(N, P) of (N, B, P) with weights (N, B); of one part, itself."""
    return parts if weight is None else (weight[..., None] * parts).sum(dim=1)
