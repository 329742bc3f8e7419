"""Transitions from logs: one function, and what each of its options does in order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tether.data import Array, Schema, Transitions
from tether.data.files import naming
from tether.data.findings import LogReport
from tether.data.logs.blocks import cut_blocks
from tether.data.logs.gaps import drop_repeated, split_at_gaps
from tether.data.logs.history import has_history, with_histories
from tether.data.logs.pieces import read_pieces, sample
from tether.data.logs.resampling import resample
from tether.data.logs.rows import Rows, drop_invalid, read_rows
from tether.data.logs.settings import LogConfig
from tether.data.logs.sources import find_sources
from tether.data.logs.spikes import find_spikes
from tether.data.logs.wrapping import check_radians, check_wrapped


def read_log(source: Any, *, config: LogConfig | None = None, **settings: Any) -> Transitions:
    """Transitions from logs as they are; only rows that follow each other make one.

    Nothing is joined across files, episodes, gaps in time or dropped rows. What was dropped, split and
    resampled is in `report` of the result.

    Args:
        source: a ``.csv``, ``.npz`` or ``.parquet`` file, a folder of them, a pattern (``"logs/*.csv"``), a
            pandas or polars data frame, or several of these.
        config: all settings at once.
        settings: fields of :class:`LogConfig`, instead of `config`: `states`, `controls`, `episode`,
            `time`, `step`, `block`, `drop_invalid`, `history`, `angles`, ...
    """
    config = _settled(config, settings)
    if config.most_rows is not None:
        return sample(stream_log(source, config), config.most_rows)
    sources = find_sources(source)
    rows, count = read_rows(sources, config, paired=True)
    with naming(source if isinstance(source, str | Path) else None):
        return _made(rows, count, len(sources), config)


def stream_log(source: Any, config: LogConfig) -> Iterator[Transitions]:
    """The transitions of a log, piece by piece; episodes are numbered anew in each, and none is in two."""
    for piece in read_pieces(source, config):
        with naming(piece.name or None):
            rows, count = read_rows([piece.table], config, names=(piece.name,))
            try:
                yield _made(rows, count, int(piece.first), config)
            except _NothingLeftError:
                continue


def _made(rows: Rows, count: int, tables: int, config: LogConfig) -> Transitions:
    """Transitions of rows, of which there were so many in so many tables."""
    clock, uneven = rows.unread
    report = LogReport(tables, count, unread=clock, uneven=uneven)
    schema = config.schema
    rows, report = _cleaned(rows, config, report)
    rows, report = _split(rows, config, report)
    _check_angles(rows, config, config.angles, check_radians)  # once they are wrapped, it is hidden
    spikes, first = find_spikes(rows, config)
    report = replace(report, spikes=spikes, first_spike=first)
    rows, report = _at_one_step(rows, config, report)
    rows, report = _cut(rows, config, report)
    return _transitions(rows, schema, config, report)


class _NothingLeftError(ValueError):
    """No row has what makes a transition of it."""


def read_transitions(
    source: str | Path | Any,
    *,
    states: Sequence[str],
    controls: Sequence[str] = (),
    next_states: Sequence[str] | None = None,
    episode: str | None = None,
    angles: Sequence[str] = (),
    units: Mapping[str, str] | None = None,
    independent_rows: bool = False,
) -> Transitions:
    """Transitions from a table whose rows are as they should be: :func:`read_log` with its first options.

    Args:
        source: as for :func:`read_log`.
        states: columns of the state.
        controls: columns of the control applied in that state.
        next_states: columns of the outcome; by default the states of the following row of the same
            episode (the last row of each episode then only serves as an outcome).
        episode: column of the episode id; without it all rows are one episode.
        angles: columns in radians that wrap.
        units: unit of each column, by name.
        independent_rows: every row is an episode of its own; needs `next_states`.
    """
    return read_log(
        source,
        states=states,
        controls=controls,
        next_states=next_states,
        episode=episode,
        angles=angles,
        units=units,
        independent_rows=independent_rows,
    )


def _settled(config: LogConfig | None, settings: Mapping[str, Any]) -> LogConfig:
    if config is not None and settings:
        raise TypeError(f"`config` must come alone; got {', '.join(settings)} besides. Put them into it.")
    if config is not None:
        return config
    unknown = sorted(set(settings) - set(LogConfig.__dataclass_fields__))
    if unknown:
        raise TypeError(
            f"settings must be fields of LogConfig; got {', '.join(unknown)}. "
            f"There are: {', '.join(LogConfig.__dataclass_fields__)}."
        )
    if "states" not in settings:
        raise TypeError(
            "`states` must name the columns of the state; got none. Pass `states=[...]`, and "
            "`controls=[...]` where there are any."
        )
    return LogConfig(**settings)


def _cleaned(rows: Rows, config: LogConfig, report: LogReport) -> tuple[Rows, LogReport]:
    """Without invalid and repeated rows."""
    if config.drop_invalid:
        before, rows = report.rows, drop_invalid(rows)
        report = replace(report, invalid=before - len(rows))
        if len(rows) == 0 and before:
            raise ValueError(
                f"`data` must hold rows without missing or invalid values; got none among {before:,}. Check "
                f"the columns: {', '.join(config.columns)}."
            )
    if config.time is not None:
        before = len(rows)
        rows, conflicts = drop_repeated(rows, config.time)
        report = replace(report, duplicates=before - len(rows), conflicts=conflicts)
    return rows, report


def _split(rows: Rows, config: LogConfig, report: LogReport) -> tuple[Rows, LogReport]:
    """Cut where time jumps."""
    if config.time is None or len(rows) == 0:
        return rows, report
    gaps = split_at_gaps(rows, config.time, tolerance=config.tolerance, step=config.step)
    rows = gaps.rows
    report = replace(
        report,
        step=gaps.step or None,
        gaps=gaps.longer,
        short_steps=gaps.shorter,
        pauses=gaps.pauses,
        longest_gap=gaps.longest,
        longest_at=rows.describe(gaps.longest_row) if gaps.longer else "",
    )
    return rows, report


def _at_one_step(rows: Rows, config: LogConfig, report: LogReport) -> tuple[Rows, LogReport]:
    """Resampled, where a step was asked for."""
    if config.time is None or config.step is None or len(rows) == 0:
        return rows, report
    # Values between those of an undeclared angle would hide that it wraps.
    undeclared = set(config.states) - {*config.angles, *config.not_angles}
    _check_angles(rows, config, undeclared, check_wrapped)
    angles = np.array([name in config.angles for name in config.columns], dtype=bool)
    rows, coarse = resample(rows, config.step, states=len(config.states), angles=angles)
    return rows, replace(report, resampled=len(rows), interpolated=coarse)


def _check_angles(
    rows: Rows, config: LogConfig, names: Collection[str], check: Callable[[str, Array, Array], None]
) -> None:
    """Looks at the steps of the states named."""
    after = np.flatnonzero(~rows.breaks)
    for column, name in enumerate(config.states):
        if name in names:
            check(name, rows.values[after - 1, column], rows.values[after, column])


def _cut(rows: Rows, config: LogConfig, report: LogReport) -> tuple[Rows, LogReport]:
    if config.block is None or len(rows) == 0:
        return rows, report
    rows = cut_blocks(rows, length=config.block_rows, duration=config.block_time)
    return rows, replace(report, blocks=int(rows.episodes[-1]) + 1)


def _transitions(rows: Rows, schema: Schema, config: LogConfig, report: LogReport) -> Transitions:
    """Each row and the next of its stretch, or its own outcome."""
    older = max(config.history.values(), default=0)
    remembered = has_history(rows, older) if len(rows) else np.zeros(0, dtype=bool)
    dx, du = len(config.states), len(config.controls)
    if config.next_states is not None:
        here = np.flatnonzero(remembered)
        outcomes = rows.values[here, dx + du :]
    else:
        followed = np.append(~rows.breaks[1:], False)[: len(rows)]
        here = np.flatnonzero(followed & remembered)
        outcomes = rows.values[here + 1, :dx]
    if len(here) == 0 and (older or config.next_states is None):
        raise _NothingLeftError(_nothing_left(report, older))
    states, controls = (with_histories(rows, config, *columns)[here] for columns in ((0, dx), (dx, dx + du)))
    made = Transitions.from_arrays(states, controls, outcomes, episodes=rows.episodes[here], schema=schema)
    episodes = len(np.unique(made.episodes))
    history_only = int((~remembered).sum())
    report = replace(report, transitions=len(made), episodes=episodes, history_only=history_only)
    return replace(made, report=report, places=rows.where.take(here))


def _nothing_left(report: LogReport, older: int) -> str:
    if older:
        return (
            f"`history` must leave rows that have {older} older ones before them; got none of "
            f"{report.rows:,}. Ask for fewer, or for longer blocks."
        )
    found = "; ".join(report.lines[1:])
    return (
        f"`data` must hold two consecutive rows of one episode; got {report.rows} rows"
        f"{f' ({found})' if found else ''}. Give `next_states`, or longer episodes."
    )
