"""50,000 random arithmetic programs against exact arithmetic: no value, float or derivative may escape.

    python tests/fuzz/arithmetic.py --count 50000 --seed 0 --minutes 30

The reference is python-flint's arb. A ball counts as outside only if all of it is; one that straddles a bound is
computed again in many more bits. Inputs are of every size float64 has, on kinks, poles, multiples of π/2 and zeros.
Checked at points of each box: the exact value and NumPy's own lie in the bounds; exact partial derivatives lie in
the Jacobian's; exact differences between points lie in the Jacobian times the step.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import flint
import numpy as np
from arithmetic_functions import BINARY, FUNCTIONS, SIZES, UNARY, Jump, Tie
from flint import arb
from subject import EnclosureError, Tally, enclose, main, run_text

BITS, MANY = 320, 2600
TINY = arb(2) ** -100000
JUMP: list = []
Step = tuple[str, tuple[int, ...], float | None]


@dataclass(frozen=True)
class Program:
    """Steps of arithmetic over numbered values: inputs first, then the result of each step.

    Attributes:
        inputs: how many inputs, D; the last is a control.
        steps: function, numbers of its operands, constant.
        outputs: numbers of the values returned.
    """

    inputs: int
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]

    @property
    def source(self) -> str:
        lines = ["import numpy as np", "", "def model(s, u):"]
        lines += [f"    v{k} = s[:, {k}]" for k in range(self.inputs - 1)] + [
            f"    v{self.inputs - 1} = u[:, 0]"
        ]
        for k, (name, operands, constant) in enumerate(self.steps):
            given = None if constant is None else (repr(constant) if constant >= 0 else f"({constant!r})")
            text = FUNCTIONS[name].source.format(*(f"v{j}" for j in operands), c=given)
            lines.append(f"    v{self.inputs + k} = {text}")
        outputs = ", ".join(f"v{j}" for j in self.outputs)
        return "\n".join([*lines, f"    return np.stack([{outputs}], axis=1)", ""])

    def build(self):
        return run_text(self.source)["model"]

    def exact(self, point: list[arb], *, slopes: bool) -> list[tuple[arb, list[arb]]]:
        """Value and gradient of each output; raises Tie where there is none."""
        values, tie = list(point), None
        gradients = [[arb(int(j == k)) for j in range(self.inputs)] for k in range(self.inputs)]
        for name, operands, constant in self.steps:
            function, given = FUNCTIONS[name], [values[j] for j in operands]
            given += [] if constant is None else [arb(constant)]
            values.append(function.ball(*given))
            if slopes:
                try:
                    partial = function.slopes(*given)
                except Jump:
                    raise
                except Tie as found:  # a jump further on counts for more
                    tie, partial = found, [arb(0)] * len(operands)
                gradients.append([
                    sum((s * gradients[j][d] for s, j in zip(partial, operands, strict=True)), arb(0))
                    for d in range(self.inputs)
                ])  # fmt: skip
        if tie is not None:
            raise tie
        return [(values[j], gradients[j] if slopes else []) for j in self.outputs]

    def smaller(self) -> list[Program]:
        """Programs with one output or step less, or a plainer constant."""
        found = [replace(self, outputs=(j,)) for j in self.outputs] if len(self.outputs) > 1 else []
        for k, (name, operands, constant) in enumerate(self.steps):
            found += [self._without(k, j) for j in dict.fromkeys(operands)]
            if constant not in (None, 1.0, 2):
                whole = 2 if isinstance(constant, int) else 1.0
                steps = (*self.steps[:k], (name, operands, whole), *self.steps[k + 1 :])
                found.append(replace(self, steps=steps))
        return found

    def _without(self, step: int, instead: int) -> Program:
        """The step's value taken from one of its operands."""
        gone = self.inputs + step

        def number(j: int) -> int:
            j = instead if j == gone else j
            return j - 1 if j > gone else j

        rest = [
            (name, tuple(map(number, js)), c) for name, js, c in self.steps[:step] + self.steps[step + 1 :]
        ]
        return Program(self.inputs, tuple(rest), tuple(map(number, self.outputs)))


# Writing ----------------------------------------------------------------------------------------------


def choose_place(rng: np.random.Generator) -> float:
    """A number of any kind that float64 has."""
    sign = rng.choice([-1.0, 1.0])
    kind = rng.integers(0, 11)
    if kind <= 3:
        return float(rng.uniform(-3, 3))
    if kind == 4:
        return float(sign * 10.0 ** rng.uniform(-320, 308))
    if kind == 5:
        return float(sign * int(rng.integers(0, 1 << int(rng.integers(1, 53)))) * 5e-324)
    if kind == 6:
        return float(np.pi / 2 * int(rng.integers(-(10 ** int(rng.integers(1, 16))), 10**6)))
    if kind == 7:
        return float(sign * (1 + int(rng.integers(-3, 4)) * 2.0**-52))
    if kind == 8:
        return float(sign * 10.0 ** rng.uniform(-20, 8))
    return float(rng.choice([*SIZES, -0.0, 0.0, 0.0, 3.0, 1e5, -1e-5, 1.7976931348623157e308]))


def write_program(rng: np.random.Generator) -> tuple[Program, np.ndarray]:
    """A program and the (D,) place that it was written at, where most of it is defined."""
    inputs = int(rng.integers(2, 4))
    place = np.array([choose_place(rng) for _ in range(inputs)])
    program = Program(inputs, (), ())
    wanted, tries = int(rng.integers(1, 7)), 0
    while len(program.steps) < wanted and tries < 60:
        tries += 1
        table = UNARY if rng.random() < 0.55 else BINARY
        name = str(rng.choice(list(table)))
        known = inputs + len(program.steps)
        fresh = rng.random(table[name].arity) < 0.5
        operands = tuple(int(known - 1) if new else int(rng.integers(known)) for new in fresh)
        constants = table[name].constants
        constant = None if constants is None else constants[int(rng.integers(len(constants)))]
        longer = replace(program, steps=(*program.steps, (name, operands, constant)), outputs=(known,))
        if is_moderate(longer, place) or rng.random() < 0.02:
            program = longer
    last = inputs + len(program.steps) - 1
    outputs = (last,) if rng.random() < 0.6 or last == inputs else (last, last - 1)
    return replace(program, outputs=outputs), place


def is_moderate(program: Program, place: np.ndarray) -> bool:
    """Whether the new value is a number of float64's range, beside the place if not at it."""
    for shift in (0.0, 1e-9):
        try:
            value = program.exact([arb(x) + shift * abs(arb(x)) for x in place.tolist()], slopes=False)[0][0]
        except (Tie, ZeroDivisionError, ValueError, OverflowError):
            continue
        if value.is_finite() and abs(value) < 1e308:
            return True
    return False


def make_boxes(rng: np.random.Generator, place: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Boxes at the place: the point itself, a few units in the last place, and up to its own size and beyond."""
    size = np.abs(place)
    radius = size * 10.0 ** rng.uniform(-16, 0.5, (count, 1)) * rng.uniform(0, 1, (count, len(place)))
    radius[rng.random(radius.shape) < 0.15] = 0.0
    radius += rng.choice([0.0, 5e-324, 1e-310, 1e-9, 0.3], radius.shape, p=[0.55, 0.1, 0.05, 0.1, 0.2])
    radius[0] = 0.0
    with np.errstate(all="ignore"):
        lower, upper = place - radius, place + radius
    bare = rng.random(radius.shape) < 0.2  # a corner at the place itself
    lower, upper = (
        np.where(bare, place, lower),
        np.where(~bare & (rng.random(radius.shape) < 0.2), place, upper),
    )
    largest = np.finfo(float).max
    return np.clip(lower, -largest, largest), np.clip(upper, -largest, largest)


def make_points(rng: np.random.Generator, lower: np.ndarray, upper: np.ndarray, count: int) -> np.ndarray:
    """(K, count, D) points: corners, next to corners, zeros and other special places, and anywhere."""
    low, high = lower[:, None], upper[:, None]
    share = rng.random((len(lower), count, lower.shape[1]))
    with np.errstate(all="ignore"):
        points = low * (1 - share) + high * share
    corner = np.where(share < 0.5, low, high)
    kind = rng.random(points.shape)
    points = np.where(kind < 0.35, corner, points)
    points = np.where((kind >= 0.35) & (kind < 0.45), np.nextafter(corner, low / 2 + high / 2), points)
    special = rng.choice([*SIZES, 0.0, -0.0, 0.0], points.shape)
    whole = np.round(points / (np.pi / 2)) * (np.pi / 2)
    points = np.where((kind > 0.8) & (special >= low) & (special <= high), special, points)
    points = np.where((kind > 0.7) & (kind < 0.8), whole, points)
    inside = np.isfinite(points) & (points >= low) & (points <= high)
    return np.where(inside, points, corner)


# Checking ---------------------------------------------------------------------------------------------


def exactly(program: Program, point: list[float], *, slopes: bool, bits: int = BITS):
    flint.ctx.prec = bits
    try:
        return program.exact([arb(x) for x in point], slopes=slopes)
    except Jump:
        return JUMP
    except (Tie, ZeroDivisionError, ValueError, OverflowError):
        return None


def is_outside(ball: arb, low: float, high: float) -> bool:
    return bool(ball < arb(low)) or bool(ball > arb(high))


def is_inside(ball: arb, low: float, high: float) -> bool:
    return bool(ball >= arb(low)) and bool(ball <= arb(high))


def find_value(program: Program, bounds, point: list[float]) -> str | None:
    for bits in (BITS, MANY):
        results = exactly(program, point, slopes=False, bits=bits)
        if results is None:
            return None
        pairs = [
            (ball, low, high)
            for (ball, _), low, high in zip(results, *bounds, strict=True)
            if ball.is_finite()
        ]
        for ball, low, high in pairs:
            if is_outside(ball, low, high):
                return f"value: {ball.str(25)} outside [{low!r}, {high!r}]"
        if all(is_inside(*pair) for pair in pairs):
            return None
    return None


def find_float(model, bounds, point: list[float]) -> str | None:
    rows = np.array([point])
    with np.errstate(all="ignore"):
        values = np.asarray(model(rows[:, :-1], rows[:, -1:]), dtype=float)[0]
    for value, low, high in zip(values.tolist(), *bounds, strict=True):
        if not low <= value <= high and not np.isnan(value):
            kind = "float, after an under- or overflow" if strays(model, rows) else "float"
            return f"{kind}: {value!r} outside [{low!r}, {high!r}]"
    return None


def strays(model, rows: np.ndarray) -> bool:
    try:
        with np.errstate(over="raise", under="raise"):
            model(rows[:, :-1], rows[:, -1:])
    except FloatingPointError:
        return True
    return False


def find_slope(program: Program, jacobian, point: list[float]) -> str | None:
    """Partial derivatives; on a kink those next to it, whose limits are Clarke's."""
    beside = False
    results = exactly(program, point, slopes=True)
    if results is JUMP:
        return None
    if results is None and "np.where" in program.source:
        return None  # what a box decides says nothing of points beside it
    if results is None:
        flint.ctx.prec = MANY
        shifted = [
            arb(x) + (arb(2) ** -1200 * abs(arb(x)) + TINY) * (1 - 2 * (k % 2)) for k, x in enumerate(point)
        ]
        try:
            results, beside = program.exact(shifted, slopes=True), True
        except (Tie, ZeroDivisionError, ValueError, OverflowError):
            return None
    for output, (_, gradient) in enumerate(results):
        for d, slope in enumerate(gradient):
            low, high = float(jacobian[0][output, d]), float(jacobian[1][output, d])
            if not slope.is_finite() or not is_outside(slope, low, high):
                continue
            slack = (
                arb(2) ** -60 * (abs(slope) + abs(arb(low)) + abs(arb(high))) + arb(2) ** -1074
                if beside
                else 0
            )
            if slope + slack < arb(low) or slope - slack > arb(high):
                where = "derivative next to a kink" if beside else "derivative"
                return f"{where}: output {output} along {d} is {slope.str(25)}, outside [{low!r}, {high!r}]"
    return None


def find_change(program: Program, jacobian, one: list[float], two: list[float]) -> str | None:
    """The mean-value theorem between two points of a box, in many bits."""
    first, second = (exactly(program, point, slopes=False, bits=MANY) for point in (one, two))
    if first is None or second is None or one == two:
        return None
    for output, ((start, _), (stop, _)) in enumerate(zip(first, second, strict=True)):
        low = high = arb(0)
        for d, (a, b) in enumerate(zip(one, two, strict=True)):
            if a == b:
                continue
            if not np.isfinite(jacobian[0][output, d]) or not np.isfinite(jacobian[1][output, d]):
                return None
            ends = [arb(float(jacobian[k][output, d])) * (arb(b) - arb(a)) for k in range(2)]
            low, high = low + ends[0].min(ends[1]), high + ends[0].max(ends[1])
        change = stop - start
        if change.is_finite() and (change < low or change > high):
            return f"mean value: output {output} changes by {change.str(20)} to {two}, allowed {low.str(20)} to {high.str(20)}"
    return None


def find(
    program: Program, lower: np.ndarray, upper: np.ndarray, points: np.ndarray, tally: Tally | None = None
):
    """What escapes, with the row and the point; None: nothing. Raises EnclosureError."""
    model = program.build()
    try:
        box = enclose(model, lower, upper, states=program.inputs - 1)
    except EnclosureError:
        raise
    except Exception as error:
        return f"crash: {type(error).__name__}: {error}", 0, 0
    if np.isnan(box.lower).any() or np.isnan(box.upper).any():
        return "nan in the bounds", 0, 0
    for row, many in enumerate(points.tolist()):
        bounds, jacobian = (
            (box.lower[row].tolist(), box.upper[row].tolist()),
            (box.jacobian_lower[row], box.jacobian_upper[row]),
        )
        for k, point in enumerate(many):
            found = (
                find_value(program, bounds, point)
                or find_float(model, bounds, point)
                or find_slope(program, jacobian, point)
                or find_change(program, jacobian, point, many[k - 1])
            )
            if found:
                return f"{found} at {point}", row, k
        if tally is not None:
            tally.counts["boxes"] += 1
            tally.counts["points"] += len(many)
            tally.counts["unbounded"] += bool(np.isinf([*bounds[0], *bounds[1]]).any())
    return None


def minimise(program: Program, case, found: str) -> tuple[Program, str]:
    """The smallest program that is wrong in the same way over the same box."""
    kind, shrunk = found.split(":")[0], True
    while shrunk:
        shrunk = False
        for candidate in program.smaller():
            try:
                again = find(candidate, *case)
            except Exception:
                continue
            if again is not None and again[0].split(":")[0] == kind:
                program, found, shrunk = candidate, again[0], True
                break
    return program, found


def run(tally: Tally, seed: int, boxes: int = 5, points: int = 6) -> None:
    rng = np.random.default_rng(seed)
    flint.ctx.prec = BITS
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program, place = write_program(rng)
        tally.counts["programs"] += 1
        if tally.skips(program.source):
            return
        lower, upper = make_boxes(rng, place, boxes)
        samples = make_points(rng, lower, upper, points)
        for rows in (slice(0, 1), slice(1, None)):  # the point by itself: wide boxes are refused more often
            case = (lower[rows], upper[rows], samples[rows])
            try:
                found = find(program, *case, tally)
            except EnclosureError as error:
                tally.refuse(error, f"# {lower[rows].tolist()} to {upper[rows].tolist()}\n{program.source}")
                continue
            if found is not None:
                text, row, k = found
                case = (case[0][row : row + 1], case[1][row : row + 1], case[2][row : row + 1, [k - 1, k]])
                program, text = minimise(program, case, text)
                tally.fail(
                    f"# seed {seed}: {text}\n# box {case[0][0].tolist()} to {case[1][0].tolist()}\n{program.source}"
                )
                return


if __name__ == "__main__":
    main("arithmetic", run, count=50_000)
