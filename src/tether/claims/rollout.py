"""Open-loop rollouts: predictions fed back as states, all start states at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tether.data import Array, Schema
from tether.model import Model
from tether.trusted import Function, TrustedModel, as_trusted

Step = Callable[[Array, Array], Array]
"""Next states (N, P) from states (N, dx) and controls (N, du)."""
Edge = Literal["flag", "fallback", "stop"]


@dataclass(frozen=True, eq=False)
class Rollout:
    """Trajectories, and where the guarantee ends.

    Attributes:
        states: (T + 1, N, dx); NaN after a row has stopped.
        left: (N,) the first step whose input lies outside the domain, -1 for rows that never leave.
    """

    states: Array
    left: NDArray[np.int64]


@overload
def rollout(step: Step, schema: Schema, states: ArrayLike, controls: ArrayLike) -> Array: ...


@overload
def rollout(
    step: Model,
    schema: Schema,
    states: ArrayLike,
    controls: ArrayLike,
    *,
    outside: Edge,
    trusted: TrustedModel | Function | None = None,
) -> Rollout: ...


def rollout(
    step: Step | Model,
    schema: Schema,
    states: ArrayLike,
    controls: ArrayLike,
    *,
    outside: Edge | None = None,
    trusted: TrustedModel | Function | None = None,
) -> Array | Rollout:
    """Trajectories (T + 1, N, dx) from start states.

    Args:
        step: one step of a model, for example ``model.predict``; or the model itself, with `outside`.
        schema: what the columns mean; its outputs must advance every state.
        states: (N, dx) start states.
        controls: (T, N, du) controls to apply.
        outside: what a row of a model does from the first input outside the domain on: go on (`flag`), go on
            for that step with the trusted model (`fallback`), or `stop`. A :class:`Rollout` then says which
            rows left, and at which step.
        trusted: the trusted model, for `fallback`.
    """
    if not schema.rolls_out:
        raise ValueError(
            "a rollout must predict every state; the outputs are "
            f"{', '.join(schema.outputs)} for states {', '.join(schema.states)}."
        )
    start, applied = np.asarray(states, dtype=np.float64), np.asarray(controls, dtype=np.float64)
    if outside is not None:
        return _to_the_edge(step, schema, start, applied, outside, trusted)
    order = np.argsort(schema.advances)
    trajectory = [start]
    for control in applied:
        trajectory.append(step(trajectory[-1], control)[:, order])  # type: ignore[operator]
    return np.stack(trajectory)


def _to_the_edge(
    model: Step | Model,
    schema: Schema,
    start: Array,
    controls: Array,
    outside: Edge,
    trusted: TrustedModel | Function | None,
) -> Rollout:
    if outside not in ("flag", "fallback", "stop"):
        raise ValueError(f"`outside` must be 'flag', 'fallback' or 'stop'; got {outside!r}.")
    if not isinstance(model, Model):
        raise TypeError(f"`step` must be a model where `outside` is given; got {type(model).__name__}.")
    if outside == "fallback" and trusted is None:
        raise ValueError("outside='fallback' must have the trusted model; got none. Pass `trusted=M`.")
    order, left = np.argsort(schema.advances), np.full(len(start), -1)
    path = np.full((len(controls) + 1, *start.shape), np.nan)
    path[0] = start
    going = np.arange(len(start))
    for number, control in enumerate(controls):
        found = model.predict(path[number, going], control[going], details=True)
        out = ~found.in_domain
        left[going[out & (left[going] < 0)]] = number
        following = found.next_states
        if outside == "fallback" and out.any():
            inputs = schema.wrap_inputs(path[number, going[out]], control[going[out]])
            dx = len(schema.states)
            assert trusted is not None
            following[out] = as_trusted(trusted)(inputs[:, :dx], inputs[:, dx:], schema)
        if outside == "stop" and out.any():
            going, following = going[~out], following[~out]
        path[number + 1, going] = following[:, order]
        if not len(going):
            break
    return Rollout(path, left)
