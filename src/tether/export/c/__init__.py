"""C99: a header and a source file of a model, without allocation, that need `math.h` alone."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tether.export.c.source import Form, header, source
from tether.export.exporting import Request
from tether.files.storage import save
from tether.foundation.atomic import read_tensors
from tether.model import Model


def files(request: Request) -> dict[str, bytes]:
    """The header and the source file."""
    form = form_of(request.model, request.name, request.dtype, request.certificate)
    return {
        f"{form.name}.h": header(request.model, form).encode(),
        f"{form.name}.c": source(request.model, form).encode(),
    }


def form_of(model: Model, name: str, dtype: str, certificate: Mapping[str, Any]) -> Form:
    """What a source file of the model is made from."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        save(model, path)
        return Form(name, dtype, certificate, path.read_bytes(), read_tensors(path)[1]["digest"])
