"""What takes every memory for every input is quadratic: parts, for where there are very many of both.

Memories are put into parts around a few of them. An input asks its own part first, and then only those whose
every memory could be nearer; what it finds is what asking all would find, bit by bit.
"""

from __future__ import annotations

import numpy as np

from tether.geometry.nearest import Nearest, NearestIndex

_ROWS = 16_384
"""Inputs whose distances to all parts are held at once."""
_SLACK = 1e-9
"""Far more than distances in float64 round by, relative to the numbers they are computed from."""


class PartedIndex:
    """:class:`NearestIndex` for very many memories that are not spread evenly.

    Args:
        memories: (K, D) float64.
    """

    def __init__(self, memories: np.ndarray) -> None:
        count = round(np.sqrt(len(memories)))
        self.centers = memories[:: max(1, len(memories) // count)]
        own = NearestIndex(self.centers).query(memories)
        order = np.argsort(own.cell, kind="stable")
        parts = np.split(order, np.searchsorted(own.cell[order], np.arange(1, len(self.centers))))
        # A centre that is there twice has no memories of its own.
        kept = [k for k, members in enumerate(parts) if len(members)]
        self.members = [parts[k] for k in kept]
        self.centers = np.ascontiguousarray(self.centers[kept])
        self.radii = np.array([np.sqrt(own.squared_distance[part].max()) for part in self.members])
        self.indices = [NearestIndex(np.ascontiguousarray(memories[part])) for part in self.members]
        self.size = float(np.abs(memories).max())

    def query(self, inputs: np.ndarray) -> Nearest:
        """The nearest memory of each input (N, D); of equally near ones the first, as asking all finds it."""
        pieces = [self._query(inputs[start : start + _ROWS]) for start in range(0, len(inputs), _ROWS)]
        return Nearest(
            np.concatenate([piece.cell for piece in pieces]),
            np.concatenate([piece.squared_distance for piece in pieces]),
        )

    def _query(self, inputs: np.ndarray) -> Nearest:
        found = Nearest(np.zeros(len(inputs), np.int64), np.full(len(inputs), np.inf))
        own = NearestIndex(self.centers).query(inputs).cell
        for part in np.unique(own):
            self._ask(int(part), inputs, np.flatnonzero(own == part), found)
        slack = _SLACK * (self.size + np.abs(inputs).max()) * np.sqrt(inputs.shape[1])
        reach = np.sqrt(found.squared_distance) + slack
        for part, (center, radius) in enumerate(zip(self.centers, self.radii, strict=True)):
            # No memory of the part is nearer than the centre is, less its radius.
            away = np.sqrt(np.square(inputs - center).sum(axis=1)) - radius
            self._ask(part, inputs, np.flatnonzero((away <= reach) & (own != part)), found)
        return found

    def _ask(self, part: int, inputs: np.ndarray, rows: np.ndarray, found: Nearest) -> None:
        """Keeps what is nearer in one part, or as near and before in the order of all memories."""
        if len(rows) == 0:
            return
        asked = self.indices[part].query(np.ascontiguousarray(inputs[rows]))
        cell = self.members[part][asked.cell]
        before, known = found.squared_distance[rows], found.cell[rows]
        squared = asked.squared_distance
        nearer = (squared < before) | ((squared == before) & (cell < known))
        found.cell[rows[nearer]], found.squared_distance[rows[nearer]] = cell[nearer], squared[nearer]


def shared_out(count: int, wanted: np.ndarray, most: np.ndarray) -> np.ndarray:
    """(P,) whole numbers that sum to `count`, in proportion to `wanted` (P,), 1 or more, at most `most` (P,).

    There must be as many: `most` sums to `count` or more, is 1 or more, and `count` is P or more.
    """
    given = np.minimum(most, np.maximum(1, np.floor(count * wanted / wanted.sum()))).astype(np.int64)
    while (left := count - int(given.sum())) > 0:
        room = np.flatnonzero(given < most)
        urgent = room[np.argsort(-wanted[room] / (given[room] + 1), kind="stable")]
        given[urgent[:left]] += 1
    while (over := int(given.sum()) - count) > 0:
        more = np.flatnonzero(given > 1)
        given[more[np.argsort(wanted[more] / given[more], kind="stable")][:over]] -= 1
    return given
