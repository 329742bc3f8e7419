"""M's own reachable sets, many steps ahead: boxes that hold every rollout of M, or of what stays near it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tether.claims.tubes.alone import FINE, Plan, reach_alone
from tether.claims.tubes.controls import Boxed
from tether.claims.tubes.given import Start, controls_of, count_of, starts_of
from tether.claims.tubes.limits import EvenLimits
from tether.claims.tubes.making import GENERATORS, Effort, trusted_program
from tether.claims.tubes.step import NO_BOUND, may_leave
from tether.data import Array, Schema
from tether.foundation.kernels import in_threads
from tether.foundation.limits import check_whole
from tether.programs import Program
from tether.programs.onebox import OneBox, fresh, one_box
from tether.trusted import Function, TrustedModel

# Both, and GAIN beside them, were chosen on the plants of benchmarks/bench_tubes.py, for width and for time.
CUTS = 2
WORTH = 0.02
"""As a share of the width, doubt about M for which a set is cut in parts."""


@dataclass(frozen=True, eq=False)
class Reached:
    """Boxes for each step.

    Attributes:
        lower: (T + 1, dx) or (N, T + 1, dx): least value of each state after each step; NaN after the end.
        upper: likewise, greatest.
        ended: (N,) the step that could not be shown; -1 for none.
        reasons: for each start, why it ended, in words; empty where it did not.
    """

    lower: Array
    upper: Array
    ended: NDArray[np.int64]
    reasons: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """Whether it goes as far as was asked for, from every start."""
        return not (self.ended >= 0).any()


class Reaching:
    """M's own reachable sets: M is made ready once, and each call takes microseconds a step.

    Effort is bounded by `generators` and `cuts`, whose defaults were chosen on the plants of
    ``benchmarks/bench_tubes.py``; whatever they are, what comes out holds.

    Args:
        trusted: M, which gives next states; or a program that gives what `target` says.
        schema: what the columns mean; none of them may be an angle.
        half_width: (P,) how far from M what is enclosed may be at each step; None: M itself.
        box: (D,) ends of a box of inputs to stay in; None: any.
        target: what is within `half_width` of M's, and what is rounded: next states, or increments that are
            then added to the states. M itself gives next states either way.
        generators: at most how many a set may have.
        cuts: at most how often sets are cut in two within a step, over which M bends much: each doubles what
            such a step may take.
    """

    def __init__(
        self,
        trusted: TrustedModel | Function | Program,
        schema: Schema,
        *,
        half_width: ArrayLike | None = None,
        box: tuple[Array, Array] | None = None,
        target: str = "next_state",
        generators: int = GENERATORS,
        cuts: int = CUTS,
    ) -> None:
        Effort(generators, cuts=cuts)
        check_whole("generators", generators, least=len(schema.states), most=100_000)
        if schema.angles:
            raise ValueError(
                f"`schema` must have no angles; got {', '.join(schema.angles)}. Leave out `angles` where M "
                "takes them as they are, beyond ±π too."
            )
        if len(schema.outputs) != len(schema.states):
            raise ValueError("`schema` must have outputs that advance every state; got fewer.")
        self.schema, inputs = schema, len(schema.inputs)
        width = np.zeros(len(schema.outputs)) if half_width is None else np.asarray(half_width, np.float64)
        if width.shape != (len(schema.outputs),) or not ((width >= 0) & np.isfinite(width)).all():
            raise ValueError(
                f"`half_width` must be {len(schema.outputs)} finite numbers of at least 0; got {half_width}."
            )
        limits = EvenLimits(width, schema, target, *(box or ()))
        program = trusted_program(trusted, schema, limits)
        order = np.argsort(schema.advanced)
        increments = target == "increment"
        base = np.eye(inputs)[: len(order)] if increments else np.zeros((len(order), inputs))
        least, most = (np.array(end, dtype=np.float64) for end in limits.box)
        self._box = limits.box
        self._plan = Plan(base, np.ascontiguousarray(width[order]), least, most, generators, cuts, WORTH)
        self._one = one_box(program, order)
        self._idle: list[OneBox] = []

    def __call__(self, start: Start, controls: Any, *, steps: int | None = None) -> Reached:
        """Boxes after each of so many steps, from starts and with controls as for :func:`tether.tube`."""
        lower, upper, many = starts_of(start, self.schema)
        lower, upper = np.ascontiguousarray(lower), np.ascontiguousarray(upper)
        known = controls_of(controls, self.schema, steps, self._box)
        if not isinstance(known, Boxed):
            raise TypeError("`controls` must be numbers; got a policy.")
        count = count_of(known, steps)
        rows = len(lower)
        if known.lower.shape[0] not in (1, rows):
            raise ValueError(f"`controls` must be for 1 or {rows} starts; got {known.lower.shape[0]}.")
        applied = tuple(np.array(end, order="C") for end in (known.lower, known.upper))
        shape = (rows, count + 1, lower.shape[1])
        low, high, ended = np.full(shape, np.nan), np.full(shape, np.nan), np.empty((rows, 2), dtype=np.int64)

        def run(part: slice) -> None:
            one = self._registers()
            own = applied if len(applied[0]) == 1 else tuple(end[part] for end in applied)
            reach_alone(
                one, self._plan, lower[part], upper[part], *own, low[part], high[part], ended[part]
            )  # fmt: skip
            self._idle.append(one)

        in_threads(run, rows)
        reasons = [""] * rows
        for k in np.flatnonzero(ended[:, 0] != FINE).tolist():
            own = [end[k if len(end) > 1 else 0] for end in applied]
            reasons[k] = self._why(ended[k], (low[k], high[k]), (own[0], own[1]))
        if not many:
            low, high = low[0], high[0]
        return Reached(low, high, ended[:, 0], tuple(reasons))

    def _registers(self) -> OneBox:
        """Some that nobody uses, for whoever calls beside others; made as they are needed, and kept."""
        try:
            return self._idle.pop()
        except IndexError:
            return fresh(self._one)

    def _why(self, found: Array, ends: tuple[Array, Array], applied: tuple[Array, Array]) -> str:
        step, column = found.tolist()
        if step == FINE:
            return ""
        if column < 0:
            return NO_BOUND
        own = column - len(self.schema.states)
        low, high = (end[step, column] for end in ends) if own < 0 else (end[step, own] for end in applied)
        return may_leave(self.schema, column, (low, high), (self._box[0][column], self._box[1][column]))
