"""Older values beside the present ones, for systems whose state is not all measured."""

from __future__ import annotations

import numpy as np

from tether.data import Array
from tether.data.logs.rows import Mask, Numbers, Rows
from tether.data.logs.settings import LogConfig


def ages(rows: Rows) -> Numbers:
    """(N,) how many rows of its stretch come before a row."""
    index = np.arange(len(rows))
    return index - np.maximum.accumulate(np.where(rows.breaks, index, 0))


def older_values(rows: Rows, column: int, count: int) -> Array:
    """(N, count) the values of a column one row ago, two rows ago, ...; only where :func:`ages` allow."""
    index = np.arange(len(rows))
    return np.stack([rows.values[np.maximum(index - ago, 0), column] for ago in range(1, count + 1)], axis=1)


def has_history(rows: Rows, count: int) -> Mask:
    """(N,) whether a row has so many older ones in its stretch."""
    return ages(rows) >= count


def with_histories(rows: Rows, config: LogConfig, first: int, last: int) -> Array:
    """(N, C) columns from `first` to before `last`, then the older values of those that have a history."""
    older = [
        older_values(rows, column, config.history[name])
        for column, name in enumerate(config.columns)
        if first <= column < last and name in config.history
    ]
    return np.concatenate([rows.values[:, first:last], *older], axis=1)
