"""Claims that hold at every input by construction: of monotone models, and of direct ones, which ask M.

Nothing is known by cell or leaf that could be derived again. Premises are checked on the model, and fresh
points are compared with M.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from tether.claims.claims import Certificate, Conformance, Domain, Monotonicity, OutputDelta, Recheck
from tether.data import Array
from tether.foundation.errors import CertificateError
from tether.foundation.progress import Report
from tether.foundation.wording import AS_RETURNED, BY_CONSTRUCTION, NEVER_RISES, construction_assumptions
from tether.model import Model
from tether.tethers.tether import WholeTether
from tether.trusted import TrustedModel, as_trusted

_CHUNK = 1 << 14
_ASKED_ALONE = 256
"""Rows of a chunk that are tried one by one, where M does not answer all of them."""
_SPREADS = (0.0, 0.1, 1.0, 10.0, 1e3)


def certify_by_construction(
    model: Model, trusted: TrustedModel | Any, *, points: int, seed: int, inputs: Array | None = None
) -> Certificate:
    """States what is guaranteed about `model`, after checking every premise of the argument.

    Args:
        model: the model; its weights do not matter.
        trusted: M.
        points: how many fresh points to draw.
        seed: of the draw.
        inputs: (N, D) physical inputs, around and far from which points are drawn; by default the tether's
            places.

    Raises:
        CertificateError: where a premise does not hold, or a fresh point contradicts the claim.
    """
    tether, schema, known = _tether(model), model.schema, as_trusted(trusted)
    unlike, unmet = tether.unlike(known), tether.unmet_premise(model.network, model.frame)
    if unlike is not None or unmet is not None:
        raise CertificateError(unlike or f"{unmet}; that is not so. Fit anew.")
    found = search(model, known, inputs=inputs, points=points, rng=np.random.default_rng([seed, 0x307]))
    if not found.ratio <= 1:
        raise CertificateError(
            f"the claim must hold at every point; a fresh one reached {found.ratio:.6g} times delta."
        )
    size = tether.usual_size(model.frame)
    deltas = [
        OutputDelta(name, schema.unit(name), float(own.max()), float(np.median(own)))
        for name, own in zip(schema.outputs, tether.largest_delta(size).T, strict=True)
    ]
    sizes = dict(zip(schema.outputs, size.tolist(), strict=True))
    held = Conformance(
        claim=BY_CONSTRUCTION[tether.kind],
        evidence=tether.evidence,
        deltas=tuple(deltas),
        domain=Domain(None, {}, 1.0, 1.0),
        assumptions=construction_assumptions(tether.kind, sizes, schema.units, schema.angles),
        recheck=Recheck(found.tried, found.ratio, found.farthest, 0.0),
    )
    falling = (Monotonicity(NEVER_RISES, model.decreasing, AS_RETURNED),) if model.decreasing else ()
    return Certificate((held, *falling), known.name, known.source_digest)


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
        tried: how many inputs M answered.
    """

    ratio: float
    inputs: Array
    output: int
    distance: float
    delta: float
    farthest: tuple[float, ...]
    tried: int


def search(
    model: Model,
    trusted: TrustedModel,
    *,
    points: int,
    rng: np.random.Generator,
    inputs: Array | None = None,
    progress: Report | None = None,
) -> Farthest:
    """Looks at fresh points, at and around `inputs` (N, D) and far from them, for the largest ratio.

    Raises:
        CertificateError: M answers at none of them.
    """
    rows = _tether(model).places(model.frame) if inputs is None else inputs
    scale, dx = model.frame.inputs.scale, len(model.schema.states)
    worst, most, tried = None, np.zeros(len(model.schema.outputs)), 0
    for start in range(0, points, _CHUNK):
        chosen = rows[rng.integers(len(rows), size=min(_CHUNK, points - start))]
        spread = rng.choice(_SPREADS, size=(len(chosen), 1))
        drawn = chosen + spread * scale * rng.standard_normal(chosen.shape)
        drawn = model.schema.wrap_inputs(drawn[:, :dx], drawn[:, dx:])
        asked, answers = trusted.where_it_answers(drawn, model.schema, alone=_ASKED_ALONE)
        if len(asked):
            found = _farthest(model, asked, answers)
            most, tried = np.maximum(most, found.farthest), tried + found.tried
            worst = found if worst is None or not found.ratio <= worst.ratio else worst
        if progress is not None:
            progress(start + len(chosen), points)
    if worst is None:
        raise CertificateError(
            f"`trusted` must answer somewhere near the data; at none of {points} inputs does it."
        )
    return replace(worst, farthest=tuple(most.tolist()), tried=tried)


def _farthest(model: Model, inputs: Array, answers: Array) -> Farthest:
    limits, base = model.limits(inputs), model.frame.base(inputs[:, : len(model.schema.states)])
    distance = model.schema.farthest(answers, base + limits.lower, base + limits.upper)
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
        len(inputs),
    )


def _tether(model: Model) -> WholeTether:
    return cast(WholeTether, model.tether)
