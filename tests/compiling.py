"""Compiles every kernel into Numba's cache, for processes that follow.

Two that write the cache at once may leave the index of one with the code of the other; and each would compile for a
minute what the other does. ``python tests/compiling.py programs`` takes about as long as ``... geometry``.
"""

from __future__ import annotations

import sys

import numpy as np


def swinging(states, controls):
    """x' = x + 0.1 v, v' = v - 0.1 sin(x) + 0.1 u."""
    push = controls[:, 0] - np.sin(states[:, 0])
    return states + 0.1 * np.stack([states[:, 1], push], axis=1)


def solving(states, controls):
    """A mass matrix, solved."""
    one = np.ones(len(states))
    mass = np.stack(
        [np.stack([3 * one, states[:, 0]], axis=1), np.stack([states[:, 0], 2 * one], axis=1)], axis=1
    )
    return np.linalg.solve(mass, states[:, :, None])[:, :, 0] + controls


def programs() -> None:
    """The interpreter of M as a program, without linear systems and with them; steps of M's own sets."""
    from tether.claims.tubes import Reaching
    from tether.data import make_schema
    from tether.programs import enclose

    enclose(swinging, -np.ones((1, 3)), np.ones((1, 3)), states=2)
    enclose(solving, -np.ones((1, 3)), np.ones((1, 3)), states=2)
    Reaching(swinging, make_schema(["x", "v"], ["u"]))([0.0, 0.0], [[0.0]])


def geometry() -> None:
    """Memories, cells and trees; and the patient of a study."""
    import tether
    from tether_studies.pancreas.patients import load_patient
    from tether_studies.pancreas.simulator import BasalBolus, simulate, simulate_minutes

    person, hour = load_patient("adult#001"), np.zeros((1, 60))
    simulate_minutes(person, meals=hour, insulin=hour, start=person.steady_state[None])
    simulate(person, meals=hour, controllers=[BasalBolus()], initial_glucose=np.array([150.0]))
    rows = np.random.default_rng(0).normal(size=(60, 3))
    after = swinging(rows[:, :2], rows[:, 2:])
    data = tether.Transitions.from_arrays(
        rows[:, :2],
        rows[:, 2:],
        after,
        episodes=np.arange(60) // 10,
        schema=tether.make_schema(["x", "v"], ["u"]),
    )
    for bounds in ("interval", "affine"):
        training = tether.TrainingConfig(steps=10)
        model = tether.fit(
            data,
            trusted=swinging,
            bounds=bounds,
            evidence="sampled",
            memories=5,
            hidden=(4,),
            training=training,
        )
        tether.attack(model, swinging, evaluations=2000)


if __name__ == "__main__":
    {"programs": programs, "geometry": geometry}[sys.argv[1]]()
