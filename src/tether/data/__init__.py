"""Transitions (D) and probes (Ω), and what their columns mean.

``schema`` says what columns are, ``transitions`` and ``probes`` hold rows, ``files`` and ``logs`` read them.

Shapes: ``N`` rows, ``D`` inputs (states then controls), ``P`` outputs.
"""

from tether.data.glitches import find_glitches, joined
from tether.data.probes import Emphasis, Jitter, Probes, check_probes
from tether.data.scaling import Scaling, fit_scaling
from tether.data.schema import (
    HALF_TURN,
    MOST_RADIANS,
    QUARTER_TURN,
    Array,
    Box,
    Schema,
    Target,
    check_known,
    check_matrix,
    make_schema,
    near,
    with_radians,
    wrap_angle,
)
from tether.data.transitions import Places, Split, Transitions, number_episodes

__all__ = [
    "HALF_TURN",
    "MOST_RADIANS",
    "QUARTER_TURN",
    "Array",
    "Box",
    "Emphasis",
    "Jitter",
    "Places",
    "Probes",
    "Scaling",
    "Schema",
    "Split",
    "Target",
    "Transitions",
    "check_known",
    "check_matrix",
    "check_probes",
    "find_glitches",
    "fit_scaling",
    "joined",
    "make_schema",
    "near",
    "number_episodes",
    "with_radians",
    "wrap_angle",
]
