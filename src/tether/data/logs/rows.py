"""Rows of a log in the order in which they follow each other, and where they do not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether.data import Array, Places, number_episodes
from tether.data.files import Table, check_episodes, find_column, naming, read_matrix, read_table
from tether.data.logs.settings import LogConfig
from tether.data.logs.times import read_times
from tether.data.logs.unread import uneven_steps, unread_time
from tether.foundation.documents import shorten, such
from tether.foundation.limits import LARGEST_TABLE

Mask = NDArray[np.bool_]
Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows, episode by episode.

    Attributes:
        values: (N, C) states, controls, outcomes.
        times: (N,), or None.
        episodes: (N,) never decreasing.
        breaks: (N,) whether a row does not follow the one above it; a *stretch* lies between two breaks.
        tables: (N,) the table that a row is from.
        places: (N,) its number in there.
        names: of the tables.
        unread: a column that looks like a time and was not named as one, and how many steps of it are uneven.
    """

    values: Array
    times: Array | None
    episodes: Numbers
    breaks: Mask
    tables: Numbers
    places: Numbers
    names: tuple[str, ...]
    unread: tuple[str, int] = ("", 0)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def continued(self) -> Mask:
        """(N,) whether a row has the episode of the one above it, consecutive or not."""
        return np.concatenate([[False], self.episodes[1:] == self.episodes[:-1]])[: len(self)]

    def take(self, rows: Mask | Numbers) -> Rows:
        """Some of the rows; what follows what must be settled by the caller."""
        times = None if self.times is None else self.times[rows]
        parts = (self.values, self.episodes, self.breaks, self.tables, self.places)
        values, episodes, breaks, tables, places = (part[rows] for part in parts)
        return replace(
            self, values=values, times=times, episodes=episodes, breaks=breaks, tables=tables, places=places
        )

    def without(self, dropped: Mask, *, severing: Mask | None = None) -> Rows:
        """The other rows; those around a dropped one are not consecutive unless it is not `severing`."""
        cuts = self.breaks | (dropped if severing is None else severing)
        stretch = np.cumsum(cuts)[~dropped]
        kept = self.take(~dropped)
        return replace(kept, breaks=np.diff(stretch, prepend=-1) != 0)

    @property
    def where(self) -> Places:
        """Where all rows are."""
        return Places(self.tables, self.places, self.names)

    def describe(self, row: int) -> str:
        """Where a row is, for a message."""
        return self.where.describe(row)


def read_rows(
    sources: Sequence[Any], config: LogConfig, *, paired: bool = False, names: tuple[str, ...] | None = None
) -> tuple[Rows, int]:
    """The rows of all tables, those with missing or invalid values still among them; and their number.

    Those without an episode, if such may be dropped, are only in the number. Where they are to be paired, a
    time that was not named as one is looked at. Sources may be tables, with names for messages.
    """
    parts: list[Rows] = []
    size = count = 0
    for source in sources:
        with naming(source):
            table = source if isinstance(source, dict) else read_table(source)
            part = _rows_of(table, config, paired=paired)
        parts.append(part)
        count += len(next(iter(table.values()), ()))
        size += part.values.nbytes
        if size > LARGEST_TABLE:
            raise ValueError(
                f"`data` must hold at most {LARGEST_TABLE:,} bytes of numbers; got more. Read fewer "
                "files at once."
            )
    names = names or tuple(
        str(source) if isinstance(source, str) or hasattr(source, "parts") else "" for source in sources
    )
    return _together(parts, names), count


def drop_invalid(rows: Rows) -> Rows:
    """Without rows that lack a value; their neighbours are not consecutive."""
    known = np.isfinite(rows.values)
    if rows.times is not None:
        known = np.column_stack([known, np.isfinite(rows.times)])
    bad: Mask = np.any(~known, axis=1)
    return rows.without(bad) if bad.any() else rows


def _rows_of(table: Table, config: LogConfig, *, paired: bool) -> Rows:
    """One table, episode by episode, whether or not its episodes are contiguous."""
    for name in config.columns:
        find_column(table, name)
    values = read_matrix(table, config.columns, invalid_as_nan=config.drop_invalid)
    count = len(values)
    ids, lost = _episodes_of(table, config, count)
    if paired and config.next_states is None:
        values = _ended(values, config, ids)
    if not config.drop_invalid:
        _check_finite(values, config.columns)
    times = None if config.time is None else _times_of(table, config, count)
    # A row of no known episode may belong to any: nothing is joined across it.
    section, order = np.cumsum(lost), np.argsort(ids, kind="stable")
    order = order[~lost[order]]
    turn = np.diff(ids[order], prepend=-1) != 0
    breaks = turn | (np.diff(section[order], prepend=-1) != 0)
    clock = unread_time(table, config) if paired else None
    uneven = 0 if clock is None else uneven_steps(table, clock, config, order, ~breaks)
    return Rows(
        values[order],
        None if times is None else times[order],
        np.cumsum(turn) - 1,
        breaks,
        np.zeros(len(order), dtype=np.int64),
        order,
        ("",),
        (clock or "", uneven),
    )


def _ended(values: Array, config: LogConfig, ids: Numbers) -> Array:
    """With the controls of the row before where the last of an episode lacks its own: they steer nothing."""
    first = len(config.states)
    if not np.isnan(values[:, first:]).any():
        return values
    order = np.argsort(ids, kind="stable")
    ends = np.flatnonzero((np.diff(ids[order]) == 0) & (np.diff(ids[order], append=-1)[1:] != 0))
    before, last = order[ends], order[ends + 1]
    values = values.copy()
    values[last, first:] = np.where(
        np.isnan(values[last, first:]), values[before, first:], values[last, first:]
    )
    return values


def _times_of(table: Table, config: LogConfig, count: int) -> Array:
    assert config.time is not None
    column = find_column(table, config.time)
    if len(column) != count:
        raise ValueError(
            f"`data` must have columns of one length; got {len(column)} rows of '{config.time}', not {count}."
        )
    times = read_times(column, config.time, invalid_as_nan=config.drop_invalid)
    if not config.drop_invalid:
        _check_finite(times[:, None], (config.time,))
    return times


def _episodes_of(table: Table, config: LogConfig, count: int) -> tuple[Numbers, Mask]:
    """(N,) numbers of episodes, and which rows have none."""
    if config.independent_rows:
        return np.arange(count), np.zeros(count, dtype=bool)
    if config.episode is None:
        return np.zeros(count, dtype=np.int64), np.zeros(count, dtype=bool)
    ids = find_column(table, config.episode)
    lost = check_episodes(ids, config.episode, count)
    if lost.any() and not config.drop_invalid:
        raise ValueError(
            f"`data` must have an episode id in every row; got none at row {int(np.argmax(lost))}, column "
            f"'{config.episode}' ({such(int(lost.sum()), 'row')}). {_REMEDY}"
        )
    return number_episodes(ids), lost


_REMEDY = "Repair those rows, or drop them with `drop_invalid=True` (command line: `--drop-invalid`)."


def _check_finite(values: Array, names: Sequence[str]) -> None:
    bad = ~np.isfinite(values)
    if bad.any():
        row, column = (int(k) for k in np.argwhere(bad)[0])
        raise ValueError(
            f"`data` must be finite; got {values[row, column]} at row {row}, column "
            f"'{shorten(names[column])}' ({such(int(bad.sum()), 'value')}). {_REMEDY}"
        )


def _together(parts: Sequence[Rows], names: tuple[str, ...]) -> Rows:
    """The rows of several tables; no episode goes on from one to the next."""
    counts = [int(part.episodes[-1]) + 1 if len(part) else 0 for part in parts]
    firsts = np.concatenate([[0], np.cumsum(counts)])
    clock = next((part.unread[0] for part in parts if part.unread[1]), "")
    return Rows(
        np.concatenate([part.values for part in parts]),
        _joined([part.times for part in parts]),
        np.concatenate([part.episodes + first for part, first in zip(parts, firsts, strict=False)]),
        np.concatenate([part.breaks for part in parts]),
        np.repeat(np.arange(len(parts)), [len(part) for part in parts]),
        np.concatenate([part.places for part in parts]),
        names,
        (clock, sum(part.unread[1] for part in parts)),
    )


def _joined(times: Sequence[Array | None]) -> Array | None:
    known = [each for each in times if each is not None]
    return np.concatenate(known) if known else None
