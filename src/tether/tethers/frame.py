"""How physical inputs become features, and a network's outputs physical targets."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from tether.data import Scaling, Schema, Target
from tether.tethers.tether import Fixed


class TorchFrame(Fixed):
    """Units and scales around a network.

    Args:
        schema: what the columns mean.
        target: whether the network's output stands for next states or for increments.
        inputs: centre and scale of the inputs, (D,).
        outputs: centre and scale of the target, (P,).
    """

    input_center: Tensor
    input_scale: Tensor
    output_center: Tensor
    output_scale: Tensor
    angles: Tensor
    plain: Tensor
    turning: Tensor
    advanced: Tensor

    def __init__(self, schema: Schema, target: Target, inputs: Scaling, outputs: Scaling) -> None:
        super().__init__()
        self.target = target
        scales = {"input": inputs, "output": outputs}
        for side, scaling in scales.items():
            for name in ("center", "scale"):
                values = np.array(getattr(scaling, name), dtype=np.float64)
                self.register_buffer(f"{side}_{name}", torch.from_numpy(values))
        columns = {
            "angles": schema.input_angles,
            "plain": np.flatnonzero(~schema.input_angles),
            "turning": np.flatnonzero(schema.input_angles),
            "advanced": schema.advanced,
        }
        for name, values in columns.items():
            self.register_buffer(name, torch.from_numpy(values.copy()), persistent=False)
        self.turns = bool(schema.input_angles.any())

    def features(self, inputs: Tensor) -> Tensor:
        """(N, F): scaled inputs; an angle enters as its sine and cosine, so nothing jumps at ±π."""
        scaled = (inputs - self.input_center) / self.input_scale
        if not self.turns:
            return scaled
        angles = inputs.index_select(1, self.turning)
        return torch.cat([scaled.index_select(1, self.plain), angles.sin(), angles.cos()], dim=1)

    def wrapped(self, inputs: Tensor) -> Tensor:
        """Inputs (N, D) with angles in [-π, π): :func:`tether.data.wrap_angle`, bit for bit."""
        if not self.turns:
            return inputs
        turns = torch.floor((inputs.detach() + torch.pi) / (2 * torch.pi))
        moved = inputs - 2 * torch.pi * turns
        moved = torch.where((moved >= -torch.pi) & (moved < torch.pi), moved, -torch.pi)
        moved = torch.where((inputs >= -torch.pi) & (inputs < torch.pi), inputs, moved)
        return torch.where(self.angles, moved, inputs)

    def ahead(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """(N, P) next states of targets (N, P): themselves, or added to the states they advance."""
        return inputs.index_select(1, self.advanced) + targets if self.target == "increment" else targets
