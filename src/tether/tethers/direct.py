"""M itself at run time, and a network that stays near it; no cells."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tether.data import HALF_TURN, Array, Schema, Target
from tether.tethers.asking import answers_of, numbered
from tether.tethers.tether import REACH, Limits, Room, RowRoom, WholeTether
from tether.trusted import TrustedModel

_EPS = float(np.finfo(np.float64).eps)
_STEP = 2.0**-17
"""Of central differences, relative to an input's size: near the cube root of float64's precision."""


class DirectTether(WholeTether):
    """Outputs within ``half_width`` of M; with an infinite one it is the usual hybrid, M plus a residual.

    Args:
        trusted: M.
        half_width: (P,) how far an output may be from M.
        schema: what the columns mean.
        target: whether next states or increments are bounded.
    """

    kind: ClassVar[str] = "direct"
    half_width: Tensor
    angles: Tensor
    advanced: Tensor

    def __init__(self, trusted: TrustedModel, half_width: NDArray, schema: Schema, target: Target) -> None:
        super().__init__()
        self.trusted, self.schema = trusted, schema
        self.target: Target = target
        self.keep({"half_width": np.asarray(half_width, dtype=np.float64)})
        self.keep({"angles": schema.output_angles, "advanced": schema.advanced}, persistent=False)
        self.number = numbered(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A copy is asked by a number of its own."""
        super().__setstate__(state)
        self.number = numbered(self)

    @property
    def memories(self) -> None:
        """There are none."""
        return

    @property
    def holds(self) -> bool:
        """Unless the half-width is infinite."""
        return bool(self.half_width.isfinite().all())

    @property
    def deltas(self) -> list[NDArray]:
        """The half-width, everywhere."""
        width = self.schema.capped(self.half_width.cpu().numpy())
        return [width[k : k + 1] for k in range(len(width))]

    def unmet_premise(self, network: nn.Module, frame: Any) -> str | None:
        """Nothing but a schema and a target that are the tether's own."""
        del network
        if (frame.schema, frame.target) != (self.schema, self.target):
            return "the tether must bound the columns and the target of the frame"
        return None

    def unlike(self, trusted: TrustedModel) -> str | None:
        """Whatever it is: its answers are compared."""
        del trusted
        return None

    def places(self, frame: Any) -> Array:
        """(N, D) landmarks: the centre of the inputs, and a scale away from it."""
        return frame.landmarks()

    def usual_size(self, frame: Any) -> Array:
        """(P,) a thousand times what M answers at landmarks, and states a thousand scales away."""
        answers = self.trusted.where_it_answers(frame.landmarks(), self.schema)[1]
        size = REACH * np.abs(answers).max(axis=0, initial=0.0) + 4 * np.pi * self.schema.output_angles
        if self.target == "increment":
            extent = np.abs(frame.inputs.center) + REACH * frame.inputs.scale
            size = size + 2 * extent[self.schema.advanced]
        return size

    def largest_delta(self, size: Array) -> Array:
        """(1, P) the half-width, and the rounding of adding it to numbers of at most `size` (P,)."""
        delta = self.half_width.cpu().numpy() * (1 + 1e-15) + 8 * _EPS * size
        return self.schema.capped(delta)[None]

    def room(self, inputs: Tensor) -> Room:
        """M plus and minus the half-width."""
        anchor = answers_of(inputs, self.number, len(self.half_width))
        return Room(anchor - self.half_width, anchor + self.half_width, anchor)

    def room_at_once(self, inputs: Array) -> RowRoom:
        """The same."""
        anchor, width = self.answers(inputs), self.half_width.cpu().numpy()
        return RowRoom(anchor - width, anchor + width, anchor)

    def limits(self, inputs: Tensor) -> Limits:
        """The same; delta is the half-width, and the rounding of adding it up. Everywhere in the domain.

        However many turns away M's angle is, moving it near the state is off by roundings of a turn or two.
        """
        room = self.room(inputs)
        size = room.anchor.abs() + 4 * torch.pi * self.angles
        if self.target == "increment":
            size = size + inputs.index_select(1, self.advanced).abs()
        delta = self.half_width * (1 + 1e-15) + 8 * _EPS * size
        delta = torch.where(self.angles, delta.clamp_max(HALF_TURN), delta)
        nowhere = torch.full_like(inputs[:, 0], -1, dtype=torch.int64)
        return Limits(*room, delta, nowhere, torch.ones_like(nowhere, dtype=torch.bool))

    def answers(self, inputs: NDArray) -> NDArray:
        """(N, P) M's target at inputs (N, D)."""
        return self.trusted.target(inputs, self.schema, self.target)

    def slopes(self, inputs: NDArray) -> NDArray:
        """(N, P, D) its derivative: as the user gave it, else by central differences."""
        if self.trusted.jacobian is not None:
            return self.trusted.target_jacobian(inputs, self.schema, self.target)
        columns = []
        for d in range(inputs.shape[1]):
            step = np.zeros_like(inputs)
            step[:, d] = _STEP * np.maximum(1.0, np.abs(inputs[:, d]))
            above, below = inputs + step, inputs - step
            rise = self.schema.near(self.answers(above) - self.answers(below), np.zeros(1))
            columns.append(rise / (above - below)[:, d : d + 1])
        return np.stack(columns, axis=2)
