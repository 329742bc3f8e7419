"""Models of the studies in every exported form: what the library says, in its domain only, inside delta of M exactly.

    python benchmarks/exported_studies.py [vehicle] [drones] [pancreas]

Each is the study's own Tethered at smoke scale. A million random inputs, half uniform in and around the box and half near
memories, go through C (either precision), ONNX (either) and the torch program; CasADi and the FMU, which are the same C
asked row by row, get fewer. M is compared in numbers that do not round, on a sample.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

import bench_export
import tether
from bench_onnx import exported as onnx_session
from sizes import size
from tether.export import export
from tether.fitting import learn_method, prepare
from tether.foundation.progress import silent
from tether.model import Model
from tether_studies.registry import find_study

ROWS, FEW, SAMPLE = size((1_000_000, 20_000, 1000), (300, 20, 10))
BATCH = 8192


class Answers(NamedTuple):
    """Of N inputs."""

    next_states: np.ndarray
    delta: np.ndarray
    in_domain: np.ndarray


Form = Callable[[Model, np.ndarray, str, Path], Answers]


def studied(name: str) -> tuple[Model, tether.TrustedModel]:
    """The study's Tethered and its M."""
    study = find_study(name)
    data = study.simulate("smoke", 0, {}, silent)
    row = next(entry for entry in study.matrix("smoke") if entry.method.name.startswith("Tethered"))
    config = replace(row.config(study.config("smoke"), 0), **size({}, {"leaves": 200}))
    trusted = study.trusted(data, config)
    problem = prepare(data.transitions, trusted=trusted, probes=data.probes, config=config)
    return learn_method(problem, row.method, config).model, problem.trusted


def in_c(model: Model, inputs: np.ndarray, dtype: str, folder: Path) -> Answers:
    library = bench_export.compiled(model, folder, dtype)
    found, delta = np.empty((2, len(inputs), len(model.schema.outputs)), dtype)
    inside = np.empty(len(inputs), np.int32)
    places = (bench_export.address(part) for part in (inputs, found, delta, inside))
    library.all_rows(len(inputs), *places)
    return Answers(found, delta, inside.astype(bool))


def in_onnx(model: Model, inputs: np.ndarray, dtype: str, folder: Path) -> Answers:
    run = onnx_session(model, dtype)
    return batched(
        model, inputs, lambda *given: run.run(list(Answers._fields), dict(zip(("states", "controls"), given, strict=True)))
    )  # fmt: skip


def in_torch(model: Model, inputs: np.ndarray, dtype: str, folder: Path) -> Answers:
    program = torch.export.load(export(model, to="torch", out=folder, dtype=dtype)[0]).module()

    def run(*given: np.ndarray) -> list[np.ndarray]:
        with torch.no_grad():
            found = program(*map(torch.from_numpy, given))
        return [found[name].numpy() for name in Answers._fields]

    return batched(model, inputs, run)


def in_casadi(model: Model, inputs: np.ndarray, dtype: str, folder: Path) -> Answers:
    import casadi

    library = export(model, to="casadi", out=folder, name="model")[-1]
    details, dx = casadi.external("model_details", str(library)), len(model.schema.states)
    found = [[part.full()[:, 0] for part in details(row[:dx], row[dx:])] for row in inputs[:FEW]]
    following, _, _, delta, inside = (np.array(part) for part in zip(*found, strict=True))
    return Answers(following, delta, inside[:, 0] == 1)


def in_fmu(model: Model, inputs: np.ndarray, dtype: str, folder: Path) -> Answers:
    import fmpy
    from fmpy.fmi2 import FMU2Slave

    made = str(export(model, to="fmu", out=folder, name="model")[0])
    description = fmpy.read_model_description(made)
    own = FMU2Slave(
        guid=description.guid,
        unzipDirectory=fmpy.extract(made, str(folder / "unzipped")),
        modelIdentifier="model",
        instanceName="one",
    )
    own.instantiate()
    own.setupExperiment()
    own.enterInitializationMode()
    places = {variable.name: variable.valueReference for variable in description.modelVariables}
    schema, found = model.schema, []
    asked = [places[f"{kind}_{name}"] for kind in ("next", "delta") for name in schema.outputs]
    for row in inputs[:FEW]:
        own.setReal([places[name] for name in schema.inputs], row.tolist())
        found.append([*own.getReal(asked), own.getBoolean([places["in_domain"]])[0]])
    own.freeInstance()
    values = np.array(found, dtype=np.float64)
    outputs = len(schema.outputs)
    return Answers(values[:, :outputs], values[:, outputs : 2 * outputs], values[:, -1] == 1)


FORMS: dict[str, tuple[Form, tuple[str, ...], str | None]] = {
    "C": (in_c, ("float64", "float32"), None),
    "ONNX": (in_onnx, ("float64", "float32"), "onnxruntime"),
    "torch": (in_torch, ("float64", "float32"), None),
    "CasADi": (in_casadi, ("float64",), "casadi"),
    "FMU": (in_fmu, ("float64",), "fmpy"),
}
"""How each is asked, in which precisions, and what must be installed for it."""


def batched(model: Model, inputs: np.ndarray, run: Callable[..., list[np.ndarray]]) -> Answers:
    """Some rows at a time."""
    dx = len(model.schema.states)
    pieces = [inputs[start : start + BATCH] for start in range(0, len(inputs), BATCH)]
    found = [
        run(np.ascontiguousarray(piece[:, :dx]), np.ascontiguousarray(piece[:, dx:])) for piece in pieces
    ]
    return Answers(*(np.concatenate(part) for part in zip(*found, strict=True)))


def compare(
    name: str, model: Model, trusted: tether.TrustedModel, form: Form, title: str, dtype: str, folder: Path
) -> bool:
    """Prints how far a form is from the library, and how many outputs are outside delta of M."""
    inputs = bench_export.drawn(model, ROWS, dtype)
    try:
        found = form(model, inputs, dtype, folder)
    except ValueError as error:  # what the form cannot hold, it refuses in a line
        print(f"{name:9s} {title:7s} REFUSED: {error}", flush=True)
        return True
    inputs = inputs[: len(found.in_domain)]
    known, inside = bench_export.library_answers(model, inputs, dtype)
    apart = model.schema.distance(found.next_states.astype(np.float64), known.astype(np.float64))
    wrong, differ = ((found.in_domain & ~inside).sum(), (found.in_domain != inside).sum())
    rows = np.flatnonzero(found.in_domain)[:: max(1, int(found.in_domain.sum()) // SAMPLE)]
    beyond, least = bench_export.outside(
        model, trusted, inputs[rows], found.next_states[rows], found.delta[rows]
    )
    passed = not wrong + beyond
    print(
        f"{name:9s} {title:7s} {dtype}  {len(inputs):>9,} inputs: {found.in_domain.sum():>9,} in the domain, {wrong} of them "
        f"not the library's ({differ} differ); outputs differ by at most {(apart / model.frame.outputs.scale).max():.2g} "
        f"scales; {beyond} of {len(rows) * len(model.schema.outputs):,} outside delta of M exactly, the nearest at "
        f"{least:.4f} of it   {'PASS' if passed else 'MISS'}",
        flush=True,
    )
    return passed


def main() -> None:
    torch.set_num_threads(1)
    if shutil.which("cc") is None:
        sys.exit("SKIPPED: no C compiler")
    # Tiny, the study that needs no simulator of its own.
    names = [name for name in sys.argv[1:] if name in ("vehicle", "drones", "pancreas")]
    good = True
    for name in names or size(("vehicle", "drones", "pancreas"), ("pancreas",)):
        model, trusted = studied(name)
        for title, (form, kinds, needs) in FORMS.items():
            if needs is not None and find_spec(needs) is None:
                print(f"{name:9s} {title:7s} SKIPPED: {needs} is not installed")
                continue
            for dtype in kinds:
                with tempfile.TemporaryDirectory() as folder:
                    good &= compare(name, model, trusted, form, title, dtype, Path(folder))
    if not good:
        sys.exit(1)


if __name__ == "__main__":
    main()
