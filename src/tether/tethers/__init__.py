"""Tethers: limits on what a model may say, whatever its weights."""

from typing import Any

from tether.geometry.cells import Cells
from tether.tethers.affine import AffineTether
from tether.tethers.bounds import Bounds
from tether.tethers.direct import DirectTether
from tether.tethers.free import FreeTether
from tether.tethers.interval import IntervalTether
from tether.tethers.tether import Limits, Room, RowLimits, RowRoom, Tether

__all__ = [
    "AffineTether",
    "DirectTether",
    "FreeTether",
    "IntervalTether",
    "Limits",
    "Room",
    "RowLimits",
    "RowRoom",
    "Tether",
    "tether_over",
]


def tether_over(cells: Cells, bounds: Bounds) -> IntervalTether | AffineTether:
    """The tether that keeps to `bounds`."""
    return _KINDS[bounds.kind](cells, bounds)


_KINDS: dict[str, Any] = {kind.kind: kind for kind in (IntervalTether, AffineTether)}
