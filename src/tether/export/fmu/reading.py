"""`verify` of an FMU: of the C file among its sources, and of the other texts, which follow from it."""

from __future__ import annotations

import tempfile
import zipfile
import zlib
from dataclasses import replace
from pathlib import Path

from tether.export.c.reading import verify_text
from tether.export.c.source import header, read
from tether.export.fmu.code import interface
from tether.export.fmu.description import Variables, description
from tether.files.storage import peek
from tether.foundation.documents import require_file, shorten
from tether.foundation.errors import CertificateError, StorageError
from tether.foundation.limits import LARGEST_FILE
from tether.foundation.progress import Report
from tether.trusted import Function, TrustedModel
from tether.verification import Verification

_BINARIES = "the binaries, which nobody can read: compile the sources yourself"


def verify_fmu(
    path: str | Path,
    trusted: TrustedModel | Function,
    certificate: str | Path | None = None,
    progress: Report | None = None,
    *,
    seed: int = 0,
) -> Verification:
    """Establishes the claim of an FMU's sources again; see :func:`tether.export.verifying.verify`."""
    path = Path(path)
    texts = _texts(path)
    name = next((own.removesuffix("_fmu.c") for own in texts if own.endswith("_fmu.c")), "")
    place = Path(f"{path}:sources/{name}.c")
    found = verify_text(place, texts.get(f"{name}.c", ""), trusted, certificate, progress, seed=seed)
    for own, text in _expected(texts[f"{name}.c"]).items():
        if texts.get(own) != text:
            raise CertificateError(
                f"not verified: `{own}` of `{path}` is not what Tether writes for its model."
            )
    return replace(found, not_vouched=(*found.not_vouched, _BINARIES))


def _texts(path: Path) -> dict[str, str]:
    """The sources by name, and the description."""
    require_file(path)
    try:
        with zipfile.ZipFile(path) as archive:
            entries = {entry.filename: entry for entry in archive.infolist()}
            wanted = {
                name: entry
                for name, entry in entries.items()
                if name == "modelDescription.xml" or name.startswith("sources/")
            }
            if sum(entry.file_size for entry in wanted.values()) > LARGEST_FILE:
                raise ValueError("it would be larger than any of ours")
            return {
                name.removeprefix("sources/"): archive.read(entry).decode() for name, entry in wanted.items()
            }
    except (zipfile.BadZipFile, zlib.error, OSError, ValueError, NotImplementedError, EOFError) as error:
        raise StorageError(f"`{path}` must be an FMU exported by Tether; {shorten(error)}.") from None


def _expected(source: str) -> dict[str, str]:
    """Every other text, from a source file that was found to be genuine."""
    form = read(source)
    with tempfile.TemporaryDirectory() as folder:
        held = Path(folder) / "model.safetensors"
        held.write_bytes(form.file)
        model = peek(held)
    variables, name = Variables(model.schema), form.name
    return {
        f"{name}.h": header(model, form),
        f"{name}_fmu.c": interface(variables, name, form.digest),
        "modelDescription.xml": description(variables, name, form.digest, [f"{name}.c", f"{name}_fmu.c"]),
    }
