"""The column of time: numbers, dates or ISO 8601 text, as seconds (or whatever unit the numbers have)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether.data import Array
from tether.data.files import MISSING
from tether.foundation.documents import shorten, shown


def read_times(column: NDArray[Any], name: str, *, invalid_as_nan: bool = False) -> Array:
    """(N,) times since the first row; NaN where one is missing, or, if asked for, where it is none."""
    if column.dtype.kind in "Mm":
        return _from_dates(column)
    if column.dtype.kind in "iu":
        # Exact before it is rounded: nanoseconds since 1970 have more digits than float64.
        return (
            (column.astype(np.int64) - column[:1].astype(np.int64)).astype(np.float64)
            if column.dtype.kind == "i"
            else column.astype(np.float64)
        )
    if column.dtype.kind == "f":
        return column.astype(np.float64)
    if column.dtype.kind not in "OU":
        raise ValueError(f"`time` must be numbers or dates; got {column.dtype} in column '{shorten(name)}'.")
    return _from_fields(column.tolist(), name, invalid_as_nan=invalid_as_nan)


def _from_dates(column: NDArray[Any]) -> Array:
    """Seconds between dates (or durations) and the first of them that is none missing."""
    known = ~np.isnat(column)
    seconds = np.full(len(column), np.nan)
    if known.any():
        since = column[known] - column[known][0]
        seconds[known] = since / np.timedelta64(1, "s")
    return seconds


def _from_fields(fields: list[Any], name: str, *, invalid_as_nan: bool) -> Array:
    """Fields of a text file: all numbers, or all dates."""
    read = [_number(value) for value in fields]
    if None in read and all(value is None or value != value for value in read):
        read = _as_dates(fields, name)
    bad = next((k for k, value in enumerate(read) if value is None), None)
    if bad is not None and not invalid_as_nan:
        raise ValueError(
            f"`time` must be numbers, or dates as in 2024-05-01T12:00:00.5; got {shown(fields[bad])} at row "
            f"{bad}, column '{shorten(name)}'. Repair or drop it."
        )
    return np.array([np.nan if value is None else value for value in read], dtype=np.float64)


def _number(value: Any) -> float | None:
    if value is None or str(value).strip() in MISSING:
        return float("nan")
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _as_dates(fields: list[Any], name: str) -> list[float | None]:
    dates = [_date(value) for value in fields]
    known = [date for date in dates if date is not None]
    if any((date.tzinfo is None) != (known[0].tzinfo is None) for date in known):
        raise ValueError(
            f"`time` must have a time zone in every row or in none; got both in column '{shorten(name)}'."
        )
    return [
        (date - known[0]).total_seconds() if date is not None else _number(value)
        for date, value in zip(dates, fields, strict=True)
    ]


def _date(value: Any) -> datetime | None:
    if value is None or str(value).strip() in MISSING:
        return None
    if isinstance(value, datetime):
        return value
    try:
        date = datetime.fromisoformat(str(value).strip())
    except ValueError:
        return None
    return date.astimezone(UTC) if date.tzinfo is not None else date
