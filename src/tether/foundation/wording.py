"""What a certificate says, in words: the claim by its evidence, and what it assumes.

Words only, so that what writes a certificate and what verifies it can both know them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
"""Where the inputs come from that a statistical claim speaks of, by what its bounds are over, unless it is
over the user's own."""
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


BY_CONSTRUCTION = {
    "monotone": (
        "PROVED: for any weights and every finite input, the prediction is within delta of the trusted "
        "model. Established by the argument of docs/guarantees.md, whose premises were checked on this model."
    ),
    "direct": (
        "PROVED: for any weights and every input at which the trusted model answers, the prediction is "
        "within delta of that answer. By construction: the model asks the trusted model itself at run time "
        "and keeps to the half-width around what it answers."
    ),
}
"""The claim of a tether that rests on no number for each cell or leaf, by its kind."""
NEVER_RISES = (
    "PROVED: for any weights and every finite input, raising any of the declared inputs, all others equal, "
    "never raises the prediction, not by a rounding either. Established by the argument of "
    "docs/guarantees.md, whose premises were checked on this model."
)
AS_RETURNED = (
    "Inputs so large that something overflows are refused, not answered.",
    "Predictions are used in float64 as returned.",
)
"""What both claims of a monotone model assume."""


def statistical_claim(epsilon: float, beta: float, draws: int, allowed: int, distribution: str) -> str:
    """The claim of `statistical` evidence over inputs from a distribution, in words."""
    return MEANING["statistical"].format(
        epsilon=epsilon, beta=beta, draws=draws, allowed=allowed, distribution=distribution
    )


def over_rows(count: int, digest: str) -> str:
    """A distribution: one of the rows with this SHA-256."""
    return (
        f"a row drawn uniformly from {count:,} rows (SHA-256 {digest}), drawn again if it is outside "
        "the domain; of other rows this says nothing"
    )


def over_box(names: Sequence[str], lower: Sequence[float], upper: Sequence[float]) -> str:
    """A distribution: uniform between these limits."""
    limits = ", ".join(
        f"{name} {low:.12g} to {high:.12g}" for name, low, high in zip(names, lower, upper, strict=True)
    )
    return f"a point uniform in the box {limits}, drawn again if it is outside the domain"


def over_drawn(name: str, digest: str | None) -> str:
    """A distribution: what a function draws."""
    source = "whose source Python cannot show" if digest is None else f"source SHA-256 {digest}"
    return f"what the function {name} ({source}) draws, drawn again if it is outside the domain"


def assumptions(evidence: str, angles: Sequence[str]) -> tuple[str, ...]:
    """What a claim rests on, in sentences."""
    return (*_ALWAYS, *_about_angles(angles), _EVIDENCE_ASSUMPTIONS[evidence])


def _about_angles(angles: Sequence[str]) -> tuple[str, ...]:
    if not angles:
        return ()
    return (
        f"Angles ({', '.join(angles)}) are wrapped to [-π, π) before the trusted model sees them, and "
        "distances between them are taken on the circle.",
    )


def construction_assumptions(
    kind: str, sizes: Mapping[str, float], units: Mapping[str, str], angles: Sequence[str] = ()
) -> tuple[str, ...]:
    """What the claim of a tether of a kind that holds by construction rests on.

    Args:
        kind: of the tether.
        sizes: by output, up to which size of what is added up the delta of a certificate includes rounding.
        units: by output, where it has one.
        angles: columns that wrap.
    """
    named = ", ".join(f"{name} {size:,.6g} {units.get(name, '')}".strip() for name, size in sizes.items())
    if kind == "monotone":
        return (
            "The trusted model is the affine function whose weights are stored, added up in their order; "
            "distance is to the float64 values it returns.",
            f"Limits are at most this large: {named}. Beyond, delta grows by two units in their last "
            "place, which the delta of a prediction includes.",
            *AS_RETURNED,
        )
    return (
        "The trusted model that is asked at run time is the one named here; distance is to the float64 "
        "values it then returns.",
        f"What is added up is at most this large: {named}. Beyond, delta grows by eight units in its last "
        "place, which the delta of a prediction includes.",
        "Inputs at which the trusted model does not answer with finite numbers are refused, not answered.",
        *_about_angles(angles),
        "Predictions are used in float64 as returned.",
    )
