"""What is measured on held-out data: one run of ``results.json``."""

from __future__ import annotations

from typing import Any

import numpy as np

from tether.bounds import Bounds
from tether.certificate import delta_quantiles
from tether.constrained import is_constrained, is_direct
from tether.data import Array
from tether.pipeline.methods import TrainedRun
from tether.pipeline.problem import Problem
from tether.pipeline.tethers import Tether
from tether.rollout import Step


def measure(problem: Problem, run: TrainedRun, tether: Tether | None = None) -> dict[str, Any]:
    """One entry of ``results.json``, on the test parts."""
    schema = problem.split.test.schema
    result = {
        "method": run.method.name,
        "memories": len(tether.cells) if tether and run.method.celled else None,
        "seed": run.seed,
        "steps": run.history.steps,
        "best_step": run.history.best_step,
        **measure_losses(problem, run.model.predict),
        "seconds_training": run.history.seconds,
        "operator_input_spread": run.history.evaluations[-1].operator_input_spread,
        "operator_saturated": run.history.evaluations[-1].operator_saturated,
    }
    if is_direct(run.model) and run.method.tether == "direct":
        width = schema.capped(run.model.tether.half_width.cpu().numpy())
        result |= {
            "delta_certified": {
                name: {"max": float(width[k]), "median": float(width[k])}
                for k, name in enumerate(schema.outputs)
            },
            "evidence_level": "direct",
        }
    if tether is None or not is_constrained(run.model):
        return result
    bounds = run.model.predict(problem.split.test.states, problem.split.test.controls, details=True)
    truth = schema.near(problem.split.test.next_states, 0.5 * bounds.lower + 0.5 * bounds.upper)
    miss = np.maximum(np.maximum(bounds.lower - truth, truth - bounds.upper), 0.0)
    omega = run.model.limits(problem.probes[2].inputs)
    spread = delta_quantiles(run.model, problem.split.test.inputs)
    return result | {
        "delta_certified": {
            name: {"max": float(delta.max(initial=0.0)), "median": float(np.median(delta))}
            for name, delta in zip(schema.outputs, deltas_by_output(tether.bounds), strict=True)
        },
        "evidence_level": tether.bounds.evidence,
        "coverage_D": float(bounds.in_domain.mean()),
        "coverage_omega": float(omega.in_domain.mean()),
        "tether_miss_D": {name: float(miss[:, k].max()) for k, name in enumerate(schema.outputs)},
        "delta_D": None
        if spread is None
        else {
            name: {"median": float(spread[0, k]), "q99": float(spread[1, k])}
            for k, name in enumerate(schema.outputs)
        },
        "seconds_memories": tether.partition.seconds,
        "seconds_bounds": tether.seconds,
    }


def deltas_by_output(bounds: Bounds) -> list[Array]:
    """Delta of each output over cells, or over leaves of which something is known."""
    if bounds.kind != "boxes":
        return list(bounds.delta.T)
    known = np.isfinite(bounds.delta)
    return [bounds.delta[known & (bounds.output == k)] for k in range(bounds.half_width.shape[1])]


def measure_trusted(problem: Problem, seed: int) -> dict[str, Any]:
    """The entry of ``results.json`` for M alone."""
    losses = _losses(problem, problem.data[2].trusted, problem.probes[2].trusted)
    return {
        "method": "Trusted",
        "memories": None,
        "seed": seed,
        "steps": 0,
        **losses,
        "seconds_training": 0.0,
    }


def measure_losses(problem: Problem, predict: Step) -> dict[str, Any]:
    """The paper's losses of a step, on the test parts."""
    dx = len(problem.split.test.schema.states)
    parts = (problem.data[2].inputs, problem.probes[2].inputs)
    return _losses(problem, *(predict(inputs[:, :dx], inputs[:, dx:]) for inputs in parts))


def _losses(problem: Problem, on_data: Any, on_probes: Any) -> dict[str, Any]:
    """Mean over outputs of the squared error, physical units, as in the paper's plots."""
    schema = problem.split.test.schema
    error = schema.distance(on_data, problem.split.test.next_states) ** 2
    gap = (schema.distance(on_data, problem.data[2].trusted) ** 2).mean(axis=1)
    omega = (schema.distance(on_probes, problem.probes[2].trusted) ** 2).mean(axis=1)
    outputs = schema.outputs
    return {
        "rmse": dict(zip(outputs, np.sqrt(error.mean(axis=0)).tolist(), strict=True)),
        "worst_error": dict(zip(outputs, np.sqrt(error.max(axis=0)).tolist(), strict=True)),
        "approximation_loss_D": float(error.mean()),
        "constraint_loss_D_mean": float(gap.mean()),
        "constraint_loss_D_max": float(gap.max()),
        "constraint_loss_omega_mean": float(omega.mean()),
        "constraint_loss_omega_max": float(omega.max()),
    }
