"""Towns to drive through: crooked streets over several hundred metres, patches of terrain, routes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tether.data import Array

HALF_WIDTH = 200.0
"""The town lies within ± this of the origin [m]."""
TERRAINS = {"dry": 1.0, "wet": 0.75, "gravel": 0.6, "snow": 0.4}
"""Peak friction, relative to the tyre's own on a dry road."""
SPACING = 0.5
"""Metres between two points of a route."""

_CROSSINGS = 5
_BLOCK = 80.0
_CROOKED = 14.0
_PATCH = 50.0
_LANE = 3.5
_ROUNDING = 7.0
_WINDING = 7.0
_SPEED_LIMITS = (8.0, 11.0, 14.0, 17.0)
_SHARES = (0.4, 0.25, 0.2, 0.15)


@dataclass(frozen=True, eq=False)
class Town:
    """Streets and terrain.

    Attributes:
        crossings: (25, 2) positions [m] of a 5 by 5 grid, none quite where a grid would put it.
        limits: (25, 25) speed limit [m/s] between two crossings.
        patches: (8, 8) friction of squares of 50 m, by row (y) and column (x).
        waves: (2, 3) direction [rad], phase [rad] and wavelength [m] of the bends, in x and in y.
    """

    crossings: Array
    limits: Array
    patches: Array
    waves: Array

    def bend(self, points: Array) -> Array:
        """Where straight streets (N, 2) really run: they wind by a few metres."""
        direction, phase, wavelength = self.waves.T
        along = points @ np.stack([np.cos(direction), np.sin(direction)])
        return points + _WINDING * np.sin(2 * np.pi * along / wavelength + phase)

    def friction(self, positions: Array) -> Array:
        """(N,) friction at positions (N, 2)."""
        last = len(self.patches) - 1
        column, row = np.clip(((positions + HALF_WIDTH) // _PATCH).astype(int), 0, last).T
        return self.patches[row, column]


@dataclass(frozen=True, eq=False)
class Route:
    """A lane to follow, as points `SPACING` apart, (L,) or (L, 2).

    Attributes:
        points: positions [m].
        curvature: [1/m], of either sign.
        limit: speed limit [m/s].
        friction: of the terrain.
        stops: where to stop [m along the route], ascending.
    """

    points: Array
    curvature: Array
    limit: Array
    friction: Array
    stops: Array


def build_town(seed: int) -> Town:
    """A town; each seed has its own."""
    rng = np.random.default_rng(seed)
    ticks = (np.arange(_CROSSINGS) - (_CROSSINGS - 1) / 2) * _BLOCK
    grid = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
    crossings = grid + rng.uniform(-_CROOKED, _CROOKED, grid.shape)
    limits = rng.choice(_SPEED_LIMITS, (len(grid), len(grid)))
    squares = int(2 * HALF_WIDTH / _PATCH)
    patches = rng.choice(list(TERRAINS.values()), (squares, squares), p=_SHARES)
    waves = rng.uniform([0.0, 0.0, 90.0], [2 * np.pi, 2 * np.pi, 140.0], (2, 3))
    return Town(crossings, np.minimum(limits, limits.T), patches, waves)


def plan_route(town: Town, rng: np.random.Generator, *, length: float) -> Route:
    """A random route of `length` metres, with lane changes and stops, from anywhere along a street."""
    skipped = rng.uniform(0.0, _BLOCK)
    visits = _wander(town, rng, streets=int((skipped + length) / (_BLOCK - 2 * _CROOKED)) + 3)
    corners = town.crossings[visits]
    middle, limit = _round_corners(corners, town.limits[visits[:-1], visits[1:]])
    points = _change_lanes(town.bend(middle), rng)
    # Points of a lane beside a bent street are no longer evenly spaced.
    along = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(points, axis=0), axis=1))])
    ticks = skipped + np.arange(0.0, length, SPACING)
    points = np.stack([np.interp(ticks, along, column) for column in points.T], axis=1)
    limit = limit[np.minimum(np.searchsorted(along, ticks), len(limit) - 1)]
    at_crossing = ticks[np.diff(limit, prepend=limit[0]) != 0] - skipped
    anywhere = rng.uniform(10.0, max(length, 11.0), max(1, int(length / 150)))
    stops = np.concatenate([at_crossing[rng.random(len(at_crossing)) < 0.4], anywhere])
    return Route(points, _curvature(points), limit, town.friction(points), np.sort(stops))


def _wander(town: Town, rng: np.random.Generator, *, streets: int) -> NDArray[np.int64]:
    """Crossings visited on a random walk that never turns back."""
    rows, columns = np.divmod(np.arange(len(town.crossings)), _CROSSINGS)
    # Streets lead to all eight neighbours, so that cars head in all directions; but not into the corners
    # of the town, where only a hairpin leads on.
    down, across = abs(rows[:, None] - rows), abs(columns[:, None] - columns)
    corner = np.isin(rows, (0, _CROSSINGS - 1)) & np.isin(columns, (0, _CROSSINGS - 1))
    slanted = (down == 1) & (across == 1) & ~corner & ~corner[:, None]
    near = (down + across == 1) | slanted
    visits = [int(rng.integers(len(town.crossings)))]
    visits.append(int(rng.choice(np.flatnonzero(near[visits[0]]))))
    while len(visits) <= streets:
        here = town.crossings[visits[-1]]
        options = np.flatnonzero(near[visits[-1]])
        ahead, before = town.crossings[options] - here, here - town.crossings[visits[-2]]
        turn = ahead @ before / (np.linalg.norm(ahead, axis=1) * np.linalg.norm(before))
        # In a corner only a sharp turn may be left; the gentlest one then.
        allowed = options[turn >= min(-0.2, turn.max())]
        visits.append(int(rng.choice(allowed)))
    return np.array(visits)


def _round_corners(corners: Array, limits: Array) -> tuple[Array, Array]:
    """Middle of the streets (L, 2) with rounded corners, and the limit (L,) there."""
    lengths = np.linalg.norm(np.diff(corners, axis=0), axis=1)
    along = np.concatenate([[0.0], np.cumsum(lengths)])
    ticks = np.arange(0.0, along[-1], SPACING)
    sharp = np.stack([np.interp(ticks, along, column) for column in corners.T], axis=1)
    reach = np.arange(-3 * _ROUNDING, 3 * _ROUNDING + SPACING, SPACING)
    kernel = np.exp(-0.5 * (reach / _ROUNDING) ** 2)
    kernel /= kernel.sum()
    middle = np.stack([np.convolve(column, kernel, mode="valid") for column in sharp.T], axis=1)
    skipped = (len(sharp) - len(middle)) // 2
    street = np.searchsorted(along, ticks[skipped : skipped + len(middle)], side="right") - 1
    return middle, limits[np.minimum(street, len(limits) - 1)]


def _change_lanes(middle: Array, rng: np.random.Generator) -> Array:
    """The lane driven in (L, 2): right of the middle, now and then left of it to overtake."""
    places = np.cumsum(rng.uniform(60.0, 160.0, 2 + int(len(middle) * SPACING / 60.0)))
    ticks = np.arange(len(middle)) * SPACING
    left = sum((-1) ** k * 0.5 * (1 + np.tanh((ticks - place) / 8.0)) for k, place in enumerate(places))
    direction = np.gradient(middle, axis=0)
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    right = np.stack([direction[:, 1], -direction[:, 0]], axis=1)
    return middle + right * (_LANE * (0.5 - np.asarray(left)))[:, None]


def _curvature(points: Array) -> Array:
    """(L,) signed curvature of points (L, 2)."""
    first = np.gradient(points, SPACING, axis=0)
    second = np.gradient(first, SPACING, axis=0)
    return (first[:, 0] * second[:, 1] - first[:, 1] * second[:, 0]) / np.linalg.norm(first, axis=1) ** 3
