"""A tether that no increase of insulin can make rise: monotone by construction, and within delta of M.

The proof is in `docs/studies/pancreas.md`. M is affine with insulin weights of at most 0, so it is its own
first-order model; the half-width depends on a cell that does not look at insulin; the network is a
:class:`tether.monotone.MonotoneNetwork`; and a clip between limits that do not rise does not rise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from tether.bounds import EVIDENCE_MARGIN, PINNED_REACH, Limits, pooled_deviation
from tether.cells import Cells, Location, build_cells
from tether.constrained import Frame, LearnedModel, Operator
from tether.data import Array, Schema, Transitions
from tether.memories import fit_memories
from tether.monotone import MonotoneNetwork
from tether.pipeline import FitConfig, Method, Problem, TrainedRun
from tether.progress import Reporter, silent
from tether.studies.pancreas.armax import Armax
from tether.studies.pancreas.data import insulin_columns
from tether.training import TrainingData, train

MONOTONE = Method("Tethered, monotone", "affine", "squared_error")
_EPS = np.finfo(np.float64).eps


@dataclass(frozen=True, eq=False)
class MonotoneTether:
    """How far from M an output may be, by a cell that ignores the declared inputs.

    Attributes:
        trusted: M; its weights of the declared inputs are at most 0.
        declared: inputs in which nothing may rise.
        seen: the other inputs; the only ones that decide the cell.
        cells: over `seen` alone.
        half_width: (K, 1) by cell.
        pinned: (len(seen),) what all probes agree on, NaN elsewhere; see :class:`tether.bounds.AffineBounds`.
    """

    trusted: Armax
    declared: NDArray[np.int64]
    seen: NDArray[np.int64]
    cells: Cells
    half_width: Array
    pinned: Array

    def __post_init__(self) -> None:
        if (self.trusted.weights[self.declared] > 0).any():
            raise ValueError(
                "`trusted` must have weights of at most 0 for the declared inputs; got a positive one."
            )

    def locate(self, inputs: Array) -> Location:
        """Cells of physical inputs (N, D); every finite input is in the domain, because M is affine."""
        found = self.cells.locate(np.ascontiguousarray(inputs[:, self.seen]))
        return replace(found, in_domain=np.ones(len(inputs), dtype=bool))

    def limits(self, inputs: Array, location: Location) -> Limits:
        """M plus and minus the half-width; the anchor is M at the declared inputs' reference, 0."""
        states = self.trusted.states
        width = self.half_width[location.cell] * self._opening(inputs)
        middle = self.trusted(inputs[:, :states], inputs[:, states:])
        lower, upper = middle - width, middle + width
        silent_inputs = inputs.copy()
        silent_inputs[:, self.declared] = 0.0
        anchor = self.trusted(silent_inputs[:, :states], silent_inputs[:, states:])
        # Sound because M here is M itself, bit for bit, and each limit is one rounding away from M ± width.
        delta = width * (1 + 2 * _EPS) + 2 * _EPS * np.maximum(np.abs(lower), np.abs(upper))
        return Limits(lower, upper, anchor, delta)

    def _opening(self, inputs: Array) -> Array:
        """(N, 1) share of the half-width that is open: 0 where inputs agree with the probes."""
        columns = ~np.isnan(self.pinned)
        if not columns.any():
            return np.ones((len(inputs), 1))
        away = (inputs[:, self.seen[columns]] - self.pinned[columns]) / self.cells.scale[columns]
        return np.minimum(np.abs(away).max(axis=1, keepdims=True) / PINNED_REACH, 1.0)


class MonotoneModel(LearnedModel):
    """A network that stays within the tether and never rises in the declared inputs.

    Args:
        network: non-increasing in the declared features.
        frame: units and scales, of the deviation from the tether's anchor.
        tether: limits that never rise in the declared inputs either.
    """

    def __init__(self, network: MonotoneNetwork, frame: Frame, tether: MonotoneTether) -> None:
        super().__init__(network, frame)
        if frame.target != "next_state" or (frame.outputs.scale <= 0).any():
            raise ValueError("`frame` must be of next states, with positive scales.")
        self.tether = tether

    @property
    def operator(self) -> Operator:
        """Always `clip`."""
        return "clip"

    def locate(self, inputs: Array) -> Location:
        """Cell of physical inputs (N, D), whatever their insulin."""
        return self.tether.locate(inputs)

    def limits(self, inputs: Array, location: Location) -> Limits:
        """Limits at physical inputs (N, D)."""
        return self.tether.limits(inputs, location)


def build_monotone_tether(
    problem: Problem, trusted: Armax, config: FitConfig, *, reporter: Reporter = silent
) -> MonotoneTether:
    """Cells over everything but insulin, as wide as the labelled data of each and its neighbours ask for."""
    schema = problem.split.train.schema
    declared = insulin_columns(schema)
    seen = np.setdiff1d(np.arange(len(schema.inputs)), declared)
    scale = problem.scaling.scale[seen]
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
    return MonotoneTether(trusted, declared, seen, cells, half_width, problem.pinned[seen])


def _named(schema: Schema, columns: NDArray[np.int64]) -> Schema:
    names = [schema.inputs[k] for k in columns]
    return Schema(tuple(names), (), schema.outputs, {}, (), (-1,) * len(schema.outputs))


def monotone_model(problem: Problem, tether: MonotoneTether, config: FitConfig) -> MonotoneModel:
    """The model before training: it follows M exactly, and all its guarantees hold already."""
    train_part: Transitions = problem.split.train
    anchor = tether.limits(train_part.inputs, tether.locate(train_part.inputs)).anchor
    frame = problem.frame("next_state", anchor)
    # In units of features and outputs, M's own insulin weights: the network starts as M.
    declared = tether.declared
    slopes = -tether.trusted.weights[declared] * frame.inputs.scale[declared] / frame.outputs.scale[0]
    network = MonotoneNetwork(
        frame.features_width,
        1,
        decreasing=declared.tolist(),
        hidden=config.hidden,
        slopes=torch.from_numpy(slopes)[None],
        seed=config.seed,
    )
    # Features are centred, insulin's reference is 0: the last bias takes up the difference.
    shift = float(tether.trusted.weights[declared] @ frame.inputs.center[declared]) / frame.outputs.scale[0]
    with torch.no_grad():
        network.side_layers[-1].bias += shift  # type: ignore[operator]
    return MonotoneModel(network, frame, tether)


def train_monotone(
    problem: Problem, tether: MonotoneTether, config: FitConfig, *, reporter: Reporter = silent
) -> TrainedRun:
    """Trains the monotone model as the other methods are trained."""
    model = monotone_model(problem, tether, config)
    parts = (problem.data[0], problem.probes[0], problem.data[1], problem.probes[1])
    data = TrainingData(*(part.examples(model.frame) for part in parts))
    training = replace(config.training, loss=MONOTONE.loss, seed=config.seed)
    with reporter(MONOTONE.name) as progress:
        history = train(model, data, training, progress=progress)
    return TrainedRun(MONOTONE, model, history, config.seed)
