"""Delta-monotonicity: does predicted glucose rise when insulin is raised and all else stays the same?

As the paper's table, but over *all* held-out inputs, and over the worst of them; and an attack that looks
for a single rise among millions of pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether.data import Array, Schema, Transitions
from tether_studies.pancreas.data import insulin_columns

Predict = Callable[[Array, Array], Array]
"""``(states (N, dx), controls (N, du)) -> outputs (N, 1)``."""

RAISED_BY = (0.6, 1.0)
"""How much insulin is raised, in its own unit, as the paper says."""
WORST = 100
_RAISES = 16
"""Ways in which the attack raises each starting point."""
_LEAST_RAISE = -12
"""Smallest raise of the attack, as a power of ten of insulin's scale."""


@dataclass(frozen=True)
class Rises:
    """Rises of predicted glucose over pairs of inputs.

    Attributes:
        maximum: largest rise, mg/dl; 0 where nothing rose.
        mean: mean rise, a fall counting as 0, mg/dl.
        violations: share of pairs in which it rose at all.
    """

    maximum: float
    mean: float
    violations: float

    @classmethod
    def of(cls, rises: Array) -> Rises:
        """From differences of any shape, raised minus before."""
        risen = np.maximum(rises, 0.0)
        return cls(float(risen.max()), float(risen.mean()), float((risen > 0).mean()))


def measure_monotonicity(predict: Predict, held_out: Transitions, *, seed: int = 0) -> dict[str, Any]:
    """Keys of ``results.json`` about rises, at a random one of the ten lags and at every insulin input.

    Args:
        predict: the method.
        held_out: transitions that it has not seen.
        seed: of lags and amounts; the same for every method, so that they face the same pairs.
    """
    before = _answers(predict, held_out.inputs, held_out.schema)
    hardest = np.argsort(-((before - held_out.next_states[:, 0]) ** 2), kind="stable")[:WORST]
    one = raise_one_lag(predict, held_out.inputs, held_out.schema, seed=seed)
    every = raise_every_lag(predict, held_out.inputs, held_out.schema, seed=seed)
    summaries = {
        "": Rises.of(one),
        "_every_lag": Rises.of(every),
        f"_worst_{WORST}": Rises.of(one[hardest]),
        f"_every_lag_worst_{WORST}": Rises.of(every[hardest]),
    }
    result: dict[str, Any] = {}
    for suffix, rises in summaries.items():
        result[f"monotonicity_rise_max{suffix}"] = rises.maximum
        result[f"monotonicity_rise_mean{suffix}"] = rises.mean
        result[f"monotonicity_violations{suffix}"] = rises.violations
    return result


def raise_one_lag(predict: Predict, inputs: Array, schema: Schema, *, seed: int = 0) -> Array:
    """(N,) change of the prediction where insulin is raised at a random one of the ten past values."""
    rng = np.random.default_rng(seed)
    rows, past = np.arange(len(inputs)), insulin_columns(schema)[:-1]
    columns = rng.choice(past, size=len(inputs))
    raised = inputs.copy()
    raised[rows, columns] += rng.uniform(*RAISED_BY, size=len(inputs))
    return _answers(predict, raised, schema) - _answers(predict, inputs, schema)


def raise_every_lag(predict: Predict, inputs: Array, schema: Schema, *, seed: int = 0) -> Array:
    """(N, L) change of the prediction for each insulin input, the one about to be given included."""
    rng = np.random.default_rng(seed)
    before = _answers(predict, inputs, schema)
    changes = []
    for column in insulin_columns(schema):
        raised = inputs.copy()
        raised[:, column] += rng.uniform(*RAISED_BY, size=len(inputs))
        changes.append(_answers(predict, raised, schema) - before)
    return np.stack(changes, axis=1)


@dataclass(frozen=True)
class RiseAttack:
    """What an attack on monotonicity found.

    Attributes:
        pairs: how many were tried.
        rises: in how many the prediction rose, by however little.
        largest: the largest rise, mg/dl.
    """

    pairs: int
    rises: int
    largest: float


def attack_monotonicity(
    predict: Predict, inputs: Array, schema: Schema, scale: Array, *, pairs: int = 10_000_000, seed: int = 0
) -> RiseAttack:
    """Looks for a single rise among many pairs.

    Some or all insulin inputs are raised, by amounts between a millionth of a millionth and ten times their
    scale, or by one unit in the last place; a third of the starting points lie far from any data, and each
    is raised in several ways. The two inputs of a pair are predicted in batches of different sizes and at
    different places, because a sum that is added up differently in another batch is what such a claim
    fails on.

    Args:
        predict: the method.
        inputs: (N, D) rows to start from.
        schema: what the columns mean.
        scale: (D,) scale of each input.
        pairs: how many to try.
        seed: of everything drawn.
    """
    rng = np.random.default_rng(seed)
    rises, largest, done = 0, 0.0, 0
    while done < pairs:
        starts = _starting_points(inputs, scale, int(rng.integers(2_000, 4_000)), rng)
        size = min(pairs - done, _RAISES * len(starts))
        after = _raised(np.repeat(starts, _RAISES, axis=0)[:size], schema, scale, rng)
        order = rng.permutation(size)
        cut = int(rng.integers(1, size)) if size > 1 else 1
        first = np.repeat(_answers(predict, starts, schema), _RAISES)[:size]
        parts = [part for part in (after[order[:cut]], after[order[cut:]]) if len(part)]
        second = np.empty(size)
        second[order] = np.concatenate([_answers(predict, part, schema) for part in parts])
        rises += int((second > first).sum())
        largest = max(largest, float((second - first).max()))
        done += size
    return RiseAttack(done, rises, max(largest, 0.0))


def _starting_points(inputs: Array, scale: Array, size: int, rng: np.random.Generator) -> Array:
    rows = inputs[rng.integers(len(inputs), size=size)]
    spread = rng.choice([0.0, 0.1, 10.0], size=(size, 1))
    return rows + spread * scale * rng.standard_normal(rows.shape)


def _raised(inputs: Array, schema: Schema, scale: Array, rng: np.random.Generator) -> Array:
    """Inputs of which at least one insulin value is raised."""
    columns = insulin_columns(schema)
    shape = (len(inputs), len(columns))
    amounts = 10.0 ** rng.uniform(_LEAST_RAISE, 1, size=shape) * scale[columns]
    touched = rng.random(shape) < rng.choice([0.0, 0.5, 1.0], size=(len(inputs), 1))
    touched[np.arange(len(inputs)), rng.integers(len(columns), size=len(inputs))] = True
    values = inputs[:, columns]
    least = np.nextafter(values, np.inf)
    by_an_ulp = rng.random(shape) < 0.1
    higher = np.where(by_an_ulp, least, np.maximum(values + amounts, least))
    raised = inputs.copy()
    raised[:, columns] = np.where(touched, higher, values)
    return raised


def _answers(predict: Predict, inputs: Array, schema: Schema) -> Array:
    states = len(schema.states)
    return predict(inputs[:, :states], inputs[:, states:])[:, 0]
