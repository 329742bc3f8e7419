"""The program over one box after another, for code that looks at few boxes between other work; compiled.

The same numbers as those of :mod:`.interpreter`, which works on many boxes at once and takes most of its time
with one for what it does once for all of them. Here what programs mostly consist of is done number by number,
and derivatives four by four; for every other operation, and wherever a derivative is not finite, the
interpreter is asked. M at a point of the box, which who looks at a box wants as well, is found on the way.

Derivatives of a node are in blocks of four, one for every group of four inputs that it depends on any of.
Inputs that most depends on are grouped together.
"""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from tether.programs import fours
from tether.programs import graph as codes
from tether.programs.elementary import FAR, sine
from tether.programs.fours import FOUR, add_fours, mix_fours, multiply_fours, scale_fours, subtract_fours
from tether.programs.interpreter import _LIBRARY_ERROR, _UNIT, work_out
from tether.programs.interpreter import VERSION as INTERPRETED
from tether.programs.program import Array, Numbers, Program, Tape
from tether.programs.rounding import (
    TINY,
    add_down,
    add_up,
    divide,
    inflate,
    inlined,
    magnitude,
    multiply,
    square,
)

_MORE = 1 + 2.0**-40
_HALF_PI = math.pi / 2

# What is to be done for a node, a row of numbers: its operation, itself, its first and its last operand, how
# many of them have derivatives, which of both is the first that has, and an earlier node that has the sine or
# cosine of the same operand; where its derivatives begin, in how many blocks they are, and where in the list
# of sources it is said in which blocks those of its operands are.
OPERATION, NODE, FIRST, LAST, STEEP, WHICH, TWIN, PLACE, BLOCKS, SOURCES, WORDS = range(11)


class OneBox(NamedTuple):
    """A program and the registers of one box.

    Attributes:
        tape: the program.
        tasks: (S, WORDS) what there is to be done, node by node, constants and inputs left out.
        taken: (D', 2) nodes that are inputs, and which.
        sources: where derivatives of operands are: for each block of a node that of its first and that of
            its last; a block of zeros where an operand depends on nothing of that group.
        lanes: (C,) where each derivative of the tape is.
        low: (N,) ranges over the box.
        high: (N,)
        below: (N,) ranges at the point.
        above: (N,)
        error: (N,) roundings over the box.
        finite: (N,) whether all derivatives are.
        turned: (N, 2) of a sine over the box the range of the cosine, and of a cosine that of the sine.
        steep_low: derivatives, in blocks; the first is of zeros.
        steep_high: likewise.
        asked: (2, C, 1) room for them as the interpreter has them.
        scratch: (4, 1) room.
        spare: (N, 1) room.
    """

    tape: Tape
    tasks: Numbers
    taken: Numbers
    sources: Numbers
    lanes: Numbers
    low: Array
    high: Array
    below: Array
    above: Array
    error: Array
    finite: NDArray[np.bool_]
    turned: Array
    steep_low: Array
    steep_high: Array
    asked: Array
    scratch: Array
    spare: Array


_SHARED = ("tape", "tasks", "taken", "sources", "lanes")


def one_box(program: Program, order: NDArray[np.int64]) -> OneBox:
    """Registers of a program, with its outputs in the order (P,)."""
    # Copies: kernels are compiled for one kind of arrays.
    copies: list[Any] = [np.array(part) for part in program.tape]
    tape = Tape(*copies)
    tape = tape._replace(outputs=np.array(tape.outputs[order]))
    operations, nodes = tape.operations, len(tape.operations)
    layout = _Layout.of(tape, program.dimensions)
    inputs = np.flatnonzero(operations == codes.INPUT)
    constant = operations == codes.CONSTANT
    low, high, below, above, error = (np.zeros(nodes) for _ in range(5))
    known = constant & np.isfinite(tape.values)
    for end in (low, high, below, above):
        end[constant], end[known] = np.nan, tape.values[known]
    steep_low, steep_high = np.zeros(layout.size), np.zeros(layout.size)
    # An input is itself: its one derivative stays as it is.
    for end in (steep_low, steep_high):
        end[layout.lanes[tape.columns[inputs]]] = 1.0
    return OneBox(
        tape, _tasks(tape, layout), np.stack([inputs, tape.values[inputs].astype(np.int64)], axis=1),
        np.array(layout.sources, dtype=np.int64), layout.lanes, low, high, below, above, error,
        np.ones(nodes, dtype=np.bool_), np.zeros((nodes, 2)), steep_low, steep_high,
        np.zeros((2, len(layout.lanes), 1)), np.zeros((4, 1)), np.zeros((nodes, 1)),
    )  # fmt: skip


def fresh(one: OneBox) -> OneBox:
    """The same with registers of its own, for whoever works beside others."""
    own = [name for name in one._fields if name not in _SHARED]
    return one._replace(**{name: getattr(one, name).copy() for name in own})


class _Layout(NamedTuple):
    """Where derivatives are.

    Attributes:
        groups: by node, of which inputs, in order.
        places: (N,) where its first block begins.
        lanes: (C,) where each derivative of the tape is.
        sources: of all nodes, one after the other.
        starts: (N,) where those of each begin.
        size: how much room all take.
    """

    groups: list[list[int]]
    places: Numbers
    lanes: Numbers
    sources: list[tuple[int, int]]
    starts: Numbers
    size: int

    @classmethod
    def of(cls, tape: Tape, dimensions: int) -> _Layout:
        """With those inputs in one group that most nodes depend on."""
        nodes = len(tape.operations)
        used = np.bincount(tape.inputs, minlength=dimensions)
        rank = np.argsort(np.argsort(-used, kind="stable"), kind="stable")
        found = rank[tape.inputs]
        groups = [
            np.unique(found[tape.columns[k] : tape.columns[k + 1]] // FOUR).tolist() for k in range(nodes)
        ]
        counts = np.array([len(own) for own in groups], dtype=np.int64)
        places = FOUR * (1 + np.cumsum(counts) - counts)
        lanes = np.empty(len(found), dtype=np.int64)
        sources, starts = [], np.zeros(nodes, dtype=np.int64)
        for k in range(nodes):
            for j in range(int(tape.columns[k]), int(tape.columns[k + 1])):
                lanes[j] = places[k] + FOUR * groups[k].index(int(found[j]) // FOUR) + found[j] % FOUR
            starts[k] = len(sources)
            first, last = (
                tape.operands[tape.starts[k] : tape.starts[k + 1]][[0, -1]].tolist()
                if tape.starts[k + 1] > tape.starts[k]
                else (0, 0)
            )
            for group in groups[k]:
                sources.append(
                    tuple(
                        int(places[x]) + FOUR * groups[x].index(group) if group in groups[x] else 0
                        for x in (first, last)
                    )
                )
        return cls(groups, places, lanes, sources, starts, FOUR * (1 + int(counts.sum())))


def _tasks(tape: Tape, layout: _Layout) -> Numbers:
    """(S, WORDS) what there is to be done."""
    found, operands = [], tape.operands.tolist()
    turns = {}
    for k, operation in enumerate(tape.operations.tolist()):
        if operation in (codes.CONSTANT, codes.INPUT):
            continue
        start, stop = int(tape.starts[k]), int(tape.starts[k + 1])
        first, last = (operands[start], operands[stop - 1]) if stop > start else (0, 0)
        steep = [bool(layout.groups[x]) for x in ((first,) if stop - start == 1 else (first, last))]
        twin = -1
        if operation in (codes.SIN, codes.COS):
            twin = turns.get((codes.SIN + codes.COS - operation, first), -1)
            turns[operation, first] = k
        found.append(
            (
                operation,
                k,
                first,
                last,
                sum(steep),
                0 if steep[0] else 1,
                twin,
                int(layout.places[k]),
                len(layout.groups[k]),
                int(layout.starts[k]),
            )
        )
    return np.array(found, dtype=np.int64).reshape(-1, WORDS)


@inlined
def _sine_at(x, shift):
    """:func:`.elementary.sine` of one number."""
    if not abs(x) <= FAR:
        return -1.0, 1.0
    value = math.sin(x) if shift == 0.0 else math.cos(x)
    low, high = inflate(value, value)
    return max(low, -1.0), min(high, 1.0)


@inlined
def _carried(low, high, off):
    """What an operand is off by, through a slope; one that is exact stays exact, however steep."""
    if off == 0.0:
        return 0.0
    steepest = magnitude(low, high)
    return steepest * off if steepest == steepest else np.inf


def _compiled(version: int) -> Any:  # noqa: C901
    """The kernels, cached on disk; `version` is part of what the cache knows them by."""

    @numba.njit(nogil=True, error_model="numpy", cache=True)
    def ask(box, k, effort):
        """Fills the registers of a node, at the point too, with what the interpreter says."""
        if version < 0:
            return
        tape, lanes, asked = box.tape, box.lanes, box.asked
        column = (-1, 1)
        work_out(
            tape, k, box.below.reshape(column), box.above.reshape(column), box.spare, asked[0], asked[1],
            box.scratch, 0, 1,
        )  # fmt: skip
        for q in range(tape.starts[k], tape.starts[k + 1]):
            x = tape.operands[q]
            for j in range(tape.columns[x], tape.columns[x + 1]):
                asked[0, j, 0], asked[1, j, 0] = box.steep_low[lanes[j]], box.steep_high[lanes[j]]
        work_out(
            tape, k, box.low.reshape(column), box.high.reshape(column), box.error.reshape(column), asked[0],
            asked[1], box.scratch, effort, 1,
        )  # fmt: skip
        box.finite[k] = True
        for j in range(tape.columns[k], tape.columns[k + 1]):
            least, most = asked[0, j, 0], asked[1, j, 0]
            box.steep_low[lanes[j]], box.steep_high[lanes[j]] = least, most
            box.finite[k] &= abs(least) < np.inf and abs(most) < np.inf

    @numba.njit(nogil=True, error_model="numpy", cache=True)
    def look_at(box, lower, upper, point, effort):  # noqa: C901
        """Fills the registers for one box (D,) and a point of it; `effort` 1 or 2, as in the interpreter.

        One function, for a call with so many arrays takes longer than what most nodes ask for.
        """
        if version < 0:
            return
        tasks, taken, sources = box.tasks, box.taken, box.sources
        low, high, below, above, error, finite = (
            box.low, box.high, box.below, box.above, box.error, box.finite,
        )  # fmt: skip
        steep_low, steep_high, turned = box.steep_low, box.steep_high, box.turned
        if effort > 1:
            error[:] = 0.0
        for i in range(len(taken)):
            k, column = taken[i, 0], taken[i, 1]
            low[k], high[k] = lower[column], upper[column]
            below[k] = above[k] = point[column]
        for i in range(len(tasks)):
            operation, k, x, y = tasks[i, OPERATION], tasks[i, NODE], tasks[i, FIRST], tasks[i, LAST]
            a, b, c, d = low[x], high[x], low[y], high[y]
            m, n, o, p = below[x], above[x], below[y], above[y]
            # Slopes by the first operand and by the last.
            g, h, u, v = 1.0, 1.0, 1.0, 1.0
            if operation == codes.ADD:
                e, f, r, s = add_down(a, c), add_up(b, d), add_down(m, o), add_up(n, p)
            elif operation == codes.SUBTRACT and x != y:
                e, f, r, s = add_down(a, -d), add_up(b, -c), add_down(m, -p), add_up(n, -o)
            elif operation == codes.MULTIPLY:
                e, f = multiply(a, b, c, d)
                r, s = multiply(m, n, o, p)
                g, h, u, v = c, d, a, b
            elif operation == codes.SQUARE:
                e, f = square(a, b)
                r, s = square(m, n)
                g, h = add_down(a, a), add_up(b, b)
            elif operation == codes.SIN or operation == codes.COS:
                shift, twin = 0.0 if operation == codes.SIN else _HALF_PI, tasks[i, TWIN]
                if twin < 0:
                    e, f = sine(a, b, shift)
                    g, h = sine(a, b, _HALF_PI - shift)
                else:
                    e, f, g, h = turned[twin, 0], turned[twin, 1], low[twin], high[twin]
                turned[k, 0], turned[k, 1] = g, h
                if operation == codes.COS:
                    g, h = -h, -g
                if m == n:
                    r, s = _sine_at(m, shift)
                else:
                    r, s = sine(m, n, shift)
            elif operation == codes.NEGATIVE:
                e, f, r, s = -b, -a, -n, -m
            elif operation == codes.DIVIDE and not (c <= 0.0 and d >= 0.0):
                e, f = divide(a, b, c, d)
                r, s = divide(m, n, o, p)
                g, h = divide(1.0, 1.0, c, d)
                u, v = divide(e, f, c, d)
                u, v = -v, -u
            else:
                ask(box, k, effort)
                continue
            if not (a == a and c == c and abs(e) < np.inf and abs(f) < np.inf):
                ask(box, k, effort)
                continue
            low[k], high[k] = e, f
            # At the point a divisor may be 0 by roundings, even where it is not over the box.
            if not (m == m and o == o and abs(r) < np.inf and abs(s) < np.inf) or (
                operation == codes.DIVIDE and o <= 0.0 and p >= 0.0
            ):
                r, s = np.nan, np.nan
            below[k], above[k] = r, s
            blocks, place, source = tasks[i, BLOCKS], tasks[i, PLACE], tasks[i, SOURCES]
            if blocks > 0:
                known = finite[x] and finite[y]
                if operation == codes.ADD:
                    for j in range(blocks):
                        given = place + FOUR * j, sources[source + j, 0], sources[source + j, 1]
                        known &= add_fours(steep_low, steep_high, given)
                elif operation == codes.SUBTRACT:
                    for j in range(blocks):
                        given = place + FOUR * j, sources[source + j, 0], sources[source + j, 1]
                        known &= subtract_fours(steep_low, steep_high, given)
                elif operation == codes.NEGATIVE:
                    for j in range(blocks):  # 0 less it
                        given = place + FOUR * j, 0, sources[source + j, 0]
                        known &= subtract_fours(steep_low, steep_high, given)
                elif tasks[i, STEEP] > 1:
                    known &= abs(g) < np.inf and abs(h) < np.inf and abs(u) < np.inf and abs(v) < np.inf
                    for j in range(blocks):
                        given = place + FOUR * j, sources[source + j, 0], sources[source + j, 1], g, h, u, v
                        known &= mix_fours(steep_low, steep_high, given)
                else:
                    which = tasks[i, WHICH]
                    one, two = (g, h) if which == 0 else (u, v)
                    known &= abs(one) < np.inf and abs(two) < np.inf
                    if one == two:
                        for j in range(blocks):
                            given = place + FOUR * j, sources[source + j, which], one
                            known &= scale_fours(steep_low, steep_high, given)
                    else:
                        for j in range(blocks):
                            given = place + FOUR * j, sources[source + j, which], one, two
                            known &= multiply_fours(steep_low, steep_high, given)
                finite[k] = True
                if not known:
                    ask(box, k, effort)
                    continue
            if effort > 1:
                alone = operation >= codes.NEGATIVE
                total, off = _carried(g, h, error[x]), 0.0 if alone else error[y]
                if off != 0.0:
                    total += _carried(u, v, off)
                size = magnitude(e, f)
                if operation == codes.NEGATIVE:
                    error[k] = total
                elif operation == codes.SIN or operation == codes.COS:
                    error[k] = (total + (_LIBRARY_ERROR * size + 8 * TINY)) * _MORE
                else:
                    error[k] = (total + (_UNIT * size + TINY)) * _MORE

    return look_at


def _version() -> int:
    """A number for the sources that kernels are compiled from: Numba's cache looks at this file alone."""
    sources = b"".join(Path(name).read_bytes() for name in (__file__, fours.__file__))
    return int.from_bytes(hashlib.sha256(sources + str(INTERPRETED).encode()).digest()[:7], "big")


VERSION = _version()
look_at = _compiled(VERSION)
