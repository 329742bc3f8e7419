"""Names of NumPy and math that make arrays or take scalars, replaced while M is traced.

``np.zeros`` and its like would make plain float64 arrays, into which no term can be put; ``math.sin`` takes
plain numbers only. They are exchanged in the globals of the user's functions, where the names of the
modules are bound to stand-ins, for the thread that traces, and put back whatever happens. The modules
themselves are left alone: compiled code that looks a name up there must find NumPy's own.
"""

from __future__ import annotations

import builtins
import math
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from tether.verification import reductions as _reductions  # noqa: F401 (fills the tables)
from tether.verification.arrays import (
    CURRENT,
    FUNCTIONS,
    STRUCTURE,
    TermArray,
    checked,
    is_condition,
    is_float64,
    make_array,
    numbers,
    objects,
    plain,
    refuse_others,
    wrapped,
)
from tether.verification.graph import ASARRAY, Graph, Term, called_by_user, numpys, pythons
from tether.verification.operations import apply, length, total

_LOCK = threading.RLock()
_FOREIGN = {"numpy", "scipy", "torch", "flint", "joblib", "numba", "pytest", "_pytest"}
_MATH = {
    "sin": "sin", "cos": "cos", "tan": "tan", "asin": "arcsin", "acos": "arccos", "atan": "arctan",
    "atan2": "arctan2", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh", "exp": "exp", "expm1": "expm1", "exp2": "exp2", "log1p": "log1p", "log2": "log2",
    "log10": "log10", "sqrt": "sqrt", "cbrt": "cbrt", "fabs": "fabs",
    "fmod": "fmod", "pow": "power", "copysign": "copysign", "radians": "deg2rad",
    "degrees": "rad2deg",
}  # fmt: skip


_UNKNOWN = ("frombuffer", "fromiter", "require", "asarray_chkfinite")
"""What takes an array apart without asking it."""


def _order(graph: Graph, order: Any = "C", device: Any = None, like: Any = None) -> Any:
    if device is not None or like is not None:
        graph.refuse("an array made with `device` or `like`")
    return order


def _refusing(graph: Graph, original: Any) -> Callable[..., Any]:
    def make(*args: Any, **options: Any) -> Any:
        if has_terms(args) or has_terms(tuple(options.values())):
            graph.refuse(f"np.{original.__name__}, which has no rule here")
        return original(*args, **options)

    return make


def _makers(graph: Graph) -> dict[str, Callable[..., Any]]:
    """Replacements of NumPy's functions that make arrays, by name."""

    def filled(entry: Callable[[], Any], original: Any) -> Callable[..., Any]:
        def make(shape: Any, dtype: Any = None, *args: Any, **options: Any) -> Any:
            if not is_float64(dtype):
                return original(shape, dtype, *args, **options)
            result = np.ndarray(shape, dtype=object, order=_order(graph, *args, **options))
            result[...] = entry()
            return wrapped(graph, result)

        return make

    def full(shape: Any, fill_value: Any, dtype: Any = None, *args: Any, **options: Any) -> Any:
        if not is_float64(dtype) or (dtype is None and ASARRAY(fill_value).dtype.kind not in "fO"):
            return _FULL(shape, fill_value, dtype, *args, **options)
        if dtype is None and has_terms(fill_value) and is_condition(fill_value):
            graph.refuse("np.full of truth values")
        result = np.ndarray(shape, dtype=object, order=_order(graph, *args, **options))
        result[...] = numbers(plain(graph, checked(graph, fill_value)))
        return wrapped(graph, result)

    def eye(*args: Any, **options: Any) -> Any:
        made = _EYE(*args, **options)
        return wrapped(graph, objects(made)) if made.dtype == np.float64 else made

    def identity(n: int, dtype: Any = None) -> Any:
        return eye(n, dtype=dtype or float)

    return {
        "zeros": filled(lambda: np.float64(0.0), np.zeros),
        "ones": filled(lambda: np.float64(1.0), np.ones),
        "empty": filled(lambda: Term(graph, graph.add("unset")), np.empty),
        "full": full,
        "eye": eye,
        "identity": identity,
    } | {name: _refusing(graph, getattr(np, name)) for name in _UNKNOWN}


def _converters(graph: Graph) -> dict[str, Callable[..., Any]]:
    """Replacements of ``np.array`` and its relatives."""

    def converter(original: Any, copies: bool, order_of: Any = None, least: int = 0) -> Callable[..., Any]:
        def convert(value: Any, dtype: Any = None, *args: Any, **options: Any) -> Any:
            value, copy = known_kind(graph, value), options.pop("copy", copies)
            copy = bool(copy)  # None: where it must be
            depth, order = options.pop("ndmin", least), options.pop("order", order_of)
            _ = options.pop("subok", None)
            if args or options:
                if has_terms(value):
                    graph.refuse("a conversion of an array with options")
                return original(value, dtype, *args, **options)
            if not is_float64(dtype):
                if has_terms(value) and np.dtype(dtype).kind != "b":
                    graph.refuse(f"a conversion to {np.dtype(dtype)}")
                return original(value, dtype)
            if dtype is not None and not has_terms(value):
                value = original(value, np.float64)
            made = make_array(graph, value)
            if isinstance(made, TermArray):
                kind = bool if dtype is None and made.size and is_condition(made) else np.float64
                made = made.astype(kind, order or "K", copy=copy and made is value)
            else:
                made = _ARRAY(made, copy=True if copy and made is value else None, order=order or "K")
            while np.ndim(made) < depth:
                made = made[None]
            return made

        return convert

    names = {"array": True, "asarray": False, "asanyarray": False}
    made = {name: converter(getattr(np, name), copies) for name, copies in names.items()}
    made["ascontiguousarray"] = converter(np.ascontiguousarray, False, "C", 1)
    made["asfortranarray"] = converter(np.asfortranarray, False, "F", 0)
    return made


_ARRAY, _FULL, _EYE = np.array, np.full, np.eye


def has_terms(value: Any) -> bool:
    """Whether an argument holds a term or an array that may."""
    if isinstance(value, list | tuple):
        return any(map(has_terms, value))
    return type(value) is Term or isinstance(value, TermArray)


class _StandIn:
    """What M sees in the place of a function: it compares, hashes and prints as that does."""

    def __init__(self, original: Any) -> None:
        self._original = original
        self.__name__, self.__doc__ = getattr(original, "__name__", ""), original.__doc__

    def __eq__(self, other: object) -> Any:
        return self._original == (other._original if isinstance(other, _StandIn) else other)

    def __hash__(self) -> int:
        return hash(self._original)

    def __repr__(self) -> str:
        return repr(self._original)

    def __str__(self) -> str:
        return str(self._original)

    def __format__(self, specification: str) -> str:
        return format(self._original, specification)


class _Ufunc(_StandIn):
    """A ufunc that makes an array of terms of a list of them, which NumPy would make a plain one of."""

    def __init__(self, graph: Graph, ufunc: np.ufunc) -> None:
        super().__init__(ufunc)
        self._graph = graph

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self._original(*(_array_of(self._graph, value) for value in args), **options)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._original, name)
        if name not in ("reduce", "accumulate", "outer", "reduceat", "at"):
            return value
        return lambda *args, **options: value(*(_array_of(self._graph, part) for part in args), **options)


class _Function(_StandIn):
    """A function of the user's thread; NumPy's own code, and other threads, get the original."""

    def __init__(self, original: Any, function: Callable[..., Any]) -> None:
        super().__init__(original)
        self._function, self._thread = function, threading.get_ident()

    def __call__(self, *args: Any, **options: Any) -> Any:
        own = threading.get_ident() == self._thread and called_by_user()
        return (self._function if own else self._original)(*args, **options)


def known_kind(graph: Graph, value: Any) -> Any:
    """What NumPy is given; lists and tuples of derived kinds as NumPy reads them.

    Sound because NumPy takes apart, without asking, whatever has entries and is none of these.
    """
    if type(value) is Term or isinstance(value, np.ndarray | np.generic | str | range | type):
        return value
    kind = type(value)
    if any(hasattr(kind, name) for name in _ARRAYS):
        graph.refuse(f"a {kind.__name__}, of which NumPy makes an array by itself")
    if isinstance(value, tuple | list):
        parts = [known_kind(graph, part) for part in value]
        if kind in (tuple, list) and all(one is two for one, two in zip(parts, value, strict=True)):
            return value
        return tuple(parts) if isinstance(value, tuple) else parts
    if any(hasattr(kind, name) for name in _ENTRIES):
        graph.refuse(f"a {kind.__name__}, of which NumPy makes an array by itself")
    return value


_ARRAYS = ("__array__", "__array_interface__", "__array_struct__", "__array_ufunc__", "__array_function__")
_ENTRIES = ("__getitem__", "__len__", "__iter__", "__buffer__")


def _array_of(graph: Graph, value: Any) -> Any:
    value = known_kind(graph, value)
    return make_array(graph, value) if isinstance(value, list | tuple) and has_terms(value) else value


def _takers(graph: Graph, module: Any) -> dict[str, Callable[..., Any]]:
    """Functions that compute or move, with lists of terms made arrays of them."""

    def taker(original: Any) -> Callable[..., Any]:
        def take(*args: Any, **options: Any) -> Any:
            args = tuple(_array_of(graph, value) for value in args)
            return original(*args, **{key: _array_of(graph, value) for key, value in options.items()})

        return take

    def checker(original: Any) -> Callable[..., Any]:
        def check(*args: Any, **options: Any) -> Any:
            given = {key: known_kind(graph, value) for key, value in options.items()}
            return original(*(known_kind(graph, value) for value in args), **given)

        return check

    found: dict[str, Callable[..., Any]] = {}
    for name, value in vars(module).items():
        if isinstance(value, np.ufunc):
            found[name] = _Ufunc(graph, value)
        elif isinstance(value, type(np.sum) | FunctionType) and not name.startswith("_"):
            found[name] = taker(value) if value in _TAKERS else checker(value)
    return found


_JOINERS = {np.stack, np.concatenate, np.vstack, np.hstack, np.dstack, np.column_stack, np.block, np.meshgrid}
_TAKERS = ({value for value in FUNCTIONS if not isinstance(value, tuple)} | STRUCTURE) - _JOINERS
_NONE = object()


def _type_of(*args: Any) -> Any:
    """`type` of terms: what M's own numbers and arrays are."""
    if len(args) == 1 and type(args[0]) is Term:
        return np.bool_ if args[0].boolean else np.float64
    return np.ndarray if len(args) == 1 and isinstance(args[0], TermArray) else type(*args)


def _scalars(graph: Graph) -> dict[str, Callable[..., Any]]:
    """Replacements of math's functions, by name."""

    def replaced(original: Any, name: str) -> Callable[..., Any]:
        def function(*values: Any) -> Any:
            values = tuple(_alone(value) for value in values)
            if not any(type(v) is Term for v in values):
                return original(*values)
            refuse_others(graph, values)
            return pythons(apply(name, *values))

        return function

    def hypot(*values: Any) -> Any:
        values = tuple(_alone(value) for value in values)
        return pythons(length(graph, list(values))) if has_terms(values) else _HYPOT(*values)

    def log(value: Any, base: Any = math.e) -> Any:
        value, base = _alone(value), _alone(base)
        if not has_terms((value, base)):
            return _LOG(value, base) if base != math.e else _LOG(value)
        top = apply("log", value) if type(value) is Term else _LOG(value)
        if base is math.e:
            return pythons(top)
        return pythons(apply("divide", top, apply("log", base) if type(base) is Term else _LOG(base)))

    def fsum(values: Any) -> Any:
        values = [_alone(value) for value in values]
        return pythons(total(graph, values)) if has_terms(values) else _FSUM(values)

    unknown = {name: _without(graph, value) for name, value in vars(math).items() if callable(value)}
    known = {name: replaced(getattr(math, name), to) for name, to in _MATH.items() if hasattr(math, name)}
    return unknown | known | {"hypot": hypot, "log": log, "fsum": fsum}


def _without(graph: Graph, original: Any) -> Callable[..., Any]:
    """A function of math's that is not known here: of plain numbers only, whichever way it adds them up."""

    def refuse(*values: Any, **options: Any) -> Any:
        values = tuple(list(value) if hasattr(value, "__next__") else value for value in values)
        # A product is in order, and rounds as `*` does.
        if original is not _PROD and has_terms((*values, *options.values())):
            graph.refuse(f"math.{original.__name__}, which has no rule here")
        return original(*values, **options)

    return refuse


def _sum(graph: Graph) -> Callable[..., Any]:
    """Python's own `sum`: of Python's floats it is compensated from 3.12 on, of all else it is in order."""

    def add(values: Any, /, start: Any = 0) -> Any:
        values = list(values)
        parts = values if type(start) is int and start == 0 else [start, *values]
        if any(type(part) is Term and part.python and not part.boolean for part in parts):
            return _sum_of_floats(graph, parts)
        if not has_terms(parts):
            return _SUM(values, start)
        found: Any = 0
        for part in parts:
            found = found + part
        return found

    return add


def _sum_of_floats(graph: Graph, parts: list[Any]) -> Any:
    """Sound because the error of a sum in any order, which the node allows for, is not less than either's."""
    single = all(type(part) is Term or isinstance(part, int | float) for part in parts)
    if not single or any(part.boolean if type(part) is Term else type(part) is bool for part in parts):
        graph.refuse("sum() of Python's floats and others (write np.sum of one array)")
    own = all(part.python if type(part) is Term else type(part) in (int, float) for part in parts)
    # A sum of two is rounded once, compensated or not.
    found = apply("add", *parts) if len(parts) == 2 else total(graph, parts)
    return pythons(found) if own else numpys(found)


_HYPOT, _LOG, _FSUM, _PROD, _SUM = math.hypot, math.log, math.fsum, math.prod, sum


def _alone(value: Any) -> Any:
    return value[()] if isinstance(value, TermArray) and value.ndim == 0 else value


@contextmanager
def patched(graph: Graph, function: Any) -> Iterator[Callable[[dict[str, Any]], None]]:
    """NumPy and math as M sees them while it is traced; gives what exchanges them in a module met later."""
    with _LOCK:
        exchanged = _exchanged(graph)
        places: list[tuple[dict[str, Any], str, Any]] = []
        original = builtins.__import__
        CURRENT.append(graph)
        builtins.__import__ = _importing(original, exchanged)
        try:
            for space in _namespaces(function):
                _exchange(space, exchanged, places)
            yield lambda space: _exchange(space, exchanged, places)
        finally:
            builtins.__import__ = original
            CURRENT.pop()
            for space, name, old in reversed(places):
                if old is _NONE:
                    space.pop(name, None)
                else:
                    space[name] = old


def _exchanged(graph: Graph) -> dict[int, tuple[Any, Any]]:
    """What is exchanged, by its identity: what it was, and what M sees in its place."""
    makers = _takers(graph, np) | _makers(graph) | _converters(graph)
    by_original: dict[int, tuple[Any, Any]] = {}
    for module, names in ((np, makers), (np.linalg, _takers(graph, np.linalg)), (math, _scalars(graph))):
        for name, new in names.items():
            old = getattr(module, name)
            replaced = new if isinstance(new, _Ufunc) else _Function(old, new)
            by_original.setdefault(id(old), (old, replaced))
        own = {name: by_original[id(getattr(module, name))][1] for name in names}
        by_original[id(module)] = (module, _Module(module, own))
    by_original[id(np)][1].__dict__["linalg"] = by_original[id(np.linalg)][1]
    by_original[id(_SUM)] = (_SUM, _Function(_SUM, _sum(graph)))
    return by_original


def _exchange(
    space: dict[str, Any],
    exchanged: dict[int, tuple[Any, Any]],
    places: list[tuple[dict[str, Any], str, Any]],
) -> None:
    """Puts what M sees into a namespace, and notes what was there."""
    found = {name: exchanged[id(value)][1] for name, value in space.items() if id(value) in exchanged}
    found |= {
        name: new for name, new in (("type", _type_of), ("sum", exchanged[id(_SUM)][1])) if name not in space
    }
    for name, new in found.items():
        places.append((space, name, space.get(name, _NONE)))
        space[name] = new


def _importing(original: Callable[..., Any], exchanged: dict[int, tuple[Any, Any]]) -> Callable[..., Any]:
    """`import` inside M's functions finds what its module would have had."""
    mine = threading.get_ident()

    def find(name: str, *args: Any, **options: Any) -> Any:
        module = original(name, *args, **options)
        own = threading.get_ident() == mine and called_by_user()
        return exchanged.get(id(module), (module, module))[1] if own else module

    return find


class _Module(ModuleType):
    """A module as the user's functions see it: what is exchanged, else what is there."""

    def __init__(self, module: ModuleType, exchanged: dict[str, Any]) -> None:
        super().__init__(module.__name__)
        self.__dict__.update(exchanged, _module=module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    def __eq__(self, other: object) -> bool:
        return self._module is (other._module if isinstance(other, _Module) else other)

    def __hash__(self) -> int:
        return hash(self._module)

    def __repr__(self) -> str:
        return repr(self._module)


def _namespaces(function: Any) -> list[dict[str, Any]]:
    """Globals of M and of the user's functions that its code names, and theirs."""
    found: dict[int, dict[str, Any]] = {}
    waiting, seen = [function], set()
    while waiting and len(seen) < 10_000:
        item = waiting.pop()
        if id(item) in seen or isinstance(item, str | bytes | int | float | np.ndarray):
            continue
        seen.add(id(item))
        if isinstance(item, partial):
            waiting += [item.func, *item.args, *item.keywords.values()]
        elif isinstance(item, MethodType):
            waiting += [item.__func__, item.__self__]
        elif isinstance(item, FunctionType):
            waiting += [cell.cell_contents for cell in item.__closure__ or () if _is_set(cell)]
            waiting += [*(item.__defaults__ or ()), getattr(item, "__wrapped__", None)]
            if _is_users(item.__globals__.get("__name__")):
                found[id(item.__globals__)] = item.__globals__
                waiting += _named(item)
        elif isinstance(item, type):
            waiting += list(vars(item).values()) if _is_users(item.__module__) else []
        elif isinstance(item, staticmethod | classmethod):
            waiting.append(item.__func__)
        elif _is_users(type(item).__module__):
            waiting += [type(item), *getattr(item, "__dict__", {}).values()]
    return list(found.values())


def _named(function: FunctionType) -> list[Any]:
    """What a function's code refers to by name, attributes of the user's modules included."""
    space, names, codes = function.__globals__, set(), [function.__code__]
    while codes:
        code = codes.pop()
        names |= set(code.co_names)
        codes += [part for part in code.co_consts if isinstance(part, CodeType)]
    values = [space[name] for name in sorted(names) if name in space]
    modules = [value for value in values if isinstance(value, ModuleType) and _is_users(value.__name__)]
    return values + [
        vars(module)[name] for module in modules for name in sorted(names) if name in vars(module)
    ]


def _is_users(module: Any) -> bool:
    top = str(module).partition(".")[0]
    own = __package__ or "tether.verification"
    return (
        top not in _FOREIGN
        and top not in sys.stdlib_module_names - {"__main__"}
        and not str(module).startswith(own)
    )


def _is_set(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False
