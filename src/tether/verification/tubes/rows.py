"""The rows of a tube's file: that sets begin with the start, that boxes hold them, and their steps."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, product
from typing import Any

import numpy as np

from tether.foundation import documents as what
from tether.foundation.errors import CertificateError
from tether.verification import intervals
from tether.verification.claim import ROUNDOFF
from tether.verification.intervals import Array, add_down, add_up
from tether.verification.leafclaims import LeafClaim
from tether.verification.tubes.distances import LESS_THAN_A_TURN
from tether.verification.tubes.document import WHAT, require
from tether.verification.tubes.sets import Set
from tether.verification.tubes.steps import Step, step

_MOST_CORNERS = 100_000


def all_steps(claim: LeafClaim, content: dict[str, Any]) -> Iterator[Step]:
    """Everything but the model's distance from the lines is shown here; that is what tasks are for."""
    schema, steps, known = claim.schema, content["steps"], content["controls"]
    dx, du = len(schema.states), len(schema.controls)
    try:
        boxes = None
        if known["kind"] == "box":
            # As many as are listed: without controls there are no numbers to tell it by.
            boxes = [
                np.array(known[end], dtype=np.float64).reshape(len(known[end]), steps, du)
                for end in ("lower", "upper")
            ]
        starts = [
            np.array(content["start"][end], dtype=np.float64).reshape(-1, dx) for end in ("lower", "upper")
        ]
        rows = content["starts"]
        others = (content.get("beside") or {}).get("starts", [None] * len(rows))
        if not len(rows) == len(starts[0]) == len(starts[1]) > 0:
            raise ValueError("as many starts as tubes are needed, and at least one")
        for name, ends in (("start", starts), ("controls", boxes or starts)):
            # Nothing starts in what is empty, and anything could be shown of it.
            if ends[0].shape != ends[1].shape or not (ends[0] <= ends[1]).all():
                raise ValueError(f"the lower ends of the {name} must be at most the upper ones")
        for k, row in enumerate(rows):
            own = None if boxes is None else [end[k if len(end) > 1 else 0] for end in boxes]
            yield from _row_steps(claim, row, k, steps, [end[k] for end in starts], own, others[k])
    except (ValueError, IndexError, KeyError, TypeError) as error:
        raise CertificateError(f"not verified: the file is not {WHAT} ({what.shorten(error)}).") from None


def _row_steps(
    claim: LeafClaim,
    row: dict[str, Any],
    number: int,
    steps: int,
    start: list[Array],
    controls: list[Array] | None,
    other: dict[str, Any] | None,
) -> Iterator[Step]:
    last = steps if row["ended"] is None else row["ended"]
    shape = (last + 1, len(claim.schema.states))
    lower, upper = (np.array(row[end], dtype=np.float64) for end in ("lower", "upper"))
    name = f"start {number}"
    require(last <= steps, f"{name}: it must end before its last step")
    require(lower.shape == upper.shape == shape, f"{name}: a box for each of its steps is needed")
    parts = [[Set.of(one, len(claim.schema.states)) for one in part["sets"]] for part in row["parts"]]
    require(all(len(own) == last + 1 for own in parts), f"{name}: a set for each of its steps is needed")
    _check_start(claim, [own[0] for own in parts], start, name)
    _check_boxes(claim, parts, lower, upper, name, other)
    for part, own in zip(row["parts"], parts, strict=True):
        require(len(part["moves"]) == last, f"{name}: a line for each of its steps is needed")
        for t in range(last):
            place = f"{name}, step {t + 1}"
            applied = None if controls is None else [end[t] for end in controls]
            yield step(claim, part["moves"][t], own[t], own[t + 1], applied, place)


def _check_boxes(
    claim: LeafClaim,
    parts: list[list[Set]],
    lower: Array,
    upper: Array,
    name: str,
    other: dict[str, Any] | None,
) -> None:
    """Boxes hold the sets; or what these share with the boxes of a tube that holds the same rollouts."""
    angles = np.array([state in claim.schema.angles for state in claim.schema.states])
    for t in range(len(lower)):
        hulls = [own[t].hull() for own in parts]
        low, high = np.min([hull[0] for hull in hulls], axis=0), np.max([hull[1] for hull in hulls], axis=0)
        if other is not None and t < len(other["lower"]):
            least, most = (np.array(other[end][t], dtype=np.float64) for end in ("lower", "upper"))
            # An angle is on the same turn in both, if both together reach over less than a turn.
            same = ~angles | (np.maximum(high, most) - np.minimum(low, least) < LESS_THAN_A_TURN)
            low, high = (
                np.where(same, np.maximum(low, least), low),
                np.where(same, np.minimum(high, most), high),
            )
        held = (lower[t] <= low) & (high <= upper[t])
        require(bool(held.all()), f"{name}, step {t}: the box must hold the set")


def _check_start(claim: LeafClaim, first: list[Set], start: list[Array], name: str) -> None:
    """The first sets together hold every start; wrapping may move an angle by its rounding."""
    angles = np.array([state in claim.schema.angles for state in claim.schema.states])
    size = np.maximum(np.abs(start[0]), np.abs(start[1]))
    slack = np.where(angles & (size >= np.pi), 16 * ROUNDOFF * (size + 2 * np.pi), 0.0)
    low, high = add_down(start[0], -slack), add_up(start[1], slack)
    for one in first:
        require(_is_box(one.generators), f"{name}: its first set must be a box")
    middle = np.stack([one.center for one in first])
    half = np.stack([np.abs(one.generators).max(axis=1) for one in first])
    edges = []
    for d in range(len(low)):
        ends = np.concatenate([middle[:, d] - half[:, d], middle[:, d] + half[:, d]])
        # Ends are rounded: with those beside them, one of a few cuts lies where two parts overlap.
        ends = np.concatenate([intervals.down(ends), ends, intervals.up(ends)])
        edges.append(np.unique([low[d], *ends[(ends > low[d]) & (ends < high[d])], high[d]]))
    cells = [list(pairwise(edge)) or [(edge[0], edge[0])] for edge in edges]
    require(np.prod([float(len(cell)) for cell in cells]) <= _MOST_CORNERS, f"{name}: it has too many parts")
    for cell in product(*cells):
        below, above = (np.array(end) for end in zip(*cell, strict=True))
        held = (add_up(middle, -below) <= half) & (add_up(above, -middle) <= half)
        require(bool(np.logical_and.reduce(held, axis=1).any()), f"{name}: its first sets must hold it")


def _is_box(generators: Array) -> bool:
    """Whether there is at most one generator along each axis, and none elsewhere."""
    return bool(((generators != 0).sum(axis=0) <= 1).all() and ((generators != 0).sum(axis=1) <= 1).all())
