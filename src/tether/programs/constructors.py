"""NumPy's functions that make arrays, for arrays that can hold nodes: those of a trace, of objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tether.programs.arrays import UNASSIGNED, Traced, conform, graph_of, is_float64, plain_objects
from tether.programs.refusal import refuse
from tether.programs.scalars import Node

_MADE = frozenset(
    {np.zeros, np.ones, np.full, np.array, np.asarray, np.asanyarray, np.ascontiguousarray,
     np.asfortranarray, np.eye, np.identity, np.c_, np.r_, np.copy, np.zeros_like, np.ones_like,
     np.full_like, "copy"}
)  # fmt: skip
"""What makes arrays that M may write into."""
_EMPTY = frozenset({np.empty, np.empty_like})


def made(function: Any, result: Any) -> Any:
    """What NumPy made of plain numbers: floats may be overwritten by nodes."""
    if function in _EMPTY and result.dtype != np.float64 and result.size:
        refuse("empty", f"must be of float64; got {result.dtype}", "Start from np.zeros")
    if result.dtype != np.float64 or not (function in _MADE or function in _EMPTY):
        return result
    array = conform("array", result.astype(object), lambda: result, (), {}).view(Traced)
    if function in _EMPTY:
        np.ndarray.fill(array, UNASSIGNED)  # itself, where assignment would make a plain float of it
    return array


def is_traced(value: Any) -> bool:
    """Whether a value is of the trace, or a list of such."""
    return (isinstance(value, Node | Traced) or value is UNASSIGNED) or (
        isinstance(value, list | tuple) and any(map(is_traced, value))
    )


def array_of(value: Any) -> Any:
    """A list of nodes as an array of the trace; anything else as it is."""
    if not isinstance(value, list | tuple) or not is_traced(value):
        return value
    return _made("array", np.array(value, dtype=object), np.array, (value,), {})


def _filled(original: Callable[..., Any]) -> Callable[..., Any]:
    def construct(*arguments: Any, **options: Any) -> Any:
        del arguments, options
        refuse(original.__name__, "must be given a shape that is known", "Use integers")

    return construct


def _full(shape: Any, fill_value: Any, dtype: Any = None, **options: Any) -> Any:
    _check_objects("full", dtype)
    if graph_of(shape) is not None or not is_traced(fill_value):
        refuse("full", "must be given a shape that is known", "Use integers")
    array = np.empty(shape, dtype=object, **options)
    array[...] = plain_objects(fill_value)
    return _made("full", array, np.full, (shape, fill_value, dtype), options)


def _converting(original: Callable[..., Any]) -> Callable[..., Any]:
    """`array` and its like: an array of the trace, from one or from a list of nodes."""
    name = original.__name__

    def convert(value: Any, dtype: Any = None, *arguments: Any, **options: Any) -> Any:
        _check_objects(name, dtype)
        if not is_float64(dtype) and np.dtype(dtype) != bool:
            refuse(name, f"must be of float64; got {dtype!r}", "Leave `dtype` out")
        result = original(value, object, *arguments, **options)
        return _made(name, result, original, (value, dtype, *arguments), options)

    return convert


def _check_objects(name: str, dtype: Any) -> None:
    if dtype is not None and np.dtype(dtype) == object:
        refuse(name, "must be of numbers; got an array of objects", "Leave `dtype` out")


def _made(name: str, result: Any, original: Any, arguments: Any, options: dict[str, Any]) -> Any:
    """An array of the trace, where NumPy says that M's is one of floats or of truth values."""
    if not _shares(result, arguments[0]):
        result = plain_objects(result)  # refuses what is no number
    return conform(name, result, original, arguments, options).view(Traced)


def _shares(result: Any, value: Any) -> bool:
    return isinstance(value, np.ndarray) and np.may_share_memory(result, value.view(np.ndarray))


def _joining(original: Any) -> Callable[..., Any]:
    """np.c_ and np.r_, given what is in their brackets."""

    def joined(key: Any) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        plain = tuple(plain_objects(part) if is_traced(part) else part for part in parts)
        result = plain_objects(original[plain if isinstance(key, tuple) else plain[0]])

        def join(*given: Any) -> Any:
            return original[given if isinstance(key, tuple) else given[0]]

        return conform("c_", result, join, parts, {}).view(Traced)

    return joined


CONSTRUCTORS: dict[Any, Callable[..., Any]] = {
    np.full: _full,
    np.array: _converting(np.array),
    np.asarray: _converting(np.asarray),
    np.asanyarray: _converting(np.asanyarray),
    np.ascontiguousarray: _converting(np.ascontiguousarray),
    np.asfortranarray: _converting(np.asfortranarray),
    np.c_: _joining(np.c_),
    np.r_: _joining(np.r_),
    **{maker: _filled(maker) for maker in (np.zeros, np.ones, np.empty, np.eye, np.identity)},
}
"""What is done where a node is among the arguments, by the function."""
