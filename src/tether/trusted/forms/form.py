"""What a form of trusted model is: how it is recognised, and what reads it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from tether.data import Array
from tether.foundation.extras import installing
from tether.trusted.model import TrustedModel


@dataclass(frozen=True)
class Form:
    """A form in which a model may come.

    Attributes:
        module: the library that such objects are of; where it was never imported, there is none of them.
        holds: whether an object, of that library perhaps, is one.
        read: the model; takes ``states=`` and ``controls=``, how many there are, None where not told.
        suffix: of files that hold one; "" for none.
    """

    module: str
    holds: Callable[[Any], bool]
    read: Callable[..., TrustedModel]
    suffix: str = ""

    def recognises(self, value: Any) -> bool:
        """Whether it is one; imports nothing."""
        return self.module in sys.modules and self.holds(value)


def needed(module: str) -> Any:
    """A library, or one line that says how to get it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise ValueError(
            f"`trusted` must be a model whose library is installed; {module} is not ({error}). "
            f"Run {installing(module.partition('.')[0])}."
        ) from None


class UntranslatedError(Exception):
    """A model has in it what is not translated; the text says what."""


def refuse(form: str, construct: str) -> UntranslatedError:
    """What is raised where a model has in it what is not translated."""
    return UntranslatedError(f"this {form} has {construct}, which is not translated")


class AsItIs:
    """``(states, controls) -> next states`` by a model's own library; it has no source to be known by."""

    def __init__(self, original: Callable[[Array, Array], Array], name: str) -> None:
        self.original = original
        self.__qualname__ = name

    def __call__(self, states: Array, controls: Array) -> Array:
        """Next states."""
        return self.original(states.copy(), controls.copy())


def as_it_is(error: UntranslatedError, original: Callable[[Array, Array], Array], name: str) -> TrustedModel:
    """The model that its own library computes: no proof can look inside."""
    return TrustedModel(AsItIs(original, name), black_box=str(error))
