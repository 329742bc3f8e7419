"""Growing neural gas: against NumPy, against its own distances, and against k-means.

    python benchmarks/bench_memories.py [FOLDER_OF_PANCREAS_TRACES]

- "NumPy" is the same gas with the same settings, growth only, distances vectorised, single precision as ours.
- "distances" is the time of the gas's distance kernel alone, one core, for the same presentations.
- "error" is the mean squared distance to the nearest memory, relative to MiniBatchKMeans at its defaults.

Times are medians of rounds taken in turn (NumPy, which takes long, runs once).
"""

import sys
import time
from pathlib import Path

import numba
import numpy as np
from sklearn.cluster import MiniBatchKMeans

from bench_assignment import gaussian, seconds, trajectories, verdict
from sizes import size
from tether.geometry.memories import GasConfig, fit_memories
from tether.geometry.memories import _grow as grow
from tether.geometry.nearest import GROUP, block_shape, nearest, score_one

ROUNDS, ROWS, MEMORIES = size((5, 30_000, 2000), (1, 500, 20))


def pancreas(folder, history=10):
    """Windows of glucose, insulin and meals: 31,500 rows of 31 inputs."""
    windows = []
    for patient in ("above150", "below150", "zeroCarbs"):
        glucose, insulin, meal = (
            np.loadtxt(Path(folder) / f"{name}_data_{patient}.csv", delimiter=",")
            for name in ("Glucose", "Insulin", "meal")
        )
        for start in range(glucose.shape[1] - history - 1):
            span = slice(start, start + history)
            windows.append(
                np.hstack([glucose[:, span], insulin[:, span], meal[:, start : start + history + 1]])
            )
    rows = np.concatenate(windows)
    rows = rows[np.random.default_rng(0).permutation(len(rows))[:31_500]]
    spread = rows.std(axis=0)
    return rows / np.where(spread > 0, spread, 1.0)


def numpy_gas(inputs, count, config):
    """Fritzke's algorithm on NumPy arrays, neighbours in dictionaries of ages."""
    random = np.random.default_rng(0)
    inputs = inputs.astype(np.float32)
    nodes, errors = np.zeros((count, inputs.shape[1]), np.float32), np.zeros(count)
    nodes[:2] = inputs[random.choice(len(inputs), 2, replace=False)]
    ages, size = {0: {1: 0}, 1: {0: 0}}, 2
    order = np.concatenate(
        [random.permutation(len(inputs)) for _ in range(-(-count * config.insertion_interval // len(inputs)))]
    )
    for step, row in enumerate(order[: count * config.insertion_interval], start=1):
        point = inputs[row]
        difference = point - nodes[:size]
        squared = np.einsum("ij,ij->i", difference, difference)
        first = int(squared.argmin())
        error = squared[first]
        squared[first] = np.inf
        second = int(squared.argmin())
        errors[first] += error
        around = ages[first]
        for other in around:
            around[other] += 1
            ages[other][first] += 1
        nodes[first] += config.winner_rate * difference[first]
        if around:
            linked = list(around)
            nodes[linked] += config.neighbour_rate * difference[linked]
        around[second] = ages[second][first] = 0
        for other in [other for other, age in around.items() if age > config.maximum_age]:
            del around[other], ages[other][first]
            if not ages[other]:
                size -= 1
                nodes[other], errors[other] = nodes[size], errors[size]
                moved = ages.pop(size)
                if other != size:
                    ages[other] = moved
                    for neighbour in moved:
                        ages[neighbour][other] = ages[neighbour].pop(size)
                if first == size:
                    first, around = other, ages[other]
        if step % config.insertion_interval == 0 and size < count:
            worst = int(errors[:size].argmax())
            other = max(ages[worst], key=lambda node: errors[node])
            nodes[size] = 0.5 * (nodes[worst] + nodes[other])
            del ages[worst][other], ages[other][worst]
            ages[size] = {worst: 0, other: 0}
            ages[worst][size] = ages[other][size] = 0
            errors[worst] *= config.insertion_decay
            errors[other] *= config.insertion_decay
            errors[size] = errors[worst]
            size += 1
        errors[:size] *= 1 - config.step_decay
    return nodes[:size].astype(np.float64)


@numba.njit(nogil=True)
def distances_alone(inputs, blocks, offsets, interval):
    """The distances of a gas that grows by one node each interval, and nothing else."""
    point = np.empty((inputs.shape[1], 1), np.float32)
    scores = np.empty((1, offsets.size), np.float32)
    minima = np.empty((1, offsets.size // GROUP), np.float32)
    for step in range(offsets.size * interval):
        for d in range(inputs.shape[1]):
            point[d, 0] = inputs[step % inputs.shape[0], d]
        for group in range((2 + step // interval) // GROUP + 1):
            if group < minima.shape[1]:
                score_one(point, blocks, offsets, scores, minima, group)
    return minima[0, 0]


def time_of_distances(inputs, count, config):
    random = np.random.default_rng(0)
    rows = inputs.astype(np.float32)
    blocks = random.normal(size=block_shape(count, inputs.shape[1])).astype(np.float32)
    # The arrays are rounded up to whole groups: charge only for the presentations that `count` nodes take.
    offsets = np.zeros((len(blocks), blocks.shape[2]), np.float32)
    return (
        seconds(lambda: distances_alone(rows, blocks, offsets, config.insertion_interval))
        * count
        / offsets.size
    )


def measure(name, inputs, count, *, against_numpy):
    config = GasConfig()
    times = {"fit": [], "growth": [], "distances": [], "k-means": []}
    for round_number in range(ROUNDS):
        times["fit"].append(seconds(lambda: fit_memories(inputs, count)))
        times["growth"].append(seconds(lambda: grow(inputs, count, 0, config, None)))
        times["distances"].append(time_of_distances(inputs, count, config))
        if round_number == 0:
            started = time.perf_counter()
            centres = MiniBatchKMeans(count, random_state=0).fit(inputs).cluster_centers_
            times["k-means"].append(time.perf_counter() - started)
    fit, growth, distances, k_means = (float(np.median(values)) for values in times.values())
    error = nearest(inputs, fit_memories(inputs, count).nodes).squared_distance.mean()
    reference = nearest(inputs, centres).squared_distance.mean()
    print(f"{name}: {inputs.shape[0]:,} x {inputs.shape[1]} inputs, {count:,} memories")
    print(
        f"  fit_memories    {fit:8.2f} s   {verdict(fit < 1)} (target: below 1 s)   k-means: {k_means:.2f} s"
    )
    print(
        f"  growth          {growth:8.2f} s   {growth / distances:.2f} x its distances ({distances:.2f} s)   "
        f"{verdict(growth < 2 * distances)} (target: below 2 x)"
    )
    print(
        f"  error           {error:8.4g}     {error / reference:.3f} x k-means ({reference:.4g})   "
        f"{verdict(error <= 1.15 * reference)} (target: below 1.15 x)"
    )
    if against_numpy:
        slow = seconds(lambda: numpy_gas(inputs, count, config))
        print(
            f"  NumPy, growth   {slow:8.2f} s   {slow / growth:.1f} x growth, {slow / fit:.1f} x fit_memories"
            f"   {verdict(slow > 20 * growth)} (target: growth 20 x faster)"
        )
    print()


def main():
    fit_memories(gaussian(200, 3), 10)
    time_of_distances(gaussian(200, 3), 10, GasConfig())  # compile both before anything is timed
    measure("trajectories", trajectories(ROWS, 24), MEMORIES, against_numpy=True)
    measure("gaussian", gaussian(ROWS, 24), MEMORIES, against_numpy=True)
    if len(sys.argv) > 1:
        for count in (1000, 2000):
            measure("pancreas", pancreas(sys.argv[1]), count, against_numpy=count == 2000)


if __name__ == "__main__":
    main()
