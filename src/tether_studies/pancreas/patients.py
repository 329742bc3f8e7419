"""The 30 virtual patients of the UVA/Padova simulator (2008): ten adolescents, ten adults, ten children.

The table `virtual_patients.csv` holds the published parameters under their published symbols, as
distributed with simglucose 0.2.11 (MIT licence, Copyright 2017 Jinyu Xie; `virtual_patients.LICENSE`).
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np

from tether.data import Array

STATES = 13


class Physiology(NamedTuple):
    """The parameters that the equations use, under their published symbols.

    See Dalla Man, Rizza and Cobelli, "Meal simulation model of the glucose-insulin system" (IEEE TBME 2007).
    """

    BW: float
    kabs: float
    kmax: float
    kmin: float
    b: float
    d: float
    Vg: float
    Vi: float
    Vmx: float
    Km0: float
    k1: float
    k2: float
    p2u: float
    m1: float
    m2: float
    m4: float
    m30: float
    Ib: float
    ki: float
    kp1: float
    kp2: float
    kp3: float
    f: float
    ke1: float
    ke2: float
    Fsnc: float
    Vm0: float
    kd: float
    ksc: float
    ka1: float
    ka2: float


@dataclass(frozen=True, eq=False)
class Patient:
    """One virtual patient.

    Attributes:
        name: such as ``adult#001``.
        physiology: parameters of the equations.
        steady_state: (13,) the state in which basal insulin keeps the patient.
        basal: insulin that keeps it there, U/min.
        grams_per_unit: carbohydrates that one unit of insulin covers, g/U.
        glucose_per_unit: what one unit of insulin lowers glucose by, mg/dl/U.
    """

    name: str
    physiology: Physiology
    steady_state: Array
    basal: float
    grams_per_unit: float
    glucose_per_unit: float

    @property
    def steady_glucose(self) -> float:
        """Glucose at the steady state, mg/dl."""
        return float(self.steady_state[12] / self.physiology.Vg)

    def starting_at(self, glucose: Array) -> Array:
        """(E, 13) steady states whose glucose compartments are scaled to start at `glucose` (E,), mg/dl."""
        states = np.tile(self.steady_state, (len(glucose), 1))
        states[:, [3, 4, 12]] *= (glucose / self.steady_glucose)[:, None]
        return states


def patient_names() -> tuple[str, ...]:
    """Names of all virtual patients."""
    return tuple(_patients())


def load_patient(name: str) -> Patient:
    """The virtual patient of that name, such as ``adult#001``."""
    known = _patients()
    if name not in known:
        raise ValueError(
            f"`patient` must be one of adolescent#001 to #010, adult#001 to #010 or child#001 to #010; "
            f"got {name!r}."
        )
    return known[name]


@cache
def _patients() -> dict[str, Patient]:
    text = files("tether_studies.pancreas").joinpath("virtual_patients.csv").read_text()
    return {row["Name"]: _patient(row) for row in csv.DictReader(text.splitlines())}


def _patient(row: dict[str, str]) -> Patient:
    physiology = Physiology(*(float(row[symbol]) for symbol in Physiology._fields))
    return Patient(
        name=row["Name"],
        physiology=physiology,
        steady_state=np.array([float(row[f"x0_{k}"]) for k in range(1, STATES + 1)]),
        # pmol/kg/min to U/min.
        basal=float(row["u2ss"]) * physiology.BW / 6000,
        grams_per_unit=float(row["CR"]),
        glucose_per_unit=float(row["CF"]),
    )
