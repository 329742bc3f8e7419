"""Room: how far the learned model may leave M's first-order model, by what the data show.

The half-width of a cell is a local scale, the spread of what was observed there, times one factor for each
output. The factor is chosen on episodes that had no say in the scale, so that a stated share of what was
observed lies in the band: a claim about reality, by statistics, beside the one about M. No row alone sets it.

Episodes are the unit of chance (hierarchical conformal prediction: Lee, Barber and Willett, 2023). With every
row of an episode weighted alike and every episode too, a new row of a new episode like the n at hand lies
within the q-quantile of their scores with probability of at least q n / (n + 1).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tether.data import Array
from tether.geometry.cells import Cells

Unseen = Literal["follow", "open"]
Numbers = NDArray[np.int64]

_FOLDS = 5
_QUANTILE = 0.75
"""Of the distances observed in a cell, that is its scale: a quarter of them may be wild."""
_PRIOR = 20
"""Rows that the scale of all cells together counts for in each."""
_WILD = 3.0
"""Rows so many half-widths away from M are listed."""
_MOST_LISTED = 20


@dataclass(frozen=True, eq=False)
class Band:
    """The statistical claim that comes with the room.

    Attributes:
        alpha: share of rows that may lie outside the band, as asked for.
        inside: share of the rows it was calibrated on that lie inside, of the output with the least; fewer
            than asked for where there is no room although reality leaves M: where probes or a delta close
            it, or where other episodes never were.
        episodes: how many it was calibrated on.
        factor: (P,) half-widths in units of the local scale.
        rows: training rows to look at: far outside, farthest first.
    """

    alpha: float
    inside: float
    episodes: int
    factor: Array
    rows: tuple[int, ...]

    @property
    def probability(self) -> float:
        """At least how likely a new row of a new episode lies in the band.

        Where there is no room for more rows than alpha allows, no quantile holds what is claimed: what lies
        inside was seen on the rows that the factor was chosen by, and two episodes more may be outside.
        """
        if self.inside >= 1 - self.alpha:
            return (1 - self.alpha) * self.episodes / (self.episodes + 1)
        return max(0.0, self.inside - 2 / (self.episodes + 1))


@dataclass(frozen=True, eq=False)
class Spread:
    """What was observed.

    Attributes:
        cell: (N,) of each row.
        distance: (N, P) from M's first-order model.
        episode: (N,) which row belongs to which.
        opening: (N,) share of the half-width that is open at each row, which probes may close.
        most: (N, P), or what goes for all: half-width that a delta leaves; by default any.
    """

    cell: Numbers
    distance: Array
    episode: NDArray
    opening: Array
    most: Array = field(default_factory=lambda: np.array(np.inf))

    def part(self, rows: NDArray[np.bool_]) -> Spread:
        """Some rows."""
        return Spread(self.cell[rows], self.distance[rows], self.episode[rows], self.opening[rows])


def calibrate_room(
    cells: Cells, seen: Spread, *, alpha: float, unseen: Unseen = "follow"
) -> tuple[Array, Band]:
    """(K, P) half-widths and the claim that comes with them.

    Args:
        cells: where the data are.
        seen: labelled data that is not kept for testing.
        alpha: share of rows that may lie outside.
        unseen: a cell without data follows M (its half-width is 0), or is as open as the widest.
    """
    scale, met = _elsewhere(cells, seen)
    counted = met | (unseen == "open")
    # Without any spread elsewhere, nothing but M itself is near.
    score = np.divide(seen.distance, scale, out=np.where(seen.distance > 0, np.inf, 0.0), where=scale > 0)
    weight = _weights(seen.episode)
    # Half of alpha, because the next episodes are others: what is claimed is alpha.
    factor = np.array([_quantile(column[counted], weight[counted], 1 - alpha / 2) for column in score.T])
    half_width = factor * local_scale(cells, seen)
    labelled = _visited(cells, seen.cell)
    widest = half_width[labelled].max(axis=0, initial=0.0)
    half_width[~labelled] = 0.0 if unseen == "follow" else widest
    beyond = np.divide(score, factor, out=np.zeros_like(score), where=factor > 0).max(axis=1, initial=0.0)
    wild = np.argsort(-beyond, kind="stable")[:_MOST_LISTED]
    rows = tuple(int(row) for row in wild if beyond[row] > _WILD)
    room = np.minimum(factor * scale * (counted * seen.opening)[:, None], seen.most)
    least = float((weight[:, None] * (seen.distance <= room)).sum(axis=0).min(initial=1.0))
    return half_width, Band(alpha, least, len(np.unique(seen.episode)), factor, rows)


def local_scale(cells: Cells, seen: Spread) -> Array:
    """(K, P) spread of distances in each cell and around it, drawn towards that of all where rows are few."""
    whole = np.quantile(seen.distance, _QUANTILE, axis=0, method="higher")
    owner, rows = _around(cells, seen.cell)
    count = np.bincount(owner, minlength=len(cells))
    scale = np.zeros((len(cells), seen.distance.shape[1]))
    some = np.flatnonzero(count)
    last = np.cumsum(count)
    place = last[some] - count[some] + np.ceil(_QUANTILE * (count[some] - 1)).astype(np.int64)
    for output, column in enumerate(seen.distance.T):
        order = np.lexsort((column[rows], owner))
        scale[some, output] = column[rows[order[place]]]
    share = (count / (count + _PRIOR))[:, None]
    return share * scale + (1 - share) * whole


def _visited(cells: Cells, cell: Numbers) -> NDArray[np.bool_]:
    """(K,) whether there are rows in a cell or in a neighbour of it."""
    own = np.bincount(cell, minlength=len(cells)) > 0
    found, (one, two) = own.copy(), cells.edges.T
    np.logical_or.at(found, one, own[two])
    np.logical_or.at(found, two, own[one])
    return found


def _around(cells: Cells, cell: Numbers) -> tuple[Numbers, Numbers]:
    """Pairs of a cell and a row that lies in it or in a neighbour of it."""
    order = np.argsort(cell, kind="stable")
    count = np.bincount(cell, minlength=len(cells))
    first = np.cumsum(count) - count
    own = np.arange(len(cells))
    owners = np.concatenate([own, cells.edges[:, 0], cells.edges[:, 1]])
    sources = np.concatenate([own, cells.edges[:, 1], cells.edges[:, 0]])
    sizes = count[sources]
    starts = np.repeat(first[sources] - (np.cumsum(sizes) - sizes), sizes)
    return np.repeat(owners, sizes), order[starts + np.arange(sizes.sum())]


def _elsewhere(cells: Cells, seen: Spread) -> tuple[Array, NDArray[np.bool_]]:
    """(N, P) the local scale at each row that other episodes show, (N,) whether one of them was around."""
    names, number = np.unique(seen.episode, return_inverse=True)
    fold = np.random.default_rng(0).permutation(len(names))[number] % min(_FOLDS, len(names))
    scale, met = np.empty_like(seen.distance), np.empty(len(fold), dtype=bool)
    for k in np.unique(fold):
        mine = fold == k
        others = seen.part(~mine) if (~mine).any() else seen
        scale[mine] = local_scale(cells, others)[seen.cell[mine]]
        met[mine] = _visited(cells, others.cell)[seen.cell[mine]]
    return scale, met


def _weights(episode: NDArray) -> Array:
    """(N,) so that each episode counts alike, one in all."""
    names, number, count = np.unique(episode, return_inverse=True, return_counts=True)
    return 1 / (len(names) * count[number])


def _quantile(values: Array, weight: Array, share: float) -> float:
    """The least value that has the share at or below it, and no more than the largest finite one."""
    if not len(values):
        return 0.0
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weight[order])
    place = min(int(np.searchsorted(total, share * total[-1] * (1 - 1e-12))), len(values) - 1)
    finite = values[np.isfinite(values)]
    return float(min(values[order[place]], finite.max(initial=0.0)))
