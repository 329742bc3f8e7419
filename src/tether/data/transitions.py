"""Observed transitions (the paper's D): rows, episodes, and splits by episode."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tether.data.findings import LogReport
from tether.data.schema import Array, Schema, Target, check_matrix, make_schema


@dataclass(frozen=True, eq=False)
class Places:
    """Where in the log transitions are.

    Attributes:
        tables: (N,) the file or data frame that a row is from.
        rows: (N,) its number in there, from 0, without the header.
        names: of the tables.
    """

    tables: NDArray[np.int64]
    rows: NDArray[np.int64]
    names: tuple[str, ...]

    def take(self, rows: NDArray[Any]) -> Places:
        """Those of some transitions."""
        return replace(self, tables=self.tables[rows], rows=self.rows[rows])

    def describe(self, row: int) -> str:
        """Where a transition is, for a message."""
        name = self.names[self.tables[row]]
        return f"row {self.rows[row]}" + (f" of {name}" if name else "")


@dataclass(frozen=True, eq=False)
class Transitions:
    """Observed transitions (the paper's D).

    Build with :meth:`from_arrays` or :func:`tether.read_log`; both check and wrap.

    Attributes:
        states: (N, dx).
        controls: (N, du).
        next_states: (N, P), angles continuous with the state they follow.
        episodes: (N,) integer id of the episode a row came from.
        schema: what the columns mean.
        report: what was done to the log that they were read from, if they were.
        places: where in it they are, where that is known.
    """

    states: Array
    controls: Array
    next_states: Array
    episodes: NDArray[np.int64]
    schema: Schema
    report: LogReport | None = None
    places: Places | None = None

    @classmethod
    def from_arrays(
        cls,
        states: ArrayLike,
        controls: ArrayLike,
        next_states: ArrayLike,
        *,
        episodes: ArrayLike | None = None,
        schema: Schema | None = None,
    ) -> Transitions:
        """Transitions from arrays.

        Args:
            states: (N, dx).
            controls: (N, du); du may be 0.
            next_states: (N, P).
            episodes: (N,) ids of any kind; without them all rows are one episode, which cannot be
                split. For rows that are independent pass ``numpy.arange(N)``.
            schema: names, units, angles; by default ``x0, x1, ..., u0, ...``.
        """
        names = (None, None, None) if schema is None else (schema.states, schema.controls, schema.outputs)
        states = check_matrix("states", states, names[0])
        controls = check_matrix("controls", controls, names[1])
        next_states = check_matrix("next_states", next_states, names[2])
        schema = schema or _default_schema(states.shape[1], controls.shape[1], next_states.shape[1])
        rows = len(states)
        if rows == 0:
            raise ValueError("`states` must hold at least one row; got 0. Check the file or the filter.")
        for name, values in [("controls", controls), ("next_states", next_states)]:
            if len(values) != rows:
                raise ValueError(f"`{name}` must have {rows} rows like `states`; got {len(values)}.")
        inputs = schema.wrap_inputs(states, controls)
        states, controls = inputs[:, : len(schema.states)], inputs[:, len(schema.states) :]
        return cls(
            states, controls, schema.unwrap_outputs(states, next_states), _episode_ids(episodes, rows), schema
        )

    def __len__(self) -> int:
        return len(self.states)

    @property
    def inputs(self) -> Array:
        """(N, D): states, then controls."""
        return np.concatenate([self.states, self.controls], axis=1)

    def take(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> Transitions:
        """The given rows, in the given order."""
        return replace(
            self,
            states=self.states[rows],
            controls=self.controls[rows],
            next_states=self.next_states[rows],
            episodes=self.episodes[rows],
            places=None if self.places is None else self.places.take(rows),
        )

    def split(self, *, validation: float = 0.15, test: float = 0.15, seed: int = 0) -> Split:
        """Train, validation and test parts, whole episodes each.

        Rows of one episode are nearly copies of one another; a split by row would measure memory.
        """
        ids = np.unique(self.episodes)
        if len(ids) < 3:
            raise ValueError(
                f"`transitions` must hold at least 3 episodes to be split into train, validation and test; "
                f"got {len(ids)}. Name the column that tells runs apart (`--episode COLUMN`; in Python "
                "`episode='COLUMN'`, `episodes=` of arrays); else cut one long run into blocks (`--block "
                "ROWS`, `block=ROWS`); or, if no row has to do with another, say so (`--independent-rows`, "
                "`episodes=numpy.arange(N)`)."
            )
        order = np.random.default_rng(seed).permutation(ids)
        held_out = [max(1, round(share * len(ids))) for share in (validation, test)]
        cut = [held_out[0], sum(held_out)]
        if cut[1] >= len(ids):
            raise ValueError(
                f"`validation` + `test` must leave at least one training episode; got {validation} + {test} "
                f"of {len(ids)} episodes. Lower them or record more episodes."
            )
        parts = [self.take(np.isin(self.episodes, part)) for part in np.split(order, cut)]
        return Split(train=parts[2], validation=parts[0], test=parts[1])

    def target(self, kind: Target) -> Array:
        """(N, P): what a model is trained to output, the next state or its increment."""
        return self.next_states - self.schema.base(self.states) if kind == "increment" else self.next_states

    def digest(self) -> str:
        """SHA-256 of every value, to tell whether a model was fitted to this data."""
        digest = hashlib.sha256()
        for part in (self.states, self.controls, self.next_states, self.episodes):
            digest.update(np.ascontiguousarray(part).tobytes())
        return digest.hexdigest()


@dataclass(frozen=True)
class Split:
    """Three parts of one set of transitions, no episode in two of them."""

    train: Transitions
    validation: Transitions
    test: Transitions


def _default_schema(dx: int, du: int, outputs: int) -> Schema:
    states = [f"x{k}" for k in range(dx)]
    names = states if outputs == dx else [f"y{k}" for k in range(outputs)]
    return make_schema(states, [f"u{k}" for k in range(du)], names)


def _episode_ids(episodes: ArrayLike | None, rows: int) -> NDArray[np.int64]:
    if episodes is None:
        return np.zeros(rows, dtype=np.int64)
    ids = np.asarray(episodes)
    if ids.shape != (rows,):
        raise ValueError(f"`episodes` must have shape ({rows},); got {ids.shape}. Give one id per row.")
    return number_episodes(ids)


def number_episodes(ids: NDArray[Any]) -> NDArray[np.int64]:
    """(N,) episodes counted as they first appear.

    Sorting instead would number the text of a ``.csv`` (10 before 2) unlike the numbers of an
    ``.npz``, and one seed would split the same data in two ways.
    """
    seen: dict[Any, int] = {}
    return np.array([seen.setdefault(name, len(seen)) for name in ids.tolist()], dtype=np.int64)
