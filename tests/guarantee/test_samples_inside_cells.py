"""Points drawn for a cell lie in it: nearest memory, radius and box, after the round trip to physical units."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tether.geometry.cells import Cells, CellSampler


def make_cells(dimensions, count, seed, radius=None, scale=None):
    rng = np.random.default_rng(seed)
    memories = rng.standard_normal((count, dimensions))
    scale = rng.uniform(1e-3, 1e3, dimensions) if scale is None else scale
    limit = np.full(dimensions, 2.5) * scale
    radius = radius or 0.8 * np.sqrt(dimensions)
    memories = 2.4 * np.tanh(memories)  # inside the box, and no two alike
    return Cells(memories, np.empty((0, 2), np.int64), scale, radius, -limit, limit)


def check_inside(cells, points, owner):
    location = cells.locate(points)
    np.testing.assert_array_equal(location.cell, owner)
    assert location.in_domain.all()


@pytest.mark.parametrize(("dimensions", "count"), [(1, 1), (1, 50), (2, 300), (5, 1000), (24, 700)])
def test_all_points_inside(dimensions, count):
    cells = make_cells(dimensions, count, seed=dimensions)
    points = CellSampler(cells).sample(64, rng=np.random.default_rng(0))
    check_inside(cells, points.reshape(-1, dimensions), np.repeat(np.arange(count), 64))
    if count > 1:
        assert len(np.unique(points[0], axis=0)) > 48, "the walk must move"


def test_more_memories_than_listed_neighbours():
    """Cells in the middle of many memories, radius large: the list of neighbours is cut at 512."""
    rng = np.random.default_rng(1)
    memories = rng.standard_normal((2000, 6)) * 1e-3
    cells = Cells(memories, np.empty((0, 2), np.int64), np.ones(6), 5.0, -np.ones(6), np.ones(6))
    points = CellSampler(cells).sample(8, rng=rng)
    check_inside(cells, points.reshape(-1, 6), np.repeat(np.arange(2000), 8))


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 6), st.integers(1, 30), st.integers(0, 10_000), st.sampled_from([1e-9, 0.05, 1.0, 50.0])
)
def test_jumps_to_the_very_end_of_the_chord(dimensions, count, seed, radius):
    """Jumps of exactly 0 and 1 aim at the boundary, where rounding decides; such a point may be refused."""
    cells = make_cells(dimensions, count, seed, radius)
    rng = np.random.default_rng(seed)
    directions = rng.standard_normal((12, count, dimensions))
    jumps = rng.integers(0, 2, (12, count)).astype(float)
    points = CellSampler(cells).walk(np.arange(count), cells.centers, directions, jumps)
    check_inside(cells, points.reshape(-1, dimensions), np.repeat(np.arange(count), 12))


def test_a_start_outside_is_replaced():
    cells = make_cells(3, 20, seed=4)
    starts = np.roll(cells.centers, 1, axis=0)
    rng = np.random.default_rng(0)
    points = CellSampler(cells).walk(
        np.arange(20), starts, rng.standard_normal((5, 20, 3)), rng.random((5, 20))
    )
    check_inside(cells, points.reshape(-1, 3), np.repeat(np.arange(20), 5))


def test_uniform_in_the_cell():
    """Against rejection, which is uniform by construction: means and second moments agree."""
    cells = make_cells(2, 6, seed=3, radius=1.2, scale=np.ones(2))
    rng = np.random.default_rng(5)
    walked = CellSampler(cells).sample(20_000, rng=rng, thin=3)
    box = rng.uniform(-2.5, 2.5, (400_000, 2))
    location = cells.locate(box)
    for k in range(6):
        kept = box[location.in_domain & (location.cell == k)]
        np.testing.assert_allclose(walked[k].mean(0), kept.mean(0), atol=0.04)
        np.testing.assert_allclose(np.cov(walked[k].T), np.cov(kept.T), atol=0.03)


def test_facets_agree_with_the_cells():
    rng = np.random.default_rng(0)
    memories = rng.standard_normal((30, 4))
    edges = np.array([(i, j) for i in range(30) for j in range(i + 1, 30)])
    cells = Cells(memories, edges, np.ones(4), 9.0, -np.full(4, 9.0), np.full(4, 9.0))
    facets = cells.facets()
    points = rng.standard_normal((500, 4))
    first_side = points @ facets.normals.T < facets.offsets
    wins = np.zeros((500, 30), dtype=int)
    np.add.at(wins.T, facets.pairs[:, 0], first_side.T)
    np.add.at(wins.T, facets.pairs[:, 1], ~first_side.T)
    # With all pairs as edges, the paper's polyhedron is the Voronoi cell: its memory wins every facet.
    np.testing.assert_array_equal(wins.argmax(1), cells.locate(points).cell)
    assert (wins.max(1) == 29).all()
