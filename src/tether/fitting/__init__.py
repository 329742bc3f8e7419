"""The one way from transitions to a model, and what is measured on the way.

``prepare`` -> Problem (splits, M's answers) -> ``learn_method`` (``build`` a tether, train a network between
its limits) -> ``judge`` -> Fit: model, history, measures, certificate.
"""

from tether.fitting.adapting import Adaptation, adapt
from tether.fitting.building import Built, build
from tether.fitting.config import (
    FitConfig,
    TetherKind,
    plain_settings,
    resolve_decreasing,
    resolve_evidence,
    resolve_target,
)
from tether.fitting.fitting import Fit, Learned, fit, judge, learn_method, method_of
from tether.fitting.measures import Hold, Losses, Measures, measure, measure_losses, measure_trusted
from tether.fitting.methods import (
    AUGMENTED_LAGRANGIAN,
    CONSTRAINED,
    DIRECT,
    HARDNET,
    MONOTONE,
    RESIDUAL,
    TETHERED,
    VANILLA,
    VANILLA_INCREMENT,
    Method,
    TrainedRun,
    build_for,
    train_method,
    untrained,
)
from tether.fitting.monotone import build_monotone_tether
from tether.fitting.problem import Part, Problem, prepare
from tether.fitting.tethers import Celled, Partition, build_cells_for, build_tether

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
    "Adaptation",
    "Built",
    "Celled",
    "Fit",
    "FitConfig",
    "Hold",
    "Learned",
    "Losses",
    "Measures",
    "Method",
    "Part",
    "Partition",
    "Problem",
    "TetherKind",
    "TrainedRun",
    "adapt",
    "build",
    "build_cells_for",
    "build_for",
    "build_monotone_tether",
    "build_tether",
    "fit",
    "judge",
    "learn_method",
    "measure",
    "measure_losses",
    "measure_trusted",
    "method_of",
    "plain_settings",
    "prepare",
    "resolve_decreasing",
    "resolve_evidence",
    "resolve_target",
    "train_method",
    "untrained",
]
