"""What must be shown of one step, beside the model and its rules.

Of every step the file says the set it starts from, a zonotope, the line ``L(s) = value + slope (s -
point)`` that it goes by, and the set that it comes to: some of the generators moved by the line, and a box.
Here it is seen that the set lies in the operating box, and how much of the next set's box is left beside
``base(s) + L(s)`` and roundings. That the model, the policy and the rule stay within what is left are tasks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tether.foundation import documents as what
from tether.foundation.errors import CertificateError
from tether.verification import intervals
from tether.verification.claim import ROUNDOFF
from tether.verification.intervals import Array, Interval, add_down, add_up
from tether.verification.leafclaims import LeafClaim
from tether.verification.leaves import swing_of
from tether.verification.tubes.distances import Task
from tether.verification.tubes.document import require
from tether.verification.tubes.sets import Image, Line, Set, left_of

FREE = float(np.finfo(np.float64).max)
"""Stands for no limit in a file."""


class Step(NamedTuple):
    """What must be shown of a step: of the model, of the policy, of the rule that states follow.

    Attributes:
        limits: (du,) ends between which the policy must keep.
    """

    model: Task
    policy: Task | None
    carried: Task | None
    limits: Interval | None = None


def step(
    claim: LeafClaim, move: dict[str, Any], before: Set, after: Set, controls: list[Array] | None, place: str
) -> Step:
    """Shows all of a step but its tasks.

    Args:
        claim: of the model file.
        move: what the file says of the step.
        before: the set that it starts from.
        after: the set that it comes to.
        controls: (du,) lower and upper ends; None for a policy.
        place: which step, for a message.
    """
    schema = claim.schema
    inputs, outputs = len(schema.inputs), len(schema.outputs)
    if controls is None:
        own, policy = _with_policy(claim, move["feedback"], before, place)
        limits = _limits(claim, move["feedback"])
        hull = _limited(own.hull(), limits, len(schema.states), place)
    else:
        own, policy, limits = _with_boxes(claim, before, controls), None, None
        hull = own.hull()
    _check_inside(claim, hull, place)
    line = Line.of(move, "slope", outputs, schema.input_angles, place)
    image = line.image(own)
    if claim.target == "increment":
        at = schema.advanced
        image = image.plus((own.center[at], own.center[at]), (own.generators[at], own.generators[at]))
    else:
        home = tuple(np.where(schema.output_angles, end[schema.advanced], 0.0) for end in line.turned)
        still = np.zeros((outputs, own.generators.shape[1]))
        image = image.plus((home[0], home[1]), (still, still))
    kept, wrapping = np.array(move["kept"], dtype=np.int64), _wrapping(claim)
    known = (place, *hull, line.point, line.turns, line.value, line.slope)
    if schema.rolls_out:
        left = left_of(image, after, kept, schema.advanced, place)
        return Step(Task(*known, add_down(left, -wrapping)), policy, None, limits)
    box = np.array(move["carried"]["box"], dtype=np.float64).reshape(outputs)
    require(bool((box >= 0).all() and np.isfinite(box).all()), f"{place}: what is predicted must be in a box")
    image = image.with_box(box)
    wide = np.concatenate([own.generators, np.zeros((inputs, outputs))], axis=1)
    together = Image((own.center, own.center), (wide, wide)).beside(image)
    rule = Line.of(
        move["carried"],
        "gain",
        len(schema.states) - outputs,
        np.append(schema.input_angles, schema.output_angles),
        place,
    )
    carried = rule.of_image(together)
    to = np.concatenate([schema.advanced, carried_states(schema)])
    left = left_of(image.beside(carried), after, kept, to, place)
    require(bool((left[:outputs] >= 0).all()), f"{place}: the set must hold what is predicted")
    low, high = together.hull()
    # What the rule gives is in the next set, whose box may reach beyond ±π where the line does not.
    others = carried_states(schema)
    lost = _turning(schema.input_angles[others], tuple(end[others] for end in after.hull()))
    rest = Task(
        place, low, high, rule.point, rule.turns, rule.value, rule.slope, add_down(left[outputs:], -lost)
    )
    return Step(Task(*known, add_down(box, -wrapping)), policy, rest, limits)


def _with_boxes(claim: LeafClaim, before: Set, controls: list[Array]) -> Set:
    """Inputs: states of a set, and controls anywhere between their ends."""
    dx, inputs = len(claim.schema.states), len(claim.schema.inputs)
    low, high = controls
    middle = np.clip(0.5 * low + 0.5 * high, low, high)
    half = np.where(low == high, 0.0, np.maximum(intervals.up(high - middle), intervals.up(middle - low)))
    # What the model loses where it brings a control that is an angle back to [-π, π).
    half = add_up(half, _turning(claim.schema.input_angles[dx:], (low, high)))
    moved = np.zeros((inputs, before.generators.shape[1] + len(middle)))
    moved[:dx, : before.generators.shape[1]] = before.generators
    moved[dx:, before.generators.shape[1] :] = np.diag(half)
    return Set(np.concatenate([before.center, middle]), moved)


def _with_policy(claim: LeafClaim, stated: dict[str, Any], before: Set, place: str) -> tuple[Set, Task]:
    """Inputs: states of a set, and controls tied to them as the file says; and what the policy must keep."""
    dx, du, angles = len(claim.schema.states), len(claim.schema.controls), claim.schema.input_angles
    line = Line.of(stated, "gain", du, angles[:dx], place)
    follow = Set.of(stated, du)
    columns = before.generators.shape[1]
    left = left_of(line.image(before), follow, np.arange(columns), np.arange(du), place)
    moved = np.concatenate([before.generators, np.zeros((dx, du))], axis=1)
    own = Set(np.concatenate([before.center, follow.center]), np.concatenate([moved, follow.generators]))
    low, high = before.hull()
    left = add_down(left, -_turning(angles[dx:], follow.hull()))
    return own, Task(place, low, high, line.point, line.turns, line.value, line.slope, left)


def _limits(claim: LeafClaim, stated: dict[str, Any]) -> Interval:
    """(du,) between what the file says a policy stays; nowhere said of angles, which the model wraps."""
    angles = claim.schema.input_angles[len(claim.schema.states) :]
    free = np.full(len(angles), np.inf)
    if "lower" not in stated:
        return -free, free
    low, high = (np.array(stated[end], dtype=np.float64).reshape(len(angles)) for end in ("lower", "upper"))
    return np.where(angles | (low <= -FREE), -np.inf, low), np.where(angles | (high >= FREE), np.inf, high)


def _limited(hull: Interval, limits: Interval, states: int, place: str) -> Interval:
    """A box of inputs, of which controls keep to limits."""
    low, high = hull[0].copy(), hull[1].copy()
    low[states:], high[states:] = np.maximum(low[states:], limits[0]), np.minimum(high[states:], limits[1])
    require(bool((low <= high).all()), f"{place}: there must be controls within their limits")
    return low, high


def _turning(angles: NDArray[np.bool_], ends: Interval) -> Array:
    """What a model loses where it brings angles back to [-π, π); nothing where they are there."""
    size = np.maximum(np.abs(ends[0]), np.abs(ends[1]))
    return np.where(angles & (size >= np.pi), 4 * ROUNDOFF * (size + 2 * np.pi), 0.0)


def carried_states(schema: Any) -> NDArray[np.int64]:
    """The states that are not predicted."""
    return np.setdiff1d(np.arange(len(schema.states)), schema.advanced)


def _check_inside(claim: LeafClaim, hull: Interval, place: str) -> None:
    least, most = claim.box
    circle = claim.schema.input_angles & (least <= -np.pi) & (most >= np.nextafter(np.pi, 0.0))
    seen = ~claim.schema.input_angles | (hull[1] < np.pi)  # what is at π itself is seen at -π
    inside = ((hull[0] >= least) & (hull[1] <= most) & seen) | circle
    if not inside.all():
        name = what.shown(claim.schema.inputs[int(np.argmin(inside))])
        raise CertificateError(f"not verified: {place}: input {name} may leave the operating box.")


def _wrapping(claim: LeafClaim) -> Array:
    """(P,) what bringing a predicted angle back to [-π, π) can lose: k turns of 2π in float64.

    With a the prediction and u the roundoff: 2π is off by 0.4 u of it, the product and the difference by u of
    theirs, and where the result is not below π it is made -π, within as much: 16 u (|a| + 2π) in all, and
    more.
    """
    output, claimed = claim.trees.owner, claim.claimed
    reach = np.maximum(*(np.abs(end - claim.bounds("reference")) for end in claim.box))
    size = np.abs(claim.bounds("value")) + np.abs(claim.bounds("slope")) @ reach + swing_of(claim)
    most = np.zeros(len(claim.schema.outputs))
    np.maximum.at(most, output[claimed], size[claimed])
    most = (most + claim.bounds("half_width").max(axis=0) + 2 * np.pi) * (1 + 1e-9)
    return np.where(claim.schema.output_angles, 16 * ROUNDOFF * (most + 2 * np.pi), 0.0)
