"""Angles that wrap and were not declared, or are declared and in degrees."""

from __future__ import annotations

import math

import numpy as np

from tether.data import Array
from tether.foundation.documents import shorten

_TURNS = (
    (2 * math.pi, "Declare it with `angles=['{0}']` (command line: `--angle {0}`)"),
    (
        360.0,
        "Convert it, and M, to radians and declare it with `angles=['{0}']` (command line: `--angle {0}`)",
    ),
)


def check_wrapped(name: str, now: Array, after: Array) -> None:
    """Raises where a column (N,) and its next values look like an angle that wraps.

    It stays within one turn, and from some state to the next it jumps by nearly all of it, more often than by
    about half of it, as what is merely irregular would.
    """
    for turn, remedy in _TURNS:
        if jumps := _jumps(now, after, turn):
            called = shorten(name)
            raise ValueError(
                f"`angles` must name columns that wrap; got '{called}' undeclared, which jumps by about "
                f"{turn:.4g} from a state to the next {jumps} times. {remedy.format(called)}; if it is "
                f"no angle, say `not_angles=('{called}',)` (`--not-angle {called}`)."
            )


def check_radians(name: str, now: Array, after: Array) -> None:
    """Raises where a column (N,) declared as an angle wraps as degrees do: no radians jump by 360."""
    if jumps := _jumps(now, after, 360.0):
        called = shorten(name)
        raise ValueError(
            f"`angles` must be in radians; got '{called}', which stays within a turn of 360 and jumps by "
            f"about 360 from a state to the next {jumps} times. Convert it, and M, to radians."
        )


def _jumps(now: Array, after: Array, turn: float) -> int:
    """How often a column within one turn jumps by nearly all of it; 0 if by half of it as often."""
    if len(now) == 0:
        return 0
    low, high = _usual_range(np.concatenate([now, after]))
    slack = 1e-3 * turn
    least = next((s - slack for s in (-turn / 2, 0.0) if s - slack <= low and high <= s + turn + slack), None)
    if least is None:
        return 0
    # A value beyond the turn is a glitch, and no place to wrap at.
    most = least + turn + 2 * slack
    held = np.logical_and.reduce([(least <= part) & (part <= most) for part in (now, after)])
    step = np.abs(after - now)[held]
    jumps = int((step > 0.9 * turn).sum())
    halves = int(((step > 0.3 * turn) & (step < 0.7 * turn)).sum())
    return jumps if jumps > halves else 0


_LEAST_ROWS = 100
"""Fewer are too few to leave any out."""


def _usual_range(values: Array) -> tuple[float, float]:
    """Without a thousandth of the values at either end, or the least that a glitch is: it is there twice."""
    aside = max(2, len(values) // 1000) if len(values) >= 2 * _LEAST_ROWS else 0
    ordered = np.sort(values)
    return float(ordered[aside]), float(ordered[len(values) - 1 - aside])
