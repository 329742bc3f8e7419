"""While a trace runs: constructors whose arrays can hold nodes, and the functions of :mod:`math` on nodes.

``np.zeros`` makes floats, which cannot hold a node, and ``math.sin`` wants a float, which a node is not. So
for as long as the trace runs, M and the functions of the user's that it can reach see other modules by the
names `np` and `math`, and other functions by names imported from there. The modules themselves stay as they
are.
"""

from __future__ import annotations

import builtins
import inspect
import math
import operator
import sys
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any

import numpy as np

from tether.programs import functions as _functions  # noqa: F401 (names what is replaced below)
from tether.programs import graph as codes
from tether.programs.arrays import UNASSIGNED, Traced, conform, graph_of, is_float64, plain_objects
from tether.programs.refusal import refuse, refuse_unsupported
from tether.programs.scalars import (
    Node,
    Plain,
    Whole,
    apply,
    as_constant,
    as_number,
    is_condition,
    make,
    refuse_kin,
)

_FOREIGN = frozenset({"numpy", "scipy", "torch", "numba", "joblib", "matplotlib"})
_LOCK = threading.RLock()
_EMPTY, _ARRAY = np.empty, np.array
_tracing_thread = 0
_undo: list[Callable[[], Any]] = []


@contextmanager
def tracing_constructors(function: Any) -> Iterator[None]:
    """Replaces them in NumPy, in :mod:`math`, and in the globals of `function` and what it calls."""
    global _tracing_thread, _undo
    with _LOCK:
        undo: list[Callable[[], Any]] = []
        before, (_tracing_thread, _undo) = (_tracing_thread, _undo), (threading.get_ident(), undo)
        try:
            _replace_import(undo)
            names, cells, functions, classes = _reachable(function)
            for part in names:
                _replace(part, undo)
            for cell in cells:
                undo.append(partial(setattr, cell, "cell_contents", cell.cell_contents))
                cell.cell_contents = _ours(cell.cell_contents)
            for owner in classes:
                _replace_attributes(owner, undo)
            for part in (part for part in functions if part.__defaults__):
                undo.append(partial(setattr, part, "__defaults__", part.__defaults__))
                part.__defaults__ = tuple(map(_ours, part.__defaults__))
            yield
        finally:
            _tracing_thread, _undo = before
            for restore in reversed(undo):
                restore()


def adopt(names: dict[str, Any]) -> None:
    """The same for a module that nothing in M's code names, at the first call of a function of its own."""
    _replace(names, _undo)
    if "sum" not in names:
        names["sum"] = _ours(sum)
        _undo.append(partial(names.pop, "sum", None))


def _replace(names: dict[str, Any], undo: list[Callable[[], Any]]) -> None:
    """Puts ours in the place of NumPy's and math's in the names of a module, and notes what was there."""
    for name, value in list(names.items()):
        if name.startswith("__"):  # `__builtins__` is everybody's
            continue
        if type(value) in (dict, list):
            _replace_inside(value, undo)
        ours = tuple(map(_ours, value)) if type(value) is tuple else _ours(value)
        if ours is not value and not (type(value) is tuple and all(map(operator.is_, ours, value))):
            undo.append(partial(names.__setitem__, name, value))
            names[name] = ours


def _replace_inside(values: Any, undo: list[Callable[[], Any]]) -> None:
    """The same for a dictionary, or a list, that M may look functions up in."""
    for key, value in list(values.items() if type(values) is dict else enumerate(values)):
        ours = _ours(value)
        if ours is not value:
            undo.append(partial(values.__setitem__, key, value))
            values[key] = ours


def _replace_attributes(owner: type, undo: list[Callable[[], Any]]) -> None:
    for name, value in list(vars(owner).items()):
        ours = _ours(value) if not isinstance(value, types.FunctionType | type) else value
        if ours is not value:
            undo.append(partial(setattr, owner, name, value))
            setattr(owner, name, ours)


def _replace_import(undo: list[Callable[[], Any]]) -> None:
    """What M itself imports is what it would have had at the top of its module."""
    original = builtins.__import__

    def import_for_user(name: str, *arguments: Any) -> Any:
        module = original(name, *arguments)
        frame = sys._getframe(1)
        inside = bool(frame.f_code.co_flags & inspect.CO_NEWLOCALS)
        if threading.get_ident() != _tracing_thread or not _is_users(frame.f_globals.get("__name__")):
            return module
        if not inside:  # a module that M imports first: its functions are M's
            undo.append(partial(_restore, frame.f_globals))
        return _ours(module)

    builtins.__import__ = import_for_user
    undo.append(partial(setattr, builtins, "__import__", original))


def _restore(names: dict[str, Any]) -> None:
    """Puts NumPy and math back where a module was imported while a trace ran."""
    for name, value in list(names.items()):
        if isinstance(value, _StandIn):
            names[name] = value._original


def _ours(value: Any) -> Any:
    """What M sees in the place of a value: always the same for the same."""
    known = _standing.get(id(value))
    if known is not None:
        return known
    made = _stand_in(value)
    if made is not value:
        _standing[id(value)] = made
    return made


def _stand_in(value: Any) -> Any:
    if isinstance(value, types.ModuleType):
        return _Proxy(value) if value is math or _is_numpys(value.__name__) else value
    if isinstance(value, np.ufunc | type(np.sum)):
        return _Called(value)
    if isinstance(value, type):
        kept = issubclass(value, np.generic | np.dtype | BaseException | np.ndarray)
        return _Called(value) if _is_numpys(value.__module__) and not kept else value
    if not isinstance(value, types.FunctionType | types.BuiltinFunctionType):
        return value
    module = getattr(value, "__module__", None)
    if module == "math":
        return _Replaced(value, partial(_without_rule, value))
    return _Called(value) if _is_numpys(module) else value


def _is_numpys(module: Any) -> bool:
    return isinstance(module, str) and module.partition(".")[0] == "numpy"


class _StandIn:
    """What M sees in the place of something else: it compares, hashes and prints as that does."""

    def __init__(self, original: Any) -> None:
        self._original = original
        self.__name__, self.__doc__ = getattr(original, "__name__", None), original.__doc__

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


class _Proxy(_StandIn):
    """A module as M sees it; everybody else, compiled code included, sees the module itself."""

    def __getattr__(self, name: str) -> Any:
        return _ours(getattr(self._original, name))


class _Replaced(_StandIn):
    """A function that another is called for."""

    def __init__(self, original: Any, function: Callable[..., Any]) -> None:
        super().__init__(original)
        self._function = function

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self._function(*arguments, **options)


class _Called(_StandIn):
    """A function of NumPy's as M sees it: lists of nodes are arrays before NumPy makes its own of them.

    NumPy would make arrays of objects of them, and add those up one after the other, in an order that is
    not that of floats.
    """

    def __init__(self, original: Any, owner: Any = None) -> None:
        super().__init__(original)
        self._owner = owner

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return call_for_user(self._original, self._owner, arguments, options)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._original, name)
        return _Called(found, self._original) if callable(found) and not name.startswith("__") else found


def call_for_user(function: Any, owner: Any, arguments: Any, options: dict[str, Any]) -> Any:
    """What M gets of a function of NumPy's; NumPy asks a node what it is in M's name, not in ours."""
    if threading.get_ident() != _tracing_thread:
        return function(*arguments, **options)
    name = function.__name__
    arguments = tuple(_known_kind(name, value) for value in arguments)
    options = {key: _known_kind(name, value) for key, value in options.items()}
    given = (*arguments, *options.values())
    if any(type(value) is np.ndarray and value.dtype == object for value in given):
        refuse(function.__name__, "of an array of objects is not NumPy's own", "Make it with np.array")
    if not any(map(_is_traced, given)):
        return function(*arguments, **options)
    follows = isinstance(function, np.ufunc) or isinstance(owner, np.ufunc) or function in _FOLLOWED
    if not follows and not hasattr(function, "_implementation"):
        refuse_unsupported(function.__name__)
    if function is np.block:  # its lists are rows and columns
        return function(*arguments, **options)
    if function in _OF_SEQUENCES:
        arguments = [_rows_of(value) for value in arguments]
        return function(*arguments, **{key: _rows_of(value) for key, value in options.items()})
    arguments = [_array_of(value) for value in arguments]
    return function(*arguments, **{key: _array_of(value) for key, value in options.items()})


def _known_kind(name: str, value: Any) -> Any:
    """An argument of NumPy's function; lists and tuples of derived kinds as NumPy reads them.

    Sound because NumPy takes apart, without a word to us, what has entries and is none of these.
    """
    if isinstance(value, Node | np.ndarray | np.generic | str | range | type | types.GenericAlias | None):
        return value
    if any(hasattr(type(value), protocol) for protocol in _ARRAYS):
        refuse(name, f"cannot be followed into a {type(value).__name__}", "Give it an array or a list")
    if isinstance(value, list | tuple):
        parts = [_known_kind(name, part) for part in value]
        same = type(value) in (list, tuple) and all(map(operator.is_, parts, value))
        return value if same else tuple(parts) if isinstance(value, tuple) else parts
    if any(hasattr(type(value), protocol) for protocol in _ENTRIES):
        refuse(name, f"cannot be followed into a {type(value).__name__}", "Give it an array or a list")
    return value


_ARRAYS = ("__array__", "__array_interface__", "__array_struct__", "__array_ufunc__", "__array_function__")
_ENTRIES = ("__getitem__", "__len__", "__iter__", "__buffer__")


def _array_of(value: Any) -> Any:
    """A list of nodes as an array of the trace."""
    if not isinstance(value, list | tuple) or not _is_traced(value):
        return value
    return _made("array", _ARRAY(value, dtype=object), _ARRAY, (value,), {})


def _rows_of(value: Any) -> Any:
    """A list of arrays, with those that are lists as arrays of the trace."""
    return type(value)(map(_array_of, value)) if type(value) in (list, tuple) else value


def _reachable(function: Any) -> tuple[list[dict[str, Any]], list[Any], list[Any], list[Any]]:
    """Names, cells, functions and classes, of M and of all of the user's that it reaches."""
    found: dict[int, dict[str, Any]] = {}
    cells: dict[int, Any] = {}
    functions: list[Any] = []
    classes: list[Any] = []
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
                cells.update({id(cell): cell for cell in item.__closure__ or () if _filled(cell)})
                functions.append(item)
        elif isinstance(item, type) and _is_users(item.__module__):
            waiting += [part for part in vars(item).values() if isinstance(part, types.FunctionType)]
            classes.append(item)
        elif (names := _attributes(item)) is not None:
            waiting.append(type(item))
            waiting += [value for value in names.values() if callable(value)]
            found[id(names)] = names
    return list(found.values()), list(cells.values()), functions, classes


def _attributes(item: Any) -> dict[str, Any] | None:
    """Those of an object of the user's."""
    if isinstance(item, (type, types.ModuleType, *_OWN)) or not _is_users(type(item).__module__):
        return None
    names = getattr(item, "__dict__", None)
    return names if type(names) is dict else None


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
    # Beyond the function itself and its stand-in.
    return _is_users(sys._getframe(3).f_globals.get("__name__"))


# NumPy's constructors ---------------------------------------------------------------------------------


def _filling(original: Callable[..., Any], fill: Any) -> Callable[..., Any]:
    @wraps(original)
    def construct(*arguments: Any, **options: Any) -> Any:
        dtype = options.get("dtype", arguments[1] if len(arguments) > 1 else None)
        if not _by_users():
            return original(*arguments, **options)
        _refuse_objects(original.__name__, dtype)
        if not is_float64(dtype):
            return original(*arguments, **options)
        given = [*arguments[:1], object, *arguments[2:]] if len(arguments) > 1 else arguments
        array = original(*given, **({**options, "dtype": object} if len(arguments) < 2 else options))
        array.fill(fill)  # itself, where assignment would make a plain float of it
        return array.view(Traced)

    return construct


@wraps(np.full)
def _full(shape: Any, fill_value: Any, dtype: Any = None, **options: Any) -> Any:
    original: Any = _full.__wrapped__  # type: ignore[attr-defined]
    if not _by_users():
        return original(shape, fill_value, dtype, **options)
    _refuse_objects("full", dtype)
    if not _is_traced(fill_value):
        return _fresh(original(shape, fill_value, dtype, **options))
    array = _EMPTY(shape, dtype=object, **options)
    array[...] = plain_objects(fill_value)
    return _made("full", array, original, (shape, fill_value, dtype), options)


def _converting(original: Callable[..., Any]) -> Callable[..., Any]:
    """`array` and its like: an array of the trace, from one or from what makes a fresh one of floats."""
    name = original.__name__

    @wraps(original)
    def convert(value: Any, dtype: Any = None, *arguments: Any, **options: Any) -> Any:
        if not _by_users():
            return original(value, dtype, *arguments, **options)
        _refuse_objects(name, dtype)
        value = _known_kind(name, value)
        if not _is_traced(value):
            result = original(value, dtype, *arguments, **options)
            shared = isinstance(value, np.ndarray) and np.may_share_memory(result, value)
            return result if shared else _fresh(result)
        if not is_float64(dtype) and np.dtype(dtype) != bool:
            refuse(name, f"must be of float64; got {dtype!r}", "Leave `dtype` out")
        result = original(value, object, *arguments, **options)
        return _made(name, result, original, (value, dtype, *arguments), options)

    return convert


def _refuse_objects(name: str, dtype: Any) -> None:
    if dtype is not None and np.dtype(dtype) == object:
        refuse(name, "must be of numbers; got an array of objects", "Leave `dtype` out")


def _is_traced(value: Any) -> bool:
    """Whether a value is of the trace, or a list of such."""
    return isinstance(value, Node | Traced) or (
        isinstance(value, list | tuple) and any(map(_is_traced, value))
    )


def _fresh(result: Any) -> Any:
    """What NumPy made of plain numbers: floats may be overwritten by nodes."""
    if type(result) is not np.ndarray or result.dtype != np.float64:
        return result
    return conform("array", result.astype(object), lambda: result, (), {}).view(Traced)


def _made(name: str, result: Any, original: Any, arguments: Any, options: dict[str, Any]) -> Any:
    """An array of the trace, where NumPy says that M's is one of floats or of truth values."""
    if not _shares(result, arguments[0]):
        result = plain_objects(result)  # refuses what is no number
    return conform(name, result, original, arguments, options).view(Traced)


def _shares(result: Any, value: Any) -> bool:
    return isinstance(value, np.ndarray) and np.may_share_memory(result, value.view(np.ndarray))


def _square(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def construct(*arguments: Any, **options: Any) -> Any:
        result = original(*arguments, **options)
        return _fresh(result) if _by_users() else result

    return construct


class _Joiner:
    """np.c_ and np.r_, whose result is traced."""

    def __init__(self, original: Any) -> None:
        self.original = original

    def __getitem__(self, key: Any) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        if not _is_traced(parts):
            return _fresh(self.original[key])
        plain = tuple(plain_objects(part) if _is_traced(part) else part for part in parts)
        result = plain_objects(self.original[plain if isinstance(key, tuple) else plain[0]])

        def join(*given: Any) -> Any:
            return self.original[given if isinstance(key, tuple) else given[0]]

        return conform("c_", result, join, parts, {}).view(Traced)

    def __len__(self) -> int:
        return 0


# math -------------------------------------------------------------------------------------------------


def _mathematical(original: Callable[..., Any], ufunc: np.ufunc) -> Callable[..., Any]:
    @wraps(original)
    def call(*arguments: Any) -> Any:
        if not any(isinstance(argument, Node | Traced) for argument in arguments):
            return original(*arguments)
        given = [as_number(value) if type(value) is Whole else _scalar(value) for value in arguments]
        for value in given:
            refuse_kin(value, original.__name__)
        if original in _TO_WHOLE or not any(isinstance(value, Node) for value in given):
            return original(*given)
        with graph_of(*given).called(("math", ufunc)):
            return _pythons(apply(ufunc, *given))

    return call


_TO_WHOLE = (math.floor, math.ceil, math.trunc)


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
    with graph.called("math.hypot"):
        return _pythons(
            apply(np.hypot, *scalars)
            if len(parts) == 2
            else make(graph, codes.NORM, *scalars, value=len(parts) + 8.0)
        )


@wraps(math.log)
def _log(value: Any, *base: Any) -> Any:
    graph = graph_of(value, *base)
    if graph is None:
        return _log.__wrapped__(value, *base)  # type: ignore[attr-defined]
    with graph.called("math.log"):
        result = apply(np.log, _scalar(value))
        return _pythons(apply(np.divide, result, apply(np.log, _scalar(base[0]))) if base else result)


def _without_rule(original: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """A function of math's that is not known here: of numbers only, whichever way it adds them up."""
    arguments = tuple(list(value) if hasattr(value, "__next__") else value for value in arguments)
    # A product is in order, and rounds as `*` does.
    if original is not math.prod and any(map(_is_traced, (*arguments, *options.values()))):
        refuse_unsupported(original.__name__)
    return original(*arguments, **options)


def _sum(values: Any, /, start: Any = 0) -> Any:
    """Python's own `sum`: of Python's floats it is compensated from 3.12 on, of all else it is in order."""
    values = list(values)
    parts = values if type(start) is int and start == 0 else [start, *values]
    if any(type(part) is Plain and not part.is_condition for part in parts):
        return _sum_of_floats(parts)
    if not any(map(_is_traced, parts)):
        return sum(values, start)
    total: Any = 0
    for part in parts:
        total = total + part
    return total


def _sum_of_floats(parts: list[Any]) -> Any:
    """Sound because the error of a sum in any order, which the node allows for, is not less than either's."""
    if not all(isinstance(part, Node | int | float) for part in parts) or any(map(is_condition, parts)):
        refuse("sum", "of Python's floats and others cannot be followed", "Use np.sum on one array")
    graph = graph_of(*parts)
    terms = [as_number(part) if isinstance(part, Node) else as_constant(part, "sum") for part in parts]
    own = all(type(part) in (Plain, Whole, int, float) for part in parts)
    if len(terms) < 3:  # a sum of two is rounded once, compensated or not
        total = terms[0] if len(terms) == 1 else apply(np.add, *terms)
    else:
        total = make(graph, codes.SUM, *terms, value=len(terms) + 2.0)
    return _pythons(total) if own else total


def _pythons(value: Any) -> Any:
    """What math gives is Python's own number."""
    return Plain(value.graph, value.number) if isinstance(value, Node) else value


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
    (sum, _sum),
    (math.hypot, _hypot),
    (math.log, _log),
    *((getattr(math, name), _mathematical(getattr(math, name), ufunc)) for name, ufunc in _MATH.items()),
]
# Of arrays in a list.
_OF_SEQUENCES = (
    np.stack, np.concatenate, np.vstack, np.hstack, np.dstack, np.column_stack, np.select,
    np.linalg.multi_dot,
)  # fmt: skip
# Those that NumPy does not ask us about, but that do nothing to entries themselves.
_FOLLOWED = (np.poly1d, np.polynomial.polynomial.polyval)
# By identity; modules and functions live as long as Python does.
_standing: dict[int, Any] = {
    id(old): new if isinstance(new, _Joiner) else _Replaced(old, new) for old, new in _REPLACED
}
_OWN = (_StandIn, Node, np.ndarray)
