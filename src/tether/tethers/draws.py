"""Independent inputs of a domain, from the distributions that a model file alone defines.

Their words are :data:`tether.foundation.wording.DISTRIBUTION`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tether.data import Array, Schema
from tether.geometry.boxtree import BoxTree
from tether.geometry.cells import Cells

_ATTEMPTS = 1000
Within = Callable[[Array], NDArray[np.bool_]]


class Distribution(Protocol):
    """What a user's own inputs are drawn from."""

    def draw(self, count: int, rng: np.random.Generator) -> Array:
        """(count, D) independent inputs."""
        ...


def draw_over(
    over: Distribution, known: Within, count: int, schema: Schema, rng: np.random.Generator
) -> Array:
    """(count, D) from a distribution of the user's own, where something is `known`."""
    return _within(lambda missing: over.draw(missing, rng), known, count, schema)


def draw_in_domain(cells: Cells, count: int, schema: Schema, rng: np.random.Generator) -> Array:
    """(count, D) a memory drawn uniformly, and a point uniform in its coverage ball moved into the box."""

    def draw(missing: int) -> Array:
        return _in_balls(cells, missing, (cells.box_lower, cells.box_upper), rng)

    return _within(draw, lambda inputs: cells.locate(inputs).in_domain, count, schema)


def draw_in_box(
    tree: BoxTree, known: Within, cells: Cells, count: int, schema: Schema, rng: np.random.Generator
) -> Array:
    """(count, D) by chance anywhere in the box or around memories, where something is `known`."""

    def draw(missing: int) -> Array:
        anywhere = rng.uniform(tree.lower, tree.upper, (missing, len(tree.lower)))
        near = _in_balls(cells, missing, (tree.lower, tree.upper), rng)
        return np.where(rng.random((missing, 1)) < 0.5, anywhere, near)

    return _within(draw, known, count, schema)


def _in_balls(cells: Cells, count: int, box: tuple[Array, Array], rng: np.random.Generator) -> Array:
    cell = rng.integers(0, len(cells), count)
    direction = rng.standard_normal((count, cells.memories.shape[1]))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    reach = cells.radii[cell] * rng.random(count) ** (1 / direction.shape[1])
    # A box that holds the memory: moving into it cannot lead away from the memory.
    return np.clip((cells.memories[cell] + reach[:, None] * direction) * cells.scale, *box)


def _within(draw: Callable[[int], Array], within: Within, count: int, schema: Schema) -> Array:
    """Draws again where something is outside the domain."""
    kept: list[Array] = []
    missing, dx = count, len(schema.states)
    for _ in range(_ATTEMPTS):
        inputs = draw(missing)
        inputs = schema.wrap_inputs(inputs[:, :dx], inputs[:, dx:])
        kept.append(inputs[within(inputs)])
        missing -= len(kept[-1])
        if missing <= 0:
            return np.concatenate(kept)
    raise ValueError(
        f"the domain must hold some of what is drawn; {missing} of {count} points lie outside of it even "
        f"after {_ATTEMPTS} attempts. Widen the domain, or draw `over` other inputs."
    )
