"""Tries to break a certificate: searches the domain for an input where some weights leave delta.

Whatever the weights, an output lies in the bounds, and the worst one is at an end of them, or opposite to M
on the circle. So the search is over inputs alone, for the largest ``distance from M to the farthest output /
delta``. A ratio above 1 is a counter-example.

The search is cut into shards, as many as its budget asks for and each with a seed of its own, so that it
finds the same on any number of cores.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import cloudpickle
import joblib
import numpy as np
from numpy.random import SeedSequence
from numpy.typing import NDArray
from torch import nn

from tether.claims.construction import search as search_everywhere
from tether.data import Array
from tether.foundation.executors import current, in_processes, is_spread, spread_over
from tether.foundation.limits import MOST_DRAWS, check_processes, check_seed, check_whole
from tether.foundation.progress import Report
from tether.foundation.shown import Facts, Shown, measured
from tether.geometry.cells import CellSampler
from tether.model import Model
from tether.trusted import Function, TrustedModel, as_trusted

_CHUNK = 1 << 15
_CLIMBERS = 512
_ROUNDS = 150
"""Rounds that a climb takes to shorten its step from the size of a cell to next to nothing."""
_SHARDS = 16
_SHARD_BUDGET = 1 << 16
_START_UP_SECONDS = 20.0
"""A search with less than this left to do gains nothing from processes that take seconds to start."""


@dataclass(frozen=True, repr=False)
class Attack(Shown):
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

    def facts(self) -> tuple[str, Facts]:
        """What the search came to."""
        found = "REFUTED" if self.broken else "withstood"
        ratio = max(self.max_ratio, 1.000001) if self.broken else min(self.max_ratio, 0.999999)
        return f"Attack: {found}, {self.evaluations:,} inputs tried", {
            "farthest": f"{self.distance:.6g} from M in {self.output}, of {self.delta:.6g} allowed",
            "ratio": f"{ratio:.6f} of delta",
            "at": measured(self.inputs, {}),
        }


@dataclass(frozen=True, eq=False)
class _Find:
    """The worst input (D,) of a shard, its ratio, and the inputs tried."""

    ratio: float
    inputs: Array
    tried: int


def attack(
    model: Model,
    trusted: TrustedModel | Function,
    *,
    evaluations: int = 200_000,
    seed: int = 0,
    progress: Report | None = None,
    jobs: int | None = None,
    client: Any | None = None,
) -> Attack:
    """Searches for a counter-example to the model's certificate.

    A third of the budget goes to points inside every cell, a third to rims and corners of the coverage
    regions and faces between cells, a third to climbing from the worst points found. Of a monotone
    or direct model, all goes to points near the data and far from them; only the distance to M is attacked.

    Args:
        model: the model; its weights do not matter.
        trusted: M.
        evaluations: how many inputs to try.
        seed: of the search; what is found does not depend on `jobs`.
        progress: told (inputs tried, inputs to try).
        jobs: processes, as joblib counts them (-1: all cores); None: all cores, once the first shard shows
            that this takes longer than starting them. An M with `jobs` of its own keeps to those.
        client: of a Dask cluster that does it instead, or the address of its scheduler.
    """
    check_whole("evaluations", evaluations, least=1, most=MOST_DRAWS)
    check_seed("seed", seed)
    if jobs is not None:
        check_processes("jobs", jobs)
    if not model.tether.holds:
        raise TypeError(
            f"`model` must be constrained; got one whose tether is {model.tether.kind}, which has no "
            "certificate to attack."
        )
    trusted = as_trusted(trusted)
    with spread_over(client):
        if not model.tether.limited:
            return _attack_everywhere(model, trusted, evaluations, seed, progress)
        return _attack(model, trusted, evaluations, seed, progress, jobs)


def _attack(
    model: Model,
    trusted: TrustedModel,
    evaluations: int,
    seed: int,
    progress: Report | None,
    jobs: int | None,
) -> Attack:
    """Of a claim over cells or leaves."""
    if is_spread():
        trusted = replace(trusted, jobs=1)  # a worker asks M itself
    # Without the network, which need not travel.
    bare = Model(nn.Identity(), model.frame, model.tether)
    shards = max(1, min(_SHARDS, evaluations // _SHARD_BUDGET))
    edges = np.linspace(0, evaluations, shards + 1).astype(int)
    search = _SEARCHES[model.bounds.over](bare, trusted, CellSampler(model.cells), shards)
    seeds = SeedSequence(seed).spawn(shards)
    tasks = list(zip(range(shards), seeds, np.diff(edges).tolist(), strict=True))
    found: list[_Find] = []
    for find in _run(search, tasks, jobs, _counting(progress, evaluations)):
        found.append(find)
        if progress is not None:
            progress(min(sum(part.tried for part in found), evaluations), evaluations)
    return _result(search, found)


def _attack_everywhere(
    model: Model, trusted: TrustedModel, evaluations: int, seed: int, progress: Report | None
) -> Attack:
    """Of a claim that holds at every input: there is no rim to go to."""
    rng = np.random.default_rng([seed, 0xA77])
    found = search_everywhere(model, trusted, points=evaluations, rng=rng, progress=progress)
    named = dict(zip(model.schema.inputs, found.inputs.tolist(), strict=True))
    output = model.schema.outputs[found.output]
    return Attack(found.ratio, found.tried, output, found.distance, found.delta, named)


_Task = tuple[int, SeedSequence, int]


def _run(search: _Search, tasks: list[_Task], jobs: int | None, progress: Report | None) -> Iterator[_Find]:
    """What each shard finds, in order; without a cluster the first in this process, to see what it takes."""
    if is_spread():
        yield from current().map(search.run, tasks)
        return
    begun = time.monotonic()
    yield search.run(*tasks[0], progress)
    seconds = (time.monotonic() - begun) * (len(tasks) - 1)
    rest = tasks[1:]
    yield from in_processes(_workers(search.trusted, jobs, len(rest), seconds)).map(search.run, rest)


def _workers(trusted: TrustedModel, jobs: int | None, shards: int, seconds: float) -> int:
    cores = joblib.effective_n_jobs(-1 if jobs is None else jobs)
    if shards < 2 or cores == 1 or trusted.jobs != 1 or (jobs is None and seconds < _START_UP_SECONDS):
        return 1
    try:
        cloudpickle.dumps(trusted)
    except Exception:  # a model that holds a simulator or a socket stays where it is
        return 1
    return min(cores, shards)


def _counting(progress: Report | None, total: int) -> Report | None:
    """`progress` for a part of the whole."""
    return None if progress is None else lambda done, _: progress(min(done, total), total)


def _result(search: _Search, found: list[_Find]) -> Attack:
    model, worst = search.model, max(found, key=lambda find: find.ratio)
    inputs = worst.inputs[None]
    output = int(search.ratio(inputs)[0].argmax())
    delta = float(model.limits(inputs).delta[0, output])
    return Attack(
        max_ratio=worst.ratio,
        evaluations=sum(find.tried for find in found),
        output=model.schema.outputs[output],
        distance=worst.ratio * delta,
        delta=delta,
        inputs=dict(zip(model.schema.inputs, worst.inputs.tolist(), strict=True)),
    )


@dataclass(frozen=True, eq=False)
class _Search:
    """What every shard shares."""

    model: Model
    trusted: TrustedModel
    sampler: CellSampler
    shards: int

    def run(self, shard: int, seed: SeedSequence, budget: int, progress: Report | None = None) -> _Find:
        """One shard of the search; points inside are of its own share of the cells."""
        work = _Shard(self, np.random.default_rng(seed), budget, progress)
        share = max(1, budget // 3)
        count = len(self.model.cells)
        mine = np.arange(shard, count, self.shards) if count >= self.shards else np.arange(count)
        work.try_inputs(work.inside(share, mine))
        between = share // 4 if len(self.model.cells.edges) else 0
        if work.done < budget:
            work.try_inputs(work.on_the_rim(min(share, budget - work.done) - 2 * between))
            work.try_inputs(work.on_faces(between))
            work.try_inputs(work.in_corners(between))
        work.climb(budget - work.done)
        return _Find(float(work.ratios[0]), work.best[0], work.done)

    def ratio(self, inputs: Array) -> Array:
        """(N, P) farthest distance over delta; 0 outside the domain, where M may have no answer."""
        model = self.model
        limits = model.limits(inputs)
        dx, inside = len(model.schema.states), limits.in_domain
        ratio = np.zeros(limits.delta.shape)
        if inside.any():
            held = inputs[inside]
            base = model.frame.base(held[:, :dx])
            values = self.trusted(held[:, :dx], held[:, dx:], model.schema)
            farthest = model.schema.farthest(values, base + limits.lower[inside], base + limits.upper[inside])
            ratio[inside] = farthest / np.maximum(limits.delta[inside], np.finfo(np.float64).tiny)
        return ratio


class _BoxSearch(_Search):
    """The same over leaves of a box."""

    def run(self, shard: int, seed: SeedSequence, budget: int, progress: Report | None = None) -> _Find:
        """One shard: points inside leaves, in their corners and on their faces, and climbs from the worst."""
        work = _Shard(self, np.random.default_rng([*seed.generate_state(4), shard]), budget, progress)
        bounds = self.model.bounds
        assert bounds.kind == "affine"
        lower, upper = bounds.tree.boxes()
        scale = np.median(upper - lower, axis=0)
        while work.done < max(1, 2 * budget // 3):
            count = min(_CHUNK, max(1, 2 * budget // 3 - work.done))
            leaf = work.rng.integers(0, len(lower), count)
            work.try_inputs(_in_boxes(lower[leaf], upper[leaf], work.rng))
        work.climb(budget - work.done, scale, (bounds.tree.lower, bounds.tree.upper))
        return _Find(float(work.ratios[0]), work.best[0], work.done)


_SEARCHES = {"cells": _Search, "boxes": _BoxSearch}
"""By what the bounds are over."""


def _in_boxes(lower: Array, upper: Array, rng: np.random.Generator) -> Array:
    """A point in each box: anywhere, in a corner, on a face, or a hair to either side of one."""
    share = rng.random(lower.shape)
    edge = rng.random(lower.shape) < rng.choice([0.0, 0.3, 1.0], (len(lower), 1))
    points = np.where(edge, np.where(share < 0.5, lower, upper), lower + share * (upper - lower))
    nudge = rng.choice([0.0, -1.0, 1.0], lower.shape) * rng.choice([0.0, 1e-12, 1e-6], (len(lower), 1))
    return points + edge * nudge * (upper - lower)


class _Shard:
    """One part of the search: the worst inputs it has found, worst first."""

    def __init__(
        self, search: _Search, rng: np.random.Generator, budget: int, progress: Report | None
    ) -> None:
        self.search, self.rng, self.budget, self.progress = search, rng, budget, progress
        self.cells = search.model.cells
        self.done = 0
        self.best = np.empty((0, len(search.model.schema.inputs)))
        self.ratios = np.empty(0)

    def ratio(self, inputs: Array) -> Array:
        """(N,) largest ratio over outputs."""
        ratio = self.search.ratio(inputs).max(axis=1)
        self.done += len(inputs)
        if self.progress is not None:
            self.progress(self.done, self.budget)
        return ratio

    def try_inputs(self, inputs: Array) -> None:
        """Keeps the worst of what was tried so far and of `inputs`."""
        for start in range(0, len(inputs), _CHUNK):
            piece = self._wrapped(inputs[start : start + _CHUNK])
            together = np.concatenate([self.ratios, self.ratio(piece)])
            everything = np.concatenate([self.best, piece])
            worst = np.argsort(-together, kind="stable")[:_CLIMBERS]
            self.ratios, self.best = together[worst], everything[worst]

    def inside(self, count: int, cell: NDArray[np.int64]) -> Array:
        """Points inside the given cells, about as many in each."""
        per_cell = -(-count // len(cell))
        points = self.search.sampler.sample(per_cell, rng=self.rng, cell=cell)
        return self.rng.permutation(points.reshape(-1, points.shape[2]))[:count]

    def on_the_rim(self, count: int) -> Array:
        """Points on spheres around memories, along axes and diagonals too, cut to the domain box."""
        cell, offset = self._spokes(count)
        return self._physical(self.cells.memories[cell] + offset)

    def on_faces(self, count: int) -> Array:
        """Points where cells of graph neighbours meet, or a hair to either side, most near the middle."""
        cells, facets = self.cells, self.cells.facets()
        edge = self.rng.integers(0, max(1, len(facets.pairs)), count)
        cell, normal = facets.pairs[edge, 0], facets.normals[edge]
        squared = np.maximum((normal**2).sum(axis=1), np.finfo(np.float64).tiny)
        along = self.rng.standard_normal(normal.shape)
        along -= ((along * normal).sum(axis=1) / squared)[:, None] * normal
        along /= np.maximum(np.linalg.norm(along, axis=1, keepdims=True), np.finfo(np.float64).tiny)
        # Half way to the neighbour, what is left of the radius is this.
        left = np.sqrt(np.maximum(cells.radii[cell] ** 2 - squared / 4, 0.0))
        left *= self.rng.random(count) ** 2
        side = 0.5 + self.rng.choice([-1e-3, -1e-9, 0.0, 1e-9, 1e-3], count)
        return self._physical(cells.memories[cell] + side[:, None] * normal + left[:, None] * along)

    def in_corners(self, count: int) -> Array:
        """Points on edges and corners of the box, for cells whose balls reach out of it."""
        cells = self.cells
        cell, offset = self._spokes(count)
        scaled = cells.memories[cell] + offset
        lower, upper = cells.box_lower / cells.scale, cells.box_upper / cells.scale
        limit = np.where(self.rng.random(scaled.shape) < 0.5, lower, upper)
        gap = limit - cells.memories[cell]
        snapped = (np.abs(gap) <= cells.radii[cell, None]) & (self.rng.random(scaled.shape) < 0.5)
        # What the snapped coordinates leave of the radius, the others share.
        taken = (np.where(snapped, gap, 0.0) ** 2).sum(axis=1)
        left = np.sqrt(np.maximum(cells.radii[cell] ** 2 - taken, 0.0)) / cells.radii[cell]
        scaled = cells.memories[cell] + offset * (left * (1 - 1e-12))[:, None]
        return self._physical(np.where(snapped, limit, scaled))

    def climb(self, budget: int, scale: Array | None = None, box: tuple[Array, Array] | None = None) -> None:
        """Random and gradient steps of shrinking length from the worst inputs found."""
        reach: Array = self.cells.radii.mean() * self.cells.scale if scale is None else scale
        size, step = min(len(self.best), max(16, budget // _ROUNDS)), 0.2
        while budget > 0:
            rows = self.best[: min(size, budget)]
            noise = self.rng.standard_normal(rows.shape) / np.sqrt(rows.shape[1])
            if 2 * len(rows) <= budget and self.rng.random() < 0.5:
                # One random directional derivative is a gradient step in expectation.
                rise = self.ratio(self._wrapped(rows + 1e-4 * reach * noise)) - self.ratios[: len(rows)]
                noise *= np.sign(rise)[:, None]
                budget -= len(rows)
            stepped = rows + step * reach * noise
            self.try_inputs(stepped if box is None else np.clip(stepped, *box))
            budget -= len(rows)
            step = step * 0.93 if step > 1e-5 else 0.2

    def _spokes(self, count: int) -> tuple[NDArray[np.int64], Array]:
        """(N,) cells and (N, D) scaled offsets from their memories, most of them as long as the radius."""
        directions = self.rng.standard_normal((count, self.cells.memories.shape[1]))
        kind = self.rng.integers(0, 3, count)
        directions[kind == 1] = np.sign(directions[kind == 1])
        axis = np.abs(directions[kind == 2]).argmax(axis=1)
        directions[kind == 2] = np.sign(directions[kind == 2]) * np.eye(directions.shape[1])[axis]
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        cell = self.rng.integers(0, len(self.cells), count)
        reach = self.cells.radii[cell, None] * self.rng.choice([0.5, 0.999, 1 - 1e-9, 1.0], (count, 1))
        return cell, reach * directions

    def _physical(self, scaled: Array) -> Array:
        return np.clip(scaled * self.cells.scale, self.cells.box_lower, self.cells.box_upper)

    def _wrapped(self, inputs: Array) -> Array:
        schema = self.search.model.schema
        dx = len(schema.states)
        return schema.wrap_inputs(inputs[:, :dx], inputs[:, dx:])
