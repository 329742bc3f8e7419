"""Pictures of the vehicle study: parked cars that should stay parked, and the town that was driven."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from PIL import Image

from tether.claims.rollout import rollout
from tether.data import Array, Schema
from tether.report.figures import line_styles, styled
from tether_studies.drift import draw_drift, draw_paths
from tether_studies.figures import legend_below
from tether_studies.vehicle.simulator import STEP_SECONDS
from tether_studies.vehicle.town import HALF_WIDTH, TERRAINS, Town

Predict = Callable[[Array, Array], Array]
"""Next states (N, dx) from states (N, dx) and controls (N, du)."""

STEPS_AT_REST = (20, 50)
"""Steps of the paper's figure, and as many again and a half."""
POSES = 1000

_STILL = 1e-10
"""Metres below which a logarithmic axis shows no motion."""


def parked_poses(schema: Schema, *, count: int = POSES) -> Array:
    """(1 + count, dx) states at rest: at the origin, then anywhere on the map, facing anywhere."""
    rng = np.random.default_rng([0, 2])
    states = np.zeros((1 + count, len(schema.states)))
    states[1:, :2] = rng.uniform(-HALF_WIDTH, HALF_WIDTH, (count, 2))
    states[1:, 2] = rng.uniform(-np.pi, np.pi, count)
    return states


def drift_at_rest(predict: Predict, schema: Schema, start: Array) -> Array:
    """(T + 1, N, dx) states that a model predicts for parked cars (N, dx) with zero input."""
    parked = np.zeros((max(STEPS_AT_REST), len(start), len(schema.controls)))
    return rollout(predict, start, parked, schema=schema)


def drift_distances(trajectories: Array) -> Array:
    """(T + 1, N) metres from where each car was parked; `trajectories` is (T + 1, N, dx)."""
    return np.hypot(*np.moveaxis(trajectories[..., :2] - trajectories[0, :, :2], -1, 0))


def envelope_at_rest(predict: Callable[..., Any], schema: Schema, start: Array, *, steps: int) -> Array:
    """(T + 1,) metres that the certificate allows a car parked at `start` (dx,) to have moved by each step.

    Args:
        predict: ``model.predict`` of a constrained model, whose details tell delta at each row.
        schema: what the columns mean.
        start: where it is parked.
        steps: how many.
    """
    state, controls = start[None], np.zeros((1, len(schema.controls)))
    reach = [0.0]
    for _ in range(steps):
        details = predict(state, controls, details=True)
        # Sound because M itself stays at rest, so that each step moves the car by at most delta.
        reach.append(reach[-1] + float(np.hypot(*details.delta[0, :2])))
        state = details.next_states
    return np.array(reach)


def at_rest_figure(
    trajectories: Mapping[int, Mapping[str, Array]],
    envelopes: Mapping[int, Mapping[str, Array]] | None = None,
) -> Figure:
    """The paper's figure: a car parked at the origin with zero input, one row per seed.

    Args:
        trajectories: (T + 1, dx) states by seed and method; paths are drawn for the paper's 20 steps,
            distances for all.
        envelopes: (T + 1,) metres that a method's certificate allows, by seed and method.
    """
    with styled():
        figure = Figure(figsize=(10, 0.6 + 3.6 * len(trajectories)), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(len(trajectories), 2, width_ratios=[1, 1.25], squeeze=False)
        for (plane, time), (seed, by_method) in zip(axes, trajectories.items(), strict=True):
            first = {name: states[: STEPS_AT_REST[0] + 1] for name, states in by_method.items()}
            draw_paths(plane, first)
            draw_drift(time, by_method, (envelopes or {}).get(seed), still=_STILL)
            plane.set_title(f"Seed {seed}: predicted path, {STEPS_AT_REST[0]} steps")
            time.set_title(f"Seed {seed}: distance from where it was parked")
        handles = axes[0][1].get_legend_handles_labels()
        figure.legend(*handles, loc="outside lower center", ncols=min(4, len(handles[0])))
    return figure


def at_rest_animation(
    trajectories: Mapping[str, Array], envelopes: Mapping[str, Array] | None = None
) -> bytes:
    """The same as a GIF, in real time: paths on the left, distances on the right.

    Args:
        trajectories: (T + 1, dx) states by method.
        envelopes: (T + 1,) metres that a method's certificate allows.
    """
    steps = len(next(iter(trajectories.values()))) - 1
    with styled():
        figure = Figure(figsize=(9, 4.4), layout="constrained", dpi=80)
        canvas = FigureCanvasAgg(figure)
        plane, time = figure.subplots(1, 2, width_ratios=[1, 1.25])
        draw_paths(plane, trajectories)
        draw_drift(time, trajectories, envelopes, still=_STILL)
        for text in [*plane.texts[1:], *time.texts]:
            text.remove()
        plane.set_title("Predicted path of a parked car")
        figure.legend(*time.get_legend_handles_labels(), loc="outside lower center", ncols=4)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # what was laid out once stays; anew for each frame takes a minute
        for axis in (plane, time):
            axis.set(xlim=axis.get_xlim(), ylim=axis.get_ylim())
        pairs = [(line, line.get_xdata(), line.get_ydata()) for axis in (plane, time) for line in axis.lines]

        frames = []
        for step in range(1, steps + 1):
            for line, x, y in pairs:
                # Lines of the plane begin with the start, those over time with the first step.
                last = step + 1 if line.axes is plane else step
                line.set_data(x[:last], y[:last])
            time.set_title(f"Distance from where it was parked, after {step * STEP_SECONDS:.1f} s")
            canvas.draw()
            frames.append(Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB"))
    # The colours of the last frame, which shows all lines, for every frame: a line keeps its colour.
    palette = frames[-1].quantize(128)
    frames = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    return _as_gif(frames, round(1000 * STEP_SECONDS))


def _as_gif(frames: Sequence[Image.Image], milliseconds: int) -> bytes:
    """The frames, for as long each, the last for longer; over and over."""
    buffer, durations = io.BytesIO(), [milliseconds] * (len(frames) - 1) + [15 * milliseconds]
    frames[0].save(buffer, format="GIF", save_all=True, append_images=frames[1:], duration=durations, loop=0)
    return buffer.getvalue()


def drift_distribution_figure(
    distances: Mapping[str, Array], *, steps: int, tolerance: float = 1e-9
) -> Figure:
    """How far parked cars drift, over poses: for each method, the share that drifts at most so far.

    Args:
        distances: (N,) metres after the last step, by method.
        steps: number of steps, for the title.
        tolerance: metres up to which a car counts as standing still.
    """
    with styled():
        figure = Figure(figsize=(8, 4.2), layout="constrained")
        FigureCanvasAgg(figure)
        axis = figure.subplots()
        for name, style in line_styles(distances).items():
            values = np.sort(np.maximum(distances[name], _STILL))
            share = np.arange(1, len(values) + 1) / len(values)
            still = np.mean(distances[name] <= tolerance)
            axis.plot(
                np.concatenate([[_STILL], values, [1e3]]), np.concatenate([[0], share, [1]]),
                drawstyle="steps-post", label=f"{name} ({still:.1%} still)", **style,
            )  # fmt: skip
        axis.axvline(tolerance, color="#777777", lw=0.8, ls=":")
        axis.annotate(
            "stands still up to here", (tolerance, 0.5), xytext=(4, 0), textcoords="offset points",
            rotation=90, va="center", color="#555555", fontsize=8,
        )  # fmt: skip
        count = len(next(iter(distances.values())))
        axis.set(
            xscale="log", xlim=(_STILL, 1e3), ylim=(0, 1.02),
            xlabel=f"drift after {steps} steps with zero input [m]", ylabel="share of poses",
            title=f"{count:,} parked cars, anywhere in town, facing anywhere",
        )  # fmt: skip
        lines, labels = axis.get_legend_handles_labels()
        legend_below(figure, dict(zip(labels, lines, strict=True)), 3)
    return figure


def town_figure(
    town: Town, positions: Array, speeds: Array, *, colour: Literal["speed", "friction"] = "speed"
) -> Figure:
    """The map: what was driven, coloured by speed or friction, over the terrain.

    Args:
        town: that was driven through.
        positions: (T + 1, E, 2) of E cars [m].
        speeds: (T, E) at the beginning of each step [m/s].
        colour: what the colours of the drives tell.
    """
    with styled():
        figure = Figure(figsize=(7.4, 6.2), layout="constrained")
        FigureCanvasAgg(figure)
        axis = figure.subplots()
        _draw_terrain(axis, town)
        values = speeds if colour == "speed" else town.friction(positions[:-1].reshape(-1, 2))
        # One short line per step: (T, E, 2 ends, 2 coordinates).
        pieces = np.stack([positions[:-1], positions[1:]], axis=2).reshape(-1, 2, 2)
        lines = LineCollection(
            list(pieces), cmap="viridis", norm=Normalize(0.0, float(values.max())), linewidths=1.6
        )
        lines.set_array(values.reshape(-1))
        # As an image inside the vector figure: thousands of pieces would weigh megabytes.
        lines.set_rasterized(True)
        axis.add_collection(lines)
        standing = positions[:-1][speeds < 0.01]
        axis.plot(
            *standing.T,
            ls="",
            marker="o",
            ms=3,
            mfc="#D55E00",
            mec="none",
            label="stands still",
            rasterized=True,
        )
        label = "speed [m/s]" if colour == "speed" else "friction of the road, relative to dry"
        figure.colorbar(lines, ax=axis, label=label, shrink=0.85)
        limits = (-HALF_WIDTH, HALF_WIDTH)
        axis.set(xlim=limits, ylim=limits, xlabel="x [m]", ylabel="y [m]", aspect="equal")
        cars, seconds = positions.shape[1], 0.1 * (len(positions) - 1)
        axis.set_title(f"The town: {cars} drives of {seconds:.0f} s")
        figure.legend(loc="outside lower center", ncols=5)
    return figure


def _draw_terrain(axis: Axes, town: Town) -> None:
    """Squares shaded by friction, the darker the more slippery."""
    patches = town.patches
    size = 2 * HALF_WIDTH / len(patches)
    for name, friction in TERRAINS.items():
        shade = str(0.62 + 0.38 * (friction - 0.4) / 0.6)
        label: str | None = f"{name} ({friction:g})"
        for row, column in np.argwhere(patches == friction):
            corner = (-HALF_WIDTH + column * size, -HALF_WIDTH + row * size)
            style = {"fc": shade, "ec": "#cccccc", "lw": 0.5, "zorder": 0}
            axis.add_patch(Rectangle(corner, size, size, label=label, **style))
            label = None
