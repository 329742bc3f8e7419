"""Constructs of real models, one at a time, against exact arithmetic: millions of points, in both interpreters.

    python tests/fuzz/constructed.py --count 20000 --seed 0 --minutes 60

Tables, systems of equations, step functions, choices and lengths, alone or of what another step computes, over boxes
that hold their jumps and corners. The reference is python-flint's arb, as in `arithmetic`. Checked at points of each
box: the exact value and NumPy's own lie in the range; partial derivatives lie in the slopes, where these are bounded;
NumPy's value is no farther from the exact one than the rounding says, of constructs that do not jump. The enclosure
of `tether.programs` and that of `tether.verification`, which share no code, are both tried.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import flint
import numpy as np
from arithmetic import BITS, JUMP, Program, choose_place, exactly, is_outside, make_boxes, make_points
from arithmetic_functions import FUNCTIONS
from flint import arb
from subject import EnclosureError, Tally, main

from tether.programs import evaluate, trace
from tether.trusted.reading.tripwire import Tripwire
from tether.verification.graph import UnboundedError
from tether.verification.interpreter import enclose as enclose_again
from tether.verification.tracing import trace as trace_again

SMOOTH = ("table", "hypot", "norm", "einsum", "solve", "inv", "det")
JUMPING = (
    "table with ends", "piecewise", "fmod", "heaviside", "sign", "floor", "ceil", "trunc", "rint", "mod",
    "percent", "floor divide", "arctan2", "if positive",
)  # fmt: skip
BEFORE = ("sin", "times constant", "square", "arctan", "add constant")


class Bounds(NamedTuple):
    """(K,) limits of the only output, (K, D) of its slopes, NaN where unknown, and (K,) its rounding."""

    lower: np.ndarray
    upper: np.ndarray
    slope_lower: np.ndarray
    slope_upper: np.ndarray
    rounding: np.ndarray


def write(rng: np.random.Generator, name: str) -> tuple[Program, np.ndarray]:
    """The construct, of its inputs or of a step before it, and a place."""
    place = np.array([choose_place(rng) if rng.random() < 0.4 else rng.uniform(-4, 4) for _ in range(2)])
    steps: tuple = ()
    if rng.random() < 0.4:
        steps = (_step(rng, str(rng.choice(BEFORE)), (0,)),)
    inner = (1 + len(steps), 1) if FUNCTIONS[name].arity == 2 else (1 + len(steps),)
    inner = tuple(rng.permutation(inner).tolist()) if steps else tuple(range(FUNCTIONS[name].arity))
    return Program(2, (*steps, _step(rng, name, inner)), (2 + len(steps),)), place


def _step(rng: np.random.Generator, name: str, operands: tuple[int, ...]):
    constants = FUNCTIONS[name].constants
    return name, operands, None if constants is None else constants[int(rng.integers(len(constants)))]


def by_programs(model, lower: np.ndarray, upper: np.ndarray) -> Bounds:
    start, stop = Tripwire.start, Tripwire.stop
    Tripwire.start = Tripwire.stop = lambda _: None
    try:
        program = trace(model, states=1, controls=1)
    finally:
        Tripwire.start, Tripwire.stop = start, stop
    found = evaluate(program, lower, upper, derivatives=True)
    slopes = found.jacobian_lower[:, 0], found.jacobian_upper[:, 0]
    return Bounds(found.lower[:, 0], found.upper[:, 0], *slopes, found.rounding[:, 0])


def by_verification(model, lower: np.ndarray, upper: np.ndarray) -> Bounds:
    found = enclose_again(trace_again(model, 1, 1, 1, counts=(2, 5)), lower, upper, slopes=True)
    slopes = np.zeros((2, len(lower), 2))
    for column, ends in found.slopes[0].items():
        slopes[0][:, column], slopes[1][:, column] = ends
    return Bounds(found.lower[0], found.upper[0], *slopes, found.error[0])


INTERPRETERS = {"programs": by_programs, "verification": by_verification}


class Truth(NamedTuple):
    """What is exact at a point, None where it jumps or is not defined, and what NumPy computes."""

    value: arb | None
    slopes: list[arb] | None
    computed: float


def truths(program: Program, model, points: np.ndarray) -> list[Truth]:
    """At points (N, D)."""
    computed = np.asarray(model(points[:, :1], points[:, 1:]), dtype=float)[:, 0]
    found = []
    for point, own in zip(points.tolist(), computed.tolist(), strict=True):
        full = exactly(program, point, slopes=True)
        if full is not None and full is not JUMP:
            found.append(Truth(*full[0], own))
            continue
        plain = exactly(program, point, slopes=False)
        found.append(Truth(plain[0][0] if plain else None, None, own))
    return found


def escapes(bounds: Bounds, row: int, truth: Truth, smooth: bool) -> str | None:
    """What lies outside."""
    low, high, value = float(bounds.lower[row]), float(bounds.upper[row]), truth.value
    if value is not None and value.is_finite() and is_outside(value, low, high):
        return f"value: {value.str(25)} outside [{low!r}, {high!r}]"
    if not (low <= truth.computed <= high or np.isnan(truth.computed)):
        return f"float: {truth.computed!r} outside [{low!r}, {high!r}]"
    for column, exact in enumerate(truth.slopes or ()):
        ends = float(bounds.slope_lower[row, column]), float(bounds.slope_upper[row, column])
        if np.isfinite(ends).all() and exact.is_finite() and is_outside(exact, *ends):
            return f"derivative: along {column} is {exact.str(25)}, outside {ends}"
    rounding = float(bounds.rounding[row])
    if smooth and value is not None and value.is_finite() and np.isfinite([truth.computed, rounding]).all():
        away = abs(arb(truth.computed) - value)
        if away > arb(rounding):
            return f"rounding: {away.str(20)}, said to be {rounding!r}"
    return None


def run(tally: Tally, seed: int, boxes: int = 16, points: int = 24) -> None:
    rng = np.random.default_rng([seed, 0xC0])
    flint.ctx.prec = BITS
    names = (*SMOOTH, *JUMPING)
    name = names[seed % len(names)]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program, place = write(rng, name)
        lower, upper = make_boxes(rng, place, boxes)
        samples, model = make_points(rng, lower, upper, points), program.build()
        exact = [truths(program, model, part) for part in samples]
        for own, interpreter in INTERPRETERS.items():
            try:
                bounds = interpreter(model, lower, upper)
            except (EnclosureError, UnboundedError) as error:
                tally.refuse(error, program.source)
                continue
            known = np.flatnonzero(np.isfinite(bounds.lower) & np.isfinite(bounds.upper))
            pairs = ((row, k) for row in known for k in range(points))
            found = ((row, k, escapes(bounds, row, exact[row][k], name in SMOOTH)) for row, k in pairs)
            for row, k, what in found:
                if what is not None:
                    box = f"{lower[row].tolist()} to {upper[row].tolist()}"
                    place = samples[row, k].tolist()
                    tally.fail(f"# seed {seed}, {own}: {what}\n# at {place}, box {box}\n{program.source}")
                    break
            tally.counts["boxes"] += len(known)
            tally.counts["points"] += len(known) * points


if __name__ == "__main__":
    main("constructed", run, count=20_000, seconds=120)
