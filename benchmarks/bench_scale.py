"""Seconds of the processor and peak memory against rows, memories, leaves and inputs, with fitted exponents.

    python benchmarks/bench_scale.py [rows memories leaves inputs workers] [--largest] [--figure FILE.png]

Each size runs in a process of its own, so that its peak is its own. Rows are a folder of Parquet that is read in
pieces, fitted to a sample of 200,000 transitions, and read again to measure the model on all that was held out.
`--largest` adds 20 million rows, 100,000 memories and a million leaves. `workers` times a slow M (10 ms a row) on a
Dask cluster of 2 processes against this one. An exponent is the slope of log seconds over log size, between the
last two sizes.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from sizes import TINY, size

SIZES = {
    "rows": size((10_000, 100_000, 1_000_000), (2000,)),
    "memories": size((1000, 3000, 10_000, 30_000), (30, 60)),
    "leaves": size((10_000, 30_000, 100_000), (100, 200)),
    "inputs": size((2, 8, 32, 64), (2, 4)),
}
LARGEST = {"rows": 20_000_000, "memories": 100_000, "leaves": 1_000_000}
SAMPLE = size(200_000, 1000)
MEMORY_ROWS = size(1_000_000, 500)
STEPS = size(1000, 20)
EPISODE = size(1000, 50)
FILE_ROWS = 1_000_000
STATES, CONTROLS = [f"x{k}" for k in range(8)], ["u0", "u1"]


def cart(states, controls):
    """Eight states, of which three bend with one another."""
    following = states.copy()
    following[:, 0] = states[:, 0] + 0.05 * states[:, 1] * np.cos(states[:, 2])
    following[:, 1] = states[:, 1] + 0.05 * (controls[:, 0] - 0.1 * states[:, 1])
    following[:, 2] = states[:, 2] + 0.05 * controls[:, 1]
    return following


def write_log(folder, rows):
    """A folder of Parquet: inputs, outcomes and an episode in each row; 19 columns, 10 of them inputs."""
    import pyarrow
    import pyarrow.parquet

    for start in range(0, rows, FILE_ROWS):
        count = min(FILE_ROWS, rows - start)
        rng = np.random.default_rng(start)
        states, controls = rng.uniform(-1, 1, (count, 8)), rng.uniform(-1, 1, (count, 2))
        outcome = (
            cart(states, controls) + 0.01 * np.sin(3 * states) + 0.001 * rng.standard_normal(states.shape)
        )
        table = dict(zip(STATES + CONTROLS, [*states.T, *controls.T], strict=True))
        table |= {f"n{k}": outcome[:, k] for k in range(8)}
        table["episode"] = (start + np.arange(count)) // EPISODE
        pyarrow.parquet.write_table(
            pyarrow.table(table), Path(folder) / f"{start:010}.parquet", row_group_size=100 * EPISODE
        )


def fit_rows(rows):
    """Reads, fits to a sample, and measures on all that was held out."""
    from tether.data.logs import LogConfig, read_log
    from tether.fitting import FitConfig, fit
    from tether.fitting.streaming import measure_log
    from tether.learning.config import TrainingConfig

    with tempfile.TemporaryDirectory() as folder:
        if TINY:
            write_log(folder, rows)
        else:  # by another process, whose memory is not ours
            subprocess.run([sys.executable, __file__, "--write", folder, "--size", str(rows)], check=True)
        begun, clock = time.process_time(), time.monotonic()
        outcomes = [f"n{k}" for k in range(8)]
        reading = LogConfig(
            states=STATES, controls=CONTROLS, next_states=outcomes, episode="episode", most_rows=SAMPLE
        )
        sampled = read_log(folder, config=reading)
        read = time.process_time() - begun
        config = FitConfig(memories=size(1000, 10), training=TrainingConfig(steps=STEPS))
        model = fit(sampled, trusted=cart, config=config)
        fitted = time.process_time() - begun - read
        whole = measure_log(model, cart, folder, sampled, reading=reading, config=config)
        told = {"read": read, "fit": fitted, "measure": time.process_time() - begun - read - fitted}
        return {**told, "wall": time.monotonic() - clock, "held out": whole.rows, "coverage": whole.coverage}


def trajectories(rows, inputs, seed=0):
    """Smooth random motion: `inputs` coordinates that follow a few hidden ones."""
    rng = np.random.default_rng(seed)
    hidden = np.cumsum(rng.standard_normal((rows, 6)), axis=0)
    hidden = (hidden - hidden.mean(axis=0)) / hidden.std(axis=0)
    return hidden @ rng.standard_normal((6, inputs)) + 0.1 * rng.standard_normal((rows, inputs))


def grow_memories(count):
    """A gas over a million rows of 24 inputs."""
    from tether.geometry.memories import fit_memories

    inputs = trajectories(MEMORY_ROWS, 24)
    fit_memories(inputs[:1000], 10, seed=0)
    begun, clock = time.process_time(), time.monotonic()
    found = fit_memories(inputs, count, seed=0)
    told = {"seconds": time.process_time() - begun, "wall": time.monotonic() - clock}
    return {**told, "links": len(found.edges)}


def question(function, inputs):
    from tether.data import make_schema
    from tether.evidence import Question
    from tether.trusted import TrustedModel

    schema = make_schema([f"x{k}" for k in range(inputs)], [])
    nothing = np.full(inputs, np.nan)
    return Question(
        TrustedModel(function), schema, "next_state", np.full(inputs, -2.0), np.full(inputs, 2.0), nothing
    )


def pendulum(states, controls):
    return np.stack(
        [states[:, 0] + 0.05 * states[:, 1], states[:, 1] - 0.05 * np.sin(3 * states[:, 0] * states[:, 1])],
        axis=1,
    )


def chain(states, controls):
    """Each joint pulls at the next."""
    return states + 0.05 * np.sin(np.roll(states, 1, axis=1)) * states


def grow_leaves(count, function=pendulum, inputs=2):
    """A tree of two outputs, proved leaf by leaf."""
    from tether.evidence import Proved
    from tether.tethers.growth import Aim, grow

    asked = question(function, inputs)
    rows = np.random.default_rng(0).uniform(-2, 2, (10_000, inputs))
    grow(Proved().expander(asked), Aim(np.full(inputs, 1e-30), rows, 4 * inputs))
    begun = time.process_time()
    grown = grow(Proved().expander(asked), Aim(np.full(inputs, 1e-30), rows, count))
    return {"seconds": time.process_time() - begun, "leaves": len(grown.leaves.value)}


def grow_inputs(inputs):
    """Leaves of a chain of so many joints, as many for each."""
    return grow_leaves(size(1000, 20) * inputs, chain, inputs)


CASES = {"rows": fit_rows, "memories": grow_memories, "leaves": grow_leaves, "inputs": grow_inputs}


def run(case, count):
    """One case: seconds and the peak, in a process of its own."""
    if TINY:
        return json.loads(json.dumps(measured(case, count)))
    command = [sys.executable, __file__, "--case", case, "--size", str(count)]
    return json.loads(
        subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1]
    )


def measured(case, count):
    found = CASES[case](count)
    total = found.get("seconds") or found["read"] + found["fit"] + found["measure"]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return {"size": count, **found, "seconds": total, "gigabytes": peak}


def slow(states, controls):
    time.sleep(0.01 * len(states))
    return cart(states, controls)


SLOW_ROWS = size(2560, 16)


def speed_up():
    """A slow M on two workers against this process."""
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        print("workers: SKIPPED, dask.distributed is not installed")
        return True

    from tether.data import make_schema
    from tether.foundation.executors import spread_over
    from tether.trusted import TrustedModel

    model, schema = TrustedModel(slow), make_schema(STATES, CONTROLS)
    rng, rows = np.random.default_rng(0), SLOW_ROWS
    states, controls = rng.uniform(-1, 1, (rows, 8)), rng.uniform(-1, 1, (rows, 2))
    begun = time.monotonic()
    alone = model(states, controls, schema)
    one = time.monotonic() - begun
    settings = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "processes": not TINY}
    with LocalCluster(**settings) as cluster, Client(cluster) as client, spread_over(client):
        model(states[:16], controls[:16], schema)
        begun = time.monotonic()
        spread = model(states, controls, schema)
        two = time.monotonic() - begun
    print(
        f"workers: {rows} rows of 10 ms: {one:.1f} s here, {two:.1f} s on two workers, {one / two:.2f} times faster"
    )
    return np.array_equal(alone, spread)


def show(case, results):
    """A table of one case, and its exponents."""
    print(f"\n{case:>12}{'seconds':>10}{'GB':>8}  of which")
    for one in results:
        rest = ", ".join(
            f"{name} {value:.3g}"
            for name, value in one.items()
            if name not in ("size", "seconds", "gigabytes")
        )
        print(f"{one['size']:>12,}{one['seconds']:>10.2f}{one['gigabytes']:>8.2f}  {rest}")
    if len(results) > 1:
        slopes = [f"{exponent(results, name):.2f}" for name in ("seconds", "gigabytes")]
        print(f"{case}: seconds grow as size^{slopes[0]}, memory as size^{slopes[1]}")
    else:
        print(f"{case}: one size, no exponent")


def exponent(results, name):
    """Slope of the logarithm of seconds or of memory over that of the size, between the last two sizes."""
    before, last = results[-2:]
    return np.log(last[name] / before[name]) / np.log(last["size"] / before["size"])


MEANING = {
    "rows": "rows of a log (10 inputs), read, fitted, measured",
    "memories": "memories of a million rows (24 inputs)",
    "leaves": "proved leaves of a tree (2 inputs)",
    "inputs": "inputs, 1,000 proved leaves for each",
}


def draw(everything, path):
    """Seconds and peak memory against size, with the exponents."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(9.6, 4.4), layout="constrained")
    quantities = (("seconds", "seconds of the processor"), ("gigabytes", "peak memory, GB"))
    for axis, (name, meaning) in zip(axes, quantities, strict=True):
        for case, results in everything.items():
            label = f"{MEANING[case]}: size^{exponent(results, name):.2f}"
            axis.loglog([one["size"] for one in results], [one[name] for one in results], "o-", label=label)
        axis.set(xlabel="size", ylabel=meaning)
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), frameon=False, fontsize=8)
    for formatting in (axes[1].yaxis.set_major_formatter, axes[1].yaxis.set_minor_formatter):
        formatting("{x:g}")
    figure.suptitle("with the exponents between the last two sizes", fontsize=9)
    figure.savefig(path, dpi=130)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cases", nargs="*", default=[])
    parser.add_argument("--largest", action="store_true")
    parser.add_argument("--figure")
    parser.add_argument("--case")
    parser.add_argument("--write")
    parser.add_argument("--size", type=int)
    asked = parser.parse_args()
    if asked.write:
        write_log(asked.write, asked.size)
        return 0
    if asked.case:
        print(json.dumps(measured(asked.case, asked.size)))
        return 0
    everything = {}
    for case in asked.cases or [*SIZES, "workers"]:
        if case == "workers":
            continue
        counts = [*SIZES[case], *([LARGEST[case]] if asked.largest and case in LARGEST else [])]
        everything[case] = [run(case, count) for count in counts]
        show(case, everything[case])
    if asked.figure:
        draw(everything, asked.figure)
    same = speed_up() if not asked.cases or "workers" in asked.cases else True
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
