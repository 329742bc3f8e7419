"""A tether that no increase of insulin can make rise: monotone by construction, and within delta of M.

The proof is in `docs/studies/pancreas.md`. M is affine with insulin weights of at most 0, so it is its own
first-order model; the half-width depends on a cell that does not look at insulin; the network is a
:class:`tether.monotone.MonotoneNetwork`; and a clip between limits that do not rise does not rise.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tether.bounds import EVIDENCE_MARGIN, PINNED_REACH, Limits, pooled_deviation
from tether.cells import Cells, Location, build_cells
from tether.constrained import Frame, LearnedModel, Operator
from tether.data import Array, Schema, Transitions
from tether.errors import CertificateError
from tether.memories import fit_memories
from tether.monotone import MonotoneNetwork
from tether.pipeline import FitConfig, Method, Problem, TrainedRun, pinned_inputs
from tether.progress import Reporter, silent
from tether.studies.pancreas.armax import Armax
from tether.studies.pancreas.data import insulin_columns
from tether.training import TrainingData, train

_LARGEST_GLUCOSE = 10_000.0
_CHUNK = 1 << 14

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
        if not (self.trusted.weights[self.declared] <= 0).all():
            raise ValueError(
                "`trusted` must have weights of at most 0 for the declared inputs; got a positive one."
            )
        if np.intersect1d(self.declared, self.seen).size:
            raise ValueError(
                "`seen` must leave out the declared inputs; got some of them. Cells would see them."
            )
        if not ((self.half_width >= 0) & np.isfinite(self.half_width)).all():
            raise ValueError("`half_width` must be finite and at least 0 in every cell.")

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
        return np.minimum(np.abs(away).max(axis=1, keepdims=True) / PINNED_REACH, 1.0) ** 2


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

    def raw(self, inputs: Array) -> Tensor:
        """As for any model, but in the proof's order of sums, in training mode too."""
        network = self.network
        assert isinstance(network, MonotoneNetwork)
        features = torch.from_numpy(self.frame.features(inputs)).to(network.slopes)
        return network.ordered(features).double()

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
    if config.follow == "cells":
        half_width[cells.locate(np.ascontiguousarray(problem.probes[0].inputs[:, seen])).cell] = 0.0
    return MonotoneTether(trusted, declared, seen, cells, half_width, pinned_inputs(problem, config)[seen])


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
    problem: Problem,
    tether: MonotoneTether,
    config: FitConfig,
    *,
    checkpoint: Path | None = None,
    reporter: Reporter = silent,
) -> TrainedRun:
    """Trains the monotone model as the other methods are trained."""
    model = monotone_model(problem, tether, config)
    parts = (problem.data[0], problem.probes[0], problem.data[1], problem.probes[1])
    data = TrainingData(*(part.examples(model.frame) for part in parts))
    training = replace(config.training, loss=MONOTONE.loss, seed=config.seed)
    with reporter(MONOTONE.name) as progress:
        history = train(model, data, training, checkpoint=checkpoint, progress=progress)
    return TrainedRun(MONOTONE, model, history, config.seed)


@dataclass(frozen=True)
class MonotoneCertificate:
    """What is claimed of a monotone model. :meth:`as_dict` is what ``results.json`` holds.

    Attributes:
        claim: both halves of it, in words.
        evidence: `proved`.
        certified: true.
        declared: names of the inputs in which no prediction rises.
        delta: by output, the distance to M: worst cell, and the median over cells.
        assumptions: what it rests on.
        points: fresh inputs at which the distance to M that the limits allow was compared with delta.
        max_ratio: the largest of these distances, over delta.
    """

    claim: str
    evidence: str
    certified: bool
    declared: tuple[str, ...]
    delta: dict[str, dict[str, float]]
    assumptions: tuple[str, ...]
    points: int
    max_ratio: float

    def as_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)


_CLAIM = (
    "PROVED: for any weights and every finite input, the prediction is within delta of the trusted model, "
    "and raising any of the declared inputs, all others equal, never raises it, not by a rounding either. "
    "Established by the argument of docs/studies/pancreas.md, whose premises were checked on this model."
)
_ASSUMPTIONS = (
    "The trusted model is the affine function whose weights are stored, added up in their order; distance is "
    "to the float64 values it returns.",
    f"Limits are at most {_LARGEST_GLUCOSE:,.0f} mg/dl in size; beyond, delta grows by two units in their "
    "last place.",
    "Predictions are used in float64 as returned.",
)


def certify_monotone(
    model: MonotoneModel, trusted: Armax, inputs: Array, *, points: int, seed: int
) -> MonotoneCertificate:
    """States what is guaranteed about `model`, after checking every premise of the proof.

    Args:
        model: the model; its weights do not matter.
        trusted: M.
        inputs: (N, D) physical inputs, around and far from which fresh points are drawn.
        points: how many of these.
        seed: of the draw.

    Raises:
        CertificateError: where a premise does not hold, or a fresh point contradicts the claim.
    """
    tether, schema = model.tether, model.schema
    _check_premises(model, trusted)
    ratio = _largest_ratio(model, trusted, inputs, points, np.random.default_rng([seed, 0x307]))
    if not ratio <= 1:
        raise CertificateError(
            f"the claim must hold at every point; a fresh one reached {ratio:.6g} times delta."
        )
    delta = tether.half_width * (1 + 2 * _EPS) + 2 * _EPS * _LARGEST_GLUCOSE
    return MonotoneCertificate(
        claim=_CLAIM,
        evidence="proved",
        certified=True,
        declared=tuple(schema.inputs[k] for k in tether.declared),
        delta={
            name: {"max": float(delta[:, k].max()), "median": float(np.median(delta[:, k]))}
            for k, name in enumerate(schema.outputs)
        },
        assumptions=_ASSUMPTIONS,
        points=points,
        max_ratio=ratio,
    )


def _check_premises(model: MonotoneModel, trusted: Armax) -> None:
    """What the proof takes for granted of M, tether, frame and network; construction checks it, too."""
    tether, frame, network = model.tether, model.frame, model.network
    own = tether.trusted
    same = own.intercept == trusted.intercept and np.array_equal(own.weights, trusted.weights)
    premises = {
        "`trusted` must be the model the tether was built with": same,
        "M's weights of the declared inputs must be at most 0": (own.weights[tether.declared] <= 0).all(),
        "cells must not see the declared inputs": not np.intersect1d(tether.declared, tether.seen).size,
        "half-widths must be finite and at least 0": (
            (tether.half_width >= 0) & np.isfinite(tether.half_width)
        ).all(),
        "scales must be positive": (frame.inputs.scale > 0).all() and (frame.outputs.scale > 0).all(),
        "inputs must enter the network in their order, none as an angle": not frame.schema.angles,
        "the network must predict next states": frame.target == "next_state",
        "the network must be monotone in the declared inputs": isinstance(network, MonotoneNetwork)
        and network.declared.tolist() == tether.declared.tolist()
        and not network.training,
    }
    for premise, holds in premises.items():
        if not holds:
            raise CertificateError(f"{premise}; that is not so. Fit anew.")


def _largest_ratio(
    model: MonotoneModel, trusted: Armax, inputs: Array, points: int, rng: np.random.Generator
) -> float:
    """The farthest that the limits let an output be from M at fresh points, over delta there."""
    worst, scale = 0.0, model.frame.inputs.scale
    for start in range(0, points, _CHUNK):
        rows = inputs[rng.integers(len(inputs), size=min(_CHUNK, points - start))]
        spread = rng.choice([0.0, 0.1, 1.0, 10.0, 1e3], size=(len(rows), 1))
        fresh = rows + spread * scale * rng.standard_normal(rows.shape)
        limits = model.limits(fresh, model.locate(fresh))
        values = trusted(fresh[:, : trusted.states], fresh[:, trusted.states :])
        farthest = np.maximum(values - limits.lower, limits.upper - values)
        worst = max(worst, float((farthest / np.maximum(limits.delta, np.finfo(np.float64).tiny)).max()))
    return worst
