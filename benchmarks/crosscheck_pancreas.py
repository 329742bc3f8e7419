"""The simulator against simglucose 0.2.11: 24 hours, three meals, all 30 patients.

simglucose pins packages that nothing else can live with, so it gets a virtual environment of its own. Where
the package index does not have it, this says so and succeeds. With --table it also writes hourly glucose of
simglucose, which the tests compare with.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

import numpy as np

from sizes import TINY, size
from tether_studies.pancreas.patients import load_patient, patient_names
from tether_studies.pancreas.simulator import simulate_minutes

PACKAGE = "simglucose==0.2.11"
ENVIRONMENT = Path(__file__).parent.parent / ".venv-simglucose"
MINUTES = 24 * 60
NAMES = size(patient_names(), patient_names()[:1])
MEALS = {7 * 60: 50.0, 12 * 60: 80.0, 19 * 60: 60.0}
LARGEST = 0.1
"""mg/dl."""
MISSING = ("No matching distribution found", "Could not find a version")


def install() -> str | None:
    """Why simglucose cannot be had, or None once it is installed."""
    python = ENVIRONMENT / "bin" / "python"
    if (
        python.exists()
        and subprocess.run([python, "-c", "import simglucose"], capture_output=True).returncode == 0
    ):
        return None
    venv.create(ENVIRONMENT, with_pip=True, clear=True)
    for what in (["setuptools<81", "wheel"], ["--no-build-isolation", PACKAGE]):
        command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *what]
        outcome = subprocess.run(command, capture_output=True, text=True)
        if outcome.returncode == 0:
            continue
        lines = [line for line in outcome.stderr.splitlines() if line.strip()] or ["pip said nothing"]
        return next((line for line in lines if any(text in line for text in MISSING)), lines[-1])
    return None


def plan() -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Meals (1, minutes), and insulin (1, minutes) by patient: basal, and what covers each meal with it."""
    meals = np.zeros((1, MINUTES))
    for minute, grams in MEALS.items():
        meals[0, minute] = grams
    people = (load_patient(name) for name in NAMES)
    return meals, {person.name: person.basal + meals / person.grams_per_unit for person in people}


def reference(meals: np.ndarray, insulin: dict[str, np.ndarray]) -> tuple[dict[str, np.ndarray], float]:
    """Glucose by the minute of each patient, and seconds taken, from simglucose."""
    scenario = {k: {"meals": meals[0].tolist(), "insulin": v[0].tolist()} for k, v in insulin.items()}
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = Path(folder, "scenario.json"), Path(folder, "glucose.csv")
        asked.write_text(json.dumps(scenario))
        script = Path(__file__).with_name("simglucose_reference.py")
        command = [ENVIRONMENT / "bin" / "python", "-W", "ignore", script, asked, answered]
        subprocess.run(command, check=True)
        with answered.open(newline="") as file:
            rows = {row[0]: np.array(row[1:], dtype=float) for row in csv.reader(file)}
    return rows, float(rows.pop("seconds")[0])


def write_table(path: Path, rows: dict[str, np.ndarray]) -> None:
    header = ["patient", *(f"hour_{hour}" for hour in range(25))]
    lines = [[name, *(f"{value:.5f}" for value in glucose[::60])] for name, glucose in rows.items()]
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *lines])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", type=Path)
    arguments = parser.parse_args()
    reason = "a tiny run installs nothing" if TINY and not ENVIRONMENT.exists() else install()
    if reason is not None:
        print(f"SKIPPED: {PACKAGE} cannot be installed here ({reason.strip()}); nothing was compared.")
        return
    meals, insulin = plan()
    expected, seconds = reference(meals, insulin)
    if arguments.table:
        write_table(arguments.table, expected)
    differences = {}
    started = time.perf_counter()
    for name in NAMES:
        person = load_patient(name)
        glucose = simulate_minutes(
            person, meals=meals, insulin=insulin[name], start=person.steady_state[None]
        )
        differences[name] = float(np.abs(glucose[0] - expected[name]).max())
    ours = time.perf_counter() - started
    worst = max(differences, key=lambda name: differences[name])
    verdict = "PASS" if differences[worst] < LARGEST else "MISS"
    print(
        f"{len(differences)} patients, 24 h, {len(MEALS)} meals: largest difference {differences[worst]:.2g} mg/dl "
        f"({worst})   target < {LARGEST}   {verdict}"
    )
    print(f"simglucose took {seconds:.1f} s, ours {ours:.2f} s (with loading of compiled code)")
    if verdict == "MISS":
        sys.exit(1)


if __name__ == "__main__":
    main()
