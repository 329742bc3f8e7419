"""Tethers that no increase of declared inputs can make rise: by construction, and not by a rounding either.

``network`` holds networks that cannot rise, ``tether`` limits that cannot and the model made of both,
``certifying`` checks the premises of the proof, which is in `docs/guarantees.md`.
"""

from tether.monotone.certifying import MonotoneCertificate, as_affine, certify_monotone, search
from tether.monotone.network import MonotoneNetwork
from tether.monotone.tether import MonotoneModel, MonotoneTether, is_monotone

__all__ = [
    "MonotoneCertificate",
    "MonotoneModel",
    "MonotoneNetwork",
    "MonotoneTether",
    "as_affine",
    "certify_monotone",
    "is_monotone",
    "search",
]
