"""Where M bends sharply, or is defined no more, at one value of an input: what a box is best cut at.

Nothing rests on it. A clip of a command, an absolute value of a speed, a root of a level: of all places where
a program may have a kink, those whose argument is ``factor * input + offset``, be it only elsewhere.
"""

from __future__ import annotations

import math
from itertools import product
from typing import NamedTuple

from tether.programs import graph as codes
from tether.programs.program import Program

_COMPARED = frozenset({codes.LESS, codes.LESS_EQUAL, codes.MINIMUM, codes.MAXIMUM})
_AT_ZERO = frozenset({codes.ABSOLUTE, codes.SIGN, codes.CBRT})
_ENDS = {
    codes.SQRT: (0.0,), codes.LOG: (0.0,), codes.LOG2: (0.0,), codes.LOG10: (0.0,), codes.REAL_POWER: (0.0,),
    codes.LOG1P: (-1.0,), codes.ARCCOSH: (1.0,), codes.ARCSIN: (-1.0, 1.0), codes.ARCCOS: (-1.0, 1.0),
    codes.ARCTANH: (-1.0, 1.0),
}  # fmt: skip


class Kink(NamedTuple):
    """At a value of an input; with M undefined on one side of it, or not."""

    input: int
    value: float
    ends: bool


class _Line(NamedTuple):
    """factor * input + offset; of no input a constant."""

    input: int | None
    factor: float
    offset: float


_Pieces = tuple[_Line, ...]
"""What a node is, here or there; none where that is not known, or not in few lines."""
_MOST_PIECES = 8


def kinks_of(program: Program) -> list[Kink]:
    """All that can be told from the program alone, each once."""
    tape, known, found = program.tape, list[_Pieces](), dict[Kink, None]()
    for k, operation in enumerate(tape.operations.tolist()):
        parts = [known[j] for j in tape.operands[tape.starts[k] : tape.starts[k + 1]]]
        known.append(_pieces(operation, float(tape.values[k]), parts))
        for line in _asked(operation, parts):
            if line.input is not None and line.factor != 0:
                found[Kink(line.input, -line.offset / line.factor, operation in _ENDS)] = None
    return list(found)


def _asked(operation: int, parts: list[_Pieces]) -> _Pieces:
    """Lines at whose zeros an operation has a kink, or is defined no more."""
    if operation in _COMPARED:
        return _sums(parts[0], parts[1], -1.0)
    if operation in _AT_ZERO:
        return parts[0]
    if operation in _ENDS:
        return _sums(parts[0], tuple(_Line(None, 0.0, end) for end in _ENDS[operation]), -1.0)
    if operation == codes.TABLE:
        points = parts[1 : 1 + (len(parts) - 1) // 2]
        return tuple(line for point in points for line in _sums(parts[0], point, -1.0))
    return ()


def _pieces(operation: int, value: float, parts: list[_Pieces]) -> _Pieces:
    """What an operation makes of lines."""
    found: _Pieces = ()
    if operation == codes.INPUT:
        found = (_Line(int(value), 1.0, 0.0),)
    elif operation == codes.CONSTANT:
        found = (_Line(None, 0.0, value),)
    elif operation in (codes.ADD, codes.SUBTRACT):
        found = _sums(parts[0], parts[1], 1.0 if operation == codes.ADD else -1.0)
    elif operation in (codes.NEGATIVE, codes.ABSOLUTE):
        turned = _times(parts[0], -1.0)
        found = turned if operation == codes.NEGATIVE else parts[0] + turned
    elif operation in (codes.MAXIMUM, codes.MINIMUM):
        found = parts[0] + parts[1]
    elif operation == codes.WHERE:
        found = parts[1] + parts[2]
    elif operation in (codes.DEG2RAD, codes.RAD2DEG):
        found = _times(parts[0], math.pi / 180 if operation == codes.DEG2RAD else 180 / math.pi)
    elif operation in (codes.MULTIPLY, codes.DIVIDE):
        found = _scaled(operation, parts[0], parts[1])
    return found if len(found) <= _MOST_PIECES else ()


def _scaled(operation: int, one: _Pieces, other: _Pieces) -> _Pieces:
    """Times a constant, or over one."""
    if operation == codes.MULTIPLY and _is_constant(one):
        one, other = other, one
    if not _is_constant(other):
        return ()
    constant = other[0].offset
    if operation == codes.DIVIDE:
        return _times(one, 1 / constant) if constant else ()
    return _times(one, constant)


def _is_constant(pieces: _Pieces) -> bool:
    return len(pieces) == 1 and pieces[0].input is None


def _times(pieces: _Pieces, factor: float) -> _Pieces:
    return tuple(_Line(line.input, factor * line.factor, factor * line.offset) for line in pieces)


def _sums(one: _Pieces, other: _Pieces, sign: float) -> _Pieces:
    """Of lines of the same input, or of one and a constant."""
    return tuple(
        _Line(a.input if b.input is None else b.input, a.factor + sign * b.factor, a.offset + sign * b.offset)
        for a, b in product(one, other)
        if a.input is None or b.input is None or a.input == b.input
    )
