"""What the float64 arithmetic of a model can be off by, in the numbers of its claim."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tether.data import Array
from tether.verification.cellclaims import CellClaim
from tether.verification.claim import ROUNDOFF
from tether.verification.leafclaims import LeafClaim

_MORE = 1 + 1e-9  # for the roundings of the sums below, all of positive numbers


def leaf_rounding(claim: LeafClaim, leaf: NDArray[np.int64], low: Array, high: Array) -> Array:
    """(B,) roundings that a remainder must cover over boxes (B, D) of leaves (B,), beside M's own.

    A(s) takes D differences, D products and a sum of D + 1 numbers; the limits and the base one sum each;
    delta some operations. With u the roundoff this is (D + 4) u of the size of A, 7 u of the largest
    half-width, two of the remainder and one of the base; and 4 u of what M returns and of a few turns, where
    it is made an increment or an angle is unwrapped.

    Of second order A takes Q terms more, of two differences and two products each, and one sum: with u of
    each, (Q + 6) u of theirs and one u of the others.
    """
    inputs, output = len(claim.schema.inputs), claim.trees.owner[leaf]
    reference, slope = claim.bounds("reference"), np.abs(claim.bounds("slope")[leaf])
    reach = np.maximum(np.abs(low - reference), np.abs(high - reference))
    size = np.abs(claim.bounds("value")[leaf]) + (slope * reach).sum(axis=1)
    terms, far = inputs + 8, np.zeros(len(leaf))
    if claim.pairs:
        terms += len(claim.pairs) + 2
        ways = np.maximum(np.abs(low - claim.centre[leaf]), np.abs(high - claim.centre[leaf]))
        for number, (one, two) in enumerate(claim.pairs):
            size = size + np.abs(claim.curvature[leaf, number]) * ways[:, one] * ways[:, two]
        far = len(claim.pairs) * (2 + ways.max(axis=1)) * claim.curved[leaf]
    width, base = claim.bounds("half_width").max(axis=0)[output], claim.base[output]
    turns = 2 * np.pi * claim.schema.output_angles[output]
    roundings = terms * size + 7 * width + 5 * base + 8 * turns + 2 * claim.bounds("remainder")[leaf]
    faint = 5e-324 * (terms + np.ceil(far)) * ((size > 0) | (far > 0))  # what may underflow
    return roundings * ROUNDOFF * _MORE + faint


def interval_rounding(claim: CellClaim, cells: NDArray[np.int64], largest: Array) -> Array:
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
