"""Models of M over boxes, what makes them, and by proof how far M can be from them.

They are of first order, or, where asked for and where less remains then, of second:
:mod:`tether.evidence.curvature`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tether.data import HALF_TURN, Array
from tether.evidence.curvature import (
    Bending,
    Hessian,
    Pairs,
    faintly,
    no_pairs,
    over_way,
    quadratic_remainder,
)
from tether.evidence.question import Question
from tether.programs import Enclosure, Program, evaluate

_EPS = np.finfo(np.float64).eps
SHELLS = 4
"""Nested boxes over which derivatives are enclosed."""
_RANGED = 1 + 2.0**-10
"""Times what M's range says is stated, so that who verifies, piece by piece and with other code, can show it:
an enclosure may be sharp at an end where that of a piece is not, and no number of pieces makes it so."""


@dataclass(frozen=True, eq=False)
class Leaves:
    """A(s) = value + slope (s - middle), and what curvatures add to that, over each of K boxes.

    Attributes:
        middle: (K, D).
        value: (K,).
        slope: (K, D).
        remainder: (K,) at least ``|M - A|`` over the box, for M's exact value and for what NumPy computes of
            it; infinite where nothing is known.
        shares: (K, D) what each input contributes to the remainder; infinite where that has no bound.
        centred: (K,) whether `value` is M's own at the middle, rather than the middle of what M can be.
        curvature: (K, Q) by the pairs of inputs of what made them, 0 where a model is of first order.
    """

    middle: Array
    value: Array
    slope: Array
    remainder: Array
    shares: Array
    centred: NDArray[np.bool_]
    curvature: Array

    def take(self, rows: NDArray[np.int64] | slice) -> Leaves:
        """Some of them."""
        return Leaves(*(part[rows] for part in self._parts()))

    def replaced(self, rows: NDArray[np.int64], others: Leaves) -> Leaves:
        """With the first of the others in the place of some, and the rest of the others at the end."""
        joined = [
            np.concatenate([a, b[len(rows) :]]) for a, b in zip(self._parts(), others._parts(), strict=True)
        ]
        for part, other in zip(joined, others._parts(), strict=True):
            part[rows] = other[: len(rows)]
        return Leaves(*joined)

    def where(self, rows: NDArray[np.bool_], others: Leaves) -> Leaves:
        """With others in the place of some (K,)."""
        parts = zip(self._parts(), others._parts(), strict=True)
        return Leaves(*(np.where(rows.reshape(-1, *[1] * (a.ndim - 1)), b, a) for a, b in parts))

    @classmethod
    def joined(cls, parts: list[Leaves]) -> Leaves:
        """One after the other."""
        return cls(*(np.concatenate(part) for part in zip(*(p._parts() for p in parts), strict=True)))

    def _parts(self) -> tuple[NDArray, ...]:
        return (
            self.middle,
            self.value,
            self.slope,
            self.remainder,
            self.shares,
            self.centred,
            self.curvature,
        )


def straight(count: int) -> Array:
    """(K, 0) curvatures of so many models of first order."""
    return np.zeros((count, 0))


@dataclass(frozen=True, eq=False)
class Bent:
    """Curvatures (K, Q) by pairs (Q, 2) of inputs."""

    curvature: Array
    pairs: Pairs


@dataclass(frozen=True, eq=False)
class Second:
    """What second-order models of an output are made with: its second derivatives, and pairs (Q, 2)."""

    hessian: Hessian | None
    pairs: Pairs

    @classmethod
    def none(cls) -> Second:
        """For models of first order."""
        return cls(None, no_pairs())


@dataclass(frozen=True, eq=False)
class Look:
    """M at some inputs; nothing is proved by it.

    Attributes:
        values: (N, P), 0 where there is none.
        slopes: (N, P, D), 0 where there are none.
        known: (N, P) where there are both.
        angles: (P,) which outputs are angles.
    """

    values: Array
    slopes: Array
    known: NDArray[np.bool_]
    angles: NDArray[np.bool_]


class Expander(ABC):
    """Makes models of M's outputs over boxes.

    Attributes:
        question: what M is asked, over which box.
        bends: (P, D) along which inputs each output may bend.
        edges: (E, 3) where a box is best cut rather than in half: an output, an input, and a value of that.
        most_leaves: how many boxes there may be before M is asked too much; None: as many as you like.
        pairs: (Q, 2) inputs that curvatures are of; none where all models are of first order.
    """

    bends: NDArray[np.bool_]
    pairs: Pairs = no_pairs()
    edges: Array = np.empty((0, 3))
    most_leaves: int | None = None

    def __init__(self, question: Question) -> None:
        self.question = question

    @abstractmethod
    def expand(self, output: NDArray[np.int64], lower: Array, upper: Array) -> Leaves:
        """Models of outputs (K,) over boxes (K, D), as far as this evidence knows them.

        Around the :func:`middles` of the boxes.
        """

    def look(self, inputs: Array) -> Look | None:
        """What M is at inputs (N, D), to grow a tree by; None where that would cost too much."""
        del inputs
        return None

    def settle(self, leaves: Leaves, output: NDArray[np.int64], lower: Array, upper: Array) -> Leaves:
        """A last look at all boxes (K, D) that were kept, once there will be no others."""
        del output, lower, upper
        return leaves

    @abstractmethod
    def needed(
        self, output: NDArray[np.int64], lower: Array, upper: Array, *, slope: Array, value: Array
    ) -> Array:
        """(K,) the remainder that models from elsewhere need, ``value + slope (s - middle)`` over boxes."""

    def needed_bent(
        self, output: NDArray[np.int64], lower: Array, upper: Array, *, slope: Array, value: Array, bent: Bent
    ) -> Array:
        """The same of models of second order; infinite, where this evidence knows of none."""
        del lower, upper, slope, value, bent
        return np.full(len(output), np.inf)


def expand_boxes(
    program: Program,
    lower: Array,
    upper: Array,
    *,
    pinned: Array | None = None,
    angle: bool = False,
    second: Second | None = None,
) -> Leaves:
    """Models over boxes (K, D) of the only output of `program`, of first order or what `second` says.

    Around their middles; a box that holds the `pinned` values (D,), NaN for inputs that have none, around
    these, and by M's derivative there: where M is followed exactly, it is so to first order.

    By the mean-value theorem along the segment from the middle m to s: ``M(s) - M(m) - J (s - m)`` is the
    integral along it of the derivative's deviation from J, times ``s - m``. Sound because after a share t of
    the way a point lies in the box shrunk to t around m: of n equal pieces of the way, piece k lies in shell
    k of n, and the integral is at most the mean of the deviations enclosed over the shells. J is the
    derivative at the middle, or the middle of what is enclosed over the box, whichever leaves less; or 0,
    where M's range over the box says more than its derivatives do (a slope may be infinite).

    Where M jumps, or is infinitely steep, along some inputs and not along the rest, J is 0 along these: their
    range, with the rest as in the middle, says how far M may be off there, and the mean-value theorem the
    rest, from there on. Sound because on that second way the inputs that make M jump do not change: NumPy
    takes the same side all along it, and what each side can be is in the range.

    Where second derivatives are known and bounded a model may be of second order, if less remains of M then.
    """
    second = Second.none() if second is None else second
    middle, held = middles(lower, upper, pinned)
    over = _Over.boxes(program, lower, upper, middle)
    choices = [_finite(slope) for slope in (_between(over.point), _between(over.shells[-1]))]
    models = [over.by_slope(slope, over.value) for slope in choices]
    jumping = over.split(program, lower, upper)
    choices += [np.zeros_like(middle), np.where(jumping.loose, 0.0, choices[1])]
    split = jumping.by_slope(choices[-1], jumping.ranged)
    # What each input contributes to a range is not known; cutting those helps that contribute to the change.
    changing = np.where(np.isfinite(split[1])[:, None], split[0], models[-1][0])
    models += [(changing, over.by_range()), split]
    remainders = np.stack([remainder for _, remainder in models])
    remainders[2:] *= _RANGED
    if angle:  # on the circle nothing is farther than half a turn, if it is anywhere
        remainders = np.where(np.isfinite(remainders), np.minimum(remainders, HALF_TURN), np.inf)
    best = np.where(held & np.isfinite(remainders[0]), 0, np.argmin(remainders, axis=0))
    rows = np.arange(len(lower))
    slopes = np.stack(choices)[best, rows]
    shares = np.stack([part for part, _ in models])[best, rows]
    value = np.stack([over.value, over.value, over.ranged, jumping.ranged])[best, rows]
    nothing = np.zeros((len(lower), len(second.pairs)))
    leaves = Leaves(middle, value, slopes, remainders[best, rows], shares, best < 2, nothing)
    return leaves if second.hessian is None else _bent(leaves, over, second, (lower, upper), held, angle)


def _bent(
    leaves: Leaves,
    over: _Over,
    second: Second,
    boxes: tuple[Array, Array],
    held: NDArray[np.bool_],
    angle: bool,
) -> Leaves:
    """Models of second order where less remains; in boxes that hold what is pinned, with M's own there."""
    assert second.hessian is not None
    bending = over.bending(second.hessian, *boxes)
    slope = _finite(_between(over.point))
    for number, curvature in enumerate(bending.choices(second.pairs)):
        bent = Bent(curvature, second.pairs)
        shares, remainder = over.by_curvature(bending, slope, over.value, bent)
        if angle:  # on the circle nothing is farther than half a turn, if it is anywhere
            remainder = np.where(np.isfinite(remainder), np.minimum(remainder, HALF_TURN), np.inf)
        better = (remainder < leaves.remainder) & (curvature != 0).any(axis=1) & ~(held & (number > 0))
        made = Leaves(leaves.middle, over.value, slope, remainder, shares, np.ones_like(held), curvature)
        leaves = leaves.where(better, made)
    return leaves


def needed_remainder(
    program: Program, lower: Array, upper: Array, *, middle: Array, slope: Array, value: Array
) -> Array:
    """(K,) at least the distance, over boxes (K, D), from M to ``value + slope (s - middle)``.

    As :func:`expand_boxes` finds it, for first-order models from elsewhere.
    """
    over = _Over.boxes(program, lower, upper, middle)
    _, remainder = over.by_slope(slope, value)
    away = over.by_range() + np.abs(value - over.ranged) * (1 + 4 * _EPS)
    remainder = np.where((slope == 0).all(axis=1), np.minimum(remainder, _infinite(away)), remainder)
    _, jumping = over.split(program, lower, upper).by_slope(slope, value)
    return np.minimum(remainder, jumping)


def needed_curved(
    program: Program,
    hessian: Hessian,
    lower: Array,
    upper: Array,
    *,
    middle: Array,
    slope: Array,
    value: Array,
    bent: Bent,
) -> Array:
    """The same of models of second order."""
    over = _Over.boxes(program, lower, upper, middle)
    bending = over.bending(hessian, lower, upper)
    return over.by_curvature(bending, slope, value, bent)[1]


def middles(lower: Array, upper: Array, pinned: Array | None) -> tuple[Array, NDArray[np.bool_]]:
    """(K, D) around which points boxes are expanded, and (K,) whether they hold the pinned values (D,)."""
    middle = np.clip(0.5 * lower + 0.5 * upper, lower, upper)
    if pinned is None or np.isnan(pinned).all():
        return middle, np.zeros(len(lower), dtype=bool)
    held = np.logical_and.reduce(np.isnan(pinned) | ((lower <= pinned) & (pinned <= upper)), axis=1)
    return np.where(held[:, None] & ~np.isnan(pinned), pinned, middle), held


@dataclass(frozen=True, eq=False)
class _Over:
    """M at the middles of boxes and over shells around them.

    Attributes:
        point: at the middles.
        shells: over the boxes shrunk, the whole boxes last.
        reach: (K, D) largest way from the middle along each input.
        middle: (K, D).
        value: (K,) M at the middle.
    """

    point: Enclosure
    shells: list[Enclosure]
    reach: Array
    middle: Array
    value: Array

    @classmethod
    def boxes(cls, program: Program, lower: Array, upper: Array, middle: Array) -> _Over:
        """M there."""
        inner = [(middle, middle), *(_shell(lower, upper, middle, k / SHELLS) for k in range(1, SHELLS))]
        below, above = (np.concatenate(part) for part in zip(*inner, strict=True))
        found = evaluate(program, below, above, derivatives=True, rounding=False)
        point, *shells = _parts(found, len(inner))
        shells.append(evaluate(program, lower, upper, derivatives=True))
        reach = np.maximum(upper - middle, middle - lower) * (1 + _EPS)
        value = _finite(0.5 * point.lower + 0.5 * point.upper)[:, 0]
        return cls(point, shells, reach, middle, value)

    def by_slope(self, slope: Array, value: Array) -> tuple[Array, Array]:
        """(K, D) shares of the remainder and (K,) itself, of a model with this slope and this value there."""
        point, whole = self.point, self.shells[-1]
        gap = np.maximum(np.abs(value - point.lower[:, 0]), np.abs(value - point.upper[:, 0]))
        gap = gap + 4 * _EPS * np.abs(value) + whole.rounding[:, 0] * (1 + 4 * _EPS)
        deviation = np.zeros_like(slope)
        undefined = np.zeros(len(slope), dtype=bool)
        for shell in self.shells:
            with np.errstate(invalid="ignore", over="ignore"):
                beyond = np.maximum(shell.jacobian_upper[:, 0] - slope, slope - shell.jacobian_lower[:, 0])
            deviation = deviation + faintly(_infinite(beyond)) / len(self.shells)
            # Where a value is not defined, derivatives say nothing of the jump there may be.
            undefined |= np.isnan(shell.lower[:, 0]) | np.isnan(shell.upper[:, 0])
        deviation = faintly((deviation + 4 * _EPS * np.abs(slope)) * (1 + 16 * _EPS))
        with np.errstate(invalid="ignore", over="ignore"):
            shares = _infinite(over_way(deviation, self.reach))
            remainder = (shares.sum(axis=1) + gap) * (1 + (slope.shape[1] + 8) * _EPS)
        return shares, np.where(undefined, np.inf, _infinite(remainder))

    def bending(self, hessian: Hessian, lower: Array, upper: Array) -> Bending:
        """Second derivatives over the same shells of boxes (K, D)."""
        inner = [_shell(lower, upper, self.middle, k / SHELLS) for k in range(1, SHELLS)]
        return Bending.boxes(hessian, self.middle, [*inner, (lower, upper)], self.reach)

    def by_curvature(self, bending: Bending, slope: Array, value: Array, bent: Bent) -> tuple[Array, Array]:
        """(K, D) shares of the remainder and (K,) itself, of a model with these curvatures."""
        return quadratic_remainder(
            bending,
            self.point,
            self.shells[-1],
            self.reach,
            value=value,
            slope=slope,
            curvature=bent.curvature,
            pairs=bent.pairs,
        )

    @property
    def ranged(self) -> Array:
        """(K,) the middle of M's range over the box."""
        return _finite(0.5 * self.shells[-1].lower[:, 0] + 0.5 * self.shells[-1].upper[:, 0])

    def by_range(self) -> Array:
        """(K,) the remainder around the middle of M's range, which contains what NumPy computes."""
        low, high = self.shells[-1].lower[:, 0], self.shells[-1].upper[:, 0]
        with np.errstate(invalid="ignore", over="ignore"):
            half = np.maximum(high - self.ranged, self.ranged - low)
            half = half + 8 * _EPS * np.maximum(np.abs(low), np.abs(high))
        return _infinite(half * (1 + 4 * _EPS))

    def split(self, program: Program, lower: Array, upper: Array) -> _Split:
        """M over boxes (K, D) with those inputs in the middle along which it is not steep."""
        whole = self.shells[-1]
        steep = np.isnan(whole.jacobian_lower[:, 0]) | np.isnan(whole.jacobian_upper[:, 0])
        loose = steep & (self.reach > 0)
        able = loose.any(axis=1) & ~loose.all(axis=1) & np.isfinite(whole.lower[:, 0])
        low, high = np.full(len(lower), np.nan), np.full(len(lower), np.nan)
        rows = np.flatnonzero(able)
        if len(rows):
            middle = self.middle[rows]
            ends = (np.where(loose[rows], part[rows], middle) for part in (lower, upper))
            found = evaluate(program, *ends, derivatives=False)
            low[rows], high[rows] = found.lower[:, 0], found.upper[:, 0]
        return _Split(loose, low, high, whole, self.reach)


@dataclass(frozen=True, eq=False)
class _Split:
    """M over boxes in two steps: along inputs that it jumps with, and from there along the rest.

    Attributes:
        loose: (K, D) the inputs of the first step.
        low: (K,) what M can be on the first step, the rest in the middle; NaN where there is no such split.
        high: (K,).
        whole: over the whole boxes.
        reach: (K, D) largest way from the middle along each input.
    """

    loose: NDArray[np.bool_]
    low: Array
    high: Array
    whole: Enclosure
    reach: Array

    @property
    def ranged(self) -> Array:
        """(K,) the middle of what M can be on the first step."""
        return _finite(0.5 * self.low + 0.5 * self.high)

    def by_slope(self, slope: Array, value: Array) -> tuple[Array, Array]:
        """(K, D) shares of the remainder and (K,) itself, of a model with this slope and this value there."""
        low, high = self.whole.jacobian_lower[:, 0], self.whole.jacobian_upper[:, 0]
        gap = np.maximum(np.abs(value - self.low), np.abs(self.high - value))
        gap = gap + 4 * _EPS * np.abs(value) + self.whole.rounding[:, 0] * (1 + 4 * _EPS)
        with np.errstate(invalid="ignore", over="ignore"):
            beyond = np.where(self.loose, np.abs(slope), np.maximum(high - slope, slope - low))
            beyond = faintly((beyond + 4 * _EPS * np.abs(slope)) * (1 + 16 * _EPS))
            shares = over_way(beyond, self.reach)
            away = (shares.sum(axis=1) + gap) * (1 + (slope.shape[1] + 8) * _EPS)
            half = np.broadcast_to(0.5 * (self.high - self.low)[:, None], shares.shape)
        return _infinite(np.where(self.loose, half, shares)), _infinite(away)


def _parts(enclosed: Enclosure, count: int) -> list[Enclosure]:
    """As many of equal length."""
    parts = zip(*(np.split(bound, count) for bound in vars(enclosed).values()), strict=True)
    return [Enclosure(**dict(zip(vars(enclosed), part, strict=True))) for part in parts]


def _between(enclosed: Enclosure) -> Array:
    """(K, D) the middle of derivatives."""
    return 0.5 * (enclosed.jacobian_lower + enclosed.jacobian_upper)[:, 0]


def _shell(lower: Array, upper: Array, middle: Array, share: float) -> tuple[Array, Array]:
    """The boxes, shrunk to a share around their middles, outward."""
    slack = 4 * _EPS * np.maximum(np.abs(lower), np.abs(upper))
    below = np.maximum(middle - share * (middle - lower) - slack, lower)
    above = np.minimum(middle + share * (upper - middle) + slack, upper)
    return below, above


def _finite(values: Array) -> Array:
    return np.where(np.isfinite(values), values, 0.0)


def _infinite(values: Array) -> Array:
    """What is no number is not bounded."""
    return np.where(np.isnan(values), np.inf, values)
