"""What a missing package is told by: one line, with the extra that brings it."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest

import tether
from tether.foundation.extras import EXTRAS, installing
from tether.trusted.forms.form import needed

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize("package", EXTRAS)
def test_the_extra_brings_the_package(package: str) -> None:
    brought = [re.match(r"[\w-]+", own) for own in PROJECT["optional-dependencies"][EXTRAS[package]]]
    assert package in [own[0] for own in brought if own]
    assert installing(package) == f"`pip install '{PROJECT['name']}[{EXTRAS[package]}]'`"


@pytest.mark.parametrize("package", ["casadi", "fmpy", "jax", "mujoco", "onnx", "onnxruntime", "sympy"])
def test_a_form_of_m_names_it(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        ValueError, match=rf"{package} is not.*tether-dynamics\[{EXTRAS[package]}\]"
    ) as raised:
        needed(package)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(("file", "package"), [("tank.fmu", "fmpy"), ("tank.onnx", "onnxruntime")])
def test_a_file_of_m_names_it(
    file: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / file).write_bytes(b"")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ValueError, match=rf"tether-dynamics\[{EXTRAS[package]}\]"):
        tether.load_trusted(str(tmp_path / file))
