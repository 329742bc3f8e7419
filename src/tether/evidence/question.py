"""What is asked of M: its target, over which box, and how hard a search may look."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tether.data import Array, Schema, Target
from tether.foundation.limits import check_whole
from tether.programs import Program, program_of
from tether.trusted import TrustedModel


@dataclass(frozen=True)
class SamplingConfig:
    """How hard M is searched where only its values can be had.

    Attributes:
        per_cell: points drawn inside each cell.
        refinements: rounds of search from the extremes found so far.
        calls: rows that M is asked at most to grow a tree of boxes, so that a slow one ends; it is then cut
            into fewer leaves.
    """

    per_cell: int = 64
    refinements: int = 12
    calls: int = 1_000_000

    def __post_init__(self) -> None:
        check_whole("per_cell", self.per_cell, least=1, most=1_000_000)
        check_whole("refinements", self.refinements, most=1_000_000)
        check_whole("calls", self.calls, least=1, most=10**12)

    @property
    def seed(self) -> int:
        """Of the draws: no setting, but the fit's own."""
        return 0

    def seeded(self, seed: int) -> SamplingConfig:
        """The same search with other draws."""
        return _Seeded(self.per_cell, self.refinements, self.calls, seed)


@dataclass(frozen=True)
class _Seeded(SamplingConfig):
    own: int = 0

    @property
    def seed(self) -> int:
        return self.own


@dataclass(frozen=True, eq=False)
class Question:
    """M's target over a box.

    Attributes:
        trusted: M.
        schema: what the columns mean.
        target: whether next states or increments are bounded.
        lower: (D,) the box.
        upper: (D,).
        pinned: (D,) values at which M is followed exactly, NaN where none; None: nowhere.
        sampling: how hard to look where only M's values can be had.
        order: of the models that are made of M, 1 or 2; of second order are only some, where that is better.
    """

    trusted: TrustedModel
    schema: Schema
    target: Target
    lower: Array
    upper: Array
    pinned: Array | None = None
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    order: int = 1

    def values(self, inputs: Array) -> Array:
        """(N, P) M's target at inputs (N, D)."""
        return self.trusted.target(inputs, self.schema, self.target)

    def program(self) -> Program:
        """M's target as a program, checked against M at points of the box."""
        return target_program(self.trusted, self.schema, self.target, self.lower[None], self.upper[None])


def target_program(
    trusted: TrustedModel, schema: Schema, target: Target, lower: Array, upper: Array
) -> Program:
    """M's target as a program, checked against M at points of the boxes (K, D)."""
    advanced, own = schema.advanced, trusted.function  # of all that is around M, its code alone is followed

    def function(states, controls):
        outputs = own(states, controls)
        return outputs - states[:, advanced] if target == "increment" else outputs

    return program_of(function, lower, upper, len(schema.states))


def on_circle(change: Array, angle: NDArray[np.bool_]) -> Array:
    """Differences of angles, moved by whole turns to within half a turn; others as they are."""
    return np.where(angle, change - 2 * np.pi * np.round(change / (2 * np.pi)), change)
