"""How far the room opens around what probes agree on, in C."""

from __future__ import annotations

from typing import Any

import numpy as np

from tether.export.c.numbers import table


def opening_code(columns: Any) -> str:
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


def pins_code(rate: np.ndarray) -> str:
    """Whether probes agree on anything, by their rates."""
    return f"enum {{ @_PINS = {int((rate > 0).any())} }};\n"
