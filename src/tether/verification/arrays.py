"""NumPy arrays of :class:`Number`, on which a user's NumPy code runs as it stands."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tether.verification import numbers
from tether.verification.numbers import Number, as_number
from tether.verification.spans import UNARY, UnboundedError

_SCALAR: dict[str, Callable[..., Any]] = {
    "add": lambda one, two: as_number(one) + two,
    "subtract": lambda one, two: as_number(one) - two,
    "multiply": lambda one, two: as_number(one) * two,
    "divide": lambda one, two: as_number(one) / two,
    "negative": lambda one: -as_number(one),
    "positive": as_number,
    "conjugate": as_number,
    "power": lambda one, two: as_number(one) ** two,
    "float_power": lambda one, two: as_number(one) ** two,
    "remainder": lambda one, two: as_number(one) % two,
    "floor_divide": lambda one, two: as_number(one) // two,
    "minimum": numbers.minimum,
    "fmin": numbers.minimum,
    "maximum": numbers.maximum,
    "fmax": numbers.maximum,
    "clip": lambda one, low, high: numbers.minimum(numbers.maximum(one, low), high),
    "arctan2": numbers.angle,
    "hypot": lambda one, two: numbers.length([one, two]),
} | {name: partial(numbers.unary, name) for name in UNARY}
_COMPARISON: dict[str, Callable[[Any, Any], bool]] = {
    "less": lambda one, two: as_number(one) < two,
    "less_equal": lambda one, two: as_number(one) <= two,
    "greater": lambda one, two: as_number(one) > two,
    "greater_equal": lambda one, two: as_number(one) >= two,
    "equal": lambda one, two: as_number(one) == two,
    "not_equal": lambda one, two: as_number(one) != two,
}
_REDUCED = ("add", "multiply", "minimum", "maximum")


def _method(name: str) -> Callable[[Number], Number]:
    return lambda number: numbers.unary(name, number)


# Where an array has become a plain one of objects, NumPy looks for methods of these names.
for _name in UNARY:
    setattr(Number, _name, _method(_name))
setattr(Number, "arctan2", numbers.angle)  # noqa: B010
setattr(Number, "hypot", lambda one, two: numbers.length([one, two]))  # noqa: B010


class NumberArray(np.ndarray):
    """An object array of numbers; whatever it does not know by name raises instead of guessing."""

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        name, out = ufunc.__name__, options.pop("out", None)
        plain = [_plain(value) for value in inputs]
        options = {key: value for key, value in options.items() if key not in ("dtype", "casting", "subok")}
        if method == "__call__" and options.get("where", True) is True:
            result = _call(name, plain)
        elif method == "reduce" and name in _REDUCED:
            result = _reduce(name, plain[0], **options)
        else:
            raise UnboundedError(f"np.{name} used as `{method}`")
        if out is None:
            return _wrapped(result)
        out[0].view(np.ndarray)[...] = result
        return out[0]

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func is np.linalg.norm:
            return _norm(*args, **kwargs)
        return super().__array_function__(func, types, args, kwargs)


def _plain(value: Any) -> np.ndarray:
    if isinstance(value, Number):
        whole = np.empty((), dtype=object)
        whole[()] = value
        return whole
    return np.asarray(value).view(np.ndarray).astype(object, copy=False)


def _wrapped(result: Any) -> Any:
    if isinstance(result, np.ndarray) and result.dtype == object:
        return result.view(NumberArray)
    return result


def _call(name: str, inputs: list[np.ndarray]) -> Any:
    if name == "matmul":
        return np.matmul(*inputs)
    if name in _COMPARISON:
        return np.asarray(np.frompyfunc(_COMPARISON[name], 2, 1)(*inputs)).astype(bool)
    if name not in _SCALAR:
        raise UnboundedError(f"np.{name}, which has no rule here")
    return np.frompyfunc(_SCALAR[name], len(inputs), 1)(*inputs)


def _reduce(name: str, values: np.ndarray, axis: Any = 0, keepdims: bool = False, **options: Any) -> Any:
    """A fold along each axis in turn."""
    if options.pop("initial", np._NoValue) is not np._NoValue or options.pop("where", True) is not True:
        raise UnboundedError(f"np.{name}.reduce with options")
    axes = range(values.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    for k in sorted((int(k) % values.ndim for k in axes), reverse=True):
        parts = list(np.moveaxis(values, k, 0))
        if not parts:
            raise UnboundedError(f"np.{name} over nothing")
        total = parts[0]
        for part in parts[1:]:
            total = _call(name, [_plain(total), _plain(part)])
        values = _plain(total)
        values = np.expand_dims(values, k) if keepdims else values
    return values if values.ndim else values[()]


def _norm(values: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    if ord not in (None, 2) or isinstance(axis, tuple) or (axis is None and values.ndim != 1):
        raise UnboundedError("np.linalg.norm other than the Euclidean one along one axis")
    axis = -1 if axis is None else axis
    rows = np.moveaxis(_plain(values), axis, -1)
    lengths = np.empty(rows.shape[:-1], dtype=object)
    for place in np.ndindex(lengths.shape):
        lengths[place] = numbers.length(list(rows[place]))
    result = np.expand_dims(lengths, axis) if keepdims else lengths
    return _wrapped(result) if result.ndim else result[()]


def evaluate(function: Callable[..., Any], boxes: list[list[Number]], states: int) -> list[list[Number]]:
    """M over boxes, given as one number for each of the inputs; one number for each output of each box.

    Raises:
        UnboundedError: where it cannot be bounded.
    """
    inputs = np.empty((len(boxes), len(boxes[0])), dtype=object)
    for k, box in enumerate(boxes):
        inputs[k] = box
    inputs = inputs.view(NumberArray)
    try:
        outputs = np.asarray(function(inputs[:, :states].copy(), inputs[:, states:].copy()), dtype=object)
        return [[as_number(value) for value in row] for row in outputs]
    except UnboundedError:
        raise
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        # NumPy comes back here for every operation: the line that matters is the last one of the user's.
        outer = [f for f in frames if "numpy" not in Path(f.filename).parts and f.filename != __file__]
        frame = (outer or frames)[-1]
        raise UnboundedError(
            f"{type(error).__name__}: {error} at {Path(frame.filename).name}:{frame.lineno}"
        ) from error
