"""What the float64 arithmetic of a model can be off by, in the numbers of its claim."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tether.data import Array
from tether.verification.claim import ROUNDOFF, Claim

REMAINDER_ROUNDINGS = 8 * ROUNDOFF
"""What a remainder, slope times distance plus offset, is off by as computed, as a share of itself."""
_MORE = 1 + 1e-9  # for the roundings of the sums below, all of positive numbers


def affine_rounding(claim: Claim, cells: NDArray[np.int64], proved: Array | float) -> Array:
    """(n, P) roundings that an offset must cover: of A, of the limits and delta, of the base, and of M.

    A(s) takes D differences, D products and a sum of D + 1 numbers; the limits and the base one sum each;
    delta four operations. With u the roundoff this is (D + 4) u of the size of A, 7 u of the half-width and
    one of the base (and of the remainder, which slopes must cover: :data:`REMAINDER_ROUNDINGS`); M is off by
    what is proved of it, and 4 u of what it returns and of a few turns where it is made an increment or an
    angle is unwrapped.
    A blend of B cells: weights sum to one up to (B + 2) u, and averaging errs by as much again, of the
    largest numbers of any cell, because any may take part beside any other.

    Args:
        claim: the claim.
        cells: (n,) which cells.
        proved: (n, P) a bound on M's own error over each cell; 0 where the claim is about what M returns.
    """
    scale, inputs = claim.cells("scale"), len(claim.schema.inputs)
    radius, jacobian = claim.bounds("radii")[:, -1:], np.abs(claim.bounds("jacobian"))
    size = np.abs(claim.bounds("center")) + (jacobian @ scale) * radius
    remainder, width = claim.bounds("slopes")[:, -1] * radius, claim.bounds("half_width")
    turns = 2 * np.pi * claim.schema.output_angles
    roundings = (inputs + 4) * size + 7 * width + claim.base
    if claim.blended:
        largest = (size + width + remainder + claim.bounds("offset")).max(axis=0)
        roundings = roundings + (2 * claim.blended + 24) * (largest + turns)
    roundings = roundings + 4 * (size + claim.base) + 8 * turns
    return (roundings[cells] * ROUNDOFF + proved) * _MORE


def leaf_rounding(claim: Claim, leaf: NDArray[np.int64], low: Array, high: Array) -> Array:
    """(B,) roundings that a remainder must cover over boxes (B, D) of leaves (B,), beside M's own.

    As :func:`affine_rounding` counts them, from the reference of A and with the largest half-width; delta
    takes one sum more, two roundings of the remainder.
    """
    inputs, output = len(claim.schema.inputs), claim.trees.owner[leaf]
    reference, slope = claim.bounds("reference"), np.abs(claim.bounds("slope")[leaf])
    reach = np.maximum(np.abs(low - reference), np.abs(high - reference))
    size = np.abs(claim.bounds("value")[leaf]) + (slope * reach).sum(axis=1)
    width, base = claim.bounds("half_width").max(axis=0)[output], claim.base[output]
    turns = 2 * np.pi * claim.schema.output_angles[output]
    roundings = (inputs + 8) * size + 7 * width + 5 * base + 8 * turns + 2 * claim.bounds("remainder")[leaf]
    faint = 5e-324 * (inputs + 8) * (size > 0)  # what may underflow
    return roundings * ROUNDOFF * _MORE + faint


def interval_rounding(claim: Claim, cells: NDArray[np.int64], largest: Array) -> Array:
    """(n, P) roundings that an interval's delta must cover beside M's own: of the base; the limits have none.

    Args:
        claim: the claim.
        cells: (n,) which cells.
        largest: (n, P) the largest value M returns over each, two roundings of which are for its unwrapping.
    """
    ends = claim.bounds("lower")[cells], claim.bounds("upper")[cells]
    size = np.maximum(np.abs(ends[0]), np.abs(ends[1])) + claim.base
    turns = 2 * np.pi * claim.schema.output_angles
    return (5 * size + 8 * turns + 2 * largest) * ROUNDOFF * _MORE
