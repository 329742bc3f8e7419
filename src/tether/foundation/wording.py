"""What a certificate says, in words: the claim by its evidence, and what it assumes.

Words only, so that what writes a certificate and what verifies it can both know them.
"""

from __future__ import annotations

from collections.abc import Sequence

DISTRIBUTION = {
    "cells": (
        "a memory drawn uniformly, a point uniform in its coverage ball moved into the domain box, drawn "
        "again if it is outside the domain"
    ),
    "boxes": (
        "with equal chance a point uniform in the operating box, or a memory drawn uniformly and a point "
        "uniform in its coverage ball moved into that box, drawn again if it is outside the domain"
    ),
}
"""Where the inputs come from that a statistical claim speaks of, by what its bounds are over."""
MEANING = {
    "proved": (
        "PROVED: for any weights, every prediction in the domain is within delta of the trusted model. "
        "Established by outward-rounded interval arithmetic on the trusted model's own code."
    ),
    "sampled": (
        "ESTIMATE, not a guarantee: delta is the range of the trusted model seen at sampled points of each "
        "cell or leaf, a lower bound on the true distance."
    ),
    "statistical": (
        "STATISTICAL: with confidence 1 - {beta:g}, for any weights, at most a share {epsilon:g} of inputs "
        "drawn from the stated distribution have a prediction farther than delta from the trusted model. "
        "Established by {draws} independent draws that the bounds were not built from, of which at most "
        "{allowed} exceeded it. Distribution: "
        "{distribution}."
    ),
    "lipschitz": (
        "GUARANTEED IF the Lipschitz constants given for the trusted model hold: for any weights, every "
        "prediction in the domain is within delta of the trusted model."
    ),
}
"""The claim, by evidence."""

BROKEN = {
    "proved": "A COUNTER-EXAMPLE",
    "lipschitz": "A COUNTER-EXAMPLE: the constants do not hold",
    "statistical": "which a claim about a share of inputs allows at single ones",
    "sampled": "so that the sampled number is an underestimate, as it may be",
}
"""What it means that delta was exceeded at an input that somebody searched for."""

_EVIDENCE_ASSUMPTIONS = {
    "proved": (
        "The trusted model is the mathematical function its NumPy code denotes; what its float64 evaluation "
        "errs by is proved and part of delta, if the library functions it calls err by no more than 4 units "
        "in the last place."
    ),
    "lipschitz": (
        "The Lipschitz constants given for the trusted model hold on every coverage region or leaf, for the "
        "float64 values it returns."
    ),
    "statistical": (
        "Inputs are drawn from the stated distribution. About a single input, or one chosen by an adversary, "
        "this says nothing."
    ),
    "sampled": "The trusted model varies between sampled points no further than they showed. Nobody checked.",
}
_ALWAYS = (
    "The input lies in the domain: `in_domain` of the prediction is true.",
    "The trusted model is the pure function that it was when the bounds were built, and distance is to the "
    "float64 values it returns for one row alone. That it returns the same among other rows was tried, not "
    "proved.",
    "The prediction is used in float64 as returned, without further rounding; the column float32 is of "
    "the model that `tether.single_precision` makes, and of the float32 numbers it returns.",
)


def statistical_claim(epsilon: float, beta: float, draws: int, allowed: int, over: str = "cells") -> str:
    """The claim of `statistical` evidence for bounds over `cells` or `boxes`."""
    return MEANING["statistical"].format(
        epsilon=epsilon, beta=beta, draws=draws, allowed=allowed, distribution=DISTRIBUTION[over]
    )


def assumptions(evidence: str, angles: Sequence[str]) -> tuple[str, ...]:
    """What a claim rests on, in sentences."""
    lines = _ALWAYS
    if angles:
        lines += (
            f"Angles ({', '.join(angles)}) are wrapped to [-π, π) before the trusted model sees them, and "
            "distances between them are taken on the circle.",
        )
    return (*lines, _EVIDENCE_ASSUMPTIONS[evidence])
