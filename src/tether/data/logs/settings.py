"""Everything the reading of a log can be told."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tether.data import Schema, check_known, make_schema, with_radians
from tether.foundation.documents import shorten, shown
from tether.foundation.limits import MOST_ROWS, check_number, check_whole

MOST_OLDER = 1000
"""Older values of a column that its history may hold."""
_DURATION = re.compile(r"\s*([0-9]*\.?[0-9]+(?:[eE][-+]?[0-9]+)?)\s*(ms|s|min|h)\s*")
_SECONDS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class LogConfig:
    """What the columns of a log mean, and how transitions are made of its rows.

    Attributes:
        states: columns of the state.
        controls: columns of the control applied in that state.
        next_states: columns of the outcome; by default the states of the following row.
        episode: column of the episode id; without it each file is one episode.
        time: column of the time: numbers (for `block` in seconds), dates, or ISO 8601 text. Rows whose
            distance in time is not about the median do not make a transition.
        step: resample to this step, in the unit of `time`: states between the rows on a line (angles along
            the shorter arc), controls held.
        tolerance: by what share a distance in time may deviate from the median.
        block: cut episodes into blocks of so many rows, or of so much time (``"10s"``, also ms, min, h), so
            that one long log can be split into training and test data.
        drop_invalid: drop rows with a missing or invalid value instead of refusing them.
        history: how many older values of a column are inputs too, by name; see :meth:`schema`.
        angles: columns in radians that wrap.
        not_angles: columns that jump by a turn like an angle that wraps, and are none.
        units: unit of each column, by name.
        independent_rows: every row is an episode of its own; needs `next_states`.
        most_rows: read the log in pieces, so that it may be larger than memory, and keep a sample of at most
            so many transitions, with rows of every episode; None: keep all.
    """

    states: Sequence[str]
    controls: Sequence[str] = ()
    next_states: Sequence[str] | None = None
    episode: str | None = None
    time: str | None = None
    step: float | None = None
    tolerance: float = 0.2
    block: int | str | None = None
    drop_invalid: bool = False
    history: Mapping[str, int] = field(default_factory=dict)
    angles: Sequence[str] = ()
    not_angles: Sequence[str] = ()
    units: Mapping[str, str] | None = None
    independent_rows: bool = False
    most_rows: int | None = None

    def __post_init__(self) -> None:
        for name in ("states", "controls", "next_states", "angles", "not_angles"):
            _check_names(name, getattr(self, name))
        check_number("tolerance", self.tolerance, above=0.0, most=0.9)
        if self.step is not None:
            check_number("step", self.step, above=0.0)
            self._needs_time("step")
        if self.block is not None:
            self._check_block()
        if self.most_rows is not None:
            check_whole("most_rows", self.most_rows, least=1, most=MOST_ROWS)
            if self.independent_rows:
                raise ValueError("`most_rows` must come with episodes; got independent rows.")
        self._check_history()
        self._check_outcomes()

    @property
    def block_rows(self) -> int | None:
        """Rows of a block, where it is given so."""
        return None if self.block is None or isinstance(self.block, str) else self.block

    @property
    def block_time(self) -> float | None:
        """Seconds of a block, where it is given so."""
        return read_duration(self.block) if isinstance(self.block, str) else None

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns to read: states, controls, outcomes."""
        return (*self.states, *self.controls, *(self.next_states or ()))

    @property
    def schema(self) -> Schema:
        """What M sees: older values of a state follow the states, those of a control follow the controls.

        ``name_1`` is one row ago. M receives them and does not return them.
        """
        bare = make_schema(self.states, self.controls, self.next_states)
        older = {name: older_names(name, count) for name, count in self.history.items()}
        units, angles = dict(self.units or {}), [*self.angles]
        for name, names in older.items():
            units |= {each: units[name] for each in names if name in units}
            angles += names if name in angles else ()
        schema = Schema(
            bare.states + tuple(each for name in bare.states for each in older.get(name, ())),
            bare.controls + tuple(each for name in bare.controls for each in older.get(name, ())),
            bare.outputs,
            with_radians(units, angles),
            tuple(angles),
            bare.advances,
        )
        check_known("units", units, "columns of the data", schema.columns)
        return schema

    def _needs_time(self, name: str) -> None:
        if self.time is None:
            raise ValueError(
                f"`{name}` must come with a column of time; got none. Name it with `time` "
                "(command line: `--time`)."
            )

    def _check_block(self) -> None:
        if isinstance(self.block, str):
            read_duration(self.block)
            self._needs_time("block")
            return
        check_whole("block", self.block, least=2, most=MOST_ROWS)

    def _check_history(self) -> None:
        if not isinstance(self.history, Mapping):
            raise TypeError(f"`history` must be counts by column name; got {shown(self.history)}.")
        check_known("history", self.history, "states or controls", (*self.states, *self.controls))
        for name, count in self.history.items():
            check_whole(f"history of {shorten(name)}", count, least=1, most=MOST_OLDER)

    def _check_outcomes(self) -> None:
        """What has no meaning for rows that hold their own outcome."""
        repeated = sorted(name for name, count in Counter(self.next_states or ()).items() if count > 1)
        if repeated:
            raise ValueError(f"`next_states` must name each column once; got '{shorten(repeated[0])}' twice.")
        if self.next_states is not None and self.time is not None:
            raise ValueError(
                "`time` must come without `next_states`, whose rows hold their own outcome; got both. "
                "Leave one out."
            )
        if self.independent_rows and self.next_states is None:
            raise ValueError(
                "independent rows must come with `next_states`; got none. Name the columns of the outcome."
            )
        if self.independent_rows and (self.block is not None or self.history):
            name = "history" if self.history else "block"
            raise ValueError(f"`{name}` must come with rows that follow each other; got independent rows.")


def older_names(name: str, count: int) -> tuple[str, ...]:
    """The columns of a history, the most recent first."""
    return tuple(f"{name}_{ago}" for ago in range(1, count + 1))


def read_duration(text: str) -> float:
    """Seconds of a text like ``10s``."""
    found = _DURATION.fullmatch(text)
    seconds = float(found[1]) * _SECONDS[found[2]] if found else 0.0
    if not 0 < seconds < float("inf"):
        raise ValueError(
            f"`block` must be a number of rows, or a time such as 10s (ms, s, min, h); got '{shorten(text)}'."
        )
    return seconds


def _check_names(name: str, names: Any) -> None:
    if isinstance(names, str):
        raise TypeError(f"`{name}` must be a list of names; got the text {shown(names)}.")
