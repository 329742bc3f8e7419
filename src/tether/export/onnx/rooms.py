"""A tether as nodes of ONNX: where outputs may be, how far that is from M, and whether anything is known.

The search of leaves is one operator that runtimes have for decision trees, with ``<`` at every node; the
nearest memory is the least of scores by one matrix product. That may err, by rounding or where hardware
shortens products: it picks a half-width among those there are, and delta is of the one that was picked. Of
interval bounds it picks a cell, and whether an input lies in that cell's ball is then measured itself, by
differences, products and sums that round as little as the library's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tether.data import HALF_TURN
from tether.export.onnx.across import around, parts_of, slopes
from tether.export.onnx.graph import Builder, tensor
from tether.geometry.boxtree import BoxTree
from tether.model import Model
from tether.model.single import single_precision
from tether.model.single.rounding import HALF_TURN as SINGLE_HALF_TURN
from tether.model.single.rounding import UNIT

_MOST_LEAVES = 2**24
"""What the search returns is a float32 number, which counts up to here."""


Given = tuple[str, str]
"""Names of the inputs, as (N, D) and as (D, N)."""
Jacobian = Literal["", "within", "across"]
"""Whether derivatives are asked for, and of the tether within leaves or across several."""


@dataclass(frozen=True)
class RoomNodes:
    """Names of what is known at each of N rows, in the units of the target.

    Attributes:
        lower: (P, N).
        upper: (P, N).
        anchor: (P, N); None where it is 0.
        spread: (P, N) delta, in float32 but for the last sum.
        inside: (N,) whether anything is known, beside the box.
        slope: (P, N, D) derivatives of the anchor; None where they are 0.
        width_slope: (P, N, D) of the half-width; None likewise.
    """

    lower: str
    upper: str
    anchor: str | None
    spread: str
    inside: str
    slope: str | None = None
    width_slope: str | None = None


@dataclass(frozen=True, eq=False)
class Tables:
    """Of a tether, in the precision it is exported in.

    Attributes:
        arrays: by name.
        own: the float32 tether; None in float64.
    """

    arrays: dict[str, np.ndarray]
    own: Any = None

    @classmethod
    def of(cls, model: Model, dtype: str) -> Tables:
        """From the buffers of a model's tether."""
        if model.tether.kind not in _ROOMS:
            raise ValueError(
                "`model` must be affine or interval to become ONNX; got a model of kind "
                f"'{model.tether.kind}'. Fit one with bounds 'affine', or export to C."
            )
        tether: Any = model.tether if dtype == "float64" else single_precision(model).tether
        arrays = {name: values.detach().cpu().numpy() for name, values in tether.named_buffers()}
        return cls(arrays, None if dtype == "float64" else tether)

    @property
    def box(self) -> tuple[np.ndarray, np.ndarray]:
        """(D,) limits of the domain."""
        for low, high in (("leaves.lower", "leaves.upper"), ("lookup.box_lower", "lookup.box_upper")):
            if low in self.arrays:
                return self.arrays[low], self.arrays[high]
        return self.arrays["box_lower"], self.arrays["box_upper"]

    def tree(self, model: Model) -> BoxTree:
        """With thresholds of this precision."""
        bounds: Any = model.bounds
        if self.own is None:
            return bounds.tree
        parts = [self.arrays[name] for name in ("roots", "cut", "threshold", "left", "right")]
        return BoxTree(bounds.tree.lower, bounds.tree.upper, *parts)


def room_nodes(
    graph: Builder, model: Model, tables: Tables, given: Given, *, jacobian: Jacobian = ""
) -> RoomNodes:
    """The room at inputs, `given` as (N, D) and as (D, N), and its derivatives where they are asked for."""
    return _ROOMS[model.tether.kind](graph, model, tables, given, jacobian)


def _affine(graph: Builder, model: Model, tables: Tables, given: Given, jacobian: Jacobian) -> RoomNodes:
    own, single = tables.arrays, tables.own is not None
    inputs, lines = given
    tree = tables.tree(model)
    if jacobian == "across":
        near = around(graph, model, tables.box, lines)
        searched = graph.turned(graph("Concat", *near.lines, axis=1))
        leaf, *beside = parts_of(graph, _leaves(graph, tree, searched), len(near.lines))
    else:
        near, leaf, beside = None, _leaves(graph, tree, inputs), []
    cell, row = _nearest(graph, model, lines), _Row(graph, own, leaf, bool(jacobian))
    products = row.products(lines)
    anchor = row.anchor(products)
    half = graph("Gather", graph.constant("half width", own["half_width"].T), cell, axis=1)
    opening = _Opening(graph, own, lines) if (own["pinned_rate"] > 0).any() else None
    open_ = half if opening is None else graph("Mul", half, opening.share)
    width = graph("Min", open_, row.left)
    spread = graph("Add", row.remainder, width)
    if single:
        size = graph("Add", graph.total(graph("Abs", products), 2), graph("Abs", row.value))
        rounded = graph("Mul", graph.number(tables.own.magnified), graph("Add", size, width))
        spread = graph("Add", spread, rounded)
    known = graph("ReduceMax", row.remainder, axes=[0], keepdims=0)
    inside = graph("Less", known, graph.number(np.inf))
    slope, width_slope = row.steepness() if jacobian else None, None
    if near is not None and slope is not None:
        rows = [_Row(graph, own, place, True) for place in beside]
        anchors = [one.anchor(one.products(at)) for one, at in zip(rows, near.lines[1:], strict=True)]
        slope = slopes(graph, model, anchors, near, slope)
    if jacobian and opening is not None:
        free = graph("Where", graph("Less", open_, row.left), half, graph.number(0.0))
        width_slope = graph("Mul", graph.unsqueeze(free, 2), graph.turned(opening.slopes()))
    return RoomNodes(
        graph("Sub", anchor, width), graph("Add", anchor, width), anchor, spread, inside, slope, width_slope
    )


class _Row:
    """What is known of leaves (P, N), side by side in one row of one table, so that it is fetched at once.

    Of slopes, columns (C,) that are 0 in every leaf are left out, unless derivatives need them; of curvatures
    pairs (Q, 2) of inputs that no leaf has one along. They are counted from points, along inputs (B,).
    """

    def __init__(self, graph: Builder, own: dict[str, np.ndarray], leaf: str, slopes: bool) -> None:
        self.graph, self.single = graph, "point" in own
        used = np.flatnonzero((own["slope"] != 0).any(axis=0))
        self.used = np.arange(own["slope"].shape[1]) if slopes or not len(used) else used
        bent = np.flatnonzero((own["curvature"] != 0).any(axis=0))
        self.pairs = own["pairs"][bent]
        self.bent = np.unique(self.pairs)
        parts = [own[name][:, self.used] for name in ("slope", "point") if name in own]
        left, centre = ("most", "point") if self.single else ("left", "centre")
        curved = [own["curvature"][:, bent], own[centre][:, self.bent]] if len(bent) else []
        table = np.column_stack([*parts, *curved, own["value"], own["remainder"], own[left]])
        self.reference = own.get("reference")
        self.row = graph("Gather", graph.constant("leaves", table), leaf, axis=0)
        self.slope = self._columns(0, len(self.used))
        first = table.shape[1] - 3
        self.value, self.remainder, self.left = (self._column(first + k) for k in range(3))

    def _columns(self, first: int, count: int) -> str:
        ends = self.graph.axes(first), self.graph.axes(first + count), self.graph.axes(2)
        return self.graph("Slice", self.row, *ends)

    def _column(self, number: int) -> str:
        which = self.graph.constant(f"column {number}", np.array(number, dtype=np.int64))
        return self.graph("Gather", self.row, which, axis=2)

    def products(self, lines: str) -> str:
        """(P, N, C + Q) slope times the way from the reference, or in float32 from the leaf's own point.

        Then curvature times both ways from where it is counted from.
        """
        graph, own = self.graph, self.graph.lines(lines, self.used, "used")
        if self.single:
            gap = graph("Sub", graph.turned(own), self._columns(len(self.used), len(self.used)))
        else:
            assert self.reference is not None
            gap = graph.turned(graph("Sub", own, graph.column("reference", self.reference[self.used])))
        flat = graph("Mul", self.slope, gap)
        if not len(self.pairs):
            return flat
        self._ways(lines)
        return graph("Concat", flat, graph("Mul", self.curved[0], self.away[1]), axis=2)

    def anchor(self, products: str) -> str:
        """(P, N) A of these."""
        return self.graph("Add", self.value, self.graph.total(products, 2))

    def _ways(self, lines: str) -> None:
        """The ways along both inputs of each pair, and their products with the curvature."""
        graph, first = self.graph, len(self.used) * (1 + self.single)
        curvature = self._columns(first, len(self.pairs))
        centre = self._columns(first + len(self.pairs), len(self.bent))
        away = graph("Sub", graph.turned(graph.lines(lines, self.bent, "bent")), centre)
        places = [np.searchsorted(self.bent, side) for side in self.pairs.T]
        names = [graph.constant(f"side {k}", own) for k, own in enumerate(places)]
        self.away = [graph("Gather", away, name, axis=2) for name in names]
        self.curved = [graph("Mul", curvature, own) for own in self.away]

    def steepness(self) -> str:
        """(P, N, D) the slope at the inputs that products were asked for at."""
        graph, found = self.graph, self.slope
        for side in range(2 if len(self.pairs) else 0):
            # Of the way along one input, the derivative of the product is by the other.
            along = np.eye(len(self.used))[self.pairs[:, 1 - side]]
            more = graph("MatMul", self.curved[side], graph.constant(f"along {1 - side}", along))
            found = graph("Add", found, more)
        return found


def _interval(graph: Builder, model: Model, tables: Tables, given: Given, jacobian: Jacobian) -> RoomNodes:
    del jacobian
    own, single = tables.arrays, tables.own is not None
    _, lines = given
    cell = _nearest(graph, model, lines)
    names = {"lower": "lower", "upper": "upper", "spread": "spread" if single else "delta"}
    lower, upper, spread = (
        graph("Gather", graph.constant(f"cell {name}", own[held].T), cell, axis=1)
        for name, held in names.items()
    )
    memories = (own["centers"] if single else own["lookup.memories"]).T
    memory = graph("Gather", graph.constant("memories", memories), cell, axis=1)
    if single:
        gap = graph("Mul", graph("Sub", lines, memory), graph.column("rate", own["inverse_scale"]))
        reach = own["limit"]
    else:
        gap = graph("Sub", graph("Div", lines, graph.column("scale", own["lookup.scale"])), memory)
        # Smaller by what sums in another order may differ by, so that it accepts nothing that they do not.
        reach = own["lookup.radii"] ** 2 * (1 - 8 * (len(model.schema.inputs) + 8) * 2.0**-53)
    squared = graph.total(graph("Mul", gap, gap), 0)
    allowed = graph("Gather", graph.constant("reach", reach), cell, axis=0)
    return RoomNodes(lower, upper, None, spread, graph("LessOrEqual", squared, allowed))


_ROOMS: dict[str, Any] = {"affine": _affine, "interval": _interval}


def last_sum(graph: Builder, tables: Tables, spread: str, outputs: str) -> str:
    """(P, N) delta: in float32 with what the last sum to `outputs` rounds, and the roundings of delta."""
    if tables.own is None:
        return spread
    more = graph("Add", spread, graph("Mul", graph.number(UNIT), graph("Abs", outputs)))
    return graph("Mul", more, graph.number(tables.own.compensation))


def half_turn(tables: Tables) -> float:
    """What no two angles are farther apart than, rounded up."""
    return HALF_TURN if tables.own is None else SINGLE_HALF_TURN


# --- searches


def _leaves(graph: Builder, tree: BoxTree, inputs: str) -> str:
    """(P, N) number of the leaf in the tree of each output."""
    if tree.leaves >= _MOST_LEAVES:
        raise ValueError(
            f"`model` must have fewer than {_MOST_LEAVES:,} leaves for ONNX; got {tree.leaves:,}."
        )
    order = np.concatenate([_below(tree, root) for root in tree.roots])
    count = [len(_below(tree, root)) for root in tree.roots]
    owner = np.repeat(np.arange(len(count)), count)
    place = np.empty(len(order), dtype=np.int64)
    starts = np.cumsum([0, *count[:-1]])
    place[order] = np.arange(len(order)) - np.repeat(starts, count)
    end = tree.cut[order] < 0
    numbers = np.float64 if graph.dtype == "float64" else np.float32
    thresholds, leaves = tree.threshold[order].astype(numbers), tree.left[order][end].astype(numbers)
    wide = graph.dtype == "float64"
    values: dict[str, Any] = {
        "nodes_values_as_tensor": tensor("thresholds", thresholds),
        "target_weights_as_tensor": tensor("leaves", leaves),
    }
    if not wide:
        values = {"nodes_values": thresholds.tolist(), "target_weights": leaves.tolist()}
    found = graph(
        "TreeEnsembleRegressor",
        inputs,
        n_targets=len(count),
        nodes_treeids=owner.tolist(),
        nodes_nodeids=place[order].tolist(),
        nodes_modes=["LEAF" if leaf else "BRANCH_LT" for leaf in end],
        nodes_featureids=np.where(end, 0, tree.cut[order]).tolist(),
        nodes_truenodeids=np.where(end, 0, place[np.where(end, 0, tree.left[order])]).tolist(),
        nodes_falsenodeids=np.where(end, 0, place[np.where(end, 0, tree.right[order])]).tolist(),
        target_treeids=owner[end].tolist(),
        target_nodeids=place[order][end].tolist(),
        target_ids=owner[end].tolist(),
        **values,
    )
    return graph.cast(graph.turned(found), "int64")


def _below(tree: BoxTree, root: int) -> np.ndarray:
    """Nodes of one tree, the root first, level by level."""
    levels, level = [], np.array([root])
    while len(level):
        levels.append(level)
        inner = level[tree.cut[level] >= 0]
        level = np.stack([tree.left[inner], tree.right[inner]], axis=1).reshape(-1)
    return np.concatenate(levels)


def _nearest(graph: Builder, model: Model, lines: str) -> str:
    """(N,) a memory than which none is much nearer: the least of |m|² - 2 m·x, from the middle of them.

    First the least of each group of memories and the group that has it, then the place in it: the least
    of many numbers is found several times as fast as where it is.
    """
    cells = model.cells
    count = len(cells)
    size = math.isqrt(count - 1) + 1
    groups = -(-count // size)
    middle = cells.memories.mean(axis=0)
    # The last group is filled up with the last memory.
    moved = np.pad(cells.memories - middle, ((0, groups * size - count), (0, 0)), mode="edge")
    around = graph.turned(graph("Sub", lines, graph.column("middle", middle * cells.scale)))
    products = graph.constant("twice memories", -2 * (moved / cells.scale).T)
    scores = graph("Gemm", around, products, graph.constant("squares", (moved**2).sum(axis=1)))
    grouped = graph("Reshape", scores, graph.axes(0, groups, size))
    group = graph("ArgMin", graph("ReduceMin", grouped, axes=[2], keepdims=0), axis=1, keepdims=0)
    members = graph("GatherND", grouped, graph.unsqueeze(group, 1), batch_dims=1)
    place = graph("ArgMin", members, axis=1, keepdims=0)
    found = graph("Add", graph("Mul", group, graph.whole(size)), place)
    return graph("Min", found, graph.whole(count - 1))


class _Opening:
    """How far the room is open around what probes agree on: (1, N) squares of a distance, 1 at most."""

    def __init__(self, graph: Builder, own: dict[str, np.ndarray], inputs: str) -> None:
        self.graph, self.rate = graph, graph.column("pinned rate", own["pinned_rate"])
        away = graph("Sub", inputs, graph.column("pinned", own["pinned"]))
        self.gaps = graph("Mul", away, self.rate)
        self.sizes = graph("Abs", self.gaps)
        self.away = graph("ReduceMax", self.sizes, axes=[0], keepdims=1)
        near = graph("Min", self.away, graph.number(1.0))
        self.share = graph("Mul", near, near)

    def slopes(self) -> str:
        """(D, N) of the share by the inputs: along the one that is farthest."""
        graph = self.graph
        nearby = graph(
            "Where", graph("LessOrEqual", self.away, graph.number(1.0)), self.away, graph.number(0.0)
        )
        rate = graph("Mul", self.rate, graph("Sign", self.gaps))
        along = graph("Where", graph("Equal", self.sizes, self.away), rate, graph.number(0.0))
        return graph("Mul", graph("Mul", graph.number(2.0), nearby), along)
