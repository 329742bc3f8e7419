"""The program of a program's derivatives, operation by operation; its own derivatives are M's second ones.

What comes out is a program like any other, so that what bounds derivatives of M over a box bounds second
derivatives too. It stands for exact derivatives, not for code that NumPy runs: constants that float64 does
not hold, such as log(2), are operations on those it does.

Where M chooses, so do its derivatives, by the same condition: over a box in which that is not decided their
own derivatives are not bounded. A step function counts as flat: whoever asks for second derivatives must know
that M itself has bounded ones of first order over the box, so that nothing in it jumps there.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from tether.programs import graph as codes
from tether.programs.graph import Graph
from tether.programs.program import Program

MOST_NODES = 20_000
"""Of a program of derivatives; beyond it none is made."""

Slopes = dict[int, int]
"""By input, the node that is the derivative; where there is none it is 0."""


class NotSmoothError(Exception):
    """An operation has no second derivative that is known here."""


def gradient(program: Program) -> tuple[Program, list[int]] | None:
    """A program of the derivatives of the only output, and the inputs they are by; None: there is none."""
    maker = _Maker(program)
    try:
        slopes = maker.run()
    except NotSmoothError:
        return None
    inputs = sorted(slopes)
    if not inputs:
        return None
    return Program.from_graph(maker.graph, [slopes[d] for d in inputs], program.dimensions), inputs


class _Maker:
    """A graph with the nodes of a program, and under each the derivatives of that."""

    def __init__(self, program: Program) -> None:
        self.program, self.graph = program, Graph()
        tape = program.tape
        self.operands = [tape.operands[start:stop].tolist() for start, stop in pairwise(tape.starts.tolist())]
        self.own: list[int] = []
        self.slopes: list[Slopes] = []

    def run(self) -> Slopes:
        tape = self.program.tape
        for k, operation in enumerate(tape.operations.tolist()):
            value, parts = float(tape.values[k]), self.operands[k]
            # A turn of its own: what NumPy may round differently each time is not made one.
            node = self.graph.add(
                operation, tuple(self.own[j] for j in parts), value, self.program.lines[k], k + 1, False
            )
            self.own.append(node)
            self.slopes.append(self._slopes(operation, node, parts, value))
            if len(self.graph.operations) > MOST_NODES:
                raise NotSmoothError
        return self.slopes[int(tape.outputs[0])]

    def _slopes(self, operation: int, node: int, parts: list[int], value: float) -> Slopes:
        if operation == codes.INPUT:
            return {int(value): self.constant(1.0)}
        if operation in codes.CONDITIONS or operation in codes.FLAT:
            return {}
        if operation == codes.WHERE:
            return self._chosen(node, self.own[parts[0]], parts[1:])
        if operation in (codes.MINIMUM, codes.MAXIMUM):
            lesser = self.add(codes.LESS_EQUAL, self.own[parts[0]], self.own[parts[1]])
            order = parts if operation == codes.MINIMUM else parts[::-1]
            return self._chosen(node, lesser, order)
        if not any(self.slopes[j] for j in parts):
            return {}
        if operation == codes.ABSOLUTE:
            return self._of_size(parts[0])
        rule = _RULES.get(operation)
        if rule is None:
            raise NotSmoothError
        by_operand = rule(self, node, [self.own[j] for j in parts], value)
        return self._chained(parts, by_operand)

    def _chained(self, parts: list[int], by_operand: list[int]) -> Slopes:
        found: dict[int, list[int]] = {}
        for part, slope in zip(parts, by_operand, strict=True):
            for column, inner in self.slopes[part].items():
                found.setdefault(column, []).append(self.times(slope, inner))
        return {column: self.sum(terms) for column, terms in found.items()}

    def _chosen(self, node: int, condition: int, order: list[int]) -> Slopes:
        """Of either side, also where both are 0: what a choice makes M jump by must not be lost."""
        if self.graph.conditions[node]:
            return {}
        zero = self.constant(0.0)
        columns = {column for part in order for column in self.slopes[part]}
        columns |= self._inputs_of(condition)
        sides = [self.slopes[part] for part in order]
        return {
            column: self.add(codes.WHERE, condition, *(side.get(column, zero) for side in sides))
            for column in columns
        }

    def _inputs_of(self, node: int) -> set[int]:
        graph = self.graph
        kept = graph.reaches([node])
        return {int(graph.values[k]) for k in kept if graph.operations[k] == codes.INPUT}

    def _of_size(self, part: int) -> Slopes:
        below = self.add(codes.LESS, self.own[part], self.constant(0.0))
        return {
            column: self.add(codes.WHERE, below, self.negative(slope), slope)
            for column, slope in self.slopes[part].items()
        }

    # Algebra: a factor of 1 and a constant 0 are left out.

    def add(self, operation: int, *operands: int, value: float = 0.0) -> int:
        return self.graph.add(operation, operands, value, turn=0, whole=False)

    def constant(self, value: float) -> int:
        return self.graph.constant(value)

    def is_constant(self, node: int, value: float) -> bool:
        return self.graph.operations[node] == codes.CONSTANT and self.graph.values[node] == value

    def times(self, one: int, two: int) -> int:
        for factor, other in ((one, two), (two, one)):
            if self.is_constant(factor, 1.0):
                return other
            if self.is_constant(factor, -1.0):
                return self.negative(other)
        return self.square(one) if one == two else self.add(codes.MULTIPLY, one, two)

    def over(self, one: int, two: int) -> int:
        return (
            self.add(codes.RECIPROCAL, two)
            if self.is_constant(one, 1.0)
            else self.add(codes.DIVIDE, one, two)
        )

    def sum(self, terms: list[int]) -> int:
        total = terms[0]
        for term in terms[1:]:
            total = self.add(codes.ADD, total, term)
        return total

    def less(self, one: int, two: int) -> int:
        return self.add(codes.SUBTRACT, one, two)

    def negative(self, one: int) -> int:
        return self.add(codes.NEGATIVE, one)

    def square(self, one: int) -> int:
        return self.add(codes.SQUARE, one)


Rule = Callable[[_Maker, int, list[int], float], list[int]]
"""From a node, its operands and its constant: its slope by each operand."""


def _unary(rule: Callable[[_Maker, int, int], int]) -> Rule:
    return lambda make, node, parts, value: [rule(make, node, parts[0])]


def _logarithm(base: float) -> Rule:
    def rule(make: _Maker, node: int, parts: list[int], value: float) -> list[int]:
        del node, value
        scale = make.add(codes.LOG, make.constant(base))
        return [make.over(make.constant(1.0), make.add(codes.MULTIPLY, parts[0], scale))]

    return rule


def _one_and_square(make: _Maker, part: int, sign: int) -> int:
    """1 + x² or 1 - x²."""
    return make.add(codes.ADD if sign > 0 else codes.SUBTRACT, make.constant(1.0), make.square(part))


def _one_over(make: _Maker, node: int) -> int:
    return make.over(make.constant(1.0), node)


def _one_over_root(make: _Maker, node: int) -> int:
    return _one_over(make, make.add(codes.SQRT, node))


def _integer_power(make: _Maker, node: int, parts: list[int], value: float) -> list[int]:
    del node
    if value == 0.0:
        return [make.constant(0.0)]
    if value == 1.0:
        return [make.constant(1.0)]
    lower = {2.0: parts[0], 3.0: make.square(parts[0])}.get(value)
    lower = make.add(codes.INTEGER_POWER, parts[0], value=value - 1.0) if lower is None else lower
    return [make.times(make.constant(value), lower)]


def _real_power(make: _Maker, node: int, parts: list[int], value: float) -> list[int]:
    # Not x^(p - 1): p - 1 may not be a float64 number.
    return [make.times(make.constant(value), make.add(codes.DIVIDE, node, parts[0]))]


def _power(make: _Maker, node: int, parts: list[int], value: float) -> list[int]:
    del value
    base, exponent = parts
    return [
        make.add(codes.DIVIDE, make.times(exponent, node), base),
        make.times(node, make.add(codes.LOG, base)),
    ]


def _multiply(make: _Maker, node: int, parts: list[int], value: float) -> list[int]:
    del make, node, value
    return [parts[1], parts[0]]


def _divide(make: _Maker, node: int, parts: list[int], value: float) -> list[int]:
    del value
    return [_one_over(make, parts[1]), make.negative(make.add(codes.DIVIDE, node, parts[1]))]


def _length(make: _Maker, node: int, parts: list[int], value: float) -> list[int]:
    del value
    return [make.add(codes.DIVIDE, part, node) for part in parts]


def _angle(make: _Maker, node: int, parts: list[int], value: float) -> list[int]:
    del node, value
    y, x = parts
    squared = make.add(codes.ADD, make.square(x), make.square(y))
    return [make.add(codes.DIVIDE, x, squared), make.negative(make.add(codes.DIVIDE, y, squared))]


def _shares(make: _Maker, node: int, parts: list[int], value: float) -> list[int]:
    del node, value
    one, two = parts
    gaps = make.less(two, one), make.less(one, two)
    ratios = (make.add(codes.EXP, gap) for gap in gaps)
    return [_one_over(make, make.add(codes.ADD, make.constant(1.0), ratio)) for ratio in ratios]


def _ones(make: _Maker, node: int, parts: list[int], value: float) -> list[int]:
    del node, value
    return [make.constant(1.0)] * len(parts)


def _left_over(make: _Maker, node: int, parts: list[int], value: float) -> list[int]:
    del node, value
    return [make.constant(1.0), make.negative(make.add(codes.FLOOR_DIVIDE, *parts))]


def _linear(operation: int) -> Rule:
    """Of ``c x``: the same of 1."""

    def rule(make: _Maker, node: int, parts: list[int], value: float) -> list[int]:
        del node, parts, value
        return [make.add(operation, make.constant(1.0))]

    return rule


_RULES: dict[int, Rule] = {
    codes.ADD: _ones,
    codes.SUM: _ones,
    codes.PRODUCT: _ones,
    codes.SUBTRACT: lambda make, node, parts, value: [make.constant(1.0), make.constant(-1.0)],
    codes.MULTIPLY: _multiply,
    codes.DIVIDE: _divide,
    codes.NEGATIVE: lambda make, node, parts, value: [make.constant(-1.0)],
    codes.SQUARE: _unary(lambda make, node, x: make.add(codes.ADD, x, x)),
    codes.RECIPROCAL: _unary(lambda make, node, x: make.negative(make.square(node))),
    codes.SQRT: _unary(lambda make, node, x: make.add(codes.DIVIDE, make.constant(0.5), node)),
    codes.CBRT: _unary(
        lambda make, node, x: _one_over(make, make.times(make.constant(3.0), make.square(node)))
    ),
    codes.EXP: _unary(lambda make, node, x: node),
    codes.EXPM1: _unary(lambda make, node, x: make.add(codes.EXP, x)),
    codes.EXP2: _unary(lambda make, node, x: make.times(make.add(codes.LOG, make.constant(2.0)), node)),
    codes.LOG: _unary(lambda make, node, x: _one_over(make, x)),
    codes.LOG1P: _unary(lambda make, node, x: _one_over(make, make.add(codes.ADD, make.constant(1.0), x))),
    codes.LOG2: _logarithm(2.0),
    codes.LOG10: _logarithm(10.0),
    codes.SIN: _unary(lambda make, node, x: make.add(codes.COS, x)),
    codes.COS: _unary(lambda make, node, x: make.negative(make.add(codes.SIN, x))),
    codes.TAN: _unary(lambda make, node, x: _one_and_square(make, node, 1)),
    codes.ARCSIN: _unary(lambda make, node, x: _one_over_root(make, _one_and_square(make, x, -1))),
    codes.ARCCOS: _unary(
        lambda make, node, x: make.negative(_one_over_root(make, _one_and_square(make, x, -1)))
    ),
    codes.ARCTAN: _unary(lambda make, node, x: _one_over(make, _one_and_square(make, x, 1))),
    codes.SINH: _unary(lambda make, node, x: make.add(codes.COSH, x)),
    codes.COSH: _unary(lambda make, node, x: make.add(codes.SINH, x)),
    codes.TANH: _unary(lambda make, node, x: _one_and_square(make, node, -1)),
    codes.ARCSINH: _unary(lambda make, node, x: _one_over_root(make, _one_and_square(make, x, 1))),
    codes.ARCCOSH: _unary(
        lambda make, node, x: _one_over_root(make, make.less(make.square(x), make.constant(1.0)))
    ),
    codes.ARCTANH: _unary(lambda make, node, x: _one_over(make, _one_and_square(make, x, -1))),
    codes.DEG2RAD: _linear(codes.DEG2RAD),
    codes.RAD2DEG: _linear(codes.RAD2DEG),
    codes.INTEGER_POWER: _integer_power,
    codes.REAL_POWER: _real_power,
    codes.POWER: _power,
    codes.ARCTAN2: _angle,
    codes.HYPOT: _length,
    codes.NORM: _length,
    codes.LOGADDEXP: _shares,
    codes.REMAINDER: _left_over,
}  # fmt: skip
"""Where there is none (a table, a linear system) nothing is known of second derivatives."""
