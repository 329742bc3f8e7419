"""Whether a claim is of use to anybody: a useless certificate is called useless."""

from __future__ import annotations

import numpy as np

from tether.data import Array, Transitions
from tether.model import Model
from tether.trusted import TrustedModel

_OF_RANGE = 0.1
"""Share of an output's range above which a delta is of no use."""


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
    still, said = _unchanged(transitions), []
    for k, name in enumerate(schema.outputs):
        if residual[k] > 0 and beyond[k] > residual[k] and beyond[k] > 1e-6 * span[k]:
            said.append(
                f"output '{name}': at a hundredth of held-out rows M is known to {beyond[k]:.3g}, less well "
                f"than it fits the data ({residual[k]:.3g}). More leaves or a smaller domain would help"
            )
        if typical[k] > _OF_RANGE * span[k]:
            said.append(
                f"output '{name}': the delta of {typical[k]:.3g} at the median held-out row is more than a "
                f"tenth of its range ({span[k]:.3g}). {_remedy(residual[k], still[k])}"
            )
    return tuple(said)


def _unchanged(transitions: Transitions) -> Array:
    """(P,) root mean square error of "nothing changes"; infinite where an output advances no state."""
    schema = transitions.schema
    error = np.full(len(schema.outputs), np.inf)
    known = np.flatnonzero(np.array(schema.advances) >= 0)
    now = transitions.next_states.copy()
    now[:, known] = transitions.states[:, np.array(schema.advances)[known]]
    error[known] = np.sqrt((schema.distance(transitions.next_states, now) ** 2).mean(axis=0))[known]
    return error


def _remedy(residual: float, still: float) -> str:
    """What to do about a delta so wide; units and time steps that M has wrong are the usual cause."""
    if residual <= still:
        return "A better M, or `delta=`, would help"
    return (
        f'M misses the data by {residual:.3g} (root mean square), and "nothing changes" by {still:.3g}: '
        "check the units of M, its time step and the order of its columns"
    )
