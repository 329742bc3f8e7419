"""A whole model as one graph: frame, tether, network and operator.

Inside, all but the network has its inputs or outputs in lines, (D, N) and (P, N), and its constants (D, 1)
and (P, 1): runtimes go through long lines several times as fast as through many short rows.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether.export.exporting import WEIGHTS
from tether.export.onnx.across import wrapped
from tether.export.onnx.graph import OPSET, Builder, ModelProto
from tether.export.onnx.network import (
    Layers,
    feature_nodes,
    network_nodes,
    network_slopes,
    place_weights,
    summed_nodes,
)
from tether.export.onnx.rooms import Jacobian, RoomNodes, Tables, half_turn, last_sum, room_nodes
from tether.foundation.limits import LARGEST_FILE
from tether.model import Model

FORMAT = 1
VOIDED = (
    "The certificate is of this graph in the arithmetic of IEEE 754 that its types name, in any order of "
    "summation, with or without fused products. It is void where a provider computes the tether in less: "
    "float16, bfloat16, TF32, quantised tables; where the graph is changed; and where subnormal numbers are "
    "taken for zeros in float64. What computes the network does not matter: the claim is for any weights."
)
"""What voids the certificate, as the file says it."""
_JACOBIANS: dict[Jacobian, bool | str] = {"": False, "within": True, "across": "across"}
"""As the file says it."""


@dataclass(frozen=True, eq=False)
class Form:
    """What a file is made from.

    Attributes:
        name: of the graph.
        dtype: `float64` or `float32`.
        weights: `fixed`, or `inputs` where they are inputs with defaults.
        jacobian: whether derivatives are among the outputs, and which of the tether's.
        certificate: as its file has it; empty where there is none.
        file: the model file.
        digest: that it states of itself.
        held: `file` as the metadata have it; by default encoded anew.
    """

    name: str
    dtype: str
    weights: str
    jacobian: Jacobian
    certificate: Mapping[str, Any]
    file: bytes
    digest: str
    held: str | None = None

    @property
    def metadata(self) -> dict[str, str]:
        """What travels with the graph."""
        about = {
            "format": FORMAT,
            "name": self.name,
            "dtype": self.dtype,
            "opset": OPSET,
            "weights": self.weights,
            "jacobian": _JACOBIANS[self.jacobian],
            "model_sha256": self.digest,
        }
        held = base64.b64encode(zlib.compress(self.file, 9)).decode() if self.held is None else self.held
        return {
            "tether": json.dumps(about),
            "tether_certificate": json.dumps(dict(self.certificate)),
            "tether_void": VOIDED,
            "tether_model": held,
        }


def read_form(model: ModelProto) -> Form:
    """What a file says that it was made from.

    Raises:
        ValueError: it does not say so as :func:`build` does.
    """
    held = {entry.key: entry.value for entry in model.metadata_props}
    if "tether" not in held:
        raise ValueError("it has no word of Tether in its metadata")
    about, certificate = json.loads(held["tether"]), json.loads(held.get("tether_certificate", "null"))
    if not isinstance(about, dict) or not isinstance(certificate, dict):
        raise ValueError("it says of itself what no export does")
    if about.get("format") != FORMAT:
        raise ValueError(f"it has format {about.get('format')!r:.40}, and this Tether writes {FORMAT}")
    own = [about.get(key) for key in ("name", "dtype", "weights", "jacobian", "model_sha256")]
    name, dtype, weights, jacobian, digest = own
    # The number 1 is no `true`.
    kinds: list[Jacobian] = [
        own for own, said in _JACOBIANS.items() if type(said) is type(jacobian) and said == jacobian
    ]
    if not (isinstance(name, str) and isinstance(digest, str)) or not kinds:
        raise ValueError("it says of itself what no export does")
    if dtype not in ("float64", "float32") or weights not in WEIGHTS:
        raise ValueError("it says of itself what no export does")
    packed = held.get("tether_model", "")
    return Form(name, dtype, weights, kinds[0], certificate, _unpacked(packed), digest, packed)


def _unpacked(packed: str) -> bytes:
    """The model file; no more of it than a file may have."""
    reader = zlib.decompressobj()
    try:
        found = reader.decompress(base64.b64decode(packed, validate=True), LARGEST_FILE)
    except zlib.error as error:
        raise ValueError(f"its model cannot be unpacked ({error})") from None
    if not reader.eof or reader.unused_data:
        raise ValueError("its model is not whole, or too large")
    return found


def build(model: Model, form: Form) -> ModelProto:
    """The file of a model.

    Raises:
        ValueError: it cannot be exported, or not in this precision.
    """
    graph = Builder(form.dtype)
    schema, dtype = model.schema, form.dtype
    tables, layers = Tables.of(model, dtype), Layers.of(model.network, dtype)
    sides = {"states": len(schema.states), "controls": len(schema.controls)}
    given = [graph.takes(name, dtype, ["N", count]) for name, count in sides.items()]
    if form.weights == "inputs":
        place_weights(graph, layers)
    lines = _wrapped(graph, model, graph("Concat", *map(graph.turned, given), axis=0))
    room = room_nodes(graph, model, tables, (graph.turned(lines), lines), jacobian=form.jacobian)
    features = feature_nodes(graph, model.frame, lines)
    if form.jacobian or form.weights == "inputs" or len(layers.pairs) < 2:
        network, sums = network_nodes(graph, layers, features.values)
    else:
        network, sums = summed_nodes(graph, layers, features.values), []
    network = graph.turned(network)
    proposed = _proposed(graph, model, network, room)
    target = graph("Min", graph("Max", proposed, room.lower), room.upper)
    following, lower, upper = (
        _ahead(graph, model, lines, value) for value in (target, room.lower, room.upper)
    )
    inside = graph("And", room.inside, _within(graph, tables, lines))
    inside = graph("And", inside, _finite(graph, following))
    delta = _delta(graph, model, tables, last_sum(graph, tables, room.spread, following), inside)
    shape = ["N", len(schema.outputs)]
    for name, value in {"next_states": following, "lower": lower, "upper": upper, "delta": delta}.items():
        graph.gives(name, graph.turned(value), dtype, shape)
    graph.gives("in_domain", inside, "bool", ["N"])
    if form.jacobian:
        own = graph("Transpose", network_slopes(graph, layers, sums, model.frame, features), perm=[1, 0, 2])
        whole = _slopes(graph, model, room, own, network, proposed)
        _give_slopes(graph, whole, sides, [*shape])
    return graph.model(form.name, form.metadata)


def _wrapped(graph: Builder, model: Model, inputs: str) -> str:
    """Inputs (D, N) with angles in [-π, π), as :meth:`Frame.wrapped` has them; in float32 as they are.

    An angle that is infinite becomes NaN, so that nothing is said of it.
    """
    if not model.frame.turns or graph.dtype == "float32":
        return inputs
    turning, width = model.frame.turning.cpu().numpy(), len(model.schema.inputs)
    moved = wrapped(graph, graph.lines(inputs, turning, "turning"))
    order = np.arange(width)
    order[turning] = width + np.arange(len(turning))
    return graph.lines(graph("Concat", inputs, moved, axis=0), order, "wrapped")


def _proposed(graph: Builder, model: Model, network: str, room: RoomNodes) -> str:
    """(P, N) targets before they are kept within their limits."""
    if model.operator == "sigmoid":
        width = graph("Sub", room.upper, room.lower)
        return graph("Add", room.lower, graph("Mul", graph("Sigmoid", network), width))
    outputs = model.frame.outputs
    scaled = graph("Mul", graph.column("output scale", outputs.scale), network)
    deviation = graph("Add", graph.column("output center", outputs.center), scaled)
    if model.operator == "project" or room.anchor is None:
        return deviation
    return graph("Add", room.anchor, deviation)


def _ahead(graph: Builder, model: Model, inputs: str, target: str) -> str:
    """(P, N) next states of targets."""
    if model.frame.target != "increment":
        return target
    return graph("Add", graph.lines(inputs, model.schema.advanced, "advanced"), target)


def _within(graph: Builder, tables: Tables, inputs: str) -> str:
    """(N,) whether inputs lie in the box; what is no number lies in none."""
    low, high = (graph.column(name, own) for name, own in zip(("low", "high"), tables.box, strict=True))
    return graph.all(graph("GreaterOrEqual", inputs, low), graph("LessOrEqual", inputs, high))


def _finite(graph: Builder, following: str) -> str:
    """(N,) whether the network gave numbers; of what is none, nothing is promised."""
    return graph("Less", graph("Abs", graph.total(following, 0)), graph.number(np.inf))


def _delta(graph: Builder, model: Model, tables: Tables, delta: str, inside: str) -> str:
    """(P, N), infinite where nothing is known."""
    angles = model.schema.output_angles
    if angles.any():
        most = np.where(angles, half_turn(tables), np.inf)
        delta = graph("Min", delta, graph.column("most", most))
    return graph("Where", inside, delta, graph.number(np.inf))


def _slopes(
    graph: Builder, model: Model, room: RoomNodes, network_slope: str, network: str, proposed: str
) -> str:
    """(P, N, D) derivatives of the next states: inside the room those of the network, beyond its limits'."""
    lower = _sum_of(graph, room.slope, room.width_slope, "Sub")
    upper = _sum_of(graph, room.slope, room.width_slope, "Add")
    if model.operator == "sigmoid":
        inside = _sigmoid_slopes(graph, room, network_slope, network, lower, upper)
    else:
        scale = graph.constant("output scale column", model.frame.outputs.scale[:, None, None])
        inside = graph("Mul", scale, network_slope)
        follows = model.operator != "project" and room.slope is not None
        inside = graph("Add", room.slope, inside) if follows and room.slope is not None else inside
    below = graph.unsqueeze(graph("Less", proposed, room.upper), 2)
    above = graph.unsqueeze(graph("Greater", proposed, room.lower), 2)
    found = graph("Where", above, graph("Where", below, inside, upper), lower)
    if model.frame.target == "increment":
        advanced = np.eye(len(model.schema.inputs))[model.schema.advanced]
        found = graph("Add", found, graph.constant("advances", advanced[:, None]))
    return found


def _sum_of(graph: Builder, slope: str | None, width_slope: str | None, operator: str) -> str:
    """Of a limit: the anchor's, less or more the half-width's."""
    if slope is None:
        return graph.number(0.0)
    return slope if width_slope is None else graph(operator, slope, width_slope)


def _sigmoid_slopes(
    graph: Builder, room: RoomNodes, network_slope: str, network: str, lower: str, upper: str
) -> str:
    share = graph("Sigmoid", network)
    rise = graph("Mul", share, graph("Sub", graph.number(1.0), share))
    width = graph("Mul", rise, graph("Sub", room.upper, room.lower))
    moved = graph("Mul", graph.unsqueeze(width, 2), network_slope)
    between = graph("Mul", graph.unsqueeze(share, 2), graph("Sub", upper, lower))
    return graph.sum(lower, moved, between)


def _give_slopes(graph: Builder, slopes: str, sides: Mapping[str, int], shape: list[Any]) -> None:
    """By states and by controls, named as CasADi names blocks of a Jacobian."""
    first, slopes = 0, graph("Transpose", slopes, perm=[1, 0, 2])
    for name, count in sides.items():
        ends = graph.axes(first), graph.axes(first + count), graph.axes(2)
        graph.gives(f"jac_next_states_{name}", graph("Slice", slopes, *ends), graph.dtype, [*shape, count])
        first += count
