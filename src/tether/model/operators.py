"""Constraining operators (the paper's Γ): how a network's output is kept between limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from tether.data import Array
from tether.foundation.kernels import compiled

Operator = Literal["sigmoid", "clip", "project"]


def check_operator(operator: str, allowed: Sequence[str] = get_args(Operator)) -> Operator:
    """The word itself; one from elsewhere would be taken for another operator, silently."""
    if operator not in allowed:
        names = ", ".join(f"'{name}'" for name in allowed)
        raise ValueError(f"`operator` must be one of {names}; got {operator!r}.")
    return operator  # type: ignore[return-value]


def constrain(values: Tensor, lower: Tensor, upper: Tensor, operator: Operator) -> Tensor:
    """`values` (N, P) mapped into [lower, upper], exactly, in their dtype; NaN stays what it is.

    `sigmoid` (paper, eq. 1) takes `values` as logits: ``lower + σ(values) (upper - lower)``. `clip`
    (paper, Proj) takes them as outputs, and so does `project`, the closed form of HardNet (Min and Azizan,
    2024) for limits on each output. All end in a clip, because sums may round out.

    Differentiates as what it is: limits depend on the input, and on and beyond them the output follows them.
    """
    if operator == "sigmoid":
        values = lower + torch.sigmoid(values) * (upper - lower)
    inside = torch.minimum(torch.maximum(values, lower), upper)
    # Without room it is the limits that are followed, also where the network happens to agree with them.
    return torch.where((upper > lower) | values.isnan(), inside, lower)


def constrain_rows(
    raw: Array, center: Array, scale: Array, anchor: Array, lower: Array, upper: Array, operator: Operator
) -> Array | None:
    """(N, P) what :meth:`Model.respond` makes of a network's outputs (N, P), bit for bit, in one loop.

    None where one of them is no number.
    """
    if operator == "sigmoid":
        raw = torch.from_numpy(raw).sigmoid().numpy()
    found = np.empty_like(raw)
    numbers = _constrain(raw, center, scale, anchor, lower, upper, _OPERATORS.index(operator), found)
    return found if numbers else None


_OPERATORS = get_args(Operator)


@compiled
def _constrain(raw, center, scale, anchor, lower, upper, operator, found):
    numbers = True
    for row in range(raw.shape[0]):
        for k in range(raw.shape[1]):
            low, high = lower[row, k], upper[row, k]
            if operator == 0:
                value = low + raw[row, k] * (high - low)
            else:
                value = center[k] + scale[k] * raw[row, k]
                if operator == 1:
                    value = anchor[row, k] + value
            numbers = numbers and value == value
            if value < low:
                value = low
            if value > high:
                value = high
            found[row, k] = value
    return numbers
