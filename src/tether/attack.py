"""Tries to break a certificate: searches the domain for an input where some weights leave delta.

Whatever the weights, an output lies in the bounds, and the worst one is at an end of them. So the search is
over inputs alone, for the largest ``distance from M to the farther bound / delta``. A ratio above 1 is a
counter-example.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tether.cells import CellSampler
from tether.constrained import ConstrainedModel
from tether.data import Array
from tether.progress import Report
from tether.trusted import Function, TrustedModel, as_trusted

_CHUNK = 1 << 15
_CLIMBERS = 512


@dataclass(frozen=True)
class Attack:
    """What the search found.

    Attributes:
        max_ratio: largest distance over delta; above 1 the certificate is refuted.
        evaluations: inputs tried.
        output: name of the output where it was found.
        distance: the distance found there, in the output's unit.
        delta: what was certified there.
        inputs: the input, by name.
    """

    max_ratio: float
    evaluations: int
    output: str
    distance: float
    delta: float
    inputs: dict[str, float]

    @property
    def broken(self) -> bool:
        """Whether a counter-example was found."""
        return self.max_ratio > 1


def attack(
    model: ConstrainedModel,
    trusted: TrustedModel | Function,
    *,
    evaluations: int = 200_000,
    seed: int = 0,
    progress: Report | None = None,
) -> Attack:
    """Searches for a counter-example to the model's certificate.

    A third of the budget goes to points inside every cell, a third to rims, faces and corners of the
    coverage regions, a third to climbing from the worst points found.

    Args:
        model: the model; its weights do not matter.
        trusted: M.
        evaluations: how many inputs to try.
        seed: of the search.
        progress: told (inputs tried, inputs to try).
    """
    if evaluations < 1:
        raise ValueError(f"`evaluations` must be at least 1; got {evaluations}.")
    search = _Search(model, as_trusted(trusted), np.random.default_rng(seed), evaluations, progress)
    share = max(1, evaluations // 3)
    search.try_inputs(search.inside(share))
    search.try_inputs(search.on_the_rim(share))
    search.climb(evaluations - search.done)
    return search.result()


class _Search:
    def __init__(
        self,
        model: ConstrainedModel,
        trusted: TrustedModel,
        rng: np.random.Generator,
        total: int,
        progress: Report | None,
    ) -> None:
        self.model, self.trusted, self.rng, self.total, self.progress = model, trusted, rng, total, progress
        self.done = 0
        self.best = np.empty((0, len(model.schema.inputs)))
        self.ratios = np.empty(0)

    def ratio(self, inputs: Array) -> Array:
        """(N, P) farthest distance over delta; 0 outside the domain."""
        model = self.model
        location = model.locate(inputs)
        limits = model.limits(inputs, location)
        base = model.frame.base(inputs[:, : len(model.schema.states)])
        dx = len(model.schema.states)
        values = self.trusted(inputs[:, :dx], inputs[:, dx:], model.schema)
        ends = [model.schema.distance(base + end, values) for end in (limits.lower, limits.upper)]
        ratio = np.maximum(*ends) / np.maximum(limits.delta, np.finfo(np.float64).tiny)
        self.done += len(inputs)
        if self.progress is not None:
            self.progress(min(self.done, self.total), self.total)
        return np.where(location.in_domain[:, None], ratio, 0.0)

    def try_inputs(self, inputs: Array) -> None:
        """Keeps the worst of what was tried so far and of `inputs`."""
        for start in range(0, len(inputs), _CHUNK):
            piece = self._wrapped(inputs[start : start + _CHUNK])
            together = np.concatenate([self.ratios, self.ratio(piece).max(axis=1)])
            everything = np.concatenate([self.best, piece])
            worst = np.argsort(-together)[:_CLIMBERS]
            self.ratios, self.best = together[worst], everything[worst]

    def inside(self, count: int) -> Array:
        """Points inside cells, about as many in each."""
        cells = self.model.cells
        per_cell = -(-count // len(cells))
        points = CellSampler(cells).sample(per_cell, rng=self.rng)
        return self.rng.permutation(points.reshape(-1, points.shape[2]))[:count]

    def on_the_rim(self, count: int) -> Array:
        """Points on spheres around memories, along axes and diagonals too, cut to the domain box."""
        cells = self.model.cells
        directions = self.rng.standard_normal((count, cells.memories.shape[1]))
        kind = self.rng.integers(0, 3, count)
        directions[kind == 1] = np.sign(directions[kind == 1])
        axis = np.abs(directions[kind == 2]).argmax(axis=1)
        directions[kind == 2] = np.sign(directions[kind == 2]) * np.eye(directions.shape[1])[axis]
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        cell = self.rng.integers(0, len(cells), count)
        reach = cells.radii[cell, None] * self.rng.choice([0.5, 0.999, 1 - 1e-9, 1.0], (count, 1))
        return np.clip(
            (cells.memories[cell] + reach * directions) * cells.scale, cells.box_lower, cells.box_upper
        )

    def climb(self, budget: int) -> None:
        """Random and gradient steps of shrinking length from the worst inputs found."""
        scale = self.model.cells.radii.mean() * self.model.cells.scale
        size, step = max(1, len(self.best)), 0.2
        while budget > 0:
            rows = self.best[: min(size, budget)]
            noise = self.rng.standard_normal(rows.shape) / np.sqrt(rows.shape[1])
            if 2 * len(rows) <= budget and self.rng.random() < 0.5:
                # One random directional derivative is a gradient step in expectation.
                rise = (
                    self.ratio(self._wrapped(rows + 1e-4 * scale * noise)).max(axis=1)
                    - self.ratios[: len(rows)]
                )
                noise *= np.sign(rise)[:, None]
                budget -= len(rows)
            self.try_inputs(rows + step * scale * noise)
            budget -= len(rows)
            step = step * 0.93 if step > 1e-5 else 0.2

    def result(self) -> Attack:
        """The worst input found."""
        model, worst = self.model, self.best[:1]
        output = int(self.ratio(worst)[0].argmax())
        delta = float(model.limits(worst, model.locate(worst)).delta[0, output])
        return Attack(
            max_ratio=float(self.ratios[0]),
            evaluations=self.done,
            output=model.schema.outputs[output],
            distance=float(self.ratios[0]) * delta,
            delta=delta,
            inputs=dict(zip(model.schema.inputs, worst[0].tolist(), strict=True)),
        )

    def _wrapped(self, inputs: Array) -> Array:
        dx = len(self.model.schema.states)
        return self.model.schema.wrap_inputs(inputs[:, :dx], inputs[:, dx:])
