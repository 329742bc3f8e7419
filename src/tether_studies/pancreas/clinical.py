"""What a clinician would ask of predicted glucose: the Clarke error grid, and time in range."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tether.data import Array

ZONES = "ABCDE"
"""A: clinically accurate. B: benign. C: leads to overcorrection. D: misses danger. E: treats the opposite."""
LOW, HIGH = 70.0, 180.0
"""The range that time in range refers to, mg/dl (Battelino et al., Diabetes Care 2019)."""


def clarke_zones(reference: Array, predicted: Array) -> NDArray[np.str_]:
    """(N,) zone of each pair in the error grid of Clarke et al. (Diabetes Care 1987).

    Args:
        reference: (N,) glucose observed, mg/dl.
        predicted: (N,) glucose predicted, mg/dl.
    """
    if reference.shape != predicted.shape or reference.ndim != 1:
        raise ValueError(
            f"`reference` and `predicted` must be columns of one length; got shapes {reference.shape} and "
            f"{predicted.shape}."
        )
    accurate = ((reference <= 70) & (predicted <= 70)) | (
        (predicted <= 1.2 * reference) & (predicted >= 0.8 * reference)
    )
    opposite = ((reference >= 180) & (predicted <= 70)) | ((reference <= 70) & (predicted >= 180))
    overcorrected = ((reference >= 70) & (reference <= 290) & (predicted >= reference + 110)) | (
        (reference >= 130) & (reference <= 180) & (predicted <= 1.4 * reference - 182)
    )
    missed_high = (reference >= 240) & (predicted >= 70) & (predicted <= 180)
    # Left of 175/3 the zone begins at 70, between it and 70 at the edge of A.
    missed_low = (reference <= 70) & (predicted >= np.maximum(70.0, 1.2 * reference)) & (predicted <= 180)
    choices = [accurate, opposite, overcorrected, missed_high | missed_low]
    return np.select(choices, ["A", "E", "C", "D"], default="B")


def zone_shares(reference: Array, predicted: Array) -> dict[str, float]:
    """Share of pairs in each zone of the error grid."""
    zones = clarke_zones(reference, predicted)
    return {zone: float((zones == zone).mean()) for zone in ZONES}


def time_in_range(glucose: Array) -> dict[str, float]:
    """Share of values below, in and above 70 to 180 mg/dl."""
    below, above = float((glucose < LOW).mean()), float((glucose > HIGH).mean())
    inside = float(((glucose >= LOW) & (glucose <= HIGH)).mean())
    return {"below": below, "in_range": inside, "above": above}
