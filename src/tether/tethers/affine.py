"""A model of M over every leaf of a box, of first or second order, and as much room as the data ask for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from tether.data import HALF_TURN, Array
from tether.foundation.kernels import compiled
from tether.geometry.cells import Cells
from tether.tethers.affinebounds import AffineBounds
from tether.tethers.leaves import TreeLookup
from tether.tethers.lookup import CellTether
from tether.tethers.opening import PINNED_REACH, opening
from tether.tethers.tether import Limits, Room, RowRoom

_LEAVES_AHEAD = 32
_SHARE = 64
"""A stride is so many leaves, or so small a share of the box if that is less, but a leaf at least."""


class AffineTether(CellTether):
    """Outputs within a half-width of A(s), the model of a leaf; see :class:`AffineBounds`."""

    kind: ClassVar[str] = "affine"
    over_boxes: ClassVar[bool] = True
    reference: Tensor
    value: Tensor
    slope: Tensor
    remainder: Tensor
    half_width: Tensor
    most: Tensor
    pinned: Tensor
    pinned_rate: Tensor
    angles: Tensor
    left: Tensor
    """By leaf, what of the delta asked for the remainder leaves."""
    curvature: Tensor
    pairs: Tensor
    centre: Tensor
    """By leaf, where curvatures are counted from; it follows from the tree."""

    STORED = ("reference", "value", "slope", "remainder", "half_width", "most", "angles")
    CURVED = ("curvature", "pairs")
    """What leaves of second order have besides."""

    def __init__(self, cells: Cells, bounds: AffineBounds) -> None:
        super().__init__(cells, bounds)
        self._bounds = bounds
        self.leaves = TreeLookup(bounds.tree)
        agreed = np.isfinite(bounds.pinned)
        self.keep({name: getattr(bounds, name) for name in self.STORED})
        self.keep({name: getattr(bounds, name) for name in self.CURVED}, persistent=bounds.order > 1)
        self.keep(
            {
                "pinned": np.where(agreed, bounds.pinned, 0.0),
                "pinned_rate": np.where(agreed, 1 / (cells.scale * PINNED_REACH), 0.0),
            }
        )
        self._settle()

    def _settle(self) -> None:
        self._strides: Array | None = None
        self.bent = self._bounds.order > 1
        centre = self._bounds.centre if self.bent else np.zeros((0, len(self._bounds.reference)))
        self.register_buffer("centre", torch.from_numpy(centre).to(self.value.device), persistent=False)
        self.turns, self.pins = bool(self.angles.any()), bool((self.pinned_rate > 0).any())
        # Infinity less infinity, where nothing is known and nothing was asked for, leaves no room.
        output = torch.from_numpy(self._bounds.output).to(self.most.device)
        left = (self.most.index_select(0, output) - self.remainder).nan_to_num(nan=0.0, posinf=torch.inf)
        self.register_buffer("left", left.clamp_min(0.0), persistent=False)
        names = ("reference", "value", "slope", "half_width", "pinned", "pinned_rate", "left", "curvature")
        names = (*names, "pairs", "centre")
        self._arrays = tuple(np.ascontiguousarray(getattr(self, name).cpu().numpy()) for name in names)

    @property
    def bounds(self) -> AffineBounds:
        """What is known of M over each leaf, and the room by cell."""
        return self._bounds

    def derive(self) -> None:
        """Takes up the buffers as they are."""
        agreed = self._array("pinned_rate") > 0
        self._bounds = replace(
            self._bounds,
            tree=self.leaves.tree,
            pinned=np.where(agreed, self._array("pinned"), np.nan),
            **{name: self._array(name) for name in (*self.STORED, *self.CURVED)},
        )
        self._settle()

    def _array(self, name: str) -> Array:
        return getattr(self, name).cpu().numpy().copy()

    def unmet_premise(self, network: nn.Module, frame: Any) -> str | None:
        """Outputs that are angles must be angles to the bounds."""
        del network
        if np.array_equal(self._bounds.angles, frame.schema.output_angles):
            return None
        return "`bounds` must say of the outputs that are angles that they are"

    def strides(self) -> Array:
        """(D,) over some leaves along each input, 0 along those that are never cut.

        Around what probes agree on A must be M: a car that stands still does not move whatever its heading,
        so that A has no slope along that, and steps from leaf to leaf instead.
        """
        if self._strides is None:
            tree = self._bounds.tree
            lower, upper = tree.boxes()
            whole, self._strides = tree.upper - tree.lower, np.zeros(len(tree.lower))
            for d, widths in enumerate((upper - lower).T):
                cut = np.sort(widths[widths < whole[d]])
                if len(cut):
                    own = cut[len(cut) // 2]
                    self._strides[d] = max(own, min(_LEAVES_AHEAD * own, whole[d] / _SHARE))
        return self._strides

    def room(self, inputs: Tensor) -> Room:
        """A(s) plus and minus what is open of the half-width."""
        return self._room(inputs, self.leaves(inputs), self.lookup(inputs))

    def room_across(self, inputs: Tensor, frame: Any) -> Room:
        """The same numbers; by each input, the gradient of A is how A changes over a stride along it."""
        room, at = self.room(inputs), inputs.detach()
        leaves = self.leaves(inputs)
        within = self._steepness(at, leaves)
        more = [
            self._change(at, frame, d, float(stride)) - own if stride > 0 else torch.zeros_like(own)
            for d, (stride, own) in enumerate(zip(self.strides(), within.unbind(2), strict=True))
        ]
        # Nothing is added but its gradient: an input less itself is 0.
        added = (torch.stack(more, dim=2) * (inputs - at).unsqueeze(1)).sum(dim=2)
        return Room(*(limit + added for limit in room))

    def _change(self, inputs: Tensor, frame: Any, column: int, stride: float) -> Tensor:
        """(N, P) how A changes from a stride before inputs to a stride behind them, by unit of the column."""
        own = inputs.select(1, column)
        high, low = own + stride, own - stride
        if not frame.schema.input_angles[column]:  # inside the box, where A is known
            most, least = (
                high.clamp(max=self.leaves.upper[column]),
                low.clamp(min=self.leaves.lower[column]),
            )
            inside = least < most
            high, low = torch.where(inside, most, high), torch.where(inside, least, low)
        along = torch.arange(inputs.shape[1], device=inputs.device) == column
        after, before = (
            self.room(frame.wrapped(torch.where(along, end.unsqueeze(1), inputs))).anchor
            for end in (high, low)
        )
        change = after - before
        if self.turns:
            turns = torch.round(change / (2 * torch.pi))
            change = torch.where(self.angles, change - 2 * torch.pi * turns, change)
        return change / (high - low).unsqueeze(1)

    def room_at_once(self, inputs: Array) -> RowRoom:
        """The same, in one compiled loop: for one row, torch would take longer to begin than to compute."""
        if self.value.device.type != "cpu":
            return super().room_at_once(inputs)
        inputs = np.ascontiguousarray(inputs)
        leaf, cell = self.leaves.leaf_of(inputs), self.lookup.cell_of(inputs)
        found = RowRoom(np.empty(leaf.shape), np.empty(leaf.shape), np.empty(leaf.shape))
        _fill_room(inputs, leaf, cell, self.pins, self._arrays, *found)
        return found

    def limits(self, inputs: Tensor) -> Limits:
        """The same, with delta; the domain is the box, but for leaves over which nothing is known of M."""
        leaf, cell = self.leaves.at_once(inputs), self.lookup.at_once(inputs)
        anchor, width = self._parts(inputs, leaf, cell)
        remainder = self.remainder.index_select(0, leaf.flatten()).view(leaf.shape)
        delta = remainder + width
        if self.turns:
            delta = torch.where(self.angles, delta.clamp_max(HALF_TURN), delta)
        inside = self.leaves.inside(inputs) & remainder.isfinite().all(dim=1)
        return Limits(anchor - width, anchor + width, anchor, delta, cell, inside)

    def _room(self, inputs: Tensor, leaf: Tensor, cell: Tensor) -> Room:
        anchor, width = self._parts(inputs, leaf, cell)
        return Room(anchor - width, anchor + width, anchor)

    def _parts(self, inputs: Tensor, leaf: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        """(N, P) A(s) in leaves (N, P), and the half-width of cells (N,) as far as there is room for it."""
        leaves, shape = leaf.flatten(), leaf.shape
        slope = self.slope.index_select(0, leaves).view(*shape, inputs.shape[1])
        # Summed in the order of the inputs, as `_fill_room` does: the same bits in every batch.
        change = (slope * (inputs - self.reference).unsqueeze(1)).cumsum(dim=2).select(2, -1)
        if self.bent:
            change = change + self._bend(inputs, leaf)
        anchor = self.value.index_select(0, leaves).view(shape) + change
        width = self.half_width.index_select(0, cell)
        if self.pins:
            width = width * opening(inputs, self.pinned, self.pinned_rate)
        return anchor, torch.minimum(width, self.left.index_select(0, leaves).view(shape))

    def _bend(self, inputs: Tensor, leaf: Tensor) -> Tensor:
        """(N, P) what curvatures of leaves (N, P) add at inputs (N, D), summed in the order of the pairs."""
        leaves, shape = leaf.flatten(), (*leaf.shape, inputs.shape[1])
        curvature = self.curvature.index_select(0, leaves).view(*leaf.shape, len(self.pairs))
        away = inputs.unsqueeze(1) - self.centre.index_select(0, leaves).view(shape)
        one, two = (away.index_select(2, self.pairs.select(1, side)) for side in (0, 1))
        return (curvature * one * two).cumsum(dim=2).select(2, -1)

    def _steepness(self, inputs: Tensor, leaf: Tensor) -> Tensor:
        """(N, P, D) the slope of A within leaves (N, P), at inputs (N, D)."""
        leaves, shape = leaf.flatten(), (*leaf.shape, inputs.shape[1])
        slope = self.slope.index_select(0, leaves).view(shape)
        if not self.bent:
            return slope
        curvature = self.curvature.index_select(0, leaves).view(*leaf.shape, len(self.pairs))
        away = inputs.unsqueeze(1) - self.centre.index_select(0, leaves).view(shape)
        for side in (0, 1):
            along, other = self.pairs.select(1, side), self.pairs.select(1, 1 - side)
            slope = slope.index_add(2, along, curvature * away.index_select(2, other))
        return slope


@compiled
def _fill_room(inputs, leaf, cell, pins, arrays, lower, upper, anchor):
    """:meth:`AffineTether.room` of inputs (N, D), bit for bit, into `lower`, `upper` and `anchor` (N, P)."""
    reference, value, slope, half_width, pinned, rate, left, curvature, pairs, centre = arrays
    for row in range(leaf.shape[0]):
        open_share = 1.0
        if pins:
            away = 0.0
            for d in range(inputs.shape[1]):
                away = max(away, abs((inputs[row, d] - pinned[d]) * rate[d]))
            away = min(away, 1.0)
            open_share = away * away
        for output in range(leaf.shape[1]):
            own = leaf[row, output]
            change = 0.0
            for d in range(inputs.shape[1]):
                change += slope[own, d] * (inputs[row, d] - reference[d])
            if len(pairs) > 0:
                bend = 0.0
                for q in range(len(pairs)):
                    i, j = pairs[q, 0], pairs[q, 1]
                    away = inputs[row, i] - centre[own, i]
                    bend += curvature[own, q] * away * (inputs[row, j] - centre[own, j])
                change += bend
            middle = value[own] + change
            width = min(half_width[cell[row], output] * open_share, left[own])
            lower[row, output], upper[row, output] = middle - width, middle + width
            anchor[row, output] = middle
