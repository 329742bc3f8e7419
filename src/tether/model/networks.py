"""Networks to start from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

import torch
from torch import nn

from tether.foundation.limits import check_widths


def mlp(inputs: int, outputs: int, hidden: Sequence[int], *, seed: int = 0) -> nn.Sequential:
    """A ReLU network of the paper's kind.

    The last layer starts at a hundredth of its usual size: the sigmoid operator then starts in the
    middle of every cell, where its gradient is largest.
    """
    check_widths("hidden", hidden, inputs=inputs, outputs=outputs)
    generator = torch.Generator().manual_seed(seed)
    layers: list[nn.Module] = []
    widths = [inputs, *hidden, outputs]
    for k, (fan_in, fan_out) in enumerate(pairwise(widths)):
        layer = nn.Linear(fan_in, fan_out)
        limit = fan_in**-0.5 * (0.01 if k == len(hidden) else 1.0)
        with torch.no_grad():
            layer.weight.uniform_(-limit, limit, generator=generator)
            layer.bias.uniform_(-limit, limit, generator=generator)
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


_SMALL_WORK = 100_000_000
"""Rows times parameters below which a second thread gains little, and on a busy machine waits for long."""


@contextmanager
def few_threads(network: nn.Module, rows: int) -> Iterator[None]:
    """One thread for a small batch, as many as there are for a large one."""
    before = torch.get_num_threads()
    if before == 1 or rows * sum(part.numel() for part in network.parameters()) > _SMALL_WORK:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
