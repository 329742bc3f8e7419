"""Tether: learned dynamics models that stay within a bounded distance of a model you trust.

model = tether.fit(transitions, trusted=M, probes=omega, memories=1000)
model.predict(states, controls)
tether.certify(model, M)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tether.foundation.version import __version__ as __version__

if TYPE_CHECKING:
    from tether import envs as envs
    from tether import export as export
    from tether.claims.attack import Attack, attack
    from tether.claims.certificate import certify
    from tether.claims.claims import Certificate
    from tether.claims.rollout import Rollout, rollout
    from tether.claims.tubes import (
        SystemBand,
        Tube,
        TubeAttack,
        attack_tube,
        calibrate_system,
        load_tube,
        save_tube,
        tube,
    )
    from tether.data import Emphasis, Jitter, Probes, Schema, Transitions, make_schema
    from tether.data.files import read_probes
    from tether.data.findings import LogReport
    from tether.data.logs import LogConfig, read_log, read_transitions
    from tether.evidence import Lipschitz, Proved, Sampled, SamplingConfig, Statistical
    from tether.export.verifying import verify
    from tether.files.storage import load, save
    from tether.fitting import Adaptation, FitConfig, adapt, fit
    from tether.foundation.errors import CertificateError, StorageError, TrustedModelError
    from tether.foundation.progress import console_reporter, silent
    from tether.geometry.memories import GrowingNeuralGas, Memories, fit_memories
    from tether.learning.config import TrainingConfig
    from tether.model import Model, Prediction, mlp
    from tether.model.single import SinglePrecisionModel, single_precision
    from tether.trusted import TrustedModel
    from tether.trusted.affine import AffineModel
    from tether.trusted.discretising import discretise
    from tether.trusted.loading import load_trusted
    from tether.verification import Verification

__all__ = [
    "Adaptation",
    "AffineModel",
    "Attack",
    "Certificate",
    "CertificateError",
    "Emphasis",
    "FitConfig",
    "GrowingNeuralGas",
    "Jitter",
    "Lipschitz",
    "LogConfig",
    "LogReport",
    "Memories",
    "Model",
    "Prediction",
    "Probes",
    "Proved",
    "Rollout",
    "Sampled",
    "SamplingConfig",
    "Schema",
    "SinglePrecisionModel",
    "Statistical",
    "StorageError",
    "SystemBand",
    "TrainingConfig",
    "Transitions",
    "TrustedModel",
    "TrustedModelError",
    "Tube",
    "TubeAttack",
    "Verification",
    "adapt",
    "attack",
    "attack_tube",
    "calibrate_system",
    "certify",
    "console_reporter",
    "discretise",
    "fit",
    "fit_memories",
    "load",
    "load_trusted",
    "load_tube",
    "make_schema",
    "mlp",
    "read_log",
    "read_probes",
    "read_transitions",
    "rollout",
    "save",
    "save_tube",
    "silent",
    "single_precision",
    "tube",
    "verify",
]

_HOMES = {
    "claims.attack": ("Attack", "attack"),
    "claims.certificate": ("certify",),
    "claims.claims": ("Certificate",),
    "claims.rollout": ("Rollout", "rollout"),
    "claims.tubes": (
        "SystemBand",
        "Tube",
        "TubeAttack",
        "attack_tube",
        "calibrate_system",
        "load_tube",
        "save_tube",
        "tube",
    ),
    "data": ("Emphasis", "Jitter", "Probes", "Schema", "Transitions", "make_schema"),
    "data.files": ("read_probes",),
    "data.findings": ("LogReport",),
    "data.logs": ("LogConfig", "read_log", "read_transitions"),
    "evidence": ("Lipschitz", "Proved", "Sampled", "SamplingConfig", "Statistical"),
    "export.verifying": ("verify",),
    "files.storage": ("load", "save"),
    "fitting": ("Adaptation", "FitConfig", "adapt", "fit"),
    "foundation.errors": ("CertificateError", "StorageError", "TrustedModelError"),
    "foundation.progress": ("console_reporter", "silent"),
    "geometry.memories": ("GrowingNeuralGas", "Memories", "fit_memories"),
    "learning.config": ("TrainingConfig",),
    "model": ("Model", "Prediction", "mlp"),
    "model.single": ("SinglePrecisionModel", "single_precision"),
    "trusted": ("TrustedModel",),
    "trusted.affine": ("AffineModel",),
    "trusted.discretising": ("discretise",),
    "trusted.loading": ("load_trusted",),
    "verification": ("Verification",),
}
_MODULES = ("envs", "export")
_PLACES = {name: f"{__name__}.{home}" for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Imports what is asked for, and only then: the command line must be able to say that it was stopped."""
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_PLACES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
