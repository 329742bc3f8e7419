"""M in float64, and distances on the circle."""

from __future__ import annotations

import numpy as np

from tether.data import Array
from tether.trusted import TrustedModel
from tether.verification.claim import Claim


def values_at(claim: Claim, trusted: TrustedModel, inputs: Array) -> Array:
    """(N, P) M's target in float64 at physical inputs (N, D)."""
    schema, dx = claim.schema, len(claim.schema.states)
    states, controls = np.ascontiguousarray(inputs[:, :dx]), np.ascontiguousarray(inputs[:, dx:])
    outputs = trusted(states, controls, schema)
    if claim.target == "increment":
        outputs = outputs - np.where(schema.advanced >= 0, states[:, schema.advanced], 0.0)
    return outputs


def circular(claim: Claim, differences: Array) -> Array:
    """|difference| per output (N, P), on the circle for angles."""
    turns = np.round(differences / (2 * np.pi)) * claim.schema.output_angles
    return np.abs(differences - 2 * np.pi * turns)
