"""Every file in examples/ runs, at a size that shows nothing but that."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "examples"
PRINTED = {
    "c_on_the_command_line.py": "guaranteed: no",
    "fmu_in_fmpy.py": "Delta was shown again",
    "mpc_casadi.py": "from the path",
}
NEEDED = {"mpc_casadi.py": ("casadi", "do_mpc"), "fmu_in_fmpy.py": ("fmpy",)}


def test_every_file_is_short_and_run() -> None:
    found = {path.name: path for path in FOLDER.glob("*.py")}
    assert set(found) >= set(PRINTED)
    assert all(len(path.read_text().splitlines()) < 80 for path in found.values())


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.glob("*.py")))
def test_an_example_runs(name: str, tmp_path: Path) -> None:
    if not all(find_spec(package) for package in NEEDED.get(name, ())):
        pytest.skip(f"needs {', '.join(NEEDED[name])}")
    threads = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    ended = subprocess.run(
        [sys.executable, FOLDER / name], cwd=tmp_path, env=os.environ | threads | {"TETHER_TINY": "1"},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert PRINTED.get(name, "") in ended.stdout
