"""Sets of a tube's file, and their affine images, in interval arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from flint import arb
from numpy.typing import NDArray

from tether.verification import intervals
from tether.verification.elementary import constant
from tether.verification.intervals import Array, Interval, add_down, add_up
from tether.verification.tubes.document import require

_TURN = constant(lambda: 2 * arb.pi())


@dataclass(frozen=True, eq=False)
class Set:
    """A zonotope: center (n,) and generators (n, m)."""

    center: Array
    generators: Array

    @classmethod
    def of(cls, stated: dict[str, Any], states: int) -> Set:
        """As a file states it."""
        return cls(
            np.array(stated["center"], dtype=np.float64).reshape(states),
            np.array(stated["generators"], dtype=np.float64).reshape(states, -1),
        )

    def radius(self) -> Array:
        """(n,) how far it reaches from its center, rounded up."""
        return _total(np.abs(self.generators))

    def hull(self) -> Interval:
        """A box that holds it."""
        radius = self.radius()
        return add_down(self.center, -radius), add_up(self.center, radius)


def _total(sizes: Array) -> Array:
    """Sums over the last axis, rounded up."""
    total = np.zeros(sizes.shape[:-1])
    for k in range(sizes.shape[-1]):
        total = add_up(total, sizes[..., k])
    return total


@dataclass(frozen=True, eq=False)
class Image:
    """A zonotope of which centre (n,) and generators (n, m) are known within intervals."""

    center: Interval
    generators: Interval

    def plus(self, center: Interval, generators: Interval) -> Image:
        """Moved."""
        return Image(intervals.add(self.center, center), intervals.add(self.generators, generators))

    def with_box(self, half: Array) -> Image:
        """With a box of as many generators more."""
        own = np.diag(half)
        parts = (np.concatenate([end, own], axis=1) for end in self.generators)
        low, high = parts
        return Image(self.center, (low, high))

    def beside(self, other: Image) -> Image:
        """Both, of the same generators."""
        center, generators = (
            tuple(np.concatenate(pair) for pair in zip(one, two, strict=True))
            for one, two in ((self.center, other.center), (self.generators, other.generators))
        )
        return Image((center[0], center[1]), (generators[0], generators[1]))

    def hull(self) -> Interval:
        """A box that holds it."""
        radius = _total(intervals.magnitude(self.generators))
        return add_down(self.center[0], -radius), add_up(self.center[1], radius)


@dataclass(frozen=True, eq=False)
class Line:
    """``value + slope (s - point)``, with whole turns from the point to the set: (P,), (P, D), (D,), (D,)."""

    value: Array
    slope: Array
    point: Array
    turns: Array

    @classmethod
    def of(
        cls, stated: dict[str, Any], slope: str, outputs: int, angles: NDArray[np.bool_], place: str
    ) -> Line:
        """As a file states it; turns are whole, and of angles (D,) alone."""
        count = len(angles)
        shapes = {"value": (outputs,), slope: (outputs, count), "point": (count,), "turns": (count,)}
        parts = [np.array(stated[name], dtype=np.float64).reshape(shape) for name, shape in shapes.items()]
        turns = parts[-1]
        whole = (turns == np.round(turns)) & (np.abs(turns) < 1e6) & (angles | (turns == 0))
        finite = all(np.isfinite(part).all() for part in parts)
        require(bool(whole.all()) and finite, f"{place}: turns must be whole, and lines finite")
        return cls(*parts)

    @property
    def turned(self) -> Interval:
        """(D,) the turns."""
        low, high = intervals.multiply((self.turns, self.turns), _TURN)
        still = self.turns == 0
        return np.where(still, 0.0, low), np.where(still, 0.0, high)

    def image(self, own: Set) -> Image:
        """Of a set."""
        return self.of_image(Image((own.center, own.center), (own.generators, own.generators)))

    def of_image(self, own: Image) -> Image:
        """Of a set that is known within intervals."""
        way = intervals.subtract(intervals.subtract(own.center, self.turned), (self.point, self.point))
        shape = (len(self.value), own.generators[0].shape[1])
        center: Interval = (self.value, self.value)
        columns: Interval = (np.zeros(shape), np.zeros(shape))
        for d in range(len(self.point)):
            steep = self.slope[:, d]
            center = intervals.add(center, intervals.multiply((steep, steep), (way[0][d], way[1][d])))
            across = steep[:, None] * np.ones(shape[1])
            low, high = (np.broadcast_to(end[d], shape).copy() for end in own.generators)
            columns = intervals.add(columns, intervals.multiply((across, across.copy()), (low, high)))
        return Image(center, columns)


def left_of(image: Image, after: Set, kept: NDArray[np.int64], to: NDArray[np.int64], place: str) -> Array:
    """(P,) of the next set's box, what an affine image and its roundings leave; `to` says of which states."""
    stated, generators = after.center[to], after.generators[to]
    count, columns = len(after.center), image.generators[0].shape[1]
    box = after.generators[:, -count:] if count else np.zeros((0, 0))
    require(
        box.shape[1] == count
        and np.array_equal(box, np.diag(np.diag(box)))
        and bool((np.diag(box) >= 0).all()),
        f"{place}: the set must end in a box",
    )
    require(
        generators.shape[1] == len(kept) + count
        and len(np.unique(kept)) == len(kept)
        and (kept < columns).all()
        and (kept >= 0).all(),
        f"{place}: the generators that were kept must be named",
    )
    needed, (low, high) = _apart(image.center, stated), image.generators
    for column, one in enumerate(kept.tolist()):
        needed = add_up(needed, _apart((low[:, one], high[:, one]), generators[:, column]))
    for one in np.setdiff1d(np.arange(columns), kept).tolist():
        needed = add_up(needed, intervals.magnitude((low[:, one], high[:, one])))
    return add_down(np.diag(box)[to], -needed)


def _apart(one: Interval, stated: Array) -> Array:
    return np.maximum(np.maximum(add_up(one[1], -stated), add_up(stated, -one[0])), 0.0)
