"""Certified tubes: many steps ahead, for any weights."""

from tether.claims.tubes.tube import Tube, tube

__all__ = ["Tube", "tube"]
