"""How kernels are compiled, and run on all cores.

Numba's own ``prange`` is not safe from several Python threads or after a fork. Here rows are cut into
pieces and each piece is run by a plain Python thread, in code that holds no lock.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numba
import numpy as np
from numba.core import config


def compiled(function: Callable[..., Any]) -> Any:
    """Compile with Numba, without the GIL, and cached on disk where some folder is writable."""
    return _compile(function, fastmath=False)


def compiled_reordered(function: Callable[..., Any]) -> Any:
    """The same, free to reorder and fuse sums: faster, and good only where rounding does not matter."""
    return _compile(function, fastmath={"reassoc", "contract"})


def in_threads(run: Callable[[slice], None], count: int) -> None:
    """Calls `run` on slices that cover ``range(count)``.

    The threads live for one call: nothing to share, nothing to lose in a fork. There are four pieces
    for each, so that a core that is busy elsewhere does not hold up the rest.
    """
    workers: int = config.NUMBA_NUM_THREADS  # pyright: ignore[reportAttributeAccessIssue]
    if workers == 1 or count < 4 * workers:
        run(slice(0, count))
        return
    edges = np.linspace(0, count, 4 * workers + 1).astype(int)
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(lambda pair: run(slice(*pair)), pairwise(edges)))


def _compile(function: Callable[..., Any], **options: Any) -> Any:
    try:
        return numba.njit(nogil=True, cache=True, **options)(function)
    except RuntimeError:  # "no locator available": a read-only installation and a read-only home
        return numba.njit(nogil=True, **options)(function)
