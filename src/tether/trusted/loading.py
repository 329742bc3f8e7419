"""A trusted model from wherever it is: an object, ``module:name``, ``file.py:name``, or a file of its own."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from cloudpickle import register_pickle_by_value

from tether.foundation.documents import shorten
from tether.trusted import TrustedModel, as_trusted
from tether.trusted.forms import SUFFIXES


def load_trusted(spec: Any, **options: Any) -> TrustedModel:
    """The trusted model that `spec` is, or names.

    Args:
        spec: ``package.module:name`` or ``path/to/file.py:name`` of a function or of a model in another form;
            the path of an ``.onnx``, ``.fmu`` or ``.xml`` (MuJoCo) file; or such an object itself.
        options: what a form must be told: ``states=``, ``controls=`` (how many, of a JAX function),
            ``frame_skip=`` (MuJoCo), ``step=``, ``substeps=`` and ``jobs=`` (an FMU).
    """
    if not isinstance(spec, str | Path) or (Path(spec).suffix in SUFFIXES):
        return as_trusted(spec, **options)
    source, colon, name = str(spec).rpartition(":")
    if not colon or not source or not name:
        raise ValueError(
            f"`trusted` must be module:function or file.py:function; got '{shorten(spec)}'. Or name a file "
            f"{', '.join(SUFFIXES)}."
        )
    module = _load_file(Path(source)) if source.endswith(".py") else _load_module(source)
    if not hasattr(module, name):
        public = ", ".join(n for n in vars(module) if not n.startswith("_") and callable(vars(module)[n]))
        raise ValueError(
            f"`trusted` must name a function of {source}; got '{shorten(name)}'. "
            f"It has: {shorten(public) or 'none'}."
        )
    try:
        return as_trusted(getattr(module, name), **options)
    except TypeError as error:
        raise ValueError(str(error)) from None


def _load_module(name: str) -> ModuleType:
    # A command started as a script does not look for modules in the folder it was started in.
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        raise ValueError(
            f"`trusted` must name an importable module; {shorten(name)}: {type(error).__name__}: "
            f"{shorten(error)}."
        ) from error


def _load_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise ValueError(f"`trusted` must name an existing file; got '{path}'. Check the path.")
    name = f"tether_trusted_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    # The file may import its neighbours, as it would when run.
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise ValueError(
            f"`trusted` must be a file that runs; {path}: {type(error).__name__}: {shorten(error)}."
        ) from error
    finally:
        sys.path.remove(str(path.parent.resolve()))
    # Worker processes cannot import it by name, so it travels by value.
    register_pickle_by_value(module)
    return module
