"""NumPy's ufuncs on arrays of a trace: called, reduced, accumulated."""

from __future__ import annotations

from typing import Any

import numpy as np

from tether.programs.arrays import (
    Traced,
    conform,
    constant_arguments,
    graph_of,
    is_float64,
    numbers_of,
    plain_objects,
    refuse_others,
    result_of,
    wrap,
)
from tether.programs.refusal import refuse, refuse_unsupported, remembered
from tether.programs.scalars import EXACT, RULES, Node, apply, apply_in
from tether.programs.sums import add_up, multiply_matrices, multiply_up


@remembered
def call_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """What NumPy calls for a ufunc of which an operand, or the output, is traced."""
    name, out = ufunc.__name__, options.pop("out", None)
    refuse_others(name, *inputs)
    asked = dict(options)
    if any(type(value) is np.ndarray and value.dtype == object for value in inputs):
        refuse(name, "of an array of objects is not NumPy's own", "Make it with np.array")
    if any(isinstance(value, Node) for value in inputs) and any(map(_is_short, inputs)):
        refuse(name, "of float32 and a scalar may round to float32", "Use float64")
    if options.pop("where", True) is not True:
        refuse(name, "does not take `where`", "Use np.where on the result")
    dtype = options.pop("dtype", None)
    if not is_float64(dtype) and not (ufunc in (np.logical_and, np.logical_or) and dtype in (bool, np.bool_)):
        refuse(name, "makes float64 only", "Leave `dtype` out")
    for harmless in ("casting", "order", "subok", "signature"):
        if options.pop(harmless, None) is not None and harmless == "signature":
            refuse(name, "does not take `signature`", "Leave it out")
    if method == "at":  # writes to its operand
        refuse_unsupported(f"{name}.at")
    called = ufunc if method == "__call__" else getattr(ufunc, method)
    if graph_of(*inputs) is None:  # NumPy's own values, by its own loops, in its own order
        with np.errstate(all="ignore"):
            result = called(*(constant_arguments(value, name) for value in inputs), **asked)
    else:
        operands = [plain_objects(value, name) for value in inputs]
        # Where NumPy puts the result may be another loop of its own.
        way = None if out is not None or asked else _way(ufunc, method, operands)
        with graph_of(*inputs).called(way):
            result = _called(ufunc, method, operands, options)
        result = conform(name, result, called, inputs, asked)
    return result_of(result) if out is None else _write(out, result, name)


def _way(ufunc: np.ufunc, method: str, operands: list[Any]) -> Any:
    """All that NumPy's rounding can depend on: it computes several entries at once, by their layout."""
    if method != "__call__" or ufunc in EXACT or ufunc is np.matmul:
        return None
    entries = [tuple(e.number if isinstance(e, Node) else (e,) for e in part.flat) for part in operands]
    return ufunc, *((part.shape, part.strides, own) for part, own in zip(operands, entries, strict=True))


def _is_short(value: Any) -> bool:
    return (
        isinstance(value, np.ndarray | np.floating)
        and not isinstance(value, Traced)
        and value.dtype.itemsize < 8
    )


def _called(ufunc: np.ufunc, method: str, operands: list[Any], options: dict[str, Any]) -> Any:
    if method == "__call__" and ufunc is np.matmul:
        return multiply_matrices(np.matmul, operands, options)
    if method == "__call__" and not options:
        return _elementwise(ufunc, operands)
    if method == "reduce" and ufunc in _REDUCTIONS:
        return _reduce(ufunc, *operands, **options)
    if method == "accumulate" and ufunc in (np.add, np.multiply):
        return _accumulate(ufunc, *operands, **options)
    if method == "outer" and not options:
        one, two = operands
        return _elementwise(ufunc, [np.expand_dims(one, tuple(range(-two.ndim, 0))), two])
    name = ufunc.__name__
    refuse_unsupported(name if method == "__call__" else f"{name}.{method}")


def _elementwise(ufunc: np.ufunc, operands: list[Any]) -> Any:
    if ufunc not in RULES:
        refuse_unsupported(ufunc.__name__)
    graph = graph_of(*operands)
    return np.frompyfunc(lambda *scalars: apply_in(graph, ufunc, *scalars), len(operands), 1)(*operands)


def _write(out: tuple[Any, ...], result: Any, name: str) -> Any:
    target = out[0]
    if not isinstance(target, Traced):
        instead = "Start from np.zeros or np.zeros_like(states) inside the function"
        refuse(name, "cannot write into an array of floats", instead)
    if np.shape(result) != target.shape:
        raise ValueError(f"`{name}` cannot write shape {np.shape(result)} into {target.shape}.")
    target[...] = wrap(result)
    return target


def _reduce(ufunc: np.ufunc, values: Any, axis: Any = 0, keepdims: bool = False, **options: Any) -> Any:
    name = ufunc.__name__
    if any(value is not np._NoValue and value is not None for value in options.values()):
        refuse(name, f"over entries does not take {', '.join(sorted(options))}", "Leave it out")
    if ufunc is np.add:
        return add_up(values, axis, keepdims)
    if ufunc is np.multiply:
        return multiply_up(values, axis, keepdims)
    if not values.size:
        refuse(name, "must be given entries; got none")
    fold = np.frompyfunc(lambda one, two: apply(ufunc, one, two), 2, 1)
    axes = range(values.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    values = values.copy(order="K")
    for k in sorted((int(k) % max(values.ndim, 1) for k in axes), reverse=True):
        values = fold.reduce(values, axis=k, keepdims=keepdims)
    return values


def _accumulate(ufunc: np.ufunc, values: Any, axis: int = 0, **options: Any) -> Any:
    """Running sums, which NumPy takes in order."""
    if any(value is not None for value in options.values()):
        refuse(f"{ufunc.__name__}.accumulate", "does not take options", "Leave them out")
    running = np.frompyfunc(lambda one, two: apply(ufunc, one, two), 2, 1)
    return running.accumulate(plain_objects(numbers_of(values)), axis=axis, dtype=object)


_REDUCTIONS = (np.add, np.multiply, np.minimum, np.maximum, np.logical_and, np.logical_or)
