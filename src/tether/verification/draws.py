"""Evidence `statistical`: fresh draws from the stated distribution, and whether they refute the claim.

The distribution: a memory drawn uniformly, a point uniform in its coverage ball, moved into the domain box,
drawn again if it is outside the domain. Of box bounds: with equal chance that, or a point uniform in the box.
The file alone defines it, unless it is the user's own: rows or a box, which are in the file, or what a
function draws, which is given again. At each draw the farthest that an output in its limits can be from M is
compared with the delta claimed there.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether.data import Array
from tether.foundation.errors import CertificateError
from tether.foundation.progress import Report
from tether.foundation.wording import DISTRIBUTION, over_box, over_drawn, over_rows
from tether.trusted import TrustedModel
from tether.verification.claim import Claim, Limits
from tether.verification.evaluation import circular, values_at

_BATCH = 1 << 13
_INCREDIBLE = 1e-6
_LEAST_EPSILON = 1e-6


@dataclass(frozen=True)
class Draws:
    """What the draws showed: how many there were, and at how many of them delta was exceeded."""

    count: int
    exceeded: int


def draw(
    claim: Claim,
    trusted: TrustedModel,
    seed: int,
    progress: Report | None,
    sampler: Callable[..., Any] | None = None,
) -> Draws:
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
        inputs = drawn(claim, rng, sampler)
        squared = _squared_distances(claim, inputs)
        rows = np.flatnonzero(_in_domain(claim, inputs, squared))[: total - done]
        rounds += 1
        if rounds > 1000 and done * 1000 < rounds:
            raise CertificateError("not verified: hardly any draw from the distribution is in the domain.")
        if not len(rows):
            continue
        limits = claim.limits(inputs[rows], squared[rows].argmin(axis=1))
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


def _holds_opposite(claim: Claim, values: Array, limits: Limits) -> NDArray[np.bool_]:
    """(N, P) whether an angle's limits hold the one opposite to M, which is farther than either limit."""
    opposite = values + np.pi
    first = opposite + 2 * np.pi * np.ceil((limits.lower - opposite) / (2 * np.pi))
    return claim.schema.output_angles & (first <= limits.upper)


def _in_domain(claim: Claim, inputs: Array, squared: Array) -> NDArray[np.bool_]:
    """(N,) whether something is claimed at inputs (N, D)."""
    inside = ((inputs >= claim.box[0]) & (inputs <= claim.box[1])).all(axis=1)
    return inside & claim.holds(inputs, squared)


def distribution_words(claim: Claim) -> str:
    """What the claim is over, in words."""
    if claim.over is None:
        return DISTRIBUTION[claim.distribution]
    if claim.over["kind"] == "rows":
        rows = claim.arrays["over.inputs"]
        return over_rows(len(rows), hashlib.sha256(rows.astype("<f8").tobytes()).hexdigest())
    if claim.over["kind"] == "box":
        limits = (claim.arrays[f"over.{name}"].tolist() for name in ("lower", "upper"))
        return over_box(claim.schema.inputs, *limits)
    return over_drawn(claim.over["name"], claim.over["sha256"])


def drawn(claim: Claim, rng: np.random.Generator, sampler: Callable[..., Any] | None = None) -> Array:
    """(N, D) inputs from the distribution, those outside the domain among them."""
    inputs = _own(claim, claim.over, rng, sampler) if claim.over else _around(claim, rng)
    outside = claim.schema.input_angles & ((inputs < -np.pi) | (inputs >= np.pi))
    wrapped = (inputs + np.pi) % (2 * np.pi) - np.pi
    return np.where(outside, wrapped, inputs)


def _own(claim: Claim, over: dict[str, Any], rng: np.random.Generator, sampler: Any) -> Array:
    """(N, D) from a distribution of the user's own."""
    inputs = len(claim.schema.inputs)
    if over["kind"] == "rows":
        rows = claim.arrays["over.inputs"]
        return rows[rng.integers(0, len(rows), _BATCH)]
    if over["kind"] == "box":
        low, high = claim.arrays["over.lower"], claim.arrays["over.upper"]
        return np.clip(low + rng.random((_BATCH, inputs)) * (high - low), low, high)
    if sampler is None:
        raise CertificateError(
            f"not verified: the claim is over what the function {over['name']} draws, which a file cannot "
            "hold. Pass it as `over` (command line: `--over file.py:function`)."
        )
    known = TrustedModel(sampler)
    if known.source_digest is None:
        raise CertificateError(
            f"not verified: the function given, {known.name}, has no source that it could be recognised by. "
            "Pass a function that is written in a file."
        )
    if (known.name, known.source_digest) != (over["name"], over["sha256"]):
        raise CertificateError(
            f"not verified: the claim is over what the function {over['name']} draws; the function given, "
            f"{known.name}, is not that one."
        )
    found = np.asarray(sampler(rng, _BATCH), dtype=np.float64)
    if found.shape != (_BATCH, inputs) or not np.isfinite(found).all():
        raise CertificateError(
            f"not verified: the function {over['name']} must draw finite rows of shape {(_BATCH, inputs)}; "
            f"got shape {found.shape}."
        )
    return found


def _around(claim: Claim, rng: np.random.Generator) -> Array:
    """(N, D) around memories, and wherever else the claim is tested."""
    inputs = np.minimum(np.maximum(_around_memories(claim, rng), claim.box[0]), claim.box[1])
    return claim.spread(inputs, rng)


def _around_memories(claim: Claim, rng: np.random.Generator) -> Array:
    """(N, D) points uniform in the coverage balls of memories drawn uniformly."""
    memories = claim.cells("memories")
    cell = rng.integers(0, len(memories), _BATCH)
    # The first D coordinates of a uniform point of the sphere in D + 2 dimensions are uniform in the ball.
    sphere = rng.standard_normal((_BATCH, memories.shape[1] + 2))
    ball = sphere[:, :-2] / np.sqrt((sphere**2).sum(axis=1, keepdims=True))
    return (memories[cell] + claim.cells("radii")[cell, None] * ball) * claim.cells("scale")


def _squared_distances(claim: Claim, inputs: Array) -> Array:
    """(N, K), summed input by input as the model does."""
    scaled, memories = inputs / claim.cells("scale"), claim.cells("memories")
    total = np.zeros((len(inputs), len(memories)))
    for column in range(memories.shape[1]):
        total += (scaled[:, column, None] - memories[:, column]) ** 2
    return total
