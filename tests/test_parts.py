"""Very many memories: parts find what asking all finds, and gases of parts keep what one gas promises."""

import numpy as np
import pytest

from tether.geometry import memories
from tether.geometry.memories import fit_memories
from tether.geometry.nearest import NearestIndex, nearest
from tether.geometry.parts import PartedIndex, shared_out


@pytest.mark.parametrize("seed", range(6))
def test_parts_find_what_asking_all_finds(seed) -> None:
    """Far from the origin, with memories that are there twice, and with inputs as near to two as to one."""
    rng = np.random.default_rng(seed)
    nodes = rng.standard_normal((700, 1 + 3 * seed)) * 10.0 ** rng.integers(-3, 4) + rng.choice([0.0, 1e6])
    nodes[50:120] = nodes[200:270]
    nodes[300:320] = nodes[0]
    inputs = np.concatenate(
        [nodes, (nodes[1:] + nodes[:-1]) / 2, 3 * rng.standard_normal((900, 1 + 3 * seed))]
    )
    parted, all_asked = PartedIndex(nodes).query(inputs), NearestIndex(nodes).query(inputs)
    assert np.array_equal(parted.cell, all_asked.cell)
    assert np.array_equal(parted.squared_distance, all_asked.squared_distance)


def test_gases_of_parts_keep_what_one_gas_promises(monkeypatch) -> None:
    rng = np.random.default_rng(0)
    inputs = np.cumsum(rng.standard_normal((8000, 4)), axis=0) / 50
    inputs[100:130] = inputs[0]
    one = fit_memories(inputs, 600)
    monkeypatch.setattr(memories, "_AT_ONCE", 200)
    monkeypatch.setattr(memories, "_PART", 100)
    told = []
    parts = fit_memories(inputs, 600, progress=lambda done, total: told.append((done, total)))
    found = nearest(inputs, parts.nodes)
    assert len(np.unique(found.cell)) == 600 and told[-1] == (600, 600)
    assert found.squared_distance.mean() <= 1.15 * nearest(inputs, one.nodes).squared_distance.mean()
    # Parts are linked with one another, so that whoever follows links comes everywhere that one gas comes.
    assert components(parts) <= components(one) + 2
    again = fit_memories(inputs, 600)
    assert np.array_equal(parts.nodes, again.nodes) and np.array_equal(parts.edges, again.edges)


def test_too_few_inputs_for_the_memories_asked_for(monkeypatch) -> None:
    monkeypatch.setattr(memories, "_AT_ONCE", 20)
    monkeypatch.setattr(memories, "_PART", 10)
    inputs = np.repeat(np.random.default_rng(0).standard_normal((30, 2)), 10, axis=0)
    with pytest.raises(ValueError, match="got 40 memories for 30 distinct inputs"):
        fit_memories(inputs, 40)
    assert len(np.unique(nearest(inputs, fit_memories(inputs, 30).nodes).cell)) == 30


def test_shares_are_whole_and_within_what_there_is() -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        most = rng.integers(1, 50, rng.integers(1, 12))
        wanted, count = rng.uniform(1e-9, 1, len(most)), rng.integers(len(most), most.sum() + 1)
        given = shared_out(int(count), wanted, most)
        assert given.sum() == count and (given >= 1).all() and (given <= most).all()


def components(found) -> int:
    """Sets of memories that links hold together."""
    own = np.arange(len(found.nodes))
    while True:
        least = own.copy()
        np.minimum.at(least, found.edges[:, 0], own[found.edges[:, 1]])
        np.minimum.at(least, found.edges[:, 1], own[found.edges[:, 0]])
        if np.array_equal(least, own):
            return len(np.unique(own))
        own = least
