"""Transitions and probes from ``.npz``, ``.csv``, ``.parquet`` and pandas data frames."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether.arrays import read_arrays
from tether.data import Array, Probes, Schema, Transitions, check_matrix, make_schema, number_episodes
from tether.documents import shorten, shown
from tether.limits import LARGEST_TABLE, MOST_COLUMNS

Table = Mapping[str, NDArray[Any]]
"""Columns by name, all of one length."""

_PARQUET_ERRORS = (OSError, MemoryError, OverflowError, KeyError, NotImplementedError, UnicodeDecodeError)
_MISSING = ("", "nan", "<NA>", "NaT")


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
    """Transitions from a table.

    Args:
        source: a ``.csv``, ``.npz`` or ``.parquet`` file, or a pandas data frame.
        states: columns of the state.
        controls: columns of the control applied in that state.
        next_states: columns of the outcome; by default the states of the following row of the same
            episode (the last row of each episode then only serves as an outcome).
        episode: column of the episode id; without it all rows are one episode.
        angles: columns in radians that wrap.
        units: unit of each column, by name.
        independent_rows: every row is an episode of its own; needs `next_states`.
    """
    with naming(source):
        return _transitions(
            read_table(source), states, controls, next_states, episode, angles, units, independent_rows
        )


@contextmanager
def naming(source: Any, about: str | tuple[str, ...] = "") -> Iterator[None]:
    """Puts the name of the file before whatever is wrong with what it holds; only of what begins so."""
    try:
        yield
    except (ValueError, TypeError) as error:
        other = not isinstance(source, str | Path) or not str(error).startswith(about)
        if other or str(source) in str(error):
            raise
        raise ValueError(f"{source}: {error}") from None


def _transitions(
    table: Table,
    states: Sequence[str],
    controls: Sequence[str],
    next_states: Sequence[str] | None,
    episode: str | None,
    angles: Sequence[str],
    units: Mapping[str, str] | None,
    independent_rows: bool,
) -> Transitions:
    for name in (*states, *controls, *(next_states or ())):
        _column(table, name)
    repeated = sorted(name for name, count in Counter(next_states or ()).items() if count > 1)
    if repeated:
        raise ValueError(f"`next_states` must name each column once; got '{shorten(repeated[0])}' twice.")
    schema = make_schema(states, controls, next_states, units=units, angles=angles)
    now = _matrix(table, states), _matrix(table, controls)
    ids = None if episode is None else _episodes(_column(table, episode), episode, len(now[0]))
    if next_states is not None:
        ids = np.arange(len(now[0])) if independent_rows else ids
        return Transitions.from_arrays(*now, _matrix(table, next_states), episodes=ids, schema=schema)
    if independent_rows:
        raise ValueError(
            "independent rows must come with `next_states`; got none. Name the columns of the outcome."
        )
    here, there = _consecutive(ids, len(now[0]))
    if len(here) == 0:
        raise ValueError(
            f"`data` must hold two consecutive rows of one episode; got {len(now[0])} rows. "
            "Give `next_states`, or longer episodes."
        )
    episodes = None if ids is None else ids[here]
    return Transitions.from_arrays(
        now[0][here], now[1][here], now[0][there], episodes=episodes, schema=schema
    )


def read_probes(source: str | Path | Any, schema: Schema, *, name: str = "probes") -> Probes:
    """Probes from a table that has every input of `schema` as a column; `name` is what errors call it."""
    with naming(source):
        table = read_table(source)
        inputs = (_matrix(table, names, name) for names in (schema.states, schema.controls))
        return Probes.from_arrays(*inputs, schema=schema)


def read_table(source: str | Path | Any) -> Table:
    """Columns by name from a file or a data frame."""
    if not isinstance(source, (str, Path)):
        if not hasattr(source, "columns"):
            raise TypeError(f"`source` must be a file or a data frame; got {type(source).__name__}.")
        return {str(name): source[name].to_numpy() for name in source.columns}
    path = Path(source)
    if not path.is_file():
        raise ValueError(f"`{path}` must be a file; there is none. Check the path.")
    readers = {".csv": _read_csv, ".npz": _read_npz, ".parquet": _read_parquet}
    if path.suffix.lower() not in readers:
        raise ValueError(f"`{path}` must be one of {', '.join(readers)}; got '{path.suffix}'. Convert it.")
    return readers[path.suffix.lower()](path)


def _read_csv(path: Path) -> Table:
    _check_size(path, path.stat().st_size)
    rows: list[list[str]] = []
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            for row in csv.reader(file, strict=True):
                if row:
                    rows.append(row)
                    _check_row(path, rows)
    except UnicodeDecodeError as error:
        raise ValueError(f"`{path}` must be a CSV file in UTF-8; {error}.") from None
    except csv.Error as error:
        reason = "a quote is not closed" if "unexpected end of data" in str(error) else str(error)
        raise ValueError(f"`{path}` must be a CSV file in UTF-8; {reason} at row {len(rows)}.") from None
    if not rows:
        raise ValueError(f"`{path}` must have a header line; it is empty.")
    header, *rest = rows
    columns = zip(*rest, strict=True) if rest else [()] * len(header)
    return {
        name.strip(): np.array(values, dtype=object) for name, values in zip(header, columns, strict=True)
    }


def _check_row(path: Path, rows: list[list[str]]) -> None:
    """The header's names, or the length of the last row."""
    header, last = rows[0], rows[-1]
    if len(rows) == 1:
        _check_names(path, [name.strip() for name in header])
    elif len(last) != len(header):
        raise ValueError(
            f"`{path}` must have {len(header)} fields in every row; got {len(last)} at row {len(rows) - 2}."
        )


def _check_names(path: Path, names: Sequence[str]) -> None:
    if len(names) > MOST_COLUMNS:
        raise ValueError(f"`{path}` must have at most {MOST_COLUMNS:,} columns; got {len(names):,}.")
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated:
        raise ValueError(
            f"`{path}` must name each column once; got '{shorten(repeated[0])}' twice. Rename one."
        )


def _check_size(path: Path, size: int) -> None:
    """Raises where columns would not fit into memory."""
    if size > LARGEST_TABLE:
        raise ValueError(
            f"`{path}` must hold at most {LARGEST_TABLE:,} bytes of numbers; got {size:,}. Split it, or "
            "leave out columns and rows."
        )


def _read_npz(path: Path) -> Table:
    """One array per column; a matrix `x` gives columns ``x0, x1, ...``."""
    arrays = read_arrays(path)
    table: dict[str, NDArray[Any]] = {}
    for name, array in arrays.items():
        if array.ndim == 2:
            _check_names(path, range(array.shape[1]))  # type: ignore[arg-type]
            table |= {f"{name}{k}": array[:, k] for k in range(array.shape[1])}
        elif array.ndim == 1:
            table[name] = array
        else:
            raise ValueError(
                f"`{path}` must hold vectors or matrices; got '{shorten(name)}' of shape {array.shape}."
            )
    return table


def _read_parquet(path: Path) -> Table:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ValueError(
            "reading .parquet must have pyarrow; it is not installed. Run `pip install 'tether[parquet]'`."
        ) from None
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            about = file.metadata
            groups = [about.row_group(k).total_byte_size for k in range(about.num_row_groups)]
            _check_size(path, max(sum(groups), 8 * about.num_rows * about.num_columns))
            _check_names(path, file.schema_arrow.names)
            table = file.read()
        return {name: table.column(name).to_numpy() for name in table.column_names}
    except (*_PARQUET_ERRORS, pyarrow.ArrowException) as error:
        raise ValueError(f"`{path}` must be a parquet file; {_first_line(error)}.") from None


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return shorten(lines[0])


def _column(table: Table, name: str, label: str = "data") -> NDArray[Any]:
    if name not in table:
        raise ValueError(
            f"`{label}` must have a column '{shorten(name)}'; got {shorten(', '.join(table)) or 'none'}. "
            "Check the spelling."
        )
    return table[name]


def _matrix(table: Table, names: Sequence[str], label: str = "data") -> Array:
    columns = [_numbers(_column(table, name, label), name, label) for name in names]
    rows = len(next(iter(table.values()), ()))
    wrong = next((k for k, column in enumerate(columns) if len(column) != rows), None)
    if wrong is not None:
        raise ValueError(
            f"`{label}` must have columns of one length; got {len(columns[wrong])} rows of '{names[wrong]}' "
            f"and {rows} of '{next(iter(table))}'."
        )
    return check_matrix(label, np.stack(columns, axis=1) if columns else np.empty((rows, 0)), names)


def _episodes(ids: NDArray[Any], name: str, rows: int) -> NDArray[Any]:
    """`ids`, one for each row and none missing."""
    if len(ids) != rows:
        raise ValueError(
            f"`data` must have columns of one length; got {len(ids)} rows of '{name}', not {rows}."
        )
    if ids.dtype.kind not in "biufOUSMm" or not all(isinstance(value, Hashable) for value in ids.tolist()):
        raise ValueError(
            f"`data` must have plain episode ids; got {ids.dtype} in column '{name}'. Convert it."
        )
    missing = [k for k, value in enumerate(ids.tolist()) if value is None or str(value) in _MISSING]
    if missing:
        raise ValueError(
            f"`data` must have an episode id in every row; got none at row {missing[0]}, column '{name}' "
            f"({len(missing)} such rows). Drop or repair those rows."
        )
    return ids


def _numbers(column: NDArray[Any], name: str, label: str) -> Array:
    if column.dtype.kind in "biuf":
        return column.astype(np.float64)
    if column.dtype.kind not in "OU":
        raise ValueError(f"`{label}` must hold numbers; got {column.dtype} in column '{name}'. Convert it.")
    try:
        return np.array([_number(value) for value in column], dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        row = next(k for k, value in enumerate(column) if not _is_number(value))
        raise ValueError(
            f"`{label}` must hold numbers; got {shown(column[row])} at row {row}, column '{shorten(name)}'. "
            "Repair or drop it."
        ) from None


def _number(value: Any) -> float:
    """A field of a table; an empty one is missing."""
    if value is None or (isinstance(value, str) and not value):
        return float("nan")
    return float(value)


def _is_number(value: Any) -> bool:
    try:
        _number(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def _consecutive(ids: NDArray[Any] | None, rows: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row numbers of (now, next) pairs within episodes, whether or not episodes are contiguous."""
    numbers = np.zeros(rows, dtype=np.int64) if ids is None else number_episodes(ids)
    order = np.argsort(numbers, kind="stable")
    same = numbers[order][1:] == numbers[order][:-1]
    return order[:-1][same], order[1:][same]
