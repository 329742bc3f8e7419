"""Functions and methods that are not written in Python: those of containers, arrays, numbers and text."""

from __future__ import annotations

import itertools
import operator
import types
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any

import numpy as np

from tether.trusted.reading import objects
from tether.trusted.reading.computing import (
    NUMPYS,
    Arguments,
    Options,
    check_where,
    computed,
    given,
    natively,
)
from tether.trusted.reading.kinds import ATOMS, ITERATORS
from tether.trusted.reading.pythons import make_sorted, step, update

if TYPE_CHECKING:
    from tether.trusted.reading.reader import Reader

_MOVES: dict[type, frozenset[str]] = {
    list: frozenset({"append", "extend", "insert", "pop", "copy", "clear", "reverse", "sort"}),
    dict: frozenset(
        {"get", "pop", "setdefault", "update", "items", "keys", "values", "copy", "clear", "popitem"}
    ),
    deque: frozenset({"append", "appendleft", "extend", "pop", "popleft", "copy", "clear", "rotate"}),
    set: frozenset({"add", "copy", "clear", "discard"}),
    OrderedDict: frozenset({"get", "items", "keys", "values"}),
    types.MappingProxyType: frozenset({"get", "items", "keys", "values"}),
}
"""Methods that move entries, whatever they are, and look at none of them but keys."""
_LOOKS: dict[type, frozenset[str]] = {
    list: frozenset({"index", "count"}),
    tuple: frozenset({"index", "count"}),
    set: frozenset({"union", "intersection", "difference", "issubset", "issuperset", "isdisjoint"}),
    frozenset: frozenset({"union", "intersection", "difference", "issubset", "issuperset", "isdisjoint"}),
}
"""Methods that compare entries."""
_CHANGES = frozenset(
    {"fill", "sort", "put", "partition", "append", "extend", "insert", "pop", "clear", "reverse", "update",
     "setdefault", "popitem", "add", "discard", "appendleft", "popleft", "rotate"}
)  # fmt: skip
_BY_KEY = frozenset({"get", "pop", "setdefault", "insert", "add", "discard", "rotate"})
_OF_CLASSES = frozenset({(float, "fromhex"), (int, "from_bytes")})


def compiled(reader: Reader, function: Any, arguments: Arguments, options: Options) -> Any:
    """A function or a method that is not written in Python."""
    name = getattr(function, "__name__", type(function).__name__)
    owner = getattr(function, "__self__", None)
    if type(function) is types.BuiltinFunctionType and not isinstance(owner, types.ModuleType | None):
        return method(reader, owner, function, name, arguments, options)
    descriptors = (types.MethodDescriptorType, types.WrapperDescriptorType)
    if isinstance(function, descriptors) and arguments and function.__objclass__ is type(arguments[0]):
        bound = function.__get__(arguments[0])
        return method(reader, arguments[0], bound, name, arguments[1:], options)
    if function == object.__setattr__ and len(arguments) == 3:
        return objects.set_plainly(reader, *arguments)
    if function == object.__init__ and len(arguments) == 1:
        return None
    if type(function) is np.poly1d:
        return computed(reader, np.polyval, (function.coeffs, *arguments), options)
    if type(function) is np.polynomial.Polynomial and len(arguments) == 1 and not options:
        offset, scale = function.mapparms()
        point = reader.binary("+", offset, reader.binary("*", scale, arguments[0]))
        return computed(reader, np.polynomial.polynomial.polyval, (point, function.coef), {})
    if type(function) is operator.itemgetter:
        return _got(reader, function, arguments[0])
    module = getattr(function, "__module__", None) or type(function).__module__
    reader.refuse(f"it uses `{name}`" if module == "builtins" else f"it uses `{module}.{name}`")


def _got(reader: Reader, getter: Any, values: Any) -> Any:
    keys = getter.__reduce__()[1]
    found = tuple(reader.item(values, key) for key in keys)
    return found if len(keys) > 1 else found[0]


def method(
    reader: Reader, owner: Any, function: Any, name: str, arguments: Arguments, options: Options
) -> Any:
    """``owner.name(*arguments, **options)``."""
    kind = type(owner)
    if kind is np.ufunc:
        return _of_ufunc(reader, owner, function, arguments, options)
    if kind is np.ndarray:
        return _of_array(reader, owner, function, name, arguments, options)
    if name in _MOVES.get(kind, ()):
        return _moved(reader, owner, function, name, arguments, options)
    if name == "__next__" and kind in ITERATORS:
        return step(reader, owner)
    if owner is itertools.chain and name == "from_iterable":
        return reader.fresh(
            part for values in reader.iterate(arguments[0]) for part in reader.iterate(values)
        )
    if owner is dict and name == "fromkeys" and not options and 0 < len(arguments) < 3:
        return reader.fresh(dict.fromkeys(reader.iterate(arguments[0]), *arguments[1:]))
    if not _is_computed(reader, owner, name):
        reader.refuse(f"it uses `{name}` of a {kind.__name__}")
    if kind is str and name == "join":
        arguments = tuple(list(reader.iterate(value)) for value in arguments)
    arguments, options, symbolic = given(reader, name, arguments, options)
    if symbolic:
        reader.refuse(f"it uses `{name}` of a {kind.__name__} with numbers that are not known")
    return natively(reader, name, function, arguments, options)


def _is_computed(reader: Reader, owner: Any, name: str) -> bool:
    """Whether a method computes, of plain values, and changes nothing that was there before."""
    kind = type(owner)
    if name.startswith("_"):
        return False
    if kind is np.random.Generator:
        return reader.is_own(owner) and name not in ("shuffle", "spawn")
    if name in _LOOKS.get(kind, ()):
        return not reader.prepared(owner, name)[1]
    return kind in ATOMS or (isinstance(owner, type) and (owner, name) in _OF_CLASSES)


def _moved(
    reader: Reader, owner: Any, function: Any, name: str, arguments: Arguments, options: Options
) -> Any:
    if name in _CHANGES:
        reader.check_own(owner)
    reader.check_names(owner)
    if name in _BY_KEY and any(type(value) in reader.symbols.kinds for value in arguments[:1]):
        reader.refuse("it looks something up by a number that is not known", "Use np.where")
    if name == "sort":
        _sort(reader, owner, *arguments, **options)
    elif name == "extend":
        owner.extend(reader.handed(*arguments, **options))
    elif name == "update":
        update(reader, owner, *arguments, **options)
    else:
        found = function(*arguments, **options)
        return reader.fresh(found) if name == "copy" else found
    return None


def _sort(reader: Reader, owner: list[Any], **options: Any) -> None:
    """``list.sort``: while it sorts, the list is empty."""
    values = owner[:]
    owner.clear()
    try:
        values = make_sorted(reader, values, **options)
    finally:
        if owner:
            reader.refuse("it changes a list while it sorts it")
        owner[:] = values


def _of_ufunc(reader: Reader, owner: Any, function: Any, arguments: Arguments, options: Options) -> Any:
    if id(owner) not in NUMPYS:
        reader.refuse(f"it uses `{owner.__name__}`")
    if function.__name__ == "at" and arguments and type(arguments[0]) is np.ndarray:
        reader.check_own(arguments[0])  # it writes into arrays that cannot be written to
    arguments, options, symbolic = given(reader, owner.__name__, arguments, options)
    if symbolic:
        return reader.symbols.call(function, arguments, options)
    return natively(reader, function, function, arguments, options)


def _of_array(
    reader: Reader, owner: Any, function: Any, name: str, arguments: Arguments, options: Options
) -> Any:
    """A method of one of NumPy's own arrays; with a symbol, the function of that name."""
    arguments, options, symbolic = given(reader, name, arguments, options)
    if name not in objects.ARRAYS_OWN:
        reader.refuse(f"it uses `{name}` of an array", "Use NumPy's functions")
    if owner.dtype.hasobject:
        reader.refuse("it uses an array of objects", "Make it with np.array")
    if name in _CHANGES:
        reader.check_own(owner)
    check_where(reader, name, function, arguments, options)
    if not symbolic:
        return reader.made(name, function(*arguments, **options), (owner, *arguments, *options.values()))
    same = getattr(np, name, None)
    # Of `compress`, the function takes its arguments in another order.
    if id(same) not in NUMPYS or name in _CHANGES or name == "compress":
        reader.refuse(f"it uses `{name}` of an array of floats with numbers that are not known")
    return reader.symbols.call(same, (reader.prepared(owner, name)[0], *arguments), options)  # type: ignore[arg-type]
