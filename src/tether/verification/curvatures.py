"""Second derivatives of a program over many boxes, carried forward from node to node.

With f the function of a node and a, b its arguments, the second derivative by inputs i and j is the sum over
arguments of ``f_a a_ij`` and over pairs of these of ``f_ab a_i b_j``. The slopes ``a_i`` are those of
:mod:`tether.verification.interpreter`; what f is twice differentiated to is written down here for each
operation.

A choice that is not decided over a box, the greater of two numbers that may be either, and the size of a
number that may be 0 have no second derivative there. A step function counts as flat: that it does not jump
shows in the slopes, which must be known as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from flint import arb

from tether.verification import elementary, intervals
from tether.verification.elementary import SLOPES
from tether.verification.graph import Node
from tether.verification.interpreter import Flow, Truth, known_only, run_node
from tether.verification.intervals import ONE, ZERO, Array, Interval, add, divide, multiply, negative, square
from tether.verification.operations import STEPS
from tether.verification.tracing import Program

Pair = tuple[int, int]
Curves = dict[Pair, Interval]
"""By a pair of inputs, ascending; what is not there is 0."""

TWO: Interval = (np.float64(2.0), np.float64(2.0))
_UNKNOWN: Interval = (np.float64(np.nan), np.float64(np.nan))


@dataclass(frozen=True, eq=False)
class Bend:
    """The only output of a program over B boxes: what it is there, and its second derivatives."""

    flow: Flow
    curves: Curves


def enclose_bend(program: Program, low: Array, high: Array) -> Bend:
    """Over boxes from `low` (B, D) to `high`."""
    flows: list[Any] = []
    curves: list[Curves] = []
    with np.errstate(all="ignore"):
        for node in program.nodes:
            parts = [flows[k] for k in node.arguments]
            found = run_node(node, parts, low, high, True)
            found = known_only(found, True) if isinstance(found, Flow) else found
            flows.append(found)
            inner = [curves[k] for k in node.arguments]
            curves.append(_bent(node, parts, inner, found) if isinstance(found, Flow) else {})
    return Bend(flows[program.outputs[0]], curves[program.outputs[0]])


def _bent(node: Node, parts: list[Any], inner: list[Curves], found: Flow) -> Curves:
    name = node.operation
    if not any(isinstance(part, Flow) and part.slopes for part in parts) and name != "select":
        return {}
    if name in STEPS:
        return {}
    if name in _CHOICES:
        return _CHOICES[name](node, parts, inner)
    rule = _PARTIALS.get(name)
    if rule is None:
        return dict.fromkeys(_pairs(found.slopes), _UNKNOWN)
    first, second = rule(node, parts, found)
    return _chained(parts, inner, first, second)


def _pairs(inputs: Any) -> list[Pair]:
    return list(combinations_with_replacement(sorted(inputs), 2))


First = list[Interval | None]
Second = dict[Pair, Interval]
"""By a pair of arguments, ascending."""


def _chained(parts: list[Flow], inner: list[Curves], first: First, second: Second) -> Curves:
    total: Curves = {}

    def more(pair: Pair, part: Interval) -> None:
        total[pair] = add(total[pair], part) if pair in total else part

    for slope, own in zip(first, inner, strict=True):
        if slope is not None:
            for pair, part in own.items():
                more(pair, multiply(part, slope))
    for (a, b), factor in second.items():
        if a == b:
            slopes = parts[a].slopes
            for i, j in _pairs(slopes):
                product = square(slopes[i]) if i == j else multiply(slopes[i], slopes[j])
                more((i, j), multiply(product, factor))
            continue
        for i, one in parts[a].slopes.items():
            for j, two in parts[b].slopes.items():
                product = multiply(multiply(one, two), factor)
                # By one input in both arguments there are two such terms.
                more((min(i, j), max(i, j)), multiply(product, TWO) if i == j else product)
    return total


# Choices --------------------------------------------------------------------------------------------


def _merged(one: Curves, two: Curves, merge: Callable[[Interval, Interval], Interval]) -> Curves:
    return {pair: merge(one.get(pair, ZERO), two.get(pair, ZERO)) for pair in one.keys() | two.keys()}


def _select(_: Node, parts: list[Any], inner: list[Curves]) -> Curves:
    condition: Truth = parts[0]
    undecided = ~(condition.true | condition.false)
    deciding = condition.inputs

    def merge(a: Interval, b: Interval) -> Interval:
        return intervals.choose(undecided, intervals.hull(a, b), intervals.choose(condition.true, a, b))

    merged = _merged(inner[1], inner[2], merge)
    everything = deciding | parts[1].slopes.keys() | parts[2].slopes.keys()
    lost = {
        pair: intervals.unknown(undecided, merged.get(pair, ZERO))
        for pair in _pairs(everything)
        if deciding & set(pair)
    }
    return merged | lost


def _extreme(node: Node, parts: list[Flow], inner: list[Curves]) -> Curves:
    a, b = parts[0].range, parts[1].range
    if node.operation == "minimum":
        first, second = a[1] <= b[0], b[1] <= a[0]
    else:
        first, second = a[0] >= b[1], b[0] >= a[1]
    return _either(parts, inner[0], inner[1], first, second)


def _size(_: Node, parts: list[Flow], inner: list[Curves]) -> Curves:
    low, high = parts[0].range
    below = {pair: negative(part) for pair, part in inner[0].items()}
    return _either(parts, inner[0], below, low >= 0, high <= 0)


def _either(parts: list[Flow], one: Curves, two: Curves, first: Any, second: Any) -> Curves:
    """One or the other, where it is known which; nothing elsewhere."""
    neither = ~(first | second)
    pairs = _pairs(frozenset().union(*(part.slopes for part in parts)))
    return {
        pair: intervals.unknown(neither, intervals.choose(first, one.get(pair, ZERO), two.get(pair, ZERO)))
        for pair in pairs
    }


_CHOICES: dict[str, Callable[[Node, list[Any], list[Curves]], Curves]] = {
    "select": _select, "minimum": _extreme, "maximum": _extreme, "absolute": _size,
}  # fmt: skip


# Functions ------------------------------------------------------------------------------------------


def _cube(one: Interval) -> Interval:
    return multiply(square(one), one)


_MINUS_TWO: Interval = (np.float64(-2.0), np.float64(-2.0))
_THREE: Interval = (np.float64(3.0), np.float64(3.0))
_SECONDS: dict[str, Callable[[Interval, Interval, Interval], Interval]] = {
    "sqrt": lambda x, value, slope: negative(divide(slope, multiply(x, TWO))),
    "exp": lambda x, value, slope: value,
    "expm1": lambda x, value, slope: slope,
    "exp2": lambda x, value, slope: multiply(slope, elementary.constant(lambda: arb(2).log())),
    "log": lambda x, value, slope: negative(square(slope)),
    "log1p": lambda x, value, slope: negative(square(slope)),
    "log2": lambda x, value, slope: negative(divide(slope, x)),
    "log10": lambda x, value, slope: negative(divide(slope, x)),
    "sin": lambda x, value, slope: negative(value),
    "cos": lambda x, value, slope: negative(value),
    "tan": lambda x, value, slope: multiply(multiply(value, slope), TWO),
    "arcsin": lambda x, value, slope: multiply(x, _cube(slope)),
    "arccos": lambda x, value, slope: multiply(x, _cube(slope)),
    "arctan": lambda x, value, slope: multiply(multiply(x, square(slope)), _MINUS_TWO),
    "sinh": lambda x, value, slope: value,
    "cosh": lambda x, value, slope: value,
    "tanh": lambda x, value, slope: multiply(multiply(value, slope), _MINUS_TWO),
    "arcsinh": lambda x, value, slope: negative(multiply(x, _cube(slope))),
    "arccosh": lambda x, value, slope: negative(multiply(x, _cube(slope))),
    "arctanh": lambda x, value, slope: multiply(multiply(x, square(slope)), TWO),
    "cbrt": lambda x, value, slope: negative(divide(multiply(slope, TWO), multiply(x, _THREE))),
    "deg2rad": lambda x, value, slope: ZERO,
    "rad2deg": lambda x, value, slope: ZERO,
    "square": lambda x, value, slope: TWO,
}
"""Twice differentiated, from the argument's range, the function's, and that of its slope."""


def _function(node: Node, parts: list[Flow], found: Flow) -> tuple[First, Second]:
    x, name = parts[0].range, node.operation
    slope = SLOPES[name](x, found.range)
    second = _SECONDS[name](x, found.range, slope)
    # What is not known of a slope is not known of what follows from it.
    lost = np.isnan(slope[0]) | np.isnan(slope[1])
    return [slope], {(0, 0): intervals.unknown(lost, second)}


def _power(node: Node, parts: list[Flow], found: Flow) -> tuple[First, Second]:
    del found
    x, exponent = parts[0].range, node.data
    if node.operation == "power":
        slope = elementary.power_slope(x, exponent)
        if exponent in (0, 1):
            return [slope], {}
        whole, before = np.float64(exponent), np.float64(exponent - 1)
        factor = multiply((whole, whole), (before, before))
        return [slope], {(0, 0): multiply(intervals.power(x, exponent - 2), factor)}
    exponent = np.float64(float.fromhex(exponent))
    slope = elementary.real_power_slope(x, float(exponent))
    lesser = intervals.subtract((exponent, exponent), ONE)
    return [slope], {(0, 0): divide(multiply(slope, lesser), x)}


def _multiply(node: Node, parts: list[Flow], found: Flow) -> tuple[First, Second]:
    del node, found
    return [parts[1].range, parts[0].range], {(0, 1): ONE}


def _divide(node: Node, parts: list[Flow], found: Flow) -> tuple[First, Second]:
    del node
    below = parts[1].range
    first: First = [divide(ONE, below), negative(divide(found.range, below))]
    squared = square(below)
    clear = (below[0] > 0) | (below[1] < 0)
    squared = intervals.unknown(~clear, squared)
    return first, {
        (0, 1): negative(divide(ONE, squared)),
        (1, 1): divide(multiply(found.range, TWO), squared),
    }


def _length(node: Node, parts: list[Flow], found: Flow) -> tuple[First, Second]:
    del node
    whole = found.range
    slopes = [elementary.length_slope(part.range, whole) for part in parts]
    second: Second = {}
    for a, b in _pairs(range(len(parts))):
        top = (
            intervals.subtract(ONE, square(slopes[a])) if a == b else negative(multiply(slopes[a], slopes[b]))
        )
        second[a, b] = divide(top, whole)
    return list(slopes), second


def _angle(node: Node, parts: list[Flow], found: Flow) -> tuple[First, Second]:
    del node, found
    y, x = (part.range for part in parts)
    above, right = square(y), square(x)
    fourth = square(add(above, right))
    mixed = divide(multiply(multiply(x, y), TWO), fourth)
    by_y, by_x = elementary.angle_slopes(y, x)
    return [by_y, by_x], {
        (0, 0): negative(mixed),
        (1, 1): mixed,
        (0, 1): divide(intervals.subtract(above, right), fourth),
    }


def _log_add(node: Node, parts: list[Flow], found: Flow) -> tuple[First, Second]:
    del node, found
    one, two = (part.range for part in parts)
    shares = elementary.share(one, two), elementary.share(two, one)
    both = multiply(*shares)
    return list(shares), {(0, 0): both, (1, 1): both, (0, 1): negative(both)}


def _left_over(node: Node, parts: list[Flow], found: Flow) -> tuple[First, Second]:
    del node, found
    return [ONE, negative(parts[2].range), None], {}


def _ones(node: Node, parts: list[Flow], found: Flow) -> tuple[First, Second]:
    del node, found
    return [ONE] * len(parts), {}


_MINUS_ONE: Interval = (np.float64(-1.0), np.float64(-1.0))
_PARTIALS: dict[str, Callable[[Node, list[Flow], Flow], tuple[First, Second]]] = {
    "add": _ones,
    "sum": _ones,
    "subtract": lambda node, parts, found: ([ONE, _MINUS_ONE], {}),
    "negative": lambda node, parts, found: ([_MINUS_ONE], {}),
    "multiply": _multiply,
    "divide": _divide,
    "quotient": _divide,
    "power": _power,
    "real_power": _power,
    "length": _length,
    "arctan2": _angle,
    "logaddexp": _log_add,
    "left_over": _left_over,
    "det": lambda node, parts, found: ([ONE, *[None] * (len(parts) - 1)], {}),
    **{name: _function for name in _SECONDS},
}
"""Slopes by each argument, and by pairs of arguments twice; a table or a linear system has none here."""
