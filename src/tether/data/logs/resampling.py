"""Rows at a fixed step, from rows at any times."""

from __future__ import annotations

import numpy as np

from tether.data import Array, near
from tether.data.logs.rows import Mask, Numbers, Rows
from tether.foundation.limits import LARGEST_TABLE

_SLACK = 1e-6
"""Of a step, within which a row counts as being at a time: times are rounded."""


def resample(rows: Rows, step: float, *, states: int, angles: Mask) -> tuple[Rows, int]:
    """Rows every `step` from the beginning of each stretch on, and how many lie in coarser stretches.

    Args:
        rows: with times that increase within stretches.
        step: in the unit of the times.
        states: how many of the columns are states, which are interpolated; the others are held.
        angles: (C,) columns that wrap, interpolated along the shorter arc.
    """
    assert rows.times is not None
    starts = np.flatnonzero(rows.breaks)
    ends = np.append(starts[1:], len(rows))
    _check_count(rows, starts, ends, step)
    parts = [
        _grid(rows.times[start:end] - rows.times[start], step)
        for start, end in zip(starts, ends, strict=True)
    ]
    counts = np.array([len(part.before) for part in parts], dtype=np.int64)
    before = np.concatenate([part.before + start for part, start in zip(parts, starts, strict=True)])
    share = np.concatenate([part.share for part in parts])
    # The share is 0 at the last row, which has no next one in its stretch.
    after = np.where(share > 0, np.minimum(before + 1, len(rows) - 1), before)
    found = rows.take(before)
    values = found.values.copy()
    values[:, :states] = _between(rows.values[:, :states], before, after, share, angles[:states])
    breaks = np.zeros(len(found), dtype=bool)
    breaks[np.cumsum(counts) - counts] = True
    times = rows.times[before] + share * (rows.times[after] - rows.times[before])
    coarse = sum(len(part.before) for part in parts if part.coarse)
    return Rows(values, times, found.episodes, breaks, found.tables, found.places, rows.names), coarse


class _Grid:
    """Where times of a fixed step lie among the times (n,) of a stretch that begins at 0."""

    def __init__(self, before: Numbers, share: Array, *, coarse: bool) -> None:
        self.before = before
        self.share = share
        self.coarse = coarse


def _grid(times: Array, step: float) -> _Grid:
    grid = step * np.arange(int(np.floor(times[-1] / step + _SLACK)) + 1)
    before = np.searchsorted(times, grid + _SLACK * step, side="right") - 1
    following = np.minimum(before + 1, len(times) - 1)
    apart = times[following] - times[before]
    share = np.clip((grid - times[before]) / np.where(apart > 0, apart, 1.0), 0.0, 1.0)
    share = np.where((apart > 0) & (grid - times[before] > _SLACK * step), share, 0.0)
    coarse = len(times) > 1 and float(np.median(np.diff(times))) > 1.5 * step
    return _Grid(before, share, coarse=coarse)


def _between(values: Array, before: Numbers, after: Numbers, share: Array, angles: Mask) -> Array:
    """(M, C) between two rows each, by a share of the way."""
    first, second = values[before], values[after]
    if angles.any():
        second = np.where(angles, near(second, first), second)
    # In this form a share of 0 gives the first row bit for bit.
    return first + share[:, None] * (second - first)


def _check_count(rows: Rows, starts: Numbers, ends: Numbers, step: float) -> None:
    assert rows.times is not None
    count = float(((rows.times[ends - 1] - rows.times[starts]) / step + 1).sum())
    most = LARGEST_TABLE // (8 * max(1, rows.values.shape[1]))
    if not count <= most:
        raise ValueError(
            f"`step` must give at most {most:,} rows; got {step:g}, which gives {count:.3g}. Choose a larger "
            "one: it is in the unit of the column of time."
        )
