"""Seconds to build proved affine bounds for all cells at once, against as many plain calls of M.

Targets: 2,500 cells of a 5-input M in 0.1 s, 2,000 cells of a 24-input quadrotor in 1 s.
"""

import time

import numpy as np

from bench_enclosure import quadrotor
from sizes import size
from tether.bounds import Observations, bound_by_expansions
from tether.cells import Cells
from tether.data import Array
from tether.trusted import TrustedModel
from tether_studies import parked_car
from tether_studies.drones.data import SCHEMA, hover_commands, hovering
from tether_studies.drones.trusted import TRUSTED

DRONES = size(2000, 10)


def cells_around(inputs: Array, scale: Array, radius: float) -> Cells:
    low, high = inputs.min(axis=0) - 2 * radius * scale, inputs.max(axis=0) + 2 * radius * scale
    return Cells(inputs / scale, np.empty((0, 2), np.int64), scale, radius, low, high)


def one_step(states, controls):
    """The 12 outputs of the benchmark of enclosures, in the order of the study's."""
    return quadrotor(states, controls)[:, :12]


def report(name, cells, trusted, schema, limit):
    nothing = Observations(
        cells.centers[:1], np.zeros((1, len(schema.outputs))), np.full(len(cells.scale), np.nan)
    )
    build = lambda: bound_by_expansions(cells, trusted, schema, "increment", observations=nothing)  # noqa: E731
    plain = lambda: trusted.target(cells.centers, schema, "increment")  # noqa: E731
    seconds = {}
    for what, call in (("build", build), ("plain", plain)):
        times = []
        for _ in range(size(5, 1)):
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
        seconds[what] = min(times)
    print(
        f"{name}: {len(cells)} cells, {len(cells.scale)} inputs: proved affine bounds {seconds['build']:.3f} s "
        f"(limit {limit} s), {seconds['build'] / seconds['plain']:.0f} times one call of M at as many rows"
    )


def main():
    rng = np.random.default_rng(0)
    car = rng.uniform([-50, -50, -3, 0, -1], [50, 50, 3, 15, 1], (size(2500, 20), 5))
    report(
        "car",
        cells_around(car, np.array([50, 50, 1.0, 5.0, 1.0]), 0.2),
        parked_car.TRUSTED,
        parked_car.SCHEMA,
        0.1,
    )
    states = hovering(rng.uniform(-1, 1, (DRONES, 3)), rng.uniform(-3, 3, DRONES))
    inputs = np.concatenate([states, hover_commands(DRONES)], axis=1) + rng.normal(size=(DRONES, 24)) * 0.01
    scale = np.concatenate([np.ones(3), np.full(4, 0.3), np.full(3, 0.3), np.ones(6), np.full(8, 500.0)])
    around = cells_around(inputs, scale, 0.3)
    # One step of Euler, as the target has it; and the study's own M, which takes five steps of Bullet's.
    report("quadrotor, one step", around, TrustedModel(one_step), SCHEMA, 1.0)
    report("quadrotor, five steps", around, TRUSTED, SCHEMA, 5.0)


if __name__ == "__main__":
    main()
