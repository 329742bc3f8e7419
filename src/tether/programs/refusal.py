"""The one error of this package: what could not be bounded, where, and what to write instead."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import lru_cache, wraps
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import numpy as np

INSTEAD = {
    "argmax": "Use np.maximum, which has a bound where either may be the greater",
    "argmin": "Use np.minimum, which has a bound where either may be the lesser",
    "copysign": "Use np.abs, times np.sign where the sign is decided",
    "float": "Leave it out, use NumPy's functions, or math's by the name `math.sin`",
}
_OTHERWISE = "Write it with arithmetic and the functions listed in the documentation of tether.programs"
_OWN, _NUMPY = f"{Path(__file__).parents[1]}{os.sep}", str(Path(np.__file__).parent)
_TRACER = str(Path(__file__).with_name("tracing.py"))


class EnclosureError(TypeError):
    """An operation that cannot be bounded over the boxes given; nothing is guessed in its place."""


# Every refusal of the trace that is running, in case M swallows one; None: no trace is running.
swallowed: list[EnclosureError] | None = None


def refuse(operation: str, rule: str, instead: str = "", line: str | None = None) -> NoReturn:
    """Raise, naming the operation, the rule it broke, what to do and the user's line."""
    line = users_line() if line is None else line
    message = f"`{operation}` {rule}." + (f" {instead}." if instead else "") + (f" ({line})" if line else "")
    error = EnclosureError(message)
    if swallowed is not None:
        swallowed.append(error)
    raise error


def refuse_unsupported(operation: str) -> NoReturn:
    """Raise for an operation that this package does not bound at all."""
    refuse(operation, "cannot be bounded over a box", INSTEAD.get(operation, _OTHERWISE))


def remembered(function: Callable[..., Any]) -> Callable[..., Any]:
    """Where it raises as NumPy might not of floats, that is not lost, whoever swallows the error."""

    @wraps(function)
    def call(asked: Any, *arguments: Any) -> Any:
        try:
            return function(asked, *arguments)
        except (TypeError, AttributeError) as error:
            if isinstance(error, EnclosureError):
                raise
            refuse(asked.__name__, f"cannot be followed here ({error})", _OTHERWISE)

    return call


def is_users(filename: str) -> bool:
    """Whether a source file is neither NumPy's nor of this library."""
    return not filename.startswith((_OWN, _NUMPY, "<__array_function__"))


@lru_cache
def _shown(filename: str) -> str:
    """The name of a file of the user's; empty for all others."""
    return Path(filename).name if is_users(filename) else ""


def users_line() -> str:
    """File and line of the innermost frame that is the user's; empty where M itself is not running."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        shown = _shown(name)
        if shown:
            return f"{shown}:{frame.f_lineno}"
        if name == _TRACER and frame.f_code.co_name == "_call":
            return ""  # beyond are those who asked for the trace, not M
        frame = frame.f_back
    return ""
