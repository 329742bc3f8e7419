"""While a trace runs: constructors whose arrays can hold nodes, and the functions of :mod:`math` on nodes.

``np.zeros`` makes floats, which cannot hold a node, and ``math.sin`` wants a float, which a node is not. So
for as long as the trace runs, M and the functions of the user's that it can reach see other modules by the
names `np` and `math`, and other functions by names imported from there. The modules themselves stay as they
are.
"""

from __future__ import annotations

import math
import sys
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from numbers import Number
from typing import Any

import numpy as np

from tether.programs import functions as _functions  # noqa: F401 (names what is replaced below)
from tether.programs import graph as codes
from tether.programs.arrays import UNASSIGNED, Traced, graph_of, plain_objects, wrap
from tether.programs.refusal import refuse
from tether.programs.scalars import Node, apply, as_number, is_condition, make

_FOREIGN = frozenset({"numpy", "scipy", "torch", "numba", "joblib", "matplotlib"})
_LOCK = threading.RLock()
_EMPTY, _ARRAY = np.empty, np.array
_tracing_thread = 0


@contextmanager
def tracing_constructors(function: Any) -> Iterator[None]:
    """Replaces them in NumPy, in :mod:`math`, and in the globals of `function` and what it calls."""
    global _tracing_thread
    with _LOCK:
        before, _tracing_thread = _tracing_thread, threading.get_ident()
        replaced: list[tuple[dict[str, Any], str, Any]] = []
        try:
            for names in _reachable_globals(function):
                _replace(names, replaced)
            yield
        finally:
            _tracing_thread = before
            for names, name, value in replaced:
                names[name] = value


def _replace(names: dict[str, Any], replaced: list[tuple[dict[str, Any], str, Any]]) -> None:
    """Puts ours in the place of NumPy's and math's in the names of a module, and notes what was there."""
    for name, value in list(names.items()):
        ours = _ours(value)
        if ours is not value:
            replaced.append((names, name, value))
            names[name] = ours


def _ours(value: Any) -> Any:
    if value is np or value is math or value is np.linalg:
        return _Proxy(value)
    return _KNOWN.get(id(value), value)


class _Proxy:
    """A module as M sees it; everybody else, compiled code included, sees the module itself."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return _ours(getattr(self._module, name))


def _reachable_globals(function: Any) -> list[dict[str, Any]]:
    """Globals of M and of all functions of the user's that it names, and those name in turn."""
    found: dict[int, dict[str, Any]] = {}
    waiting: list[Any] = [function]
    seen: set[int] = set()
    while waiting and len(seen) < 10_000:
        item = waiting.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, partial):
            waiting += [item.func, *item.args, *item.keywords.values()]
        elif isinstance(item, types.MethodType):
            waiting += [item.__func__, item.__self__]
        elif isinstance(item, types.FunctionType):
            waiting += [cell.cell_contents for cell in item.__closure__ or () if _filled(cell)]
            waiting.append(getattr(item, "__wrapped__", None))
            if _is_users(item.__module__):
                found[id(item.__globals__)] = item.__globals__
                waiting += _named(item.__code__, item.__globals__)
        elif isinstance(item, type) and _is_users(item.__module__):
            waiting += [part for part in vars(item).values() if isinstance(part, types.FunctionType)]
        elif not isinstance(item, type) and _is_users(type(item).__module__) and callable(item):
            waiting.append(type(item))
            waiting += [value for value in getattr(item, "__dict__", {}).values() if callable(value)]
    return list(found.values())


def _named(code: types.CodeType, names: dict[str, Any]) -> list[Any]:
    """What the names in a piece of code stand for, those of its own functions and of modules included."""
    values = [names[name] for name in code.co_names if name in names]
    for module in [
        value for value in values if isinstance(value, types.ModuleType) and _is_users(value.__name__)
    ]:
        values += [getattr(module, name) for name in code.co_names if hasattr(module, name)]
    for part in code.co_consts:
        if isinstance(part, types.CodeType):
            values += _named(part, names)
    return values


def _filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _is_users(module: str | None) -> bool:
    name = module or ""
    root = name.partition(".")[0]
    if root == "tether":
        return not name.startswith("tether.programs")
    return root not in _FOREIGN and (root not in sys.stdlib_module_names or root == "__main__")


def _by_users() -> bool:
    """Whether the code that called a replaced function is the user's, and in the thread that traces."""
    if threading.get_ident() != _tracing_thread:
        return False
    return _is_users(sys._getframe(2).f_globals.get("__name__"))


# NumPy's constructors ---------------------------------------------------------------------------------


def _filling(original: Callable[..., Any], fill: Any) -> Callable[..., Any]:
    @wraps(original)
    def construct(*arguments: Any, **options: Any) -> Any:
        dtype = options.get("dtype", arguments[1] if len(arguments) > 1 else None)
        if not _by_users() or not _holds_floats(dtype):
            return original(*arguments, **options)
        given = [*arguments[:1], object, *arguments[2:]] if len(arguments) > 1 else arguments
        array = original(*given, **({**options, "dtype": object} if len(arguments) < 2 else options))
        array.fill(fill)  # itself, where assignment would make a plain float of it
        return array.view(Traced)

    return construct


def _holds_floats(dtype: Any) -> bool:
    try:
        return dtype is None or np.dtype(dtype) in (np.dtype(np.float64), np.dtype(object))
    except TypeError:
        return False


@wraps(np.full)
def _full(shape: Any, fill_value: Any, dtype: Any = None, **options: Any) -> Any:
    graph = graph_of(fill_value)
    whole = dtype is None and graph is None and np.asarray(fill_value).dtype.kind != "f"
    if not _by_users() or not _holds_floats(dtype) or whole:
        return _full.__wrapped__(shape, fill_value, dtype, **options)  # type: ignore[attr-defined]
    array = _EMPTY(shape, dtype=object, **options)
    filled = wrap(plain_objects(fill_value))
    array[...] = np.frompyfunc(as_number, 1, 1)(filled.view(np.ndarray))
    return array.view(Traced)


def _converting(original: Callable[..., Any]) -> Callable[..., Any]:
    """`array` and its like: an array of the trace, from one or from what makes a fresh one of floats."""

    @wraps(original)
    def convert(value: Any, dtype: Any = None, *arguments: Any, **options: Any) -> Any:
        if not _by_users():
            return original(value, dtype, *arguments, **options)
        if graph_of(value) is None and not isinstance(value, Traced):
            result = original(value, dtype, *arguments, **options)
            fresh = not (isinstance(value, np.ndarray) and np.may_share_memory(result, value))
            if type(result) is np.ndarray and result.dtype == object:  # of constants of the trace
                return _settled(result)
            plain = fresh and type(result) is np.ndarray and result.dtype == np.float64
            return result.astype(object).view(Traced) if plain else result
        result = original(value, object, *arguments, **options)
        if dtype is not None and not _holds_floats(dtype):
            return result.view(Traced).astype(dtype)
        return _settled(result) if isinstance(result, np.ndarray) else result

    return convert


def _settled(result: Any) -> Any:
    """Mixed conditions and numbers become numbers, as in an array of floats."""
    for value in result.flat:
        if not isinstance(value, Node | Number | np.bool_):
            refuse("array", f"must be given numbers in rows of one length; got {type(value).__name__}")
    if len({is_condition(value) for value in result.flat}) == 2:
        result[...] = np.frompyfunc(as_number, 1, 1)(result.view(np.ndarray))
    return result.view(Traced)


def _square(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def construct(*arguments: Any, **options: Any) -> Any:
        result = original(*arguments, **options)
        return result.astype(object).view(Traced) if _by_users() and result.dtype == np.float64 else result

    return construct


def _listed(original: Callable[..., Any]) -> Callable[..., Any]:
    """A function of one array-like: a list of nodes is made an array of the trace first."""

    @wraps(original)
    def call(value: Any, *arguments: Any, **options: Any) -> Any:
        if isinstance(value, list | tuple) and graph_of(value) is not None:
            value = _settled(_ARRAY(value, dtype=object))  # type: ignore[attr-defined]
        return original(value, *arguments, **options)

    return call


class _Joiner:
    """np.c_ and np.r_, whose result is traced."""

    def __init__(self, original: Any) -> None:
        self.original = original

    def __getitem__(self, key: Any) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        plain = tuple(plain_objects(part) if isinstance(part, Node | Traced) else part for part in parts)
        result = self.original[plain if isinstance(key, tuple) else plain[0]]
        return _settled(result) if result.dtype == object else result

    def __len__(self) -> int:
        return 0


# math -------------------------------------------------------------------------------------------------


def _mathematical(original: Callable[..., Any], ufunc: np.ufunc) -> Callable[..., Any]:
    @wraps(original)
    def call(*arguments: Any) -> Any:
        if not any(isinstance(argument, Node | Traced) for argument in arguments):
            return original(*arguments)
        return apply(ufunc, *map(_scalar, arguments))

    return call


def _scalar(value: Any) -> Any:
    if isinstance(value, Traced):
        if value.size != 1:
            refuse(
                "math", f"must be given scalars; got an array of shape {value.shape}", "Use NumPy's function"
            )
        return value.reshape(-1)[0]
    return value


@wraps(math.hypot)
def _hypot(*parts: Any) -> Any:
    graph = graph_of(*map(_scalar, parts))
    if graph is None:
        return _hypot.__wrapped__(*parts)  # type: ignore[attr-defined]
    scalars = [as_number(_scalar(part)) for part in parts]
    return (
        apply(np.hypot, *scalars)
        if len(parts) == 2
        else make(graph, codes.NORM, *scalars, value=len(parts) + 8.0)
    )


@wraps(math.log)
def _log(value: Any, *base: Any) -> Any:
    if graph_of(value, *base) is None:
        return _log.__wrapped__(value, *base)  # type: ignore[attr-defined]
    result = apply(np.log, _scalar(value))
    return apply(np.divide, result, apply(np.log, _scalar(base[0]))) if base else result


_MATH = {
    "sqrt": np.sqrt, "exp": np.exp, "expm1": np.expm1, "log1p": np.log1p, "log2": np.log2, "log10": np.log10,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "atan2": np.arctan2, "pow": np.power, "fabs": np.absolute, "floor": np.floor,
    "ceil": np.ceil, "trunc": np.trunc, "degrees": np.rad2deg, "radians": np.deg2rad, "exp2": np.exp2,
    "cbrt": np.cbrt,
}  # fmt: skip
_REPLACED: list[tuple[Any, Any]] = [
    (np.zeros, _filling(np.zeros, 0.0)),
    (np.ones, _filling(np.ones, 1.0)),
    (np.empty, _filling(np.empty, UNASSIGNED)),
    (np.full, _full),
    (np.array, _converting(np.array)),
    (np.asarray, _converting(np.asarray)),
    (np.asanyarray, _converting(np.asanyarray)),
    (np.ascontiguousarray, _converting(np.ascontiguousarray)),
    (np.asfortranarray, _converting(np.asfortranarray)),
    (np.eye, _square(np.eye)),
    (np.identity, _square(np.identity)),
    (np.c_, _Joiner(np.c_)),
    (np.r_, _Joiner(np.r_)),
    (np.linalg.norm, _listed(np.linalg.norm)),
    *(
        (function, _listed(function))
        for function in (np.sum, np.mean, np.prod, np.min, np.max, np.any, np.all)
    ),
    (math.hypot, _hypot),
    (math.log, _log),
    *((getattr(math, name), _mathematical(getattr(math, name), ufunc)) for name, ufunc in _MATH.items()),
]
_KNOWN = {id(old): new for old, new in _REPLACED}
