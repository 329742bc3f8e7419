"""No value, float64 value or derivative may leave its enclosure.

The same expression runs on intervals, on floats (NumPy's own value), on exact fractions where it is
rational, and on 200-bit balls with derivatives (python-flint's arb) where it is not. A ball counts as an
escape only if it lies wholly outside; the balls are some 2**-190 wide.
"""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import flint
import mpmath
import numpy as np
import pytest
from flint import arb
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tether.programs import Enclosure, EnclosureError, Range, boxes, enclose, enclose_range

ROOT = Path(__file__).parents[2]
INPUTS = 3
BITS = 200
counted = {"exact": 0, "float": 0}


@pytest.fixture(autouse=True)
def _precision():
    before, flint.ctx.prec = flint.ctx.prec, BITS
    yield
    flint.ctx.prec = before


@pytest.fixture(autouse=True)
def _followed(monkeypatch):
    """This file asks about arithmetic: whether code is followed rightly (`twins`) has tests of its own."""
    monkeypatch.setattr(boxes, "_check_twins", lambda *_: None)


@pytest.fixture(scope="module", autouse=True)
def _millions():
    """The module as a whole checks millions of points."""
    counted.update(exact=0, float=0)
    yield
    print(
        f"\npoints checked: {counted['exact']:,} in exact or 200-bit arithmetic, {counted['float']:,} in float64"
    )


# The reference: values with gradients in 200-bit balls ------------------------------------------------


@dataclass
class Dual:
    value: arb
    gradient: list[arb]


@dataclass(frozen=True)
class Function:
    """One operation, in NumPy and in balls; `slopes` are its partial derivatives in balls."""

    numpy: Callable[..., Any]
    ball: Callable[..., arb]
    slopes: Callable[..., list[arb]]
    domain: tuple[tuple[float, float], ...] = ((-50.0, 50.0),)
    kinked: bool = False


def sign(x: arb) -> arb:
    return arb(1) if x > 0 else arb(-1)


def ball_angle(y: arb, x: arb) -> arb:
    return arb.atan2(y, x)


WIDE, POSITIVE, UNIT = (-1e3, 1e3), (1e-3, 1e3), (-0.999, 0.999)
UNARY = {
    "negative": Function(np.negative, lambda x: -x, lambda x: [arb(-1)]),
    "absolute": Function(np.abs, abs, lambda x: [sign(x)], kinked=True),
    "square": Function(np.square, lambda x: x * x, lambda x: [2 * x], (WIDE,)),
    "reciprocal": Function(np.reciprocal, lambda x: 1 / x, lambda x: [-1 / (x * x)], (POSITIVE,)),
    "sqrt": Function(np.sqrt, arb.sqrt, lambda x: [1 / (2 * x.sqrt())], (POSITIVE,)),
    "exp": Function(np.exp, arb.exp, lambda x: [x.exp()], ((-700, 700),)),
    "expm1": Function(np.expm1, arb.expm1, lambda x: [x.exp()]),
    "log": Function(np.log, arb.log, lambda x: [1 / x], (POSITIVE,)),
    "log1p": Function(np.log1p, arb.log1p, lambda x: [1 / (1 + x)], ((-0.999, 1e3),)),
    "sin": Function(np.sin, arb.sin, lambda x: [x.cos()]),
    "sin far": Function(np.sin, arb.sin, lambda x: [x.cos()], ((-1.1e5, 1.1e5),)),
    "cos": Function(np.cos, arb.cos, lambda x: [-x.sin()]),
    "cos far": Function(np.cos, arb.cos, lambda x: [-x.sin()], ((-1.1e5, 1.1e5),)),
    "tan": Function(np.tan, arb.tan, lambda x: [1 + x.tan() ** 2], ((-1.57, 1.57),)),
    "arcsin": Function(np.arcsin, arb.asin, lambda x: [1 / (1 - x * x).sqrt()], (UNIT,)),
    "arccos": Function(np.arccos, arb.acos, lambda x: [-1 / (1 - x * x).sqrt()], (UNIT,)),
    "arctan": Function(np.arctan, arb.atan, lambda x: [1 / (1 + x * x)], (WIDE,)),
    "sinh": Function(np.sinh, arb.sinh, lambda x: [x.cosh()]),
    "cosh": Function(np.cosh, arb.cosh, lambda x: [x.sinh()]),
    "tanh": Function(np.tanh, arb.tanh, lambda x: [1 / x.cosh() ** 2]),
    "deg2rad": Function(np.deg2rad, lambda x: x * arb.pi() / 180, lambda x: [arb.pi() / 180]),
    "rad2deg": Function(np.rad2deg, lambda x: x * 180 / arb.pi(), lambda x: [180 / arb.pi()]),
    "power 2": Function(lambda x: x**2, lambda x: x**2, lambda x: [2 * x], (WIDE,)),
    "power 3": Function(lambda x: x**3, lambda x: x**3, lambda x: [3 * x**2], (WIDE,)),
    "power 4": Function(lambda x: x**4, lambda x: x**4, lambda x: [4 * x**3], (WIDE,)),
    "power -1": Function(lambda x: x**-1, lambda x: x**-1, lambda x: [-(x**-2)], (POSITIVE,)),
    "power -3": Function(lambda x: (-x) ** -3, lambda x: -(x**-3), lambda x: [3 * x**-4], (POSITIVE,)),
    "power -2": Function(lambda x: x**-2, lambda x: x**-2, lambda x: [-2 * x**-3], (POSITIVE,)),
    "power 2.5": Function(
        lambda x: x**2.5, lambda x: x ** arb(2.5), lambda x: [arb(2.5) * x ** arb(1.5)], (POSITIVE,)
    ),
    "power -0.25": Function(
        lambda x: np.float_power(x, -0.25), lambda x: x ** arb(-0.25), lambda x: [arb(-0.25) * x ** arb(-1.25)], (POSITIVE,)
    ),
    "constant power": Function(lambda x: 0.3**x, lambda x: arb(0.3) ** x, lambda x: [arb(0.3) ** x * arb(0.3).log()]),
    "clip": Function(
        lambda x: np.clip(x, -0.5, 2.0),
        lambda x: x.max(arb(-0.5)).min(arb(2)),
        lambda x: [arb(1) if x > -0.5 and x < 2 else arb(0)],
        ((-4.0, 4.0),),
        kinked=True,
    ),
}  # fmt: skip
BINARY = {
    "add": Function(np.add, lambda x, y: x + y, lambda x, y: [arb(1), arb(1)], (WIDE, WIDE)),
    "subtract": Function(np.subtract, lambda x, y: x - y, lambda x, y: [arb(1), arb(-1)], (WIDE, WIDE)),
    "multiply": Function(np.multiply, lambda x, y: x * y, lambda x, y: [y, x], (WIDE, WIDE)),
    "divide": Function(np.divide, lambda x, y: x / y, lambda x, y: [1 / y, -x / (y * y)], (WIDE, POSITIVE)),
    "divide by negative": Function(
        lambda x, y: x / -y, lambda x, y: x / -y, lambda x, y: [-1 / y, x / (y * y)], (WIDE, POSITIVE)
    ),
    "power": Function(
        np.power, lambda x, y: x**y, lambda x, y: [y * x ** (y - 1), x**y * x.log()], (POSITIVE, (-5.0, 5.0))
    ),
    "minimum": Function(
        np.minimum, arb.min, lambda x, y: [arb(int(x < y)), arb(int(y < x))], (WIDE, WIDE), kinked=True
    ),
    "maximum": Function(
        np.maximum, arb.max, lambda x, y: [arb(int(x > y)), arb(int(y > x))], (WIDE, WIDE), kinked=True
    ),
    "hypot": Function(
        np.hypot,
        lambda x, y: (x * x + y * y).sqrt(),
        lambda x, y: [x / (x * x + y * y).sqrt(), y / (x * x + y * y).sqrt()],
        (WIDE, WIDE),
        kinked=True,
    ),
    "arctan2": Function(
        np.arctan2, ball_angle, lambda y, x: [x / (x * x + y * y), -y / (x * x + y * y)], (WIDE, POSITIVE)
    ),
    "arctan2 behind": Function(
        np.arctan2, ball_angle, lambda y, x: [x / (x * x + y * y), -y / (x * x + y * y)], (POSITIVE, WIDE)
    ),
}  # fmt: skip


FUNCTIONS = {**UNARY, **BINARY}


def apply_dual(function: Function, *parts: Dual) -> Dual:
    values = [part.value for part in parts]
    slopes = function.slopes(*values)
    gradient = [
        sum((s * part.gradient[k] for s, part in zip(slopes, parts, strict=True)), arb(0))
        for k in range(len(parts[0].gradient))
    ]
    return Dual(function.ball(*values), gradient)


# Boxes and points -------------------------------------------------------------------------------------


def make_boxes(rng: np.random.Generator, count: int, domain) -> tuple[np.ndarray, np.ndarray]:
    """Boxes of widths from one unit in the last place to the whole domain, points included."""
    low, high = np.array(domain, dtype=float).T
    middle = rng.uniform(low, high, size=(count, len(low)))
    middle[: count // 4] = np.round(middle[: count // 4], 1)
    radius = (high - low) * 10.0 ** rng.uniform(-17, 0, size=(count, 1))
    radius[: count // 10] = 0.0
    lower, upper = np.clip(middle - radius, low, high), np.clip(middle + radius, low, high)
    lower[-3:], upper[-3:] = low, high
    return lower, upper


def sample(rng: np.random.Generator, lower: np.ndarray, upper: np.ndarray, count: int) -> np.ndarray:
    """(K, count, D) points of each box, a third of them corners, a third on faces."""
    share = rng.uniform(size=(len(lower), count, lower.shape[1]))
    share[:, : count // 3] = np.round(share[:, : count // 3])
    faces = share[:, count // 3 : 2 * count // 3]
    faces[rng.uniform(size=faces.shape) < 0.5] = 1.0
    lower, upper = lower[:, None], upper[:, None]
    return np.clip(lower * (1 - share) + upper * share, lower, upper)


def outside(lower: float, upper: float, ball: arb) -> bool:
    return bool(ball < arb(lower)) or bool(ball > arb(upper))


def count_float_escapes(model, box: Enclosure, points: np.ndarray, states: int) -> int:
    rows, each, inputs = points.shape
    flat = points.reshape(-1, inputs)
    with np.errstate(all="ignore"):
        values = model(flat[:, :states], flat[:, states:]).reshape(rows, each, -1)
    counted["float"] += rows * each
    wrong = (values < box.lower[:, None]) | (values > box.upper[:, None])
    return int((wrong & np.isfinite(values)).sum())


def count_escapes(
    reference: Callable[[list[arb]], Dual], box: Enclosure, points: np.ndarray, *, kinked: bool
) -> dict[str, int]:
    """Escapes of values, derivatives and the mean-value property, in 200 bits, for one output."""
    found = {"value": 0, "derivative": 0, "mean value": 0}
    for row, many in enumerate(points):
        jacobian = [*zip(box.jacobian_lower[row, 0], box.jacobian_upper[row, 0], strict=True)]
        anchor = None
        for place in many.tolist():
            point = [arb(x) for x in place]
            dual = reference(point)
            counted["exact"] += 1
            found["value"] += outside(box.lower[row, 0], box.upper[row, 0], dual.value)
            if not kinked:
                pairs = zip(jacobian, dual.gradient, strict=True)
                found["derivative"] += sum(outside(low, high, slope) for (low, high), slope in pairs)
            if anchor is not None:
                found["mean value"] += breaks_mean_value(jacobian, anchor, (point, dual.value))
            anchor = (point, dual.value)
    return found


def count_rounding_escapes(model, reference, box: Enclosure, points: np.ndarray, states: int) -> int:
    """Points at which NumPy's value is farther from the exact one than `rounding` says."""
    rows, each, inputs = points.shape
    flat = points.reshape(-1, inputs)
    with np.errstate(all="ignore"):
        values = model(flat[:, :states], flat[:, states:]).reshape(rows, each)
    found = 0
    for row, many in enumerate(points):
        allowed = box.rounding[row, 0]
        for place, value in zip(many.tolist(), values[row].tolist(), strict=True):
            if np.isfinite(value) and np.isfinite(allowed):
                gap = abs(arb(value) - reference([arb(x) for x in place]))
                found += bool(gap > arb(float(allowed)))
    counted["exact"] += rows * each
    return found


def count_value_escapes(reference: Callable[[list[arb]], arb], box: Range, points: np.ndarray) -> int:
    """Escapes of values alone, which is cheap enough for many points."""
    found = 0
    for row, many in enumerate(points):
        low, high = arb(box.lower[row, 0]), arb(box.upper[row, 0])
        for place in many.tolist():
            value = reference([arb(x) for x in place])
            found += bool(value < low) or bool(value > high)
    counted["exact"] += points.shape[0] * points.shape[1]
    return found


def breaks_mean_value(jacobian, one, two) -> bool:
    """Whether M(s) - M(m) lies outside J (s - m)."""
    low = high = arb(0)
    for (down, up), a, b in zip(jacobian, two[0], one[0], strict=True):
        step = a - b
        if step == 0:
            continue
        ends = (arb(down) * step, arb(up) * step)
        low, high = low + ends[0].min(ends[1]), high + ends[0].max(ends[1])
    change = two[1] - one[1]
    return bool(change < low) or bool(change > high)


# One function at a time -------------------------------------------------------------------------------


def check_function(function: Function, seed: int, boxes: int = 150, exact: int = 15, plain: int = 400):
    rng = np.random.default_rng(seed)
    domain = function.domain
    lower, upper = make_boxes(rng, boxes, domain)

    def model(states, controls):
        return function.numpy(*(states[:, k] for k in range(len(domain))))[:, None]

    box = enclose(model, lower, upper, states=len(domain))
    unit = [[arb(int(k == j)) for j in range(len(domain))] for k in range(len(domain))]

    def reference(point: list[arb]) -> Dual:
        return apply_dual(function, *(Dual(x, unit[k]) for k, x in enumerate(point)))

    kinked = function.kinked
    found = count_escapes(reference, box, sample(rng, lower, upper, exact), kinked=kinked)
    found["value"] += count_value_escapes(
        lambda point: function.ball(*point), box, sample(rng, lower, upper, 10 * exact)
    )
    found["float"] = count_float_escapes(model, box, sample(rng, lower, upper, plain), len(domain))
    rounded = sample(rng, lower, upper, exact)
    found["rounding"] = count_rounding_escapes(model, lambda x: function.ball(*x), box, rounded, len(domain))
    return found


@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_every_function_contains_values_derivatives_and_floats(name):
    found = check_function(FUNCTIONS[name], seed=len(name))
    assert found == {"value": 0, "derivative": 0, "mean value": 0, "float": 0, "rounding": 0}


WITHOUT = """
import sys
sys.path.insert(0, {folder!r})
import test_programs_contain as here
from tether.programs import boxes, elementary, interpreter, rounding
boxes._check_program = boxes._check_twins = lambda *_: None  # which would notice, too
here.flint.ctx.prec = here.BITS
for module in (elementary, interpreter, rounding):
    for name in {names!r}:
        if hasattr(module, name):
            setattr(module, name, 0.0)
for name in {functions!r}:
    print(name, here.check_function(here.FUNCTIONS[name], seed=1, boxes=60, exact=6, plain=9)["value"])
"""


@pytest.mark.parametrize(
    ("names", "functions"),
    [
        (("ULP", "TINY"), ("add", "multiply", "divide", "square")),
        (("LIBRARY", "FAINT"), ("sin", "exp", "log", "tanh", "arctan2", "power 2.5")),
    ],
)
def test_the_check_notices_arithmetic_without_outward_rounding(names, functions):
    """In a process of its own, in which kernels are not compiled and their constants can be taken away."""
    script = WITHOUT.format(folder=str(Path(__file__).parent), names=names, functions=functions)
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    found = dict(line.rsplit(" ", 1) for line in done.stdout.splitlines())
    assert set(found) == set(functions) and all(int(count) > 5 for count in found.values())


@pytest.mark.parametrize("scale", [1e-320, 1e-300, 1e-160, 1e150, 1e300, 1.7e308])
@pytest.mark.parametrize(
    "name", ["add", "subtract", "multiply", "divide", "square", "sqrt", "sin", "arctan", "hypot"]
)
def test_the_ends_of_float64_are_sound(name, scale):
    """Underflow, overflow and infinite bounds, where the careful path takes over."""
    function = FUNCTIONS[name]
    arguments = 2 if name in BINARY else 1
    rng = np.random.default_rng(3)
    lower = np.sort(rng.uniform(0.1, 1.0, size=(60, arguments)) * scale, axis=0)
    upper = np.minimum(lower / scale * rng.uniform(1, 1.5, size=lower.shape), 1.05) * scale
    if name in ("add", "subtract", "multiply", "sin"):
        lower[::2] *= -1

    def model(states, controls):
        return function.numpy(*(states[:, k] for k in range(arguments)))[:, None]

    try:
        box = enclose_range(model, np.minimum(lower, upper), np.maximum(lower, upper), states=arguments)
    except EnclosureError:
        if scale < 1e300:
            raise
        return  # NumPy's own value overflows there, too
    assert not np.isnan(box.lower).any() and not np.isnan(box.upper).any()
    for row, many in enumerate(sample(rng, np.minimum(lower, upper), np.maximum(lower, upper), 12)):
        for place in many.tolist():
            assert not outside(box.lower[row, 0], box.upper[row, 0], function.ball(*(arb(x) for x in place)))
            counted["exact"] += 1


# Expressions ------------------------------------------------------------------------------------------

# Arguments are brought into each function's domain by functions that are themselves under test.
SAFE = {
    "sqrt": lambda x: ("sqrt", ("add", ("square", x), ("constant", 0.1))),
    "log": lambda x: ("log", ("add", ("square", x), ("constant", 0.1))),
    "log1p": lambda x: ("log1p", ("absolute", x)),
    "reciprocal": lambda x: ("reciprocal", ("add", ("absolute", x), ("constant", 0.3))),
    "exp": lambda x: ("exp", ("minimum", x, ("constant", 30.0))),
    "expm1": lambda x: ("expm1", ("clip", x)),
    "sinh": lambda x: ("sinh", ("clip", x)),
    "cosh": lambda x: ("cosh", ("clip", x)),
    "tan": lambda x: ("tan", ("sin", x)),
    "arcsin": lambda x: ("arcsin", ("multiply", ("constant", 0.9), ("cos", x))),
    "arccos": lambda x: ("arccos", ("multiply", ("constant", 0.9), ("tanh", x))),
    "power -2": lambda x: ("power -2", ("add", ("square", x), ("constant", 0.5))),
    "power 2.5": lambda x: ("power 2.5", ("add", ("square", x), ("constant", 0.5))),
    "constant power": lambda x: ("constant power", ("clip", x)),
}
PLAIN = [
    "negative",
    "absolute",
    "square",
    "sin",
    "cos",
    "arctan",
    "tanh",
    "power 3",
    "power 4",
    "deg2rad",
    "clip",
]
leaves = st.one_of(
    st.integers(0, INPUTS - 1).map(lambda k: ("input", k)),
    st.floats(-3, 3, allow_subnormal=False).map(lambda c: ("constant", c)),
    st.integers(0, INPUTS - 1).map(lambda k: ("input", k)),
)


def grow(children):
    unary = [children.map(lambda x, name=name: (name, x)) for name in PLAIN]
    guarded = [children.map(wrap) for wrap in SAFE.values()]
    pairs = st.tuples(children, children)
    binary = [
        pairs.map(lambda p, name=name: (name, *p))
        for name in ("add", "subtract", "multiply", "minimum", "maximum", "hypot")
    ]
    quotient = pairs.map(lambda p: ("divide", p[0], ("add", ("square", p[1]), ("constant", 0.2))))
    turned = pairs.map(lambda p: ("arctan2", p[0], ("add", ("absolute", p[1]), ("constant", 0.2))))
    return st.one_of(*unary, *guarded, *binary, *binary, quotient, quotient, turned)


expressions = st.recursive(leaves, grow, max_leaves=6)
KINKS = {"absolute", "minimum", "maximum", "clip", "hypot"}


def names(tree) -> set[str]:
    return {tree[0]}.union(*(names(part) for part in tree[1:] if isinstance(part, tuple)))


def inputs_of(tree) -> set[int]:
    if tree[0] == "input":
        return {tree[1]}
    return set().union(*(inputs_of(part) for part in tree[1:] if isinstance(part, tuple)))


def evaluate(tree, leaf, operation):
    if tree[0] in ("input", "constant"):
        return leaf(*tree)
    return operation(tree[0], *(evaluate(part, leaf, operation) for part in tree[1:]))


def as_model(tree):
    def model(states, controls):
        columns = [*states.T, *controls.T]

        def leaf(kind, value):
            return columns[value] if kind == "input" else value

        result = evaluate(tree, leaf, lambda name, *parts: FUNCTIONS[name].numpy(*parts))
        return (result + np.zeros(len(states)))[:, None]

    return model


def as_reference(tree):
    zero = [arb(0)] * INPUTS
    unit = [[arb(int(k == j)) for j in range(INPUTS)] for k in range(INPUTS)]

    def reference(point):
        def leaf(kind, value):
            return Dual(point[value], unit[value]) if kind == "input" else Dual(arb(value), zero)

        return evaluate(tree, leaf, lambda name, *parts: apply_dual(FUNCTIONS[name], *parts))

    return reference


def as_values(tree):
    def reference(point):
        def leaf(kind, value):
            return point[value] if kind == "input" else arb(value)

        return evaluate(tree, leaf, lambda name, *parts: FUNCTIONS[name].ball(*parts))

    return reference


QUIET = settings(deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@settings(QUIET, max_examples=120)
@given(expressions, st.integers(0, 2**32 - 1))
def test_expressions_contain_values_derivatives_and_floats(tree, seed):
    assume(inputs_of(tree) and not of_constants(tree))
    rng = np.random.default_rng(seed)
    lower, upper = make_boxes(rng, 10, [(-3.0, 3.0)] * INPUTS)
    box = enclose(as_model(tree), lower, upper, states=2)
    found = count_escapes(
        as_reference(tree), box, sample(rng, lower, upper, 10), kinked=bool(names(tree) & KINKS)
    )
    found["value"] += count_value_escapes(as_values(tree), box, sample(rng, lower, upper, 150))
    found["float"] = count_float_escapes(as_model(tree), box, sample(rng, lower, upper, 2000), 2)
    rounded = sample(rng, lower, upper, 40)
    found["rounding"] = count_rounding_escapes(as_model(tree), as_values(tree), box, rounded, 2)
    assert found == {"value": 0, "derivative": 0, "mean value": 0, "float": 0, "rounding": 0}
    split = enclose(as_model(tree), lower, upper, states=2, splits=2)
    assert (split.lower >= box.lower).all() and (split.jacobian_upper <= box.jacobian_upper).all()
    found = count_escapes(
        as_reference(tree), split, sample(rng, lower, upper, 6), kinked=bool(names(tree) & KINKS)
    )
    assert found == {"value": 0, "derivative": 0, "mean value": 0}


RATIONAL = {
    "negative": lambda x: -x,
    "square": lambda x: x * x,
    "power 3": lambda x: x**3,
    "power 4": lambda x: x**4,
    "power -2": lambda x: x**-2,
    "absolute": abs,
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
    "minimum": min,
    "maximum": max,
}


def grow_rational(children):
    pairs = st.tuples(children, children)
    unary = [
        children.map(lambda x, name=name: (name, x))
        for name in ("negative", "square", "power 3", "power 4", "absolute")
    ]
    binary = [
        pairs.map(lambda p, name=name: (name, *p))
        for name in ("add", "subtract", "multiply", "minimum", "maximum")
    ]
    quotient = pairs.map(lambda p: ("divide", p[0], ("add", ("square", p[1]), ("constant", 0.2))))
    negative_power = children.map(lambda x: ("power -2", ("add", ("square", x), ("constant", 0.5))))
    return st.one_of(*unary, *binary, *binary, quotient, negative_power)


@settings(QUIET, max_examples=150)
@given(st.recursive(leaves, grow_rational, max_leaves=6), st.integers(0, 2**32 - 1))
def test_rational_expressions_contain_exact_fractions(tree, seed):
    # What is of constants alone NumPy computes, and rounds.
    assume(inputs_of(tree) and not of_constants(tree))
    rng = np.random.default_rng(seed)
    lower, upper = make_boxes(rng, 10, [(-3.0, 3.0)] * INPUTS)
    box = enclose_range(as_model(tree), lower, upper, states=2)
    for row, many in enumerate(sample(rng, lower, upper, 24)):
        low, high = Fraction(box.lower[row, 0]), Fraction(box.upper[row, 0])
        for place in many.tolist():
            value = evaluate(
                tree,
                lambda k, v, place=place: Fraction(place[v] if k == "input" else v),
                lambda name, *p: RATIONAL[name](*p),
            )
            assert low <= value <= high
            counted["exact"] += 1
    assert count_float_escapes(as_model(tree), box, sample(rng, lower, upper, 2000), 2) == 0  # type: ignore[arg-type]


# Another library --------------------------------------------------------------------------------------

IV = {
    "negative": lambda x: -x,
    "square": lambda x: x**2,
    "power 3": lambda x: x**3,
    "power 4": lambda x: x**4,
    "sin": mpmath.iv.sin,
    "cos": mpmath.iv.cos,
    "exp": mpmath.iv.exp,
    "log": mpmath.iv.log,
    "sqrt": mpmath.iv.sqrt,
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
}


def grow_shared(children):
    pairs = st.tuples(children, children)
    unary = [
        children.map(lambda x, name=name: (name, x))
        for name in ("negative", "square", "power 3", "sin", "cos")
    ]
    guarded = [children.map(SAFE[name]) for name in ("log", "sqrt")]
    small = children.map(lambda x: ("exp", ("sin", x)))
    binary = [pairs.map(lambda p, name=name: (name, *p)) for name in ("add", "subtract", "multiply")]
    quotient = pairs.map(lambda p: ("divide", p[0], ("add", ("square", p[1]), ("constant", 0.2))))
    return st.one_of(*unary, *guarded, small, *binary, quotient)


@settings(QUIET, max_examples=50)
@given(st.recursive(leaves, grow_shared, max_leaves=5), st.integers(0, 2**32 - 1))
def test_ranges_agree_with_mpmath_iv(tree, seed):
    """Both are natural interval extensions: ours contains mpmath's, at 200 bits, and is hardly wider."""
    # What is of constants alone NumPy computes, and rounds.
    assume(inputs_of(tree) and not of_constants(tree))
    rng = np.random.default_rng(seed)
    lower, upper = make_boxes(rng, 12, [(-3.0, 3.0)] * INPUTS)
    model = as_model(tree)
    box = enclose_range(lambda x, u: model(np.copy(x), u), lower, upper, states=2)
    mpmath.iv.prec = BITS
    met = [mpmath.mpf(1)]

    def noted(found):
        met.append(max(abs(found.a), abs(found.b)))
        return found

    def theirs(row):
        ends = [mpmath.iv.mpf([float(a), float(b)]) for a, b in zip(lower[row], upper[row], strict=True)]
        return evaluate(
            tree,
            lambda k, v: noted(ends[v] if k == "input" else mpmath.iv.mpf(v)),
            lambda name, *p: noted(IV[name](*p)),
        )

    found = [theirs(row) for row in range(len(lower))]
    slack = 1e-11 * max(met) ** 2  # rounding is relative to the largest magnitude met on the way
    for row, range_ in enumerate(found):
        low, high = float(box.lower[row, 0]), float(box.upper[row, 0])
        assert (low <= range_.a and range_.b <= high) or same_object(tree)
        assert range_.a - low <= slack and high - range_.b <= slack


def of_constants(tree) -> bool:
    """Whether some operation of the tree is on constants alone."""
    if tree[0] in ("input", "constant"):
        return False
    return not inputs_of(tree) or any(of_constants(part) for part in tree[1:])


def same_object(tree) -> bool:
    """Ours is tighter where an expression meets itself (x - x, x * x), which mpmath cannot see."""
    if tree[0] in ("subtract", "multiply", "minimum", "maximum") and tree[1] == tree[2]:
        return True
    return any(same_object(part) for part in tree[1:] if isinstance(part, tuple))


# Sums, products of matrices, norms --------------------------------------------------------------------

MATRIX = np.array([[1.0, -2.5, 0.0], [0.3, 1e8, -1.0], [0.0, 1e-9, 7.0], [1 / 3, -1e8, 2.0]])


def exact_matmul(row, matrix):
    return [
        sum((x * Fraction(m) for x, m in zip(row, column, strict=True)), Fraction(0))
        for column in matrix.T.tolist()
    ]


def exact_product(row):
    result = Fraction(1)
    for x in row:
        result *= x
    return result


REDUCTIONS = {
    "sum": (lambda x: x.sum(axis=1, keepdims=True), lambda row: [sum(row)]),
    "mean": (lambda x: np.mean(x, axis=1, keepdims=True), lambda row: [sum(row) / len(row)]),
    "prod": (lambda x: np.prod(x, axis=1, keepdims=True), lambda row: [exact_product(row)]),
    "matmul": (lambda x: x @ MATRIX, lambda row: exact_matmul(row, MATRIX)),
    "constant first": (lambda x: (MATRIX.T @ x[:, :, None])[:, :, 0], lambda row: exact_matmul(row, MATRIX)),
    "dot": (lambda x: np.dot(x, MATRIX), lambda row: exact_matmul(row, MATRIX)),
    "two intervals": (lambda x: (x[:, None, :] @ x[:, :, None])[:, 0], lambda row: [sum(x * x for x in row)]),
    "cross": (lambda x: np.cross(x[:, :3], x[:, 1:]), lambda r: [r[1] * r[3] - r[2] * r[2], r[2] * r[1] - r[0] * r[3], r[0] * r[2] - r[1] * r[1]]),
    "norm": (lambda x: np.linalg.norm(x, axis=1, keepdims=True), None),
}  # fmt: skip


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_contain_exact_values_and_numpys_own_in_its_order(name):
    numpy, exact = REDUCTIONS[name]
    rng = np.random.default_rng(0)
    lower, upper = make_boxes(rng, 300, [(-3.0, 3.0)] * 4)
    scale = 10.0 ** rng.integers(-8, 9, size=lower.shape)  # cancellation: order of summation matters
    lower, upper = lower * scale, upper * scale

    def model(states, controls):
        return numpy(states)

    box = enclose(model, lower, upper, states=4)
    for row, many in enumerate(sample(rng, lower, upper, 15)):
        bounds = [*zip(box.lower[row].tolist(), box.upper[row].tolist(), strict=True)]
        for place in many.tolist():
            counted["exact"] += 1
            if exact is None:
                root = sum((arb(x) ** 2 for x in place), arb(0)).sqrt()
                assert not outside(*bounds[0], root)
            else:
                values = exact([Fraction(x) for x in place])
                assert all(low <= value <= high for (low, high), value in zip(bounds, values, strict=True))
    assert count_float_escapes(model, box, sample(rng, lower, upper, 500), 4) == 0
    check_mean_value_in_extended_precision(model, box, lower, upper, 4)


# Whole models -----------------------------------------------------------------------------------------


def check_mean_value_in_extended_precision(model, box, lower, upper, states):
    """M(s) - M(m) in J (s - m), with 64-bit mantissas and a slack of a few of their units."""
    rng = np.random.default_rng(1)
    s, m = (sample(rng, lower, upper, 1)[:, 0].astype(np.longdouble) for _ in range(2))
    with np.errstate(all="ignore"):
        change = model(s[:, :states], s[:, states:]) - model(m[:, :states], m[:, states:])
    one, two = (
        j.astype(np.longdouble) * (s - m)[:, None, :] for j in (box.jacobian_lower, box.jacobian_upper)
    )
    size = (
        np.maximum(np.abs(box.lower), np.abs(box.upper)) + np.abs(one).sum(axis=-1) + np.abs(two).sum(axis=-1)
    )
    slack = 1e-16 * size
    assert (np.minimum(one, two).sum(axis=-1) - slack <= change).all()
    assert (change <= np.maximum(one, two).sum(axis=-1) + slack).all()
    counted["float"] += len(s)


@pytest.mark.parametrize("name", ["unicycle", "quadrotor"])
def test_models_of_the_benchmark_are_contained(name, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    script = runpy.run_path(str(ROOT / "benchmarks" / "bench_enclosure.py"))
    model, boxes, states = script[name], script[f"{name}_boxes"](400), {"unicycle": 3, "quadrotor": 20}[name]
    rng = np.random.default_rng(0)
    box = enclose(model, *boxes, states=states)
    for _ in range(5):
        assert count_float_escapes(model, box, sample(rng, *boxes, 100), states) == 0
    check_mean_value_in_extended_precision(model, box, *boxes, states)
    split = enclose(model, *boxes, states=states, splits=2)
    assert count_float_escapes(model, split, sample(rng, *boxes, 100), states) == 0
    check_mean_value_in_extended_precision(model, split, *boxes, states)
    assert (split.upper - split.lower <= box.upper - box.lower).all()


def test_millions_of_points_were_checked():
    """Runs last in this file; alone it has nothing to count."""
    if counted["exact"]:
        assert counted["exact"] > 1_200_000 and counted["float"] > 9_000_000
