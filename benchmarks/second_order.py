"""What second-order models over leaves give: leaves and bytes until M is known to the same remainder.

    python benchmarks/second_order.py [--only pendulum,car] [--tolerance 1,0.1]

Both trees are grown by the product (`order=1` and `order=2`), over the whole box alike, until no remainder exceeds the
tolerance. Bytes are those of bounds and trees, as a file holds them.

Tolerances are multiples of a hundredth of the ε that Certified Neural Approximations (arXiv 2505.15497) proves for
each of its systems; of 1e-3 of M's largest change for others.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import numpy as np

import tether
from sizes import size
from tether.data import make_schema
from tether.evidence import Proved, Question
from tether.tethers.growth import Aim, Grown, grow

MOST = size(200_000, 400)
PI = np.pi


@dataclass(frozen=True)
class System:
    """A step or a rate, output by output, over a box.

    Attributes:
        symbols: its inputs.
        outputs: expressions.
        box: limits of inputs.
        tolerance: the remainder wanted, for each output.
    """

    symbols: tuple
    outputs: tuple
    box: list
    tolerance: float


def systems():
    """By name; four with two states of the rival's."""
    from sympy import cos, exp, sin, symbols, tan

    x, y, z, h, v, w, d = symbols("x y z h v w d")
    # Gymnasium's, as `gym_pendulum.py` has it, where the speed is nowhere near its limit.
    faster = v + 0.05 * (15 * sin(h) + 3 * w)
    pendulum = System((h, v, w), (0.05 * faster, faster - v), [(-PI, PI), (-6.9, 6.9), (-2, 2)], 1e-3 * 1.05)
    car = (0.05 * v * cos(h), 0.05 * v * sin(h), 0.05 * w)
    bicycle = (0.05 * v * cos(h), 0.05 * v * sin(h), 0.05 * v * tan(d) / 2.5)
    return {
        "pendulum (Gymnasium)": pendulum,
        "demo car": System((h, v, w), car, [(-PI, PI), (0, 15), (-1, 1)], 1e-3 * 0.75),
        "kinematic bicycle": System((h, v, d), bicycle, [(-PI, PI), (0, 15), (-0.6, 0.6)], 1e-3 * 0.75),
        "VanDerPol (rival)": System((x, y), (y, (1 - x**2) * y - x), [(-3, 3)] * 2, 0.0025),
        "SteamGovernor (rival)": System(
            (x, y, z), (y, z**2 * sin(x) * cos(x) - sin(x) - 3 * y, 1 - cos(x)), [(-1, 1)] * 3, 0.0006
        ),
        "Sine2D (rival)": System((x, y), (sin(y / 2), -sin(x)), [(-PI, PI)] * 2, 0.0002),
        "Exponential (rival)": System((x, y), (-sin(exp(y**3 + 1)) - y**2, -x), [(-1, 1)] * 2, 0.0004),
    }


def grown(system: System, tolerance: float, order: int) -> Grown:
    """The trees of an order."""
    from sympy import Matrix

    names = [str(symbol) for symbol in system.symbols]
    schema = make_schema(names, [], [f"out{k}" for k in range(len(system.outputs))])
    low, high = np.array(system.box, dtype=float).T.copy()
    trusted = tether.load_trusted((Matrix(system.symbols), Matrix(system.outputs)))
    question = Question(trusted, schema, "next_state", low, high, order=order)
    aim = Aim(np.full(len(system.outputs), tolerance), np.empty((0, len(names))), MOST)
    return grow(Proved().expander(question), aim)


def size_of(found: Grown) -> int:
    """Bytes of value, slope, remainder, curvatures and nodes."""
    leaves = found.leaves
    held = (leaves.value, leaves.slope, leaves.remainder, leaves.curvature, *found.tree.nodes)
    return sum(part.nbytes for part in held)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default=size("", "Sine2D (rival)"))
    parser.add_argument("--tolerance", default=size("1,0.1", "10"))
    asked = parser.parse_args()
    only = set(filter(None, asked.only.split(",")))
    print(
        "| system | remainder | first order: leaves | kB | s | second order: leaves | kB | s | fewer leaves |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for name, system in systems().items():
        if only and name not in only:
            continue
        for times in map(float, asked.tolerance.split(",")):
            shown, counts = [], []
            for order in (1, 2):
                start = time.process_time()
                found = grown(system, times * system.tolerance, order)
                taken, more = time.process_time() - start, "" if found.stopped == "tolerance" else "over "
                counts.append(found.tree.leaves)
                shown.append(f"{more}{counts[-1]:,} | {size_of(found) / 1e3:,.1f} | {taken:.1f}")
            tolerance, ratio = times * system.tolerance, counts[0] / counts[1]
            print(f"| {name} | {tolerance:.2g} | {' | '.join(shown)} | {ratio:.1f} |", flush=True)


if __name__ == "__main__":
    main()
