"""Whatever a user gives as `trusted`, as a :class:`TrustedModel`."""

from __future__ import annotations

from typing import Any

from tether.trusted.forms import read_form
from tether.trusted.model import TrustedModel


def as_trusted(trusted: Any, **options: Any) -> TrustedModel:
    """`trusted` as a :class:`TrustedModel`.

    Args:
        trusted: a model, a function of (states, controls), a model in one of :mod:`tether.trusted.forms`, or
            the path of a file that holds one.
        options: what its form needs to be told.
    """
    if isinstance(trusted, TrustedModel):
        return trusted
    return read_form(trusted, **options) or TrustedModel(trusted, **options)
