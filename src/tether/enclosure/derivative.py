"""First derivatives of an interval array: forward mode, interval-valued, absent columns left out.

Only inputs that the values may depend on have a column, so that a model written component by component
pays for the inputs each component uses and not for all of them. The axis of inputs comes first, which
keeps NumPy's inner loops long.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether.enclosure.rounding import Array, Pair, add, hull, is_point, multiply, point


@dataclass(frozen=True, eq=False)
class Derivative:
    """Bounds of the partial derivatives; those of inputs not in `columns` are exactly zero.

    Attributes:
        columns: the inputs that matter, ascending; C of them.
        bounds: (lower, upper), each (C, *shape of the values).
    """

    columns: tuple[int, ...]
    bounds: Pair

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the values that these are derivatives of."""
        return self.bounds[0].shape[1:]

    def map(self, function: Callable[[Array], Array]) -> Derivative:
        """Apply a rearrangement to both bounds; it must leave the first axis alone."""
        lower = function(self.bounds[0])
        upper = lower if is_point(self.bounds) else function(self.bounds[1])
        return Derivative(self.columns, (lower, upper))

    def compressed(self) -> Derivative | None:
        """The same without columns that are zero throughout."""
        if len(self.columns) < 2 or not self.shape:
            return self
        active = _any_nonzero(self.bounds[0])
        if not is_point(self.bounds):
            active = active | _any_nonzero(self.bounds[1])
        if active.all():
            return self
        kept = np.flatnonzero(active)
        if not len(kept):
            return None
        columns = tuple(self.columns[k] for k in kept)
        return Derivative(columns, self.map(lambda bound: bound[kept]).bounds)

    def on_columns(self, columns: tuple[int, ...]) -> Derivative:
        """The same with a column for each of `columns`, a superset."""
        if columns == self.columns:
            return self
        places = [columns.index(column) for column in self.columns]

        def spread(bound: Array) -> Array:
            wider = np.zeros((len(columns), *bound.shape[1:]))
            wider[places] = bound
            return wider

        return Derivative(columns, self.map(spread).bounds)

    def broadcast(self, shape: tuple[int, ...]) -> Derivative:
        """Derivatives of the values broadcast to `shape`."""
        if shape == self.shape:
            return self
        padding = (1,) * (len(shape) - len(self.shape))

        def widen(bound: Array) -> Array:
            aligned = bound.reshape(bound.shape[0], *padding, *bound.shape[1:])
            return np.broadcast_to(aligned, (bound.shape[0], *shape))

        return self.map(widen)

    def times(self, slope: Pair) -> Derivative:
        """Chain rule: every column times a slope of the values' shape."""
        return Derivative(self.columns, multiply(self.bounds, slope))


def _any_nonzero(bound: Array) -> Any:
    """Per column, whether any entry is nonzero; looks once along axes that only repeat."""
    once = tuple(slice(None) if stride else slice(0, 1) for stride in bound.strides[1:])
    return bound[(slice(None), *once)].any(axis=tuple(range(1, bound.ndim)))


def seeds(rows: int, inputs: Sequence[int]) -> Derivative:
    """Derivative of the inputs themselves: (rows, inputs), one for each's own column."""
    identity = np.eye(len(inputs))[:, None, :]
    ones = np.broadcast_to(identity, (len(inputs), rows, len(inputs)))
    return Derivative(tuple(inputs), (ones, ones))


def union(parts: Sequence[Derivative | None]) -> tuple[int, ...]:
    """Columns that any of the parts has."""
    return tuple(sorted({column for part in parts if part is not None for column in part.columns}))


def _merge(one: Derivative, two: Derivative, both: Callable[[Pair, Pair], Pair]) -> Derivative:
    """Column by column: `both` where shared, a copy where only one has it."""
    if one.columns == two.columns:
        return Derivative(one.columns, both(one.bounds, two.bounds))
    columns = union([one, two])
    lower, upper = (np.empty((len(columns), *one.shape)) for _ in range(2))
    for part, other in ((one, two), (two, one)):
        own = [k for k, column in enumerate(part.columns) if column not in other.columns]
        places = [columns.index(part.columns[k]) for k in own]
        lower[places], upper[places] = part.bounds[0][own], part.bounds[1][own]
    shared = [column for column in columns if column in one.columns and column in two.columns]
    if shared:
        ends = [_pick(part, shared) for part in (one, two)]
        places = [columns.index(column) for column in shared]
        lower[places], upper[places] = both(ends[0], ends[1])
    return Derivative(columns, (lower, upper))


def _pick(part: Derivative, columns: list[int]) -> Pair:
    return part.map(lambda bound: bound[[part.columns.index(column) for column in columns]]).bounds


def plus(one: Derivative | None, two: Derivative | None) -> Derivative | None:
    """Sum, for two derivatives of values of one shape.

    Widened by a few roundings of what is added, not of the sum: NumPy's own sum errs by a rounding of
    `(x + y) - y`'s largest part, which grows with y although the derivative by y cancels to zero.
    """
    if one is None or two is None:
        return one or two
    return _merge(_widened(one), _widened(two), add)


def _widened(part: Derivative) -> Derivative:
    lower, upper = part.bounds
    slack = 4 * np.finfo(np.float64).eps * np.maximum(np.abs(lower), np.abs(upper))
    return Derivative(part.columns, (lower - slack, upper + slack))


def choose(
    mask: Any, one: Derivative | None, two: Derivative | None, *, either: Any = False
) -> Derivative | None:
    """`one` where `mask`, `two` elsewhere, and the hull of both where `either`."""
    columns = union([one, two])
    if not columns:
        return None
    shape = (len(columns), *np.shape(mask))
    zero = point(np.zeros(shape))
    left, right = (zero if part is None else part.on_columns(columns).bounds for part in (one, two))
    outer = hull(left, right) if np.any(either) else left
    bounds = [np.where(either, outer[k], np.where(mask, left[k], right[k])) for k in range(2)]
    return Derivative(columns, (bounds[0], bounds[1]))
