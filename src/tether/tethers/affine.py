"""A first-order model of M over every leaf of a box, and as much room around it as the data ask for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from tether.data import HALF_TURN, Array
from tether.geometry.cells import Cells
from tether.tethers.affinebounds import AffineBounds
from tether.tethers.leaves import TreeLookup
from tether.tethers.lookup import CellTether
from tether.tethers.opening import PINNED_REACH, opening
from tether.tethers.tether import Limits, Room


class AffineTether(CellTether):
    """Outputs within a half-width of A(s), the first-order model of a leaf; see :class:`AffineBounds`."""

    kind: ClassVar[str] = "affine"
    reference: Tensor
    value: Tensor
    slope: Tensor
    remainder: Tensor
    half_width: Tensor
    most: Tensor
    pinned: Tensor
    pinned_rate: Tensor
    angles: Tensor

    STORED = ("reference", "value", "slope", "remainder", "half_width", "most", "angles")

    def __init__(self, cells: Cells, bounds: AffineBounds) -> None:
        super().__init__(cells, bounds)
        self._bounds = bounds
        self.leaves = TreeLookup(bounds.tree)
        agreed = np.isfinite(bounds.pinned)
        self.keep({name: getattr(bounds, name) for name in self.STORED})
        self.keep(
            {
                "pinned": np.where(agreed, bounds.pinned, 0.0),
                "pinned_rate": np.where(agreed, 1 / (cells.scale * PINNED_REACH), 0.0),
            }
        )
        self._settle()

    def _settle(self) -> None:
        self.turns, self.pins = bool(self.angles.any()), bool((self.pinned_rate > 0).any())

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
            **{name: self._array(name) for name in self.STORED},
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

    def room(self, inputs: Tensor) -> Room:
        """A(s) plus and minus what is open of the half-width."""
        leaf = self.leaves(inputs)
        anchor, width = self._parts(inputs, leaf, self._remainder(leaf), self.lookup(inputs))
        return Room(anchor - width, anchor + width, anchor)

    def limits(self, inputs: Tensor) -> Limits:
        """The same, with delta; the domain is the box, but for leaves over which nothing is known of M."""
        leaf, cell = self.leaves(inputs), self.lookup(inputs)
        remainder = self._remainder(leaf)
        anchor, width = self._parts(inputs, leaf, remainder, cell)
        delta = remainder + width
        if self.turns:
            delta = torch.where(self.angles, delta.clamp_max(HALF_TURN), delta)
        inside = self.leaves.inside(inputs) & remainder.isfinite().all(dim=1)
        return Limits(anchor - width, anchor + width, anchor, delta, cell, inside)

    def _remainder(self, leaf: Tensor) -> Tensor:
        """(N, P) of leaves (N, P)."""
        return self.remainder.index_select(0, leaf.flatten()).unflatten(0, leaf.shape)

    def _parts(self, inputs: Tensor, leaf: Tensor, remainder: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        """(N, P) A(s), and the half-width as far as it is open."""
        leaves = leaf.flatten()
        slope = self.slope.index_select(0, leaves).unflatten(0, leaf.shape)
        value = self.value.index_select(0, leaves).unflatten(0, leaf.shape)
        anchor = value + (slope @ (inputs - self.reference)[..., None])[..., 0]
        width = self.half_width.index_select(0, cell)
        if self.pins:
            width = width * opening(inputs, self.pinned, self.pinned_rate)
        # Infinity less infinity, where nothing is known and nothing was asked for, leaves no room.
        left = (self.most - remainder).nan_to_num(nan=0.0, posinf=torch.inf)
        return anchor, torch.minimum(width, left.clamp_min(0.0))
