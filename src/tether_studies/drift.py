"""How far a parked car is predicted to drift, drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from tether.data import Array
from tether.report.figures import line_styles, styled

_STILL = 1e-6
"""Metres below which the logarithmic axis shows no motion; labels tell the number."""


def drift_figure(trajectories: Mapping[str, Array]) -> Figure:
    """A parked car that should stay parked: paths from the origin, and distance against time.

    Args:
        trajectories: (T + 1, dx) states by method; the first two states are the position in metres.
    """
    with styled():
        figure = Figure(figsize=(10, 4.4), layout="constrained")
        FigureCanvasAgg(figure)
        plane, time = figure.subplots(1, 2, width_ratios=[1, 1.25])
        draw_paths(plane, trajectories)
        draw_drift(time, trajectories)
        plane.set_title("Predicted path of a parked car")
        time.set_title("Drift from where it was parked")
        figure.legend(
            *time.get_legend_handles_labels(), loc="outside lower center", ncols=min(4, len(trajectories))
        )
    return figure


def draw_paths(plane: Axes, trajectories: Mapping[str, Array]) -> None:
    """Paths in the plane from where a car was parked, one for each method; states (T + 1, dx)."""
    for name, style in line_styles(trajectories).items():
        x, y = (trajectories[name][:, :2] - trajectories[name][0, :2]).T
        plane.plot(x, y, marker=".", ms=4, label=name, **style)
    plane.plot(0, 0, marker="+", ms=12, mew=2, color="black", zorder=5)
    plane.annotate("start", (0, 0), textcoords="offset points", xytext=(6, 6))
    plane.set(xlabel="x [m]", ylabel="y [m]")
    plane.set_aspect("equal", adjustable="datalim")


def draw_drift(
    time: Axes,
    trajectories: Mapping[str, Array],
    envelopes: Mapping[str, Array] | None = None,
    *,
    still: float = _STILL,
) -> None:
    """Distance from where a car was parked against steps, one line for each method.

    Args:
        time: where to draw.
        trajectories: (T + 1, dx) states by method.
        envelopes: (T + 1,) metres that a method's certificate allows, where it has one; shaded below.
        still: metres below which the logarithmic axis shows no motion.
    """
    styles = line_styles(trajectories)
    for name, envelope in (envelopes or {}).items():
        steps, top = np.arange(1, len(envelope)), np.maximum(envelope[1:], still)
        label = f"{name}: certified"
        time.fill_between(steps, still, top, color=styles[name]["color"], alpha=0.15, lw=0, label=label)
    for name, style in styles.items():
        states = trajectories[name]
        drift = np.hypot(*(states[1:, :2] - states[0, :2]).T)
        time.plot(np.arange(1, len(states)), np.maximum(drift, still), label=name, **style)
    _label_ends(time, trajectories, styles, still)
    time.set(xlabel="steps with zero input", ylabel="distance [m]", yscale="log")
    time.margins(x=0.12)


def _label_ends(
    time: Axes, trajectories: Mapping[str, Array], styles: Mapping[str, dict[str, Any]], still: float
) -> None:
    """The last distance of each line, lines that end together labelled once."""
    ends = {name: float(np.hypot(*(s[-1, :2] - s[0, :2]))) for name, s in trajectories.items()}
    heights = {name: np.log10(max(drift, still)) for name, drift in ends.items()}
    apart = 0.04 * (max(heights.values()) - min(heights.values()))
    written: list[str] = []
    # From the last on: tables end with the tethered model.
    for name in reversed(ends):
        if all(abs(heights[name] - heights[other]) > apart for other in written):
            _label_end(time, len(trajectories[name]) - 1, ends[name], styles[name]["color"], still)
            written.append(name)


def _label_end(axis: Axes, step: int, value: float, colour: str, still: float) -> None:
    text = "0 m" if value == 0 else f"{value:.3g} m" if value >= 100 else f"{value:.2g} m"
    axis.annotate(
        text, (step, max(value, still)), textcoords="offset points", xytext=(5, 0), va="center", color=colour
    )
