"""How large what is asked for, or read from a file, may be: said before anything is allocated for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from numbers import Integral, Real
from typing import Any

MOST_LEAVES = 5_000_000
MOST_MEMORIES = 1_000_000
MOST_ROWS = 100_000_000
"""Of data or probes."""
MOST_DRAWS = 100_000_000
"""Of M, for statistical evidence or an attack."""
MOST_PARAMETERS = 100_000_000
"""Weights and biases of a network."""
MOST_LAYERS = 1000
MOST_STEPS = 1_000_000_000
MOST_COLUMNS = 10_000
MOST_PROCESSES = 1024
LARGEST_SEED = 2**53
LARGEST_DOCUMENT = 64 << 20
"""Bytes of a text file of ours: results, certificate, metrics."""
LARGEST_HEADER = 16 << 20
"""Bytes of the part of a model file that says what is in it."""
LARGEST_FILE = 4 << 30
"""Bytes of a model file."""
LARGEST_TABLE = 2 << 30
"""Bytes of a table's columns once they are unpacked."""


def is_whole(value: Any) -> bool:
    """Whether `value` is a whole number, Python's or NumPy's."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Whether `value` is a real number, Python's or NumPy's."""
    return isinstance(value, Real) and not isinstance(value, bool)


def check_whole(name: str, value: Any, *, least: int = 0, most: int) -> None:
    """Raises unless `value` is a whole number from `least` to `most`."""
    if not is_whole(value):
        raise TypeError(f"`{name}` must be a whole number; got {value!r}.")
    if value < least:
        raise ValueError(f"`{name}` must be at least {least}; got {value}.")
    if value > most:
        raise ValueError(f"`{name}` must be at most {most:,}; got {_shown(value)}. Choose a smaller one.")


def check_number(
    name: str, value: Any, *, least: float = -math.inf, most: float = math.inf, above: float = -math.inf
) -> None:
    """Raises unless `value` is a finite number from `least` to `most`, and larger than `above`."""
    if not is_number(value):
        raise TypeError(f"`{name}` must be a number; got {value!r}.")
    if value <= above:
        raise ValueError(f"`{name}` must be {'positive' if above == 0 else f'above {above:g}'}; got {value}.")
    if not (math.isfinite(value) and least <= value <= most):
        lower = "" if least == -math.inf else f"at least {least:g}"
        upper = "" if most == math.inf else f"at most {most:g}"
        rule = " and ".join(filter(None, ["finite", lower, upper]))
        raise ValueError(f"`{name}` must be {rule}; got {_shown(value)}.")


def check_seed(name: str, value: Any) -> None:
    """Raises unless `value` can start a random generator."""
    check_whole(name, value, most=LARGEST_SEED)


def check_processes(name: str, value: Any) -> None:
    """Raises unless joblib can count so many processes: -1 means all cores."""
    check_whole(name, value, least=-MOST_PROCESSES, most=MOST_PROCESSES)
    if value == 0:
        raise ValueError(f"`{name}` must be at least 1, or -1 for all cores; got 0.")


def check_widths(name: str, widths: Sequence[int], *, inputs: int = 1, outputs: int = 1) -> None:
    """Raises unless a network with such layers has a number of weights that fits into memory."""
    if isinstance(widths, str) or not all(map(is_whole, widths)):
        raise TypeError(f"`{name}` must list whole numbers; got {widths!r}.")
    if any(width < 1 for width in widths):
        raise ValueError(f"`{name}` must list positive layer widths; got {tuple(widths)}.")
    if len(widths) > MOST_LAYERS:
        raise ValueError(f"`{name}` must list at most {MOST_LAYERS:,} layers; got {len(widths):,}.")
    shown = f"{tuple(widths)!s:.60}"
    total = sum((a + 1) * b for a, b in pairwise([inputs, *map(int, widths), outputs]))
    if total > MOST_PARAMETERS:
        raise ValueError(
            f"`{name}` must make a network of at most {MOST_PARAMETERS:,} weights; got {shown}, which takes "
            f"{_shown(total)}. Choose narrower layers."
        )


def check_draws(epsilon: Any, beta: Any) -> None:
    """Raises unless the draws that statistical evidence takes can be made."""
    for name, value in (("epsilon", epsilon), ("beta", beta)):
        if not is_number(value) or not 0 < value < 1:
            raise ValueError(f"`{name}` must be between 0 and 1; got {value!r}.")
    needed = 4 * math.log(beta) / min(math.log1p(-epsilon), -5e-324)
    if not needed <= MOST_DRAWS:
        raise ValueError(
            f"`epsilon` must be such that at most {MOST_DRAWS:,} draws establish it; got {epsilon:g} with "
            f"beta {beta:g}, which takes {needed:.2g}. Allow a larger share of inputs."
        )


def _shown(value: Any) -> str:
    """A number short enough for a line."""
    return f"{value:,}" if is_whole(value) and abs(value) < 10**18 else f"{float_of(value):.3g}"


def float_of(value: Any) -> float:
    """A whole number as large as you like, as far as a float can follow."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
