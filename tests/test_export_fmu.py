"""The FMU: valid by fmpy's own check, and a simulation in it is the library's rollout."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path
from typing import Any

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


FORMS = ("fmu", "fmu3")


@pytest.fixture(scope="module", params=FORMS)
def made(request, tmp_path_factory):
    model = SUBJECT.model()
    (path,) = export(model, to=request.param, out=tmp_path_factory.mktemp(request.param), name="cart")
    return model, path


def test_it_is_valid(made):
    from fmpy.validation import validate_fmu

    assert validate_fmu(str(made[1])) == []
    names = {"sources/cart.c", "sources/cart.h", "sources/cart_fmu.c", "resources/certificate.json"}
    assert names < set(zipfile.ZipFile(made[1]).namelist())


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


class Slave:
    """One for both versions; variables by name."""

    def __init__(self, path, folder):
        from fmpy.fmi2 import FMU2Slave
        from fmpy.fmi3 import FMU3Slave

        description = fmpy.read_model_description(str(path))
        self.new = description.fmiVersion == "3.0"
        self.fmu: Any = (FMU3Slave if self.new else FMU2Slave)(
            guid=description.guid, unzipDirectory=fmpy.extract(str(path), str(folder)),
            modelIdentifier="cart", instanceName="one",
        )  # fmt: skip
        self.places = {v.name: v.valueReference for v in description.modelVariables}
        self.fmu.instantiate()
        if not self.new:
            self.fmu.setupExperiment()
        self.fmu.enterInitializationMode()

    def at(self, names):
        return [self.places[name] for name in names]

    def set(self, values):
        call = self.fmu.setFloat64 if self.new else self.fmu.setReal
        call(self.at(values), list(values.values()))

    def get(self, *names):
        return list((self.fmu.getFloat64 if self.new else self.fmu.getReal)(self.at(names)))

    def derivative(self, unknown, known, seeds):
        return list(self.fmu.getDirectionalDerivative(self.at(unknown), self.at(known), seeds))


@pytest.fixture
def slave(made, tmp_path):
    own = Slave(made[1], tmp_path / "unzipped")
    yield own
    own.fmu.freeInstance()


INPUTS = {"speed": 0.3, "heading": 0.7, "steering": -0.2}
NEXT = ("next_speed", "next_heading")


def jacobian(model):
    """At `INPUTS`."""
    slopes = model.linearize([[0.3, 0.7]], [[-0.2]], across=True)
    return np.concatenate([slopes.states[0], slopes.controls[0]], axis=1)


def test_directional_derivatives_are_the_models(made, slave):
    slave.set(INPUTS)
    for column, name in enumerate(INPUTS):
        found = slave.derivative(NEXT, [name], [2.0])
        assert np.allclose(found, 2 * jacobian(made[0])[:, column], atol=1e-12)


def test_all_at_once_and_of_states_themselves(made, slave):
    slave.set(INPUTS)
    seeds = [0.5, -1.0, 2.0]
    found = slave.derivative(["heading", *NEXT], INPUTS, seeds)
    assert np.allclose(found, [-1.0, *(jacobian(made[0]) @ seeds)], atol=1e-12)


def test_adjoint_derivatives_are_the_same_backwards(made, slave):
    if not slave.new:
        pytest.skip("FMI 2.0 has none")
    slave.set(INPUTS)
    found = slave.fmu.getAdjointDerivative(slave.at(NEXT), slave.at(INPUTS), [1.5, -0.5], nSensitivity=3)
    assert np.allclose(found, [1.5, -0.5] @ jacobian(made[0]), atol=1e-12)


def test_derivatives_of_other_things_are_refused(slave):
    from fmpy.fmi1 import FMICallException

    for unknown, known in ((["delta_speed"], ["speed"]), (["next_speed"], ["delta_speed"])):
        with pytest.raises(FMICallException):
            slave.derivative(unknown, known, [1.0])


def test_a_step_of_another_length_is_refused(slave):
    from fmpy.fmi1 import FMICallException

    slave.set({"step": STEP})
    slave.fmu.exitInitializationMode()
    with pytest.raises(FMICallException):
        slave.fmu.doStep(0.0, 0.25 * STEP)
    slave.fmu.doStep(0.0, 3 * STEP)
    with pytest.raises(FMICallException):
        slave.set({"speed": 0.0})
    if slave.new:
        assert slave.get("time") == [3 * STEP]


def test_what_was_set_in_part_counts(made, slave):
    from fmpy.fmi1 import FMICallException

    slave.get("next_speed")
    with pytest.raises(FMICallException):
        slave.set({"steering": 0.4, "delta_speed": 0.0})
    following = made[0].predict([[0.0, 0.0]], [[0.4]])[0]
    assert np.allclose(slave.get(*NEXT), following, atol=1e-12)


def test_a_reset_fmu_is_a_new_one(slave):
    before = slave.get(*NEXT)
    slave.set(INPUTS)
    assert slave.get(*NEXT) != before
    slave.fmu.reset()
    assert slave.get("speed", *NEXT, "step") == [0.0, *before, 1.0]


def test_its_functions_are_those_of_the_standard(made, tmp_path):
    """As the standard's own headers, which fmpy has, declare them: each is there, and of that type."""
    import re
    import subprocess

    version = "3" if "buildDescription" in str(zipfile.ZipFile(made[1]).namelist()) else "2"
    headers = Path(fmpy.__file__).parent / "c-code"
    zipfile.ZipFile(made[1]).extractall(tmp_path)
    declared = (headers / f"fmi{version}Functions.h").read_text()
    names = set(re.findall(rf"FMI{version}_Export\s+fmi{version}\w+TYPE\s+(fmi{version}\w+);", declared))
    assert len(names) > 30
    code = (tmp_path / "sources/cart_fmu.c").read_text()
    # What both define would be there twice.
    own = re.sub(rf"typedef (enum|struct)? ?{{[^}}]*}} fmi{version}\w+;|typedef [^;{{]*;", "", code)
    used = "".join(f"    (void){name};\n" for name in sorted(names))
    text = f'#include "fmi{version}Functions.h"\n{own}\nvoid all(void);\nvoid all(void)\n{{\n{used}}}\n'
    (tmp_path / "sources/both.c").write_text(text)
    command = ["cc", "-std=c11", "-Wall", f"-I{headers}", "-shared", "-fPIC", "-Wl,-z,defs"]
    command += ["both.c", "cart.c", "-o", "both.so", "-lm"]
    ended = subprocess.run(command, cwd=tmp_path / "sources", capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


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


@pytest.mark.parametrize("form", FORMS)
def test_what_an_fmu_cannot_be(form, tmp_path):
    with pytest.raises(ValueError, match="`dtype` must be 'float64' for this form"):
        export(SUBJECT.model(), to=form, out=tmp_path, dtype="float32")
    assert not list(tmp_path.iterdir())
