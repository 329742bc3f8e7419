"""How M may be written if something is to be proved of it: it computes, and asks nothing of what it is given.

A proof runs M on symbols in place of numbers. What M computes is then the same; what it could find out about
the objects it is given (their type, their memory, whether an operation on them fails) is not. So all Python
code that runs while M is traced is read, and code that asks such things, or that catches errors, is named.
"""

from __future__ import annotations

import dis
import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import BuiltinMethodType, CodeType, FrameType
from typing import Any

import numpy as np

_ASKING = frozenset(
    {"type", "isinstance", "issubclass", "hasattr", "getattr", "callable", "id", "hash", "iter", "vars",
     "dir", "eval", "exec", "memoryview", "bytes", "bytearray", "__class__", "frombuffer", "ndarray",
     "matrix", "asmatrix", "shares_memory", "may_share_memory", "result_type", "can_cast", "issubdtype",
     "isscalar", "iterable", "errstate", "seterr", "seterrcall", "nditer", "ndenumerate", "vectorize",
     "frompyfunc",
     "lexsort", "simplefilter", "filterwarnings", "catch_warnings", "singledispatch"}
)  # fmt: skip
"""Names by which code asks what it was given, or changes what happens where arithmetic fails."""
_OTHERS = frozenset(
    {"copy", "typing", "enum", "abc", "collections", "dataclasses", "operator", "threading", "functools",
     "__future__"}
)  # fmt: skip
"""Modules of the standard library whose code may run."""


@contextmanager
def watched() -> Iterator[list[str]]:
    """While M runs on symbols: what it must not do, in sentences, in the list given."""
    found: list[str] = []
    seen: set[CodeType] = set()
    before = sys.getprofile()

    def look(frame: FrameType, event: str, _argument: Any) -> None:
        if event == "c_call" and _of_objects(_argument) and _is_users(_module(frame)):
            found.append(f"it uses an array of objects ({_line(frame.f_code, frame.f_lineno)})")
        if event != "call" or frame.f_code in seen:
            return
        module = _module(frame)
        if _is_users(module):
            seen.add(frame.f_code)
            complaint = _complaint(frame.f_code)
            if complaint:
                found.append(complaint)
        elif _is_foreign(module) and frame.f_back is not None and _is_users(_module(frame.f_back)):
            line = _line(frame.f_back.f_code, frame.f_back.f_lineno)
            found.append(f"it calls `{module}.{frame.f_code.co_name}` ({line})")

    collecting = gc.isenabled()
    gc.disable()  # collections may call anybody's code, at any time
    sys.setprofile(look)
    try:
        yield found
    finally:
        sys.setprofile(before)
        if collecting:
            gc.enable()


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


def _is_foreign(module: str) -> bool:
    root = module.partition(".")[0]
    return root in sys.stdlib_module_names and root not in _OTHERS and root != "__main__"


def _complaint(code: CodeType) -> str | None:
    """The first thing in a piece of code that symbols answer otherwise than numbers."""
    asking = sorted(_ASKING.intersection(code.co_names))
    if asking:
        return f"it uses `{asking[0]}` ({_line(code, code.co_firstlineno)})"
    instructions = list(dis.get_instructions(code))
    names = [instruction.opname for instruction in instructions]
    if names.count("PUSH_EXC_INFO") > names.count("WITH_EXCEPT_START"):
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
