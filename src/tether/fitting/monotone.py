"""A tether that no increase of declared inputs can make rise, from data to trained model."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from tether.data import Schema
from tether.fitting.config import FitConfig, resolve_decreasing
from tether.fitting.problem import Problem
from tether.fitting.tethers import COVERAGE
from tether.foundation.progress import Reporter, silent
from tether.geometry.cells import build_cells
from tether.geometry.memories import fit_memories
from tether.model import Frame
from tether.model.monotone import MonotoneNetwork
from tether.tethers.bounds import EVIDENCE_MARGIN, pooled_deviation
from tether.tethers.monotone import MonotoneTether

_USUAL = (256, 256)
"""Layer widths where none were asked for."""


def build_monotone_tether(
    problem: Problem, config: FitConfig, *, follow_probes: bool = False, reporter: Reporter = silent
) -> MonotoneTether:
    """Cells over everything but `config.decreasing`, as wide as the labelled data of each ask for.

    Args:
        problem: what is to be learned.
        config: the declared inputs, and how many memories there are.
        follow_probes: follow M in every cell that holds a probe, rather than at what all probes agree on.
        reporter: opens a progress display.
    """
    schema = problem.split.train.schema
    trusted = resolve_decreasing(config.decreasing, schema, problem.trusted)
    declared = _declared(schema, config)
    seen = np.setdiff1d(np.arange(len(schema.inputs)), declared)
    scale = problem.scaling.scale[seen]
    with reporter("Memories") as progress:
        memories = fit_memories(
            problem.training_inputs[:, seen] / scale, config.memories, seed=config.seed, progress=progress
        )
    held_out = [problem.data[1].inputs[:, seen], problem.probes[1].inputs[:, seen]]
    cells = build_cells(memories, scale, held_out=held_out, quantile=COVERAGE, schema=_named(schema, seen))
    train_part = problem.data[0]
    deviation = np.abs(problem.split.train.next_states - train_part.trusted)
    cell = cells.locate(np.ascontiguousarray(train_part.inputs[:, seen])).cell
    half_width = EVIDENCE_MARGIN * pooled_deviation(cells, cell, deviation)
    pinned = problem.pinned[seen]
    if follow_probes:
        half_width[cells.locate(np.ascontiguousarray(problem.probes[0].inputs[:, seen])).cell] = 0.0
        pinned = np.full_like(pinned, np.nan)
    return MonotoneTether(trusted, len(schema.states), declared, cells, half_width, pinned)


def _named(schema: Schema, columns: NDArray[np.int64]) -> Schema:
    names = [schema.inputs[k] for k in columns]
    return Schema(tuple(names), (), schema.outputs, {}, (), (-1,) * len(schema.outputs))


def monotone_network(problem: Problem, frame: Frame, config: FitConfig) -> nn.Module:
    """A network that cannot rise in the declared inputs, and starts as M."""
    schema = problem.split.train.schema
    trusted = resolve_decreasing(config.decreasing, schema, problem.trusted)
    declared = _declared(schema, config)
    weights = np.ascontiguousarray(trusted.weights[:, declared])
    # In units of features and outputs, M's own weights of the declared inputs.
    slopes = -weights * frame.inputs.scale[declared] / frame.outputs.scale[:, None]
    network = MonotoneNetwork(
        frame.features_width,
        len(weights),
        decreasing=declared.tolist(),
        hidden=_USUAL if config.hidden is None else config.hidden,
        slopes=torch.from_numpy(slopes),
        seed=config.seed,
    )
    # Features are centred, the anchor's reference is 0: the last bias takes up the difference.
    center = frame.inputs.center[declared]
    shift = np.array([float(row @ center) for row in weights]) / frame.outputs.scale
    with torch.no_grad():
        network.side_layers[-1].bias += torch.from_numpy(shift).float()  # type: ignore[operator]
    return network


def _declared(schema: Schema, config: FitConfig) -> NDArray[np.int64]:
    return np.array([k for k, name in enumerate(schema.inputs) if name in config.decreasing])
