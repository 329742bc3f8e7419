"""The constraining operator as training sees it: with a gradient that leads back between the limits."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tether.model import Operator


class _ProjectedClip(torch.autograd.Function):
    """Clamp whose gradient survives outside the interval where it points back in.

    A plain clamp has zero gradient outside, so a network that starts there never learns. Blocking
    only the steps that lead further out is projected gradient descent. It is no derivative: it depends on the
    sign of what comes back, and a model must never be differentiated by it.
    """

    @staticmethod
    def forward(ctx: Any, values: Tensor, lower: Tensor, upper: Tensor) -> Tensor:  # type: ignore[override]
        clamped = torch.clamp(values, lower, upper)
        ctx.save_for_backward(values - clamped)
        return clamped

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:  # type: ignore[override]
        (excess,) = ctx.saved_tensors
        # Descent moves against the gradient: further out where excess and gradient differ in sign.
        return gradient.masked_fill(excess * gradient < 0, 0.0), None, None


def constrain_in_training(values: Tensor, lower: Tensor, upper: Tensor, operator: Operator) -> Tensor:
    """The numbers of :func:`tether.model.constrain`, between limits that are constants here."""
    if operator == "clip":
        return _ProjectedClip.apply(values, lower, upper)  # type: ignore[return-value]
    if operator == "sigmoid":
        values = lower + torch.sigmoid(values) * (upper - lower)
    # HardNet's `values + relu(lower - values) - relu(values - upper)`, which would not survive infinities.
    return torch.clamp(values, lower, upper)
