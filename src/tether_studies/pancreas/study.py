"""The pancreas study: what is run at which scale, what is measured, and what is claimed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from tether.claims.rollout import Step
from tether.data import Array
from tether.fitting import (
    AUGMENTED_LAGRANGIAN,
    MONOTONE,
    RESIDUAL,
    TETHERED,
    VANILLA,
    Built,
    Fit,
    FitConfig,
    Method,
    Problem,
    build_cells_for,
    build_monotone_tether,
    resolve_target,
)
from tether.fitting.boxes import build_boxes
from tether.fitting.monotone import monotone_network
from tether.foundation.progress import Reporter
from tether.learning.config import TrainingConfig
from tether.model import Model
from tether.tethers import tether_over
from tether.trusted import TrustedModel
from tether.trusted.affine import AffineModel
from tether_studies.matrix import Matrix
from tether_studies.pancreas.armax import fit_armax
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
from tether_studies.study import Entry, Measured, Scale, Study, StudyData

_MEMORIES: dict[Scale, tuple[int, ...]] = {"smoke": (100,), "paper": (1000, 1500, 2000)}
_PAIRS: dict[Scale, int] = {"smoke": 50_000, "paper": 10_000_000}
_STEPS: dict[Scale, int] = {"smoke": 400, "paper": 30_000}
"""The same for every method; Vanilla's validation error on the simulator was best at 25,000."""
_SMOKE_EPISODES = 19
_TRACES = 28
"""Of the authors' traces: 22 to learn from (15,642 rows; they have 15,750), 3 to choose by, 3 (2,133 rows;
they have 2,000) to measure on."""
_GAMMA = {"gamma": 0.99}
_INSULIN = tuple(name for name in glucose_schema().inputs if name.startswith("insulin"))
_BLIND = 100.0
"""By how much longer cells are along insulin, which M explains: they do not look at it."""
# And the network is kept from leaning on chance in it.
_NOISE = dict.fromkeys(_INSULIN, 1.0)
_NOISY = {
    replace(method, name=f"{method.name}, noisy insulin"): method.name
    for method in (VANILLA, AUGMENTED_LAGRANGIAN, TETHERED)
}
"""What noise on insulin does, with and without a tether, and by whose settings they are trained."""


def _simulate(scale: Scale, seed: int, options: Mapping[str, str], reporter: Reporter) -> StudyData:
    del reporter
    if "traces" in options:
        transitions, probes = read_paper_traces(Path(options["traces"]))
        kept = _SMOKE_EPISODES if scale == "smoke" else _TRACES
        transitions = transitions.take(transitions.episodes < kept)
        return StudyData(transitions, probes.take(np.arange(len(transitions))))
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


def _variant(options: Mapping[str, str]) -> Study | None:
    return _TRACES_STUDY if "traces" in options else None


def _trusted(data: StudyData, config: FitConfig) -> TrustedModel:
    """ARMAX, fitted to the training part of D only."""
    split = data.transitions.split(validation=config.validation, test=config.test, seed=config.seed)
    return TrustedModel(fit_armax(split.train).model.affine)


def _config(scale: Scale) -> FitConfig:
    return FitConfig(
        target="next_state",
        bounds="affine",
        evidence="proved",
        hidden=(20, 20, 20),
        validation=HELD_OUT,
        test=HELD_OUT,
        training=TrainingConfig(evaluate_every=500 if scale == "paper" else 100),
    )


def _traces_config(scale: Scale) -> FitConfig:
    share = HELD_OUT if scale == "smoke" else 3 / _TRACES
    return replace(_config(scale), validation=share, test=share)


def _rows(scale: Scale, study: str = "pancreas") -> Matrix:
    """The paper's schedule that widens limits early on; a tether over cells that do not look at insulin."""
    return Matrix(study, _MEMORIES[scale], _STEPS[scale], _GAMMA, _build, fewer=None)


def _entries(scale: Scale, study: str = "pancreas") -> tuple[Entry, ...]:
    rows, steps, counts = _rows(scale, study), _STEPS[scale], _MEMORIES[scale]
    middle = counts[len(counts) // 2]
    monotone = {"decreasing": _INSULIN, "evidence": None, "operator": "clip"}
    return (
        *rows.entries(),
        rows.settled(Entry(RESIDUAL, steps, seeds=1)),
        *(rows.settled(_noisy(method, steps, middle), like=like) for method, like in _NOISY.items()),
        rows.settled(Entry(MONOTONE, steps, middle, monotone, build=_build_monotone), like=TETHERED.name),
    )


def _noisy(method: Method, steps: int, memories: int) -> Entry:
    if method.tether is None:
        return Entry(method, steps, noise=_NOISE)
    return Entry(method, steps, memories, build=_build, noise=_NOISE)


def _build(problem: Problem, config: FitConfig, reporter: Reporter) -> Built:
    """Over cells that do not look at insulin, and closed in those that hold a probe."""
    schema = problem.split.train.schema
    blind = np.array([_BLIND if name in _INSULIN else 1.0 for name in schema.inputs])
    partition = build_cells_for(problem, config, scale=problem.scaling.scale * blind, reporter=reporter)
    cells = partition.cells
    closed = np.zeros(len(cells), dtype=bool)
    closed[cells.locate(problem.probes[0].inputs).cell] = True
    nowhere = np.full(len(schema.inputs), np.nan)
    boxed = build_boxes(problem, cells, config, nowhere, closed=closed, reporter=reporter)
    return Built(
        tether_over(cells, boxed.bounds),
        resolve_target(config.target, problem.split.train),
        notes=boxed.record(),
        seconds_memories=partition.seconds,
    )


def _build_monotone(problem: Problem, config: FitConfig, reporter: Reporter) -> Built:
    """Closed in cells that hold a probe."""
    tether = build_monotone_tether(problem, config, follow_probes=True, reporter=reporter)
    return Built(tether, "next_state", network=monotone_network)


def _measure(problem: Problem, predict: Step) -> Measured:
    test = problem.split.test
    observed, predicted = test.next_states[:, 0], predict(test.states, test.controls)[:, 0]
    values = measure_monotonicity(predict, test)
    values |= {f"zone_{zone}": share for zone, share in zone_shares(observed, predicted).items()}
    values |= {f"time_{name}": share for name, share in time_in_range(predicted).items()}
    arrays: dict[str, Array] = {"observed": observed, "predicted": predicted}
    if isinstance(predict, AffineModel):
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


def _inspect(problem: Problem, fitted: Fit, scale: Scale) -> Measured:
    """How often the limits act on held-out data, one day with them, and rises of what cannot rise."""
    model, test = fitted.model, problem.split.test
    if not model.tether.bounded:
        return Measured({}, {})
    answers = model.predict(test.states, test.controls, details=True)
    at_limit = (answers.next_states == answers.lower) | (answers.next_states == answers.upper)
    closed = answers.lower == answers.upper
    values = {"limits_reached_D": float(at_limit.mean()), "limits_closed_D": float(closed.mean())}
    day = test.episodes == test.episodes[0]
    arrays = {
        "day_observed": test.next_states[day, 0],
        "day_predicted": answers.next_states[day, 0],
        "day_lower": answers.lower[day, 0],
        "day_upper": answers.upper[day, 0],
        "day_trusted": problem.data[2].trusted[day, 0],
        "day_insulin": test.controls[day, 0],
        "day_meal": test.states[day, -1],
    }
    return Measured(values | (_rises(problem, model, scale) if model.decreasing else {}), arrays)


def _rises(problem: Problem, model: Model, scale: Scale) -> dict[str, float]:
    """What a search for a rise in insulin found."""
    test = problem.split.test
    found = attack_monotonicity(
        model.predict, test.inputs, test.schema, problem.scaling.scale, pairs=_PAIRS[scale]
    )
    return {
        "monotonicity_attack_pairs": found.pairs,
        "monotonicity_attack_rises": found.rises,
        "monotonicity_attack_largest": found.largest,
    }


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
    variant=_variant,
    matrix=lambda scale: _rows(scale).entries(),
    searched=lambda scale: _rows(scale).unsettled(),
    shares=(1 / 3, 1.0),
)
_TRACES_STUDY = replace(
    STUDY,
    config=_traces_config,
    entries=partial(_entries, study="pancreas-traces"),
    matrix=lambda scale: _rows(scale, "pancreas-traces").entries(),
    searched=lambda scale: _rows(scale, "pancreas-traces").unsettled(),
)
