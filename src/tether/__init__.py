"""Tether: learned dynamics models that stay within a bounded distance of a model you trust.

model = tether.fit(transitions, trusted=M, probes=omega, memories=1000)
model.predict(states, controls)
tether.certify(model, M)
"""

import sys
from importlib import import_module
from importlib.metadata import version
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tether.adapters.callables import load_trusted
    from tether.adapters.files import read_probes
    from tether.affine import AffineModel
    from tether.attack import Attack, attack
    from tether.certificate import Certificate, certify
    from tether.constrained import ConstrainedModel
    from tether.data import Emphasis, Jitter, Probes, Schema, Transitions, make_schema
    from tether.errors import CertificateError, StorageError, TrustedModelError
    from tether.findings import LogReport
    from tether.logs import LogConfig, read_log, read_transitions
    from tether.memories import GrowingNeuralGas, Memories, fit_memories
    from tether.model import Model, Prediction, mlp
    from tether.monotone import MonotoneCertificate, MonotoneModel
    from tether.pipeline import FitConfig, fit
    from tether.progress import console_reporter
    from tether.ranges import SamplingConfig
    from tether.rollout import rollout
    from tether.single import SinglePrecisionModel, single_precision
    from tether.storage import load, save
    from tether.training import TrainingConfig
    from tether.trusted import TrustedModel
    from tether.verification import Verification, verify

__version__ = version("tether")

__all__ = [
    "AffineModel",
    "Attack",
    "Certificate",
    "CertificateError",
    "ConstrainedModel",
    "Emphasis",
    "FitConfig",
    "GrowingNeuralGas",
    "Jitter",
    "LogConfig",
    "LogReport",
    "Memories",
    "Model",
    "MonotoneCertificate",
    "MonotoneModel",
    "Prediction",
    "Probes",
    "SamplingConfig",
    "Schema",
    "SinglePrecisionModel",
    "StorageError",
    "TrainingConfig",
    "Transitions",
    "TrustedModel",
    "TrustedModelError",
    "Verification",
    "attack",
    "certify",
    "console_reporter",
    "fit",
    "fit_memories",
    "load",
    "load_trusted",
    "make_schema",
    "mlp",
    "read_log",
    "read_probes",
    "read_transitions",
    "rollout",
    "save",
    "single_precision",
    "verify",
]

_HOMES = {
    "adapters.callables": ("load_trusted",),
    "adapters.files": ("read_probes",),
    "affine": ("AffineModel",),
    "attack": ("Attack", "attack"),
    "certificate": ("Certificate", "certify"),
    "constrained": ("ConstrainedModel",),
    "data": ("Emphasis", "Jitter", "Probes", "Schema", "Transitions", "make_schema"),
    "errors": ("CertificateError", "StorageError", "TrustedModelError"),
    "findings": ("LogReport",),
    "logs": ("LogConfig", "read_log", "read_transitions"),
    "memories": ("GrowingNeuralGas", "Memories", "fit_memories"),
    "model": ("Model", "Prediction", "mlp"),
    "monotone": ("MonotoneCertificate", "MonotoneModel"),
    "pipeline": ("FitConfig", "fit"),
    "progress": ("console_reporter",),
    "ranges": ("SamplingConfig",),
    "rollout": ("rollout",),
    "single": ("SinglePrecisionModel", "single_precision"),
    "storage": ("load", "save"),
    "training": ("TrainingConfig",),
    "trusted": ("TrustedModel",),
    "verification": ("Verification", "verify"),
}
_PLACES = {name: f"{__name__}.{home}" for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Imports what is asked for, and only then: the command line must be able to say that it was stopped."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_PLACES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """A package whose function `attack` is not hidden by its module of that name once that is imported."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _PLACES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
