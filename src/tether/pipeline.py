"""The whole way from transitions to a constrained model, and what is measured on the way.

``prepare`` -> Problem (splits, M's answers) -> ``build_tether`` -> cells and bounds ->
``train_method`` -> model and history -> ``measure`` -> one run of ``results.json``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from torch import nn

from tether.bounds import (
    EVIDENCE_MARGIN,
    AffineBounds,
    Bounds,
    Observations,
    bound_by_expansions,
    bound_by_intervals,
)
from tether.cells import Cells, build_cells, pin_memories
from tether.constrained import (
    ConstrainedModel,
    DirectModel,
    Frame,
    LearnedModel,
    Operator,
    Prediction,
    UnconstrainedModel,
    mlp,
)
from tether.data import Array, Box, Jitter, Probes, Scaling, Schema, Split, Target, Transitions, fit_scaling
from tether.errors import CertificateError
from tether.memories import fit_memories
from tether.metric import bending_weights
from tether.progress import Reporter, silent
from tether.ranges import Evidence, SamplingConfig
from tether.training import Evaluation, Examples, History, Loss, TrainingConfig, TrainingData, train
from tether.trusted import Function, TrustedModel, as_trusted, check_trusted

TetherKind = Literal["interval", "affine"]


@dataclass(frozen=True)
class FitConfig:
    """Everything a fit can be told.

    Attributes:
        memories: number of memories (and cells).
        bounds: `interval`, the paper's constant range per cell, or `affine`, a first-order model of M per
            cell and as much room as the data ask for.
        delta: with affine bounds, the distance to M to stay within, one number or one per output name;
            `memories` is then where the search for enough of them starts.
        metric: what makes cells small along an input: its spread in the `data`, or also how much the
            `trusted` model bends along it; by default the former for interval bounds, as in the paper,
            and the latter for affine ones.
        target: predict next states or increments; by default increments where every output
            advances a state, because interval bounds on them are tighter.
        evidence: how delta is known; `lipschitz` needs constants in the trusted model, `proved` an M
            written with NumPy functions. By default `lipschitz` where M has constants, else `sampled`.
        operator: constraining operator; `clip` learns faster and ends more accurate than the paper's
            `sigmoid` on everything measured so far.
        hidden: layer widths of the network.
        coverage: quantile of held-out inputs that the coverage radius must reach.
        domain: limits of inputs by name, beyond which nothing is claimed.
        validation: share of episodes (and probes) held out to choose radius and weights.
        test: share of episodes (and probes) held out to measure.
        sampling: how hard M's range is searched.
        training: how the network is trained.
        seed: of split, memories, samples, weights and batches.
    """

    memories: int = 1000
    bounds: TetherKind = "interval"
    delta: float | Mapping[str, float] | None = None
    metric: Literal["data", "trusted"] | None = None
    target: Target | None = None
    evidence: Evidence | None = None
    operator: Operator = "clip"
    hidden: tuple[int, ...] = (256, 256)
    coverage: float = 0.995
    domain: Box | None = None
    validation: float = 0.15
    test: float = 0.15
    sampling: SamplingConfig = field(default_factory=SamplingConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    seed: int = 0

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise ValueError(f"`seed` must be at least 0; got {self.seed}.")
        if self.memories < 1:
            raise ValueError(f"`memories` must be at least 1; got {self.memories}.")
        if not 0 < self.coverage <= 1:
            raise ValueError(f"`coverage` must be in (0, 1]; got {self.coverage}.")
        if self.delta is not None and self.bounds != "affine":
            raise ValueError(
                "`delta` must come with bounds 'affine'; got 'interval', whose delta is read off."
            )
        for name, allowed in _CHOICES.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"`{name}` must be one of {_options(allowed)}; got {getattr(self, name)!r}.")


_CHOICES = {
    "target": (None, "next_state", "increment"),
    "bounds": ("interval", "affine"),
    "metric": (None, "data", "trusted"),
    "evidence": (None, "sampled", "lipschitz", "proved"),
    "operator": ("sigmoid", "clip"),
}


def _options(allowed: tuple[str | None, ...]) -> str:
    return ", ".join(f"'{choice}'" for choice in allowed if choice is not None)


@dataclass(frozen=True)
class Method:
    """A row of the tables: a tether or none, and a loss.

    Attributes:
        name: as the tables print it.
        tether: `interval` or `affine` (cells), `direct` (M at run time, bounded), `residual` (M at run
            time, unbounded), or None.
        loss: what is minimised.
        target: next states or increments; None: whatever the fit predicts.
    """

    name: str
    tether: TetherKind | Literal["direct", "residual"] | None
    loss: Loss
    target: Target | None = None

    @property
    def celled(self) -> bool:
        """Whether it needs cells."""
        return self.tether in ("interval", "affine")


VANILLA = Method("Vanilla", None, "squared_error", "next_state")
VANILLA_INCREMENT = Method("Vanilla Δ", None, "squared_error", "increment")
RESIDUAL = Method("Residual", "residual", "squared_error")
AUGMENTED_LAGRANGIAN = Method("Augmented Lagrangian", None, "augmented_lagrangian", "next_state")
CONSTRAINED = Method("Constrained", "interval", "augmented_lagrangian")
TETHERED = Method("Tethered", "affine", "squared_error")
DIRECT = Method("Direct", "direct", "squared_error")


@dataclass(frozen=True, eq=False)
class Part:
    """One part of D or Ω, and M's next states there."""

    inputs: Array
    trusted: Array
    next_states: Array | None = None

    def examples(self, frame: Frame) -> Examples:
        """As training sees them, in the units of the frame's target."""
        base = frame.base(self.inputs[:, : len(frame.schema.states)])
        observed = None if self.next_states is None else self.next_states - base
        return Examples(self.inputs, self.trusted - base, observed)


@dataclass(frozen=True, eq=False)
class Problem:
    """What every method of a comparison shares."""

    split: Split
    trusted: TrustedModel
    data: tuple[Part, Part, Part]
    """Train, validation and test part of D."""
    probes: tuple[Part, Part, Part]
    """Train, validation and test part of Ω."""
    probe_sets: tuple[Probes, Probes, Probes]
    scaling: Scaling
    """Of the inputs of D and Ω together."""

    @property
    def training_inputs(self) -> Array:
        """(N, D) inputs of D and Ω that memories and bounds may be built from."""
        return np.concatenate([self.data[0].inputs, self.probes[0].inputs])

    @property
    def pinned(self) -> Array:
        """(D,) the value on which all probes agree while the data do not, NaN where there is none."""
        probes, data = self.probes[0].inputs, self.data[0].inputs
        agreed = (np.ptp(probes, axis=0) == 0) & (np.ptp(data, axis=0) > 0)
        return np.where(agreed, probes[0], np.nan)

    def frame(self, target: Target, anchor: Array | None = None) -> Frame:
        """Scales for a network that predicts `target`; those of the outputs from training data.

        With an `anchor` (N, P) at the training inputs, the network predicts the deviation from it.
        """
        observed = self.split.train.target(target)
        if anchor is None:
            return Frame(self.split.train.schema, target, self.scaling, fit_scaling(observed))
        # Centred on the anchor itself, so that a network that says nothing follows M.
        deviation = fit_scaling(observed - anchor)
        outputs = Scaling(np.zeros_like(deviation.center), deviation.scale)
        return Frame(self.split.train.schema, target, self.scaling, outputs)


@dataclass(frozen=True, eq=False)
class Partition:
    """Cells, and what finding them took."""

    cells: Cells
    seconds: float


@dataclass(frozen=True, eq=False)
class Tether:
    """Bounds over cells, and what they took."""

    kind: TetherKind
    partition: Partition
    bounds: Bounds
    target: Target
    seconds: float

    @property
    def cells(self) -> Cells:
        """The cells."""
        return self.partition.cells


@dataclass(frozen=True, eq=False)
class TrainedRun:
    """One trained method."""

    method: Method
    model: LearnedModel
    history: History
    seed: int


def resolve_target(target: Target | None, transitions: Transitions) -> Target:
    """The target asked for, or increments where the data allow them."""
    possible = min(transitions.schema.advances, default=-1) >= 0
    if target == "increment" and not possible:
        raise ValueError(
            "target 'increment' must have outputs that each advance a state; got outputs "
            f"{', '.join(transitions.schema.outputs)}. Use target 'next_state'."
        )
    return target or ("increment" if possible else "next_state")


def resolve_evidence(evidence: Evidence | None, kind: TetherKind, trusted: TrustedModel) -> Evidence:
    """The evidence level asked for, after checking that it can be had; or the best that constants give."""
    if kind == "interval":
        known = trusted.lipschitz is not None or trusted.increment_lipschitz is not None
        needs = "Pass `TrustedModel(M, lipschitz=...)`"
    else:
        known = trusted.jacobian is not None and trusted.jacobian_lipschitz is not None
        needs = "Pass `TrustedModel(M, jacobian=..., jacobian_lipschitz=...)`"
    if evidence == "lipschitz" and not known:
        raise ValueError(
            f"evidence `lipschitz` must have constants of the trusted model; got none. {needs}, or use "
            "evidence `sampled` or `proved`."
        )
    return evidence or ("lipschitz" if known else "sampled")


def prepare(
    transitions: Transitions,
    *,
    trusted: TrustedModel | Function,
    probes: Probes | Jitter = Jitter(),
    config: FitConfig = FitConfig(),
    reporter: Reporter = silent,
) -> Problem:
    """Splits D by episode and Ω by row, checks M, and asks it about every row once."""
    trusted = as_trusted(trusted)
    # Both raise before M is asked anything.
    resolve_target(config.target, transitions)
    resolve_evidence(config.evidence, config.bounds, trusted)
    split = transitions.split(validation=config.validation, test=config.test, seed=config.seed)
    if isinstance(probes, Jitter):
        probes = Probes.from_jitter(split.train, spread=probes.spread, count=probes.count, seed=config.seed)
    if probes.schema.inputs != transitions.schema.inputs:
        raise ValueError(
            f"`probes` must have the inputs of the transitions ({', '.join(transitions.schema.inputs)}); "
            f"got {', '.join(probes.schema.inputs)}."
        )
    check_trusted(trusted, np.concatenate([transitions.inputs, probes.inputs]), transitions.schema)
    probe_sets = _split_probes(probes, config)
    rows = (split.train, split.validation, split.test)
    pieces = [*(part.inputs for part in rows), *(part.inputs for part in probe_sets)]
    everything = np.concatenate(pieces)
    with reporter("Trusted model on D and Ω") as progress:
        dx = len(transitions.schema.states)
        answers = trusted(everything[:, :dx], everything[:, dx:], transitions.schema, progress=progress)
    answered = np.split(answers, np.cumsum([len(piece) for piece in pieces])[:-1])
    data = [Part(p.inputs, a, p.next_states) for p, a in zip(rows, answered[:3], strict=True)]
    omega = [Part(p.inputs, a) for p, a in zip(probe_sets, answered[3:], strict=True)]
    scaling = fit_scaling(np.concatenate([data[0].inputs, omega[0].inputs]))
    return Problem(split, trusted, tuple(data), tuple(omega), probe_sets, scaling)  # type: ignore[arg-type]


def _split_probes(probes: Probes, config: FitConfig) -> tuple[Probes, Probes, Probes]:
    """Probes are independent of one another, so rows may be split; a few may serve everywhere."""
    rows = np.random.default_rng(config.seed).permutation(len(probes))
    held_out = [max(1, round(share * len(rows))) for share in (config.validation, config.test)]
    if sum(held_out) >= len(rows):
        return probes, probes, probes
    validation, test, training = np.split(rows, np.cumsum(held_out))
    return probes.take(training), probes.take(validation), probes.take(test)


def build_cells_for(problem: Problem, config: FitConfig, *, reporter: Reporter = silent) -> Partition:
    """Memories and cells from the training parts; the radius from the validation parts."""
    start = time.monotonic()
    scale = problem.scaling.scale
    if config.metric == "trusted" or (config.metric is None and config.bounds == "affine"):
        target = resolve_target(config.target, problem.split.train)
        schema = problem.split.train.schema
        scale = scale / bending_weights(
            problem.trusted, problem.training_inputs, schema, target, seed=config.seed
        )
    with reporter("Memories") as progress:
        memories = fit_memories(
            problem.training_inputs / scale, config.memories, seed=config.seed, progress=progress
        )
    memories = pin_memories(memories, problem.probes[0].inputs / scale, problem.pinned / scale)
    cells = build_cells(
        memories,
        scale,
        held_out=[problem.data[1].inputs, problem.probes[1].inputs],
        quantile=config.coverage,
        schema=problem.split.train.schema,
        domain=config.domain,
    )
    return Partition(cells, time.monotonic() - start)


def build_tether(
    problem: Problem,
    config: FitConfig,
    *,
    kind: TetherKind | None = None,
    partition: Partition | None = None,
    reporter: Reporter = silent,
) -> Tether:
    """Bounds over cells; `kind` and `partition` default to what `config` says."""
    partition = partition or build_cells_for(problem, config, reporter=reporter)
    kind = kind or config.bounds
    start = time.monotonic()
    train = problem.split.train
    target = resolve_target(config.target, train)
    sampling = replace(config.sampling, seed=config.seed)
    evidence = resolve_evidence(config.evidence, kind, problem.trusted)
    common = (partition.cells, problem.trusted, train.schema, target)
    bounds: Bounds
    if kind == "interval":
        bounds = bound_by_intervals(
            *common,
            inputs=problem.training_inputs,
            evidence=evidence,
            sampling=sampling,
            reporter=reporter,
        )
    else:
        bounds = bound_by_expansions(
            *common,
            observations=Observations(train.inputs, train.target(target), problem.pinned),
            budget=_budget(config.delta, train.schema),
            evidence=evidence,
            sampling=sampling,
        )
    return Tether(kind, partition, bounds, target, time.monotonic() - start)


def train_method(
    problem: Problem,
    method: Method,
    config: FitConfig,
    *,
    tether: Tether | None = None,
    network: nn.Module | None = None,
    checkpoint: Path | None = None,
    reporter: Reporter = silent,
    on_evaluation: Callable[[list[Evaluation]], None] | None = None,
) -> TrainedRun:
    """Trains one method of the tables.

    Args:
        problem: what it learns.
        method: tether or none, and the loss.
        config: network, operator, training, seed.
        tether: cells and bounds, for a tethered method.
        network: a module to train instead of an MLP of `config.hidden`.
        checkpoint: file to resume from and save to.
        reporter: opens a progress display.
        on_evaluation: given all evaluations so far after each one.
    """
    model = _untrained(problem, method, config, tether, network)
    frame = model.frame
    parts = (problem.data[0], problem.probes[0], problem.data[1], problem.probes[1])
    data = TrainingData(*(part.examples(frame) for part in parts))
    training = replace(config.training, loss=method.loss, seed=config.seed)
    with reporter(method.name) as progress:
        history = train(
            model, data, training, checkpoint=checkpoint, progress=progress, on_evaluation=on_evaluation
        )
    return TrainedRun(method, model, history, config.seed)


def build_tether_within(problem: Problem, config: FitConfig, *, reporter: Reporter = silent) -> Tether:
    """A tether that keeps to `config.delta`, with as many memories as that takes.

    Each attempt has 1.6 times the memories of the last. The last one's CertificateError, which names the
    cell and the shortfall, is raised once they exceed half of the distinct inputs.
    """
    if config.delta is None:
        return build_tether(problem, config, reporter=reporter)
    most = len(np.unique(problem.training_inputs, axis=0)) // 2
    while True:
        try:
            return build_tether(problem, config, reporter=reporter)
        except CertificateError:
            if config.memories >= most:
                raise
            config = replace(config, memories=min(most, int(1.6 * config.memories) + 1))


def _budget(delta: float | Mapping[str, float] | None, schema: Schema) -> Array | None:
    """(P,) delta of each output, infinite where none was asked for; None where none at all was."""
    if delta is None:
        return None
    named = delta if isinstance(delta, Mapping) else dict.fromkeys(schema.outputs, delta)
    unknown = sorted(set(named) - set(schema.outputs))
    if unknown:
        raise ValueError(
            f"`delta` must name outputs ({', '.join(schema.outputs)}); got {', '.join(unknown)}."
        )
    budget = np.array([named.get(name, np.finfo(np.float64).max) for name in schema.outputs])
    if not (budget > 0).all():
        raise ValueError(f"`delta` must be positive; got {delta}.")
    return budget


def _untrained(
    problem: Problem, method: Method, config: FitConfig, tether: Tether | None, network: nn.Module | None
) -> LearnedModel:
    """The model of a method before training; its guarantee, if it has one, holds already."""
    train = problem.split.train
    wanted = tether.target if method.celled and tether else method.target or config.target
    target = resolve_target(wanted, train)

    def build(frame: Frame) -> nn.Module:
        return network or mlp(
            frame.features_width, len(frame.schema.outputs), config.hidden, seed=config.seed
        )

    if method.celled:
        if tether is None or tether.kind != method.tether:
            raise TypeError(f"`tether` must be an {method.tether} tether for method '{method.name}'.")
        anchor = None
        if isinstance(tether.bounds, AffineBounds):
            location = tether.cells.locate(train.inputs)
            anchor = tether.bounds.limits(tether.cells, train.inputs, location).anchor
        frame = problem.frame(target, anchor)
        return ConstrainedModel(build(frame), frame, tether.cells, tether.bounds, operator=config.operator)
    if method.tether is not None:
        examples = problem.data[0].examples(problem.frame(target))
        frame = problem.frame(target, examples.trusted)
        assert examples.target is not None
        seen = EVIDENCE_MARGIN * np.abs(examples.target - examples.trusted).max(axis=0)
        width = seen if method.tether == "direct" else np.full_like(seen, np.inf)
        return DirectModel(build(frame), frame, problem.trusted, width)
    frame = problem.frame(target)
    return UnconstrainedModel(build(frame), frame)


def fit(
    transitions: Transitions,
    *,
    trusted: TrustedModel | Function,
    probes: Probes | Jitter = Jitter(),
    network: nn.Module | None = None,
    reporter: Reporter = silent,
    config: FitConfig | None = None,
    **settings: Any,
) -> ConstrainedModel:
    """Learns a model of `transitions` that stays within a bounded distance of `trusted`.

    Args:
        transitions: D.
        trusted: M, any callable ``(states, controls) -> next states``.
        probes: Ω; by default the training data, jittered.
        network: a module from features to outputs, instead of an MLP.
        reporter: opens progress displays; see :func:`tether.console_reporter`.
        config: all settings at once.
        settings: fields of :class:`FitConfig`, instead of `config`.
    """
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
    config = config or FitConfig(**settings)
    problem = prepare(transitions, trusted=trusted, probes=probes, config=config, reporter=reporter)
    tether = build_tether_within(problem, config, reporter=reporter)
    method = replace(TETHERED if config.bounds == "affine" else CONSTRAINED, loss=config.training.loss)
    run = train_method(problem, method, config, tether=tether, network=network, reporter=reporter)
    assert isinstance(run.model, ConstrainedModel)
    run.model.record = record(problem, config, run, transitions)
    return run.model


def record(problem: Problem, config: FitConfig, run: TrainedRun, transitions: Transitions) -> dict[str, Any]:
    """What is saved with a model about where it came from."""
    coverage = [
        float(run.model.locate(part[2].inputs).in_domain.mean()) for part in (problem.data, problem.probes)
    ]
    return {
        "config": asdict(config),
        "steps": run.history.steps,
        "data_sha256": transitions.digest(),
        "trusted": problem.trusted.name,
        "trusted_source_sha256": problem.trusted.source_digest,
        "coverage_D": coverage[0],
        "coverage_omega": coverage[1],
    }


def measure(problem: Problem, run: TrainedRun, tether: Tether | None = None) -> dict[str, Any]:
    """One entry of ``results.json``, on the test parts."""
    schema = problem.split.test.schema
    dx = len(schema.states)
    predictions = []
    for part in (problem.data[2], problem.probes[2]):
        predictions.append(run.model.predict(part.inputs[:, :dx], part.inputs[:, dx:]))
    result = {
        "method": run.method.name,
        "memories": len(tether.cells) if tether and run.method.celled else None,
        "seed": run.seed,
        "steps": run.history.steps,
        "best_step": run.history.best_step,
        **_losses(problem, *predictions),
        "seconds_training": run.history.seconds,
        "operator_input_spread": run.history.evaluations[-1].operator_input_spread,
        "operator_saturated": run.history.evaluations[-1].operator_saturated,
    }
    if isinstance(run.model, DirectModel) and run.method.tether == "direct":
        width = run.model.half_width
        result |= {
            "delta_certified": {
                name: {"max": float(width[k]), "median": float(width[k])}
                for k, name in enumerate(schema.outputs)
            },
            "evidence_level": "direct",
        }
    if tether is None or not isinstance(run.model, ConstrainedModel):
        return result
    delta = tether.bounds.delta
    truth = problem.split.test.next_states
    bounds = run.model.predict(problem.split.test.states, problem.split.test.controls, details=True)
    miss = np.maximum(np.maximum(bounds.lower - truth, truth - bounds.upper), 0.0)
    omega = run.model.locate(problem.probes[2].inputs)
    return result | {
        "delta_certified": {
            name: {"max": float(delta[:, k].max()), "median": float(np.median(delta[:, k]))}
            for k, name in enumerate(schema.outputs)
        },
        "evidence_level": tether.bounds.evidence,
        "coverage_D": float(bounds.in_domain.mean()),
        "coverage_omega": float(omega.in_domain.mean()),
        "tether_miss_D": {name: float(miss[:, k].max()) for k, name in enumerate(schema.outputs)},
        "delta_D": _delta_quantiles(bounds, schema),
        "seconds_memories": tether.partition.seconds,
        "seconds_bounds": tether.seconds,
    }


def _delta_quantiles(prediction: Prediction, schema: Schema) -> dict[str, dict[str, float]] | None:
    """Delta per prediction over the rows in the domain: a row near its memory deserves a smaller one."""
    delta = prediction.delta[prediction.in_domain]
    if len(delta) == 0:
        return None
    middle, most = np.quantile(delta, [0.5, 0.99], axis=0).tolist()
    return {name: {"median": middle[k], "q99": most[k]} for k, name in enumerate(schema.outputs)}


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


def _losses(problem: Problem, on_data: Any, on_probes: Any) -> dict[str, float]:
    """Mean over outputs of the squared error, physical units, as in the paper's plots."""
    schema = problem.split.test.schema
    error = schema.distance(on_data, problem.split.test.next_states) ** 2
    gap = (schema.distance(on_data, problem.data[2].trusted) ** 2).mean(axis=1)
    omega = (schema.distance(on_probes, problem.probes[2].trusted) ** 2).mean(axis=1)
    return {
        "approximation_loss_D": float(error.mean()),
        "constraint_loss_D_mean": float(gap.mean()),
        "constraint_loss_D_max": float(gap.max()),
        "constraint_loss_omega_mean": float(omega.mean()),
        "constraint_loss_omega_max": float(omega.max()),
    }
