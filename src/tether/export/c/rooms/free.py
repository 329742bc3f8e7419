"""No tether, in C, and what tethers have that find nothing beforehand or whose room is level."""

from __future__ import annotations

from tether.model import Model

AT_ONCE = """
/* Nothing is to be found beforehand. */
static void @_begin(const REAL *x, struct @_room *room)
{
    (void)x;
    (void)room;
}
"""


def free(model: Model) -> str:
    """Outputs may be anywhere."""
    del model
    return _FREE + AT_ONCE + LEVEL


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


LEVEL = """
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
