"""Boxes for M: how many leaves and seconds a proved remainder takes over a whole box, for any weights.

First the systems of Certified Neural Approximations (arXiv 2505.15497), over the same boxes: leaves and seconds
until the proved remainder is a hundredth of the ε that paper proves for one network each (for the spacecraft: ε
itself). Then the time to grow, and to find a million inputs, against as many plain calls of M.

Targets: under 5 s for each of these systems; 3,000 leaves of a 5-input M in 1 s, 2,000 of a 24-input quadrotor
in 2 s.
"""

import time

import numpy as np

from bench_enclosure import quadrotor
from sizes import size
from tether.data import Schema
from tether.evidence import Proved, Question
from tether.tethers.growth import Aim, grow
from tether.trusted import TrustedModel
from tether_studies import parked_car

PI = np.pi


def columns(function):
    """M of states alone, given by column."""
    return lambda states, controls: np.stack(function(*states.T), axis=1)


def spacecraft(r, _, v_r, v_t, dm, thrust, a):
    radius, radial, tangential = 1000 * r, v_r / 1000, v_t / 1000
    push, mass = thrust, 750 + dm
    return (
        radial,
        tangential / radius,
        -3.986e5 / radius**2 + tangential**2 / radius + push * np.cos(a) / mass,
        -radial * tangential / radius + push * np.sin(a) / mass,
        -thrust / 40,
    )


SYSTEMS = {
    "WaterTank": (lambda x: (1.5 - np.sqrt(x),), [(0.1, 10)], 0.007),
    "JetEngine": (lambda x, y: (-y - 1.5 * x**2 - 0.5 * x**3 - 0.1, 3 * x - y), [(-1, 1)] * 2, 0.012),
    "SteamGovernor": (
        lambda x, y, z: (y, z**2 * np.sin(x) * np.cos(x) - np.sin(x) - 3 * y, 1 - np.cos(x)),
        [(-1, 1)] * 3,
        0.06,
    ),
    "Exponential": (lambda x, y: (-np.sin(np.exp(y**3 + 1)) - y**2, -x), [(-1, 1)] * 2, 0.04),
    "NonLipschitz1": (lambda x, y: (y, np.sqrt(x)), [(0, 1), (-1, 1)], 0.03),
    "NonLipschitz2": (lambda x, y: (x**2 + y, np.cbrt(x**2) - x), [(-1, 1)] * 2, 0.02),
    "VanDerPol": (lambda x, y: (y, (1 - x**2) * y - x), [(-3, 3)] * 2, 0.25),
    "Sine2D": (lambda x, y: (np.sin(y / 2), -np.sin(x)), [(-PI, PI)] * 2, 0.02),
    "NonlinearOscillator": (lambda x: (-x - 0.5 * x**3 + 0.3 * np.sin(x),), [(-3, 3)], 0.003),
    "LowThrustSpacecraft": (
        spacecraft,
        [(6.378, 10), (0, 2 * PI), (-5, 5), (-5, 5), (0, 10), (0, 0.75), (0, 2 * PI)],
        0.01,
    ),
}


def grown(function, box, tolerance, most, states=None):
    low, high = np.array(box, dtype=np.float64).T.copy()
    states = len(low) if states is None else states
    start = time.perf_counter()
    outputs = function(low[None, :states], low[None, states:]).shape[1]
    names = tuple(f"x{k}" for k in range(len(low)))
    schema = Schema(
        names[:states], names[states:], tuple(f"y{k}" for k in range(outputs)), advances=(-1,) * outputs
    )
    question = Question(TrustedModel(function), schema, "next_state", low, high)
    aim = Aim(np.full(outputs, tolerance), np.empty((0, len(low))), most)
    found = grow(Proved().expander(question), aim)
    return found, time.perf_counter() - start


def against_the_rival():
    grown(columns(SYSTEMS["JetEngine"][0]), SYSTEMS["JetEngine"][1], 1.0, 10)  # compile
    for name, (function, box, epsilon) in SYSTEMS.items():
        wanted = epsilon if name == "LowThrustSpacecraft" else epsilon / 100
        found, seconds = grown(columns(function), box, max(wanted, size(0, 0.1)), 100_000)
        worst = found.leaves.remainder.max()
        print(
            f"{name}: epsilon {epsilon:g}, proved {worst:.3g} = epsilon / {epsilon / worst:.0f} with "
            f"{found.tree.leaves} leaves in {seconds:.2f} s (limit 5 s)"
        )


def speed():
    rng = np.random.default_rng(0)
    car = [(-50, 50), (-50, 50), (-PI, PI), (0, 15), (-1, 1)]
    flight = [(-1, 1)] * 3 + [(-0.3, 0.3)] * 7 + [(-1, 1)] * 6 + [(12000, 16000)] * 8
    systems = {
        "car": (parked_car.TRUSTED.function, car, 3, size(3000, 50), 1.0),
        "quadrotor": (lambda s, u: quadrotor(s, u)[:, :12], flight, 20, size(2000, 50), 2.0),
    }
    for name, (function, box, states, leaves, limit) in systems.items():
        found, seconds = grown(function, box, 0.0 + 1e-12, leaves, states)
        inputs = rng.uniform(*np.array(box, dtype=np.float64).T, (size(1_000_000, 1000), len(box)))
        start = time.perf_counter()
        found.tree.find(inputs)
        search = time.perf_counter() - start
        start = time.perf_counter()
        function(inputs[:, :states], inputs[:, states:])
        plain = time.perf_counter() - start
        print(
            f"{name}: {found.tree.leaves} leaves grown in {seconds:.2f} s (limit {limit:g} s); {len(inputs)} "
            f"inputs found in {search:.2f} s, {search / plain:.2f} times as long as M takes for them"
        )


if __name__ == "__main__":
    against_the_rival()
    speed()
