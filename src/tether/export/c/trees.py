"""The search of leaves in C: a grid that says where in its tree an input's search begins, and the tree below.

Each input that is cut has bins of equal width, and of each output some bits of some bins together are the
place of an entry in a table: the deepest node that all inputs of those bins come to. That is exact without a
word on rounding: a bin's number never falls as the input rises, whatever is rounded on the way, so that an
input below a threshold has no larger number than the threshold, and one at or above it no smaller one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tether.export.c.numbers import literal, records, table

_MOST_BITS = 14
"""Of the entries of an output at most two to this."""
Bins = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Tree:
    """Trees of all outputs, and where inputs are likely to be.

    Attributes:
        roots: (P,) nodes.
        cut: (V,) the input that a node cuts; below 0 for a leaf.
        threshold: (V,) what is below it goes left.
        left: (V,) the node there; of a leaf, its number.
        right: (V,) likewise.
        lower: (D,) the box.
        upper: (D,) likewise.
        likely: (N, D) inputs by which bits are chosen.
    """

    roots: NDArray[np.int64]
    cut: NDArray[np.int64]
    threshold: np.ndarray
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    lower: np.ndarray
    upper: np.ndarray
    likely: np.ndarray
    depths: NDArray[np.int64] = field(init=False)
    """(V,) cuts on the way from the root."""

    def __post_init__(self) -> None:
        depths, level, depth = np.zeros(len(self.cut), dtype=np.int64), self.roots, 0
        while len(level):
            depths[level] = depth
            inner = level[self.cut[level] >= 0]
            level, depth = np.concatenate([self.left[inner], self.right[inner]]), depth + 1
        object.__setattr__(self, "depths", depths)


def tree_code(tree: Tree, starts: NDArray[np.int64], kind: str) -> str:
    """Tables and ``@_enter_trees``.

    Args:
        tree: thresholds and box in the type that inputs are compared in.
        starts: (L,) what a leaf is told by.
        kind: `double` or `float`.
    """
    grid = _Grid.of(tree)
    entries = [grid.entries(output) for output in range(len(tree.roots))]
    nodes, placed = _nodes(tree, starts, np.concatenate(entries), kind)
    counts, bits = [len(own) for own in grid.chosen], [list(own.values()) for own in grid.chosen]
    every = [d for own in grid.chosen for d in own]
    inputs = sorted(set(every))
    last = np.full(len(inputs), float(2**_MOST_BITS - 1))
    return "".join(
        [
            nodes,
            f"enum {{ @_BINNED = {len(inputs)} }};\n",
            table("int", "@_binned", inputs),
            table(kind, "@_bin_low", tree.lower[inputs]),
            table(kind, "@_bin_rate", grid.rate[inputs]),
            table(kind, "@_bin_last", last),
            table("int", "@_bin", [0, *np.cumsum(counts)]),
            table("int", "@_bin_of", [inputs.index(d) for d in every]),
            table("int", "@_bin_bits", [own for part in bits for own in part]),
            table("int", "@_entries", placed),
            table("int", "@_entry", np.cumsum([0, *map(len, entries[:-1])])),
            _CODE.replace("MOST_BITS", str(_MOST_BITS)),
        ]
    )


@dataclass(frozen=True, eq=False)
class _Grid:
    """Bins of every input, and of each output the bits of which inputs' bins tell where its search begins.

    Attributes:
        tree: which it is of.
        rate: (D,) bins by unit of an input; 0 where there are none.
        bins: (V,) the bin of a node's threshold.
        before: (V,) that of the number before it.
        chosen: by output, how many bits by input.
    """

    tree: Tree
    rate: np.ndarray
    bins: Bins
    before: Bins
    chosen: list[dict[int, int]]

    @classmethod
    def of(cls, tree: Tree) -> _Grid:
        """With bits chosen one by one, each for the input that spares the most steps."""
        wide = tree.upper - tree.lower
        with np.errstate(divide="ignore", over="ignore"):
            rate = np.where(wide > 0, tree.threshold.dtype.type(2**_MOST_BITS) / wide, 0)
        rate = np.where(np.isfinite(rate), rate, 0).astype(tree.threshold.dtype)
        along = np.maximum(tree.cut, 0)
        before = np.nextafter(tree.threshold, tree.threshold.dtype.type(-np.inf))
        bins, below = (_bins(value, tree.lower[along], rate[along]) for value in (tree.threshold, before))
        grid = cls(tree, rate, bins, below, [])
        for root in tree.roots.tolist():
            grid.chosen.append(grid._choose(root))
        return grid

    def _choose(self, root: int) -> dict[int, int]:
        below = _below(self.tree, root)
        inputs = np.unique(self.tree.cut[below[self.tree.cut[below] >= 0]]).tolist()
        likely = _bins(self.tree.likely, self.tree.lower, self.rate)
        inputs, bits = [d for d in inputs if self.rate[d] > 0], {}
        most = min(_MOST_BITS, int(len(below) // 2).bit_length())
        saved = 0
        while sum(bits.values()) < most:
            tried = [bits | {d: bits.get(d, 0) + 1} for d in inputs]
            found = [int(self.tree.depths[self._walk(root, own, likely)].sum()) for own in tried]
            if not found or max(found) <= saved:
                break
            saved, bits = max(found), tried[int(np.argmax(found))]
        # Tables that spare less than half of the way cost as much in the caches.
        whole = self.tree.depths[self._walk(root, dict.fromkeys(inputs, _MOST_BITS), likely)].sum()
        return bits if 2 * saved >= whole else {}

    def entries(self, output: int) -> NDArray[np.int64]:
        """(E,) the node where the search of an output begins, by the place that its bits give."""
        bits, width = self.chosen[output], len(self.tree.lower)
        places = np.arange(1 << sum(bits.values()))
        bins, shift = np.zeros((len(places), width), dtype=np.int64), 0
        for d, count in reversed(bits.items()):
            bins[:, d] = (places >> shift & ((1 << count) - 1)) << (_MOST_BITS - count)
            shift += count
        return self._walk(int(self.tree.roots[output]), bits, bins)

    def _walk(self, root: int, bits: dict[int, int], bins: Bins) -> NDArray[np.int64]:
        """(N,) the deepest node that all inputs come to whose bins (N, D) begin with these bits."""
        tree, shift = self.tree, np.full(len(self.rate), _MOST_BITS, dtype=np.int64)
        for d, count in bits.items():
            shift[d] -= count
        node = np.full(len(bins), root)
        moving = np.arange(len(bins)) if bits else np.arange(0)
        while len(moving):
            at = node[moving]
            along = np.maximum(tree.cut[at], 0)
            own, most = bins[moving, along] >> shift[along], self.bins[at] >> shift[along]
            # In the bin of a threshold nothing is below it, if the number before it has another.
            told = (own != most) | ((self.before[at] >> shift[along]) != most)
            told &= (tree.cut[at] >= 0) & (shift[along] < _MOST_BITS)
            node[moving] = np.where(told, np.where(own < most, tree.left[at], tree.right[at]), at)
            moving = moving[told]
        return node


def _bins(values: np.ndarray, lower: np.ndarray, rate: np.ndarray) -> Bins:
    """As the C code has them, operation by operation."""
    with np.errstate(over="ignore"):
        scaled = (values - lower) * rate
    return np.clip(scaled, 0, 2**_MOST_BITS - 1).astype(np.int64)


def _below(tree: Tree, root: int) -> NDArray[np.int64]:
    """All nodes of one tree."""
    found, level = [], np.array([root])
    while len(level):
        found.append(level)
        inner = level[tree.cut[level] >= 0]
        level = np.concatenate([tree.left[inner], tree.right[inner]])
    return np.concatenate(found)


def _nodes(
    tree: Tree, starts: NDArray[np.int64], entries: NDArray[np.int64], kind: str
) -> tuple[str, list[int]]:
    """Nodes of two levels, from the entries down: three cuts, and what is below; a leaf is -1 less its row.

    Where there is a leaf after one level, a second cut beneath has it on both sides.
    """
    cut, threshold, below = tree.cut, tree.threshold, (tree.left, tree.right)
    order: list[int] = []
    known: dict[int, int] = {}

    def placed(node: int) -> int:
        if cut[node] < 0:
            return -1 - int(starts[below[0][node]])
        if node not in known:
            known[node] = len(order)
            order.append(node)
        return known[node]

    begun, rows = [placed(node) for node in entries.tolist()], []
    for node in order:  # which grows on the way
        sides = [int(side[node]) for side in below]
        branches = [node, *(side if cut[side] >= 0 else node for side in sides)]
        ends = [int(side[own]) if cut[own] >= 0 else own for own in sides for side in below]
        cuts = [literal(float(threshold[own]), kind) for own in branches]
        parts = cuts, [placed(end) for end in ends], [int(cut[own]) for own in branches]
        rows.append([f"{{{', '.join(map(str, part))}}}" for part in parts])
    whole = "unsigned char" if len(tree.lower) < 256 else "int"
    record = f"struct @_node {{ REAL threshold[3]; int below[4]; {whole} cut[3]; }};\n"
    return record + records("@_nodes", "@_node", rows or [("{0}", "{0}", "{0}")]), begun


_CODE = """
/* Where the search of each output's leaf begins; below 0 it has ended. */
static void @_enter_trees(const REAL *x, int *leaf)
{
    int bins[@_BINNED + 1], q, k;
    bins[@_BINNED] = 0; /* read by nobody; compilers warn of an array that nothing is written to */
    for (k = 0; k < @_BINNED; ++k) {
        REAL bin = (x[@_binned[k]] - @_bin_low[k]) * @_bin_rate[k];
        bin = bin < @_bin_last[k] ? bin : @_bin_last[k];
        bins[k] = bin > 0 ? (int)bin : 0;
    }
    for (q = 0; q < @_OUTPUTS; ++q) {
        int place = 0;
        for (k = @_bin[q]; k < @_bin[q + 1]; ++k)
            place = (place << @_bin_bits[k]) + (bins[@_bin_of[k]] >> (MOST_BITS - @_bin_bits[k]));
        leaf[q] = @_entries[@_entry[q] + place];
    }
}

/* Two levels of the tree of each output, of all before the next two: none waits for another. What is below 0
 * is the row of a leaf, and stays. */
static int @_descend(const REAL *x, int *leaf)
{
    int q, done = -1;
    for (q = 0; q < @_OUTPUTS; ++q) {
        const struct @_node *at = &@_nodes[leaf[q] < 0 ? 0 : leaf[q]];
        const int upper = !(x[at->cut[0]] < at->threshold[0]);
        const int next = at->below[2 * upper + !(x[at->cut[1 + upper]] < at->threshold[1 + upper])];
        leaf[q] = leaf[q] < 0 ? leaf[q] : next;
        done &= leaf[q];
    }
    return done < 0;
}
"""
