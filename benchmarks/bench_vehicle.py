"""Transitions of 0.1 s per second, and the right-hand side against the package's own Python function."""

import time

import numpy as np

from sizes import size
from tether_studies.vehicle.driving import drive_episodes
from tether_studies.vehicle.package import load_car, load_dynamics, package_module
from tether_studies.vehicle.simulator import guarded_rates, load_simulator

TRANSITIONS = size(3000, 10)


def seconds(run, repeat: int = size(3, 1)) -> float:
    """Shortest of a few runs, after one that compiles."""
    run()
    best = np.inf
    for _ in range(repeat):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best


def transitions_per_second(fidelity: str) -> float:
    simulator, rng = load_simulator(fidelity), np.random.default_rng(0)
    states = simulator.start(np.zeros((TRANSITIONS, 3)), rng.uniform(0.0, 17.0, TRANSITIONS))
    commands = np.column_stack([rng.uniform(-3, 2, TRANSITIONS), rng.uniform(-0.05, 0.05, TRANSITIONS)])
    return TRANSITIONS / seconds(lambda: simulator.advance(states, commands))


def rates_ratio(fidelity: str) -> tuple[float, float]:
    """Seconds per right-hand side: the package's Python function, and ours from compiled code."""
    import numba

    parameters = package_module("parameters_vehicle2").parameters_vehicle2()
    dynamics, car, rates = load_dynamics(), load_car(), guarded_rates(fidelity)
    state = load_simulator(fidelity).start(np.zeros((1, 3)), np.array([12.0]))[0]
    shipped = dynamics.multibody_as_shipped if fidelity == "multibody" else dynamics.drift_as_shipped
    listed, control = state.tolist(), np.array([0.1, 1.0])

    @numba.njit
    def many(state, control, car, out, count):
        for _ in range(count):
            rates(state, control, car, out)

    count, calls, out = size(20_000, 20), size(500, 2), np.empty(len(state))
    ours = seconds(lambda: many(state, control, car, out, count)) / count
    theirs = seconds(lambda: [shipped(listed, [0.1, 1.0], parameters) for _ in range(calls)]) / calls
    return theirs, ours


def main() -> None:
    for fidelity in size(("multibody", "drift"), ("drift",)):
        theirs, ours = rates_ratio(fidelity)
        print(
            f"{fidelity}: {transitions_per_second(fidelity):,.0f} transitions of 0.1 s per second; one right-hand "
            f"side {1e6 * ours:.2f} µs, the package's Python function {1e6 * theirs:.1f} µs: {theirs / ours:.0f} times"
        )
    start = time.perf_counter()
    recording = drive_episodes(episodes=size(30, 2), steps=size(100, 10))
    elapsed, rows = time.perf_counter() - start, recording.commands.shape[0] * recording.commands.shape[1]
    print(
        f"driving through town: {rows:,} rows recorded in {elapsed:.1f} s, 17,000 in {17_000 / rows * elapsed:.0f} s"
    )


if __name__ == "__main__":
    main()
