"""Exported C against the library: equal outputs, inside delta of M exactly, and as fast as its network nearly.

The demonstration's car with a network of 64 x 64, of 256 x 256 and with the usual six in one, and a drone of study
size (20,000 leaves, 1,000 memories, 64 x 64). Random inputs, half uniform in and around the box, half near memories.
M is compared in numbers that do not round, on a sample. Seconds are of the processor, on one thread, the least of
many rounds, with ``-O3 -march=native``; the machine may be shared. The MPPI is 1,000 rollouts of 30 steps of the 64 x
64 car, and MPC is that of examples/mpc_casadi.py. Names of models (``"car, 64 x 64"``) ask for these alone, and for
no MPC.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
import tempfile
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch

import tether
from sizes import size
from tether.export import export
from tether.fitting import TETHERED, FitConfig, build_for, prepare
from tether.fitting.methods import untrained
from tether.model import Model
from tether.model.single import single_precision
from tether.verification.interpreter import exact_values
from tether.verification.tracing import trace
from tether_studies import parked_car

ROWS, SAMPLE, ROUNDS = size((1_000_000, 3000, 60), (500, 20, 2))
MOST_RATIO, MOST_MICROSECONDS, MOST_MPPI_MS, MOST_MPC = 1.2, 10.0, 20.0, 2.0
FLAGS = ("-std=gnu99", *size(("-O3", "-march=native"), ("-O1",)), "-ffp-contract=fast")
MAIN = (Path(__file__).parent / "bench_export.c").read_text()


def car(hidden: tuple[int, ...] | None) -> Model:
    """The demonstration's, trained for a moment."""
    driven = parked_car.drive(episodes=size(60, 10), seed=0)
    config = FitConfig(
        memories=size(1000, 30), leaves=size(20_000, 200), domain=parked_car.DOMAIN, evidence="proved", hidden=hidden,
        training=tether.TrainingConfig(steps=size(300, 5)),
    )  # fmt: skip
    return tether.fit(
        driven,
        trusted=parked_car.TRUSTED,
        probes=parked_car.parked(driven, count=size(9000, 200)),
        config=config,
    )


def drone() -> Model:
    """Of study size, its weights as they are made."""
    from tether_studies.drones.data import DOMAIN, fly, hover_probes
    from tether_studies.drones.trusted import TRUSTED

    flown = fly("smoke", seed=0)
    config = FitConfig(
        memories=size(1000, 30), leaves=size(20_000, 100), domain=DOMAIN, evidence="proved", hidden=(64, 64)
    )
    problem = prepare(
        flown, trusted=TRUSTED, probes=hover_probes(flown, scale="smoke", seed=0), config=config
    )
    return untrained(problem, config, build_for(problem, TETHERED, config))


def drawn(model: Model, count: int, dtype: str) -> np.ndarray:
    """(count, D) inputs: uniform in and around the box, and near memories."""
    rng = np.random.default_rng(0)
    region = model.bounds.region(model.cells)
    low, high, half = region.lower, region.upper, count // 2
    center, reach = 0.5 * (low + high), 0.51 * (high - low)
    wide = center + rng.uniform(-1, 1, (half, len(low))) * reach
    near = model.cells.centers[rng.integers(0, len(model.cells), count - half)]
    near = np.clip(near + 0.1 * rng.standard_normal(near.shape) * model.cells.scale, low, high)
    inputs = np.concatenate([wide, near]).astype(dtype)
    dx = len(model.schema.states)
    return inputs if dtype == "float32" else model.schema.wrap_inputs(inputs[:, :dx], inputs[:, dx:])


def compiled(model: Model, folder: Path, dtype: str) -> ctypes.CDLL:
    """The exported file and what measures it, as one library."""
    export(model, to="c", out=folder, name="model", dtype=dtype)
    real = {"float64": "double", "float32": "float"}[dtype]
    net = (
        "double" if next(model.network.parameters()).dtype == torch.float64 and real == "double" else "float"
    )
    (folder / "bench.c").write_text(MAIN)
    command = [
        "cc",
        *FLAGS,
        f"-DREAL={real}",
        f"-DNET={net}",
        "-shared",
        "-fPIC",
        "bench.c",
        "-o",
        "bench.so",
        "-lm",
    ]
    subprocess.run(command, cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "bench.so"))


def address(array: np.ndarray) -> ctypes.c_void_p:
    return array.ctypes.data_as(ctypes.c_void_p)


def library_answers(model: Model, inputs: np.ndarray, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Next states and domain membership."""
    dx = len(model.schema.states)
    if dtype == "float64":
        found = model.predict(inputs[:, :dx], inputs[:, dx:], details=True)
        return found.next_states, found.in_domain
    rows = torch.from_numpy(inputs)
    with torch.no_grad():
        found = single_precision(model)(rows[:, :dx], rows[:, dx:])
    return found.next_states.numpy(), found.in_domain.numpy()


def compare(name: str, model: Model, trusted: tether.TrustedModel, dtype: str, folder: Path) -> ctypes.CDLL:
    """Prints how far C is from the library, and how many outputs are outside delta of M."""
    library = compiled(model, folder, dtype)
    inputs, outputs = drawn(model, ROWS, dtype), len(model.schema.outputs)
    found, delta = np.empty((2, ROWS, outputs), dtype)
    inside = np.empty(ROWS, np.int32)
    library.all_rows(ctypes.c_long(ROWS), address(inputs), address(found), address(delta), address(inside))
    known, known_inside = library_answers(model, inputs, dtype)
    apart = np.abs(found.astype(np.float64) - known) / model.frame.outputs.scale
    wrong = int((inside.astype(bool) & ~known_inside).sum())
    differ = int((inside.astype(bool) != known_inside).sum())
    rows = np.flatnonzero(inside)[:: max(1, int(inside.sum()) // SAMPLE)]
    beyond, least = outside(model, trusted, inputs[rows], found[rows], delta[rows])
    print(
        f"{name:22s} {dtype}  {ROWS:,} inputs: {inside.sum():,} in the domain, {wrong} of them not the library's "
        f"({differ} differ); outputs differ by at most {apart.max():.2g} scales; {beyond} of {len(rows) * outputs:,} "
        f"outputs outside delta of M exactly, the nearest at {least:.4f} of it   {'PASS' if not wrong + beyond else 'MISS'}"
    )
    return library


def outside(
    model: Model, trusted: tether.TrustedModel, inputs: np.ndarray, found: np.ndarray, delta: np.ndarray
):
    """How many outputs are farther from M than delta, and the largest distance in units of delta."""
    schema = model.schema
    program = trace(trusted.function, len(schema.states), len(schema.controls), len(schema.outputs))
    low, high = exact_values(program, inputs.astype(np.float64))
    count, most = 0, 0.0
    turn = Fraction(2 * np.pi)
    for row, output in np.ndindex(found.shape):
        own, stated = Fraction(float(found[row, output])), Fraction(float(delta[row, output]))
        ends = [abs(own - Fraction(float(end[row, output]))) for end in (low, high)]
        if schema.output_angles[output]:
            # Of a turn as float64 has it: off by less than 1e-15, which is added.
            ends = [
                abs(end - turn * round(end / turn)) + (Fraction(1, 10**15) if end > 3 else 0) for end in ends
            ]
        count += max(ends) > stated
        most = max(most, float(max(ends) / stated))
    return count, most


def latency(name: str, library: ctypes.CDLL, model: Model, dtype: str, most: float | None) -> None:
    """One input at a time, in turns with the network alone."""
    count = 2048
    inputs, seconds = drawn(model, count, dtype), np.full(3, np.inf)
    rows = np.random.default_rng(1).permutation(inputs)
    library.latency(
        ctypes.c_long(count), ctypes.c_int(ROUNDS), address(np.ascontiguousarray(rows)), address(seconds)
    )
    whole, bare, slopes = 1e6 * seconds
    passed = whole / bare <= MOST_RATIO and (most is None or whole <= most)
    print(
        f"{name:22s} {dtype}  one input {whole:6.2f} us   bare network {bare:6.2f} us   ratio {whole / bare:.2f}   "
        f"Jacobian {slopes:6.2f} us   target <= {MOST_RATIO}{'' if most is None else f', <= {most:g} us'}   "
        f"{'PASS' if passed else 'MISS'}"
    )


def mppi(library: ctypes.CDLL, dtype: str) -> None:
    """1,000 rollouts of 30 steps."""
    rollouts, steps = size((1000, 30), (10, 3))
    rng = np.random.default_rng(0)
    controls = rng.uniform([2, -0.5], [8, 0.5], (steps, rollouts, 2)).astype(dtype)
    states, following, seconds = *np.empty((2, rollouts, 3), dtype), np.full(1, np.inf)
    library.mppi(
        ctypes.c_long(rollouts),
        ctypes.c_long(steps),
        ctypes.c_int(ROUNDS),
        address(controls),
        address(states),
        address(following),
        address(seconds),
    )
    milliseconds = 1e3 * seconds[0]
    print(
        f"MPPI, car 64 x 64      {dtype}  {rollouts:,} x {steps} steps {milliseconds:.1f} ms   target <= {MOST_MPPI_MS:g} ms   "
        f"{'PASS' if milliseconds <= MOST_MPPI_MS else 'MISS'}"
    )


def control(model: Model) -> None:
    """Closed loop in do-mpc, against M written in CasADi."""
    if find_spec("do_mpc") is None or find_spec("casadi") is None:
        print("MPC                    SKIPPED: do-mpc is not installed")
        return
    sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
    import casadi
    import mpc_casadi

    def unicycle(state, control):
        way, heading = 0.1 * control[0], state[2]
        return state + casadi.vertcat(way * casadi.cos(heading), way * casadi.sin(heading), 0.1 * control[1])

    with tempfile.TemporaryDirectory() as folder:
        step = casadi.external("car", str(export(model, to="casadi", out=folder, name="car")[-1]))
        ways = {"tethered": (step, mpc_casadi.ROUGHLY), "M": (unicycle, {})}
        found = {}
        for name, (own, solver) in ways.items():
            (x, y), seconds = mpc_casadi.closed_loop(mpc_casadi.controller(own, **solver))
            found[name] = np.abs(y - 3 * np.sin(x / 8)).max(), seconds
    ratio = found["tethered"][1] / found["M"][1]
    print(
        f"MPC, do-mpc and IPOPT  tethered {1e3 * found['tethered'][1]:.1f} ms a step, at most {found['tethered'][0]:.2f} m "
        f"off the path   M {1e3 * found['M'][1]:.1f} ms, {found['M'][0]:.2f} m   ratio {ratio:.2f}   target <= {MOST_MPC:g}   "
        f"{'PASS' if ratio <= MOST_MPC else 'MISS'}"
    )


def main() -> None:
    if shutil.which("cc") is None:
        print("SKIPPED: no C compiler")
        return
    torch.set_num_threads(1)
    # Tiny, one car: flying, and compiling the usual six networks, take longer than all the rest.
    more = size({"car, 256 x 256": (256, 256), "car, six networks": None}, {})
    layers, asked = {"car, 64 x 64": (64, 64)} | more, sys.argv[1:]
    cars = {name: car(hidden) for name, hidden in layers.items() if not asked or name in asked}
    models = {
        name: (own, parked_car.TRUSTED, MOST_MICROSECONDS if name == "car, 64 x 64" else None)
        for name, own in cars.items()
    }
    if size(find_spec("pybullet") is not None, False) and (not asked or "drone, 64 x 64" in asked):
        from tether_studies.drones.trusted import TRUSTED

        models["drone, 64 x 64"] = drone(), TRUSTED, None
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, (model, trusted, most)) in enumerate(models.items()):
            for dtype in ("float64", "float32"):
                library = compare(name, model, trusted, dtype, Path(folder) / f"{number}{dtype}")
                latency(name, library, model, dtype, most)
                if name == "car, 64 x 64":
                    mppi(library, dtype)
    if not asked:
        control(cars["car, 64 x 64"])


if __name__ == "__main__":
    main()
