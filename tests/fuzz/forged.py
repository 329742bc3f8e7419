"""10,000 forged, re-signed model files: `verify` may accept none whose claim is false.

    python tests/fuzz/forged.py --count 10000 --seed 0 --minutes 30

Models of small random systems (boxes, by proof or constants, and intervals; angles, increments, pinned inputs) are
changed as a forger would: trees with gaps, rings and exchanged leaves; arrays scaled, moved, exchanged, cut; words
and shapes altered; sizes that overflow or vanish. Each is signed anew, so that only the mathematics can tell. What is
accepted is then searched for a counter-example: M at thousands of inputs of the domain against the farther limit of
the model there, in float64 and in float32. Every eighth time it is the certificate that is forged.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import forged_boxes
import numpy as np
from signing import Arrays, sign

import tether
from tether.claims.certificate import output_deltas
from tether.data import Scaling, make_schema
from tether.evidence import Proved
from tether.files.storage import load, save
from tether.foundation.atomic import read_tensors
from tether.geometry.cells import Cells
from tether.model import Frame, Model, mlp
from tether.model.assembling import constrained_model
from tether.tethers.bounds import bound_by_intervals
from tether.trusted import TrustedModel
from tether.verification import twins

SYSTEMS = 24
CELLS = 10
REFUSED = (tether.foundation.errors.CertificateError, tether.foundation.errors.StorageError, ValueError)
FACTORS = (0.0, 0.3, 0.9, 0.999, 1 - 1e-12, 1 + 1e-9, 1.001, 1.1, 2.0, 1e3, -1.0)
VALUES = (0.0, -0.0, 1e-300, 5e-324, 1e160, 1e300, -1e300, np.inf, np.nan, 1.0, np.pi, 100.0)


def trusted_of(seed: int) -> tuple[Callable[..., Any], int, int]:
    """A small M of one to three inputs: its function, inputs, outputs."""
    rng = np.random.default_rng(seed)
    inputs, kind = int(rng.integers(1, 4)), seed % 4
    weights = rng.standard_normal((inputs, 2))

    def function(states, controls):
        mixed = states @ weights
        if kind == 0:
            return mixed + 0.3 * np.sin(2 * mixed)
        if kind == 1:
            return np.clip(mixed, -1.0, 1.0) * np.exp(-0.1 * mixed**2)
        if kind == 2:
            return np.pi + mixed / (1.5 + np.tanh(mixed))
        return np.abs(mixed - 0.2) + np.sqrt(1 + mixed**2)

    return function, inputs, 2


@cache
def model_of(seed: int) -> tuple[Model, TrustedModel]:
    """Proved interval bounds of it."""
    function, inputs, outputs = trusted_of(seed)
    rng = np.random.default_rng(seed + 1000)
    names = [f"s{k}" for k in range(inputs)]
    angles = ("y1",) if seed % 2 else ()
    schema = make_schema(names, [], ["y0", "y1"], angles=angles if inputs != 2 else ())
    schema = replace(schema, outputs=("y0", "y1"), advances=(-1, -1), angles=angles)
    target = "next_state"
    if inputs >= 2 and seed % 5 == 0:
        schema, target = replace(schema, advances=(0, 1)), "increment"
    scale = 10.0 ** rng.uniform(-1, 1, inputs)
    memories = rng.uniform(-1, 1, (CELLS, inputs)) / scale
    edges = np.array([[0, 1], [1, 2]])
    cells = Cells(memories, edges, scale, 0.5 / scale.max(), np.full(inputs, -1.5), np.full(inputs, 1.5))
    data, trusted = rng.uniform(-1, 1, (100, inputs)), TrustedModel(function)
    bounds = bound_by_intervals(cells, trusted, schema, target, inputs=data, evidence=Proved())
    frame = Frame(
        schema, target, Scaling(np.zeros(inputs), scale), Scaling(np.zeros(outputs), np.ones(outputs))
    )
    return constrained_model(mlp(frame.features_width, outputs, (4,)), frame, cells, bounds), trusted


# --- what a forger does; each changes arrays and words in place


def scale_array(rng: np.random.Generator, arrays: Arrays, words: dict[str, Any]) -> None:
    name = pick(rng, arrays)
    where = rng.random(arrays[name].shape) < rng.choice([0.1, 0.5, 1.1])
    arrays[name][where] *= rng.choice(FACTORS)


def move_array(rng: np.random.Generator, arrays: Arrays, words: dict[str, Any]) -> None:
    name = pick(rng, arrays)
    size = np.abs(arrays[name]).max() + 1e-3
    arrays[name] += (
        rng.choice([1e-15, 1e-12, 1e-9, 1e-6, 1e-3, 0.1, 2 * np.pi]) * size * rng.standard_normal()
    )


def set_entries(rng: np.random.Generator, arrays: Arrays, words: dict[str, Any]) -> None:
    values = arrays[pick(rng, arrays)]
    values[tuple(rng.integers(0, n) for n in values.shape)] = rng.choice(VALUES)


def set_all(rng: np.random.Generator, arrays: Arrays, words: dict[str, Any]) -> None:
    arrays[pick(rng, arrays)][...] = rng.choice(VALUES)


def exchange_cells(rng: np.random.Generator, arrays: Arrays, words: dict[str, Any]) -> None:
    values = arrays[pick(rng, arrays)]
    values[:] = values[rng.permutation(len(values))]


def cut_cells(rng: np.random.Generator, arrays: Arrays, words: dict[str, Any]) -> None:
    kept = int(rng.integers(1, CELLS))
    for name, values in arrays.items():
        if name.startswith(("cells.", "bounds.")) and len(values) == CELLS and rng.random() < 0.97:
            arrays[name] = values[:kept].copy()


def cut_axis(rng: np.random.Generator, arrays: Arrays, words: dict[str, Any]) -> None:
    name = pick(rng, arrays)
    arrays[name] = np.take(arrays[name], range(max(1, arrays[name].shape[-1] - 1)), axis=-1)


def other_type(rng: np.random.Generator, arrays: Arrays, words: dict[str, Any]) -> None:
    name = pick(rng, arrays)
    with np.errstate(all="ignore"):
        arrays[name] = arrays[name].astype(rng.choice([np.float32, np.float16]))


def wider_domain(rng: np.random.Generator, arrays: Arrays, words: dict[str, Any]) -> None:
    factor = rng.choice([1 + 1e-15, 1 + 1e-12, 1.01, 1.5, 1e3, 1e160])
    arrays["cells.radii"] *= factor
    if rng.random() < 0.5:
        arrays["cells.box_lower"] *= 1e3
        arrays["cells.box_upper"] *= 1e3


def other_scale(rng: np.random.Generator, arrays: Arrays, words: dict[str, Any]) -> None:
    factor = rng.choice([1e-320, 1e-150, 1e-9, 0.5, 2.0, 1e9, 1e200])
    with np.errstate(all="ignore"):
        arrays["cells.scale"] *= factor
        if rng.random() < 0.5:
            arrays["cells.memories"] /= factor


def tighter(rng: np.random.Generator, arrays: Arrays, words: dict[str, Any]) -> None:
    """Less than is true, by little."""
    share = 1 - 10.0 ** rng.uniform(-14, -0.5)
    arrays["bounds.delta"] *= share


def other_words(rng: np.random.Generator, arrays: Arrays, words: dict[str, Any]) -> None:
    schema = words["schema"]
    options: list[tuple[dict[str, Any], str, Any]] = [
        (words, "blend", int(rng.choice([0, 1, 2, 3, 9, 1000, 10**7]))),
        (words, "target", str(rng.choice(["increment", "next_state", "both"]))),
        (words, "evidence", str(rng.choice(["proved", "lipschitz", "certain"]))),
        (words, "kind", str(rng.choice(["boxes", "interval"]))),
        (schema, "angles", [["y0", "y1"], ["y0"], ["y1"], [], ["s0"]][rng.integers(5)]),
        (schema, "advances", [[0, 0], [-1, 0], [-1, -1], [True, 0], [5, 0]][rng.integers(5)]),
        (schema, "outputs", [["y1", "y0"], ["y0"], ["y0", "y0"]][rng.integers(3)]),
        (schema, "states", schema["states"][::-1]),
    ]
    place, key, value = options[rng.integers(len(options))]
    place[key] = value


FORGERIES = (scale_array, move_array, set_entries, set_all, exchange_cells, cut_cells, cut_axis, other_type,
             wider_domain, other_scale, tighter, tighter, tighter, scale_array, other_words)  # fmt: skip


def pick(rng: np.random.Generator, arrays: Arrays) -> str:
    names = [n for n in sorted(arrays) if n.startswith(("cells.", "bounds.")) and n != "cells.edges"]
    return str(rng.choice(names))


# --- the search


def refuted(path: Path, trusted: TrustedModel, rng: np.random.Generator, points: int) -> str | None:
    """A counter-example to the file's claim, in words; None if none was found."""
    model = load(path)
    schema, boxes = model.schema, model.bounds.over == "boxes"
    draw = forged_boxes.drawn if boxes else _drawn
    largest = np.array([d.maximum for d in output_deltas(model)])
    best: np.ndarray | None = None
    for _ in range(3):
        inputs = np.concatenate(
            [draw(model, rng, points), *([] if best is None else [_near(best, model, rng)])]
        )
        inputs = schema.wrap_inputs(inputs[:, : len(schema.states)], inputs[:, len(schema.states) :])
        inside = model.limits(inputs).in_domain
        if not inside.any():
            return None
        inputs = inputs[inside]
        limits, values = model.limits(inputs), trusted.target(inputs, schema, model.frame.target)
        farthest = np.maximum(schema.distance(values, limits.lower), schema.distance(limits.upper, values))
        excess = farthest - np.minimum(limits.delta, largest * (1 + 1e-15))
        row, output = np.unravel_index(int(np.argmax(excess)), excess.shape)
        if excess[row, output] > 0 or not np.isfinite(excess).all():
            return f"at {inputs[row].tolist()} output {output} exceeds delta by {excess[row, output]:.3g}"
        best = inputs[np.argsort((farthest / np.maximum(limits.delta, 1e-300)).max(axis=1))[-8:]]
    return forged_boxes.refuted_in_float32(model, trusted, rng, points) if boxes else None


def _drawn(model: Model, rng: np.random.Generator, points: int) -> np.ndarray:
    """Points of the balls, half of them at the rim, in the box."""
    cells = model.cells
    cell = rng.integers(0, len(cells), points)
    way = rng.standard_normal((points, cells.memories.shape[1]))
    way /= np.sqrt((way**2).sum(axis=1, keepdims=True))
    reach = np.where(rng.random(points) < 0.5, 1.0, rng.random(points))
    inputs = (cells.memories[cell] + (cells.radii[cell] * reach)[:, None] * way) * cells.scale
    return np.clip(inputs, cells.box_lower, cells.box_upper)


def _near(places: np.ndarray, model: Model, rng: np.random.Generator) -> np.ndarray:
    cells = model.cells
    low, high = cells.box_lower, cells.box_upper
    if model.bounds.over == "boxes":
        low, high = model.bounds.tree.lower, model.bounds.tree.upper
    spread = 10.0 ** rng.uniform(-6, -1, (50 * len(places), 1)) * float(np.median(cells.radii)) * cells.scale
    moved = np.repeat(places, 50, axis=0) + spread * rng.standard_normal((50 * len(places), places.shape[1]))
    return np.clip(moved, low, high)


def run(seed: int, folder: Path, counts: Counter[str], points: int = 1500) -> str | None:
    """One forgery; what is wrong with how it was judged, in words."""
    # M is one of a few plain models, thousands of times: whether it is followed rightly is not asked again.
    with mock.patch.object(twins, "unlike_twins", return_value=None):
        return _judged(np.random.default_rng(seed), seed, folder, counts, points)


def _judged(
    rng: np.random.Generator, seed: int, folder: Path, counts: Counter[str], points: int
) -> str | None:
    if seed % 8 == 0:
        return _forged_certificate(seed, rng, folder, counts)
    if seed % 4:
        forgeries, (model, trusted) = (
            forged_boxes.FORGERIES,
            forged_boxes.model_of(seed % forged_boxes.SYSTEMS),
        )
    else:
        forgeries, (model, trusted) = FORGERIES, model_of(seed % SYSTEMS)
    path = folder / "forged.safetensors"
    save(model, path)
    tensors, words = read_tensors(path)
    arrays = {name: values.numpy().copy() for name, values in tensors.items()}
    steps = [forgeries[rng.integers(len(forgeries))] for _ in range(int(rng.integers(1, 3)))]
    with np.errstate(all="ignore"):
        for step in steps:
            step(rng, arrays, words)
    sign(path, arrays, words)
    names = [step.__name__ for step in steps]
    try:
        result = tether.verify(path, trusted)
    except REFUSED as error:
        counts["refused"] += 1
        return None if len(str(error).splitlines()) == 1 else f"seed {seed}: {error!r} has several lines"
    except Exception as error:
        return f"seed {seed}: {type(error).__name__}: {error} after {names}"
    if not result.verified:
        counts["not verified"] += 1
        return None
    counts[f"accepted, {model.bounds.kind}"] += 1
    try:
        found = refuted(path, trusted, rng, points)
    except (tether.foundation.errors.StorageError, ValueError) as error:
        counts[f"accepted, not loaded: {str(error)[-60:]}"] += 1
        return None
    return None if found is None else f"seed {seed}: accepted after {names}, but {found}"


def _forged_certificate(
    seed: int, rng: np.random.Generator, folder: Path, counts: Counter[str]
) -> str | None:
    """A true model beside a certificate of which one field says something else."""
    number = int(rng.integers(forged_boxes.SYSTEMS))
    model, trusted = forged_boxes.model_of(number)
    save(model, folder / "true.safetensors")
    said = json.loads(json.dumps(forged_boxes.certificate_of(number)))
    field = forged_boxes.forge_certificate(rng, said)
    (folder / "certificate.json").write_text(json.dumps(said))
    try:
        found = tether.verify(folder / "true.safetensors", trusted, folder / "certificate.json")
    except REFUSED:
        counts["certificates refused"] += 1
        return None
    counts["certificates accepted"] += 1
    if not field or (forged_boxes.is_open(field) and found.not_vouched):
        return None
    return f"seed {seed}: a certificate with another `{field}` was accepted"


def main(arguments: list[str] | None = None) -> tuple[Counter[str], list[str]]:
    """Counts, and what was judged wrongly."""
    parser = argparse.ArgumentParser(description="forged model files")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=None)
    parser.add_argument("--points", type=int, default=1500)
    options = parser.parse_args(arguments)
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    begun, last = time.monotonic(), options.seed
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for last in range(options.seed, options.seed + options.count):
            found = run(last, Path(folder), counts, options.points)
            if found is not None:
                wrong.append(found)
                print(f"=== wrong {len(wrong)}: {found}", flush=True)
            if options.minutes and time.monotonic() - begun > 60 * options.minutes:
                break
    listed = ", ".join(f"{key} {count:,}" for key, count in counts.items())
    seconds = time.monotonic() - begun
    print(
        f"forged: {listed}, wrong {len(wrong)} (seeds {options.seed} to {last}, {seconds:.0f} s)", flush=True
    )
    return counts, wrong


if __name__ == "__main__":
    sys.exit(bool(main()[1]))
