"""The trees of a box claim: checked for form, and the boxes of their leaves worked out from the cuts alone.

A node cuts its box in two closed halves that share the cut, so that the leaves of a proper tree cover its box
without gaps, and an input lies in the box of the leaf it is led to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tether.data import Array
from tether.foundation.errors import CertificateError

Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Trees:
    """P proper binary trees over one box, L leaves in all.

    Attributes:
        roots: (P,) node at which the tree of each output begins.
        cut: (V,) the input that a node cuts; -1 for a leaf.
        threshold: (V,) below it is left.
        left: (V,) node on the left; of a leaf, its number.
        right: (V,) node on the right.
        owner: (L,) which output each leaf belongs to.
        lower: (L, D) boxes of the leaves, both ends included.
        upper: (L, D).
    """

    roots: Numbers
    cut: Numbers
    threshold: Array
    left: Numbers
    right: Numbers
    owner: Numbers
    lower: Array
    upper: Array

    def find(self, inputs: Array) -> Numbers:
        """(N, P) the leaves that inputs (N, D) are led to."""
        node = np.repeat(self.roots[None], len(inputs), axis=0)
        rows = np.arange(len(inputs))[:, None]
        while (inner := self.cut[node] >= 0).any():
            below = inputs[rows, np.maximum(self.cut[node], 0)] < self.threshold[node]
            node = np.where(inner, np.where(below, self.left[node], self.right[node]), node)
        return self.left[node]


def read_trees(arrays: Mapping[str, np.ndarray]) -> Trees:
    """Trees of a file's ``tree.*`` arrays.

    Raises:
        CertificateError: they are no trees, or their leaves do not cover the box.
    """
    lower, upper, roots, cut, threshold, left, right = (
        arrays[f"tree.{name}"] for name in ("lower", "upper", "roots", "cut", "threshold", "left", "right")
    )
    _require((lower <= upper).all(), "the box must not be empty")
    _check_links(len(lower), roots, cut, threshold, left, right)
    count, leaves = len(cut), cut < 0
    low, high = np.empty((count, len(lower))), np.empty((count, len(lower)))
    owner = np.empty(count, dtype=np.int64)
    low[roots], high[roots], owner[roots] = lower, upper, np.arange(len(roots))
    reached, level = 0, roots
    while len(level):
        reached += len(level)
        level = level[~leaves[level]]
        column, at = cut[level], threshold[level]
        inside = (low[level, column] <= at) & (at <= high[level, column])
        if not inside.all():
            node = int(level[int(np.argmin(inside))])
            raise CertificateError(f"not verified: node {node}: its threshold must lie in its box.")
        for side in (left, right):
            below = side[level]
            low[below], high[below], owner[below] = low[level], high[level], owner[level]
        high[left[level], column] = at
        low[right[level], column] = at
        level = np.concatenate([left[level], right[level]])
    # A ring of nodes hangs below no root.
    _require(reached == count, "every node must be below a root")
    place = np.empty(int(leaves.sum()), dtype=np.int64)
    place[left[leaves]] = np.flatnonzero(leaves)
    return Trees(roots, cut, threshold, left, right, owner[place], low[place], high[place])


def _check_links(
    inputs: int, roots: Numbers, cut: Numbers, threshold: Array, left: Numbers, right: Numbers
) -> None:
    """Every node is a root or below exactly one other, and every leaf has a number of its own."""
    count, leaves = len(cut), cut < 0
    _require(((cut >= -1) & (cut < inputs)).all(), "a cut must name an input, or be -1 for a leaf")
    _require(np.isfinite(threshold).all(), "thresholds must be finite")
    numbers = np.sort(left[leaves])
    _require(np.array_equal(numbers, np.arange(len(numbers))), "leaves must be numbered from 0, each once")
    below = np.sort(np.concatenate([roots, left[~leaves], right[~leaves]]))
    once = np.array_equal(below, np.arange(count))
    _require(once, "every node must be a root or below just one other")


def _require(holds: np.bool_ | bool, rule: str) -> None:
    if not holds:
        raise CertificateError(f"not verified: trees: {rule}.")
