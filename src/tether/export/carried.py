"""`verify` of an exported file that carries its model file: that is written anew, and the claim is its."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tether.files.storage import peek
from tether.foundation.atomic import read_tensors, write_bytes, write_json
from tether.foundation.errors import CertificateError, StorageError
from tether.foundation.progress import Report
from tether.model import Model
from tether.trusted import Function, TrustedModel
from tether.verification import Verification, verify
from tether.verification.content import claim_of, read_content
from tether.verification.float32 import single_deltas


@dataclass(frozen=True, eq=False)
class Carried:
    """An exported file as it was read.

    Attributes:
        path: what messages call it.
        file: the model file that it carries.
        digest: that it states of that.
        dtype: what its numbers are computed in.
        certificate: that it carries; empty where there is none.
        compare: raises CertificateError unless a model is written as the file is.
        shown: what has been shown where that did not raise, in a sentence.
        assumed: what is not vouched for.
    """

    path: Path
    file: bytes
    digest: str
    dtype: str
    certificate: Mapping[str, Any]
    compare: Callable[[Model], None]
    shown: str
    assumed: str


def verify_carried(
    exported: Carried,
    trusted: TrustedModel | Function,
    certificate: str | Path | None = None,
    progress: Report | None = None,
    *,
    seed: int = 0,
) -> Verification:
    """That the file is what its model is written as, and the claim of that model."""
    path = exported.path
    with tempfile.TemporaryDirectory() as folder:
        held = Path(folder) / "model.safetensors"
        write_bytes(held, exported.file)
        try:
            _compare(exported, held)
            if certificate is None and exported.certificate:
                certificate = Path(folder) / "certificate.json"
                write_json(certificate, dict(exported.certificate))
            found = verify(held, trusted, certificate, progress, seed=seed)
            single = exported.dtype == "float32"
            singles = single_deltas(claim_of(read_content(held))) if single else None
        except StorageError as error:
            said = str(error).replace(str(held), f"{path} (its model)").replace(folder, str(path))
            raise StorageError(said) from None
    statement, assumed = f"{exported.shown} {found.statement}", (*found.not_vouched, exported.assumed)
    return _in_its_precision(replace(found, statement=statement, not_vouched=assumed), singles)


def _compare(exported: Carried, held: Path) -> None:
    """Raises unless the model inside is the one stated, and written as the file is."""
    path = exported.path
    if str(read_tensors(held)[1].get("digest")) != exported.digest:
        raise CertificateError(f"not verified: `{path}` states another model than it holds.")
    try:
        exported.compare(peek(held))
    except (ValueError, TypeError) as error:
        if isinstance(error, StorageError | CertificateError):
            raise
        raise CertificateError(f"not verified: the model of `{path}` has no such form: {error}") from None


def _in_its_precision(found: Verification, singles: list[float | None] | None) -> Verification:
    """With the deltas of float32, worked out by the verifier's own analysis."""
    if singles is None or not found.verified:
        return found
    if any(delta is None for delta in singles):
        raise CertificateError("not verified: nothing can be shown of the model in float32.")
    most = [float(delta or 0.0) for delta in singles]
    return replace(found, deltas={name: (own, own) for name, own in zip(found.deltas, most, strict=True)})
