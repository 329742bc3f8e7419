"""The rows of the tables: a tether or none, and a loss; and how each is trained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from tether.bounds import EVIDENCE_MARGIN
from tether.constrained import ConstrainedModel, DirectModel, UnconstrainedModel
from tether.data import Array, Target
from tether.model import Frame, Model, mlp
from tether.pipeline.config import FitConfig, TetherKind, resolve_inputs, resolve_target
from tether.pipeline.problem import Problem
from tether.pipeline.tethers import Tether
from tether.progress import Reporter, silent
from tether.tethers import tether_over
from tether.training import Evaluation, History, Loss, TrainingData, train


@dataclass(frozen=True)
class Method:
    """A row of the tables: a tether or none, and a loss.

    Attributes:
        name: as the tables print it.
        tether: `interval`, `affine` or `boxes` (cells), `direct` (M at run time, bounded), `residual` (M at
            run time, unbounded), or None.
        loss: what is minimised.
        target: next states or increments; None: whatever the fit predicts.
    """

    name: str
    tether: TetherKind | Literal["direct", "residual"] | None
    loss: Loss
    target: Target | None = None

    @property
    def celled(self) -> bool:
        """Whether it needs cells."""
        return self.tether in ("interval", "affine", "boxes")


USUAL = (256, 256)
"""Layer widths where none were asked for."""
VANILLA = Method("Vanilla", None, "squared_error", "next_state")
VANILLA_INCREMENT = Method("Vanilla Δ", None, "squared_error", "increment")
RESIDUAL = Method("Residual", "residual", "squared_error")
AUGMENTED_LAGRANGIAN = Method("Augmented Lagrangian", None, "augmented_lagrangian", "next_state")
CONSTRAINED = Method("Constrained", "interval", "augmented_lagrangian")
TETHERED = Method("Tethered", "affine", "squared_error")
DIRECT = Method("Direct", "direct", "squared_error")
HARDNET = Method("HardNet", "affine", "squared_error")
"""Fitted with operator `project`: increments or next states, projected onto the affine tether's bounds."""


@dataclass(frozen=True, eq=False)
class TrainedRun:
    """One trained method."""

    method: Method
    model: Model
    history: History
    seed: int


def train_method(
    problem: Problem,
    method: Method,
    config: FitConfig,
    *,
    tether: Tether | None = None,
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
        tether: cells and bounds, for a tethered method.
        network: a module to train instead of an MLP of `config.hidden`.
        checkpoint: file to resume from and save to.
        reporter: opens a progress display.
        on_evaluation: given all evaluations so far after each one.
    """
    model = _untrained(problem, method, config, tether, network)
    frame = model.frame
    parts = (problem.data[0], problem.probes[0], problem.data[1], problem.probes[1])
    data = TrainingData(*(part.examples(frame) for part in parts))
    training = replace(config.training, loss=method.loss, seed=config.seed)
    bare = model.network
    if config.noise:
        model.network = _NoisyFeatures(bare, _feature_noise(config, frame))
    with reporter(method.name) as progress:
        history = train(
            model, data, training, checkpoint=checkpoint, progress=progress, on_evaluation=on_evaluation
        )
    model.network = bare
    return TrainedRun(method, model, history, config.seed)


class _NoisyFeatures(nn.Module):
    """A network whose features are disturbed while it trains, and only then.

    Args:
        network: from features (N, F).
        sizes: (F,) standard deviations.
    """

    def __init__(self, network: nn.Module, sizes: Array) -> None:
        super().__init__()
        self.network = network
        self.sizes: Tensor
        self.register_buffer("sizes", torch.from_numpy(sizes), persistent=False)

    def extra_repr(self) -> str:
        """The sizes: by them a checkpoint tells that it belongs to other noise."""
        return f"sizes={self.sizes.tolist()}"

    def forward(self, features: Tensor) -> Tensor:
        """Outputs (N, P) at features (N, F)."""
        if self.training:
            features = features + self.sizes * torch.randn_like(features)
        return self.network(features)


def _feature_noise(config: FitConfig, frame: Frame) -> Array:
    """(F,) standard deviation of each feature; angles enter as sine and cosine, which are left alone."""
    schema = frame.schema
    sizes = resolve_inputs("noise", config.noise, schema, 0.0)
    if (sizes[schema.input_angles] > 0).any():
        raise ValueError(f"`noise` must not name angles ({', '.join(schema.angles)}); got some of them.")
    plain = sizes[~schema.input_angles]
    return np.concatenate([plain, np.zeros(frame.features_width - len(plain))])


def _untrained(
    problem: Problem, method: Method, config: FitConfig, tether: Tether | None, network: nn.Module | None
) -> Model:
    """The model of a method before training; its guarantee, if it has one, holds already."""
    train = problem.split.train
    wanted = tether.target if method.celled and tether else method.target or config.target
    target = resolve_target(wanted, train)

    def build(frame: Frame) -> nn.Module:
        hidden = USUAL if config.hidden is None else config.hidden
        return network or mlp(frame.features_width, len(frame.schema.outputs), hidden, seed=config.seed)

    if method.celled:
        if tether is None or tether.kind != method.tether:
            raise TypeError(f"`tether` must be an {method.tether} tether for method '{method.name}'.")
        anchor = None
        if tether.kind != "interval" and config.operator != "project":
            anchor = tether_over(tether.cells, tether.bounds).rows(train.inputs).anchor
        frame = problem.frame(target, anchor)
        return ConstrainedModel(build(frame), frame, tether.cells, tether.bounds, operator=config.operator)
    if method.tether is not None:
        examples = problem.data[0].examples(problem.frame(target))
        frame = problem.frame(target, examples.trusted)
        assert examples.target is not None
        seen = EVIDENCE_MARGIN * train.schema.distance(examples.target, examples.trusted).max(axis=0)
        width = seen if method.tether == "direct" else np.full_like(seen, np.inf)
        return DirectModel(build(frame), frame, problem.trusted, width)
    frame = problem.frame(target)
    return UnconstrainedModel(build(frame), frame)
