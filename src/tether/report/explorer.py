"""What the page's explorer shows: delta on a slice through an input, and predictions along a line.

A page can run neither the network nor M. So predictions, limits and M are computed here, along every input
through a few reference rows. Where delta is a number for each cell, memories and deltas go along whole, and
the page finds the nearest memory itself; where it varies otherwise, it is computed at points of some planes;
where it is the same everywhere, there is no slice. Numbers are rounded to 16 bits for drawing; a delta is
rounded up.
"""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether.data import Array, Probes, Transitions, wrap_angle
from tether.model import Model
from tether.report.schema import EXPLORER_FORMAT
from tether.trusted import TrustedModel

LINE_POINTS = 61
SIDE_POINTS = 30
"""Of a plane; even, so that rest, the middle of most boxes, where delta is least, stands for
nothing else, and no power of two, which leaves are cut by."""
_SCAN_POINTS = 241
_BUDGET = 590_000
"""Bytes that the whole may take; the number of reference rows follows from it."""
_MAPS_BUDGET = 300_000
"""The same where there are planes, of a page that has figures over the box besides."""
_POINTS = 240
_REFERENCES = 6
_MISSING, _INFINITE = -32768, 32767
_LEVELS = 65533
_CHARACTERS = 2 * 4 / 3
"""Of a number in 16 bits, in base 64."""
_NEAR = 0.5
"""Scales from a slice, in the mean over the inputs fixed there, up to which rows are shown on it."""


@dataclass(frozen=True)
class Reference:
    """A row through which slices and lines are laid.

    Attributes:
        label: where it comes from.
        inputs: (D,) physical.
    """

    label: str
    inputs: Array


@dataclass(frozen=True, eq=False)
class Surroundings:
    """Where to look.

    Attributes:
        lower: (D,) of the box that is shown: the domain's, or that of the rows where the domain has no end.
        upper: (D,).
        scale: (D,) of each input.
        reach: scaled distance from a slice up to which rows are shown on it.
    """

    lower: Array
    upper: Array
    scale: Array
    reach: float


def explorer_data(
    model: Model,
    trusted: TrustedModel,
    transitions: Transitions,
    probes: Probes,
    *,
    name: str = "",
) -> dict[str, Any]:
    """JSON-able data for the explorer of one model.

    Args:
        model: with a tether that holds, of any kind.
        trusted: M; asked at `LINE_POINTS` inputs for each reference row and input, all in the domain.
        transitions: held-out D, of which some rows are shown.
        probes: held-out Ω, of which some rows are shown.
        name: of the model, as tables print it.
    """
    if not model.tether.holds:
        kind = model.tether.kind
        raise ValueError(f"`model` must stay near M to be explored; one of kind '{kind}' need not.")
    schema, around = model.schema, _surroundings(model, transitions, probes)
    data = {
        "format": EXPLORER_FORMAT,
        "name": name,
        "kind": model.tether.kind,
        "evidence": model.tether.evidence,
        "inputs": list(schema.inputs),
        "outputs": list(schema.outputs),
        "units": {key: schema.unit(key) for key in (*schema.inputs, *schema.outputs)},
        "scale": _digits(around.scale),
        "reach": around.reach,
        "box": [_digits(around.lower), _digits(around.upper)],
        "data": _columns(_some(transitions.inputs) / around.scale),
        "probes": _columns(_some(probes.inputs) / around.scale),
        "cells": _cells(model) if _by_cell(model) else None,
        "everywhere": _digits(np.ravel(model.tether.deltas)) if _is_constant(model) else None,
    }
    references = _references(model, transitions.inputs, probes.inputs)
    order = _most_varied(model, around, references[0].inputs)
    sliced, count = _affordable(model, _BUDGET - len(json.dumps(data)))
    planes = list(combinations(sorted(order[:sliced]), 2)) or [(0, 0)][:sliced]
    return data | {
        "start": sorted(order[:2]),
        "planes": [list(plane) for plane in planes],
        "references": [_reference(model, trusted, around, one, planes) for one in references[:count]],
    }


def _by_cell(model: Model) -> bool:
    """Whether delta is one number for each cell, and cells are all that the limits depend on."""
    return model.tether.limited and not model.tether.over_boxes


def _is_constant(model: Model) -> bool:
    """Whether delta is the same at every input: nothing that the limits depend on is somewhere."""
    return model.tether.memories is None


def _cells(model: Model) -> dict[str, Any]:
    """Memories, radii and deltas of all cells."""
    cells, bounds = model.cells, model.bounds
    return {
        "radii": _digits(np.unique(cells.radii)) if np.ptp(cells.radii) == 0 else _digits(cells.radii),
        "memories": _columns(cells.memories),
        "delta": _logarithms(bounds.delta),
    }


def _surroundings(model: Model, transitions: Transitions, probes: Probes) -> Surroundings:
    if _by_cell(model):
        cells = model.cells
        return Surroundings(cells.box_lower, cells.box_upper, cells.scale, float(cells.radii.max()))
    scale = model.frame.inputs.scale
    reach = _NEAR * float(np.sqrt(max(1, len(scale) - 2)))
    if model.tether.limited:
        region = model.bounds.region(model.cells)
        return Surroundings(region.lower, region.upper, scale, reach)
    rows = np.concatenate([transitions.inputs, probes.inputs])
    lower, upper = rows.min(axis=0), rows.max(axis=0)
    # An input that never varied has no range of its own.
    room = np.where(upper > lower, 0.0, 0.5 * scale)
    return Surroundings(lower - room, upper + room, scale, reach)


def _affordable(model: Model, budget: float) -> tuple[int, int]:
    """Among how many inputs planes can be laid, and through how many reference rows."""
    inputs, outputs = len(model.schema.inputs), len(model.schema.outputs)
    lines = 4 * LINE_POINTS * inputs * outputs * _CHARACTERS
    if _by_cell(model) or _is_constant(model):
        return 0, int(np.clip(budget // lines, 2, _REFERENCES))
    plane = SIDE_POINTS**2 * outputs * _CHARACTERS
    budget = min(budget, _MAPS_BUDGET)
    for sliced in range(inputs, min(2, inputs) - 1, -1):
        count = int(budget // (lines + max(1, sliced * (sliced - 1) // 2) * plane))
        if count >= 2:
            return sliced, min(count, _REFERENCES)
    return min(2, inputs), 2


def _most_varied(model: Model, around: Surroundings, inputs: Array) -> list[int]:
    """All inputs, first those along which delta varies most through `inputs` (D,): what to show first."""
    if _is_constant(model):
        return list(range(len(inputs)))
    seen = []
    for column in range(len(inputs)):
        first, last = _span(model, around, inputs, column)
        found = model.limits(_along(inputs, column, np.linspace(first, last, _SCAN_POINTS)))
        delta = found.delta[found.in_domain]
        most = delta.max(axis=0, initial=0.0)
        change = np.abs(np.diff(delta, axis=0)).sum(axis=0)
        seen.append(float((change / np.where(most > 0, most, 1.0)).sum()))
    return np.argsort(-np.array(seen), kind="stable").tolist()


def _along(inputs: Array, column: int, places: Array) -> Array:
    """(N, D) rows like `inputs` (D,) but for one column, which takes the values `places` (N,)."""
    rows = np.tile(inputs, (len(places), 1))
    rows[:, column] = places
    return rows


def _references(model: Model, data: Array, probes: Array) -> list[Reference]:
    """Held-out rows and probes in turn, in the domain: of a usual delta, of a small one, of a large one."""
    wanted = (("row {} of held-out D", data), ("row {} of held-out probes Ω", probes))
    ordered = [(label, inputs, _by_delta(model, inputs)) for label, inputs in wanted]
    found = {}
    for share in (0.5, 0.2, 0.8):
        for label, inputs, order in ordered:
            for row in order[round(share * (len(order) - 1)) :][:1]:
                found[label.format(row)] = inputs[row]
    return [Reference(*item) for item in found.items()] or [
        Reference("memory of cell 0", model.cells.centers[0])
    ]


def _by_delta(model: Model, inputs: Array) -> NDArray[np.int64]:
    """Numbers of those of inputs (N, D) that are in the domain, by how large delta is there."""
    found = model.limits(inputs)
    inside = np.flatnonzero(found.in_domain)
    delta = found.delta[inside]
    most = delta.max(axis=0, initial=0.0)
    return inside[np.argsort((delta / np.where(most > 0, most, 1.0)).sum(axis=1), kind="stable")]


def _reference(
    model: Model,
    trusted: TrustedModel,
    around: Surroundings,
    reference: Reference,
    planes: list[tuple[int, int]],
) -> dict[str, Any]:
    """A reference row with its lines along every input, and delta on planes through it."""
    dimensions, outputs = len(reference.inputs), len(model.schema.outputs)
    spans = np.array([_span(model, around, reference.inputs, column) for column in range(dimensions)])
    places = np.linspace(spans[:, 0], spans[:, 1], LINE_POINTS, axis=1)
    rows = np.concatenate([_along(reference.inputs, column, places[column]) for column in range(dimensions)])
    lines, cell = np.full((len(rows), outputs, 4), np.nan), np.full(len(rows), -1)
    # Only there, because elsewhere nothing is claimed and M may not be defined.
    inside = np.flatnonzero(_in_domain(model, rows))
    inside = inside[_answered(model, trusted, rows[inside])]
    if len(inside):
        lines[inside], cell[inside] = _answers(model, trusted, rows[inside])
    lines = lines.reshape(dimensions, LINE_POINTS, outputs, 4)
    return {
        "label": reference.label,
        "inputs": _digits(reference.inputs),
        "spans": [_digits(span) for span in spans],
        "cells": _bytes(cell.astype("<i4")),
        "lines": _columns(lines.transpose(1, 0, 2, 3).reshape(LINE_POINTS, -1)),
        "deltas": [_logarithms(_on_plane(model, reference.inputs, spans, *plane)) for plane in planes],
    }


def _on_plane(model: Model, inputs: Array, spans: Array, across: int, up: int) -> Array:
    """(SIDE_POINTS², P) delta in the middle of each part of a plane, row by row; infinite if outside."""
    shares = (np.arange(SIDE_POINTS) + 0.5) / SIDE_POINTS
    first, second = (spans[k, 0] + shares * (spans[k, 1] - spans[k, 0]) for k in (across, up))
    rows = np.tile(inputs, (SIDE_POINTS**2, 1))
    rows[:, up] = np.repeat(second, SIDE_POINTS)
    rows[:, across] = np.tile(first, SIDE_POINTS)
    found = model.limits(rows)
    return np.where(found.in_domain[:, None], found.delta, np.inf)


def _in_domain(model: Model, inputs: Array) -> NDArray[np.bool_]:
    """(N,) of inputs (N, D); where that is everywhere, nothing is asked: M may be a part of the tether."""
    return model.limits(inputs).in_domain if model.tether.limited else np.ones(len(inputs), np.bool_)


def _answered(model: Model, trusted: TrustedModel, inputs: Array) -> NDArray[np.bool_]:
    """(N,) at which of inputs (N, D) M has an answer."""
    answered = {row.tobytes() for row in trusted.where_it_answers(inputs, model.schema)[0]}
    return np.array([row.tobytes() in answered for row in inputs], np.bool_)


def _answers(model: Model, trusted: TrustedModel, inputs: Array) -> tuple[Array, NDArray[np.int64]]:
    """(N, P, 4) M itself, and prediction, lower and upper limit less M, at inputs (N, D); cells (N,)."""
    schema, dx = model.schema, len(model.schema.states)
    states, controls = np.ascontiguousarray(inputs[:, :dx]), np.ascontiguousarray(inputs[:, dx:])
    told = model.predict(states, controls, details=True)
    answer = trusted(states, controls, schema)
    off = told.next_states - answer
    off = np.where(schema.output_angles, wrap_angle(off), off)
    lower, upper = off + (told.lower - told.next_states), off + (told.upper - told.next_states)
    return np.stack([answer, off, lower, upper], axis=2), told.cell


def _span(model: Model, around: Surroundings, inputs: Array, column: int) -> Array:
    """(2,) from where to where along an input the line through `inputs` is in the domain, and a bit more."""
    low, high = around.lower[column], around.upper[column]
    if model.schema.input_angles[column]:
        low, high = max(low, -np.pi), min(high, np.nextafter(np.pi, 0))
    places = np.append(np.linspace(low, high, _SCAN_POINTS), inputs[column])
    # Finer around the row itself: in many dimensions the domain ends soon.
    reach = 2 * around.reach * around.scale[column]
    near = np.linspace(inputs[column] - reach, inputs[column] + reach, _SCAN_POINTS)
    places = np.concatenate([places, near[(near >= low) & (near <= high)]])
    inside = places[_in_domain(model, _along(inputs, column, places))]
    first, last = (inside.min(), inside.max()) if len(inside) else (low, high)
    margin = 0.04 * (last - first) or 0.5 * around.scale[column]
    return np.array([max(low, first - margin), min(high, last + margin)])


def _some(inputs: Array) -> Array:
    """At most `_POINTS` rows, evenly spaced."""
    return inputs[np.unique(np.linspace(0, len(inputs) - 1, _POINTS).round().astype(int))]


def _columns(values: Array) -> dict[str, Any]:
    """(N, C) as 16-bit codes over the range of each column; NaN has a code of its own."""
    low, step = _ranges(values)
    codes = np.round((np.where(np.isnan(values), low, values) - low) / step)
    return _packed(np.where(np.isnan(values), _MISSING, np.clip(codes, 0, _LEVELS) - 32767), low, step)


def _logarithms(values: Array) -> dict[str, Any]:
    """(N, C) numbers >= 0 as codes of their logarithms, rounded up; zero and infinity have their own."""
    usual = (values > 0) & np.isfinite(values)
    logs = np.log(np.where(usual, values, 1.0))
    low, step = _ranges(np.where(usual, logs, np.nan))
    codes = np.clip(np.ceil((logs - low) / step * (1 + 1e-12)), 0, _LEVELS) - 32767
    return _packed(np.where(usual, codes, np.where(values > 0, _INFINITE, _MISSING)), low, step)


def _ranges(values: Array) -> tuple[Array, Array]:
    """(C,) where the codes of each column begin, and their step; both as they are written, in float32."""
    finite = np.isfinite(values)
    low = np.where(finite, values, np.inf).min(axis=0, initial=np.inf)
    high = np.where(finite, values, -np.inf).max(axis=0, initial=-np.inf)
    low, high = np.where(np.isfinite(low), low, 0.0), np.where(np.isfinite(high), high, 0.0)
    # Two levels short of all there are, so that rounding to float32 leaves nothing out at either end.
    step = np.maximum((high - low) / (_LEVELS - 2), 1e-7 * np.maximum(np.abs(low), np.abs(high)) / _LEVELS)
    step = np.where(step > 0, step, 1.0).astype(np.float32)
    start = np.nextafter(low.astype(np.float32), np.float32(-np.inf))
    return start.astype(np.float64), step.astype(np.float64)


def _packed(codes: Array, low: Array, step: Array) -> dict[str, Any]:
    return {
        "shape": list(codes.shape),
        "low": _bytes(low.astype("<f4")),
        "step": _bytes(step.astype("<f4")),
        "codes": _bytes(codes.astype("<i2")),
    }


def _bytes(values: NDArray[Any]) -> str:
    return b64encode(values.tobytes()).decode()


def _digits(values: Array) -> list[float]:
    return [float(f"{value:.9g}") for value in np.asarray(values, np.float64).ravel().tolist()]
