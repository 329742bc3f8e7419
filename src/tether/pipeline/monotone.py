"""A tether that no increase of declared inputs can make rise, from data to trained model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from tether.bounds import EVIDENCE_MARGIN, pooled_deviation
from tether.cells import build_cells
from tether.data import Schema
from tether.memories import fit_memories
from tether.monotone import MonotoneModel, MonotoneNetwork, MonotoneTether
from tether.pipeline.config import FitConfig, resolve_decreasing, resolve_inputs
from tether.pipeline.methods import USUAL, Method, TrainedRun
from tether.pipeline.problem import Problem
from tether.pipeline.tethers import pinned_inputs
from tether.progress import Reporter, silent
from tether.training import Evaluation, TrainingData, train

MONOTONE = Method("Tethered, monotone", "affine", "squared_error")


def build_monotone_tether(
    problem: Problem, config: FitConfig, *, reporter: Reporter = silent
) -> MonotoneTether:
    """Cells over everything but `config.decreasing`, as wide as the labelled data of each ask for."""
    schema = problem.split.train.schema
    trusted = resolve_decreasing(config.decreasing, schema, problem.trusted)
    declared = np.array([k for k, name in enumerate(schema.inputs) if name in config.decreasing])
    seen = np.setdiff1d(np.arange(len(schema.inputs)), declared)
    scale = (problem.scaling.scale * resolve_inputs("stretch", config.stretch, schema, 1.0))[seen]
    with reporter("Memories") as progress:
        memories = fit_memories(
            problem.training_inputs[:, seen] / scale, config.memories, seed=config.seed, progress=progress
        )
    held_out = [problem.data[1].inputs[:, seen], problem.probes[1].inputs[:, seen]]
    cells = build_cells(
        memories, scale, held_out=held_out, quantile=config.coverage, schema=_named(schema, seen)
    )
    train_part = problem.data[0]
    deviation = np.abs(problem.split.train.next_states - train_part.trusted)
    cell = cells.locate(np.ascontiguousarray(train_part.inputs[:, seen])).cell
    half_width = EVIDENCE_MARGIN * pooled_deviation(cells, cell, deviation)
    if config.follow == "cells":
        half_width[cells.locate(np.ascontiguousarray(problem.probes[0].inputs[:, seen])).cell] = 0.0
    pinned = pinned_inputs(problem, config)[seen]
    return MonotoneTether(trusted, len(schema.states), declared, cells, half_width, pinned)


def _named(schema: Schema, columns: NDArray[np.int64]) -> Schema:
    names = [schema.inputs[k] for k in columns]
    return Schema(tuple(names), (), schema.outputs, {}, (), (-1,) * len(schema.outputs))


def monotone_model(problem: Problem, tether: MonotoneTether, config: FitConfig) -> MonotoneModel:
    """The model before training: it follows M, and all its guarantees hold already."""
    train_part = problem.split.train
    anchor = tether.rows(train_part.inputs).anchor
    frame = problem.frame("next_state", anchor)
    # In units of features and outputs, M's own weights of the declared inputs: the network starts as M.
    declared = tether.declared
    weights = np.ascontiguousarray(tether.trusted.weights[:, declared])
    slopes = -weights * frame.inputs.scale[declared] / frame.outputs.scale[:, None]
    network = MonotoneNetwork(
        frame.features_width,
        len(weights),
        decreasing=declared.tolist(),
        hidden=USUAL if config.hidden is None else config.hidden,
        slopes=torch.from_numpy(slopes),
        seed=config.seed,
    )
    # Features are centred, the anchor's reference is 0: the last bias takes up the difference.
    center = frame.inputs.center[declared]
    shift = np.array([float(row @ center) for row in weights]) / frame.outputs.scale
    with torch.no_grad():
        network.side_layers[-1].bias += torch.from_numpy(shift).float()  # type: ignore[operator]
    return MonotoneModel(network, frame, tether)


def train_monotone(
    problem: Problem,
    tether: MonotoneTether,
    config: FitConfig,
    *,
    method: Method = MONOTONE,
    checkpoint: Path | None = None,
    reporter: Reporter = silent,
    on_evaluation: Callable[[list[Evaluation]], None] | None = None,
) -> TrainedRun:
    """Trains the monotone model as the other methods are trained."""
    model = monotone_model(problem, tether, config)
    parts = (problem.data[0], problem.probes[0], problem.data[1], problem.probes[1])
    data = TrainingData(*(part.examples(model.frame) for part in parts))
    training = replace(config.training, loss=method.loss, seed=config.seed)
    with reporter(method.name) as progress:
        history = train(
            model, data, training, checkpoint=checkpoint, progress=progress, on_evaluation=on_evaluation
        )
    return TrainedRun(method, model, history, config.seed)
