"""Probes (the paper's Ω): inputs without labels, placed where conformance matters most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tether.data.glitches import find_glitches
from tether.data.schema import Array, Box, Schema, check_known, check_matrix
from tether.data.transitions import Transitions
from tether.foundation.limits import LARGEST_TABLE, MOST_ROWS, check_seed, check_whole


@dataclass(frozen=True)
class Emphasis:
    """A region of the probe box that receives a share of the probes of its own.

    Attributes:
        box: as for :meth:`Probes.from_box`; columns left out keep the outer box's range.
        share: fraction of all probes placed here, in (0, 1].
    """

    box: Box
    share: float


@dataclass(frozen=True)
class Jitter:
    """Probes to be made from the training data once that is known; see :meth:`Probes.from_jitter`.

    Jittering all data instead would put near-copies of test inputs among the training probes. A fit leaves
    out those at which M has no answer.
    """

    spread: float = 0.1
    count: int | None = None

    def __post_init__(self) -> None:
        _check_spread(self.spread)
        if self.count is not None:
            check_whole("count", self.count, least=1, most=MOST_ROWS)


@dataclass(frozen=True, eq=False)
class Probes:
    """Inputs without labels, placed where conformance matters most (the paper's Ω).

    Attributes:
        states: (N, dx).
        controls: (N, du).
        schema: what the columns mean.
    """

    states: Array
    controls: Array
    schema: Schema

    @classmethod
    def from_arrays(cls, states: ArrayLike, controls: ArrayLike, *, schema: Schema) -> Probes:
        """Probes from arrays (N, dx) and (N, du)."""
        states = check_matrix("probes", states, schema.states)
        controls = check_matrix("probes", controls, schema.controls)
        if len(states) == 0 or len(states) != len(controls):
            raise ValueError(
                f"`probes` must have at least one row and as many states as controls; "
                f"got {len(states)} and {len(controls)}."
            )
        inputs = schema.wrap_inputs(states, controls)
        return cls(inputs[:, : len(schema.states)], inputs[:, len(schema.states) :], schema)

    @classmethod
    def from_box(
        cls,
        box: Box,
        *,
        count: int,
        like: Transitions,
        emphasis: Sequence[Emphasis] = (),
        seed: int = 0,
    ) -> Probes:
        """Probes drawn uniformly from a box.

        Args:
            box: range ``(low, high)`` or a fixed value by column name; a column left out spans the
                range it has in `like`, but for glitches.
            count: number of probes.
            like: transitions that name the columns and fill in missing ranges.
            emphasis: regions that receive a share of the probes of their own.
            seed: of the draw.
        """
        if not isinstance(like, Transitions):
            raise TypeError(
                f"`like` must be Transitions; got {type(like).__name__}. Read a log with `tether.read_log`."
            )
        check_probes(count, like.schema)
        check_seed("seed", seed)
        shares = [region.share for region in emphasis]
        if sum(shares) > 1 + 1e-9 or any(not 0 < share <= 1 for share in shares):
            raise ValueError(f"emphasis shares must be in (0, 1] and add up to at most 1; got {shares}.")
        rng = np.random.default_rng(seed)
        inputs = like.inputs[~find_glitches(like)]  # one would be enough to make the range useless
        outer = _box_limits(box, like.schema, inputs.min(axis=0), inputs.max(axis=0))
        boxes = [*(_box_limits(region.box, like.schema, *outer) for region in emphasis), outer]
        # The running total is rounded, not each share, so that the parts always add up to `count`.
        totals = [0, *(min(count, round(total * count)) for total in np.cumsum(shares)), count]
        drawn = [
            rng.uniform(low, high, size=(rows, len(low)))
            for (low, high), rows in zip(boxes, np.diff(totals), strict=True)
        ]
        return cls._from_inputs(rng.permutation(np.concatenate(drawn)), like.schema)

    @classmethod
    def from_jitter(
        cls, transitions: Transitions, *, spread: float = 0.1, count: int | None = None, seed: int = 0
    ) -> Probes:
        """Probes around the data: rows of `transitions` moved by `spread` standard deviations."""
        _check_spread(spread)
        if count is not None:
            check_probes(count, transitions.schema)
        check_seed("seed", seed)
        rng = np.random.default_rng(seed)
        inputs = transitions.inputs
        rows = rng.choice(len(inputs), size=count or len(inputs), replace=(count or 0) > len(inputs))
        noise = rng.standard_normal((len(rows), inputs.shape[1])) * inputs.std(axis=0) * spread
        return cls._from_inputs(inputs[rows] + noise, transitions.schema)

    @classmethod
    def _from_inputs(cls, inputs: Array, schema: Schema) -> Probes:
        dx = len(schema.states)
        return cls.from_arrays(inputs[:, :dx], inputs[:, dx:], schema=schema)

    def __len__(self) -> int:
        return len(self.states)

    @property
    def inputs(self) -> Array:
        """(N, D): states, then controls."""
        return np.concatenate([self.states, self.controls], axis=1)

    def take(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> Probes:
        """The given rows, in the given order."""
        return replace(self, states=self.states[rows], controls=self.controls[rows])


def _check_spread(spread: float) -> None:
    if not np.isfinite(spread) or spread < 0:
        raise ValueError(f"`spread` must be a finite number >= 0; got {spread}.")


def check_probes(count: int, schema: Schema) -> None:
    """Raises unless so many rows fit into memory."""
    check_whole("count", count, least=1, most=LARGEST_TABLE // (8 * len(schema.inputs)))


def _box_limits(box: Box, schema: Schema, low: Array, high: Array) -> tuple[Array, Array]:
    check_known("box", box, "inputs", schema.inputs)
    low, high = low.copy(), high.copy()
    for name, limits in box.items():
        column = schema.inputs.index(name)
        low[column], high[column] = limits if isinstance(limits, (tuple, list)) else (limits, limits)
    wrong = ~(np.isfinite(low) & np.isfinite(high) & (low <= high))
    if wrong.any():
        column = int(np.argmax(wrong))
        raise ValueError(
            f"`box` must have finite limits, low <= high; got {low[column]}:{high[column]} for "
            f"'{schema.inputs[column]}'."
        )
    return low, high
