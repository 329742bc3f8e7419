"""An ONNX file or model of networks and elementwise operations: its graph, node by node.

One input (N, D), states and then controls, or two, states and controls. M is the graph in float64, with the
numbers that the file holds; one in float32 rounds otherwise, and is compared to its own precision.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tether.data import Array
from tether.foundation.documents import shorten
from tether.trusted.forms.form import Form, UntranslatedError, as_it_is, needed, refuse
from tether.trusted.forms.formulas import FORMULAS
from tether.trusted.forms.writing import Writer, make_function, number_text
from tether.trusted.model import Translation, TrustedModel

_SINGLE = 1e-4
"""Relative: roundings of float32 through some layers."""
_NAMES = {
    "less": "lt", "lessorequal": "le", "greater": "gt", "greaterorequal": "ge", "equal": "eq",
    "leakyrelu": "leaky_relu",
}  # fmt: skip
_NUMBERS = ("value_float", "value_floats", "value_int", "value_ints")
_FLOATS = {1: np.float32, 11: np.float64}
_SKIPPED = ("Identity", "Cast", "Dropout")


def _holds(value: Any) -> bool:
    return isinstance(value, sys.modules["onnx"].ModelProto)


def _read(given: Any, *, states: int | None = None, controls: int | None = None) -> TrustedModel:
    onnx, runtime = needed("onnx"), needed("onnxruntime")
    del states, controls
    name = given.name if isinstance(given, Path) else "an ONNX model"
    try:
        model = onnx.load(given) if isinstance(given, Path) else given
        onnx.checker.check_model(model)
    except Exception as error:
        raise ValueError(f"`trusted` must be an ONNX model; {name}: {shorten(error)}.") from None
    graph = model.graph
    fixed = {array.name: onnx.numpy_helper.to_array(array) for array in graph.initializer}
    inputs = [value for value in graph.input if value.name not in fixed]
    if len(inputs) not in (1, 2) or len(graph.output) != 1:
        raise ValueError(
            f"`trusted` must be an ONNX model of inputs, or of states and controls, with one output; got "
            f"{len(inputs)} inputs and {len(graph.output)} outputs."
        )
    kind = onnx.helper.tensor_dtype_to_np_dtype(inputs[0].type.tensor_type.elem_type)
    about = runtime, model.SerializeToString(), [value.name for value in inputs], kind
    try:
        function = _translated(onnx, graph, fixed, inputs, name, np.dtype(kind).itemsize)
    except UntranslatedError as error:
        return as_it_is(error, _original(*about, alone=True), name)
    original = _original(*about)
    tolerance = 1e-9 if kind == np.float64 else _SINGLE
    return TrustedModel(function, translation=Translation("ONNX", original, tolerance))


def _translated(
    onnx: Any, graph: Any, fixed: dict[str, Any], inputs: list[Any], name: str, width: int
) -> Any:
    reading = _Reading(onnx, fixed, width)
    texts = ("inputs",) if len(inputs) == 1 else ("states", "controls")
    reading.names.update(zip((value.name for value in inputs), texts, strict=True))
    for node in graph.node:
        reading.read(node)
    body = [*reading.writer.lines, f"return {reading.text(graph.output[0].name)}"]
    sizes = [value.type.tensor_type.shape.dim[-1].dim_value for value in inputs]
    count = sum(sizes) if all(sizes) else None
    return make_function(body, reading.arrays, inputs=count, form="ONNX", name=name)


def _original(
    runtime: Any, content: bytes, names: list[str], kind: Any, *, alone: bool = False
) -> Callable[[Array, Array], Array]:
    """By ONNX Runtime; with `alone` row by row, as others may be rounded or counted with a row."""

    def original(states: Array, controls: Array) -> Array:
        session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
        both = [np.concatenate([states, controls], axis=1)] if len(names) == 1 else [states, controls]
        parts = [part.astype(kind) for part in both]
        single = isinstance(session.get_inputs()[0].shape[0], int)  # made for so many rows, and no other
        count = session.get_inputs()[0].shape[0] if single else 1 if alone else len(states)
        answers = []
        for k in range(0, len(states), count):
            rows = [np.resize(part[k : k + count], (count, part.shape[1])) for part in parts]
            answers.append(session.run(None, dict(zip(names, rows, strict=True)))[0])
        return np.concatenate(answers)[: len(states)].astype(np.float64)

    return original


class _Reading:
    def __init__(self, onnx: Any, fixed: dict[str, Any], width: int) -> None:
        self.onnx, self.fixed, self.writer, self.width = onnx, fixed, Writer(), width
        self.names: dict[str, str] = {}
        self.arrays: dict[str, Array] = {}

    def text(self, name: str) -> str:
        """What a value is called in the source; a single number is itself."""
        if name in self.fixed:
            array = np.asarray(self.fixed[name])
            if array.size == 1:
                return number_text(array.item())
            kept = f"a{len(self.arrays)}"
            kept = next((k for k, v in self.arrays.items() if v is array), kept)
            self.arrays[kept] = array
            return kept
        return self.names[name]

    def constant(self, name: str) -> list[int]:
        """Whole numbers that say how, not what."""
        if name not in self.fixed:
            raise refuse("ONNX model", "shapes that it computes")
        return [int(value) for value in np.ravel(self.fixed[name])]

    def read(self, node: Any) -> None:
        """Adds what a node computes."""
        options = {a.name: self.onnx.helper.get_attribute_value(a) for a in node.attribute}
        kind, out = node.op_type, node.output[0]
        if node.domain not in ("", "ai.onnx"):
            raise refuse("ONNX model", f"an operation `{kind}` of {node.domain}")
        if kind == "Constant":
            self._constant(out, options)
        elif kind in _SKIPPED:
            self._passed(kind, node.input[0], out, options)
        elif self._counts(node):
            raise refuse("ONNX model", f"`{kind}` of whole numbers, which is not what it is of real ones")
        elif kind == "Split":
            self._split(node, options)
        elif kind in _NODES:
            self.names[out] = self.writer.write(_NODES[kind](self, list(node.input), options))
        else:
            self.names[out] = self._elementwise(kind, [self.text(name) for name in node.input], options)

    def _constant(self, out: str, options: dict[str, Any]) -> None:
        value = options.get("value")
        known = [options[name] for name in _NUMBERS if name in options]
        if value is None and not known:
            raise refuse("ONNX model", "a Constant that is no number")
        self.fixed[out] = np.array(known[0]) if known else self.onnx.numpy_helper.to_array(value)

    def _passed(self, kind: str, given: str, out: str, options: dict[str, Any]) -> None:
        """What stays what it is, or becomes a number."""
        if kind == "Cast" and options["to"] not in _FLOATS:
            raise refuse("ONNX model", "a Cast to other than floats")
        if given in self.fixed:
            array = np.asarray(self.fixed[given])
            self.fixed[out] = array.astype(_FLOATS[options["to"]]) if kind == "Cast" else array
        elif kind == "Cast":
            # What a narrower one rounds off is not followed, and may matter where no comparison looks.
            if np.dtype(_FLOATS[options["to"]]).itemsize < self.width:
                raise refuse("ONNX model of float64", "a Cast to float32")
            self.names[out] = self.writer.write(f"{self.text(given)} * 1.0")  # of conditions
        else:
            self.names[out] = self.text(given)

    def _counts(self, node: Any) -> bool:
        """Whether what it works on are whole numbers: these are all fixed, for nothing is made one."""
        known = self.fixed.get(node.input[0]) if node.input else None
        return known is not None and np.asarray(known).dtype.kind in "iu"

    def _elementwise(self, kind: str, parts: list[str], options: dict[str, Any]) -> str:
        name = _NAMES.get(kind.lower(), kind.lower())
        if name in ("leaky_relu", "elu"):
            parts.append(number_text(options.get("alpha", 0.01 if name == "leaky_relu" else 1.0)))
        if name in ("min", "max"):
            found = parts[0]
            for part in parts[1:]:
                found = self.writer.write(f"np.{name}imum({found}, {part})")
            return found
        if name not in FORMULAS:
            raise refuse("ONNX model", f"an operation `{kind}`")
        return self.writer.write(FORMULAS[name].format(*parts))

    def _split(self, node: Any, options: dict[str, Any]) -> None:
        if len(node.input) < 2:
            raise refuse("ONNX model", "a Split without sizes")
        axis, start, text = options.get("axis", 0), 0, self.text(node.input[0])
        for size, out in zip(self.constant(node.input[1]), node.output, strict=True):
            self.names[out] = self.writer.write(
                f"np.take({text}, {list(range(start, start + size))}, {axis})"
            )
            start += size


def _gemm(reading: _Reading, names: list[str], options: dict[str, Any]) -> str:
    one, two = (
        reading.text(name) + (".T" if options.get(turned) else "")
        for name, turned in zip(names, ("transA", "transB"), strict=False)
    )
    alpha, beta = options.get("alpha", 1.0), options.get("beta", 1.0)
    text = f"{one} @ {two}" if alpha == 1 else f"{number_text(alpha)} * ({one} @ {two})"
    if len(names) < 3:
        return text
    return f"{text} + {reading.text(names[2])}" + ("" if beta == 1 else f" * {number_text(beta)}")


def _clip(reading: _Reading, names: list[str], options: dict[str, Any]) -> str:
    text = reading.text(names[0])
    for place, key, name in ((1, "min", "maximum"), (2, "max", "minimum")):
        if len(names) > place and names[place]:
            text = f"np.{name}({text}, {reading.text(names[place])})"
        elif key in options:
            text = f"np.{name}({text}, {number_text(options[key])})"
    return text


def _slice(reading: _Reading, names: list[str], options: dict[str, Any]) -> str:
    if len(names) < 3:
        raise refuse("ONNX model", "a Slice of an old opset")
    starts, ends = reading.constant(names[1]), reading.constant(names[2])
    axes = reading.constant(names[3]) if len(names) > 3 and names[3] else list(range(len(starts)))
    steps = reading.constant(names[4]) if len(names) > 4 else [1] * len(starts)
    if any(axis < 0 for axis in axes):
        raise refuse("ONNX model", "a Slice along an axis counted from the end")
    parts = dict(zip(axes, zip(starts, ends, steps, strict=True), strict=True))
    shown = [":".join(map(str, _bounded(parts[k]))) if k in parts else ":" for k in range(max(axes) + 1)]
    return f"{reading.text(names[0])}[{', '.join(shown)}]"


def _bounded(part: tuple[int, int, int]) -> tuple[Any, ...]:
    """Ends beyond any array are left out, as Python does."""
    start, end, step = part
    return start, "" if end >= 2**31 - 1 else end, step


def _gather(reading: _Reading, names: list[str], options: dict[str, Any]) -> str:
    index = reading.constant(names[1])
    shown = str(index[0]) if np.ndim(reading.fixed[names[1]]) == 0 else str(index)
    return f"np.take({reading.text(names[0])}, {shown}, {options.get('axis', 0)})"


def _axes(reading: _Reading, names: list[str], options: dict[str, Any]) -> tuple[int, ...]:
    if "axes" in options:
        return tuple(options["axes"])
    if len(names) < 2 or not names[1]:
        raise refuse("ONNX model", "all axes at once, which takes rows together")
    return tuple(reading.constant(names[1]))


def _expand_dims(reading: _Reading, names: list[str], options: dict[str, Any]) -> str:
    return f"np.expand_dims({reading.text(names[0])}, {_axes(reading, names, options)})"


def _squeeze(reading: _Reading, names: list[str], options: dict[str, Any]) -> str:
    return f"np.squeeze({reading.text(names[0])}, {_axes(reading, names, options)})"


def _reshape(reading: _Reading, names: list[str], options: dict[str, Any]) -> str:
    shape = reading.constant(names[1])
    if 0 in shape[1:] or shape[0] not in (-1, 0, 1):
        raise refuse("ONNX model", f"a Reshape to {shape}")
    if shape[0] != -1 and -1 in shape:
        raise refuse("ONNX model", f"a Reshape to {shape}")
    return f"np.reshape({reading.text(names[0])}, {(-1, *shape[1:])})"  # rows stay rows


def _flatten(reading: _Reading, names: list[str], options: dict[str, Any]) -> str:
    if options.get("axis", 1) != 1:
        raise refuse("ONNX model", "a Flatten along another axis")
    return f"np.reshape({reading.text(names[0])}, ({reading.text(names[0])}.shape[0], -1))"


def _concat(reading: _Reading, names: list[str], options: dict[str, Any]) -> str:
    return f"np.concatenate([{', '.join(map(reading.text, names))}], axis={options['axis']})"


def _reduced(name: str) -> Callable[..., str]:
    def text(reading: _Reading, names: list[str], options: dict[str, Any]) -> str:
        axes = _axes(reading, names, options)
        keep = bool(options.get("keepdims", 1))
        return f"np.{name}({reading.text(names[0])}, axis={axes}, keepdims={keep})"

    return text


_NODES: dict[str, Callable[..., str]] = {
    "Gemm": _gemm,
    "Clip": _clip,
    "Slice": _slice,
    "Gather": _gather,
    "Unsqueeze": _expand_dims,
    "Squeeze": _squeeze,
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Concat": _concat,
    "ReduceSum": _reduced("sum"),
    "ReduceMean": _reduced("mean"),
}

FORM = Form("onnx", _holds, _read, ".onnx")
