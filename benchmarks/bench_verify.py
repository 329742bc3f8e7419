"""Seconds to verify 1,000 proved affine cells: the demo's unicycle (5 inputs) and the quadrotor (24 inputs)."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

import tether
from sizes import size
from tether.bounds import Observations, bound_by_expansions
from tether.cells import Cells
from tether.constrained import ConstrainedModel, Frame, mlp
from tether.data import Scaling
from tether_studies import parked_car
from tether_studies.drones import crazyflie
from tether_studies.drones.data import SCHEMA as DRONE
from tether_studies.drones.trusted import quadrotor

CELLS = size(1000, 4)

TARGETS = {"unicycle": 2.0, "quadrotor": 20.0}
"""Seconds; before M was traced, 87 to 300 s for the quadrotor, arb object by arb object."""


def model(function, schema, centers, scale, radius) -> ConstrainedModel:
    """A tether around `centers` (K, D) whose network is of no account."""
    memories, trusted = centers / scale, tether.TrustedModel(function)
    reach = radius * scale
    box = centers.min(axis=0) - reach, centers.max(axis=0) + reach
    cells = Cells(memories, np.array([[0, 1]]), scale, radius, *box)
    targets = trusted.target(centers, schema, "increment")
    seen = Observations(centers, targets, np.full(len(scale), np.nan))
    bounds = bound_by_expansions(cells, trusted, schema, "increment", observations=seen)
    outputs = Scaling(np.zeros(targets.shape[1]), np.ones(targets.shape[1]))
    frame = Frame(schema, "increment", Scaling(np.zeros(len(scale)), scale), outputs)
    return ConstrainedModel(mlp(frame.features_width, targets.shape[1], (4,)), frame, cells, bounds)


def models(count: int = CELLS) -> dict[str, tuple]:
    rng = np.random.default_rng(0)
    poses = rng.uniform([-50, -50, -3, 0, -0.8], [50, 50, 3, 15, 0.8], (count, 5))
    car = model(parked_car.unicycle, parked_car.SCHEMA, poses, np.array([30.0, 30.0, 1.0, 4.0, 0.4]), 0.3)
    spread = np.r_[np.full(3, 1.0), np.full(3, 0.05), 1e-3, np.full(3, 0.1), np.full(3, 0.5), np.full(3, 0.5)]
    spread = np.r_[spread, np.full(4, 500.0), np.full(4, 300.0)]
    flights = rng.standard_normal((count, 24)) * spread
    flights[:, 6] += 1.0
    flights[:, 16:] += crazyflie.HOVER_SPEED
    drone = model(quadrotor, DRONE, flights, spread, 0.5)
    return {"unicycle": (car, parked_car.unicycle), "quadrotor": (drone, quadrotor)}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", type=int, default=CELLS)
    count = parser.parse_args(arguments).cells
    for name, (tethered, function) in models(count).items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.safetensors"
            tether.save(tethered, path)
            start = time.perf_counter()
            result = tether.verify(path, function)
            seconds = time.perf_counter() - start
        verdict = "PASS" if seconds <= TARGETS[name] and result.verified else "MISS"
        print(
            f"{name}: {result.cells} cells of {len(tethered.schema.inputs)} inputs verified in {seconds:.1f} s   "
            f"target <= {TARGETS[name]:.0f} s   {verdict}"
        )


if __name__ == "__main__":
    main()
