"""Seconds of CPU to verify 2,000 proved leaves: the unicycle (5 inputs) and the quadrotor (24 inputs)."""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

import tether
from sizes import size
from tether.data import Scaling, Schema
from tether.evidence import Proved, Question
from tether.geometry.cells import Cells
from tether.model import Frame, Model, mlp
from tether.model.assembling import constrained_model
from tether.tethers.expanding import expand, with_room
from tether.tethers.growth import Aim
from tether.trusted import Function
from tether_studies import parked_car
from tether_studies.drones import crazyflie
from tether_studies.drones.data import SCHEMA as DRONE
from tether_studies.drones.trusted import quadrotor

LEAVES = size(2000, 20)

TARGETS = {"unicycle": 2.0, "quadrotor": 20.0}
"""Seconds; before M was traced, 87 to 300 s for 1,000 cells of the quadrotor, arb object by arb object."""


def model(function: Function, schema: Schema, low: list, high: list, leaves: int) -> Model:
    """A tether over the box from `low` to `high` (D,) whose network is of no account."""
    lower, upper = np.array(low, dtype=np.float64), np.array(high, dtype=np.float64)
    nowhere, outputs = np.full(len(lower), np.nan), len(schema.outputs)
    question = Question(tether.TrustedModel(function), schema, "increment", lower, upper, nowhere)
    rows = np.random.default_rng(0).uniform(lower, upper, (500, len(lower)))
    scale = upper - lower
    cells = Cells(rows[:20] / scale, np.array([[0, 1]]), scale, 1.0, lower, upper)
    found = expand(question, Proved(), Aim(np.full(outputs, 1e-9), rows, leaves), cells)
    bounds = with_room(found.bounds, np.zeros((20, outputs)), schema)
    frame = Frame(
        schema, "increment", Scaling(rows.mean(axis=0), scale), Scaling(np.zeros(outputs), np.ones(outputs))
    )
    return constrained_model(mlp(frame.features_width, outputs, (4,)), frame, cells, bounds)


def models(leaves: int = LEAVES) -> dict[str, tuple[Model, Function]]:
    """By name, models and what they were made for."""
    car = model(
        parked_car.unicycle, parked_car.SCHEMA, [-50, -50, -np.pi, 0, -0.8], [50, 50, np.pi, 15, 0.8], leaves
    )
    reach = np.r_[np.full(3, 3.0), np.full(3, 0.15), 3e-3, np.full(3, 0.3), np.full(3, 1.5), np.full(3, 1.5)]
    reach = np.r_[reach, np.full(4, 1500.0), np.full(4, 900.0)]
    middle = np.r_[np.zeros(6), 1.0, np.zeros(9), np.full(8, crazyflie.HOVER_SPEED)]
    drone = model(quadrotor, DRONE, list(middle - reach), list(middle + reach), leaves)
    return {"unicycle": (car, parked_car.unicycle), "quadrotor": (drone, quadrotor)}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--leaves", type=int, default=LEAVES)
    leaves = parser.parse_args(arguments).leaves
    for name, (tethered, function) in models(leaves).items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.safetensors"
            tether.save(tethered, path)
            start = time.process_time()
            result = tether.verify(path, function)
            seconds = time.process_time() - start
        verdict = "PASS" if seconds <= TARGETS[name] and result.verified else "MISS"
        print(
            f"{name}: {result.cells} leaves of {len(tethered.schema.inputs)} inputs verified in {seconds:.1f} s of CPU   "
            f"target <= {TARGETS[name]:.0f} s   {verdict}"
        )


if __name__ == "__main__":
    main()
