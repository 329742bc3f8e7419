"""Every file in examples/ runs, at a size that shows nothing but that."""

from __future__ import annotations

import ast
import json
import runpy
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "examples"
PRINTED = {
    "adapting_online.py": "certified as before: True",
    "black_box_mujoco.py": "picture: black_box_mujoco.png",
    "c_on_the_command_line.py": "guaranteed: no",
    "certified_policy.py": "all in the tube: True",
    "fmu_in_fmpy.py": "Delta was shown again",
    "gradient_mpc_torch.py": "m from the goal",
    "mpc_casadi.py": "from the path",
    "mppi_onnx.py": "m to go, planned in",
    "reading_a_certificate.py": "verified: True",
    "your_own_csv.py": "picture: your_own_csv.png",
}
NEEDED = {
    "mpc_casadi.py": ("casadi", "do_mpc"),
    "fmu_in_fmpy.py": ("fmpy",),
    "black_box_mujoco.py": ("mujoco",),
}


def test_every_file_is_short_and_run() -> None:
    found = {path.name: path for path in FOLDER.glob("*.py")}
    assert set(found) >= set(PRINTED)
    assert all(len(path.read_text().splitlines()) < 80 for path in found.values())


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.glob("*.py")))
def test_an_example_runs(name: str, tmp_path: Path, monkeypatch, capfd) -> None:
    if not all(find_spec(package) for package in NEEDED.get(name, ())):
        pytest.skip(f"needs {', '.join(NEEDED[name])}")
    monkeypatch.setenv("TETHER_TINY", "1")
    monkeypatch.setattr(sys, "argv", [name])
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(FOLDER / name), run_name="__main__")
    assert PRINTED.get(name, "") in capfd.readouterr().out
    assert (tmp_path / name).with_suffix(".png").is_file()


def test_notebooks_are_the_examples_in_cells(tmp_path: Path) -> None:
    written = runpy.run_path(str(FOLDER.parent / "site" / "notebooks.py"))
    written["main"](tmp_path)
    books = {path.stem: json.loads(path.read_text())["cells"] for path in tmp_path.glob("*.ipynb")}
    assert set(books) == {path.stem for path in FOLDER.glob("*.py")}
    for name, cells in books.items():
        *texts, last = ("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
        assert last.endswith(f'Image("{name}.png")')
        source = ast.parse((FOLDER / f"{name}.py").read_text())
        again = [ast.dump(node) for text in texts for node in ast.parse(text).body]
        assert again == [ast.dump(node) for node in source.body[1:]] and len(texts) > 2
