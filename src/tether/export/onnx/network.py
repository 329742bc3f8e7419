"""A network as nodes of ONNX, forwards and, for derivatives, backwards."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from tether.export.onnx.graph import Builder
from tether.files.storage import network_spec
from tether.model import Frame


@dataclass(frozen=True, eq=False)
class Layers:
    """Weights and biases of an MLP, by the names that its state has.

    Attributes:
        arrays: (units, inputs) and (units,) in turn.
        dtype: `float32`, or `float64` where the network is.
    """

    arrays: dict[str, np.ndarray]
    dtype: str

    @classmethod
    def of(cls, network: nn.Module, dtype: str) -> Layers:
        """Of a network, in the precision that it is exported in."""
        if network_spec(network)["kind"] != "mlp":
            raise ValueError(
                f"`model` must have a network that `tether.mlp` makes to become ONNX; got "
                f"{type(network).__name__}."
            )
        wide = next(network.parameters()).dtype == torch.float64 and dtype == "float64"
        kind = torch.float64 if wide else torch.float32
        state = network.state_dict()
        arrays = {f"network.{name}": value.detach().cpu().to(kind).numpy() for name, value in state.items()}
        return cls(arrays, "float64" if wide else "float32")

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Names of weight and bias of each layer."""
        names = list(self.arrays)
        return list(zip(names[::2], names[1::2], strict=True))


def place_weights(graph: Builder, layers: Layers) -> None:
    """Weights as inputs, of which the model's are the defaults."""
    for name, values in layers.arrays.items():
        graph.table(name, values)
        graph.takes(name, layers.dtype, list(values.shape))


def blocks_of(layers: Layers) -> list[list[np.ndarray]]:
    """Units of each hidden layer that have to do with one another, block by block.

    The default network is a sum of several, whose units have weights of exactly 0 between them: multiplying
    these out would take most of the time.
    """
    weights = [layers.arrays[weight] for weight, _ in layers.pairs]
    block = np.arange(len(weights[0])) if len(weights) > 2 else np.zeros(len(weights[0]), dtype=np.int64)
    found = [block]
    for weight in weights[1:-1]:
        below = np.zeros(len(weight), dtype=np.int64) - 1
        for unit, used in enumerate(weight != 0):
            joined = np.unique(block[used])
            if not len(joined):
                continue
            below[unit] = joined[0]
            for each in (*found, below):
                each[np.isin(each, joined)] = joined[0]
        # A unit without weights is a constant, and goes with any.
        below[below < 0] = block[0]
        found.append(below)
        block = below
    names = np.unique(np.concatenate(found))
    return [[np.flatnonzero(each == name) for each in found] for name in names]


@dataclass(frozen=True)
class Features:
    """What the network is given, (N, F), and what its derivatives need.

    Attributes:
        values: scaled inputs that are no angles, sines, cosines.
        sines: (N, A); None where there are no angles.
        cosines: (N, A).
    """

    values: str
    sines: str | None = None
    cosines: str | None = None


def feature_nodes(graph: Builder, frame: Frame, inputs: str) -> Features:
    """Features of inputs (D, N)."""
    plain, turning = (columns.numpy() for columns in (frame.plain.cpu(), frame.turning.cpu()))
    own = graph.lines(inputs, plain, "plain") if frame.turns else inputs
    moved = graph("Sub", own, graph.column("input center", frame.inputs.center[plain]))
    scaled = graph("Div", moved, graph.column("input scale", frame.inputs.scale[plain]))
    if not frame.turns:
        return Features(graph.turned(scaled))
    angles = graph.lines(inputs, turning, "turning")
    sines, cosines = graph("Sin", angles), graph("Cos", angles)
    parts = [scaled, sines, cosines] if len(plain) else [sines, cosines]
    together = graph.turned(graph("Concat", *parts, axis=0))
    return Features(together, graph.turned(sines), graph.turned(cosines))


def network_nodes(graph: Builder, layers: Layers, features: str) -> tuple[str, list[str]]:
    """(N, P) outputs at features (N, F), of the graph's type; and what goes into each ReLU."""
    value, sums = graph.cast(features, layers.dtype), []
    for number, (weight, bias) in enumerate(layers.pairs):
        if number:
            sums.append(value)
            value = graph("Relu", value)
        value = graph(
            "Gemm", value, graph.held(weight, layers.arrays), graph.held(bias, layers.arrays), transB=1
        )
    return graph.cast(value, graph.dtype), sums


def summed_nodes(graph: Builder, layers: Layers, features: str) -> str:
    """The same outputs, each block for itself, added up."""
    given, pairs, blocks = graph.cast(features, layers.dtype), layers.pairs, blocks_of(layers)
    total = graph.held(pairs[-1][1], layers.arrays)
    for number, units in enumerate(blocks):
        value, before = given, np.arange(layers.arrays[pairs[0][0]].shape[1])
        for (weight, bias), own in zip(pairs[:-1], units, strict=True):
            parts = layers.arrays[weight][np.ix_(own, before)], layers.arrays[bias][own]
            names = (graph.table(f"{name} {number}", np.ascontiguousarray(part))
                     for name, part in zip((weight, bias), parts, strict=True))  # fmt: skip
            value = graph("Relu", graph("Gemm", value, *names, transB=1))
            before = own
        last = np.ascontiguousarray(layers.arrays[pairs[-1][0]][:, before])
        total = graph("Gemm", value, graph.table(f"{pairs[-1][0]} {number}", last), total, transB=1)
    return graph.cast(total, graph.dtype)


def network_slopes(graph: Builder, layers: Layers, sums: list[str], frame: Frame, features: Features) -> str:
    """(N, P, D) derivatives of the outputs by the inputs; (1, P, D) of a network without a ReLU."""
    names = [graph.held(weight, layers.arrays) for weight, _ in layers.pairs]
    found = graph.unsqueeze(names[-1], 0)
    for weight, below in zip(reversed(names[:-1]), reversed(sums), strict=True):
        nothing = graph.table(f"nothing {layers.dtype}", np.zeros((), dtype=layers.dtype))
        open_ = graph.cast(graph("Greater", below, nothing), layers.dtype)
        found = graph("MatMul", graph("Mul", found, graph.unsqueeze(open_, 1)), weight)
    found = graph.cast(found, graph.dtype)
    scale = frame.inputs.scale
    if features.sines is None or features.cosines is None:
        return graph("Div", found, graph.constant("input scales", scale))
    plain, turning = frame.plain.cpu().numpy(), frame.turning.cpu().numpy()
    count, angles = len(plain), len(turning)
    by_sine, by_cosine = (
        graph("Gather", found, graph.constant(name, np.arange(first, first + angles)), axis=2)
        for name, first in (("sine features", count), ("cosine features", count + angles))
    )
    turned = graph(
        "Sub",
        graph("Mul", by_sine, graph.unsqueeze(features.cosines, 1)),
        graph("Mul", by_cosine, graph.unsqueeze(features.sines, 1)),
    )
    if not count:
        return turned
    by_plain = graph("Gather", found, graph.constant("plain features", np.arange(count)), axis=2)
    by_plain = graph("Div", by_plain, graph.constant("plain scale", scale[plain]))
    # A network without a ReLU has the same slope in every row: as many rows as there are angles.
    by_plain = graph("Add", by_plain, _zeros_like(graph, features.sines))
    back = np.argsort(np.concatenate([plain, turning]))
    together = graph("Concat", by_plain, turned, axis=2)
    return graph("Gather", together, graph.constant("order of inputs", back.astype(np.int64)), axis=2)


def _zeros_like(graph: Builder, values: str) -> str:
    """(N, 1, 1) zeros, one for each row of (N, m)."""
    least = graph("ReduceMin", values, axes=[1], keepdims=1)
    return graph.unsqueeze(graph("Mul", least, graph.number(0.0)), 2)
