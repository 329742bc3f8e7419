"""A torch module of networks and elementwise operations: its graph, node by node.

``forward(inputs (N, D))`` or ``forward(states (N, dx), controls (N, du))``. M is the module in evaluation
mode and in float64, its weights as they are now.
"""

from __future__ import annotations

import copy
import inspect
import sys
from collections.abc import Callable
from itertools import accumulate
from typing import Any

import numpy as np

from tether.data import Array
from tether.trusted.forms.form import Form, UntranslatedError, as_it_is, refuse
from tether.trusted.forms.formulas import FORMULAS
from tether.trusted.forms.writing import Writer, make_function, number_text
from tether.trusted.model import Translation, TrustedModel


def _holds(value: Any) -> bool:
    return isinstance(value, sys.modules["torch"].nn.Module) and not hasattr(value, "tether")


def _read(module: Any, *, states: int | None = None, controls: int | None = None) -> TrustedModel:
    """By torch.fx, which runs `forward` on symbols."""
    del states, controls  # whatever `forward` takes
    module = getattr(module, "_orig_mod", module)  # what `torch.compile` made it of
    places = len(inspect.signature(module.forward).parameters)
    if places not in (1, 2):
        raise ValueError(f"`trusted` must be forward(inputs) or forward(states, controls); got {places}.")
    whole = copy.deepcopy(module).double().eval()
    original, name = _original(whole, places), type(module).__name__
    try:
        function = _translated(whole, name)
    except UntranslatedError as error:
        return as_it_is(error, original, name)
    return TrustedModel(function, translation=Translation("torch", original))


def _translated(whole: Any, name: str) -> Any:
    from torch import fx

    try:
        graph = fx.symbolic_trace(whole).graph
    except Exception as error:
        reason = str(error).strip().splitlines()[0].rstrip(".")
        raise refuse("torch module", f"a `forward` that torch.fx cannot follow ({reason})") from None
    reading = _Reading(whole)
    places = [node for node in graph.nodes if node.op == "placeholder"]
    given = dict(zip(places, ("inputs",) if len(places) == 1 else ("states", "controls"), strict=True))
    body = reading.run(graph, given)
    return make_function(body, reading.arrays, inputs=reading.inputs, form="torch", name=name)


def _original(module: Any, places: int) -> Callable[[Array, Array], Array]:
    def original(states: Array, controls: Array) -> Array:
        import torch

        given = (np.concatenate([states, controls], axis=1),) if places == 1 else (states, controls)
        with torch.no_grad():
            found = module(*map(torch.from_numpy, given))
        if not isinstance(found, torch.Tensor):
            raise TypeError(f"`forward` must return one tensor; it returned {type(found).__name__}")
        return found.numpy()

    return original


class _Reading:
    def __init__(self, module: Any) -> None:
        self.module, self.writer = module, Writer()
        self.arrays: dict[str, Array] = {}
        self._places: dict[str, str] = {}
        """What an array is called, by where it is in the module; dots and underscores are told apart."""
        self.inputs: int | None = None
        """How many there are, where a layer says so."""

    def run(self, graph: Any, names: dict[Any, Any]) -> list[str]:
        """Statements, of which the last returns."""
        for node in graph.nodes:
            if node.op == "output":
                return [*self.writer.lines, f"return {self._argument(node.args[0], names)}"]
            if node.op == "get_attr":
                names[node] = self._array(node.target)
            elif node.op == "call_module":
                names[node] = self._layer(node, names)
            elif node.op in ("call_function", "call_method"):
                names[node] = self._operation(node, names)
        raise refuse("torch module", "no output")

    def _array(self, path: str) -> str:
        value = self.module
        for part in path.split("."):
            value = getattr(value, part)
        return self._kept(path, value)

    def _kept(self, path: str, value: Any) -> str:
        if (
            not value.is_floating_point()
            and value.dtype.itemsize < 4
            and not str(value.dtype).endswith("bool")
        ):
            raise refuse("torch module", f"numbers of {value.dtype}, whose sums may begin again at 0")
        name = self._places.setdefault(path, f"a{len(self._places)}")
        self.arrays[name] = value.detach().numpy().astype(np.float64)
        return name

    def _layer(self, node: Any, names: dict[Any, Any]) -> str:
        layer = self.module.get_submodule(node.target)
        if layer._forward_hooks or layer._forward_pre_hooks:
            raise refuse("torch module", f"a hook of `{node.target}`")
        if getattr(layer, "inplace", False) and (
            len(node.args[0].users) > 1 or not self._is_new(node.args[0])
        ):
            raise refuse("torch module", f"`{node.target}`, which changes what is used elsewhere")
        kind, given = type(layer).__name__, self._argument(node.args[0], names)
        if kind == "Linear":
            self.inputs = layer.in_features if given == "inputs" else self.inputs
            product = f"{given} @ {self._kept(node.target + '.weight.T', layer.weight.T)}"
            if layer.bias is None:
                return self.writer.write(product)
            return self.writer.write(f"{product} + {self._kept(node.target + '.bias', layer.bias)}")
        if kind in ("Identity", "Dropout", "AlphaDropout"):
            return given
        if kind == "BatchNorm1d" and layer.running_mean is not None:
            centred = f"({given} - {self._kept(node.target + '.running_mean', layer.running_mean)})"
            spread = self._kept(node.target + ".spread", (layer.running_var + layer.eps).sqrt())
            return self._scaled(node, layer, f"{centred} / {spread}")
        if kind == "LayerNorm" and len(layer.normalized_shape) == 1:
            centred = self.writer.write(f"{given} - np.mean({given}, axis=-1, keepdims=True)")
            square = f"np.mean({centred} ** 2, axis=-1, keepdims=True) + {number_text(layer.eps)}"
            return self._scaled(node, layer, f"{centred} / np.sqrt({square})")
        if kind not in _LAYERS:
            raise refuse("torch module", f"a layer `{kind}`")
        name, options = _LAYERS[kind]
        if kind == "Softplus" and (layer.beta, layer.threshold) != (1, 20):
            raise refuse("torch module", "a Softplus with another beta or threshold")
        return self._write(name, given, *(number_text(getattr(layer, option)) for option in options))

    def _scaled(self, node: Any, layer: Any, text: str) -> str:
        """By the weight and bias of a layer that has some."""
        if layer.weight is not None:
            text = f"{text} * {self._kept(node.target + '.weight', layer.weight)}"
        if layer.bias is not None:
            text = f"{text} + {self._kept(node.target + '.bias', layer.bias)}"
        return self.writer.write(text)

    def _is_new(self, node: Any) -> bool:
        """Whether what a node gives is no part of anything else: neither given, nor kept, nor a view."""
        if node.op == "call_module":
            kind = type(self.module.get_submodule(node.target)).__name__
            return kind in ("Linear", "BatchNorm1d", "LayerNorm") or kind in _LAYERS
        return node.op == "call_function" and getattr(node.target, "__name__", "") in FORMULAS

    def _write(self, name: str, *parts: str) -> str:
        return self.writer.write(FORMULAS[name].format(*parts))

    def _operation(self, node: Any, names: dict[Any, Any]) -> Any:
        target = node.target
        if (target if isinstance(target, str) else target.__name__).endswith("_"):
            raise refuse("torch module", f"`{node.name}`, which changes what it is given")
        name = (target if isinstance(target, str) else target.__name__).strip("_")
        if name == "getitem":
            value, index = node.args
            text = self._argument(value, names)
            return self.writer.write(f"{text}[{_index(index)}]")
        if name in _STRUCTURE:
            parts = [self._argument(part, names) for part in node.args]
            given = {key: self._argument(value, names) for key, value in node.kwargs.items()}
            return self.writer.write(_STRUCTURE[name](*parts, **given))
        if name == "clamp":
            return self._clamp(node, names)
        if name not in FORMULAS or node.kwargs:
            raise refuse("torch module", f"an operation `{name}`")
        text = FORMULAS[name]
        parts = [self._argument(part, names) for part in node.args]
        if f"{{{len(parts)}}}" in text or f"{{{len(parts) - 1}}}" not in text:
            raise refuse("torch module", f"`{name}` of {len(parts)} arguments")
        return self.writer.write(text.format(*parts))

    def _clamp(self, node: Any, names: dict[Any, Any]) -> str:
        given = dict(zip(("input", "min", "max"), node.args, strict=False)) | node.kwargs
        found = self._argument(given["input"], names)
        for limit, chosen in (("min", "maximum"), ("max", "minimum")):
            if given.get(limit) is not None:
                found = self._write(chosen, found, self._argument(given[limit], names))
        return found

    def _argument(self, value: Any, names: dict[Any, Any]) -> Any:
        if isinstance(value, list | tuple):
            return f"[{', '.join(self._argument(part, names) for part in value)}]"
        if isinstance(value, bool) or value is None:
            return repr(value)
        if isinstance(value, int):
            return f"({value})" if value < 0 else repr(value)
        if isinstance(value, float):
            return number_text(value)
        if value in names:
            return names[value]
        raise refuse("torch module", f"an argument {value!r}")


def _index(index: Any) -> str:
    """As it is written between brackets."""
    if isinstance(index, tuple):
        return ", ".join(map(_index, index))
    if isinstance(index, slice):
        step = "" if index.step is None else f":{index.step}"
        return (
            f"{'' if index.start is None else index.start}:{'' if index.stop is None else index.stop}{step}"
        )
    if index is Ellipsis:
        return "..."
    if index is None or isinstance(index, int):
        return repr(index)
    raise refuse("torch module", f"an index {index!r}")


def _reduced(name: str) -> Callable[..., str]:
    def text(values: str, dim: str = "None", keepdim: str = "False") -> str:
        return f"np.{name}({values}, axis={_axes(dim)}, keepdims={keepdim})"

    return text


def _split(values: str, sizes: str, dim: str) -> str:
    """Into pieces of one size, or of a list of sizes."""
    if not sizes.startswith("["):
        return f"np.split({values}, range({sizes}, {values}.shape[{dim}], {sizes}), axis={dim})"
    ends = accumulate(int(size) for size in sizes.strip("[]").split(","))
    return f"np.split({values}, {list(ends)[:-1]}, axis={dim})"


def _axes(dim: str) -> str:
    return dim.replace("[", "(").replace("]", ",)") if dim.startswith("[") else dim


def _joined(name: str) -> Callable[..., str]:
    return lambda tensors, dim="0": f"np.{name}({tensors}, axis={dim})"


_STRUCTURE: dict[str, Callable[..., str]] = {
    "cat": _joined("concatenate"),
    "concat": _joined("concatenate"),
    "stack": _joined("stack"),
    "sum": _reduced("sum"),
    "mean": _reduced("mean"),
    "unsqueeze": lambda values, dim: f"np.expand_dims({values}, {dim})",
    "squeeze": lambda values, dim: f"np.squeeze({values}, {dim})",
    "unbind": lambda values, dim="0": f"np.moveaxis({values}, {dim}, 0)",
    "chunk": lambda values, chunks, dim="0": f"np.split({values}, {chunks}, axis={dim})",
    "split": lambda values, split_size_or_sections, dim="0": _split(values, split_size_or_sections, dim),
    "zeros_like": lambda values: f"np.zeros_like({values})",
    "ones_like": lambda values: f"np.ones_like({values})",
    "linear": lambda values, weight, bias=None: f"{values} @ {weight}.T" + (f" + {bias}" if bias else ""),
}
_LAYERS: dict[str, tuple[str, tuple[str, ...]]] = {
    "Tanh": ("tanh", ()),
    "ReLU": ("relu", ()),
    "ReLU6": ("relu6", ()),
    "Sigmoid": ("sigmoid", ()),
    "SiLU": ("silu", ()),
    "Softplus": ("softplus", ()),
    "Softsign": ("softsign", ()),
    "LeakyReLU": ("leaky_relu", ("negative_slope",)),
    "ELU": ("elu", ("alpha",)),
    "Hardtanh": ("clamp", ("min_val", "max_val")),
}

FORM = Form("torch", _holds, _read)
