"""Long episodes cut into blocks, so that some can be kept for testing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tether.data import Array
from tether.data.logs.rows import Numbers, Rows


def cut_blocks(rows: Rows, *, length: int | None = None, duration: float | None = None) -> Rows:
    """Each block of `length` rows, or of a `duration`, an episode of its own; no cut is bridged.

    What is left at the end of an episode joins the block before it, unless it is at least half a block.
    """
    starts = np.flatnonzero(~rows.continued)
    counts = np.diff(np.append(starts, len(rows)))
    if duration is not None:
        assert rows.times is not None
        passed: Array = rows.times - np.repeat(rows.times[starts], counts)
        size, total = duration, passed[starts + counts - 1]
    else:
        assert length is not None
        passed = np.arange(len(rows)) - np.repeat(starts, counts).astype(np.float64)
        size, total = float(length), counts.astype(np.float64)
    last = np.maximum(np.floor(total / size + 0.5), 1) - 1
    # Times are rounded: one at the very edge belongs to the block that it begins.
    block = np.minimum(np.floor(passed / size + 1e-9), np.repeat(last, counts))
    begins = ~rows.continued | (np.diff(block, prepend=-1) != 0)
    episodes: Numbers = np.cumsum(begins) - 1
    return replace(rows, episodes=episodes, breaks=rows.breaks | begins)
