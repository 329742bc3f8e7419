"""Every method of the artificial-pancreas study on one seed, with the study's own measures.

    python benchmarks/measure_pancreas.py [--traces DIR] [--steps 8000] [--pairs 10000000] [--figures DIR]

Prints one line per method; with --traces on the paper's traces, otherwise on simulated data.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tether.pipeline import (
    AUGMENTED_LAGRANGIAN,
    CONSTRAINED,
    DIRECT,
    RESIDUAL,
    TETHERED,
    VANILLA,
    VANILLA_INCREMENT,
    FitConfig,
    Problem,
    TrainedRun,
    build_cells_for,
    build_tether,
    measure,
    measure_trusted,
    prepare,
    train_method,
)
from tether.report.figures import as_png
from tether.studies.pancreas.armax import ArmaxFit, fit_armax
from tether.studies.pancreas.clinical import clinical_table
from tether.studies.pancreas.data import (
    HELD_OUT,
    LOW_GLUCOSE,
    low_glucose_probes,
    read_paper_traces,
    simulate_data,
)
from tether.studies.pancreas.figures import (
    PatientDay,
    armax_figure,
    error_grid_figure,
    patient_day_figure,
    rises_figure,
)
from tether.studies.pancreas.monotone import build_monotone_tether, train_monotone
from tether.studies.pancreas.monotonicity import attack_monotonicity, measure_monotonicity
from tether.training import TrainingConfig
from tether.trusted import TrustedModel

SHOWN = {
    "approximation_loss_D": "D",
    "constraint_loss_omega_mean": "omega mean",
    "constraint_loss_omega_max": "omega max",
    "monotonicity_rise_max": "rise max",
    "monotonicity_rise_mean": "rise mean",
    "monotonicity_rise_max_every_lag": "every lag max",
    "monotonicity_rise_mean_every_lag": "every lag mean",
    "monotonicity_violations_every_lag": "violations",
    "monotonicity_rise_max_worst_100": "worst100 max",
    "monotonicity_rise_mean_worst_100": "worst100 mean",
}


def show(result: dict[str, Any]) -> None:
    extra = {k: result[k] for k in ("coverage_D", "coverage_omega", "evidence_level") if k in result}
    numbers = "  ".join(f"{label} {result[key]:.4g}" for key, label in SHOWN.items())
    print(f"{result['method']:22s} {numbers}  {extra or ''}", flush=True)


def train_all(
    problem: Problem, fit: ArmaxFit, config: FitConfig, names: list[str] | None
) -> list[TrainedRun]:
    partition = build_cells_for(problem, config)
    affine = build_tether(problem, config, partition=partition)
    interval = build_tether(problem, config, kind="interval", partition=partition)
    print(
        f"half-width: median {np.median(affine.bounds.half_width):.3g}, largest {affine.bounds.delta.max():.3g}"
    )
    widened = replace(config, training=replace(config.training, gamma=0.99))
    tethers = {"affine": affine, "interval": interval}
    runs, scale = [], problem.scaling.scale
    result = measure_trusted(problem, config.seed)
    show(result | measure_monotonicity(fit.model, problem.split.test, scale))
    for method in (
        TETHERED,
        VANILLA,
        VANILLA_INCREMENT,
        RESIDUAL,
        AUGMENTED_LAGRANGIAN,
        CONSTRAINED,
        DIRECT,
    ):
        if names and method.name not in names:
            continue
        tether = tethers.get(method.tether or "")
        run = train_method(problem, method, widened if method is CONSTRAINED else config, tether=tether)
        show(
            measure(problem, run, tether) | measure_monotonicity(run.model.predict, problem.split.test, scale)
        )
        runs.append(run)
    run = train_monotone(problem, build_monotone_tether(problem, fit.model, config), config)
    show(measure(problem, run) | measure_monotonicity(run.model.predict, problem.split.test, scale))
    return [*runs, run]


def draw(problem: Problem, fit: ArmaxFit, runs: list[TrainedRun], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    test, scale = problem.split.test, problem.scaling.scale
    predictions = {"Trusted": problem.data[2].trusted[:, 0]}
    predictions |= {run.method.name: run.model.predict(test.states, test.controls)[:, 0] for run in runs}
    for name, row in clinical_table(test.next_states[:, 0], predictions).items():
        print(f"{name:22s} " + "  ".join(f"{key} {share:.4f}" for key, share in row.items()))
    rises = {}
    for run in runs:
        result = measure_monotonicity(run.model.predict, test, scale)
        rises[run.method.name] = (
            result["monotonicity_rise_max_every_lag"],
            result["monotonicity_rise_mean_every_lag"],
        )
    first = test.take(test.episodes == test.episodes[0])
    tethered = runs[0].model.predict(first.states, first.controls, details=True)
    day = PatientDay(
        first.next_states[:, 0],
        tethered.next_states[:, 0],
        tethered.lower[:, 0],
        tethered.upper[:, 0],
        fit.model(first.states, first.controls)[:, 0],
        first.controls[:, 0],
        first.states[:, -1],
    )
    figures = {
        "armax": armax_figure(fit, test.schema),
        "error_grid": error_grid_figure(test.next_states[:, 0], predictions),
        "rises": rises_figure(rises),
        "patient_day": patient_day_figure(day, name="the patient"),
    }
    for name, figure in figures.items():
        (folder / f"{name}.png").write_bytes(as_png(figure))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=Path)
    parser.add_argument("--steps", type=int, default=8000)
    parser.add_argument("--memories", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pairs", type=int, default=10_000_000)
    parser.add_argument("--figures", type=Path)
    parser.add_argument(
        "--probe-carbohydrates", type=float, default=0.0, help="most grams per meal in the probes"
    )
    parser.add_argument("--methods", nargs="*", help="names of the methods to train; by default all")
    arguments = parser.parse_args()
    # The networks are tiny: a second thread would only be waited for.
    torch.set_num_threads(1)
    seed = arguments.seed
    if arguments.traces:
        data, probes = read_paper_traces(arguments.traces)
    else:
        scenario = replace(LOW_GLUCOSE, carbohydrates=(0.0, arguments.probe_carbohydrates))
        data, probes = simulate_data(seed=seed), low_glucose_probes(seed=seed, scenario=scenario)
    config = FitConfig(
        memories=arguments.memories,
        target="next_state",
        bounds="affine",
        evidence="proved",
        hidden=(20, 20, 20),
        validation=HELD_OUT,
        test=HELD_OUT,
        training=TrainingConfig(steps=arguments.steps, evaluate_every=500),
        seed=seed,
    )
    fit = fit_armax(data.split(validation=config.validation, test=config.test, seed=seed).train)
    problem = prepare(data, trusted=TrustedModel(fit.model), probes=probes, config=config)
    print(
        f"ARMAX: {fit.error:.4g} (mg/dl)², {fit.unconstrained_error:.4g} unconstrained; {fit.held.sum()} held"
    )
    runs = train_all(problem, fit, config, arguments.methods)
    if arguments.figures:
        draw(problem, fit, runs, arguments.figures)
    if arguments.pairs:
        model, test = runs[-1].model, problem.split.test
        print(
            attack_monotonicity(
                model.predict, test.inputs, test.schema, problem.scaling.scale, pairs=arguments.pairs
            )
        )


if __name__ == "__main__":
    main()
