"""What is claimed of a model with box bounds: derived again from M, tried at fresh points, and judged."""

from __future__ import annotations

import numpy as np

from tether.boxes import BoxBounds
from tether.constrained import ConstrainedModel
from tether.data import HALF_TURN, Array, Transitions
from tether.errors import CertificateError
from tether.geometry.boxtree import BoxTree
from tether.leaves import middles, needed_remainder
from tether.ranges import target_program
from tether.trusted import TrustedModel

_MOST_POINTS = 200_000
_OF_RANGE = 0.1
"""Share of an output's range above which a delta is of no use."""


def points_in_leaves(tree: BoxTree, per_leaf: int, rng: np.random.Generator) -> Array:
    """(N, D) points inside every leaf, a third of them in corners and on faces."""
    per_leaf = max(1, min(per_leaf, _MOST_POINTS // tree.leaves))
    lower, upper = tree.boxes()
    share = rng.random((tree.leaves * per_leaf, len(tree.lower)))
    edge = rng.random(share.shape) < rng.choice([0.0, 0.0, 0.5], (len(share), 1))
    share = np.where(edge, np.round(share), share)
    low, high = np.repeat(lower, per_leaf, axis=0), np.repeat(upper, per_leaf, axis=0)
    return np.clip(low + share * (high - low), low, high)


def known_share(bounds: BoxBounds) -> float:
    """Share of the box, by volume, over which something is known of every output."""
    lower, upper = bounds.tree.boxes()
    extent = bounds.tree.upper - bounds.tree.lower
    part = np.divide(upper - lower, extent, out=np.ones_like(lower), where=extent > 0).prod(axis=1)
    unknown = ~np.isfinite(bounds.remainder)
    return float(1 - min(1.0, part[unknown].sum()))


def remainder_at(bounds: BoxBounds, inputs: Array) -> Array:
    """(N, P) of those inputs (N, D) that lie in the domain."""
    found = bounds.remainder[bounds.tree.find(inputs)]
    return found[bounds.tree.contains(inputs) & np.isfinite(found).all(axis=1)]


def rederive_boxes(model: ConstrainedModel, trusted: TrustedModel) -> None:
    """Derives every remainder again from M; a model file that claims less than that is refused."""
    bounds, schema = model.bounds, model.schema
    assert bounds.kind == "boxes"
    tree, output = bounds.tree, bounds.output
    try:
        program = target_program(trusted, schema, model.frame.target, tree.lower[None], tree.upper[None])
    except ValueError as error:
        raise CertificateError(f"the claim cannot be derived again: {error}") from None
    lower, upper = tree.boxes()
    middle, _ = middles(lower, upper, bounds.pinned)
    value = bounds.value + (bounds.slope * (middle - bounds.reference)).sum(axis=1)
    rounding = bounds.rounding(schema)
    for k, name in enumerate(schema.outputs):
        rows = np.flatnonzero((output == k) & np.isfinite(bounds.remainder))
        turn = 2 * np.pi * np.round(_apart(trusted, model, middle[rows], value[rows], k) / (2 * np.pi))
        needed = needed_remainder(
            program.only(k), lower[rows], upper[rows], middle=middle[rows], slope=bounds.slope[rows],
            value=value[rows] - turn * schema.output_angles[k],
        )  # fmt: skip
        if schema.output_angles[k]:
            needed = np.where(np.isfinite(needed), np.minimum(needed, HALF_TURN), np.inf)
        short = needed + 0.5 * rounding[rows] > bounds.remainder[rows] * (1 + 1e-9)
        if short.any():
            leaf = int(rows[np.argmax(short)])
            raise CertificateError(
                "the claim must follow from the trusted model again; derived anew, the remainder of output "
                f"'{name}' in leaf {leaf} is larger than the model file says. The file or the trusted model "
                "has changed: fit anew."
            )


def _apart(trusted: TrustedModel, model: ConstrainedModel, middle: Array, value: Array, output: int) -> Array:
    """(K,) how far what a file says of M's angle is from what M's own code returns, turns included."""
    if not model.schema.output_angles[output]:
        return np.zeros(len(middle))
    dx = len(model.schema.states)
    raw = np.asarray(trusted.function(middle[:, :dx], middle[:, dx:]), dtype=np.float64)[:, output]
    base = model.frame.base(middle[:, :dx])[:, output]
    return value - (raw - base)


def concerns(model: ConstrainedModel, trusted: TrustedModel, transitions: Transitions) -> tuple[str, ...]:
    """Why nobody could use the claim, judged on held-out rows, in sentences."""
    bounds, schema = model.bounds, model.schema
    assert bounds.kind == "boxes"
    limits = model.limits(transitions.inputs)
    answers = trusted(transitions.states, transitions.controls, schema)
    residual = np.sqrt((schema.distance(transitions.next_states, answers) ** 2).mean(axis=0))
    if not limits.in_domain.any():
        return ("no held-out row lies in the domain",)
    beyond = np.quantile(remainder_at(bounds, transitions.inputs), 0.99, axis=0)
    typical = np.median(limits.delta[limits.in_domain], axis=0)
    span = np.where(schema.output_angles, 2 * np.pi, np.ptp(transitions.next_states, axis=0))
    said = []
    for k, name in enumerate(schema.outputs):
        if residual[k] > 0 and beyond[k] > residual[k] and beyond[k] > 1e-6 * span[k]:
            said.append(
                f"output '{name}': at a hundredth of held-out rows M is known to {beyond[k]:.3g}, less well "
                f"than it fits the data ({residual[k]:.3g}). More leaves or a smaller domain would help"
            )
        if typical[k] > _OF_RANGE * span[k]:
            said.append(
                f"output '{name}': the delta of {typical[k]:.3g} at the median held-out row is more than a "
                f"tenth of its range ({span[k]:.3g}). A better M, or `delta=`, would help"
            )
    return tuple(said)
