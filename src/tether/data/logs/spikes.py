"""What to say of rows of a log that leap away and come back."""

from __future__ import annotations

from tether.data.glitches import LEAST_ROWS, Spike, spikes_of
from tether.data.logs.rows import Rows
from tether.data.logs.settings import LogConfig


def find_spikes(rows: Rows, config: LogConfig) -> tuple[int, str]:
    """How many rows are spikes in some state, and the first of them in words."""
    if config.next_states is not None or len(rows) < LEAST_ROWS:
        return 0, ""
    spikes, words = set[int](), ""
    for column, name in enumerate(config.states):
        found = spikes_of(rows.values[:, column], rows.breaks, name in config.angles)
        words = words or (f"'{name}' is {_describe(rows, column, found[0])}" if found else "")
        spikes.update(row for part in found for row in range(part.first, part.end))
    return len(spikes), words


def _describe(rows: Rows, column: int, part: Spike) -> str:
    first, end = part.first, part.end
    at, before, after = (f"{rows.values[row % len(rows), column]:.6g}" for row in (first, first - 1, end))
    there = f"{before} before" if part.leaps_there else "where a stretch of the log begins,"
    back = f"{after} after" if part.leaps_back else "at the end of a stretch of the log"
    return f"{at} at {rows.describe(first)}, {there} and {back}"
