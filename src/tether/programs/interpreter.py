"""The program over boxes: ranges, derivatives and roundings of every node, a few boxes at a time; compiled.

Each box has a lane of its own in the registers: for node k, ``low[k]`` and ``high[k]`` hold its range, NaN
where it is not defined throughout; ``error[k]`` bounds how far NumPy's own float64 value can be from the
exact one; derivatives by the inputs that the node depends on are at ``columns[k] : columns[k + 1]``, NaN
where they are not bounded.

A node may jump: a step function, or a choice by a condition that is not the same all over the box. Its range
then holds all that it can be, on both sides; its derivative by every input that decides where it jumps is not
bounded. Sound because M cannot change by a jump along a way on which none of these inputs changes. The exact
value is meant with every choice as NumPy makes it: what its conditions compare, and what its step functions
are given, depends on these inputs alone.
"""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any

import numba
import numpy as np

from tether.programs import elementary, rounding, systems, tables
from tether.programs import graph as codes
from tether.programs.elementary import (
    angle,
    angle_slope,
    length_slope,
    logaddexp,
    meets_cut,
    real_power,
    share,
    step_count,
    unary_range,
    unary_slope,
)
from tether.programs.program import Tape
from tether.programs.rounding import (
    FAINT,
    LARGEST,
    TINY,
    ULP,
    add_down,
    add_up,
    divide,
    down,
    inflate,
    inlined,
    magnitude,
    multiply,
    multiply_lanes,
    root,
    smallest,
    square,
    up,
)
from tether.programs.systems import determinant_slack, solution_error, solution_range, solution_slopes
from tether.programs.tables import table_error, table_range, table_slope

_UNIT = 2.0**-53 * (1 + 2.0**-20)
"""Relative error of one float64 operation, with what rounding its bound takes."""
_LIBRARY_ERROR = 8 * _UNIT
"""Four units in the last place."""
LANES = 32
"""At most so many boxes at a time: what is done for each column of derivatives is done for all in one go."""


@inlined
def _range_of(tape, k, low, high, lane):
    """Range of a node that is neither input nor constant, from its operands' ranges, none undefined."""
    operation, start, stop = tape.operations[k], tape.starts[k], tape.starts[k + 1]
    x = tape.operands[start]
    if stop - start == 1 and operation != codes.SUM and operation != codes.NORM:
        if operation == codes.NOT:
            return 1.0 - high[x, lane], 1.0 - low[x, lane]
        if operation == codes.NUMBER:
            return low[x, lane], high[x, lane]
        return unary_range(operation, low[x, lane], high[x, lane], tape.values[k])
    if operation == codes.SUM:
        return _sum(tape, k, low, high, lane)
    if operation == codes.NORM:
        return _norm(tape, k, low, high, lane)
    if operation == codes.TABLE:
        return table_range(tape, k, low, high, lane)
    if operation == codes.SOLUTION:
        return solution_range(tape, k, low, high, lane)
    if operation == codes.DETERMINANT:
        slack = determinant_slack(tape, k, low, high, lane)
        return down(low[x, lane] - slack), up(high[x, lane] + slack)
    y = tape.operands[start + 1]
    return _binary_range(operation, low[x, lane], high[x, lane], low[y, lane], high[y, lane], x == y)


@inlined
def _binary_range(operation, a, b, c, d, same):
    if operation == codes.ADD:
        return add_down(a, c), add_up(b, d)
    if operation == codes.MULTIPLY:
        return multiply(a, b, c, d)
    if operation == codes.SUBTRACT:
        return (0.0, 0.0) if same else (add_down(a, -d), add_up(b, -c))
    if operation == codes.DIVIDE:
        return (np.nan, np.nan) if c <= 0.0 and d >= 0.0 else divide(a, b, c, d)
    if operation == codes.MINIMUM:
        return min(a, c), min(b, d)
    if operation == codes.MAXIMUM:
        return max(a, c), max(b, d)
    if operation == codes.LESS:
        return 1.0 if b < c else 0.0, 0.0 if a >= d else 1.0
    if operation == codes.LESS_EQUAL:
        return 1.0 if b <= c else 0.0, 0.0 if a > d else 1.0
    if operation == codes.EQUAL:
        alike = same or (a == b and c == d and a == c)
        return 1.0 if alike else 0.0, 0.0 if b < c or a > d else 1.0
    if operation == codes.AND:
        return min(a, c), min(b, d)
    if operation == codes.POWER:
        return real_power(a, b, c, d)
    if operation == codes.ARCTAN2:
        return angle(a, b, c, d)
    if operation == codes.HYPOT:
        low, high = inflate(
            math.hypot(smallest(a, b), smallest(c, d)), math.hypot(magnitude(a, b), magnitude(c, d))
        )
        return max(low, 0.0), high
    if operation == codes.LOGADDEXP:
        return logaddexp(a, b, c, d)
    return _period_range(operation, a, b, c, d)


@inlined
def _period_range(operation, a, b, c, d):
    """`mod` and `floor_divide`, within one period or over several."""
    if c <= 0.0 and d >= 0.0:
        return np.nan, np.nan
    count = step_count(a, b, c, d)
    if operation == codes.FLOOR_DIVIDE:
        if count == count:
            return count, count
        low, high = divide(a, b, c, d)
        low, high = inflate(low, high)
        return np.floor(low), np.floor(high)
    if count != count:
        return min(c, 0.0), max(d, 0.0)  # NumPy's may be the divisor itself, by rounding
    c, d = multiply(count, count, c, d)
    return add_down(a, -d), add_up(b, -c)


@inlined
def _sum(tape, k, low, high, lane):
    """Sum in whatever order, fused or not: its error is within n + 4 roundings of the sum of magnitudes."""
    total_low, total_high, scale = 0.0, 0.0, 0.0
    for q in range(tape.starts[k], tape.starts[k + 1]):
        x = tape.operands[q]
        total_low += low[x, lane]
        total_high += high[x, lane]
        scale += magnitude(low[x, lane], high[x, lane])
    if not scale < np.inf:
        return -np.inf, np.inf
    if scale == 0.0:
        return 0.0, 0.0
    slack = scale * ((tape.values[k] + (tape.starts[k + 1] - tape.starts[k]) + 4.0) * ULP) + FAINT
    return down(total_low - slack), up(total_high + slack)


@inlined
def _underflow(lost, low):
    """What a length of at least `low` loses with so much of its squares: |√a - √b| <= |a - b| / √a."""
    own = math.sqrt(lost)
    return min(own, lost / low) * 2.0 if low > 0.0 else own * 2.0


@inlined
def _norm(tape, k, low, high, lane):
    """Euclidean length, squares added up in whatever order."""
    total_low, total_high = 0.0, 0.0
    for q in range(tape.starts[k], tape.starts[k + 1]):
        x = tape.operands[q]
        c, d = square(low[x, lane], high[x, lane])
        total_low += c
        total_high += d
    slack = (tape.values[k] + (tape.starts[k + 1] - tape.starts[k]) + 8.0) * ULP
    # Squares that underflow lose at most TINY each.
    below = max(min(total_low, LARGEST) * (1.0 - slack) - FAINT * (tape.values[k] + 1.0), 0.0)
    above = total_high * (1.0 + slack) + FAINT * (tape.values[k] + 1.0)
    if total_high == 0.0:
        return 0.0, 0.0
    c, d = root(below, above)
    return max(down(c - c * slack), 0.0), up(d + d * slack)


@inlined
def _slopes(tape, k, q, low, high, lane):
    """Slope of node k by its operand number q, and whether that is known without a product."""
    operation, start = tape.operations[k], tape.starts[k]
    x = tape.operands[start]
    if operation == codes.ADD or operation == codes.SUM:
        return 1.0, 1.0
    if operation == codes.SUBTRACT:
        return (1.0, 1.0) if q == 0 else (-1.0, -1.0)
    if operation == codes.NORM:
        x = tape.operands[start + q]
        return length_slope(low[x, lane], high[x, lane], low[k, lane], high[k, lane])
    if operation == codes.TABLE:
        return table_slope(tape, k, low, high, lane)
    if operation == codes.DETERMINANT:
        return (1.0, 1.0) if q == 0 else (0.0, 0.0)
    if tape.starts[k + 1] - start == 1:
        return unary_slope(
            operation, low[x, lane], high[x, lane], low[k, lane], high[k, lane], tape.values[k]
        )
    y = tape.operands[start + 1]
    return _binary_slope(
        operation, q, low[x, lane], high[x, lane], low[y, lane], high[y, lane], low[k, lane], high[k, lane]
    )


@inlined
def _binary_slope(operation, q, a, b, c, d, low, high):
    if operation == codes.MULTIPLY:
        return (c, d) if q == 0 else (a, b)
    if operation == codes.DIVIDE:
        if q == 0:
            return divide(1.0, 1.0, c, d)
        e, f = divide(low, high, c, d)
        return -f, -e
    if operation == codes.HYPOT:
        return length_slope(a, b, low, high) if q == 0 else length_slope(c, d, low, high)
    if operation == codes.ARCTAN2:
        return (np.nan, np.nan) if meets_cut(a, b, c) else angle_slope(q, a, b, c, d)
    if operation == codes.POWER:
        if q == 1:
            if a <= 0.0:
                return np.nan, np.nan
            e, f = inflate(math.log(a), math.log(b))
            return multiply(low, high, e, f)
        if a <= 0.0:
            return np.nan, np.nan
        e, f = real_power(a, b, add_down(c, -1.0), add_up(d, -1.0))
        return multiply(c, d, e, f)
    if operation == codes.LOGADDEXP:  # 1 / (1 + exp(y - x)) by x
        return share(add_down(c, -b), add_up(d, -a)) if q == 0 else share(add_down(a, -d), add_up(b, -c))
    if operation == codes.REMAINDER:
        count = step_count(a, b, c, d)
        if q == 0:
            return (1.0, 1.0) if count == count else (np.nan, np.nan)
        return -count, -count
    return 0.0, 0.0


@inlined
def _error_of_jump(low, high, error, x, y, k, lane):
    """Of ``x - n y``, with n as NumPy has it, of several."""
    size = magnitude(low[k, lane], high[k, lane])
    total = error[x, lane]
    if error[y, lane] != 0.0:
        c, d = divide(low[x, lane], high[x, lane], low[y, lane], high[y, lane])
        total += (magnitude(c, d) + 1.0) * error[y, lane]
    return (total + _LIBRARY_ERROR * size + 8 * TINY) * (1 + 2.0**-40)


@inlined
def _carry(slope, error):
    """An operand's error through a slope; one that is exact stays exact, however steep."""
    if error == 0.0:
        return 0.0
    return slope * error if slope == slope else np.inf


@inlined
def _error_of_angle(tape, k, low, high, error, lane):
    """Of arctan2, also where it jumps: the exact value then lies on NumPy's side of the cut, if only just.

    Sound because from NumPy's operands to the exact ones the angle turns by at most slopes times errors; if
    it comes to the cut on its way, it stays there.
    """
    y, x = tape.operands[tape.starts[k]], tape.operands[tape.starts[k] + 1]
    a, b, c, d = low[y, lane], high[y, lane], low[x, lane], high[x, lane]
    total = 0.0
    for q in range(2):
        part = error[y, lane] if q == 0 else error[x, lane]
        if part != 0.0:
            e, f = angle_slope(q, a, b, c, d)
            total += _carry(magnitude(e, f), part)
    size = magnitude(low[k, lane], high[k, lane])
    return (min(total, 2.0 * size) + _LIBRARY_ERROR * size + 8 * TINY) * (1 + 2.0**-40)


@inlined
def _error_of(tape, k, low, high, error, lane):
    """How far NumPy's value of a node can be from the exact one."""
    operation, start, stop = tape.operations[k], tape.starts[k], tape.starts[k + 1]
    if operation == codes.REMAINDER:
        x, y = tape.operands[start], tape.operands[start + 1]
        count = step_count(low[x, lane], high[x, lane], low[y, lane], high[y, lane])
        if count != count:
            return _error_of_jump(low, high, error, x, y, k, lane)
    if operation == codes.ARCTAN2:
        return _error_of_angle(tape, k, low, high, error, lane)
    if operation == codes.SOLUTION:
        return solution_error(tape, k, low, high, error, lane)
    size = magnitude(low[k, lane], high[k, lane])
    total = 0.0
    for q in range(stop - start):
        x = tape.operands[start + q]
        if error[x, lane] != 0.0:
            c, d = _slopes(tape, k, q, low, high, lane)
            part = _carry(magnitude(c, d), error[x, lane])
            if operation == codes.SQRT:  # |√x - √y| <= √|x - y|
                part = min(part, math.sqrt(error[x, lane]) * (1 + 2.0**-40))
            total += part
    if operation == codes.NEGATIVE or operation == codes.ABSOLUTE:
        return total
    if operation == codes.SUM:
        scale = 0.0
        for q in range(start, stop):
            scale += magnitude(low[tape.operands[q], lane], high[tape.operands[q], lane])
        own = (tape.values[k] + 4.0 + (stop - start)) * _UNIT * scale + TINY
    elif operation == codes.TABLE:
        own = table_error(tape, k, low, high, lane)
    elif operation == codes.DETERMINANT:
        own = determinant_slack(tape, k, low, high, lane)
    elif operation == codes.NORM or operation == codes.PRODUCT:
        own = (tape.values[k] + 8.0) * 2 * _UNIT * size + FAINT
        if operation == codes.NORM:
            own += _underflow(TINY * (stop - start + 1.0), low[k, lane])
    elif operation == codes.LOGADDEXP:
        x, y = tape.operands[start], tape.operands[start + 1]
        own = (
            4
            * _LIBRARY_ERROR
            * (magnitude(low[x, lane], high[x, lane]) + magnitude(low[y, lane], high[y, lane]) + 1.0)
        )
    elif operation <= codes.DIVIDE or operation == codes.SQUARE or operation == codes.SQRT:
        own = _UNIT * size + TINY
    else:
        own = _LIBRARY_ERROR * size + 8 * TINY
    return (total + own) * (1 + 2.0**-40)


@inlined
def _derive(tape, k, low, high, dlow, dhigh, scratch, lanes):
    """Derivatives of a node: the chain rule, column by column."""
    base = tape.columns[k]
    dlow[base : tape.columns[k + 1]] = 0.0
    dhigh[base : tape.columns[k + 1]] = 0.0
    operation, start = tape.operations[k], tape.starts[k]
    if operation == codes.SUBTRACT and tape.operands[start] == tape.operands[start + 1]:
        return
    slot, many = tape.places[k], np.empty((0, 0, 0))
    if operation == codes.SOLUTION:
        many = np.empty((lanes, 2, tape.starts[k + 1] - start))
        for lane in range(lanes):
            solution_slopes(tape, k, low, high, lane, many[lane])
    for q in range(tape.starts[k + 1] - start):
        x = tape.operands[start + q]
        first, count = tape.columns[x], tape.columns[x + 1] - tape.columns[x]
        if count == 0:
            continue
        sign = _sign_of(operation, q)
        if operation == codes.SOLUTION:
            scratch[0, :lanes], scratch[1, :lanes] = many[:, 0, q], many[:, 1, q]
        elif sign == 0.0:
            for lane in range(lanes):
                scratch[0, lane], scratch[1, lane] = _slopes(tape, k, q, low, high, lane)
        for j in range(first, first + count):
            place = base + tape.slots[slot]
            slot += 1
            if sign == 1.0:
                _add_lanes(dlow[place], dhigh[place], dlow[j], dhigh[j], lanes)
            elif sign == -1.0:
                _subtract_lanes(dlow[place], dhigh[place], dlow[j], dhigh[j], lanes)
            else:
                multiply_lanes(dlow[j], dhigh[j], scratch[0], scratch[1], scratch[2], scratch[3], lanes)
                _add_lanes(dlow[place], dhigh[place], scratch[2], scratch[3], lanes)


@inlined
def _sign_of(operation, q):
    """A slope that is 1 or -1 for every box; 0 for all others."""
    if operation == codes.ADD or operation == codes.SUM or operation == codes.PRODUCT:
        return 1.0
    if operation == codes.SUBTRACT:
        return 1.0 if q == 0 else -1.0
    return -1.0 if operation == codes.NEGATIVE else 0.0


@inlined
def _add_lanes(low, high, more_low, more_high, lanes):
    for lane in range(lanes):
        low[lane] = add_down(low[lane], more_low[lane])
        high[lane] = add_up(high[lane], more_high[lane])


@inlined
def _subtract_lanes(low, high, less_low, less_high, lanes):
    for lane in range(lanes):
        low[lane] = add_down(low[lane], -less_high[lane])
        high[lane] = add_up(high[lane], -less_low[lane])


@inlined
def _derive_choice(tape, k, first, one, two, dlow, dhigh, lane):
    """Derivatives of one of two operands, or the hull of both: `one` and `two` say which may be taken."""
    base, width = tape.columns[k], tape.columns[k + 1] - tape.columns[k]
    dlow[base : base + width, lane] = np.inf
    dhigh[base : base + width, lane] = -np.inf
    slot = tape.places[k + 1]  # those of the operands come last
    for q in range(2):
        slot -= tape.columns[tape.operands[first + q] + 1] - tape.columns[tape.operands[first + q]]
    for q in range(2):
        operand, taken = tape.operands[first + q], one if q == 0 else two
        column = 0  # inputs that an operand does not depend on have slope 0
        for j in range(tape.columns[operand], tape.columns[operand + 1]):
            place = tape.slots[slot]
            slot += 1
            if taken:
                while column < place:
                    _hull(dlow, dhigh, base + column, 0.0, 0.0, lane)
                    column += 1
                _hull(dlow, dhigh, base + place, dlow[j, lane], dhigh[j, lane], lane)
                column = place + 1
        while taken and column < width:
            _hull(dlow, dhigh, base + column, 0.0, 0.0, lane)
            column += 1


@inlined
def _hull(dlow, dhigh, place, low, high, lane):
    if low != low or dlow[place, lane] != dlow[place, lane]:
        dlow[place, lane], dhigh[place, lane] = np.nan, np.nan
    else:
        dlow[place, lane], dhigh[place, lane] = min(dlow[place, lane], low), max(dhigh[place, lane], high)


@inlined
def _choose(tape, k, low, high, error, dlow, dhigh, effort, lane):
    """A node that takes one of two operands by a condition; either, where that is not decided."""
    start = tape.starts[k]
    condition = tape.operands[start]
    if low[condition, lane] != low[condition, lane]:
        low[k, lane], high[k, lane] = np.nan, np.nan
        return
    if low[condition, lane] != high[condition, lane]:
        _choose_either(tape, k, low, high, error, dlow, dhigh, effort, lane)
        return
    held = low[condition, lane] == 1.0
    x = tape.operands[start + 1] if held else tape.operands[start + 2]
    low[k, lane], high[k, lane], error[k, lane] = low[x, lane], high[x, lane], error[x, lane]
    if effort > 0:
        _derive_choice(tape, k, start + 1, held, not held, dlow, dhigh, lane)


@inlined
def _choose_either(tape, k, low, high, error, dlow, dhigh, effort, lane):
    """Both operands, and a jump between them wherever the condition's inputs change."""
    start = tape.starts[k]
    x, y = tape.operands[start + 1], tape.operands[start + 2]
    if low[x, lane] != low[x, lane] or low[y, lane] != low[y, lane]:
        low[k, lane], high[k, lane] = np.nan, np.nan
        return
    low[k, lane], high[k, lane] = min(low[x, lane], low[y, lane]), max(high[x, lane], high[y, lane])
    error[k, lane] = max(error[x, lane], error[y, lane])
    if effort > 0:
        _derive_choice(tape, k, start + 1, True, True, dlow, dhigh, lane)
        own = tape.columns[x + 1] - tape.columns[x] + tape.columns[y + 1] - tape.columns[y]
        for slot in range(tape.places[k], tape.places[k + 1] - own):
            place = tape.columns[k] + tape.slots[slot]
            dlow[place, lane], dhigh[place, lane] = np.nan, np.nan


@inlined
def _derive_step(tape, k, low, high, dlow, dhigh, lanes):
    """A step function: flat where it does not jump, and always exact."""
    for j in range(tape.columns[k], tape.columns[k + 1]):
        for lane in range(lanes):
            flat = low[k, lane] == high[k, lane]
            dlow[j, lane] = dhigh[j, lane] = 0.0 if flat else np.nan


@inlined
def _extreme(tape, k, low, high, error, dlow, dhigh, lane):
    """Derivatives and error of the lesser or greater of two operands; where either may be, both."""
    start = tape.starts[k]
    x, y = tape.operands[start], tape.operands[start + 1]
    error[k, lane] = max(error[x, lane], error[y, lane])
    lesser, greater = high[x, lane] < low[y, lane], high[y, lane] < low[x, lane]
    if tape.operations[k] == codes.MAXIMUM:
        lesser, greater = greater, lesser
    _derive_choice(tape, k, start, not greater, not lesser, dlow, dhigh, lane)


@inlined
def _evaluate(tape, k, low, high, lane):
    """Range of a node on operands of its own; NaN where one of them is not defined."""
    low[k, lane], high[k, lane] = np.nan, np.nan
    if tape.operations[k] == codes.UNDEFINED:
        return
    for q in range(tape.starts[k], tape.starts[k + 1]):
        if low[tape.operands[q], lane] != low[tape.operands[q], lane]:
            return
    c, d = _range_of(tape, k, low, high, lane)
    # What may overflow may become NaN on its way, which nothing here follows.
    if abs(c) < np.inf and abs(d) < np.inf:
        low[k, lane], high[k, lane] = c, d


@inlined
def _is_step(operation):
    steps = codes.SIGN <= operation <= codes.RINT
    return steps or operation == codes.FLOOR_DIVIDE or operation == codes.NUMBER


def _node(version: int) -> Any:
    """The kernel for one node, cached on disk; `version` is part of what the cache knows it by."""

    @numba.njit(nogil=True, error_model="numpy", cache=True)
    def work_out(tape, k, low, high, error, dlow, dhigh, scratch, effort, lanes):
        """Fills so many lanes of a node, neither a constant nor an input; those before it are known."""
        if version < 0:
            return
        operation = tape.operations[k]
        if operation == codes.WHERE:
            for lane in range(lanes):
                _choose(tape, k, low, high, error, dlow, dhigh, effort, lane)
            return
        for lane in range(lanes):
            _evaluate(tape, k, low, high, lane)
        if effort == 0 or codes.LESS <= operation <= codes.NOT:
            return
        if _is_step(operation):
            _derive_step(tape, k, low, high, dlow, dhigh, lanes)
        elif operation == codes.MINIMUM or operation == codes.MAXIMUM:
            for lane in range(lanes):
                _extreme(tape, k, low, high, error, dlow, dhigh, lane)
        else:
            if effort > 1:
                for lane in range(lanes):
                    error[k, lane] = _error_of(tape, k, low, high, error, lane)
            if tape.columns[k + 1] > tape.columns[k]:
                _derive(tape, k, low, high, dlow, dhigh, scratch, lanes)

    return work_out


def _version() -> int:
    """A number for the sources that kernels are compiled from: Numba's cache looks at this file alone."""
    sources = [Path(module.__file__ or "") for module in (codes, elementary, rounding, systems, tables)] + [
        Path(__file__)
    ]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources))
    return int.from_bytes(digest.digest()[:7], "big")


VERSION = _version()
work_out = _node(VERSION)


@inlined
def interpret(tape, lower, upper, low, high, error, dlow, dhigh, scratch, effort, lanes):
    """Fills so many lanes of the registers; row `lane` of `lower` and `upper` is the box of that lane."""
    error[:] = 0.0
    for k in range(len(tape.operations)):
        operation = tape.operations[k]
        if operation == codes.CONSTANT:
            # NumPy may make NaN of an infinite one.
            value = tape.values[k] if abs(tape.values[k]) < np.inf else np.nan
            low[k], high[k] = value, value
            continue
        if operation == codes.INPUT:
            column = int(tape.values[k])
            low[k, :lanes], high[k, :lanes] = lower[:, column], upper[:, column]
            if effort > 0:
                dlow[tape.columns[k]], dhigh[tape.columns[k]] = 1.0, 1.0
            continue
        work_out(tape, k, low, high, error, dlow, dhigh, scratch, effort, lanes)


def registers(tape: Tape) -> tuple[Any, ...]:
    """Room for the registers of one call: ranges, errors and derivatives, a lane for each box."""
    nodes, columns = len(tape.operations), int(tape.columns[-1])
    return tuple(np.empty((size, LANES)) for size in (nodes, nodes, nodes, columns, columns))


def _compiled(version: int) -> Any:
    """The kernel, cached on disk; `version` is part of what the cache knows it by."""

    @numba.njit(nogil=True, error_model="numpy", cache=True)
    def interpret_boxes(tape, lower, upper, effort, room, low, high, jacobian_low, jacobian_high, rounding):
        """Ranges (K, P), derivatives (K, P, D) and roundings (K, P) of the outputs over K boxes.

        `effort`: 0 for ranges alone, 1 for derivatives as well, 2 for roundings as well. `room` is what
        :func:`registers` gives, and holds those of the last boxes afterwards.
        """
        if version < 0:
            return
        register_low, register_high, error, dlow, dhigh = room
        scratch = np.empty((4, LANES))
        for begin in range(0, len(lower), LANES):
            lanes = min(LANES, len(lower) - begin)
            boxes = slice(begin, begin + lanes)
            interpret(
                tape, lower[boxes], upper[boxes], register_low, register_high, error, dlow, dhigh, scratch,
                effort, lanes,
            )  # fmt: skip
            for lane in range(lanes):
                for output in range(len(tape.outputs)):
                    k, row = tape.outputs[output], begin + lane
                    low[row, output], high[row, output] = register_low[k, lane], register_high[k, lane]
                    if effort > 1:
                        rounding[row, output] = error[k, lane]
                    if effort > 0:
                        undefined = register_low[k, lane] != register_low[k, lane]
                        for j in range(tape.columns[k], tape.columns[k + 1]):
                            column = tape.inputs[j]
                            jacobian_low[row, output, column] = np.nan if undefined else dlow[j, lane]
                            jacobian_high[row, output, column] = np.nan if undefined else dhigh[j, lane]

    return interpret_boxes


interpret_boxes = _compiled(VERSION)
