"""Tethers: limits on what a model may say, whatever its weights."""

from tether.bounds import Bounds
from tether.cells import Cells
from tether.tethers.affine import AffineTether
from tether.tethers.direct import DirectTether
from tether.tethers.free import FreeTether
from tether.tethers.interval import IntervalTether
from tether.tethers.tether import Limits, Room, RowLimits, Tether

__all__ = [
    "AffineTether",
    "DirectTether",
    "FreeTether",
    "IntervalTether",
    "Limits",
    "Room",
    "RowLimits",
    "Tether",
    "tether_over",
]


def tether_over(cells: Cells, bounds: Bounds) -> IntervalTether | AffineTether:
    """The tether that keeps to `bounds`."""
    if bounds.kind == "interval":
        return IntervalTether(cells, bounds)
    return AffineTether(cells, bounds)
