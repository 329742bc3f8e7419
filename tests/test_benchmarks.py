"""Every file in benchmarks/ runs, at a size that says nothing of speed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "benchmarks"
# Modules that others share, and a script that runs in an environment of its own.
PARTS = {"sizes.py", "real_logs.py", "simglucose_reference.py"}
PRINTED = {
    "bench_forward.py": "forward",
    "bench_verify.py": "leaves of 24 inputs verified",
    "results_table.py": "**Tethered**",
    "convergence.py": "affine: slope",
    "crosscheck_pancreas.py": "patients, 24 h|SKIPPED",
    "gym_pendulum.py": "of the best of ridge, boosted trees, M + MLP",
    "real_car.py": "of the best of ridge, boosted trees, M + MLP|no real log",
    "real_pendulum.py": "of the best of ridge, boosted trees, M + MLP|no real log",
}


def test_every_file_is_run() -> None:
    assert {path.name for path in FOLDER.iterdir() if path.suffix == ".py"} >= PARTS | set(PRINTED)


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.glob("*.py") if path.name not in PARTS))
def test_a_benchmark_runs(name: str, tmp_path: Path) -> None:
    needed = {"bench_drones.py": "pybullet", "bench_vehicle.py": "vehiclemodels"}
    if name in needed:
        pytest.importorskip(needed[name])
    threads = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    ended = subprocess.run(
        [sys.executable, FOLDER / name], cwd=tmp_path, env=os.environ | threads | {"TETHER_TINY": "1"},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-2000:]
    wanted = PRINTED.get(name, "").split("|")
    assert any(word in ended.stdout for word in wanted)
