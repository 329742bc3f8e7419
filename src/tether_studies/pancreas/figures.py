"""Figures of the study: the trusted model's weights, the error grid, rises, and a patient's day."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from tether.data import Array, Schema
from tether.report.figures import line_styles as line_styles
from tether.report.figures import styled as styled
from tether_studies.pancreas.armax import ArmaxFit
from tether_studies.pancreas.clinical import HIGH, LOW, zone_shares
from tether_studies.pancreas.data import AHEAD, HISTORY
from tether_studies.pancreas.simulator import SAMPLE_MINUTES

_GRID_TOP = 400.0
_BLUE, _ORANGE, _GREEN, _GREY = "#0072B2", "#D55E00", "#009E73", "#777777"
# Borders of the Clarke error grid, as (reference, predicted) corners.
_BORDERS = (
    ((0, 70), (175 / 3, 70), (_GRID_TOP / 1.2, _GRID_TOP)),
    ((70, 84), (70, _GRID_TOP)),
    ((0, 180), (70, 180), (290, _GRID_TOP)),
    ((70, 0), (70, 56), (_GRID_TOP, 0.8 * _GRID_TOP)),
    ((180, 0), (180, 70), (_GRID_TOP, 70)),
    ((240, 70), (240, 180), (_GRID_TOP, 180)),
    ((130, 0), (180, 70)),
)
_ZONE_LABELS = {
    "A": ((25, 25), (375, 375)), "B": ((300, 385), (375, 250)), "C": ((110, 330), (163, 18)),
    "D": ((25, 125), (375, 125)), "E": ((25, 330), (375, 25)),
}  # fmt: skip


def armax_figure(fit: ArmaxFit, schema: Schema) -> Figure:
    """Weights of the trusted model by signal and lag: effect on predicted glucose of one unit more."""
    groups = {
        "glucose": [k for k, name in enumerate(schema.inputs) if name.startswith("glucose")],
        "insulin": [k for k, name in enumerate(schema.inputs) if name.startswith("insulin")],
        "meal": [k for k, name in enumerate(schema.inputs) if name.startswith("meal")],
    }
    with styled():
        figure = Figure(figsize=(10, 3.4), layout="constrained")
        FigureCanvasAgg(figure)
        for axis, (signal, columns) in zip(figure.subplots(1, 3), groups.items(), strict=True):
            weights, steps = fit.model.weights[columns], np.arange(len(columns)) - (HISTORY - 1)
            axis.bar(steps, weights, color=_BLUE, width=0.7)
            axis.axhline(0, color="black", lw=0.8)
            held = fit.held[columns]
            if held.any():
                axis.plot(
                    steps[held],
                    np.zeros(held.sum()),
                    "x",
                    color=_ORANGE,
                    ms=6,
                    clip_on=False,
                    label="held at 0",
                )
                axis.legend(loc="lower left")
            unit = schema.unit(schema.inputs[columns[0]])
            title = f"{signal} (at most 0)" if signal == "insulin" else signal
            axis.set(title=title, xlabel="steps from now", ylabel=f"mg/dl per {unit or 'unit'}")
            axis.set_xticks([-9, -6, -3, 0])
        figure.suptitle(
            f"Weights of the trusted model; mean squared error {fit.error:.3g} (mg/dl)², "
            f"without the constraint {fit.unconstrained_error:.3g}",
            fontsize=10,
        )
    return figure


def error_grid_figure(reference: Array, predictions: Mapping[str, Array]) -> Figure:
    """Clarke error grid of each method.

    Args:
        reference: (N,) glucose observed, mg/dl.
        predictions: (N,) glucose predicted, by method.
    """
    columns = min(4, len(predictions))
    rows = -(-len(predictions) // columns)
    with styled():
        figure = Figure(figsize=(2.9 * columns, 3.2 * rows + 0.6), layout="constrained")
        FigureCanvasAgg(figure)
        panels = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True).ravel()
        for axis, (name, predicted) in zip(panels, predictions.items(), strict=False):
            _draw_grid(axis)
            axis.plot(reference, predicted, ".", ms=2, color=_BLUE, alpha=0.35, rasterized=True)
            shares = zone_shares(reference, predicted)
            # Cut, not rounded: 99.96 % in zone A must not read as all of them.
            text = "  ".join(f"{zone} {_percent(share)}" for zone, share in shares.items() if share > 0)
            axis.set_title(f"{name}\n{text}", fontsize=9)
            axis.set(xlim=(0, _GRID_TOP), ylim=(0, _GRID_TOP), aspect="equal")
        for place, axis in enumerate(panels):
            axis.set_visible(place < len(predictions))
            axis.tick_params(labelbottom=place + columns >= len(predictions))
        figure.supxlabel("glucose observed [mg/dl]", fontsize=9)
        figure.supylabel("glucose predicted [mg/dl]", fontsize=9)
    return figure


def _percent(share: float) -> str:
    if share == 1:
        return "100 %"
    return f"{np.floor(1e4 * share) / 100:.2f} %" if share >= 0.01 else f"{100 * share:.2g} %"


def _draw_grid(axis: Axes) -> None:
    axis.grid(visible=False)
    for corners in _BORDERS:
        axis.plot(*zip(*corners, strict=True), color="black", lw=0.8)
    axis.plot([0, _GRID_TOP], [0, _GRID_TOP], color=_GREY, lw=0.6, ls=":")
    for zone, places in _ZONE_LABELS.items():
        for place in places:
            axis.text(*place, zone, ha="center", va="center", color=_GREY)


def rises_figure(rises: Mapping[str, tuple[float, float]]) -> Figure:
    """Largest and mean rise of predicted glucose when insulin is raised.

    Args:
        rises: (largest, mean) in mg/dl by method.
    """
    with styled():
        figure = Figure(figsize=(10, 0.5 + 0.42 * len(rises)), layout="constrained")
        FigureCanvasAgg(figure)
        names = list(rises)
        for place, axis in enumerate(figure.subplots(1, 2, sharey=True)):
            values = [rises[name][place] for name in names]
            axis.barh(names, values, color=[line_styles(names)[name]["color"] for name in names], height=0.65)
            for row, value in enumerate(values):
                axis.annotate(
                    "0" if value == 0 else f"{value:.2g}",
                    (value, row),
                    textcoords="offset points",
                    xytext=(4, 0),
                    va="center",
                )
            axis.set(title=("Largest rise", "Mean rise")[place], xlabel="mg/dl; should be 0")
            axis.margins(x=0.12)
        figure.axes[0].invert_yaxis()
    return figure


@dataclass(frozen=True, eq=False)
class PatientDay:
    """One episode as a model saw it, (N,) each.

    Attributes:
        observed: glucose, mg/dl.
        predicted: by the model, AHEAD steps before.
        lower: of the tether, mg/dl.
        upper: of the tether.
        trusted: M's prediction.
        insulin: U in each step.
        meal: g in each step.
    """

    observed: Array
    predicted: Array
    lower: Array
    upper: Array
    trusted: Array
    insulin: Array
    meal: Array


def patient_day_figure(
    day: PatientDay,
    *,
    name: str,
    minutes: float = SAMPLE_MINUTES,
    units: tuple[str, str] = ("U", "g"),
) -> Figure:
    """A day of a patient: glucose, its prediction five steps before, and the band it cannot leave.

    Args:
        day: what to draw.
        name: of the patient.
        minutes: between samples.
        units: of insulin and meals.
    """
    given = np.arange(len(day.observed)) * minutes / 60
    hours = given + AHEAD * minutes / 60
    with styled():
        figure = Figure(figsize=(10, 5.2), layout="constrained")
        FigureCanvasAgg(figure)
        top, error, doses = figure.subplots(3, 1, sharex=True, height_ratios=[2.4, 1.5, 0.9])
        top.axhspan(LOW, HIGH, color=_GREEN, alpha=0.08, lw=0)
        top.plot(hours, day.observed, color="black", lw=1.2, label="observed")
        top.plot(
            hours,
            day.predicted,
            color=_BLUE,
            lw=1.2,
            ls="--",
            label=f"predicted {AHEAD * minutes:g} min before",
        )
        top.set(ylabel="glucose [mg/dl]", title=f"A day of {name}; shaded: 70 to 180 mg/dl")
        top.legend(loc="upper right")
        error.fill_between(
            hours, day.lower - day.trusted, day.upper - day.trusted, color=_BLUE, alpha=0.18, lw=0,
            label="tether: the model cannot leave this band",
        )  # fmt: skip
        error.plot(hours, day.observed - day.trusted, color="black", lw=1.0, label="observed")
        error.plot(hours, day.predicted - day.trusted, color=_BLUE, lw=1.2, label="predicted")
        error.axhline(0, color=_GREY, lw=0.8)
        error.set(ylabel="difference from the\ntrusted model [mg/dl]")
        reach = 1.7 * float(np.abs(np.stack([day.observed, day.lower, day.upper]) - day.trusted).max())
        error.set_ylim(-0.7 * reach, reach)
        error.legend(loc="upper right", ncols=3)
        width = minutes / 60
        doses.bar(given, day.meal, width=width, color=_ORANGE)
        doses.set(ylabel=f"meal [{units[1]}]" if units[1] else "meal", xlabel="hours")
        doses.yaxis.label.set_color(_ORANGE)
        other = doses.twinx()
        other.grid(visible=False)
        other.spines["right"].set_visible(True)
        other.step(given, day.insulin, where="post", color=_GREEN, lw=1.2)
        other.set(ylim=(0, 1.15 * max(float(day.insulin.max()), 1e-9)))
        other.set_ylabel(f"insulin [{units[0]}]", color=_GREEN)
    return figure
