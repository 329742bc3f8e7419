"""The flights that the paper's authors learn from: their rows, their split, their trusted model.

D is one flight of six circling drones, Ω another of six that climb and hover, both at 240 Hz for 12 s, one
row per physics step. The first 15,000 rows of each train, the others (1,992) test: two drones, of which
those of Ω have settled. Their code chooses its weights on the test rows; here that is done on the 47 steps
that it leaves over.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from tether.data import Array
from tether.foundation.arrays import read_arrays
from tether.trusted import TrustedModel
from tether_studies.drones.data import SCHEMA
from tether_studies.splitting import Rows, arranged_probes, arranged_transitions
from tether_studies.study import Scale, StudyData

FILES = {"D": "circling.npz", "Ω": "hovering.npz"}
TRAINING = 15_000
_HALF, _USED, _STEPS = 1416, 2832, 2880
_RPM = 1e4
_SMOKE = 12
"""At smoke scale one row in so many."""
_HERTZ, _GRAVITY = 240.0, 9.81
_MASS, _ARM = 0.027, 0.0397 / np.sqrt(2.0)
_THRUST, _TORQUE = 3.16e-10 * _RPM**2, 7.94e-12 * _RPM**2
_INERTIA = (1.4e-5, 1.4e-5, 2.17e-5)

AUTHORS_SCHEMA = replace(
    SCHEMA,
    units={name: "10,000 rpm" if unit == "rpm" else unit for name, unit in SCHEMA.units.items()},
    angles=(),
)
"""As :data:`SCHEMA`, motors in ten thousands of turns; yaw wraps neither in their code nor in these rows."""


def check_flights(folder: Path) -> None:
    """Raises ValueError where the folder, or one of its files, is missing."""
    if not folder.is_dir():
        raise ValueError(f"`flights` must be a folder; there is none at '{folder}'. Check the path.")
    for name in FILES.values():
        if not (folder / name).is_file():
            raise ValueError(f"`flights` must hold {name}; there is none in '{folder}'.")


def read_flights(folder: Path, scale: Scale, *, seed: int) -> StudyData:
    """D and Ω, arranged so that the split by `seed` gives the authors' parts.

    Args:
        folder: holds ``circling.npz`` and ``hovering.npz``.
        scale: `smoke` keeps a few of the rows.
        seed: of the split.
    """
    every = 1 if scale == "paper" else _SMOKE
    data, probes = (_parts(folder / FILES[name], every) for name in ("D", "Ω"))
    train, validation, test = (np.concatenate(part[:2], axis=1) for part in probes)
    shares = held_out(scale)
    return StudyData(
        arranged_transitions(data, AUTHORS_SCHEMA, seed=seed),
        arranged_probes((train, validation, test), AUTHORS_SCHEMA, shares=shares, seed=seed),
    )


def held_out(scale: Scale) -> tuple[float, float]:
    """Shares of the rows that are for validation and for the test."""
    every = 1 if scale == "paper" else _SMOKE
    rows = [TRAINING, 6 * (_STEPS - 1 - _USED), 6 * _USED - TRAINING]
    train, validation, test = (-(-count // every) for count in rows)
    return validation / (train + validation + test), test / (train + validation + test)


def _parts(path: Path, every: int) -> tuple[Rows, Rows, Rows]:
    """Rows to train, to validate and to test."""
    arrays = read_arrays(path)
    halves = [_rows(arrays, begin, end) for begin, end in ((0, _HALF), (_HALF, _USED))]
    states, commands, following = (np.concatenate(part) for part in zip(*halves, strict=True))
    if arrays["states"].shape != (6, _STEPS, len(SCHEMA.states)):
        raise ValueError(
            f"`{path.name}` must hold {_STEPS} steps of six drones; got {arrays['states'].shape}."
        )
    left = _rows(arrays, _USED, _STEPS - 1)
    train, test = slice(0, TRAINING, every), slice(TRAINING, None, every)
    everything = (states, commands, following)
    thinned = tuple(part[::every] for part in left)
    return (
        tuple(part[train] for part in everything),
        thinned,
        tuple(part[test] for part in everything),
    )  # type: ignore[return-value]


def _rows(arrays: dict[str, Array], begin: int, end: int) -> Rows:
    """Steps of all drones, one drone after the other."""
    states, commands = arrays["states"].copy(), arrays["commands"] / _RPM
    states[..., 16:] /= _RPM
    following = states[..., list(SCHEMA.advances)]
    cut = (states[:, begin:end], commands[:, begin:end], following[:, begin + 1 : end + 1])
    return tuple(part.reshape(-1, part.shape[2]) for part in cut)  # type: ignore[return-value]


def explicit_quadrotor(states: Array, controls: Array) -> Array:
    """The authors' M (N, 12): one explicit step of a rigid quadrotor at 240 Hz, velocity before position."""
    position, velocity = states[:, 0:3], states[:, 10:13]
    x, y, z, w = states[:, 3:7].T
    squares = controls**2
    lift = _THRUST / _MASS * squares.sum(axis=1)
    thrust = [
        2 * (x * z + w * y) * lift,
        2 * (y * z - w * x) * lift,
        (1 - 2 * (x**2 + y**2)) * lift - _GRAVITY,
    ]
    torques = [
        _ARM * _THRUST * (squares[:, 0] + squares[:, 1] - squares[:, 2] - squares[:, 3]),
        _ARM * _THRUST * (squares[:, 1] + squares[:, 2] - squares[:, 0] - squares[:, 3]),
        _TORQUE * (squares[:, 1] + squares[:, 3] - squares[:, 0] - squares[:, 2]),
    ]
    p, q, r = states[:, 13:16].T
    turned = [
        (torques[0] - (_INERTIA[2] - _INERTIA[1]) * q * r) / _INERTIA[0],
        (torques[1] - (_INERTIA[0] - _INERTIA[2]) * r * p) / _INERTIA[1],
        (torques[2] - (_INERTIA[1] - _INERTIA[0]) * p * q) / _INERTIA[2],
    ]
    faster = velocity + np.stack(thrust, axis=1) / _HERTZ
    rates = states[:, 13:16] + np.stack(turned, axis=1) / _HERTZ
    angles = states[:, 7:10] + rates / _HERTZ
    return np.concatenate([position + faster / _HERTZ, angles, faster, rates], axis=1)


AUTHORS_TRUSTED = TrustedModel(explicit_quadrotor)
