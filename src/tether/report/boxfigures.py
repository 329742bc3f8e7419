"""Figures of a model over an operating box: distributions of delta, and slices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from tether.data import Array, Schema
from tether.report.boxes import Slice, Spreads, labelled
from tether.report.figures import styled

_BLUE, _GREEN, _GREY, _INK = "#0072B2", "#009E73", "#777777", "#222222"
_DECADES = 5
"""Below the largest number of a panel; smaller ones are said, not drawn."""
_MOST_ACROSS = 3
_WIDTH = 9.0
"""In inches, of every figure, so that their letters are of one size on the page."""
_CURVE_POINTS = 300


def delta_figure(
    schema: Schema, shown: Sequence[int], held_out: Spreads, box: Spreads, residual: Array
) -> Figure:
    """Empirical distributions of delta and of the remainder, a panel for each output.

    Args:
        schema: names and units.
        shown: outputs to draw.
        held_out: at held-out rows.
        box: at points anywhere in the box.
        residual: (P,) root mean square of what M is off by on held-out rows.
    """
    across = min(len(shown), _MOST_ACROSS)
    down = -(-len(shown) // across)
    with styled():
        figure = Figure(figsize=(_WIDTH, 2.6 * down + 0.6), layout="constrained")
        FigureCanvasAgg(figure)
        panels = figure.subplots(down, across, squeeze=False, sharey=True).flatten()
        for panel, output in zip(panels, shown, strict=False):
            _draw_deltas(panel, output, held_out, box, float(residual[output]))
            panel.set_xlabel(labelled(schema, schema.outputs[output]))
        for panel in panels[len(shown) :]:
            panel.set_visible(False)
        figure.supylabel("share of rows", fontsize=9)
        figure.legend(handles=_delta_key(), loc="outside upper center", ncols=3, fontsize=8.5)
    return figure


def _delta_key() -> list[Line2D]:
    return [
        Line2D([], [], color=_BLUE, lw=2, label="delta, held-out rows"),
        Line2D([], [], color=_BLUE, lw=2, ls="--", label="delta, whole box"),
        Line2D([], [], color=_GREEN, lw=1.6, label="remainder, held-out rows"),
        Line2D([], [], color=_GREEN, lw=1.6, ls="--", label="remainder, whole box"),
        Line2D([], [], color=_INK, lw=1.3, ls=":", label="what M misses the data by (RMS)"),
    ]


def _draw_deltas(panel: Axes, output: int, held_out: Spreads, box: Spreads, residual: float) -> None:
    curves = [
        (part[:, output], {"color": colour, "lw": width, "ls": dash})
        for colour, width, parts in ((_GREEN, 1.6, "remainder"), (_BLUE, 2.0, "delta"))
        for part, dash in ((getattr(held_out, parts), "-"), (getattr(box, parts), "--"))
    ]
    curves = [(values[np.isfinite(values)], style) for values, style in curves]
    top = max([residual, *(float(values.max(initial=0.0)) for values, _ in curves), 1e-300])
    bottom = _floor(top, [values for values, _ in curves], residual)
    for values, style in curves:
        if len(values) and values.max() > bottom:
            panel.plot(*_cumulative(values, bottom, 1.6 * top), **style)
    _say_small(panel, [values for values, style in curves if style["color"] == _GREEN], bottom)
    if residual > bottom:
        panel.axvline(residual, color=_INK, lw=1.3, ls=":")
    panel.set(xscale="log", xlim=(bottom, 1.6 * top), ylim=(0, 1.02))
    panel.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "", "50 %", "", "100 %"])
    panel.grid(which="minor", visible=False)


def _floor(top: float, curves: Sequence[Array], residual: float) -> float:
    """Where the axis begins: below all numbers, but no more than some decades below the largest."""
    lowest = min([residual or top, *(float(values.min()) for values in curves if len(values))])
    return float(np.clip(0.6 * lowest, 10.0**-_DECADES * top, 0.3 * top))


def _cumulative(values: Array, bottom: float, top: float) -> tuple[Array, Array]:
    """Share of values (N,) at or below numbers from `bottom` to `top`, both (C,)."""
    ordered = np.sort(values)
    marks = np.quantile(ordered, np.linspace(0, 1, _CURVE_POINTS), method="higher")
    at = np.unique(np.concatenate([[bottom], np.clip(marks, bottom, top), [top]]))
    share = np.searchsorted(ordered, at, side="right") / len(ordered)
    # As a staircase, which has no slope where there is no row.
    return np.repeat(at, 2)[1:], np.repeat(share, 2)[:-1]


def _say_small(panel: Axes, remainders: Sequence[Array], bottom: float) -> None:
    """What is too small to be drawn, in words."""
    largest = max((float(values.max()) for values in remainders if len(values)), default=np.inf)
    if largest <= bottom:
        text = f"◂ remainder at most {largest:.0e}"
        panel.text(0.03, 0.9, text, color=_GREEN, transform=panel.transAxes, fontsize=8.5)


def slices_figure(schema: Schema, shown: Sequence[int], slices: Sequence[Slice], target: str) -> Figure:
    """Along some inputs: M, and relative to it the prediction, the band and delta.

    Args:
        schema: names and units.
        shown: outputs to draw, a row of panels each.
        slices: inputs to draw them along, a column each.
        target: what M is shown to give, ``"next_state"`` or ``"increment"``.
    """
    with styled():
        figure = Figure(figsize=(_WIDTH, 2.9 * len(shown) + 0.7), layout="constrained")
        FigureCanvasAgg(figure)
        panels = figure.subplots(
            2 * len(shown), len(slices), squeeze=False, sharex="col", sharey="row",
            height_ratios=[1, 2] * len(shown),
        )  # fmt: skip
        for row, output in enumerate(shown):
            for column, line in enumerate(slices):
                _draw_trusted(panels[2 * row, column], line, output)
                _draw_slice(panels[2 * row + 1, column], line, output)
            _widen_flat(panels[2 * row, 0], [line.trusted[:, output] for line in slices])
            _label_row(panels[2 * row : 2 * row + 2, 0], schema, output, target)
        for column, line in enumerate(slices):
            _label_column(panels[-1, column], schema, line)
        figure.legend(handles=_slice_key(), loc="outside upper center", ncols=4, fontsize=8.5)
    return figure


def _slice_key() -> list[Line2D | Patch]:
    return [
        Line2D([], [], color=_GREY, lw=1.3, label="M"),
        Line2D([], [], color=_BLUE, lw=1.8, label="prediction"),
        Patch(facecolor=_BLUE, alpha=0.28, label="band"),
        Patch(facecolor=_GREY, alpha=0.18, label="within delta of M"),
    ]


def _draw_trusted(panel: Axes, line: Slice, output: int) -> None:
    panel.plot(line.at, line.trusted[:, output], color=_GREY, lw=1.3)
    panel.tick_params(labelbottom=False)
    panel.margins(x=0, y=0.15)
    panel.locator_params(axis="y", nbins=3)
    panel.ticklabel_format(axis="y", useOffset=False)


def _widen_flat(panel: Axes, lines: Sequence[Array]) -> None:
    """Shows what is constant but for rounding as constant."""
    values = np.concatenate(lines)
    values = values[np.isfinite(values)]
    if len(values) == 0:
        return
    middle, size = float(np.median(values)), float(np.abs(values).max())
    if np.ptp(values) <= 1e-9 * max(size, 1e-300):
        panel.set_ylim(middle - (size or 1.0), middle + (size or 1.0))


def _draw_slice(panel: Axes, line: Slice, output: int) -> None:
    delta = np.where(np.isfinite(line.delta[:, output]), line.delta[:, output], np.nan)
    panel.fill_between(line.at, -delta, delta, color=_GREY, alpha=0.18, lw=0)
    panel.fill_between(line.at, line.lower[:, output], line.upper[:, output], color=_BLUE, alpha=0.28, lw=0)
    for side in (-delta, delta):
        panel.plot(line.at, side, color=_GREY, lw=0.6)
    panel.axhline(0, color=_GREY, lw=1.3)
    panel.plot(line.at, line.prediction[:, output], color=_BLUE, lw=1.8)
    # One line with gaps, which takes far fewer characters than as many marks.
    ticks = np.repeat(line.rows, 3), np.tile([0.01, 0.05, np.nan], len(line.rows))
    panel.plot(*ticks, color=_INK, lw=0.6, alpha=0.5, transform=panel.get_xaxis_transform())
    panel.margins(x=0)
    panel.locator_params(axis="y", nbins=5)


def _label_row(panels: NDArray[Any], schema: Schema, output: int, target: str) -> None:
    name = schema.outputs[output]
    changes = target == "increment" and schema.advances[output] >= 0
    unit = labelled(schema, name).removeprefix(name).strip()
    panels[0].set_ylabel(f"M's {'change' if changes else 'value'}\n{unit}".strip(), fontsize=8.5)
    panels[0].set_title(name, loc="left", fontweight="bold")
    panels[1].set_ylabel(f"less M {unit}".strip())


def _label_column(panel: Axes, schema: Schema, line: Slice) -> None:
    panel.set_xlabel(labelled(schema, schema.inputs[line.along]))
    panel.locator_params(axis="x", nbins=5)
    if schema.input_angles[line.along] and np.isclose(line.at[-1] - line.at[0], 2 * np.pi):
        panel.set_xticks([-np.pi, -np.pi / 2, 0, np.pi / 2, np.pi], ["-π", "-π/2", "0", "π/2", "π"])
