"""Open-loop rollouts: predictions fed back as states, all start states at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tether.claims.carrying import Rule, check_carried, follow
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
def rollout(
    step: Step | Model,
    states: ArrayLike,
    controls: ArrayLike,
    *,
    schema: Schema | None = None,
    carried: Rule | None = None,
) -> Array: ...


@overload
def rollout(
    step: Model,
    states: ArrayLike,
    controls: ArrayLike,
    *,
    schema: Schema | None = None,
    outside: Edge,
    trusted: TrustedModel | Function | None = None,
    carried: Rule | None = None,
) -> Rollout: ...


def rollout(
    step: Step | Model,
    states: ArrayLike,
    controls: ArrayLike,
    *,
    schema: Schema | None = None,
    outside: Edge | None = None,
    trusted: TrustedModel | Function | None = None,
    carried: Rule | None = None,
) -> Array | Rollout:
    """Trajectories (T + 1, N, dx) from start states.

    Args:
        step: a model, or a function that makes one step: next states of states and controls.
        states: (N, dx) start states.
        controls: (T, N, du) controls to apply.
        schema: what the columns mean, for a function; a model has its own. Its outputs must advance every
            state, or `carried` says what the others follow.
        outside: what a row of a model does from the first input outside the domain on: go on (`flag`), go on
            for that step with the trusted model (`fallback`), or `stop`. A :class:`Rollout` then says which
            rows left, and at which step.
        trusted: the trusted model, for `fallback`.
        carried: where the model does not predict every state, what the others follow: a function of states
            (N, dx), controls (N, du) and predictions (N, P), angles in [-π, π), to the next values of these
            (N, dx - P), as :func:`tether.tube` takes it.
    """
    if isinstance(states, Schema):
        raise TypeError(
            "`states` must be rows of states; got a Schema. Call `rollout(model, states, controls)`; with a "
            "function, `schema=` stands behind them."
        )
    if schema is None:
        schema = _schema_of(step)
    check_carried("a rollout", schema, carried)
    start, applied = np.asarray(states, dtype=np.float64), np.asarray(controls, dtype=np.float64)
    _check_shapes(schema, start, applied)
    if outside is not None:
        return _to_the_edge(step, schema, start, applied, outside, trusted, carried)
    take = step.predict if isinstance(step, Model) else step
    trajectory = [start]
    for control in applied:
        outputs = take(trajectory[-1], control)
        trajectory.append(_next(schema, carried, trajectory[-1], control, outputs))
    return np.stack(trajectory)


def _schema_of(step: Step | Model) -> Schema:
    if not isinstance(step, Model):
        raise TypeError(
            f"`schema` must say what the columns mean where `step` is no model; got none, and "
            f"{getattr(step, '__name__', type(step).__name__)}. Pass `schema=model.schema`."
        )
    return step.schema


def _check_shapes(schema: Schema, states: Array, controls: Array) -> None:
    dx, du = len(schema.states), len(schema.controls)
    if states.ndim != 2 or states.shape[1] != dx:
        raise ValueError(f"`states` must be rows of {dx} states, (N, {dx}); got {states.shape}.")
    if controls.ndim != 3 or controls.shape[1:] != (len(states), du):
        asked = f"steps of rows of {du} controls, (T, {len(states)}, {du})"
        raise ValueError(f"`controls` must be {asked}; got {controls.shape}.")


def _next(schema: Schema, rule: Rule | None, states: Array, controls: Array, outputs: Array) -> Array:
    """(N, dx) whole next states, of predictions (N, P); a rule sees angles in [-π, π)."""
    if rule is not None:
        inputs, dx = schema.wrap_inputs(states, controls), len(schema.states)
        states, controls = inputs[:, :dx], inputs[:, dx:]
    return follow(schema, rule, states, controls, outputs)


def _to_the_edge(
    model: Step | Model,
    schema: Schema,
    start: Array,
    controls: Array,
    outside: Edge,
    trusted: TrustedModel | Function | None,
    carried: Rule | None,
) -> Rollout:
    if outside not in ("flag", "fallback", "stop"):
        raise ValueError(f"`outside` must be 'flag', 'fallback' or 'stop'; got {outside!r}.")
    if not isinstance(model, Model):
        raise TypeError(f"`step` must be a model where `outside` is given; got {type(model).__name__}.")
    if outside == "fallback" and trusted is None:
        raise ValueError("outside='fallback' must have the trusted model; got none. Pass `trusted=M`.")
    left = np.full(len(start), -1)
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
        path[number + 1, going] = _next(schema, carried, path[number, going], control[going], following)
        if not len(going):
            break
    return Rollout(path, left)
