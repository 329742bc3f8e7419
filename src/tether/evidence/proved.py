"""Proved: outward-rounded interval arithmetic on M's own NumPy code."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tether.data import HALF_TURN, Array, Schema, Target
from tether.evidence.curvature import MOST_PAIRS, Hessian, Pairs
from tether.evidence.evidence import Claimed, Evidence
from tether.evidence.expansions import (
    Bent,
    Expander,
    Leaves,
    Look,
    Second,
    expand_boxes,
    middles,
    needed_curved,
    needed_remainder,
)
from tether.evidence.question import Question
from tether.evidence.ranges import Range, proved_range
from tether.foundation.executors import current
from tether.geometry.cells import Cells
from tether.programs import EnclosureError, Program, evaluate
from tether.programs.kinks import kinks_of
from tether.trusted import TrustedModel

_LINEAR = 1e-9
"""Relative width of a derivative up to which it counts as constant over the box; no proof rests on it."""
_BESIDE = 1e-12
"""Of an input's range, how far from a kink a box is cut."""
_LEAVES = 4096
"""Boxes that are proved in one go."""


@dataclass(frozen=True)
class Proved(Evidence):
    """M's range and derivatives, enclosed by interval arithmetic.

    What M may be written with is listed in :mod:`tether.programs`.
    """

    name: str = field(default="proved", init=False, repr=False)
    encloses: ClassVar[bool] = True
    refuted_by: ClassVar[str] = "This is a defect of Tether: please report it."

    def lacking(self, trusted: TrustedModel, kind: str, question: Question | None = None) -> str | None:
        """The construct, and the user's line, that cannot be enclosed over the box."""
        del kind
        if trusted.black_box:
            return f"M ({trusted.name}) cannot be proved: {trusted.black_box}"
        if question is None:
            return None
        try:
            program = question.program()
            evaluate(program, question.lower[None], question.upper[None], derivatives=True)
        except (EnclosureError, ValueError) as error:
            return f"M ({trusted.name}) cannot be proved: {error}"
        return None

    def range_over(self, cells: Cells, trusted: TrustedModel, schema: Schema, target: Target) -> Range:
        """Over the whole ball around each memory."""
        return proved_range(cells, trusted, schema, target)

    def expander(self, question: Question) -> Expander:
        """By the mean-value theorem over shells."""
        return _Enclosed(question)

    def recheck(self, claimed: Claimed, *, seed: int) -> None:
        """Derives delta again."""
        del seed
        claimed.derive(self)


class _Enclosed(Expander):
    """M's program, output by output."""

    def __init__(self, question: Question) -> None:
        super().__init__(question)
        self.whole = question.program()
        self.programs = [self.whole.only(k) for k in range(len(question.schema.outputs))]
        self.bends = np.stack(
            [bending_inputs(part, question.lower, question.upper) for part in self.programs]
        )
        self.edges = _edges(self.programs, question)
        # Where nothing bends there is nothing to describe by curvatures.
        second = question.order > 1
        self.hessians = [
            Hessian.of(part) if second and bends.any() else None
            for part, bends in zip(self.programs, self.bends, strict=True)
        ]
        self.pairs = _pairs(self.hessians, question)

    def expand(self, output: NDArray[np.int64], lower: Array, upper: Array) -> Leaves:
        """One output after the other, in the order given."""
        order = np.argsort(output, kind="stable")
        parts = []
        for k in np.unique(output):
            rows = order[output[order] == k]
            angle = bool(self.question.schema.output_angles[k])
            second = Second(self.hessians[k] if len(self.pairs) else None, self.pairs)
            prove = partial(
                expand_boxes, self.programs[k], pinned=self.question.pinned, angle=angle, second=second
            )
            shares = (rows[start : start + _LEAVES] for start in range(0, len(rows), _LEAVES))
            parts += current().map(prove, ((lower[share], upper[share]) for share in shares))
        return Leaves.joined(parts).take(np.argsort(order))

    def look(self, inputs: Array) -> Look:
        """From M's program, so that M itself is not asked."""
        found = evaluate(self.whole, inputs, inputs, derivatives=True, rounding=False)
        values = 0.5 * (found.lower + found.upper)
        slopes = 0.5 * (found.jacobian_lower + found.jacobian_upper)
        known = np.isfinite(values) & np.logical_and.reduce(np.isfinite(slopes), axis=2)
        angles = self.question.schema.output_angles
        slopes = np.where(known[:, :, None], slopes, 0.0)
        return Look(np.where(known, values, 0.0), slopes, known, angles)

    def needed(
        self, output: NDArray[np.int64], lower: Array, upper: Array, *, slope: Array, value: Array
    ) -> Array:
        """By the same proof; on the circle, each value is first moved to the turn that M's code is on."""
        middle, _ = middles(lower, upper, self.question.pinned)
        needed = np.empty(len(output))
        for k in np.unique(output):
            rows = np.flatnonzero(output == k)
            needed[rows] = needed_remainder(
                self.programs[k],
                lower[rows],
                upper[rows],
                middle=middle[rows],
                slope=slope[rows],
                value=value[rows] - self._turns(middle[rows], value[rows], int(k)),
            )
        return self._capped(needed, output)

    def needed_bent(
        self, output: NDArray[np.int64], lower: Array, upper: Array, *, slope: Array, value: Array, bent: Bent
    ) -> Array:
        """Likewise, by second derivatives; infinite where there are none."""
        middle, _ = middles(lower, upper, self.question.pinned)
        needed = np.full(len(output), np.inf)
        for k in np.unique(output):
            rows, hessian = np.flatnonzero(output == k), Hessian.of(self.programs[k])
            if hessian is None:
                continue
            needed[rows] = needed_curved(
                self.programs[k],
                hessian,
                lower[rows],
                upper[rows],
                middle=middle[rows],
                slope=slope[rows],
                value=value[rows] - self._turns(middle[rows], value[rows], int(k)),
                bent=Bent(bent.curvature[rows], bent.pairs),
            )
        return self._capped(needed, output)

    def _capped(self, needed: Array, output: NDArray[np.int64]) -> Array:
        turning = self.question.schema.output_angles[output] & np.isfinite(needed)
        return np.where(turning, np.minimum(needed, HALF_TURN), needed)

    def _turns(self, middle: Array, value: Array, output: int) -> Array:
        """(K,) whole turns between what is said of M's angle and what its own code returns."""
        question = self.question
        if not question.schema.output_angles[output]:
            return np.zeros(len(middle))
        dx = len(question.schema.states)
        raw = np.asarray(question.trusted.function(middle[:, :dx], middle[:, dx:]), dtype=np.float64)
        base = question.schema.base(middle[:, :dx])[:, output] if question.target == "increment" else 0.0
        return 2 * np.pi * np.round((value - (raw[:, output] - base)) / (2 * np.pi))


def _edges(programs: list[Program], question: Question) -> Array:
    """(E, 3) on both sides of each kink, so that only what lies between has one; and where M ends."""
    found = []
    for output, program in enumerate(programs):
        for column, value, ends in kinks_of(program):
            low, high = question.lower[column], question.upper[column]
            beside = max(_BESIDE * (high - low), 4 * float(np.spacing(abs(value))))
            for edge in [value] if ends else [value - beside, value + beside]:
                if low < edge < high:
                    found.append((output, column, edge))
    return np.array(found).reshape(-1, 3)


def _pairs(hessians: list[Hessian | None], question: Question) -> Pairs:
    """(Q, 2) inputs that curvatures are of, in all outputs; none where there would be too many."""
    found: set[tuple[int, int]] = set()
    for hessian in hessians:
        if hessian is not None:
            found |= hessian.pairs(question.lower, question.upper)
    kept = sorted(found) if len(found) <= MOST_PAIRS else []
    return np.array(kept, dtype=np.int64).reshape(len(kept), 2)


def bending_inputs(program: Program, lower: Array, upper: Array) -> NDArray[np.bool_]:
    """(D,) along which inputs the only output of a program may bend over the box; not along the rest."""
    whole = evaluate(program, lower[None], upper[None], derivatives=True, rounding=False)
    low, high = whole.jacobian_lower[0, 0], whole.jacobian_upper[0, 0]
    used = np.zeros(len(lower), dtype=bool)
    used[np.unique(program.tape.inputs)] = True
    with np.errstate(invalid="ignore"):
        constant = high - low <= _LINEAR * np.maximum(np.abs(low), np.abs(high))
    # Where M is not defined throughout, it may be anything along what it looks at.
    return used & (~constant | np.full_like(used, not np.isfinite(whole.lower[0, 0])))
