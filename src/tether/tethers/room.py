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
from tether.foundation.kernels import compiled, in_threads
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
        sound: (N,) which rows have a say: those that are no glitches.
        opening: (N,) share of the half-width that is open at each row, which probes may close.
        most: (N, P), or what goes for all: half-width that a delta leaves; by default any.
    """

    cell: Numbers
    distance: Array
    episode: NDArray
    sound: NDArray[np.bool_]
    opening: Array
    most: Array = field(default_factory=lambda: np.array(np.inf))

    def part(self, rows: NDArray[np.bool_]) -> Spread:
        """Some rows."""
        return Spread(
            self.cell[rows], self.distance[rows], self.episode[rows], self.sound[rows], self.opening[rows]
        )


def calibrate_room(
    cells: Cells, seen: Spread, *, alpha: float, unseen: Unseen = "follow"
) -> tuple[Array, Band]:
    """(K, P) half-widths and the claim that comes with them.

    Glitches set neither scale nor factor, or a few of them would open the room as far as they went; what
    is claimed counts them like all other rows.

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
    ruling = counted & seen.sound
    # Half of alpha, because the next episodes are others: what is claimed is alpha, of glitches as well.
    share = max(1 - alpha / 2, min(1.0, (1 - alpha) / max(float(weight[seen.sound].sum()), alpha)))
    factor = np.array([_quantile(column[ruling], weight[ruling], share) for column in score.T])
    usual = seen.part(seen.sound)
    half_width = factor * local_scale(cells, usual)
    labelled = _visited(cells, usual.cell)
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
    around = _Around.of(cells, seen.cell)
    scale = np.zeros((len(cells), seen.distance.shape[1]))
    for output, column in enumerate(seen.distance.T):
        scale[:, output] = around.quantile(column)
    count = around.count[:, None]
    share = count / (count + _PRIOR)
    return share * scale + (1 - share) * whole


def _visited(cells: Cells, cell: Numbers) -> NDArray[np.bool_]:
    """(K,) whether there are rows in a cell or in a neighbour of it."""
    own = np.bincount(cell, minlength=len(cells)) > 0
    found, (one, two) = own.copy(), cells.edges.T
    np.logical_or.at(found, one, own[two])
    np.logical_or.at(found, two, own[one])
    return found


@dataclass(frozen=True, eq=False)
class _Around:
    """Rows that lie in a cell or in a neighbour of it.

    There are as many pairs of these as rows times neighbours, dozens of times the data where inputs are many:
    they are looked at cell by cell, and never held.

    Attributes:
        order: (N,) rows, cell by cell.
        first: (K + 1,) where those of each cell begin.
        begin: (K + 1,) where the list of each cell begins in `near`.
        near: the cell itself and its neighbours.
    """

    order: Numbers
    first: Numbers
    begin: Numbers
    near: Numbers

    @classmethod
    def of(cls, cells: Cells, cell: Numbers) -> _Around:
        """From the cell (N,) of each row."""
        own = np.arange(len(cells))
        owners = np.concatenate([own, cells.edges[:, 0], cells.edges[:, 1]])
        sources = np.concatenate([own, cells.edges[:, 1], cells.edges[:, 0]])
        near = sources[np.argsort(owners, kind="stable")]
        return cls(
            np.argsort(cell, kind="stable"), _begins(cell, len(cells)), _begins(owners, len(cells)), near
        )

    @property
    def count(self) -> Numbers:
        """(K,) how many rows there are around each cell."""
        return np.add.reduceat(np.diff(self.first)[self.near], self.begin[:-1])

    def quantile(self, values: Array) -> Array:
        """(K,) of values (N,) around each cell; 0 where there are none."""
        found, ordered = np.zeros(len(self.begin) - 1), values[self.order]

        def run(part: slice) -> None:
            _select(ordered, self.first, self.begin, self.near, part.start, part.stop, _QUANTILE, found)

        in_threads(run, len(found))
        return found


def _begins(owner: Numbers, count: int) -> Numbers:
    """(K + 1,) where each of K owners begins in a sorted list."""
    return np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=count))])


@compiled
def _at_place(values, place):
    """The value that sorting would put there; values are moved. NumPy's own takes ten seconds to compile."""
    low, high = 0, len(values) - 1
    while low < high:
        pivot, left, right = values[(low + high) // 2], low, high
        while left <= right:
            while values[left] < pivot:
                left += 1
            while values[right] > pivot:
                right -= 1
            if left <= right:
                values[left], values[right] = values[right], values[left]
                left += 1
                right -= 1
        if place <= right:
            high = right
        elif place >= left:
            low = left
        else:
            return values[place]
    return values[place]


@compiled
def _select(values, first, begin, near, start, stop, share, found):
    """The value at a share of those around each cell, counted upward."""
    for cell in range(start, stop):
        neighbours = near[begin[cell] : begin[cell + 1]]
        total = 0
        for k in neighbours:
            total += first[k + 1] - first[k]
        if total == 0:
            continue
        around = np.empty(total)
        filled = 0
        for k in neighbours:
            size = first[k + 1] - first[k]
            around[filled : filled + size] = values[first[k] : first[k + 1]]
            filled += size
        found[cell] = _at_place(around, int(np.ceil(share * (total - 1))))


def _elsewhere(cells: Cells, seen: Spread) -> tuple[Array, NDArray[np.bool_]]:
    """(N, P) the local scale at each row that other episodes show, (N,) whether one of them was around."""
    names, number = np.unique(seen.episode, return_inverse=True)
    fold = np.random.default_rng(0).permutation(len(names))[number] % min(_FOLDS, len(names))
    scale, met = np.empty_like(seen.distance), np.empty(len(fold), dtype=bool)
    for k in np.unique(fold):
        mine = fold == k
        usual = ~mine & seen.sound
        others = seen.part(usual if usual.any() else seen.sound)
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
