"""`export`: a model in another form, in a folder of its own files."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from tether.foundation.atomic import write_bytes
from tether.foundation.documents import shorten
from tether.foundation.extras import installing
from tether.model import Model

FORMATS: dict[str, str] = {
    "c": "tether.export.c:files",
    "casadi": "tether.export.casadi:files",
    "fmu": "tether.export.fmu:files",
    "fmu3": "tether.export.fmu:files3",
    "onnx": "tether.export.onnx:files",
    "torch": "tether.export.pytorch:files",
}
"""Of each format, where its function is: from a :class:`Request` to the content of files by their names.

A module is imported when its format is asked for, so that what it needs stays optional.
"""

IDENTIFIER = r"[A-Za-z][A-Za-z0-9_]{0,62}"
"""What files and functions may be called."""
DTYPES = ("float64", "float32")
WEIGHTS = ("fixed", "inputs")


@dataclass(frozen=True, eq=False)
class Request:
    """What is asked of a format.

    Attributes:
        model: what to export.
        name: an identifier, which names files and functions.
        dtype: what numbers are computed in: `float64` or `float32`.
        certificate: what `tether certify` says of the model, as its file has it; empty where nobody asked.
        weights: `fixed`, or `inputs` where the format can take them at run time.
    """

    model: Model
    name: str
    dtype: str = "float64"
    certificate: Mapping[str, Any] = field(default_factory=dict)
    weights: str = "fixed"


def export(
    model: Model,
    *,
    to: str,
    out: str | Path,
    name: str = "model",
    dtype: str = "float64",
    certificate: Mapping[str, Any] | None = None,
    weights: str = "fixed",
) -> list[Path]:
    """Writes `model` in another form into a folder, and returns the files.

    Args:
        model: what to export.
        to: the format, one of `FORMATS`.
        out: a folder, made where there is none; nothing in it is overwritten.
        name: an identifier of C, which names files and functions.
        dtype: what numbers are computed in: `float64` or `float32`.
        certificate: what `tether certify` says of the model, to travel with it.
        weights: with `onnx`, `inputs` makes them inputs of the graph with the model's as defaults, so that
            new weights (:func:`tether.adapt`) need no new file.
    """
    _check(to, name, dtype)
    if weights not in WEIGHTS or (weights == "inputs" and to != "onnx"):
        raise ValueError(
            f"`weights` must be 'fixed', or 'inputs' with `to` 'onnx'; got '{shorten(weights)}' with '{to}'."
        )
    home, _, function = FORMATS[to].partition(":")
    write: Callable[[Request], Mapping[str, bytes]] = getattr(import_module(home), function)
    return _write(Path(out), write(Request(model, name, dtype, certificate or {}, weights)))


def in_double(request: Request) -> None:
    """Raises unless float64 is asked for: what is around the model speaks no other.

    A float32 model would round what it is given, and its delta is for the inputs as rounded.
    """
    if request.dtype != "float64":
        raise ValueError(
            f"`dtype` must be 'float64' for this form, which hands over float64; got '{request.dtype}'. Only "
            "'c', 'onnx' and 'torch' have float32."
        )


def needed(package: str) -> Any:
    """A package that a format needs and Tether alone does not, or one line that says how to get it."""
    try:
        return import_module(package)
    except ImportError:
        raise ValueError(
            f"this export must have {package}; it is not installed. Run {installing(package)}."
        ) from None


def _check(to: str, name: str, dtype: str) -> None:
    for option, value, known in (("to", to, tuple(FORMATS)), ("dtype", dtype, DTYPES)):
        if value not in known:
            names = ", ".join(f"'{own}'" for own in known)
            raise ValueError(f"`{option}` must be one of {names}; got '{shorten(value)}'.")
    if not re.fullmatch(IDENTIFIER, name):
        raise ValueError(
            f"`name` must be a letter and then letters, digits or _, at most 63; got '{shorten(name)}'. It "
            "names files and functions."
        )


def _write(folder: Path, files: Mapping[str, bytes]) -> list[Path]:
    """All files, made before the first is written."""
    paths = [folder / name for name in files]
    for path in paths:
        if path.exists():
            raise ValueError(f"`{path}` must be a new file; it exists and nothing is overwritten.")
    folder.mkdir(parents=True, exist_ok=True)
    for path, content in zip(paths, files.values(), strict=True):
        write_bytes(path, content)
    return paths
