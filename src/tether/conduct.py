"""How M may be written if something is to be proved of it: it computes, and asks nothing of what it is given.

A proof runs M on symbols in place of numbers. What M computes is then the same; what it could find out about
the objects it is given (their type, their memory, whether an operation on them fails) is not. So all Python
code that runs while M is traced is read, and code that asks such things, or that catches errors, is named.
"""

from __future__ import annotations

import builtins
import dis
import functools
import gc
import operator
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import BuiltinFunctionType, BuiltinMethodType, CodeType, FrameType, ModuleType
from typing import Any

import numpy as np

_ASKING = frozenset(
    {"type", "isinstance", "issubclass", "hasattr", "getattr", "callable", "id", "hash", "iter", "vars",
     "dir", "eval", "exec", "memoryview", "bytes", "bytearray", "__class__", "frombuffer", "ndarray",
     "matrix", "asmatrix", "shares_memory", "may_share_memory", "result_type", "can_cast", "issubdtype",
     "isscalar", "iterable", "errstate", "seterr", "seterrcall", "nditer", "ndenumerate", "vectorize",
     "frompyfunc",
     "lexsort", "simplefilter", "filterwarnings", "catch_warnings", "singledispatch", "singledispatchmethod",
     "is_", "is_not", "attrgetter", "methodcaller", "length_hint", "globals", "locals", "compile",
     "getsizeof", "getrefcount", "_getframe"}
)  # fmt: skip
"""Names by which code asks what it was given, or changes what happens where arithmetic fails."""
_PLACES: tuple[Any, ...] = (builtins, operator, functools, np, sys)
_ASKED = {id(vars(place)[name]): name for place in _PLACES for name in _ASKING if name in vars(place)}
"""The same by what they stand for: whatever else they may be called."""
_ASKING_KINDS: tuple[Any, ...] = (operator.attrgetter, operator.methodcaller, np.vectorize, memoryview)
_BUILTINS = frozenset(
    {"abs", "all", "any", "ascii", "bin", "chr", "delattr", "divmod", "format", "hex", "len", "max", "min",
     "next", "oct", "ord", "pow", "print", "repr", "round", "setattr", "sorted", "sum", "__build_class__",
     "__import__"}
)  # fmt: skip
"""Functions of Python's own that only compute; no others may be called."""
_SPECIAL = frozenset(
    {"__annotations__", "__build_class__", "__call__", "__classcell__", "__doc__", "__file__",
     "__firstlineno__", "__init__", "__init_subclass__", "__module__", "__name__", "__new__", "__post_init__",
     "__qualname__", "__set_name__", "__setattr__", "__static_attributes__", "__version__"}
)  # fmt: skip
"""Names with two underscores on either side that tell nothing of numbers and arrays; no others may be."""
_MOST_LOOKED_AT = 2000
_OTHERS = frozenset(
    {"copy", "typing", "enum", "abc", "collections", "dataclasses", "operator", "threading", "functools",
     "__future__"}
)  # fmt: skip
"""Modules of the standard library whose code may run."""
_DERIVED = ("numpy.ma", "numpy.matrixlib", "numpy.char", "numpy.rec", "numpy.lib._user_array")
"""Modules of NumPy whose arrays do otherwise than NumPy's own."""


@contextmanager
def watched() -> Iterator[list[str]]:
    """While M runs on symbols: what it must not do, in sentences, in the list given."""
    found: list[str] = []
    seen: set[CodeType] = set()
    before = sys.getprofile()

    def look(frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call" and _is_users(_module(frame)):
            asking = _called(argument)
            if asking:
                found.append(f"{asking} ({_line(frame.f_code, frame.f_lineno)})")
        if event != "call":
            return
        module = _module(frame)
        if _is_users(module):
            complaint = _among(frame, deep=frame.f_code not in seen)
            if frame.f_code not in seen:
                seen.add(frame.f_code)
                complaint = _complaint(frame.f_code) or complaint
            if complaint:
                found.append(complaint)
        elif _is_foreign(module, frame.f_code) and frame.f_back and _is_users(_module(frame.f_back)):
            line = _line(frame.f_back.f_code, frame.f_back.f_lineno)
            found.append(f"it calls `{module}.{frame.f_code.co_name}` ({line})")

    collecting = gc.isenabled()
    gc.disable()  # collections may call anybody's code, at any time
    sys.setprofile(look)
    try:
        yield found
    finally:
        _profile_again(before)
        if collecting:
            gc.enable()


def _called(function: Any) -> str | None:
    """What is wrong with a compiled function that is called, by whatever name."""
    if _of_objects(function):
        return "it uses an array of objects"
    if id(function) in _ASKED:
        return f"it uses `{_ASKED[id(function)]}`"
    own = type(function) is BuiltinFunctionType and function.__module__ == "builtins"
    if own and type(function.__self__) is ModuleType and function.__name__ not in _BUILTINS:
        return f"it uses `{function.__name__}`"
    return None


def _among(frame: FrameType, deep: bool) -> str | None:
    """A function that asks, under another name: an argument, a default, or what a name in the code is."""
    values = [*frame.f_locals.values()] if frame.f_code.co_varnames or frame.f_code.co_freevars else []
    if deep:
        names = frame.f_globals
        named = [names[name] for name in frame.f_code.co_names if name in names]
        modules = [vars(value) for value in named if type(value) is ModuleType and _is_users(value.__name__)]
        named += [space[name] for space in modules for name in frame.f_code.co_names if name in space]
        values = _held([*values, *named])
    for value in values:
        name = _ASKED.get(id(value)) or (type(value).__name__ if type(value) in _ASKING_KINDS else None)
        if name is None and _hides_errors(type(value)):
            name = "__getattr__"
        if name is not None:
            return f"it uses `{name}` ({_line(frame.f_code, frame.f_lineno)})"
    return None


def _hides_errors(kind: type) -> bool:
    """Whether what a property of it raises may be taken for a name that is missing."""
    return any("__getattr__" in vars(part) for part in kind.__mro__[:-1]) and _is_users(str(kind.__module__))


def _held(values: list[Any]) -> list[Any]:
    """With what lists, dictionaries and objects of the user's hold, and what these hold in turn."""
    found: dict[int, Any] = {}
    waiting = list(values)
    while waiting and len(found) < _MOST_LOOKED_AT:
        value = waiting.pop()
        if id(value) in found:
            continue
        found[id(value)] = value
        if type(value) in (list, tuple, set, frozenset):
            waiting += value
        elif type(value) is dict:
            waiting += value.values()
        elif type(value) is functools.partial:
            waiting += [value.func, *value.args, *value.keywords.values()]
        else:
            spaces = _attributes(value)
            waiting += [v for space in spaces for name, v in space.items() if not name.startswith("__")]
    return list(found.values())


def _attributes(value: Any) -> list[Any]:
    """Those of a class of the user's, or of an object of one."""
    kind = value if isinstance(value, type) else type(value)
    if not _is_users(str(kind.__module__)):
        return []
    held = [value.__dict__] if kind is not value and kind.__dictoffset__ else []
    return [*held, *(vars(part) for part in kind.__mro__[:-1])]


def _profile_again(before: Any) -> None:
    if before is None or callable(before):
        sys.setprofile(before)
    else:  # cProfile's, which Python gives but does not take
        before.enable()


def _of_objects(function: Any) -> bool:
    """Whether it is a method of such an array, which adds up in another order than one of floats."""
    owner = function.__self__ if type(function) is BuiltinMethodType else None
    return type(owner) is np.ndarray and owner.dtype == object


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _is_users(module: str) -> bool:
    root = module.partition(".")[0]
    if root == "tether":
        return not module.startswith(("tether.programs", "tether.verification", "tether.conduct"))
    return root != "numpy" and (root not in sys.stdlib_module_names or root == "__main__")


def _is_foreign(module: str, code: CodeType) -> bool:
    root = module.partition(".")[0]
    if root == "functools" and code.co_qualname.startswith("singledispatch"):
        return True
    if module.startswith(_DERIVED):
        return True
    return root in sys.stdlib_module_names and root not in _OTHERS and root != "__main__"


def _complaint(code: CodeType) -> str | None:
    """The first thing in a piece of code that symbols answer otherwise than numbers."""
    asking = sorted(_ASKING.intersection(code.co_names))
    if asking:
        return f"it uses `{asking[0]}` ({_line(code, code.co_firstlineno)})"
    special = [name for name in code.co_names if name.startswith("__") and name.endswith("__")]
    special = [name for name in special if name not in _SPECIAL and not name.startswith("__dataclass")]
    if special:
        return f"it uses `{special[0]}` ({_line(code, code.co_firstlineno)})"
    instructions = list(dis.get_instructions(code))
    names = [instruction.opname for instruction in instructions]
    if "WITH_EXCEPT_START" in names:
        return f"it uses `with`, which may hide errors ({_line(code, code.co_firstlineno)})"
    if "PUSH_EXC_INFO" in names:
        return f"it catches errors ({_line(code, code.co_firstlineno)})"
    if any(name.startswith("MATCH_") for name in names):
        return f"it matches patterns ({_line(code, code.co_firstlineno)})"
    for last, instruction in pairwise(instructions):
        if instruction.opname == "IS_OP" and not (last.opname == "LOAD_CONST" and last.argval is None):
            return f"it compares with `is` ({_line(code, code.co_firstlineno)})"
    return None


def _line(code: CodeType, number: int | None) -> str:
    return f"{Path(code.co_filename).name}:{number}"


def complain(found: list[str], refuse: Callable[[str], Any]) -> None:
    """Calls `refuse` with the first complaint, if there is one."""
    if found:
        refuse(
            f"`trusted` must only compute, for evidence `proved`: {found[0]}. It is given float64 arrays: "
            "leave such questions out, or use evidence `statistical`."
        )
