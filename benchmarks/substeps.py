"""What substeps do to an enclosure: RK4 of pendulum, cart-pole and quadrotor over one leaf.

    python benchmarks/substeps.py [--substeps 1,10,50,200] [--systems pendulum,cart-pole,quadrotor] [--figure]

Prints, per system and number of substeps of one step of 0.05 s, the largest remainder of M's first-order
model over a leaf (slopes' widths times half widths, by the mean-value form of the whole composition), its
ratio to that with one substep, the width of M's range likewise, nodes and seconds. With `--figure` also draws
docs/images/substeps.png: this, and the width of a range that is carried from substep to substep as a box.
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
from tether.programs import enclose, enclose_range, trace
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
    parser.add_argument("--systems", default=size(",".join(SYSTEMS), "pendulum"))
    parser.add_argument("--figure", action="store_true", default=TINY)
    asked = parser.parse_args()
    curves: dict[str, list[tuple[int, float, float]]] = {}
    print("| system | substeps | remainder | to one substep | range | to one substep | nodes | seconds |")
    print("|---|---|---|---|---|---|---|---|")
    for name in asked.systems.split(","):
        rate, centre, half, states = SYSTEMS[name]
        low, high = np.subtract(centre, half)[None], np.add(centre, half)[None]
        first = None
        for substeps in map(int, asked.substeps.split(",")):
            start = time.process_time()
            function = tether.discretise(rate, 0.05, substeps=substeps).function
            # Rows of a batch are checked once when a model is fitted; here one row is enough.
            program = trace(function, states=states, controls=len(half) - states, batches=False)
            found = enclose(program, low, high, states=states)
            remainder = ((found.jacobian_upper - found.jacobian_lower)[0] @ half).max()
            width = (found.upper - found.lower).max()
            first = first or (remainder, width)
            carried = by_boxes(rate, low, high, states, substeps) if asked.figure else np.nan
            curves.setdefault(name, []).append((substeps, remainder / first[0], carried / first[1]))
            seconds = time.process_time() - start
            print(
                f"| {name} | {substeps} | {remainder:.4g} | {remainder / first[0]:.4f} | {width:.4g} | "
                f"{width / first[1]:.4f} | {len(program)} | {seconds:.1f} |",
                flush=True,
            )
    if asked.figure:
        draw(curves)


def by_boxes(rate, low, high, states, substeps):
    """The width of M's range where each substep is given the box that the one before it ends in."""
    function = tether.discretise(rate, 0.05 / substeps).function
    program = trace(function, states=states, controls=low.shape[1] - states, batches=False)
    low, high = low.copy(), high.copy()
    for _ in range(substeps):
        found = enclose_range(program, low, high, states=states)
        low[:, :states], high[:, :states] = found.lower, found.upper
    return (high - low)[:, :states].max()


def draw(curves):
    """As one program, and box by box, on log axes."""
    colours = ("#0072B2", "#D55E00", "#009E73")
    with styled():
        figure = Figure(figsize=(6.4, 3.6), layout="constrained")
        FigureCanvasAgg(figure)
        axis = figure.subplots()
        for (name, rows), colour in zip(curves.items(), colours, strict=False):
            substeps, whole, carried = np.array(rows).T
            axis.plot(substeps, whole, marker="o", color=colour, label=f"{name}, one program")
            axis.plot(
                substeps, carried, marker="s", linestyle="--", color=colour, label=f"{name}, box by box"
            )
        axis.set(xscale="log", yscale="log", xlabel="substeps of one step of 0.05 s")
        axis.set_ylabel("to that of one substep")
        axis.set_xticks(substeps, [f"{int(k)}" for k in substeps])
        axis.minorticks_off()
        axis.legend(fontsize=8, ncols=2)
        if not TINY:
            path = Path(__file__).parent.parent / "docs" / "images" / "substeps.png"
            path.write_bytes(as_png(figure))


if __name__ == "__main__":
    main()
