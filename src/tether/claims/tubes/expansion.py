"""First-order models of a program over pieces of sets, and how far the program is from them.

For a row, ``L(s) = value + slope (s - point)``. Over a piece with middle m, by the mean-value theorem along
the segment from m to s, ``|F(s) - F(m) - slope (s - m)|`` is at most the mean, over shells around m, of the
derivative's largest deviation from the slope, times the way (see
:func:`tether.evidence.expansions.expand_boxes`); ``F(m) - L(m)``, with its sign, is added. F's range over
the piece is another bound. Both hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tether.claims.tubes.pieces import TURN, Pieces
from tether.claims.tubes.zonotopes import EPS, FAINT
from tether.data import Array
from tether.evidence.curvature import faintly, over_way
from tether.programs import Program, evaluate

SHELLS = 4
"""Nested boxes over which derivatives are enclosed; with 4 the remainder is 0.63 of what one would give."""
LESS_THAN_A_TURN = 6.28
"""Two numbers this near to one another that are the same up to turns are the same."""


Over = tuple[Array, Array]
"""(C, Q, P) values of lines at the middles of pieces, and how far these may be from the exact ones."""


class Away(NamedTuple):
    """Where a program is beside lines.

    Attributes:
        low: (C, Q, P) at most the program less the line.
        high: (C, Q, P) at least that.
        shares: (C, Q, P, D) what each input contributes to the doubt; infinite where that is not known.
    """

    low: Array
    high: Array
    shares: Array


@dataclass(frozen=True, eq=False)
class Lines:
    """C candidates for the first-order model of each of N rows and P outputs.

    Attributes:
        value: (C, N, P) at the row's point.
        slope: (C, N, P, D).
    """

    value: Array
    slope: Array

    def over(self, pieces: Pieces, angles: NDArray[np.bool_]) -> Over:
        """(C, Q, P) values at the middles of pieces, and how far these may be from the exact ones."""
        row = pieces.row
        turned = TURN * (pieces.turns - pieces.home[row]) * angles
        way = pieces.middle - pieces.point[row] + turned
        slope, value = self.slope[:, row], self.value[:, row]
        size = np.abs(value) + np.einsum("cqpd,qd->cqp", np.abs(slope), np.abs(way))
        loose = np.einsum("cqpd,qd->cqp", np.abs(slope), 8 * EPS * np.abs(turned))
        moved = value + np.einsum("cqpd,qd->cqp", slope, way)
        own = ((pieces.middle == pieces.point[row]) & (turned == 0)).all(axis=1)[:, None]
        error = (way.shape[1] + 8) * EPS * size + loose + FAINT
        return np.where(own, value, moved), np.where(own, 0.0, error)

    def take(self, rows: NDArray[np.int64]) -> Lines:
        """Of some rows."""
        return Lines(self.value[:, rows], self.slope[:, rows])

    def chosen(self, best: NDArray[np.int64]) -> tuple[Array, Array]:
        """(N, P) and (N, P, D) of the candidates (N, P)."""
        pick = best[None]
        value = np.take_along_axis(self.value, pick, axis=0)[0]
        return value, np.take_along_axis(self.slope, pick[..., None], axis=0)[0]


@dataclass(frozen=True, eq=False)
class Expansion:
    """A program with P outputs over Q pieces.

    Attributes:
        low: (Q, P) its range; NaN where it has none.
        high: (Q, P).
        rounding: (Q, P) how far NumPy's value is from the exact one.
        point_low: (Q, P) its value at the middles.
        point_high: (Q, P).
        point_slope: (Q, P, D) its derivative there.
        slope_low: (S, Q, P, D) its derivative over shells, the whole piece last.
        slope_high: (S, Q, P, D).
        reach: (Q, D) the largest way from the middle.
    """

    low: Array
    high: Array
    rounding: Array
    point_low: Array
    point_high: Array
    point_slope: Array
    slope_low: Array
    slope_high: Array
    reach: Array

    @classmethod
    def of(
        cls, program: Program, pieces: Pieces, shells: int = SHELLS, rounding: Array | None = None
    ) -> Expansion:
        """The program there; one call of the interpreter. The number of shells is a power of two.

        Bounding roundings takes half of the time: `rounding` (Q, P) has them where they are known.
        """
        middle, lower, upper = pieces.middle, pieces.lower, pieces.upper
        shares = [k / shells for k in range(1, shells)]
        below = [middle, *(_shrunk(lower, middle, share, -1) for share in shares), lower]
        above = [middle, *(_shrunk(upper, middle, share, 1) for share in shares), upper]
        found = evaluate(
            program, np.concatenate(below), np.concatenate(above), derivatives=True, rounding=rounding is None
        )
        parts = {
            name: part.reshape(shells + 1, len(lower), *part.shape[1:]) for name, part in vars(found).items()
        }
        steep = parts["jacobian_lower"], parts["jacobian_upper"]
        return cls(
            low=parts["lower"][-1], high=parts["upper"][-1],
            rounding=parts["rounding"][-1] if rounding is None else rounding,
            point_low=parts["lower"][0], point_high=parts["upper"][0],
            point_slope=0.5 * steep[0][0] + 0.5 * steep[1][0],
            slope_low=steep[0][1:], slope_high=steep[1][1:],
            reach=np.maximum(upper - middle, middle - lower) * (1 + EPS),
        )  # fmt: skip

    def candidates(self, first: NDArray[np.int64]) -> Lines:
        """The derivative at the centre, what is in the middle of all of it, and the range alone."""
        value = _finite(0.5 * self.point_low + 0.5 * self.point_high)[first]
        middle = _finite(0.5 * self.slope_low[-1] + 0.5 * self.slope_high[-1])[first]
        point = _finite(self.point_slope)[first]
        ranged = _finite(0.5 * self.low + 0.5 * self.high)[first]
        return Lines(np.stack([value, value, ranged]), np.stack([point, middle, np.zeros_like(point)]))

    def away(self, slope: Array, turning: NDArray[np.bool_], over: Over) -> Away:
        """What the program is beyond the lines, whose values are at the middles; up to turns, where it turns.

        Args:
            slope: (C, Q, P, D) of the candidates.
            turning: (P,) outputs that are angles.
            over: values of the lines at the middles of the pieces (C, Q, P), and how far these may be off.
        """
        values, errors = over
        with np.errstate(invalid="ignore", over="ignore"):
            moved, more = _turned(values, self.point_low, self.point_high, turning)
            more = more + errors
            shares = self._along(slope)
            reach = (
                shares.sum(axis=-1) * (1 + (slope.shape[-1] + 8) * EPS) + self.rounding * (1 + 4 * EPS) + more
            )
            spread = (
                np.einsum("cqpd,qd->cqp", np.abs(slope), self.reach) * (1 + (slope.shape[-1] + 8) * EPS)
                + more
            )
            low = np.fmax(_less(self.point_low, moved, reach), _less(self.low, moved, spread))
            high = np.fmin(_more(self.point_high, moved, reach), _more(self.high, moved, spread))
            unknown = np.isnan(self.low) | np.isnan(self.high) | np.isnan(low) | np.isnan(high)
        return Away(np.where(unknown, -np.inf, low), np.where(unknown, np.inf, high), shares)

    def _along(self, slope: Array) -> Array:
        """(C, Q, P, D) what the derivative's deviation from the slopes (C, Q, P, D) makes of the way."""
        deviation = np.zeros_like(slope)
        for low, high in zip(self.slope_low, self.slope_high, strict=True):
            beyond = np.maximum(high - slope, slope - low)
            deviation = deviation + faintly(beyond) / len(self.slope_low)
        deviation = faintly((deviation + 4 * EPS * np.abs(slope)) * (1 + 32 * EPS))
        moved = over_way(deviation, self.reach[:, None])
        return np.where(np.isnan(moved), np.inf, moved)


def both(
    one: tuple[Array, Array], other: tuple[Array, Array], turning: NDArray[np.bool_]
) -> tuple[Array, Array]:
    """What lies in both of two intervals (..., P); of angles, each of which is up to turns of its own.

    Where both together reach over less than a turn, a number is in each of them with the same turns. Where
    they do not, what is in both says nothing, and the narrower one is taken.
    """
    low, high = np.maximum(one[0], other[0]), np.minimum(one[1], other[1])
    if not turning.any():
        return low, high
    together = np.maximum(one[1], other[1]) - np.minimum(one[0], other[0]) < LESS_THAN_A_TURN
    narrower = other[1] - other[0] < one[1] - one[0]
    apart = turning & ~together
    return tuple(
        np.where(apart, np.where(narrower, second, first), end)
        for first, second, end in ((one[0], other[0], low), (one[1], other[1], high))
    )  # type: ignore[return-value]


def _less(value: Array, line: Array, reach: Array) -> Array:
    """``value - line - reach``, rounded down."""
    gap = value - line
    return gap - reach - 4 * EPS * (np.abs(gap) + reach)


def _more(value: Array, line: Array, reach: Array) -> Array:
    """``value - line + reach``, rounded up."""
    gap = value - line
    return gap + reach + 4 * EPS * (np.abs(gap) + reach)


def _turned(values: Array, low: Array, high: Array, turning: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Values near what lies between low and high by whole turns, and what that loses; others as they are."""
    count = np.round((0.5 * low + 0.5 * high - values) / TURN)
    count = np.where(turning & np.isfinite(count), count, 0.0)
    return values + TURN * count, 8 * EPS * (TURN * np.abs(count) + np.abs(values)) * (count != 0)


def _shrunk(end: Array, middle: Array, share: float, side: int) -> Array:
    """An end of the box shrunk around its middle, outward."""
    inner = middle + share * (end - middle) + side * 4 * EPS * np.maximum(np.abs(end), np.abs(middle))
    inner = np.minimum(inner, end) if side > 0 else np.maximum(inner, end)
    return np.where(end == middle, end, inner)


def _finite(values: Array) -> Array:
    return np.where(np.isfinite(values), values, 0.0)
