"""A graph of ONNX, put together node by node: operators on a list, constants by value, names by number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

OPSET = 17
"""Of ai.onnx: what a runtime must know at least."""
TREES = 3
"""Of ai.onnx.ml, for the search of leaves."""
_IR = 8
OPERATORS = frozenset(
    {
        "Abs", "Add", "And", "ArgMin", "Cast", "Concat", "Cos", "Div", "Equal", "Floor", "Gather", "GatherND",
        "Gemm", "Greater", "GreaterOrEqual", "Identity", "Less", "LessOrEqual", "MatMul", "Max", "Min", "Mul",
        "Or", "ReduceMax", "ReduceMin", "ReduceSum", "Relu", "Reshape", "Sigmoid", "Sign", "Sin", "Slice",
        "Sub", "Transpose", "TreeEnsembleRegressor", "Unsqueeze", "Where",
    }
)  # fmt: skip
"""All that an export may use: none has a state, a random number or a file of its own."""
_TYPES = {
    "float64": TensorProto.DOUBLE,
    "float32": TensorProto.FLOAT,
    "int64": TensorProto.INT64,
    "bool": TensorProto.BOOL,
}


class Builder:
    """Nodes and constants of one graph; every number of the tether has one type.

    Args:
        dtype: of the numbers, `float64` or `float32`.
    """

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    def __call__(self, operator: str, *given: str, **attributes: Any) -> str:
        """A node with one output; the name of that."""
        assert operator in OPERATORS
        name = f"{operator.lower()}_{len(self.nodes)}"
        domain = "ai.onnx.ml" if operator == "TreeEnsembleRegressor" else ""
        self.nodes.append(helper.make_node(operator, given, [name], name=name, domain=domain, **attributes))
        return name

    def constant(self, name: str, values: Any) -> str:
        """A table by name; what is no whole number is of the graph's type."""
        array = np.asarray(values)
        if array.dtype.kind == "f":
            array = array.astype(self.dtype)
        return self.table(name, array)

    def table(self, name: str, values: np.ndarray) -> str:
        """A table as it is."""
        held = self.constants.setdefault(name, values)
        assert held.tobytes() == values.tobytes() and held.dtype == values.dtype
        return name

    def held(self, name: str, arrays: Mapping[str, np.ndarray]) -> str:
        """One of several tables, by its name."""
        return self.table(name, arrays[name])

    def number(self, value: float) -> str:
        """A number of the graph's type."""
        return self.constant(f"number {value!r}", np.array(float(value)))

    def whole(self, value: int) -> str:
        """A whole number."""
        return self.constant(f"whole {value}", np.array(value, dtype=np.int64))

    def axes(self, *numbers: int) -> str:
        """Whole numbers that some operators take as an input."""
        return self.constant(f"axes {numbers}", np.array(numbers, dtype=np.int64))

    def cast(self, value: str, dtype: str) -> str:
        """In another type."""
        return self("Cast", value, to=_TYPES[dtype])

    def unsqueeze(self, value: str, axis: int) -> str:
        """With one axis more."""
        return self("Unsqueeze", value, self.axes(axis))

    def turned(self, value: str) -> str:
        """Rows and columns, the first two axes, changed for one another."""
        return self("Transpose", value, perm=[1, 0])

    def column(self, name: str, values: Any) -> str:
        """Numbers (m,) by name as (m, 1): one for each line of what is (m, N)."""
        return self.constant(name, np.asarray(values)[:, None])

    def lines(self, value: str, numbers: Any, name: str) -> str:
        """Some lines, by their numbers."""
        return self("Gather", value, self.constant(name, np.asarray(numbers, dtype=np.int64)), axis=0)

    def all(self, *flags: str) -> str:
        """(N,) whether each of flags (m, N) is set in all lines."""
        both = flags[0]
        for flag in flags[1:]:
            both = self("And", both, flag)
        least = self("ReduceMin", self.cast(both, "float32"), axes=[0], keepdims=0)
        return self("Greater", least, self.table("half", np.array(0.5, dtype=np.float32)))

    def total(self, value: str, axis: int) -> str:
        """Summed up over an axis, in whatever order."""
        return self("ReduceSum", value, self.axes(axis), keepdims=0)

    def sum(self, *terms: str) -> str:
        """Added up."""
        found = terms[0]
        for term in terms[1:]:
            found = self("Add", found, term)
        return found

    def takes(self, name: str, dtype: str, shape: list[Any]) -> str:
        """An input of the graph."""
        self.inputs.append(helper.make_tensor_value_info(name, _TYPES[dtype], shape))
        return name

    def gives(self, name: str, value: str, dtype: str, shape: list[Any]) -> None:
        """An output of the graph."""
        self.nodes.append(helper.make_node("Identity", [value], [name], name=name))
        self.outputs.append(helper.make_tensor_value_info(name, _TYPES[dtype], shape))

    def model(self, name: str, metadata: dict[str, str]) -> ModelProto:
        """The whole file."""
        tables = [numpy_helper.from_array(values, own) for own, values in self.constants.items()]
        graph: GraphProto = helper.make_graph(self.nodes, name, self.inputs, self.outputs, tables)
        versions = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", TREES)]
        made = helper.make_model(graph, opset_imports=versions, ir_version=_IR, producer_name="tether")
        helper.set_model_props(made, metadata)
        return made


def tensor(name: str, values: np.ndarray) -> Any:
    """An attribute's tensor."""
    return numpy_helper.from_array(values, name)


def described(one: ModelProto, other: ModelProto) -> str:
    """The first place in which two files differ, in words."""
    for kind in ("node", "initializer", "input", "output"):
        ours, theirs = (list(getattr(model.graph, kind)) for model in (one, other))
        for left, right in zip(ours, theirs, strict=False):
            if left.SerializeToString() != right.SerializeToString():
                return f"{kind} '{left.name:.60}'"
        if len(ours) != len(theirs):
            return f"number of its {kind}s"
    return "header or metadata"


__all__ = ["OPSET", "TREES", "Builder", "ModelProto", "described", "tensor"]
