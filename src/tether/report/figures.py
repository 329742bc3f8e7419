"""Figures: readable in print and by the colour-blind, vector by default."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.style import context

from tether.data import Array
from tether.report.styles import line_styles as line_styles
from tether.training import Evaluation

_STILL = 1e-6
"""Metres below which the logarithmic axis shows no motion; labels tell the number."""
_RC = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "tether",
}


@contextmanager
def styled():
    """The style of every figure."""
    with context(_RC):
        yield


def curves_figure(histories: Mapping[str, Sequence[Evaluation]]) -> Figure:
    """The paper's metrics against gradient steps, one line per method, on validation data."""
    panels = {
        "approximation_loss_D": "Error on D",
        "constraint_loss_omega_mean": "Distance² to M on Ω, mean",
        "constraint_loss_omega_max": "Distance² to M on Ω, max",
        "constraint_loss_D_mean": "Distance² to M on D, mean",
    }
    with styled():
        figure = Figure(figsize=(10, 3.2), layout="constrained")
        FigureCanvasAgg(figure)
        axes, styles = figure.subplots(1, len(panels)), line_styles(histories)
        for axis, (key, title) in zip(axes, panels.items(), strict=True):
            for name, history in histories.items():
                values = [max(getattr(e, key), 1e-16) for e in history]
                axis.plot([e.step for e in history], values, label=name, **styles[name])
            axis.set(title=title, xlabel="gradient steps", yscale="log")
        figure.legend(
            *axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=min(4, len(histories))
        )
    return figure


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
    apart = 0.05 * (max(heights.values()) - min(heights.values()))
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


def as_svg(figure: Figure) -> str:
    """The figure as SVG text, to be put into a page."""
    buffer = io.StringIO()
    with styled():
        figure.savefig(buffer, format="svg", dpi=160, metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def as_png(figure: Figure) -> bytes:
    """The figure as PNG."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=160)
    return buffer.getvalue()
