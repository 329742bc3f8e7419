"""Forms of M other than a NumPy function, one file for each; a new one is a file and a line in `FORMS`.

SymPy, CasADi, torch, ONNX and JAX models are translated into NumPy source, operation by operation: what is
proved is proved of that. That it is the original, to rounding, is checked at 10,000 points, not proved.
FMUs and MuJoCo models are black boxes with derivatives of their own.
"""

from __future__ import annotations

from dataclasses import fields
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

from tether.trusted.forms.form import Form
from tether.trusted.model import TrustedModel

FORMS = ("sympy", "casadi", "torch", "onnx", "jax", "fmu", "mujoco")
"""Files of this folder, each with a `FORM`."""
SUFFIXES = {".onnx": "onnx", ".fmu": "fmu", ".xml": "mujoco"}
"""Of files that hold a model."""


def form(name: str) -> Form:
    """The form of that name."""
    return import_module(f"{__name__}.{name}").FORM


def read_form(value: Any, **options: Any) -> TrustedModel | None:
    """The model that an object of a known form, or the file of that name, is; None for all others."""
    if isinstance(value, str | Path):
        return read_file(Path(value), **options) if Path(value).suffix in SUFFIXES else None
    for known in map(form, FORMS):
        if known.recognises(value):
            return _read(known, value, options)
    if unknown := set(options) - {field.name for field in fields(TrustedModel)}:
        hint = " A JAX function must be under jax.jit." if unknown <= {"states", "controls"} else ""
        raise TypeError(
            f"`{min(unknown)}` must come with a model of a form that takes it; got "
            f"{type(value).__name__}.{hint}"
        )
    return None


def read_file(path: Path, **options: Any) -> TrustedModel:
    """The model in a file, by its suffix."""
    if not path.is_file():
        raise ValueError(f"`trusted` must name an existing file; got '{path}'. Check the path.")
    return _read(form(SUFFIXES[path.suffix]), path, options)


def _read(known: Form, value: Any, options: dict[str, Any]) -> TrustedModel:
    taken = list(signature(known.read).parameters)[1:]
    if unknown := set(options) - set(taken):
        raise TypeError(
            f"`{min(unknown)}` must be an option of this form of model ({known.module}); it takes "
            f"{', '.join(taken)}."
        )
    return known.read(value, **options)
