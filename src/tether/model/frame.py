"""How physical inputs become features, and a network's outputs physical targets."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from tether.data import Array, Scaling, Schema, Target
from tether.foundation.kernels import compiled
from tether.tethers.tether import Fixed


class Frame(Fixed):
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
        self.schema = schema
        self.target: Target = target
        for side, scaling in {"input": inputs, "output": outputs}.items():
            for name in ("center", "scale"):
                self.keep({f"{side}_{name}": np.asarray(getattr(scaling, name), dtype=np.float64)})
        columns = {
            "angles": schema.input_angles,
            "plain": np.flatnonzero(~schema.input_angles),
            "turning": schema.turning,
            "advanced": schema.advanced,
        }
        self.keep(columns, persistent=False)
        self.turns = bool(schema.input_angles.any())
        self._plain = columns["plain"]
        self._settle()
        self.register_load_state_dict_post_hook(_settle_again)

    def _settle(self) -> None:
        """Centres and scales as predictions take them."""
        self.settled = tuple(
            getattr(self, f"{side}_{name}").cpu().numpy().copy()
            for side in ("input", "output")
            for name in ("center", "scale")
        )
        """Centre and scale of inputs (D,) and of outputs (P,), as arrays."""

    @property
    def inputs(self) -> Scaling:
        """Centre and scale of the inputs, (D,)."""
        return Scaling(self.input_center.cpu().numpy(), self.input_scale.cpu().numpy())

    @property
    def outputs(self) -> Scaling:
        """Centre and scale of the target, (P,)."""
        return Scaling(self.output_center.cpu().numpy(), self.output_scale.cpu().numpy())

    @property
    def features_width(self) -> int:
        """Number of features: one per input, one more per angle."""
        return len(self.plain) + 2 * len(self.turning)

    def features(self, inputs: Tensor) -> Tensor:
        """(N, F): scaled inputs; an angle enters as its sine and cosine, so nothing jumps at ±π."""
        scaled = (inputs - self.input_center) / self.input_scale
        if not self.turns:
            return scaled
        angles = inputs.index_select(1, self.turning)
        return torch.cat([scaled.index_select(1, self.plain), angles.sin(), angles.cos()], dim=1)

    def features_of(self, inputs: Array) -> Array:
        """The same of an array, bit for bit; sines are torch's own."""
        scaled = (inputs - self.settled[0]) / self.settled[1]
        if not self.turns:
            return scaled
        angles = torch.from_numpy(inputs.take(self.schema.turning, axis=1))
        parts = scaled.take(self._plain, axis=1), angles.sin().numpy(), angles.cos().numpy()
        return np.concatenate(parts, axis=1)

    def plain_inputs(self, states: Any, controls: Any) -> Array | None:
        """Inputs (N, D) of finite matrices whose angles are in their turn already; None of anything else.

        One loop instead of the dozen calls of `Schema.wrap_inputs` and of its checks, which take longer than
        it for the one row that a controller asks for.
        """
        for given, names in ((states, self.schema.states), (controls, self.schema.controls)):
            if type(given) is not np.ndarray or given.dtype != np.float64 or given.ndim != 2:
                return None
            if given.shape[1] != len(names) or not given.flags.carray or len(given) != len(states):
                return None
        inputs = np.empty((len(states), states.shape[1] + controls.shape[1]))
        return inputs if _side_by_side(states, controls, self.schema.turning, inputs) else None

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

    def base(self, states: Array) -> Array:
        """(N, P): what is added to the target to give the next state."""
        base = self.schema.base(states)
        return base if self.target == "increment" else np.zeros_like(base)

    def landmarks(self) -> Array:
        """(1 + 2 D, D) the centre of the inputs, and one scale up and down each of them."""
        inputs, dx = self.inputs, len(self.schema.states)
        steps = np.diag(inputs.scale)
        rows = np.concatenate([inputs.center[None], inputs.center + steps, inputs.center - steps])
        return self.schema.wrap_inputs(rows[:, :dx], rows[:, dx:])


@compiled
def _side_by_side(states, controls, turning, inputs):
    """Fills `inputs`; whether all of them are finite, and angles inside their turn."""
    dx, plain = states.shape[1], True
    for row in range(inputs.shape[0]):
        for column in range(inputs.shape[1]):
            value = states[row, column] if column < dx else controls[row, column - dx]
            inputs[row, column] = value
            plain = plain and abs(value) < np.inf
        for column in turning:
            plain = plain and abs(inputs[row, column]) < np.pi
    return plain


def _settle_again(module: Any, incompatible: Any) -> None:
    del incompatible
    module._settle()
