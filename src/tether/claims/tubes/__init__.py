"""Certified tubes: many steps ahead, for any weights."""

from tether.claims.tubes.attacking import TubeAttack, attack_tube
from tether.claims.tubes.tube import Tube, tube

__all__ = ["Tube", "TubeAttack", "attack_tube", "tube"]
