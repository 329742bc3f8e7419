"""What is shipped: a wheel and a source archive hold all that is needed, and what they hold runs by itself."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import tether

ROOT = Path(__file__).parent.parent
pytest.importorskip("hatchling", reason="hatchling, which builds packages, is not installed")


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(out)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return out


def test_both_archives_hold_what_is_not_python(built: Path) -> None:
    (wheel,), (source,) = built.glob("*.whl"), built.glob("*.tar.gz")
    assert wheel.name.startswith(f"tether_dynamics-{tether.__version__}-")
    held = set(zipfile.ZipFile(wheel).namelist())
    packages = [ROOT / "src" / "tether", ROOT / "src" / "tether_studies"]
    files = [path for package in packages for path in package.rglob("*") if path.is_file()]
    needed = {
        str(p.relative_to(ROOT / "src")) for p in files if p.suffix in (".css", ".js", ".csv", ".typed")
    }
    assert {"tether/py.typed", "tether/report/report.js"} <= needed <= held
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"LICENSE", "README.md", "CITATION.cff", "SECURITY.md", "constraints.txt", "Makefile"} <= names


def test_the_wheel_runs_away_from_the_checkout(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    places = {**os.environ, "PYTHONPATH": str(tmp_path / "site"), "OMP_NUM_THREADS": "1"}
    code = (
        "import tether, tether_studies; print(tether.__version__, tether.__file__, tether_studies.__file__)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=places, check=True, capture_output=True, text=True
    )
    version, *files = found.stdout.split()
    assert version == tether.__version__ and all(file.startswith(str(tmp_path)) for file in files)
    told = subprocess.run(
        [sys.executable, "-m", "tether", "demo", "--help"],
        cwd=tmp_path, env=places, check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert "parked car" in told.stdout
