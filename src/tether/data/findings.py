"""What was found in a log on the way to transitions, and what was done about it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from tether.foundation.documents import shorten, such

_DOUBT = 1e-3


@dataclass(frozen=True)
class LogReport:
    """What :func:`tether.read_log` read, dropped, split and resampled; `str` of it is a line for each.

    Attributes:
        tables: files and data frames read.
        rows: rows in them.
        transitions: transitions made.
        episodes: episodes that they belong to.
        invalid: rows dropped because a value is missing or no finite number.
        duplicates: rows dropped because they bear the time of the row before.
        conflicts: those of them whose values differ; nothing is joined across them.
        gaps: steps longer than the tolerance allows, at which the log was split.
        longest_gap: the longest of them, in the unit of time; 0 without any.
        longest_at: the table and row after it.
        short_steps: steps shorter than the tolerance allows, at which the log was split.
        pauses: gaps so long that a new episode begins after them.
        step: what M must advance by: the step asked for, or the median; None without a time column.
        resampled: rows after resampling; None without a step asked for.
        interpolated: those of them in stretches recorded more coarsely than the step asked for.
        blocks: episodes after cutting; None without a block asked for.
        history_only: rows that have too few older rows and only serve as history.
        unread: a column that looks like a time, was not named as one, and does not advance evenly.
        uneven: how many of its steps are not as long as the rest.
        spikes: rows that leap away in some state and come back at once.
        first_spike: the first of them in words.
        sampled: transitions that were kept, where they were to be fewer than were made; else None.
    """

    tables: int
    rows: int
    transitions: int = 0
    episodes: int = 0
    invalid: int = 0
    duplicates: int = 0
    conflicts: int = 0
    gaps: int = 0
    longest_gap: float = 0.0
    longest_at: str = ""
    short_steps: int = 0
    pauses: int = 0
    step: float | None = None
    resampled: int | None = None
    interpolated: int = 0
    blocks: int | None = None
    history_only: int = 0
    unread: str = ""
    uneven: int = 0
    spikes: int = 0
    first_spike: str = ""
    sampled: int | None = None

    @property
    def lines(self) -> tuple[str, ...]:
        """One line for each thing that was done; none for one table that was taken as it is."""
        found = (*self._found(), *self._sampled())
        if not found and self.tables == 1:
            return ()
        total = (
            f"data: {_count(self.transitions, 'transition')} of {_count(self.episodes, 'episode')} "
            f"from {_count(self.rows, 'row')} of {_count(self.tables, 'table')}"
        )
        return (total, *found)

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def _found(self) -> Iterator[str]:
        yield from self._looks()
        if self.invalid:
            yield f"dropped: {_count(self.invalid, 'row')} with a missing or invalid value"
        if self.duplicates:
            differing = f", {self.conflicts:,} of them with other values" if self.conflicts else ""
            yield f"dropped: {_count(self.duplicates, 'row')} with the time of the row before{differing}"
        if self.gaps:
            pauses = f"; {_count(self.pauses, 'new episode')} after long ones" if self.pauses else ""
            longest = f"the longest {self.longest_gap:.6g} before {self.longest_at}"
            yield f"split: at {_count(self.gaps, 'gap')}, {longest}{pauses}"
        if self.short_steps:
            yield f"split: at {_count(self.short_steps, 'step')} that came too early"
        if self.resampled is not None and self.step is not None:
            coarse = (
                f"; {self.interpolated:,} of them lie between rows recorded farther apart than that"
                if self.interpolated
                else ""
            )
            rows = f"{_count(self.resampled, 'row')}, one every {self.step:.6g}"
            yield f"resampled: to {rows}, states interpolated, controls held{coarse}"
        if self.blocks is not None:
            yield f"blocks: {_count(self.blocks, 'episode')} cut"
        if self.history_only:
            yield f"history: {_count(self.history_only, 'row')} with too few older ones only served as such"
        if self.step is not None:
            origin = "asked for" if self.resampled is not None else "the median"
            yield f"step: {self.step:.6g} ({origin}); M must advance by it"

    def _looks(self) -> Iterator[str]:
        """What somebody should look at."""
        if self.uneven:
            differ = f"{_count(self.uneven, 'step')} of it {'differs' if self.uneven == 1 else 'differ'}"
            yield (
                f"look: '{shorten(self.unread)}' is not read as the time, and {differ} from the rest; rows "
                "are joined across them. Name it with `time` (`--time`)"
            )
        if self.spikes:
            yield (
                f"look: {shorten(self.first_spike)} ({such(self.spikes, 'row')}). A glitch is "
                "measured by like any row and may stretch the operating box, although nothing is learned "
                "from it with box bounds: leave it empty and drop it with `drop_invalid` (`--drop-invalid`)"
            )

    def _sampled(self) -> Iterator[str]:
        if self.sampled is not None:
            # Hoeffding's bound, which also holds for draws without replacement.
            off = math.sqrt(math.log(2 / _DOUBT) / (2 * self.sampled))
            yield (
                f"sampled: {_count(self.sampled, 'transition')}, all equally likely, and one at least of "
                f"every episode; a share of them is within {off:.2%} of that of all ({1 - _DOUBT:.1%} sure)"
            )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
