"""Evidence `lipschitz`: the claim of every cell or leaf, worked out again from the constants given for M.

Over a leaf, by Taylor's theorem, M is within ``H/2 |s - m|^2`` of ``M(m) + M'(m) (s - m)``, with H the
constant of its Jacobian and m any point of the leaf; A differs from that by ``|M(m) - A(m)|`` and by what its
slope is off times the way from m. That is shown with outward rounding; that the constants and the Jacobian
given are M's is assumed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from flint import arb
from numpy.typing import NDArray

from tether.data import Array
from tether.foundation.errors import CertificateError
from tether.trusted import TrustedModel
from tether.verification.cellclaims import CellClaim
from tether.verification.claim import HALF_TURN, Claim
from tether.verification.elementary import precision
from tether.verification.evaluation import values_at
from tether.verification.intervals import add_up, multiply_up
from tether.verification.leafclaims import LeafClaim
from tether.verification.leaves import gap_at, model_at
from tether.verification.roundings import interval_rounding, leaf_rounding

_LEAVES = 4096
"""Leaves in one go."""


def leaves_shortfall(claim: LeafClaim, trusted: TrustedModel) -> str | None:
    """What does not follow from the constant of M's Jacobian, in words; None where all does."""
    bend = _bend(claim, trusted)
    known = np.flatnonzero(claim.claimed)
    parts = (known[k : k + _LEAVES] for k in range(0, len(known), _LEAVES))
    return next((said for part in parts if (said := _leaves(claim, trusted, part, bend))), None)


def cells_shortfall(claim: CellClaim, trusted: TrustedModel) -> str | None:
    """What does not follow from the constant of M, in words; None where all does."""
    values = values_at(claim, trusted, claim.centers)
    with precision():
        rates, reach = _rates(claim, trusted), claim.reach
        checks = (_interval(claim, k, values[k], rates, float(reach[k])) for k in range(len(claim)))
        return next((reason for reason in checks if reason is not None), None)


def _per_output(claim: Claim, name: str, given: Any) -> Array:
    outputs, inputs = len(claim.schema.outputs), len(claim.schema.inputs)
    if given is None:
        raise CertificateError(f"not verified: the trusted model has no `{name}`, on which the claim rests.")
    constants = np.asarray(given, dtype=np.float64)
    if constants.ndim < 2:
        constants = np.broadcast_to(constants, (outputs,))[:, None]
    if constants.shape not in ((outputs, 1), (outputs, inputs)) or not (constants >= 0).all():
        raise CertificateError(f"not verified: `{name}` must be numbers >= 0, one or more per output.")
    return constants


def _bend(claim: Claim, trusted: TrustedModel) -> Array:
    """(P,) how fast M's Jacobian can change, by the Euclidean length of the way."""
    constants = _per_output(claim, "jacobian_lipschitz", trusted.jacobian_lipschitz)
    if constants.shape[1] != 1:
        raise CertificateError("not verified: `jacobian_lipschitz` must be a number, or one per output.")
    return constants[:, 0]


def _rates(claim: Claim, trusted: TrustedModel) -> list[Any]:
    """Per output, how much M's target can change per unit of scaled distance.

    With a constant for each input, ``sum_d L_d scale_d |z_d|`` is at most the length of ``L scale`` times
    that of z; with one for the Euclidean length, that length is at most the largest scale times that of z.
    """
    increments = claim.target == "increment"
    if increments and trusted.increment_lipschitz is not None:
        constants = _per_output(claim, "increment_lipschitz", trusted.increment_lipschitz)
    else:
        constants = _per_output(claim, "lipschitz", trusted.lipschitz).copy()
        for output, state in enumerate(claim.schema.advances):
            if increments and state >= 0:
                constants[output, state if constants.shape[1] > 1 else 0] += 1.0
    scale = [arb(value) for value in claim.cells("scale").tolist()]
    if constants.shape[1] == 1 and len(scale) > 1:
        return [arb(float(row[0])) * max(claim.cells("scale").tolist()) for row in constants]
    return [
        sum(((arb(v) * s) ** 2 for v, s in zip(row, scale, strict=True)), arb(0)).sqrt()
        for row in constants.tolist()
    ]


def _interval(claim: CellClaim, cell: int, values: Array, rates: list[Any], reach: float) -> str | None:
    index = np.array([cell])
    for output in range(len(claim.schema.outputs)):
        lower, upper, delta, center = (
            arb(float(claim.bounds(key)[cell, output])) for key in ("lower", "upper", "delta", "center")
        )
        value = _near(claim, output, values[output], center)
        if not abs(value - center) <= 1e-9 * (abs(center) + delta) + 1e-300:
            return f"cell {cell}: {claim.output(output)}: M at the memory is not the stated center"
        change = rates[output] * arb(reach)
        largest = np.full((1, len(claim.schema.outputs)), float((abs(value) + change).upper()))
        rounding = float(interval_rounding(claim, index, largest)[0, output])
        needed = (upper - value + change).max(value + change - lower) + arb(rounding)
        if not needed <= delta:
            return _too_small(claim, cell, output, "delta", delta, needed)
    return None


def _leaves(claim: LeafClaim, trusted: TrustedModel, leaf: NDArray[np.int64], bend: Array) -> str | None:
    """Why some of these leaves are not shown; None: all are."""
    low, high, output = claim.trees.lower[leaf], claim.trees.upper[leaf], claim.trees.owner[leaf]
    point, rows = claim.followed_from(low, high), np.arange(len(leaf))
    values = values_at(claim, trusted, point)[rows, output]
    given, slope = _given_jacobian(claim, trusted, point)[rows, output], claim.bounds("slope")[leaf]
    with np.errstate(all="ignore"):
        total = gap_at(claim, output, (values, values), model_at(claim, leaf, point))[1]
        reach = np.maximum(add_up(high, -point), add_up(point, -low))
        for d in range(reach.shape[1]):
            tilt = np.maximum(add_up(slope[:, d], -given[:, d]), add_up(given[:, d], -slope[:, d]))
            curve = multiply_up(multiply_up(0.5 * bend[output], reach[:, d]), reach[:, d])
            total = add_up(add_up(total, multiply_up(tilt, reach[:, d])), curve)
        needed = add_up(total, leaf_rounding(claim, leaf, low, high))
    stated = claim.bounds("remainder")[leaf]
    # No two angles are farther apart than half a turn.
    shown = (needed <= stated) | (claim.schema.output_angles[output] & (stated >= HALF_TURN))
    if shown.all():
        return None
    row = int(np.argmin(shown))
    numbers = f"the remainder is {stated[row]:.6g}, not the {needed[row]:.6g} needed"
    return f"leaf {leaf[row]}: {claim.output(int(output[row]))}: {numbers}"


def _near(claim: Claim, output: int, value: float, center: Any) -> Any:
    """M's value, an angle in whole turns near the stated center."""
    if not claim.schema.output_angles[output]:
        return arb(float(value))
    return arb(float(value)) + 2 * arb.pi() * round((float(center) - float(value)) / (2 * np.pi))


def _too_small(claim: Claim, cell: int, output: int, what: str, stated: Any, needed: Any) -> str:
    numbers = f"{what} is {float(stated):.6g}, not the {float(needed.upper()):.6g} needed"
    return f"cell {cell}: {claim.output(output)}: {numbers}"


def _given_jacobian(claim: Claim, trusted: TrustedModel, points: Array) -> Array:
    """(N, P, D) the derivative of M's target at points (N, D), as the user gives it."""
    if trusted.jacobian is None:
        raise CertificateError("not verified: the trusted model has no `jacobian`, on which the claim rests.")
    dx, shape = len(claim.schema.states), (len(points), len(claim.schema.outputs), points.shape[1])
    given = np.array(trusted.jacobian(points[:, :dx], points[:, dx:]), dtype=np.float64)
    if given.shape != shape or not np.isfinite(given).all():
        raise CertificateError("not verified: `jacobian` must return finite numbers of shape (N, P, D).")
    if claim.target == "increment":
        for output, state in enumerate(claim.schema.advances):
            if state >= 0:
                given[:, output, state] -= 1.0
    return given
