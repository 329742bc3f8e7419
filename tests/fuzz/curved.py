"""Random programs twice differentiated, and models of second order of them, against exact arithmetic: no escapes.

    python tests/fuzz/curved.py --count 20000 --seed 0 --minutes 30

The programs, boxes and points are those of `arithmetic`. Second derivatives are differences of exact first ones,
over ways so small that in as many bits nothing is lost. Checked at points of each box where M's range and slopes are
bounded: second derivatives lie in those of `tether.evidence.curvature` and of `tether.verification.curvatures`, which
share no code; M lies within the remainder of the second-order model that is made of it there.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import flint
import numpy as np
from arithmetic import JUMP, MANY, Program, exactly, make_boxes, make_points, write_program
from arithmetic_functions import Tie
from flint import arb
from subject import EnclosureError, Tally, main

from tether.evidence.curvature import Hessian
from tether.evidence.expansions import Second, expand_boxes, middles
from tether.programs import evaluate, trace
from tether.trusted.reading.tripwire import Tripwire
from tether.verification.curvatures import enclose_bend
from tether.verification.graph import UnboundedError
from tether.verification.tracing import trace as trace_again

Bends = dict[tuple[int, int], arb]


def second_derivatives(program: Program, point: list[float]) -> Bends | None:
    """By pairs of inputs; None where there are none, or a kink or jump is too near to tell."""
    flint.ctx.prec = MANY
    found: Bends = {}
    for j, at in enumerate(point):
        way = arb(2) ** -600 * (abs(arb(at)) if at else arb(1))
        ends = []
        for sign in (1, -1):
            moved = [arb(x) + (sign * way if k == j else 0) for k, x in enumerate(point)]
            try:
                ends.append(program.exact(moved, slopes=True)[0][1])
            except (Tie, ZeroDivisionError, ValueError, OverflowError):
                return None
        for i, (above, below) in enumerate(zip(*ends, strict=True)):
            found[i, j] = (above - below) / (2 * way)
    return found if all(part.is_finite() for part in found.values()) else None


def traced(model, inputs: int):
    start, stop = Tripwire.start, Tripwire.stop
    Tripwire.start = Tripwire.stop = lambda _: None
    try:
        return trace(model, states=inputs - 1, controls=1)
    finally:
        Tripwire.start, Tripwire.stop = start, stop


def by_programs(model, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """(K, D, D) least and greatest, NaN where nothing is known."""
    count, inputs = lower.shape
    program = traced(model, inputs)
    hessian = Hessian.of(program)
    if hessian is None:
        return None
    whole = evaluate(program, lower, upper, derivatives=True, rounding=False)
    ends = np.zeros((2, count, inputs, inputs))
    own = np.ix_(np.arange(count), hessian.inputs, hessian.inputs)
    for end, part in zip(ends, hessian.over(lower, upper), strict=True):
        end[own] = part
    moving = upper > lower
    known = np.isfinite(whole.lower[:, 0]) & np.isfinite(whole.upper[:, 0])
    known &= (np.isfinite(whole.jacobian_lower[:, 0]) | ~moving).all(axis=1)
    ends[:, ~known] = np.nan
    return ends[0], ends[1]


def by_verification(model, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same by the other interpreter."""
    count, inputs = lower.shape
    found = enclose_bend(trace_again(model, inputs - 1, 1, 1, counts=(2, 5)), lower, upper)
    ends = np.zeros((2, count, inputs, inputs))
    for (i, j), part in found.curves.items():
        for end, own in zip(ends, part, strict=True):
            end[:, i, j] = end[:, j, i] = own
    parts = [found.flow.range, *(part for k, part in found.flow.slopes.items())]
    known = np.logical_and.reduce(
        [np.isfinite(end) + np.zeros(count, bool) for part in parts for end in part]
    )
    ends[:, ~known] = np.nan
    return ends[0], ends[1]


def escaped(exact: Bends, low: np.ndarray, high: np.ndarray, moving: np.ndarray) -> Iterator[str]:
    for (i, j), own in exact.items():
        ends = float(low[i, j]), float(high[i, j])
        if not np.isfinite(ends).all() or not (moving[i] and moving[j]):
            continue
        # What a way of 2^-600 makes of the third derivative.
        slack = arb(2) ** -400 * (1 + abs(own))
        if own + slack < arb(ends[0]) or own - slack > arb(ends[1]):
            yield f"second derivative {i}, {j} is {own.str(20)}, outside {ends}"


def find_remainder(program: Program, model, lower, upper, samples, tally: Tally) -> tuple[str, int] | None:
    """M's exact and NumPy's value, beside A, at points of boxes."""
    own = traced(model, lower.shape[1])
    hessian = Hessian.of(own)
    if hessian is None:
        return None
    inputs = hessian.inputs.tolist()
    pairs = np.array([(i, j) for i in inputs for j in inputs if i <= j])
    leaves = expand_boxes(own, lower, upper, second=Second(hessian, pairs))
    middle, _ = middles(lower, upper, None)
    for row, points in enumerate(samples):
        if not np.isfinite(leaves.remainder[row]):
            continue
        tally.counts["expanded"] += 1
        tally.counts["bent"] += bool((leaves.curvature[row] != 0).any())
        values = np.asarray(model(points[:, :-1], points[:, -1:]), dtype=float)[:, 0]
        for point, value in zip(points.tolist(), values.tolist(), strict=True):
            exact = exactly(program, point, slopes=False, bits=MANY)
            away = [arb(x) - arb(c) for x, c in zip(point, middle[row].tolist(), strict=True)]
            line = arb(float(leaves.value[row]))
            line += sum(arb(float(s)) * a for s, a in zip(leaves.slope[row], away, strict=True))
            for (i, j), c in zip(pairs.tolist(), leaves.curvature[row].tolist(), strict=True):
                line += arb(c) * away[i] * away[j]
            said = [arb(value)] if np.isfinite(value) else []
            said += [exact[0][0]] if exact and exact is not JUMP and exact[0][0].is_finite() else []
            for own_value in said:
                if abs(own_value - line) > arb(float(leaves.remainder[row])):
                    gap = abs(own_value - line).str(15)
                    return f"M is {gap} from A at {point}, said {leaves.remainder[row]!r}", row
    return None


def find_second(
    program: Program,
    found: tuple[np.ndarray, np.ndarray],
    samples: np.ndarray,
    moving: np.ndarray,
    tally: Tally,
) -> tuple[str, int] | None:
    """What exact second derivatives are outside of, with the row."""
    for row in np.flatnonzero(~np.isnan(found[0]).all(axis=(1, 2))).tolist():
        tally.counts["boxes"] += 1
        for point in samples[row].tolist():
            truth = second_derivatives(program, point)
            if truth is None:
                continue
            tally.counts["points"] += 1
            for what in escaped(truth, found[0][row], found[1][row], moving[row]):
                return f"{what} at {point}", row
    return None


def run(tally: Tally, seed: int, boxes: int = 10, points: int = 6) -> None:
    rng = np.random.default_rng([seed, 0xC7])
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program, place = write_program(rng)
        program = Program(program.inputs, program.steps, program.outputs[:1])
        tally.counts["programs"] += 1
        if tally.skips(program.source):
            return
        lower, upper = make_boxes(rng, place, boxes)
        samples, model = make_points(rng, lower, upper, points), program.build()
        finders = {
            "programs": lambda: _second(by_programs(model, lower, upper)),
            "verification": lambda: _second(by_verification(model, lower, upper)),
            "remainder": lambda: find_remainder(program, model, lower, upper, samples, tally),
        }

        def _second(found: tuple[np.ndarray, np.ndarray] | None) -> tuple[str, int] | None:
            return None if found is None else find_second(program, found, samples, upper > lower, tally)

        for name, find in finders.items():
            try:
                wrong = find()
            except (EnclosureError, UnboundedError) as error:
                tally.refuse(error, program.source)
                continue
            if wrong is not None:
                what, row = wrong
                box = f"{lower[row].tolist()} to {upper[row].tolist()}"
                tally.fail(f"# seed {seed}, {name}: {what}, box {box}\n{program.source}")
                return


if __name__ == "__main__":
    main("curved", run, count=20_000, seconds=120)
