"""An affine M and the room around it, in C, for outputs monotone in declared inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from tether.export.c.numbers import literal, table
from tether.export.c.rooms.free import AT_ONCE
from tether.export.c.rooms.opening import opening_code, pins_code
from tether.export.c.rooms.tables import buffers, tables_code
from tether.export.c.search import search_code
from tether.model import Model


def monotone(model: Model) -> str:
    """In float64."""
    tether: Any = model.tether
    own, cells = buffers(tether), tether.cells
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
            tables_code("double", tables),
            table("int", "@_seen", tether.seen),
            table("int", "@_declared", silent),
            pins_code(own["pinned_rate"]),
            opening_code(tether.seen.tolist()),
            code + AT_ONCE,
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
