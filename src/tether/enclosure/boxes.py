"""`enclose`: a model's range and derivatives over many boxes at once."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tether.enclosure.derivative import seeds
from tether.enclosure.interval import Interval, as_interval
from tether.enclosure.refusal import EnclosureError
from tether.enclosure.rounding import Array, Pair

Function = Callable[[Any, Any], Any]


@dataclass(frozen=True, eq=False)
class Range:
    """Bounds of M over each box.

    Attributes:
        lower: (K, P), at most the least value of M over each box.
        upper: (K, P), at least the greatest.
    """

    lower: Array
    upper: Array


@dataclass(frozen=True, eq=False)
class Enclosure(Range):
    """Bounds of M and of its partial derivatives over each box.

    For any points s and m of one box, ``M(s) - M(m)`` lies in ``J (s - m)``.

    Attributes:
        jacobian_lower: (K, P, D), at most the least value of each partial derivative over each box.
        jacobian_upper: (K, P, D), at least the greatest.
    """

    jacobian_lower: Array
    jacobian_upper: Array


def enclose(
    function: Function, lower: ArrayLike, upper: ArrayLike, *, states: int, splits: int = 0
) -> Enclosure:
    """Bound M and its derivatives over K boxes.

    Args:
        function: M, ``(states (K, dx), controls (K, du)) -> (K, P)``, row by row, in NumPy.
        lower: (K, D) lower corners of the boxes.
        upper: (K, D) upper corners.
        states: how many of the D inputs are states (dx); the rest are controls.
        splits: how many times to halve each box, along the input that widens M's first-order
            model most there; the result is the hull over its ``2**splits`` parts. Boxes over which
            the derivative is constant are not halved.

    Returns:
        The enclosure over each box.

    Raises:
        EnclosureError: M uses an operation that cannot be bounded over a box.
        ValueError: corners are not finite, not ordered, or of different shapes.
    """
    low, high = _check_boxes(lower, upper, states)
    if splits < 0:
        raise ValueError(f"`splits` must be 0 or more; got {splits}.")
    whole = _enclose_once(function, low, high, states)
    return _split(function, (low, high), whole, states, splits) if splits else whole


def enclose_range(function: Function, lower: ArrayLike, upper: ArrayLike, *, states: int) -> Range:
    """Bound M over K boxes, without derivatives; arguments as for `enclose`."""
    low, high = _check_boxes(lower, upper, states)
    result = _call(function, Interval.of((low, high)), states)
    return Range(*(np.array(bound) for bound in result.bounds))


def _check_boxes(lower: ArrayLike, upper: ArrayLike, states: int) -> Pair:
    boxes = Interval(lower, upper)
    if boxes.ndim != 2:
        raise ValueError(f"`lower` must have shape (K, D); got {boxes.shape}.")
    if not 0 <= states <= boxes.shape[1]:
        raise ValueError(f"`states` must lie between 0 and {boxes.shape[1]} inputs; got {states}.")
    return np.asfortranarray(boxes.lower), np.asfortranarray(boxes.upper)  # columns in one piece


def _call(function: Function, inputs: Interval, states: int) -> Interval:
    try:
        result = function(inputs[:, :states].copy(), inputs[:, states:].copy())
    except (EnclosureError, ValueError):
        raise
    except (Exception, SystemExit) as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        raise EnclosureError(
            f"`function` must not raise when called on boxes; got {type(error).__name__}: {error} at "
            f"{Path(frame.filename).name}:{frame.lineno}. Use NumPy functions on the arrays alone."
        ) from error
    if isinstance(result, list | tuple):
        raise EnclosureError(
            f"`function` must return an array (K, P); got {type(result).__name__}. Use np.stack."
        )
    result = as_interval(result, "function")
    if result.ndim != 2 or len(result) != len(inputs):
        raise ValueError(
            f"`function` must return shape ({len(inputs)}, P); got {result.shape}. Use np.stack(..., axis=1)."
        )
    _refuse_nan(result)
    return result


def _refuse_nan(result: Interval) -> None:
    unknown = np.isnan(result.lower) | np.isnan(result.upper)
    if unknown.any():
        row, output = np.argwhere(unknown)[0]
        raise EnclosureError(
            f"`function` must assign every output; output {output} of row {row} was never assigned. "
            "Start from np.zeros_like(states)."
        )


def _enclose_once(function: Function, lower: Array, upper: Array, states: int) -> Enclosure:
    rows, inputs = lower.shape
    result = _call(function, Interval.of((lower, upper), seeds(rows, range(inputs))), states)
    bounds = [np.zeros((*result.shape, inputs)) for _ in range(2)]
    derivative = result.derivative
    if derivative is not None:
        for bound, part in zip(bounds, derivative.bounds, strict=True):
            bound[..., list(derivative.columns)] = np.moveaxis(part, 0, -1)
    if np.isnan(bounds[0]).any() or np.isnan(bounds[1]).any():
        raise EnclosureError("`function` has a derivative that overflows. Use smaller boxes.")
    return Enclosure(np.array(result.lower), np.array(result.upper), *bounds)


def _split(function: Function, boxes: Pair, whole: Enclosure, states: int, splits: int) -> Enclosure:
    """Halve, enclose the parts, and take hulls; only for boxes that this can tighten."""
    gain = _widening(whole, boxes)
    chosen = np.flatnonzero(gain.max(axis=1, initial=0.0) > 1e-12)
    if not len(chosen):
        return whole
    parts, owner, enclosure = (
        (boxes[0][chosen], boxes[1][chosen]),
        np.arange(len(chosen)),
        _rows(whole, chosen),
    )
    for _ in range(splits):
        parts, owner = _halve(parts, owner, _widening(enclosure, parts))
        enclosure = _enclose_once(function, *parts, states)
    fields = {}
    for name, bound in vars(enclosure).items():
        reduce = np.maximum if name.endswith("upper") else np.minimum
        order = np.argsort(owner, kind="stable")
        hulls = reduce.reduceat(bound[order], np.arange(0, len(owner), 2**splits), axis=0)
        fields[name] = getattr(whole, name).copy()
        inner = np.minimum if name.endswith("upper") else np.maximum  # both are sound, so is their overlap
        fields[name][chosen] = inner(fields[name][chosen], hulls)
    return Enclosure(**fields)


def _rows(enclosure: Enclosure, chosen: Any) -> Enclosure:
    return Enclosure(**{name: bound[chosen] for name, bound in vars(enclosure).items()})


def _widening(enclosure: Enclosure, boxes: Pair) -> Array:
    """Per box and input (K, D): its share in the width of the first-order model, worst over outputs."""
    with np.errstate(all="ignore"):
        doubt = (enclosure.jacobian_upper - enclosure.jacobian_lower) * (boxes[1] - boxes[0])[:, None, :]
        size = np.maximum(np.abs(enclosure.jacobian_upper), np.abs(enclosure.jacobian_lower))
        scale = (size * (boxes[1] - boxes[0])[:, None, :]).sum(axis=-1, keepdims=True)
        share = np.where(scale > 0, doubt / scale, 0.0)
    return np.nan_to_num(share, nan=1.0, posinf=1.0).max(axis=1, initial=0.0)


def _halve(parts: Pair, owner: Any, widening: Array) -> tuple[Pair, Any]:
    lower, upper = parts
    rows, widest = np.arange(len(lower)), widening.argmax(axis=1)
    middle = lower[rows, widest] / 2 + upper[rows, widest] / 2
    middle = np.clip(middle, lower[rows, widest], upper[rows, widest])
    left_upper, right_lower = upper.copy(), lower.copy()
    left_upper[rows, widest], right_lower[rows, widest] = middle, middle
    halves = (np.concatenate([lower, right_lower]), np.concatenate([left_upper, upper]))
    return halves, np.concatenate([owner, owner])
