"""Box bounds: first-order models of M over the leaves of a tree, and room by what the data show.

Over each leaf of an output's tree ``A(s) = value + slope (s - reference)``, with a remainder that is at least
``|M - A|``. Outputs stay within a half-width of A, so that every one of them is within ``delta = remainder +
half-width`` of M, anywhere in the operating box. Where M bends decides the leaves; where the data are, the
cells and their half-widths.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from tether.data import HALF_TURN, Array, Schema
from tether.geometry.boxtree import BoxTree
from tether.ranges import Evidence


@dataclass(frozen=True, eq=False)
class BoxBounds:
    """Bounds over a box, in the units of the target.

    Attributes:
        tree: a tree of boxes for each output, L leaves in all.
        reference: (D,) where A is written from.
        value: (L,) A there.
        slope: (L, D).
        remainder: (L,) at least the distance from M to A over the leaf, roundings of both included; infinite
            where nothing is known of M, which is outside the domain.
        half_width: (K, P) by cell, how far an output may be from A.
        most: (P,) delta that no row exceeds, infinite where none was asked for.
        pinned: (D,) the value on which all probes agree, for inputs where they do (a parked car: speed 0, yaw
            rate 0), and NaN for the rest. There M is followed exactly; the room opens to the full half-width
            within a small distance.
        angles: (P,) which outputs are angles.
        evidence: how the remainder is known.
        epsilon: for `statistical` evidence, the share of inputs that may exceed delta.
        beta: for `statistical` evidence, one minus the confidence of that.
    """

    tree: BoxTree
    reference: Array
    value: Array
    slope: Array
    remainder: Array
    half_width: Array
    most: Array
    pinned: Array
    angles: NDArray[np.bool_]
    evidence: Evidence
    epsilon: float | None = None
    beta: float | None = None
    kind: ClassVar[Literal["boxes"]] = "boxes"

    def __post_init__(self) -> None:
        if not ((self.half_width >= 0) & np.isfinite(self.half_width)).all():
            raise ValueError("`half_width` must be finite and at least 0 in every cell and output.")
        if not (self.remainder >= 0).all():
            raise ValueError("`remainder` must be at least 0 in every leaf.")

    @property
    def lemma(self) -> None:
        """Lemma 4 speaks of constant bounds only."""
        return

    @property
    def output(self) -> NDArray[np.int64]:
        """(L,) which output each leaf belongs to."""
        return self.tree.owner

    @property
    def room(self) -> Array:
        """(P,) largest half-width."""
        return self.half_width.max(axis=0)

    @property
    def delta(self) -> Array:
        """(L,) distance to M anywhere in a leaf, were its room the largest there is."""
        output = self.output
        room = np.clip(self.most[output] - self.remainder, 0.0, self.room[output])
        delta = self.remainder + room
        return np.where(self.angles[output], np.minimum(delta, HALF_TURN), delta)

    def evaluate(self, inputs: Array) -> Array:
        """(N, P) A at physical inputs (N, D)."""
        leaf = self.tree.find(inputs)
        return self.value[leaf] + np.einsum("npd,nd->np", self.slope[leaf], inputs - self.reference)

    def rounding(self, schema: Schema) -> Array:
        """(L,) at least what rounding changes of an output that is made from A."""
        tree, output = self.tree, self.output
        reach = np.maximum(np.abs(tree.lower - self.reference), np.abs(tree.upper - self.reference))
        size = np.abs(self.value) + np.abs(self.slope) @ reach + self.room[output]
        size = size + np.where(np.isfinite(self.remainder), self.remainder, 0.0)
        return output_rounding_over(tree.lower, tree.upper, schema)(size, output)


def output_rounding_over(
    lower: Array, upper: Array, schema: Schema
) -> Callable[[Array, NDArray[np.int64]], Array]:
    """Rounding of ``state + increment`` and of A over a box, by size of the target and by output."""
    extent = np.maximum(np.abs(lower), np.abs(upper))[None, : len(schema.states)]
    # Unwrapping an angle passes through numbers of a few turns.
    more = schema.base(extent)[0] + 4 * np.pi * schema.output_angles
    factor = (32 + 4 * len(schema.inputs)) * np.finfo(np.float64).eps
    return lambda size, output: factor * (size + more[output])
