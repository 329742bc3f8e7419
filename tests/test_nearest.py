import subprocess
import sys
import threading

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tether.geometry.nearest import Nearest, NearestIndex, compiled, nearest, nearest_torch


def brute_force(inputs, memories):
    """The definition: squares summed in the order of the dimensions, the lowest index among equals."""
    total = np.zeros((len(inputs), len(memories)))
    with np.errstate(over="ignore", under="ignore"):
        for d in range(inputs.shape[1]):
            difference = inputs[:, d, None] - memories[None, :, d]
            total += difference * difference
    cell = total.argmin(axis=1)
    return Nearest(cell, total[np.arange(len(inputs)), cell])


def assert_exact(inputs, memories):
    expected, found = brute_force(inputs, memories), nearest(inputs, memories)
    np.testing.assert_array_equal(found.cell, expected.cell)
    np.testing.assert_array_equal(found.squared_distance, expected.squared_distance)


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e-140, 1e-30, 1.0, 1e30, 1e139, 1e150])
def test_every_magnitude(scale):
    random = np.random.default_rng(0)
    assert_exact(scale * random.normal(size=(301, 7)), scale * random.normal(size=(131, 7)))


@pytest.mark.parametrize("distance", [1.0, 1e6, 1e14, 1e16, 1e100, 1e200])
def test_inputs_far_from_all_memories(distance):
    random = np.random.default_rng(1)
    assert_exact(distance * random.normal(size=(300, 3)), random.normal(size=(200, 3)))


@pytest.mark.parametrize("offset", [1e3, 1e8, 1e15])
def test_memories_far_from_the_origin(offset):
    random = np.random.default_rng(2)
    assert_exact(offset + random.normal(size=(300, 4)), offset + random.normal(size=(200, 4)))


@pytest.mark.parametrize("count", [1, 2, 7, 8, 63, 64, 65, 129])
@pytest.mark.parametrize("rows", [0, 1, 3, 4, 5])
def test_sizes_around_those_of_blocks(count, rows):
    random = np.random.default_rng(3)
    assert_exact(random.normal(size=(rows, 5)), random.normal(size=(count, 5)))


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 6), st.integers(1, 90), st.integers(0, 2**32 - 1))
def test_ties_go_to_the_lowest_index(dimensions, count, seed):
    random = np.random.default_rng(seed)
    memories = random.integers(-2, 3, size=(count, dimensions)).astype(float)
    assert_exact(random.integers(-4, 5, size=(40, dimensions)) / 2, memories)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 30), st.integers(1, 90), st.floats(0, 12), st.integers(0, 2**32 - 1))
def test_columns_and_rows_of_unlike_magnitude(dimensions, count, decades, seed):
    random = np.random.default_rng(seed)

    def draw(rows):
        exponents = random.uniform(-decades, decades, size=(rows, 1)) + random.uniform(
            -decades, 0, size=dimensions
        )
        return random.normal(size=(rows, dimensions)) * 10.0**exponents

    memories = draw(count)
    near = memories[random.integers(0, count, size=40)] * (1 + 1e-7 * random.normal(size=(40, 1)))
    assert_exact(np.concatenate([draw(40), near]), memories)


def test_equal_memories():
    assert_exact(np.random.default_rng(4).normal(size=(50, 3)), np.full((70, 3), 0.1))


@pytest.mark.parametrize(("inputs", "memories", "shared"), [(400_000, 5, True), (1_000, 10_000, False)])
def test_many_inputs_are_shared_among_threads_however_few_memories_there_are(
    inputs, memories, shared, monkeypatch
):
    asked = []
    monkeypatch.setattr("tether.geometry.nearest.in_threads", lambda run, count: asked.append(count))
    NearestIndex(np.zeros((memories, 4))).query(np.zeros((inputs, 4)))
    assert bool(asked) == shared


def test_large_queries_on_threads():
    random = np.random.default_rng(5)
    inputs, memories = random.normal(size=(50_001, 6)), random.normal(size=(700, 6))
    assert inputs.shape[0] * memories.size > 2e8  # otherwise it is not the threaded path
    assert_exact(inputs, memories)


def test_any_array_is_accepted():
    random = np.random.default_rng(6)
    inputs, memories = random.normal(size=(20, 10)), random.normal(size=(30, 10))
    frozen = memories.copy()
    frozen.setflags(write=False)
    expected = brute_force(inputs[:, ::2], memories[:, ::2]).cell
    assert (nearest(inputs[:, ::2], frozen[:, ::2]).cell == expected).all()
    assert (nearest(inputs[:, ::2].astype(np.float32), frozen[:, ::2]).cell == expected).all()
    assert (nearest(inputs[:, ::2].tolist(), frozen[:, ::2]).cell == expected).all()


def test_index_is_independent_of_the_array_it_was_built_from():
    memories = np.array([[0.0], [1.0]])
    index = NearestIndex(memories)
    memories[:] = 5.0
    assert index.query(np.array([[0.9]])).cell == [1]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_not_finite_inputs_get_some_valid_cell(bad):
    random = np.random.default_rng(7)
    inputs, memories = random.normal(size=(9, 4)), random.normal(size=(100, 4))
    expected = brute_force(inputs, memories).cell
    inputs[3, 2] = bad
    found = nearest(inputs, memories).cell
    assert 0 <= found[3] < 100
    assert (np.delete(found, 3) == np.delete(expected, 3)).all()


def test_queries_from_many_python_threads():
    random = np.random.default_rng(8)
    inputs, index = random.normal(size=(9000, 6)), NearestIndex(random.normal(size=(700, 6)))
    expected = index.query(inputs)
    found = [None] * 8

    def ask(place):
        found[place] = index.query(inputs)

    threads = [threading.Thread(target=ask, args=(place,)) for place in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for answer in found:
        np.testing.assert_array_equal(answer.cell, expected.cell)


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="this system does not fork")
def test_queries_after_a_fork():
    program = """
import os, signal
import numpy as np
from tether.geometry.nearest import NearestIndex
random = np.random.default_rng(0)
inputs, index = random.normal(size=(9000, 6)), NearestIndex(random.normal(size=(700, 6)))
expected = index.query(inputs).cell
child = os.fork()
signal.alarm(60)
if child == 0:
    os._exit(0 if (index.query(inputs).cell == expected).all() else 1)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert subprocess.run([sys.executable, "-c", program], timeout=120, check=False).returncode == 0


def test_compiles_where_nothing_can_be_cached():
    space = {}
    exec("def double(x):\n    return 2 * x", space)  # a function without a file has no place for a cache
    assert compiled(space["double"])(21) == 42


def test_messages():
    memories = np.zeros((3, 2))
    with pytest.raises(ValueError, match=r"`memories` must hold at least 1 row; got 0\."):
        NearestIndex(np.zeros((0, 2)))
    with pytest.raises(ValueError, match=r"`memories` must have shape \(rows, columns\); got \(3,\)\."):
        NearestIndex(np.zeros(3))
    with pytest.raises(ValueError, match=r"`inputs` must have shape \(rows, columns\); got \(2,\)\."):
        nearest(np.zeros(2), memories)
    with pytest.raises(ValueError, match=r"`inputs` must have as many columns as `memories`; got 3 and 2\."):
        nearest(np.zeros((4, 3)), memories)


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e150])
@pytest.mark.parametrize("rows", [0, 1, 3000])
def test_torch_agrees(scale, rows):
    random = np.random.default_rng(9)
    inputs, memories = scale * random.normal(size=(rows, 5)), scale * random.normal(size=(401, 5))
    memories[400] = memories[0]
    expected = brute_force(inputs, memories)
    cell, squared_distance = nearest_torch(torch.from_numpy(inputs), torch.from_numpy(memories))
    assert cell.dtype == torch.int64 and squared_distance.dtype == torch.float64
    np.testing.assert_array_equal(cell.numpy(), expected.cell)
    np.testing.assert_array_equal(squared_distance.numpy(), expected.squared_distance)


def test_torch_takes_tensors_that_require_gradients():
    inputs = torch.tensor([[0.2], [0.9]], requires_grad=True)
    cell, squared_distance = nearest_torch(inputs, torch.tensor([[0.0], [1.0]]))
    assert cell.tolist() == [0, 1] and not squared_distance.requires_grad
