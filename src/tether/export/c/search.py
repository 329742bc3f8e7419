"""The exactly nearest memory in C: of a few hundred by scoring all, of more by a tree over such leaves.

"Exact" is what :mod:`tether.geometry.nearest` means by it: of squared distances added up in order, every
operation rounded once, the smallest, and of equals the first. Scores in float32 only rule memories out. With
everything seen from the middle of all memories, the squared distance from q to m is ``|q|² + |m|² - 2 m·q``,
and a score is that without ``|q|²``: one product and one sum for each input. Its margin holds whatever a
compiler fuses and in whatever order it adds up:

* a score is a sum of D + 1 terms, whose factors were rounded at most five times before: it is off by less
  than ``(D + 12) u`` of the sum of their sizes, u = 2^-24, of which five are for sums that the margin itself
  is in. That sum is at most ``2 S + |q|²``, S being the largest ``|m|²``, since ``2 |m·q| <= |m|² + |q|²``;
* the distances that the library compares are off by ``(D + 6)`` roundings of their own precision, of at most
  ``2 S + 2 |q|²``.

What the margin leaves is measured as the library does, through a `volatile` variable, which keeps products
apart; where it leaves one, that is the nearest. What is below the numbers of float32 errs by less than the
2^-100 that are added, as long as all sizes are below 2^80; where they are not, all are measured.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tether.export.c.numbers import literal, records, table

LANES = 32
"""Memories of a leaf are filled up to a multiple of this, so that compilers take them together."""
_LEAF = 8 * LANES
"""Memories of a leaf at most: measuring so many in a row takes less time than a tree over them."""
_TOGETHER = 8
"""Columns that are added up before a sum is put back."""


@dataclass(frozen=True, eq=False)
class Search:
    """A tree over K memories of C inputs each.

    Attributes:
        cut: (V,) the input that a branch cuts; -1 for a leaf.
        split: (V,) where; what is below lies at or below it.
        below: (V,) the branch below; of a leaf, its number.
        above: (V,) the branch above.
        members: leaves of at most `_LEAF` memories, by their numbers.
        depth: cuts on the longest way.
    """

    cut: list[int]
    split: list[float]
    below: list[int]
    above: list[int]
    members: list[NDArray[np.int64]]
    depth: int


def grow(memories: np.ndarray, spread: np.ndarray) -> Search:
    """Halves of halves of memories (K, C), each along its longest side in units of 1 / `spread` (C,)."""
    tree = Search([], [], [], [], [], 0)
    waiting = [(np.arange(len(memories)), -1, False, 0)]
    depth = 0
    while waiting:
        own, parent, is_above, level = waiting.pop()
        node = len(tree.cut)
        if parent >= 0:
            (tree.above if is_above else tree.below)[parent] = node
        depth = max(depth, level)
        if len(own) <= _LEAF:
            _add(tree, -1, 0.0, len(tree.members))
            tree.members.append(np.sort(own))
            continue
        part = memories[own]
        column = int(np.argmax((part.max(axis=0) - part.min(axis=0)) * spread))
        order = own[np.argsort(part[:, column], kind="stable")]
        half = LANES * (-(-len(order) // LANES) // 2)
        _add(tree, column, float(memories[order[half], column]), -1)
        waiting += [(order[half:], node, True, level + 1), (order[:half], node, False, level + 1)]
    return Search(tree.cut, tree.split, tree.below, tree.above, tree.members, depth)


def _add(tree: Search, cut: int, split: float, below: int) -> None:
    tree.cut.append(cut)
    tree.split.append(split)
    tree.below.append(below)
    tree.above.append(-1)


def search_code(
    memories: np.ndarray, divided: np.ndarray | None, multiplied: np.ndarray | None, kind: str
) -> str:
    """Tables and the function ``@_nearest``.

    Args:
        memories: (K, C) as they are compared with: scaled for float64, in physical units for float32.
        divided: (C,) what physical inputs are divided by before, for float64.
        multiplied: (C,) what differences are multiplied by, for float32.
        kind: `double` or `float`.
    """
    columns = memories.shape[1]
    spread = np.ones(columns) if multiplied is None else multiplied.astype(np.float64)
    tree = grow(memories, spread)
    # A leaf that is not full has its last memory more than once: an equal of the same number.
    full = [np.concatenate([own, np.repeat(own[-1:], -len(own) % LANES)]) for own in tree.members]
    counts = np.array([len(own) for own in full])
    scaling = divided if multiplied is None else multiplied
    assert scaling is not None
    middle = memories.mean(axis=0, dtype=np.float64).astype(memories.dtype)
    away = (memories.astype(np.float64) - middle) * spread
    level = (away**2).sum(axis=1)
    branches = zip(tree.split, tree.cut, tree.below, tree.above, strict=True)
    rows = ((literal(split, kind), str(cut), str(low), str(high)) for split, cut, low, high in branches)
    scaled = "(" if multiplied is None else "@_spread[d] * ("
    code = _CODE + (_ALL if tree.depth == 0 else _TREE)
    code = code.replace("ENTER", _DIVIDED if multiplied is None else _PLAIN)
    code = code.replace("SCORED\n", _scored(columns)).replace("SCALED(", scaled)
    ways = "" if tree.depth == 0 else records("@_branches", "@_branch", rows)
    return "".join(
        [
            f"enum {{ @_SEEN = {columns}, @_WAYS = {tree.depth + 1}, @_MOST = {counts.max()} }};\n",
            "" if tree.depth == 0 else "struct @_branch { REAL split; int cut, below, above; };\n" + ways,
            table(kind, "@_memories", memories),
            table("float", "@_towards", _single([-2 * away[own].T for own in full])),
            table("float", "@_level", _single([level[own] for own in full])),
            table("int", "@_index", np.concatenate(full)),
            "" if tree.depth == 0 else table("int", "@_begins", np.concatenate([[0], np.cumsum(counts)])),
            table(kind, "@_spread", scaling),
            table(kind, "@_middle", middle),
            _with_margins(code, columns, tree.depth, float(level.max()), kind),
        ]
    )


def _with_margins(code: str, columns: int, depth: int, level: float, kind: str) -> str:
    """The factors of the margin, rounded up."""
    unit = 2.0**-53 if kind == "double" else 2.0**-24
    numbers = {
        "HIGHEST": 2 * level,
        "ROUNDED": 2.1 * (columns + 12) * 2.0**-24 + 4.2 * (columns + 6) * unit,
        "FAINT": 2.0**-100,
        "HUGE": 2.0**80,
        "SLACK": 1 + 16 * (columns + 8 * depth + 16) * unit,
    }
    for word, value in numbers.items():
        code = re.sub(rf"\b{word}\b", literal(_up(value, kind), kind), code)
    return code


def _single(parts: list[np.ndarray]) -> np.ndarray:
    """One after another, in float32; what is too large for it is never used, by HUGE."""
    with np.errstate(over="ignore"):
        return np.concatenate([part.reshape(-1) for part in parts]).astype(np.float32)


def _scored(columns: int) -> str:
    """Lines that add up some columns for all memories of a leaf, and then the next."""
    lines: list[str] = []
    for first in range(0, columns, _TOGETHER):
        lines.append("for (k = 0; k < count; ++k) {")
        lines.append(f"    float total = {'scores[k]' if first else 'level[k]'};")
        for d in range(first, min(first + _TOGETHER, columns)):
            lines.append(f"    total += away[{d}] * towards[{d} * count + k];")
        lines += ["    scores[k] = total;", "}"]
    return "".join(f"    {line}\n" for line in lines)


def _up(value: float, kind: str) -> float:
    rounded = np.float32(value) if kind == "float" else value
    return float(np.nextafter(rounded, type(rounded)(np.inf)))


_DIVIDED = """point[d] = input[d] / @_spread[d];
        gap = point[d] - @_middle[d];"""
_PLAIN = """point[d] = input[d];
        gap = @_spread[d] * (point[d] - @_middle[d]);"""
_CODE = """
/* What is known of the nearest memory: its number, its squared distance, below 0 where none was needed, and
 * the score above which none can be nearer. */
struct @_found { REAL squared; float limit; int number; };

/* The squared distance to one memory, products and sums each rounded once, in order. */
static REAL @_exactly(const REAL *point, int number)
{
    const REAL *memory = @_memories + (long)number * @_SEEN;
    volatile REAL square;
    REAL total = 0;
    int d;
    for (d = 0; d < @_SEEN; ++d) {
        const REAL gap = SCALED(point[d] - memory[d]);
        square = gap * gap;
        total += square;
    }
    return total;
}

/* In four sums, whose order nothing rests on. */
static REAL @_sum(const REAL *parts, int count)
{
    REAL one = 0, two = 0, three = 0, four = 0;
    int k;
    for (k = 0; k + 4 <= count; k += 4) {
        one += parts[k];
        two += parts[k + 1];
        three += parts[k + 2];
        four += parts[k + 3];
    }
    for (; k < count; ++k) one += parts[k];
    return (one + two) + (three + four);
}

/* The input as it is compared with memories, and what scores may be off by. */
static REAL @_margin(const REAL *input, REAL *point, float *away, REAL *base)
{
    REAL squares[@_SEEN], size;
    int d;
    for (d = 0; d < @_SEEN; ++d) {
        REAL gap;
        ENTER
        away[d] = (float)gap;
        squares[d] = gap * gap;
    }
    *base = @_sum(squares, @_SEEN);
    size = HIGHEST + *base;
    return size < HUGE ? ROUNDED * size + FAINT : INFINITY;
}

/* Scores of the `count` memories of a leaf; `least` of every eight. */
static void @_score(const float *restrict away, const float *restrict towards, const float *restrict level,
                    int count, float *restrict scores, float *restrict least)
{
    const int width = count / 8;
    int k, t;
SCORED
    for (k = 0; k < width; ++k) {
        float low = scores[k];
        for (t = 1; t < 8; ++t) low = scores[t * width + k] < low ? scores[t * width + k] : low;
        least[k] = low;
    }
}

/* Takes up those memories of a leaf that may be the nearest. */
static void @_take(const REAL *point, const float *away, int first, int count, REAL margin,
                   struct @_found *found)
{
    float scores[@_MOST], least[@_MOST / 8], low[4], reach;
    const int width = count / 8;
    int k, t;
    @_score(away, @_towards + (long)first * @_SEEN, @_level + first, count, scores, least);
    for (t = 0; t < 4; ++t) low[t] = INFINITY;
    for (k = 0; k < width; k += 4)
        for (t = 0; t < 4; ++t) low[t] = least[k + t] < low[t] ? least[k + t] : low[t];
    for (t = 1; t < 4; ++t) low[0] = low[t] < low[0] ? low[t] : low[0];
    reach = (float)(low[0] + margin);
    if (!(reach >= found->limit)) found->limit = reach;
    for (k = 0; k < width; ++k) {
        if (least[k] > found->limit) continue;
        for (t = k; t < count; t += width) {
            const int number = @_index[first + t];
            REAL squared;
            if (scores[t] > found->limit || number == found->number) continue;
            if (found->number < 0) {
                found->number = number;
                continue;
            }
            if (found->squared < 0) found->squared = @_exactly(point, found->number);
            squared = @_exactly(point, number);
            if (squared < found->squared || (squared == found->squared && number < found->number)) {
                found->squared = squared;
                found->number = number;
            }
        }
    }
}
"""
_ALL = """
/* The nearest memory, of equals the first; its squared distance where it is asked for. */
static int @_nearest(const REAL *input, REAL *squared)
{
    struct @_found found = {-1, INFINITY, -1};
    REAL point[@_SEEN], base;
    float away[@_SEEN];
    const REAL margin = @_margin(input, point, away, &base);
    @_take(point, away, 0, @_MOST, margin, &found);
    if (squared) *squared = found.squared < 0 ? @_exactly(point, found.number) : found.squared;
    return found.number;
}
"""
_TREE = """
struct @_waiting { REAL bound; REAL apart[@_SEEN]; int node; };

/* The nearest memory, of equals the first; its squared distance where it is asked for. */
static int @_nearest(const REAL *input, REAL *squared)
{
    struct @_found found = {-1, INFINITY, -1};
    struct @_waiting stack[@_WAYS], now;
    REAL point[@_SEEN], base, limit = INFINITY;
    float away[@_SEEN];
    int waiting = 1, d;
    const REAL margin = @_margin(input, point, away, &base);
    stack[0].bound = 0;
    stack[0].node = 0;
    for (d = 0; d < @_SEEN; ++d) stack[0].apart[d] = 0;
    while (waiting > 0) {
        int first;
        now = stack[--waiting];
        if (now.bound > limit) continue;
        while (@_branches[now.node].cut >= 0) {
            const struct @_branch *at = &@_branches[now.node];
            REAL gap, bound;
            d = at->cut;
            gap = SCALED(point[d] - at->split);
            bound = now.bound - now.apart[d] * now.apart[d] + gap * gap;
            if (!(bound > limit)) {
                stack[waiting] = now;
                stack[waiting].bound = bound;
                stack[waiting].apart[d] = gap;
                stack[waiting].node = gap < 0 ? at->above : at->below;
                ++waiting;
            }
            now.node = gap < 0 ? at->below : at->above;
        }
        first = @_begins[@_branches[now.node].below];
        @_take(point, away, first, @_begins[@_branches[now.node].below + 1] - first, margin, &found);
        limit = (found.limit + base + margin) * SLACK;
    }
    if (squared) *squared = found.squared < 0 ? @_exactly(point, found.number) : found.squared;
    return found.number;
}
"""
