"""Constraining operators (the paper's Γ): how a network's output is kept between limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import torch
from torch import Tensor

Operator = Literal["sigmoid", "clip", "project"]


def check_operator(operator: str, allowed: Sequence[str] = get_args(Operator)) -> Operator:
    """The word itself; one from elsewhere would be taken for another operator, silently."""
    if operator not in allowed:
        names = ", ".join(f"'{name}'" for name in allowed)
        raise ValueError(f"`operator` must be one of {names}; got {operator!r}.")
    return operator  # type: ignore[return-value]


def constrain(
    values: Tensor, lower: Tensor, upper: Tensor, operator: Operator, *, differentiable: bool = True
) -> Tensor:
    """`values` (N, P) mapped into [lower, upper], exactly, in their dtype; NaN stays what it is.

    `sigmoid` (paper, eq. 1) takes `values` as logits: ``lower + σ(values) (upper - lower)``. `clip`
    (paper, Proj) takes them as outputs, and so does `project`, the closed form of HardNet (Min and Azizan,
    2024) for limits on each output. All end in a clip, because sums may round out.

    Differentiates as what it is: limits depend on the input, and on and beyond them the output follows them.
    The numbers are the same where that is not asked for.
    """
    if operator == "sigmoid":
        values = lower + torch.sigmoid(values) * (upper - lower)
    if not differentiable:
        return torch.clamp(values, lower, upper)
    inside = torch.minimum(torch.maximum(values, lower), upper)
    # Without room it is the limits that are followed, also where the network happens to agree with them.
    return torch.where((upper > lower) | values.isnan(), inside, lower)
