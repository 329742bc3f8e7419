"""BoxTree: for every output a box cut into smaller ones, found by a few comparisons.

A node either has a cut, an input and a threshold, with what lies below it on the left and the rest on the
right, or is a leaf. The leaves of a tree therefore cover its box without gaps, whatever the cuts are, and
only cuts are stored.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tether.foundation.kernels import compiled, in_threads

Array = NDArray[np.float64]
Numbers = NDArray[np.int64]

_SMALL_WORK = 4096


@dataclass(frozen=True, eq=False)
class BoxTree:
    """P trees over one box, in one list of nodes.

    Attributes:
        lower: (D,) the box, both ends included.
        upper: (D,).
        roots: (P,) node at which the tree of each output begins.
        cut: (V,) the input that a node cuts; -1 for a leaf.
        threshold: (V,) below it is left, at and above it right.
        left: (V,) node on the left; of a leaf, its number among the leaves.
        right: (V,) node on the right; -1 for a leaf.
    """

    lower: Array
    upper: Array
    roots: Numbers
    cut: Numbers
    threshold: Array
    left: Numbers
    right: Numbers

    @property
    def leaves(self) -> int:
        """How many there are in all trees."""
        return int((self.cut < 0).sum())

    @property
    def owner(self) -> Numbers:
        """(L,) which tree each leaf belongs to."""
        owner = np.empty(self.leaves, np.int64)
        for output, root in enumerate(self.roots):
            level = np.array([root])
            while len(level):
                ends = self.cut[level] < 0
                owner[self.left[level[ends]]] = output
                inner = level[~ends]
                level = np.concatenate([self.left[inner], self.right[inner]])
        return owner

    @property
    def depth(self) -> int:
        """Cuts on the longest way from a root to a leaf."""
        depth, level = 0, self.roots
        while len(level := level[self.cut[level] >= 0]):
            level = np.concatenate([self.left[level], self.right[level]])
            depth += 1
        return depth

    @property
    def nodes(self) -> tuple[Numbers, Numbers, Array, Numbers, Numbers]:
        """What :func:`leaves_of` is given besides the inputs."""
        return self.roots, self.cut, self.threshold, self.left, self.right

    def fault(self) -> str | None:
        """What is wrong with it, if it was not grown here; a walk through a faulty one need not end."""
        count, leaf = len(self.cut), self.cut < 0
        if not ((self.cut >= -1) & (self.cut < len(self.lower))).all():
            return "`cut` must name an input, or be -1"
        if not np.isfinite(self.threshold).all():
            return "`threshold` must be finite"
        if not np.array_equal(np.sort(self.left[leaf]), np.arange(int(leaf.sum()))):
            return "leaves must be numbered from 0, each once"
        below = np.concatenate([self.roots, self.left[~leaf], self.right[~leaf]])
        if not np.array_equal(np.sort(below), np.arange(count)):
            return "every node must be a root or below just one other"
        reached, level = 0, self.roots
        while len(level):
            reached += len(level)
            inner = level[self.cut[level] >= 0]
            level = np.concatenate([self.left[inner], self.right[inner]])
        return None if reached == count else "every node must be below a root"

    def find(self, inputs: Array) -> Numbers:
        """(N, P) leaves of inputs (N, D); beyond the box, those at its rim."""
        return leaves_of(np.ascontiguousarray(inputs), *self.nodes)

    def contains(self, inputs: Array) -> NDArray[np.bool_]:
        """(N,) whether inputs (N, D) lie in the box."""
        return np.logical_and.reduce((inputs >= self.lower) & (inputs <= self.upper), axis=1)

    def boxes(self) -> tuple[Array, Array]:
        """(L, D) lower and upper corners of all leaves, both included."""
        lower, upper = np.empty((self.leaves, len(self.lower))), np.empty((self.leaves, len(self.lower)))
        waiting = [(int(root), self.lower, self.upper) for root in self.roots]
        while waiting:
            node, low, high = waiting.pop()
            if self.cut[node] < 0:
                lower[self.left[node]], upper[self.left[node]] = low, high
                continue
            below, above = high.copy(), low.copy()
            below[self.cut[node]] = above[self.cut[node]] = self.threshold[node]
            waiting += [(int(self.left[node]), low, below), (int(self.right[node]), above, high)]
        return lower, upper


def leaves_of(
    inputs: Array, roots: Numbers, cut: Numbers, threshold: Array, left: Numbers, right: Numbers
) -> Numbers:
    """:meth:`BoxTree.find` of the arrays that a tree consists of, all C-contiguous."""
    found = np.empty((len(inputs), len(roots)), np.int64)

    def run(rows: slice) -> None:
        _walk(inputs[rows], roots, cut, threshold, left, right, found[rows])

    if found.size < _SMALL_WORK:
        _walk(inputs, roots, cut, threshold, left, right, found)
    else:
        in_threads(run, len(inputs))
    return found


_TOGETHER = 256


@compiled
def _walk(inputs, roots, cut, threshold, left, right, found):
    """Fills `found` (N, P) with the leaf of each row in each tree.

    Some rows at a time go down a tree level by level: where one waits for memory, the next is looked at.
    """
    count = inputs.shape[0]
    nodes = np.empty(min(count, _TOGETHER), np.int64)
    for output in range(roots.shape[0]):
        for first in range(0, count, _TOGETHER):
            rows = min(_TOGETHER, count - first)
            nodes[:rows] = roots[output]
            going = True
            while going:
                going = False
                for k in range(rows):
                    node = nodes[k]
                    column = cut[node]
                    if column >= 0:
                        going = True
                        # Both are read, so that there is nothing to guess. What is no number goes right; it
                        # lies in no box.
                        below, above = left[node], right[node]
                        nodes[k] = below if inputs[first + k, column] < threshold[node] else above
            for k in range(rows):
                found[first + k, output] = left[nodes[k]]
