"""The rows of the tables: a tether or none, and a loss; and how each is trained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

from torch import nn

from tether.data import Target
from tether.fitting.building import Built, build
from tether.fitting.config import FitConfig, TetherKind
from tether.fitting.problem import Problem
from tether.foundation.progress import Reporter, silent
from tether.learning.config import Loss
from tether.learning.examples import TrainingData
from tether.learning.history import Evaluation, History
from tether.learning.training import train
from tether.model import Model


@dataclass(frozen=True)
class Method:
    """A row of the tables: a tether or none, and a loss.

    Attributes:
        name: as the tables print it.
        tether: `interval`, `affine`, `monotone` (it cannot rise in declared inputs), `direct` (M
            at run time, bounded), `residual` (M at run time, unbounded), or None.
        loss: what is minimised.
        target: next states or increments; None: whatever the fit predicts.
    """

    name: str
    tether: TetherKind | Literal["monotone", "residual"] | None
    loss: Loss
    target: Target | None = None


VANILLA = Method("Vanilla", None, "squared_error", "next_state")
VANILLA_INCREMENT = Method("Vanilla Δ", None, "squared_error", "increment")
RESIDUAL = Method("Residual", "residual", "squared_error")
AUGMENTED_LAGRANGIAN = Method("Augmented Lagrangian", None, "augmented_lagrangian", "next_state")
CONSTRAINED = Method("Constrained", "interval", "augmented_lagrangian")
TETHERED = Method("Tethered", "affine", "squared_error")
DIRECT = Method("Direct", "direct", "squared_error")
MONOTONE = Method("Tethered, monotone", "monotone", "squared_error")
HARDNET = Method("HardNet", "affine", "squared_error")
"""Fitted with operator `project`: increments or next states, projected onto the affine tether's bounds."""


@dataclass(frozen=True, eq=False)
class TrainedRun:
    """One trained method."""

    method: Method
    model: Model
    history: History
    seed: int


def build_for(problem: Problem, method: Method, config: FitConfig, *, reporter: Reporter = silent) -> Built:
    """The tether of a method."""
    own = replace(config, bounds=method.tether) if method.tether in get_args(TetherKind) else config
    return build(problem, method.tether, own, target=method.target, reporter=reporter)


def train_method(
    problem: Problem,
    method: Method,
    config: FitConfig,
    *,
    built: Built | None = None,
    network: nn.Module | None = None,
    checkpoint: Path | None = None,
    reporter: Reporter = silent,
    on_evaluation: Callable[[list[Evaluation]], None] | None = None,
) -> TrainedRun:
    """Trains one method of the tables.

    Args:
        problem: what it learns.
        method: tether or none, and the loss.
        config: network, operator, training, seed.
        built: its tether; by default built here.
        network: a module to train instead of the usual one.
        checkpoint: file to resume from and save to.
        reporter: opens a progress display.
        on_evaluation: given all evaluations so far after each one.
    """
    built = built or build_for(problem, method, config, reporter=reporter)
    model = untrained(problem, config, built, network)
    parts = (problem.data[0], problem.probes[0], problem.data[1], problem.probes[1])
    data = TrainingData(*(part.examples(model.frame) for part in parts))
    training = replace(config.training, loss=method.loss)
    with reporter(method.name) as progress:
        history = train(
            model,
            data,
            training,
            seed=config.seed,
            checkpoint=checkpoint,
            progress=progress,
            on_evaluation=on_evaluation,
        )
    return TrainedRun(method, model, history, config.seed)


def untrained(problem: Problem, config: FitConfig, built: Built, network: nn.Module | None = None) -> Model:
    """A model before training; its guarantee, if it has one, holds already."""
    tether = built.tether
    # HardNet's projection knows nothing of an anchor, and what has no room needs no operator.
    operator = config.operator if config.operator in tether.operators else "clip"
    anchored = built.anchored and operator != "project"
    anchor = tether.rows(problem.split.train.inputs).anchor if anchored else None
    frame = problem.frame(built.target, anchor)
    return Model(network or built.network(problem, frame, config), frame, tether, operator=operator)
