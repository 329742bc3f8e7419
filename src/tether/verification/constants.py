"""Evidence `lipschitz`: the claim of every cell, worked out again from the constants given for M."""

from __future__ import annotations

from typing import Any

import numpy as np
from flint import arb

from tether.data import Array
from tether.errors import CertificateError
from tether.trusted import TrustedModel
from tether.verification.claim import Claim
from tether.verification.elementary import precision
from tether.verification.evaluation import values_at
from tether.verification.roundings import REMAINDER_ROUNDINGS, affine_rounding, interval_rounding


def constants_shortfall(claim: Claim, trusted: TrustedModel) -> str | None:
    """What does not follow from the constants, in words; None where all does."""
    values = values_at(claim, trusted, claim.centers)
    with precision():
        if claim.kind == "interval":
            rates = _rates(claim, trusted)
            reach = claim.reach
            checks = (_interval(claim, k, values[k], rates, float(reach[k])) for k in range(len(claim)))
        else:
            given = _given_jacobian(claim, trusted)
            bend = _per_output(claim, "jacobian_lipschitz", trusted.jacobian_lipschitz)[:, 0]
            rounding = affine_rounding(claim, np.arange(len(claim)), 0.0)  # of all at once: it looks at all
            checks = (_affine(claim, k, values[k], given[k], bend, rounding[k]) for k in range(len(claim)))
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


def _interval(claim: Claim, cell: int, values: Array, rates: list[Any], reach: float) -> str | None:
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


def _affine(claim: Claim, cell: int, values: Array, given: Array, bend: Array, rounding: Array) -> str | None:
    """By Taylor's theorem: the remainder is at most half the bend times the distance squared."""
    scale = claim.cells("scale")
    widest = arb(float(scale.max()))
    off = claim.bounds("jacobian")[cell] - given
    for output in range(len(claim.schema.outputs)):
        center = arb(float(claim.bounds("center")[cell, output]))
        gap = abs(_near(claim, output, values[output], center) - center) + arb(float(rounding[output]))
        offset = arb(float(claim.bounds("offset")[cell, output]))
        tilt = sum((arb(float(v)) ** 2 for v in off[output] * scale), arb(0)).sqrt()
        if not gap <= offset:
            return _too_small(claim, cell, output, "the offset", offset, gap)
        for shell, radius in enumerate(claim.bounds("radii")[cell].tolist()):
            slope = arb(float(claim.bounds("slopes")[cell, shell, output]))
            needed = arb(float(bend[output])) * widest**2 * radius / 2 + tilt * (1 + 2**-40)
            needed += slope * REMAINDER_ROUNDINGS
            # What a slope lacks by roundings may be made up for by the offset.
            if not gap + (needed - slope).max(arb(0)) * radius <= offset:
                return _too_small(claim, cell, output, f"the slope of shell {shell}", slope, needed)
    return None


def _near(claim: Claim, output: int, value: float, center: Any) -> Any:
    """M's value, an angle in whole turns near the stated center."""
    if not claim.schema.output_angles[output]:
        return arb(float(value))
    return arb(float(value)) + 2 * arb.pi() * round((float(center) - float(value)) / (2 * np.pi))


def _too_small(claim: Claim, cell: int, output: int, what: str, stated: Any, needed: Any) -> str:
    numbers = f"{what} is {float(stated):.6g}, not the {float(needed.upper()):.6g} needed"
    return f"cell {cell}: {claim.output(output)}: {numbers}"


def _given_jacobian(claim: Claim, trusted: TrustedModel) -> Array:
    if trusted.jacobian is None:
        raise CertificateError("not verified: the trusted model has no `jacobian`, on which the claim rests.")
    dx, centers = len(claim.schema.states), claim.centers
    given = np.array(trusted.jacobian(centers[:, :dx], centers[:, dx:]), dtype=np.float64)
    if given.shape != claim.bounds("jacobian").shape or not np.isfinite(given).all():
        raise CertificateError("not verified: `jacobian` must return finite numbers of shape (N, P, D).")
    if claim.target == "increment":
        for output, state in enumerate(claim.schema.advances):
            if state >= 0:
                given[:, output, state] -= 1.0
    return given
