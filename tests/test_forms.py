"""Trusted models in other forms: each becomes NumPy source that says what the original says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import tether
from tether.data import Array, make_schema
from tether.evidence import Question, strongest
from tether.foundation.errors import TrustedModelError
from tether.programs import enclose, trace
from tether.trusted import Translation, TrustedModel, as_trusted, check_trusted
from tether.trusted.forms.form import needed
from tether.verification.tracing import trace as trace_again

SCHEMA = make_schema(["angle", "speed"], ["torque"])
INPUTS = np.random.default_rng(0).uniform(-2, 2, (300, 3))
LOWER, UPPER = np.array([[0.1, 0.2, -0.3]]), np.array([[0.3, 0.4, 0.3]])


def reference(states: Array, controls: Array) -> Array:
    """The pendulum that all forms below are."""
    angle, speed = states[:, 0], states[:, 1]
    drag = np.where(speed > 0, speed**2, -(speed**2))
    speed = speed + 0.05 * (controls[:, 0] - 9.81 * np.sin(angle) - drag)
    return np.stack([angle + 0.05 * speed, np.clip(speed, -2.5, 2.5)], axis=1)


def of_sympy():
    sympy = pytest.importorskip("sympy")
    angle, speed, torque = sympy.symbols("angle speed torque")
    drag = sympy.Piecewise((speed**2, speed > 0), (-(speed**2), True))
    after = speed + sympy.Float("0.05") * (torque - sympy.Float("9.81") * sympy.sin(angle) - drag)
    clipped = sympy.Min(sympy.Max(after, -2.5), 2.5)
    return sympy.Matrix([angle, speed, torque]), sympy.Matrix([angle + after / 20, clipped])


def of_casadi():
    casadi = pytest.importorskip("casadi")
    x, u = casadi.MX.sym("x", 2), casadi.MX.sym("u")
    drag = casadi.if_else(x[1] > 0, x[1] ** 2, -(x[1] ** 2))
    after = x[1] + 0.05 * (u - 9.81 * casadi.sin(x[0]) - drag)
    clipped = casadi.fmin(casadi.fmax(after, -2.5), 2.5)
    return casadi.Function("pendulum", [x, u], [casadi.vertcat(x[0] + 0.05 * after, clipped)])


class Pendulum(nn.Module):
    def forward(self, states, controls):
        drag = torch.where(states[:, 1] > 0, states[:, 1] ** 2, -(states[:, 1] ** 2))
        after = states[:, 1] + 0.05 * (controls[:, 0] - 9.81 * torch.sin(states[:, 0]) - drag)
        return torch.stack([states[:, 0] + 0.05 * after, torch.clamp(after, -2.5, 2.5)], dim=1)


def of_onnx():
    onnx = pytest.importorskip("onnx")
    node, tensor = onnx.helper.make_node, onnx.helper.make_tensor
    double = onnx.TensorProto.DOUBLE

    def number(name, *values):
        return tensor(name, double, [len(values)] if len(values) > 1 else [], values)

    nodes = [
        node("Split", ["s", "one_one"], ["angle", "speed"], axis=1),
        node("Sin", ["angle"], ["sine"]),
        node("Mul", ["sine", "gravity"], ["pull"]),
        node("Mul", ["speed", "speed"], ["square"]),
        node("Neg", ["square"], ["minus"]),
        node("Greater", ["speed", "zero"], ["forward"]),
        node("Where", ["forward", "square", "minus"], ["drag"]),
        node("Sub", ["c", "pull"], ["less"]),
        node("Sub", ["less", "drag"], ["rate"]),
        node("Mul", ["rate", "step"], ["change"]),
        node("Add", ["speed", "change"], ["after"]),
        node("Mul", ["after", "step"], ["turn"]),
        node("Add", ["angle", "turn"], ["turned"]),
        node("Clip", ["after", "least", "most"], ["clipped"]),
        node("Concat", ["turned", "clipped"], ["y"], axis=1),
    ]
    constants = [
        number("gravity", 9.81), number("zero", 0.0), number("step", 0.05), number("least", -2.5),
        number("most", 2.5), tensor("one_one", onnx.TensorProto.INT64, [2], [1, 1]),
    ]  # fmt: skip
    value = onnx.helper.make_tensor_value_info
    inputs = [value("s", double, ["n", 2]), value("c", double, ["n", 1])]
    graph = onnx.helper.make_graph(nodes, "pendulum", inputs, [value("y", double, ["n", 2])], constants)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)


FORMS = {"SymPy": of_sympy, "CasADi": of_casadi, "torch": Pendulum, "ONNX": of_onnx}


@pytest.mark.parametrize("name", FORMS)
def test_a_pendulum_in_every_form_is_the_pendulum(name: str) -> None:
    trusted = as_trusted(FORMS[name]())
    check_trusted(trusted, INPUTS, SCHEMA)
    assert trusted.translation is not None and trusted.translation.form == name
    states, controls = INPUTS[:, :2], INPUTS[:, 2:]
    np.testing.assert_allclose(trusted.function(states, controls), reference(states, controls), atol=1e-14)
    assert f"Translated from {name}" in (trusted.source or "") and "np.sin" in (trusted.source or "")


@pytest.mark.parametrize("name", FORMS)
def test_what_is_translated_is_enclosed_as_what_is_written(name: str) -> None:
    trusted = as_trusted(FORMS[name]())
    ours, theirs = (enclose(f, LOWER, UPPER, states=2) for f in (trusted.function, reference))
    np.testing.assert_allclose(ours.lower, theirs.lower, rtol=1e-9)
    np.testing.assert_allclose(ours.jacobian_upper, theirs.jacobian_upper, rtol=1e-9)
    points = np.random.default_rng(1).uniform(LOWER, UPPER, (1000, 3))
    values = trusted.function(points[:, :2], points[:, 2:])
    assert (ours.lower <= values).all() and (values <= ours.upper).all()


@pytest.mark.parametrize("name", FORMS)
def test_the_verifier_follows_it_too(name: str) -> None:
    trusted = as_trusted(FORMS[name]())
    assert len(trace(trusted.function, states=2, controls=1).tape.outputs) == 2
    assert trace_again(trusted.function, states=2, controls=1, outputs=2) is not None


@pytest.mark.parametrize("name", FORMS)
def test_a_form_is_read_the_same_each_time(name: str) -> None:
    one, two = as_trusted(FORMS[name]()), as_trusted(FORMS[name]())
    assert one.source_digest == two.source_digest and one.function is two.function


def test_weights_are_part_of_the_digest() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    before = as_trusted(net).source_digest
    with torch.no_grad():
        net[0].weight[0, 0] += 1e-3
    assert as_trusted(net).source_digest != before


@pytest.mark.parametrize(
    "layer", [nn.Tanh(), nn.ReLU(), nn.Sigmoid(), nn.SiLU(), nn.Softplus(), nn.Softsign(), nn.LeakyReLU(0.2),
              nn.ELU(0.7), nn.Hardtanh(-0.5, 0.6), nn.ReLU6(), nn.Dropout(0.5), nn.BatchNorm1d(5), nn.LayerNorm(5)],
    ids=lambda v: type(v).__name__,
)  # fmt: skip
def test_layers_are_what_torch_computes(layer: nn.Module) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 5), layer, nn.Linear(5, 2))
    net(torch.randn(50, 3))  # what a layer keeps of its rows is part of it
    trusted = as_trusted(net)
    check_trusted(trusted, INPUTS, SCHEMA)
    assert trusted.translation is not None


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 2, bias=False))
        self.scale = nn.Parameter(torch.tensor([0.1, 0.3]))

    def forward(self, inputs):
        mean = torch.mean(inputs, dim=-1, keepdim=True)
        one, two, three = inputs.unbind(1)
        first, last = torch.split(inputs, [1, 2], dim=1)
        head, _, tail = torch.chunk(inputs, 3, dim=-1)
        rest = first * last + torch.stack([one * two, three], 1) + head * tail
        return inputs[..., :2] + self.scale * self.net(inputs) + torch.cat([mean, mean.sin()], dim=1) + rest


def test_a_module_with_structure_of_its_own() -> None:
    trusted = as_trusted(Residual())
    check_trusted(trusted, INPUTS, SCHEMA)
    found = enclose(trusted.function, LOWER, UPPER, states=2)
    assert (found.lower < found.upper).all()


@pytest.mark.parametrize("fixed", [False, True])
def test_an_onnx_file_of_float32_by_its_path(tmp_path: Path, fixed: bool) -> None:
    onnx = pytest.importorskip("onnx")
    rng, path = np.random.default_rng(0), tmp_path / "net.onnx"
    arrays = {"w": rng.normal(size=(6, 3)), "b": rng.normal(size=6), "v": rng.normal(size=(6, 2))}
    value, single = onnx.helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        [
            onnx.helper.make_node("Gemm", ["x", "w", "b"], ["h"], transB=1),
            onnx.helper.make_node("Relu", ["h"], ["r"]),
            onnx.helper.make_node("MatMul", ["r", "v"], ["y"]),
        ],
        "net",
        [value("x", single, [1 if fixed else "n", 3])],
        [value("y", single, [1 if fixed else "n", 2])],
        [onnx.numpy_helper.from_array(a.astype(np.float32), k) for k, a in arrays.items()],
    )
    opset = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=9), path)
    trusted = tether.load_trusted(str(path))
    check_trusted(trusted, INPUTS, SCHEMA)
    assert trusted.name == "net_onnx"
    assert as_trusted(path).source_digest == trusted.source_digest


def test_a_translation_that_is_wrong_is_found() -> None:
    wrong = TrustedModel(reference, translation=Translation("Test", lambda s, u: reference(s, u) + 1e-6))
    with pytest.raises(TrustedModelError, match="must be what it was translated from; Test says"):
        check_trusted(wrong, INPUTS, SCHEMA)


def test_one_that_differs_only_between_the_data_is_found() -> None:
    def elsewhere(states, controls):
        return reference(states, controls) + 1e-3 * (np.abs(states[:, :1]) < 0.3)

    corners = np.array(np.meshgrid([-1, 1], [-1, 1], [-1, 1])).reshape(3, -1).T.astype(float)
    with pytest.raises(TrustedModelError, match="must be what it was translated from"):
        check_trusted(TrustedModel(reference, translation=Translation("Test", elsewhere)), corners, SCHEMA)


def of_what_is_not_translated():
    sympy, casadi = pytest.importorskip("sympy"), pytest.importorskip("casadi")
    a, b, u = sympy.symbols("a b u")
    x, v = casadi.MX.sym("x", 2), casadi.MX.sym("v")
    table = casadi.interpolant("table", "linear", [[-3.0, 0.0, 3.0]], [0.0, 1.0, 4.0])
    torch.manual_seed(0)
    return {
        "`erf`": ((sympy.Matrix([a, b, u]), sympy.Matrix([sympy.erf(a), b + u])), lambda s, c: s[:, 1] + c[:, 0]),
        "OP_CALL": (casadi.Function("f", [x, v], [casadi.vertcat(table(x[0]), x[1] + v)]),
                    lambda s, c: s[:, 1] + c[:, 0]),
        "a layer `GELU`": (nn.Sequential(nn.Linear(3, 2), nn.GELU()), None),
        "torch.fx cannot follow": (Counting(), lambda s, c: -s[:, 1]),
    }  # fmt: skip


@pytest.mark.parametrize("construct", ["`erf`", "OP_CALL", "a layer `GELU`", "torch.fx cannot follow"])
def test_what_is_not_translated_is_a_black_box_and_says_why(construct: str) -> None:
    given, second = of_what_is_not_translated()[construct]
    trusted = as_trusted(given)
    check_trusted(trusted, INPUTS, SCHEMA)
    assert trusted.source is None and trusted.source_digest is None
    states, controls = INPUTS[:, :2], INPUTS[:, 2:]
    if second is not None:
        np.testing.assert_allclose(
            np.asarray(trusted.function(states, controls))[:, 1], second(states, controls)
        )
    question = Question(trusted, SCHEMA, "increment", INPUTS.min(axis=0), INPUTS.max(axis=0))
    level, why = strongest(trusted, "affine", question)
    assert level.name == "statistical" and why is not None
    assert why.startswith(f"M ({trusted.name}) cannot be proved: this ") and construct in why


def test_an_onnx_operation_that_is_not_known_is_computed_by_onnx_runtime() -> None:
    onnx = pytest.importorskip("onnx")
    value, single = onnx.helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Softmax", ["x"], ["h"]), onnx.helper.make_node("MatMul", ["h", "w"], ["y"])],
        "net", [value("x", single, ["n", 3])], [value("y", single, ["n", 2])],
        [onnx.numpy_helper.from_array(np.ones((3, 2), dtype=np.float32), "w")],
    )  # fmt: skip
    opset = [onnx.helper.make_opsetid("", 17)]
    trusted = as_trusted(onnx.helper.make_model(graph, opset_imports=opset, ir_version=9))
    check_trusted(trusted, INPUTS, SCHEMA)
    assert trusted.black_box == "this ONNX model has an operation `Softmax`, which is not translated"


def test_what_has_no_meaning_as_a_model_is_refused() -> None:
    sympy, casadi = pytest.importorskip("sympy"), pytest.importorskip("casadi")
    x, y = sympy.symbols("x y")
    with pytest.raises(ValueError, match="must name all its symbols among the inputs; got y"):
        as_trusted((sympy.Matrix([x]), sympy.Matrix([x + y])))
    with pytest.raises(ValueError, match=r"the first of symbols; got x \+ y. Inputs come first"):
        as_trusted(([x + y], [x]))
    with pytest.raises(ValueError, match="must name each input once"):
        as_trusted(([x, x], [x]))
    with pytest.raises(
        ValueError, match="must be of real, finite numbers: this SymPy model has `ImaginaryUnit`"
    ):
        as_trusted(([x], [x + sympy.I]))
    s = casadi.SX.sym("s")
    with pytest.raises(ValueError, match="3 inputs"):
        as_trusted(casadi.Function("f", [s, casadi.SX.sym("a"), casadi.SX.sym("b")], [s]))
    with pytest.raises(TypeError, match="must be a model, not its class; got Residual"):
        as_trusted(Residual)
    with pytest.raises(TypeError, match="A JAX function must be under jax.jit"):
        as_trusted(reference, states=2, controls=1)
    with pytest.raises(TrustedModelError, match="the model takes 5 inputs"):
        check_trusted(as_trusted(nn.Sequential(nn.Linear(5, 2))), INPUTS, SCHEMA)
    with pytest.raises(TrustedModelError, match="A function of torch's tensors must be an `nn.Module`"):
        check_trusted(as_trusted(lambda s, u: torch.stack([s[:, 0], s[:, 1]])), INPUTS, SCHEMA)


def test_symbols_in_another_order_than_the_columns_are_noticed() -> None:
    sympy = pytest.importorskip("sympy")
    angle, speed, torque = sympy.symbols("angle speed torque")
    rate = ([torque, angle, speed], [speed, torque, angle])
    with pytest.raises(
        TrustedModelError, match=r"order of the columns, angle, speed, torque; got torque, angle"
    ):
        check_trusted(as_trusted(rate), INPUTS, SCHEMA)
    with pytest.raises(TrustedModelError, match="order of the columns"):
        check_trusted(tether.discretise(rate, 0.1), INPUTS, SCHEMA)


def test_symbols_of_mechanics_are_symbols() -> None:
    sympy = pytest.importorskip("sympy")
    time, torque = sympy.Symbol("t"), sympy.Symbol("torque")
    angle = sympy.Function("angle")(time)
    after = angle.diff(time) + (torque - 9.81 * sympy.sin(angle)) / 20
    trusted = as_trusted(([angle, angle.diff(time), torque], [angle + after / 20, after]))
    check_trusted(trusted, INPUTS, SCHEMA)
    assert trusted.translation is not None
    with pytest.raises(ValueError, match="among the inputs; got Derivative"):
        as_trusted(([angle, torque], [angle, after]))


class Counting(nn.Module):
    def forward(self, states, controls):
        return -states if len(states) > 0 else controls


def test_a_missing_library_is_named() -> None:
    with pytest.raises(ValueError, match=r"Run `pip install no_such_library`"):
        needed("no_such_library.part")


@pytest.mark.parametrize("suffix", [".onnx", ".xml"])
def test_a_file_that_is_not_there(suffix: str) -> None:
    with pytest.raises(ValueError, match="must name an existing file"):
        tether.load_trusted(f"nowhere{suffix}")


def _added_where_nobody_looks(nodes, **constants):
    """x, and what `nodes` make beside it, times a bump a millionth wide: no comparison at points shows it."""
    onnx = pytest.importorskip("onnx")
    node, value, double = onnx.helper.make_node, onnx.helper.make_tensor_value_info, onnx.TensorProto.DOUBLE
    bump = [node("Greater", ["x", "low"], ["more"]), node("Less", ["x", "high"], ["less"])]
    bump += [node("Cast", [name], [f"{name}_"], to=double) for name in ("more", "less")]
    bump += [node("Mul", ["more_", "less_"], ["bump"])]
    last = [node("Mul", ["bump", "made"], ["on"]), node("Add", ["x", "on"], ["y"])]
    arrays = {"low": np.array(0.3), "high": np.array(0.300001), **constants}
    graph = onnx.helper.make_graph(
        [*bump, *(node(*words, **options) for *words, options in nodes), *last], "g",
        [value("x", double, ["n", 2])], [value("y", double, ["n", 2])],
        [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )  # fmt: skip
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize(("kind", "one", "two", "words"), [
    ("Div", np.int64(1), np.int64(2), "`Div` of whole numbers"),
    ("Add", np.uint8(200), np.uint8(100), "`Add` of whole numbers"),
    ("Cast", None, None, "a Cast to float32"),
    ("ReduceSum", None, None, "all axes at once"),
])  # fmt: skip
def test_an_onnx_model_of_numbers_that_are_not_real_ones(kind, one, two, words) -> None:
    if kind == "ReduceSum":
        nodes, constants = [("ReduceSum", ["x"], ["made"], {})], {}
    elif kind == "Cast":
        nodes, constants = [("Cast", ["x"], ["c"], {"to": 1}), ("Cast", ["c"], ["made"], {"to": 11})], {}
    else:
        constants = {"one": np.array([one]), "two": np.array([two])}
        nodes = [(kind, ["one", "two"], ["c"], {}), ("Cast", ["c"], ["made"], {"to": 11})]
    trusted = as_trusted(_added_where_nobody_looks(nodes, **constants))
    assert words in trusted.black_box
    inputs = np.tile([[0.3000005, 0.1], [0.5, 0.2]], (2, 1))
    found = trusted.function(inputs[:, :2], inputs[:, 2:])
    assert (found[1] == inputs[1]).all() and (found[:2] == found[2:]).all()


def test_a_constant_that_an_onnx_model_rounds() -> None:
    nodes = [("Cast", ["one"], ["c"], {"to": 1}), ("Cast", ["c"], ["made"], {"to": 11})]
    trusted = as_trusted(_added_where_nobody_looks(nodes, one=np.array(0.1)))
    inputs = np.full((1, 2), 0.3000005)
    found = trusted.function(inputs[:, :2], inputs[:, 2:])
    assert (found == 0.3000005 + np.float64(np.float32(0.1))).all()


def test_a_torch_module_of_numbers_that_begin_again_at_0() -> None:
    class Wrapping(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("step", torch.tensor([200], dtype=torch.uint8))

        def forward(self, inputs):
            return inputs[:, :2] + (self.step + self.step)

    assert "uint8" in as_trusted(Wrapping()).black_box


def test_a_file_that_is_no_onnx(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    with pytest.raises(ValueError, match="must be an ONNX model; bad.onnx"):
        tether.load_trusted(tmp_path / "bad.onnx")


def test_sympy_functions_and_powers_are_sympys() -> None:
    sympy = pytest.importorskip("sympy")
    x, y, z = sympy.symbols("x y z")
    terms = sympy.Matrix(
        [
            (x**3 - 2 / (3 + y**2)) * sympy.sqrt(5 + z) ** -3 + sympy.atan2(y, 4 + x) + x**-2 * 0 + sympy.pi,
            sympy.Piecewise((x, sympy.And(x > 0, y > 0)), (y, sympy.Or(z > 1, sympy.Not(x < -1))), (z, True))
            + sympy.exp(-x) * abs(y) + sympy.sign(z) + sympy.Max(x, y, z) + (3 + x) ** sympy.Rational(5, 3),
        ]
    )  # fmt: skip
    check_trusted(as_trusted((sympy.Matrix([x, y, z]), terms)), INPUTS, SCHEMA)


def test_casadi_instructions_are_casadis() -> None:
    casadi = pytest.importorskip("casadi")
    x, u = casadi.SX.sym("x", 2), casadi.SX.sym("u")
    one = casadi.fmod(x[0] * 3, 0.7) + casadi.sqrt(x[1] ** 2 + 1) + (x[0] > u) * casadi.fabs(u) + 2 * x[1]
    two = casadi.if_else(casadi.logic_and(x[0] > 0, x[1] != u), 1 / (3 + u), x[0] ** 3) + casadi.exp(
        x[1] ** -2.0 * 0
    )
    check_trusted(as_trusted(casadi.Function("f", [x, u], [casadi.vertcat(one, two)])), INPUTS, SCHEMA)


def test_a_matrix_product_with_zeros_in_it() -> None:
    casadi = pytest.importorskip("casadi")
    x, u = casadi.MX.sym("x", 2), casadi.MX.sym("u")
    sparse = casadi.sparsify(casadi.DM([[1.0, 0.1], [0.0, 0.9]]))
    f = casadi.Function("f", [x, u], [sparse @ x + casadi.vertcat(0, u)])
    check_trusted(as_trusted(f), INPUTS, SCHEMA)
    constant = casadi.Function("g", [x, u], [casadi.vertcat(1.5, x[0])])
    check_trusted(as_trusted(constant), INPUTS, SCHEMA)


def test_jax_in_a_process_of_its_own() -> None:
    pytest.importorskip("jax")
    script = Path(__file__).with_name("jax_models.py")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "5 models" in done.stdout


def test_mujoco_is_a_black_box_with_derivatives() -> None:
    pytest.importorskip("mujoco")
    import mujoco

    from mujoco_models import PENDULUM, differences

    trusted = tether.load_trusted(mujoco.MjModel.from_xml_string(PENDULUM), frame_skip=5)
    assert trusted.black_box == "MuJoCo computes it, a black box" and trusted.jacobian is not None
    check_trusted(trusted, INPUTS, SCHEMA)
    exact = np.asarray(trusted.jacobian(INPUTS[:5, :2], INPUTS[:5, 2:]))
    np.testing.assert_allclose(exact, differences(trusted.function, INPUTS[:5]), atol=1e-5)


CARTS = """
import casadi, torch

x, u = casadi.SX.sym("x", 2), casadi.SX.sym("u")
plant = casadi.Function("cart", [x, u], [casadi.vertcat(x[0] + 0.1 * x[1], x[1] + 0.1 * u)])


class Cart(torch.nn.Module):
    def forward(self, states, controls):
        return states + 0.1 * torch.cat([states[:, 1:], controls], dim=1)


module = Cart()
"""


@pytest.mark.parametrize("name", ["plant", "module"])
def test_fitted_proved_saved_and_verified_from_a_file(name: str, cart, tmp_path: Path) -> None:
    pytest.importorskip("casadi")
    (tmp_path / "carts.py").write_text(CARTS)
    spec = f"{tmp_path / 'carts.py'}:{name}"
    config = tether.FitConfig(memories=10, hidden=(4,), training=tether.TrainingConfig(steps=5), leaves=16)
    model = tether.fit(cart, trusted=tether.load_trusted(spec), config=config)
    assert model.bounds.evidence.name == "proved"
    tether.save(model, tmp_path / "model.safetensors")
    assert tether.verify(tmp_path / "model.safetensors", tether.load_trusted(spec)).verified
