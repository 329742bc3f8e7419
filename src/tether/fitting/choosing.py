"""What episodes that were not learned from have a say in: how a correction is mixed, how far it is trusted.

A correction that does not surely help on episodes it was not learned from is not used, output by output; the
model then follows M.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tether.data import Array, fit_scaling
from tether.fitting.building import Built
from tether.fitting.config import FitConfig
from tether.fitting.methods import Method, TrainedRun, train_method, untrained
from tether.fitting.problem import Problem
from tether.fitting.rolling import carrying_factors, error_over_one, one_after_another
from tether.foundation.progress import Reporter, silent
from tether.learning.config import TrainingConfig
from tether.learning.crossfit import (
    FOLDS,
    Ridge,
    best_share,
    fit_ridge,
    fold_by_episode,
    harmless_share,
    trusted_share,
    weigh_episodes,
)
from tether.learning.examples import Examples, TrainingData
from tether.learning.history import History
from tether.learning.training import train
from tether.model import Ensemble, Model, mlp, weighted_sum

MEMBER = (64, 64)
"""Layer widths of each of the networks that are averaged, where none were asked for."""
_HASTE = 6.0
"""By how much faster than one network the members of an average learn: what one overshoots, others do not."""
_CROWD = 4
"""By how many times as many rows a step they learn from, which takes half as long again: noise costs less."""
_MOST_ROUNDS = 2
_STILL_FALLING = 0.98
"""Error at the end, as a share of that at three quarters of the steps, below which training goes on."""
_CONVINCING = 1.0
"""By how many standard errors over validation episodes the correction of one network must help."""
_LEAST_SCALE = 1e-9


@dataclass(frozen=True, eq=False)
class Chosen:
    """What was trained and kept.

    Attributes:
        run: the network that was kept.
        hidden: layer widths, of each member of an average; None: it was given.
        gain: (P,) share of its correction that is used.
    """

    run: TrainedRun
    hidden: tuple[int, ...] | None
    gain: Array


def choose(
    problem: Problem,
    method: Method,
    config: FitConfig,
    *,
    built: Built,
    network: nn.Module | None = None,
    checkpoint: Callable[[str], Path] | None = None,
    reporter: Reporter = silent,
) -> Chosen:
    """Learns a correction, and scales it by how far episodes that it was not learned from trust it.

    Where nothing else is asked for it is a ridge regression and an average of networks, each of them trained
    without another fold of episodes; their sum is one plain network. Where layer widths, a network of one's
    own, or another loss or operator is asked for, it is one network, judged on validation episodes.

    Args:
        problem: what is learned.
        method: what is trained.
        config: everything else.
        built: what it cannot leave.
        network: the only one to train, if it is given.
        checkpoint: file to resume from and save to, by name.
        reporter: opens progress displays.
    """
    named = _Named(method, checkpoint)
    plain = method.loss == "squared_error" and config.operator == "clip"
    if plain and network is None and config.hidden is None:
        return _learn_across_folds(problem, method, config, built, named, reporter)
    run = train_method(
        problem,
        method,
        config,
        built=built,
        network=network,
        checkpoint=named(config.hidden),
        reporter=reporter,
    )
    return Chosen(run, None if network is not None else config.hidden, trust_correction(run.model, problem))


@dataclass(frozen=True)
class _Named:
    """Checkpoints of a method's networks."""

    method: Method
    checkpoint: Callable[[str], Path] | None

    def __call__(self, hidden: tuple[int, ...] | None, again: int = 0) -> Path | None:
        if self.checkpoint is None:
            return None
        widths = "" if hidden is None else f" {'x'.join(map(str, hidden)) or 'linear'}"
        return self.checkpoint(f"{self.method.name}{widths}{f' {again}' if again else ''}")


@dataclass(frozen=True, eq=False)
class _Labelled:
    """All labelled rows that are not kept for testing, in units of the frame's outputs.

    Attributes:
        examples: with folds.
        features: (N, F).
        wanted: (N, P) the observed deviation from the anchor.
        weight: (N,) by what a row counts; 0 where a glitch is.
        lower: (N, P) the least that the tether allows.
        upper: (N, P) the most.
        episodes: (N,).
    """

    examples: Examples
    features: Array
    wanted: Array
    weight: Array
    lower: Array
    upper: Array
    episodes: NDArray

    @classmethod
    def of(cls, problem: Problem, model: Model, seed: int) -> _Labelled:
        """Of training and validation episodes, as a model that is to learn them sees them."""
        frame, schema = model.frame, model.schema
        parts = [part.examples(frame) for part in problem.data[:2]]
        observed = [part.target for part in parts if part.target is not None]
        inputs, trusted, target = (
            np.concatenate(arrays)
            for arrays in ([p.inputs for p in parts], [p.trusted for p in parts], observed)
        )
        seen = problem.split.train, problem.split.validation
        episodes = np.concatenate([part.episodes for part in seen])
        limits, scale = model.limits(inputs), frame.outputs.scale
        wanted = (schema.near(target, limits.anchor) - limits.anchor) / scale
        sound = np.concatenate(problem.sound)
        weight = sound * weigh_episodes(wanted * sound[:, None], episodes)
        fold = fold_by_episode(episodes, seed=seed)
        rows = torch.from_numpy(inputs).to(frame.input_center.device)
        return cls(
            Examples(inputs, trusted, target, fold, weight),
            frame.features(rows).cpu().numpy(),
            wanted,
            weight,
            (limits.lower - limits.anchor) / scale,
            (limits.upper - limits.anchor) / scale,
            episodes,
        )

    @property
    def fold(self) -> NDArray[np.int64]:
        """(N,)."""
        assert self.examples.fold is not None
        return self.examples.fold

    def inside(self, values: Array) -> Array:
        """Corrections (N, P) as far as the tether allows them."""
        return np.clip(values, self.lower, self.upper)


def _learn_across_folds(
    problem: Problem, method: Method, config: FitConfig, built: Built, named: _Named, reporter: Reporter
) -> Chosen:
    """A ridge regression and an average of networks, mixed and scaled by how held-out episodes judge them."""
    model = untrained(problem, config, built)
    rows = _Labelled.of(problem, model, config.seed)
    ridge = fit_ridge(rows.features, rows.wanted, rows.fold, rows.weight)
    model.network = ensemble = _ensemble(rows, config.seed)
    training = replace(
        config.training,
        loss=method.loss,
        learning_rate=_HASTE * config.training.learning_rate,
        batch=_CROWD * config.training.batch,
    )
    with reporter(method.name) as progress:
        data = _training_data(problem, model, rows)
        history = _train_until_settled(model, data, training, config.seed, named, progress)
    linear, averaged = rows.inside(ridge.held_out), rows.inside(_held_out(ensemble, rows))
    share, gain = _trust(rows, linear, averaged)
    if gain.any():
        mixed = linear + share * (averaged - linear)
        gain = gain * _carried(problem, model, rows, ridge, ensemble, share, gain, mixed)
    model.network = _joined(ridge.weights, ridge.intercept, ensemble, gain * (1 - share), gain * share)
    return Chosen(TrainedRun(method, model, history, config.seed), MEMBER, gain)


def _trust(rows: _Labelled, linear: Array, averaged: Array) -> tuple[Array, Array]:
    """(P,) share of `averaged`, the rest being `linear` (N, P each, held out), and gain of their mixture."""
    by_weight = np.sqrt(rows.weight)
    shares, gains = [], []
    for j, wanted in enumerate(rows.wanted.T):
        counted = [by_weight * values for values in (linear[:, j], averaged[:, j], wanted)]
        shares.append(best_share(*counted))
        mixed = linear[:, j] + shares[-1] * (averaged[:, j] - linear[:, j])
        surely = trusted_share(by_weight * mixed, counted[-1], rows.episodes)
        gains.append(min(surely, harmless_share(mixed[rows.weight > 0], wanted[rows.weight > 0])))
    return np.array(shares), np.array(gains)


def _carried(
    problem: Problem,
    model: Model,
    rows: _Labelled,
    ridge: Ridge,
    ensemble: Ensemble,
    share: Array,
    gain: Array,
    mixed: Array,
) -> Array:
    """(P,) what is left of the gain (P,) when rollouts are asked too, each by what never saw its episode."""
    frame, schema, scale = model.frame, model.schema, model.frame.outputs.scale
    device, dx = frame.input_center.device, len(schema.states)

    @torch.no_grad()
    def step(states: Array, controls: Array, began: NDArray[np.int64], factor: Array) -> Array:
        inputs = schema.wrap_inputs(states, controls)
        limits = model.limits(inputs)
        features = frame.features(torch.from_numpy(inputs).to(device))
        answers = ensemble(features.to(ensemble.weights[0].dtype)).double().cpu().numpy()
        fold = rows.fold[began]
        averaged = answers[fold, np.arange(len(began))]
        linear = ridge.predict_held_out(features.cpu().numpy(), fold)
        correction = factor * gain * (linear + share * (averaged - linear))
        target = np.clip(limits.anchor + scale * correction, limits.lower, limits.upper)
        return frame.base(inputs[:, :dx]) + target

    seen = one_after_another(problem.split.train, problem.split.validation)
    return carrying_factors(seen, step, error_over_one(gain * mixed, rows.wanted, rows.weight), rows.weight)


def _ensemble(rows: _Labelled, seed: int) -> Ensemble:
    """A network for each fold."""
    folds = int(rows.fold.max()) + 1
    inputs, outputs = rows.features.shape[1], rows.wanted.shape[1]
    scaling = fit_scaling(rows.features)
    networks = [mlp(inputs, outputs, MEMBER, seed=seed * FOLDS + k) for k in range(folds)]
    return Ensemble(
        networks, torch.from_numpy(scaling.center).float(), torch.from_numpy(scaling.scale).float()
    )


def _training_data(problem: Problem, model: Model, rows: _Labelled) -> TrainingData:
    probes = [part.examples(model.frame) for part in problem.probes[:2]]
    return TrainingData(rows.examples, probes[0], rows.examples, probes[1])


def _train_until_settled(
    model: Model,
    data: TrainingData,
    training: TrainingConfig,
    seed: int,
    named: _Named,
    progress: Callable[[int, int], None] | None,
) -> History:
    """Trains, and again with twice the steps while the error on held-out rows still falls."""
    history = train(model, data, training, seed=seed, checkpoint=named(MEMBER), progress=progress)
    for again in range(1, _MOST_ROUNDS):
        if not _still_falling(history):
            break
        before = {name: value.clone() for name, value in model.network.state_dict().items()}
        training = replace(training, steps=2 * training.steps)
        own = named(MEMBER, again)
        longer = train(model, data, training, seed=seed, checkpoint=own, progress=progress)
        if longer.best.validation_error >= history.best.validation_error:
            model.network.load_state_dict(before)
            break
        history = longer
    return history


def _still_falling(history: History) -> bool:
    until = 0.75 * history.evaluations[-1].step
    errors = [line.validation_error for line in history.evaluations if line.step <= until]
    return bool(errors) and history.best.validation_error < _STILL_FALLING * min(errors)


@torch.no_grad()
def _held_out(ensemble: Ensemble, rows: _Labelled) -> Array:
    """(N, P) the correction at each row by the network that did not learn from its episode."""
    features = torch.from_numpy(rows.features).to(ensemble.weights[0])
    fold = torch.from_numpy(rows.fold).to(features.device)
    return ensemble.answer_each(features, fold).double().cpu().numpy()


def _joined(
    weights: Array, intercept: Array, ensemble: Ensemble, linear_gain: Array, gain: Array
) -> nn.Sequential:
    """One network: a linear map with weights (P, F), and the mean of an ensemble, times a gain (P,) each."""
    members = ensemble.members()
    like = next(members[0].parameters())
    linear = nn.Linear(weights.shape[1], weights.shape[0])
    linear.weight.data, linear.bias.data = (_tensor(part, like) for part in (weights, intercept))
    shares = [linear_gain, *[gain / len(members)] * len(members)]
    return weighted_sum([nn.Sequential(linear), *members], _tensor(np.stack(shares), like)).eval()


def _tensor(values: Array, like: Tensor) -> Tensor:
    return torch.from_numpy(values).to(like.device, like.dtype)


def trust_correction(model: Model, problem: Problem) -> Array:
    """(P,) share of the correction to use, by validation episodes; the model is changed to use it."""
    part = problem.split.validation
    if model.operator != "clip":
        return np.ones(len(model.schema.outputs))
    limits = model.limits(part.inputs)
    base = model.frame.base(part.states)
    correction = model.predict(part.states, part.controls) - base - limits.anchor
    wanted = model.schema.near(part.target(model.frame.target), limits.anchor) - limits.anchor
    gain = np.array([held_out_gain(c, w, part.episodes) for c, w in zip(correction.T, wanted.T, strict=True)])
    _scale(model, gain)
    return gain


def held_out_gain(correction: Array, wanted: Array, episodes: NDArray[np.int64]) -> float:
    """Least squares, from 0 to 1; 0 unless it helps by more than chance from episode to episode.

    Validation episodes are too few to ask for more, as :func:`trusted_share` does of all of them.
    """
    total = float((correction**2).sum())
    gain = float(np.clip((correction * wanted).sum() / total, 0.0, 1.0)) if total > 0 else 0.0
    helped = wanted**2 - (wanted - gain * correction) ** 2
    _, number = np.unique(episodes, return_inverse=True)
    by_episode = np.bincount(number, weights=helped)
    error = by_episode.std(ddof=1) / np.sqrt(len(by_episode)) if len(by_episode) > 1 else 0.0
    return gain if by_episode.mean() > _CONVINCING * error else 0.0


@torch.no_grad()
def _scale(model: Model, gain: Array) -> None:
    """The network's outputs, scaled."""
    last = model.network[-1] if isinstance(model.network, nn.Sequential) else None
    if isinstance(last, nn.Linear):
        factor = torch.from_numpy(gain).to(last.weight.device, last.weight.dtype)
        last.weight.mul_(factor[:, None])
        if last.bias is not None:
            last.bias.mul_(factor)
    else:  # in the frame, whose scales are positive
        factor = torch.from_numpy(np.maximum(gain, _LEAST_SCALE)).to(model.frame.output_scale.device)
        model.frame.output_scale.mul_(factor)
        model.frame.output_center.mul_(factor)
