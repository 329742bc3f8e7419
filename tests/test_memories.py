import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tether.geometry.memories import GasConfig, GrowingNeuralGas, Memories, fit_memories
from tether.geometry.nearest import nearest


def spiral(rows, seed=0):
    """A noisy curve in six dimensions."""
    random = np.random.default_rng(seed)
    angle = random.uniform(0, 6 * np.pi, size=(rows, 1))
    curve = angle * np.cos(angle + np.linspace(0, 3, 6))
    return curve + 0.1 * random.normal(size=curve.shape)


def assert_sound(memories, inputs, count):
    """What `fit_memories` promises of everything it returns."""
    nodes, edges = memories.nodes, memories.edges
    assert nodes.shape == (count, inputs.shape[1]) and nodes.dtype == np.float64
    assert len(np.unique(nodes, axis=0)) == count
    assert len(np.unique(nearest(inputs, nodes).cell)) == count  # no dead node
    assert (nodes >= inputs.min(axis=0)).all() and (nodes <= inputs.max(axis=0)).all()
    assert edges.dtype == np.int64 and edges.ndim == 2 and edges.shape[1] == 2
    assert (edges[:, 0] < edges[:, 1]).all()
    np.testing.assert_array_equal(edges, np.unique(edges, axis=0))
    if count > 1:
        assert set(edges.ravel()) == set(range(count))  # everyone has a neighbour


@pytest.mark.parametrize("count", [1, 2, 3, 10, 64, 65, 300])
def test_fit(count):
    inputs = spiral(4000)
    assert_sound(fit_memories(inputs, count), inputs, count)


def test_one_memory_is_the_mean():
    inputs = spiral(100)
    memories = fit_memories(inputs, 1)
    np.testing.assert_allclose(memories.nodes[0], inputs.mean(axis=0))
    assert memories.edges.shape == (0, 2)


@pytest.mark.parametrize("rows", [1, 2, 3, 37, 200])
def test_as_many_memories_as_distinct_inputs(rows):
    distinct = np.random.default_rng(rows).normal(size=(rows, 3))
    inputs = np.repeat(distinct, 3, axis=0)
    memories = fit_memories(inputs, rows)
    assert_sound(memories, inputs, rows)
    np.testing.assert_array_equal(np.unique(memories.nodes, axis=0), np.unique(distinct, axis=0))


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**32 - 1), st.integers(2, 60), st.floats(0.01, 1.0), st.sampled_from([1e-30, 1.0, 1e30])
)
def test_every_promise_on_awkward_data(seed, rows, fraction, scale):
    """Lattices with duplicates, constant columns, an outlier."""
    random = np.random.default_rng(seed)
    inputs = random.integers(-2, 3, size=(rows, 3)).astype(float)
    inputs[:, 2] = 7.0
    inputs[0, 0] = 1e4
    inputs *= scale
    count = max(1, int(fraction * len(np.unique(inputs, axis=0))))
    assert_sound(fit_memories(inputs, count, seed=seed), inputs, count)


def test_points_that_float32_cannot_tell_apart():
    inputs = 1.0 + 1e-12 * np.random.default_rng(0).normal(size=(500, 2))
    inputs[0] = 1e3
    assert_sound(fit_memories(inputs, 50), inputs, 50)


def test_same_seed_same_memories():
    inputs = spiral(2000)
    first, second, other = (fit_memories(inputs, 50, seed=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.nodes, second.nodes)
    np.testing.assert_array_equal(first.edges, second.edges)
    assert not np.array_equal(first.nodes, other.nodes)


def test_inputs_are_left_alone():
    inputs = spiral(500)
    before = inputs.copy()
    fit_memories(inputs, 20)
    np.testing.assert_array_equal(inputs, before)


def test_as_good_as_k_means():
    cluster = pytest.importorskip("sklearn.cluster")
    inputs = spiral(5000)
    ours = nearest(inputs, fit_memories(inputs, 200).nodes).squared_distance.mean()
    means = cluster.MiniBatchKMeans(200, random_state=0, n_init="auto").fit(inputs)
    theirs = nearest(inputs, means.cluster_centers_).squared_distance.mean()
    assert ours <= theirs


def test_edges_join_neighbours_only():
    """Two rings far apart: the graph has an edge within each, none across, and follows the ring."""
    random = np.random.default_rng(0)
    angle = random.uniform(0, 2 * np.pi, size=4000)
    side = np.repeat([0.0, 10.0], 2000)
    inputs = np.stack([np.cos(angle) + side, np.sin(angle)], axis=1)
    memories = fit_memories(inputs, 40)
    ends = memories.nodes[memories.edges]
    assert (np.abs(ends[:, 0] - ends[:, 1]).max(axis=1) < 1.0).all()
    assert len(memories.edges) >= 38


def test_neighbours_list_each_edge_from_both_ends():
    memories = Memories(np.zeros((4, 1)), np.array([[0, 2], [0, 3], [2, 3]]))
    found = memories.neighbours()
    assert found.indptr.tolist() == [0, 2, 2, 4, 6]
    assert found.indices.tolist() == [2, 3, 0, 3, 0, 2]
    alone = Memories(np.zeros((1, 1)), np.zeros((0, 2), np.int64)).neighbours()
    assert alone.indptr.tolist() == [0, 0] and len(alone.indices) == 0


def test_progress_reaches_its_total():
    calls = []
    fit_memories(spiral(3000), 100, progress=lambda done, total: calls.append((done, total)))
    done, totals = zip(*calls, strict=True)
    assert len(calls) > 2 and list(done) == sorted(set(done))
    assert set(totals) == {done[-1]} == {100 * GasConfig().insertion_interval}


def test_gas_absorbs_new_data():
    """After growing on one ring it follows the data to another."""
    first, second = spiral(4000, seed=1), spiral(4000, seed=2)
    second = second + 30.0
    gas = GrowingNeuralGas(60).partial_fit(first).partial_fit(first)
    grown = gas.memories()
    assert len(grown.nodes) == 60
    before = nearest(second, grown.nodes).squared_distance.mean()
    for _ in range(3):
        gas.partial_fit(second)
    after = gas.memories()
    assert len(after.nodes) <= 60
    assert nearest(second, after.nodes).squared_distance.mean() < 0.05 * before


def test_gas_grows_by_one_node_each_interval():
    gas = GrowingNeuralGas(100, config=GasConfig(insertion_interval=50, maximum_age=10_000))
    assert len(gas.partial_fit(spiral(1000)).memories().nodes) == 2 + 1000 // 50


def test_gas_keeps_its_graph_consistent():
    """Short-lived links: nodes vanish, numbers are reused, and every link is still seen from both ends."""
    gas = GrowingNeuralGas(500, config=GasConfig(insertion_interval=20, maximum_age=3))
    for seed in range(5):
        gas.partial_fit(spiral(1000, seed))
        state = gas._gas
        count, presentations = state.totals
        assert count < 2 + presentations // 20  # some were removed
        pairs = {(i, int(j)) for i in range(count) for j in state.links[i, : state.degree[i]]}
        assert len(pairs) == state.degree[:count].sum() and (state.degree[:count] > 0).all()
        assert pairs == {(j, i) for i, j in pairs} and all(i != j and j < count for i, j in pairs)
        there = np.arange(state.offsets.size) < count
        np.testing.assert_array_equal(state.offsets.ravel(), np.where(there, 0.0, np.inf))


def test_nodes_with_more_links_than_there_was_room_for():
    inputs = np.random.default_rng(0).normal(size=(6000, 30))
    gas = GrowingNeuralGas(200, config=GasConfig(insertion_interval=20, maximum_age=1000)).partial_fit(inputs)
    neighbours = gas.memories().neighbours()
    assert np.diff(neighbours.indptr).max() > 32


def test_errors_survive_the_folding_of_their_factor():
    """Decays fast enough to fold the factor several times within one call."""
    inputs = spiral(4000)
    gas = GrowingNeuralGas(30, config=GasConfig(step_decay=0.2)).partial_fit(inputs)
    assert np.isfinite(gas._gas.errors).all() and gas._gas.factor[0] >= 1e-100
    assert len(gas.memories().nodes) == 30


def test_messages_of_fit():
    inputs = np.repeat(np.random.default_rng(0).normal(size=(37, 2)), 2, axis=0)
    message = (
        r"memories must be at most the number of distinct inputs; got 50 memories for 37 distinct inputs\. "
        r"Ask for fewer memories or give more data\."
    )
    for some in (inputs, inputs[::2]):
        with pytest.raises(ValueError, match=message):
            fit_memories(some, 50)
    with pytest.raises(ValueError, match=r"`count` must be at least 1; got 0\."):
        fit_memories(inputs, 0)
    with pytest.raises(ValueError, match=r"`inputs` must have shape \(rows, columns\).*got \(5,\)\."):
        fit_memories(np.zeros(5), 1)
    with pytest.raises(ValueError, match=r"`inputs` must have shape \(rows, columns\).*got \(0, 2\)\."):
        fit_memories(np.zeros((0, 2)), 1)
    inputs[4, 1] = np.nan
    with pytest.raises(ValueError, match=r"`inputs` must be finite; got .*nan.* in row 4\."):
        fit_memories(inputs, 3)


def test_message_where_squares_vanish():
    inputs = np.array([[1e-200], [2e-200], [1.0]])
    with pytest.raises(
        ValueError, match=r"`inputs` must differ by more than float64 can square; got 3 memories"
    ):
        fit_memories(inputs, 3)


def test_messages_of_gas():
    with pytest.raises(ValueError, match=r"`count` must be at least 2; got 1\."):
        GrowingNeuralGas(1)
    gas = GrowingNeuralGas(5)
    with pytest.raises(ValueError, match=r"`partial_fit` must come before `memories`; got no inputs\."):
        gas.memories()
    with pytest.raises(ValueError, match=r"`inputs` must hold at least 2 rows; got 1\."):
        gas.partial_fit(np.zeros((1, 2)))
    gas.partial_fit(spiral(100))
    with pytest.raises(ValueError, match=r"`inputs` must have 6 columns as before; got 2\."):
        gas.partial_fit(np.zeros((3, 2)))
    with pytest.raises(
        ValueError, match=r"`inputs` must lie within 1e\+06 times the extent of the first ones"
    ):
        gas.partial_fit(np.full((3, 6), 1e12))


@pytest.mark.parametrize(
    ("setting", "value"),
    [("insertion_interval", 0), ("maximum_age", 2.5), ("settling_rounds", -1), ("winner_rate", 1.5)],
)
def test_messages_of_config(setting, value):
    with pytest.raises(ValueError, match=rf"`{setting}` must be .*; got {value}\."):
        GasConfig(**{setting: value})
