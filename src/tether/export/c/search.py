"""The exactly nearest memory in C: a tree that leaves out what cannot be nearest, then the library's own sum.

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

LANES = 8
"""Memories side by side in a leaf, so that compilers take them together."""


@dataclass(frozen=True, eq=False)
class Search:
    """A tree over K memories of C inputs each.

    Attributes:
        cut: (V,) the input that a branch cuts; -1 for a leaf.
        split: (V,) where; what is below lies at or below it.
        below: (V,) the branch below; of a leaf, its number.
        above: (V,) the branch above.
        members: leaves of at most `LANES` memories, by their numbers.
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
        if len(own) <= LANES:
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
    full = [np.concatenate([own, np.repeat(own[-1:], LANES - len(own))]) for own in tree.members]
    lanes = np.stack([memories[own].T for own in full])
    scaling = divided if multiplied is None else multiplied
    assert scaling is not None
    eps = np.finfo(np.float64 if kind == "double" else np.float32).eps
    slack = 1 + 8 * (columns + 8 * tree.depth + 16) * float(eps)
    faint = 2.0**-1000 if kind == "double" else 2.0**-110
    branches = zip(tree.split, tree.cut, tree.below, tree.above, strict=True)
    rows = ((literal(split, kind), str(cut), str(low), str(high)) for split, cut, low, high in branches)
    code = _CODE.replace("ENTER", _DIVIDED if multiplied is None else _PLAIN)
    code = code.replace("SCALED(", "(" if multiplied is None else "@_spread[d] * (")
    return "".join(
        [
            f"enum {{ @_SEEN = {columns}, @_WAYS = {tree.depth + 1}, @_LANES = {LANES} }};\n",
            "struct @_branch { REAL split; int cut, below, above; };\n",
            records("@_branches", "@_branch", rows),
            table(kind, "@_memories", lanes),
            table("int", "@_index", np.concatenate(full)),
            table(kind, "@_spread", scaling),
            code.replace("SLACK", literal(float(_up(slack, kind)), kind)).replace(
                "FAINT", literal(faint, kind)
            ),
        ]
    )


def _up(value: float, kind: str) -> float:
    rounded = np.float32(value) if kind == "float" else value
    return float(np.nextafter(rounded, type(rounded)(np.inf)))


_DIVIDED = "for (d = 0; d < @_SEEN; ++d) point[d] = input[d] / @_spread[d];"
_PLAIN = "for (d = 0; d < @_SEEN; ++d) point[d] = input[d];"
_CODE = """
struct @_waiting { REAL bound; REAL apart[@_SEEN]; int node; };

/* The squared distance to one memory, products and sums each rounded once, in order. */
static REAL @_exactly(const REAL *point, const REAL *memory)
{
    volatile REAL square;
    REAL total = 0;
    int d;
    for (d = 0; d < @_SEEN; ++d) {
        const REAL gap = SCALED(point[d] - memory[d * @_LANES]);
        square = gap * gap;
        total += square;
    }
    return total;
}

/* The nearest memory, of equals the first; what a margin of SLACK leaves is measured exactly. */
static int @_nearest(const REAL *input, REAL *squared)
{
    struct @_waiting stack[@_WAYS];
    struct @_waiting now;
    REAL point[@_SEEN], best = INFINITY, limit = INFINITY;
    int winner = 0, waiting = 1, d, t;
    ENTER
    stack[0].bound = 0;
    stack[0].node = 0;
    for (d = 0; d < @_SEEN; ++d) stack[0].apart[d] = 0;
    while (waiting > 0) {
        const REAL *lanes;
        REAL total[@_LANES];
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
        lanes = @_memories + @_branches[now.node].below * (@_LANES * @_SEEN);
        for (t = 0; t < @_LANES; ++t) total[t] = 0;
        for (d = 0; d < @_SEEN; ++d)
            for (t = 0; t < @_LANES; ++t) {
                const REAL gap = SCALED(point[d] - lanes[d * @_LANES + t]);
                total[t] += gap * gap;
            }
        for (t = 0; t < @_LANES; ++t) {
            const REAL reach = total[t] * SLACK + FAINT;
            if (reach < limit) limit = reach;
        }
        for (t = 0; t < @_LANES; ++t)
            if (!(total[t] > limit)) {
                const REAL found = @_exactly(point, lanes + t);
                const int number = @_index[@_branches[now.node].below * @_LANES + t];
                if (found < best || (found == best && number < winner)) {
                    best = found;
                    winner = number;
                }
            }
    }
    *squared = best;
    return winner;
}
"""
