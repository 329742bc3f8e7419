"""Logs of real machines, where they are: read in place, never part of the repository."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from tether import read_log

LOGS = Path(os.environ.get("TETHER_REAL_LOGS") or Path(__file__).parents[2] / "shared" / "reference" / "real")
CAR = {
    "states": ["x", "y", "heading", "speed"],
    "controls": ["steering_command", "speed_command"],
    "angles": ["heading"],
}
PENDULUM = {"states": ["position", "velocity"], "controls": ["torque"], "angles": ["position"]}


def log(name: str) -> Path:
    if not (LOGS / name).is_file():
        pytest.skip(f"{name} is not there: set TETHER_REAL_LOGS to the folder that holds it")
    return LOGS / name


def test_a_race_car_at_40_hertz() -> None:
    made = read_log(log("f1tenth.csv"), episode="run", time="time", **CAR)
    assert made.report is not None
    assert made.report.step == pytest.approx(0.025)
    assert (len(made), made.report.episodes, made.report.gaps) == (4879, 41, 0)


def test_a_race_car_whose_drives_are_not_told_apart() -> None:
    with pytest.raises(ValueError, match=r"must not go backwards.*row 120.*--episode"):
        read_log(log("f1tenth.csv"), time="time", **CAR)


def test_a_pendulum_whose_steps_differ() -> None:
    with pytest.raises(ValueError, match=r"`time` must advance by one step in all episodes.*--step 0\.02"):
        read_log(log("pendulum.csv"), episode="run", time="time", **PENDULUM)
    made = read_log(log("pendulum.csv"), episode="run", time="time", step=0.02, block="2s", **PENDULUM)
    assert made.report is not None
    assert made.report.step == 0.02
    assert made.report.episodes > 40
    # What was measured is there: a position advances by about the step times the mean velocity.
    moved = made.next_states[:, 0] - made.states[:, 0]
    speed = 0.5 * (made.next_states[:, 1] + made.states[:, 1])
    assert np.median(np.abs(moved - 0.02 * speed)) < 0.01
    assert np.corrcoef(moved, 0.02 * speed)[0, 1] > 0.98
