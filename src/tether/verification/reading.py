"""A function in NumPy as its program, tried before anything rests on it: M, a policy, a rule.

It is traced for one row and on batches of several counts of rows; code like it with other numbers in it must
be followed rightly (:mod:`twins`); and what it returns must lie in the program's range.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tether.data import Array
from tether.verification import twins
from tether.verification.claim import ROUNDOFF
from tether.verification.graph import UnboundedError
from tether.verification.interpreter import enclose
from tether.verification.tracing import Program, trace

_COMPARED = 512
"""Points that may be given to code with other numbers in it."""


class Read(NamedTuple):
    """A program, and on how many rows the function was tried beside one."""

    program: Program
    counts: tuple[int, ...]

    def assumed(self, name: str) -> str:
        """What was tried and is not proved, in a sentence."""
        *several, most = sorted({1, *self.counts})
        return (
            f"Assumed: the {name} gives a row what it gives that row alone (checked on batches of "
            f"{', '.join(map(str, several))} and {most} rows)."
        )


def read(function: Callable[..., Any], sizes: tuple[int, int, int], places: Array, draw: bytes) -> Read:
    """The program of a function of states and others, tried.

    Args:
        function: of arrays (N, dx) and (N, k).
        sizes: how many columns these have, and how many it returns.
        places: (N, D) points that it may be asked about.
        draw: by which the last count of rows is drawn: not to be known where the function is written.

    Raises:
        UnboundedError: its code does something that is not known, mixes rows, or is not followed reliably.
    """
    counts = 2, 5, 6, (3, 4, 7, 8, 9, 10, 11, 12)[hashlib.sha256(draw).digest()[0] % 8]
    program = trace(function, *sizes, counts)
    reason = twins.unlike_twins(function, program, places[:_COMPARED], sizes, counts)
    if reason is not None:
        raise UnboundedError(reason)
    return Read(program, counts)


class Unlike(NamedTuple):
    """Where a function does not do what its program says: a point (D,), the output, and both values."""

    point: Array
    output: int
    value: float
    read: float


def first_unlike(
    program: Program, points: Array, values: Array, *, beside: Array | float, turning: NDArray[np.bool_]
) -> Unlike | None:
    """The first of points (N, D) whose values (N, P) are not in the program's range; None where all are.

    Args:
        program: what the function was read as.
        points: (N, D).
        values: (N, P) of the function.
        beside: (N, P) size of what values were added to on their way out of it.
        turning: (P,) outputs that are known up to whole turns.
    """
    found = enclose(program, points, points, slopes=False)
    middle, width = (0.5 * found.lower + 0.5 * found.upper).T, (found.upper - found.lower).T
    with np.errstate(invalid="ignore"):
        off = values - middle
        off = np.abs(off - 2 * np.pi * np.round(off / (2 * np.pi)) * turning)
        slack = 64 * ROUNDOFF * (np.abs(values) + np.abs(middle) + beside)
        wrong = (off > width + slack) & np.isfinite(width)
    if not wrong.any():
        return None
    row, output = (int(k) for k in np.argwhere(wrong)[0])
    return Unlike(points[row], output, float(values[row, output]), float(middle[row, output]))
