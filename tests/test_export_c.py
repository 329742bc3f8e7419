"""The C export in parts: numbers that nothing rounds, layers as they were, compilers, and CasADi."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from compiled import STRICT, Compiled, needs_compiler
from tether.export import compiling, export
from tether.export.c import search
from tether.export.c.layers import layers_of
from tether.export.c.network import pack
from tether.export.c.numbers import literal, records, table
from tether.export.c.search import grow
from tether.export.verifying import verify
from tether.foundation.errors import CertificateError
from tether.model import mlp, weighted_sum
from tether.model.monotone import MonotoneNetwork

sys.path.append(str(Path(__file__).parent / "contract"))
from every_model import SUBJECTS, parts, scaled, written

(SUBJECT,) = (s for s in SUBJECTS if str(s) == "affine, angles, clip")


def test_literals_are_exact():
    rng = np.random.default_rng(0)
    drawn = rng.standard_normal(300) * 10.0 ** rng.integers(-300, 300, 300)
    for value in [*drawn, 5e-324, -0.5, 1.0, 0.0, 2.0**1023]:
        assert float.fromhex(literal(value)) == value
    for value in drawn[np.abs(drawn) < 1e30].astype(np.float32).tolist():
        assert float.fromhex(literal(value, "float").removesuffix("f")) == value
    assert (literal(np.inf), literal(-np.inf)) == ("INFINITY", "-INFINITY")
    with pytest.raises(ValueError, match="must hold numbers; got NaN"):
        literal(float("nan"))


def test_an_empty_table_has_one_number():
    assert table("int", "none", []) == "static const int none[1] = {\n    0\n};\n"


def test_a_word_that_is_longer_than_a_line_has_one_of_its_own():
    text = records("long", "kind", [["1" * 120], ["2"]])
    assert text.splitlines() == [
        "static const struct kind long[2] = {",
        f"    {{{'1' * 120}}},",
        "    {2}",
        "};",
    ]


def evaluate(layers, features):
    for layer in layers:
        features = features @ layer.weight.T + layer.bias
        last = layer.rising + layer.falling
        features[:, : layer.rising] = np.maximum(features[:, : layer.rising], 0)
        features[:, layer.rising : last] = np.minimum(features[:, layer.rising : last], 0)
    return features


@pytest.mark.parametrize(
    "network",
    [
        mlp(5, 3, (16, 9)),
        weighted_sum([mlp(5, 3, (16, 16), seed=k) for k in range(3)], torch.ones(3, 3)),
        MonotoneNetwork(5, 3, decreasing=[1, 4], hidden=(7, 6), slopes=torch.rand(3, 2)),
        MonotoneNetwork(5, 3, decreasing=[0], hidden=(8,)),
    ],
)
def test_layers_are_the_network(network):
    network = network.double().eval()
    features = np.random.default_rng(0).standard_normal((50, 5))
    with torch.no_grad():
        known = network(torch.from_numpy(features)).numpy()
    assert np.allclose(evaluate(layers_of(network), features), known, atol=1e-12)


def test_a_network_of_another_kind_is_refused(tmp_path):
    model = SUBJECT.model()
    model.network = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.Tanh())
    with pytest.raises(ValueError, match="must have a network that Tether makes; got Sequential"):
        export(model, to="c", out=tmp_path)


def test_nothing_is_added_up_between_networks_of_a_sum():
    members = [mlp(5, 3, (32, 32), seed=k) for k in range(4)]
    packed = pack(layers_of(weighted_sum(members, torch.ones(4, 3)))[1])
    assert packed.span[:, 1].tolist() == [32] * 8
    assert packed.weights.size == 4 * 32 * 32


def test_every_memory_is_in_one_leaf_of_the_search():
    for count in (1, 8, 256, 257, 1300):
        memories = np.random.default_rng(count).standard_normal((count, 3))
        tree = grow(memories, np.ones(3))
        assert sorted(np.concatenate(tree.members).tolist()) == list(range(count))
        assert max(map(len, tree.members)) <= 256


@needs_compiler
@pytest.mark.parametrize("kind", ["double", "float"])
@pytest.mark.parametrize("leaf", [32, 256, 1024])
def test_the_nearest_memory_is_exact_in_one_leaf_and_in_many(kind, leaf, tmp_path, monkeypatch):
    monkeypatch.setattr(search, "_LEAF", leaf)
    rng, number = np.random.default_rng(0), {"double": np.float64, "float": np.float32}[kind]
    # On a coarse grid, so that there are equals, of which the first is the nearest.
    memories = (rng.integers(-4, 5, (700, 3)) / 4).astype(number)
    points = np.concatenate([rng.integers(-20, 20, (500, 3)) / 8, 2 * rng.standard_normal((500, 3))])
    # So far away that nothing but rounding tells memories apart, and so far that distances are infinite.
    far = rng.standard_normal((300, 3)) * 10.0 ** rng.uniform(3, {"double": 300, "float": 37}[kind], (300, 1))
    points = np.ascontiguousarray(np.concatenate([points, far]), number)
    ones = np.ones(3, number)
    scaling = (ones, None) if kind == "double" else (None, ones)
    code = search.search_code(memories, *scaling, kind).replace("REAL", kind).replace("@", "m")
    loop = (
        f"void all(long rows, const {kind} *x, int *found);\nvoid all(long rows, const {kind} *x, int *found)\n"
        f"{{\n    long k;\n    {kind} squared;\n"
        "    for (k = 0; k < rows; ++k) found[k] = m_nearest(x + 3 * k, &squared);\n}\n"
    )
    (tmp_path / "search.c").write_text("#include <math.h>\n" + code + loop)
    command = ["cc", *STRICT, "-O2", "-shared", "-fPIC", "search.c", "-o", "search.so", "-lm"]
    subprocess.run(command, cwd=tmp_path, check=True)
    found = np.empty(len(points), np.int32)
    places = [own.ctypes.data_as(ctypes.c_void_p) for own in (points, found)]
    ctypes.CDLL(str(tmp_path / "search.so")).all(ctypes.c_long(len(points)), *places)
    total = np.zeros((len(points), len(memories)), number)
    with np.errstate(over="ignore"):
        for d in range(3):
            gap = points[:, d, None] - memories[:, d]
            total += gap * gap
    assert np.array_equal(found, total.argmin(axis=1))


@needs_compiler
def test_the_header_is_cpp_too_and_a_program_in_c_runs(tmp_path):
    export(SUBJECT.model(), to="c", out=tmp_path, name="cart")
    (tmp_path / "main.c").write_text(
        '#include <stdio.h>\n#include "cart.h"\nint main(void)\n{\n'
        "    double state[CART_STATES] = {0.2, 0.5}, control[CART_CONTROLS] = {0.1}, next[CART_OUTPUTS];\n"
        '    if (cart_predict(state, control, next, 0, 0, 0)) printf("%.17g %.17g", next[0], next[1]);\n'
        "    return 0;\n}\n"
    )
    command = ["cc", *STRICT, "main.c", "cart.c", "-o", "main", "-lm"]
    subprocess.run(command, cwd=tmp_path, check=True)
    said = subprocess.run(["./main"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    known = SUBJECT.model().predict([[0.2, 0.5]], [[0.1]])[0]
    assert np.allclose([float(word) for word in said.split()], known, rtol=0, atol=1e-15)


@needs_compiler
def test_arithmetic_that_voids_the_guarantee_does_not_compile(tmp_path):
    export(SUBJECT.model(), to="c", out=tmp_path, name="cart")
    command = ["cc", "-std=c99", "-ffast-math", "-c", "cart.c"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode != 0
    assert "compile without -ffast-math" in ended.stderr


def test_without_a_compiler_there_is_one_line(monkeypatch, tmp_path):
    monkeypatch.setattr(compiling.shutil, "which", lambda name: None)
    monkeypatch.setattr(compiling, "find_spec", lambda name: None)
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(
        ValueError, match=r"must have a C compiler; there is none.*`pip install 'tether-dynamics\[compile\]'`"
    ):
        export(SUBJECT.model(), to="casadi", out=tmp_path)
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(compiling, "find_spec", lambda name: True)
    assert compiling.compiler()[1:] == ["-m", "ziglang", "cc"]


def test_a_compiler_that_fails_is_one_line(monkeypatch, tmp_path):
    for command, message in (("false", "must compile C99"), ("no-such-compiler", "must be a C compiler")):
        monkeypatch.setenv("CC", command)
        with pytest.raises(ValueError, match=message):
            export(SUBJECT.model(), to="casadi", out=tmp_path)
    assert not list(tmp_path.iterdir())


@needs_compiler
def test_casadi_loads_the_model_with_its_jacobian(tmp_path):
    casadi = pytest.importorskip("casadi")
    model = SUBJECT.model()
    library = export(model, to="casadi", out=tmp_path, name="cart")[-1]
    function = casadi.external("cart", str(library))
    details = casadi.external("cart_details", str(library))
    jacobian = function.jacobian()
    assert "jac_cart" in str(jacobian)
    inputs = SUBJECT.inputs(30)
    known = model.predict(*parts(inputs), details=True)
    library = model.linearize(*parts(inputs), across=True)
    slopes = library.states, library.controls
    for row, (state, control) in enumerate(zip(*parts(inputs), strict=True)):
        assert np.allclose(function(state, control).full()[:, 0], known.next_states[row], atol=1e-12)
        by_state, by_control = jacobian(state, control, 0)
        assert np.allclose(by_state.full(), slopes[0][row], atol=1e-12)
        assert np.allclose(by_control.full(), slopes[1][row], atol=1e-12)
        found = [part.full()[:, 0] for part in details(state, control)]
        assert np.array_equal(found[3], known.delta[row])
        assert found[4][0] == known.in_domain[row]


@needs_compiler
def test_slopes_across_leaves_are_those_of_m(tmp_path):
    """Of a cart that is pinned at rest, whose A has no slope along the heading within a leaf."""
    compiled = Compiled(scaled(SUBJECT.model(), 0.0), tmp_path / "made")
    rng = np.random.default_rng(2)
    states, controls = rng.uniform([-0.8, -2], [0.8, 2], (200, 2)), rng.uniform(-0.8, 0.8, (200, 1))
    known = 0.1 * np.cos(states[:, 1]) * controls[:, 0]
    within, across = (compiled.linearize(states, controls, across=own)[0][:, 0, 1] for own in (False, True))
    assert np.abs(across - known).max() < 0.01
    assert np.abs(within - known).max() > 0.03


def test_a_torch_program_is_not_vouched_for_in_one_line(tmp_path):
    with pytest.raises(
        CertificateError, match=r"not verified: .*is a torch program, of which nothing is shown"
    ):
        verify(tmp_path / "model.pt2", SUBJECT.trusted)


def test_the_command_line_exports_and_verifies(tmp_path):
    from typer.testing import CliRunner

    from tether.cli import app

    model = written(SUBJECT, tmp_path)
    spec = f"{sys.modules['every_model'].__file__}:turning"
    made = tmp_path / "out"
    words = ["export", str(model), "--to", "c", "--out", str(made), "--name", "cart"]
    assert CliRunner().invoke(app, words).exit_code == 0
    found = CliRunner().invoke(app, ["verify", str(made / "cart.c"), "--trusted", spec])
    assert found.exit_code == 0, found.output
    assert "Every line of the C file" in " ".join(found.output.split())
    again = CliRunner().invoke(app, words)
    assert again.exit_code != 0
    assert isinstance(again.exception, ValueError) and "must be a new file" in str(again.exception)
