"""How large a benchmark is: as published, or tiny, which says nothing of speed but that it runs.

TETHER_TINY=1 python benchmarks/bench_forward.py
"""

import os

TINY = bool(os.environ.get("TETHER_TINY"))
"""Set in tests: sizes shrink, and a target missed is not a failure."""


def size(published, tiny):
    """The first, or in tests the second."""
    return tiny if TINY else published
