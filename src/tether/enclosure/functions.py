"""NumPy's array functions on intervals: joining, rearranging, reducing, products of matrices."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import numpy as np

from tether.enclosure import elementary, rounding
from tether.enclosure.decision import Decision
from tether.enclosure.derivative import Derivative, union
from tether.enclosure.interval import FUNCTIONS, REDUCTIONS, UFUNCS, Interval, as_interval, select, take
from tether.enclosure.operations import divide, maximum, minimum, multiply, subtract
from tether.enclosure.refusal import refuse

# Joining --------------------------------------------------------------------------------------------


def _join(function: Callable[..., Any], arrays: Any, axis: int, axes: int) -> Interval:
    """Stack or concatenate; `axes` is the number of axes of the result."""
    parts = [as_interval(part, function.__name__, infinite=True) for part in arrays]
    axis = axis % axes
    lower, upper = (function([part.bounds[k] for part in parts], axis=axis) for k in range(2))
    columns = union([part.derivative for part in parts])
    if not columns:
        return Interval.of((lower, upper))
    spread = [_on(part, columns) for part in parts]
    ends = [function([bounds[k] for bounds in spread], axis=axis + 1) for k in range(2)]
    return Interval.of((lower, upper), Derivative(columns, (ends[0], ends[1])))


def _on(part: Interval, columns: tuple[int, ...]) -> rounding.Pair:
    if part.derivative is None:
        return rounding.point(np.zeros((len(columns), *part.shape)))
    return part.derivative.on_columns(columns).bounds


def stack(arrays: Any, axis: int = 0) -> Interval:
    """As ``np.stack``."""
    arrays = list(arrays)
    return _join(np.stack, arrays, axis, np.ndim(arrays[0]) + 1)


def concatenate(arrays: Any, axis: int | None = 0) -> Interval:
    """As ``np.concatenate``."""
    arrays = list(arrays)
    if axis is None:
        arrays, axis = [np.ravel(part) for part in arrays], 0
    return _join(np.concatenate, arrays, axis, np.ndim(arrays[0]))


def _at_least(value: Any, axes: int) -> Any:
    interval = as_interval(value, "stack", infinite=True)
    if interval.ndim >= axes:
        return interval
    index = {(0, 1): (None,), (0, 2): (None, None), (1, 2): (None, slice(None))}
    return interval[index[interval.ndim, axes]]


def vstack(arrays: Any) -> Interval:
    """As ``np.vstack``."""
    return concatenate([_at_least(part, 2) for part in arrays], axis=0)


def hstack(arrays: Any) -> Interval:
    """As ``np.hstack``."""
    parts = [_at_least(part, 1) for part in arrays]
    return concatenate(parts, axis=0 if parts[0].ndim == 1 else 1)


def column_stack(arrays: Any) -> Interval:
    """As ``np.column_stack``."""
    parts = [as_interval(part, "column_stack") for part in arrays]
    return concatenate([part[:, None] if part.ndim == 1 else part for part in parts], axis=1)


# Rearranging ----------------------------------------------------------------------------------------


def _rearrange(function: Callable[..., Any], value: Any, *arguments: Any, **options: Any) -> Any:
    """Any function that only moves entries: apply it to positions, then gather.

    Those that NumPy always makes views follow later assignments; those that are sometimes a view
    (`reshape`, `ravel`) refuse to be used after one.
    """
    value = as_interval(value, function.__name__)

    def read(base: Interval) -> Any:
        positions = function(np.arange(base.size).reshape(base.shape), *arguments, **options)
        if isinstance(positions, list | tuple):
            return [take(base, part) for part in positions]
        return take(base, positions)

    result = read(value)
    if isinstance(result, list) or function in _COPIES:
        return result
    return result.as_view(value, read if function in _VIEWS else None)


_VIEWS = (np.transpose, np.expand_dims, np.squeeze, np.swapaxes, np.moveaxis, np.rollaxis, np.flip)
_VIEWS += (np.atleast_1d, np.atleast_2d, np.atleast_3d, np.broadcast_to, np.diagonal)
_COPIES = (np.roll, np.repeat, np.tile, np.take, np.split, np.array_split, np.hsplit, np.vsplit)
_SOMETIMES = (np.reshape, np.ravel)


def transpose(value: Any, axes: Any = None) -> Interval:
    """As ``np.transpose``, without moving data."""
    order = tuple(range(value.ndim))[::-1] if axes is None else tuple(axis % value.ndim for axis in axes)

    def read(base: Interval) -> Interval:
        lower, upper = (bound.transpose(order) for bound in base.bounds)
        inner = (0, *(axis + 1 for axis in order))
        derivative = base.derivative and base.derivative.map(lambda bound: bound.transpose(inner))
        return Interval.of((lower, upper), derivative)

    return read(value).as_view(value, read)


def _like(fill: float | None, value: Any, *given: Any, **options: Any) -> Interval:
    """A fresh array of constants; `empty_like` is NaN until assigned, which `enclose` refuses."""
    if fill is None:
        fill, given = given[0], given[1:]
    if options.pop("dtype", None) not in (None, float, np.float64, np.dtype(np.float64)) or given:
        refuse("zeros_like", "makes float64 arrays only", "Leave `dtype` out")
    shape = options.pop("shape", None)
    shape = np.shape(value) if shape is None else shape
    if fill is np.nan:
        return Interval.of(rounding.point(np.full(shape, np.nan)))
    constant = as_interval(fill, "full_like").lower
    return Interval.of(rounding.point(np.broadcast_to(constant, shape)))


# Reducing -------------------------------------------------------------------------------------------


def _axes(value: Interval, axis: Any) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(value.ndim))
    axes = axis if isinstance(axis, tuple) else (axis,)
    return tuple(sorted({int(k) % value.ndim for k in axes}, reverse=False))


def _along(
    reduction: Callable[[Interval, int], Interval], value: Any, axis: Any = None, *, keepdims: bool = False
) -> Interval:
    """Reduce over several axes, one after the other."""
    axes = _axes(value, axis)
    if len(axes) > 1:  # as one axis, so that the slack covers NumPy's order of summation
        kept = [k for k in range(value.ndim) if k not in axes]
        shape = [value.shape[k] for k in kept] + [-1]
        result = reduction(np.reshape(transpose(value, (*kept, *axes)), shape), len(kept))  # type: ignore[arg-type]
    else:
        result = reduction(value, axes[0]) if axes else value
    if not keepdims:
        return result
    index = tuple(None if k in axes else slice(None) for k in range(value.ndim))
    return result[index]


def _sum(value: Interval, axis: int) -> Interval:
    derivative = value.derivative
    if derivative is not None:
        derivative = Derivative(derivative.columns, rounding.total(derivative.bounds, axis + 1))
    return Interval.of(rounding.total(value.bounds, axis), derivative)


def _mean(value: Interval, axis: int) -> Interval:
    return divide(_sum(value, axis), float(value.shape[axis]))


def _entries(value: Interval, axis: int) -> list[Interval]:
    return [value[(slice(None),) * axis + (k,)] for k in range(value.shape[axis])]


def _product(value: Interval, axis: int) -> Interval:
    """Product; the closing inflation covers NumPy multiplying in another order."""
    result = reduce(multiply, _entries(value, axis))
    margin = value.shape[axis] * rounding.ULP
    return multiply(result, Interval.of((np.float64(1 - margin), np.float64(1 + margin))))


def _fold(operation: Callable[[Any, Any], Interval]) -> Callable[[Interval, int], Interval]:
    return lambda value, axis: reduce(operation, _entries(value, axis))


def norm(value: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Interval:
    """Euclidean norm along one axis; its slope is bounded even where the norm is 0."""
    if ord not in (None, 2) or (axis is None and value.ndim != 1) or isinstance(axis, tuple):
        refuse(
            "linalg.norm", "is bounded as the Euclidean norm along one axis only", "Give `axis` and no `ord`"
        )
    return _along(_euclidean, value, -1 if axis is None else axis, keepdims=keepdims)


def _euclidean(value: Interval, axis: int) -> Interval:
    squares = rounding.total(rounding.square(value.bounds), axis)
    bounds = elementary.root((np.maximum(squares[0], 0.0), squares[1]))
    derivative = value.derivative
    if derivative is not None:
        whole = (np.expand_dims(bounds[0], axis), np.expand_dims(bounds[1], axis))
        scaled = derivative.times(elementary.length_slope(value.bounds, whole))
        derivative = Derivative(scaled.columns, rounding.total(scaled.bounds, axis + 1))
    return Interval.of(bounds, derivative)


# Products -------------------------------------------------------------------------------------------


def matmul(one: Any, two: Any) -> Interval:
    """As ``@``, with constants on either side or between intervals."""
    left, right = as_interval(one, "matmul"), as_interval(two, "matmul")
    if not left.ndim or not right.ndim:
        raise ValueError("`matmul` must be given arrays of at least one axis; got a scalar.")
    wide = (left[None, :] if left.ndim == 1 else left, right[:, None] if right.ndim == 1 else right)
    if wide[0].shape[-1] != wide[1].shape[-2]:
        raise ValueError(f"`matmul` must be given matching shapes; got {left.shape} and {right.shape}.")
    result = _matrices(*wide)
    if right.ndim == 1:
        result = result[..., 0]
    if left.ndim == 1:
        result = result[..., 0] if right.ndim == 1 else result[..., 0, :]
    return result


def _matrices(left: Interval, right: Interval) -> Interval:
    if not isinstance(right, Interval) or _is_constant(right):
        if _is_finite(left):
            return _by_constant(left, right.lower)
    elif _is_constant(left) and _is_finite(right):
        return _swap(_by_constant(_swap(right), np.swapaxes(left.lower, -1, -2)))
    return _sum(
        multiply(left[..., :, :, None], right[..., None, :, :]), -2 % (max(left.ndim, right.ndim) + 1)
    )


def _is_constant(value: Interval) -> bool:
    return value.derivative is None and rounding.is_point(value.bounds)


def _is_finite(value: Interval) -> bool:
    parts = value.bounds + (value.derivative.bounds if value.derivative is not None else ())
    return all(bool(np.isfinite(part).all()) for part in parts)


def _swap(value: Interval) -> Interval:
    return transpose(value, (*range(value.ndim - 2), value.ndim - 1, value.ndim - 2))


def _by_constant(value: Interval, constant: Any) -> Interval:
    bounds = rounding.contract(value.bounds, constant)
    derivative = value.derivative
    if derivative is not None:
        padding = (1,) * (constant.ndim - value.ndim)
        aligned = derivative.map(lambda d: d.reshape(d.shape[0], *padding, *d.shape[1:]))
        derivative = Derivative(derivative.columns, rounding.contract(aligned.bounds, constant))
    return Interval.of(bounds, derivative)


def dot(one: Any, two: Any) -> Interval:
    """As ``np.dot`` up to two axes each."""
    if np.ndim(one) == 0 or np.ndim(two) == 0:
        return multiply(one, two)
    if np.ndim(one) > 2 or np.ndim(two) > 2:
        refuse("dot", "is bounded for at most two axes each", "Use `@`")
    return matmul(one, two)


def cross(
    one: Any, two: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: Any = None
) -> Interval:
    """As ``np.cross`` for vectors of three."""
    axes = (axis, axis, axis) if axis is not None else (axisa, axisb, axisc)
    a, b = (_components(part, k) for part, k in ((one, axes[0]), (two, axes[1])))
    parts = [
        subtract(multiply(a[(k + 1) % 3], b[(k + 2) % 3]), multiply(a[(k + 2) % 3], b[(k + 1) % 3]))
        for k in range(3)
    ]
    return stack(parts, axis=axes[2])


def _components(value: Any, axis: int) -> list[Interval]:
    interval = as_interval(value, "cross")
    if interval.shape[axis] != 3:
        refuse("cross", f"is bounded for vectors of three; got {interval.shape[axis]}", "Write it out")
    return _entries(interval, axis % interval.ndim)


# Choosing -------------------------------------------------------------------------------------------


def where(condition: Any, *branches: Any) -> Interval:
    """As ``np.where``, on a condition that is decided for every entry."""
    if len(branches) != 2:
        refuse("where", "must be given both branches", "Use np.where(condition, one, two)")
    if isinstance(condition, Interval):
        condition = condition != 0
    mask = (
        condition.decided("where") if isinstance(condition, Decision) else np.asarray(condition, dtype=bool)
    )
    one, two = (as_interval(branch, "where", infinite=True) for branch in branches)
    return select(mask, one, two)


def clip(value: Any, a_min: Any = None, a_max: Any = None, **options: Any) -> Interval:
    """As ``np.clip``."""
    low, high = options.pop("min", a_min), options.pop("max", a_max)
    if options:
        refuse("clip", f"does not take {sorted(options)}", "Leave it out")
    value = value if low is None else maximum(value, low)
    return (
        (value if isinstance(value, Interval) else as_interval(value, "clip"))
        if high is None
        else minimum(value, high)
    )


REDUCTIONS.update(
    {
        np.add: lambda value, axis=0, **options: _along(_sum, value, axis, **options),
        np.multiply: lambda value, axis=0, **options: _along(_product, value, axis, **options),
        np.minimum: lambda value, axis=0, **options: _along(_fold(minimum), value, axis, **options),
        np.maximum: lambda value, axis=0, **options: _along(_fold(maximum), value, axis, **options),
    }
)
UFUNCS[np.matmul] = matmul
FUNCTIONS.update({function: partial(_rearrange, function) for function in (*_VIEWS, *_COPIES, *_SOMETIMES)})
FUNCTIONS.update(
    {
        np.transpose: transpose,
        np.stack: stack,
        np.concatenate: concatenate,
        np.vstack: vstack,
        np.hstack: hstack,
        np.column_stack: column_stack,
        np.sum: partial(_along, _sum),
        np.mean: partial(_along, _mean),
        np.prod: partial(_along, _product),
        np.min: partial(_along, _fold(minimum)),
        np.max: partial(_along, _fold(maximum)),
        np.linalg.norm: norm,
        np.dot: dot,
        np.cross: cross,
        np.where: where,
        np.clip: clip,
        np.copy: lambda value: value.copy(),
        np.empty_like: partial(_like, np.nan),
        np.zeros_like: partial(_like, 0.0),
        np.ones_like: partial(_like, 1.0),
        np.full_like: partial(_like, None),
        np.shape: lambda value: value.shape,
        np.ndim: lambda value: value.ndim,
        np.size: lambda value: value.size,
    }
)
FUNCTIONS[np.amin], FUNCTIONS[np.amax] = FUNCTIONS[np.min], FUNCTIONS[np.max]
