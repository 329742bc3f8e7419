"""A network, a frame and an operator in float32, around a tether in float32."""

from __future__ import annotations

import copy
from typing import Any, Literal, NamedTuple, overload

import numpy as np
import torch
from torch import Tensor, nn

from tether.data import Array, Schema, Target
from tether.model import Linearization, Model, Operator, Prediction, constrain
from tether.model.model import derivatives_of
from tether.model.single.boxes import SingleBoxes
from tether.model.single.interval import SingleInterval
from tether.model.single.rounding import HALF_TURN, UNIT, Single
from tether.model.single.tether import SingleTether

_CHUNK = 1 << 22
_TETHERS: dict[str, type[Any]] = {"cells": SingleInterval, "boxes": SingleBoxes}
"""By what the bounds are over."""


class SinglePrediction(NamedTuple):
    """What a float32 model says of N rows, P outputs.

    Attributes:
        next_states: (N, P) float32.
        in_domain: (N,) whether the guarantee covers the row.
        delta: (N, P) float32, distance of `next_states` to M at exactly these inputs; inf outside the domain.
        cell: (N,) the cell that answered: the nearest, or one nearly as near.
        lower: (N, P) float32, the smallest `next_states` that other weights could give.
        upper: (N, P) float32, the largest.
    """

    next_states: Tensor
    in_domain: Tensor
    delta: Tensor
    cell: Tensor
    lower: Tensor
    upper: Tensor


def single_precision(model: Model) -> SinglePrecisionModel:
    """`model` executed in float32, with a delta that holds for the float32 numbers it returns.

    The delta has the evidence level of the model's own; `statistical` and `sampled` speak of draws and points
    that are not float32 numbers, and of interval bounds for the cells that float64 picks.

    Raises:
        ValueError: where float32 is too coarse for the model: a coverage radius is lost to rounding, no
            float32 number lies in the domain box, or a coefficient is too large.
    """
    if not model.tether.limited:
        raise TypeError(
            f"`model` must be interval or affine; got {model.tether.kind}, which cannot be executed in "
            "float32 with a guarantee. Use it in float64."
        )
    return SinglePrecisionModel(model)


def single_delta(model: Model) -> Array:
    """(P,) the largest delta over the domain that :func:`single_precision` of the model gives.

    Raises:
        ValueError: where float32 is too coarse for the model.
    """
    return _tether_of(model).largest


def _tether_of(model: Model) -> SingleTether:
    return _TETHERS[model.bounds.over](model.cells, model.bounds, model.frame)


class SinglePrecisionModel(nn.Module):
    """A :class:`Model` in float32; see :func:`single_precision`.

    Its tables are buffers, so that it moves between devices and is exported whole.
    """

    feature_center: Tensor
    feature_scale: Tensor
    output_center: Tensor
    output_scale: Tensor
    input_angles: Tensor
    output_angles: Tensor
    advances: Tensor

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.network = copy.deepcopy(model.network).float()
        self.schema: Schema = model.schema
        self.target: Target = model.frame.target
        self.operator: Operator = model.operator
        self.tether = _tether_of(model)
        frame = model.frame
        scaling = {
            "feature_center": frame.inputs.center,
            "feature_scale": frame.inputs.scale,
            "output_center": frame.outputs.center,
            "output_scale": frame.outputs.scale,
        }
        for name, values in scaling.items():
            self.register_buffer(name, torch.from_numpy(values.astype(np.float32)))
        for name, flags in {
            "input_angles": self.schema.input_angles,
            "output_angles": self.schema.output_angles,
            "advances": self.schema.advanced,
        }.items():
            self.register_buffer(name, torch.from_numpy(flags))

    def forward(self, states: Tensor, controls: Tensor) -> SinglePrediction:
        """Predictions at float32 states (N, dx) and controls (N, du).

        Where torch compiles, exports or maps it, nothing is looked at: what is no number then gives none.
        """
        for name, values in (("states", states), ("controls", controls)):
            if values.dtype != torch.float32:
                raise TypeError(
                    f"`{name}` must be float32; got {values.dtype}. Delta is for the inputs as given: round "
                    "them yourself, so that you know which these are."
                )
        if self.feature_center.dtype != torch.float32:
            raise TypeError(f"a float32 model must stay one; got {self.feature_center.dtype}. Convert anew.")
        inputs = torch.cat([states, controls], dim=1)
        if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
            return self.compute(inputs)
        if not torch.isfinite(inputs).all():
            raise ValueError("inputs must be finite numbers; got NaN or infinity.")
        parts = [self.compute(piece) for piece in inputs.split(max(1, _CHUNK // self.tether.per_row))]
        prediction = SinglePrediction(*(torch.cat(part) for part in zip(*parts, strict=True)))
        if torch.isnan(prediction.next_states).any():
            raise ValueError("the network must give numbers; got NaN. Its weights are damaged.")
        return prediction

    @overload
    def predict(self, states: Single, controls: Single, *, details: Literal[False] = False) -> Single: ...

    @overload
    def predict(self, states: Single, controls: Single, *, details: Literal[True]) -> Prediction: ...

    def predict(self, states: Single, controls: Single, *, details: bool = False) -> Single | Prediction:
        """(N, P) float32 next states of float32 arrays (N, dx) and (N, du), or all that is known of them."""
        device = self.feature_center.device
        given = (torch.from_numpy(np.ascontiguousarray(part)).to(device) for part in (states, controls))
        with torch.no_grad():
            found = self(*given)
        arrays = {name: part.cpu().numpy() for name, part in found._asdict().items()}
        return Prediction(**arrays) if details else arrays["next_states"]

    def linearize(self, states: Single, controls: Single) -> Linearization:
        """Derivatives of what is computed, by states and controls; see :meth:`Model.linearize`."""
        inputs = torch.from_numpy(np.concatenate([states, controls], axis=1)).to(self.feature_center.device)
        inputs.requires_grad_()
        dx = len(self.schema.states)
        with torch.enable_grad():
            following = self(inputs[:, :dx], inputs[:, dx:]).next_states
        return derivatives_of(following, inputs, dx)

    def compute(self, inputs: Tensor) -> SinglePrediction:
        """The same at float32 inputs (N, D), unchecked and without a branch."""
        room = self.tether.room(inputs)
        values = self.network(self._features(inputs)).float()
        if self.operator != "sigmoid":
            anchor = torch.zeros_like(values) if self.operator == "project" else room.anchor
            values = anchor + self.output_center + self.output_scale * values
        outputs = constrain(values, room.lower, room.upper, self.operator)
        lower, upper = room.lower, room.upper
        if self.target == "increment":
            base = torch.where(self.advances >= 0, inputs[:, self.advances], torch.zeros_like(outputs))
            # Rounding is monotone: adding the same base to numbers in order keeps them in order.
            outputs, lower, upper = base + outputs, base + lower, base + upper
        delta = (room.spread + UNIT * outputs.detach().abs()) * self.tether.compensation
        delta = torch.where(self.output_angles, delta.clamp_max(HALF_TURN), delta)
        delta = torch.where(room.in_domain[:, None], delta, torch.full_like(delta, torch.inf))
        return SinglePrediction(outputs, room.in_domain, delta, room.cell, lower, upper)

    def _features(self, inputs: Tensor) -> Tensor:
        angles = self.input_angles
        plain = (inputs - self.feature_center) / self.feature_scale
        return torch.cat([plain[:, ~angles], inputs[:, angles].sin(), inputs[:, angles].cos()], dim=1)
