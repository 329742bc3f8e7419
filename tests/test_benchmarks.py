"""Every file in benchmarks/ runs, at a size that says nothing of speed."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).parent.parent / "benchmarks"
# Modules that others share, a script that runs in an environment of its own, and one that runs whole studies.
PARTS = {"artifact.py", "sizes.py", "real_logs.py", "simglucose_reference.py"}
PRINTED = {
    "bench_export.py": "outside delta of M exactly|SKIPPED",
    "bench_forward.py": "forward",
    "exported_studies.py": "outside delta of M exactly|SKIPPED",
    "bench_scale.py": "leaves: seconds grow as size^",
    "bench_onnx.py": "0 farther from M than delta",
    "bench_verify.py": "leaves of 24 inputs verified",
    "forms.py": "2 models",
    "substeps.py": "| pendulum | 2 |",
    "results_table.py": "| Tethered | **",
    "convergence.py": "affine: slope",
    "crosscheck_pancreas.py": "patients, 24 h|SKIPPED",
    "generality.py": "a slow black box as M: statistical",
    "gym_pendulum.py": "of the best of ridge, boosted trees, M + MLP",
    "bench_tubes.py": "ours",
    "real_car.py": "of the best of ridge, boosted trees, M + MLP|no real log",
    "real_pendulum.py": "of the best of ridge, boosted trees, M + MLP|no real log",
}


def test_every_file_is_run() -> None:
    assert {path.name for path in FOLDER.iterdir() if path.suffix == ".py"} >= PARTS | set(PRINTED)


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """As a process of its own would be, without the seconds that one takes to start."""
    threads = torch.get_num_threads()
    _forget_parts()  # another test may have them at full size
    monkeypatch.setenv("TETHER_TINY", "1")
    monkeypatch.setattr(sys, "argv", ["benchmark"])
    monkeypatch.syspath_prepend(FOLDER)
    monkeypatch.chdir(tmp_path)
    yield
    torch.set_num_threads(threads)
    _forget_parts()


def _forget_parts() -> None:
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(str(FOLDER)):
            del sys.modules[name]


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.glob("*.py") if path.name not in PARTS))
def test_a_benchmark_runs(name: str, tiny: None, capfd: pytest.CaptureFixture[str]) -> None:
    needed = {"bench_drones.py": "pybullet", "bench_vehicle.py": "vehiclemodels"}
    if name in needed:
        pytest.importorskip(needed[name])
    code = None
    try:
        runpy.run_path(str(FOLDER / name), run_name="__main__")
    except SystemExit as ended:
        code = ended.code
    assert not code
    printed = capfd.readouterr().out
    assert any(word in printed for word in PRINTED.get(name, "").split("|"))
