"""Limits that never rise in declared inputs.

M is affine with weights of at most 0 for the declared inputs, so it is its own first-order model; the
half-width depends on a cell that does not look at them; and a clip between limits that do not rise does not
rise.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tether.data import Array
from tether.geometry.cells import Cells
from tether.tethers.lookup import CellLookup
from tether.tethers.opening import PINNED_REACH, opening
from tether.tethers.tether import REACH, Limits, Room, WholeTether
from tether.trusted import TrustedModel
from tether.trusted.affine import AffineModel

EPS = float(np.finfo(np.float64).eps)


class MonotoneTether(WholeTether):
    """How far from M an output may be, by a cell that ignores the declared inputs.

    Args:
        trusted: M; its weights of the declared inputs are at most 0.
        states: how many of the inputs are states.
        declared: inputs in which nothing may rise, in ascending order.
        cells: over the other inputs, `seen`, alone.
        half_width: (K, P) by cell.
        pinned: (len(seen),) what all probes agree on, NaN elsewhere; see :class:`AffineBounds`.
    """

    kind: ClassVar[str] = "monotone"
    weights: Tensor
    intercept: Tensor
    half_width: Tensor
    silent: Tensor
    columns: Tensor
    pinned_value: Tensor
    pinned_rate: Tensor

    def __init__(
        self,
        trusted: AffineModel,
        states: int,
        declared: NDArray[np.int64],
        cells: Cells,
        half_width: Array,
        pinned: Array,
    ) -> None:
        super().__init__()
        self.trusted, self.states, self.declared, self.pinned = trusted, states, declared, pinned
        self._check(cells, half_width)
        inputs = trusted.weights.shape[1]
        self.seen = np.setdiff1d(np.arange(inputs), declared)
        """The inputs that are not declared; the only ones that decide the cell."""
        self.lookup = CellLookup(cells)
        agreed = np.isfinite(pinned)
        self.pins = bool(agreed.any())
        self.keep(
            {
                "weights": trusted.weights,
                "intercept": trusted.intercept,
                "half_width": half_width,
                "pinned_value": np.where(agreed, pinned, 0.0),
                "pinned_rate": np.where(agreed, 1 / (cells.scale * PINNED_REACH), 0.0),
            }
        )
        silent = ~np.isin(np.arange(inputs), declared)
        self.keep({"silent": silent, "columns": self.seen}, persistent=False)
        self.register_load_state_dict_post_hook(_take_up)

    def _check(self, cells: Cells, half_width: Array) -> None:
        outputs, inputs = self.trusted.weights.shape
        declared = self.declared.tolist()
        if not declared or declared != sorted(set(declared) & set(range(inputs))) or len(declared) == inputs:
            raise ValueError(
                f"`declared` must be some of {inputs} inputs in ascending order, and leave some; got "
                f"{declared}."
            )
        if not (self.trusted.weights[:, self.declared] <= 0).all():
            raise ValueError(
                "`trusted` must have weights of at most 0 for the declared inputs; got a positive one."
            )
        widths = {cells.memories.shape[1], *cells.scale.shape, *self.pinned.shape}
        if widths != {inputs - len(declared)}:
            raise ValueError(
                f"`cells` and `pinned` must have a column for each of the {inputs - len(declared)} inputs "
                f"that are not declared; got {sorted(widths)}."
            )
        if half_width.shape != (len(cells), outputs):
            raise ValueError(
                f"`half_width` must be one for each cell and output, ({len(cells)}, {outputs}); got "
                f"{half_width.shape}."
            )
        if not ((half_width >= 0) & np.isfinite(half_width)).all():
            raise ValueError("`half_width` must be finite and at least 0 in every cell.")

    @property
    def cells(self) -> Cells:
        """Over the inputs `seen`."""
        return self.lookup.cells

    def room(self, inputs: Tensor) -> Room:
        """M plus and minus the half-width; the anchor is M at the declared inputs' reference, 0."""
        return self._parts(inputs, self.lookup(inputs.index_select(1, self.columns)))[0]

    def limits(self, inputs: Tensor) -> Limits:
        """The same, with delta; every finite input is in the domain, because M is affine."""
        cell = self.lookup.at_once(inputs.index_select(1, self.columns))
        room, width = self._parts(inputs, cell)
        if not torch.stack([part.isfinite().all() for part in room]).all():
            raise ValueError(
                "inputs must keep the trusted model finite; got some so large that it overflows. Check units."
            )
        # Sound because M here is M itself, bit for bit, and each limit is one rounding away from M ± width.
        delta = width * (1 + 2 * EPS) + 2 * EPS * torch.maximum(room.lower.abs(), room.upper.abs())
        return Limits(*room, delta, cell, torch.ones_like(cell, dtype=torch.bool))

    @property
    def deltas(self) -> list[Array]:
        """Of each output, over the cells; rounding of limits that are large comes on top."""
        return list(self.half_width.cpu().numpy().T)

    def unlike(self, trusted: TrustedModel) -> str | None:
        """It must have the weights that the tether has."""
        own = trusted.function
        if not isinstance(own, AffineModel):
            return (
                f"`trusted` must be the `tether.AffineModel` the model was fitted with; got {trusted.name}."
            )
        if self.trusted.same_as(own):
            return None
        return "`trusted` must be the model the tether was built with; that is not so. Fit anew."

    def places(self, frame: Any) -> Array:
        """(K, D) the memories, declared inputs at their centre."""
        rows = np.tile(frame.inputs.center, (len(self.cells), 1))
        rows[:, self.seen] = self.cells.centers
        return rows

    def usual_size(self, frame: Any) -> Array:
        """(P,) what limits come to at most a thousand scales away from the centre of the inputs."""
        inputs, trusted = frame.inputs, self.trusted
        extent = np.abs(trusted.weights) @ (np.abs(inputs.center) + REACH * inputs.scale)
        return np.abs(trusted.intercept) + extent + self.half_width.amax(dim=0).cpu().numpy()

    def largest_delta(self, size: Array) -> Array:
        """(K, P) distance to M in each cell, where limits are at most `size` (P,) in magnitude."""
        return self.half_width.cpu().numpy() * (1 + 2 * EPS) + 2 * EPS * size

    def unmet_premise(self, network: nn.Module, frame: Any) -> str | None:
        """The first premise of the proof that M, tether, frame and network do not meet; None: all are met."""
        schema, width = frame.schema, self.half_width
        premises = {
            "M must have a weight for every output and input": self.trusted.weights.shape
            == (len(schema.outputs), len(schema.inputs)),
            "the tether must know which inputs are states": self.states == len(schema.states),
            "M's weights of the declared inputs must be at most 0": bool(
                (self.trusted.weights[:, self.declared] <= 0).all()
            ),
            "cells must not see the declared inputs": not np.intersect1d(self.declared, self.seen).size,
            "half-widths must be finite and at least 0": bool(((width >= 0) & width.isfinite()).all()),
            "scales must be positive": bool(
                (frame.inputs.scale > 0).all() and (frame.outputs.scale > 0).all()
            ),
            "inputs must enter the network in their order, none as an angle": not schema.angles,
            "the network must predict next states": frame.target == "next_state",
            "the network must be monotone in the declared inputs": getattr(network, "never_rises_in", None)
            == self.declared.tolist(),
        }
        return next((premise for premise, holds in premises.items() if not holds), None)

    def _parts(self, inputs: Tensor, cell: Tensor) -> tuple[Room, Tensor]:
        width = self.half_width.index_select(0, cell)
        if self.pins:
            seen = inputs.index_select(1, self.columns)
            width = width * opening(seen, self.pinned_value, self.pinned_rate)
        middle = self._trusted(inputs)
        anchor = self._trusted(torch.where(self.silent, inputs, 0.0))
        return Room(middle - width, middle + width, anchor), width

    def _trusted(self, inputs: Tensor) -> Tensor:
        """(N, P) M, added up term by term as :class:`AffineModel` does, to the same bits."""
        total = self.intercept + self.weights[:, 0] * inputs[:, :1]
        for k in range(1, inputs.shape[1]):
            total = total + self.weights[:, k] * inputs[:, k : k + 1]
        return total


def _take_up(module: Any, incompatible: Any) -> None:
    """After other buffers were loaded: M as they have it."""
    del incompatible
    module.trusted = AffineModel(module.weights.cpu().numpy(), module.intercept.cpu().numpy())
    agreed = module.pinned_rate > 0
    module.pinned = torch.where(agreed, module.pinned_value, torch.nan).cpu().numpy()
    module.pins = bool(agreed.any())
