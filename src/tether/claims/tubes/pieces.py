"""Boxes of inputs on the circle: where they lie in the operating box, in one piece or in several.

The coordinates of a tube are on the line: an angle goes on past ±π, and stands for itself and whole turns. A
model sees angles between -π and π. A box of inputs is therefore cut where it crosses ±π, and each piece is
moved by so many turns to where the model, its leaves and the trusted model's code see it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tether.claims.tubes.zonotopes import EPS
from tether.data import Array

TURN = 2 * np.pi
MOST_PIECES = 64
"""A set that takes more of them has lost its angles."""


@dataclass(frozen=True, eq=False)
class Pieces:
    """Q boxes that hold, after whole turns, every input of N rows.

    Attributes:
        row: (Q,) which row each belongs to, ascending.
        lower: (Q, D) as the model sees them.
        upper: (Q, D).
        turns: (Q, D) whole turns: an input of the piece stands for itself plus so many.
        middle: (Q, D) a point of each piece.
        first: (N,) the first piece of each row.
        point: (N, D) where the first-order model of each row is expanded, as the model sees it.
        home: (N, D) whole turns from there to the set.
    """

    row: NDArray[np.int64]
    lower: Array
    upper: Array
    turns: Array
    middle: Array
    first: NDArray[np.int64]
    point: Array
    home: Array

    def refined(self, rows: NDArray[np.int64], shares: Array, halvings: int) -> Pieces:
        """The pieces of some rows, each cut so many times along the inputs with the largest shares (Q, D)."""
        chosen = (
            np.flatnonzero(np.isin(self.row, rows))
            if len(rows) < len(self.first)
            else np.arange(len(self.row))
        )
        counts = np.ones((len(chosen), self.lower.shape[1]))
        left = np.where(self.upper[chosen] > self.lower[chosen], shares[chosen], 0.0)
        for _ in range(halvings):
            along = np.argmax(left / counts**2, axis=1)
            counts[np.arange(len(chosen)), along] *= 2
        number, digits = _combinations(np.zeros_like(counts), counts - 1)
        piece, parts = chosen[number], counts[number]
        low, high = self.lower[piece], self.upper[piece]
        # Neighbours share their ends, which are the same floats: there are no gaps.
        lower = np.where(digits == 0, low, _between(low, high, digits, parts))
        upper = np.where(digits + 1 == parts, high, _between(low, high, digits + 1, parts))
        middle = np.clip(0.5 * lower + 0.5 * upper, lower, upper)
        row = np.searchsorted(rows, self.row[piece])
        first = np.searchsorted(row, np.arange(len(rows)))
        return Pieces(row, lower, upper, self.turns[piece], middle, first, self.point[rows], self.home[rows])


def slack_of(values: Array) -> Array:
    """At least what subtracting whole turns from values loses."""
    return 8 * EPS * (np.abs(values) + TURN)


def too_many(lower: Array, upper: Array, angles: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """(N,) whether boxes (N, D) go round the circle too often to be followed."""
    if not angles.any():
        return np.zeros(len(lower), dtype=bool)
    first, last = _turns(lower[:, angles], upper[:, angles])
    return (last - first + 1).prod(axis=1) > MOST_PIECES


def cut(lower: Array, upper: Array, center: Array, angles: NDArray[np.bool_]) -> Pieces:
    """The pieces of boxes (N, D) with centres (N, D)."""
    rows = np.arange(len(lower))
    first, last = np.zeros_like(lower), np.zeros_like(lower)
    if angles.any():
        first[:, angles], last[:, angles] = _turns(lower[:, angles], upper[:, angles])
    own = np.clip(np.floor((center + np.pi) / TURN), first, last)
    several = np.flatnonzero((last > first).any(axis=1))
    if not len(several):
        return _placed(rows, own, (lower, upper), center, angles)
    row, turns = _combinations(first[several], last[several])
    others = (turns != own[several][row]).any(axis=1)
    row, turns = several[row[others]], turns[others]
    return _placed(np.concatenate([rows, row]), np.concatenate([own, turns]), (lower, upper), center, angles)


def _combinations(first: Array, last: Array) -> tuple[NDArray[np.int64], Array]:
    """All whole numbers from first (M, D) to last, row by row, and which row each is of."""
    counts = (last - first + 1).astype(np.int64)
    total = counts.prod(axis=1)
    row = np.repeat(np.arange(len(counts)), total)
    number = np.arange(len(row)) - np.repeat(np.cumsum(total) - total, total)
    values = np.empty((len(row), first.shape[1]))
    for column in range(first.shape[1]):
        number, digit = np.divmod(number, counts[row, column])
        values[:, column] = first[row, column] + digit
    return row, values


def _placed(
    row: NDArray[np.int64], turns: Array, box: tuple[Array, Array], center: Array, angles: NDArray[np.bool_]
) -> Pieces:
    order = np.argsort(row, kind="stable")
    row, turns = row[order], turns[order]
    low, high = (_moved(end[row], turns, angles, side) for end, side in zip(box, (-1, 1), strict=True))
    high = np.maximum(low, high)
    middle = np.clip(0.5 * low + 0.5 * high, low, high)
    starts = np.searchsorted(row, np.arange(len(center)))
    middle[starts] = np.clip(center - TURN * turns[starts], low[starts], high[starts])
    return Pieces(row, low, high, turns, middle, starts, middle[starts], turns[starts])


def _between(low: Array, high: Array, part: Array, parts: Array) -> Array:
    return np.clip(low + (high - low) * (part / parts), low, high)


def _moved(ends: Array, turns: Array, angles: NDArray[np.bool_], side: int) -> Array:
    """Ends less whole turns, outward; an end within ±π without any as it is."""
    moved = np.where(turns == 0, ends, ends - TURN * turns + side * slack_of(ends))
    return np.where(angles, np.clip(moved, -np.pi, np.pi), ends)


def _turns(lower: Array, upper: Array) -> tuple[Array, Array]:
    """Whole turns of the lowest and of the highest angle; one that is near another turn may be on it."""
    inside = (lower >= -np.pi) & (upper < np.pi)  # what is at π itself the model sees at -π
    first = np.floor((lower - slack_of(lower) + np.pi) / TURN)
    last = np.floor((upper + slack_of(upper) + np.pi) / TURN)
    return np.where(inside, 0.0, first), np.where(inside, 0.0, last)
