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
from tether.tethers.lookup import CellTether, rows_of
from tether.tethers.tether import Limits, Room


class _Around(NamedTuple):
    """The cells that take part, (N, B), their weights, and distances to their memories where asked for.

    Without weights there is but one cell, (N,).
    """

    cell: Tensor
    weight: Tensor | None
    distance: Tensor | None


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
    table: Tensor
    shells: Tensor
    first: Tensor

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
        self._pack()

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
        self._pack()

    def _pack(self) -> None:
        """What is looked up by cell, side by side: each look-up of one row takes as long as all in one."""
        parts = [self.lookup.centers, self.center, self.half_width, self.jacobian.flatten(1)]
        self.register_buffer("table", torch.cat(parts, dim=1), persistent=False)
        self.widths = [part.shape[1] for part in parts]
        parts = [self.lookup.slack[:, None], self.offset, self.radii]
        self.register_buffer("shells", torch.cat(parts, dim=1), persistent=False)
        self.shell_widths = [part.shape[1] for part in parts]
        first = (torch.arange(max(1, self.blend), device=self.center.device) == 0).to(torch.float64)
        self.register_buffer("first", first, persistent=False)
        self.turns, self.pins = bool(self.angles.any()), bool((self.pinned_rate > 0).any())

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
        return _room(*self._parts(inputs, self._around(inputs, self.lookup(inputs))))

    def room_at_once(self, inputs: Tensor) -> Room:
        """The same."""
        cell = self.lookup.at_once(inputs)
        return _room(*self._parts(inputs, self._around(inputs, cell, at_once=True)))

    def limits(self, inputs: Tensor) -> Limits:
        """The same, with delta, which shrinks towards the memory."""
        place = self.lookup.place(inputs)
        around = self._around(inputs, place.cell, at_once=True, distance=place.distance)
        anchor, width = self._parts(inputs, around)
        remainders = self._remainders(around)
        delta = width + _average(remainders, around.weight)
        if self.turns:
            delta = self._on_circle(delta, remainders, around.weight)
        return Limits(*_room(anchor, width), delta, place.cell, place.in_domain)

    def _around(
        self, inputs: Tensor, nearest: Tensor, *, at_once: bool = False, distance: Tensor | None = None
    ) -> _Around:
        """The nearest cell alone, or the cells that are blended.

        Where no ball holds the input the nearest cell answers alone, and the input is not in the domain.
        """
        if self.blend < 2:
            return _Around(nearest, None, distance)
        cell, squared = self.lookup.around(inputs, self.blend + 1, at_once=at_once)
        weight = closeness(squared, rows_of(self.lookup.radii, cell[:, :-1]))
        total = weight.sum(dim=1, keepdim=True)
        alone = total <= 0
        instead = alone & (self.first > 0)
        cell = torch.where(instead, nearest[:, None], cell[:, :-1])
        weight = torch.where(alone, self.first, weight / total.masked_fill(alone, 1.0))
        if distance is not None:
            distance = torch.where(instead, distance[:, None], squared[:, :-1].sqrt())
        return _Around(cell, weight, distance)

    def _parts(self, inputs: Tensor, around: _Around) -> tuple[Tensor, Tensor]:
        """(N, P) A(s), and the half-width as far as it is open.

        Sound because each cell bounds the distance from M to its own A at the input, and the distance to an
        average is at most the average of the distances, once all A are near the same turn of M.
        """
        cell, weight = around.cell, around.weight
        place, center, width, jacobian = rows_of(self.table, cell).split(self.widths, dim=-1)
        offset = (inputs if weight is None else inputs[:, None]) - place
        slopes = jacobian.unflatten(-1, (center.shape[-1], -1))
        anchors = center + (slopes @ offset[..., None])[..., 0]
        if weight is not None and self.turns:
            anchors = torch.where(self.angles, one_turn(anchors, weight), anchors)
        width = _average(width, weight)
        if self.pins:
            width = width * opening(inputs, self.pinned, self.pinned_rate)
        return _average(anchors, weight), width

    def _remainders(self, around: _Around) -> Tensor:
        """(N, B, P) how far M can be from A of each cell, at the distance of the input from its memory."""
        assert around.distance is not None
        slack, offset, radii = rows_of(self.shells, around.cell).split(self.shell_widths, dim=-1)
        distance = around.distance[..., None] + slack
        shells = radii.shape[-1]
        shell = (radii < distance).sum(dim=-1).clamp_max(shells - 1)
        slopes = rows_of(self.slopes.flatten(0, 1), around.cell * shells + shell)
        return slopes * distance + offset

    def _on_circle(self, delta: Tensor, remainders: Tensor, weight: Tensor | None) -> Tensor:
        """`delta` (N, P), of angles half a turn at most, and just that where blended cells may be apart."""
        circle = delta.clamp_max(HALF_TURN)
        if weight is not None:
            apart = ((remainders >= QUARTER_TURN) & (weight > 0)[..., None]).any(dim=1)
            circle = circle.masked_fill(apart, HALF_TURN)
        return torch.where(self.angles, circle, delta)


def _average(parts: Tensor, weight: Tensor | None) -> Tensor:
    """(N, P) of (N, B, P) with weights (N, B); of one part, itself."""
    return parts if weight is None else (weight[..., None] * parts).sum(dim=1)


def _room(anchor: Tensor, width: Tensor) -> Room:
    return Room(anchor - width, anchor + width, anchor)
