"""`verify` of an FMU: of the C file among its sources, and of all else in it, which follows from that."""

from __future__ import annotations

import json
import re
import zipfile
import zlib
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path

from tether.export.c.reading import verify_text
from tether.export.c.source import Form, header
from tether.export.exporting import IDENTIFIER
from tether.export.fmu.fmi2 import FMI2
from tether.export.fmu.fmi3 import FMI3
from tether.export.fmu.standard import Standard, Write
from tether.export.fmu.variables import Variables
from tether.foundation.documents import require_file, shorten
from tether.foundation.errors import CertificateError, StorageError
from tether.foundation.limits import LARGEST_FILE
from tether.foundation.progress import Report
from tether.model import Model
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
    found = (re.fullmatch(rf"sources/({IDENTIFIER})_fmu\.c", own) for own in texts)
    name = next((own[1] for own in found if own), "")
    source, writers = f"sources/{name}.c", _writers(name, _standard(texts))
    # What else is there would be found by a compiler before its own, or overwrite one of these.
    strange = sorted(set(texts) ^ {source, *writers})
    if strange:
        name = strange[0]
        raise CertificateError(f"not verified: `{path}` must hold what Tether writes; `{name}` differs.")
    others = {f"{path}:{own}": (texts[own], write) for own, write in writers.items()}
    place = Path(f"{path}:{source}")
    shown = verify_text(place, texts[source], trusted, certificate, progress, others, seed=seed)
    return replace(shown, not_vouched=(*shown.not_vouched, _BINARIES))


def _texts(path: Path) -> dict[str, str]:
    """All that it holds but for the binaries, by name."""
    require_file(path)
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            if len({entry.filename for entry in entries}) != len(entries):
                raise ValueError("it has two files of one name")
            binary = re.compile(rf"binaries/[A-Za-z0-9_-]+/{IDENTIFIER}\.(so|dll|dylib)")
            wanted = [entry for entry in entries if not binary.fullmatch(entry.filename)]
            if sum(entry.file_size for entry in wanted) > LARGEST_FILE:
                raise ValueError("it would be larger than any of ours")
            return {entry.filename: archive.read(entry).decode() for entry in wanted}
    except (
        zipfile.BadZipFile, zlib.error, OSError, ValueError, NotImplementedError, EOFError, RuntimeError
    ) as error:  # fmt: skip
        raise StorageError(f"`{path}` must be an FMU exported by Tether; {shorten(error)}.") from None


def _standard(texts: Collection[str]) -> Standard:
    """By what says how it is compiled, which only one has."""
    return FMI3 if "sources/buildDescription.xml" in texts else FMI2


def _writers(name: str, standard: Standard) -> dict[str, Callable[[Model, Form], str]]:
    """Of every text but the source, what writes it."""

    def around(write: Write) -> Callable[[Model, Form], str]:
        return lambda model, form: write(Variables(model.schema), form.name, form.digest)

    def certified(model: Model, form: Form) -> str:
        del model
        return json.dumps(form.certificate, indent=2)

    return {
        **{path: around(write) for path, write in standard.named(name).items()},
        f"sources/{name}.h": header,
        "resources/certificate.json": certified,
    }
