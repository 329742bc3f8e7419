"""Noise on a network's features while it trains, so that it leans less on inputs that M explains."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from tether.data import Array, Schema, check_known
from tether.fitting import FitConfig
from tether.model import mlp


class NoisyFeatures(nn.Module):
    """A network whose features are disturbed while it trains, and only then.

    Args:
        network: from features (N, F).
        sizes: (F,) standard deviations.
    """

    def __init__(self, network: nn.Module, sizes: Array) -> None:
        super().__init__()
        self.network = network
        self.sizes: Tensor
        self.register_buffer("sizes", torch.from_numpy(sizes), persistent=False)

    def extra_repr(self) -> str:
        """The sizes: by them a checkpoint tells that it belongs to other noise."""
        return f"sizes={self.sizes.tolist()}"

    def forward(self, features: Tensor) -> Tensor:
        """Outputs (N, P) at features (N, F)."""
        if self.training:
            features = features + self.sizes * torch.randn_like(features)
        return self.network(features)


def noisy_network(schema: Schema, noise: Mapping[str, float], config: FitConfig) -> NoisyFeatures:
    """An MLP of the widths asked for, with noise on some inputs, by name and in units of their scale."""
    check_known("noise", noise, "inputs", schema.inputs)
    turning = schema.input_angles
    sizes = np.array([float(noise.get(name, 0.0)) for name in schema.inputs])
    if (sizes[turning] > 0).any():
        raise ValueError(f"`noise` must not name angles ({', '.join(schema.angles)}); got some of them.")
    # Angles enter as sine and cosine, after all others.
    features = np.concatenate([sizes[~turning], np.zeros(2 * int(turning.sum()))])
    network = mlp(len(features), len(schema.outputs), config.hidden or (), seed=config.seed)
    return NoisyFeatures(network, features)
