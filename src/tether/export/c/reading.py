"""`verify` of an exported C file: that it is what the model inside it is written as, and that model's claim.

Writing the file again from the model file that it carries must give it, byte for byte; so no table, no line
of code and no word of it is another than Tether's. The claim of the model is then established by
:mod:`tether.verification`, which shares nothing with what built it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from tether.export.c.source import Form, header, read, source
from tether.export.carried import Carried, verify_carried
from tether.foundation.documents import read_text, shorten
from tether.foundation.errors import CertificateError, StorageError
from tether.foundation.limits import LARGEST_FILE
from tether.foundation.progress import Report
from tether.model import Model
from tether.trusted import Function, TrustedModel
from tether.verification import Verification

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
    text = read_text(path, most=LARGEST_FILE)
    form = _form(path, text)
    beside = path.with_name(f"{form.name}.h")
    if not beside.is_file():
        found = verify_text(path, text, trusted, certificate, progress, seed=seed)
        return replace(found, not_vouched=(*found.not_vouched, f"`{beside.name}`, which is not beside it"))
    included = {str(beside): (read_text(beside), header)}
    return verify_text(path, text, trusted, certificate, progress, included, seed=seed)


def verify_text(
    path: Path,
    text: str,
    trusted: TrustedModel | Function,
    certificate: str | Path | None = None,
    progress: Report | None = None,
    others: Mapping[str, tuple[str, Callable[[Model, Form], str]]] | None = None,
    *,
    seed: int = 0,
) -> Verification:
    """The same of a file's text; `path` is what messages call it.

    Args:
        path: what messages call the file.
        text: of the file.
        trusted: M.
        certificate: one that must say the same.
        progress: told (cells or draws done, to do).
        others: texts that follow from the same model, by what messages call them, and what writes each.
        seed: of draws.
    """
    form = _form(path, text)

    def compare(model: Model) -> None:
        again = source(model, form)
        if again == text:
            for own, (found, write) in (others or {}).items():
                if found != write(model, form):
                    raise CertificateError(f"not verified: `{own}` is not what Tether writes for the model.")
            return
        lines = zip([*text.splitlines(), ""], again.splitlines(), strict=False)
        number = next((k for k, (one, two) in enumerate(lines, 1) if one != two), 0)
        raise CertificateError(
            f"not verified: line {number} of `{path}` is not what this version of Tether writes for the "
            "model inside it; the file was changed, or written by another version."
        )

    what = f"Every line of the C file is what its model is written as in {form.dtype}."
    held = Carried(path, form.file, form.digest, form.dtype, form.certificate, compare, what, _COMPILED)
    return verify_carried(held, trusted, certificate, progress, seed=seed)


def _form(path: Path, text: str) -> Form:
    try:
        return read(text)
    except (ValueError, RecursionError) as error:
        raise StorageError(f"`{path}` must be a C file exported by Tether; {shorten(error)}.") from None
