"""A column that looks like the time of a log and was not named as such.

Without it rows are taken to follow each other in the order they are in, one step apart. Where such a column
says otherwise, that is worth a word; where it goes backwards, what would be paired never followed.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from tether.data.files import Table
from tether.data.logs.settings import LogConfig
from tether.data.logs.times import read_times
from tether.foundation.documents import shorten

_NAMES = ("t", "time", "timestamp", "stamp", "seconds", "secs", "elapsed", "datetime", "time_s", "t_s")


def unread_time(table: Table, config: LogConfig) -> str | None:
    """The name of such a column; None where there is none, or none is needed."""
    if config.time is not None or config.next_states is not None or config.independent_rows:
        return None
    used = {*config.columns, config.episode}
    return next((name for name in table if name not in used and _plain(name) in _NAMES), None)


def uneven_steps(
    table: Table, name: str, config: LogConfig, order: NDArray[np.int64], follows: NDArray[np.bool_]
) -> int:
    """How many steps of such a column are not as long as the rest.

    Args:
        table: with the column.
        name: of it.
        config: how uneven a step may be.
        order: (N,) numbers of rows, as they follow each other.
        follows: (N,) whether each does follow the one before.

    Raises:
        ValueError: it goes backwards.
    """
    try:
        times = read_times(table[name], name, invalid_as_nan=True)
    except ValueError:
        return 0
    if len(times) < len(order):
        return 0
    steps = np.diff(times[order])[follows[1:]]
    steps = steps[np.isfinite(steps)]
    middle = float(np.median(steps)) if len(steps) else 0.0
    backwards = int((steps < 0).sum())
    if backwards:
        raise ValueError(
            f"`data` must hold rows in the order in which they followed each other; got {backwards:,} that "
            f"go back in '{shorten(name)}'. Name the column that tells runs apart with `episode` (command "
            "line: `--episode`); or, if it is one run, sort its rows."
        )
    return int((np.abs(steps - middle) > config.tolerance * middle).sum()) if middle > 0 else 0


def _plain(name: str) -> str:
    """Without a unit."""
    return re.split(r"\s*[\[(]", name.strip().lower())[0]
