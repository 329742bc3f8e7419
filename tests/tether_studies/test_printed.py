"""The paper's own method: where M is asked, what limits that gives, and a gas that begins with all its memories."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tether.fitting import FitConfig, learn_method, prepare
from tether.foundation.progress import silent
from tether.geometry.cells import Cells
from tether.learning.config import TrainingConfig
from tether_studies import parked_car
from tether_studies.printed import (
    FIXED,
    SAMPLES,
    PaperBounds,
    authors_points,
    constrained,
    gas_at_once,
    mid_cell_distance,
)

CONFIG = FitConfig(
    memories=30, hidden=(8,), operator="sigmoid", target="next_state", training=TrainingConfig(steps=60)
)


@pytest.fixture(scope="module")
def problem():
    transitions = parked_car.drive(episodes=12, steps=40)
    probes = parked_car.parked(transitions, count=300)
    return prepare(transitions, trusted=parked_car.unicycle, probes=probes, config=CONFIG)


@pytest.fixture
def line() -> Cells:
    """Memories at 0, 1, 2 and 9, of which the last has one neighbour and the first three have two."""
    edges = np.array([[0, 1], [0, 2], [1, 2], [2, 3]])
    places = np.array([[0.0], [1.0], [2.0], [9.0]])
    return Cells(places, edges, np.ones(1), 20.0, np.array([-9.0]), np.array([20.0]))


def test_m_is_asked_at_data_midpoints_and_points_between(line):
    inputs = np.array([[0.1], [0.2], [8.0]])
    cell, points = authors_points(line, inputs, np.random.default_rng(0))
    of = {k: points[cell == k, 0] for k in range(4)}
    assert set(of[0][:2]) == {0.1, 0.2}, "data first"
    assert {0.5, 1.0} <= set(of[0]) and {0.5, 1.5} <= set(of[1]) and 5.5 in of[2], "then midpoints"
    assert [1 + len(of[k]) for k in range(3)] == [SAMPLES] * 3, "with the memory itself"
    assert set(of[3]) == {8.0, 5.5}, "one neighbour spans nothing: no points between"
    # Between 0 and twice its two midpoints together: they may leave the cell, as the authors' do.
    assert of[0].min() >= 0.0 and 0.5 < of[0].max() <= 1.5


def test_a_crowded_cell_is_not_filled_up(line):
    inputs = np.linspace(0.0, 0.3, 40)[:, None]
    cell, points = authors_points(line, inputs, np.random.default_rng(0))
    assert (cell == 0).sum() == 40 + 2 and len(points[cell == 1]) == SAMPLES - 1


def test_limits_are_the_range_of_m_at_those_points(problem):
    built = PaperBounds()(problem, CONFIG, silent)
    cells, bounds = built.tether.cells, built.tether.bounds
    train = np.concatenate([problem.data[0].trusted, problem.probes[0].trusted])
    cell = cells.index.query(problem.training_inputs / cells.scale).cell
    schema = problem.split.train.schema
    near = schema.near(train, bounds.center[cell])
    assert (near >= bounds.lower[cell]).all() and (near <= bounds.upper[cell]).all()
    assert built.target == "next_state" and bounds.evidence.name == "sampled"
    climbed = PaperBounds(sampling="climbed")(problem, CONFIG, silent).tether.bounds
    widths = [np.median(each.upper - each.lower, axis=0) for each in (bounds, climbed)]
    assert (widths[0] < 0.9 * widths[1]).any(), "extremes that are climbed to are wider"


def test_memories_stay_where_the_gas_left_them(problem):
    plain, moved = (
        PaperBounds(on_probes=on)(problem, CONFIG, silent).tether.cells.memories for on in (False, True)
    )
    assert plain.shape == moved.shape and not np.array_equal(plain, moved)
    agreed = np.isfinite(problem.pinned)
    still = [(nodes[:, agreed] == 0).all(axis=1).sum() for nodes in (plain, moved)]
    assert still[0] < still[1], "those with a parked car among their rows come to rest"


@pytest.mark.parametrize(("loss", "changes"), [(FIXED, False), ({"update_every": 10}, True)])
def test_multipliers_stay_where_they_are_or_move(problem, loss, changes):
    """With weights that are fixed, how often others would be updated makes no difference; else it does."""
    errors = []
    for growth in (2.0, 50.0):
        training = replace(CONFIG.training, penalty_growth=growth, evaluate_every=60, **loss)
        config = replace(CONFIG, training=training)
        built = PaperBounds()(problem, config, silent)
        learned = learn_method(problem, constrained("Constrained (paper)"), config, built=built)
        assert learned.model.operator == "sigmoid"
        errors.append(learned.history.best.validation_error)
    assert (errors[0] != errors[1]) == changes


def test_a_gas_that_begins_with_all_its_memories():
    rng = np.random.default_rng(1)
    inputs = rng.normal(size=(2000, 3))
    memories = gas_at_once(inputs, 40, seed=5)
    again = gas_at_once(inputs, 40, seed=5)
    np.testing.assert_array_equal(memories.nodes, again.nodes)
    assert memories.nodes.shape == (40, 3) and len(memories.edges) > 20
    assert (memories.edges[:, 0] < memories.edges[:, 1]).all()
    # Memories moved towards the data they won, so they lie within them.
    assert (np.abs(memories.nodes) <= np.abs(inputs).max(axis=0)).all()
    twice = gas_at_once(np.repeat(inputs[:10], 5, axis=0), 40, seed=0)
    assert len(twice.nodes) <= 10


def test_middles_of_cells_need_no_network(problem):
    few, many = (mid_cell_distance(problem, count, seed=0) for count in (5, 150))
    assert 0 < many < few
