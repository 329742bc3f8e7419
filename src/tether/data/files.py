"""Tables and probes from ``.npz``, ``.npy``, ``.csv``, ``.parquet``, pandas and polars data frames."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether.data import Array, Probes, Schema, check_matrix
from tether.foundation.arrays import read_arrays
from tether.foundation.documents import shorten, shown, such
from tether.foundation.extras import installing
from tether.foundation.limits import LARGEST_TABLE, MOST_COLUMNS

Table = Mapping[str, NDArray[Any]]
"""Columns by name, all of one length."""

_PARQUET_ERRORS = (OSError, MemoryError, OverflowError, KeyError, NotImplementedError, UnicodeDecodeError)
MISSING = ("", "nan", "<NA>", "NaT")
"""How what is not there is written."""
READABLE = (".csv", ".npz", ".parquet", ".npy")
"""How the names of files end that can be read."""
_PACKED = (".gz", ".zip", ".bz2", ".xz", ".zst", ".7z", ".tar", ".tgz")


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


def read_probes(source: str | Path | Any, schema: Schema) -> Probes:
    """Probes from a table that has every input of `schema` as a column."""
    with naming(source):
        table = read_table(source)
        inputs = (_matrix(table, names, "probes") for names in (schema.states, schema.controls))
        return Probes.from_arrays(*inputs, schema=schema)


def read_table(source: str | Path | Any) -> Table:
    """Columns by name from a file or a data frame."""
    if not isinstance(source, (str, Path)):
        return _read_frame(source)
    path = Path(source)
    if not path.is_file():
        raise ValueError(f"`{path}` must be a file; there is none. Check the path.")
    kind = path.suffix.lower()
    if kind not in READABLE:
        remedy = "Unpack it." if kind in _PACKED else "Convert it."
        raise ValueError(f"`{path}` must be one of {', '.join(READABLE)}; got '{path.suffix}'. {remedy}")
    return {".csv": _read_csv, ".npz": _read_npz, ".npy": map_npy, ".parquet": _read_parquet}[kind](path)


def _read_frame(frame: Any) -> Table:
    """Columns of a pandas or polars data frame; neither is imported."""
    if hasattr(frame, "collect"):
        raise TypeError(
            f"`source` must be a file or a data frame; got a lazy {type(frame).__name__}. Call `.collect()`."
        )
    if not hasattr(frame, "columns"):
        raise TypeError(f"`source` must be a file or a data frame; got {type(frame).__name__}.")
    repeated = [name for name, count in Counter(map(str, frame.columns)).items() if count > 1]
    if repeated:
        raise ValueError(
            f"`data` must name each column once; got '{shorten(repeated[0])}' twice. Rename one."
        )
    return {str(name): frame[name].to_numpy() for name in frame.columns}


def _read_csv(path: Path) -> Table:
    _check_size(path, path.stat().st_size)
    rows: list[list[str]] = []
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            separator = _separator(file.readline())
            file.seek(0)
            for row in csv.reader(file, strict=True, delimiter=separator):
                if row:
                    rows.append(row if separator == "," else [_with_point(field) for field in row])
                    _check_row(path, rows)
    except UnicodeDecodeError as error:
        raise ValueError(f"`{path}` must be a CSV file in UTF-8; {error}. Save it again as UTF-8.") from None
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


def _separator(header: str) -> str:
    """What is between the names: a comma; or, where there is none, a semicolon or a tab."""
    return next((mark for mark in ",;\t" if mark in header), ",")


def _with_point(field: str) -> str:
    """A number with a decimal comma, as those write it who separate by semicolons, with a point."""
    return field.replace(",", ".") if _DECIMAL_COMMA.fullmatch(field) else field


_DECIMAL_COMMA = re.compile(r"\s*[+-]?\d*,\d+([eE][+-]?\d+)?\s*")


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


def map_npy(path: Path) -> Table:
    """Columns that stay on disk: fields of a structured array, or ``x0, x1, ...`` of a matrix."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError, SyntaxError, MemoryError) as error:
        raise ValueError(f"`{path}` must be an .npy file of numbers; {_first_line(error)}.") from None
    if array.dtype.names and array.ndim == 1:
        _check_names(path, array.dtype.names)
        return {name: array[name] for name in array.dtype.names}
    if array.ndim != 2 or array.dtype.kind not in "biuf":
        raise ValueError(
            f"`{path}` must hold a matrix of numbers or named fields; got {array.dtype} of shape "
            f"{array.shape}."
        )
    _check_names(path, range(array.shape[1]))  # type: ignore[arg-type]
    return {f"x{k}": array[:, k] for k in range(array.shape[1])}


@contextmanager
def open_parquet(path: Path) -> Iterator[Any]:
    """A file of which row groups can be read."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise ValueError(
            f"reading .parquet must have pyarrow; it is not installed. Run {installing('pyarrow')}."
        ) from None
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            _check_names(path, file.schema_arrow.names)
            yield file
    except (*_PARQUET_ERRORS, pyarrow.ArrowException) as error:
        raise ValueError(f"`{path}` must be a parquet file; {_first_line(error)}.") from None


def _read_parquet(path: Path) -> Table:
    with open_parquet(path) as file:
        about = file.metadata
        groups = [about.row_group(k).total_byte_size for k in range(about.num_row_groups)]
        _check_size(path, max(sum(groups), 8 * about.num_rows * about.num_columns))
        table = file.read()
        return {name: table.column(name).to_numpy() for name in table.column_names}


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return shorten(lines[0])


def find_column(table: Table, name: str, label: str = "data") -> NDArray[Any]:
    """A column of the table, or an error that says which there are."""
    if name not in table:
        # With a unit behind it, or nearly so written.
        begun = [known for known in table if known.lower().startswith(name.lower())]
        like = begun or get_close_matches(name, list(table), n=1)
        hint = f"Is it '{shorten(like[0])}'?" if like else "Check the spelling."
        if table and all(map(_is_number, table)):
            hint = "The first line must name the columns."
        there = shorten(", ".join(table)) or "none"
        raise ValueError(f"`{label}` must have a column '{shorten(name)}'; got {there}. {hint}")
    return table[name]


def read_matrix(
    table: Table, names: Sequence[str], label: str = "data", *, invalid_as_nan: bool = False
) -> Array:
    """(N, C) the columns as numbers, missing ones NaN; `invalid_as_nan`: so is what is no number at all."""
    columns = [
        _numbers(find_column(table, name, label), name, label, invalid_as_nan=invalid_as_nan)
        for name in names
    ]
    rows = len(next(iter(table.values()), ()))
    wrong = next((k for k, column in enumerate(columns) if len(column) != rows), None)
    if wrong is not None:
        raise ValueError(
            f"`{label}` must have columns of one length; got {len(columns[wrong])} rows of '{names[wrong]}' "
            f"and {rows} of '{next(iter(table))}'."
        )
    return np.stack(columns, axis=1) if columns else np.empty((rows, 0))


def _matrix(table: Table, names: Sequence[str], label: str) -> Array:
    return check_matrix(label, read_matrix(table, names, label), names)


def check_episodes(ids: NDArray[Any], name: str, rows: int) -> NDArray[np.bool_]:
    """(N,) which rows have no episode id; raises where there is not one for each row or they are no ids."""
    if len(ids) != rows:
        raise ValueError(
            f"`data` must have columns of one length; got {len(ids)} rows of '{name}', not {rows}."
        )
    if ids.dtype.kind not in "biufOUSMm" or not all(isinstance(value, Hashable) for value in ids.tolist()):
        raise ValueError(
            f"`data` must have plain episode ids; got {ids.dtype} in column '{name}'. Convert it."
        )
    return np.array([value is None or str(value) in MISSING for value in ids.tolist()], dtype=bool)


def _numbers(column: NDArray[Any], name: str, label: str, *, invalid_as_nan: bool) -> Array:
    if column.dtype.kind in "biuf":
        return column.astype(np.float64)
    if column.dtype.kind not in "OU":
        raise ValueError(f"`{label}` must hold numbers; got {column.dtype} in column '{name}'. Convert it.")
    try:
        return np.array([_number(value) for value in column], dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        if invalid_as_nan:
            return np.array([_number(v) if _is_number(v) else np.nan for v in column], dtype=np.float64)
        wrong = [k for k, value in enumerate(column) if not _is_number(value)]
        remedy = (
            "Repair those rows, or drop them with `drop_invalid=True` (command line: `--drop-invalid`)."
            if len(wrong) < len(column)
            else "Give each word a number, or leave the column out."
        )
        raise ValueError(
            f"`{label}` must hold numbers; got {shown(column[wrong[0]])} at row {wrong[0]}, column "
            f"'{shorten(name)}' ({such(len(wrong), 'value')}). {remedy}"
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
