"""What the verbs share: where they print, and how they find models and write files."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tether.foundation.printing import make_console, plain

if TYPE_CHECKING:
    from tether.model import Model
    from tether.trusted import TrustedModel


console = make_console()

ModelPath = Annotated[Path, typer.Argument(help="A model file, or the folder of a run.")]
TrustedSpec = Annotated[
    str,
    typer.Option(
        help="The trusted model: module:name or file.py:name, in any form, or an .onnx, .fmu or .xml file."
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(help="Address of a Dask scheduler, tcp://host:port, whose workers do what can be spread."),
]


def say(text: str = "", style: str = "", *, wrap: bool = True) -> None:
    """Prints a line as it is; a path is not to be broken into two."""
    console.print(plain(text, style), soft_wrap=not wrap)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Names the file that could not be written."""
    try:
        yield
    except OSError as error:
        raise ValueError(f"`{path}` must be writable; {error.strerror}. Choose another `--out`.") from None


def command_line() -> str:
    """What was typed."""
    return shlex.join([command_name(), *sys.argv[1:]])


def command_name() -> str:
    """How the program is called."""
    return "tether"


def claiming_model(path: Path, trusted: TrustedModel, missing: str) -> Model:
    """The model, of which something must be claimed; a direct one with its trusted model."""
    from tether.files.storage import load

    learned = load(path, trusted=trusted)
    if learned.tether.holds:
        return learned
    raise ValueError(f"`{path}` must be a constrained model; this one has no {missing}.")


def with_unit(model: Model, name: str) -> str:
    """A column as it is printed."""
    unit = model.schema.unit(name)
    return f"{name} [{unit}]" if unit else name
