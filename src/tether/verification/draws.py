"""Evidence `statistical`: fresh draws from the stated distribution, and whether they refute the claim.

The distribution: a memory drawn uniformly, a point uniform in its coverage ball, moved into the domain box,
drawn again if it is outside the domain. At each draw the farthest that an output in its limits can be from M
is compared with the delta claimed there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tether.data import Array
from tether.errors import CertificateError
from tether.progress import Report
from tether.trusted import TrustedModel
from tether.verification.claim import HALF_TURN, Claim
from tether.verification.evaluation import circular, values_at

_BATCH = 1 << 13
_PINNED_REACH, _RIM = 0.05, 0.1  # as the format has them: where a pinned tether opens, where a blend ends
_INCREDIBLE = 1e-6
_LEAST_EPSILON = 1e-6


@dataclass(frozen=True, eq=False)
class _Limits:
    """What the model allows at inputs, and what it claims there; (N, P) each."""

    lower: Array
    upper: Array
    delta: Array


@dataclass(frozen=True)
class Draws:
    """What the draws showed: how many there were, and at how many of them delta was exceeded."""

    count: int
    exceeded: int


def draw(claim: Claim, trusted: TrustedModel, seed: int, progress: Report | None) -> Draws:
    """As many draws as tell a share of ε from a few times that."""
    epsilon, beta = claim.epsilon, claim.beta
    if not (isinstance(epsilon, float) and isinstance(beta, float) and 0 < epsilon < 1 and 0 < beta < 1):
        raise CertificateError(f"not verified: ε and β must lie between 0 and 1; got {epsilon} and {beta}.")
    if epsilon < _LEAST_EPSILON:
        raise CertificateError(
            f"not verified: ε is {epsilon:g}, which would take {40 / epsilon:.2g} draws to test; at least "
            f"{_LEAST_EPSILON:g} is tested."
        )
    total = math.ceil(40 / epsilon)
    rng = np.random.Generator(np.random.PCG64DXSM([seed, 0x5EED]))
    done = exceeded = rounds = 0
    while done < total:
        inputs = _drawn(claim, rng)
        squared = _squared_distances(claim, inputs)
        cell = squared.argmin(axis=1)
        inside = squared[np.arange(len(cell)), cell] <= claim.cells("radii")[cell] ** 2
        inside &= ((inputs >= claim.cells("box_lower")) & (inputs <= claim.cells("box_upper"))).all(axis=1)
        rows = np.flatnonzero(inside)[: total - done]
        rounds += 1
        if rounds > 1000 and done * 1000 < rounds:
            raise CertificateError("not verified: hardly any draw from the distribution is in the domain.")
        if not len(rows):
            continue
        limits = _limits(claim, inputs[rows], squared[rows])
        values = values_at(claim, trusted, inputs[rows])
        ends = [circular(claim, values - end) for end in (limits.lower, limits.upper)]
        farthest = np.maximum(*ends)
        # An interval of a turn or more around M's opposite holds that opposite.
        wide = claim.schema.output_angles & (limits.upper - limits.lower >= 2 * np.pi)
        farthest = np.where(wide | _holds_opposite(claim, values, limits), np.pi, farthest)
        exceeded += int((farthest > limits.delta).any(axis=1).sum())
        done += len(rows)
        if progress is not None:
            progress(done, total)
    return Draws(done, exceeded)


def refuted(draws: Draws, epsilon: float) -> bool:
    """Whether so many exceedances are incredible (one in a million) if a share of at most ε exceeds."""
    log_odds = math.log(epsilon) - math.log1p(-epsilon)
    log_mass = draws.count * math.log1p(-epsilon)
    below = 0.0
    for k in range(draws.exceeded):
        below += math.exp(log_mass)
        log_mass += math.log((draws.count - k) / (k + 1)) + log_odds
    return 1.0 - below < _INCREDIBLE


def _holds_opposite(claim: Claim, values: Array, limits: _Limits) -> NDArray[np.bool_]:
    """(N, P) whether an angle's limits hold the one opposite to M, which is farther than either limit."""
    opposite = values + np.pi
    first = opposite + 2 * np.pi * np.ceil((limits.lower - opposite) / (2 * np.pi))
    return claim.schema.output_angles & (first <= limits.upper)


def _drawn(claim: Claim, rng: np.random.Generator) -> Array:
    memories = claim.cells("memories")
    cell = rng.integers(0, len(memories), _BATCH)
    # The first D coordinates of a uniform point of the sphere in D + 2 dimensions are uniform in the ball.
    sphere = rng.standard_normal((_BATCH, memories.shape[1] + 2))
    ball = sphere[:, :-2] / np.sqrt((sphere**2).sum(axis=1, keepdims=True))
    inputs = (memories[cell] + claim.cells("radii")[cell, None] * ball) * claim.cells("scale")
    inputs = np.minimum(np.maximum(inputs, claim.cells("box_lower")), claim.cells("box_upper"))
    angles = claim.schema.input_angles
    outside = angles & ((inputs < -np.pi) | (inputs >= np.pi))
    wrapped = (inputs + np.pi) % (2 * np.pi) - np.pi
    return np.where(outside, wrapped, inputs)


def _squared_distances(claim: Claim, inputs: Array) -> Array:
    """(N, K), summed input by input as the model does."""
    scaled, memories = inputs / claim.cells("scale"), claim.cells("memories")
    total = np.zeros((len(inputs), len(memories)))
    for column in range(memories.shape[1]):
        total += (scaled[:, column, None] - memories[:, column]) ** 2
    return total


def _limits(claim: Claim, inputs: Array, squared: Array) -> _Limits:
    nearest = squared.argmin(axis=1)
    if claim.kind == "interval":
        return _Limits(*(claim.bounds(name)[nearest] for name in ("lower", "upper", "delta")))
    count = claim.blended
    if not count:
        cell, weight = nearest[:, None], np.ones((len(inputs), 1))
    else:
        cell, weight = _blend(claim, squared, count)
    distance = np.sqrt(np.take_along_axis(squared, cell, axis=1))
    anchors, widths, remainders = _of_cells(claim, inputs, cell, distance)
    angles, apart = claim.schema.output_angles, np.zeros(anchors[:, 0].shape, dtype=bool)
    if count and angles.any():
        anchors = np.where(angles, _one_turn(anchors, weight), anchors)
        apart = ((remainders >= 0.5 * np.pi) & (weight > 0)[:, :, None]).any(axis=1)
    anchor, width, remainder = (
        (weight[:, :, None] * part).sum(axis=1) for part in (anchors, widths, remainders)
    )
    width = width * _opening(claim, inputs)[:, None]
    # An average of rounded numbers: claimed with some roundings more.
    remainder = remainder + 32 * np.finfo(np.float64).eps * (np.abs(anchor) + width) * (count >= 2)
    delta = width + remainder
    circle = np.where(apart, HALF_TURN, np.minimum(delta, HALF_TURN))
    return _Limits(anchor - width, anchor + width, np.where(angles, circle, delta))


def _one_turn(anchors: Array, weight: Array) -> Array:
    """Angles (N, B, P), moved by whole turns to be nearest to the first with a weight (N, B)."""
    first = (weight > 0).argmax(axis=1)
    reference = anchors[np.arange(len(anchors)), first][:, None]
    return anchors - 2 * np.pi * np.round((anchors - reference) / (2 * np.pi))


def _of_cells(
    claim: Claim, inputs: Array, cell: NDArray[np.int64], distance: Array
) -> tuple[Array, Array, Array]:
    """A, half-width and remainder (N, B, P) by each of the cells (N, B) at those distances."""
    radii = claim.bounds("radii")
    distance = distance + (radii[:, -1] - claim.cells("radii"))[cell]
    shell = np.minimum((radii[cell] < distance[:, :, None]).sum(axis=2), radii.shape[1] - 1)
    remainder = claim.bounds("slopes")[cell, shell] * distance[:, :, None] + claim.bounds("offset")[cell]
    away = inputs[:, None] - claim.centers[cell]
    anchor = claim.bounds("center")[cell] + np.einsum("nbpd,nbd->nbp", claim.bounds("jacobian")[cell], away)
    return anchor, claim.bounds("half_width")[cell], remainder


def _blend(claim: Claim, squared: Array, count: int) -> tuple[NDArray[np.int64], Array]:
    """The nearest cells (N, B) and their weights, zero at rims and at the first one left out."""
    cell = np.argsort(squared, axis=1, kind="stable")[:, : count + 1]
    near = np.take_along_axis(squared, cell, axis=1)
    cell, last, span = cell[:, :count], near[:, -1:], near[:, -1:] - near[:, :1]
    closeness = np.where(span > 0, (last - near[:, :count]) / np.where(span > 0, span, 1.0), 1.0)
    radii = claim.cells("radii")[cell]
    weight = closeness * np.clip((radii - np.sqrt(near[:, :count])) / (_RIM * radii), 0.0, 1.0)
    total = weight.sum(axis=1)
    weight[total <= 0, 0] = 1.0  # no ball holds the input with weight: the nearest answers alone
    return cell, weight / weight.sum(axis=1, keepdims=True)


def _opening(claim: Claim, inputs: Array) -> Array:
    """(N,) share of the half-width that is open: none where all probes agree on the inputs."""
    pinned = claim.arrays.get("bounds.pinned")
    if pinned is None or np.isnan(pinned).all():
        return np.ones(len(inputs))
    columns = ~np.isnan(pinned)
    away = np.abs(inputs[:, columns] - pinned[columns]) / claim.cells("scale")[columns]
    return np.minimum(away.max(axis=1) / _PINNED_REACH, 1.0) ** 2
