"""Several networks as one: trained side by side, and kept as a single plain MLP.

A weighted sum of ReLU networks of one depth is itself one, with weights in blocks; so what is learned by many
is stored, exported and bounded like any other network.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn


class Ensemble(nn.Module):
    """K ReLU networks of one shape, evaluated together.

    Args:
        networks: as :func:`tether.model.mlp` makes them, all with the same layer widths.
        center: (F,) what is taken from the features before they see them.
        scale: (F,) what the rest is divided by.
    """

    center: Tensor
    scale: Tensor

    def __init__(self, networks: Sequence[nn.Sequential], center: Tensor, scale: Tensor) -> None:
        super().__init__()
        self.register_buffer("center", center)
        self.register_buffer("scale", scale)
        layers = [_linear_layers(network) for network in networks]
        self.weights = nn.ParameterList(
            torch.stack([layer.weight.detach().mT for layer in level]) for level in zip(*layers, strict=True)
        )
        self.biases = nn.ParameterList(
            torch.stack([layer.bias.detach()[None] for layer in level]) for level in zip(*layers, strict=True)
        )

    def __len__(self) -> int:
        return len(self.weights[0])

    def extra_repr(self) -> str:
        """How many networks, and how wide: by it a checkpoint tells that it belongs to others."""
        return f"members={len(self)}, widths={[self.weights[0].shape[1], *(b.shape[2] for b in self.biases)]}"

    def forward(self, features: Tensor) -> Tensor:
        """(K, N, P) the output of each network at features (N, F)."""
        values = ((features - self.center) / self.scale).expand(len(self), -1, -1)
        for level, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            values = torch.baddbmm(bias, torch.relu(values) if level else values, weight)
        return values

    def answer_each(self, features: Tensor, member: Tensor) -> Tensor:
        """(N, P) at each of the features (N, F), by the network of that number (N,) alone."""
        answers = features.new_empty(len(features), self.biases[-1].shape[2])
        for k in range(len(self)):
            mine = (member == k).nonzero().squeeze(1)
            values = (features[mine] - self.center) / self.scale
            for level, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
                values = torch.addmm(bias[k], torch.relu(values) if level else values, weight[k])
            answers[mine] = values
        return answers

    def members(self) -> list[nn.Sequential]:
        """Each network for itself, from features as they are."""
        return [
            from_plain_features(
                _network([w[k].detach().mT for w in self.weights], [b[k, 0].detach() for b in self.biases]),
                self.center,
                self.scale,
            )
            for k in range(len(self))
        ]


@torch.no_grad()
def weighted_sum(networks: Sequence[nn.Sequential], weights: Tensor) -> nn.Sequential:
    """One network whose output is the sum of those of `networks`, weighted.

    Args:
        networks: ReLU networks with the same inputs and outputs; the shallower are made as deep as the
            deepest.
        weights: (K, P) of each network's outputs.
    """
    depth = max(len(_linear_layers(network)) for network in networks)
    layers = [_linear_layers(_deepened(network, depth)) for network in networks]
    levels = list(zip(*layers, strict=True))
    last = [
        (layer.weight * share[:, None], layer.bias * share)
        for layer, share in zip(levels[-1], weights.to(levels[-1][0].weight), strict=True)
    ]
    if depth == 1:
        return _network(
            [torch.stack([w for w, _ in last]).sum(0)], [torch.stack([b for _, b in last]).sum(0)]
        )
    inner = [torch.block_diag(*(layer.weight for layer in level)) for level in levels[1:-1]]
    return _network(
        [torch.cat([layer.weight for layer in levels[0]]), *inner, torch.cat([w for w, _ in last], dim=1)],
        [
            *(torch.cat([layer.bias for layer in level]) for level in levels[:-1]),
            torch.stack([b for _, b in last]).sum(0),
        ],
    )


@torch.no_grad()
def from_plain_features(network: nn.Sequential, center: Tensor, scale: Tensor) -> nn.Sequential:
    """A network for features as they are from one for ``(features - center) / scale``, (F,) each."""
    first, *others = _linear_layers(network)
    weight = first.weight / scale.to(first.weight)
    bias = first.bias - weight @ center.to(weight)
    return _network([weight, *(layer.weight for layer in others)], [bias, *(layer.bias for layer in others)])


def _deepened(network: nn.Sequential, depth: int) -> nn.Sequential:
    """The same function with `depth` linear layers: what passes a ReLU in two parts is not changed."""
    layers = _linear_layers(network)
    missing = depth - len(layers)
    if not missing:
        return network
    last = layers[-1]
    both = torch.cat([last.weight, -last.weight]), torch.cat([last.bias, -last.bias])
    passing, half = (torch.eye(n).to(last.weight) for n in (2 * last.out_features, last.out_features))
    none = torch.zeros(2 * last.out_features).to(last.bias)
    before = layers[:-1]
    passed = missing - 1
    return _network(
        [*(layer.weight for layer in before), both[0], *[passing] * passed, torch.cat([half, -half], 1)],
        [*(layer.bias for layer in before), both[1], *[none] * passed, none[: last.out_features]],
    )


def _linear_layers(network: nn.Sequential) -> list[nn.Linear]:
    return [cast(nn.Linear, layer) for layer in network if isinstance(layer, nn.Linear)]


def _network(weights: Sequence[Tensor], biases: Sequence[Tensor]) -> nn.Sequential:
    """A ReLU network from its layers."""
    layers: list[nn.Module] = []
    for weight, bias in zip(weights, biases, strict=True):
        layer = nn.Linear(weight.shape[1], weight.shape[0], device=weight.device, dtype=weight.dtype)
        with torch.no_grad():
            layer.weight.copy_(weight)
            layer.bias.copy_(bias)
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])
