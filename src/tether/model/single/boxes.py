"""Box bounds in float32.

1. *The leaf is the float64 model's.* For a float32 number x, ``x < t`` is ``x < t̂`` with t̂ the smallest
   float32 number that is at least t: if x < t then x < t <= t̂, and if x >= t then x, being a float32 number,
   is at least t̂. The box is rounded inwards. So s lies in the box of its leaf exactly, and M within the
   remainder of A.
2. *No cancellation.* A is moved in float64 from the reference of all leaves to a float32 point m̂ of each: its
   middle, or what is pinned. ``A(s) = c' + J (s - m̂)``, ``c' = value + J (m̂ - reference)``. So ``t = fl(s -
   m̂)`` has a relative error of u, and |t| is at most about half a leaf, along inputs that M bends along a
   small part of the box.
3. *A.* ``p_d = fl(Ĵ_d t_d)`` is within γ_3 |p_d| of ``J_d (s - m̂)_d``. Adding up D of them and ĉ errs by
   γ_D S, where ``S = sum_d |p_d| + |ĉ|``, and rounding c' by γ_1 |ĉ|. So ``|â - A| <= γ_{D+3} S + slack``.
   The slack has c's own float64 roundings and what flushing costs; it is part of r̂, the remainder rounded up.
   In a leaf of second order A moved to m̂ has another slope there, and Q terms ``C_ij (s - m̂)_i (s - m̂)_j``
   more. Each is computed within γ_5 of itself and adds a rounding to the sum: D + Q + 2 stands for D, here
   and below.
4. *Delta* = ĥ + r̂ + κ (S + ĥ) + u |output|, with ``κ = (D + 8) u (1 + 2^-10) >= γ_{D+5}``; of an angle π at
   most. ĥ is cut to what is left of the delta asked for beside r̂, rounded down; the float32 delta exceeds
   that by the last two terms.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tether.data import Array
from tether.evidence.curvature import bend_at, bend_slope
from tether.geometry.cells import Cells
from tether.model.frame import Frame
from tether.model.single.rounding import (
    FLUSHED,
    HALF_TURN,
    UNIT,
    Single,
    check_sizes,
    compensation_of,
    domain_box,
    down,
    magnification,
    near,
    subnormal,
    up,
)
from tether.model.single.tether import SingleRoom, SingleTether, memory_tables, rounded_up
from tether.tethers.affinebounds import AffineBounds
from tether.tethers.leaves import walk
from tether.tethers.opening import PINNED_REACH, opening

_EPS = np.finfo(np.float64).eps


class SingleBoxes(SingleTether):
    """Outputs within a half-width of A, the model of a leaf."""

    roots: Tensor
    cut: Tensor
    threshold: Tensor
    left: Tensor
    right: Tensor
    point: Tensor
    value: Tensor
    slope: Tensor
    curvature: Tensor
    pairs: Tensor
    remainder: Tensor
    most: Tensor
    half_width: Tensor
    pinned: Tensor
    pinned_rate: Tensor

    def __init__(self, cells: Cells, bounds: AffineBounds, frame: Frame) -> None:
        super().__init__()
        inputs, outputs = len(frame.schema.inputs), len(frame.schema.outputs)
        terms = inputs + (len(bounds.pairs) + 2 if bounds.order > 1 else 0)
        magnified, compensation = magnification(terms + 8), compensation_of(terms)
        with np.errstate(over="ignore", invalid="ignore"):  # what float32 cannot hold is refused by its size
            leaves = _Leaves(bounds)
            tables = leaves.tables() | _room_tables(cells, bounds)
            self.largest = leaves.largest(frame, tables, magnified, compensation)
        self.keep({"pairs": bounds.pairs})
        self.magnified, self.compensation = rounded_up(magnified), rounded_up(compensation)
        self.pins, self.depth = bool(tables["pinned_rate"].any()), bounds.tree.depth
        self.bent = bounds.order > 1
        self.per_row = max(len(cells), outputs * terms)
        box = domain_box(bounds.tree.lower, bounds.tree.upper, frame.schema)
        self.keep(tables | _tree_tables(bounds) | memory_tables(cells) | box)

    def room(self, inputs: Tensor) -> SingleRoom:
        """A plus and minus what is open of the half-width."""
        leaf = walk(inputs, self.roots, self.cut, self.threshold, self.left, self.right, self.depth)
        cell = self.squared_distances(inputs).argmin(dim=1)
        # Products by element: a matrix product may run in less than float32.
        away = inputs[:, None, :] - self.point[leaf]
        products = self.slope[leaf] * away
        if self.bent:
            one, two = (away[:, :, self.pairs[:, side]] for side in (0, 1))
            products = torch.cat([products, self.curvature[leaf] * one * two], dim=2)
        value, remainder = self.value[leaf], self.remainder[leaf]
        anchor, size = products.sum(dim=2) + value, products.abs().sum(dim=2) + value.abs()
        width = self.half_width[cell]
        if self.pins:
            width = width * opening(inputs, self.pinned, self.pinned_rate)
        width = width.minimum(self.most[leaf])
        spread = width + remainder + self.magnified * (size + width)
        inside = self.within_box(inputs) & remainder.isfinite().all(dim=1)
        return SingleRoom(anchor - width, anchor + width, anchor, spread, cell, inside)


class _Leaves:
    """A of each leaf around a float32 point of its own; float64.

    Attributes:
        bounds: of all.
        claimed: (L,) leaves over which something is known of M.
        lower: (L, D) their boxes.
        upper: (L, D).
        point: (L, D) float32 numbers.
        reach: (L, D) the largest way from there within the leaf.
        value: (L,) A at the point; 0 where nothing is known.
        slope: (L, D) likewise.
        curvature: (L, Q) likewise, by pairs of inputs; there is no point that it depends on.
        slack: (L,) what step 3 adds to the remainder.
    """

    def __init__(self, bounds: AffineBounds) -> None:
        self.bounds, self.claimed = bounds, np.isfinite(bounds.remainder)
        self.lower, self.upper = bounds.tree.boxes()
        middle = np.clip(0.5 * self.lower + 0.5 * self.upper, self.lower, self.upper)
        held = (self.lower <= bounds.pinned) & (bounds.pinned <= self.upper)
        self.point = near(np.where(held, bounds.pinned, middle))
        self.reach = np.maximum(np.abs(self.upper - self.point), np.abs(self.point - self.lower))
        moved = self.point - bounds.reference
        self.slope = np.where(self.claimed[:, None], bounds.slope, 0.0)
        self.curvature = np.where(self.claimed[:, None], bounds.bends, 0.0)
        own = np.where(self.claimed, bounds.value, 0.0)
        self.value = own + (self.slope * moved).sum(axis=1)
        rough = np.abs(own) + (np.abs(self.slope) * np.abs(moved)).sum(axis=1)
        inputs = len(bounds.reference)
        self.slack = np.zeros(len(own))
        if bounds.order > 1:
            self._bend(rough)
        largest = 1 + float(self.reach.max()) + float(np.abs(self.slope).max()) + float(self.size.max())
        self.slack += (inputs + 4) * _EPS * rough + (16 + 4 * inputs) * FLUSHED * largest

    def _bend(self, rough: Array) -> None:
        """Moves what is of second order to the points; with what that rounds, and what flushing costs."""
        pairs, terms = self.bounds.pairs, len(self.bounds.pairs) + 4
        away, size = self.point - self.bounds.centre, np.abs(self.curvature)
        steep = np.abs(self.slope) + bend_slope(size, pairs, np.abs(away))
        rough = rough + bend_at(size, pairs, np.abs(away))
        self.value = self.value + bend_at(self.curvature, pairs, away)
        self.slope = self.slope + bend_slope(self.curvature, pairs, away)
        farthest = 1 + float(self.reach.max())
        self.slack = terms * _EPS * (rough + (steep * self.reach).sum(axis=1))
        self.slack += 8 * terms * FLUSHED * farthest**2 * (1 + float(size.max()))

    @property
    def size(self) -> Array:
        """(L,) at least S of the error analysis over the leaf."""
        swing = (np.abs(self.slope) * self.reach).sum(axis=1)
        swing = swing + bend_at(np.abs(self.curvature), self.bounds.pairs, self.reach)
        return np.abs(near(self.value)).astype(np.float64) + swing * (1 + 64 * UNIT)

    def tables(self) -> dict[str, Single]:
        """What is looked up by leaf."""
        bounds = self.bounds
        remainder = up((bounds.remainder + self.slack) * (1 + 1e-15))
        left = np.where(self.claimed, bounds.most[bounds.output], 0.0) - np.where(
            self.claimed, remainder, 0.0
        )
        return {
            "point": self.point,
            "value": near(self.value),
            "slope": near(self.slope),
            "curvature": near(self.curvature),
            "remainder": remainder,
            "most": down(np.maximum(left, 0.0)),
        }

    def largest(
        self, frame: Frame, tables: dict[str, Single], magnified: float, compensation: float
    ) -> Array:
        """(P,) of delta over all leaves of which something is known."""
        schema, output, known = frame.schema, self.bounds.output, self.claimed
        room = tables["half_width"].max(axis=0)[output]
        width = np.minimum(room, tables["most"]).astype(np.float64)
        remainder = tables["remainder"].astype(np.float64)
        spread = width + remainder + magnified * (self.size + width) * compensation
        size = self.size + width
        check_sizes(
            {name: tables[name] for name in ("point", "value", "slope", "half_width", "curvature")}, size
        )
        check_sizes({}, np.abs(self.curvature).max(axis=1, initial=0.0) * self.reach.max(axis=1))
        check_sizes({"remainder": tables["remainder"][known]}, size)
        if frame.target == "increment":
            size = size + self._base(frame)
        # Sums of a row may round up where these did not: more than they can, on top.
        delta = (spread + UNIT * size * (1 + 2.0**-10)) * compensation**4
        delta = np.where(schema.output_angles[output], np.minimum(delta, HALF_TURN), delta)
        largest = np.zeros(len(schema.outputs))
        np.maximum.at(largest, output[known], delta[known])
        return largest

    def _base(self, frame: Frame) -> Array:
        """(L,) at most as large the state that an increment is added to is in each leaf."""
        extent = np.maximum(np.abs(self.lower), np.abs(self.upper))[:, : len(frame.schema.states)]
        return frame.schema.base(extent)[np.arange(len(extent)), self.bounds.output]


def _tree_tables(bounds: AffineBounds) -> dict[str, NDArray]:
    """Cuts, thresholds so rounded that comparing float32 numbers with them is exact (step 1)."""
    tree = bounds.tree
    threshold = np.where(tree.cut >= 0, up(tree.threshold), np.float32(0.0))
    if subnormal(threshold).any():
        value = float(tree.threshold[int(np.argmax(subnormal(threshold)))])
        raise ValueError(
            f"thresholds must be 0 or at least {FLUSHED:.3g} in size for float32; got {value:.3g}. Change "
            "the units, or stay with float64."
        )
    return {
        "roots": tree.roots,
        "cut": tree.cut,
        "threshold": threshold,
        "left": tree.left,
        "right": tree.right,
    }


def _room_tables(cells: Cells, bounds: AffineBounds) -> dict[str, Single]:
    """Half-widths by memory, and what closes them."""
    pinned = np.isfinite(bounds.pinned)
    return {
        "half_width": down(bounds.half_width),
        "pinned": near(np.where(pinned, bounds.pinned, 0.0)),
        "pinned_rate": near(np.where(pinned, 1 / (cells.scale * PINNED_REACH), 0.0)),
    }
