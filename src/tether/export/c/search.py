"""The exactly nearest memory in C: of a few hundred by measuring all, of more by a tree over such leaves.

"Exact" is what :mod:`tether.geometry.nearest` means by it: of squared distances added up in order, every
operation rounded once, the smallest, and of equals the first. A compiler may fuse a product with a sum, and
then finds another number. So distances as the compiler likes them only rule memories out, with a margin for
any rounding of theirs; what is left is measured through a `volatile` variable, which keeps products apart.
"""

from __future__ import annotations

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
    spread = np.ones(columns) if multiplied is None else multiplied
    tree = grow(memories, spread)
    # A leaf that is not full has its last memory more than once: an equal of the same number.
    full = [np.concatenate([own, np.repeat(own[-1:], -len(own) % LANES)]) for own in tree.members]
    counts = np.array([len(own) for own in full])
    scaling = divided if multiplied is None else multiplied
    assert scaling is not None
    eps = np.finfo(np.float64 if kind == "double" else np.float32).eps
    slack = 1 + 8 * (columns + 8 * tree.depth + 16) * float(eps)
    faint = 2.0**-1000 if kind == "double" else 2.0**-110
    branches = zip(tree.split, tree.cut, tree.below, tree.above, strict=True)
    rows = ((literal(split, kind), str(cut), str(low), str(high)) for split, cut, low, high in branches)
    code = _CODE.replace("ENTER", _DIVIDED if multiplied is None else _PLAIN)
    scaled = "(" if multiplied is None else "@_spread[d] * ("
    code = code.replace("MEASURED\n", _measured(columns, scaled)).replace("SCALED(", scaled)
    return "".join(
        [
            f"enum {{ @_SEEN = {columns}, @_WAYS = {tree.depth + 1}, @_MOST = {counts.max()} }};\n",
            "struct @_branch { REAL split; int cut, below, above; };\n",
            records("@_branches", "@_branch", rows),
            table(kind, "@_memories", np.concatenate([memories[own].T.reshape(-1) for own in full])),
            table("int", "@_index", np.concatenate(full)),
            table("int", "@_begins", np.concatenate([[0], np.cumsum(counts)])),
            table(kind, "@_spread", scaling),
            code.replace("SLACK", literal(float(_up(slack, kind)), kind)).replace(
                "FAINT", literal(faint, kind)
            ),
        ]
    )


def _measured(columns: int, scaled: str) -> str:
    """Lines that add up some columns for all memories of a leaf, and then the next."""
    lines: list[str] = []
    for first in range(0, columns, _TOGETHER):
        own = range(first, min(first + _TOGETHER, columns))
        lines.append("for (k = 0; k < count; ++k) {")
        lines.append(f"    REAL total = {'totals[k]' if first else '0'}, gap;")
        for d in own:
            way = scaled.replace("[d]", f"[{d}]")
            lines.append(f"    gap = {way}point[{d}] - columns[{d} * count + k]);")
            lines.append("    total += gap * gap;")
        lines += ["    totals[k] = total;", "}"]
    return "".join(f"    {line}\n" for line in lines)


def _up(value: float, kind: str) -> float:
    rounded = np.float32(value) if kind == "float" else value
    return float(np.nextafter(rounded, type(rounded)(np.inf)))


_DIVIDED = "for (d = 0; d < @_SEEN; ++d) point[d] = input[d] / @_spread[d];"
_PLAIN = "for (d = 0; d < @_SEEN; ++d) point[d] = input[d];"
_CODE = """
struct @_waiting { REAL bound; REAL apart[@_SEEN]; int node; };

/* The squared distance to one memory, products and sums each rounded once, in order. */
static REAL @_exactly(const REAL *point, const REAL *memory, int apart)
{
    volatile REAL square;
    REAL total = 0;
    int d;
    for (d = 0; d < @_SEEN; ++d) {
        const REAL gap = SCALED(point[d] - memory[d * apart]);
        square = gap * gap;
        total += square;
    }
    return total;
}

/* Squared distances to the `count` memories of a leaf, as the compiler likes them; `least` of every eight. */
static void @_measure(const REAL *restrict point, const REAL *restrict columns, int count,
                      REAL *restrict totals, REAL *restrict least)
{
    const int width = count / 8;
    int k, t;
MEASURED
    for (k = 0; k < width; ++k) {
        REAL low = totals[k];
        for (t = 1; t < 8; ++t) low = totals[t * width + k] < low ? totals[t * width + k] : low;
        least[k] = low;
    }
}

/* The nearest memory, of equals the first; what a margin of SLACK leaves is measured exactly. */
static int @_nearest(const REAL *input, REAL *squared)
{
    struct @_waiting stack[@_WAYS];
    struct @_waiting now;
    REAL point[@_SEEN], totals[@_MOST], least[@_MOST / 8], best = INFINITY, limit = INFINITY;
    int winner = 0, waiting = 1, d, k, t;
    ENTER
    stack[0].bound = 0;
    stack[0].node = 0;
    for (d = 0; d < @_SEEN; ++d) stack[0].apart[d] = 0;
    while (waiting > 0) {
        REAL low[4];
        int first, count, width;
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
        count = @_begins[@_branches[now.node].below + 1] - first;
        width = count / 8;
        @_measure(point, @_memories + (long)first * @_SEEN, count, totals, least);
        for (t = 0; t < 4; ++t) low[t] = INFINITY;
        for (k = 0; k < width; k += 4)
            for (t = 0; t < 4; ++t) low[t] = least[k + t] < low[t] ? least[k + t] : low[t];
        for (t = 0; t < 4; ++t) {
            const REAL reach = low[t] * SLACK + FAINT;
            if (reach < limit) limit = reach;
        }
        for (k = 0; k < width; ++k) {
            if (least[k] > limit) continue;
            for (t = k; t < count; t += width)
                if (!(totals[t] > limit)) {
                    const REAL found = @_exactly(point, @_memories + (long)first * @_SEEN + t, count);
                    const int number = @_index[first + t];
                    if (found < best || (found == best && number < winner)) {
                        best = found;
                        winner = number;
                    }
                }
        }
    }
    *squared = best;
    return winner;
}
"""
