"""While M runs on symbols: Python tells of each function that starts, and none of the user's runs unread."""

from __future__ import annotations

import _thread
import gc
import os
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

from tether.trusted.reading.kinds import is_engine, is_stranger
from tether.trusted.reading.sources import line_of, was_read

_OWN = f"{Path(__file__).parents[2]}{os.sep}"
_LIBRARY = f"{sysconfig.get_path('stdlib')}{os.sep}"
_OTHERS = tuple(f"{sysconfig.get_path(name)}{os.sep}" for name in ("purelib", "platlib"))
_NUMPY = f"{Path(np.__file__).parent}{os.sep}"
_MADE = ("<frozen ", "<__array_function__")
_RESULTS = frozenset(
    id(kind.__new__.__code__)
    for name in ("numpy.linalg._linalg", "numpy.lib._arraysetops_impl") if name in sys.modules
    for kind in vars(sys.modules[name]).values() if isinstance(kind, type) and issubclass(kind, tuple)
)  # fmt: skip
"""Code of no file that makes the named tuples which NumPy's functions return."""
_STARTING = frozenset(
    id(getattr(_thread, name)) for name in ("start_new_thread", "start_new", "_start_joinable_thread")
    if hasattr(_thread, name)
)  # fmt: skip


class Tripwire:
    """Between `start` and `stop`, whatever runs unread is told to `complain`."""

    def __init__(self, complain: Callable[[str], Any]) -> None:
        self._complain = complain
        self._known: dict[int, tuple[CodeType, bool]] = {}
        self._before: Any = None
        self._collecting = True

    def start(self) -> None:
        """From now on."""
        self._before, self._collecting = sys.getprofile(), gc.isenabled()
        gc.disable()  # collections may call anybody's code, at any time
        sys.setprofile(self._look)

    def stop(self) -> None:
        """No longer."""
        if sys.getprofile() != self._look:
            self._complain("it changes how Python runs (`sys.setprofile`)")
        if self._before is None or callable(self._before):
            sys.setprofile(self._before)
        else:  # cProfile's, which Python gives but does not take
            self._before.enable()
        if self._collecting:
            gc.enable()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """While this package works on text alone, which is most of what Python would tell of."""
        watching = sys.getprofile() == self._look  # else somebody took its place, which `stop` complains of
        if watching:
            sys.setprofile(None)
        try:
            yield
        finally:
            if watching:
                sys.setprofile(self._look)

    def _look(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "call":
            code = frame.f_code
            known = self._known.get(id(code))
            if known is None:
                known = self._known[id(code)] = code, was_read(code) or not _is_users(frame)
            if not known[1]:
                self._complain(
                    f"`{code.co_name}` runs without being read ({line_of(code, code.co_firstlineno)})"
                )
        elif event == "c_call" and id(argument) in _STARTING:
            self._complain("it starts a thread")


def _is_users(frame: FrameType) -> bool:
    filename = frame.f_code.co_filename
    if filename.startswith((_NUMPY, _OWN)) or id(frame.f_code) in _RESULTS:
        return False
    if filename.startswith(_MADE):  # which anybody may call his code
        return not _is_librarys(frame.f_globals)
    if filename == "<string>":  # what dataclasses write
        name = frame.f_globals.get("__name__")
        return not is_engine(name) and not is_stranger(name)
    return not filename.startswith(_LIBRARY) or filename.startswith(_OTHERS)


def _is_librarys(names: dict[str, Any]) -> bool:
    """Whether these are the names of a module of Python's or NumPy's own."""
    module = str(names.get("__name__"))
    return is_stranger(module) and vars(sys.modules.get(module, sys)) is names
