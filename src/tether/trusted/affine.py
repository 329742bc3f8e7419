"""A trusted model that is affine in all its inputs, added up in one fixed order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tether.data import Array, check_matrix


@dataclass(frozen=True, eq=False)
class AffineModel:
    """M: ``intercept + weights @ input``, inputs being states, then controls.

    Needed where predictions must not rise in some inputs (`FitConfig.decreasing`): that no rounding can make
    it rise there is known of this class alone, because it adds up term by term, in one order for every row.

    Attributes:
        weights: (P, D) physical units.
        intercept: (P,).
    """

    weights: Array
    intercept: Array

    def __init__(self, weights: ArrayLike, intercept: ArrayLike) -> None:
        matrix = check_matrix("weights", weights)
        if not matrix.size:
            raise ValueError(f"`weights` must have an output and an input; got shape {matrix.shape}.")
        vector = np.array(intercept, dtype=np.float64)
        if vector.shape != matrix.shape[:1] or not np.isfinite(vector).all():
            raise ValueError(
                f"`intercept` must be {len(matrix)} finite numbers, one for each row of `weights`; got "
                f"{vector.tolist()}."
            )
        # Copies, so that nobody changes a model that something was proved of.
        for name, values in (("weights", matrix.copy()), ("intercept", vector)):
            values.flags.writeable = False
            object.__setattr__(self, name, values)

    def __call__(self, states: Array, controls: Array) -> Array:
        """Next states (N, P) from states (N, dx) and controls (N, du).

        Each rounded product with a weight of at most 0 is non-increasing in its input, and so is each rounded
        sum: raising such an input cannot raise the result by an ulp.
        """
        given = states.shape[1] + controls.shape[1]
        if given != self.weights.shape[1]:
            raise ValueError(
                f"an affine model must have a weight for each input; got {self.weights.shape[1]} weights for "
                f"{given} inputs."
            )
        columns = [part[:, k] for part in (states, controls) for k in range(part.shape[1])]
        totals = []
        for weights, intercept in zip(self.weights, self.intercept.tolist(), strict=True):
            total = intercept + weights[0] * columns[0]
            for weight, column in zip(weights[1:], columns[1:], strict=True):
                total = total + weight * column
            totals.append(total)
        return np.stack(totals, axis=1)

    def same_as(self, other: AffineModel) -> bool:
        """Whether both give the same numbers for every input."""
        return np.array_equal(self.weights, other.weights) and np.array_equal(self.intercept, other.intercept)
