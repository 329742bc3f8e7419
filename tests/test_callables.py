from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from conftest import frictionless
from tether.trusted import TrustedModel
from tether.trusted.loading import load_trusted


def test_a_function_of_a_file(trusted_file: Path) -> None:
    model = load_trusted(f"{trusted_file}:frictionless")
    states, controls = np.array([[1.0, 2.0]]), np.array([[3.0]])
    np.testing.assert_array_equal(model.function(states, controls), frictionless(states, controls))
    assert model.name == "frictionless"
    assert model.source_digest is not None
    assert model.lipschitz is None


def test_a_trusted_model_of_a_file_keeps_what_it_knows(trusted_file: Path) -> None:
    model = load_trusted(f"{trusted_file}:known")
    assert isinstance(model, TrustedModel)
    assert np.shape(model.lipschitz) == (2, 3)


def test_a_function_of_a_module() -> None:
    assert load_trusted("numpy.linalg:norm").function is np.linalg.norm


def test_a_module_in_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "physics_of_this_test.py").write_text("def still(states, controls):\n    return states\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("/nowhere")
    assert load_trusted("physics_of_this_test:still").name == "still"


def test_a_file_may_import_its_neighbour_but_leaves_no_path_behind(tmp_path: Path) -> None:
    import sys

    (tmp_path / "neighbour_of_this_test.py").write_text("SHIFT = 2.0\n")
    (tmp_path / "m.py").write_text(
        "from neighbour_of_this_test import SHIFT\ndef shift(s, u):\n    return s + SHIFT\n"
    )
    before = list(sys.path)
    assert load_trusted(f"{tmp_path}/m.py:shift").function(np.zeros((1, 1)), np.zeros((1, 0)))[0, 0] == 2.0
    assert sys.path == before


def test_two_files_of_one_name_stay_apart(tmp_path: Path) -> None:
    models = []
    for number in (1, 2):
        (tmp_path / str(number)).mkdir()
        path = tmp_path / str(number) / "m.py"
        path.write_text(f"NUMBER = {number}\ndef f(s, u):\n    return s * NUMBER\n")
        models.append(load_trusted(f"{path}:f"))
    one = np.ones((1, 1))
    assert [float(m.function(one, one)[0, 0]) for m in models] == [1.0, 2.0]  # type: ignore[index]


@pytest.mark.parametrize("spec", ["physics", "physics:", ":f", "", "file.py"])
def test_a_spec_needs_two_parts(spec: str) -> None:
    with pytest.raises(ValueError, match=f"must be module:function or file.py:function; got '{spec}'"):
        load_trusted(spec)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("def f(:\n", "SyntaxError"),
        ("import no_such_package\n", "ModuleNotFoundError: No module named 'no_such_package'"),
        ("1 / 0\n", "ZeroDivisionError: division by zero"),
        ("import sys\nsys.exit(0)\n", "SystemExit: 0"),
    ],
)
def test_a_file_that_does_not_run(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "m.py").write_text(content)
    with pytest.raises(ValueError, match=f"`trusted` must be a file that runs; .*m.py: {message}"):
        load_trusted(f"{tmp_path}/m.py:f")


def test_names_that_lead_nowhere(trusted_file: Path) -> None:
    with pytest.raises(ValueError, match=r"must name an existing file; got 'absent.py'"):
        load_trusted("absent.py:f")
    with pytest.raises(
        ValueError, match="must name an importable module; no_such_module: ModuleNotFoundError"
    ):
        load_trusted("no_such_module:f")
    with pytest.raises(ValueError, match=r"must name a function of .*; got 'fast'. It has: .*frictionless"):
        load_trusted(f"{trusted_file}:fast")
    with pytest.raises(ValueError, match=r"must be callable as .*; got float"):
        load_trusted("math:pi")
