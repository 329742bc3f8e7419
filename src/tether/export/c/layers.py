"""Any network that Tether makes as plain layers: weights, biases, and what each unit does with its sum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor, nn

from tether.files.storage import network_spec
from tether.model.monotone import MonotoneNetwork


@dataclass(frozen=True, eq=False)
class Layer:
    """One layer.

    Attributes:
        weight: (units, inputs).
        bias: (units,).
        rising: units, from the first, that are cut off below 0.
        falling: units, after those, that are cut off above 0; the others pass their sum on.
    """

    weight: np.ndarray
    bias: np.ndarray
    rising: int = 0
    falling: int = 0


def layers_of(network: nn.Module) -> list[Layer]:
    """The layers of a network; the last passes its sums on."""
    kind = network_spec(network)["kind"]
    if kind not in _READERS:
        raise ValueError(
            f"`model` must have a network that Tether makes; got {type(network).__name__}. Exports know the "
            "layers of `tether.mlp` alone."
        )
    return _READERS[kind](network)


def _mlp(network: nn.Sequential) -> list[Layer]:
    linear = [layer for layer in network if isinstance(layer, nn.Linear)]
    found = [Layer(_array(own.weight), _array(own.bias), rising=own.out_features) for own in linear]
    return [*found[:-1], Layer(found[-1].weight, found[-1].bias)]


def _monotone(network: MonotoneNetwork) -> list[Layer]:
    """Both streams side by side, and the declared features, negated, carried along to the last layer.

    Units of a hidden layer: convex ones and the free stream (cut off below 0), concave ones, the carried. It
    adds up in another order than the library, and rises as little: each unit still adds products with weights
    of at least 0 of what does not rise.
    """
    declared, free = network.declared.numpy(), network.free.numpy()
    carried, features = len(declared), len(declared) + len(free)
    # Where to find the free stream, the monotone stream and the carried features among what comes in.
    places = {"free": free, "stream": declared, "carried": declared}
    sign, found = -1.0, []
    count = len(network.monotone_weights)
    for k in range(count):
        mono = np.abs(_array(network.monotone_weights[k]))
        side, bias = _layer(network.side_layers[k])
        units, width = len(mono), features
        own = np.zeros((units, width), mono.dtype)
        own[:, places["free"]] = side
        own[:, places["stream"]] += sign * mono
        if k == count - 1:
            own[:, places["carried"]] += sign * np.abs(_array(network.slopes))
            found.append(Layer(own, bias))
            break
        onward, onward_bias = _layer(network.free_layers[k])
        freely = np.zeros((len(onward), width), mono.dtype)
        freely[:, places["free"]] = onward
        along = np.zeros((carried, width), mono.dtype)
        along[np.arange(carried), places["carried"]] = sign
        half = units // 2
        weight = np.concatenate([own[:half], freely, own[half:], along])
        biases = np.concatenate([bias[:half], onward_bias, bias[half:], np.zeros(carried, bias.dtype)])
        found.append(Layer(weight, biases, rising=half + len(onward), falling=units - half))
        last = half + len(onward)
        places = {
            "free": np.arange(half, last),
            "stream": np.concatenate([np.arange(half), np.arange(last, last + units - half)]),
            "carried": np.arange(len(weight) - carried, len(weight)),
        }
        sign, features = 1.0, len(weight)
    return found


_READERS = {"mlp": _mlp, "monotone": _monotone}


def _layer(layer: nn.Module) -> tuple[np.ndarray, np.ndarray]:
    return _array(layer.weight), _array(layer.bias)  # type: ignore[arg-type]


def _array(values: Tensor) -> np.ndarray:
    """In float64 or float32; what is shorter is the same number in float32."""
    own = values.detach().cpu()
    return own.double().numpy() if own.element_size() == 8 else own.float().numpy()
