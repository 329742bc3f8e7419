"""Where time does not go on as it should: backwards, not at all, too far, too little."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tether.data import Array
from tether.data.logs.rows import Mask, Rows

BRIDGED = 3.0
"""Steps that may pass between two rows for values between them to be interpolated."""
PAUSE = 10.0
"""Steps after which an episode is another one. Where fewer are missing it goes on, because what lies on both
sides of a short gap is all but the same, and must not be in training and test data."""
_JUDGED = 10
"""Steps that an episode must have for its median to be one."""
_SLACK = 1e-6


@dataclass(frozen=True, eq=False)
class Gaps:
    """Rows, split where time jumps; how often it does, and the row after its longest jump."""

    rows: Rows
    step: float
    longer: int
    shorter: int
    pauses: int
    longest: float
    longest_row: int


def drop_repeated(rows: Rows, time: str) -> tuple[Rows, int]:
    """Without rows that bear the time of the one above, and how many of those differ from it.

    A copy is dropped without a trace. Of rows that differ the first is kept, and not joined to what follows.
    """
    elapsed = _elapsed(rows)
    backwards = elapsed < 0
    if backwards.any():
        assert rows.times is not None
        row = int(np.argmax(backwards))
        raise ValueError(
            f"`time` must not go backwards within an episode; got {rows.times[row]:.10g} after "
            f"{rows.times[row - 1]:.10g} in column '{time}', {rows.describe(row)} ({int(backwards.sum())} "
            "such rows). Sort the rows by time, or name the column that tells runs apart with `episode` "
            "(command line: `--episode`)."
        )
    repeated = elapsed == 0
    if not repeated.any():
        return rows, 0
    same = np.concatenate([[False], (rows.values[1:] == rows.values[:-1]).all(axis=1)])[: len(rows)]
    differing = repeated & ~same
    return rows.without(repeated, severing=differing), int(differing.sum())


def split_at_gaps(rows: Rows, time: str, *, tolerance: float, step: float | None) -> Gaps:
    """Breaks where the time between two rows is not about the median; or, to be resampled, far too long."""
    elapsed = _elapsed(rows)
    usable = rows.continued & ~rows.breaks
    if not usable.any():
        return Gaps(rows, step or 0.0, 0, 0, 0, 0.0, 0)
    median = float(np.median(elapsed[usable]))
    if step is None:
        usual: float | Array = median
        longer = usable & (elapsed > median * (1 + tolerance) * (1 + _SLACK))
        shorter = usable & (elapsed < median * (1 - tolerance) * (1 - _SLACK))
        _check_even(rows, elapsed, usable, longer | shorter, median, time, tolerance)
    else:
        usual = np.maximum(step, medians(rows, elapsed, usable))
        longer = usable & (elapsed > BRIDGED * usual * (1 + _SLACK))
        shorter = np.zeros_like(longer)
    pauses = rows.continued & (elapsed > PAUSE * usual * (1 + _SLACK))
    apart = np.where(longer, elapsed, 0.0)
    split = replace(
        rows,
        breaks=rows.breaks | longer | shorter,
        episodes=np.cumsum(~rows.continued | pauses) - 1,
    )
    return Gaps(
        split,
        median if step is None else step,
        int(longer.sum()),
        int(shorter.sum()),
        int(pauses.sum()),
        float(apart.max()),
        int(np.argmax(apart)),
    )


def medians(rows: Rows, elapsed: Array, usable: Mask) -> Array:
    """(N,) the median step of the episode of each row; 0 where it has none."""
    found = np.zeros(int(rows.episodes[-1]) + 1)
    for episode, steps in _by_episode(rows, elapsed, usable):
        found[episode] = np.median(steps)
    return found[rows.episodes]


def _by_episode(rows: Rows, elapsed: Array, usable: Mask) -> list[tuple[int, Array]]:
    ids, steps = rows.episodes[usable], elapsed[usable]
    starts = np.flatnonzero(np.diff(ids, prepend=-1))
    return [(int(ids[start]), part) for start, part in zip(starts, np.split(steps, starts[1:]), strict=True)]


def _elapsed(rows: Rows) -> Array:
    """(N,) time since the row above of the same episode, NaN for the first."""
    assert rows.times is not None
    elapsed = np.diff(rows.times, prepend=np.nan)
    return np.where(rows.continued, elapsed, np.nan)


def _check_even(
    rows: Rows, elapsed: Array, usable: Mask, odd: Mask, median: float, time: str, tolerance: float
) -> None:
    """Raises where splitting would leave next to nothing, or only episodes of one of several steps."""
    share = odd.sum() / usable.sum()
    episodes = _by_episode(rows, elapsed, usable)
    # The longest, because resampling to a shorter one would have to invent rows.
    longest = max([median, *(float(np.median(steps)) for _, steps in episodes if len(steps) >= _JUDGED)])
    remedy = f"Resample it, for example with `step={longest:.3g}` (command line: `--step {longest:.3g}`)."
    for episode, steps in episodes:
        own = float(np.median(steps))
        if len(steps) >= _JUDGED and abs(own - median) > tolerance * median * (1 + _SLACK):
            row = int(np.argmax(rows.episodes == episode))
            raise ValueError(
                f"`time` must advance by one step in all episodes; got a median of {own:.6g} in the episode "
                f"that begins at {rows.describe(row)}, and of {median:.6g} in all, in column '{time}'. "
                f"{remedy}"
            )
    if share > 0.5:
        raise ValueError(
            f"`time` must advance by about one step; got {100 * share:.0f} % of steps farther than "
            f"{100 * tolerance:.0f} % from the median {median:.6g} in column '{time}'. {remedy}"
        )
