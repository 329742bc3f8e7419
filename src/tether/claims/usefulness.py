"""Whether a claim is of use to anybody: a useless certificate is called useless."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tether.data import Array, Transitions
from tether.model import Model
from tether.trusted import TrustedModel

_OF_RANGE = 0.1
"""Share of an output's range above which a delta is of no use."""
_HOPELESS = 0.3
"""Share of it above which more leaves will not mend what is known of M."""


def concerns(model: Model, trusted: TrustedModel, transitions: Transitions) -> tuple[str, ...]:
    """Why nobody could use the claim, judged on held-out rows, in sentences.

    Nothing is said of bounds that do not tell apart what is room and what is not.
    """
    schema, remainder = model.schema, model.bounds.remainder_at(transitions.inputs)
    if remainder is None:
        return ()
    limits = model.limits(transitions.inputs)
    answers = trusted(transitions.states, transitions.controls, schema)
    residual = np.sqrt((schema.distance(transitions.next_states, answers) ** 2).mean(axis=0))
    if not limits.in_domain.any():
        return ("no held-out row lies in the domain",)
    beyond = np.quantile(remainder, 0.99, axis=0)
    typical = np.median(limits.delta[limits.in_domain], axis=0)
    span = np.where(schema.output_angles, 2 * np.pi, np.ptp(transitions.next_states, axis=0))
    still = _unchanged(transitions)
    known = [
        k
        for k in range(len(span))
        if residual[k] > 0 and beyond[k] > residual[k] and beyond[k] > 1e-6 * span[k]
    ]
    said = []
    if known:
        loose = _by_output(schema.outputs, known, beyond, residual, "M misses the data by")
        said.append(
            f"where M is known worst, at a hundredth of held-out rows, it is known only to within {loose}. "
            + _tighter(model, bool((beyond > _HOPELESS * span).any()))
        )
    # By what would help, each with the outputs that it would help.
    wide: dict[str, list[int]] = {}
    for k in np.flatnonzero(typical > _OF_RANGE * span):
        wide.setdefault(_remedy(residual[k] > still[k]), []).append(int(k))
    for remedy, outputs in wide.items():
        much = _by_output(schema.outputs, outputs, typical, span, "of a range of")
        said.append(f"delta at the median held-out row is more than a tenth of the range: {much}. {remedy}")
        if remedy == _UNITS:
            said[-1] += f": {_by_output(schema.outputs, outputs, residual, still, 'against')}"
    return tuple(said)


_UNITS = (
    'M misses the data by more than "nothing changes" does; check the units of M, its time step and the '
    "order of its columns"
)


def _remedy(farther: bool) -> str:
    """What to do about a delta so wide; units and time steps that M has wrong are the usual cause."""
    return _UNITS if farther else "A better M, or `delta=`, would help"


def _tighter(model: Model, hopeless: bool) -> str:
    """What to do where M is known too loosely; where that is by far, cutting will not do."""
    if not hopeless:
        order = model.record.get("config", {}).get("order")
        second = model.bounds.evidence.encloses and order == 1
        curved = "Quadratic models, where M is smooth (`order='auto'`, `--order auto`), more leaves"
        return f"{curved if second else 'More leaves'} or a smaller domain would help"
    sampled = "`evidence='statistical'` (`--evidence`), or " if model.bounds.evidence.encloses else ""
    return (
        f"That is hopelessly loose, and `bounds='direct'` (`--bounds`), which asks M at run time, or "
        f"{sampled}an M of fewer operations or a smaller domain would help"
    )


def _by_output(names: Sequence[str], outputs: Sequence[int], much: Array, beside: Array, word: str) -> str:
    """Two numbers of each of some outputs."""
    first, *rest = (f"{much[k]:.3g} in {names[k]} ({{}}{beside[k]:.3g})" for k in outputs)
    return ", ".join([first.format(f"{word} "), *(each.format("") for each in rest)])


def _unchanged(transitions: Transitions) -> Array:
    """(P,) root mean square error of "nothing changes"; infinite where an output advances no state."""
    schema = transitions.schema
    error = np.full(len(schema.outputs), np.inf)
    known = np.flatnonzero(np.array(schema.advances) >= 0)
    now = transitions.next_states.copy()
    now[:, known] = transitions.states[:, np.array(schema.advances)[known]]
    error[known] = np.sqrt((schema.distance(transitions.next_states, now) ** 2).mean(axis=0))[known]
    return error
