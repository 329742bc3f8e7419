"""One model, one ``.safetensors`` file: weights, memories, edges, bounds, scales, and what they mean."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from tether.data import Scaling, Schema
from tether.evidence import Evidence, as_evidence, distributions
from tether.files.modelfile import (
    BOX_ARRAYS,
    CELL_ARRAYS,
    CURVED_ARRAYS,
    FORMAT,
    FORMAT_VERSION,
    INTERVAL_ARRAYS,
    TREE_ARRAYS,
    check_format,
    check_numbers,
    check_tensors,
    check_words,
)
from tether.foundation.atomic import content_digest as _digest
from tether.foundation.atomic import read_tensors, write_tensors
from tether.foundation.documents import model_file, require_folder
from tether.foundation.errors import StorageError
from tether.geometry.boxtree import BoxTree
from tether.geometry.cells import Cells
from tether.model import Frame, Model, mlp
from tether.model.assembling import constrained_model, direct_model, unconstrained_model
from tether.model.monotone import MonotoneNetwork
from tether.tethers.bounds import AffineBounds, Bounds, IntervalBounds
from tether.tethers.monotone import MonotoneTether
from tether.trusted import Function, TrustedModel, as_trusted
from tether.trusted.affine import AffineModel


def save(model: Model, path: str | Path) -> None:
    """Writes `model` to one safetensors file, whole or not at all."""
    path, frame, kind = Path(path), model.frame, model.tether.kind
    require_folder(path)
    tensors = {f"network.{name}": value for name, value in model.network.state_dict().items()}
    arrays = {
        "frame.inputs.center": frame.inputs.center,
        "frame.inputs.scale": frame.inputs.scale,
        "frame.outputs.center": frame.outputs.center,
        "frame.outputs.scale": frame.outputs.scale,
    }
    metadata: dict[str, Any] = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "kind": _IN_FILES.get(kind, kind),
        "schema": asdict(frame.schema),
        "target": frame.target,
        "network": network_spec(model.network),
        "record": model.record,
    }
    if kind not in _WRITERS or "kind" not in vars(type(model.tether)):
        # Its limits would be lost, and what is read back would not be tethered.
        raise TypeError(
            "`model` must have a tether of a kind that Tether can read back; got "
            f"{type(model.tether).__name__}. Save what it is made of yourself."
        )
    arrays |= _WRITERS[kind](model)
    if model.tether.limited:
        bounds = model.bounds
        metadata |= {
            "operator": model.operator,
            **_evidence_words(bounds.evidence),
            "blend": 0,
        }
        if bounds.evidence.over is not None:
            noted, own = bounds.evidence.over.saved()
            metadata["over"] = noted
            arrays |= {f"over.{name}": values for name, values in own.items()}
    tensors |= {name: torch.from_numpy(np.ascontiguousarray(values)) for name, values in arrays.items()}
    metadata["digest"] = _digest(tensors, metadata)
    write_tensors(path, tensors, metadata)


def load(
    path: str | Path,
    *,
    network: nn.Module | None = None,
    trusted: TrustedModel | Function | None = None,
) -> Model:
    """Reads a model written by :func:`save`.

    Args:
        path: the file, or the folder of a finished run.
        network: a module of the saved architecture; only needed where that was not built by
            :func:`tether.mlp`.
        trusted: the trusted model, for a direct model, which calls it at run time; others do without.
    """
    path = model_file(Path(path))
    tensors, metadata = _read(path)
    if metadata.get("kind") != "direct":
        return _assemble(path, tensors, metadata, network, None)
    if trusted is None:
        raise StorageError(
            f"`{path}` must be loaded with its trusted model, which a direct model calls at run time; got "
            "none. Pass `trusted=M` (command line: `--trusted`)."
        )
    model = _assemble(path, tensors, metadata, network, as_trusted(trusted))
    _check_answers(path, model, as_trusted(trusted), tensors)
    return model


def peek(path: str | Path) -> Model:
    """Reads a model to look at; a direct one without its trusted model, so that it cannot predict."""
    path = model_file(Path(path))
    tensors, metadata = _read(path)
    return _assemble(path, tensors, metadata, None, TrustedModel(_absent))


def _read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    tensors, metadata = read_tensors(path)
    check_format(path, metadata)
    if metadata.pop("digest", None) != _digest(tensors, metadata):
        raise StorageError(
            f"`{path}` must match its own digest; its contents were changed. Get a fresh copy."
        )
    check_words(path, metadata)
    check_tensors(path, metadata, tensors)
    outside = {name: value for name, value in tensors.items() if not name.startswith("network.")}
    check_numbers(path, {name: value.numpy() for name, value in outside.items()})
    return tensors, metadata


def _assemble(
    path: Path,
    tensors: dict[str, Tensor],
    metadata: dict[str, Any],
    network: nn.Module | None,
    trusted: TrustedModel | None,
) -> Model:
    try:
        return _build(tensors, metadata, network, trusted)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        said = str(error).rstrip(".")
        raise StorageError(f"`{path}` must be a complete Tether model; {said}.") from None


def _absent(states: np.ndarray, controls: np.ndarray) -> np.ndarray:
    raise ValueError("the model was read without its trusted model. Use `tether.load(path, trusted=M)`.")


def network_spec(network: nn.Module) -> dict[str, Any]:
    """How to rebuild a network: the widths of an MLP, or that it must be given."""
    if isinstance(network, nn.Sequential):
        layers = [layer for layer in network if isinstance(layer, nn.Linear)]
        built = [type(layer) for layer in network] == [nn.Linear, nn.ReLU] * (len(layers) - 1) + [nn.Linear]
        if layers and built:
            widths = [layers[0].in_features, *(layer.out_features for layer in layers)]
            return {
                "kind": "mlp",
                "widths": widths,
                "dtype": str(layers[0].weight.dtype).removeprefix("torch."),
            }
    if isinstance(network, MonotoneNetwork):
        dtype = str(network.slopes.dtype).removeprefix("torch.")
        return {"kind": "monotone", **network.widths, "dtype": dtype}
    return {"kind": "custom", "type": type(network).__qualname__}


def _interval_arrays(model: Model) -> dict[str, np.ndarray]:
    cells, bounds = model.cells, model.bounds
    arrays = {f"cells.{name}": getattr(cells, name) for name in CELL_ARRAYS}
    arrays |= {f"bounds.{name}": getattr(bounds, name) for name in INTERVAL_ARRAYS}
    return arrays if bounds.lemma is None else arrays | {"bounds.lemma": bounds.lemma}


def _affine_arrays(model: Model) -> dict[str, np.ndarray]:
    cells, bounds = model.cells, model.bounds
    assert bounds.kind == "affine"
    return (
        {f"cells.{name}": getattr(cells, name) for name in CELL_ARRAYS}
        | {f"tree.{name}": getattr(bounds.tree, name) for name in TREE_ARRAYS}
        | {f"bounds.{name}": getattr(bounds, name) for name in BOX_ARRAYS}
        | {f"bounds.{name}": getattr(bounds, name) for name in CURVED_ARRAYS if bounds.order > 1}
    )


def _evidence_words(evidence: Evidence) -> dict[str, Any]:
    """A level by its name, and the numbers that one of them has."""
    numbers = {name: getattr(evidence, name, None) for name in ("epsilon", "beta")}
    return {"evidence": evidence.name, **numbers}


def _monotone_arrays(model: Model) -> dict[str, np.ndarray]:
    """Cells, half-width, and M itself, which is affine and travels with the model."""
    tether: Any = model.tether
    return {f"cells.{name}": getattr(tether.cells, name) for name in CELL_ARRAYS} | {
        "monotone.declared": tether.declared,
        "monotone.half_width": tether.half_width.cpu().numpy(),
        "monotone.pinned": tether.pinned,
        "monotone.weights": tether.trusted.weights.copy(),
        "monotone.intercept": tether.trusted.intercept.copy(),
    }


def _direct_arrays(model: Model) -> dict[str, np.ndarray]:
    """The half-width, and M's answers at points that do not depend on the data, to recognise M by."""
    tether: Any = model.tether
    inputs, answers = tether.trusted.where_it_answers(model.frame.landmarks(), model.schema)
    if not len(inputs):
        raise StorageError("`trusted` must answer at the centre of the inputs or near it; it does nowhere.")
    half_width = tether.half_width.cpu().numpy()
    return {"direct.half_width": half_width, "direct.inputs": inputs, "direct.answers": answers}


_WRITERS: dict[str, Callable[[Any], dict[str, np.ndarray]]] = {
    "unconstrained": lambda model: {},
    "direct": _direct_arrays,
    "monotone": _monotone_arrays,
    "interval": _interval_arrays,
    "affine": _affine_arrays,
}
"""What a model's tether adds to its file, by kind."""
_IN_FILES: dict[str, str] = {"affine": "boxes"}
"""What the format calls a kind of tether, where that is not its name: `affine` was another one there."""


def _check_answers(path: Path, model: Model, trusted: TrustedModel, tensors: dict[str, Tensor]) -> None:
    """Refuses another trusted model than the one the file was saved with."""
    inputs, before = tensors["direct.inputs"].numpy(), tensors["direct.answers"].numpy()
    now = trusted.target(inputs, model.schema, "next_state")
    gap = model.schema.distance(now, before)
    # Another machine's sine may differ in the last place, a model worth the name by more.
    tolerance = 1e-9 * (np.abs(before).max(axis=0) + model.frame.outputs.scale)
    if not (gap <= tolerance).all():
        row, output = np.unravel_index(int(np.argmax(gap / tolerance)), gap.shape)
        raise StorageError(
            f"`trusted` must be the model `{path}` was saved with; at input {inputs[row].tolist()} output "
            f"'{model.schema.outputs[output]}' differs by {gap[row, output]:.6g}. Pass that model."
        )


@dataclass(frozen=True, eq=False)
class _Held:
    """What every file holds, and what is only in some."""

    network: nn.Module
    frame: Frame
    arrays: Mapping[str, np.ndarray]
    metadata: Mapping[str, Any]
    trusted: TrustedModel | None

    def cells(self) -> Cells:
        """Which input belongs where."""
        return Cells(**{name: self.arrays[f"cells.{name}"] for name in CELL_ARRAYS})


def _build(
    tensors: dict[str, Tensor],
    metadata: dict[str, Any],
    network: nn.Module | None,
    trusted: TrustedModel | None,
) -> Model:
    fields: dict[str, Any] = metadata["schema"]
    fields = {key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()}
    network = _network(tensors, metadata["network"], network)
    arrays = {name: values.numpy() for name, values in tensors.items() if not name.startswith("network.")}
    inputs, outputs = (
        Scaling(arrays[f"frame.{side}.center"], arrays[f"frame.{side}.scale"])
        for side in ("inputs", "outputs")
    )
    frame = Frame(Schema(**fields), metadata["target"], inputs, outputs)
    model = _READERS[metadata["kind"]](_Held(network, frame, arrays, metadata, trusted))
    model.record = metadata["record"]
    return model.eval()


def _read_direct(held: _Held) -> Model:
    assert held.trusted is not None
    return direct_model(held.network, held.frame, held.trusted, held.arrays["direct.half_width"])


def _read_monotone(held: _Held) -> Model:
    affine = AffineModel(held.arrays["monotone.weights"], held.arrays["monotone.intercept"])
    declared, half_width, pinned = (
        held.arrays[f"monotone.{name}"] for name in ("declared", "half_width", "pinned")
    )
    states = len(held.frame.schema.states)
    tether = MonotoneTether(affine, states, declared, held.cells(), half_width, pinned)
    return Model(held.network, held.frame, tether)


def _read_celled(held: _Held) -> Model:
    own = {name.removeprefix("bounds."): values for name, values in held.arrays.items()}
    bounds = _bounds(held.metadata, own, held.frame.schema)
    operator = held.metadata["operator"]
    return constrained_model(held.network, held.frame, held.cells(), bounds, operator=operator)


_READERS: dict[str, Callable[[_Held], Model]] = {
    "unconstrained": lambda held: unconstrained_model(held.network, held.frame),
    "direct": _read_direct,
    "monotone": _read_monotone,
    "interval": _read_celled,
    _IN_FILES["affine"]: _read_celled,
}
"""What makes a model of what a file holds, by the format's name of its kind."""


def _bounds(metadata: Mapping[str, Any], arrays: dict[str, np.ndarray], schema: Schema) -> Bounds:
    numbers = {name: metadata[name] for name in ("epsilon", "beta")}
    drawn = {name.removeprefix("over."): values for name, values in arrays.items()}
    numbers["over"] = distributions.read(metadata.get("over"), drawn, schema.inputs)
    claim: dict[str, Any] = {"evidence": as_evidence(metadata["evidence"], **numbers)}
    if metadata["kind"] == _IN_FILES["affine"]:
        tree = BoxTree(*(arrays[f"tree.{name}"] for name in TREE_ARRAYS))
        held = {name: arrays[name] for name in (*BOX_ARRAYS, *CURVED_ARRAYS) if name in arrays}
        return AffineBounds(tree, **held, angles=schema.output_angles, **claim)
    limits = {name: arrays[name] for name in INTERVAL_ARRAYS}
    return IntervalBounds(**limits, **claim, lemma=arrays.get("lemma"))


def _network(tensors: dict[str, Tensor], spec: dict[str, Any], network: nn.Module | None) -> nn.Module:
    weights = {n.removeprefix("network."): v for n, v in tensors.items() if n.startswith("network.")}
    if network is None and spec["kind"] == "monotone":
        names = ("inputs", "outputs", "decreasing", "hidden", "monotone_hidden")
        network = MonotoneNetwork(**{name: spec[name] for name in names}).to(getattr(torch, spec["dtype"]))
    elif network is None:
        if spec["kind"] != "mlp":
            raise ValueError(f"its network is a {spec['type']} of yours: pass `network=`")
        inputs, *hidden, outputs = spec["widths"]
        network = mlp(inputs, outputs, hidden).to(getattr(torch, spec["dtype"]))
    # Assigned, not copied: a module made in float32 must not round weights saved in float64.
    network.load_state_dict(weights, assign=True)
    return network
