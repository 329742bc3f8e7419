"""What stands for a model of torch or ONNX computes what that computes, or its own library is asked: a black box."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from tether.trusted import as_trusted

POINTS = np.random.default_rng(0).uniform(-1, 1, (50, 2))


class Collides(nn.Module):
    """Two layers whose names differ by a dot."""

    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(2, 2))
        self.f_0 = nn.Linear(2, 2)

    def forward(self, inputs):
        return torch.tanh(self.f(inputs)) + self.f_0(inputs)


class Tied(nn.Module):
    """One matrix, there and back."""

    def __init__(self):
        super().__init__()
        self.f = nn.Linear(2, 2)

    def forward(self, inputs):
        return torch.tanh(self.f(inputs)) @ self.f.weight


class Changes(nn.Module):
    """A layer that changes what is used again."""

    def __init__(self):
        super().__init__()
        self.f, self.g = nn.Linear(2, 2), nn.ReLU(inplace=True)

    def forward(self, inputs):
        hidden = self.f(inputs)
        return hidden + self.g(hidden)


class ChangesByName(nn.Module):
    """A method that changes what is used again."""

    def forward(self, inputs):
        hidden = 2.0 * inputs
        hidden.add_(1.0)
        return hidden


class Sharp(nn.Module):
    """A function that is a line above a threshold."""

    def __init__(self):
        super().__init__()
        self.f = nn.Softplus(threshold=0.1)

    def forward(self, inputs):
        return self.f(inputs)


class Plain(nn.Module):
    """Changes in place that nobody else sees."""

    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(2, 3), nn.ReLU(inplace=True), nn.Linear(3, 2))

    def forward(self, inputs):
        return self.f(inputs)


@pytest.mark.parametrize("kind", [Collides, Tied, Plain])
def test_what_is_translated_is_the_module(kind):
    torch.manual_seed(1)
    module = kind().double()
    wanted = module(torch.from_numpy(POINTS)).detach().numpy()
    np.testing.assert_allclose(as_trusted(module).function(POINTS, POINTS[:, :0]), wanted, atol=1e-12)


@pytest.mark.parametrize("kind", [Changes, ChangesByName, Sharp])
def test_what_is_not_translated_is_a_black_box(kind):
    torch.manual_seed(1)
    module = kind().double()
    wanted = module(torch.from_numpy(POINTS.copy())).detach().numpy()
    trusted = as_trusted(module)
    assert trusted.black_box.endswith("which is not translated") and trusted.source_digest is None
    given = POINTS.copy()
    np.testing.assert_array_equal(trusted.function(given, given[:, :0]), wanted)
    np.testing.assert_array_equal(given, POINTS)


def test_a_hook_is_no_part_of_a_proof():
    module = nn.Sequential(nn.Linear(2, 2))
    module[0].register_forward_hook(lambda layer, given, found: found + 1)
    trusted, plain = as_trusted(module), module[0].weight.detach().double().numpy()
    assert "a hook of" in trusted.black_box
    wanted = POINTS @ plain.T + module[0].bias.detach().double().numpy() + 1
    np.testing.assert_allclose(trusted.function(POINTS, POINTS[:, :0]), wanted, atol=1e-14)


def _onnx(nodes, functions=(), domains=()):
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper
    inputs = [helper.make_tensor_value_info("x", onnx.TensorProto.DOUBLE, ["N", 2])]
    outputs = [helper.make_tensor_value_info("y", onnx.TensorProto.DOUBLE, ["N", 2])]
    zero = helper.make_tensor("zero", onnx.TensorProto.DOUBLE, [1], [0.0])
    graph = helper.make_graph(nodes(helper), "graph", inputs, outputs, [zero])
    opsets = [helper.make_opsetid("", 17), *(helper.make_opsetid(name, 1) for name in domains)]
    return helper.make_model(graph, opset_imports=opsets, functions=functions, ir_version=8)


def test_conditions_that_are_added_are_numbers():
    def nodes(helper):
        return [
            helper.make_node("Greater", ["x", "zero"], ["c"]),
            helper.make_node("Cast", ["c"], ["n"], to=11),
            helper.make_node("Add", ["n", "n"], ["y"]),
        ]

    found = as_trusted(_onnx(nodes)).function(POINTS, POINTS[:, :0])
    np.testing.assert_array_equal(found, 2.0 * (POINTS > 0))


def test_an_operation_of_the_files_own_is_the_files():
    helper = pytest.importorskip("onnx").helper
    own = helper.make_function(
        "mine", "Sin", ["a"], ["b"], [helper.make_node("Cos", ["a"], ["b"])], [helper.make_opsetid("", 17)]
    )

    def nodes(helper):
        return [helper.make_node("Sin", ["x"], ["y"], domain="mine")]

    trusted = as_trusted(_onnx(nodes, [own], ["mine"]))
    assert "an operation `Sin` of mine" in trusted.black_box
    np.testing.assert_allclose(trusted.function(POINTS, POINTS[:, :0]), np.cos(POINTS), atol=1e-14)
