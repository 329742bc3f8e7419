"""Slopes across leaves, in C."""

from __future__ import annotations

import numpy as np

from tether.export.c.numbers import literal, table
from tether.model import Model


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
