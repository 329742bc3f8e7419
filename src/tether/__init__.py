"""Tether: learned dynamics models that stay within a bounded distance of a model you trust.

model = tether.fit(transitions, trusted=M, probes=omega, memories=1000)
model.predict(states, controls)
tether.certify(model, M)
"""

from importlib.metadata import version

from tether.adapters.callables import load_trusted
from tether.adapters.files import read_probes, read_transitions
from tether.affine import AffineModel
from tether.attack import Attack, attack
from tether.certificate import Certificate, certify
from tether.constrained import ConstrainedModel, Prediction, mlp
from tether.data import Emphasis, Jitter, Probes, Schema, Transitions, make_schema
from tether.errors import CertificateError, StorageError, TrustedModelError
from tether.memories import GrowingNeuralGas, Memories, fit_memories
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
    "Memories",
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
    "read_probes",
    "read_transitions",
    "rollout",
    "save",
    "single_precision",
    "verify",
]
