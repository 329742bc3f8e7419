"""Training: steps of Adam on tensors that stay in memory, watched on a validation split.

A run is a function of its configuration and data alone: batches are drawn from (seed, epoch), so a
run killed anywhere resumes from its checkpoint to bit-identical metrics.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from tether.foundation.progress import Report
from tether.learning.checkpoints import restore, run_digest, save
from tether.learning.config import TrainingConfig
from tether.learning.evaluating import evaluate, is_judged, is_out_of_patience
from tether.learning.examples import Batches, Rows, TrainingData
from tether.learning.history import Evaluation, History
from tether.learning.losses import squared_error, violation
from tether.learning.run import Run
from tether.model import Model

_SMALL_NETWORK = 200_000
_FADED = 1e-30
"""Below which a moment of Adam is 0: it moves a weight by less than 1e-22 of the learning rate, and where
units of a large network are dead it fades into subnormal numbers, with which a step takes twice its time."""
_FADE_EVERY = 50


def train(
    model: Model,
    data: TrainingData,
    config: TrainingConfig,
    *,
    seed: int = 0,
    checkpoint: Path | None = None,
    progress: Report | None = None,
    on_evaluation: Callable[[list[Evaluation]], None] | None = None,
) -> History:
    """Trains `model` in place; the weights it ends with are those of the best evaluation.

    Args:
        model: what to train. Its bounds are never changed.
        data: training and validation examples.
        config: how.
        seed: of the order of the data.
        checkpoint: file to resume from if it exists, and to save to.
        progress: told (step, steps).
        on_evaluation: given all evaluations so far after each one.
    """
    model.network.to(config.device, getattr(torch, config.dtype)).train()
    parts = [data.train, data.train_probes, data.validation, data.validation_probes]
    rows, probes, held_out, held_out_probes = (Rows.of(part, model, config) for part in parts)
    optimizer = torch.optim.Adam(model.network.parameters(), lr=config.learning_rate, fused=True)
    run = Run(model, config, optimizer)
    run.random_state = torch.Generator().manual_seed(seed).get_state()
    if rows.fold is not None:
        run.averages = [values.clone() for values in run.parameters]
    digest = run_digest(model, config, seed, parts)
    if checkpoint is not None and checkpoint.exists():
        restore(run, checkpoint, digest)
    batches = Batches(rows, probes if config.loss == "augmented_lagrangian" else None, config.batch, seed)
    started = saved = time.monotonic()
    already = run.seconds
    with _threads_for(model.network), torch.random.fork_rng(devices=[]):
        # Networks with randomness of their own (dropout) draw from here, and resume from here.
        torch.random.set_rng_state(run.random_state)
        while run.step < config.steps and not is_out_of_patience(run):
            loss = _step(run, batches)
            run.step += 1
            if run.averages:
                run.take_mean()
            if is_judged(run):
                with run.averaged():
                    evaluate(run, held_out, held_out_probes, float(loss.detach()))
                run.seconds = already + time.monotonic() - started
                if on_evaluation is not None:
                    on_evaluation(run.evaluations)
                if checkpoint is not None and time.monotonic() - saved >= config.checkpoint_seconds:
                    save(run, checkpoint, digest)
                    saved = time.monotonic()
            if progress is not None and run.step % 20 == 0:
                progress(run.step, config.steps)
        if checkpoint is not None:
            save(run, checkpoint, digest)
    model.network.load_state_dict(run.best)
    model.network.eval()
    return History(tuple(run.evaluations), run.best_step, run.step, already + time.monotonic() - started)


@contextmanager
def _threads_for(network: nn.Module) -> Iterator[None]:
    """One thread for a small network: on a busy machine two wait for each other far longer than they work."""
    before = torch.get_num_threads()
    small = sum(parameter.numel() for parameter in network.parameters()) < _SMALL_NETWORK
    torch.set_num_threads(1 if small else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _learning_rate(config: TrainingConfig, step: int) -> float:
    if config.schedule == "constant":
        return config.learning_rate
    return config.learning_rate * 0.5 * (1 + math.cos(math.pi * step / config.steps))


def _step(run: Run, batches: Batches) -> Tensor:
    """One gradient step; the loss it descended."""
    config, labelled = run.config, batches.labelled
    batch = batches(run.step)
    trusted, target, lower, upper = batch.values.unbind(1)
    widening = config.gamma**run.step if config.gamma else 0.0
    outputs = run.model.network(batch.features)
    if run.step >= run.warm_start:
        outputs = run.respond(outputs, lower, upper, widening)
    if batches.probed:
        loss = squared_error(outputs[:labelled], target[:labelled])
        gaps = violation(outputs, trusted)
        parts = gaps[:labelled], gaps[labelled:]
        loss = loss + sum(m.loss(part) for m, part in zip(run.multipliers, parts, strict=True))
        run.sums += torch.stack([part.detach().double().mean() for part in parts]).cpu()
    elif batch.fold is not None and batch.weight is not None:
        loss = _error_of_members(outputs, target, batch.fold, batch.weight)
    else:
        loss = squared_error(outputs, target)
    run.optimizer.param_groups[0]["lr"] = _learning_rate(config, run.step)
    # `zero_grad` without its bookkeeping, which costs a small network a tenth of its step.
    for parameter in run.optimizer.param_groups[0]["params"]:
        parameter.grad = None
    loss.backward()
    run.optimizer.step()
    if (run.step + 1) % _FADE_EVERY == 0:
        _forget_faded(run.optimizer)
    if batches.probed and (run.step + 1) % config.update_every == 0:
        _update_multipliers(run)
    return loss


def _forget_faded(optimizer: torch.optim.Optimizer) -> None:
    """Moments of no consequence are 0."""
    for state in optimizer.state.values():
        for moment in (state["exp_avg"], state["exp_avg_sq"]):
            moment.masked_fill_(moment.abs() < _FADED, 0.0)


def _error_of_members(outputs: Tensor, target: Tensor, fold: Tensor, weight: Tensor) -> Tensor:
    """Sum over networks of the squared error of outputs (K, N, P), each at the rows it may learn from."""
    learned = fold != torch.arange(len(outputs), device=fold.device)[:, None]
    error = (outputs - target).square().mean(dim=2) * weight
    return ((error * learned).sum(dim=1) / learned.sum(dim=1).clamp_min(1)).sum()


def _update_multipliers(run: Run) -> None:
    means = (run.sums / run.config.update_every).tolist()
    run.multipliers = [
        m.updated(mean, growth=run.config.penalty_growth, ceiling=run.config.ceiling)
        for m, mean in zip(run.multipliers, means, strict=True)
    ]
    run.sums = torch.zeros_like(run.sums)
