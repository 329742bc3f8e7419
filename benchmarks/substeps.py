"""What substeps do to an enclosure: RK4 of pendulum, cart-pole and quadrotor over one leaf.

    python benchmarks/substeps.py [--substeps 1,10,50,200] [--steps 0.05,0.5] [--systems pendulum,cart-pole,quadrotor]

Prints, per length of M's step, system and number of substeps, the largest remainder of M's first-order model over
a leaf (slopes' widths times half widths, by the mean-value form of the whole composition), its ratio to that with
one substep, the width of M's range likewise, nodes and seconds. With all of them also draws docs/images/substeps.png.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import tether
from sizes import TINY, size
from tether.programs import enclose, trace
from tether.report.figures import as_png, styled


def pendulum(x, u):
    return np.stack([x[:, 1], u[:, 0] - 9.81 * np.sin(x[:, 0]) - 0.1 * x[:, 1]], axis=1)


def cart_pole(x, u):
    gravity, cart, pole, length = 9.8, 1.0, 0.1, 0.5
    sine, cosine = np.sin(x[:, 2]), np.cos(x[:, 2])
    push = (u[:, 0] + pole * length * x[:, 3] ** 2 * sine) / (cart + pole)
    turn = (gravity * sine - cosine * push) / (length * (4 / 3 - pole * cosine**2 / (cart + pole)))
    return np.stack([x[:, 1], push - pole * length * turn * cosine / (cart + pole), x[:, 3], turn], axis=1)


def quadrotor(x, u):
    """Positions, velocities, Euler angles, rates; thrust and torques (the ARCH benchmark's)."""
    mass, gravity, about_x, about_y, about_z = 1.4, 9.81, 0.054, 0.054, 0.104
    (sr, cr), (sp, cp), (sy, cy) = ((np.sin(x[:, k]), np.cos(x[:, k])) for k in (6, 7, 8))
    p, q, r, lift = x[:, 9], x[:, 10], x[:, 11], u[:, 0] / mass
    return np.stack(
        [
            x[:, 3], x[:, 4], x[:, 5],
            (cr * sp * cy + sr * sy) * lift, (cr * sp * sy - sr * cy) * lift, cr * cp * lift - gravity,
            p + sp / cp * (sr * q + cr * r), cr * q - sr * r, (sr * q + cr * r) / cp,
            ((about_y - about_z) * q * r + u[:, 1]) / about_x,
            ((about_z - about_x) * p * r + u[:, 2]) / about_y,
            ((about_x - about_y) * p * q + u[:, 3]) / about_z,
        ],
        axis=1,
    )  # fmt: skip


SYSTEMS = {
    "pendulum": (pendulum, [0.5, 0.3, 0.0], [0.1, 0.2, 0.2], 2),
    "cart-pole": (cart_pole, [0, 0, 0.1, 0.1, 0], [0.1, 0.1, 0.1, 0.2, 0.5], 4),
    "quadrotor": (quadrotor, [0.0] * 12 + [13.7, 0, 0, 0], [0.1] * 12 + [1.0, 0.01, 0.01, 0.01], 12),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--substeps", default=size("1,10,50,200", "1,2"))
    parser.add_argument("--steps", default=size("0.05,0.5", "0.05"))
    parser.add_argument("--systems", default=size(",".join(SYSTEMS), "pendulum"))
    asked = parser.parse_args()
    curves: dict[tuple[float, str], list[tuple[int, float]]] = {}
    print(
        "| system | step | substeps | remainder | to one substep | range | to one substep | nodes | seconds |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for step in map(float, asked.steps.split(",")):
        for name in asked.systems.split(","):
            curves[step, name] = measured(name, step, list(map(int, asked.substeps.split(","))))
    if TINY or (asked.systems, asked.steps) == (parser.get_default("systems"), parser.get_default("steps")):
        draw(curves)


def measured(name, step, counts):
    """(substeps, remainder to that of one substep)."""
    rate, centre, half, states = SYSTEMS[name]
    low, high = np.subtract(centre, half)[None], np.add(centre, half)[None]
    rows, first = [], None
    for substeps in counts:
        start = time.process_time()
        function = tether.discretise(rate, step, substeps=substeps).function
        # Rows of a batch are checked once when a model is fitted; here one row is enough.
        program = trace(function, states=states, controls=len(half) - states, batches=False)
        found = enclose(program, low, high, states=states)
        seconds = time.process_time() - start
        remainder = ((found.jacobian_upper - found.jacobian_lower)[0] @ half).max()
        width = (found.upper - found.lower).max()
        first = first or (remainder, width)
        rows.append((substeps, remainder / first[0]))
        print(
            f"| {name} | {step} | {substeps} | {remainder:.4g} | {remainder / first[0]:.4f} | {width:.4g} | "
            f"{width / first[1]:.4f} | {len(program)} | {seconds:.1f} |",
            flush=True,
        )
    return rows


def draw(curves):
    """A panel for each step."""
    colours = ("#0072B2", "#D55E00", "#009E73")
    steps = list(dict.fromkeys(step for step, _ in curves))
    with styled():
        figure = Figure(figsize=(8.6, 3.2), layout="constrained")
        FigureCanvasAgg(figure)
        panels = figure.subplots(1, len(steps), squeeze=False, sharey=True)[0]
        for axis, step in zip(panels, steps, strict=True):
            kept = {name: rows for (own, name), rows in curves.items() if own == step}
            for (name, rows), colour, marker in zip(kept.items(), colours, "os^", strict=False):
                substeps, ratio = np.array(rows).T
                axis.plot(substeps, ratio, marker=marker, color=colour, label=name)
            axis.set(xscale="log", ylim=(0, 1.5), xlabel="substeps", title=f"one step of {step:g} s")
            axis.set_xticks(substeps, [f"{int(k)}" for k in substeps])
            axis.minorticks_off()
        panels[0].set_ylabel("remainder, to that of one substep")
        panels[0].legend()
        if not TINY:
            path = Path(__file__).parent.parent / "docs" / "images" / "substeps.png"
            path.write_bytes(as_png(figure))


if __name__ == "__main__":
    main()
