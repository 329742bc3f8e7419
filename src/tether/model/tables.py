"""Predictions for a data frame, pandas' or polars': a frame of the same kind. Neither is imported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tether.model.model import Prediction


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
