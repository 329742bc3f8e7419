"""Training: steps of Adam on tensors that stay in memory, watched on a validation split.

A run is a function of its configuration and data alone: batches are drawn from (seed, epoch), so a
run killed anywhere resumes from its checkpoint to bit-identical metrics.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from tether.data import Array
from tether.foundation.atomic import content_digest, read_tensors, write_tensors
from tether.foundation.documents import (
    at_least_zero,
    checked,
    items,
    maybe,
    number,
    record,
    shorten,
    shown,
    whole,
)
from tether.foundation.errors import StorageError
from tether.foundation.limits import MOST_STEPS, check_number, check_whole
from tether.foundation.progress import Report
from tether.learning.descent import constrain_in_training
from tether.learning.losses import Multipliers, squared_error, violation
from tether.model import Ensemble, Model
from tether.tethers import RowLimits

Loss = Literal["squared_error", "augmented_lagrangian"]

_SMALL_NETWORK = 200_000
_WARM_SHARE = 4
_MEMORY = 9.0
"""An ensemble is judged and kept by the mean of its weights over about the last ninth of the steps: where it
is stopped early, the learning rate is still high, and the last steps alone are half chance."""

_FADED = 1e-30
"""Below which a moment of Adam is 0: it moves a weight by less than 1e-22 of the learning rate, and where units of a
large network are dead it fades into subnormal numbers, with which a step takes twice its time."""
_FADE_EVERY = 50

_EARLY = 5
"""Times more often than asked for an ensemble is judged, and for as many times as it would have been."""


@dataclass(frozen=True)
class TrainingConfig:
    """How a network is trained.

    Attributes:
        steps: gradient steps.
        loss: `squared_error` on D, or `augmented_lagrangian` on D and Ω.
        batch: rows of D per step, and of Ω where the loss needs them.
        learning_rate: of Adam, at the start.
        schedule: `cosine` decays the learning rate to zero over the run; `constant` keeps it.
        gamma: γ of the schedule that widens the bounds by γ^step of their width early on.
        update_every: steps between updates of multipliers and penalties.
        penalty_growth: factor of the penalty where the violation stalls.
        ceiling: largest multiplier and penalty.
        evaluate_every: steps between evaluations.
        patience: evaluations without a better validation error before stopping early; None: never.
        dtype: of the network.
        device: of the network.
        checkpoint_seconds: least time between two checkpoints.
    """

    steps: int = 2000
    loss: Loss = "squared_error"
    batch: int = 64
    learning_rate: float = 1e-3
    schedule: Literal["cosine", "constant"] = "cosine"
    gamma: float = 0.0
    update_every: int = 100
    penalty_growth: float = 2.0
    ceiling: float = 100.0
    evaluate_every: int = 100
    patience: int | None = None
    dtype: Literal["float32", "float64"] = "float32"
    device: str = "cpu"
    checkpoint_seconds: float = 10.0

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "update_every", "evaluate_every"):
            check_whole(name, getattr(self, name), least=1, most=MOST_STEPS)
        if not 0 <= self.gamma < 1:
            raise ValueError(f"`gamma` must be in [0, 1); got {self.gamma}.")
        check_number("learning_rate", self.learning_rate, above=0.0)
        for name in ("ceiling", "checkpoint_seconds"):
            check_number(name, getattr(self, name), least=0.0)
        check_number("penalty_growth", self.penalty_growth, least=1.0, most=1e6)
        if self.patience is not None:
            check_whole("patience", self.patience, least=1, most=MOST_STEPS)
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                options = ", ".join(map(repr, allowed))
                raise ValueError(f"`{name}` must be one of {options}; got {getattr(self, name)!r}.")
        check_device("device", self.device)


_CHOICES = {
    "loss": ("squared_error", "augmented_lagrangian"),
    "schedule": ("cosine", "constant"),
    "dtype": ("float32", "float64"),
}


def check_device(option: str, name: str) -> None:
    """Raises unless torch can compute on the device; on `meta`, for one, it only pretends to."""
    if name == "cpu":
        return
    try:
        (torch.ones(1, device=name) + 1).cpu()
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise ValueError(
            f"`{option}` must be one that torch can use; got {shown(name)} ({shorten(reason[0])}). Use 'cpu'."
        ) from None


@dataclass(frozen=True, eq=False)
class Examples:
    """One set of inputs as training sees it.

    Attributes:
        inputs: (N, D) physical inputs.
        trusted: (N, P) M's target.
        target: (N, P) observed target, None for probes.
        fold: (N,) for an :class:`tether.model.Ensemble`, the number of the network that does not learn from
            the row, and is asked about it when the ensemble is evaluated.
        weight: (N,) by what the rows of an ensemble count; by default alike.
    """

    inputs: Array
    trusted: Array
    target: Array | None = None
    fold: NDArray[np.int64] | None = None
    weight: Array | None = None


@dataclass(frozen=True)
class Evaluation:
    """One line of metrics.jsonl; squared errors in physical units, mean over outputs."""

    step: int
    loss: float
    approximation_loss_D: float
    constraint_loss_D_mean: float
    constraint_loss_D_max: float
    constraint_loss_omega_mean: float
    constraint_loss_omega_max: float
    operator_input_spread: float
    """Standard deviation of the network's raw output over validation inputs. Near zero, the network
    has become a constant and the output a fixed point of each cell."""
    operator_saturated: float
    """Share of sigmoid inputs beyond ±8, where the gradient has all but vanished."""
    validation_error: float
    """Squared error in units of each output's scale, mean over outputs and over rows by their weight: what
    the best weights are chosen by, because a choice must not depend on whether a length is in metres."""


@dataclass(frozen=True)
class TrainingData:
    """What a run trains on and what it watches."""

    train: Examples
    train_probes: Examples
    validation: Examples
    validation_probes: Examples


@dataclass(frozen=True)
class History:
    """What training left behind, besides the weights (which are those of the best evaluation)."""

    evaluations: tuple[Evaluation, ...]
    best_step: int
    steps: int
    seconds: float

    @property
    def best(self) -> Evaluation:
        """That of the weights that were kept."""
        return next(e for e in self.evaluations if e.step == self.best_step)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Examples on the device, in the network's dtype and in units of the target's centre and scale.

    In those units a network's raw output *is* its prediction, and float32 loses nothing that matters.
    """

    features: Tensor
    """(N, F)."""
    values: Tensor
    """(N, 4, P): M's target, the observed one (NaN for probes), lower and upper bound."""
    fold: Tensor | None = None
    """(N,), see :class:`Examples`."""
    weight: Tensor | None = None
    """(N,), where there are folds."""

    @classmethod
    def of(cls, examples: Examples, model: Model, config: TrainingConfig) -> _Rows:
        scaling = model.frame.outputs
        limits = model.limits(examples.inputs)
        # What a network that is projected predicts is the target itself.
        anchor = 0.0 if model.operator == "project" else limits.anchor[:, None]
        observed = np.full_like(examples.trusted, np.nan) if examples.target is None else examples.target
        trusted, observed = (_near(values, model, limits) for values in (examples.trusted, observed))
        values = np.stack([trusted, observed, limits.lower, limits.upper], axis=1)
        values = (values - anchor - scaling.center) / scaling.scale
        inputs = torch.from_numpy(np.ascontiguousarray(examples.inputs)).to(model.frame.input_center.device)
        features = model.frame.features(inputs).to(config.device, getattr(torch, config.dtype))
        if examples.fold is None:
            return cls(features, _tensor(values, config))
        fold = torch.from_numpy(examples.fold).to(config.device)
        weight = np.ones(len(fold)) if examples.weight is None else examples.weight
        return cls(features, _tensor(values, config), fold, _tensor(weight, config))

    def take(self, numbers: Tensor) -> _Rows:
        """Some rows."""
        fold = None if self.fold is None else self.fold[numbers]
        weight = None if self.weight is None else self.weight[numbers]
        return _Rows(self.features[numbers], self.values[numbers], fold, weight)

    def then(self, other: _Rows) -> _Rows:
        return _Rows(torch.cat([self.features, other.features]), torch.cat([self.values, other.values]))

    def __len__(self) -> int:
        return len(self.features)


def _near(values: Array, model: Model, limits: RowLimits) -> Array:
    """`values` (N, P), of a model with limits with angles moved by whole turns to where it can answer."""
    if not model.tether.bounded:
        return values
    bounded = np.isfinite(limits.lower) & np.isfinite(limits.upper)
    lower, upper = (np.where(bounded, end, limits.anchor) for end in (limits.lower, limits.upper))
    return model.schema.near(values, 0.5 * lower + 0.5 * upper)


def _tensor(values: Array, config: TrainingConfig) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values)).to(config.device, getattr(torch, config.dtype))


class _Order:
    """Row numbers of each step: shuffled epochs, a function of (seed, step) alone."""

    def __init__(self, rows: int, batch: int, seed: int) -> None:
        self.rows, self.batch, self.seed = rows, min(batch, rows), seed
        self.per_epoch = rows // self.batch
        self.epoch, self.permutation = -1, torch.empty(0)

    def __call__(self, step: int) -> Tensor:
        epoch, place = divmod(step, self.per_epoch)
        if epoch != self.epoch:
            generator = torch.Generator().manual_seed((self.seed * 1_000_003 + epoch) % 2**63)
            self.epoch, self.permutation = epoch, torch.randperm(self.rows, generator=generator)
        return self.permutation[place * self.batch : (place + 1) * self.batch]


class _Batches:
    """The rows of each step: labelled ones first, then as many probes where the loss needs them."""

    def __init__(self, rows: _Rows, probes: _Rows | None, batch: int, seed: int) -> None:
        self.orders = [_Order(len(rows), batch, seed)]
        self.everything = rows
        self.labelled = self.orders[0].batch
        if probes is not None:
            self.orders.append(_Order(len(probes), batch, seed + 1))
            self.everything = rows.then(probes)
        self.probed = probes is not None
        self.offset = len(rows)

    def __call__(self, step: int) -> _Rows:
        numbers = self.orders[0](step)
        if self.probed:
            numbers = torch.cat([numbers, self.orders[1](step) + self.offset])
        return self.everything.take(numbers.to(self.everything.features.device))


@dataclass(eq=False)
class _Run:
    """Everything that changes while training goes on."""

    model: Model
    config: TrainingConfig
    optimizer: torch.optim.Optimizer
    step: int = 0
    multipliers: list[Multipliers] = field(default_factory=lambda: [Multipliers(), Multipliers()])
    sums: Tensor = field(default_factory=lambda: torch.zeros(2, dtype=torch.float64))
    evaluations: list[Evaluation] = field(default_factory=list)
    best: dict[str, Tensor] = field(default_factory=dict)
    best_step: int = 0
    seconds: float = 0.0
    random_state: Tensor = field(default_factory=lambda: torch.empty(0))
    averages: list[Tensor] = field(default_factory=list)
    """Of the weights over the last steps, parameter by parameter; none where the last step's are judged."""

    @property
    def parameters(self) -> list[Tensor]:
        """As they are descended."""
        return [parameter.detach() for parameter in self.model.network.parameters()]

    @property
    def warm_start(self) -> int:
        """Steps without the operator, as HardNet has them: `project` has no gradient outside the bounds."""
        return self.config.steps // _WARM_SHARE if self.model.operator == "project" else 0

    @property
    def best_loss(self) -> float:
        losses = [e.validation_error for e in self.evaluations if e.step == self.best_step]
        return losses[0] if losses else math.inf


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
    rows, probes, held_out, held_out_probes = (_Rows.of(part, model, config) for part in parts)
    optimizer = torch.optim.Adam(model.network.parameters(), lr=config.learning_rate, fused=True)
    run = _Run(model, config, optimizer)
    run.random_state = torch.Generator().manual_seed(seed).get_state()
    if rows.fold is not None:
        run.averages = [values.clone() for values in run.parameters]
    digest = _run_digest(model, config, seed, parts)
    if checkpoint is not None and checkpoint.exists():
        _restore(run, checkpoint, digest)
    batches = _Batches(rows, probes if config.loss == "augmented_lagrangian" else None, config.batch, seed)
    started = saved = time.monotonic()
    already = run.seconds
    with _threads_for(model.network), torch.random.fork_rng(devices=[]):
        # Networks with randomness of their own (dropout) draw from here, and resume from here.
        torch.random.set_rng_state(run.random_state)
        while run.step < config.steps and not _out_of_patience(run):
            loss = _step(run, batches)
            run.step += 1
            if run.averages:
                _take_mean(run)
            if _is_judged(run):
                with _averaged(run):
                    _evaluate(run, held_out, held_out_probes, float(loss.detach()))
                run.seconds = already + time.monotonic() - started
                if on_evaluation is not None:
                    on_evaluation(run.evaluations)
                if checkpoint is not None and time.monotonic() - saved >= config.checkpoint_seconds:
                    _save(run, checkpoint, digest)
                    saved = time.monotonic()
            if progress is not None and run.step % 20 == 0:
                progress(run.step, config.steps)
        if checkpoint is not None:
            _save(run, checkpoint, digest)
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


def _out_of_patience(run: _Run) -> bool:
    if run.config.patience is None or not run.evaluations:
        return False
    return run.step - run.best_step >= run.config.patience * run.config.evaluate_every


def _is_judged(run: _Run) -> bool:
    """Ensembles, which learn fast, are judged more often at first: on small logs they are best early."""
    every, step = run.config.evaluate_every, run.step
    if run.averages and step < _EARLY * every:
        every = max(1, every // _EARLY)
    return step % every == 0 or step == run.config.steps


def _learning_rate(config: TrainingConfig, step: int) -> float:
    if config.schedule == "constant":
        return config.learning_rate
    return config.learning_rate * 0.5 * (1 + math.cos(math.pi * step / config.steps))


def _step(run: _Run, batches: _Batches) -> Tensor:
    """One gradient step; the loss it descended."""
    config, labelled = run.config, batches.labelled
    batch = batches(run.step)
    trusted, target, lower, upper = batch.values.unbind(1)
    widening = config.gamma**run.step if config.gamma else 0.0
    outputs = run.model.network(batch.features)
    if run.step >= run.warm_start:
        outputs = _respond(run, outputs, lower, upper, widening)
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


def _held_out_answers(network: nn.Module, rows: _Rows) -> Tensor:
    """(N, P) of a network, or at each row of that of an ensemble which did not learn from it."""
    if rows.fold is None:
        return network(rows.features)
    return cast(Ensemble, network).answer_each(rows.features, rows.fold)


def _update_multipliers(run: _Run) -> None:
    means = (run.sums / run.config.update_every).tolist()
    run.multipliers = [
        m.updated(mean, growth=run.config.penalty_growth, ceiling=run.config.ceiling)
        for m, mean in zip(run.multipliers, means, strict=True)
    ]
    run.sums = torch.zeros_like(run.sums)


def _respond(run: _Run, raw: Tensor, lower: Tensor, upper: Tensor, widening: float = 0.0) -> Tensor:
    if not run.model.tether.bounded:
        return raw
    if widening:
        # The paper's second line raises the upper bound from the lower one; a typo for this.
        width = widening * (upper - lower)
        lower, upper = lower - width, upper + width
    return constrain_in_training(raw, lower, upper, run.model.operator)


@contextmanager
def _averaged(run: _Run) -> Iterator[None]:
    """The network with the means of its weights, for as long as it is judged."""
    if not run.averages:
        yield
        return
    descended = [values.clone() for values in run.parameters]
    _set(run, run.averages)
    try:
        yield
    finally:
        _set(run, descended)


def _set(run: _Run, given: list[Tensor]) -> None:
    for values, others in zip(run.parameters, given, strict=True):
        values.copy_(others)


def _take_mean(run: _Run) -> None:
    """With the weights of the step that was taken."""
    for mean, values in zip(run.averages, run.parameters, strict=True):
        mean.lerp_(values, _MEMORY / (run.step + _MEMORY))


@torch.no_grad()
def _evaluate(run: _Run, rows: _Rows, probes: _Rows, loss: float) -> None:
    if not math.isfinite(loss):
        raise ValueError(
            f"training must keep a finite loss; got {loss} at step {run.step}. Lower `learning_rate` "
            f"(now {run.config.learning_rate})."
        )
    network, scale = run.model.network.eval(), torch.from_numpy(run.model.frame.outputs.scale)
    raw = _held_out_answers(network, rows)
    trusted, target, lower, upper = rows.values.unbind(1)
    outputs = _respond(run, raw, lower, upper)
    on_data = _squared(outputs - trusted, scale)
    trusted, _, lower, upper = probes.values.unbind(1)
    answers = network(probes.features) if rows.fold is None else network(probes.features).mean(dim=0)
    on_probes = _squared(_respond(run, answers, lower, upper) - trusted, scale)
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
        raise ValueError(
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


def _run_digest(model: Model, config: TrainingConfig, seed: int, parts: list[Examples]) -> str:
    """Identifies a run: a checkpoint of another one must not be resumed."""
    settings = {key: value for key, value in asdict(config).items() if key != "checkpoint_seconds"}
    settings["seed"] = seed
    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
    digest.update(repr(model.network).encode())
    scaling = (model.frame.inputs, model.frame.outputs)
    for values in (part for scales in scaling for part in (scales.center, scales.scale)):
        digest.update(np.ascontiguousarray(values).tobytes())
    for part in parts:
        for values in (part.inputs, part.trusted, part.target):
            digest.update(b"-" if values is None else np.ascontiguousarray(values).tobytes())
        for values in (part.fold, part.weight):
            if values is not None:
                digest.update(np.ascontiguousarray(values).tobytes())
    limits = model.limits(parts[0].inputs)
    for values in (limits.lower, limits.upper, limits.anchor):
        digest.update(np.ascontiguousarray(values).tobytes())
    digest.update(f"{model.tether.kind} {model.operator}".encode())
    return digest.hexdigest()


def _save(run: _Run, path: Path, digest: str) -> None:
    tensors = {f"network.{name}": value for name, value in run.model.network.state_dict().items()}
    tensors |= {f"best.{name}": value for name, value in run.best.items()}
    tensors |= {f"average.{place}": value for place, value in enumerate(run.averages)}
    for parameter, state in run.optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{parameter}.{name}": value for name, value in state.items()}
    tensors |= {"sums": run.sums, "random_state": torch.random.get_rng_state()}
    # A violation not yet measured is infinite, which JSON has no word for.
    multipliers = [[m.multiplier, m.penalty, None if math.isinf(m.last) else m.last] for m in run.multipliers]
    metadata = {
        "digest": digest,
        "step": run.step,
        "best_step": run.best_step,
        "seconds": run.seconds,
        "multipliers": multipliers,
        "evaluations": [asdict(e) for e in run.evaluations],
    }
    write_tensors(path, tensors, metadata | {"contents": content_digest(tensors, metadata)})


_CHECKPOINT = record(
    {
        "step": whole(),
        "best_step": whole(),
        "seconds": at_least_zero,
        "multipliers": items(items(maybe(number), count=3), count=2),
        "evaluations": items(record({field.name: number for field in fields(Evaluation)})),
    }
)


def _restore(run: _Run, path: Path, digest: str) -> None:
    tensors, metadata = read_tensors(path)
    if metadata.get("digest") != digest:
        raise StorageError(
            f"`{path}` must be a checkpoint of this run; it belongs to other data or settings. "
            "Resume with the same arguments, or choose another output folder."
        )
    if metadata.pop("contents", None) != content_digest(tensors, metadata):
        raise StorageError(f"`{path}` must match its own digest; it is damaged. Remove it to begin anew.")
    checked(metadata, _CHECKPOINT, path, "a checkpoint of Tether")
    try:
        _take_up(run, tensors, metadata)
    except (KeyError, TypeError, ValueError, RuntimeError, IndexError) as error:
        reason = " ".join(str(error).split())
        raise StorageError(
            f"`{path}` must be a complete checkpoint; {type(error).__name__}: {reason:.200}. Remove it."
        ) from None


def _take_up(run: _Run, tensors: dict[str, Tensor], metadata: dict[str, Any]) -> None:
    _load(run.model.network, tensors, "network.")
    run.best = {n.removeprefix("best."): v for n, v in tensors.items() if n.startswith("best.")}
    device = next(iter(run.parameters)).device
    run.averages = [tensors[f"average.{place}"].to(device) for place in range(len(run.averages))]
    if [v.shape for v in run.averages] not in ([], [v.shape for v in run.parameters]):
        raise ValueError("the means of the weights are not those of this network")
    own = run.model.network.state_dict()
    if {n: v.shape for n, v in run.best.items()} != {n: v.shape for n, v in own.items()}:
        raise ValueError("the best weights are not those of this network")
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        if name.startswith("optimizer."):
            _, parameter, key = name.split(".")
            state.setdefault(int(parameter), {})[key] = value
    groups = run.optimizer.state_dict()["param_groups"]
    for place, parameter in enumerate(run.optimizer.param_groups[0]["params"]):
        shapes = {value.shape for key, value in state[place].items() if key != "step"}
        if shapes != {parameter.shape}:
            raise ValueError("the optimizer's state is not that of this network")
    run.optimizer.load_state_dict({"state": state, "param_groups": groups})
    run.sums, run.random_state = tensors["sums"], tensors["random_state"]
    torch.Generator().set_state(run.random_state)
    if run.sums.shape != (2,) or run.sums.dtype != torch.float64:
        raise ValueError("its sums are not two numbers")
    run.step, run.best_step, run.seconds = metadata["step"], metadata["best_step"], metadata["seconds"]
    run.multipliers = [
        Multipliers(m, p, math.inf if last is None else last) for m, p, last in metadata["multipliers"]
    ]
    run.evaluations = [Evaluation(**line) for line in metadata["evaluations"]]


def _load(network: nn.Module, tensors: dict[str, Tensor], prefix: str) -> None:
    network.load_state_dict({n.removeprefix(prefix): v for n, v in tensors.items() if n.startswith(prefix)})
