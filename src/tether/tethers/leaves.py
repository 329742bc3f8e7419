"""The leaves of a :class:`BoxTree` that inputs lie in, in torch: one operation that it can trace.

On a CPU it is the compiled walk of :mod:`tether.geometry.boxtree`; elsewhere all rows walk together, level by
level.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tether.data import Array
from tether.geometry.boxtree import BoxTree, leaves_of
from tether.tethers.lookup import by_row
from tether.tethers.tether import Fixed


@torch.library.custom_op("tether::leaves", mutates_args=())
def _leaves(
    points: Tensor, roots: Tensor, cut: Tensor, threshold: Tensor, left: Tensor, right: Tensor, depth: int
) -> Tensor:
    if points.device.type != "cpu":
        return walk(points, roots, cut, threshold, left, right, depth)
    nodes = (part.detach().numpy() for part in (roots, cut, threshold, left, right))
    return torch.from_numpy(leaves_of(points.detach().contiguous().numpy(), *nodes))


@_leaves.register_fake
def _(
    points: Tensor, roots: Tensor, cut: Tensor, threshold: Tensor, left: Tensor, right: Tensor, depth: int
) -> Tensor:
    del cut, threshold, left, right, depth
    return points.new_empty((points.shape[0], roots.shape[0]), dtype=torch.int64)


_leaves.register_vmap(by_row(_leaves))


def walk(
    points: Tensor, roots: Tensor, cut: Tensor, threshold: Tensor, left: Tensor, right: Tensor, depth: int
) -> Tensor:
    """(N, P) leaves of points (N, D), without a branch."""
    node = roots.expand(points.shape[0], -1)
    for _ in range(depth):
        along = cut[node]
        below = points.gather(1, along.clamp_min(0)) < threshold[node]
        node = torch.where(along < 0, node, torch.where(below, left[node], right[node]))
    return left[node]


class TreeLookup(Fixed):
    """Leaves of physical inputs (N, D), and whether they lie in the box."""

    lower: Tensor
    upper: Tensor
    roots: Tensor
    cut: Tensor
    threshold: Tensor
    left: Tensor
    right: Tensor

    STORED = ("lower", "upper", "roots", "cut", "threshold", "left", "right")

    def __init__(self, tree: BoxTree) -> None:
        super().__init__()
        for name in self.STORED:
            self.register_buffer(name, torch.from_numpy(np.array(getattr(tree, name))))
        self._derive()
        self.register_load_state_dict_post_hook(_derive_again)

    def _derive(self) -> None:
        """What follows from the stored arrays."""
        self.depth, self._nodes = self.tree.depth, self.tree.nodes

    @property
    def tree(self) -> BoxTree:
        """The tree as NumPy sees it."""
        return BoxTree(*(getattr(self, name).cpu().numpy() for name in self.STORED))

    def forward(self, inputs: Tensor) -> Tensor:
        """(N, P) the leaf of each output's tree."""
        nodes = (self.roots, self.cut, self.threshold, self.left, self.right)
        return _leaves(inputs.detach(), *nodes, self.depth)

    def at_once(self, inputs: Tensor) -> Tensor:
        """The same leaves, for predictions, which nothing traces."""
        if inputs.device.type != "cpu":
            return walk(inputs, self.roots, self.cut, self.threshold, self.left, self.right, self.depth)
        return torch.from_numpy(self.leaf_of(inputs.numpy()))

    def leaf_of(self, inputs: Array) -> NDArray[np.int64]:
        """The same of an array."""
        return leaves_of(inputs, *self._nodes)

    def inside(self, inputs: Tensor) -> Tensor:
        """(N,) whether inputs lie in the box, its limits included."""
        return ((inputs >= self.lower) & (inputs <= self.upper)).all(dim=-1)


def _derive_again(module: Any, incompatible: Any) -> None:
    del incompatible
    module._derive()
