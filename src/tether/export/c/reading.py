"""`verify` of an exported C file: that it is what the model inside it is written as, and that model's claim.

Writing the file again from the model file that it carries must give it, byte for byte; so no table, no line
of code and no word of it is another than Tether's. The claim of the model is then established by
:mod:`tether.verification`, which shares nothing with what built it.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

from tether.export.c.source import Form, read, source
from tether.files.storage import peek
from tether.foundation.atomic import write_bytes, write_json
from tether.foundation.documents import read_text, shorten
from tether.foundation.errors import CertificateError, StorageError
from tether.foundation.limits import LARGEST_FILE
from tether.foundation.progress import Report
from tether.trusted import Function, TrustedModel
from tether.verification import Verification, verify
from tether.verification.claim import claim_of, read_content
from tether.verification.float32 import single_deltas

_COMPILED = "what a compiler makes of it (IEEE 754 is assumed, fused products are allowed for)"


def verify_source(
    path: str | Path,
    trusted: TrustedModel | Function,
    certificate: str | Path | None = None,
    progress: Report | None = None,
    *,
    seed: int = 0,
) -> Verification:
    """Establishes the claim of an exported C file again; see :func:`tether.export.verifying.verify`."""
    path = Path(path)
    return verify_text(path, read_text(path, most=LARGEST_FILE), trusted, certificate, progress, seed=seed)


def verify_text(
    path: Path,
    text: str,
    trusted: TrustedModel | Function,
    certificate: str | Path | None = None,
    progress: Report | None = None,
    *,
    seed: int = 0,
) -> Verification:
    """The same of a file's text; `path` is what messages call it."""
    try:
        form = read(text)
    except (ValueError, RecursionError) as error:
        raise StorageError(f"`{path}` must be a C file exported by Tether; {shorten(error)}.") from None
    with tempfile.TemporaryDirectory() as folder:
        held = Path(folder) / "model.safetensors"
        write_bytes(held, form.file)
        try:
            _compare(path, held, text, form)
            if certificate is None and form.certificate:
                certificate = Path(folder) / "certificate.json"
                write_json(certificate, form.certificate)
            found = verify(held, trusted, certificate, progress, seed=seed)
            singles = _singles(held) if form.dtype == "float32" else None
        except StorageError as error:
            said = str(error).replace(str(held), f"{path} (its model)").replace(folder, str(path))
            raise StorageError(said) from None
    return _about_code(found, form, singles)


def _compare(path: Path, held: Path, text: str, form: Form) -> None:
    """Raises unless the model inside is written as the file is."""
    digest = _stated(held)
    if digest != form.digest:
        raise CertificateError(f"not verified: `{path}` states another model than it holds.")
    try:
        again = source(peek(held), form)
    except (ValueError, TypeError) as error:
        if isinstance(error, StorageError):
            raise
        raise CertificateError(f"not verified: the model of `{path}` has no such form: {error}") from None
    if again == text:
        return
    lines = zip([*text.splitlines(), ""], again.splitlines(), strict=False)
    number = next((k for k, (one, two) in enumerate(lines, 1) if one != two), 0)
    raise CertificateError(
        f"not verified: line {number} of `{path}` is not what this version of Tether writes for the model "
        "inside it; the file was changed, or written by another version."
    )


def _stated(held: Path) -> str:
    from tether.foundation.atomic import read_tensors

    return str(read_tensors(held)[1].get("digest"))


def _singles(held: Path) -> list[float | None]:
    """The largest delta of each output in float32, worked out by the verifier's own analysis."""
    return single_deltas(claim_of(read_content(held)))


def _about_code(found: Verification, form: Form, singles: list[float | None] | None) -> Verification:
    shown = f"Every line of the C file is what its model is written as in {form.dtype}. " + found.statement
    found = replace(found, statement=shown, not_vouched=(*found.not_vouched, _COMPILED))
    if singles is None or not found.verified:
        return found
    if any(delta is None for delta in singles):
        raise CertificateError("not verified: nothing can be shown of the model in float32.")
    most = [float(delta or 0.0) for delta in singles]
    return replace(found, deltas={name: (own, own) for name, own in zip(found.deltas, most, strict=True)})
