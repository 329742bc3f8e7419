"""How M may be written if something is to be proved of it: it computes, and asks nothing of what it is given.

A proof runs M on symbols in place of numbers. What M computes is then the same; what it could find out about
the objects it is given (their type, their memory, whether an operation on them fails) is not. So all Python
code that runs while M is traced is read, and code that asks such things, or that catches errors, is named.
"""

from __future__ import annotations

import _thread
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
from types import BuiltinFunctionType, CodeType, FrameType, ModuleType
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
_COMPUTING = frozenset(
    {"__future__", "__main__", "abc", "builtins", "collections", "copy", "copyreg", "dataclasses", "enum",
     "functools", "itertools", "math", "numbers", "operator", "types", "typing"}
)  # fmt: skip
"""Modules of the standard library that M may name, and whose compiled functions it may call."""
_LIMITS = frozenset({"float_info", "maxsize"})
"""What M may ask of `sys`: it is the same whoever runs M."""
_STARTING = frozenset(
    id(getattr(_thread, name)) for name in ("start_new_thread", "start_new", "_start_joinable_thread")
    if hasattr(_thread, name)
)  # fmt: skip
_CONVERTING: dict[int, str] = {
    id(getattr(np, name)): name
    for name in ("array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray", "fromiter",
                 "require", "asarray_chkfinite", "broadcast", "flatiter")
}  # fmt: skip
"""What takes an array apart without asking it: M sees stand-ins of these, and nothing else of the kind."""
_METHODS = frozenset(
    {"all", "any", "argmax", "argmin", "argpartition", "argsort", "astype", "byteswap", "clip", "compress",
     "conj", "conjugate", "copy", "cumprod", "cumsum", "diagonal", "fill", "flatten", "item", "max", "mean",
     "min", "nonzero", "partition", "prod", "put", "ravel", "repeat", "reshape", "resize", "round",
     "setflags", "sort", "squeeze", "std", "sum", "swapaxes", "take", "tobytes", "tolist", "trace",
     "transpose", "var", "view"}
)  # fmt: skip
"""Methods of NumPy's own arrays that compute nothing from other arrays, or ask these first."""
_PROTOCOLS = ("__array_", "__array__", "__buffer__")
_OF_SEQUENCES = frozenset({"__len__", "__getitem__", "__iter__"})
_ENDS = frozenset(
    {"RETURN_VALUE", "RETURN_CONST", "RETURN_GENERATOR", "YIELD_VALUE", "RESUME", "SEND", "YIELD_FROM"}
)
"""Where a function is left, or a generator is closed; anywhere else it is left by an error."""
_MAY_RAISE = frozenset({"__next__", "__getitem__"})
"""What tells by an error that there is no more."""
_DERIVED = ("numpy.ma", "numpy.matrixlib", "numpy.char", "numpy.rec", "numpy.lib._user_array")
"""Modules of NumPy whose arrays do otherwise than NumPy's own."""


@contextmanager
def watched(adopt: Callable[[dict[str, Any]], Any] | None = None) -> Iterator[list[str]]:
    """While M runs on symbols: what it must not do, in sentences, in the list given.

    Args:
        adopt: given the names of every module of the user's whose code runs, before it runs.
    """
    watch = _Watch(adopt)
    before, collecting, hook = sys.getprofile(), gc.isenabled(), watch.look
    gc.disable()  # collections may call anybody's code, at any time
    sys.setprofile(hook)
    try:
        yield watch.found
        if sys.getprofile() is not hook:
            watch.found.append("it changes how Python runs (`sys.setprofile`)")
        watch.found += watch.raised  # M went on, so somebody swallowed these
    finally:
        _profile_again(before)
        if collecting:
            gc.enable()


class _Watch:
    """What Python tells of each call, and what is found in it."""

    def __init__(self, adopt: Callable[[dict[str, Any]], Any] | None) -> None:
        self.found: list[str] = []
        self.raised: list[str] = []
        self._adopt = adopt
        self._own: dict[int, tuple[CodeType, bool]] = {}
        self._seen: set[int] = set()
        self._adopted: set[int] = set()

    def look(self, frame: FrameType, event: str, argument: Any) -> None:
        """What `sys.setprofile` calls."""
        code = frame.f_code
        known = self._own.get(id(code))
        if known is None:
            known = self._own[id(code)] = code, _is_users(_module(frame))
        if not known[1]:
            self._look_at_others(frame, event, argument)
        elif event == "call":
            self._enter(frame)
        elif event == "c_call":
            asking = _called(argument)
            if asking:
                self.found.append(f"{asking} ({_line(code, frame.f_lineno)})")
        elif event == "c_exception":
            self._raise(frame, argument)
        elif argument is None and _is_left_by_an_error(frame):
            self._raise(frame, None)

    def _look_at_others(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call" and id(argument) in _STARTING:
            self.found.append("it starts a thread")
        elif event == "call" and frame.f_back is not None:
            module = _module(frame)
            if _is_foreign(module, frame.f_code) and _is_users(_module(frame.f_back)):
                line = _line(frame.f_back.f_code, frame.f_back.f_lineno)
                self.found.append(f"it calls `{module}.{frame.f_code.co_name}` ({line})")

    def _enter(self, frame: FrameType) -> None:
        """A function of the user's is called."""
        names, code = frame.f_globals, frame.f_code
        if self._adopt is not None and id(names) not in self._adopted:
            self._adopted.add(id(names))
            self._adopt(names)
        new = id(code) not in self._seen
        complaint = _among(frame, deep=new) or _protocol(frame)
        if new:
            self._seen.add(id(code))
            complaint = _complaint(code) or complaint
        if complaint:
            self.found.append(complaint)

    def _raise(self, frame: FrameType, function: Any) -> None:
        """An error: compiled code may take it for an answer, and symbols may raise where numbers do not."""
        name = getattr(function, "__name__", None)
        if name not in ("next", "send", "throw", "__next__"):
            what = f"`{name}` raises an error" if name else f"`{frame.f_code.co_name}` raises an error"
            self.raised.append(f"{what} that compiled code hides ({_line(frame.f_code, frame.f_lineno)})")


_instructions: dict[int, tuple[CodeType, frozenset[int], frozenset[int]]] = {}


def _places(code: CodeType) -> tuple[frozenset[int], frozenset[int]]:
    """Where in a piece of code it is left, and where it has an operator."""
    if id(code) not in _instructions:
        lines = list(dis.get_instructions(code))
        ends = frozenset(line.offset for line in lines if line.opname in _ENDS)
        operators = frozenset(
            line.offset for line in lines
            if line.opname == "COMPARE_OP" or (line.opname == "BINARY_OP" and line.argrepr != "[]")
        )  # fmt: skip
        _instructions[id(code)] = code, ends, operators
    return _instructions[id(code)][1:]


def _is_left_by_an_error(frame: FrameType) -> bool:
    code = frame.f_code
    return code.co_name not in _MAY_RAISE and frame.f_lasti not in _places(code)[0]


def _protocol(frame: FrameType) -> str | None:
    """Whether NumPy asks an object of the user's what is in it, and does not ask the entries who they are."""
    name, back = frame.f_code.co_name, frame.f_back
    asked = name.startswith(_PROTOCOLS)
    if name in _OF_SEQUENCES and back is not None and _is_users(_module(back)):
        # Python's own operators ask no object for its entries.
        asked = back.f_lasti in _places(back.f_code)[1]
    return f"NumPy makes an array of an object, by `{name}` ({_users_line(frame)})" if asked else None


def _users_line(frame: FrameType) -> str:
    back = frame.f_back if frame.f_back is not None and _is_users(_module(frame.f_back)) else frame
    return _line(back.f_code, back.f_lineno)


def _called(function: Any) -> str | None:
    """What is wrong with a compiled function that is called, by whatever name."""
    owner = getattr(function, "__self__", None)
    if type(owner) is np.ndarray:
        return _of_array(function.__name__, owner)
    if id(function) in _ASKED:
        return f"it uses `{_ASKED[id(function)]}`"
    if id(function) in _CONVERTING or function is builtins.sum:
        return f"it uses `{function.__name__}` in a way that cannot be followed: call it by its name"
    own = type(function) is BuiltinFunctionType and function.__module__ == "builtins"
    if own and type(owner) is ModuleType and function.__name__ not in _BUILTINS:
        return f"it uses `{function.__name__}`"
    module = owner.__name__ if type(owner) is ModuleType else type(owner).__module__
    return f"it uses `{module}.{function.__name__}`" if _is_outside(str(module)) else None


def _of_array(name: str, owner: Any) -> str | None:
    """What is wrong with a method of one of NumPy's own arrays."""
    if owner.dtype == object:
        return "it uses an array of objects"
    if name in _METHODS:
        return None
    # It would run a loop over objects, in another order than that of floats.
    return f"it uses `ndarray.{name}`, which does not ask what it is given: write np.{name}, or `@`"


def _is_outside(module: str) -> bool:
    """Whether a module of the standard library tells of the interpreter, the clock, files or others."""
    root = module.partition(".")[0]
    return root in sys.stdlib_module_names and root.lstrip("_") not in _COMPUTING and root not in _COMPUTING


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
        if name is None and type(value) is ModuleType and _is_outside(value.__name__):
            name = _asked_of(value, frame.f_code)
        if name is None:
            name = "sys.modules" if value is sys.modules else _CONVERTING.get(id(value))
        if name is None and _hides_errors(type(value)):
            name = "__getattr__"
        if name is not None:
            return f"it uses `{name}` ({_line(frame.f_code, frame.f_lineno)})"
    return None


def _asked_of(module: ModuleType, code: CodeType) -> str | None:
    """A module that M must not ask; of `sys`, its limits may be asked for."""
    named = [name for name in code.co_names if name in vars(module) and name not in _LIMITS]
    return module.__name__ if module is not sys or named else None


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


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _is_users(module: str) -> bool:
    root = module.partition(".")[0]
    if root == "tether":
        return not module.startswith(("tether.programs", "tether.verification", "tether.trusted.conduct"))
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
    imported = [str(line.argval) for line in instructions if line.opname == "IMPORT_NAME"]
    outside = [name for name in imported if _is_outside(name) and not (name == "sys" and _limits_only(code))]
    if outside:
        return f"it uses `{outside[0]}` ({_line(code, code.co_firstlineno)})"
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


def _limits_only(code: CodeType) -> bool:
    return _asked_of(sys, code) is None


def _line(code: CodeType, number: int | None) -> str:
    return f"{Path(code.co_filename).name}:{number}"


def complain(found: list[str], refuse: Callable[[str], Any]) -> None:
    """Calls `refuse` with the first complaint, if there is one."""
    if found:
        refuse(
            f"`trusted` must only compute, for evidence `proved`: {found[0]}. It is given float64 arrays: "
            "leave such questions out, or use evidence `statistical`."
        )
