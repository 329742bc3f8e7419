"""Predictions for a data frame, pandas' or polars': a frame of the same kind. Neither is imported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tether.data import Array

if TYPE_CHECKING:
    from tether.model.model import Prediction


def is_frame(value: Any) -> bool:
    """Whether it has named columns that become arrays."""
    return hasattr(value, "columns") and hasattr(value, "to_numpy") and hasattr(value, "shape")


def columns_of(frame: Any, names: Sequence[str]) -> Array:
    """(N, len(names)) the named columns; raises naming those that are missing."""
    missing = [name for name in names if name not in list(frame.columns)]
    if missing:
        there = ", ".join(map(str, frame.columns))
        raise ValueError(
            f"`states` must have the columns {', '.join(names)}; got {there}: no {missing[0]!r}."
        )
    parts = [np.asarray(frame[name].to_numpy()) for name in names]
    return np.column_stack(parts) if parts else np.empty((len(frame), 0))


def predicted_columns(prediction: Prediction, outputs: Sequence[str], *, details: bool) -> dict[str, Any]:
    """Columns by name: `next_` of each output; with details what is known of each row."""
    columns: dict[str, Any] = {f"next_{name}": prediction.next_states[:, k] for k, name in enumerate(outputs)}
    if details:
        for label in ("lower", "upper", "delta"):
            columns |= {f"{label}_{name}": getattr(prediction, label)[:, k] for k, name in enumerate(outputs)}
        columns |= {"cell": prediction.cell, "in_domain": prediction.in_domain}
    return columns


def beside(frame: Any, inputs: Sequence[str], columns: dict[str, Any]) -> Any:
    """The inputs of a frame, with its index, and new columns beside them."""
    kept = frame[list(inputs)]
    if hasattr(kept, "assign"):
        return kept.assign(**columns)
    series = type(frame[inputs[0]])
    return kept.with_columns([series(name, values) for name, values in columns.items()])
