"""Why a program is not defined over a box: the operation, its operand there, and the user's line."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tether.programs import graph as codes
from tether.programs.graph import NAMES
from tether.programs.interpreter import interpret_boxes, registers
from tether.programs.program import Array, Program

_SMALLER = "Use smaller boxes"
_DECIDE = "Use np.minimum, np.maximum or np.clip in place of the condition, or smaller boxes"
_ZERO = ("must not divide by an interval that contains 0", _SMALLER)
_ABOVE = "Use np.maximum first, or smaller boxes"
_UNIT = ("must be given values in [-1, 1]", "Use np.clip(x, -1, 1) first")
_CONSTANT = ("must be constant over each box", "Use smaller boxes, or leave it out")
_PERIOD = (
    "must stay within one period over each box",
    "Leave angles unwrapped inside M, or use smaller boxes",
)
_UNDEFINED = {
    codes.DIVIDE: _ZERO,
    codes.RECIPROCAL: _ZERO,
    codes.SQRT: ("must not be given negative values", "Use np.maximum(x, 0) first"),
    codes.LOG: ("must be given values above 0", _ABOVE),
    codes.LOG2: ("must be given values above 0", _ABOVE),
    codes.LOG10: ("must be given values above 0", _ABOVE),
    codes.LOG1P: ("must be given values above -1", _ABOVE),
    codes.TAN: ("must not meet a pole (π/2 + kπ, or beyond 1e5)", _SMALLER),
    codes.ARCSIN: _UNIT,
    codes.ARCCOS: _UNIT,
    codes.ARCTANH: ("must be given values between -1 and 1", _SMALLER),
    codes.ARCCOSH: ("must be given values of at least 1", _SMALLER),
    codes.SOLUTION: (
        "must be given matrices that are regular over the whole box; first entry given",
        _SMALLER,
    ),
    codes.SIGN: _CONSTANT,
    codes.FLOOR: _CONSTANT,
    codes.CEIL: _CONSTANT,
    codes.TRUNC: _CONSTANT,
    codes.RINT: _CONSTANT,
    codes.REMAINDER: _PERIOD,
    codes.FLOOR_DIVIDE: _PERIOD,
    codes.INTEGER_POWER: _ZERO,
    codes.REAL_POWER: (
        "must be given a positive base for a real exponent",
        "Use an integer exponent, or np.maximum on the base",
    ),
    codes.POWER: ("must be given a positive base for a real exponent", "Use np.maximum on the base"),
}
_STEEP = {
    codes.SQRT: (
        "has no bounded slope at 0",
        "Use np.hypot or np.linalg.norm for lengths, or add a small positive constant",
    ),
    codes.CBRT: ("has no bounded slope at 0", _SMALLER),
    codes.ARCSIN: ("has no bounded slope at -1 and 1", _SMALLER),
    codes.ARCCOS: ("has no bounded slope at -1 and 1", _SMALLER),
    codes.ARCTANH: ("has no bounded slope at -1 and 1", _SMALLER),
    codes.ARCCOSH: ("has no bounded slope at 1", _SMALLER),
    codes.REAL_POWER: ("has no bounded slope at 0 for an exponent below 1", _SMALLER),
    codes.POWER: ("has no bounded slope at 0", _SMALLER),
    codes.ARCTAN2: (
        "jumps at its cut (y = 0, x <= 0); first y given",
        "Turn the axes so that the angle stays clear of π, or use smaller boxes",
    ),
    **{step: _UNDEFINED[step] for step in (codes.SIGN, codes.FLOOR, codes.CEIL, codes.TRUNC, codes.RINT)},
    **{step: _UNDEFINED[step] for step in (codes.REMAINDER, codes.FLOOR_DIVIDE)},
}


def explain(program: Program, lower: Array, upper: Array, row: int) -> str:
    """Which operation made an output undefined, or steep, over the box of that row, and what to do."""
    tape = program.tape
    room, outputs = registers(tape), len(tape.outputs)
    ranges, slopes = [np.empty((1, outputs)) for _ in range(3)], np.empty((1, outputs, program.dimensions))
    interpret_boxes(tape, lower[None], upper[None], 1, room, *ranges[:2], slopes, slopes.copy(), ranges[2])
    low, high, _, dlow, _ = (register[:, 0] for register in room)
    undefined = [k for k in tape.outputs.tolist() if np.isnan(low[k])]
    if undefined:
        node, rules = _cause(program, undefined[0], low, high, np.isnan(low)), _UNDEFINED
    else:
        steep = np.array(
            [np.isnan(dlow[a:b]).any() for a, b in zip(tape.columns[:-1], tape.columns[1:], strict=True)]
        )
        outputs = [k for k in tape.outputs.tolist() if steep[k]]
        if not outputs:
            return "`function` has a derivative that overflows. Use smaller boxes."
        node, rules = _cause(program, outputs[0], low, high, steep), _STEEP
    return _words(program, node, rules, low, high, row)


def _cause(program: Program, node: int, low: Array, high: Array, bad: NDArray[np.bool_]) -> int:
    """The first operation on the way to a node that is bad although its operands are not."""
    tape = program.tape
    while True:
        operands = tape.operands[tape.starts[node] : tape.starts[node + 1]].tolist()
        if tape.operations[node] == codes.WHERE:
            condition = operands[0]
            if np.isnan(low[condition]):
                node = condition
                continue
            if low[condition] != high[condition]:
                return node
            operands = [operands[1] if low[condition] == 1 else operands[2]]
        worse = [k for k in operands if bad[k]]
        if not worse:
            return node
        node = worse[0]


def _words(
    program: Program, node: int, rules: dict[int, tuple[str, str]], low: Array, high: Array, row: int
) -> str:
    tape, operation = program.tape, int(program.tape.operations[node])
    line = program.lines[node]
    place = f"at row {row}" + (f" ({line})" if line else "")
    name = NAMES.get(operation, "function")
    if operation in (codes.WHERE, codes.NUMBER):
        return (
            f"`{name}` needs a condition that is the same over each whole box; undecided {place}. {_DECIDE}."
        )
    if operation == codes.UNDEFINED:
        return f"`function` must not raise; it does on a branch taken {place}."
    if operation not in rules:
        return f"`function` has a value or derivative that overflows {place}. {_SMALLER}."
    rule, instead = rules[operation]
    if operation == codes.INTEGER_POWER:
        name = f"power({int(tape.values[node])})"
    operands = tape.operands[tape.starts[node] : tape.starts[node + 1]]
    shown = operands[1] if operation == codes.DIVIDE else operands[0]
    return f"`{name}` {rule}; got [{low[shown]:g}, {high[shown]:g}] {place}. {instead}."
