"""``tether demo``: a parked car, in about a minute."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from tether.claims.rollout import rollout
from tether.data import Array
from tether.files.runs import Comparison, RunFolder, compare
from tether.fitting import (
    AUGMENTED_LAGRANGIAN,
    CONSTRAINED,
    DIRECT,
    TETHERED,
    VANILLA,
    VANILLA_INCREMENT,
    FitConfig,
    Method,
)
from tether.foundation.atomic import write_bytes
from tether.foundation.progress import Reporter, silent
from tether.learning.config import TrainingConfig
from tether.report.page import Picture, Section
from tether.report.tables import run_name
from tether_studies import parked_car

STEPS_AT_REST = 20
POSES = 200
HEADINGS = {"drift_at_rest": "drift [m]", "drift_at_rest_max": "worst drift [m]"}
"""Of the columns that the demonstration adds to the results."""

METHODS: tuple[Method, ...] = (
    VANILLA,
    VANILLA_INCREMENT,
    AUGMENTED_LAGRANGIAN,
    replace(AUGMENTED_LAGRANGIAN, name="Augmented Lagrangian Δ", target="increment"),
    CONSTRAINED,
    DIRECT,
    TETHERED,
)


def demo_config(seed: int = 0) -> FitConfig:
    """Settings small enough for a minute on two cores."""
    return FitConfig(
        memories=1000,
        evidence="proved",
        domain=parked_car.DOMAIN,
        hidden=(128, 128),
        training=TrainingConfig(steps=1500),
        seed=seed,
    )


def run_demo(folder: RunFolder, *, config: FitConfig, reporter: Reporter = silent) -> tuple[Comparison, Path]:
    """Trains, measures the drift at rest, writes the folder; the comparison and the report's path."""
    transitions = parked_car.drive(seed=config.seed)
    comparison = compare(
        transitions,
        trusted=parked_car.TRUSTED,
        probes=parked_car.parked(transitions, seed=config.seed),
        methods=METHODS,
        config=config,
        folder=folder,
        reporter=reporter,
    )
    trajectories = drift_at_rest(comparison)
    for result in comparison.results:
        paths = trajectories[run_name(result)]
        drift = np.hypot(*(paths[-1, :, :2] - paths[0, :, :2]).T)
        result["drift_at_rest"], result["drift_at_rest_max"] = float(drift[0]), float(drift.max())
    from tether.report.figures import as_png, as_svg
    from tether_studies.drift import drift_figure

    figure = drift_figure({name: paths[:, 0] for name, paths in trajectories.items()})
    write_bytes(folder.path / "drift.png", as_png(figure))
    caption = (
        f"A car parked at the origin, with zero speed and yaw rate for {STEPS_AT_REST} steps of 0.1 s, "
        "as each model predicts it. It should not move."
    )
    section = Section("A parked car must stay parked", pictures=[Picture(as_svg(figure), caption, "drift")])
    return comparison, folder.finish(comparison, name="demo", sections=[section], headings=HEADINGS)


def drift_at_rest(comparison: Comparison) -> dict[str, Array]:
    """(T + 1, 1 + POSES, 3) poses by method, with zero input, from the origin and from other places."""
    rng = np.random.default_rng(comparison.config.seed)
    reach = [parked_car.HALF_WIDTH, parked_car.HALF_WIDTH, np.pi]
    start = np.concatenate([np.zeros((1, 3)), rng.uniform(-1, 1, (POSES, 3)) * reach])
    controls = np.zeros((STEPS_AT_REST, len(start), 2))
    steps = [parked_car.unicycle, *(fit.model.predict for fit in comparison.fits)]
    names = [run_name(result) for result in comparison.results]
    return {
        name: rollout(step, start, controls, schema=parked_car.SCHEMA)  # type: ignore[arg-type]
        for name, step in zip(names, steps, strict=True)
    }
