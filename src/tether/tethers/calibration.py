"""Delta widened until fresh draws, never used to build the bounds, keep to it; see :class:`Statistical`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from tether.data import Array, Schema, Target
from tether.evidence import Evidence
from tether.geometry.cells import Cells
from tether.tethers import tether_over
from tether.tethers.affinebounds import AffineBounds
from tether.tethers.bounds import Bounds, IntervalBounds
from tether.trusted import TrustedModel

_PIECE = 1 << 18
Kind = TypeVar("Kind", IntervalBounds, AffineBounds)


@dataclass(frozen=True, eq=False)
class Exceedance:
    """What draws showed.

    Attributes:
        draws: how many.
        exceeded: at how many of them some output can be farther from M than delta.
        excess: (N,) by how much delta was exceeded at each, in units of widening; negative where not.
    """

    draws: int
    exceeded: int
    excess: Array


def exceedance(
    bounds: Bounds, cells: Cells, trusted: TrustedModel, schema: Schema, target: Target, *, inputs: Array
) -> Exceedance:
    """How far, over the given inputs (N, D) of the domain, outputs in the bounds can exceed delta."""
    limits = tether_over(cells, bounds).rows(inputs)
    values = trusted.target(inputs, schema, target)
    excess = schema.farthest(values, limits.lower, limits.upper) - limits.delta
    # What a row's delta grows by before it is cut to half a turn, at which nothing exceeds it.
    unit = tether_over(cells, bounds.unit_of_widening()).rows(inputs).delta
    return Exceedance(len(inputs), int((excess > 0).any(axis=1).sum()), (excess / unit).max(axis=1))


def calibrate(
    bounds: Kind,
    cells: Cells,
    trusted: TrustedModel,
    schema: Schema,
    target: Target,
    *,
    evidence: Evidence,
    seed: int,
) -> Kind:
    """`bounds` with delta widened so that few fresh draws exceed it; what they rest on is then `evidence`."""
    rng = np.random.default_rng([seed, 0x57A7])
    largest = np.empty(0)
    for count in pieces(evidence.draws):
        inputs = replace(bounds, evidence=evidence).draw(cells, count, schema, rng)
        seen = exceedance(bounds, cells, trusted, schema, target, inputs=inputs)
        largest = np.sort(np.concatenate([largest, seen.excess]))[-evidence.allowed - 1 :]
    # A last place more, because the sum that uses it rounds.
    times = max(0.0, float(largest[0])) * (1 + 1e-12)
    return bounds.widened(times, evidence, schema)


def pieces(draws: int) -> list[int]:
    """`draws` in pieces that memory has room for."""
    return [min(_PIECE, draws - start) for start in range(0, draws, _PIECE)]
