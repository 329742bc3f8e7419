"""The pancreas study: what is run at which scale, what is measured, and what is claimed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tether.data import Array, Transitions
from tether.model import Model
from tether.monotone import certify_monotone, is_monotone
from tether.pipeline import (
    AUGMENTED_LAGRANGIAN,
    CONSTRAINED,
    DIRECT,
    HARDNET,
    MONOTONE,
    RESIDUAL,
    TETHERED,
    VANILLA,
    VANILLA_INCREMENT,
    FitConfig,
    Problem,
    build_monotone_tether,
    train_monotone,
)
from tether.progress import Reporter
from tether.ranges import SamplingConfig
from tether.rollout import Step
from tether.training import TrainingConfig
from tether.trusted import TrustedModel
from tether_studies.pancreas.armax import Armax, fit_armax
from tether_studies.pancreas.claims import pancreas_claims
from tether_studies.pancreas.clinical import time_in_range, zone_shares
from tether_studies.pancreas.data import (
    HELD_OUT,
    check_paper_traces,
    glucose_schema,
    low_glucose_probes,
    read_paper_traces,
    simulate_data,
)
from tether_studies.pancreas.monotonicity import attack_monotonicity, measure_monotonicity
from tether_studies.pancreas.patients import load_patient
from tether_studies.pancreas.views import pancreas_sections
from tether_studies.study import Entry, Measured, Scale, Study, StudyData, Trained

_MEMORIES: dict[Scale, tuple[int, ...]] = {"smoke": (100,), "paper": (1000, 1500, 2000)}
_PAIRS: dict[Scale, int] = {"smoke": 50_000, "paper": 10_000_000}
_POINTS: dict[Scale, int] = {"smoke": 20_000, "paper": 1_000_000}
_STEPS: dict[Scale, int] = {"smoke": 800, "paper": 30_000}
"""The same for every method; Vanilla's validation error on the simulator was best at 25,000."""
_SMOKE_EPISODES = 19
_LARGEST_GLUCOSE = 10_000.0
"""Limits up to which the monotone tether's delta includes their rounding, mg/dl."""
# As the paper has it: constant bounds from a few samples over cells by the spread of the data, each as
# large as held-out data ask for; and its schedule that widens them early on.
_PAPER = {
    "bounds": "interval",
    "metric": "data",
    "follow": "agreed",
    "coverage": 0.995,
    "reach": 1.25,
    "sampling": SamplingConfig(refinements=2),
}
_GAMMA = {"gamma": 0.99}
_INSULIN = tuple(name for name in glucose_schema().inputs if name.startswith("insulin"))
# M explains insulin: cells do not look at it, and the network is kept from leaning on chance in it.
_STEADY = {"stretch": dict.fromkeys(_INSULIN, 100.0), "noise": dict.fromkeys(_INSULIN, 1.0)}
_NOISY = tuple(replace(m, name=f"{m.name}, noisy insulin") for m in (VANILLA, AUGMENTED_LAGRANGIAN))


def _simulate(scale: Scale, seed: int, options: Mapping[str, str], reporter: Reporter) -> StudyData:
    del reporter
    if "traces" in options:
        transitions, probes = read_paper_traces(Path(options["traces"]))
        if scale == "smoke":
            transitions = transitions.take(transitions.episodes < _SMOKE_EPISODES)
            probes = probes.take(np.arange(len(transitions)))
        return StudyData(transitions, probes)
    patient = options.get("patient", "adult#001")
    return StudyData(
        simulate_data(scale, seed=seed, patient=patient),
        low_glucose_probes(scale, seed=seed, patient=patient),
    )


def _check(options: Mapping[str, str]) -> None:
    if "traces" in options and "patient" in options:
        raise ValueError(
            f"`--patient` must be left out with `--traces`; got '{options['patient']}'. Choose one of them."
        )
    if "patient" in options:
        load_patient(options["patient"])
    if "traces" in options:
        check_paper_traces(Path(options["traces"]))


def _trusted(data: StudyData, config: FitConfig) -> TrustedModel:
    """ARMAX, fitted to the training part of D only."""
    split = data.transitions.split(validation=config.validation, test=config.test, seed=config.seed)
    return TrustedModel(fit_armax(split.train).model)


def _config(scale: Scale) -> FitConfig:
    return FitConfig(
        target="next_state",
        bounds="affine",
        evidence="proved",
        # M is affine, so that covering everything that was ever held out costs nothing.
        coverage=1.0,
        reach=10.0,
        follow="cells",
        hidden=(20, 20, 20),
        validation=HELD_OUT,
        test=HELD_OUT,
        training=TrainingConfig(evaluate_every=500 if scale == "paper" else 100),
    )


def _entries(scale: Scale) -> tuple[Entry, ...]:
    steps, counts = _STEPS[scale], _MEMORIES[scale]
    middle = counts[len(counts) // 2]
    return (
        Entry(VANILLA, steps),
        Entry(VANILLA_INCREMENT, steps),
        Entry(RESIDUAL, steps),
        Entry(AUGMENTED_LAGRANGIAN, steps),
        # What the noise that helps Tethered does for networks without a tether.
        *(Entry(method, steps, changes={"noise": _STEADY["noise"]}) for method in _NOISY),
        *(Entry(CONSTRAINED, steps, count, _PAPER, _GAMMA) for count in counts),
        Entry(HARDNET, steps, middle, {"operator": "project", "stretch": _STEADY["stretch"]}),
        *(Entry(TETHERED, steps, count, _STEADY) for count in counts),
        Entry(MONOTONE, steps, middle, trainer=_train_monotone),
        Entry(DIRECT, steps),
    )


def _train_monotone(
    problem: Problem, config: FitConfig, *, scale: Scale, checkpoint: Path, reporter: Reporter
) -> Trained:
    """The monotone tether: trained, certified, attacked."""
    trusted = problem.trusted.function
    assert isinstance(trusted, Armax)
    problem = replace(problem, trusted=TrustedModel(trusted.affine))
    config = replace(config, decreasing=_INSULIN)
    tether = build_monotone_tether(problem, config, reporter=reporter)
    run = train_monotone(problem, tether, config, checkpoint=checkpoint, reporter=reporter)
    model, test = run.model, problem.split.test
    assert is_monotone(model)
    certificate = certify_monotone(
        model,
        trusted.affine,
        inputs=test.inputs,
        points=_POINTS[scale],
        seed=config.seed + 1,
        largest=np.array([_LARGEST_GLUCOSE]),
    )
    found = attack_monotonicity(
        model.predict, test.inputs, test.schema, problem.scaling.scale, pairs=_PAIRS[scale], seed=config.seed
    )
    values: dict[str, Any] = {
        "memories": len(tether.cells),
        "evidence_level": certificate.evidence,
        "certificate": certificate.as_dict(),
        "delta_certified": certificate.delta,
        "delta_D": _delta_on(model, test),
        "coverage_D": float(model.limits(test.inputs).in_domain.mean()),
        "coverage_omega": float(model.limits(problem.probes[2].inputs).in_domain.mean()),
        "attack_max_ratio": certificate.max_ratio,
        "attack_evaluations": certificate.points,
        "monotonicity_attack_pairs": found.pairs,
        "monotonicity_attack_rises": found.rises,
        "monotonicity_attack_largest": found.largest,
    }
    return Trained(run, values)


def _delta_on(model: Model, test: Transitions) -> dict[str, dict[str, float]]:
    delta = model.predict(test.states, test.controls, details=True).delta
    median, most = np.quantile(delta, [0.5, 0.99], axis=0)
    return {
        name: {"median": float(median[k]), "q99": float(most[k])}
        for k, name in enumerate(test.schema.outputs)
    }


def _measure(problem: Problem, predict: Step) -> Measured:
    test = problem.split.test
    observed, predicted = test.next_states[:, 0], predict(test.states, test.controls)[:, 0]
    values = measure_monotonicity(predict, test, problem.scaling.scale)
    values |= {f"zone_{zone}": share for zone, share in zone_shares(observed, predicted).items()}
    values |= {f"time_{name}": share for name, share in time_in_range(predicted).items()}
    arrays: dict[str, Array] = {"observed": observed, "predicted": predicted}
    if isinstance(predict, Armax):
        fit = fit_armax(problem.split.train)
        values |= {
            "armax_error": fit.error,
            "armax_unconstrained_error": fit.unconstrained_error,
            "armax_held": float(fit.held.sum()),
        }
        arrays |= {
            "armax_weights": fit.model.weights,
            "armax_intercept": np.array(fit.model.intercept),
            "armax_held": fit.held.astype(np.float64),
        }
    return Measured(values, arrays)


def _inspect(problem: Problem, model: Model) -> Measured:
    """How often the limits act on held-out data, and one day with them."""
    if model.operator is None:
        return Measured({}, {})
    test = problem.split.test
    answers = model.predict(test.states, test.controls, details=True)
    at_limit = (answers.next_states == answers.lower) | (answers.next_states == answers.upper)
    closed = answers.lower == answers.upper
    values = {"limits_reached_D": float(at_limit.mean()), "limits_closed_D": float(closed.mean())}
    day = test.episodes == test.episodes[0]
    trusted = problem.data[2].trusted
    arrays = {
        "day_observed": test.next_states[day, 0],
        "day_predicted": answers.next_states[day, 0],
        "day_lower": answers.lower[day, 0],
        "day_upper": answers.upper[day, 0],
        "day_trusted": trusted[day, 0],
        "day_insulin": test.controls[day, 0],
        "day_meal": test.states[day, -1],
    }
    return Measured(values, arrays)


STUDY = Study(
    name="pancreas",
    title="glucose 25 minutes ahead, tethered to an ARMAX model",
    simulate=_simulate,
    trusted=_trusted,
    config=_config,
    entries=_entries,
    measure=_measure,
    headings={
        "monotonicity_rise_max": "largest rise [mg/dl]",
        "monotonicity_rise_mean": "mean rise [mg/dl]",
    },
    sections=pancreas_sections,
    claims=pancreas_claims,
    options={
        "patient": "Virtual patient, adolescent#001 to #010, adult#001 to #010 or child#001 to #010.",
        "traces": "Folder of the traces that the paper's authors published, instead of a simulation.",
    },
    check=_check,
    inspect=_inspect,
)
