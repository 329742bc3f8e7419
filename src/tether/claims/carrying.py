"""States that a model does not predict, carried on by a rule of the user's."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tether.data import Array, Schema, wrap_angle

Rule = Callable[[Array, Array, Array], ArrayLike]
"""Next values (K, R) of states that are not predicted, from states, controls and predictions, row by row."""


def carried_states(schema: Schema) -> NDArray[np.int64]:
    """(R,) the states that are not predicted."""
    return np.setdiff1d(np.arange(len(schema.states)), schema.advanced)


def follow(schema: Schema, rule: Rule | None, states: Array, controls: Array, outputs: Array) -> Array:
    """(K, dx) whole next states, of predictions (K, P) and what a rule makes of them."""
    if rule is None:
        return outputs[:, np.argsort(schema.advanced)]
    following = np.empty_like(states)
    wrapped = np.where(schema.output_angles & ~(np.abs(outputs) < np.pi), wrap_angle(outputs), outputs)
    following[:, schema.advanced] = wrapped
    following[:, carried_states(schema)] = rule(states, controls, wrapped)
    return following


def check_carried(what: str, schema: Schema, rule: Rule | None) -> None:
    """Raises where states are neither predicted nor carried, or there is nothing to carry."""
    states, outputs = ", ".join(schema.states), ", ".join(schema.outputs)
    if rule is None:
        if not schema.rolls_out:
            raise ValueError(
                f"{what} must predict every state; the outputs are {outputs} for states {states}. Say what "
                "the others follow with `carried`."
            )
        return
    if schema.rolls_out:
        raise ValueError("`carried` must be of states that are not predicted; all are. Leave it out.")
    if min(schema.advances) < 0 or len(set(schema.advances)) < len(schema.advances):
        raise ValueError(f"{what} must have outputs that are each the next value of a state; got {outputs}.")
