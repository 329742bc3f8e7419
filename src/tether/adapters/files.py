"""Transitions and probes from ``.npz``, ``.csv``, ``.parquet`` and pandas data frames."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether.data import Array, Probes, Schema, Transitions, check_matrix, make_schema, number_episodes

Table = Mapping[str, NDArray[Any]]
"""Columns by name, all of one length."""

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
    table = read_table(source)
    for name in (*states, *controls, *(next_states or ())):
        _column(table, name)
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
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            header, *rows = (row for row in csv.reader(file) if row)
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"`{path}` must be a CSV file in UTF-8; {error}.") from None
    except ValueError:
        raise ValueError(f"`{path}` must have a header line; it is empty.") from None
    header = [name.strip() for name in header]
    repeated = sorted({name for name in header if header.count(name) > 1})
    if repeated:
        raise ValueError(f"`{path}` must name each column once; got '{repeated[0]}' twice. Rename one.")
    for number, row in enumerate(rows):
        if len(row) != len(header):
            raise ValueError(
                f"`{path}` must have {len(header)} fields in every row; got {len(row)} at row {number}."
            )
    columns = zip(*rows, strict=True) if rows else [()] * len(header)
    return {name: np.array(values, dtype=object) for name, values in zip(header, columns, strict=True)}


def _read_npz(path: Path) -> Table:
    """One array per column; a matrix `x` gives columns ``x0, x1, ...``."""
    try:
        # Opened here, because NumPy leaves a damaged file open.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except Exception as error:
        raise ValueError(f"`{path}` must be an .npz file of plain arrays; {error}.") from None
    table: dict[str, NDArray[Any]] = {}
    for name, array in arrays.items():
        if array.ndim == 2:
            table |= {f"{name}{k}": array[:, k] for k in range(array.shape[1])}
        elif array.ndim == 1:
            table[name] = array
        else:
            raise ValueError(f"`{path}` must hold vectors or matrices; got '{name}' of shape {array.shape}.")
    return table


def _read_parquet(path: Path) -> Table:
    try:
        import pyarrow.parquet
    except ImportError:
        raise ValueError(
            "reading .parquet must have pyarrow; it is not installed. Run `pip install 'tether[parquet]'`."
        ) from None
    try:
        table = pyarrow.parquet.read_table(path)
    except (OSError, pyarrow.ArrowException) as error:
        raise ValueError(f"`{path}` must be a parquet file; {error}.") from None
    return {name: table.column(name).to_numpy() for name in table.column_names}


def _column(table: Table, name: str, label: str = "data") -> NDArray[Any]:
    if name not in table:
        raise ValueError(
            f"`{label}` must have a column '{name}'; got {', '.join(table) or 'none'}. Check the spelling."
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
        return np.array([np.nan if value in ("", None) else value for value in column], dtype=np.float64)
    except (TypeError, ValueError):
        row = next(k for k, value in enumerate(column) if not _is_number(value))
        raise ValueError(
            f"`{label}` must hold numbers; got {column[row]!r} at row {row}, column '{name}'. "
            "Repair or drop it."
        ) from None


def _is_number(value: Any) -> bool:
    try:
        float(value if value not in ("", None) else "nan")
    except (TypeError, ValueError):
        return False
    return True


def _consecutive(ids: NDArray[Any] | None, rows: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row numbers of (now, next) pairs within episodes, whether or not episodes are contiguous."""
    numbers = np.zeros(rows, dtype=np.int64) if ids is None else number_episodes(ids)
    order = np.argsort(numbers, kind="stable")
    same = numbers[order][1:] == numbers[order][:-1]
    return order[:-1][same], order[1:][same]
