"""Single rows that leap away and come back at once: a glitch, mostly."""

from __future__ import annotations

import numpy as np

from tether.data import wrap_angle
from tether.data.logs.rows import Rows
from tether.data.logs.settings import LogConfig

_LEAST_ROWS = 300
"""Fewer do not tell what is usual."""
_FAR = 20.0
"""In steps that all but a hundredth of the steps stay below."""
_BACK = 0.2
"""Share of the leap within which the row after lies of the row before."""


def find_spikes(rows: Rows, config: LogConfig) -> tuple[int, str]:
    """How many rows are spikes in some state, and the first of them in words."""
    if config.next_states is not None or len(rows) < _LEAST_ROWS:
        return 0, ""
    middle = np.flatnonzero(~rows.breaks[1:-1] & ~rows.breaks[2:]) + 1
    spikes, first = set[int](), ""
    for column, name in enumerate(config.states):
        values = rows.values[:, column]
        away, back = values[middle] - values[middle - 1], values[middle + 1] - values[middle]
        if name in config.angles:
            away, back = wrap_angle(away), wrap_angle(back)
        leap = np.minimum(np.abs(away), np.abs(back))
        usual = float(np.quantile(np.abs(away), 0.99)) if len(away) else 0.0
        found = middle[(leap > _FAR * usual) & (np.abs(away + back) <= _BACK * leap)]
        if usual > 0 and len(found):
            row = int(found[0])
            before, at, after = (f"{value:.6g}" for value in values[row - 1 : row + 2])
            first = first or f"'{name}' is {at} at {rows.describe(row)}, {before} before and {after} after"
            spikes |= set(found.tolist())
    return len(spikes), first
