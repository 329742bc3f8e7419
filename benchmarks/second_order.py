"""What second-order models over leaves would give: leaves and bytes until M is known to the same remainder.

    python benchmarks/second_order.py [--only pendulum,car] [--tolerance 1,0.1]

A measurement, not a feature: the tethers of this version have first-order models. Here M's second derivatives are
written down by SymPy and enclosed like any M. With H the Hessian, m the middle of a leaf and r its half widths,
``|M(s) - M(m) - J (s - m) - (s - m)' H(m) (s - m) / 2|`` is at most the integral of (1 - t) times the deviation of H
from H(m) over the leaf shrunk to t, times ``r r'``: by shells, as first-order remainders are. A leaf takes the order
whose remainder is less. Both trees are grown in the same way: whatever exceeds the tolerance is cut in half along the
input that contributes most. Roundings are left out; they are some 1e-15 of M.

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
from tether.evidence.expansions import SHELLS, expand_boxes
from tether.programs import program_of
from tether.programs.boxes import evaluate

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


def compiled(system, outputs, low, high):
    """Expressions of its symbols as a program over the box."""
    from sympy import Matrix

    function = tether.load_trusted((Matrix(system.symbols), Matrix(outputs))).function
    return program_of(function, low[None], high[None], len(system.symbols))


class Output:
    """One output of M, and what both orders leave of it over boxes."""

    def __init__(self, system, number, low, high):
        from sympy import diff

        self.program = compiled(system, [system.outputs[number]], low, high)
        pairs = [(i, j) for i in range(len(low)) for j in range(i, len(low))]
        second = {
            (i, j): diff(system.outputs[number], system.symbols[i], system.symbols[j]) for i, j in pairs
        }
        self.pairs = [pair for pair in pairs if second[pair] != 0]
        self.hessian = (
            compiled(system, [second[pair] for pair in self.pairs], low, high) if self.pairs else None
        )

    def first(self, low, high):
        """Remainders (K,) of first-order models, and what each input contributes (K, D)."""
        found = expand_boxes(self.program, low, high)
        return found.remainder, found.shares

    def second(self, low, high):
        """The same of second-order models."""
        half, middle = 0.5 * (high - low), 0.5 * (low + high)
        shares = np.zeros_like(low)
        if self.hessian is not None:
            point = evaluate(self.hessian, middle, middle, derivatives=False)
            value = 0.5 * (point.lower + point.upper)
            for k in range(1, SHELLS + 1):
                begin, end = (k - 1) / SHELLS, k / SHELLS
                reach = half * end
                found = evaluate(self.hessian, middle - reach, middle + reach, derivatives=False)
                away = np.maximum(found.upper - value, value - found.lower)
                weight = (end - begin) - 0.5 * (end**2 - begin**2)
                for column, (i, j) in enumerate(self.pairs):
                    part = weight * away[:, column] * half[:, i] * half[:, j]
                    shares[:, i] += part
                    shares[:, j] += part if i != j else 0.0
        return shares.sum(axis=1), shares


def grow(output, low, high, tolerance, order):
    """How many leaves of each order it takes, or None where that is too many."""
    low, high, kept, second = low[None].copy(), high[None].copy(), 0, 0
    while len(low):
        remainder, shares = output.first(low, high)
        quadratic = np.zeros(len(low), dtype=bool)
        if order == 2:
            other, parts = output.second(low, high)
            quadratic = other < remainder
            remainder = np.where(quadratic, other, remainder)
            shares = np.where(quadratic[:, None], parts, shares)
        done = remainder <= tolerance
        kept, second = kept + int(done.sum()), second + int((done & quadratic).sum())
        low, high, shares = low[~done], high[~done], shares[~done]
        if kept + len(low) > MOST:
            return None
        rows, widest = np.arange(len(low)), shares.argmax(axis=1)
        middle = 0.5 * (low[rows, widest] + high[rows, widest])
        left, right = high.copy(), low.copy()
        left[rows, widest], right[rows, widest] = middle, middle
        low, high = np.concatenate([low, right]), np.concatenate([left, high])
    return kept, second


def size_of(leaves, inputs, pairs=0):
    """Bytes of leaves in a file: value, slopes, remainder, curvatures, and a node of the tree."""
    return leaves * 8 * (inputs + 2 + pairs + 4)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default=size("", "Sine2D (rival)"))
    parser.add_argument("--tolerance", default=size("1,0.1", "10"))
    asked = parser.parse_args()
    only = set(filter(None, asked.only.split(",")))
    print(
        "| system | remainder | first order: leaves | kB | second order: leaves | kB | fewer leaves | fewer bytes | s |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for name, system in systems().items():
        if only and name not in only:
            continue
        low, high = np.array(system.box, dtype=float).T.copy()
        outputs = [Output(system, k, low, high) for k in range(len(system.outputs))]
        for times in map(float, asked.tolerance.split(",")):
            start, tolerance = time.process_time(), times * system.tolerance
            counts = {o: [grow(output, low, high, tolerance, o) for output in outputs] for o in (1, 2)}
            shown = []
            for order in (1, 2):
                if None in counts[order]:
                    shown.append((np.nan, np.nan))
                    continue
                leaves = sum(kept for kept, _ in counts[order])
                amount = sum(
                    size_of(kept, len(low), len(output.pairs) if second else 0)
                    for (kept, second), output in zip(counts[order], outputs, strict=True)
                )
                shown.append((leaves, amount / 1e3))
            (one, bytes_one), (two, bytes_two) = shown
            print(
                f"| {name} | {tolerance:.2g} | {one:,} | {bytes_one:,.1f} | {two:,} | {bytes_two:,.1f} | "
                f"{one / two:.1f} | {bytes_one / bytes_two:.1f} | {time.process_time() - start:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
