"""`verify` of an exported C file: that it is what the model inside it is written as, and that model's claim.

Writing the file again from the model file that it carries must give it, byte for byte; so no table, no line
of code and no word of it is another than Tether's. The claim of the model is then established by
:mod:`tether.verification`, which shares nothing with what built it.
"""

from __future__ import annotations

from pathlib import Path

from tether.export.c.source import read, source
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

    def compare(model: Model) -> None:
        again = source(model, form)
        if again == text:
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
