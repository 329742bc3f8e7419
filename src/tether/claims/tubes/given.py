"""What a tube is given: starts and controls in whatever form, checked once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tether.claims.tubes.controls import Boxed, Controls, Feedback
from tether.data import Array, Schema, check_known, check_matrix
from tether.foundation.limits import check_whole
from tether.programs import EnclosureError, program_of
from tether.trusted.rules import of_states

MOST_STEPS = 100_000

Limited = Mapping[str, float | tuple[float, float]]
Start = ArrayLike | tuple[ArrayLike, ArrayLike] | Limited
Policy = Callable[[Array], ArrayLike]


def starts_of(start: Any, schema: Schema) -> tuple[Array, Array, bool]:
    """(N, dx) boxes, and whether several were asked for."""
    if isinstance(start, Mapping):
        start = _by_name("start", start, schema.states)
    if isinstance(start, tuple) and len(start) == 2 and np.ndim(start[0]) >= 1:
        ends = [np.asarray(end, dtype=np.float64) for end in start]
        many = max(end.ndim for end in ends) == 2
        rows = (end.reshape(1, -1) if end.ndim < 2 else end for end in ends)
        low, high = _alike(*(check_matrix("start", end, schema.states) for end in rows))
    else:
        many = np.ndim(start) == 2
        low = high = check_matrix("start", np.atleast_2d(np.asarray(start)), schema.states)
    if (low > high).any():
        raise ValueError("`start` must have lower ends of at most the upper ones; got others. Swap them.")
    if not len(low):
        raise ValueError("`start` must have at least one row; got none.")
    return np.array(low), np.array(high), many


def _alike(low: Array, high: Array) -> tuple[Array, Array]:
    """Of one shape; NumPy's own takes microseconds to see that they are."""
    if low.shape == high.shape:
        return low, high
    low, high = np.broadcast_arrays(low, high)
    return low, high


def _by_name(option: str, given: Limited, columns: tuple[str, ...]) -> tuple[Array, Array]:
    check_known(option, given, "columns", columns)
    missing = [name for name in columns if name not in given]
    if missing:
        raise ValueError(
            f"`{option}` must say where every column is; got nothing for {', '.join(missing)}. Add a "
            "value or limits for each."
        )
    ends = [given[name] for name in columns]
    pairs = [end if isinstance(end, tuple | list) else (end, end) for end in ends]
    numbers = np.array(pairs, dtype=np.float64).reshape(-1, 2)
    return numbers[:, 0], numbers[:, 1]


def controls_of(controls: Any, schema: Schema, steps: int | None, box: tuple[Array, Array]) -> Controls:
    """What is applied; a policy is traced over a box."""
    count = len(schema.controls)
    if callable(controls):
        return _feedback(controls, schema, box, steps)
    if controls is None:
        if count:
            raise ValueError(f"`controls` must be given for {', '.join(schema.controls)}; got none.")
        controls = np.zeros((0,))
    if isinstance(controls, Mapping):
        controls = _by_name("controls", controls, schema.controls)
    pair = controls if isinstance(controls, tuple) and len(controls) == 2 and np.ndim(controls[0]) else None
    ends = [_sequence(end, count, steps) for end in (pair or (controls,))]
    low, high = _alike(ends[0], ends[-1])
    if (low > high).any():
        raise ValueError("`controls` must have lower ends of at most the upper ones; got others. Swap them.")
    return Boxed(low, high)


def _sequence(values: Any, count: int, steps: int | None) -> Array:
    """(N or 1, T, du)."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim == 1:
        if steps is None:
            raise ValueError("`steps` must be given where the controls are the same at each; got none.")
        check_whole("steps", steps, least=1, most=MOST_STEPS)
        each = np.empty((1, steps, len(array)))
        each[:] = array
        array = each
    array = array[None] if array.ndim == 2 else array
    if array.ndim != 3 or array.shape[2] != count:
        raise ValueError(
            f"`controls` must have shape (T, {count}), or (N, T, {count}) for N starts; got "
            f"{np.shape(values)}."
        )
    if not np.isfinite(array).all():
        raise ValueError("`controls` must be finite; got NaN or infinity.")
    return array[:, :steps]


def count_of(controls: Controls, steps: int | None) -> int:
    """How many steps."""
    if isinstance(controls, Boxed):
        if steps is not None and controls.lower.shape[1] < steps:
            raise ValueError(f"`controls` must be for {steps} steps; got {controls.lower.shape[1]}.")
        steps = controls.lower.shape[1]
    if steps is None:
        raise ValueError("`steps` must be given with feedback; got none.")
    check_whole("steps", steps, least=1, most=MOST_STEPS)
    return steps


def _feedback(policy: Any, schema: Schema, box: tuple[Array, Array], steps: int | None) -> Feedback:
    dx = len(schema.states)
    lower, upper = (end[:dx] for end in box)
    finite = np.isfinite(lower) & np.isfinite(upper)
    low, high = np.where(finite, lower, -1.0), np.where(finite, upper, 1.0)

    try:
        program = program_of(of_states(policy), low[None], high[None], dx)
    except EnclosureError as error:
        raise ValueError(f"`controls` must be a policy that can be enclosed; {error}") from None
    if len(program.tape.outputs) != len(schema.controls):
        raise ValueError(
            f"`controls` must return {len(schema.controls)} columns ({', '.join(schema.controls)}); got "
            f"{len(program.tape.outputs)}."
        )
    name = getattr(policy, "__qualname__", type(policy).__qualname__)
    angles = schema.input_angles
    ends = box[0][dx:], box[1][dx:]
    return Feedback(program, angles[:dx], angles[dx:], ends, steps or 0, name)
