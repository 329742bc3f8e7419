"""Which values are known to hold no symbol, which may hold some, and which are objects of the user's."""

from __future__ import annotations

import itertools
import sys
import types
from abc import ABCMeta
from collections import deque
from enum import EnumMeta
from typing import Any

import numpy as np

_SCALARS = frozenset(kind for kind in np.sctypeDict.values() if kind not in (np.object_, np.void))
NUMBERS = frozenset({float, int, bool, complex, str, bytes, type(None), *_SCALARS})
"""What Python and NumPy compute with by themselves: nothing is inside."""
ATOMS = NUMBERS | {range, type(...), type(NotImplemented), types.GenericAlias}
MOVED = frozenset({list, tuple, dict, set, frozenset, deque})
"""Containers whose entries can be anything: they are moved, and not looked at."""
_VIEWS = frozenset({type({}.keys()), type({}.values()), type({}.items())})
ITERABLE = frozenset({list, tuple, dict, set, frozenset, deque, range, str, bytes, *_VIEWS})
"""What Python goes through without anybody's code."""
KEYED = frozenset({dict, set, frozenset, str, bytes, range, type({}.keys())})
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
DESCRIBED: tuple[Any, ...] = (np.dtype, np.finfo, np.iinfo, type(sys.float_info), np.poly1d)
"""What tells of numbers, and does not change."""
FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, np.ufunc, type(np.sum))
_HEAP = 1 << 9  # a class that was made while Python ran, as all classes written in Python are
_ENGINE = ("tether.programs", "tether.verification", "tether.trusted.reading")
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
    return not is_stranger(module) or module.partition(".")[0] in _BASES


def is_namedtuple(kind: type) -> bool:
    """Whether a class has the names that a named tuple has; that it is one remains to be seen."""
    return kind.__mro__[1:] == (tuple, object) and "_fields" in vars(kind)


def is_namespace(names: dict[Any, Any]) -> bool:
    """Whether a dictionary is a module's own: of modules that trace, and of Python, it tells too much."""
    name = names.get("__name__")
    module = sys.modules.get(name) if isinstance(name, str) else None
    return module is not None and module.__dict__ is names


def root_of(array: np.ndarray) -> Any:
    """The array whose memory it is."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array
