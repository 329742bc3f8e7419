"""Where outputs may be, in C, by the kind of tether: ``@_room`` and its derivatives, ``@_slopes``.

Each is given an input as the library has it, and fills `lower`, `upper`, `anchor` and `delta`; the room is
between ``middle - width`` and ``middle + width``, of which the derivatives are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether.data import HALF_TURN
from tether.export.c.numbers import literal, table
from tether.export.c.search import search_code
from tether.export.c.trees import Tree, tree_code
from tether.model import Model
from tether.model.single import single_precision
from tether.model.single.rounding import HALF_TURN as SINGLE_HALF_TURN
from tether.model.single.rounding import UNIT

STRUCT = """
struct @_room {
    REAL lower[@_OUTPUTS], upper[@_OUTPUTS], anchor[@_OUTPUTS], delta[@_OUTPUTS];
    int cell, leaf[@_OUTPUTS], closed[@_OUTPUTS], inside;
};
"""


def room_code(model: Model, kind: str) -> str:
    """Tables and code of the model's tether.

    Raises:
        ValueError: it cannot be exported, or not in this precision.
    """
    own = model.tether.kind
    if own not in _ROOMS:
        raise ValueError(
            "`model` must not call the trusted model at run time, which has no C here; got a model of kind "
            f"'{own}'. Fit one with bounds 'affine'."
        )
    if kind == "float" and own not in _SINGLE:
        raise ValueError(
            f"`dtype` must be 'float64' for a model of kind '{own}'; got 'float32', of which nothing is "
            "proved for it."
        )
    return (_SINGLE if kind == "float" else _ROOMS)[own](model)


_AT_ONCE = """
/* Nothing is to be found beforehand. */
static void @_begin(const REAL *x, struct @_room *room)
{
    (void)x;
    (void)room;
}
"""


# --- no tether


def _free(model: Model) -> str:
    del model
    return _FREE + _AT_ONCE + _LEVEL


_FREE = """
static void @_finish(const REAL *x, struct @_room *room)
{
    int q;
    (void)x;
    room->inside = 0;
    for (q = 0; q < @_OUTPUTS; ++q) {
        room->anchor[q] = 0;
        room->lower[q] = -INFINITY;
        room->upper[q] = INFINITY;
        room->delta[q] = INFINITY;
    }
}
"""


_LEVEL = """
static void @_slopes(const REAL *x, const struct @_room *room, int output, REAL *anchor, REAL *middle,
                     REAL *width)
{
    int d;
    (void)x;
    (void)room;
    (void)output;
    for (d = 0; d < @_INPUTS; ++d) anchor[d] = middle[d] = width[d] = 0;
}
"""


# --- one range for each cell


def _interval(model: Model) -> str:
    cells, bounds = model.cells, model.bounds
    tables = {
        "box_low": cells.box_lower,
        "box_high": cells.box_upper,
        "reach": cells.radii * cells.radii,
        "lower": bounds.lower,  # type: ignore[union-attr]
        "upper": bounds.upper,  # type: ignore[union-attr]
        "delta": bounds.delta,
    }
    searched = search_code(cells.memories, cells.scale, None, "double")
    return searched + _tables("double", tables) + _CELLS + _AT_ONCE + _LEVEL


def _interval_single(model: Model) -> str:
    own = _buffers(single_precision(model).tether)
    names = {"box_low": "box_lower", "box_high": "box_upper", "reach": "limit", "delta": "spread"}
    tables = {name: own[names.get(name, name)] for name in (*names, "lower", "upper")}
    searched = search_code(own["centers"], None, own["inverse_scale"], "float")
    return searched + _tables("float", tables) + _CELLS + _AT_ONCE + _LEVEL


_CELLS = """
static void @_finish(const REAL *x, struct @_room *room)
{
    REAL squared;
    int q, d;
    room->cell = @_nearest(x, &squared);
    room->inside = squared <= @_reach[room->cell];
    for (d = 0; d < @_INPUTS; ++d)
        if (!(x[d] >= @_box_low[d] && x[d] <= @_box_high[d])) room->inside = 0;
    for (q = 0; q < @_OUTPUTS; ++q) {
        room->anchor[q] = 0;
        room->lower[q] = @_lower[room->cell * @_OUTPUTS + q];
        room->upper[q] = @_upper[room->cell * @_OUTPUTS + q];
        room->delta[q] = @_delta[room->cell * @_OUTPUTS + q];
    }
}
"""


# --- first-order models over leaves


def _affine(model: Model) -> str:
    cells, tether = model.cells, _buffers(model.tether)
    rows = _Rows.of(
        model,
        [tether["value"], tether["remainder"], tether["left"]],
        [tether["slope"]],
        (tether["curvature"], tether["pairs"], tether["centre"]),
    )
    tables = {
        "box_low": tether["leaves.lower"],
        "box_high": tether["leaves.upper"],
        "reference": tether["reference"],
        "half_width": tether["half_width"],
        "pinned": tether["pinned"],
        "pinned_rate": tether["pinned_rate"],
    }
    tree = _tree(tether, ("leaves.lower", "leaves.upper"), cells.centers)
    before = "for (d = 0; d < @_INPUTS; ++d) gaps[d] = x[d] - @_reference[d];"
    code = _away(rows.bending(_LEAVES), "gaps[uses[{}]]").replace("SPREAD", "row[1] + width")
    code = code.replace("BEFORE", before)
    return "".join(
        [
            search_code(cells.memories, cells.scale, None, "double"),
            tree_code(tree, rows.starts, "double"),
            rows.code("double"),
            _tables("double", tables),
            _constants(tether["pinned_rate"]),
            _opening(range(len(cells.scale))),
            _without_size(code),
        ]
    )


def _affine_single(model: Model) -> str:
    single = single_precision(model).tether
    own = _buffers(single)
    rows = _Rows.of(
        model,
        [own["value"], own["remainder"], own["most"]],
        [own["slope"], own["point"]],
        (own["curvature"], own["pairs"], own["point"]),
    )
    tables = {
        "box_low": own["box_lower"],
        "box_high": own["box_upper"],
        "half_width": own["half_width"],
        "pinned": own["pinned"],
        "pinned_rate": own["pinned_rate"],
    }
    magnified: Any = single.magnified  # type: ignore[attr-defined]
    spread = f"row[1] + width + {literal(float(magnified), 'float')} * (size + width)"
    code = _away(rows.bending(_LEAVES), "(x[uses[{0}]] - row[3 + count + {0}])").replace("SPREAD", spread)
    code = code.replace("    BEFORE\n", "").replace(", gaps[@_INPUTS]", "")
    return "".join(
        [
            search_code(own["centers"], None, own["inverse_scale"], "float"),
            tree_code(_tree(own, ("box_lower", "box_upper"), own["centers"]), rows.starts, "float"),
            rows.code("float"),
            _tables("float", tables),
            _constants(own["pinned_rate"]),
            _opening(range(len(own["inverse_scale"]))),
            code,
        ]
    )


@dataclass(frozen=True, eq=False)
class _Rows:
    """What is known of each leaf, without slopes along inputs that no leaf of an output has one along.

    Attributes:
        used: of each output, the inputs that it has slopes along.
        starts: (L,) where the row of a leaf begins.
        values: all rows, one after another.
        parts: numbers that a row holds of each such input.
        pairs: of each output, (B, 2) inputs that it has curvatures along: of each pair a row ends with the
            curvature, and with where both inputs are counted from.
    """

    used: list[np.ndarray]
    starts: np.ndarray
    values: np.ndarray
    parts: int
    pairs: list[np.ndarray]

    @classmethod
    def of(
        cls,
        model: Model,
        single: list[np.ndarray],
        by_input: list[np.ndarray],
        curved: tuple[np.ndarray, np.ndarray, np.ndarray],
    ) -> _Rows:
        """From tables (L,) and (L, D), of which the first says what is used; and what is of second order."""
        bounds: Any = model.bounds
        output, used, values, bends = bounds.output, [], [], []
        curvature, pairs, centre = curved
        starts, length = np.zeros(len(output), dtype=np.int64), 0
        for q in range(len(model.schema.outputs)):
            own = np.flatnonzero(output == q)
            columns = np.flatnonzero((by_input[0][own] != 0).any(axis=0))
            parts = [part[own][:, columns] for part in by_input]
            bent = np.flatnonzero((curvature[own] != 0).any(axis=0))
            for k in bent:
                parts += [curvature[own, k][:, None], centre[own][:, pairs[k]]]
            bends.append(pairs[bent])
            row = np.column_stack([*(part[own] for part in single), *parts])
            starts[own] = length + row.shape[1] * np.arange(len(own))
            length += row.size
            used.append(columns)
            values.append(row.reshape(-1))
        return cls(used, starts, np.concatenate(values), len(by_input), bends)

    def bending(self, code: str) -> str:
        """The code of leaves, with what curvatures add where there are some."""
        there = any(len(own) for own in self.pairs)
        for mark, added in _BENDING.items():
            code = code.replace(mark, added if there else "")
        return code

    def code(self, kind: str) -> str:
        """Tables."""
        counts = [len(own) for own in self.used]
        return "".join(
            [
                f"enum {{ @_PARTS = {self.parts} }};\n",
                table(kind, "@_leaves", self.values),
                table("int", "@_uses", np.concatenate(self.used)),
                table("int", "@_use", np.concatenate([[0], np.cumsum(counts)])),
                self._bends(),
            ]
        )

    def _bends(self) -> str:
        counts = [len(own) for own in self.pairs]
        if not sum(counts):
            return ""
        places = table("int", "@_bend", np.concatenate([[0], np.cumsum(counts)]))
        return table("int", "@_pairs", np.concatenate(self.pairs).reshape(-1)) + places


def _away(code: str, way: str) -> str:
    """How far an input is from where A starts, by its place in the row."""
    return re.sub(r"AWAY\(([^)]*)\)", lambda found: way.format(found[1]), code)


def _without_size(code: str) -> str:
    """In float64 the size of A's parts is in the remainder."""
    return "\n".join(line for line in code.splitlines() if "size" not in line or "sizeof" in line) + "\n"


_LEAVES = """
/* What is known of a leaf is fetched before it is needed. */
#ifdef __GNUC__
#define FETCH(at) __builtin_prefetch(at)
#else
#define FETCH(at) ((void)(at))
#endif

static void @_begin(const REAL *x, struct @_room *room)
{
    int q, k;
    @_enter_trees(x, room->leaf);
    while (!@_descend(x, room->leaf)) continue;
    for (q = 0; q < @_OUTPUTS; ++q) {
        const int length = 3 + @_PARTS * (@_use[q + 1] - @_use[q])MORE;
        room->leaf[q] = -1 - room->leaf[q];
        for (k = 0; k < length; k += 64 / (int)sizeof(REAL)) FETCH(@_leaves + room->leaf[q] + k);
    }
}

static void @_finish(const REAL *x, struct @_room *room)
{
    REAL share, gaps[@_INPUTS];
    int q, d, k;
    room->cell = @_nearest(x, 0);
    room->inside = 1;
    for (d = 0; d < @_INPUTS; ++d)
        if (!(x[d] >= @_box_low[d] && x[d] <= @_box_high[d])) room->inside = 0;
    share = @_opening(x);
    BEFORE
    for (q = 0; q < @_OUTPUTS; ++q) {
        const REAL *row = @_leaves + room->leaf[q];
        const int *uses = @_uses + @_use[q];
        const int count = @_use[q + 1] - @_use[q];
        REAL anchor, width, one = 0, two = 0;
        REAL size = 0;
        for (k = 0; k + 2 <= count; k += 2) {
            const REAL even = row[3 + k] * AWAY(k), odd = row[4 + k] * AWAY(k + 1);
            one += even;
            two += odd;
            size += FABS(even) + FABS(odd);
        }
        if (k < count) {
            const REAL even = row[3 + k] * AWAY(k);
            one += even;
            size += FABS(even);
        }
BENT        anchor = row[0] + (one + two);
        size += FABS(row[0]);
        width = @_half_width[room->cell * @_OUTPUTS + q] * share;
        room->closed[q] = !(width < row[2]);
        if (room->closed[q]) width = row[2];
        room->anchor[q] = anchor;
        room->lower[q] = anchor - width;
        room->upper[q] = anchor + width;
        room->delta[q] = SPREAD;
        if (!(row[1] < INFINITY)) room->inside = 0;
    }
}

static void @_slopes(const REAL *x, const struct @_room *room, int output, REAL *anchor, REAL *middle,
                     REAL *width)
{
    const REAL *row = @_leaves + room->leaf[output];
    REAL share = @_half_width[room->cell * @_OUTPUTS + output];
    int d, k;
    if (room->closed[output]) share = 0;
    @_opening_slopes(x, share, width);
    for (d = 0; d < @_INPUTS; ++d) anchor[d] = middle[d] = 0;
    for (k = @_use[output]; k < @_use[output + 1]; ++k) {
        d = @_uses[k];
        anchor[d] = middle[d] = row[3 + k - @_use[output]];
    }
STEEP}
"""
_BENDING = {
    "MORE": " + 3 * (@_bend[q + 1] - @_bend[q])",
    "BENT": """        for (k = @_bend[q], row += 3 + @_PARTS * count; k < @_bend[q + 1]; ++k, row += 3) {
            const REAL term = row[0] * (x[@_pairs[2 * k]] - row[1]) * (x[@_pairs[2 * k + 1]] - row[2]);
            one += term;
            size += FABS(term);
        }
        row = @_leaves + room->leaf[q];
""",
    "STEEP": """    row += 3 + @_PARTS * (@_use[output + 1] - @_use[output]);
    for (k = @_bend[output]; k < @_bend[output + 1]; ++k, row += 3) {
        const int i = @_pairs[2 * k], j = @_pairs[2 * k + 1];
        anchor[i] += row[0] * (x[j] - row[2]);
        anchor[j] += row[0] * (x[i] - row[1]);
        middle[i] = anchor[i];
        middle[j] = anchor[j];
    }
""",
}
"""What leaves of second order have besides; without them the code is as it was before there were any."""


# --- monotone in declared inputs


def _monotone(model: Model) -> str:
    tether: Any = model.tether
    own, cells = _buffers(tether), tether.cells
    tables = {
        "plane": np.column_stack([own["intercept"], own["weights"]]),
        "half_width": own["half_width"],
        "pinned": own["pinned_value"],
        "pinned_rate": own["pinned_rate"],
    }
    silent = [int(k in tether.declared.tolist()) for k in range(own["weights"].shape[1])]
    eps = float(np.finfo(np.float64).eps)
    code = _PLANE.replace("WIDER", literal(1 + 2 * eps)).replace("ROUNDED", literal(2 * eps))
    return "".join(
        [
            search_code(cells.memories, cells.scale, None, "double"),
            _tables("double", tables),
            table("int", "@_seen", tether.seen),
            table("int", "@_declared", silent),
            _constants(own["pinned_rate"]),
            _opening(tether.seen.tolist()),
            code + _AT_ONCE,
        ]
    )


_PLANE = """
/* M to the last bit: a product, rounded, then a sum, rounded, in order. */
static REAL @_trusted(const REAL *x, int output, int silent)
{
    const REAL *row = @_plane + output * (1 + @_INPUTS);
    volatile REAL product;
    REAL total = row[0];
    int d;
    for (d = 0; d < @_INPUTS; ++d) {
        product = row[1 + d] * (silent && @_declared[d] ? 0 : x[d]);
        total += product;
    }
    return total;
}

static void @_finish(const REAL *x, struct @_room *room)
{
    REAL share, seen[@_SEEN];
    int q, d;
    for (d = 0; d < @_SEEN; ++d) seen[d] = x[@_seen[d]];
    room->cell = @_nearest(seen, 0);
    room->inside = 1;
    share = @_opening(x);
    for (q = 0; q < @_OUTPUTS; ++q) {
        const REAL width = @_half_width[room->cell * @_OUTPUTS + q] * share;
        const REAL middle = @_trusted(x, q, 0);
        REAL lower = middle - width, upper = middle + width;
        room->anchor[q] = @_trusted(x, q, 1);
        room->lower[q] = lower;
        room->upper[q] = upper;
        if (!(isfinite(lower) && isfinite(upper) && isfinite(room->anchor[q]))) room->inside = 0;
        if (lower < 0) lower = -lower;
        if (upper < 0) upper = -upper;
        room->delta[q] = width * WIDER + ROUNDED * (lower > upper ? lower : upper);
    }
}

static void @_slopes(const REAL *x, const struct @_room *room, int output, REAL *anchor, REAL *middle,
                     REAL *width)
{
    const REAL *row = @_plane + output * (1 + @_INPUTS) + 1;
    int d;
    @_opening_slopes(x, @_half_width[room->cell * @_OUTPUTS + output], width);
    for (d = 0; d < @_INPUTS; ++d) {
        middle[d] = row[d];
        anchor[d] = @_declared[d] ? 0 : row[d];
    }
}
"""


# --- slopes across leaves


def across_code(model: Model, kind: str) -> str:
    """How A changes over a stride along each input, for what the slope within a leaf does not tell."""
    found = model.tether.strides()
    strides = np.zeros(len(model.schema.inputs)) if found is None else found
    turns = model.schema.input_angles.astype(np.int64) if kind == "double" else np.zeros_like(strides)
    tables = table(kind, "@_stride", strides.astype(kind if kind == "double" else "float32"))
    code = _ACROSS.replace("ONE_TURN", literal(2 * np.pi, kind)).replace("HALF_TURN", literal(np.pi, kind))
    return tables + table("int", "@_turns", turns) + (code if strides.any() else _ACROSS_NOT)


_ACROSS = """
static void @_across(const REAL *x, int along, REAL *slopes)
{
    struct @_room after, before;
    REAL other[@_INPUTS], high = x[along] + @_stride[along], low = x[along] - @_stride[along];
    int d;
    if (!@_turns[along]) {
        if (high > @_box_high[along]) high = @_box_high[along];
        if (low < @_box_low[along]) low = @_box_low[along];
        if (!(low < high)) {
            high = x[along] + @_stride[along];
            low = x[along] - @_stride[along];
        }
    }
    for (d = 0; d < @_INPUTS; ++d) other[d] = x[d];
    other[along] = @_turns[along] ? @_wrapped(high) : high;
    @_room(other, &after);
    other[along] = @_turns[along] ? @_wrapped(low) : low;
    @_room(other, &before);
    for (d = 0; d < @_OUTPUTS; ++d) {
        REAL change = after.anchor[d] - before.anchor[d];
        if (@_round[d] && change > HALF_TURN) change -= ONE_TURN;
        if (@_round[d] && change < -HALF_TURN) change += ONE_TURN;
        slopes[d] = change / (high - low);
    }
}
"""
_ACROSS_NOT = """
static void @_across(const REAL *x, int along, REAL *slopes)
{
    int d;
    (void)x;
    (void)along;
    for (d = 0; d < @_OUTPUTS; ++d) slopes[d] = 0;
}
"""


# --- what several have


ROOM = """
static void @_room(const REAL *x, struct @_room *room)
{
    @_begin(x, room);
    @_finish(x, room);
}
"""


def _opening(columns: Any) -> str:
    """How far the room opens around what probes agree on, by columns of the inputs, and its derivatives."""
    return table("int", "@_opens", list(columns)) + _OPENING


_OPENING = """
static REAL @_way(const REAL *x, int *along)
{
    REAL away = 0;
    int k;
    *along = 0;
    for (k = 0; k < @_SEEN; ++k) {
        const REAL gap = FABS((x[@_opens[k]] - @_pinned[k]) * @_pinned_rate[k]);
        if (gap > away) {
            away = gap;
            *along = k;
        }
    }
    return away;
}

static REAL @_opening(const REAL *x)
{
    int along;
    const REAL away = @_PINS ? @_way(x, &along) : 1;
    return away < 1 ? away * away : 1;
}

static void @_opening_slopes(const REAL *x, REAL width, REAL *slopes)
{
    int along, d;
    const REAL away = @_way(x, &along);
    for (d = 0; d < @_INPUTS; ++d) slopes[d] = 0;
    if (@_PINS && away <= 1) {
        const REAL sign = x[@_opens[along]] < @_pinned[along] ? -1 : 1;
        slopes[@_opens[along]] = 2 * width * away * sign * @_pinned_rate[along];
    }
}
"""


def _constants(rate: np.ndarray) -> str:
    return f"enum {{ @_PINS = {int((rate > 0).any())} }};\n"


def _tree(own: dict[str, np.ndarray], box: tuple[str, str], likely: np.ndarray) -> Tree:
    """From the buffers of a tether; `box` has the names of its ends."""
    prefix = "leaves." if "leaves.roots" in own else ""
    roots, cut, threshold, left, right = (
        own[f"{prefix}{name}"] for name in ("roots", "cut", "threshold", "left", "right")
    )
    lower, upper = (own[name] for name in box)
    return Tree(roots, cut, threshold, left, right, lower, upper, likely)


def _tables(kind: str, tables: dict[str, np.ndarray]) -> str:
    return "".join(table(kind, f"@_{name}", values) for name, values in tables.items())


def _buffers(module: Any) -> dict[str, np.ndarray]:
    return {name: values.detach().cpu().numpy() for name, values in module.named_buffers()}


def compensation(model: Model, kind: str) -> tuple[float, float, float]:
    """What a row's delta is widened by for its last sum, what it is multiplied by, and a half turn."""
    if kind == "double":
        return 0.0, 1.0, HALF_TURN
    return UNIT, single_precision(model).tether.compensation, SINGLE_HALF_TURN


_ROOMS = {"unconstrained": _free, "interval": _interval, "affine": _affine, "monotone": _monotone}
_SINGLE = {"interval": _interval_single, "affine": _affine_single}
