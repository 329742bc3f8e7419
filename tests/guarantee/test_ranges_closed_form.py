"""Ranges of M with known extremes: sampled from inside, Lipschitz from outside."""

import numpy as np
import pytest
from scipy.spatial import ConvexHull, HalfspaceIntersection

from tether.data import make_schema
from tether.evidence import Lipschitz, SamplingConfig
from tether.evidence.ranges import lipschitz_range, sampled_range
from tether.foundation.errors import CertificateError
from tether.geometry.cells import Cells
from tether.tethers.bounds import bound_by_intervals
from tether.trusted import TrustedModel

LINE = make_schema(["x"], [], ["y"])
LINE = type(LINE)(("x",), (), ("y",), advances=(-1,))
PLANE = type(LINE)(("x", "z"), (), ("y",), advances=(-1,))


def cells_on_a_line(count=60, seed=0):
    rng = np.random.default_rng(seed)
    memories = np.sort(rng.uniform(-4, 4, count))[:, None]
    scale = np.array([0.7])
    return Cells(memories, np.empty((0, 2), np.int64), scale, 0.3, np.array([-2.5]), np.array([2.6]))


def true_intervals(cells):
    """[a, b] of each coverage region on the line, physical units; empty ones get a > b."""
    m = cells.memories[:, 0]
    middle = (m[1:] + m[:-1]) / 2
    a = np.maximum(np.r_[-np.inf, middle], m - cells.radii) * cells.scale[0]
    b = np.minimum(np.r_[middle, np.inf], m + cells.radii) * cells.scale[0]
    return np.maximum(a, cells.box_lower[0]), np.minimum(b, cells.box_upper[0])


def linear(x):
    return 3 * x - 1


def quadratic(x):
    return x * x - x


def sine(x):
    return np.sin(5 * x)


def exact_range(function, a, b, turning):
    """Extremes of a function on [a, b] whose turning points are known."""
    ends = np.stack([function(a), function(b)])
    low, high = ends.min(0), ends.max(0)
    for point in turning:
        inside = (a <= point) & (point <= b)
        low = np.where(inside, np.minimum(low, function(point)), low)
        high = np.where(inside, np.maximum(high, function(point)), high)
    return low, high


CASES = {
    "linear": (linear, [], 3.0),
    "quadratic": (quadratic, [0.5], 2 * 2.9 + 1),
    "sine": (sine, [(k + 0.5) * np.pi / 5 for k in range(-8, 8)], 5.0),
}


@pytest.mark.parametrize("name", CASES)
def test_on_a_line(name):
    function, turning, constant = CASES[name]
    cells = cells_on_a_line()
    inside_box = (cells.centers[:, 0] > -2.5) & (cells.centers[:, 0] < 2.6)
    cells = Cells(
        cells.memories[inside_box],
        cells.edges,
        cells.scale,
        cells.radii[inside_box],
        cells.box_lower,
        cells.box_upper,
    )
    low, high = exact_range(function, *true_intervals(cells), turning)
    trusted = TrustedModel(lambda states, controls: function(states), lipschitz=constant)
    inputs = np.random.default_rng(1).uniform(-2.5, 2.6, (400, 1))
    seen = sampled_range(cells, trusted, LINE, "next_state", inputs=inputs)
    rounding = 1e-12
    assert (seen.lower[:, 0] >= low - rounding).all() and (seen.upper[:, 0] <= high + rounding).all()
    width = high - low
    assert (seen.upper[:, 0] - seen.lower[:, 0] >= 0.97 * width).all()
    assert np.mean((seen.upper - seen.lower)[:, 0] / width) > 0.995
    outer = lipschitz_range(cells, trusted, LINE, "next_state")
    assert (outer.lower[:, 0] <= low).all() and (outer.upper[:, 0] >= high).all()
    bounds = bound_by_intervals(cells, trusted, LINE, "next_state", inputs=inputs, evidence=Lipschitz())
    assert (bounds.delta[:, 0] >= np.maximum(bounds.upper[:, 0] - low, high - bounds.lower[:, 0])).all()
    assert bounds.lemma is not None
    assert (bounds.delta <= bounds.lemma + 1e-9).all(), "Lemma 4: delta is at most L times the diameter"


def test_linear_on_polygons():
    """Over a polygon an affine function is extreme at a corner; the corners come from another library."""
    rng = np.random.default_rng(2)
    memories = rng.uniform(-1, 1, (30, 2))
    cells = Cells(memories, np.empty((0, 2), np.int64), np.ones(2), 9.0, np.full(2, -1.2), np.full(2, 1.2))
    slope = np.array([1.0, -2.0])
    trusted = TrustedModel(lambda states, controls: states @ slope[:, None], lipschitz=np.abs(slope)[None])
    seen = sampled_range(
        cells,
        trusted,
        PLANE,
        "next_state",
        inputs=rng.uniform(-1, 1, (50, 2)),
        config=SamplingConfig(refinements=48),
    )
    outer = lipschitz_range(cells, trusted, PLANE, "next_state")
    shares = []
    for k, memory in enumerate(memories):
        others = np.delete(memories, k, axis=0)
        normals = np.concatenate([others - memory, np.eye(2), -np.eye(2)])
        offsets = np.concatenate([((others**2).sum(1) - memory @ memory) / 2, np.full(4, 1.2)])
        polygon = HalfspaceIntersection(np.column_stack([normals, -offsets]), memory).intersections
        assert ConvexHull(polygon).volume > 0
        values = polygon @ slope
        assert seen.lower[k, 0] >= values.min() - 1e-9 and seen.upper[k, 0] <= values.max() + 1e-9
        assert outer.lower[k, 0] <= values.min() and outer.upper[k, 0] >= values.max()
        shares.append((seen.upper[k, 0] - seen.lower[k, 0]) / np.ptp(values))
    assert min(shares) > 0.9 and np.mean(shares) > 0.97


def test_a_wrong_constant_is_refuted():
    cells = cells_on_a_line()
    inside = (cells.centers[:, 0] > -2.5) & (cells.centers[:, 0] < 2.6)
    cells = Cells(
        cells.memories[inside],
        cells.edges,
        cells.scale,
        cells.radii[inside],
        cells.box_lower,
        cells.box_upper,
    )
    trusted = TrustedModel(lambda states, controls: 3 * states, lipschitz=2.0)
    with pytest.raises(CertificateError, match="`lipschitz` must bound the trusted model's change; in cell"):
        bound_by_intervals(cells, trusted, LINE, "next_state", inputs=cells.centers, evidence=Lipschitz())


def test_lipschitz_needs_constants():
    trusted = TrustedModel(lambda states, controls: 3 * states)
    with pytest.raises(ValueError, match="evidence `lipschitz` must have constants"):
        lipschitz_range(cells_on_a_line(), trusted, LINE, "next_state")


@pytest.mark.parametrize("dimensions", range(1, 7))
@pytest.mark.parametrize("seed", range(5))
def test_the_lipschitz_range_is_attained(dimensions, seed):
    """M that changes as fast as its constants allow reaches the range at the rim, and never leaves it."""
    rng = np.random.default_rng([dimensions, seed])
    scale = 10.0 ** rng.uniform(-3, 3, dimensions)
    center = rng.standard_normal(dimensions) * scale * 10.0 ** rng.uniform(-2, 4)
    slope = rng.standard_normal(dimensions) / scale
    box = np.abs(center) + 2 * scale
    cells = Cells((center / scale)[None], np.empty((0, 2), np.int64), scale, 0.7, -box, box)
    schema = type(LINE)(tuple(f"s{k}" for k in range(dimensions)), (), ("y",), advances=(-1,))
    steepest = int(np.argmax(scale))
    along = slope * scale / np.linalg.norm(slope * scale)
    for function, constant, direction in (
        (lambda s, u: s @ slope[:, None], np.abs(slope)[None], along * np.sign(slope) * np.sign(slope)),
        (lambda s, u: s[:, steepest : steepest + 1], [1.0], np.eye(dimensions)[steepest]),
    ):
        outer = lipschitz_range(cells, TrustedModel(function, lipschitz=constant), schema, "next_state")
        rim = (cells.memories + np.array([[-1.0], [1.0]]) * cells.radii[:, None] * direction) * scale
        values = function(rim, None)[:, 0]
        reached = (values.max() - values.min()) / (outer.upper - outer.lower)[0, 0]
        assert 1 - 1e-4 < reached <= 1.0
        assert outer.lower[0, 0] <= values.min() and values.max() <= outer.upper[0, 0]


def test_constants_of_the_increment_grow_by_one():
    """M(x) = -x has constant 1, and its increment -2x has 2."""
    schema = make_schema(["x"], [])
    cells = Cells(np.zeros((1, 1)), np.empty((0, 2), np.int64), np.ones(1), 1.0, -np.ones(1), np.ones(1))
    outer = lipschitz_range(cells, TrustedModel(lambda s, u: -s, lipschitz=1.0), schema, "increment")
    assert outer.lower[0, 0] <= -2.0 and outer.upper[0, 0] >= 2.0
