"""Exact nearest memory: against a k-d tree and against brute force on BLAS, and the time of one small query.

    python benchmarks/bench_assignment.py

Times are the best of several rounds, taken in turn so that a busy machine slows all alike. The tree is asked
for fewer rows and its time scaled up, in its favour if anything: building it is not counted.
"""

import time

import numpy as np
from scipy.spatial import cKDTree

from sizes import size
from tether.geometry.nearest import NearestIndex, nearest

ROWS, TREE_ROWS, MEMORIES = size((1_000_000, 50_000, 2000), (2000, 100, 50))

SAME = min(100_000, ROWS)


def trajectories(rows, columns, seed=0):
    """A smooth system: six hidden oscillators seen through random features, and noise."""
    random = np.random.default_rng(seed)
    episodes, steps = rows // 100, np.arange(100)[None, :, None]
    speed, phase = random.uniform(0.5, 2, size=6), random.uniform(0, 2 * np.pi, size=(episodes, 1, 6))
    hidden = random.normal(size=(episodes, 1, 6)) * np.sin(0.05 * steps * speed + phase)
    seen = (
        np.tanh(hidden.reshape(-1, 6) @ random.normal(size=(6, 48))) @ random.normal(size=(48, columns)) / 7
    )
    seen += 0.02 * random.normal(size=seen.shape)
    return seen / seen.std(axis=0)


def gaussian(rows, columns, seed=0):
    return np.random.default_rng(seed).normal(size=(rows, columns))


def blas_brute_force(inputs, memories, piece=256):
    """|x|² - 2x·m + |m|² in float64, in pieces of the size that suits it best. Near ties go either way."""
    norms = (memories**2).sum(axis=1)
    cell = np.empty(len(inputs), np.int64)
    for start in range(0, len(inputs), piece):
        rows = inputs[start : start + piece]
        score = rows @ memories.T
        score *= -2
        score += norms
        cell[start : start + piece] = score.argmin(axis=1)
    return cell


def seconds(task, repeats=1):
    started = time.perf_counter()
    for _ in range(repeats):
        task()
    return (time.perf_counter() - started) / repeats


def best_in_turn(tasks, rounds):
    times = {name: [] for name in tasks}
    for _ in range(rounds):
        for name, task in tasks.items():
            times[name].append(seconds(task))
    return {name: min(values) for name, values in times.items()}


def verdict(good):
    return "PASS" if good else "MISS"


def large_queries():
    print(f"{ROWS:,} inputs, 24 dimensions, {MEMORIES:,} memories, seconds (all cores)\n")
    headings = ("tether, exact", "BLAS, not exact", "k-d tree", "BLAS/tether", "tree/tether")
    print(f"{'data':14}" + "".join(f"{heading:>17}" for heading in headings))
    for data in (trajectories, gaussian):
        inputs = data(ROWS, 24)
        memories = inputs[np.random.default_rng(1).choice(ROWS, MEMORIES, replace=False)]
        tree = cKDTree(memories)
        some = inputs[:: ROWS // TREE_ROWS]
        times = best_in_turn(
            {
                "tether": lambda inputs=inputs, memories=memories: nearest(inputs, memories),
                "blas": lambda inputs=inputs, memories=memories: blas_brute_force(inputs, memories),
                "tree": lambda tree=tree, some=some: tree.query(some, workers=-1),
            },
            rounds=size(3, 1),
        )
        times["tree"] *= ROWS / len(some)
        ours = times["tether"]
        print(
            f"{data.__name__:14}{ours:17.2f}{times['blas']:17.2f}{times['tree']:17.2f}"
            f"{times['blas'] / ours:17.1f}{times['tree'] / ours:17.1f}"
            f"   {verdict(ours < min(times['blas'], times['tree']))} (target: faster than both)"
        )
        agree = (blas_brute_force(inputs[:SAME], memories) == nearest(inputs[:SAME], memories).cell).mean()
        print(f"{'':14}BLAS picks the same memory for {100 * agree:.4f} % of {SAME:,}")


def small_queries():
    print(f"\n5 dimensions, {size(2500, 100):,} memories, milliseconds including Python, best of 20 rounds\n")
    print(f"{'rows':>6}{'prepared index':>16}{'nearest()':>12}{'k-d tree':>10}")
    memories = gaussian(size(2500, 100), 5)
    index, tree = NearestIndex(memories), cKDTree(memories)
    for rows, limit in ((1, 0.1), (1024, 2.0)):
        inputs = gaussian(rows, 5, seed=1)
        repeats = 100 if rows == 1 else 3
        tasks = {
            "index": lambda inputs=inputs, repeats=repeats: seconds(lambda: index.query(inputs), repeats),
            "once": lambda inputs=inputs, repeats=repeats: seconds(
                lambda: nearest(inputs, memories), repeats
            ),
            "tree": lambda inputs=inputs, repeats=repeats: seconds(lambda: tree.query(inputs), repeats),
        }
        times = {name: 1e3 * min(task() for _ in range(size(20, 2))) for name, task in tasks.items()}
        print(
            f"{rows:6}{times['index']:16.4f}{times['once']:12.4f}{times['tree']:10.4f}"
            f"   {verdict(times['index'] < limit)} (target: below {limit} ms)"
        )


if __name__ == "__main__":
    nearest(np.zeros((4, 2)), np.eye(2))  # compile
    large_queries()
    small_queries()
