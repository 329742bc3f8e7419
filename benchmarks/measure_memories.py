"""Prints the tables of docs/choosing.md: what memories, kind of bounds, evidence and delta do on the demo's car.

Every row is one tether on the same split of the same data, proved unless it says otherwise, and a network of
two layers of 128 trained for 1,500 steps. Measured on held-out episodes.
"""

import time
from dataclasses import replace

import numpy as np

from sizes import TINY, size
from tether.fitting import (
    CONSTRAINED,
    TETHERED,
    build,
    judge,
    learn_method,
    measure_trusted,
    prepare,
)
from tether.foundation.errors import CertificateError
from tether_studies import parked_car
from tether_studies.demo import demo_config

MEMORIES, LEAVES = size(((100, 300, 1000, 3000), (300, 1000, 3000, 20_000)), ((20,), (20,)))
DELTAS = size((0.5, 0.2, 0.1, 0.05, 0.02), (5.0,))
DELTA_OUTPUTS = ("x", "y")


def rows(problem, config):
    """One measured run, or the reason why there is none, and the seconds that the tether took."""
    begun = time.monotonic()
    try:
        built = build(problem, config.bounds, config)
    except CertificateError as error:
        return str(error), time.monotonic() - begun
    seconds = time.monotonic() - begun
    method = TETHERED if config.bounds == "affine" else CONSTRAINED
    learned = learn_method(problem, method, config, built=built)
    return judge(problem, learned).measures.as_dict(), seconds


def describe(name, run, seconds):
    if isinstance(run, str):
        return f"| {name} | {run} | | | | | {seconds:.1f} s |"
    delta, held_out = run["delta_certified"], run["delta_D"]
    cells = [
        f"{run['memories']:,}",
        f"{delta['x']['max']:.3g} / {held_out['x']['median']:.3g} m",
        f"{delta['heading']['max']:.3g} / {held_out['heading']['median']:.3g} rad",
        f"{100 * run['coverage_D']:.1f} %",
        f"{run['approximation_loss_D']:.2g}",
        f"{seconds:.1f} s",
    ]
    return f"| {name} | {' | '.join(cells)} |"


def table(title, configs, problem):
    print(f"\n{title}\n")
    print(
        "| | memories | delta of x: worst cell / median held-out | of heading | held-out D covered | error on D | tether built in |"
    )
    print("|---|---|---|---|---|---|---|")
    for name, config in configs:
        print(describe(name, *rows(problem, config)), flush=True)


def main():
    base = demo_config(0)
    if TINY:
        base = replace(base, memories=20, training=replace(base.training, steps=10, evaluate_every=10))
    transitions = parked_car.drive(seed=0, **size({}, {"episodes": 12, "steps": 10}))
    probes = parked_car.parked(transitions, seed=0, **size({}, {"count": 60}))
    problem = prepare(transitions, trusted=parked_car.TRUSTED, probes=probes, config=base)
    print(f"M alone: error on D {measure_trusted(problem, 0).losses.approximation_loss_D:.2g}")
    rows(problem, replace(base, memories=size(50, 10), training=replace(base.training, steps=10)))  # compiles
    affine = replace(base, bounds="affine")
    kinds = {"interval": replace(base, bounds="interval"), "affine": affine}
    table(
        "More memories, or leaves",
        [
            *((f"interval, {count:,}", replace(kinds["interval"], memories=count)) for count in MEMORIES),
            *((f"affine, {count:,} leaves", replace(affine, leaves=count)) for count in LEAVES),
        ],
        problem,
    )
    table(
        "Evidence",
        [
            (f"{name}, {level}", replace(kind, evidence=level))
            for name, kind in kinds.items()
            for level in ("sampled", "statistical", "proved")
        ],
        problem,
    )
    table(
        "Delta asked for, of x and y in metres",
        [
            (
                f"{value:g} m",
                replace(affine, delta=dict.fromkeys(DELTA_OUTPUTS, value)),
            )
            for value in DELTAS
        ],
        problem,
    )
    print(
        f"\n{len(transitions):,} rows of D, {len(np.unique(problem.training_inputs, axis=0)):,} distinct training inputs"
    )


if __name__ == "__main__":
    main()
