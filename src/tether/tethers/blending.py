"""What tethers have in common, in any precision: how far they open, and how neighbouring cells are averaged.

A convex combination of bounds that are valid at an input is valid there. A cell may take part wherever its
coverage ball holds the input; its weight falls to zero at the rim of that ball, and towards the distance of
the first neighbour that takes no part, so that none enters or leaves with a jump.
"""

from __future__ import annotations

import torch
from torch import Tensor

RIM = 0.1
"""Share of the coverage radius over which a cell's weight falls to zero."""
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


def one_turn(anchors: Tensor, weight: Tensor) -> Tensor:
    """Angles (N, B, P), each moved by whole turns to be nearest to the first that has a weight (N, B).

    The first cell is the nearest, unless rounding put one before it whose ball does not hold the input.
    """
    first = (weight > 0).to(torch.uint8).argmax(dim=1)[:, None, None].expand(-1, 1, anchors.shape[2])
    turn = 2 * torch.pi
    turns = torch.round((anchors - anchors.gather(1, first)).detach() / turn)
    return anchors - turn * turns
