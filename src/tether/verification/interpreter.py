"""A program over many boxes at once: its values, its slopes, and how far float64 strays from the exact value.

Per node three things are carried: a range that holds the exact value and whatever float64 gives, anywhere
in the
box; a range of the derivative by every input it depends on; and an error, at most which the float64 value
is off
the exact one at the same input. With u the roundoff, an operation adds u of its result to the errors of its
arguments times its slopes, a library function 4 units in the last place, a sum (n - 1) u of all its parts,
so that
the order of summation and fused products do not matter. Sound because both values of each argument lie in its
range, so that the mean-value theorem holds between them.

A step function, or a choice by a condition that is not the same all over a box, may jump there. Its range
then holds both sides; its derivative by every input that decides on it is not known, and so bears no proof
along these. The exact value is meant with each choice as float64 makes it, which depends on these inputs
alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether.verification import elementary, intervals
from tether.verification.elementary import LIBRARY, RANGES, SLOPES
from tether.verification.graph import BOOLEAN, Node
from tether.verification.intervals import ONE, ZERO, Array, Interval, magnitude
from tether.verification.operations import ELEMENTARY, STEPS
from tether.verification.systems import UNDERFLOW, Solved, Table, determinant_slack, solved
from tether.verification.tracing import Program

_U = 2.0**-53
_MORE = 1 + 2.0**-40  # for the roundings of the error's own arithmetic
_FAINT = 5e-324
_CHOICES = frozenset({"select", "left_over", "arctan2", *STEPS})
_STEP_FUNCTIONS = {"sign": np.sign, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rint": np.rint}


@dataclass(eq=False)
class Flow:
    """What a node is over each of B boxes.

    Attributes:
        range: exact and float64 values.
        error: float64 value less exact value.
        slopes: derivative by input, where it depends on one.
    """

    range: Interval
    error: Any
    slopes: dict[int, Interval]


@dataclass(frozen=True, eq=False)
class Truth:
    """A condition over each box: whether it holds everywhere, and whether nowhere.

    Attributes:
        true: everywhere.
        false: nowhere.
        inputs: those it depends on.
        lost: where nothing is known of a number that it compares, which may be NaN: less than another and at
            least as great are then both false.
    """

    true: Any
    false: Any
    inputs: frozenset[int] = frozenset()
    lost: Any = False


@dataclass(frozen=True, eq=False)
class Enclosure:
    """Outputs over B boxes.

    Attributes:
        lower: (P, B); NaN where nothing is known.
        upper: (P, B).
        error: (P, B) how far M's float64 value is from its exact one at most.
        slopes: per output, the range of the derivative by each input it depends on.
    """

    lower: Array
    upper: Array
    error: Array
    slopes: list[dict[int, Interval]]


def exact_values(program: Program, points: Array) -> tuple[Array, Array]:
    """(B, P) least and greatest that the exact value at points (B, D) can be; choices are float64's."""
    chooses = any(node.operation in _CHOICES for node in program.nodes)
    # What float64 compares is not the exact value: both sides of a choice count where they may differ.
    with nullcontext() if chooses else elementary.exact_only():
        found = enclose(program, points, points, slopes=False)
    return found.lower.T, found.upper.T


def enclose(program: Program, low: Array, high: Array, *, slopes: bool) -> Enclosure:
    """The program over boxes from `low` (B, D) to `high`."""
    last = _last_uses(program)
    flows: dict[int, Any] = {}
    with np.errstate(all="ignore"):
        for number, node in enumerate(program.nodes):
            found = run_node(node, [flows[k] for k in node.arguments], low, high, slopes)
            flows[number] = known_only(found, slopes) if isinstance(found, Flow) else found
            for k in last.get(number, ()):
                del flows[k]
        outputs = [flows[k] for k in program.outputs]
    spread = [np.broadcast_to(end, len(low)) for flow in outputs for end in (*flow.range, flow.error)]
    stacked = np.stack(spread).reshape(len(outputs), 3, len(low))
    return Enclosure(stacked[:, 0], stacked[:, 1], stacked[:, 2], [flow.slopes for flow in outputs])


def known_only(flow: Flow, slopes: bool) -> Flow:
    """Where a range is not known, or overflows, nothing is: neither error nor slope, by any input."""
    known = np.isfinite(flow.range[0]) & np.isfinite(flow.range[1])
    if np.all(known):
        return flow
    lost = np.where(known, 0.0, np.nan)
    parts = {k: (part[0] + lost, part[1] + lost) for k, part in flow.slopes.items()}
    if slopes:
        parts.setdefault(0, (lost, lost))
    return Flow((flow.range[0] + lost, flow.range[1] + lost), flow.error + lost, parts)


def _last_uses(program: Program) -> dict[int, list[int]]:
    """By node, what is not needed after it."""
    user: dict[int, int] = {}
    for number, node in enumerate(program.nodes):
        for k in node.arguments:
            user[k] = number
    last: dict[int, list[int]] = {}
    for k, number in user.items():
        if k not in program.outputs:
            last.setdefault(number, []).append(k)
    return last


def run_node(node: Node, arguments: list[Any], low: Array, high: Array, slopes: bool) -> Any:
    """One node from its arguments."""
    name = node.operation
    if name == "input":
        column = node.data
        ends = low[:, column], high[:, column]
        ends = (ends[0], ends[0]) if low is high else ends
        return Flow(ends, 0.0, {column: ONE} if slopes else {})
    if name in BOOLEAN:
        return _TRUTHS[name](node, arguments)
    if name == "constant":
        value = np.float64("nan" if node.data == "nan" else float.fromhex(node.data))
        return Flow((value, value), 0.0, {})
    if name == "unset":
        return Flow((np.float64(np.nan), np.float64(np.nan)), np.nan, {})
    return _RULES[name](node, arguments)


# Conditions -----------------------------------------------------------------------------------------


def _less(_: Node, flows: list[Flow]) -> Truth:
    one, two = flows[0].range, flows[1].range
    return Truth(one[1] < two[0], one[0] >= two[1], _inputs(flows), _lost(flows))


def _less_equal(_: Node, flows: list[Flow]) -> Truth:
    one, two = flows[0].range, flows[1].range
    return Truth(one[1] <= two[0], one[0] > two[1], _inputs(flows), _lost(flows))


def _equal(_: Node, flows: list[Flow]) -> Truth:
    one, two = flows[0].range, flows[1].range
    same = (one[0] == one[1]) & (two[0] == two[1]) & (one[0] == two[0])
    return Truth(same, (one[1] < two[0]) | (one[0] > two[1]), _inputs(flows), _lost(flows))


def _inputs(flows: list[Flow]) -> frozenset[int]:
    return frozenset().union(*(flow.slopes for flow in flows))


def _lost(flows: list[Flow]) -> Any:
    """Where a number that depends on inputs is not known."""
    ends = [end for flow in flows for end in flow.range if np.ndim(end)]
    return np.logical_or.reduce([np.isnan(end) for end in ends]) if ends else False


def _both(parts: list[Truth]) -> Truth:
    one, two = parts
    return Truth(one.true & two.true, one.false | two.false, one.inputs | two.inputs, one.lost | two.lost)


def _turned(part: Truth) -> Truth:
    return Truth(part.false, part.true, part.inputs, part.lost)


_TRUTHS: dict[str, Callable[[Node, list[Any]], Truth]] = {
    "less": _less,
    "less_equal": _less_equal,
    "equal": _equal,
    "and": lambda _, parts: _both(parts),
    "or": lambda _, parts: _turned(_both([_turned(part) for part in parts])),
    "not": lambda _, parts: _turned(parts[0]),
    "truth": lambda node, _: Truth(np.bool_(node.data), np.bool_(not node.data)),
}


def _select(_: Node, parts: list[Any]) -> Flow:
    condition, one, two = parts
    undecided = ~(condition.true | condition.false)

    def chosen(a: Interval, b: Interval) -> Interval:
        return intervals.choose(undecided, intervals.hull(a, b), intervals.choose(condition.true, a, b))

    error = np.where(condition.true, one.error, two.error)
    error = np.where(undecided, np.maximum(one.error, two.error), error)
    slopes = _paired(one, two, chosen)
    value = intervals.unknown(condition.lost, chosen(one.range, two.range))
    return Flow(value, error, _jumping(slopes, condition.inputs, undecided))


def _jumping(slopes: dict[int, Interval], inputs: Iterable[int], where: Any) -> dict[int, Interval]:
    """Slopes of which, by these inputs, nothing is known where there may be a jump."""
    lost = {k: intervals.unknown(where, slopes.get(k, ZERO)) for k in sorted(inputs)}
    return slopes | lost


def _paired(one: Flow, two: Flow, merge: Callable[[Interval, Interval], Interval]) -> dict[int, Interval]:
    columns = one.slopes.keys() | two.slopes.keys()
    return {k: merge(one.slopes.get(k, ZERO), two.slopes.get(k, ZERO)) for k in sorted(columns)}


# Arithmetic -----------------------------------------------------------------------------------------


def _added(one: dict[int, Interval], two: dict[int, Interval]) -> dict[int, Interval]:
    merged = dict(one)
    for column, part in two.items():
        merged[column] = intervals.add(merged[column], part) if column in merged else part
    return merged


def _chained(flow: Flow, slope: Interval) -> dict[int, Interval]:
    return {column: intervals.multiply(part, slope) for column, part in flow.slopes.items()}


def _rounded(error: Any, value: Interval, ulps: float = _U) -> Any:
    return error * _MORE + magnitude(value) * (ulps * _MORE) + _FAINT


def _is_zero(flow: Flow) -> bool:
    return _constant(flow) == 0


def _constant(flow: Flow) -> float | None:
    """The number that a node is, if it is one."""
    low, high = flow.range
    return float(low) if np.ndim(low) == 0 and low == high and not flow.slopes else None


def _is_power_of_two(flow: Flow) -> bool:
    """A number that times another is exact, but for underflow."""
    number = _constant(flow)
    return number is not None and abs(math.frexp(number)[0]) == 0.5


def _add(_: Node, parts: list[Flow]) -> Flow:
    one, two = parts
    value = intervals.add(one.range, two.range)
    own = 0.0 if _is_zero(one) or _is_zero(two) else _U
    return Flow(value, _rounded(one.error + two.error, value, own), _added(one.slopes, two.slopes))


def _subtract(node: Node, parts: list[Flow]) -> Flow:
    one, two = parts
    if node.arguments[0] == node.arguments[1]:
        return _zero_where_known(one)
    value = intervals.subtract(one.range, two.range)
    slopes = _added(one.slopes, {k: intervals.negative(part) for k, part in two.slopes.items()})
    own = 0.0 if _is_zero(one) or _is_zero(two) else _U
    return Flow(value, _rounded(one.error + two.error, value, own), slopes)


def _zero_where_known(flow: Flow) -> Flow:
    zero = np.where(np.isfinite(flow.range[0]) & np.isfinite(flow.range[1]), 0.0, np.nan)
    return Flow((zero, zero), 0.0, {})


def _sum(_: Node, parts: list[Flow]) -> Flow:
    value, error, sizes, slopes, count = ZERO, 0.0, 0.0, {}, -1
    for part in parts:
        value = intervals.add(value, part.range)
        error, sizes = error + part.error, sizes + magnitude(part.range)
        slopes = _added(slopes, part.slopes)
        count += bool(np.any(magnitude(part.range) != 0))
    # Whatever the order of summation: (n - 1) roundings of the sum of sizes.
    slack = sizes * (max(count, 0) * _U * _MORE)
    wider = elementary.float_slack(slack)
    value = intervals.add_down(value[0], -wider), intervals.add_up(value[1], wider)
    return Flow(value, error * _MORE + slack + _FAINT, slopes)


def _multiply(_: Node, parts: list[Flow]) -> Flow:
    one, two = parts
    if _is_zero(one) or _is_zero(two):  # times what is finite
        return _zero_where_known(two if _is_zero(one) else one)
    value = intervals.multiply(one.range, two.range)
    own = 0.0 if _is_power_of_two(one) or _is_power_of_two(two) else _U
    error = _rounded(magnitude(one.range) * two.error + magnitude(two.range) * one.error, value, own)
    return Flow(value, error, _added(_chained(one, two.range), _chained(two, one.range)))


def _divide(_: Node, parts: list[Flow]) -> Flow:
    one, two = parts
    value = intervals.divide(one.range, two.range)
    least = np.minimum(np.abs(two.range[0]), np.abs(two.range[1]))
    own = 0.0 if _is_power_of_two(two) else _U
    error = _rounded((one.error + magnitude(value) * two.error) / least, value, own)
    slopes = {k: intervals.divide(part, two.range) for k, part in one.slopes.items()}
    if two.slopes:
        slope = intervals.negative(intervals.divide(value, two.range))
        slopes = _added(slopes, _chained(two, slope))
    return Flow(value, error, slopes)


def _quotient(node: Node, parts: list[Flow]) -> Flow:
    """Before `//` rounds it down: a division, and whatever else is rounded on NumPy's way."""
    flow = _divide(node, parts)
    wider = magnitude(flow.range) * (8 * _U) + _FAINT
    value = intervals.add_down(flow.range[0], -wider), intervals.add_up(flow.range[1], wider)
    return Flow(value, flow.error + wider, flow.slopes)


def _negative(_: Node, parts: list[Flow]) -> Flow:
    slopes = {k: intervals.negative(part) for k, part in parts[0].slopes.items()}
    return Flow(intervals.negative(parts[0].range), parts[0].error, slopes)


def _left_over(node: Node, parts: list[Flow]) -> Flow:
    """``x - n y``, with n whole: the same all over the box, or what float64 has it to be."""
    one, two, whole = parts
    turns = intervals.multiply(two.range, whole.range)
    several = np.isfinite(whole.range[0]) & np.isfinite(whole.range[1]) & (whole.range[0] != whole.range[1])
    value = intervals.subtract(one.range, turns)
    # Whatever n is, the rest is not beyond the divisor, and on its side; of `fmod`, on that of the dividend.
    size = magnitude(two.range)
    within = np.minimum(two.range[0], 0.0), np.maximum(two.range[1], 0.0)
    if node.data != "floor":
        within = np.where(one.range[0] < 0, -size, 0.0), np.where(one.range[1] > 0, size, 0.0)
    value = intervals.choose(several, within, value)
    widened = magnitude(two.range) * (2 * _U) + _FAINT
    wider = elementary.float_slack(widened)
    value = intervals.add_down(value[0], -wider), intervals.add_up(value[1], wider)
    error = _rounded(one.error + magnitude(whole.range) * two.error, value, 4 * _U) + widened
    slopes = _added(one.slopes, _chained(two, intervals.negative(whole.range)))
    return Flow(value, error, _jumping(slopes, slopes.keys() | whole.slopes.keys(), several))


# Functions ------------------------------------------------------------------------------------------


def _function(node: Node, parts: list[Flow]) -> Flow:
    one, name = parts[0], node.operation
    value = RANGES[name](one.range)
    own = {"sqrt": _U, "square": _U, "absolute": 0.0}.get(name, LIBRARY)
    if not one.slopes and not np.any(one.error):
        return Flow(value, _rounded(0.0, value, own), {})
    slope = SLOPES[name](one.range, value)
    return Flow(value, _rounded(_carried(one, slope, name), value, own), _chained(one, slope))


def _carried(one: Flow, slope: Interval, name: str) -> Any:
    """The error of the argument, times the slope; a root has another bound, where its slope has none."""
    carried = np.where(np.asarray(one.error) == 0, 0.0, magnitude(slope) * one.error)
    if name == "sqrt":
        return np.fmin(carried, np.sqrt(one.error) * _MORE)
    return np.where(np.isnan(carried), np.inf, carried)


def _power(node: Node, parts: list[Flow]) -> Flow:
    one, exponent, own = parts[0], node.data, LIBRARY
    if node.operation == "power":
        value, slope = intervals.power(one.range, exponent), elementary.power_slope(one.range, exponent)
        # NumPy squares; a square of the C library's is off by a unit in the last place at most.
        own = {0: 0.0, 1: 0.0, 2: 2 * _U}.get(exponent, LIBRARY)
        value = elementary.inflated(value) if own == LIBRARY else value
        wider = elementary.float_slack(magnitude(value) * (own * (own < LIBRARY)))
        value = intervals.add_down(value[0], -wider), intervals.add_up(value[1], wider)
        value = (np.maximum(value[0], 0.0), value[1]) if exponent % 2 == 0 else value
    else:
        exponent = float.fromhex(exponent)
        value = elementary.real_power(one.range, exponent)
        slope = elementary.real_power_slope(one.range, exponent)
    error = _rounded(_carried(one, slope, "power"), value, own)
    return Flow(value, error, _chained(one, slope))


def _extreme(node: Node, parts: list[Flow]) -> Flow:
    one, two = parts
    a, b = one.range, two.range
    if node.operation == "minimum":
        value = np.minimum(a[0], b[0]), np.minimum(a[1], b[1])
        first, second = a[1] < b[0], b[1] < a[0]
    else:
        value = np.maximum(a[0], b[0]), np.maximum(a[1], b[1])
        first, second = a[0] > b[1], b[0] > a[1]

    def merged(da: Interval, db: Interval) -> Interval:
        return intervals.choose(first, da, intervals.choose(second, db, intervals.hull(da, db)))

    # Where one side is the answer all over the box, the other's error does not matter.
    either = np.maximum(one.error, two.error)
    error = np.where(first, one.error, np.where(second, two.error, either))
    return Flow(value, error, _paired(one, two, merged))


def _step(node: Node, parts: list[Flow]) -> Flow:
    # None of them falls: between their values at the ends.
    low, high = (_STEP_FUNCTIONS[node.operation](end) for end in parts[0].range)
    return Flow((low, high), 0.0, _jumping({}, parts[0].slopes, low != high))


def _length(_: Node, parts: list[Flow]) -> Flow:
    value = elementary.length([part.range for part in parts])
    own = (len(parts) + 8) * _U
    slack = elementary.float_slack(magnitude(value) * own)
    value = np.maximum(intervals.add_down(value[0], -slack), 0.0), intervals.add_up(value[1], slack)
    slopes: dict[int, Interval] = {}
    for part in parts:
        if part.slopes:
            slopes = _added(slopes, _chained(part, elementary.length_slope(part.range, value)))
    error = _rounded(sum(part.error for part in parts), value, own)
    return Flow(value, error + _of_squares(len(parts), value[0]), slopes)


def _of_squares(count: int, low: Any) -> Any:
    """What a length of at least `low` loses by squares below the least float64: |√a - √b| <= |a - b| / √a."""
    lost = 5e-324 * (count + 1)
    with np.errstate(all="ignore"):
        return 2 * np.where(low > 0, np.minimum(np.sqrt(lost), lost / low), np.sqrt(lost))


def _angle(_: Node, parts: list[Flow]) -> Flow:
    y, x = parts
    value = elementary.angle(y.range, x.range)
    by_y, by_x = elementary.angle_slopes(y.range, x.range)
    # At the cut the exact value is that on float64's side, as far as the cut: on the circle they are no
    # farther apart than by slopes, and never by more than a turn.
    error = np.fmin(_times(by_y, y.error) + _times(by_x, x.error), 2 * magnitude(value))
    slopes = _added(_chained(y, by_y), _chained(x, by_x))
    jumps = ~elementary.off_cut(y.range, x.range)
    return Flow(value, _rounded(error, value, LIBRARY), _jumping(slopes, slopes.keys(), jumps))


def _times(slope: Interval, error: Any) -> Any:
    """An argument's error by a slope; none stays none, however steep."""
    return np.where(np.asarray(error) == 0, 0.0, magnitude(slope) * error)


def _interp(node: Node, parts: list[Flow]) -> Flow:
    value, slope, own = Table.of(node.data).over(parts[0].range)
    wider = elementary.float_slack(own)
    value = intervals.add_down(value[0], -wider), intervals.add_up(value[1], wider)
    error = (_times(slope, parts[0].error) + own) * _MORE
    return Flow(value, error, _chained(parts[0], slope))


_last: tuple[list[Flow], Any] = ([], None)
"""The system that was solved last: its entries are nodes one after the other."""


def _system(parts: list[Flow], size: int) -> Solved:
    global _last
    known, found = _last
    if len(parts) == len(known) and all(one is two for one, two in zip(parts, known, strict=True)):
        return found
    ends = np.broadcast_arrays(*(end for part in parts for end in part.range))
    low, high = (np.stack(np.atleast_1d(*ends[k::2]), axis=-1) for k in (0, 1))
    shape, count = (len(low), size, size), size * size
    matrix = low[:, :count].reshape(shape), high[:, :count].reshape(shape)
    found = solved(matrix, (low[:, count:], high[:, count:]))
    _last = parts, found
    return found


def _solve(node: Node, parts: list[Flow]) -> Flow:
    size = math.isqrt(len(parts))
    found, row = _system(parts, size), node.data
    value = found.solution[0][:, row], found.solution[1][:, row]
    inverse = [(found.inverse[0][:, row, k], found.inverse[1][:, row, k]) for k in range(size)]
    entries = [(found.solution[0][:, k], found.solution[1][:, k]) for k in range(size)]
    slopes: dict[int, Interval] = {}
    error: Any = 0.0
    for i in range(size):
        right = parts[size * size + i]
        slopes, own = _added(slopes, _chained(right, inverse[i])), right.error + UNDERFLOW
        for j in range(size):
            part = parts[i * size + j]
            if part.slopes:
                by = intervals.negative(intervals.multiply(inverse[i], entries[j]))
                slopes = _added(slopes, _chained(part, by))
            own = own + magnitude(entries[j]) * (part.error + found.widest[:, j])
        error = error + magnitude(inverse[i]) * own
    return Flow(value, error * _MORE + 2 * _FAINT, slopes)


def _det(_: Node, parts: list[Flow]) -> Flow:
    value = parts[0].range
    slack = determinant_slack(value, [part.range for part in parts[1:]])
    value = intervals.add_down(value[0], -slack), intervals.add_up(value[1], slack)
    return Flow(value, parts[0].error * _MORE + slack, parts[0].slopes)


def _log_add(_: Node, parts: list[Flow]) -> Flow:
    one, two = parts
    value = elementary.log_add(one.range, two.range)
    slack = (magnitude(one.range) + magnitude(two.range) + 1) * LIBRARY
    wider = elementary.float_slack(slack)
    value = intervals.add_down(value[0], -wider), intervals.add_up(value[1], wider)
    slopes = _added(
        _chained(one, elementary.share(one.range, two.range)),
        _chained(two, elementary.share(two.range, one.range)),
    )
    return Flow(value, _rounded(np.maximum(one.error, two.error) + slack, value, LIBRARY), slopes)


_RULES: dict[str, Callable[[Node, list[Any]], Flow]] = {
    "select": _select, "add": _add, "subtract": _subtract, "sum": _sum, "multiply": _multiply,
    "divide": _divide, "quotient": _quotient, "negative": _negative, "left_over": _left_over,
    "power": _power, "real_power": _power,
    "minimum": _extreme, "maximum": _extreme, "length": _length, "arctan2": _angle, "logaddexp": _log_add,
    "interp": _interp, "solve": _solve, "det": _det,
}  # fmt: skip
_RULES |= {name: _function for name in (*ELEMENTARY, "absolute", "square")} | {name: _step for name in STEPS}


# Why nothing is known -------------------------------------------------------------------------------


def reason(program: Program, low: Array, high: Array) -> str:
    """Why the first output without a bound has none over one box (1, D), in words, with the user's line."""
    flows: list[Any] = []
    with np.errstate(all="ignore"):
        for node in program.nodes:
            flows.append(run_node(node, [flows[k] for k in node.arguments], low, high, True))
    culprits = [k for k in program.outputs if _unknown(flows[k])]
    if not culprits:
        return "no bound"
    number = culprits[0]
    while True:
        node = program.nodes[number]
        inner = [k for k in _taken(node, flows) if _unknown(flows[k])]
        if not inner:
            break
        number = inner[0]
    line = program.lines[number]
    return _words(node, flows[number]) + (f" at {line}" if line else "")


def _taken(node: Node, flows: list[Any]) -> tuple[int, ...]:
    if node.operation != "select":
        return node.arguments
    condition = flows[node.arguments[0]]
    if not np.all(condition.true | condition.false):
        return node.arguments[:1]
    return node.arguments[1:2] if np.all(condition.true) else node.arguments[2:]


def _unknown(flow: Any) -> bool:
    if isinstance(flow, Truth):
        return not bool(np.all(flow.true | flow.false))
    ends = [*flow.range, *(end for part in flow.slopes.values() for end in part)]
    return any(not bool(np.all(np.isfinite(end))) for end in ends) and not _is_infinite_constant(flow)


def _is_infinite_constant(flow: Flow) -> bool:
    return not flow.slopes and np.ndim(flow.range[0]) == 0 and bool(np.isinf(flow.range[0]))


def _words(node: Node, flow: Any) -> str:
    name = node.operation
    if name == "unset":
        return node.data or "an entry of np.empty that was never set"
    if isinstance(flow, Truth) or name == "select":
        return "a condition that holds in one part of a cell and not in another"
    if name in ("divide", "quotient"):
        return "a division by numbers that may be 0"
    if name in STEPS:
        return f"np.{name} that jumps"
    if name == "solve":
        return "a linear system whose matrix may be singular"
    known = np.all(np.isfinite(flow.range[0]) & np.isfinite(flow.range[1]))
    return f"np.{name} of numbers for which {'its slope' if known else 'it'} has no bound"
