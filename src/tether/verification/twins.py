"""Whether M's code is followed rightly here where other numbers are in it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

from tether.data import Array
from tether.trusted.reading.twins import difference
from tether.verification.graph import UnboundedError
from tether.verification.interpreter import enclose
from tether.verification.tracing import Program, trace


def unlike_twins(
    function: Callable[..., Any],
    program: Program,
    places: Array,
    sizes: tuple[int, int, int],
    counts: Sequence[int],
) -> str | None:
    """Where a twin of M is not what it is read as, in words; None where none was found.

    Args:
        function: M.
        program: what it was read as.
        places: (N, D) points of the domain.
        sizes: how many states, controls and outputs there are.
        counts: of the rows of batches.
    """

    def follow(twin: Callable[..., Any], points: Array, batches: bool) -> tuple[Array, Array] | None:
        try:
            found = enclose(trace(twin, *sizes, counts if batches else ()), points, points, slopes=False)
        except UnboundedError:
            return None
        return found.lower.T, found.upper.T

    seed = int(hashlib.sha256(repr(program.nodes).encode()).hexdigest()[:12], 16)
    found = difference(function, places, places, sizes[0], seed, follow)
    return None if found is None else f"code that is not followed reliably: {found}"
