"""The whole way from transitions to a constrained model, in one call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from torch import nn

from tether.constrained import ConstrainedModel, is_constrained
from tether.data import Jitter, Probes, Transitions
from tether.logs import LogConfig, read_log
from tether.monotone import MonotoneModel, is_monotone
from tether.pipeline.choosing import learn
from tether.pipeline.config import FitConfig
from tether.pipeline.growing import build_tether_within
from tether.pipeline.methods import CONSTRAINED, TETHERED, TrainedRun, train_method
from tether.pipeline.monotone import MONOTONE, build_monotone_tether, train_monotone
from tether.pipeline.problem import Problem, prepare
from tether.progress import Reporter, silent
from tether.training import TrainingConfig
from tether.trusted import Function, TrustedModel


def fit(
    transitions: Transitions | Any,
    *,
    trusted: TrustedModel | Function,
    probes: Probes | Jitter = Jitter(),
    network: nn.Module | None = None,
    reporter: Reporter = silent,
    config: FitConfig | None = None,
    **settings: Any,
) -> ConstrainedModel | MonotoneModel:
    """Learns a model of `transitions` that stays within a bounded distance of `trusted`.

    Args:
        transitions: D; or a log that it is read from (a pandas or polars data frame, files), with the
            fields of :class:`LogConfig` that say how: `states=[...]`, `controls=[...]`, `episode=...`,
            `time=...`, `angles=[...]`. See :func:`tether.read_log`.
        trusted: M, any callable ``(states, controls) -> next states``.
        probes: Ω; by default the training data, jittered.
        network: a module from features to outputs, instead of an MLP.
        reporter: opens progress displays; see :func:`tether.console_reporter`.
        config: all settings at once.
        settings: fields of :class:`FitConfig`, instead of `config`, and those of :class:`LogConfig`.

    Returns:
        A :class:`ConstrainedModel`; with `decreasing` a :class:`tether.MonotoneModel`.
    """
    reading = {name: settings.pop(name) for name in sorted(_READING & set(settings))}
    config = _settled(config, settings)
    transitions = _read(transitions, reading, config)
    if config.decreasing and network is not None:
        raise TypeError(
            "`network` must be left out with `decreasing`, which makes its own; got "
            f"{type(network).__name__}."
        )
    problem = prepare(transitions, trusted=trusted, probes=probes, config=config, reporter=reporter)
    if config.decreasing:
        return _fit_monotone(problem, config, transitions, reporter)
    tether = build_tether_within(problem, config, reporter=reporter)
    base = CONSTRAINED if config.bounds == "interval" else TETHERED
    method = replace(base, tether=config.bounds, loss=config.training.loss)
    if tether.boxed is None:
        run = train_method(problem, method, config, tether=tether, network=network, reporter=reporter)
        noted = {}
    else:
        chosen = learn(problem, method, config, tether=tether, network=network, reporter=reporter)
        run, noted = chosen.run, tether.boxed.record() | {"gain": chosen.gain.tolist()}
    assert is_constrained(run.model)
    run.model.record = record(problem, config, run, transitions) | noted
    return run.model


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
        inner = sorted(set(unknown) & set(TrainingConfig.__dataclass_fields__))
        hint = (
            f"Give {inner[0]} as `training=TrainingConfig({inner[0]}=...)`."
            if inner
            else (f"There are: {', '.join(FitConfig.__dataclass_fields__)}.")
        )
        raise TypeError(f"settings must be fields of FitConfig; got {', '.join(unknown)}. {hint}")
    return config or FitConfig(**settings)


def _fit_monotone(
    problem: Problem, config: FitConfig, transitions: Transitions, reporter: Reporter
) -> MonotoneModel:
    tether = build_monotone_tether(problem, config, reporter=reporter)
    method = replace(MONOTONE, loss=config.training.loss)
    run = train_monotone(problem, tether, config, method=method, reporter=reporter)
    assert is_monotone(run.model)
    run.model.record = record(problem, config, run, transitions)
    return run.model


def record(problem: Problem, config: FitConfig, run: TrainedRun, transitions: Transitions) -> dict[str, Any]:
    """What is saved with a model about where it came from."""
    coverage = [
        float(run.model.limits(part[2].inputs).in_domain.mean()) for part in (problem.data, problem.probes)
    ]
    return {
        "config": asdict(config),
        "steps": run.history.steps,
        "data_sha256": transitions.digest(),
        "log": list(transitions.report.lines) if transitions.report else [],
        "trusted": problem.trusted.name,
        "trusted_source_sha256": problem.trusted.source_digest,
        "coverage_D": coverage[0],
        "coverage_omega": coverage[1],
    }
