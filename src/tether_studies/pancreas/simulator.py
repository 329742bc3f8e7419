"""The UVA/Padova simulator (2008): meals and insulin in, glucose out, by the minute.

The equations are those of Dalla Man, Rizza and Cobelli (IEEE TBME 2007) with the subcutaneous compartments
of the 2008 simulator, as simglucose 0.2.11 writes them; ``make crosscheck-pancreas`` compares the two.
Inputs are constant over a minute, which the classical Runge-Kutta method crosses in one step or a few.

Shapes: ``E`` episodes, ``T`` samples, ``SAMPLE_MINUTES`` minutes each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tether.data import Array
from tether.foundation.kernels import compiled, in_threads
from tether_studies.pancreas.patients import STATES, Patient

SAMPLE_MINUTES = 5
GRAMS_PER_MINUTE = 5.0
"""How fast an announced meal is eaten."""
LOWEST, HIGHEST = 39.0, 600.0
"""What a sensor can show, mg/dl; it shows whole numbers."""
_STEPS, _STEPS_EATING = 1, 8
"""Runge-Kutta steps per minute; a stomach that has just begun to fill changes its pace within seconds."""
_STEADY_SAMPLES = 3
"""Samples of sensor noise between two draws of its model, which are 15 minutes apart."""

_BASAL_BOLUS, _THRESHOLD = 0.0, 1.0


class _Policy(NamedTuple):
    """A controller as the kernel sees it, one float per field."""

    kind: float
    basal: float
    grams_per_unit: float
    glucose_per_unit: float
    target: float
    low: float
    high: float
    low_multiple: float
    high_multiple: float


@dataclass(frozen=True)
class BasalBolus:
    """Basal insulin, and a bolus with each meal: what a patient with a pump does by hand.

    The bolus covers the carbohydrates announced and corrects glucose above 150 mg/dl towards `target`.

    Attributes:
        dose: what the patient gives, as a fraction of what the formula says.
        target: mg/dl.
    """

    dose: float = 1.0
    target: float = 140.0

    def policy(self, patient: Patient) -> _Policy:
        """As the kernel sees it."""
        ratio, correction = patient.grams_per_unit / self.dose, patient.glucose_per_unit / self.dose
        return _Policy(_BASAL_BOLUS, patient.basal, ratio, correction, self.target, 0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Threshold:
    """A pump with three rates, switched where the sensor crosses two limits; meals are not announced to it.

    Attributes:
        low: glucose below which the rate is `low_multiple` of the basal one, mg/dl.
        high: glucose above which it is `high_multiple`, mg/dl.
        low_multiple: 0 suspends insulin.
        high_multiple: at least `low_multiple`.
    """

    low: float = 110.0
    high: float = 160.0
    low_multiple: float = 0.0
    high_multiple: float = 3.0

    def policy(self, patient: Patient) -> _Policy:
        """As the kernel sees it."""
        rates = (self.low_multiple, self.high_multiple)
        return _Policy(_THRESHOLD, patient.basal, 0.0, 0.0, 0.0, self.low, self.high, *rates)


Controller = BasalBolus | Threshold


@dataclass(frozen=True, eq=False)
class Traces:
    """What a sensor, a pump and a diary would hold, one row per episode.

    Attributes:
        glucose: (E, T) at each sample, mg/dl, without sensor noise.
        sensor: (E, T) the same as the sensor shows it: with noise if any, in whole mg/dl.
        insulin: (E, T) given in the minutes *up to* each sample, U.
        meal: (E, T) eaten in the minutes up to each sample, g.
    """

    glucose: Array
    sensor: Array
    insulin: Array
    meal: Array


@dataclass(frozen=True)
class Sensor:
    """Sensor errors: autoregressive noise every 15 minutes, Johnson-transformed, and a cubic between.

    The model and the numbers are those published for the 2008 simulator (Breton and Kovatchev, "Analysis,
    modeling, and simulation of the accuracy of continuous glucose sensors", J Diabetes Sci Technol 2008).
    """

    correlation: float = 0.7
    shape_gamma: float = -0.5444
    shape_delta: float = 1.6898
    spread: float = 15.9574
    location: float = -5.47

    def noise(self, episodes: int, samples: int, *, rng: np.random.Generator) -> Array:
        """(E, T) errors, mg/dl."""
        knots = (samples - 1) // _STEADY_SAMPLES + 4
        draws = rng.standard_normal((knots, episodes))
        walk = [draws[0]]
        for draw in draws[1:]:
            walk.append(self.correlation * (walk[-1] + draw))
        standard = (np.array(walk) - self.shape_gamma) / self.shape_delta
        return _cubic_between(self.location + self.spread * np.sinh(standard), samples).T


def _cubic_between(knots: Array, samples: int) -> Array:
    """(T, E) values of a smooth curve (Catmull-Rom) through knots (K, E), `_STEADY_SAMPLES` apart."""
    place, part = np.divmod(np.arange(samples), _STEADY_SAMPLES)
    t = (part / _STEADY_SAMPLES)[:, None]
    before, here, after, beyond = (knots[place + k] for k in range(4))
    slope_here, slope_after = (after - before) / 2, (beyond - here) / 2
    rise = after - here
    return here + t * (
        slope_here + t * (3 * rise - 2 * slope_here - slope_after + t * (slope_here + slope_after - 2 * rise))
    )


def simulate_minutes(patient: Patient, *, meals: ArrayLike, insulin: ArrayLike, start: Array) -> Array:
    """(E, minutes + 1) glucose by the minute under insulin given by the clock.

    Args:
        patient: whose physiology.
        meals: (E, minutes) carbohydrates announced in each minute, g; eaten at `GRAMS_PER_MINUTE`.
        insulin: (E, minutes) U/min.
        start: (E, 13) state at the beginning.
    """
    meals, insulin = np.asarray(meals, dtype=np.float64), np.asarray(insulin, dtype=np.float64)
    glucose = np.empty((len(meals), meals.shape[1] + 1))
    in_threads(
        lambda rows: _run_minutes(
            patient.physiology, start[rows].copy(), meals[rows], insulin[rows], glucose[rows]
        ),
        len(meals),
    )
    return glucose


def simulate(
    patient: Patient,
    *,
    meals: ArrayLike,
    controllers: list[Controller],
    initial_glucose: Array,
    noise: Array | None = None,
) -> Traces:
    """Episodes of a patient under controllers that read the sensor at every sample.

    Args:
        patient: whose physiology.
        meals: (E, minutes) carbohydrates announced in each minute, g; minutes a multiple of `SAMPLE_MINUTES`.
        controllers: one per episode.
        initial_glucose: (E,) mg/dl.
        noise: (E, T) sensor errors, T = minutes / SAMPLE_MINUTES + 1; by default none. See :class:`Sensor`.
    """
    meals = np.asarray(meals, dtype=np.float64)
    episodes, minutes = meals.shape
    if minutes % SAMPLE_MINUTES:
        raise ValueError(f"`meals` must last a multiple of {SAMPLE_MINUTES} minutes; got {minutes}.")
    samples = minutes // SAMPLE_MINUTES + 1
    noise = np.zeros((episodes, samples)) if noise is None else noise
    initial_glucose = np.asarray(initial_glucose, dtype=np.float64)
    for name, found, shape in (
        ("controllers", (len(controllers),), (episodes,)),
        ("initial_glucose", initial_glucose.shape, (episodes,)),
        ("noise", noise.shape, (episodes, samples)),
    ):
        if found != shape:
            raise ValueError(f"`{name}` must have shape {shape}; got {found}.")
    start = patient.starting_at(initial_glucose)
    policies = np.array([controller.policy(patient) for controller in controllers], dtype=np.float64)
    outcome = [np.empty((episodes, samples)) for _ in range(4)]

    def run(rows: slice) -> None:
        parts = (part[rows] for part in (policies, meals, noise, *outcome))
        _run_samples(patient.physiology, start[rows].copy(), *parts)

    in_threads(run, episodes)
    return Traces(*outcome)


@compiled
def _derivative(state, eaten, insulin, emptied, p, rates):
    """Rates of change: `eaten` mg/min, `insulin` pmol/kg/min, `emptied` mg that set the stomach's pace."""
    stomach = state[0] + state[1]
    pace = p.kmax
    if emptied > 0.0:
        early = 2.5 / (emptied * (1.0 - p.b))
        late = 2.5 / (emptied * p.d)
        bend = np.tanh(early * (stomach - p.b * emptied)) - np.tanh(late * (stomach - p.d * emptied))
        pace = p.kmin + 0.5 * (p.kmax - p.kmin) * (bend + 2.0)
    rates[0] = -p.kmax * state[0] + eaten
    rates[1] = p.kmax * state[0] - state[1] * pace
    rates[2] = pace * state[1] - p.kabs * state[2]
    appearing = p.f * p.kabs * state[2] / p.BW
    produced = max(p.kp1 - p.kp2 * state[3] - p.kp3 * state[8], 0.0)
    excreted = max(p.ke1 * (state[3] - p.ke2), 0.0)
    used = (p.Vm0 + p.Vmx * state[6]) * state[4] / (p.Km0 + state[4])
    plasma = state[5] / p.Vi
    rates[3] = produced + appearing - p.Fsnc - excreted - p.k1 * state[3] + p.k2 * state[4]
    rates[4] = -used + p.k1 * state[3] - p.k2 * state[4]
    rates[5] = -(p.m2 + p.m4) * state[5] + p.m1 * state[9] + p.ka1 * state[10] + p.ka2 * state[11]
    rates[6] = p.p2u * (plasma - p.Ib - state[6])
    rates[7] = p.ki * (plasma - state[7])
    rates[8] = p.ki * (state[7] - state[8])
    rates[9] = -(p.m1 + p.m30) * state[9] + p.m2 * state[5]
    rates[10] = insulin - (p.ka1 + p.kd) * state[10]
    rates[11] = p.kd * state[10] - p.ka2 * state[11]
    rates[12] = p.ksc * (state[3] - state[12])
    # A compartment below zero is held where it is, as in the simulator this follows.
    for k in (3, 4, 5, 9, 10, 11, 12):
        if state[k] < 0.0:
            rates[k] = 0.0


@compiled
def _minute(state, eaten, insulin, emptied, p, work):
    """Advances `state` by one minute: steps of the classical Runge-Kutta method."""
    size = state.shape[0]
    steps = _STEPS_EATING if eaten > 0.0 else _STEPS
    length = 1.0 / steps
    for _ in range(steps):
        for stage in range(4):
            reach = 0.0 if stage == 0 else (length if stage == 3 else 0.5 * length)
            for k in range(size):
                work[4, k] = state[k] + (reach * work[stage - 1, k] if stage > 0 else 0.0)
            _derivative(work[4], eaten, insulin, emptied, p, work[stage])
        for k in range(size):
            state[k] += length / 6.0 * (work[0, k] + 2.0 * (work[1, k] + work[2, k]) + work[3, k])


@compiled
def _live(state, table, meal, insulin, p, work):
    """One minute of a patient; grams eaten in it.

    `table` remembers between minutes: grams still planned, grams eaten in the minute before, mg that were
    in the stomach when the present meal began, grams of it eaten since.
    """
    table[0] += meal
    grams = min(GRAMS_PER_MINUTE, table[0])
    table[0] = max(table[0] - grams, 0.0)
    if grams > 0.0 and table[1] <= 0.0:
        table[2], table[3] = state[0] + state[1], 0.0
    table[3] += grams
    table[1] = grams
    emptied = table[2] + 1000.0 * table[3]
    _minute(state, 1000.0 * grams, insulin * 6000.0 / p.BW, emptied, p, work)
    return grams


@compiled
def _run_minutes(p, states, meals, insulin, glucose):
    work, table = np.empty((5, STATES)), np.empty(4)
    for episode in range(states.shape[0]):
        state = states[episode]
        table[0], table[1], table[2], table[3] = 0.0, 0.0, state[0] + state[1], 0.0
        glucose[episode, 0] = state[12] / p.Vg
        for minute in range(meals.shape[1]):
            _live(state, table, meals[episode, minute], insulin[episode, minute], p, work)
            glucose[episode, minute + 1] = state[12] / p.Vg


@compiled
def _rate(policy, sensor, announced):
    """Insulin over the next sample, U/min; a bolus is spread over it."""
    basal = policy[1]
    if policy[0] == _THRESHOLD:
        if sensor < policy[5]:
            return basal * policy[7]
        return basal * policy[8] if sensor > policy[6] else basal
    bolus = 0.0
    if announced > 0.0:
        bolus = announced / policy[2]
        if sensor > 150.0:
            bolus += (sensor - policy[4]) / policy[3]
    return basal + bolus / SAMPLE_MINUTES


@compiled
def _run_samples(p, states, policies, meals, noise, glucose, sensor, insulin, meal):  # noqa: PLR0913
    work, table = np.empty((5, STATES)), np.empty(4)
    for episode in range(states.shape[0]):
        state = states[episode]
        table[0], table[1], table[2], table[3] = 0.0, 0.0, state[0] + state[1], 0.0
        insulin[episode, 0] = policies[episode, 1] * SAMPLE_MINUTES
        meal[episode, 0] = 0.0
        for sample in range(glucose.shape[1]):
            glucose[episode, sample] = state[12] / p.Vg
            shown = glucose[episode, sample] + noise[episode, sample]
            sensor[episode, sample] = min(max(np.floor(shown + 0.5), LOWEST), HIGHEST)
            if sample + 1 == glucose.shape[1]:
                break
            first = sample * SAMPLE_MINUTES
            announced = 0.0
            for minute in range(first, first + SAMPLE_MINUTES):
                announced += meals[episode, minute]
            rate = _rate(policies[episode], sensor[episode, sample], announced)
            eaten = 0.0
            for minute in range(first, first + SAMPLE_MINUTES):
                eaten += _live(state, table, meals[episode, minute], rate, p, work)
            insulin[episode, sample + 1] = rate * SAMPLE_MINUTES
            meal[episode, sample + 1] = eaten
