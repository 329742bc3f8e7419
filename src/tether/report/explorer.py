"""What the page's cell explorer shows: cells on a slice through an input, and predictions along a line.

A page can find the nearest memory itself, but cannot run the network or M. So memories and deltas go along
whole, and predictions, bounds and M are computed here, along every input through a few reference rows.
Numbers are rounded to 16 bits for drawing; a delta is rounded up.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether.data import Array, Probes, Transitions, wrap_angle
from tether.model import Model
from tether.trusted import TrustedModel

FORMAT = 1
LINE_POINTS = 61
_SCAN_POINTS = 241
_BUDGET = 590_000
"""Bytes that the whole may take; the number of reference rows follows from it."""
_POINTS = 240
_REFERENCES = 6
_MISSING = -32768
_LEVELS = 65534


@dataclass(frozen=True)
class Reference:
    """A row through which slices and lines are laid.

    Attributes:
        label: where it comes from.
        inputs: (D,) physical.
    """

    label: str
    inputs: Array


def explorable(model: Model) -> bool:
    """Whether a model has cells that can be shown."""
    return model.tether.kind == "interval"


def explorer_data(
    model: Model,
    trusted: TrustedModel,
    transitions: Transitions,
    probes: Probes,
    *,
    name: str = "",
    budget: int = _BUDGET,
) -> dict[str, Any]:
    """JSON-able data for the explorer of one model.

    Args:
        model: with K cells.
        trusted: M; asked at `LINE_POINTS` inputs for each reference row and input, all in the domain.
        transitions: held-out D, of which some rows are shown.
        probes: held-out Ω, of which some rows are shown.
        name: of the model, as tables print it.
        budget: bytes of JSON to stay below, if two reference rows allow.
    """
    schema, cells = model.schema, model.cells
    data = {
        "format": FORMAT,
        "name": name,
        "kind": model.bounds.kind,
        "evidence": model.bounds.evidence.name,
        "inputs": list(schema.inputs),
        "outputs": list(schema.outputs),
        "units": {key: schema.unit(key) for key in (*schema.inputs, *schema.outputs)},
        "cells": len(cells),
        "scale": _digits(cells.scale),
        "radii": _digits(np.unique(cells.radii)) if np.ptp(cells.radii) == 0 else _digits(cells.radii),
        "box": [_digits(cells.box_lower), _digits(cells.box_upper)],
        "memories": _columns(cells.memories),
        "delta": _logarithms(model.bounds.delta),
        "data": _columns(_some(transitions.inputs) / cells.scale),
        "probes": _columns(_some(probes.inputs) / cells.scale),
    }
    per_reference = 4 * LINE_POINTS * len(schema.inputs) * len(schema.outputs) * 2 * 4 / 3
    spent = sum(len(data[key]["codes"]) for key in ("memories", "delta", "data", "probes"))
    count = int(np.clip((budget - spent) // per_reference, 2, _REFERENCES))
    references = _references(model, transitions.inputs, probes.inputs, count)
    described = [_reference(model, trusted, reference) for reference in references]
    return data | {"start": _most_varied(model, references[0].inputs), "references": described}


def _most_varied(model: Model, inputs: Array) -> list[int]:
    """The two inputs along which a line through `inputs` (D,) meets most cells: what to show first."""
    seen = []
    for column in range(len(inputs)):
        first, last = _span(model, inputs, column)
        rows = _along(inputs, column, np.linspace(first, last, _SCAN_POINTS))
        location = model.cells.locate(rows)
        seen.append(len(np.unique(location.cell[location.in_domain])))
    return sorted(np.argsort(-np.array(seen), kind="stable")[:2].tolist())


def _along(inputs: Array, column: int, places: Array) -> Array:
    """(N, D) rows like `inputs` (D,) but for one column, which takes the values `places` (N,)."""
    rows = np.tile(inputs, (len(places), 1))
    rows[:, column] = places
    return rows


def _references(model: Model, data: Array, probes: Array, count: int) -> list[Reference]:
    """Held-out rows and probes in turn, in the domain, from close to their memory to the rim."""
    wanted = (
        ("row {} of held-out D", data, -(-count // 2)),
        ("row {} of held-out probes Ω", probes, count // 2),
    )
    found = []
    for label, inputs, number in wanted:
        location = model.cells.locate(inputs)
        inside = np.flatnonzero(location.in_domain)
        order = inside[np.argsort(location.distance[inside], kind="stable")]
        places = np.unique(np.linspace(0, len(order) - 1, number + 2).round().astype(int)[1:-1])
        found += [Reference(label.format(row), inputs[row]) for row in (order[places] if len(order) else [])]
    return found or [Reference("memory of cell 0", model.cells.centers[0])]


def _reference(model: Model, trusted: TrustedModel, reference: Reference) -> dict[str, Any]:
    """A reference row with its lines along every input."""
    dimensions, outputs = len(reference.inputs), len(model.schema.outputs)
    spans = np.array([_span(model, reference.inputs, column) for column in range(dimensions)])
    places = np.linspace(spans[:, 0], spans[:, 1], LINE_POINTS, axis=1)
    rows = np.stack([_along(reference.inputs, column, places[column]) for column in range(dimensions)])
    lines = np.full((dimensions, LINE_POINTS, outputs, 4), np.nan)
    location = model.cells.locate(rows.reshape(-1, dimensions))
    inside = location.in_domain.reshape(dimensions, LINE_POINTS)
    # Only there, because elsewhere nothing is claimed and M may not be defined.
    if inside.any():
        lines[inside] = _answers(model, trusted, rows[inside])
    return {
        "label": reference.label,
        "inputs": _digits(reference.inputs),
        "spans": [_digits(span) for span in spans],
        "cells": _bytes(location.cell.astype("<i4")),
        "lines": _columns(lines.transpose(1, 0, 2, 3).reshape(LINE_POINTS, -1)),
    }


def _answers(model: Model, trusted: TrustedModel, inputs: Array) -> Array:
    """(N, P, 4) M itself, and prediction, lower and upper bound less M, at inputs (N, D) in the domain."""
    schema, dx = model.schema, len(model.schema.states)
    states, controls = np.ascontiguousarray(inputs[:, :dx]), np.ascontiguousarray(inputs[:, dx:])
    told = model.predict(states, controls, details=True)
    answer = trusted(states, controls, schema)
    off = told.next_states - answer
    off = np.where(schema.output_angles, wrap_angle(off), off)
    lower, upper = off + (told.lower - told.next_states), off + (told.upper - told.next_states)
    return np.stack([answer, off, lower, upper], axis=2)


def _span(model: Model, inputs: Array, column: int) -> Array:
    """(2,) from where to where along an input the line through `inputs` is in the domain, and a bit more."""
    cells = model.cells
    low, high = cells.box_lower[column], cells.box_upper[column]
    if model.schema.input_angles[column]:
        low, high = max(low, -np.pi), min(high, np.nextafter(np.pi, 0))
    places = np.append(np.linspace(low, high, _SCAN_POINTS), inputs[column])
    # Finer around the row itself: in many dimensions the domain ends soon.
    reach = 2 * float(cells.radii.max()) * cells.scale[column]
    near = np.linspace(inputs[column] - reach, inputs[column] + reach, _SCAN_POINTS)
    places = np.concatenate([places, near[(near >= low) & (near <= high)]])
    inside = places[model.cells.locate(_along(inputs, column, places)).in_domain]
    first, last = (inside.min(), inside.max()) if len(inside) else (low, high)
    margin = 0.04 * (last - first) or 0.5 * cells.scale[column]
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
    """(N, C) numbers >= 0 as 16-bit codes of their logarithms, rounded up; zero has a code of its own."""
    logs = np.log(np.where(values > 0, values, np.nan), where=values > 0, out=np.full(values.shape, np.nan))
    low, step = _ranges(logs)
    codes = np.ceil((np.where(np.isnan(logs), low, logs) - low) / step * (1 + 1e-12))
    return _packed(np.where(np.isnan(logs), _MISSING, np.clip(codes, 0, _LEVELS) - 32767), low, step)


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
