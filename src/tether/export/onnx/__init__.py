"""ONNX: a model as one graph, its tether and its certificate inside."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tether.export.exporting import Request, needed
from tether.files.storage import save
from tether.foundation.atomic import read_tensors


def files(request: Request) -> dict[str, bytes]:
    """The graph, and such with derivatives beside the same outputs: within leaves, and across them."""
    needed("onnx")
    from tether.export.onnx.model import Form, build
    from tether.export.onnx.rooms import Jacobian

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        save(request.model, path)
        file, digest = path.read_bytes(), read_tensors(path)[1]["digest"]
    found, strides = {}, request.model.tether.strides()
    forms: dict[str, Jacobian] = {"": "", "jac_": "within"}
    if strides is not None and strides.any():
        forms["jac_across_"] = "across"
    for prefix, jacobian in forms.items():
        name = prefix + request.name
        form = Form(name, request.dtype, request.weights, jacobian, request.certificate, file, digest)
        found[f"{name}.onnx"] = build(request.model, form).SerializeToString(deterministic=True)
    return found
