"""`verify` of an exported ONNX file: that it is what the model inside it becomes, and that model's claim.

Building the graph again from the model file that it carries must give it: every node, every table, every
word. So there is no operator in it that is not Tether's, and no number of another model. The claim of the
model is then established by :mod:`tether.verification`, which shares nothing with what built it.
"""

from __future__ import annotations

from pathlib import Path

from tether.export.carried import Carried, verify_carried
from tether.export.exporting import needed
from tether.foundation.documents import read_bytes, shorten
from tether.foundation.errors import CertificateError, StorageError
from tether.foundation.limits import LARGEST_FILE
from tether.foundation.progress import Report
from tether.model import Model
from tether.trusted import Function, TrustedModel
from tether.verification import Verification

_RUN = "what a runtime makes of it (the arithmetic that the types name is assumed)"


def verify_graph(
    path: str | Path,
    trusted: TrustedModel | Function,
    certificate: str | Path | None = None,
    progress: Report | None = None,
    *,
    seed: int = 0,
) -> Verification:
    """Establishes the claim of an exported ONNX file again; see :func:`tether.export.verifying.verify`."""
    needed("onnx")
    from google.protobuf.message import DecodeError

    from tether.export.onnx.graph import ModelProto, described
    from tether.export.onnx.model import build, read_form

    path = Path(path)
    try:
        found = ModelProto.FromString(read_bytes(path, most=LARGEST_FILE))
        form = read_form(found)
    except (DecodeError, ValueError, RecursionError) as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError(f"`{path}` must be an ONNX file exported by Tether; {shorten(error)}.") from None

    def compare(model: Model) -> None:
        again = build(model, form)
        # Serialised, so that what this version knows no field for is seen too.
        if again.SerializeToString(deterministic=True) != found.SerializeToString(deterministic=True):
            raise CertificateError(
                f"not verified: the {described(found, again)} of `{path}` is not what this version of Tether "
                "writes for the model inside it; the file was changed, or written by another version."
            )

    what = f"Every node and every table of the graph is what its model becomes in {form.dtype}."
    held = Carried(path, form.file, form.digest, form.dtype, form.certificate, compare, what, _RUN)
    return verify_carried(held, trusted, certificate, progress, seed=seed)
