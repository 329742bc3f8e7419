"""Kernels on all cores: rows cut into pieces, each run by a Python thread that holds no lock.

Numba's own ``prange`` is not safe from several Python threads or after a fork; this is.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
from numba.core import config


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
