"""Evaluations of a run on what it does not learn from: when, of what, and which weights are kept."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import cast

import torch
from torch import Tensor, nn

from tether.foundation.errors import DivergedError
from tether.learning.examples import Rows
from tether.learning.history import Evaluation
from tether.learning.run import Run
from tether.model import Ensemble

_EARLY = 5
"""Times more often than asked for an ensemble is judged, and for as many times as it would have been."""


def is_out_of_patience(run: Run) -> bool:
    """Whether it has not become better for as many evaluations as are waited for."""
    if run.config.patience is None or not run.evaluations:
        return False
    return run.step - run.best_step >= run.config.patience * run.config.evaluate_every


def is_judged(run: Run) -> bool:
    """Ensembles, which learn fast, are judged more often at first: on small logs they are best early."""
    every, step = run.config.evaluate_every, run.step
    if run.averages and step < _EARLY * every:
        every = max(1, every // _EARLY)
    return step % every == 0 or step == run.config.steps


@torch.no_grad()
def evaluate(run: Run, rows: Rows, probes: Rows, loss: float) -> None:
    """Adds an evaluation, on held-out rows and probes, and keeps the weights if it is the best so far.

    Raises:
        DivergedError: something is not finite.
    """
    if not math.isfinite(loss):
        raise DivergedError(
            f"training must keep a finite loss; got {loss} at step {run.step}. Lower `learning_rate` "
            f"(now {run.config.learning_rate})."
        )
    network, scale = run.model.network.eval(), torch.from_numpy(run.model.frame.outputs.scale)
    raw = _held_out_answers(network, rows)
    trusted, target, lower, upper = rows.values.unbind(1)
    outputs = run.respond(raw, lower, upper)
    on_data = _squared(outputs - trusted, scale)
    trusted, _, lower, upper = probes.values.unbind(1)
    answers = network(probes.features) if rows.fold is None else network(probes.features).mean(dim=0)
    on_probes = _squared(run.respond(answers, lower, upper) - trusted, scale)
    evaluation = Evaluation(
        step=run.step,
        loss=loss,
        approximation_loss_D=float(_squared(outputs - target, scale).mean()),
        constraint_loss_D_mean=float(on_data.mean()),
        constraint_loss_D_max=float(on_data.max()),
        constraint_loss_omega_mean=float(on_probes.mean()),
        constraint_loss_omega_max=float(on_probes.max()),
        operator_input_spread=float(raw.double().std(dim=0, correction=0).mean()),
        operator_saturated=float((raw.abs() > 8).double().mean()),
        validation_error=_validation_error(outputs - target, rows.weight),
    )
    if not all(map(math.isfinite, asdict(evaluation).values())):
        raise DivergedError(
            f"columns must be small enough for squared errors to be numbers; got an infinite one at step "
            f"{run.step}. Change units of the data, or lower `learning_rate`."
        )
    network.train()
    better = evaluation.validation_error < run.best_loss
    run.evaluations.append(evaluation)
    if better or not run.best:
        run.best_step = run.step
        run.best = {name: value.detach().clone() for name, value in network.state_dict().items()}


def _validation_error(difference: Tensor, weight: Tensor | None) -> float:
    """Mean square over rows, which count by their weight, and outputs."""
    error = difference.double().cpu().square().mean(dim=1)
    return float((error if weight is None else error * weight.double().cpu()).mean())


def _squared(difference: Tensor, scale: Tensor) -> Tensor:
    """(N,) mean over outputs of the squared difference, in physical units."""
    return (difference.double().cpu() * scale).square().mean(dim=1)


def _held_out_answers(network: nn.Module, rows: Rows) -> Tensor:
    """(N, P) of a network, or at each row of that of an ensemble which did not learn from it."""
    if rows.fold is None:
        return network(rows.features)
    return cast(Ensemble, network).answer_each(rows.features, rows.fold)
