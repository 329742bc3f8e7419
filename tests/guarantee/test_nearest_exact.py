"""The nearest memory is exact: bit-equal to brute force in float64, on a million points of every kind."""

import numpy as np
import pytest
import torch

from tether.geometry.nearest import nearest, nearest_torch

ROWS = 1_000_000


def brute_force(inputs, memories):
    """The definition, in pieces that fit in memory."""
    cell, squared_distance = np.empty(len(inputs), np.int64), np.empty(len(inputs))
    piece = 1_000_000 // len(memories)
    for start in range(0, len(inputs), piece):
        rows = slice(start, start + piece)
        total = np.zeros((len(inputs[rows]), len(memories)))
        for d in range(inputs.shape[1]):
            difference = inputs[rows, d, None] - memories[None, :, d]
            total += difference * difference
        cell[rows] = total.argmin(axis=1)
        squared_distance[rows] = np.take_along_axis(total, cell[rows, None], axis=1)[:, 0]
    return cell, squared_distance


def gaussian(random, rows):
    return random.normal(size=(rows, 5)), random.normal(size=(60, 5))


def exact_ties(random, rows):
    """A lattice, with every memory twice."""
    memories = random.integers(-2, 3, size=(30, 5)).astype(float)
    return random.integers(-6, 7, size=(rows, 5)) / 2, np.concatenate([memories, memories])


def near_ties(random, rows):
    """Halfway between two memories but for a few units in the last place of the coordinates."""
    memories = random.normal(size=(60, 5))
    first, second = random.integers(0, 60, size=(2, rows))
    middle = (memories[first] + memories[second]) / 2
    return middle * (1 + random.integers(-4, 5, size=(rows, 5)) * 2.0**-52), memories


def close_memories(random, rows):
    """Pairs of memories that float32 cannot tell apart, far from the origin."""
    memories = 1000.0 + random.normal(size=(30, 5))
    memories = np.concatenate([memories, memories + 1e-9 * random.normal(size=(30, 5))])
    return memories[random.integers(0, 60, size=rows)] + 1e-8 * random.normal(size=(rows, 5)), memories


def lone_giant(random, rows):
    """One memory so far away that float32 blurs all the others together."""
    inputs, memories = random.normal(size=(rows, 5)), random.normal(size=(20, 5))
    memories[7] = 1e9
    return inputs, memories


def distant_inputs(random, rows):
    """From near to so far that all distances round to the same number."""
    inputs, memories = gaussian(random, rows)
    return inputs * 10.0 ** random.uniform(0, 25, size=(rows, 1)), memories


def tiny(random, rows):
    """Squares underflow, so that unequal distances become equal numbers."""
    inputs, memories = gaussian(random, rows)
    return inputs * 1e-161, memories * 1e-161


def huge(random, rows):
    inputs, memories = gaussian(random, rows)
    return inputs * 1e150, memories * 1e150


KINDS = [gaussian, exact_ties, near_ties, close_memories, lone_giant, distant_inputs, tiny, huge]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_bit_equal_to_brute_force_on_a_million_points(kind):
    inputs, memories = kind(np.random.default_rng(0), ROWS)
    cell, squared_distance = brute_force(inputs, memories)
    found = nearest(inputs, memories)
    np.testing.assert_array_equal(found.cell, cell)
    np.testing.assert_array_equal(found.squared_distance, squared_distance)
    # Torch is slow on a busy machine: an eighth of each of eight kinds, a million in all.
    some = slice(0, ROWS // len(KINDS))
    torch_cell, torch_squared = nearest_torch(torch.from_numpy(inputs[some]), torch.from_numpy(memories))
    np.testing.assert_array_equal(torch_cell.numpy(), cell[some])
    np.testing.assert_array_equal(torch_squared.numpy(), squared_distance[some])


def test_bit_equal_on_a_manifold():
    random = np.random.default_rng(1)
    latent = random.normal(size=(ROWS, 2))
    inputs = np.concatenate([np.sin(latent), np.cos(latent), latent[:, :1] * latent[:, 1:]], axis=1)
    memories = inputs[random.choice(ROWS, 100, replace=False)]
    cell, squared_distance = brute_force(inputs, memories)
    found = nearest(inputs, memories)
    np.testing.assert_array_equal(found.cell, cell)
    np.testing.assert_array_equal(found.squared_distance, squared_distance)


def test_bit_equal_at_the_size_of_a_study():
    """24 inputs and 2,000 memories, half the points on the border between two of them."""
    random = np.random.default_rng(2)
    memories = random.normal(size=(2000, 24))
    first, second = random.integers(0, 2000, size=(2, 4000))
    inputs = np.concatenate([(memories[first] + memories[second]) / 2, random.normal(size=(4000, 24))])
    cell, squared_distance = brute_force(inputs, memories)
    found = nearest(inputs, memories)
    np.testing.assert_array_equal(found.cell, cell)
    np.testing.assert_array_equal(found.squared_distance, squared_distance)
