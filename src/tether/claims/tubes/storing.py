"""A tube as a file: JSON with every set and all that is needed to check each step."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tether.claims.tubes.controls import Boxed, Controls, Named
from tether.claims.tubes.making import Tube
from tether.claims.tubes.step import Taken
from tether.claims.tubes.zonotopes import Zonotopes
from tether.data import Schema
from tether.foundation import documents as what
from tether.foundation.atomic import write_json
from tether.foundation.errors import StorageError
from tether.model import Model

FORMAT = "tether tube"
VERSION = 1
_WHAT = "a tube written by Tether"
_DIGESTED = ("reference", "value", "slope", "remainder", "half_width", "most", "pinned", "bends", "pairs")


def tether_digest(model: Model) -> str | None:
    """SHA-256 of what the tube rests on: trees, bounds, memories and their scale; None for other tethers."""
    if not model.tether.over_boxes:
        return None
    bounds, digest = model.bounds, hashlib.sha256()
    tree: Any = getattr(bounds, "tree", None)
    parts = [getattr(tree, name) for name in ("lower", "upper", "roots", "cut", "threshold", "left", "right")]
    parts += [getattr(bounds, name) for name in _DIGESTED] + [model.cells.memories, model.cells.scale]
    for part in parts:
        digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()


def save_tube(found: Tube, path: str | Path) -> None:
    """Writes a tube, whole or not at all."""
    what.require_folder(Path(path))
    write_json(Path(path), as_dict(found))


def as_dict(found: Tube) -> dict[str, Any]:
    """Plain values, ready for JSON."""
    lower, upper = found.ends
    delta = found.delta if found.many else found.delta[None]
    ended = np.atleast_1d(np.array(-1 if found.ended is None else found.ended))
    schema, system = found.schema, found.system
    rows = []
    for k, why in enumerate(found.reasons):
        last = found.steps if ended[k] < 0 else int(ended[k])
        parts = [_part(found, k * found.parts + part, last) for part in range(found.parts)]
        row = {
            "lower": lower[k, : last + 1].tolist(),
            "upper": upper[k, : last + 1].tolist(),
            "delta": delta[k, :last].tolist(),
            "ended": None if ended[k] < 0 else int(ended[k]),
            "reason": why,
            "parts": parts,
        }
        rows.append(row)
    return {
        "format": FORMAT,
        "version": VERSION,
        "claim": found.words,
        "evidence": found.evidence,
        "weights": found.weights,
        "many": found.many,
        "about": dict(found.about),
        "schema": {
            "states": list(schema.states), "controls": list(schema.controls), "outputs": list(schema.outputs),
            "units": dict(schema.units), "angles": list(schema.angles), "advances": list(schema.advances),
        },
        "steps": found.steps,
        "start": {"lower": found.start[0].tolist(), "upper": found.start[1].tolist()},
        "controls": _controls(found.controls),
        "carried": found.carried,
        "starts": rows,
        "system": None if system is None else _system(system),
        "beside": None if found.beside is None else as_dict(replace(found.beside, about=found.about)),
    }  # fmt: skip


def _controls(known: Controls) -> dict[str, Any]:
    if isinstance(known, Boxed):
        return {"kind": "box", "lower": known.lower.tolist(), "upper": known.upper.tolist()}
    return {"kind": "feedback", "name": getattr(known, "name", "")}


def _system(system: dict[str, Any]) -> dict[str, Any]:
    return {key: part.tolist() if isinstance(part, np.ndarray) else part for key, part in system.items()}


def _part(found: Tube, row: int, last: int) -> dict[str, Any]:
    sets = [
        {"center": each.center[row].tolist(), "generators": each.generators[row].tolist()}
        for each in found.sets[: last + 1]
    ]
    moves = []
    for each in found.taken[:last]:
        move: dict[str, Any] = {
            name: getattr(each, name)[row].tolist() for name in ("kept", "point", "turns", "value", "slope")
        }
        for name, kept in (("feedback", each.feedback), ("carried", each.carried)):
            if kept is not None:
                move[name] = {key: part[row].tolist() for key, part in kept.items()}
        moves.append(move)
    return {"sets": sets, "moves": moves}


_numbers = what.items(what.number)
_matrix = what.items(_numbers)
_SET = what.record({"center": _numbers, "generators": _matrix})
_MOVE = what.record({
    "kept": what.items(what.whole()), "point": _numbers, "turns": _numbers, "value": _numbers,
    "slope": _matrix,
})  # fmt: skip
_PART = what.record({"sets": what.items(_SET), "moves": what.items(_MOVE)})
_ROW = what.record({
    "lower": _matrix, "upper": _matrix, "delta": _matrix, "ended": what.maybe(what.whole()),
    "reason": what.text,
    "parts": what.items(_PART),
})  # fmt: skip
_SCHEMA = what.record({
    "states": what.items(what.text), "controls": what.items(what.text), "outputs": what.items(what.text),
    "units": what.mapping(what.text), "angles": what.items(what.text), "advances": what.items(what.whole()),
})  # fmt: skip
_DOCUMENT = what.record({
    "format": what.one_of(FORMAT), "version": what.whole(1, VERSION), "claim": what.text,
    "evidence": what.text,
    "weights": what.maybe(what.text), "many": what.flag, "about": what.mapping(what.maybe(what.text)),
    "schema": _SCHEMA, "steps": what.whole(1), "start": what.record({"lower": _matrix, "upper": _matrix}),
    "controls": what.record({"kind": what.one_of("box", "feedback")}), "starts": what.items(_ROW),
    "system": what.plain,
})  # fmt: skip


def load_tube(path: str | Path) -> Tube:
    """Reads what :func:`save_tube` wrote.

    Raises:
        StorageError: it is no such file.
    """
    path = Path(path)
    content = what.read_json(path, _DOCUMENT, _WHAT)
    try:
        return from_dict(content)
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise StorageError(f"`{path}` must be {_WHAT}; {what.shorten(error)}. Get a fresh copy.") from None


def from_dict(content: dict[str, Any]) -> Tube:
    """The tube that :func:`as_dict` was given."""
    fields = content["schema"]
    texts = {name: tuple(fields[name]) for name in ("states", "controls", "outputs", "angles", "advances")}
    schema = Schema(**texts, units=fields["units"])
    starts, steps, dx = content["starts"], content["steps"], len(schema.states)
    lower, upper, delta = (
        np.stack([_padded(row[name], count, dx) for row in starts])
        for name, count in (("lower", steps + 1), ("upper", steps + 1), ("delta", steps))
    )
    ended = np.array([-1 if row["ended"] is None else row["ended"] for row in starts])
    parts = [part for row in starts for part in row["parts"]]
    sets, taken = _sets(parts, dx), _taken(parts, schema)
    many, known = content["many"], content["controls"]
    if known["kind"] == "box":
        # As many as are listed: without controls there are no numbers to tell it by.
        shape = (len(known["lower"]), steps, len(schema.controls))
        controls: Controls = Boxed(
            *(np.array(known[end], dtype=np.float64).reshape(shape) for end in ("lower", "upper"))
        )
    else:
        controls = Named(known["name"], steps)
    system = content["system"]
    if system is not None:
        system = {key: np.array(part) if isinstance(part, list) else part for key, part in system.items()}
    start = tuple(
        np.array(content["start"][end], dtype=np.float64).reshape(-1, dx) for end in ("lower", "upper")
    )
    one = (lower, upper, delta, ended) if many else (
        lower[0], upper[0], delta[0], None if ended[0] < 0 else int(ended[0])
    )  # fmt: skip
    return Tube(
        schema, *one, tuple(row["reason"] for row in starts), sets, taken, len(parts) // len(starts),
        controls, content["evidence"], (start[0], start[1]), content["weights"], _beside(content),
        content["about"], system, content.get("carried"),
    )  # fmt: skip


def _beside(content: dict[str, Any]) -> Tube | None:
    other = content.get("beside")
    if other is None:
        return None
    _DOCUMENT(other, "beside")
    return from_dict(other)


def _padded(rows: list[Any], count: int, width: int) -> Any:
    values = np.full((count, width), np.nan)
    values[: len(rows)] = np.array(rows, dtype=np.float64).reshape(-1, width)
    return values


def _sets(parts: list[Any], dx: int) -> tuple[Zonotopes, ...]:
    """By step, all rows; those that have ended are points."""
    found = []
    for t in range(max(len(part["sets"]) for part in parts)):
        own = [part["sets"][t] if t < len(part["sets"]) else None for part in parts]
        most = max(len(one["generators"][0]) for one in own if one is not None)
        center, generators = np.zeros((len(parts), dx)), np.zeros((len(parts), dx, most))
        for k, one in enumerate(own):
            if one is not None:
                center[k] = one["center"]
                generators[k, :, : len(one["generators"][0])] = one["generators"]
        found.append(Zonotopes(center, generators))
    return tuple(found)


def _taken(parts: list[Any], schema: Schema) -> tuple[Taken, ...]:
    """By step; of rows that have ended nothing is kept."""
    dx, inputs, outputs = len(schema.states), len(schema.inputs), len(schema.outputs)
    found, sets = [], _sets(parts, dx)
    for t in range(max(len(part["moves"]) for part in parts)):
        own = [part["moves"][t] if t < len(part["moves"]) else None for part in parts]
        shapes = {"point": (inputs,), "turns": (inputs,), "value": (outputs,), "slope": (outputs, inputs)}
        arrays = {name: np.zeros((len(parts), *shape)) for name, shape in shapes.items()}
        kept = np.zeros((len(parts), max(len(one["kept"]) for one in own if one is not None)), dtype=np.int64)
        for k, one in enumerate(own):
            if one is not None:
                kept[k, : len(one["kept"])] = one["kept"]
                for name, array in arrays.items():
                    array[k] = one[name]
        nothing = np.full((len(parts), outputs), np.nan)
        found.append(
            Taken(
                sets[t + 1],
                kept,
                arrays["point"],
                arrays["turns"],
                arrays["value"],
                arrays["slope"],
                nothing,
                nothing,
                _followed(own, "feedback"),
                _followed(own, "carried"),
            )
        )
    return tuple(found)


def _followed(moves: list[Any], name: str) -> dict[str, Any] | None:
    """What is kept of a rule, by its parts, all rows; None where there is none."""
    known = [move for move in moves if move is not None]
    if not any(name in move for move in known):
        return None
    found = {}
    for key in known[0][name]:
        rows = [None if move is None else np.array(move[name][key], dtype=np.float64) for move in moves]
        shape = next(row.shape for row in rows if row is not None)
        found[key] = np.stack([np.zeros(shape) if row is None else row for row in rows])
    return found
