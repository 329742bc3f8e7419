"""The trusted model: ARMAX, glucose ahead as an affine function of the inputs, insulin weights at most 0.

The weights are the exact solution of the constrained least-squares problem. The paper's code descends a
gradient instead, and stops at an error 36 times as large on the same data.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tether.data import Array, Transitions, fit_scaling
from tether.trusted.affine import AffineModel
from tether_studies.pancreas.data import insulin_columns

_EPS = np.finfo(np.float64).eps


@dataclass(frozen=True, eq=False)
class Armax:
    """M: next glucose from the inputs, ``intercept + sum_d weights[d] input[d]``.

    Attributes:
        weights: (D,) physical units; those of insulin are at most 0.
        intercept: mg/dl.
        states: how many of the inputs are states.
    """

    weights: Array
    intercept: float
    states: int

    @cached_property
    def affine(self) -> AffineModel:
        """The same as the library knows it, (1, D) weights."""
        return AffineModel(self.weights[None], [self.intercept])

    def __call__(self, states: Array, controls: Array) -> Array:
        """Next glucose (N, 1), added up term by term, so that raising insulin cannot raise it by an ulp."""
        return self.affine(states, controls)


@dataclass(frozen=True, eq=False)
class ArmaxFit:
    """An ARMAX model and how well it fits.

    Attributes:
        model: M.
        error: mean squared error on the data it was fitted to, (mg/dl)².
        unconstrained_error: what ordinary least squares reaches; what the constraint costs is the difference.
        optimality: largest violation of the conditions of the optimum (a free weight's gradient, or a
            gradient that would lower a weight held at 0), relative to what rounding of the data allows.
        held: (D,) weights held at 0 by the constraint.
    """

    model: Armax
    error: float
    unconstrained_error: float
    optimality: float
    held: NDArray[np.bool_]


def fit_armax(transitions: Transitions) -> ArmaxFit:
    """Constrained least squares: insulin weights at most 0, all others free.

    Args:
        transitions: what to fit; pass the training part only.
    """
    inputs, target = transitions.inputs, transitions.next_states[:, 0]
    scaling = fit_scaling(inputs)
    design = np.column_stack([np.ones(len(inputs)), (inputs - scaling.center) / scaling.scale])
    signed = np.zeros(design.shape[1], dtype=bool)
    signed[1 + insulin_columns(transitions.schema)] = True
    solution = solve_nonpositive(design, target, signed)
    residual = target - design @ solution
    ordinary = np.linalg.lstsq(design, target, rcond=None)[0]
    weights = solution[1:] / scaling.scale
    model = Armax(weights, float(solution[0] - weights @ scaling.center), len(transitions.schema.states))
    return ArmaxFit(
        model,
        float(np.mean(residual**2)),
        float(np.mean((target - design @ ordinary) ** 2)),
        _optimality(design, target, residual, solution, signed),
        signed[1:] & (solution[1:] == 0),
    )


def solve_nonpositive(design: Array, target: Array, signed: NDArray[np.bool_]) -> Array:
    """(C,) the weights that minimise ``|design weights - target|`` with ``weights[signed] <= 0``, exactly.

    The free columns are projected out, which leaves non-negative least squares in a few columns, solved by
    the active-set method of Lawson and Hanson ("Solving least squares problems", chapter 23).

    Args:
        design: (N, C) columns.
        target: (N,).
        signed: (C,) columns whose weight must not be positive.
    """
    free = design[:, ~signed]
    basis = _orthonormal(free)
    project = design[:, signed] - basis @ (basis.T @ design[:, signed])
    remains = target - basis @ (basis.T @ target)
    weights = np.zeros(design.shape[1])
    weights[signed] = -_nonnegative_least_squares(-project, remains)
    weights[~signed] = np.linalg.lstsq(free, target - design[:, signed] @ weights[signed], rcond=None)[0]
    return weights


def _orthonormal(columns: Array) -> Array:
    """An orthonormal basis of what the columns (N, C) span; columns that add nothing (constants) drop out."""
    left, singular, _ = np.linalg.svd(columns, full_matrices=False)
    return left[:, singular > max(columns.shape) * _EPS * singular[0]]


def _nonnegative_least_squares(columns: Array, target: Array) -> Array:
    """(C,) Lawson and Hanson's active-set method: ends at the exact optimum in finitely many steps."""
    weights, passive = np.zeros(columns.shape[1]), np.zeros(columns.shape[1], dtype=bool)
    tolerance = 1e-12 * np.linalg.norm(columns, axis=0).max(initial=0.0) * np.linalg.norm(target)
    for _ in range(50 * columns.shape[1]):
        gradient = columns.T @ (target - columns @ weights)
        gradient[passive] = -np.inf
        if passive.all() or gradient.max() <= tolerance:
            return weights
        passive[np.argmax(gradient)] = True
        weights = _feasible(columns, target, weights, passive)
    raise ValueError("`transitions` must give insulin columns that are not copies of one another; got such.")


def _feasible(columns: Array, target: Array, weights: Array, passive: NDArray[np.bool_]) -> Array:
    """Least squares on the passive columns, giving up those that would become negative on the way there."""
    while True:
        wanted = np.zeros_like(weights)
        wanted[passive] = np.linalg.lstsq(columns[:, passive], target, rcond=None)[0]
        blocked = passive & (wanted <= 0)
        if not blocked.any():
            return wanted
        # As far towards the wanted weights as all stay non-negative; the one that stops it is given up.
        step = weights[blocked] / (weights[blocked] - wanted[blocked])
        weights = weights + step.min() * (wanted - weights)
        stopped = np.flatnonzero(blocked)[np.argmin(step)]
        weights[stopped] = 0.0
        passive &= weights > 0
        weights[~passive] = 0.0


def _optimality(
    design: Array, target: Array, residual: Array, weights: Array, signed: NDArray[np.bool_]
) -> float:
    gradient = design.T @ residual
    held = signed & (weights == 0)
    violation = np.where(held, np.maximum(-gradient, 0.0), np.abs(gradient))
    rounding = np.linalg.norm(design, axis=0) * np.linalg.norm(target)
    return float((violation / np.maximum(rounding, np.finfo(np.float64).tiny)).max())
