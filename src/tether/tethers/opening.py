"""How far tethers open around what all probes agree on, in any precision."""

from __future__ import annotations

import torch
from torch import Tensor

PINNED_REACH = 0.05
"""Scaled distance from what all probes agree on at which a tether is fully open."""


def opening(inputs: Tensor, pinned: Tensor, rate: Tensor) -> Tensor:
    """(N, 1) share of the half-width that is open: 0 where inputs agree with the probes, 1 away.

    It opens with the square of the distance: then rounding that takes a model off the pinned inputs is not
    amplified step by step.

    Args:
        inputs: (N, D).
        pinned: (D,) what the probes agree on.
        rate: (D,) how fast it opens along each input, 0 where probes do not agree.
    """
    away = ((inputs - pinned) * rate).abs().amax(dim=1, keepdim=True)
    return torch.clamp_max(away, 1.0).square()
