"""Metrics against gradient steps, as the page's own charts take them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tether.report.styles import page_styles

TITLES = {
    "approximation_loss_D": "Error on D",
    "constraint_loss_D_mean": "Distance² to M on D, mean",
    "constraint_loss_omega_mean": "Distance² to M on Ω, mean",
    "constraint_loss_omega_max": "Distance² to M on Ω, worst",
}
FLOOR = 1e-16
"""What a logarithmic axis takes for zero."""
History = Sequence[Mapping[str, Any]]
"""Evaluations of one run, each with its `step` and metrics."""


def curves_data(histories: Mapping[str, Sequence[History]]) -> dict[str, Any] | None:
    """Steps, mean and range over seeds of each metric and method; None where nothing was trained.

    The mean is geometric, as fits a logarithmic axis.
    """
    histories = {name: [h for h in seeds if h] for name, seeds in histories.items()}
    histories = {name: seeds for name, seeds in histories.items() if seeds}
    if not histories:
        return None
    methods = page_styles(histories)
    for method in methods:
        seeds = histories[method["name"]]
        # Seeds may have stopped at different steps.
        length = min(map(len, seeds))
        method["steps"] = [evaluation["step"] for evaluation in seeds[0][:length]]
        method["metrics"] = {key: _over_seeds(seeds, key, length) for key in TITLES}
    return {"titles": TITLES, "seeds": max(map(len, histories.values())), "methods": methods}


def _over_seeds(seeds: Sequence[History], key: str, length: int) -> dict[str, list[float]]:
    table = np.array([[evaluation[key] for evaluation in history[:length]] for history in seeds], np.float64)
    mean = table[0] if len(table) == 1 else np.exp(np.log(np.maximum(table, FLOOR)).mean(axis=0))
    lines = {"mean": mean} if len(table) == 1 else {"mean": mean, "low": table.min(0), "high": table.max(0)}
    return {name: [_short(value) for value in line.tolist()] for name, line in lines.items()}


def _short(value: float) -> float:
    """Four digits: more than a curve shows."""
    return float(f"{value:.4g}") if np.isfinite(value) else float(np.finfo(np.float32).max)
