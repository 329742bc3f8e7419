"""Bounds (the paper's C_{M,δ}): per cell, the limits that the output must respect.

The `interval` tether: constants ``lower <= upper``, the range of M seen over the cell. With a sound
outer range ``[L, U]`` of M over the coverage, every output inside the bounds is within
``delta = max(upper - L, U - lower)`` of M (paper, Lemma 4, with the range instead of the constant).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tether.cells import Cells
from tether.data import Array, Schema, Target
from tether.errors import CertificateError
from tether.progress import Reporter, silent
from tether.ranges import (
    Evidence,
    Range,
    SamplingConfig,
    lipschitz_range,
    reach_per_radius,
    sampled_range,
)
from tether.trusted import TrustedModel


@dataclass(frozen=True, eq=False)
class Bounds:
    """Interval bounds of each cell, in the units of the target.

    Attributes:
        lower: (K, P) smallest output allowed.
        upper: (K, P) largest output allowed.
        delta: (K, P) distance to M; what it is worth depends on `evidence`.
        evidence: `sampled`: delta is an estimate from below; `lipschitz`: delta holds if the
            constants do.
        lemma: (P,) Lemma 4's bound, Lipschitz constant times the diameter of a coverage region, or
            None where no constant is known.
    """

    lower: Array
    upper: Array
    delta: Array
    evidence: Evidence
    lemma: Array | None


def bound_cells(
    cells: Cells,
    trusted: TrustedModel,
    schema: Schema,
    target: Target,
    *,
    inputs: Array,
    evidence: Evidence = "sampled",
    sampling: SamplingConfig = SamplingConfig(),
    reporter: Reporter = silent,
) -> Bounds:
    """Interval bounds of every cell.

    Args:
        cells: the cells.
        trusted: M.
        schema: what the columns mean.
        target: whether next states or increments are bounded.
        inputs: (N, D) inputs of D and Ω that may be used to build the bounds.
        evidence: how delta is known.
        sampling: how hard the sampled range looks.
        reporter: opens progress displays.
    """
    inner = sampled_range(cells, trusted, schema, target, inputs=inputs, config=sampling, reporter=reporter)
    outer = inner
    if evidence == "lipschitz":
        outer = lipschitz_range(cells, trusted, schema, target)
        _check_contained(inner, outer, schema)
    gap = np.maximum(inner.upper - outer.lower, outer.upper - inner.lower)
    constants = trusted.lipschitz_constants(schema, target)
    lemma = None if constants is None else 2 * cells.outer_radius * reach_per_radius(constants, cells.scale)
    delta = gap + _output_rounding(inner, cells, schema, target)
    return Bounds(inner.lower, inner.upper, delta, evidence, lemma)


def _check_contained(inner: Range, outer: Range, schema: Schema) -> None:
    """A value of M outside its Lipschitz range refutes the constants."""
    excess = np.maximum(outer.lower - inner.lower, inner.upper - outer.upper)
    if (excess > 0).any():
        cell, output = np.unravel_index(int(np.argmax(excess)), excess.shape)
        raise CertificateError(
            f"`lipschitz` must bound the trusted model's change; in cell {cell} output "
            f"'{schema.outputs[output]}' was seen {excess[cell, output]:.3g} beyond what it allows. "
            "Give a larger constant, or use evidence `sampled`."
        )


def _output_rounding(inner: Range, cells: Cells, schema: Schema, target: Target) -> Array:
    """(K, P) or (P,): rounding of ``state + increment`` and of the subtractions above, in float64."""
    eps = np.finfo(np.float64).eps
    size = np.maximum(np.abs(inner.lower), np.abs(inner.upper))
    if target == "increment":
        dx = len(schema.states)
        extent = np.maximum(np.abs(cells.box_lower), np.abs(cells.box_upper))[None, :dx]
        size = size + schema.base(extent)
    # Unwrapping an angle passes through numbers of a few turns.
    return 8 * eps * (size + 4 * np.pi * schema.output_angles)
