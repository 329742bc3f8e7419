"""Traces cut into transitions (D) and probes (Ω), as in the paper's study of the artificial pancreas.

An input is ten past values each of glucose, insulin and meal, and the insulin about to be given; the output
is glucose five steps ahead. Traces come from the simulator, or from files.

Shapes: ``E`` episodes, ``T`` samples, ``N`` rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tether.data import Array, Probes, Schema, Transitions, make_schema
from tether_studies.pancreas.patients import Patient, load_patient
from tether_studies.pancreas.simulator import (
    SAMPLE_MINUTES,
    BasalBolus,
    Controller,
    Sensor,
    Threshold,
    Traces,
    simulate,
)

Scale = Literal["smoke", "paper"]

HISTORY = 10
"""Past values of each signal in an input."""
AHEAD = 5
"""Steps between the last of them and the glucose predicted."""
HELD_OUT = 10 / 95
"""Share of episodes for validation, and again for test: 75, 10 and 10 of 95 at paper scale."""
ROWS_PER_EPISODE = 250
_EPISODES = {"smoke": 19, "paper": 95}
_TRACES = ("above150", "zeroCarbs")
"""Of D and Ω, in the names of the authors' files."""
_MEAL_WINDOWS = ((60, 120), (420, 540), (780, 900))
"""Minutes between which each meal is announced."""


@dataclass(frozen=True)
class Scenario:
    """What episodes are drawn from.

    Attributes:
        initial_glucose: mg/dl, from and to.
        carbohydrates: of each meal, g, from and to; less for patients below 70 kg, in proportion.
    """

    initial_glucose: tuple[float, float]
    carbohydrates: tuple[float, float]


OBSERVED = Scenario(initial_glucose=(150.0, 190.0), carbohydrates=(50.0, 150.0))
"""D."""
LOW_GLUCOSE = Scenario(initial_glucose=(120.0, 150.0), carbohydrates=(0.0, 0.0))
"""Ω: low glucose and no carbohydrates, as in the traces that the paper's authors published. As all agree that
there are no meals, a tether follows M exactly wherever there was no meal, in D as well."""


def glucose_schema(*, insulin: str = "U", meal: str = "g") -> Schema:
    """The 30 past values, the insulin about to be given, and glucose five steps ahead.

    ``glucose_9`` is nine steps ago, ``glucose`` is now; an output of that name advances it.

    Args:
        insulin: unit of insulin.
        meal: unit of meals.
    """
    ago = range(HISTORY - 1, 0, -1)
    glucose = [*(f"glucose_{k}" for k in ago), "glucose"]
    doses = [f"insulin_{k}" for k in (*ago, 0)]
    meals = [f"meal_{k}" for k in (*ago, 0)]
    units = dict.fromkeys(glucose, "mg/dl") | dict.fromkeys([*doses, "insulin_next"], insulin)
    return make_schema(
        [*glucose, *doses, *meals],
        ["insulin_next"],
        ["next_glucose"],
        units=units | dict.fromkeys(meals, meal),
    )


def insulin_columns(schema: Schema) -> NDArray[np.int64]:
    """Inputs that are insulin, oldest first; the last is the insulin about to be given."""
    return np.array([k for k, name in enumerate(schema.inputs) if name.startswith("insulin")])


def simulate_data(
    scale: Scale = "paper", *, seed: int = 0, patient: str = "adult#001", sensor_noise: bool = False
) -> Transitions:
    """D of a virtual patient.

    Args:
        scale: `paper` has 95 episodes of 250 rows, `smoke` a fifth of them.
        seed: of initial glucose, meals, controllers and noise.
        patient: name of the virtual patient.
        sensor_noise: whether the sensor errs. Without, as in the paper's traces, it only rounds to whole
            mg/dl; least squares on anything smoother gives weights of hundreds, which nobody would trust.
    """
    traces = simulate_scenario(OBSERVED, scale, seed=seed, patient=patient, sensor_noise=sensor_noise)
    return cut_transitions(traces, glucose_schema())


def low_glucose_probes(scale: Scale = "paper", *, seed: int = 0, patient: str = "adult#001") -> Probes:
    """Ω of a virtual patient; arguments as of :func:`simulate_data`."""
    traces = simulate_scenario(LOW_GLUCOSE, scale, seed=seed, patient=patient)
    return as_probes(cut_transitions(traces, glucose_schema()))


def simulate_scenario(
    scenario: Scenario,
    scale: Scale = "paper",
    *,
    seed: int = 0,
    patient: str = "adult#001",
    sensor_noise: bool = False,
) -> Traces:
    """Traces of 22 hours with three meals each; in every other episode the pump follows thresholds."""
    if scale not in _EPISODES:
        raise ValueError(f"`scale` must be 'smoke' or 'paper'; got {scale!r}.")
    person, episodes = load_patient(patient), _EPISODES[scale]
    # One stream per scenario, so that D is the same whether or not Ω was drawn before.
    rng = np.random.default_rng([seed, round(scenario.initial_glucose[0])])
    samples = ROWS_PER_EPISODE + HISTORY - 1 + AHEAD
    return simulate(
        person,
        meals=_draw_meals(scenario, episodes, (samples - 1) * SAMPLE_MINUTES, rng) * _appetite(person),
        controllers=[_draw_controller(k, person, rng) for k in range(episodes)],
        initial_glucose=rng.uniform(*scenario.initial_glucose, size=episodes),
        noise=Sensor().noise(episodes, samples, rng=rng) if sensor_noise else None,
    )


def _draw_meals(scenario: Scenario, episodes: int, minutes: int, rng: np.random.Generator) -> Array:
    """(E, minutes) carbohydrates announced."""
    meals = np.zeros((episodes, minutes))
    for window in _MEAL_WINDOWS:
        when = rng.integers(*window, size=episodes)
        meals[np.arange(episodes), when] += rng.uniform(*scenario.carbohydrates, size=episodes)
    return meals


def _appetite(patient: Patient) -> float:
    """Children eat in proportion to their weight; 150 g at once would put them far outside the model."""
    return min(1.0, patient.physiology.BW / 70)


def _draw_controller(episode: int, patient: Patient, rng: np.random.Generator) -> Controller:
    """Patients misjudge doses and set their pumps differently; without that, insulin would tell meals."""
    if episode % 2:
        return BasalBolus(dose=rng.uniform(0.4, 0.8))
    steady = patient.steady_glucose
    return Threshold(
        low=steady - rng.uniform(10, 30), high=steady + rng.uniform(10, 40), high_multiple=rng.uniform(1.5, 3)
    )


def cut_transitions(traces: Traces, schema: Schema) -> Transitions:
    """Transitions from every window of the traces, episode by episode.

    A row at sample t holds samples t - 9 to t of each signal and the insulin of sample t + 1, which is given
    in the minutes after t; its label is the glucose of sample t + 5. Glucose is what the sensor showed.

    Args:
        traces: the traces.
        schema: see :func:`glucose_schema`.
    """
    episodes, samples = traces.sensor.shape
    if samples < HISTORY + AHEAD:
        raise ValueError(f"traces must have at least {HISTORY + AHEAD} samples; got {samples}.")
    last = np.arange(HISTORY - 1, samples - AHEAD)
    window = last[:, None] - np.arange(HISTORY - 1, -1, -1)
    signals = (traces.sensor, traces.insulin, traces.meal)
    states = np.concatenate([signal[:, window] for signal in signals], axis=2)
    return Transitions.from_arrays(
        states.reshape(-1, 3 * HISTORY),
        traces.insulin[:, last + 1].reshape(-1, 1),
        traces.sensor[:, last + AHEAD].reshape(-1, 1),
        episodes=np.repeat(np.arange(episodes), len(last)),
        schema=schema,
    )


def as_probes(transitions: Transitions) -> Probes:
    """The same inputs without their labels."""
    return Probes(transitions.states, transitions.controls, transitions.schema)


def read_traces(glucose: Path, insulin: Path, meal: Path) -> Traces:
    """Traces from three CSV files without header: one row per trace, one column per sample.

    Args:
        glucose: file of glucose, mg/dl.
        insulin: file of insulin in the same samples, any unit.
        meal: file of meals in the same samples, any unit.
    """
    matrices = [_read_matrix(path) for path in (glucose, insulin, meal)]
    for path, matrix in zip((insulin, meal), matrices[1:], strict=True):
        if matrix.shape != matrices[0].shape:
            raise ValueError(
                f"`{path.name}` must have the shape of `{glucose.name}`, {matrices[0].shape}; "
                f"got {matrix.shape}."
            )
    return Traces(matrices[0], *matrices)


def _read_matrix(path: Path) -> Array:
    try:
        matrix = np.loadtxt(path, delimiter=",", ndmin=2)
    except ValueError as error:
        raise ValueError(f"`{path.name}` must be a table of numbers, one row per trace; {error}.") from None
    if not np.isfinite(matrix).all():
        raise ValueError(f"`{path.name}` must hold finite numbers; got NaN or infinity. Repair those traces.")
    return matrix


def check_paper_traces(folder: Path) -> None:
    """Raises ValueError where the folder, or a file that :func:`read_paper_traces` reads, is missing."""
    if not folder.is_dir():
        raise ValueError(f"`traces` must be a folder; there is none at '{folder}'. Check the path.")
    for name in _TRACES:
        for path in _trace_paths(folder, name):
            if not path.is_file():
                raise ValueError(f"`traces` must hold {path.name}; there is none in '{folder}'.")


def _trace_paths(folder: Path, name: str) -> list[Path]:
    return [folder / f"{signal}_data_{name}.csv" for signal in ("Glucose", "Insulin", "meal")]


def read_paper_traces(folder: Path) -> tuple[Transitions, Probes]:
    """D and Ω from the traces that the paper's authors published.

    D are the traces that start above 150 mg/dl, Ω those that start below it and have no carbohydrates. The
    insulin columns hold the *mode* of the controller (1, 2, 3), not a dose. A column is a step, as in the
    authors' code, although it lasts a minute and every fifth one repeats the one before.

    Args:
        folder: holds ``Glucose_data_above150.csv`` and its companions.
    """
    schema = glucose_schema(insulin="mode", meal="")
    parts = []
    for name in _TRACES:
        parts.append(cut_transitions(read_traces(*_trace_paths(folder, name)), schema))
    return parts[0], as_probes(parts[1])
