"""Open-loop rollouts: predictions fed back as states, all start states at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from tether.data import Array, Schema

Step = Callable[[Array, Array], Array]
"""Next states (N, P) from states (N, dx) and controls (N, du)."""


def rollout(step: Step, schema: Schema, states: ArrayLike, controls: ArrayLike) -> Array:
    """Trajectories (T + 1, N, dx) from start states.

    Args:
        step: one step of a model, for example ``model.predict``.
        schema: what the columns mean; its outputs must advance every state.
        states: (N, dx) start states.
        controls: (T, N, du) controls to apply.
    """
    if not schema.rolls_out:
        raise ValueError(
            "a rollout must predict every state; the outputs are "
            f"{', '.join(schema.outputs)} for states {', '.join(schema.states)}."
        )
    order = np.argsort(schema.advances)
    trajectory = [np.asarray(states, dtype=np.float64)]
    for control in np.asarray(controls, dtype=np.float64):
        trajectory.append(step(trajectory[-1], control)[:, order])
    return np.stack(trajectory)
