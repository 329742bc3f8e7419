"""Attack on all cores: against one process, with a trusted model of a formula and one that integrates.

    python benchmarks/bench_attack.py

Both find the same, whatever the number of processes; the benchmark fails if they do not. Starting processes is
part of the time, which is why a short search does not.
"""

import sys
import time

import joblib
import numpy as np

from sizes import size
from tether.claims.attack import attack
from tether.fitting import FitConfig, build_tether, prepare
from tether.model import mlp
from tether.model.assembling import constrained_model
from tether_studies import parked_car

CELLS = size(1000, 20)
SEARCHES = size(
    (("formula", 1, 1_000_000), ("200 integration steps", 200, 3_000_000)), (("formula", 1, 140_000),)
)


def model_of(trusted):
    transitions = parked_car.drive(episodes=size(40, 10), steps=size(60, 10))
    config = FitConfig(memories=CELLS, bounds="affine", evidence="proved", domain=parked_car.DOMAIN)
    probes = parked_car.parked(transitions, count=size(2400, 50))
    problem = prepare(transitions, trusted=trusted, probes=probes, config=config)
    tether = build_tether(problem, config)
    frame = problem.frame(tether.target)
    return constrained_model(mlp(frame.features_width, 3, (8,)), frame, tether.cells, tether.bounds)


def integrated(steps):
    """The unicycle, integrated in small steps: a closure, as a user's simulator may be."""

    def function(states, controls):
        for _ in range(steps):
            heading = states[:, 2]
            rate = np.stack(
                [controls[:, 0] * np.cos(heading), controls[:, 0] * np.sin(heading), controls[:, 1]], axis=1
            )
            states = states + parked_car.STEP_SECONDS / steps * rate
        return states

    return function


def seconds(task):
    begun = time.perf_counter()
    found = task()
    return time.perf_counter() - begun, found


def main():
    cores = joblib.cpu_count()
    print(f"{CELLS:,} cells, 5 inputs, {cores} cores; seconds, start-up included\n")
    print(
        f"{'trusted model':26}{'inputs tried':>14}{'1 process':>12}{f'{cores} processes':>14}{'speed-up':>10}{'as chosen':>11}"
    )
    same = True
    for name, steps, evaluations in SEARCHES:
        trusted = integrated(steps)
        model = model_of(trusted)
        attack(model, trusted, evaluations=1000)
        one, found = seconds(lambda m=model, t=trusted, n=evaluations: attack(m, t, evaluations=n, jobs=1))
        all_cores, again = seconds(
            lambda m=model, t=trusted, n=evaluations: attack(m, t, evaluations=n, jobs=-1)
        )
        chosen, third = seconds(lambda m=model, t=trusted, n=evaluations: attack(m, t, evaluations=n))
        same &= found == again == third
        print(
            f"{name:26}{evaluations:>14,}{one:>12.1f}{all_cores:>14.1f}{one / all_cores:>10.2f}{chosen:>11.1f}"
        )
    print(f"\nthe same input found each time: {'PASS' if same else 'MISS'}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
