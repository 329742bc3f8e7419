"""The straight-line program that M is traced into, while it grows: numbered nodes, each written once.

A node is an operation on earlier nodes. Equal nodes are one node, so that ``x * x`` is known for a square.
What NumPy may round differently each time it is asked, a sine or a sum, is one node only where it was asked
in the same way: the same function, of an array with the same entries and layout.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tether.programs import refusal
from tether.programs.refusal import users_line

# Codes of operations; kernels know them as constants.
(
    INPUT, CONSTANT, UNDEFINED,
    ADD, SUBTRACT, MULTIPLY, DIVIDE, NEGATIVE, ABSOLUTE, SQUARE, RECIPROCAL, SQRT, CBRT,
    EXP, EXPM1, EXP2, LOG, LOG1P, LOG2, LOG10,
    SIN, COS, TAN, ARCSIN, ARCCOS, ARCTAN, SINH, COSH, TANH, ARCSINH, ARCCOSH, ARCTANH,
    SIGN, FLOOR, CEIL, TRUNC, RINT, DEG2RAD, RAD2DEG,
    INTEGER_POWER, REAL_POWER, POWER, ARCTAN2, HYPOT, LOGADDEXP, MINIMUM, MAXIMUM, REMAINDER, FLOOR_DIVIDE,
    SUM, NORM, PRODUCT,
    LESS, LESS_EQUAL, EQUAL, AND, OR, NOT, WHERE, NUMBER,
    TABLE, SOLUTION, DETERMINANT,
) = range(63)  # fmt: skip

NAMES = {
    DIVIDE: "divide", RECIPROCAL: "reciprocal", SQRT: "sqrt", CBRT: "cbrt", LOG: "log", LOG1P: "log1p",
    LOG2: "log2", LOG10: "log10", TAN: "tan", ARCSIN: "arcsin", ARCCOS: "arccos", ARCCOSH: "arccosh",
    ARCTANH: "arctanh", SIGN: "sign", FLOOR: "floor", CEIL: "ceil", TRUNC: "trunc", RINT: "round",
    INTEGER_POWER: "power", REAL_POWER: "power", POWER: "power", ARCTAN2: "arctan2", REMAINDER: "mod",
    FLOOR_DIVIDE: "floor_divide", WHERE: "where", NUMBER: "multiply", TABLE: "interp",
    SOLUTION: "linalg.solve", DETERMINANT: "linalg.det",
}  # fmt: skip
# Constant but for jumps: where they do not jump their derivatives are zero.
FLAT = frozenset({SIGN, FLOOR, CEIL, TRUNC, RINT, FLOOR_DIVIDE, NUMBER})
CONDITIONS = frozenset({LESS, LESS_EQUAL, EQUAL, AND, OR, NOT})
# Rounded as IEEE says, or not at all: the same number whoever computes it.
EXACT = frozenset(
    {INPUT, CONSTANT, UNDEFINED, ADD, SUBTRACT, MULTIPLY, DIVIDE, NEGATIVE, ABSOLUTE, SQUARE, RECIPROCAL,
     SQRT, SIGN, FLOOR, CEIL, TRUNC, RINT, DEG2RAD, RAD2DEG, MINIMUM, MAXIMUM, REMAINDER, FLOOR_DIVIDE,
     WHERE, NUMBER, *CONDITIONS}
)  # fmt: skip
# What Python does in integers without rounding, or with one, where float64 rounds each operand first.
_OF_INTEGERS = frozenset({ADD, SUBTRACT, MULTIPLY, DIVIDE, NEGATIVE, ABSOLUTE, SQUARE})
# Finite wherever their operands are, which sums and products are not: 0 times them is 0, and never NaN.
_TOTAL = frozenset(
    {INPUT, CONSTANT, NEGATIVE, ABSOLUTE, SIN, COS, ARCTAN, TANH, MINIMUM, MAXIMUM, ARCSINH, DEG2RAD}
)  # fmt: skip


@dataclass
class Graph:
    """Nodes in the order in which they were first met.

    Attributes:
        operations: code of each node.
        operands: numbers of the nodes that each works on.
        values: constant of each node: its value, an exponent, which input, how many roundings.
        conditions: whether each is a condition rather than a number.
        totals: whether each is a finite number for all finite inputs.
        closed: whether each depends on no input.
        lines: where in the user's source each was first written.
        turns: which of the ways in which it was asked for each is of, where these may round differently.
        wholes: whether each is Python's exact arithmetic of integers, which is not that of float64.
        exact: whether such arithmetic is being asked for.
        sharing: whether what is asked for twice in the same way is one node.
        call: how NumPy or Python is being asked; None: in a way of its own.
    """

    operations: list[int] = field(default_factory=list)
    operands: list[tuple[int, ...]] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    conditions: list[bool] = field(default_factory=list)
    totals: list[bool] = field(default_factory=list)
    closed: list[bool] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)
    wholes: list[bool] = field(default_factory=list)
    exact: bool = False
    sharing: bool = True
    call: Any = None
    _known: dict[Any, int] = field(default_factory=dict)
    _calls: dict[Any, dict[Any, int]] = field(default_factory=dict)

    def start(self) -> None:
        """M is called: turns are counted from the first."""
        self._calls = {}

    @contextmanager
    def called(self, call: Any) -> Iterator[None]:
        """While NumPy or Python is asked in a way that is told by `call`."""
        before, self.call = self.call, call if self.sharing else None
        try:
            yield
        finally:
            self.call = before

    @contextmanager
    def exactly(self, exact: bool) -> Iterator[None]:
        """While Python computes with integers, where it does."""
        before, self.exact = self.exact, exact
        try:
            yield
        finally:
            self.exact = before

    def _turn(self, key: Any) -> int:
        ways = self._calls.setdefault(key, {})
        return ways.setdefault(object() if self.call is None else self.call, len(ways))

    def add(
        self,
        operation: int,
        operands: tuple[int, ...] = (),
        value: float = 0.0,
        line: str = "",
        turn: int | None = None,
        whole: bool | None = None,
    ) -> int:
        """The number of the node with this operation, which may have been there before."""
        if operation == NOT and self.operations[operands[0]] == NOT:
            return self.operands[operands[0]][0]
        if operation == AND and operands[0] == operands[1]:
            return operands[0]
        # The sign of a zero counts: 1 / -0.0 is another constant than 1 / 0.0. One NaN is every NaN.
        value = math.nan if math.isnan(value) else value
        whole = (self.exact if whole is None else whole) and operation in _OF_INTEGERS
        key = (operation, operands, value, math.copysign(1.0, value), whole)
        if operation not in EXACT:
            turn = self._turn(key) if turn is None else turn
            key = (*key, turn)
        number = self._known.get(key)
        if number is None:
            number = self._known[key] = len(self.operations)
            self.operations.append(operation)
            self.operands.append(operands)
            self.values.append(value)
            chosen = [self.conditions[k] for k in operands[1:]]
            both = operation == WHERE and all(chosen)
            self.conditions.append(operation in CONDITIONS or both)
            finite = operation in _TOTAL and math.isfinite(value)
            self.totals.append(finite and all(self.totals[k] for k in operands))
            self.closed.append(operation != INPUT and all(self.closed[k] for k in operands))
            self.lines.append(line or self._line(operands))
            self.turns.append(turn or 0)
            self.wholes.append(whole)
        return number

    def _line(self, operands: tuple[int, ...]) -> str:
        """Where M is; once it has ended, where what a node rests on was written."""
        if refusal.swallowed is not None or not operands:
            return users_line()
        return self.lines[operands[0]]

    def constant(self, value: float) -> int:
        """A constant."""
        return self.add(CONSTANT, (), value, "constant")

    def reaches(self, outputs: list[int]) -> list[int]:
        """All nodes that `outputs` rest on, ascending."""
        seen, waiting = set(outputs), list(outputs)
        while waiting:
            for operand in self.operands[waiting.pop()]:
                if operand not in seen:
                    seen.add(operand)
                    waiting.append(operand)
        return sorted(seen)
