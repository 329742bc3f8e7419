"""A few rows that leap away and come back: glitches of a sensor, mostly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tether.data.schema import Array, wrap_angle
from tether.data.transitions import Transitions

Mask = NDArray[np.bool_]

LEAST_ROWS = 300
"""Fewer do not tell what is usual."""
_FAR = 20.0
"""In steps that all but a hundredth of the steps stay below."""
_BACK = 0.2
"""Share of the leap within which the row after lies of the row before."""
_SAME = 1e-9
"""Relative distance within which a state is the one that was next."""
_LONGEST = 10
"""Rows; what stays away longer may have moved there."""


@dataclass(frozen=True)
class Spike:
    """Rows `first` to before `end`, with a leap before them and after them, or an end of their stretch."""

    first: int
    end: int
    leaps_there: bool
    leaps_back: bool


def joined(part: Transitions) -> Mask:
    """(N - 1,) whether a row's next state is the state of the row below, in the same episode."""
    following = part.states[1:, part.schema.advances]
    near = part.schema.distance(part.next_states[:-1], following) <= _SAME * (1 + np.abs(following))
    return np.logical_and.reduce(near, axis=1) & (part.episodes[1:] == part.episodes[:-1])


def find_glitches(part: Transitions) -> Mask:
    """(N,) rows that lead to, or begin at, a state that leaps away and comes back."""
    schema, found = part.schema, np.zeros(len(part), dtype=bool)
    if min(schema.advances, default=-1) < 0 or len(part) < LEAST_ROWS:
        return found
    begins = np.concatenate([[True], ~joined(part)])
    place = np.arange(len(part)) + np.cumsum(begins) - 1  # a stretch has one state more than it has rows
    values = np.empty((place[-1] + 2, len(schema.outputs)))
    values[place + 1] = part.next_states
    values[place] = schema.base(part.states)
    breaks = np.zeros(len(values), dtype=bool)
    breaks[place[begins]] = True
    for column, angle in zip(values.T, schema.output_angles, strict=True):
        wild = np.zeros(len(values), dtype=bool)
        for spike in spikes_of(column, breaks, bool(angle)):
            wild[spike.first : spike.end] = True
        found |= wild[place] | wild[place + 1]
    return found


def spikes_of(values: Array, breaks: Mask, angle: bool) -> list[Spike]:
    """In a column (N,), where stretches begin at breaks (N,)."""
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


def _far_ends(values: Array, ends: list[Spike]) -> list[Spike]:
    """Those ends of stretches that lie beyond everything else: nothing comes back there."""
    others = np.ones(len(values), dtype=bool)
    for part in ends:
        others[part.first : part.end] = False
    low, high = values[others].min(), values[others].max()
    beyond = (values < low) | (values > high)
    return [part for part in ends if beyond[part.first : part.end].any()]


def _parts(leaps: Mask, breaks: Mask) -> Iterator[Spike]:
    """Short parts of stretches with a leap on one side at least, and longer ones beyond their leaps."""
    edges = np.flatnonzero(leaps | breaks)
    ends = np.append(edges, len(leaps))[1:]
    length, there, back = ends - edges, leaps[edges], np.append(leaps[edges], False)[1:]
    beyond = np.maximum(
        np.where(there, np.concatenate([[0], length[:-1]]), 0), np.where(back, np.append(length, 0)[1:], 0)
    )
    for k in np.flatnonzero((length <= _LONGEST) & (beyond > length)):
        yield Spike(int(edges[k]), int(ends[k]), bool(there[k]), bool(back[k]))
