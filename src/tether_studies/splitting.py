"""Data whose split is given, in an order by which the library's own split, by chance, gives just that."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tether.data import Array, Probes, Schema, Transitions

Rows = tuple[Array, Array, Array]
"""States, controls and next states of one part."""


def arranged_transitions(parts: tuple[Rows, Rows, Rows], schema: Schema, *, seed: int) -> Transitions:
    """Transitions of three episodes, which a split by `seed` gives back.

    Args:
        parts: to train, to validate, to test.
        schema: what the columns mean.
        seed: of the split, :meth:`Transitions.split`, with at most half of all episodes for each of the two.
    """
    order = np.random.default_rng(seed).permutation(3)
    # It takes the first of these for validation, the next for the test, and the last to train.
    place = {int(order[0]): 1, int(order[1]): 2, int(order[2]): 0}
    chosen = [parts[place[episode]] for episode in range(3)]
    states, controls, following = (np.concatenate([part[k] for part in chosen]) for k in range(3))
    episodes = np.repeat(np.arange(3), [len(part[0]) for part in chosen])
    return Transitions.from_arrays(states, controls, following, episodes=episodes, schema=schema)


def arranged_probes(
    parts: tuple[Array, Array, Array], schema: Schema, *, shares: tuple[float, float], seed: int
) -> Probes:
    """Probes in an order by which a split by row gives back the parts, whose shares are these.

    Args:
        parts: inputs (N, D) to train, to validate, to test.
        schema: what the columns mean.
        shares: of all rows that the second and the third part are.
        seed: of the split.
    """
    inputs = np.concatenate([parts[1], parts[2], parts[0]])
    held_out = [max(1, round(share * len(inputs))) for share in shares]
    if held_out != [len(parts[1]), len(parts[2])]:
        raise ValueError(
            f"`shares` must be those of the parts held out; got {shares} for {len(parts[1])} and "
            f"{len(parts[2])} of {len(inputs)} rows."
        )
    rows: NDArray[np.int64] = np.random.default_rng(seed).permutation(len(inputs))
    arranged = np.empty_like(inputs)
    arranged[rows] = inputs
    dx = len(schema.states)
    return Probes.from_arrays(arranged[:, :dx], arranged[:, dx:], schema=schema)
