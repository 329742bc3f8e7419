"""Draws docs/images/convergence.png: proved delta against the number of memories, on log-log axes.

A grid of K memories over a square and over a cube, and as many leaves; interval bounds fall as K^(-1/d), affine ones
as K^(-2/d). ``tests/guarantee/test_affine_tethers.py`` asserts the slopes.
"""

from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from sizes import TINY, size
from tether.data import make_schema
from tether.evidence import Proved, Question
from tether.evidence.ranges import proved_range
from tether.geometry.cells import Cells
from tether.report.figures import as_png, styled
from tether.tethers.growth import Aim, grow
from tether.trusted import TrustedModel

SIDES = size({2: (4, 6, 9, 14, 21, 32, 48), 3: (3, 4, 6, 8, 11, 14)}, {2: (4, 6), 3: (3, 4)})


def wave(states, controls):
    product = np.sin(states[:, :1] + 0.5)
    for column in range(1, states.shape[1]):
        product = product * np.sin(states[:, column : column + 1] + 0.5)
    return product


def grid(side, dimensions):
    axis = (np.arange(side) + 0.5) * 4 / side - 2
    memories = np.stack(np.meshgrid(*[axis] * dimensions), axis=-1).reshape(-1, dimensions)
    limit = np.full(dimensions, 2.0)
    radius = np.sqrt(dimensions) * 2 / side
    return Cells(memories, np.empty((0, 2), np.int64), np.ones(dimensions), radius, -limit, limit)


def deltas(side, dimensions):
    names = [f"x{k}" for k in range(dimensions)]
    schema = make_schema(names, [], ["y"])
    cells, trusted = grid(side, dimensions), TrustedModel(wave)
    outer = proved_range(cells, trusted, schema, "next_state")
    question = Question(trusted, schema, "next_state", cells.box_lower, cells.box_upper)
    aim = Aim(np.full(1, 1e-12), np.empty((0, dimensions)), len(cells))
    remainder = grow(Proved().expander(question), aim).leaves.remainder
    return len(cells), float(np.median(outer.upper - outer.lower)), float(np.median(remainder))


def main():
    with styled():
        figure = Figure(figsize=(9, 3.8), layout="constrained")
        FigureCanvasAgg(figure)
        for axis, dimensions in zip(figure.subplots(1, 2, sharey=True), SIDES, strict=True):
            counts, interval, affine = np.array([deltas(s, dimensions) for s in SIDES[dimensions]]).T
            for values, name, colour, marker in (
                (interval, "interval (the paper)", "#D55E00", "s"),
                (affine, "affine", "#0072B2", "o"),
            ):
                slope, start = np.polyfit(np.log(counts), np.log(values), 1)
                axis.plot(counts, values, marker, color=colour, label=f"{name}: slope {slope:.2f}")
                axis.plot(counts, np.exp(start) * counts**slope, "-", color=colour, lw=1)
                print(f"{dimensions} inputs, {name}: slope {slope:.3f}")
            axis.set(xscale="log", yscale="log", xlabel="memories", title=f"{dimensions} inputs")
            axis.legend(loc="lower left")
        figure.axes[0].set_ylabel("proved delta, median cell")
    path = Path(__file__).parents[1] / "docs" / "images" / "convergence.png"
    picture = as_png(figure)
    if not TINY:
        path.write_bytes(picture)
    print(path.name)


if __name__ == "__main__":
    main()
