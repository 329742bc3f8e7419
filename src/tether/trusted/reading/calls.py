"""Calls: what a function is by its identity, and who computes it.

Functions of the user's are read. Of Python's and NumPy's own those that are known to compute are called,
where no symbol is in what they are given; else they are the tracer's. No others are called.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tether.trusted.reading import objects, sources
from tether.trusted.reading.computing import Arguments, Options, computed, given, is_native, known
from tether.trusted.reading.kinds import is_users_class
from tether.trusted.reading.making import construct
from tether.trusted.reading.methods import compiled, method
from tether.trusted.reading.pythons import HANDLERS
from tether.trusted.reading.rewriting import UnreadableError

if TYPE_CHECKING:
    from tether.trusted.reading.reader import Reader


class Called:
    """A function of the user's as compiled code may call it."""

    def __init__(self, reader: Reader, function: Any) -> None:
        self._reader, self._function = reader, function
        self.__name__ = getattr(function, "__name__", type(function).__name__)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """What it gives."""
        return self._reader.call(self._function, *arguments, **options)


class OfSymbol:
    """A method of a symbol."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function


def call(reader: Reader, function: Any, arguments: Arguments, options: Options) -> Any:
    """``function(*arguments, **options)``."""
    if is_native(function):
        return computed(reader, function, arguments, options)
    handler = _handler(function)
    if handler is not None:
        return handler(reader, *arguments, **options)
    by_kind = _KINDS.get(type(function))
    if by_kind is not None:
        return by_kind(reader, function, arguments, options)
    if isinstance(function, type):
        return _constructed(reader, function, arguments, options)
    found = objects.special(reader, function, "__call__")
    if found is not None:
        return call(reader, found, arguments, options)
    return compiled(reader, function, arguments, options)


def _handler(function: Any) -> Callable[..., Any] | None:
    try:
        return HANDLERS.get(function)
    except TypeError:  # not hashable
        return None


def _function(reader: Reader, function: Any, arguments: Arguments, options: Options) -> Any:
    """One written in Python."""
    if not sources.was_read(function.__code__):
        function = _read(reader, function)
    result = function(*arguments, **options)
    return reader.fresh(result) if type(result) is types.GeneratorType else result


def _read(reader: Reader, function: types.FunctionType) -> Callable[..., Any]:
    try:
        return sources.read(function, reader)
    except UnreadableError as error:
        reader.refuse_whole(f"{error.why} ({sources.line_of(function.__code__, error.line)})")


def _bound(reader: Reader, function: Any, arguments: Arguments, options: Options) -> Any:
    owner = function.__self__
    if type(owner) is np.random.Generator:
        return method(reader, owner, function, function.__name__, arguments, options)
    return call(reader, function.__func__, (owner, *arguments), options)


def _partial(reader: Reader, function: Any, arguments: Arguments, options: Options) -> Any:
    return call(reader, function.func, (*function.args, *arguments), {**function.keywords, **options})


def _of_symbol(reader: Reader, function: OfSymbol, arguments: Arguments, options: Options) -> Any:
    arguments, options, _ = given(reader, "it", arguments, options)
    return known(reader, function.function(*arguments, **options))


def _called(reader: Reader, function: Any, arguments: Arguments, options: Options) -> Any:
    del reader
    return function(*arguments, **options)


def _constructed(reader: Reader, kind: type, arguments: Arguments, options: Options) -> Any:
    if issubclass(kind, BaseException):
        arguments, options, symbolic = given(reader, kind.__name__, arguments, options)
        if symbolic or options:
            reader.refuse("it raises an error that holds numbers which are not known", "Leave them out")
        return kind(*arguments)
    if is_users_class(kind):
        return construct(reader, kind, arguments, options)
    reader.refuse(f"it uses `{kind.__name__}`")


_KINDS: dict[type, Callable[..., Any]] = {
    types.FunctionType: _function,
    types.MethodType: _bound,
    functools.partial: _partial,
    OfSymbol: _of_symbol,
    Called: _called,
}
