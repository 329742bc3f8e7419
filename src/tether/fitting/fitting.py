"""The one way from transitions and M to a model: learned, then judged.

`tether.fit`, the command line and whoever compares methods all go this way: :func:`prepare` a problem,
:func:`learn_method` a model of it, and :func:`judge` that by what was held out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from tether.claims.attack import attack
from tether.claims.certificate import Certificate, certify
from tether.data import Jitter, Probes, Transitions
from tether.data.logs import LogConfig, read_log
from tether.evidence import Statistical
from tether.fitting.building import Built
from tether.fitting.choosing import choose
from tether.fitting.config import FitConfig, plain_settings, resolve_budget
from tether.fitting.measures import Measures, measure, measure_hold
from tether.fitting.methods import (
    CONSTRAINED,
    DIRECT,
    MONOTONE,
    TETHERED,
    Method,
    build_for,
    train_method,
)
from tether.fitting.problem import Problem, prepare
from tether.foundation.executors import spread_over
from tether.foundation.progress import Reporter, silent, watched
from tether.learning.config import TrainingConfig
from tether.learning.history import Evaluation, History
from tether.model import Model
from tether.trusted import Function, TrustedModel

_TRIES_PER_CELL = 16
"""As many inputs as a certificate's fresh check, so that a slow M is not asked for ever."""


@dataclass(frozen=True, eq=False)
class Learned:
    """A method, trained on a problem.

    Attributes:
        method: what was trained.
        model: the result.
        history: of its training.
        built: its tether, and what came with it.
        gain: by output, how much of its correction validation lets the network make; None: all of it.
        seed: of the run.
    """

    method: Method
    model: Model
    history: History
    built: Built
    gain: Mapping[str, float] | None
    seed: int


@dataclass(frozen=True, eq=False)
class Fit:
    """A method, trained on a problem and judged by what was held out.

    Attributes:
        method: what was trained.
        model: the result.
        history: of its training.
        measures: on held-out data.
        certificate: what is guaranteed; None where nothing is.
    """

    method: Method
    model: Model
    history: History
    measures: Measures
    certificate: Certificate | None


def learn_method(
    problem: Problem,
    method: Method,
    config: FitConfig,
    *,
    built: Built | None = None,
    network: nn.Module | None = None,
    checkpoint: Callable[[str], Path] | None = None,
    reporter: Reporter = silent,
    on_evaluation: Callable[[list[Evaluation]], None] | None = None,
) -> Learned:
    """Trains a method, and notes in the model's record where it came from.

    Args:
        problem: what it learns.
        method: tether or none, and the loss.
        config: everything else.
        built: its tether; by default built here.
        network: a module to train instead of the usual one.
        checkpoint: file to resume from and save to, by name of what is trained.
        reporter: opens progress displays.
        on_evaluation: given all evaluations so far after each one.
    """
    built = built or build_for(problem, method, config, reporter=reporter)
    gain = None
    if built.chosen:
        chosen = choose(
            problem, method, config, built=built, network=network, checkpoint=checkpoint, reporter=reporter
        )
        run = chosen.run
        gain = dict(zip(run.model.schema.outputs, chosen.gain.tolist(), strict=True))
    else:
        run = train_method(
            problem,
            method,
            config,
            built=built,
            network=network,
            checkpoint=None if checkpoint is None else checkpoint(method.name),
            reporter=reporter,
            on_evaluation=on_evaluation,
        )
    noted = {} if gain is None else {"gain": list(gain.values())}
    run.model.record = _record(problem, config, run.history) | dict(built.notes) | noted
    return Learned(method, run.model, run.history, built, gain, config.seed)


def judge(
    problem: Problem, learned: Learned, *, evaluations: int | None = None, jobs: int | None = None
) -> Fit:
    """Measures a model on the test parts; attacks and certifies it, where it has a tether.

    Args:
        problem: what it learned.
        learned: the model.
        evaluations: inputs to attack it with; by default a few for every memory.
        jobs: processes for that; see :func:`tether.attack`.
    """
    model, built = learned.model, learned.built
    measures = measure(problem, model, learned.history, method=learned.method.name, seed=learned.seed)
    if not model.tether.holds:
        return Fit(learned.method, model, learned.history, measures, None)
    model.record |= _coverage(problem, model)
    tries = evaluations or _TRIES_PER_CELL * (model.tether.memories or len(model.frame.landmarks()))
    found = attack(model, problem.trusted, evaluations=tries, seed=learned.seed, jobs=jobs)
    hold = replace(
        measure_hold(problem, model),
        gain=learned.gain,
        seconds_memories=built.seconds_memories,
        seconds_bounds=built.seconds_bounds,
        attack_max_ratio=found.max_ratio,
        attack_evaluations=found.evaluations,
    )
    certificate = certify(
        model,
        problem.trusted,
        transitions=problem.split.test,
        probes=problem.probe_sets[2],
        seed=learned.seed + 1,
    )
    return Fit(learned.method, model, learned.history, replace(measures, hold=hold), certificate)


def fit(
    transitions: Transitions | Any,
    trusted: TrustedModel | Function,
    *,
    probes: Probes | Jitter = Jitter(),
    network: nn.Module | None = None,
    reporter: Reporter | None = None,
    config: FitConfig | None = None,
    client: Any | None = None,
    **settings: Any,
) -> Model:
    """Learns a model of `transitions` that stays within a bounded distance of `trusted`.

    Args:
        transitions: D; or a log that it is read from (a pandas or polars data frame, files), with the
            fields of :class:`LogConfig` that say how: `states=[...]`, `controls=[...]`, `episode=...`,
            `time=...`, `angles=[...]`. See :func:`tether.read_log`.
        trusted: M, any callable ``(states, controls) -> next states``.
        probes: Ω; by default the training data, jittered.
        network: a module from features to outputs, instead of an MLP.
        reporter: opens progress displays; by default in a terminal or notebook (`tether.silent`: never).
        config: all settings at once.
        client: of a Dask cluster that asks M and proves leaves, or the address of its scheduler.
        settings: fields of :class:`FitConfig`, instead of `config`, and those of :class:`LogConfig`.
    """
    reading = {name: settings.pop(name) for name in sorted(_READING & set(settings))}
    config = _settled(config, settings)
    transitions = _read(transitions, reading, config)
    if config.decreasing and network is not None:
        raise TypeError(
            "`network` must be left out with `decreasing`, which makes its own; got "
            f"{type(network).__name__}."
        )
    reporter = reporter or watched()
    with spread_over(client):
        problem = prepare(transitions, trusted=trusted, probes=probes, config=config, reporter=reporter)
        learned = learn_method(problem, method_of(config), config, network=network, reporter=reporter)
        learned.model.record |= _coverage(problem, learned.model)
    return learned.model


def method_of(config: FitConfig) -> Method:
    """What the settings ask for, as a row of the tables."""
    if config.decreasing:
        return replace(MONOTONE, loss=config.training.loss)
    base = {"interval": CONSTRAINED, "direct": DIRECT}.get(config.bounds, TETHERED)
    return replace(base, tether=config.bounds, loss=config.training.loss)


_READING = set(LogConfig.__dataclass_fields__) - set(FitConfig.__dataclass_fields__)
"""Settings that say how transitions are read."""


def _read(source: Any, reading: Mapping[str, Any], config: FitConfig) -> Transitions:
    """Transitions as they are given, or read."""
    if not isinstance(source, Transitions):
        return read_log(source, **reading, not_angles=config.not_angles)
    if reading:
        raise TypeError(
            f"`{next(iter(reading))}` must come with a table to read; got transitions, which know their "
            "columns. Leave it out."
        )
    return source


def _settled(config: FitConfig | None, settings: Mapping[str, Any]) -> FitConfig:
    if config is not None and settings:
        raise TypeError(f"`config` must come alone; got {', '.join(settings)} besides. Put them into it.")
    unknown = sorted(set(settings) - set(FitConfig.__dataclass_fields__))
    if unknown:
        homes = (("training", TrainingConfig), ("evidence", Statistical))
        inner = [
            f"Give {name} as `{setting}=tether.{kind.__name__}({name}=...)`."
            for setting, kind in homes
            for name in unknown
            if name in kind.__dataclass_fields__
        ]
        hint = inner[0] if inner else f"There are: {', '.join(FitConfig.__dataclass_fields__)}."
        raise TypeError(f"settings must be fields of FitConfig; got {', '.join(unknown)}. {hint}")
    return config or FitConfig(**settings)


def _record(problem: Problem, config: FitConfig, history: History) -> dict[str, Any]:
    """What is saved with a model about where it came from."""
    return {
        "config": plain_settings(config),
        "steps": history.steps,
        "data_sha256": problem.transitions.digest(),
        "log": list(problem.transitions.report.lines) if problem.transitions.report else [],
        "trusted": problem.trusted.name,
        "trusted_source_sha256": problem.trusted.source_digest,
    }


def _coverage(problem: Problem, model: Model) -> dict[str, float]:
    """Shares of what was held out that lie in the domain, and of D that keep to the delta asked for."""
    data, probes = (model.limits(part[2].inputs) for part in (problem.data, problem.probes))
    shares = {"coverage_D": float(data.in_domain.mean()), "coverage_omega": float(probes.in_domain.mean())}
    asked = resolve_budget(model.record["config"]["delta"], model.schema)
    if asked is not None:
        shares["delta_kept_D"] = float(np.logical_and.reduce(data.delta <= asked, axis=1).mean())
    return shares
