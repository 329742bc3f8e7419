"""Statistical evidence: what fresh draws, never used to build the bounds, entitle one to say.

Delta is widened by one number until at most k of n independent draws exceed it. By order statistics (the
one-sided tolerance limit, which holds for every distribution), at most a share ε of the distribution exceeds
the widened delta, with probability at least ``1 - P[Bin(n, ε) <= k]`` over the draws. n and k are such that
this is at least 1 - β.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from tether.bounds import CellBounds
from tether.cells import Cells
from tether.data import Array, Schema, Target
from tether.ranges import SamplingConfig
from tether.remainders import Remainder
from tether.tethers import tether_over
from tether.trusted import TrustedModel

_PIECE = 1 << 18
_ATTEMPTS = 1000
_ROUNDING = 1 + 1e-5
"""Covers the rounding of a logarithm of some 1e9, the largest that a limit on draws leaves."""


@dataclass(frozen=True, eq=False)
class Exceedance:
    """What draws showed.

    Attributes:
        draws: how many.
        exceeded: at how many of them some output can be farther from M than delta.
        excess: (N,) by how much delta was exceeded at each, in units of widening; negative where not.
    """

    draws: int
    exceeded: int
    excess: Array


def draws_needed(epsilon: float, beta: float) -> int:
    """Four times as many draws as the least, ``(1 - ε)^n <= β``, so that a few of them may exceed delta."""
    return 4 * math.ceil(math.log(beta) / math.log1p(-epsilon))


def draws_allowed(epsilon: float, beta: float) -> int:
    """How many of those draws may exceed delta: the largest k with ``P[Bin(n, ε) <= k] <= β``."""
    draws, allowed = draws_needed(epsilon, beta), 0
    # Added up from below: one minus the upper tail is lost in rounding once beta is below 1e-16.
    below = _binomial(0, draws, epsilon) + _binomial(1, draws, epsilon)
    while below * _ROUNDING <= beta:
        allowed += 1
        below += _binomial(allowed + 1, draws, epsilon)
    return allowed


def draw_in_domain(cells: Cells, count: int, schema: Schema, rng: np.random.Generator) -> Array:
    """(count, D) independent physical inputs of the domain, from :data:`tether.wording.DISTRIBUTION`."""
    kept: list[Array] = []
    missing = count
    for _ in range(_ATTEMPTS):
        cell = rng.integers(0, len(cells), missing)
        direction = rng.standard_normal((missing, cells.memories.shape[1]))
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        reach = cells.radii[cell] * rng.random(missing) ** (1 / direction.shape[1])
        inputs = (cells.memories[cell] + reach[:, None] * direction) * cells.scale
        # A box that holds the memory: moving into it cannot lead away from the memory.
        inputs = np.clip(inputs, cells.box_lower, cells.box_upper)
        dx = len(schema.states)
        inputs = schema.wrap_inputs(inputs[:, :dx], inputs[:, dx:])
        kept.append(inputs[cells.locate(inputs).in_domain])
        missing -= len(kept[-1])
        if missing <= 0:
            return np.concatenate(kept)
    raise ValueError(
        f"the domain must be part of what its cells cover; {missing} of {count} points drawn in cells "
        f"lie outside of it even after {_ATTEMPTS} attempts. Widen the domain."
    )


def exceedance(
    bounds: CellBounds, cells: Cells, trusted: TrustedModel, schema: Schema, target: Target, *, inputs: Array
) -> Exceedance:
    """How far, over the given inputs (N, D) of the domain, outputs in the bounds can exceed delta."""
    limits = tether_over(cells, bounds).rows(inputs)
    values = trusted.target(inputs, schema, target)
    excess = schema.farthest(values, limits.lower, limits.upper) - limits.delta
    # What a row's delta grows by before it is cut to half a turn, at which nothing exceeds it.
    unit = tether_over(cells, _one_widening(bounds)).rows(inputs).delta
    return Exceedance(len(inputs), int((excess > 0).any(axis=1).sum()), (excess / unit).max(axis=1))


def calibrate(
    bounds: CellBounds,
    cells: Cells,
    trusted: TrustedModel,
    schema: Schema,
    target: Target,
    *,
    sampling: SamplingConfig,
) -> CellBounds:
    """`bounds` with delta widened so that few fresh draws exceed it; their evidence is then `statistical`."""
    bounds = _pooled(bounds, cells)
    rng = np.random.default_rng([sampling.seed, 0x57A7])
    most = draws_allowed(sampling.epsilon, sampling.beta) + 1
    largest = np.empty(0)
    for count in pieces(draws_needed(sampling.epsilon, sampling.beta)):
        inputs = draw_in_domain(cells, count, schema, rng)
        seen = exceedance(bounds, cells, trusted, schema, target, inputs=inputs)
        largest = np.sort(np.concatenate([largest, seen.excess]))[-most:]
    # A last place more, because the sum that uses it rounds.
    beyond = largest[0]
    more = _one_widening(bounds, times=max(0.0, float(beyond)) * (1 + 1e-12))
    claim = {"evidence": "statistical", "epsilon": sampling.epsilon, "beta": sampling.beta}
    if bounds.kind == "interval":
        return replace(bounds, delta=schema.capped(bounds.delta + more.delta), **claim)
    assert more.kind == "affine"
    remainder = bounds.expansion.remainder
    remainder = replace(remainder, slopes=remainder.slopes + more.expansion.remainder.slopes)
    return replace(bounds, expansion=replace(bounds.expansion, remainder=remainder), **claim)


def pieces(draws: int) -> list[int]:
    """`draws` in pieces that memory has room for."""
    return [min(_PIECE, draws - start) for start in range(0, draws, _PIECE)]


def refuted(exceeded: int, draws: int, epsilon: float) -> bool:
    """Whether that many exceedances would be a one-in-a-million event if the claimed fraction held."""
    return binomial_tail(exceeded, draws, epsilon) < 1e-6


def binomial_tail(least: int, draws: int, probability: float) -> float:
    """Probability of at least `least` successes in `draws`."""
    below = 0.0
    for k in range(least):
        below += _binomial(k, draws, probability)
    return max(0.0, 1.0 - below)


def _binomial(successes: int, draws: int, probability: float) -> float:
    """Probability of just so many successes."""
    if successes > draws:
        return 0.0
    log = math.lgamma(draws + 1) - math.lgamma(successes + 1) - math.lgamma(draws - successes + 1)
    log += successes * math.log(probability) + (draws - successes) * math.log1p(-probability)
    return math.exp(log)


def _pooled(bounds: CellBounds, cells: Cells) -> CellBounds:
    """Affine bounds with the largest slopes of each cell and its neighbours: few points saw each alone."""
    if bounds.kind == "interval":
        return bounds
    remainder = bounds.expansion.remainder
    slopes = remainder.slopes.copy()
    for one, other in (cells.edges.T, cells.edges.T[::-1]):
        np.maximum.at(slopes, one, remainder.slopes[other])
    return replace(bounds, expansion=replace(bounds.expansion, remainder=replace(remainder, slopes=slopes)))


def _one_widening(bounds: CellBounds, *, times: float = 1.0) -> CellBounds:
    """Bounds whose delta is what delta grows by: in proportion, and by some of what is usual elsewhere."""
    floor = 1e-9 * np.abs(bounds.center).max(axis=0) + np.finfo(np.float64).tiny
    if bounds.kind == "interval":
        width = bounds.upper - bounds.lower
        return replace(bounds, delta=times * (width + 0.1 * np.median(width, axis=0) + floor))
    expansion, remainder = bounds.expansion, bounds.expansion.remainder
    slopes = remainder.slopes + 0.1 * np.median(remainder.slopes[:, -1], axis=0) + floor
    only = Remainder(remainder.radii, times * slopes, np.zeros_like(remainder.offset))
    still = np.zeros_like(bounds.half_width)
    # As if angles were on a line: in proportion to slopes, without an end at half a turn.
    flat = np.zeros_like(bounds.angles)
    return replace(bounds, expansion=replace(expansion, remainder=only), half_width=still, angles=flat)
