"""Simulated minutes per second, against one step of a plain Python implementation of the same equations.

simglucose is that implementation (scipy's dopri5 around Python equations). It is not a dependency, so what it
does per minute is imitated here: the same equations in NumPy scalars, integrated by scipy's dopri5.
`make crosscheck-pancreas` runs the real one, where it can be installed.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from scipy.integrate import ode

from sizes import TINY, size
from tether_studies.pancreas.patients import load_patient
from tether_studies.pancreas.simulator import _derivative, simulate_minutes

TARGET = 500_000
EPISODES, MINUTES = size(500, 2), 24 * 60


def python_minutes_per_second(minutes: int = size(600, 20)) -> float:
    patient = load_patient("adult#001")
    rates = np.empty(13)

    def equations(_time: float, state: np.ndarray) -> np.ndarray:
        _derivative.py_func(
            state, 0.0, patient.basal * 6000 / patient.physiology.BW, 1.0, patient.physiology, rates
        )
        return rates

    solver = ode(equations).set_integrator("dopri5").set_initial_value(patient.steady_state, 0)
    start = time.perf_counter()
    for minute in range(minutes):
        solver.integrate(minute + 1)
    return minutes / (time.perf_counter() - start)


def our_minutes_per_second() -> float:
    patient = load_patient("adult#001")
    meals = np.zeros((EPISODES, MINUTES))
    meals[:, [420, 720, 1140]] = 60.0
    insulin, start = (
        patient.basal + meals / patient.grams_per_unit,
        np.tile(patient.steady_state, (EPISODES, 1)),
    )
    best = np.inf
    for _ in range(size(5, 1)):
        began = time.perf_counter()
        simulate_minutes(patient, meals=meals, insulin=insulin, start=start)
        best = min(best, time.perf_counter() - began)
    return EPISODES * MINUTES / best


def main() -> None:
    ours, theirs = our_minutes_per_second(), python_minutes_per_second()
    verdict = "PASS" if ours >= TARGET else "MISS"
    print(
        f"simulated minutes per second: ours {ours:,.0f}   scipy dopri5 on Python equations {theirs:,.0f}   "
        f"ratio {ours / theirs:,.0f}   target >= {TARGET:,}   {verdict}"
    )
    sys.exit(verdict == "MISS" and not TINY)


if __name__ == "__main__":
    main()
