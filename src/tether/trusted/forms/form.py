"""What a form of trusted model is: how it is recognised, and what reads it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

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
            f"Run `pip install {module.partition('.')[0]}`."
        ) from None


def refuse(form: str, construct: str) -> ValueError:
    """What is raised where a model has in it what is not translated."""
    return ValueError(
        f"`trusted` must be made of operations that are known here; this {form} has {construct}. Pass its "
        "values as a function (states, controls) -> next states, with evidence `statistical`."
    )
