"""`verify` of any file that holds a claim: a model file, or one that was exported."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from tether.foundation.errors import CertificateError
from tether.foundation.executors import spread_over
from tether.foundation.progress import Report
from tether.trusted import Function, TrustedModel
from tether.verification import Verification

READERS: dict[str, str] = {
    ".c": "tether.export.c.reading:verify_source",
    ".fmu": "tether.export.fmu.reading:verify_fmu",
    ".onnx": "tether.export.onnx.reading:verify_graph",
    ".pt2": "tether.export.verifying:refuse_program",
}
"""By the end of a file's name, where the function that verifies it is; called as :func:`verify` is."""


def verify(
    path: str | Path,
    trusted: TrustedModel | Function,
    certificate: str | Path | None = None,
    progress: Report | None = None,
    *,
    seed: int = 0,
    client: Any | None = None,
    over: Callable[..., Any] | None = None,
) -> Verification:
    """Establishes the claim of a model file, or of an exported file, again from it and M alone.

    Args:
        path: the file, or the folder of a run.
        trusted: M.
        certificate: a ``certificate.json`` that must say the same; by default the one beside a run's model.
        progress: told (cells or draws done, to do).
        seed: of the draws that `statistical` evidence is tested with.
        over: the function over whose draws a statistical claim is, where it is over these; of model files.
        client: of a Dask cluster that shows leaves or cells, or the address of its scheduler.

    Raises:
        CertificateError: something does not match or cannot be shown; the message names it.
        StorageError: a file is not what it should be.
    """
    if not isinstance(path, str | Path):
        raise TypeError(
            f"`path` must be a file, which is what is verified, or the folder of a run; got "
            f"{type(path).__name__}. Write a model with `tether.save` first, or ask `tether.certify`."
        )
    home, _, function = READERS.get(Path(path).suffix, "tether.verification:verify").partition(":")
    show: Callable[..., Verification] = getattr(import_module(home), function)
    with spread_over(client):
        if over is None:
            return show(path, trusted, certificate, progress, seed=seed)
        if Path(path).suffix in READERS:
            raise ValueError(f"`over` must come with a model file; got `{path}`. Verify the one it is of.")
        return show(path, trusted, certificate, progress, seed=seed, over=over)


def refuse_program(path: str | Path, *_: object, **__: object) -> Verification:
    """A torch program is not vouched for, in one line."""
    raise CertificateError(
        f"not verified: `{path}` is a torch program, of which nothing is shown. Verify the model file it "
        "was exported from, or export to 'c', 'fmu' or 'onnx', which `verify` reads."
    )
