"""Box bounds for a problem: the operating box, a tree for M, and room by the data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from tether.boxes import BoxBounds
from tether.cells import Cells
from tether.data import Array, Box, Schema, Target, check_known
from tether.errors import CertificateError
from tether.growth import Aim, Grown, grow
from tether.pipeline.config import FitConfig, resolve_budget, resolve_target
from tether.pipeline.problem import Problem
from tether.progress import Reporter, silent
from tether.ranges import target_program
from tether.room import Band, Spread, calibrate_room
from tether.tethers.blending import PINNED_REACH, opening
from tether.trusted import TrustedModel

_MARGIN = 0.25
"""By which share of their range the box goes beyond data and probes."""
_OF_RESIDUAL = 0.1
"""Remainder that is good enough, as a share of what the data show M to be off by."""
_LEAST_TOLERANCE = 1e-9
"""As a share of the spread of the target: of an M without error nothing finer is asked."""


@dataclass(frozen=True, eq=False)
class Boxed:
    """Box bounds, and what came with them.

    Attributes:
        bounds: over the operating box.
        grown: the trees.
        band: what is claimed of reality.
    """

    bounds: BoxBounds
    grown: Grown
    band: Band

    def record(self) -> dict[str, Any]:
        """What is saved of it with a model."""
        band = self.band
        noted = {name: getattr(band, name) for name in ("probability", "alpha", "inside", "episodes")}
        return {"band": {**noted, "rows": list(band.rows)}, "stopped": self.grown.stopped}


def operating_box(inputs: Array, schema: Schema, domain: Box | None) -> tuple[Array, Array]:
    """(D,) lower and upper limits: as declared, else the range of inputs (N, D) with a margin.

    Angles range over the circle.
    """
    lower, upper = inputs.min(axis=0), inputs.max(axis=0)
    margin = _MARGIN * (upper - lower)
    lower, upper = lower - margin, upper + margin
    lower[schema.input_angles], upper[schema.input_angles] = -np.pi, np.pi
    check_known("domain", domain or {}, "inputs", schema.inputs)
    for name, limits in (domain or {}).items():
        column = schema.inputs.index(name)
        low, high = limits if isinstance(limits, tuple | list) else (limits, limits)
        beyond = (inputs[:, column] < low) | (inputs[:, column] > high)
        if beyond.any():
            row = int(np.argmax(beyond))
            raise ValueError(
                f"`domain` must contain the data and probes; got {low}:{high} for '{name}', which leaves out "
                f"{int(beyond.sum())} of {len(inputs)} rows, {inputs[row, column]:.6g} for one. Widen it, or "
                "drop those rows."
            )
        lower[column], upper[column] = low, high
    return lower, upper


def build_boxes(
    problem: Problem, cells: Cells, config: FitConfig, pinned: Array, *, reporter: Reporter = silent
) -> Boxed:
    """Trees grown until M's first-order models are good enough, and room calibrated on whole episodes."""
    train = problem.split.train
    schema, target = train.schema, resolve_target(config.target, train)
    # Not what is kept for testing, of which the box will be asked how much it covers.
    seen = np.concatenate([part.inputs for part in (*problem.data[:2], *problem.probes[:2])])
    lower, upper = operating_box(seen, schema, config.domain)
    program = target_program(problem.trusted, schema, target, lower[None], upper[None])
    budget = resolve_budget(config.delta, schema)
    tolerance = np.maximum(
        _OF_RESIDUAL * typical_residual(problem), _LEAST_TOLERANCE * train.target(target).std(axis=0)
    )
    tolerance = np.maximum(tolerance, np.finfo(np.float64).tiny)
    if budget is not None:
        tolerance = np.minimum(tolerance, 0.5 * budget)
    aim = Aim(tolerance, problem.training_inputs, schema.output_angles, pinned, config.leaves)
    with reporter("Boxes for the trusted model") as progress:
        grown = grow(program, lower, upper, aim, progress=progress)
    plain = settle(grown, problem.trusted, schema, target, pinned)
    half_width, band = _room(problem, cells, plain, target, config)
    bounds = _rounded(plain, half_width, schema, budget)
    _check_budget(bounds, schema)
    return Boxed(bounds, grown, band)


def typical_residual(problem: Problem) -> Array:
    """(P,) root mean square of what M is off by on training data, wild rows counted as 99 % of them are."""
    part, schema = problem.data[0], problem.split.train.schema
    assert part.next_states is not None
    away = schema.distance(part.next_states, part.trusted)
    return np.sqrt((np.minimum(away, np.quantile(away, 0.99, axis=0)) ** 2).mean(axis=0))


def settle(grown: Grown, trusted: TrustedModel, schema: Schema, target: Target, pinned: Array) -> BoxBounds:
    """Bounds without room: A from M's own float64 values, written from one reference.

    That is what all probes agree on, where they do: there A is then M to the last bit.
    """
    tree, leaves, output = grown.tree, grown.leaves, grown.output
    reference = np.where(np.isnan(pinned), 0.5 * tree.lower + 0.5 * tree.upper, pinned)
    value, remainder = leaves.value.copy(), leaves.remainder.copy()
    # Where there is a slope A is M's own answer at the middle; else it is the middle of M's range.
    asked = np.isfinite(remainder) & (leaves.slope != 0).any(axis=1)
    own = trusted.target(leaves.middle[asked], schema, target)[np.arange(asked.sum()), output[asked]]
    shift = own - value[asked]
    turns = 2 * np.pi * np.round(shift / (2 * np.pi)) * schema.output_angles[output[asked]]
    remainder[asked] += np.abs(shift - turns) + np.finfo(np.float64).eps * (
        8 * np.abs(own) + 64 * np.abs(turns)
    )
    value[asked] = own
    value = value + (leaves.slope * (reference - leaves.middle)).sum(axis=1)
    outputs = len(schema.outputs)
    return BoxBounds(
        tree=tree,
        reference=reference,
        value=value,
        slope=leaves.slope,
        remainder=remainder,
        half_width=np.zeros((1, outputs)),
        most=np.full(outputs, np.inf),
        pinned=pinned,
        angles=schema.output_angles,
        evidence="proved",
    )


def _room(
    problem: Problem, cells: Cells, bounds: BoxBounds, target: Target, config: FitConfig
) -> tuple[Array, Band]:
    """Half-widths from all episodes that are not kept for testing."""
    parts = (problem.split.train, problem.split.validation)
    inputs = np.concatenate([part.inputs for part in parts])
    observed = np.concatenate([part.target(target) for part in parts])
    episodes = np.concatenate([part.episodes for part in parts])
    distance = problem.split.train.schema.distance(observed, bounds.evaluate(inputs))
    open_ = _opening(inputs, bounds.pinned, cells.scale)
    seen = Spread(cells.locate(inputs).cell, distance, episodes, open_)
    return calibrate_room(cells, seen, alpha=config.alpha, unseen=config.unseen)


def _opening(inputs: Array, pinned: Array, scale: Array) -> Array:
    """(N,) share of the half-width that the tether will open at inputs (N, D)."""
    agreed = np.isfinite(pinned)
    rate = np.where(agreed, 1 / (scale * PINNED_REACH), 0.0)
    if not agreed.any():
        return np.ones(len(inputs))
    given = (torch.from_numpy(part) for part in (inputs, np.where(agreed, pinned, 0.0), rate))
    return opening(*given)[:, 0].numpy()


def _rounded(bounds: BoxBounds, half_width: Array, schema: Schema, budget: Array | None) -> BoxBounds:
    """With room, and the roundings of A and of what is added to it in the remainder."""
    roomy = replace(bounds, half_width=half_width)
    most = bounds.most if budget is None else budget * (1 - 1e-12)
    return replace(roomy, remainder=bounds.remainder + roomy.rounding(schema), most=most)


def _check_budget(bounds: BoxBounds, schema: Schema) -> None:
    """Raises where the remainder alone exceeds the delta asked for."""
    worst = np.array([bounds.remainder[bounds.output == k].max() for k in range(len(schema.outputs))])
    beyond = worst > bounds.most
    if beyond.any():
        output = int(np.argmax(np.where(beyond, worst / bounds.most, 0.0)))
        leaf = int(np.argmax(np.where(bounds.output == output, bounds.remainder, -1.0)))
        lower, upper = (corner[leaf] for corner in bounds.tree.boxes())
        region = ", ".join(
            f"{name} {low:.4g} to {high:.4g}"
            for name, low, high, least, most in zip(
                schema.inputs, lower, upper, bounds.tree.lower, bounds.tree.upper, strict=True
            )
            if (low, high) != (least, most)
        )
        raise CertificateError(
            f"`delta` must leave room for the remainder; over {region or 'the box'} that of output "
            f"'{schema.outputs[output]}' is {worst[output]:.4g}, too much by "
            f"{worst[output] - bounds.most[output]:.4g}. Allow {1.05 * worst[output]:.4g}, more leaves, or a "
            "smaller domain."
        )
