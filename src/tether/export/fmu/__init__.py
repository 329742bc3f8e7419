"""FMUs: FMI 2.0 or 3.0 for co-simulation from the C file, sources and a binary of this platform inside."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping

from tether.export.c import files as c_files
from tether.export.compiling import library_suffix, shared_library
from tether.export.exporting import Request, in_double
from tether.export.fmu.fmi2 import FMI2
from tether.export.fmu.fmi3 import FMI3
from tether.export.fmu.standard import Standard, sources
from tether.export.fmu.variables import Variables


def files(request: Request) -> dict[str, bytes]:
    """One archive, of FMI 2.0."""
    return _files(request, FMI2)


def files3(request: Request) -> dict[str, bytes]:
    """One archive, of FMI 3.0."""
    return _files(request, FMI3)


def _files(request: Request, standard: Standard) -> dict[str, bytes]:
    in_double(request)
    name, schema = request.name, request.model.schema
    if not schema.rolls_out:
        raise ValueError(
            "`model` must predict every state, so that a simulation can go on from it; got outputs "
            f"{', '.join(schema.outputs)}. Use another form."
        )
    found = c_files(request)
    digest = json.loads(_about(found[f"{name}.c"]))["model_sha256"]
    texts = {path: text.encode() for path, text in standard.written(Variables(schema), name, digest).items()}
    texts |= {f"sources/{part}": text for part, text in found.items()}
    code = {
        path.removeprefix("sources/"): text for path, text in texts.items() if path.startswith("sources/")
    }
    content = {
        **texts,
        f"binaries/{standard.system()}/{name}{library_suffix()}": shared_library(code, sources(name)),
        "resources/certificate.json": json.dumps(request.certificate, indent=2).encode(),
    }
    return {f"{name}.fmu": _archive(content)}


def _about(source: bytes) -> str:
    """What a C file says of itself, first."""
    return source.decode().removeprefix("/* about\n").partition("\n*/")[0]


def _archive(content: Mapping[str, bytes]) -> bytes:
    """A zip file that says nothing of when it was made."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in content.items():
            entry = zipfile.ZipInfo(name)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, part)
    return whole.getvalue()
