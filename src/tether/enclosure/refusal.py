"""The one error of this package: what could not be bounded, where, and what to write instead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

INSTEAD = {
    "copysign": "Use np.abs, times np.sign where the sign is decided",
    "einsum": "Use `@`, or multiply and sum over an axis",
    "heaviside": "Use np.where on a condition that is decided over each box",
    "interp": "Write it with np.minimum, np.maximum and np.clip",
    "round": "It is not continuous; leave it out, or use np.floor where it is constant over each box",
    "select": "Use np.where on conditions that are decided over each box",
    "piecewise": "Use np.where on conditions that are decided over each box",
    "linalg.inv": "Write the inverse out, or solve in closed form",
    "linalg.solve": "Write the solution out in closed form",
}
_OTHERWISE = "Write it with arithmetic and the functions listed in the documentation of tether.enclosure"


class EnclosureError(TypeError):
    """An operation that cannot be bounded over the boxes given; nothing is guessed in its place."""


def refuse(operation: str, rule: str, instead: str = "") -> NoReturn:
    """Raise, naming the operation, the rule it broke and what to do."""
    raise EnclosureError(f"`{operation}` {rule}." + (f" {instead}." if instead else ""))


def refuse_unsupported(operation: str) -> NoReturn:
    """Raise for an operation that this package does not bound at all."""
    refuse(operation, "cannot be bounded over a box", INSTEAD.get(operation, _OTHERWISE))


def refuse_where(offending: Any, operation: str, rule: str, values: Any, instead: str = "") -> None:
    """Raise if any entry of `offending` holds, naming the first such row and the bounds there.

    Args:
        offending: boolean array of any shape.
        operation: name of the operation.
        rule: what the operand must satisfy.
        values: (lower, upper) of the operand, broadcastable to `offending`.
        instead: what to do.
    """
    offending = np.asarray(offending)
    if not offending.any():
        return
    index: tuple[Any, ...] = np.unravel_index(int(offending.argmax()), offending.shape)
    lower, upper = (float(np.broadcast_to(bound, offending.shape)[index]) for bound in values)
    refuse(operation, f"{rule}; got [{lower:g}, {upper:g}] {place(index)}", instead)


def place(index: Sequence[Any]) -> str:
    """Where in an array, in words."""
    if not index:
        return "in a scalar"
    whole = f" (index {[int(axis) for axis in index]})" if len(index) > 1 else ""
    return f"at row {int(index[0])}{whole}"
