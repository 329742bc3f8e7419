"""What is claimed of a monotone model, after every premise of the proof was checked on it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tether.claims.claims import Certificate, Conformance, Domain, Monotonicity, OutputDelta, Recheck
from tether.data import Array
from tether.evidence import Proved
from tether.foundation.errors import CertificateError
from tether.foundation.progress import Report
from tether.model import Model
from tether.model.monotone_tether import monotone_tether
from tether.trusted import TrustedModel
from tether.trusted.affine import AffineModel

_CHUNK = 1 << 14
_SPREADS = (0.0, 0.1, 1.0, 10.0, 1e3)
_REACH = 1e3
"""Scales away from the centre of the inputs up to which the delta of a certificate includes rounding."""


_CONFORMANCE = (
    "PROVED: for any weights and every finite input, the prediction is within delta of the trusted model. "
    "Established by the argument of docs/guarantees.md, whose premises were checked on this model."
)
_MONOTONICITY = (
    "PROVED: for any weights and every finite input, raising any of the declared inputs, all others equal, "
    "never raises the prediction, not by a rounding either. Established by the argument of "
    "docs/guarantees.md, whose premises were checked on this model."
)


def certify_monotone(
    model: Model,
    trusted: AffineModel,
    *,
    points: int,
    seed: int,
    inputs: Array | None = None,
    largest: Array | None = None,
) -> Certificate:
    """States what is guaranteed about `model`, after checking every premise of the proof.

    Args:
        model: the model; its weights do not matter.
        trusted: M.
        points: how many fresh points to draw.
        seed: of the draw.
        inputs: (N, D) physical inputs, around and far from which points are drawn; by default the memories.
        largest: (P,) size of limits up to which delta includes their rounding; by default what they come to
            a thousand scales away from the centre of the inputs.

    Raises:
        CertificateError: where a premise does not hold, or a fresh point contradicts the claim.
    """
    _check_premises(model, trusted)
    found = search(model, trusted, inputs=inputs, points=points, rng=np.random.default_rng([seed, 0x307]))
    if not found.ratio <= 1:
        raise CertificateError(
            f"the claim must hold at every point; a fresh one reached {found.ratio:.6g} times delta."
        )
    size = _usual_size(model) if largest is None else largest
    delta = monotone_tether(model).largest_delta(size)
    deltas = [
        OutputDelta(name, model.schema.unit(name), float(own.max()), float(np.median(own)))
        for name, own in zip(model.schema.outputs, delta.T, strict=True)
    ]
    held = Conformance(
        claim=_CONFORMANCE,
        evidence=Proved().name,
        deltas=tuple(deltas),
        domain=Domain(None, {}, 1.0, 1.0),
        assumptions=_assumptions(model, size),
        recheck=Recheck(points, found.ratio, found.farthest, 0.0),
    )
    falling = Monotonicity(_MONOTONICITY, model.decreasing, _ALWAYS)
    known = TrustedModel(trusted)
    return Certificate((held, falling), known.name, known.source_digest)


def as_affine(trusted: TrustedModel | Any) -> AffineModel:
    """M as the affine model that a monotone tether needs.

    Raises:
        CertificateError: it is of another kind.
    """
    function = trusted.function if isinstance(trusted, TrustedModel) else trusted
    if not isinstance(function, AffineModel):
        raise CertificateError(
            "`trusted` must be the `tether.AffineModel` the model was fitted with; got "
            f"{TrustedModel(function).name}."
        )
    return function


@dataclass(frozen=True, eq=False)
class Farthest:
    """The worst of the inputs tried.

    Attributes:
        ratio: the farthest that the limits let an output be from M, over delta there.
        inputs: (D,) where.
        output: index of the output.
        distance: from M to the farther limit.
        delta: what is claimed there.
        farthest: by output, the largest distance seen anywhere.
    """

    ratio: float
    inputs: Array
    output: int
    distance: float
    delta: float
    farthest: tuple[float, ...]


def search(
    model: Model,
    trusted: AffineModel,
    *,
    points: int,
    rng: np.random.Generator,
    inputs: Array | None = None,
    progress: Report | None = None,
) -> Farthest:
    """Looks at fresh points, at and around `inputs` (N, D) and far from them, for the largest ratio."""
    rows = _memories(model) if inputs is None else inputs
    scale, worst, most = model.frame.inputs.scale, None, np.zeros(len(model.schema.outputs))
    for start in range(0, points, _CHUNK):
        chosen = rows[rng.integers(len(rows), size=min(_CHUNK, points - start))]
        spread = rng.choice(_SPREADS, size=(len(chosen), 1))
        found = _farthest(model, trusted, chosen + spread * scale * rng.standard_normal(chosen.shape))
        most = np.maximum(most, found.farthest)
        worst = found if worst is None or not found.ratio <= worst.ratio else worst
        if progress is not None:
            progress(start + len(chosen), points)
    if worst is None:
        raise ValueError(f"`points` must be at least 1; got {points}.")
    return replace(worst, farthest=tuple(most.tolist()))


def _farthest(model: Model, trusted: AffineModel, inputs: Array) -> Farthest:
    states = monotone_tether(model).states
    limits = model.limits(inputs)
    values = trusted(inputs[:, :states], inputs[:, states:])
    distance = np.maximum(values - limits.lower, limits.upper - values)
    # Finite even where delta is zero, because JSON has no word for infinity.
    floats = np.finfo(np.float64)
    ratio = np.minimum(distance / np.maximum(limits.delta, floats.tiny), floats.max)
    row, output = (int(k) for k in np.unravel_index(int(np.argmax(ratio)), ratio.shape))
    return Farthest(
        float(ratio[row, output]),
        inputs[row],
        output,
        float(distance[row, output]),
        float(limits.delta[row, output]),
        tuple(distance.max(axis=0).tolist()),
    )


def _memories(model: Model) -> Array:
    """(K, D) the memories in physical units, declared inputs at their centre."""
    tether = monotone_tether(model)
    rows = np.tile(model.frame.inputs.center, (len(tether.cells), 1))
    rows[:, tether.seen] = tether.cells.centers
    return rows


def _usual_size(model: Model) -> Array:
    """(P,) what limits come to at most a thousand scales away from the centre of the inputs."""
    inputs, trusted = model.frame.inputs, monotone_tether(model).trusted
    extent = np.abs(trusted.weights) @ (np.abs(inputs.center) + _REACH * inputs.scale)
    return np.abs(trusted.intercept) + extent + monotone_tether(model).half_width.amax(dim=0).cpu().numpy()


def _check_premises(model: Model, trusted: AffineModel) -> None:
    """What the proof takes for granted; construction checks it, but models can be changed."""
    unmet = monotone_tether(model).unmet_premise(model.network, model.frame)
    if not monotone_tether(model).trusted.same_as(trusted):
        unmet = "`trusted` must be the model the tether was built with"
    if unmet is not None:
        raise CertificateError(f"{unmet}; that is not so. Fit anew.")


def _assumptions(model: Model, size: Array) -> tuple[str, ...]:
    schema = model.schema
    sizes = zip(schema.outputs, size.tolist(), strict=True)
    named = (f"{name} {most:,.6g} {schema.unit(name)}" for name, most in sizes)
    return (
        "The trusted model is the affine function whose weights are stored, added up in their order; "
        "distance is to the float64 values it returns.",
        f"Limits are at most this large: {', '.join(text.strip() for text in named)}. Beyond, delta grows by "
        "two units in their last place, which the delta of a prediction includes.",
        *_ALWAYS,
    )


_ALWAYS = (
    "Inputs so large that something overflows are refused, not answered.",
    "Predictions are used in float64 as returned.",
)
