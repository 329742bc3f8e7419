"""A few rows that leap away and come back: a glitch, mostly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tether.data import Array, wrap_angle
from tether.data.logs.rows import Mask, Numbers, Rows
from tether.data.logs.settings import LogConfig

_LEAST_ROWS = 300
"""Fewer do not tell what is usual."""
_FAR = 20.0
"""In steps that all but a hundredth of the steps stay below."""
_BACK = 0.2
"""Share of the leap within which the row after lies of the row before."""
_LONGEST = 10
"""Rows; what stays away longer may have moved there."""


@dataclass(frozen=True)
class _Part:
    """Rows `first` to before `end`, with a leap before them and after them, or an end of their stretch."""

    first: int
    end: int
    leaps_there: bool
    leaps_back: bool


def find_spikes(rows: Rows, config: LogConfig) -> tuple[int, str]:
    """How many rows are spikes in some state, and the first of them in words."""
    if config.next_states is not None or len(rows) < _LEAST_ROWS:
        return 0, ""
    spikes, words = set[int](), ""
    for column, name in enumerate(config.states):
        found = _spikes(rows.values[:, column], rows.breaks, name in config.angles)
        words = words or (f"'{name}' is {_describe(rows, column, found[0])}" if found else "")
        spikes.update(row for part in found for row in range(part.first, part.end))
    return len(spikes), words


def _spikes(values: Array, breaks: Mask, angle: bool) -> list[_Part]:
    steps = np.diff(values, prepend=values[:1])
    steps = np.where(breaks, 0.0, wrap_angle(steps) if angle else steps)
    usual = float(np.quantile(np.abs(steps[~breaks]), 0.99)) if not breaks.all() else 0.0
    parts = list(_parts(np.abs(steps) > _FAR * usual, breaks)) if usual > 0 else []
    within = [part for part in parts if part.leaps_there and part.leaps_back]
    gone = np.array([values[part.end] - values[part.first - 1] for part in within])
    leap = np.array([min(abs(steps[part.first]), abs(steps[part.end])) for part in within])
    came_back = np.abs(wrap_angle(gone) if angle else gone) <= _BACK * leap
    found = [part for part, back in zip(within, came_back, strict=True) if back]
    return (
        found
        if angle
        else [*found, *_far_ends(values, [part for part in parts if part.leaps_there != part.leaps_back])]
    )


def _far_ends(values: Array, ends: list[_Part]) -> list[_Part]:
    """Those ends of stretches that lie beyond everything else: nothing comes back there."""
    others = np.ones(len(values), dtype=bool)
    for part in ends:
        others[part.first : part.end] = False
    low, high = values[others].min(), values[others].max()
    beyond = (values < low) | (values > high)
    return [part for part in ends if beyond[part.first : part.end].any()]


def _parts(leaps: Mask, breaks: Mask) -> Iterator[_Part]:
    """Short parts of stretches with a leap on one side at least, and longer ones beyond their leaps."""
    edges: Numbers = np.flatnonzero(leaps | breaks)
    ends = np.append(edges, len(leaps))[1:]
    length, there, back = ends - edges, leaps[edges], np.append(leaps[edges], False)[1:]
    beyond = np.maximum(
        np.where(there, np.concatenate([[0], length[:-1]]), 0), np.where(back, np.append(length, 0)[1:], 0)
    )
    for k in np.flatnonzero((length <= _LONGEST) & (beyond > length)):
        yield _Part(int(edges[k]), int(ends[k]), bool(there[k]), bool(back[k]))


def _describe(rows: Rows, column: int, part: _Part) -> str:
    first, end = part.first, part.end
    at, before, after = (f"{rows.values[row % len(rows), column]:.6g}" for row in (first, first - 1, end))
    there = f"{before} before" if part.leaps_there else "where a stretch of the log begins,"
    back = f"{after} after" if part.leaps_back else "at the end of a stretch of the log"
    return f"{at} at {rows.describe(first)}, {there} and {back}"
