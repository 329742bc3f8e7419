"""Runs the smoke version of everything that is claimed, and checks what docs/artifact.md says to expect.

    python benchmarks/artifact.py --out runs/artifact [--traces DIR] [--flights DIR]

Goes on where it was, if interrupted. A line per expectation; the exit code is the number of those not met.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

ROOT = Path(__file__).parent.parent
ERROR, OMEGA = "approximation_loss_D", "constraint_loss_omega_mean"
Runs = Sequence[Mapping[str, object]]


@dataclass(frozen=True)
class Expectation:
    """One line of the table.

    Attributes:
        claim: in words.
        folder: of the study, under that of the reproduction.
        value: from its runs.
        most: that it may be.
    """

    claim: str
    folder: str
    value: Callable[[Runs], float]
    most: float


def of(runs: Runs, method: str, key: str) -> list[float]:
    """What was measured of a method, over seeds and numbers of memories."""
    found = [run[key] for run in runs if run["method"] == method and key in run]
    if not found:
        raise KeyError(f"no run of {method} has {key}")
    return found  # type: ignore[return-value]


def over(method: str, rival: str, key: str) -> Callable[[Runs], float]:
    """A method's mean over a rival's."""
    return lambda runs: mean(of(runs, method, key)) / mean(of(runs, rival, key))


def largest(method: str, key: str) -> Callable[[Runs], float]:
    """Of all runs of a method."""
    return lambda runs: max(of(runs, method, key))


def missing(method: str, key: str) -> Callable[[Runs], float]:
    """By how much a share falls short of 1 at worst."""
    return lambda runs: 1 - min(of(runs, method, key))


def unproved(runs: Runs) -> float:
    """How many tethered runs are not proved."""
    tethered = [run for run in runs if str(run["method"]).startswith("Tethered")]
    return float(sum(run["evidence_level"] != "proved" for run in tethered)) if tethered else 1.0


def expectations(*, traces: bool, flights: bool) -> list[Expectation]:
    """Those of docs/artifact.md."""
    found = []
    for study in ("vehicle", "drones", "pancreas", *(["pancreas-traces"] if traces else [])):
        found += [
            Expectation("Tethered is proved", study, unproved, 0.0),
            Expectation("… and withstands attack", study, largest("Tethered", "attack_max_ratio"), 1.0),
            Expectation("… and covers held-out D", study, missing("Tethered", "coverage_D"), 0.01),
            Expectation("… and follows M on Ω, by construction", study, largest("Tethered", OMEGA), 1e-20),
        ]
    found += [
        Expectation("parked cars stay parked", "vehicle", missing("Tethered", "drift_poses_still"), 0.01),
        Expectation("increments are most of the gap", "vehicle", over("Vanilla Δ", "Vanilla", ERROR), 0.01),
        Expectation("M alone beats Vanilla", "vehicle", over("Trusted", "Vanilla", ERROR), 1.0),
        Expectation("M alone beats Vanilla", "drones", over("Trusted", "Vanilla", ERROR), 1.0),
        Expectation("Tethered is more accurate than M", "drones", over("Tethered", "Trusted", ERROR), 0.5),
        Expectation("Constrained Δ conforms better", "drones", over("Constrained Δ", "Vanilla", OMEGA), 1e-3),
        Expectation(
            "more insulin never raises", "pancreas",
            largest("Tethered, monotone", "monotonicity_rise_max_every_lag"), 0.0,
        ),
    ]  # fmt: skip
    if flights:
        own = over("Constrained (paper)", "Vanilla", OMEGA)
        found.append(Expectation("the paper's order on its authors' flights", "drones-authors", own, 0.1))
    return found


def check(out: Path, wanted: Sequence[Expectation]) -> int:
    """Prints a line for each; how many are not met."""
    failed = 0
    for each in wanted:
        runs = json.loads((out / each.folder / "results.json").read_text(encoding="utf-8"))["runs"]
        value = each.value(runs)
        failed += value > each.most
        mark = "✗ NOT MET" if value > each.most else "✓ as expected"
        print(f"{mark}: {each.folder}: {each.claim}: {value:.3g}, at most {each.most:g}")
    return failed


def run(title: str, command: Sequence[object]) -> None:
    """A command, with the time it took; one that fails ends everything."""
    print(f"== {title}: {' '.join(map(str, command))}", flush=True)
    start = time.monotonic()
    ended = subprocess.run([sys.executable, *map(str, command)], cwd=ROOT, check=False)
    print(f"== {time.monotonic() - start:.0f} s", flush=True)
    if ended.returncode:
        sys.exit(f"{title} ended with code {ended.returncode}")


def main() -> None:
    """All of it."""
    reader = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    reader.add_argument("--out", type=Path, default=Path("runs/artifact"))
    reader.add_argument("--traces", default="")
    reader.add_argument("--flights", default="")
    asked = reader.parse_args()
    run("the Theorem", ["-m", "pytest", "-q", "tests/test_pipeline.py", "-k", "theorem"])
    data = [
        part
        for name in ("traces", "flights")
        if (value := getattr(asked, name))
        for part in (f"--{name}", value)
    ]
    run("all studies", ["-m", "tether.cli", "reproduce", *data, "--out", asked.out])
    run("what else a tether holds", ["benchmarks/generality.py"])
    sys.exit(check(asked.out, expectations(traces=bool(asked.traces), flights=bool(asked.flights))))


if __name__ == "__main__":
    main()
