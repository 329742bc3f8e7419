"""What validation episodes have a say in: the size of the network, and how far its correction is trusted.

A correction that does not help on episodes it was not trained on is not used, output by output; the model
then follows M.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from tether.data import Array
from tether.model import Model
from tether.pipeline.config import FitConfig
from tether.pipeline.methods import Method, TrainedRun, train_method
from tether.pipeline.problem import Problem
from tether.pipeline.tethers import Tether
from tether.progress import Reporter, silent

SIZES: tuple[tuple[int, ...], ...] = ((), (32, 32), (128, 128), (256, 256))
"""Networks that are tried where none was asked for: a linear one first."""
_CONVINCING = 1.0
"""By how many standard errors over episodes a correction must help."""
_LEAST_SCALE = 1e-9


@dataclass(frozen=True, eq=False)
class Chosen:
    """What was trained and kept.

    Attributes:
        run: the best of the networks tried.
        hidden: its layer widths; None: it was given.
        gain: (P,) share of its correction that is used.
    """

    run: TrainedRun
    hidden: tuple[int, ...] | None
    gain: Array


def learn(
    problem: Problem,
    method: Method,
    config: FitConfig,
    *,
    tether: Tether,
    network: nn.Module | None = None,
    checkpoint: Callable[[str], Path] | None = None,
    reporter: Reporter = silent,
) -> Chosen:
    """Trains networks of a few sizes, keeps the best on validation episodes, and scales its correction.

    Args:
        problem: what they learn.
        method: what is trained.
        config: everything else.
        tether: what they cannot leave.
        network: the only one to train, if it is given.
        checkpoint: file to resume from and save to, by name.
        reporter: opens progress displays.
    """
    sizes = (config.hidden,) if config.hidden is not None or network is not None else SIZES
    runs = [
        train_method(
            problem,
            method,
            replace(config, hidden=hidden),
            tether=tether,
            network=network,
            checkpoint=None if checkpoint is None else checkpoint(_called(method, hidden)),
            reporter=reporter,
        )
        for hidden in sizes
    ]
    best = int(np.argmin([run.history.best.validation_error for run in runs]))
    gain = trust_correction(runs[best].model, problem)
    return Chosen(runs[best], None if network is not None else sizes[best], gain)


def _called(method: Method, hidden: tuple[int, ...] | None) -> str:
    return method.name if hidden is None else f"{method.name} {'x'.join(map(str, hidden)) or 'linear'}"


def trust_correction(model: Model, problem: Problem) -> Array:
    """(P,) share of the correction to use, by validation episodes; the model is changed to use it."""
    part = problem.split.validation
    if model.operator != "clip":
        return np.ones(len(model.schema.outputs))
    limits = model.limits(part.inputs)
    base = model.frame.base(part.states)
    correction = model.predict(part.states, part.controls) - base - limits.anchor
    wanted = model.schema.near(part.target(model.frame.target), limits.anchor) - limits.anchor
    gain = np.array([_gain(c, w, part.episodes) for c, w in zip(correction.T, wanted.T, strict=True)])
    _scale(model, gain)
    return gain


def _gain(correction: Array, wanted: Array, episodes: NDArray[np.int64]) -> float:
    """Least squares, from 0 to 1; 0 unless it helps by more than chance from episode to episode."""
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
