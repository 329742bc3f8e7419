"""An FMU as M: a ball compiled from tests/ball.c, against the same ball in NumPy."""

from __future__ import annotations

import pickle
import shutil
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import pytest

import tether
from tether.data import make_schema
from tether.evidence import Question, strongest
from tether.trusted import check_trusted

fmpy = pytest.importorskip("fmpy")
SCHEMA = make_schema(["height", "speed"], ["force"])
HIGH = np.random.default_rng(0).uniform([2, -3, -2], [5, 3, 2], (60, 3))
DESCRIPTION = """<?xml version="1.0" encoding="UTF-8"?>
<fmiModelDescription fmiVersion="{version}" modelName="ball" guid="ball" numberOfEventIndicators="1">
  <ModelExchange modelIdentifier="ball" providesDirectionalDerivative="true"/>
  <DefaultExperiment startTime="0" stopTime="1" stepSize="0.05"/>
  <ModelVariables>
    <ScalarVariable name="height" valueReference="0" initial="exact"><Real start="1"/></ScalarVariable>
    <ScalarVariable name="speed" valueReference="1" initial="exact"><Real start="0"/></ScalarVariable>
    <ScalarVariable name="der(height)" valueReference="2"><Real derivative="1"/></ScalarVariable>
    <ScalarVariable name="der(speed)" valueReference="3"><Real derivative="2"/></ScalarVariable>
    <ScalarVariable name="force" valueReference="4" causality="input"><Real start="0"/></ScalarVariable>
  </ModelVariables>
  <ModelStructure>
    <Derivatives><Unknown index="3"/><Unknown index="4"/></Derivatives>
    <InitialUnknowns><Unknown index="3"/><Unknown index="4"/></InitialUnknowns>
  </ModelStructure>
</fmiModelDescription>
"""


def rate(states, controls):
    return np.stack([states[:, 1], -9.81 - 0.1 * states[:, 1] ** 2 + controls[:, 0]], axis=1)


@pytest.fixture(scope="module")
def ball(tmp_path_factory) -> Path:
    if shutil.which("gcc") is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("fmu")
    headers = Path(fmpy.__file__).parent / "c-code"
    source = Path(__file__).with_name("ball.c")
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-O1", f"-I{headers}", source, "-o", folder / "ball.so"], check=True
    )
    with zipfile.ZipFile(folder / "ball.fmu", "w") as archive:
        archive.writestr("modelDescription.xml", DESCRIPTION.format(version="2.0"))
        archive.write(folder / "ball.so", f"binaries/{fmpy.platform}/ball.so")
    return folder / "ball.fmu"


def test_it_is_the_ball(ball: Path) -> None:
    trusted = tether.load_trusted(str(ball), substeps=4)
    assert trusted.name == "ball" and trusted.black_box
    check_trusted(trusted, HIGH, SCHEMA)
    expected = tether.discretise(rate, 0.05, substeps=4).function(HIGH[:, :2], HIGH[:, 2:])
    np.testing.assert_allclose(trusted.function(HIGH[:, :2], HIGH[:, 2:]), expected, rtol=1e-12)


def test_its_own_derivatives_are_those_of_the_step(ball: Path) -> None:
    trusted = tether.load_trusted(ball, step=0.2, substeps=3)
    assert trusted.jacobian is not None
    found, step = np.asarray(trusted.jacobian(HIGH[:5, :2], HIGH[:5, 2:])), 1e-5
    for column in range(3):
        above, below = HIGH[:5] + step * np.eye(3)[column], HIGH[:5] - step * np.eye(3)[column]
        ends = [np.asarray(trusted.function(rows[:, :2], rows[:, 2:])) for rows in (above, below)]
        np.testing.assert_allclose(found[:, :, column], (ends[0] - ends[1]) / (2 * step), atol=1e-7)


def test_it_bounces(ball: Path) -> None:
    function = tether.load_trusted(ball, step=0.1, substeps=10).function
    after = np.asarray(function(np.array([[0.02, -3.0], [3.0, -3.0]]), np.zeros((2, 1))))
    assert after[0, 1] > 1.0 > 0 > after[1, 1]
    assert after[0, 0] >= 0


def test_it_travels_to_other_processes(ball: Path) -> None:
    function = tether.load_trusted(ball).function
    before = np.asarray(function(HIGH[:, :2], HIGH[:, 2:]))
    again = pickle.loads(pickle.dumps(function))
    np.testing.assert_array_equal(again(HIGH[:, :2], HIGH[:, 2:]), before)


def test_the_evidence_is_statistical_and_says_why(ball: Path) -> None:
    trusted = tether.load_trusted(ball)
    question = Question(trusted, SCHEMA, "increment", HIGH.min(axis=0), HIGH.max(axis=0))
    level, why = strongest(trusted, "affine", question)
    assert level.name == "statistical"
    assert why == "M (ball) cannot be proved: an FMU computes it, a black box"


def test_what_cannot_be_run_is_refused(ball: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.fmu"
    bad.write_bytes(b"no zip")
    with pytest.raises(ValueError, match="`trusted` must be an FMU; "):
        tether.load_trusted(bad)
    with pytest.raises(ValueError, match="`step` must be positive"):
        tether.load_trusted(ball, step=-0.1)
    with pytest.raises(TypeError, match=r"`frame_skip` must be an option .* it takes step, substeps, jobs"):
        tether.load_trusted(ball, frame_skip=2)
    with pytest.raises(tether.TrustedModelError, match="has 2 states and 1 real inputs"):
        check_trusted(tether.load_trusted(ball), HIGH, make_schema(["height"], ["speed", "force"]))
