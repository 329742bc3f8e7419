"""Where outputs may be, in C, by the kind of tether: ``@_room`` and its derivatives, ``@_slopes``.

Each is given an input as the library has it, and fills `lower`, `upper`, `anchor` and `delta`; the room is
between ``middle - width`` and ``middle + width``, of which the derivatives are.
"""

from __future__ import annotations

from tether.data import HALF_TURN
from tether.export.c.rooms.across import across_code
from tether.export.c.rooms.cells import interval, interval_single
from tether.export.c.rooms.free import free
from tether.export.c.rooms.leaves import affine, affine_single
from tether.export.c.rooms.planes import monotone
from tether.model import Model
from tether.model.single import single_precision
from tether.model.single.rounding import HALF_TURN as SINGLE_HALF_TURN
from tether.model.single.rounding import UNIT

__all__ = ["ROOM", "STRUCT", "across_code", "compensation", "room_code"]


STRUCT = """
struct @_room {
    REAL lower[@_OUTPUTS], upper[@_OUTPUTS], anchor[@_OUTPUTS], delta[@_OUTPUTS];
    int cell, leaf[@_OUTPUTS], closed[@_OUTPUTS], inside;
};
"""
ROOM = """
static void @_room(const REAL *x, struct @_room *room)
{
    @_begin(x, room);
    @_finish(x, room);
}
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


def compensation(model: Model, kind: str) -> tuple[float, float, float]:
    """What a row's delta is widened by for its last sum, what it is multiplied by, and a half turn."""
    if kind == "double":
        return 0.0, 1.0, HALF_TURN
    return UNIT, single_precision(model).tether.compensation, SINGLE_HALF_TURN


_ROOMS = {"unconstrained": free, "interval": interval, "affine": affine, "monotone": monotone}
_SINGLE = {"interval": interval_single, "affine": affine_single}
