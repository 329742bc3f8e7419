"""Logs larger than memory: read piece by piece, and a sample of their transitions that fits.

A piece is a file, or consecutive row groups of a ``.parquet`` file or rows of an ``.npy`` file. No episode
goes over the end of one: with an episode column, the rows of the last are kept for the next piece; without
one, each row group is an episode.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tether.data import Array, Transitions
from tether.data.files import Table, find_column, map_npy, naming, open_parquet, read_table
from tether.data.findings import LogReport
from tether.data.logs.settings import LogConfig
from tether.data.logs.sources import find_sources

PIECE_ROWS = 1 << 18


class Piece(NamedTuple):
    """Whole episodes of a file.

    Attributes:
        name: of the file; empty where it is none.
        first: whether it is the first piece of it.
        table: its columns.
    """

    name: str
    first: bool
    table: Table


def read_pieces(source: Any, config: LogConfig) -> Iterator[Piece]:
    """The tables that make up a log one after the other."""
    for each in find_sources(source):
        name = str(each) if isinstance(each, str | Path) else ""
        with naming(each):
            for number, table in enumerate(_whole_episodes(_tables(each, config), config.episode)):
                yield Piece(name, number == 0, table)


def _tables(source: Any, config: LogConfig) -> Iterator[Table]:
    suffix = Path(source).suffix.lower() if isinstance(source, str | Path) else ""
    if suffix == ".parquet":
        yield from _row_groups(Path(source), config)
    elif suffix == ".npy":
        yield from _slices(map_npy(Path(source)), config)
    else:
        yield read_table(source)


def _named(config: LogConfig) -> list[str]:
    """Columns that are read."""
    return list(dict.fromkeys([*config.columns, *filter(None, (config.episode, config.time))]))


def _row_groups(path: Path, config: LogConfig) -> Iterator[Table]:
    """Row groups; as many at once as make up a piece, where a column tells episodes apart."""
    with open_parquet(path) as file:
        for name in _named(config):
            find_column(dict.fromkeys(file.schema_arrow.names, np.empty(0)), name)
        about, waiting = file.metadata, []
        for group in range(about.num_row_groups):
            waiting.append(group)
            rows = sum(about.row_group(k).num_rows for k in waiting)
            if config.episode is None or rows >= PIECE_ROWS or group == about.num_row_groups - 1:
                table = file.read_row_groups(waiting, columns=_named(config))
                yield {name: table.column(name).to_numpy() for name in table.column_names}
                waiting = []


def _slices(table: Table, config: LogConfig) -> Iterator[Table]:
    """Rows of a mapped file; all of them, where nothing tells episodes apart."""
    columns = {name: find_column(table, name) for name in _named(config)}
    rows = len(next(iter(columns.values())))
    step = PIECE_ROWS if config.episode is not None else max(rows, 1)
    for start in range(0, max(rows, 1), step):
        yield {name: np.array(column[start : start + step]) for name, column in columns.items()}


def _whole_episodes(tables: Iterator[Table], episode: str | None) -> Iterator[Table]:
    """The same rows, cut between episodes."""
    if episode is None:
        yield from tables
        return
    ended: set[Any] = set()
    rest: Table | None = None
    for table in tables:
        joined = table if rest is None else {k: np.concatenate([rest[k], table[k]]) for k in table}
        ids = find_column(joined, episode)
        other = np.flatnonzero(ids != ids[-1]) if len(ids) else np.empty(0, np.int64)
        cut = int(other[-1]) + 1 if len(other) else 0
        rest = {name: column[cut:] for name, column in joined.items()}
        if cut:
            _check_together(ids[:cut], ended, episode)
            yield {name: column[:cut] for name, column in joined.items()}
    if rest is not None:
        _check_together(find_column(rest, episode), ended, episode)
        yield rest


def _check_together(ids: NDArray[Any], ended: set[Any], episode: str) -> None:
    """Raises where an episode goes on that had ended in an earlier piece; notes those that end here."""
    here = set(ids.tolist())
    again = here & ended
    if again:
        raise ValueError(
            f"`data` must have the rows of an episode together to be read in pieces; got more of "
            f"{next(iter(again))!r} in column '{episode}' after others. Sort the file by it."
        )
    ended |= here


@dataclass(frozen=True, eq=False)
class _Kept:
    """Transitions, and the number from 0 to 1 that was drawn for each."""

    transitions: Transitions
    key: Array

    def below(self, rate: float) -> _Kept:
        kept = self.key < rate
        return _Kept(self.transitions.take(kept), self.key[kept])


def sample(pieces: Iterator[Transitions], most: int, *, seed: int = 0) -> Transitions:
    """At most so many of the transitions, all equally likely, and besides these one of every episode.

    In one pass, that holds no more than a piece and twice what it keeps.
    """
    kept: list[_Kept] = []
    report: LogReport | None = None
    rate, episodes = 1.0, 0
    for number, piece in enumerate(pieces):
        key = np.random.default_rng([seed, number]).random(len(piece))
        _keep_one_of_each(key, piece.episodes)
        report = piece.report if report is None else _summed(report, piece.report)
        piece = replace(piece, episodes=piece.episodes + episodes)
        episodes = int(piece.episodes.max()) + 1
        kept.append(_Kept(piece, key).below(rate))
        if sum(len(part.key) for part in kept) > 2 * most:
            rate, kept = _thinned(kept, rate, most)
    if report is None:
        raise ValueError("`data` must hold two consecutive rows of one episode; got none.")
    if episodes > most:
        raise ValueError(
            f"`most_rows` must be at least the number of episodes; got {most:,} for {episodes:,}. Raise it."
        )
    if sum(len(part.key) for part in kept) > most:
        rate, kept = _thinned(kept, rate, most)
    parts = [part.transitions for part in kept]
    joined = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("states", "controls", "next_states", "episodes")
    }
    count = len(joined["states"])
    sampled = count if count < report.transitions else None
    # Rows of a piece are counted from its beginning, which says nothing of where in the file they are.
    return replace(
        parts[0], **joined, places=None, report=replace(report, episodes=episodes, sampled=sampled)
    )


def _keep_one_of_each(key: Array, episodes: NDArray[np.int64]) -> None:
    """Gives a 0 to the row of each episode that has drawn least."""
    order = np.lexsort((key, episodes))
    key[order[np.diff(episodes[order], prepend=-1) != 0]] = 0.0


def _thinned(kept: Sequence[_Kept], rate: float, most: int) -> tuple[float, list[_Kept]]:
    keys = np.concatenate([part.key for part in kept])
    always = int((keys == 0).sum())
    drawn = np.sort(keys[keys > 0])
    place = max(0, min(most - always, len(drawn)))
    rate = float(drawn[place]) if place < len(drawn) else rate
    rate = max(rate, np.finfo(np.float64).tiny)
    return rate, [part.below(rate) for part in kept]


def _summed(one: LogReport, other: LogReport | None) -> LogReport:
    """What was found in both; the longest gap of the two."""
    assert other is not None
    if one.step is not None and other.step is not None and abs(other.step - one.step) > 0.2 * one.step:
        raise ValueError(
            f"`data` must have one step throughout to be read in pieces; got {one.step:.6g} in one and "
            f"{other.step:.6g} in another. Resample it with `step` (command line: `--step`)."
        )
    longer = one if one.longest_gap >= other.longest_gap else other
    kept = ("step", "unread", "longest_gap", "longest_at", "first_spike", "sampled")
    total = {
        field.name: _sum(getattr(one, field.name), getattr(other, field.name))
        for field in fields(one)
        if field.name not in kept
    }
    first = one.first_spike or other.first_spike
    return replace(
        one, **total, longest_gap=longer.longest_gap, longest_at=longer.longest_at, first_spike=first
    )


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other
