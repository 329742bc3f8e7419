"""The whole way from transitions to a constrained model, and what is measured on the way.

``prepare`` -> Problem (splits, M's answers) -> ``build_tether`` -> cells and bounds ->
``train_method`` -> model and history -> ``measure`` -> one run of ``results.json``.
"""

from tether.pipeline.config import (
    FitConfig,
    TetherKind,
    resolve_decreasing,
    resolve_evidence,
    resolve_target,
)
from tether.pipeline.fitting import fit, record
from tether.pipeline.growing import build_tether_within
from tether.pipeline.measures import measure, measure_losses, measure_trusted
from tether.pipeline.methods import (
    AUGMENTED_LAGRANGIAN,
    CONSTRAINED,
    DIRECT,
    HARDNET,
    RESIDUAL,
    TETHERED,
    VANILLA,
    VANILLA_INCREMENT,
    Method,
    TrainedRun,
    train_method,
)
from tether.pipeline.monotone import MONOTONE, build_monotone_tether, monotone_model, train_monotone
from tether.pipeline.problem import Part, Problem, prepare
from tether.pipeline.tethers import Partition, Tether, build_cells_for, build_tether, pinned_inputs

__all__ = [
    "AUGMENTED_LAGRANGIAN",
    "CONSTRAINED",
    "DIRECT",
    "HARDNET",
    "MONOTONE",
    "RESIDUAL",
    "TETHERED",
    "VANILLA",
    "VANILLA_INCREMENT",
    "FitConfig",
    "Method",
    "Part",
    "Partition",
    "Problem",
    "Tether",
    "TetherKind",
    "TrainedRun",
    "build_cells_for",
    "build_monotone_tether",
    "build_tether",
    "build_tether_within",
    "fit",
    "measure",
    "measure_losses",
    "measure_trusted",
    "monotone_model",
    "pinned_inputs",
    "prepare",
    "record",
    "resolve_decreasing",
    "resolve_evidence",
    "resolve_target",
    "train_method",
    "train_monotone",
]
