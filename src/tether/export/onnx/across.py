"""Slopes of A over several leaves, as nodes: what a controller wants where leaves are tiny.

By each input that leaves are cut along, A is taken a stride ahead of the inputs and a stride behind them.
Leaves of all of these are found by one search, so that the tree is in the file once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tether.export.onnx.graph import Builder
from tether.model import Model


def wrapped(graph: Builder, angles: str) -> str:
    """Angles in [-π, π), as :meth:`Frame.wrapped` has them; what is infinite becomes NaN."""
    least, most, whole = graph.number(-np.pi), graph.number(np.pi), graph.number(2 * np.pi)
    turns = graph("Floor", graph("Div", graph("Add", angles, most), whole))
    moved = graph("Sub", angles, graph("Mul", whole, turns))
    beyond = graph("Or", graph("GreaterOrEqual", moved, most), graph("Less", moved, least))
    moved = graph("Where", beyond, least, moved)
    fine = graph("And", graph("GreaterOrEqual", angles, least), graph("Less", angles, most))
    return graph("Where", fine, angles, moved)


@dataclass(frozen=True)
class Around:
    """Inputs, and their neighbours a stride away.

    Attributes:
        lines: 1 + 2 S times (D, N): the inputs, then by input of `along` those ahead and those behind.
        along: (S,) inputs that leaves are cut along; none in an interval tether.
        ways: by each, (1, N) how far these two are apart.
    """

    lines: list[str]
    along: list[int]
    ways: list[str]


def around(graph: Builder, model: Model, box: tuple[np.ndarray, np.ndarray], lines: str) -> Around:
    """Of inputs (D, N). Angles go round in float64; in float32 they are taken as they are given."""
    found = model.tether.strides()
    strides = np.zeros(len(model.schema.inputs)) if found is None else found
    along = np.flatnonzero(strides > 0).tolist()
    parts, ways = [lines], []
    for d in along:
        own, stride = graph.lines(lines, [d], f"line {d}"), graph.number(float(strides[d]))
        high, low = graph("Add", own, stride), graph("Sub", own, stride)
        turns = bool(model.schema.input_angles[d]) and graph.dtype == "float64"
        if not turns:
            high, low = _inside(graph, high, low, [float(end[d]) for end in box])
        ways.append(graph("Sub", high, low))
        order = np.arange(len(strides))
        order[d] = len(strides)
        for end in (high, low):
            moved = graph("Concat", lines, wrapped(graph, end) if turns else end, axis=0)
            parts.append(graph.lines(moved, order, f"line {d} moved"))
    return Around(parts, along, ways)


def _inside(graph: Builder, high: str, low: str, box: list[float]) -> tuple[str, str]:
    """Both ends within the box, where A is known, unless nothing would be left between them."""
    least, most = (graph.number(end) for end in box)
    upper, lower = graph("Min", high, most), graph("Max", low, least)
    apart = graph("Less", lower, upper)
    return graph("Where", apart, upper, high), graph("Where", apart, lower, low)


def parts_of(graph: Builder, leaves: str, count: int) -> list[str]:
    """Leaves (P, N) of each of what was searched side by side, (P, `count` N)."""
    split = graph("Reshape", leaves, graph.axes(0, count, -1))
    numbers = [graph.constant(f"part {k}", np.array(k, dtype=np.int64)) for k in range(count)]
    return [graph("Gather", split, number, axis=1) for number in numbers]


def slopes(graph: Builder, model: Model, anchors: list[str], near: Around, within: str) -> str:
    """(P, N, D) how A changes over strides; along inputs that leaves are not cut along, its slope within one.

    Args:
        graph: where nodes go.
        model: whose tether it is.
        anchors: 2 S times (P, N) of A, as `near` has its neighbours.
        near: of what inputs.
        within: (P, N, D) slopes within leaves.
    """
    width, angles, columns = len(model.schema.inputs), model.schema.output_angles, []
    for ahead, behind, way in zip(anchors[::2], anchors[1::2], near.ways, strict=True):
        change = graph("Sub", ahead, behind)
        if angles.any():
            change = _short_way(graph, change, angles)
        columns.append(graph.unsqueeze(graph("Div", change, way), 2))
    order = np.arange(width)
    order[near.along] = width + np.arange(len(near.along))
    together = graph("Concat", within, *columns, axis=2)
    return graph("Gather", together, graph.constant("order of slopes", order), axis=2)


def _short_way(graph: Builder, change: str, angles: np.ndarray) -> str:
    """A change of outputs that are angles is less than half a turn."""
    whole = graph.column("turn of outputs", np.where(angles, 2 * np.pi, 0.0))
    less, more = graph("Sub", change, whole), graph("Add", change, whole)
    turned = graph("Where", graph("Greater", change, graph.number(np.pi)), less, change)
    return graph("Where", graph("Less", change, graph.number(-np.pi)), more, turned)
