"""The program over one box after another, for code that looks at few boxes between other work; compiled.

The same numbers as those of :mod:`.interpreter`, which works on many boxes at once and takes most of its time
with one for what it does once for all of them. Here what programs mostly consist of is done number by number;
for every other operation the interpreter is asked.
"""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from tether.programs import graph as codes
from tether.programs.elementary import sine
from tether.programs.interpreter import _LIBRARY_ERROR, _UNIT, work_out
from tether.programs.interpreter import VERSION as INTERPRETED
from tether.programs.program import Array, Numbers, Program, Tape
from tether.programs.rounding import (
    TINY,
    ULP,
    add_down,
    add_up,
    divide,
    inlined,
    magnitude,
    multiply,
    square,
)

_MORE = 1 + 2.0**-40
_HALF_PI = math.pi / 2


class OneBox(NamedTuple):
    """A program and the registers of one box.

    Attributes:
        tape: the program.
        first: (N,) first operand of each node; of an input, which one; 0 where there is none.
        second: (N,) last operand.
        low: (N,) ranges.
        high: (N,)
        error: (N,) roundings.
        steep_low: (C,) derivatives.
        steep_high: (C,)
        scratch: (4, 1) room.
        products: (2, D) room.
    """

    tape: Tape
    first: Numbers
    second: Numbers
    low: Array
    high: Array
    error: Array
    steep_low: Array
    steep_high: Array
    scratch: Array
    products: Array


def one_box(program: Program, order: NDArray[np.int64]) -> OneBox:
    """Registers of a program, with its outputs in the order (P,)."""
    # Copies: kernels are compiled for one kind of arrays.
    copies: list[Any] = [np.array(part) for part in program.tape]
    tape = Tape(*copies)
    tape = tape._replace(outputs=np.array(tape.outputs[order]))
    nodes, columns = len(tape.operations), int(tape.columns[-1])
    some, ends = tape.starts[1:] > tape.starts[:-1], tape.starts[1:] - 1
    first, second = np.zeros(nodes, dtype=np.int64), np.zeros(nodes, dtype=np.int64)
    first[some], second[some] = tape.operands[tape.starts[:-1][some]], tape.operands[ends[some]]
    taken = tape.operations == codes.INPUT
    first[taken] = tape.values[taken].astype(np.int64)
    low, high, error = (np.zeros(nodes) for _ in range(3))
    known = tape.operations == codes.CONSTANT
    low[known] = high[known] = tape.values[known]
    # An input is itself: its one derivative stays as it is.
    room = np.empty((4, 1)), np.empty((2, program.dimensions))
    return OneBox(tape, first, second, low, high, error, np.ones(columns), np.ones(columns), *room)


def fresh(one: OneBox) -> OneBox:
    """The same with registers of its own, for whoever works beside others."""
    return one._replace(
        low=one.low.copy(), high=one.high.copy(), error=one.error.copy(), steep_low=one.steep_low.copy(),
        steep_high=one.steep_high.copy(), scratch=one.scratch.copy(), products=one.products.copy(),
    )  # fmt: skip


@inlined
def _times(low, high, start, stop, c, d, products):
    """Products of intervals with [c, d], as :func:`tether.programs.rounding.multiply_lanes` has them."""
    unlimited, nothing = 0, c == 0.0 and d == 0.0
    for j in range(start, stop):
        a, b = low[j], high[j]
        p, q, r, s = a * c, a * d, b * c, b * d
        least, other = p if p < q else q, r if r < s else s
        least = least if least < other else other
        most, other = p if p > q else q, r if r > s else s
        most = most if most > other else other
        none = nothing or (a == 0.0 and b == 0.0)
        products[0, j - start] = 0.0 if none else least - (abs(least) * ULP + TINY)
        products[1, j - start] = 0.0 if none else most + (abs(most) * ULP + TINY)
        unlimited += 1 if (p - p) + (q - q) + (r - r) + (s - s) != 0.0 else 0
    if unlimited:
        for j in range(start, stop):
            products[0, j - start], products[1, j - start] = multiply(low[j], high[j], c, d)


def _compiled(version: int) -> Any:  # noqa: C901
    """The kernel, cached on disk; `version` is part of what the cache knows it by."""

    @numba.njit(nogil=True, error_model="numpy", cache=True)
    def look_at(box, lower, upper, effort):  # noqa: C901
        """Fills the registers for one box (D,); `effort` as for :func:`.interpreter.interpret`.

        One function, for a call with so many arrays takes longer than what most nodes ask for.
        """
        if version < 0:
            return
        tape, low, high, error, dlow, dhigh = (
            box.tape, box.low, box.high, box.error, box.steep_low, box.steep_high,
        )  # fmt: skip
        operations, first, second = tape.operations, box.first, box.second
        columns, places, slots, products = tape.columns, tape.places, tape.slots, box.products
        if effort > 1:
            error[:] = 0.0
        for k in range(len(operations)):
            operation = operations[k]
            if operation == codes.CONSTANT:
                continue
            x, y = first[k], second[k]
            if operation == codes.INPUT:
                low[k], high[k] = lower[x], upper[x]
                continue
            a, b, c, d = low[x], high[x], low[y], high[y]
            alone = False
            if operation == codes.ADD:
                e, f = add_down(a, c), add_up(b, d)
            elif operation == codes.SUBTRACT and x != y:
                e, f = add_down(a, -d), add_up(b, -c)
            elif operation == codes.MULTIPLY:
                e, f = multiply(a, b, c, d)
            elif operation == codes.SQUARE:
                e, f, alone = *square(a, b), True
            elif operation == codes.SIN:
                e, f, alone = *sine(a, b, 0.0), True
            elif operation == codes.COS:
                e, f, alone = *sine(a, b, _HALF_PI), True
            elif operation == codes.NEGATIVE:
                e, f, alone = -b, -a, True
            elif operation == codes.DIVIDE:
                e, f = (np.nan, np.nan) if c <= 0.0 and d >= 0.0 else divide(a, b, c, d)
            else:
                work_out(
                    tape, k, low.reshape((-1, 1)), high.reshape((-1, 1)), error.reshape((-1, 1)),
                    dlow.reshape((-1, 1)), dhigh.reshape((-1, 1)), box.scratch, effort, box.scratch.shape[1],
                )  # fmt: skip
                continue
            if not (a == a and c == c and abs(e) < np.inf and abs(f) < np.inf):
                e, f = np.nan, np.nan
            low[k], high[k] = e, f
            if effort == 0:
                continue
            base, end, slot, total = columns[k], columns[k + 1], places[k], 0.0
            for place in range(base, end):
                dlow[place] = dhigh[place] = 0.0
            for q in range(1 if alone else 2):
                operand = x if q == 0 else y
                start, stop = columns[operand], columns[operand + 1]
                if base == end:  # 0 times it
                    stop = start
                off = error[operand] if effort > 1 else 0.0
                if off == 0.0 and start == stop:
                    continue
                if operation == codes.ADD or (operation == codes.SUBTRACT and q == 0):
                    total += off
                    for j in range(start, stop):
                        place = base + slots[slot]
                        slot += 1
                        dlow[place] = add_down(dlow[place], dlow[j])
                        dhigh[place] = add_up(dhigh[place], dhigh[j])
                    continue
                if operation == codes.SUBTRACT or operation == codes.NEGATIVE:
                    total += off
                    for j in range(start, stop):
                        place = base + slots[slot]
                        slot += 1
                        dlow[place] = add_down(dlow[place], -dhigh[j])
                        dhigh[place] = add_up(dhigh[place], -dlow[j])
                    continue
                if operation == codes.MULTIPLY:
                    g, h = (c, d) if q == 0 else (a, b)
                elif operation == codes.SQUARE:
                    g, h = add_down(a, a), add_up(b, b)
                elif operation == codes.SIN:
                    g, h = sine(a, b, _HALF_PI)
                elif operation == codes.COS:
                    g, h = sine(a, b, 0.0)
                    g, h = -h, -g
                elif q == 0:
                    g, h = divide(1.0, 1.0, c, d)
                else:
                    g, h = divide(e, f, c, d)
                    g, h = -h, -g
                if off != 0.0:
                    steepest = magnitude(g, h)
                    total += steepest * off if steepest == steepest else np.inf
                _times(dlow, dhigh, start, stop, g, h, products)
                for j in range(stop - start):
                    place = base + slots[slot + j]
                    dlow[place] = add_down(dlow[place], products[0, j])
                    dhigh[place] = add_up(dhigh[place], products[1, j])
                slot += stop - start
            if effort > 1:
                size = magnitude(e, f)
                if operation == codes.NEGATIVE:
                    error[k] = total
                elif operation == codes.SIN or operation == codes.COS:
                    error[k] = (total + (_LIBRARY_ERROR * size + 8 * TINY)) * _MORE
                else:
                    error[k] = (total + (_UNIT * size + TINY)) * _MORE

    return look_at


VERSION = int.from_bytes(
    hashlib.sha256(Path(__file__).read_bytes() + str(INTERPRETED).encode()).digest()[:7], "big"
)
look_at = _compiled(VERSION)
