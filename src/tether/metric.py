"""The metric of the cells: inputs along which M bends count, inputs it ignores or follows linearly do not.

Memories are few, and a cell should be small where a first-order model of M is poor. A car's next
increment does not depend on where on the map it is, so cells should not be spent on the map.
"""

from __future__ import annotations

import numpy as np

from tether.data import Array, Schema, Target
from tether.trusted import TrustedModel

_PAIRS = 512
_LEAST_WEIGHT = 0.05
"""An input is never ignored altogether: what is true of M at sampled pairs may not be true everywhere."""


def bending_weights(
    trusted: TrustedModel, inputs: Array, schema: Schema, target: Target, *, seed: int = 0
) -> Array:
    """(D,) weights in (0, 1]: how much M's target departs from affine as each input changes.

    For pairs of rows (s, t) and each input d, two second differences of M: of d alone, at the middle
    between s_d and t_d; and of d with everything else, the same step of d taken at s and at t. Both
    vanish for every input if M is affine, and then all weights are 1.

    Args:
        trusted: M.
        inputs: (N, D) rows to draw pairs from.
        schema: what the columns mean.
        target: what of M is bounded.
        seed: of the draw.
    """
    rng = np.random.default_rng(seed)
    count, dimensions = min(_PAIRS, len(inputs)), inputs.shape[1]
    one = inputs[rng.choice(len(inputs), count, replace=False)]
    two = inputs[rng.choice(len(inputs), count, replace=False)]
    rows = [one, two]
    for column in range(dimensions):
        for values in (two[:, column], 0.5 * (one[:, column] + two[:, column])):
            changed = one.copy()
            changed[:, column] = values
            rows.append(changed)
        changed = two.copy()
        changed[:, column] = one[:, column]
        rows.append(changed)
    answers = trusted.target(np.concatenate(rows), schema, target).reshape(len(rows), count, -1)
    at_one, at_two = answers[:2]
    there, middle, here = answers[2::3], answers[3::3], answers[4::3]
    zero = np.zeros(1)
    alone = schema.near(at_one - 2 * middle + there, zero)
    crossed = schema.near((at_one - there) - (here - at_two), zero)
    spread = np.maximum(answers[:2].std(axis=(0, 1)), np.finfo(np.float64).tiny)
    bend = np.sqrt((alone**2 + crossed**2).mean(axis=1)) / spread
    weights = bend.max(axis=1)
    # Rounding alone gives an affine M some bend.
    if weights.max() < 1e-9:
        return np.ones(dimensions)
    return np.clip(weights / weights.max(), _LEAST_WEIGHT, 1.0)
