"""Tethers: limits on what a model may say, whatever its weights."""

from tether.tethers.affine import AffineTether
from tether.tethers.direct import DirectTether
from tether.tethers.free import FreeTether
from tether.tethers.interval import IntervalTether
from tether.tethers.tether import Room, Tether

__all__ = ["AffineTether", "DirectTether", "FreeTether", "IntervalTether", "Room", "Tether"]
