"""FMU: FMI 2.0 for co-simulation from the C file, sources and a binary of this platform inside."""

from __future__ import annotations

import io
import json
import platform
import struct
import sys
import zipfile
from collections.abc import Mapping

from tether.export.c import files as c_files
from tether.export.compiling import library_suffix, shared_library
from tether.export.exporting import Request, in_double
from tether.export.fmu.code import interface
from tether.export.fmu.description import Variables, description

_SYSTEMS = {"win32": "win", "darwin": "darwin"}


def files(request: Request) -> dict[str, bytes]:
    """One archive."""
    in_double(request)
    name, schema = request.name, request.model.schema
    if not schema.rolls_out:
        raise ValueError(
            "`model` must predict every state, so that a simulation can go on from it; got outputs "
            f"{', '.join(schema.outputs)}. Use another form."
        )
    found = c_files(request)
    variables = Variables(schema)
    guid = json.loads(_about(found[f"{name}.c"]))["model_sha256"]
    sources = found | {f"{name}_fmu.c": interface(variables, name, guid).encode()}
    own = [f"{name}.c", f"{name}_fmu.c"]
    system = _SYSTEMS.get(sys.platform, "linux") + str(8 * struct.calcsize("P"))
    if platform.machine().lower() in ("arm64", "aarch64"):
        system = {"linux64": "aarch64-linux", "darwin64": "darwin64"}.get(system, system)
    content = {
        "modelDescription.xml": description(variables, name, guid, own).encode(),
        **{f"sources/{part}": text for part, text in sources.items()},
        f"binaries/{system}/{name}{library_suffix()}": shared_library(sources, own),
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
