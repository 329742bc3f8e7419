"""A fitted model, measured on every held-out transition of a log that is larger than memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tether.data import Array, Schema, Transitions
from tether.data.logs import LogConfig
from tether.data.logs.reading import stream_log
from tether.fitting.config import FitConfig
from tether.model import Model
from tether.trusted import Function, TrustedModel, as_trusted

_ROWS = 1 << 16


@dataclass(frozen=True)
class Whole:
    """What all held-out rows say, where a sample was fitted to.

    Attributes:
        rows: transitions of held-out episodes, all of them.
        episodes: that they are of.
        coverage: share of them in the domain.
        rmse: by output, of the model.
        trusted_rmse: by output, of M.
        worst_error: by output, of the model.
        band_miss: by output, share of rows in the domain whose truth lies outside of the band.
    """

    rows: int
    episodes: int
    coverage: float
    rmse: Mapping[str, float]
    trusted_rmse: Mapping[str, float]
    worst_error: Mapping[str, float]
    band_miss: Mapping[str, float]

    def as_dict(self) -> dict[str, Any]:
        """For a file."""
        return asdict(self)

    @property
    def lines(self) -> tuple[str, ...]:
        """What to tell of it."""
        against = ", ".join(
            f"{name} {error:.4g} ({self.trusted_rmse[name]:.4g})" for name, error in self.rmse.items()
        )
        missed = ", ".join(f"{name} {share:.2%}" for name, share in self.band_miss.items())
        return (
            f"all held-out data: {self.rows:,} transitions of {self.episodes:,} episodes, "
            f"{self.coverage:.2%} in the domain",
            f"root mean square error there (of M): {against}",
            f"outside the band there: {missed}",
        )


def measure_log(
    model: Model,
    trusted: TrustedModel | Function,
    source: Any,
    sampled: Transitions,
    *,
    reading: LogConfig,
    config: FitConfig,
) -> Whole:
    """Reads a log once more, piece by piece, for the episodes that the fit did not learn from.

    Args:
        model: fitted to a sample.
        trusted: M.
        source: the log.
        sampled: the sample, with rows of every episode.
        reading: how the log was read.
        config: how the sample was split.
    """
    split = sampled.split(validation=config.validation, test=config.test, seed=config.seed)
    held_out = np.unique(split.test.episodes)
    sums, before = _Sums(model.schema, as_trusted(trusted)), 0
    for piece in stream_log(source, reading):
        own = piece.episodes + before
        before = int(own.max()) + 1
        rows = np.flatnonzero(np.isin(own, held_out))
        for start in range(0, len(rows), _ROWS):
            sums.add(model, piece.take(rows[start : start + _ROWS]))
    return sums.result(len(held_out))


class _Sums:
    """Of errors so far."""

    def __init__(self, schema: Schema, trusted: TrustedModel) -> None:
        self.schema, self.trusted = schema, trusted
        self.rows = self.inside = 0
        self.squares, self.trusted_squares, self.worst, self.missed = np.zeros((4, len(schema.outputs)))

    def add(self, model: Model, part: Transitions) -> None:
        """Takes rows into account."""
        found = model.predict(part.states, part.controls, details=True)
        answers = self.trusted(part.states, part.controls, self.schema)
        error = self.schema.distance(found.next_states, part.next_states)
        truth = self.schema.near(part.next_states, 0.5 * found.lower + 0.5 * found.upper)
        outside = (truth < found.lower) | (truth > found.upper)
        self.rows += len(part)
        self.inside += int(found.in_domain.sum())
        self.squares += (error**2).sum(axis=0)
        self.trusted_squares += (self.schema.distance(answers, part.next_states) ** 2).sum(axis=0)
        self.worst = np.maximum(self.worst, error.max(axis=0))
        self.missed += outside[found.in_domain].sum(axis=0)

    def result(self, episodes: int) -> Whole:
        """Of all rows."""
        return Whole(
            self.rows,
            episodes,
            self.inside / max(self.rows, 1),
            self._named(np.sqrt(self.squares / max(self.rows, 1))),
            self._named(np.sqrt(self.trusted_squares / max(self.rows, 1))),
            self._named(self.worst),
            self._named(self.missed / max(self.inside, 1)),
        )

    def _named(self, values: Iterable[float] | Array) -> dict[str, float]:
        return dict(zip(self.schema.outputs, map(float, values), strict=True))
