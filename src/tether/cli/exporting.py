"""The verb that takes a model along: export."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tether.cli.starting import starting
from tether.cli.terminal import ModelPath, say, writing


def export_command(
    model: ModelPath,
    to: Annotated[str, typer.Option(help="The form: c, casadi, fmu, fmu3, onnx or torch.")],
    out: Annotated[Path, typer.Option(help="The folder for its files; nothing in it is overwritten.")],
    name: Annotated[str, typer.Option(help="What files and functions are called.")] = "model",
    dtype: Annotated[str, typer.Option(help="Numbers are computed in float64 or float32.")] = "float64",
    weights: Annotated[
        str, typer.Option(help="onnx: 'inputs' makes them inputs of the graph, the model's as defaults.")
    ] = "fixed",
) -> None:
    """Write a model in a form that runs without Tether, its guarantee inside."""
    with starting():
        from tether.export import export
        from tether.files.storage import peek
        from tether.foundation.documents import model_file, plain, read_json
    path = model_file(model)
    beside = path.with_name("certificate.json")
    certificate = read_json(beside, plain) if beside.is_file() else None
    with writing(out):
        files = export(
            peek(path), to=to, out=out, name=name, dtype=dtype, certificate=certificate, weights=weights
        )
    for file in files:
        say(f"exported: {file}", wrap=False)
