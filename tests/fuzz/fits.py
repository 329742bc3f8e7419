"""2,000 random fits end to end: no prediction may be farther from M than its row's delta, whatever the weights.

    python tests/fuzz/fits.py --count 2000 --seed 0 --minutes 30

Interval and affine tethers by every evidence, next states and increments, angles in and out, float64 and float32.
Weights are driven to where predictions sit on their bounds; inputs are sought on faces, rims, corners, kinks and
bumps. An excess is computed again with a hundred digits, on the circle for angles, and has no tolerance. `certify`
and `verify` must accept what `fit` proved.
"""

from __future__ import annotations

import copy
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import torch
from fits_systems import System, write_system
from subject import EnclosureError, Tally, main

import tether
from tether.learning.config import TrainingConfig

REFUSALS = (EnclosureError, ValueError, TypeError, tether.CertificateError, tether.TrustedModelError)


@dataclass(frozen=True)
class Case:
    """A system, data of it and settings of a fit."""

    system: System
    data: tether.Transitions
    settings: dict[str, Any]

    @property
    def described(self) -> str:
        s = self.system
        angles = f", angles {', '.join(s.angles)}" if s.angles else ""
        turning = "turning" if self.data.schema.output_angles.any() else "plain"
        settings = {name: value for name, value in self.settings.items() if name != "training"}
        return (
            f"# {self.kind} tether of {turning} outputs: {s.states} {s.controls} -> {s.outputs}{angles}; "
            f"{settings}\n{s.source}"
        )

    @property
    def kind(self) -> str:
        return self.settings["bounds"]


class Constant(torch.nn.Module):
    """A network that says one number, whatever it is asked."""

    def __init__(self, value: float, outputs: int) -> None:
        super().__init__()
        self.value = torch.nn.Parameter(torch.full((outputs,), value))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return self.value.expand(len(features), len(self.value))


def make_case(rng: np.random.Generator) -> Case:
    system = write_system(rng)
    schema = tether.make_schema(system.states, system.controls, system.outputs, angles=system.angles)
    rows = int(rng.integers(60, 160))
    inputs = rng.uniform(system.low, system.high, (rows, len(system.low)))
    for k, place, width in system.spots:
        near = rng.random(rows) < 0.1
        inputs[near, k] = place + width * rng.standard_normal(near.sum())
    inputs = np.clip(inputs, system.low, system.high)
    dx = len(system.states)
    states, controls = inputs[:, :dx], inputs[:, dx:]
    truth = np.array(system.build()(states, controls), dtype=float)
    spread = np.ptp(truth, axis=0) + 1e-12
    truth = truth + rng.choice([0.0, 1e-9, 1e-3, 0.1]) * spread * rng.standard_normal(truth.shape)
    data = tether.Transitions.from_arrays(
        states, controls, truth, episodes=np.arange(rows) // 5, schema=schema
    )
    bounds = str(rng.choice(["interval", "affine", "affine"]))
    settings = {
        "bounds": bounds,
        "memories": int(rng.integers(10, 61)),
        "evidence": "proved",
        "hidden": (4,),
        "operator": str(rng.choice(["clip", "clip", "sigmoid", "project"])),
        "training": TrainingConfig(steps=2, evaluate_every=2),
        "seed": int(rng.integers(1000)),
    }
    if (np.array(schema.advances) >= 0).all() and rng.random() < 0.6:
        settings["target"] = str(rng.choice(["increment", "next_state"]))
    if bounds == "affine":
        settings["leaves"] = int(rng.choice([50, 300]))
        settings["evidence"] = str(rng.choice(["proved", "proved", "proved", "statistical", "sampled"]))
        settings["order"] = (1, 2, "auto")[rng.integers(3)] if settings["evidence"] == "proved" else 1
    if rng.random() < 0.3:
        margin = rng.choice([0.3, 2.0]) * (system.high - system.low)
        settings["domain"] = {
            name: (float(low), float(high))
            for name, low, high in zip(schema.inputs, system.low - margin, system.high + margin, strict=True)
            if name not in system.angles
        }
    return Case(system, data, settings)


# Searching --------------------------------------------------------------------------------------------


def hostile_inputs(model, system: System, rng: np.random.Generator, count: int) -> np.ndarray:
    """(N, D): in cells, on rims, faces between cells, corners, and all of these moved onto M's hurting places."""
    cells = model.cells
    width = cells.memories.shape[1]
    direction = rng.standard_normal((count, width))
    kind = rng.integers(0, 3, count)
    direction[kind == 1] = np.sign(direction[kind == 1])
    direction[kind == 2] *= np.eye(width)[rng.integers(0, width, (kind == 2).sum())]
    direction /= np.maximum(np.linalg.norm(direction, axis=1, keepdims=True), 1e-300)
    cell = rng.integers(0, len(cells), count)
    share = rng.choice([0.0, 1e-9, 0.3, 0.7, 0.999, 1 - 1e-12, 1.0], count)
    scaled = cells.memories[cell] + (cells.radii[cell] * share)[:, None] * direction
    other = rng.integers(0, len(cells), count)
    between = rng.random(count) < 0.25
    tilt = 0.5 + rng.choice([0.0, 1e-12, -1e-12, 1e-6, -1e-6], (count, 1))
    scaled[between] = (tilt * cells.memories[cell] + (1 - tilt) * cells.memories[other])[between]
    inputs = scaled * cells.scale
    for k, place, wide in system.spots:
        moved = rng.random(count) < 0.35
        offset = wide * rng.choice([0.0, 0.5, -0.5, 0.7071, -1.0, 1.0, 3.0, 1e-3], moved.sum())
        inputs[moved, k] = place + offset
    faces = rng.random(inputs.shape) < 0.04
    limit = np.where(rng.random(inputs.shape) < 0.5, cells.box_lower, cells.box_upper)
    inputs = np.where(faces, limit, inputs)
    if model.bounds.over == "boxes":
        inputs = onto_leaves(model.bounds.tree, inputs, rng)
    turns = model.schema.input_angles
    rims = turns & (rng.random(inputs.shape) < 0.1)
    inputs = np.where(rims, rng.choice([-np.pi, np.nextafter(np.pi, 0), 3.14, -3.14], inputs.shape), inputs)
    hair = rng.random(inputs.shape) < 0.05
    return np.where(hair, np.nextafter(inputs, rng.choice([-np.inf, np.inf], inputs.shape)), inputs)


def onto_leaves(tree, inputs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Half of the inputs anywhere in the leaves instead, a third of these on faces and in corners."""
    lower, upper = tree.boxes()
    leaf = rng.integers(0, len(lower), len(inputs))
    share = rng.random(inputs.shape)
    face = rng.random(inputs.shape) < rng.choice([0.0, 0.0, 0.6], (len(inputs), 1))
    share = np.where(face, np.round(share), share)
    inside = np.clip(lower[leaf] + share * (upper - lower)[leaf], lower[leaf], upper[leaf])
    return np.where(rng.random((len(inputs), 1)) < 0.5, inside, inputs)


def trusted_values(function, inputs: np.ndarray, dx: int) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.array(function(inputs[:, :dx], inputs[:, dx:]), dtype=float)


def exact_excess(one: float, other: float, delta: float, *, angle: bool) -> bool:
    """Whether the distance is above delta, in a hundred digits."""
    with mpmath.workdps(100):
        gap = mpmath.mpf(one) - mpmath.mpf(other)
        if angle:
            gap = gap - 2 * mpmath.pi * mpmath.nint(gap / (2 * mpmath.pi))
        return bool(abs(gap) > mpmath.mpf(delta))


def excesses(
    schema, said: np.ndarray, truth: np.ndarray, delta: np.ndarray, inside: np.ndarray
) -> list[tuple[int, int]]:
    """(row, output) where a prediction of the domain is too far from M."""
    finite = np.isfinite(truth)
    with np.errstate(all="ignore"):
        distance = np.where(finite, schema.distance(said, np.where(finite, truth, 0.0)), 0.0)
        suspect = inside[:, None] & ~(distance <= delta * (1 - 1e-13))
    found = []
    for row, output in np.argwhere(suspect).tolist():
        values = (float(said[row, output]), float(truth[row, output]), float(delta[row, output]))
        if not np.isfinite(values[0]) or exact_excess(*values, angle=bool(schema.output_angles[output])):
            found.append((row, output))
    return found


def describe(kind: str, inputs: np.ndarray, said, truth, delta, place: tuple[int, int]) -> str:
    row, output = place
    return (
        f"{kind}: at {inputs[row].tolist()} output {output}: prediction {float(said[row, output])!r}, "
        f"M {float(truth[row, output])!r}, delta {float(delta[row, output])!r}"
    )


def find_double(model, case: Case, function, inputs: np.ndarray) -> str | None:
    dx, outputs = len(case.system.states), len(case.system.outputs)
    wrapped = model.schema.wrap_inputs(inputs[:, :dx], inputs[:, dx:])
    truth = trusted_values(function, wrapped, dx)
    for name, network in networks(model, outputs):
        pushed = copy.copy(model)
        pushed.network = network
        prediction = pushed.predict(inputs[:, :dx], inputs[:, dx:], details=True)
        found = excesses(model.schema, prediction.next_states, truth, prediction.delta, prediction.in_domain)
        if found:
            return describe(
                f"float64, {name}", wrapped, prediction.next_states, truth, prediction.delta, found[0]
            )
    return None


def networks(model, outputs: int):
    """The weights as fitted, a million times as large, and ones that push to either end."""
    wild = copy.deepcopy(model.network)
    with torch.no_grad():
        for parameter in wild.parameters():
            parameter.mul_(1e6)
    yield "as fitted", model.network
    yield "weights x 1e6", wild
    for value in (1e30, -1e30, torch.inf, -torch.inf):
        yield f"bias {value}", Constant(value, outputs)


def find_single(model, case: Case, function, inputs: np.ndarray, tally: Tally) -> str | None:
    dx, outputs = len(case.system.states), len(case.system.outputs)
    rows = inputs.astype(np.float32)
    truth = trusted_values(function, rows.astype(float), dx)
    for name, network in networks(model, outputs):
        pushed = copy.copy(model)
        pushed.network = network
        try:
            single = tether.single_precision(pushed)
        except ValueError as error:
            tally.refuse(ValueError(f"float32: {error}"), case.described)
            return None
        tensor = torch.from_numpy(rows)
        with torch.no_grad():
            answer = single(tensor[:, :dx].contiguous(), tensor[:, dx:].contiguous())
        said, delta = answer.next_states.double().numpy(), answer.delta.double().numpy()
        found = excesses(model.schema, said, truth, delta, answer.in_domain.numpy())
        if found:
            return describe(f"float32, {name}", rows.astype(float), said, truth, delta, found[0])
    tally.counts["float32"] += 1
    return None


def climbed(
    model, case: Case, function, inputs: np.ndarray, rng: np.random.Generator, rounds: int = 6
) -> np.ndarray:
    """The inputs with the largest ratio of distance to delta, after a few rounds of shrinking random steps."""
    dx = len(case.system.states)
    scale = model.cells.radii.mean() * model.cells.scale

    def ratio(rows: np.ndarray) -> np.ndarray:
        wrapped = model.schema.wrap_inputs(rows[:, :dx], rows[:, dx:])
        limits = model.limits(wrapped)
        base, truth = model.frame.base(wrapped[:, :dx]), trusted_values(function, wrapped, dx)
        ends = [model.schema.distance(base + end, truth) for end in (limits.lower, limits.upper)]
        with np.errstate(all="ignore"):
            share = np.maximum(*ends) / np.maximum(limits.delta, 1e-300)
        return np.where(limits.in_domain, np.nan_to_num(share).max(axis=1), 0.0)

    order = np.argsort(-ratio(inputs))[:150]
    best, score = inputs[order], ratio(inputs[order])
    for step in 0.3 * 0.2 ** np.arange(rounds):
        moved = best + step * scale * rng.standard_normal(best.shape)
        again = ratio(moved)
        best[again > score], score = moved[again > score], np.maximum(score, again)
    return best


# One fit ----------------------------------------------------------------------------------------------


def check_claims(model, case: Case, function, tally: Tally) -> None:
    """`certify` and `verify` of what was fitted; refusals are counted with their reasons."""
    try:
        tether.certify(model, function, points_per_cell=4)
        tally.counts["certified"] += 1
    except REFUSALS as error:
        tally.refuse(ValueError(f"certify: {error}"), case.described)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        tether.save(model, path)
        try:
            tether.verify(path, function)
            tally.counts["verified"] += 1
        except REFUSALS as error:
            tally.refuse(ValueError(f"verify: {error}"), case.described)


def find(case: Case, rng: np.random.Generator, tally: Tally, count: int) -> str | None:
    """A false claim, if one is found. Raises what `fit` refuses with."""
    function = case.system.build()
    model = tether.fit(case.data, trusted=function, **case.settings)
    tally.counts[f"fits {case.kind}"] += 1
    tally.counts[f"{case.settings['evidence']}"] += 1
    tally.counts["with angles"] += bool(case.system.angles)
    inputs = np.concatenate([hostile_inputs(model, case.system, rng, count), case.data.inputs])
    inputs = np.concatenate([inputs, climbed(model, case, function, inputs, rng)])
    tally.counts["points"] += 6 * len(inputs)
    tally.counts["points in domain"] += 6 * int(model.limits(inputs).in_domain.sum())
    found = None
    # A share of draws, or an estimate, says nothing of any single input.
    if case.settings["evidence"] == "proved":
        found = find_double(model, case, function, inputs) or find_single(
            model, case, function, inputs, tally
        )
    check_claims(model, case, function, tally)
    return found


def run(tally: Tally, seed: int, count: int = 1500) -> None:
    rng = np.random.default_rng(seed)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tally.counts["programs"] += 1
        try:
            case = make_case(rng)
        except ValueError as error:  # M is not finite on its own data
            tally.refuse(ValueError(f"data: {error}"))
            return
        if tally.skips(case.described):
            return
        try:
            found = find(case, rng, tally, count)
        except REFUSALS as error:
            tally.refuse(ValueError(f"fit: {error}"), case.described)
            return
        except Exception as error:
            found = f"crash: {type(error).__name__}: {error}"
        if found is not None:
            tally.fail(f"# seed {seed}: {found}\n{case.described}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main("fits", run, count=2_000, seconds=120)
