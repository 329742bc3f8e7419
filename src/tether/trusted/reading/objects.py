"""Objects, classes and modules of the user's: their attributes, their operators, how they are made.

What Python looks up on a class is looked up here, so that each method of the user's that runs is read.
"""

from __future__ import annotations

import functools
import itertools
import sys
import types
from collections import namedtuple
from collections.abc import Iterator
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np

from tether.trusted.reading.kinds import (
    ATOMS,
    DESCRIBED,
    FUNCTIONS,
    ITERATORS,
    MOVED,
    NUMBERS,
    POLYNOMIALS,
    READ,
    is_engine,
    is_librarys,
    is_namedtuple,
    is_stranger,
    is_users_class,
)

if TYPE_CHECKING:
    from tether.trusted.reading.reader import Reader

_Fields = namedtuple("_Fields", ["one"])
PARTIAL = functools.partial
_SPECIAL = frozenset(
    {"__call__", "__doc__", "__file__", "__init__", "__module__", "__name__", "__post_init__", "__qualname__",
     "__setattr__", "__version__"}
)  # fmt: skip
"""Names with two underscores on either side that tell nothing of numbers; no others may be used."""
_TITLES = ("__doc__", "__name__", "__qualname__")
_DATA = (property, types.MemberDescriptorType, types.GetSetDescriptorType, type(vars(_Fields)["one"]))
_NATIVE = (*_DATA[1:], types.MethodType)
"""Entries of classes by which Python finds a value without anybody's code."""
_METHODS = {
    "+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow",
    "@": "matmul", "&": "and", "|": "or", "^": "xor", "<<": "lshift", ">>": "rshift",
}  # fmt: skip
_COMPARED = {"<": ("lt", "gt"), "<=": ("le", "ge"), ">": ("gt", "lt"), ">=": ("ge", "le"), "==": ("eq", "eq"),
             "!=": ("ne", "ne")}  # fmt: skip
_UNARY = {"neg": "__neg__", "pos": "__pos__", "~": "__invert__", "abs": "__abs__"}
_ASKS = ("__getattr__", "__getattribute__")
_PROTOCOLS = ("__array__", "__array_ufunc__", "__array_function__", "__array_interface__", "__buffer__")
_MODULES = frozenset(
    {"__future__", "abc", "collections", "copy", "dataclasses", "enum", "functools", "itertools", "math",
     "numbers", "operator", "types", "typing"}
)  # fmt: skip
"""Modules of the standard library that M may look into."""
_LIMITS = frozenset({"float_info", "maxsize"})
"""What M may ask of `sys`: it is the same whoever runs M."""
ARRAYS_OWN = frozenset(
    {"T", "all", "any", "argmax", "argmin", "argpartition", "argsort", "astype", "clip", "compress", "conj",
     "choose", "conjugate", "copy", "cumprod", "cumsum", "diagonal", "dot", "dtype", "fill", "flat",
     "flatten", "imag", "item", "itemsize", "mT", "max", "mean", "min", "nbytes", "ndim", "nonzero",
     "partition", "prod", "put", "ravel", "real", "repeat", "reshape", "round", "searchsorted", "shape",
     "size", "sort", "squeeze", "std", "sum", "swapaxes", "take", "tolist", "trace", "transpose", "var"}
)  # fmt: skip
"""Attributes of NumPy's own arrays that compute."""
_BOUND = (types.FunctionType, type(np.sum), type(str.join), type(object.__init__))
_known: dict[type, bool] = {}


def is_object(reader: Reader, value: Any) -> bool:
    """Whether a value is an object of a class of the user's."""
    kind = type(value)
    if kind in ATOMS or kind in MOVED or kind is np.ndarray or kind in reader.symbols.kinds:
        return False
    if kind not in _known:
        _known[kind] = kind is types.SimpleNamespace or (is_users_class(kind) and not is_namedtuple(kind))
    return _known[kind]


def may_be_imported(module: str) -> bool:
    """Whether M may import a module that was not imported yet: nobody's code but NumPy's runs then."""
    root = module.partition(".")[0]
    return root in ("numpy", *_MODULES)


def check_module(reader: Reader, module: types.ModuleType, name: str) -> None:
    """Refuses what tells of the interpreter, the clock, files, or of those who trace."""
    root = module.__name__.partition(".")[0]
    if is_engine(module.__name__):
        reader.refuse_whole(f"it looks into `{module.__name__}`")
    if module is sys and name in _LIMITS:
        return
    if root != "numpy" and is_stranger(root) and root not in _MODULES and root != "builtins":
        reader.refuse(f"it uses `{module.__name__}.{name}`")


# Attributes -----------------------------------------------------------------------------------------------


def attribute(reader: Reader, value: Any, name: str) -> Any:
    """``value.name`` of what is no symbol."""
    if name.startswith("__") and name.endswith("__") and name not in _SPECIAL:
        reader.refuse_whole(f"it uses `{name}`")
    kind = type(value)
    if kind is types.ModuleType or isinstance(value, types.ModuleType):
        check_module(reader, value, name)
        return getattr(value, name)
    if isinstance(value, type):
        return _of_class(reader, value, name)
    if kind is super:
        return _of_parents(reader, value, name)
    if name in _TITLES and isinstance(value, types.FunctionType | types.MethodType | PARTIAL):
        reader.refuse(f"it uses `{name}` of a function")
    if is_object(reader, value) or is_namedtuple(kind):
        return _of_object(reader, value, name)
    if kind is np.ndarray and name not in ARRAYS_OWN:
        reader.refuse(f"it uses `{name}` of an array", "Use NumPy's functions")
    known = kind in ATOMS | MOVED | READ | ITERATORS or kind is np.ndarray
    if known or isinstance(
        value, (*FUNCTIONS, *DESCRIBED, *POLYNOMIALS, slice, PARTIAL, np.random.Generator)
    ):
        found = getattr(value, name)
        return reader.fresh(found) if type(found) is np.flatiter else found
    reader.refuse(f"it uses `{name}` of a {kind.__name__}, which cannot be followed")


def _found(kinds: Any, name: str) -> Any:
    """What the first of some classes has by that name; `_found` itself where none has."""
    return next((vars(kind)[name] for kind in kinds if name in vars(kind)), _found)


def _of_class(reader: Reader, kind: type, name: str) -> Any:
    if not is_users_class(kind) or issubclass(kind, Enum):
        return getattr(kind, name)  # Python's own, or NumPy's
    found = _found(kind.__mro__, name)
    if found is _found or name in ("__name__", "__qualname__"):
        return getattr(kind, name)
    return _bound(reader, found, None, kind)


def _of_parents(reader: Reader, value: Any, name: str) -> Any:
    """Of `super`: what the classes behind one have."""
    kinds = value.__self_class__.__mro__
    found = _found(kinds[kinds.index(value.__thisclass__) + 1 :], name)
    if found is _found:
        reader.refuse(f"it uses `{name}` of `super`")
    owner = None if value.__self__ is value.__self_class__ else value.__self__
    return _bound(reader, found, owner, value.__self_class__)


def _of_object(reader: Reader, value: Any, name: str) -> Any:
    kind = type(value)
    _check_plain(reader, kind)
    found = _found(kind.__mro__, name)
    if found is not _found and any(hasattr(type(found), part) for part in ("__set__", "__delete__")):
        if type(found) not in _DATA and not _is_enums(found, name):
            reader.refuse(f"it uses `{name}`, a {type(found).__name__}, which cannot be followed")
        return _bound(reader, found, value, kind)
    held = _names(value)
    if held is not None and name in held:
        return held[name]
    if found is _found:
        if issubclass(kind, Enum):
            return getattr(value, name)
        raise AttributeError(f"'{kind.__name__}' object has no attribute '{name}'")
    return _bound(reader, found, value, kind)


def _is_enums(found: Any, name: str) -> bool:
    """Whether an entry of a class is `name` or `value` of all enumerations."""
    return name in ("name", "value") and found is vars(Enum)[name]


def _names(value: Any) -> dict[str, Any] | None:
    try:
        return object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None


def _check_plain(reader: Reader, kind: type) -> None:
    """Refuses a class whose attributes are looked up by code of its own."""
    for part in kind.__mro__[:-1]:
        for name in () if is_librarys(part) else _ASKS:
            if name in vars(part):
                reader.refuse(f"it uses `{name}` of the class {kind.__name__}", "Use plain attributes")


def _bound(reader: Reader, found: Any, value: Any, kind: type) -> Any:
    """What an entry of a class is for an object of it, or for the class itself where `value` is None."""
    descriptor: Any = found
    if type(found) is staticmethod:
        return descriptor.__func__
    if type(found) is classmethod and type(descriptor.__func__) is types.FunctionType:
        return types.MethodType(descriptor.__func__, kind)
    if type(found) is property and value is not None:
        return reader.call(descriptor.fget, value)
    if type(found) is functools.cached_property and value is not None:
        return _cached(reader, descriptor, value)
    if isinstance(descriptor, _BOUND):
        return descriptor if value is None else type(descriptor).__get__(descriptor, value, kind)
    if not hasattr(type(descriptor), "__get__"):
        return descriptor
    native = type(found) in _NATIVE or any(_is_enums(found, name) for name in ("name", "value"))
    if not native or value is None:
        reader.refuse(f"it uses a {type(descriptor).__name__}, which cannot be followed")
    return type(descriptor).__get__(descriptor, value, kind)


def _cached(reader: Reader, found: Any, value: Any) -> Any:
    """A property that is computed once.

    Of an object that was there before, it is computed each time: what it gives must not be one that changes.
    """
    result = reader.call(found.func, value)
    if reader.is_own(value):
        value.__dict__[found.attrname] = result
    elif type(result) is np.ndarray and not result.dtype.hasobject:
        result = result.copy()  # which M did not make, and may not change
    elif not _is_fixed(result):
        what = f"`{found.attrname}`, a cached {type(result).__name__}"
        reader.refuse(f"it uses {what} of an object that was there before", "Compute it in __init__")
    return result


def _is_fixed(value: Any) -> bool:
    return type(value) in NUMBERS or (type(value) is tuple and all(map(_is_fixed, value)))


def set_attribute(reader: Reader, value: Any, owner: Any, name: str) -> None:
    """``owner.name = value``."""
    if not is_object(reader, owner):
        reader.check_own(owner)
        reader.refuse(f"it sets `{name}` of a {type(owner).__name__}")
    reader.check_own(owner)
    kind = type(owner)
    if _found(kind.__mro__, "__setattr__") is not object.__setattr__ and kind is not types.SimpleNamespace:
        reader.refuse(f"it sets `{name}` of a {kind.__name__}, which has a way of its own")
    set_plainly(reader, owner, name, value)


def set_plainly(reader: Reader, owner: Any, name: str, value: Any) -> None:
    """``object.__setattr__(owner, name, value)``."""
    reader.check_own(owner)
    found = _found(type(owner).__mro__, name)
    if name.startswith("__") or not is_object(reader, owner):
        reader.refuse(f"it sets `{name}`")
    if type(found) is property:
        reader.call(found.fset, owner, value)
        return
    written = found is not _found and hasattr(type(found), "__set__")
    if written and type(found) is not types.MemberDescriptorType:
        reader.refuse(f"it sets `{name}`, a {type(found).__name__}")
    object.__setattr__(owner, name, value)


# Operators ------------------------------------------------------------------------------------------------


def special(reader: Reader, value: Any, name: str) -> Any:
    """The method by which Python does something to an object; None where its class has none."""
    if not is_object(reader, value):
        return None
    found = _found(type(value).__mro__[:-1], name)
    if found is _found or found is None:
        return None
    if isinstance(value, int | str | tuple):  # whose operators others know of, and do not ask
        reader.refuse(f"it computes with a {type(value).__name__}, which is a number or text of its own kind")
    if any(_found(type(value).__mro__, part) is not _found for part in _PROTOCOLS):
        reader.refuse(f"it computes with a {type(value).__name__}, which NumPy makes an array of")
    if not isinstance(found, types.FunctionType):
        reader.refuse(f"it uses `{name}` of the class {type(value).__name__}")
    return types.MethodType(found, value)


def binary(reader: Reader, name: str, one: Any, two: Any) -> Any:
    """An operator of two, one of which is an object of the user's."""
    for value, method, operand in _ways(name, one, two):
        if not is_object(reader, value):
            _check_leaves(reader, name, value)
            continue
        result = _answer(reader, value, method, operand)
        if result is not NotImplemented:
            return result
    if name in ("==", "!="):
        return (one is two) is (name == "==")
    kinds = f"'{type(one).__name__}' and '{type(two).__name__}'"
    raise TypeError(f"unsupported operand type(s) for {name}: {kinds}")


def _ways(name: str, one: Any, two: Any) -> list[tuple[Any, str, Any]]:
    """Whom Python asks, by which method, and about what, in order."""
    compared = name in _COMPARED
    if compared:
        own, other = (f"__{part}__" for part in _COMPARED[name])
    else:
        own, other = f"__{_METHODS[name]}__", f"__r{_METHODS[name]}__"
    ways = [(one, own, two), (two, other, one)]
    if type(one) is type(two):
        return ways if compared else ways[:1]
    if issubclass(type(two), type(one)):
        overloaded = _found(type(two).__mro__, other) is not _found(type(one).__mro__, other)
        return ways[::-1] if compared or overloaded else ways
    return ways


def _answer(reader: Reader, value: Any, method: str, operand: Any) -> Any:
    found = special(reader, value, method)
    if found is not None:
        return reader.call(found, operand)
    if method == "__ne__" and special(reader, value, "__eq__") is not None:
        equal = reader.call(special(reader, value, "__eq__"), operand)
        return NotImplemented if equal is NotImplemented else not reader.truth(equal)
    return NotImplemented


def _check_leaves(reader: Reader, name: str, value: Any) -> None:
    """Refuses what would make an array of an object: only Python's own numbers leave it to the object."""
    kind = type(value)
    if kind in (str, bytes) and name == "%":
        reader.refuse("it makes text of an object", "Leave it out")
    if kind in reader.symbols.kinds:
        left = reader.symbols.is_pythons(value)
    else:
        left = not issubclass(kind, np.ndarray | np.generic)
    if not left and name not in ("==", "!="):
        reader.refuse(f"it applies `{name}` to a number of NumPy's and an object", "Use arrays")
    if not left:
        reader.refuse("it compares an array with an object", "Use arrays")


def augmented(reader: Reader, name: str, one: Any, two: Any) -> Any:
    """``one += two`` for an object of the user's on the left."""
    found = special(reader, one, f"__i{_METHODS[name[:-1]]}__")
    result = NotImplemented if found is None else reader.call(found, two)
    return binary(reader, name[:-1], one, two) if result is NotImplemented else result


def unary(reader: Reader, name: str, value: Any) -> Any:
    """An operator of one."""
    return _called(reader, value, _UNARY[name])


def _called(reader: Reader, value: Any, name: str, *arguments: Any) -> Any:
    found = special(reader, value, name)
    if found is None:
        raise TypeError(f"'{type(value).__name__}' object has no `{name}`")
    return reader.call(found, *arguments)


def truth(reader: Reader, value: Any) -> bool:
    """``bool`` of an object."""
    for name in ("__bool__", "__len__"):
        found = special(reader, value, name)
        if found is not None:
            return reader.truth(reader.call(found))
    if is_object(reader, value) or isinstance(value, types.ModuleType | type | PARTIAL):
        return True
    if is_namedtuple(type(value)):
        return tuple.__len__(value) > 0
    reader.refuse(f"it asks for the truth of a {type(value).__name__}")


def contains(reader: Reader, values: Any, value: Any) -> bool:
    """``value in values``."""
    found = special(reader, values, "__contains__")
    if found is not None:
        return reader.truth(reader.call(found, value))
    return any(reader.compare("in", value, (part,)) for part in iterate(reader, values))


def item(reader: Reader, values: Any, index: Any) -> Any:
    """``values[index]``."""
    if is_namedtuple(type(values)):
        return reader.item(tuple(tuple.__iter__(values)), index)
    if is_object(reader, values):
        return _called(reader, values, "__getitem__", index)
    if type(values) is np.flatiter and reader.is_own(values):
        return reader.made("flat", values[reader.prepared(index, "indexing")[0]])
    reader.refuse(f"it takes an entry of a {type(values).__name__}, which cannot be followed")


def set_item(reader: Reader, value: Any, values: Any, index: Any) -> None:
    """``values[index] = value``."""
    _called(reader, values, "__setitem__", index, value)


def length(reader: Reader, value: Any) -> Any:
    """``len``."""
    if is_namedtuple(type(value)):
        return tuple.__len__(value)
    return _called(reader, value, "__len__")


def iterate(reader: Reader, values: Any) -> Iterator[Any]:
    """What a loop over an object goes through."""
    if not is_object(reader, values):
        reader.refuse(f"it goes through a {type(values).__name__}, which cannot be followed", "Use a list")
    if special(reader, values, "__iter__") is None:
        reader.refuse(f"it goes through a {type(values).__name__} without `__iter__`", "Use a list")
    found = _called(reader, values, "__iter__")
    return _stepped(reader, found) if is_object(reader, found) else reader.iterate(found)


class _Steps:
    """An iterator of the user's, which is asked each time: it may go on after its end."""

    def __init__(self, reader: Reader, values: Any) -> None:
        self._reader, self._values = reader, values

    def __iter__(self) -> _Steps:
        return self

    def __next__(self) -> Any:
        return _called(self._reader, self._values, "__next__")


def _stepped(reader: Reader, values: Any) -> Iterator[Any]:
    """An iterator that is known to the reader, and remembers no end."""
    return reader.fresh(itertools.accumulate(_Steps(reader, values), lambda _, part: part))
