"""From logs as they are to transitions.

``find_sources`` -> files and frames -> ``read_rows`` -> Rows -> ``drop_repeated``, ``split_at_gaps``,
``resample``, ``cut_blocks`` -> Rows -> ``read_log`` -> Transitions and what was done.
"""

from tether.data.logs.reading import read_log, read_transitions
from tether.data.logs.settings import LogConfig

__all__ = ["LogConfig", "read_log", "read_transitions"]
