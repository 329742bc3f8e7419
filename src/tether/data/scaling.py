"""Centre and scale of columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tether.data.schema import Array


@dataclass(frozen=True)
class Scaling:
    """Centre and positive scale of each column, (C,) each."""

    center: Array
    scale: Array


def fit_scaling(values: Array) -> Scaling:
    """Mean and standard deviation of each column of (N, C); a constant column gets scale 1."""
    with np.errstate(over="ignore", invalid="ignore"):
        center, scale = values.mean(axis=0), values.std(axis=0)
    if not np.isfinite(scale).all():
        column = int(np.argmax(~np.isfinite(scale)))
        raise ValueError(
            f"columns must be small enough for their variance to be a number; got values up to "
            f"{np.abs(values[:, column]).max():.3g} in column {column}. Change its unit."
        )
    # The deviation of a constant column is rounding noise, not zero.
    constant = scale <= 1e-12 * np.maximum(np.abs(values).max(axis=0), np.finfo(np.float64).tiny)
    return Scaling(center, np.where(constant, 1.0, scale))
