"""The FMU: valid by fmpy's own check, and a simulation in it is the library's rollout."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import tether
from compiled import STRICT, needs_compiler
from tether.export import export
from tether.foundation.errors import CertificateError, StorageError

sys.path.append(str(Path(__file__).parent / "contract"))
from every_model import SUBJECTS, turning

fmpy = pytest.importorskip("fmpy")
pytestmark = needs_compiler
(SUBJECT,) = (s for s in SUBJECTS if str(s) == "affine, angles, clip")
STEP, COUNT = 0.1, 12


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    model = SUBJECT.model()
    (path,) = export(model, to="fmu", out=tmp_path_factory.mktemp("fmu"), name="cart")
    return model, path


def test_it_is_valid(made):
    from fmpy.validation import validate_fmu

    assert validate_fmu(str(made[1])) == []
    assert {"sources/cart.c", "sources/cart.h", "sources/cart_fmu.c", "resources/certificate.json"} < set(
        zipfile.ZipFile(made[1]).namelist()
    )


def test_a_simulation_is_a_rollout(made):
    model, path = made
    controls = 0.5 * np.sin(np.arange(COUNT))
    table = np.array(
        list(zip(STEP * np.arange(COUNT), controls, strict=True)),
        dtype=[("time", float), ("steering", float)],
    )
    names = ["speed", "heading", "next_speed", "next_heading", "delta_speed", "delta_heading", "in_domain"]
    found = fmpy.simulate_fmu(
        str(path), stop_time=STEP * COUNT, step_size=STEP, output_interval=STEP, input=table, output=names,
        start_values={"speed": 0.4, "heading": 3.0, "step": STEP},
    )  # fmt: skip
    states = np.array([[0.4, 3.0]])
    for k in range(COUNT):
        row = found[k]
        assert np.allclose([row["speed"], row["heading"]], states[0], atol=1e-12)
        # A row is recorded before the controls of its step are set: it has those of the step before.
        known = model.predict(states, controls[max(k - 1, 0), None, None], details=True)
        assert np.allclose([row["next_speed"], row["next_heading"]], known.next_states[0], atol=1e-12)
        assert np.allclose([row["delta_speed"], row["delta_heading"]], known.delta[0], atol=1e-12)
        assert row["in_domain"] == known.in_domain[0]
        states = model.predict(states, controls[k, None, None])
    assert found["in_domain"].any()


@pytest.fixture
def instance(made, tmp_path):
    from fmpy.fmi2 import FMU2Slave

    description = fmpy.read_model_description(str(made[1]))
    folder = fmpy.extract(str(made[1]), str(tmp_path / "unzipped"))
    own = FMU2Slave(guid=description.guid, unzipDirectory=folder, modelIdentifier="cart", instanceName="one")
    own.instantiate()
    own.setupExperiment()
    own.enterInitializationMode()
    places = {v.name: v.valueReference for v in description.modelVariables}
    yield own, places
    own.freeInstance()


def test_directional_derivatives_are_the_models(made, instance):
    own, places = instance
    inputs = {"speed": 0.3, "heading": 0.7, "steering": -0.2}
    own.setReal([places[name] for name in inputs], list(inputs.values()))
    slopes = made[0].linearize([[0.3, 0.7]], [[-0.2]], across=True)
    jacobian = np.concatenate([slopes.states[0], slopes.controls[0]], axis=1)
    unknown = [places["next_speed"], places["next_heading"]]
    for column, name in enumerate(inputs):
        found = own.getDirectionalDerivative(unknown, [places[name]], [2.0])
        assert np.allclose(list(found), 2 * jacobian[:, column], atol=1e-12)


def test_a_step_of_another_length_is_refused(instance):
    from fmpy.fmi1 import FMICallException

    own, places = instance
    own.setReal([places["step"]], [STEP])
    own.exitInitializationMode()
    with pytest.raises(FMICallException):
        own.doStep(0.0, 0.25 * STEP)
    own.doStep(0.0, 3 * STEP)
    with pytest.raises(FMICallException):
        own.setReal([places["speed"]], [0.0])


def test_what_was_set_in_part_counts(made, instance):
    from fmpy.fmi1 import FMICallException

    own, places = instance
    own.getReal([places["next_speed"]])
    with pytest.raises(FMICallException):
        own.setReal([places["steering"], places["delta_speed"]], [0.4, 0.0])
    following = made[0].predict([[0.0, 0.0]], [[0.4]])[0]
    found = own.getReal([places["next_speed"], places["next_heading"]])
    assert np.allclose(list(found), following, atol=1e-12)


def test_its_sources_compile_without_a_warning(made, tmp_path):
    import subprocess

    zipfile.ZipFile(made[1]).extractall(tmp_path)
    for name in ("cart.c", "cart_fmu.c"):
        command = ["cc", *STRICT, "-O2", "-c", name, "-o", "made.o"]
        ended = subprocess.run(command, cwd=tmp_path / "sources", capture_output=True, text=True, check=False)
        assert (ended.returncode, ended.stderr) == (0, "")


def test_the_source_inside_is_verified(made, tmp_path):
    found = tether.verify(made[1], turning)
    assert found.verified
    assert "the binaries" in " ".join(found.not_vouched)
    changed = tmp_path / "other.fmu"
    with zipfile.ZipFile(made[1]) as one, zipfile.ZipFile(changed, "w") as two:
        for name in one.namelist():
            content = one.read(name)
            two.writestr(name, content.replace(b"room->inside = 0;", b"room->inside = 1;"))
    with pytest.raises(CertificateError, match="line .* is not what this version of Tether writes"):
        tether.verify(changed, turning)
    changed.write_bytes(b"no archive")
    with pytest.raises(StorageError, match="must be an FMU exported by Tether"):
        tether.verify(changed, turning)


def test_what_an_fmu_cannot_be(tmp_path):
    with pytest.raises(ValueError, match="`dtype` must be 'float64' for this form"):
        export(SUBJECT.model(), to="fmu", out=tmp_path, dtype="float32")
    assert not list(tmp_path.iterdir())
