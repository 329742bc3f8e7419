"""The domain of bounds by cell: coverage balls around memories, shrunk by what float32 errs in a distance.

Memories are rounded in physical units, ``m̂``, so that ``t = fl(s - m̂)`` has a relative error of u, whatever
the size of s and m. ``fl(t fl(1 / scale))`` has one of γ_4, so the sum of squares one of γ_{D+8}. The exact
scaled distance to m is thus at most ``r̂ (1 + γ_{D+8}/2) + |(m̂ - m) / scale|_2 + √D 2^-62``. The float32 test
accepts only what this puts within the outer radius of the float64 claim. Either of two nearly tied memories
may be picked: what is claimed holds over whole balls.
"""

from __future__ import annotations

import numpy as np

from tether.data import Array, Schema
from tether.geometry.cells import Cells
from tether.model.single.rounding import UNIT, Single, domain_box, down
from tether.model.single.tether import memory_tables


def ball_tables(cells: Cells, schema: Schema) -> dict[str, Single]:
    """Memories, limits on squared distances for the balls around them, and the box."""
    radii, memories = cells.outer_radii, memory_tables(cells)
    dimensions = cells.memories.shape[1]
    moved = np.linalg.norm((memories["centers"] - cells.centers) / cells.scale, axis=1)
    shift = moved * (1 + 1e-12) + np.sqrt(dimensions) * 2.0**-62
    inner = (radii - shift) / (1 + (dimensions + 12) * UNIT)
    if not (inner > 2.0**-50).all():
        cell = int(np.argmin(inner))
        raise ValueError(
            "`model` must have coverage radii that rounding to float32 leaves something of; in cell "
            f"{cell} the radius is {radii[cell]:.3g} (scaled) and rounding moves the memory by "
            f"{moved[cell]:.3g}. Move the origin of the inputs nearer to the data, or stay with float64."
        )
    return {
        **memories,
        "limit": down(inner * inner * (1 - 2.0**-40)),
        **domain_box(cells.box_lower, cells.box_upper, schema),
    }


def base_size(cells: Cells, schema: Schema) -> Array:
    """(K, P) at most as large the state that an increment is added to is in each ball."""
    ball = np.abs(cells.centers) + cells.outer_radii[:, None] * cells.scale
    box = np.maximum(np.abs(cells.box_lower), np.abs(cells.box_upper))
    return schema.base(np.minimum(ball, box)[:, : len(schema.states)])
