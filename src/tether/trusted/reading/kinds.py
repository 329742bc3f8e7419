"""Which values are known to hold no symbol, which may hold some, and which are objects of the user's."""

from __future__ import annotations

import functools
import itertools
import sys
import types
from abc import ABCMeta
from collections import OrderedDict, deque
from enum import EnumMeta, IntEnum
from typing import Any

import numpy as np

_SCALARS = frozenset(kind for kind in np.sctypeDict.values() if kind not in (np.object_, np.void))
NUMBERS = frozenset({float, int, bool, complex, str, bytes, type(None), *_SCALARS})
"""What Python and NumPy compute with by themselves: nothing is inside."""
ATOMS = NUMBERS | {range, type(...), type(NotImplemented), types.GenericAlias}
MOVED = frozenset({list, tuple, dict, set, frozenset, deque})
"""Containers whose entries can be anything: they are moved, and not looked at."""
READ = frozenset({dict, OrderedDict, types.MappingProxyType})
"""Dictionaries, whose entries can be looked up; the first alone can be changed."""
_VIEWS = frozenset(
    type(view) for names in ({}, OrderedDict()) for view in (names.keys(), names.values(), names.items())
)
ITERABLE = frozenset({list, tuple, *READ, set, frozenset, deque, range, str, bytes, *_VIEWS})
"""What Python goes through without anybody's code."""
KEYED = frozenset({*READ, set, frozenset, str, bytes, range, type({}.keys())})
"""In which Python finds something by itself, without comparing numbers that may not be known."""
ITERATORS = frozenset(
    {types.GeneratorType, zip, enumerate, type(iter([])), type(iter(())), type(iter(range(1))),
     type(iter(range(2**70))), type(iter("")),
     type(iter({})), type(iter({}.values())), type(iter({}.items())), type(iter(set())), type(reversed([])),
     type(reversed(())), type(iter(deque())), np.flatiter, np.ndindex, itertools.accumulate, itertools.chain,
     itertools.repeat, itertools.product, itertools.combinations, itertools.permutations, itertools.islice,
     itertools.zip_longest, itertools.count, itertools.cycle, itertools.pairwise,
     itertools.combinations_with_replacement}
)  # fmt: skip
"""What only hands out entries, where it was made while M runs."""
DESCRIBED: tuple[Any, ...] = (np.dtype, np.finfo, np.iinfo, type(sys.float_info))
"""What tells of numbers, and does not change."""
POLYNOMIALS: tuple[Any, ...] = (np.poly1d, np.polynomial.Polynomial)
FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, np.ufunc, type(np.sum))
_HEAP = 1 << 9  # a class that was made while Python ran, as all classes written in Python are
_ENGINE = ("tether.programs", "tether.verification", "tether.trusted.reading")
_OF_NAMED_TUPLES = frozenset(
    {"__annotate__", "__annotate_func__", "__annotations__", "__annotations_cache__", "__doc__",
     "__firstlineno__", "__getnewargs__", "__match_args__", "__module__", "__new__", "__orig_bases__",
     "__replace__", "__repr__", "__slots__", "__static_attributes__"}
)  # fmt: skip
_OF_INTS = {name for name in vars(int) if name.startswith("__")} - {
    "__doc__", "__format__", "__getattribute__", "__getnewargs__", "__new__", "__repr__", "__sizeof__",
}  # fmt: skip
"""Methods by which a class of ints may be another thing than an int."""
_BASES = frozenset({"abc", "typing", "enum"})


def is_engine(module: Any) -> bool:
    """Whether a module is of those that trace: what they hold is not the same when M just runs."""
    return str(module).startswith(_ENGINE)


def is_stranger(module: Any) -> bool:
    """Whether a module is of the standard library or NumPy, and not of the user's."""
    root = str(module).partition(".")[0]
    return root == "numpy" or (root in sys.stdlib_module_names and root != "__main__")


def is_users_class(kind: type) -> bool:
    """Whether a class is written in Python, by the user, without a metaclass of his own."""
    if type(kind) not in (type, ABCMeta, EnumMeta) and not is_stranger(type(kind).__module__):
        return False
    return all(_is_written(part) for part in kind.__mro__[:-1])


def _is_written(kind: type) -> bool:
    if kind in (tuple, int, str):  # of which named tuples and enumerations are made
        return True
    module = str(kind.__module__)
    if not kind.__flags__ & _HEAP or is_engine(module):
        return False
    # A class in code without a module says that it is of `builtins`; Python's own there are not of the heap.
    if module == "builtins" or not is_stranger(module):
        return True
    return module in _BASES and is_librarys(kind)


def is_librarys(kind: type) -> bool:
    """Whether a class is of the standard library, and does not only say so."""
    module = str(kind.__module__)
    return is_stranger(module) and vars(sys.modules.get(module, types)).get(kind.__name__) is kind


def is_namedtuple(kind: type) -> bool:
    """Whether a class is what a named tuple is, without operators of its own; how it is made is not said."""
    if kind.__mro__[1:] != (tuple, object) or "_fields" not in vars(kind):
        return False
    special = {name for name in vars(kind) if name.startswith("__") and name.endswith("__")}
    return special <= _OF_NAMED_TUPLES


def without_name(value: Any) -> Any:
    """A member of an enumeration of whole numbers as the int that Python and NumPy take it for."""
    kind = type(value)
    if not issubclass(kind, IntEnum):
        return value
    written = [part for part in kind.__mro__ if not is_librarys(part) and part is not int]
    return value if any(_OF_INTS & vars(part).keys() for part in written) else int.__add__(value, 0)


def is_anothers(values: Any) -> bool:
    """Whether a container is a module's own dictionary, or belongs to Python, NumPy or those who trace.

    What is in it may be otherwise while M is traced.
    """
    if type(values) is dict and "__name__" in values:
        module = sys.modules.get(values["__name__"]) if isinstance(values["__name__"], str) else None
        if module is not None and module.__dict__ is values:
            return True
    return id(values) in _anothers()


@functools.cache
def _anothers() -> dict[int, Any]:
    """What changes in modules of Python, of NumPy and of this package, by identity."""
    modules = [module for name, module in list(sys.modules.items()) if is_stranger(name) or is_engine(name)]
    spaces = [getattr(module, "__dict__", {}) for module in modules]
    return {id(v): v for space in spaces for v in list(space.values()) if type(v) in (list, dict, set, deque)}


def root_of(array: np.ndarray) -> Any:
    """The array whose memory it is."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array
