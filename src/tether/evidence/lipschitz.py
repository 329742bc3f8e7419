"""Lipschitz: constants that the user gives of M, or of its Jacobian."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tether.data import HALF_TURN, Array, Schema, Target
from tether.evidence.evidence import Claimed, Evidence
from tether.evidence.expansions import Expander, Leaves, middles, straight
from tether.evidence.question import Question, on_circle
from tether.evidence.ranges import Range, lipschitz_range
from tether.geometry.cells import Cells
from tether.trusted import TrustedModel

_EPS = np.finfo(np.float64).eps


@dataclass(frozen=True)
class Lipschitz(Evidence):
    """Constants that the user gives; the claim holds if they do.

    Of :class:`tether.TrustedModel`, `lipschitz` for interval bounds, and for first-order models `jacobian`
    and `jacobian_lipschitz`.
    """

    name: str = field(default="lipschitz", init=False, repr=False)
    refuted_by: ClassVar[str] = "Give a larger constant, or use evidence `sampled`."

    def lacking(self, trusted: TrustedModel, kind: str, question: Question | None = None) -> str | None:
        """The constants that are missing."""
        del question
        if kind == "interval":
            known = trusted.lipschitz is not None or trusted.increment_lipschitz is not None
            needs = "Pass `TrustedModel(M, lipschitz=...)`"
        else:
            known = trusted.jacobian is not None and trusted.jacobian_lipschitz is not None
            needs = "Pass `TrustedModel(M, jacobian=..., jacobian_lipschitz=...)`"
        if known:
            return None
        return (
            f"evidence `lipschitz` must have constants of the trusted model; got none. {needs}, or use "
            "evidence `sampled`, `statistical` or `proved`."
        )

    def range_over(self, cells: Cells, trusted: TrustedModel, schema: Schema, target: Target) -> Range:
        """M at each memory, plus and minus the most it can change within the coverage radius."""
        return lipschitz_range(cells, trusted, schema, target)

    def expander(self, question: Question) -> Expander:
        """By Taylor's theorem."""
        return _Taylor(question)

    def recheck(self, claimed: Claimed, *, seed: int) -> None:
        """Derives delta again."""
        del seed
        claimed.derive(self)


class _Taylor(Expander):
    """M's value and Jacobian at the middle of each box, and the constants of its Jacobian.

    ``|M(s) - M(m) - J(m) (s - m)| <= H/2 |s - m|^2``: of an angle, too, because M's angles are continuous
    along the segment, by the constants, and a distance on the circle is at most that on the line.
    """

    def __init__(self, question: Question) -> None:
        super().__init__(question)
        constants = question.trusted.curvature_constants(question.schema)
        if constants is None or question.trusted.jacobian is None:
            raise ValueError(Lipschitz().lacking(question.trusted, "affine"))
        self.constants = constants
        self.bends = (constants > 0)[:, None] & (question.upper > question.lower)

    def expand(self, output: NDArray[np.int64], lower: Array, upper: Array) -> Leaves:
        """Around the middles, by M's own derivatives there."""
        middle, _ = middles(lower, upper, self.question.pinned)
        value, slope = self._at(middle, output)
        shares = self._shares(output, lower, upper, middle)
        return Leaves(
            middle,
            value,
            slope,
            self._capped(shares.sum(axis=1), output),
            shares,
            np.ones(len(middle), dtype=bool),
            straight(len(middle)),
        )

    def needed(
        self, output: NDArray[np.int64], lower: Array, upper: Array, *, slope: Array, value: Array
    ) -> Array:
        """What Taylor leaves, and what value and slope differ from M's by."""
        middle, _ = middles(lower, upper, self.question.pinned)
        own, derivative = self._at(middle, output)
        reach = _reach(lower, upper, middle)
        gap = np.abs(on_circle(value - own, self.question.schema.output_angles[output]))
        tilt = (np.abs(slope - derivative) * reach).sum(axis=1)
        beyond = self._shares(output, lower, upper, middle).sum(axis=1) + gap + tilt
        return self._capped(beyond * (1 + (slope.shape[1] + 8) * _EPS), output)

    def _at(self, middle: Array, output: NDArray[np.int64]) -> tuple[Array, Array]:
        question, rows = self.question, np.arange(len(middle))
        jacobian = question.trusted.target_jacobian(middle, question.schema, question.target)
        return question.values(middle)[rows, output], jacobian[rows, output]

    def _shares(self, output: NDArray[np.int64], lower: Array, upper: Array, middle: Array) -> Array:
        """(K, D) what each input contributes to the remainder, rounded outward."""
        reach = _reach(lower, upper, middle)
        return 0.5 * self.constants[output][:, None] * reach**2 * (1 + (reach.shape[1] + 8) * _EPS)

    def _capped(self, remainder: Array, output: NDArray[np.int64]) -> Array:
        angle = self.question.schema.output_angles[output]
        return np.where(angle, np.minimum(remainder, HALF_TURN), remainder)


def _reach(lower: Array, upper: Array, middle: Array) -> Array:
    """(K, D) largest way from the middle along each input."""
    return np.maximum(upper - middle, middle - lower) * (1 + _EPS)
