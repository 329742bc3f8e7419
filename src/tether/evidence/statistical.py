"""Statistical: what fresh draws, never used to build the bounds, entitle one to say.

Delta is widened by one number until at most k of n independent draws exceed it. By order statistics (the
one-sided tolerance limit, which holds for every distribution), at most a share ε of the distribution exceeds
the widened delta, with probability at least ``1 - P[Bin(n, ε) <= k]`` over the draws. n and k are such that
this is at least 1 - β.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tether.evidence.distributions import check_over
from tether.evidence.evidence import Claimed
from tether.evidence.seen import Seen
from tether.foundation import wording
from tether.foundation.errors import CertificateError
from tether.foundation.limits import check_draws

_ROUNDING = 1 + 1e-5
"""Covers the rounding of a logarithm of some 1e9, the largest that a limit on draws leaves."""


@dataclass(frozen=True)
class Statistical(Seen):
    """Delta as seen, then widened until fresh draws of a stated distribution keep to it.

    Attributes:
        epsilon: share of inputs that may exceed delta.
        beta: one minus the confidence of that.
        over: the distribution of these inputs, those outside the domain drawn again. By default what the
            bounds are over, as the certificate words it; else `data`, a row of the data to fit with equal
            chance; `box`, uniform in the operating box; limits by name of inputs, uniform in these and in the
            operating box for others; rows (N, D), with equal chance; or a function ``(rng, count) -> (count,
            D)`` of independent draws, which a file cannot hold: `certify` and `verify` are given it again.
    """

    name: str = field(default="statistical", init=False, repr=False)
    epsilon: float = 1e-3
    beta: float = 1e-6
    over: Any = None  # type: ignore[override]

    def __post_init__(self) -> None:
        check_draws(self.epsilon, self.beta)
        check_over(self.over)

    @property
    def draws(self) -> int:  # type: ignore[override]
        """Fresh draws that the claim rests on."""
        return draws_needed(self.epsilon, self.beta)

    @property
    def allowed(self) -> int:  # type: ignore[override]
        """How many of them may exceed delta."""
        return draws_allowed(self.epsilon, self.beta)

    def recheck(self, claimed: Claimed, *, seed: int) -> None:
        """As many fresh draws as the claim rests on; refused if they are incredible were it true."""
        exceeded = claimed.exceeded(self.draws, np.random.default_rng([seed, 0xCE47]))
        if refuted(exceeded, self.draws, self.epsilon):
            raise CertificateError(
                f"at most a fraction {self.epsilon:g} of inputs must exceed delta; of {self.draws} fresh "
                f"draws {exceeded} did. The file or the trusted model has changed: fit anew."
            )

    def claim(self, over: str) -> str:
        """With its numbers and its distribution."""
        words = wording.DISTRIBUTION[over] if self.over is None else self.over.words
        return wording.statistical_claim(self.epsilon, self.beta, self.draws, self.allowed, words)


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
