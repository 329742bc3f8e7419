"""Where outputs may be, in C, by the kind of tether: ``@_room`` and its derivatives, ``@_slopes``.

Each is given an input as the library has it, and fills `lower`, `upper`, `anchor` and `delta`; the room is
between ``middle - width`` and ``middle + width``, of which the derivatives are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tether.data import HALF_TURN
from tether.export.c.numbers import literal, records, table
from tether.export.c.search import search_code
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


# --- no tether


def _free(model: Model) -> str:
    del model
    return _FREE


_FREE = """
static void @_room(const REAL *x, struct @_room *room)
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
    return searched + _tables("double", tables) + _CELLS


def _interval_single(model: Model) -> str:
    own = _buffers(single_precision(model).tether)
    names = {"box_low": "box_lower", "box_high": "box_upper", "reach": "limit", "delta": "spread"}
    tables = {name: own[names.get(name, name)] for name in (*names, "lower", "upper")}
    searched = search_code(own["centers"], None, own["inverse_scale"], "float")
    return searched + _tables("float", tables) + _CELLS


_CELLS = """
static void @_room(const REAL *x, struct @_room *room)
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


# --- first-order models over leaves


def _affine(model: Model) -> str:
    cells, tether = model.cells, _buffers(model.tether)
    leaves = np.column_stack([tether["value"], tether["remainder"], tether["left"], tether["slope"]])
    tables = {
        "box_low": tether["leaves.lower"],
        "box_high": tether["leaves.upper"],
        "reference": tether["reference"],
        "leaves": leaves,
        "half_width": tether["half_width"],
        "pinned": tether["pinned"],
        "pinned_rate": tether["pinned_rate"],
    }
    tree = {name: tether[f"leaves.{name}"] for name in ("roots", "cut", "threshold", "left", "right")}
    code = _LEAVES.replace("FROM", "@_reference[d]").replace("SPREAD", "row[1] + width")
    return "".join(
        [
            search_code(cells.memories, cells.scale, None, "double"),
            _tree(tree, "double"),
            _tables("double", tables),
            _constants(tether["pinned_rate"], leaves.shape[1]),
            _opening(range(len(cells.scale))),
            _without_size(code),
        ]
    )


def _affine_single(model: Model) -> str:
    single = single_precision(model).tether
    own = _buffers(single)
    leaves = np.column_stack([own["value"], own["remainder"], own["most"], own["slope"], own["point"]])
    tables = {
        "box_low": own["box_lower"],
        "box_high": own["box_upper"],
        "leaves": leaves,
        "half_width": own["half_width"],
        "pinned": own["pinned"],
        "pinned_rate": own["pinned_rate"],
    }
    magnified: Any = single.magnified  # type: ignore[attr-defined]
    spread = f"row[1] + width + {literal(float(magnified), 'float')} * (size + width)"
    code = _LEAVES.replace("FROM", "row[3 + @_INPUTS + d]").replace("SPREAD", spread)
    return "".join(
        [
            search_code(own["centers"], None, own["inverse_scale"], "float"),
            _tree(own, "float"),
            _tables("float", tables),
            _constants(own["pinned_rate"], leaves.shape[1]),
            _opening(range(len(own["inverse_scale"]))),
            code.replace("SIZE_OF(", "(size = ").replace("ADDED", "size += FABS(part);"),
        ]
    )


def _without_size(code: str) -> str:
    """In float64 the size of A's parts is in the remainder."""
    kept = [line for line in code.splitlines() if "SIZE_OF(" not in line and "REAL size" not in line]
    return "\n".join(kept).replace("            ADDED\n", "") + "\n"


_LEAVES = """
static void @_room(const REAL *x, struct @_room *room)
{
    REAL squared, share;
    int q, d;
    room->cell = @_nearest(x, &squared);
    room->inside = 1;
    for (d = 0; d < @_INPUTS; ++d)
        if (!(x[d] >= @_box_low[d] && x[d] <= @_box_high[d])) room->inside = 0;
    share = @_opening(x);
    for (q = 0; q < @_OUTPUTS; ++q) {
        const REAL *row;
        REAL anchor, width;
        REAL size;
        int node = q;
        while (@_nodes[node].cut >= 0)
            node = @_nodes[node].below + !(x[@_nodes[node].cut] < @_nodes[node].threshold);
        room->leaf[q] = @_nodes[node].below;
        row = @_leaves + (long)room->leaf[q] * @_ROW;
        anchor = row[0];
        (void)SIZE_OF(FABS(anchor));
        for (d = 0; d < @_INPUTS; ++d) {
            const REAL part = row[3 + d] * (x[d] - FROM);
            anchor += part;
            ADDED
        }
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
    const REAL *row = @_leaves + (long)room->leaf[output] * @_ROW;
    REAL share = @_half_width[room->cell * @_OUTPUTS + output];
    int d;
    if (room->closed[output]) share = 0;
    @_opening_slopes(x, share, width);
    for (d = 0; d < @_INPUTS; ++d) anchor[d] = middle[d] = row[3 + d];
}
"""


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
            _constants(own["pinned_rate"], 0),
            _opening(tether.seen.tolist()),
            code,
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

static void @_room(const REAL *x, struct @_room *room)
{
    REAL squared, share, seen[@_SEEN];
    int q, d;
    for (d = 0; d < @_SEEN; ++d) seen[d] = x[@_seen[d]];
    room->cell = @_nearest(seen, &squared);
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


# --- what several have


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


def _constants(rate: np.ndarray, row: int) -> str:
    length = f", @_ROW = {row}" if row else ""
    return f"enum {{ @_PINS = {int((rate > 0).any())}{length} }};\n"


def _tree(tree: dict[str, np.ndarray], kind: str) -> str:
    """Nodes level by level, the two below a node side by side; of a leaf, `below` is its number."""
    order = tree["roots"].tolist()
    rows: list[tuple[str, str, str]] = []
    for node in order:  # which grows on the way
        cut, low, high = (int(tree[name][node]) for name in ("cut", "left", "right"))
        rows.append(
            (literal(float(tree["threshold"][node]), kind), str(cut), str(low if cut < 0 else len(order)))
        )
        if cut >= 0:
            order += [low, high]
    return "".join(
        [
            "struct @_node { REAL threshold; int cut, below; };\n",
            records("@_nodes", "@_node", rows),
        ]
    )


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
