"""What a model file must hold: words, names of tensors, their kinds and shapes, and numbers that make sense.

Checked once, when a file is read, so that whatever is built from it afterwards fits together. Shapes are
written with letters: ``D`` inputs, ``P`` outputs, ``K`` cells, ``C`` inputs of a cell, ``L`` leaves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from tether.foundation import documents
from tether.foundation.documents import (
    Check,
    Misfit,
    checked,
    items,
    mapping,
    maybe,
    one_of,
    plain,
    share,
    text,
    whole,
)
from tether.foundation.errors import StorageError
from tether.foundation.limits import MOST_COLUMNS, MOST_LAYERS, check_draws
from tether.foundation.wording import MEANING
from tether.geometry.boxtree import BoxTree

FORMAT = "tether-model"
FORMAT_VERSION = 2
WHAT = "a complete Tether model"
_Shape = tuple[str, tuple[int, ...]]
CELL_ARRAYS = ("memories", "edges", "scale", "radii", "box_lower", "box_upper")
INTERVAL_ARRAYS = ("lower", "upper", "delta", "center")
TREE_ARRAYS = ("lower", "upper", "roots", "cut", "threshold", "left", "right")
BOX_ARRAYS = ("reference", "value", "slope", "remainder", "half_width", "most", "pinned")
CURVED_ARRAYS = ("curvature", "pairs")
"""What boxes with leaves of second order have besides: by these an older Tether refuses the file."""
_LARGEST = 1e150
"""Beyond it squares of distances are no numbers."""
_FLOATS = ("float16", "bfloat16", "float32", "float64")
_FRAME = {f"frame.{side}s.{name}": axis for side, axis in (("input", "D"), ("output", "P"))
          for name in ("center", "scale")}  # fmt: skip
_CELLS = {"memories": "KC", "edges": "E2", "scale": "C", "radii": "K", "box_lower": "C", "box_upper": "C"}
_SHAPES = {
    "unconstrained": {},
    "interval": {f"bounds.{name}": "KP" for name in INTERVAL_ARRAYS},
    "boxes": {
        "tree.lower": "D", "tree.upper": "D", "tree.roots": "P", "tree.cut": "V", "tree.threshold": "V",
        "tree.left": "V", "tree.right": "V", "bounds.reference": "D", "bounds.value": "L",
        "bounds.slope": "LD", "bounds.remainder": "L", "bounds.half_width": "KP", "bounds.most": "P",
        "bounds.pinned": "D",
    },
    "direct": {"direct.half_width": "P", "direct.inputs": "RD", "direct.answers": "RP"},
    "monotone": {
        "monotone.declared": "N", "monotone.half_width": "KP", "monotone.pinned": "C",
        "monotone.weights": "PD", "monotone.intercept": "P",
    },
}  # fmt: skip
_CURVED = {"bounds.curvature": "LQ", "bounds.pairs": "Q2"}
_CELLED = ("interval", "boxes", "monotone")
_BOUNDED = ("interval", "boxes")
_OF_A_SHARE = ("statistical",)
"""Evidence that has ε and β, and that may be over inputs of the user's own."""
_BY_CODE = ("proved",)
"""Evidence that leaves of second order may have."""
_WHOLE_NUMBERS = (
    "cells.edges", "monotone.declared", "tree.roots", "tree.cut", "tree.left", "tree.right", "bounds.pairs",
)  # fmt: skip

_names = items(text)
_COLUMNS = {
    "states": _names,
    "controls": _names,
    "outputs": _names,
    "units": mapping(text),
    "angles": _names,
    "advances": items(whole(-1, MOST_COLUMNS)),
}
SCHEMA = documents.record(_COLUMNS)
_BAND = documents.record(
    {"probability": share, "alpha": share, "inside": share, "episodes": whole(1), "rows": items(whole())}
)
_RECORD = documents.record(
    {},
    {
        "config": plain,
        "steps": whole(),
        "data_sha256": maybe(text),
        "log": items(text),
        "trusted": text,
        "trusted_source_sha256": maybe(text),
        "coverage_D": maybe(share),
        "coverage_omega": maybe(share),
        "delta_kept_D": share,
        "band": _BAND,
        "stopped": text,
        "why": text,
        "gain": items(share),
        "adapted": items(documents.record({"data_sha256": text, "rows": whole(1), "regrown": whole()})),
    },
)
_widths = items(whole(1))
_NETWORKS: Mapping[str, Check] = {
    "mlp": documents.record({"widths": _widths, "dtype": one_of(*_FLOATS)}),
    "custom": documents.record({"type": text}),
    "monotone": documents.record(
        {
            "inputs": whole(1, MOST_COLUMNS),
            "outputs": whole(1, MOST_COLUMNS),
            "decreasing": items(whole(0, MOST_COLUMNS)),
            "hidden": _widths,
            "monotone_hidden": _widths,
            "dtype": one_of(*_FLOATS),
        }
    ),
}
_MODEL = {
    "kind": one_of(*_SHAPES),
    "schema": SCHEMA,
    "target": one_of("next_state", "increment"),
    "network": documents.record({"kind": one_of(*_NETWORKS)}),
    "record": _RECORD,
}
_TETHERED = {
    "operator": one_of("sigmoid", "clip", "project"),
    "evidence": one_of(*MEANING),
    "epsilon": maybe(share),
    "beta": maybe(share),
    "blend": whole(0, 0),
}
_OVER: Mapping[str, Check] = {
    "rows": documents.record({}),
    "box": documents.record({}),
    "sampler": documents.record({"name": text, "sha256": maybe(text)}),
}
_OVER_ARRAYS = {
    "rows": {"over.inputs": "RD"},
    "box": {"over.lower": "D", "over.upper": "D"},
    "sampler": {"over.columns": "D"},
}
"""Each has some, by which a Tether that knows of none refuses the file."""


def check_format(path: Path, metadata: Mapping[str, Any]) -> None:
    """Raises unless a safetensors file is a model file of ours, of a version that is known."""
    if metadata.get("format") != FORMAT:
        raise StorageError(
            f"`{path}` must be a Tether model; it is a safetensors file of another kind. Check the path."
        )
    version = metadata.get("format_version")
    if not isinstance(version, int) or isinstance(version, bool):
        raise StorageError(f"`{path}` must have a format version; got {version!r:.60}. Get a fresh copy.")
    if not 0 < version < 1e9:
        raise StorageError(f"`{path}` must have a format version; got another number. Get a fresh copy.")
    if metadata.get("kind") == "affine":
        raise StorageError(
            f"`{path}` must have bounds over boxes; it has an older Tether's, around memories, which are no "
            "longer read. Fit again."
        )
    if version > FORMAT_VERSION:
        raise StorageError(
            f"`{path}` must have format version at most {FORMAT_VERSION}; got {version}. "
            "It was written by a newer Tether: upgrade."
        )


def check_words(path: Path, metadata: Mapping[str, Any]) -> None:
    """Raises unless the metadata of a model file say what they must."""
    checked(metadata, _words, path, WHAT)


def _words(metadata: Any, place: str) -> None:
    documents.record(_MODEL)(metadata, place)
    if metadata["kind"] in _BOUNDED:
        documents.record(_TETHERED)(metadata, place)
        if metadata["evidence"] in _OF_A_SHARE:
            _draws(metadata)
        if metadata.get("over") is not None:
            _check_over(metadata)
    schema, network = metadata["schema"], metadata["network"]
    _NETWORKS[network["kind"]](network, "network")
    unknown = sorted(schema.keys() - _COLUMNS.keys())
    if unknown:
        raise Misfit(f"`schema` must have nothing else; got {unknown[0]!r:.60}")
    lists = (*schema.values(), *(network.get(name, ()) for name in ("widths", "hidden")))
    if max(map(len, lists)) > MOST_COLUMNS:
        raise Misfit(f"`schema` and `network` must list at most {MOST_COLUMNS:,} names or widths")
    if (network["kind"] == "monotone") != (metadata["kind"] == "monotone"):
        raise Misfit(f"`network.kind` must fit a model of kind {metadata['kind']}; got {network['kind']}")


def _check_over(metadata: Mapping[str, Any]) -> None:
    over = metadata["over"]
    documents.record({"kind": one_of(*_OVER)})(over, "over")
    _OVER[over["kind"]](over, "over")
    if metadata["evidence"] not in _OF_A_SHARE:
        raise Misfit(f"`over` must come with evidence `statistical`; got {metadata['evidence']}")


def _draws(metadata: Mapping[str, Any]) -> None:
    try:
        check_draws(metadata["epsilon"], metadata["beta"])
    except ValueError as error:
        raise Misfit(str(error).rstrip(".")) from None


def check_tensors(path: Path, metadata: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Raises unless a model file holds the tensors that its words ask for, and no others.

    Args:
        path: of the file.
        metadata: as :func:`check_words` accepts them.
        arrays: tensors by name, with their `dtype` and `shape`.
    """
    try:
        sizes = _sizes(metadata)
        wanted = _wanted(metadata)
        if metadata["kind"] == "boxes" and not arrays.keys().isdisjoint(_CURVED):
            wanted |= _CURVED
            if metadata["evidence"] not in _BY_CODE:
                raise Misfit(f"`bounds.curvature` must come with evidence proved; got {metadata['evidence']}")
        for name, axes in wanted.items():
            _check_tensor(name, axes, arrays, sizes)
        if "bounds.lemma" in arrays:
            _check_tensor("bounds.lemma", "P", arrays, sizes)
        custom = metadata["network"]["kind"] == "custom"
        shapes = dict(_network_shapes(metadata, sizes))
        for name, shape in shapes.items():
            _check_weights(name, shape, arrays, metadata["network"]["dtype"])
        extra = arrays.keys() - wanted.keys() - shapes.keys() - {"bounds.lemma"}
        extra = {name for name in extra if not (custom and name.startswith("network."))}
        if extra:
            raise Misfit(f"it must hold nothing else; got `{min(extra)}`")
    except Misfit as error:
        raise StorageError(f"`{path}` must be {WHAT}; {error}. Get a fresh copy.") from None


def _sizes(metadata: Mapping[str, Any]) -> dict[str, int]:
    schema = metadata["schema"]
    inputs = [*schema["states"], *schema["controls"]]
    features = len(inputs) + len(set(inputs) & set(schema["angles"]))
    sizes = {"D": len(inputs), "P": len(schema["outputs"]), "F": features, "2": 2}
    if metadata["kind"] in _BOUNDED:
        sizes["C"] = sizes["D"]
    return sizes


def _wanted(metadata: Mapping[str, Any]) -> dict[str, str]:
    kind = metadata["kind"]
    cells = {f"cells.{name}": axes for name, axes in _CELLS.items()} if kind in _CELLED else {}
    over = metadata.get("over") if kind in _BOUNDED else None
    return {**_FRAME, **_SHAPES[kind], **cells, **(_OVER_ARRAYS[over["kind"]] if over else {})}


def _check_tensor(name: str, axes: str, arrays: Mapping[str, Any], sizes: dict[str, int]) -> None:
    """Its kind and shape; an axis seen for the first time says how long the others of its letter are."""
    if name not in arrays:
        raise Misfit(f"`{name}` is missing")
    shape, kind = tuple(arrays[name].shape), _kind(arrays[name])
    wanted = "int64" if name in _WHOLE_NUMBERS else "float64"
    if kind != wanted:
        raise Misfit(f"`{name}` must hold {wanted}; got {kind}")
    for axis, size in zip(axes, shape, strict=False):
        sizes.setdefault(axis, size)
    fits = len(shape) == len(axes) and shape == tuple(sizes[axis] for axis in axes)
    if not fits or (0 in shape and name != "cells.edges"):
        raise Misfit(f"`{name}` must have the shape that the others ask for; got {shape}")


def _network_shapes(metadata: Mapping[str, Any], sizes: Mapping[str, int]) -> Iterator[_Shape]:
    """Weights of a network, as its widths ask for them; none are known of a user's own."""
    spec = metadata["network"]
    if spec["kind"] == "mlp":
        widths = spec["widths"]
        ends = (sizes["F"], sizes["P"])
        if not 2 <= len(widths) <= MOST_LAYERS or (widths[0], widths[-1]) != ends:
            raise Misfit(f"`network.widths` must begin with {sizes['F']} and end with {sizes['P']}")
        for k, (inputs, outputs) in enumerate(pairwise(widths)):
            yield from _layer(f"network.{2 * k}", inputs, outputs)
    elif spec["kind"] == "monotone":
        yield from _monotone_shapes(spec, sizes)


def _monotone_shapes(spec: Mapping[str, Any], sizes: Mapping[str, int]) -> Iterator[_Shape]:
    hidden, narrow, declared = spec["hidden"], spec["monotone_hidden"], spec["decreasing"]
    fits = (spec["inputs"], spec["outputs"]) == (sizes["F"], sizes["P"]) and len(hidden) == len(narrow) > 0
    if not fits or len(set(declared)) != len(declared) or not set(declared) < set(range(spec["inputs"])):
        raise Misfit("`network` must have widths that fit the inputs, outputs and one another")
    wide = [spec["inputs"] - len(declared), *hidden]
    widths = [len(declared), *narrow, spec["outputs"]]
    for k, (inputs, outputs) in enumerate(pairwise(wide)):
        yield from _layer(f"network.free_layers.{k}", inputs, outputs)
    for k, (inputs, outputs) in enumerate(zip(wide, widths[1:], strict=True)):
        yield from _layer(f"network.side_layers.{k}", inputs, outputs)
    for k, (inputs, outputs) in enumerate(pairwise(widths)):
        yield f"network.monotone_weights.{k}", (outputs, inputs)
    yield "network.slopes", (spec["outputs"], len(declared))


def _layer(name: str, inputs: int, outputs: int) -> Iterator[_Shape]:
    yield f"{name}.weight", (outputs, inputs)
    yield f"{name}.bias", (outputs,)


def _check_weights(name: str, shape: tuple[int, ...], arrays: Mapping[str, Any], kind: str) -> None:
    if name not in arrays:
        raise Misfit(f"`{name}` is missing")
    held = _kind(arrays[name]), tuple(arrays[name].shape)
    if held != (kind, shape):
        raise Misfit(f"`{name}` must hold {kind} of shape {shape}; got {held[0]}, {held[1]}")


def _kind(array: Any) -> str:
    return str(array.dtype).removeprefix("torch.")


def check_numbers(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Raises unless the geometry and bounds of a model file can be such; weights may be anything."""
    for name, rule, holds in _rules(arrays):
        if not holds:
            raise StorageError(f"`{path}` must be {WHAT}; `{name}` must be {rule}. Get a fresh copy.")


_FINITE = (
    *_FRAME, *(f"cells.{name}" for name in CELL_ARRAYS), "bounds.lower", "bounds.upper", "bounds.delta",
    "bounds.center", "bounds.half_width",
    "bounds.lemma", "bounds.value", "bounds.slope", "bounds.reference", "bounds.curvature",
    "tree.lower", "tree.upper",
    "direct.inputs", "direct.answers", "over.inputs", "over.lower", "over.upper",
    "over.columns",
    "monotone.half_width", "monotone.weights", "monotone.intercept",
)  # fmt: skip
_POSITIVE = ("frame.inputs.scale", "frame.outputs.scale", "cells.scale", "cells.radii")
_AT_LEAST_ZERO = ("bounds.delta", "bounds.half_width", "direct.half_width", "bounds.remainder", "bounds.most")


def _rules(arrays: Mapping[str, np.ndarray]) -> Iterator[tuple[str, str, bool]]:
    """Name of a tensor, what must hold of it, and whether it does."""
    for name in _among(_FINITE, arrays):
        yield name, "finite", bool(np.isfinite(arrays[name]).all())
    for name in _among(_POSITIVE, arrays):
        yield name, "positive", bool((arrays[name] > 0).all())
    for name in _among(_AT_LEAST_ZERO, arrays):
        yield name, "at least 0", bool((arrays[name] >= 0).all())
    for name in _among(("cells.memories", "cells.radii", "cells.scale"), arrays):
        yield name, f"at most {_LARGEST:g}", bool((np.abs(arrays[name]) <= _LARGEST).all())
    if "cells.memories" in arrays:
        edges, count = arrays["cells.edges"], len(arrays["cells.memories"])
        yield "cells.edges", f"numbers of {count} cells", bool(((edges >= 0) & (edges < count)).all())
        box = arrays["cells.box_lower"] <= arrays["cells.box_upper"]
        yield "cells.box_lower", "at most `cells.box_upper`", bool(box.all())
    if "over.lower" in arrays:
        box = arrays["over.lower"] <= arrays["over.upper"]
        yield "over.lower", "at most `over.upper`", bool(box.all())
    if "tree.cut" in arrays:
        tree = BoxTree(*(arrays[f"tree.{name}"] for name in TREE_ARRAYS))
        yield "tree.lower", "at most `tree.upper`", bool((tree.lower <= tree.upper).all())
        fault = tree.fault()
        yield "tree", f"a tree ({fault})", fault is None
        yield "bounds.value", "one for each leaf", len(arrays["bounds.value"]) == tree.leaves
    if "bounds.pairs" in arrays:
        pairs = arrays["bounds.pairs"]
        fine = (pairs[:, 0] >= 0) & (pairs[:, 0] <= pairs[:, 1]) & (pairs[:, 1] < len(arrays["tree.lower"]))
        once = len(np.unique(pairs, axis=0)) == len(pairs)
        yield "bounds.pairs", "inputs, ascending, each pair once", bool(fine.all() and once)
    if "bounds.lower" in arrays:
        yield (
            "bounds.lower",
            "at most `bounds.upper`",
            bool((arrays["bounds.lower"] <= arrays["bounds.upper"]).all()),
        )


def _among(names: Sequence[str], arrays: Mapping[str, np.ndarray]) -> list[str]:
    return [name for name in names if name in arrays]
