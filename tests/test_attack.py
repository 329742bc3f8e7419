"""The search for counter-examples: where it looks, and that it finds the same on any number of cores."""

from __future__ import annotations

import threading
from dataclasses import replace

import joblib
import numpy as np
import pytest
from numpy.random import SeedSequence

from tether import attack as public_attack
from tether.claims.attack import _Search, _Shard, attack
from tether.data import Scaling, make_schema
from tether.evidence import Proved
from tether.geometry.cells import Cells, CellSampler
from tether.model import Frame, Model, mlp
from tether.model.assembling import constrained_model
from tether.tethers.bounds import bound_by_intervals
from tether.trusted import TrustedModel


def bent(side: float = 1.0):
    """A closure over `side`: no worker process can import it by name."""
    return lambda states, controls: side * np.sin(states) + 0.1 * states[:, ::-1] ** 2


def model_of(trusted: TrustedModel, *, memories: int = 60) -> Model:
    rng = np.random.default_rng(0)
    schema = make_schema(["a", "b"], [])
    nodes = rng.uniform(-2, 2, (memories, 2))
    near = np.argsort(((nodes[:, None] - nodes) ** 2).sum(axis=2), axis=1)[:, 1:4]
    edges = np.stack([np.repeat(np.arange(memories), 3), near.ravel()], axis=1)
    cells = Cells(nodes, edges, np.ones(2), 0.5, np.full(2, -2.0), np.full(2, 2.0))
    data = rng.uniform(-2, 2, (300, 2))
    bounds = bound_by_intervals(cells, trusted, schema, "next_state", inputs=data, evidence=Proved())
    frame = Frame(schema, "next_state", Scaling(np.zeros(2), np.ones(2)), Scaling(np.zeros(2), np.ones(2)))
    return constrained_model(mlp(2, 2, (4,)), frame, cells, bounds)


@pytest.fixture(scope="module")
def model() -> Model:
    return model_of(TrustedModel(bent()))


def shard(model: Model) -> _Shard:
    search = _Search(model, TrustedModel(bent()), CellSampler(model.cells), 1)
    return _Shard(search, np.random.default_rng(SeedSequence(0)), 1000, None)


def test_the_same_on_any_number_of_cores(model: Model) -> None:
    seen: list[tuple[int, int]] = []
    one = attack(model, bent(), evaluations=300_000, seed=5, jobs=1)
    two = attack(model, bent(), evaluations=300_000, seed=5, jobs=2, progress=lambda *at: seen.append(at))
    assert one == two
    assert one.evaluations == 300_000
    assert 0 < one.max_ratio <= 1
    assert seen[-1] == (300_000, 300_000) and seen == sorted(seen)
    assert attack(model, bent(), evaluations=300_000, seed=6, jobs=1) != one


def test_a_false_claim_is_found_on_two_cores(model: Model) -> None:
    bounds = replace(model.bounds, delta=0.3 * model.bounds.delta)
    false = constrained_model(model.network, model.frame, model.cells, bounds)
    found = public_attack(false, bent(), evaluations=250_000, jobs=2)
    assert found.broken
    inputs = np.array([list(found.inputs.values())])
    limits = false.limits(inputs)
    values, output = bent()(inputs, None), false.schema.outputs.index(found.output)
    farthest = max(abs(values - limits.lower)[0, output], abs(limits.upper - values)[0, output])
    assert farthest == pytest.approx(found.distance, rel=1e-12)


class NoProcesses:
    def __init__(self, *arguments: object, **settings: object) -> None:
        assert settings.get("n_jobs", 1) == 1, "processes were started"
        self.parallel = PARALLEL(*arguments, **settings)

    def __call__(self, tasks):
        return self.parallel(tasks)


PARALLEL = joblib.Parallel


def test_small_searches_stay_in_one_process(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joblib, "Parallel", NoProcesses)
    for evaluations in (1, 2, 7, 16 * len(model.cells), 200_000):
        found = attack(model, bent(), evaluations=evaluations)
        assert evaluations <= found.evaluations <= evaluations + 2


def test_a_model_that_cannot_travel_is_attacked_where_it_is(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joblib, "Parallel", NoProcesses)
    lock = threading.Lock()

    def locked(states, controls):
        with lock:
            return bent()(states, controls)

    assert attack(model, locked, evaluations=250_000, jobs=2) == attack(
        model, bent(), evaluations=250_000, jobs=1
    )


def test_faces_between_cells_are_tried(model: Model) -> None:
    points = shard(model).on_faces(4000)
    gaps = np.sort(np.linalg.norm(points[:, None] - model.cells.memories, axis=2), axis=1)
    inside = model.cells.locate(points).in_domain
    assert inside.mean() > 0.9
    # Graph neighbours need not share a face; most of these do.
    assert (gaps[:, 1] - gaps[:, 0] < 1e-8).mean() > 0.2


def test_corners_of_the_box_are_tried(model: Model) -> None:
    points = shard(model).in_corners(20_000)
    inside = points[model.cells.locate(points).in_domain]
    on_box = np.abs(inside) == 2.0
    assert on_box.any(axis=1).mean() > 0.1
    assert on_box.all(axis=1).any()
