"""Data frames, pandas' or polars': columns by name. Neither is imported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tether.data.schema import Array


def is_frame(value: Any) -> bool:
    """Whether it has named columns that become arrays."""
    return hasattr(value, "columns") and hasattr(value, "to_numpy") and hasattr(value, "shape")


def columns_of(argument: str, frame: Any, names: Sequence[str]) -> Array:
    """(N, len(names)) the named columns; raises naming those that the argument does not have."""
    missing = [name for name in names if name not in list(frame.columns)]
    if missing:
        there = ", ".join(map(str, frame.columns))
        raise ValueError(
            f"`{argument}` must have the columns {', '.join(names)}; got {there}: no {missing[0]!r}."
        )
    parts = [np.asarray(frame[name].to_numpy()) for name in names]
    return np.column_stack(parts) if parts else np.empty((len(frame), 0))
