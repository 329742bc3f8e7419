"""All steps of M's own reachable sets in one compiled loop.

The theorem is that of :mod:`.step`, without a tether and without angles: beside the zonotope of each step a
box is kept that holds the same states. Over the inputs ``s`` that lie in both, with m in the middle of these
and J what encloses M's derivative there, NumPy's own value of M lies in

    M(m) + slope (s - m) ± (|J - slope| |s - m| + rounding)     and     the range of M's program,

for any slope: the middle of J, and none. The first is the zonotope's affine image; both say where the next
box is. Where the doubt is a share of the width that is worth it the inputs are cut in parts, each with a
middle and a J of its own, and the doubts beside the same lines are those of the worst part. Where many parts
gained in one step, the next one does not try few.

Every sum is rounded outward by more units than it has terms (lemma in :mod:`.zonotopes`), with all
magnitudes in it.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np

from tether.claims.tubes.zonotopes import EPS, FAINT
from tether.data import Array
from tether.programs.onebox import VERSION, look_at
from tether.programs.rounding import down, inlined, up

GAIN = 0.005
"""Inputs are cut into more parts where the last ones made what follows narrower by such a share.

Chosen on the plants of benchmarks/bench_tubes.py, as the defaults of :mod:`.reaching` were."""
FINE, UNKNOWN = -1, -2
"""Of a step: it is there; M has no bound over the set. Otherwise, which input may leave the operating box."""


class Plan(NamedTuple):
    """What all rows and steps share.

    Attributes:
        base: (P, D) what is added to M: the states, where M gives increments; else 0.
        half_width: (P,) how far the model may be from M.
        least: (D,) the operating box.
        most: (D,)
        generators: at most so many.
        halvings: at most so often is a set cut.
        worth: as a share of the width, doubt about M for which it is.
    """

    base: Array
    half_width: Array
    least: Array
    most: Array
    generators: int
    halvings: int
    worth: float


# Rows of the table on which a step is worked out, each (D,), or (P,) and the rest of it unused.
(
    LOW, HIGH, MIDDLE, REACH,  # of the inputs; lines have their value in the middle
    CENTER, RADIUS,  # of the zonotope
    LINE,  # values of two lines, one with the slope and one without
    _, KNOWN,  # where the model is beside each: its ends
    _, _, _, FOUND,  # the same over parts
    _, _, _, ROUNDING,  # how far NumPy's M may be from the exact one
    LEAST, MOST,  # ends of M's range over what was looked at last
    BELOW, ABOVE,  # ends of M at a point
    SHARES, COUNTS,  # of each input in the doubt, and in how many parts it is cut
    PART_LOW, PART_HIGH, PART_MIDDLE, PART_REACH,
    REST,  # the box that is added to the image
    BOX,  # ends of the next states
    _, NEXT,
    EXTRA,  # what of the image's generators goes into the box
    ROWS,
) = range(33)  # fmt: skip
# Of the matrices (P, D): the slope of the first line, ends of the derivative over what was looked at last.
SLOPE, STEEP_LOW, STEEP_HIGH = range(3)


@inlined
def _read(one, rows, grids, effort):
    """M's range, derivatives and roundings over what was looked at last, and M at its middle."""
    tape = one.tape
    outputs, columns, inputs = tape.outputs, tape.columns, tape.inputs
    grids[STEEP_LOW] = grids[STEEP_HIGH] = 0.0
    for p in range(len(outputs)):
        k = outputs[p]
        rows[LEAST, p], rows[MOST, p] = one.low[k], one.high[k]
        rows[BELOW, p], rows[ABOVE, p] = one.below[k], one.above[k]
        if effort > 1:
            rows[ROUNDING, p] = one.error[k]
        for j in range(columns[k], columns[k + 1]):
            grids[STEEP_LOW, p, inputs[j]] = one.steep_low[one.lanes[j]]
            grids[STEEP_HIGH, p, inputs[j]] = one.steep_high[one.lanes[j]]


@inlined
def _beside(rows, grids, p, sloped, line, off, reaches):
    """Ends of what NumPy's M is beyond a line over a box that was looked at; infinite where not known.

    `line` is its value at the box's middle, and `off` how far that is from the exact one.
    """
    least, most = rows[LEAST, p], rows[MOST, p]
    below, above = rows[BELOW, p], rows[ABOVE, p]
    inputs, doubt, spread = rows.shape[1], 0.0, 0.0
    for d in range(inputs):
        if rows[reaches, d] > 0.0:
            along = grids[SLOPE, p, d] if sloped else 0.0
            beyond = max(grids[STEEP_HIGH, p, d] - along, along - grids[STEEP_LOW, p, d])
            doubt += beyond * rows[reaches, d] if beyond == beyond else np.inf
            spread += abs(along) * rows[reaches, d]
    doubt += rows[ROUNDING, p] if rows[ROUNDING, p] == rows[ROUNDING, p] else np.inf
    size = abs(line) + abs(below) + abs(above) + abs(least) + abs(most)
    # The derivative less the slope is off by a unit of the slope: twice the spread, and as much again.
    slack = (inputs + 24) * EPS * (size + 2.0 * spread) + off + FAINT * (inputs + 2)
    more = doubt * (1.0 + (inputs + 24) * EPS) + slack
    low, high = least - line - spread - slack, most - line + spread + slack
    if below - line - more > low:
        low = below - line - more
    if above - line + more < high:
        high = above - line + more
    if not (least == least and most == most and low == low and high == high):
        return -np.inf, np.inf
    return low, high


@inlined
def _half(rows, p, c):
    return 0.5 * (rows[KNOWN + 2 * c + 1, p] - rows[KNOWN + 2 * c, p])


@inlined
def _steepest(rows, grids, p):
    """How far the line with a slope goes from its value."""
    total = 0.0
    for d in range(rows.shape[1]):
        total += abs(grids[SLOPE, p, d]) * rows[REACH, d]
    return total


@inlined
def _lines(rows, grids):
    """Two lines for each output and what M is beyond them over the whole of the inputs."""
    for p in range(grids.shape[1]):
        for d in range(grids.shape[2]):
            along = 0.5 * grids[STEEP_LOW, p, d] + 0.5 * grids[STEEP_HIGH, p, d]
            grids[SLOPE, p, d] = along if abs(along) < np.inf else 0.0
        for c in range(2):
            ends = BELOW if c == 0 else LEAST
            value = 0.5 * rows[ends, p] + 0.5 * rows[ends + 1, p]
            rows[LINE + c, p] = value if abs(value) < np.inf else 0.0
            low, high = _beside(rows, grids, p, c == 0, rows[LINE + c, p], 0.0, REACH)
            rows[KNOWN + 2 * c, p], rows[KNOWN + 2 * c + 1, p] = low, high


@inlined
def _wanted(rows, grids, worth):
    """Whether doubt is a share of the width that is worth to be cut; and along which inputs it is.

    It is not where the doubt is no bending, but roundings.
    """
    wanted, bends = False, False
    rows[SHARES] = 0.0
    for p in range(grids.shape[1]):
        half = min(_half(rows, p, 0), _half(rows, p, 1))
        if not half < np.inf:
            return False
        steep = _steepest(rows, grids, p)
        wanted = wanted or half > worth * (half + steep)
        for d in range(grids.shape[2]):
            if rows[REACH, d] > 0.0 and half > 0.0:
                along = grids[SLOPE, p, d]
                beyond = max(grids[STEEP_HIGH, p, d] - along, along - grids[STEEP_LOW, p, d])
                share = beyond * rows[REACH, d] / (half + worth * steep)
                if share < np.inf:
                    rows[SHARES, d] = max(rows[SHARES, d], share)
                    bends = bends or share > 0.1
    return wanted and bends


@inlined
def _cut(rows, halvings):
    """Fills into how many parts each input is cut."""
    rows[COUNTS] = 1.0
    for _ in range(halvings):
        best = -1
        for d in range(rows.shape[1]):
            if rows[HIGH, d] > rows[LOW, d] and (
                best < 0
                or rows[SHARES, d] / rows[COUNTS, d] ** 2 > rows[SHARES, best] / rows[COUNTS, best] ** 2
            ):
                best = d
        if best >= 0:
            rows[COUNTS, best] *= 2.0


@inlined
def _place(rows, number):
    """Fills ends, middle and reach of one part; neighbours share their ends, which are the same floats."""
    for d in range(rows.shape[1]):
        count = int(rows[COUNTS, d])
        digit = number % count
        number //= count
        low, high = rows[LOW, d], rows[HIGH, d]
        one = low if digit == 0 else min(max(low + (high - low) * (digit / count), low), high)
        two = high if digit + 1 == count else min(max(low + (high - low) * ((digit + 1) / count), low), high)
        middle = min(max(0.5 * one + 0.5 * two, one), two)
        rows[PART_LOW, d], rows[PART_HIGH, d], rows[PART_MIDDLE, d] = one, two, middle
        rows[PART_REACH, d] = max(two - middle, middle - one) * (1.0 + EPS)


@inlined
def _over_part(rows, grids, number):
    """What M is beyond the lines over the worst of the parts up to this one."""
    for p in range(grids.shape[1]):
        moved, size = 0.0, abs(rows[LINE, p])
        for d in range(rows.shape[1]):
            step = grids[SLOPE, p, d] * (rows[PART_MIDDLE, d] - rows[MIDDLE, d])
            moved += step
            size += abs(step)
        off = (rows.shape[1] + 8) * EPS * size + FAINT * rows.shape[1]
        for c in range(2):
            line = rows[LINE, p] + moved if c == 0 else rows[LINE + 1, p]
            low, high = _beside(rows, grids, p, c == 0, line, off if c == 0 else 0.0, PART_REACH)
            least, most = (
                (np.inf, -np.inf) if number == 0 else (rows[FOUND + 2 * c, p], rows[FOUND + 2 * c + 1, p])
            )
            rows[FOUND + 2 * c, p], rows[FOUND + 2 * c + 1, p] = min(least, low), max(most, high)


@inlined
def _better(rows, grids, worth):
    """What is known of the whole and of the worst part; whether that gained, and whether more may."""
    gained, left = False, False
    for p in range(grids.shape[1]):
        before = min(_half(rows, p, 0), _half(rows, p, 1))
        for c in range(2):
            rows[KNOWN + 2 * c, p] = max(rows[KNOWN + 2 * c, p], rows[FOUND + 2 * c, p])
            rows[KNOWN + 2 * c + 1, p] = min(rows[KNOWN + 2 * c + 1, p], rows[FOUND + 2 * c + 1, p])
        after = min(_half(rows, p, 0), _half(rows, p, 1))
        width = before + _steepest(rows, grids, p)
        gained = gained or before - after > GAIN * width
        left = left or after > worth * width
    return gained, left


@inlined
def _widened(rows, grids, plan):
    """The model's own distance from M, and the roundings of what it adds."""
    for p in range(grids.shape[1]):
        size = abs(rows[LOW, p]) + abs(rows[HIGH, p]) + plan.half_width[p]
        for c in range(2):
            low, high = rows[KNOWN + 2 * c, p], rows[KNOWN + 2 * c + 1, p]
            own = size + abs(rows[LINE + c, p]) + _steepest(rows, grids, p) + abs(low) + abs(high)
            delta = plan.half_width[p] * (1.0 + 4.0 * EPS) + 16.0 * EPS * own
            rows[KNOWN + 2 * c, p], rows[KNOWN + 2 * c + 1, p] = low - delta, high + delta


@inlined
def _next_box(rows, grids, plan):
    """Ends of the next states by both lines over the box of the inputs."""
    inputs = rows.shape[1]
    for p in range(grids.shape[1]):
        rows[BOX, p], rows[BOX + 1, p] = -np.inf, np.inf
        start, reaches = 0.0, 0.0
        for d in range(inputs):
            start += plan.base[p, d] * rows[MIDDLE, d]
            reaches += abs(plan.base[p, d]) * (abs(rows[MIDDLE, d]) + rows[REACH, d])
        for c in range(2):
            least, most, size = start + rows[LINE + c, p], start + rows[LINE + c, p], abs(rows[LINE + c, p])
            for d in range(inputs):
                along = (grids[SLOPE, p, d] if c == 0 else 0.0) + plan.base[p, d]
                one = along * (rows[LOW, d] - rows[MIDDLE, d])
                two = along * (rows[HIGH, d] - rows[MIDDLE, d])
                least, most = least + min(one, two), most + max(one, two)
                size += (abs(along) + abs(grids[SLOPE, p, d])) * rows[REACH, d]
            low, high = rows[KNOWN + 2 * c, p], rows[KNOWN + 2 * c + 1, p]
            size += 2.0 * reaches + abs(low) + abs(high)
            loss = (inputs + 24) * EPS * size + FAINT * (inputs + 2)
            least, most = least + low - loss, most + high + loss
            if least > rows[BOX, p]:  # not where it is NaN
                rows[BOX, p] = least
            if most < rows[BOX + 1, p]:
                rows[BOX + 1, p] = most


@inlined
def _image(rows, grids, plan, generators, count, moved):
    """The zonotope's image: fills `moved`, the centre and what is added; how many generators there are."""
    states, inputs = grids.shape[1], rows.shape[1]
    steep = grids[STEEP_LOW]
    for p in range(states):
        c = 0 if _half(rows, p, 0) <= _half(rows, p, 1) else 1
        low, high = rows[KNOWN + 2 * c, p], rows[KNOWN + 2 * c + 1, p]
        middle = 0.5 * low + 0.5 * high
        middle = middle if abs(middle) < np.inf else 0.0
        value = rows[LINE + c, p] + middle
        apart = max(high - middle, middle - low) * (1.0 + 4.0 * EPS)
        start, way_of, size = 0.0, 0.0, 0.0
        for d in range(inputs):
            along = grids[SLOPE, p, d] if c == 0 else 0.0
            base = plan.base[p, d]
            way = rows[CENTER, d] - rows[MIDDLE, d]
            steep[p, d] = along + base
            start += base * rows[CENTER, d]
            way_of += along * way
            size += (abs(along) + abs(base)) * (abs(way) + rows[RADIUS, d]) + abs(base * rows[CENTER, d])
        rows[NEXT, p] = start + value + way_of
        size += abs(value) + abs(rows[LINE + c, p]) + abs(middle)
        units = (2 * inputs + 32) * EPS * size * (1.0 + (inputs + 8) * EPS)
        rows[REST, p] = (apart + units) * (1.0 + 8.0 * EPS) + (count + 4.0) * (inputs + 4.0) * FAINT
        if not rows[REST, p] < np.inf or not abs(rows[NEXT, p]) < np.inf:
            return UNKNOWN
    for p in range(states):
        image = moved[p]
        image[:count] = 0.0
        for d in range(inputs):
            along, own = steep[p, d], generators[d]
            if along != 0.0:
                for j in range(count):
                    image[j] += along * own[j]
        rows[CENTER, p] = rows[NEXT, p]
    return _without_zeros(moved, count)


@inlined
def _without_zeros(moved, count):
    """Leaves out generators that are 0; how many are left."""
    total = 0
    for j in range(count):
        some = False
        for p in range(len(moved)):
            some = some or moved[p, j] != 0.0
        if some:
            if total < j:
                for p in range(len(moved)):
                    moved[p, total] = moved[p, j]
            total += 1
    return total


@inlined
def _chosen(rows, moved, total, keep, generators):
    """Fills generators with those that a box would lose most by (Girard, 2005), and sizes of the rest."""
    states = len(moved)
    chosen, loss = np.ones(total, dtype=np.bool_), np.zeros(total)
    for p in range(states):
        rows[EXTRA, p] = _sizes(moved[p], total)
    for j in range(total):
        best = 0.0
        for p in range(states):
            share = abs(moved[p, j]) / rows[EXTRA, p] if rows[EXTRA, p] > 0.0 else 0.0
            loss[j] += share
            best = max(best, share)
        loss[j] -= best
    chosen[np.argsort(loss)[: total - keep]] = False
    for p in range(states):
        count, extra = 0, 0.0
        for j in range(total):
            if chosen[j]:
                generators[p, count] = moved[p, j]
                count += 1
            else:
                extra += abs(moved[p, j])
        rows[EXTRA, p] = extra


@inlined
def _collected(rows, grids, moved, total, most, generators):
    """Fills generators with as many as there may be, and a box."""
    states = grids.shape[1]
    count, keep = total, max(most - states, 0)
    rows[EXTRA] = 0.0
    if total > keep:
        _chosen(rows, moved, total, keep, generators)
        count = keep
    else:
        for p in range(states):
            generators[p, :total] = moved[p, :total]
    generators[states:, :count] = 0.0
    generators[:, count : count + states] = 0.0
    for p in range(states):
        generators[p, count + p], extra = rows[REST, p], rows[EXTRA, p]
        if extra > 0.0:
            generators[p, count + p] = up(
                up(extra * (1.0 + (total + 4) * EPS) + total * FAINT) + rows[REST, p]
            )
    return count + states


@inlined
def _sizes(row, count):
    """Sum of magnitudes: four at a time, for each has to wait for the one before it."""
    one, two, three, four, whole = 0.0, 0.0, 0.0, 0.0, count - count % 4
    for j in range(0, whole, 4):
        one += abs(row[j])
        two += abs(row[j + 1])
        three += abs(row[j + 2])
        four += abs(row[j + 3])
    for j in range(whole, count):
        one += abs(row[j])
    return (one + two) + (three + four)


@inlined
def _inputs(rows, states, generators, count, control_low, control_high):
    """Fills ends, middle and reach of the inputs; how many generators there are with those of controls."""
    inputs = rows.shape[1]
    for d in range(states):
        low = high = rows[CENTER, d]
        rows[RADIUS, d] = _sizes(generators[d], count)
        if rows[RADIUS, d] != 0.0:  # NaN, too
            rows[RADIUS, d] = rows[RADIUS, d] * (1.0 + (count + 4) * EPS) + (count + 1) * FAINT
            low, high = down(low - rows[RADIUS, d]), up(high + rows[RADIUS, d])
        # Roundings alone can make nothing of what is all but a point.
        if max(low, rows[BOX, d]) <= min(high, rows[BOX + 1, d]):
            low, high = max(low, rows[BOX, d]), min(high, rows[BOX + 1, d])
        rows[LOW, d], rows[HIGH, d] = low, high
    for d in range(states, inputs):
        low, high = control_low[d - states], control_high[d - states]
        middle = min(max(0.5 * low + 0.5 * high, low), high)
        rows[LOW, d], rows[HIGH, d], rows[CENTER, d], rows[RADIUS, d] = low, high, middle, 0.0
        if high > low:
            rows[RADIUS, d] = max(up(high - middle), up(middle - low))
            generators[:, count] = 0.0
            generators[d, count] = rows[RADIUS, d]
            count += 1
    for d in range(inputs):
        low, high = rows[LOW, d], rows[HIGH, d]
        rows[MIDDLE, d] = middle = min(max(0.5 * low + 0.5 * high, low), high)
        rows[REACH, d] = max(high - middle, middle - low) * (1.0 + EPS)
    return count


@inlined
def _leaves(rows, plan):
    """The first input that may be outside the operating box; FINE for none."""
    for d in range(rows.shape[1]):
        low, high = rows[LOW, d], rows[HIGH, d]
        if not (low >= plan.least[d] and high <= plan.most[d] and high - low < np.inf):
            return d
    return FINE


@inlined
def _begin(rows, generators, states):
    """The zonotope of the box that the states start in."""
    for d in range(states):
        low, high = rows[BOX, d], rows[BOX + 1, d]
        rows[CENTER, d] = middle = min(max(0.5 * low + 0.5 * high, low), high)
        generators[:, d] = 0.0
        generators[d, d] = max(up(high - middle), up(middle - low)) if high > low else 0.0


@inlined
def _after(rows, grids, plan, generators, count, moved):
    """The next zonotope and box; how many generators there are, or UNKNOWN."""
    _widened(rows, grids, plan)
    _next_box(rows, grids, plan)
    total = _image(rows, grids, plan, generators, count, moved)
    if total == UNKNOWN:
        return UNKNOWN
    return _collected(rows, grids, moved, total, plan.generators, generators)


def _compiled(version: int) -> Any:  # noqa: C901
    """The kernel, cached on disk; `version` is part of what the cache knows it by."""

    @numba.njit(nogil=True, error_model="numpy", cache=True)
    def reach(  # noqa: C901, PLR0913
        one, plan, start_low, start_high, control_low, control_high, lower, upper, ended
    ):
        """Fills ends (N, T + 1, dx), and by row the step that could not be made and why (N, 2).

        Nothing else looks at M: what does is compiled again in each function that calls it.
        """
        if version < 0:
            return
        states, inputs, steps = start_low.shape[1], len(plan.least), lower.shape[1] - 1
        rows, grids = np.zeros((ROWS, inputs)), np.zeros((3, states, inputs))
        room = max(plan.generators, states) + inputs
        generators, moved = np.zeros((inputs, room)), np.zeros((states, room))
        for row in range(len(start_low)):
            rows[BOX, :states], rows[BOX + 1, :states] = start_low[row], start_high[row]
            _begin(rows, generators, states)
            count, own = states, row if len(control_low) > 1 else 0
            ended[row], often = FINE, False
            for step in range(steps + 1):
                now = min(step, steps - 1)
                count = _inputs(
                    rows, states, generators, count, control_low[own, now], control_high[own, now]
                )
                lower[row, step], upper[row, step] = rows[LOW, :states], rows[HIGH, :states]
                if step == steps:
                    break
                why = _leaves(rows, plan)
                if why == FINE:
                    stage, going = 0, True
                    while going:
                        ends = PART_LOW if stage else LOW
                        _cut(rows, stage)
                        for number in range(1 << stage):
                            if stage:
                                _place(rows, number)
                            effort = 1 if stage else 2
                            look_at(one, rows[ends], rows[ends + 1], rows[ends + 2], effort)
                            _read(one, rows, grids, effort)
                            if stage:
                                _over_part(rows, grids, number)
                            else:
                                _lines(rows, grids)
                        if stage:
                            gained, left = _better(rows, grids, plan.worth)
                            going, often = gained and left, gained and stage > 1
                        else:
                            going = _wanted(rows, grids, plan.worth)
                        going = going and stage < plan.halvings
                        stage = min(stage + (2 if stage or often else 1), plan.halvings)
                    count = _after(rows, grids, plan, generators, count, moved)
                    why = UNKNOWN if count == UNKNOWN else FINE
                if why != FINE:
                    ended[row, 0], ended[row, 1] = step, why
                    break

    return reach


def _version() -> int:
    """A number for the sources that the kernel is compiled from: Numba's cache looks at this file alone."""
    sources = Path(__file__).read_bytes() + str(VERSION).encode()
    return int.from_bytes(hashlib.sha256(sources).digest()[:7], "big")


reach_alone = _compiled(_version())
