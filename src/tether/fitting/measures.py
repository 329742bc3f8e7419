"""What is measured on held-out data: one run of ``results.json``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from tether.claims.rollout import Step
from tether.data import Array, Schema
from tether.fitting.problem import Part, Problem
from tether.learning.history import History
from tether.model import Model

ByOutput = Mapping[str, float]


@dataclass(frozen=True)
class Losses:
    """Errors on held-out data, and distances to M there and on held-out probes.

    Attributes:
        rmse: by output, in its unit.
        worst_error: likewise.
        approximation_loss_D: mean over rows and outputs of the squared error, as in the paper's plots.
        constraint_loss_D_mean: of the squared distance to M on D, mean over outputs.
        constraint_loss_D_max: its largest.
        constraint_loss_omega_mean: the same on Ω.
        constraint_loss_omega_max: its largest.
    """

    rmse: ByOutput
    worst_error: ByOutput
    approximation_loss_D: float
    constraint_loss_D_mean: float
    constraint_loss_D_max: float
    constraint_loss_omega_mean: float
    constraint_loss_omega_max: float


@dataclass(frozen=True)
class Hold:
    """How a tether holds a model, on held-out data.

    Attributes:
        delta_certified: by output, the largest distance to M and the median, over the parts it is known of.
        evidence_level: how that is known.
        coverage_D: share of held-out D in the domain.
        coverage_omega: likewise of Ω.
        tether_miss_D: by output, the largest distance of the truth from the limits.
        band_miss_D: by output, the share of rows whose truth lies outside of them.
        delta_D: by output, the median and the 99 % quantile over rows in the domain; None if none is.
        attack_max_ratio: the farthest from M that any weights could take an input that was tried, over delta.
        attack_evaluations: how many were tried.
        gain: by output, how much of its correction validation lets the network make; None: all of it.
        seconds_memories: that finding the memories took.
        seconds_bounds: that bounding M took.
    """

    delta_certified: Mapping[str, ByOutput]
    evidence_level: str
    coverage_D: float
    coverage_omega: float
    tether_miss_D: ByOutput
    band_miss_D: ByOutput
    delta_D: Mapping[str, ByOutput] | None
    attack_max_ratio: float | None = None
    attack_evaluations: int | None = None
    gain: ByOutput | None = None
    seconds_memories: float = 0.0
    seconds_bounds: float = 0.0


@dataclass(frozen=True)
class Measures:
    """One method on one problem, in numbers.

    Attributes:
        method: its name.
        seed: of the run.
        losses: on held-out data.
        memories: of its tether; None where it has none.
        steps: gradient steps taken.
        best_step: the one whose weights were kept.
        seconds_training: that these took.
        operator_input_spread: of what the operator was given at the last evaluation.
        operator_saturated: share of it at the limits.
        hold: of its tether; None where it has none.
    """

    method: str
    seed: int
    losses: Losses
    memories: int | None = None
    steps: int = 0
    best_step: int | None = None
    seconds_training: float = 0.0
    operator_input_spread: float | None = None
    operator_saturated: float | None = None
    hold: Hold | None = None

    def as_dict(self) -> dict[str, Any]:
        """An entry of ``results.json``: everything on one level, without what does not apply."""
        own = {field.name: getattr(self, field.name) for field in fields(self)}
        losses, hold = asdict(own.pop("losses")), own.pop("hold")
        held = {} if hold is None else asdict(hold)
        optional = ("best_step", "operator_input_spread", "operator_saturated", *_OPTIONAL)
        everything = own | losses | held
        return {name: value for name, value in everything.items() if not (value is None and name in optional)}


_OPTIONAL = ("attack_max_ratio", "attack_evaluations", "gain")


def measure(problem: Problem, model: Model, history: History, *, method: str, seed: int) -> Measures:
    """What a trained model is worth on the test parts; how its tether holds it is :func:`measure_hold`'s."""
    last = history.evaluations[-1]
    return Measures(
        method=method,
        seed=seed,
        losses=measure_losses(problem, model.predict),
        memories=model.tether.memories,
        steps=history.steps,
        best_step=history.best_step,
        seconds_training=history.seconds,
        operator_input_spread=last.operator_input_spread,
        operator_saturated=last.operator_saturated,
    )


def measure_trusted(problem: Problem, seed: int) -> Measures:
    """M alone."""
    losses = _losses(problem, problem.data[2].trusted, problem.probes[2].trusted)
    return Measures("Trusted", seed, losses)


def measure_hold(problem: Problem, model: Model) -> Hold:
    """How a model's tether holds it, on the test parts."""
    schema, test = problem.split.test.schema, problem.data[2]
    limits = model.limits(test.inputs)
    miss = _misses(model, test)
    inside = limits.delta[limits.in_domain]
    spread = np.quantile(inside, [0.5, 0.99], axis=0) if len(inside) else None
    return Hold(
        delta_certified={
            name: {"max": float(delta.max(initial=0.0)), "median": float(np.median(delta))}
            for name, delta in zip(schema.outputs, model.tether.deltas, strict=True)
        },
        evidence_level=model.tether.evidence,
        coverage_D=float(limits.in_domain.mean()),
        coverage_omega=float(model.limits(problem.probes[2].inputs).in_domain.mean()),
        tether_miss_D=_by_output(schema, miss.max(axis=0)),
        band_miss_D=_by_output(schema, (miss > 0).mean(axis=0)),
        delta_D=None
        if spread is None
        else {
            name: {"median": float(spread[0, k]), "q99": float(spread[1, k])}
            for k, name in enumerate(schema.outputs)
        },
    )


def measure_losses(problem: Problem, predict: Step) -> Losses:
    """Of a step, on the test parts."""
    dx = len(problem.split.test.schema.states)
    parts = (problem.data[2].inputs, problem.probes[2].inputs)
    return _losses(problem, *(predict(inputs[:, :dx], inputs[:, dx:]) for inputs in parts))


def _misses(model: Model, part: Part) -> Array:
    """(N, P) how far the truth lies outside the limits, as predictions are said: in next states."""
    assert part.next_states is not None
    dx = len(model.schema.states)
    found = model.predict(part.inputs[:, :dx], part.inputs[:, dx:], details=True)
    truth = model.schema.near(part.next_states, 0.5 * found.lower + 0.5 * found.upper)
    return np.maximum(np.maximum(found.lower - truth, truth - found.upper), 0.0)


def _losses(problem: Problem, on_data: Any, on_probes: Any) -> Losses:
    schema = problem.split.test.schema
    error = schema.distance(on_data, problem.split.test.next_states) ** 2
    gap = (schema.distance(on_data, problem.data[2].trusted) ** 2).mean(axis=1)
    omega = (schema.distance(on_probes, problem.probes[2].trusted) ** 2).mean(axis=1)
    return Losses(
        rmse=_by_output(schema, np.sqrt(error.mean(axis=0))),
        worst_error=_by_output(schema, np.sqrt(error.max(axis=0))),
        approximation_loss_D=float(error.mean()),
        constraint_loss_D_mean=float(gap.mean()),
        constraint_loss_D_max=float(gap.max()),
        constraint_loss_omega_mean=float(omega.mean()),
        constraint_loss_omega_max=float(omega.max()),
    )


def _by_output(schema: Schema, values: Array) -> dict[str, float]:
    return dict(zip(schema.outputs, values.tolist(), strict=True))
