"""What only drones are measured by, and its figures: holding a hover, open-loop flight, the flight itself.

A model enters as ``predict(states (N, 20), commands (N, 4)) -> (N, 12)``; methods are told apart by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from tether.claims.rollout import Step
from tether.data import Array, Transitions
from tether.report.figures import line_styles, styled
from tether_studies.drones.data import as_flights, hover_commands, hovering, roll_out
from tether_studies.drones.simulator import STEP_SECONDS, Flight

HOVER_STEPS = 240
_STILL = 1e-7
"""Metres below which the logarithmic axes show no motion; labels tell the number."""
_LOST = 1e3
"""Metres beyond which they show no more either, or one lost drone would flatten all other lines."""


def hover_starts(like: Transitions, *, count: int = 100) -> Array:
    """States (count, 20) in hover: first in the middle of the space of `like`, then anywhere in it."""
    low, high = like.states[:, :3].min(axis=0), like.states[:, :3].max(axis=0)
    rng = np.random.default_rng(0)
    positions = np.concatenate([[(low + high) / 2], rng.uniform(low, high, (count - 1, 3))])
    yaws = np.concatenate([[0.0], rng.uniform(-np.pi, np.pi, count - 1)])
    return hovering(positions, yaws)


def hover_deviation(predict: Step, starts: Array, *, steps: int = HOVER_STEPS) -> Array:
    """Metres (T + 1, N) that drones left in hover at `starts` (N, 20) are predicted to move."""
    commands = np.broadcast_to(hover_commands(len(starts)), (steps, len(starts), 4))
    places = roll_out(predict, starts, commands)[:, :, :3]
    return np.linalg.norm(places - places[0], axis=2)


def one_flight(transitions: Transitions, *, steps: int | None = None) -> Flight:
    """All drones of all episodes side by side: one flight of many drones, to be rolled out at once.

    Args:
        transitions: whole episodes of :func:`tether_studies.drones.data.as_transitions`.
        steps: how many to keep; by default as many as the shortest episode has.
    """
    flights = as_flights(transitions)
    steps = min([len(flight.commands) for flight in flights] + ([] if steps is None else [steps]))
    return Flight(
        np.concatenate([flight.states[: steps + 1] for flight in flights], axis=1),
        np.concatenate([flight.commands[:steps] for flight in flights], axis=1),
    )


def rollout_error(predict: Step, flight: Flight) -> Array:
    """Metres (T + 1, N) between each drone and where it is predicted, from its first state and commands."""
    places = roll_out(predict, flight.states[0], flight.commands)[:, :, :3]
    return np.linalg.norm(places - flight.states[:, :, :3], axis=2)


def view_results(deviation: Array, error: Array) -> dict[str, float]:
    """What ``results.json`` says of one method: how far it strays in hover, and open loop."""
    return {
        "hover_deviation": float(deviation[-1, 0]),
        "hover_deviation_max": float(deviation[-1].max()),
        "rollout_error_median": float(np.median(error[-1])),
        "rollout_error_max": float(error[-1].max()),
    }


def hover_figure(deviations: Mapping[str, Array]) -> Figure:
    """A drone that should hold its place: distance against time, from `hover_deviation` by method."""
    title = "Left in hover, with the thrust that carries the weight"
    return _distance_figure(deviations, title, "distance from start [m]")


def rollout_figure(errors: Mapping[str, Array]) -> Figure:
    """Open-loop error against time, from `rollout_error` by method."""
    title = "Held-out flights, predicted from start and commands alone"
    return _distance_figure(errors, title, "distance to the drone [m]")


def _distance_figure(distances: Mapping[str, Array], title: str, label: str) -> Figure:
    """Distances (T + 1, N) against time by method: the median over drones, and the middle 80 %."""
    with styled():
        figure = Figure(figsize=(8, 4.4), layout="constrained")
        FigureCanvasAgg(figure)
        axis, styles = figure.subplots(), line_styles(distances)
        for name, style in styles.items():
            _draw_band(axis, name, distances[name], style)
        axis.set(title=title, xlabel="seconds", ylabel=label, yscale="log")
        axis.set_ylim(max(0.5 * _STILL, axis.get_ylim()[0]), min(axis.get_ylim()[1], _LOST))
        axis.set_xlim(0.0, 1.12 * (max(map(len, distances.values())) - 1) * STEP_SECONDS)
        _label_ends(axis, distances, styles)
        _legend(figure, axis, len(distances))
    return figure


def flight_figure(
    flight: Flight, predicted: Mapping[str, Array] | None = None, *, methods: Sequence[str] | None = None
) -> Figure:
    """One flight from above and from the side, and where methods predict it.

    Args:
        flight: as simulated.
        predicted: trajectories (T + 1, N, 20) by method.
        methods: all methods of the other figures, in their order, so that each keeps its colour.
    """
    predicted = predicted or {}
    styles = line_styles(methods or predicted)
    with styled():
        figure = Figure(figsize=(10, 4.6), layout="constrained")
        FigureCanvasAgg(figure)
        top, side = figure.subplots(1, 2)
        simulated = {"color": "black", "lw": 3.2, "alpha": 0.3}
        for axis, columns in ((top, (0, 1)), (side, (0, 2))):
            _draw_paths(axis, flight.states, columns, simulated, "Simulated")
            for name, states in predicted.items():
                _draw_paths(axis, states, columns, styles[name] | {"lw": 1.2}, name)
            start = flight.states[0][:, list(columns)]
            axis.plot(start[:, 0], start[:, 1], "o", ms=5, color="black", label="start")
            _fit_view(axis, flight.states, columns)
        top.set(title="From above", xlabel="x [m]", ylabel="y [m]")
        side.set(title="From the side", xlabel="x [m]", ylabel="height [m]")
        _legend(figure, top, 2 + len(predicted))
    return figure


def _draw_paths(axis: Axes, states: Array, columns: tuple[int, int], style: dict, name: str) -> None:
    for drone in range(states.shape[1]):
        path = states[:, drone][:, list(columns)]
        axis.plot(path[:, 0], path[:, 1], label=name if drone == 0 else None, **style)


def _fit_view(axis: Axes, states: Array, columns: tuple[int, int]) -> None:
    """Shows where drones flew; predictions that leave it are cut, or they would be all one sees."""
    flown = states[:, :, list(columns)]
    low, high = flown.min(axis=(0, 1)), flown.max(axis=(0, 1))
    middle, reach = (low + high) / 2, 0.65 * float((high - low).max())
    axis.set_aspect("equal", adjustable="box")
    axis.set_xlim(middle[0] - reach, middle[0] + reach)
    axis.set_ylim(middle[1] - reach, middle[1] + reach)


def _draw_band(axis: Axes, name: str, distances: Array, style: dict) -> None:
    seconds = np.arange(1, len(distances)) * STEP_SECONDS
    low, middle, high = np.maximum(np.quantile(distances[1:], [0.1, 0.5, 0.9], axis=1), _STILL)
    axis.fill_between(seconds, low, high, color=style["color"], alpha=0.12, lw=0)
    axis.plot(seconds, middle, label=name, zorder=4 if name == "Trusted" else 3, **style)


def _label_ends(axis: Axes, distances: Mapping[str, Array], styles: Mapping[str, dict]) -> None:
    """Writes the last median at each line's end, labels moved apart where lines end together."""
    ends = {name: float(np.median(values[-1])) for name, values in distances.items()}
    names = sorted(ends, key=lambda name: ends[name])
    bottom, top = np.log10(axis.get_ylim())
    exact = np.log10([np.clip(ends[name], _STILL, _LOST) for name in names])
    for name, place in zip(names, _spread(exact, 0.055 * (top - bottom), top), strict=True):
        text = "0 m" if ends[name] == 0 else f"{ends[name]:.2g} m"
        end = ((len(distances[name]) - 1) * STEP_SECONDS, 10**place)
        axis.annotate(
            text, end, xytext=(5, 0), textcoords="offset points", va="center", color=styles[name]["color"]
        )


def _spread(places: Array, gap: float, top: float) -> Array:
    """Ascending places (M,) moved at least `gap` apart: up where there is room below `top`, else down."""
    steps = gap * np.arange(len(places))
    raised = np.maximum.accumulate(places - steps) + steps
    return np.minimum(raised, top - 0.5 * gap - steps[::-1])


def _legend(figure: Figure, axis: Axes, entries: int) -> None:
    figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=min(4, entries))
