"""Tables between whose points lines are drawn, ``np.interp``, over intervals; compiled.

Operands of a node: the number asked for, the points (ascending), then the value at each point; the last two
are constants. Before the first point and behind the last the value stays what it is there.

Sound because NumPy takes ``slope * (x - point) + value`` within each piece, rounded as it goes: the same
formula in outward-rounded arithmetic contains what it computes, and, x being in it once, the exact values and
nothing else but roundings.
"""

from __future__ import annotations

import numpy as np

from tether.programs.rounding import FAINT, add_down, add_up, divide, inlined, magnitude, multiply

_UNIT = 2.0**-53 * (1 + 2.0**-20)


@inlined
def _slope(x0, x1, y0, y1):
    """Of a piece, and of what NumPy computes for it."""
    return divide(add_down(y1, -y0), add_up(y1, -y0), add_down(x1, -x0), add_up(x1, -x0))


@inlined
def table_range(tape, k, low, high, lane):
    """All values over the range of the number asked for."""
    first, count = tape.starts[k] + 1, (tape.starts[k + 1] - tape.starts[k] - 1) // 2
    x = tape.operands[first - 1]
    a, b = low[x, lane], high[x, lane]
    begin = low[tape.operands[first + count], lane]
    end = low[tape.operands[first + 2 * count - 1], lane]
    least, most = np.inf, -np.inf
    if count == 1 or a < low[tape.operands[first], lane]:
        least, most = begin, begin
    if b > low[tape.operands[first + count - 1], lane]:
        least, most = min(least, end), max(most, end)
    for j in range(first, first + count - 1):
        x0, x1 = low[tape.operands[j], lane], low[tape.operands[j + 1], lane]
        if a <= x1 and b >= x0:
            y0, y1 = low[tape.operands[j + count], lane], low[tape.operands[j + count + 1], lane]
            c, d = _slope(x0, x1, y0, y1)
            c, d = multiply(c, d, add_down(max(a, x0), -x0), add_up(min(b, x1), -x0))
            least, most = min(least, add_down(y0, c)), max(most, add_up(y0, d))
    return least, most


@inlined
def table_slope(tape, k, low, high, lane):
    """Slopes of all pieces that are met; at a point, of those on both sides."""
    first, count = tape.starts[k] + 1, (tape.starts[k + 1] - tape.starts[k] - 1) // 2
    x = tape.operands[first - 1]
    a, b = low[x, lane], high[x, lane]
    least, most = np.inf, -np.inf
    if count == 1 or a <= low[tape.operands[first], lane] or b >= low[tape.operands[first + count - 1], lane]:
        least, most = 0.0, 0.0
    for j in range(first, first + count - 1):
        x0, x1 = low[tape.operands[j], lane], low[tape.operands[j + 1], lane]
        if a <= x1 and b >= x0:
            y0, y1 = low[tape.operands[j + count], lane], low[tape.operands[j + count + 1], lane]
            c, d = _slope(x0, x1, y0, y1)
            least, most = min(least, c), max(most, d)
    return least, most


@inlined
def table_error(tape, k, low, high, lane):
    """What NumPy itself is off by, at whatever float64 number in the range it is asked.

    Of a piece: two differences, a quotient, a difference and a product make five roundings of at most the
    change along it, and the sum one of the result, which lies between both values but for the five.
    """
    first, count = tape.starts[k] + 1, (tape.starts[k + 1] - tape.starts[k] - 1) // 2
    x = tape.operands[first - 1]
    a, b = low[x, lane], high[x, lane]
    size, wide = 0.0, 0.0
    for j in range(first, first + count - 1):
        x0, x1 = low[tape.operands[j], lane], low[tape.operands[j + 1], lane]
        if a <= x1 and b >= x0:
            y0, y1 = low[tape.operands[j + count], lane], low[tape.operands[j + count + 1], lane]
            size, wide = max(size, magnitude(y0, y1)), max(wide, x1 - x0)
    return 16 * _UNIT * size + FAINT * (wide + 1.0)
