"""One range for each cell, in C."""

from __future__ import annotations

from tether.export.c.rooms.free import AT_ONCE, LEVEL
from tether.export.c.rooms.tables import buffers, tables_code
from tether.export.c.search import search_code
from tether.model import Model
from tether.model.single import single_precision


def interval(model: Model) -> str:
    """In float64."""
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
    return searched + tables_code("double", tables) + _CELLS + AT_ONCE + LEVEL


def interval_single(model: Model) -> str:
    """In float32."""
    own = buffers(single_precision(model).tether)
    names = {"box_low": "box_lower", "box_high": "box_upper", "reach": "limit", "delta": "spread"}
    tables = {name: own[names.get(name, name)] for name in (*names, "lower", "upper")}
    searched = search_code(own["centers"], None, own["inverse_scale"], "float")
    return searched + tables_code("float", tables) + _CELLS + AT_ONCE + LEVEL


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
