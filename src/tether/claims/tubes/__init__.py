"""Certified tubes: many steps ahead, for any weights."""

from tether.claims.tubes.attacking import TubeAttack, attack_tube
from tether.claims.tubes.making import Tube, tube
from tether.claims.tubes.reaching import Reached, Reaching
from tether.claims.tubes.storing import load_tube, save_tube
from tether.claims.tubes.system import SystemBand, calibrate_system, nominal

__all__ = [
    "Reached",
    "Reaching",
    "SystemBand",
    "Tube",
    "TubeAttack",
    "attack_tube",
    "calibrate_system",
    "load_tube",
    "nominal",
    "save_tube",
    "tube",
]
