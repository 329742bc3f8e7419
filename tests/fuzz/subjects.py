"""Whole files of every kind that Tether reads, and the commands that read them."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mutations
import numpy as np
import pandas
import torch

import tether
from conftest import TRUSTED_SOURCE, cart_rows, write_csv
from tether.claims.tubes import save_tube, tube
from tether.cli.running import run
from tether.data import Jitter
from tether.export import export
from tether.learning.config import TrainingConfig
from tether.model.assembling import direct_model, unconstrained_model
from tether_studies.storing import write_data
from tether_studies.study import StudyData
from tether_studies.tasks import Plan, open_folder

COLUMNS = ["--states", "x,v", "--controls", "u", "--episode", "episode", "--unit", "x=m,v=m/s"]
TINY = ["--memories", "5", "--steps", "20", "--hidden", "4"]
MONOTONE = "\naffine = __import__('tether').AffineModel([[1.0, 0.1, -0.1], [0.0, 1.0, -0.1]], [0.0, 0.0])\n"
BENT = (
    "\ndef bent(states, controls):\n"
    "    return frictionless(states, controls) + 0.1 * np.sin(3 * states) * np.cos(controls)\n"
)
"""An M over which trees have leaves to damage."""
POLICY = "\ndef policy(states):\n    return -0.2 * states[:, 1:2]\n"
Mutation = Callable[[np.random.Generator, bytes], bytes]


@dataclass(frozen=True)
class Subject:
    """A file to damage.

    Attributes:
        name: of what it is.
        path: within the folder of originals.
        mutations: that know what it is, beside blind ones.
        commands: arguments that read it; ``{}`` is the folder.
        weight: how often it is taken.
    """

    name: str
    path: str
    mutations: tuple[Mutation, ...]
    commands: tuple[tuple[str, ...], ...]
    weight: float = 1.0


def _fit(data: str, out: str = "{}/new", trusted: str = "frictionless") -> tuple[str, ...]:
    return (
        "fit",
        "--data",
        data,
        *COLUMNS,
        "--trusted",
        f"{{}}/physics.py:{trusted}",
        "--out",
        out,
        "--bounds",
        "interval",
        *TINY,
    )


def _model(path: str, trusted: str, *, verified: bool = True) -> tuple[tuple[str, ...], ...]:
    spec = ("--trusted", f"{{}}/physics.py:{trusted}")
    predict = ("predict", path, "--data", "{}/cart.csv", "--out", "{}/out.csv", *spec)
    commands = (("info", path), predict, ("certify", path, *spec))
    attack = ("attack", path, *spec, "--evaluations", "300")
    return (*commands, attack, ("verify", path, *spec)) if verified else (*commands, attack)


def _tube(path: str, *more: str) -> tuple[tuple[str, ...], ...]:
    common = (path, "--trusted", "{}/physics.py:bent", "--model", "{}/curved.safetensors", *more)
    return ("verify", *common), ("attack", *common, "--evaluations", "300")


def _exported(path: str) -> tuple[tuple[str, ...], ...]:
    return (("verify", path, "--trusted", "{}/physics.py:bent"),)


_JSON = (mutations.change_json,)
_MODEL = (mutations.change_words, mutations.change_words, mutations.change_tensors, mutations.change_tensors,
          mutations.change_header)  # fmt: skip
_REPORT = (("report", "{}/run", "--out", "{}/page.html"),)
_STUDY = (("report", "{}/study", "--out", "{}/page.html"),)
_RESUMED = ((*_fit("{}/cart.csv", "{}/stopped"), "--resume"),)
SUBJECTS = (
    Subject("interval model", "run/model.safetensors", _MODEL, _model("{}/run/model.safetensors", "frictionless"), 3),
    Subject("affine model", "affine.safetensors", _MODEL, _model("{}/affine.safetensors", "frictionless"), 4),
    Subject("bent model", "bent.safetensors", _MODEL, _model("{}/bent.safetensors", "bent"), 2),
    Subject("second-order model", "curved.safetensors", _MODEL, _model("{}/curved.safetensors", "bent"), 2),
    Subject("tube", "tubes/any.json", _JSON * 3, _tube("{}/tubes/any.json"), 2),
    Subject("tube of own weights", "tubes/own.json", _JSON * 3, _tube("{}/tubes/own.json"), 1),
    Subject("tube with feedback", "tubes/policy.json", _JSON * 3, _tube("{}/tubes/policy.json", "--policy", "{}/physics.py:policy"), 1),
    Subject("exported C", "c/curved.c", (), _exported("{}/c/curved.c"), 1),
    Subject("header of exported C", "c/curved.h", (), _exported("{}/c/curved.c"), 0.5),
    Subject("exported ONNX", "onnx/bent.onnx", (), _exported("{}/onnx/bent.onnx"), 1),
    Subject("statistical model", "draws.safetensors", _MODEL, _model("{}/draws.safetensors", "frictionless"), 2),
    Subject("direct model", "direct.safetensors", _MODEL, _model("{}/direct.safetensors", "frictionless"), 1),
    Subject("bare model", "bare.safetensors", _MODEL, _model("{}/bare.safetensors", "frictionless"), 1),
    Subject("monotone model", "falling.safetensors", _MODEL, _model("{}/falling.safetensors", "affine"), 2),
    Subject("certificate", "run/certificate.json", _JSON, (*_REPORT, ("verify", "{}/run", "--trusted", "{}/physics.py:frictionless")), 2),
    Subject("results", "run/results.json", _JSON, _REPORT, 3),
    Subject("metrics", "run/metrics.jsonl", (mutations.change_lines,), _REPORT, 2),
    Subject("explorer", "run/explorer.json", _JSON, _REPORT, 2),
    Subject("results of a study", "study/results.json", _JSON, _STUDY, 2),
    Subject("drawing", "study/drift.svg", (), _STUDY),
    Subject("animation", "study/moving.gif", (), _STUDY),
    Subject("checkpoint", "stopped/checkpoints/constrained.safetensors", _MODEL, _RESUMED, 1),
    Subject("configuration", "stopped/config.toml", (), _RESUMED, 0.3),
    Subject("command", "stopped/command.txt", (), _RESUMED, 0.3),
    Subject("csv", "cart.csv", (mutations.change_csv,) * 3, (_fit("{}/cart.csv"), _model("{}/affine.safetensors", "frictionless")[1]), 2),
    Subject("npz", "cart.npz", (mutations.change_npz,) * 2, (_fit("{}/cart.npz"),), 2),
    Subject("parquet", "cart.parquet", (mutations.change_parquet,), (_fit("{}/cart.parquet"),), 2),
    Subject("probes", "probes.csv", (mutations.change_csv,), ((*_fit("{}/cart.csv"), "--probes", "{}/probes.csv"),), 1),
    Subject("trusted model", "physics.py", (), (("certify", "{}/affine.safetensors", "--trusted", "{}/physics.py:frictionless"),), 0.5),
    Subject("plan of a study", "planned/study.json", _JSON, (("library", "plan"),), 1),
    Subject("data of a study", "planned/data/0.npz", (mutations.change_npz,), (("library", "data"),), 1),
)  # fmt: skip


def make_originals(folder: Path) -> None:
    """Fills a folder with one whole file of each kind."""
    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    write_csv(folder / "cart.csv", ["episode", "x", "v", "u"], cart_rows(6, 12))
    (folder / "physics.py").write_text(TRUSTED_SOURCE + MONOTONE + BENT + POLICY)
    frame = pandas.read_csv(folder / "cart.csv")
    np.savez(folder / "cart.npz", **{name: frame[name].to_numpy() for name in frame.columns})
    frame.to_parquet(folder / "cart.parquet")
    frame[["x", "v", "u"]].to_csv(folder / "probes.csv", index=False)
    _command(folder, *_fit("{}/cart.csv", "{}/run"))
    _save_models(folder)
    _stop_a_fit(folder)
    _write_study(folder)


def _command(folder: Path, *arguments: str) -> None:
    code = run([argument.format(folder) for argument in arguments])
    if code != 0:
        raise RuntimeError(f"an undamaged file was refused: {arguments}")


def _save_models(folder: Path) -> None:
    spec = dict(states=["x", "v"], controls=["u"], episode="episode")
    data = tether.read_transitions(folder / "cart.csv", **spec)  # type: ignore[arg-type]
    trusted = tether.load_trusted(f"{folder}/physics.py:frictionless")
    training = TrainingConfig(steps=5, evaluate_every=5)
    common = dict(probes=Jitter(), memories=4, hidden=(4,), bounds="affine", training=training)
    weak = tether.Statistical(epsilon=0.05, beta=1e-2)
    models = {
        "affine": tether.fit(data, trusted=trusted, evidence="proved", **common),
        "bent": tether.fit(
            data,
            trusted=tether.load_trusted(f"{folder}/physics.py:bent"),
            evidence="proved",
            leaves=40,
            **common,
        ),
        "curved": tether.fit(
            data,
            trusted=tether.load_trusted(f"{folder}/physics.py:bent"),
            evidence="proved",
            leaves=40,
            order=2,
            **common,
        ),
        "draws": tether.fit(data, trusted=trusted, evidence=weak, **common),
        "falling": tether.fit(
            data, trusted=tether.load_trusted(f"{folder}/physics.py:affine"), decreasing=("u",), **common
        ),
    }
    affine = models["affine"]
    models["direct"] = direct_model(affine.network, affine.frame, trusted, np.array([0.1, 0.2]))  # type: ignore[assignment]
    models["bare"] = unconstrained_model(affine.network, affine.frame)  # type: ignore[assignment]
    for name, model in models.items():
        tether.save(model, folder / f"{name}.safetensors")
    _save_tubes(folder, models["curved"])
    export(models["curved"], to="c", out=folder / "c", name="curved")
    export(models["bent"], to="onnx", out=folder / "onnx", name="bent")


def _save_tubes(folder: Path, model: Any) -> None:
    trusted = tether.load_trusted(f"{folder}/physics.py:bent")
    policy = tether.load_trusted(f"{folder}/physics.py:policy").function
    middle = model.cells.centers[0, :2]
    (folder / "tubes").mkdir()
    for name, controls, weights in (
        ("any", np.zeros((3, 1)), "any"),
        ("own", np.zeros((3, 1)), "own"),
        ("policy", policy, "any"),
    ):
        found = tube(model, trusted, (middle, middle + 0.01), controls, steps=3, weights=weights)
        save_tube(found, folder / "tubes" / f"{name}.json")


class _Stopped(Exception):
    """In the middle of a fit."""


def _stop_a_fit(folder: Path) -> None:
    """A run that was interrupted once its checkpoints were written."""
    import tether.files.runs as runs

    finish = runs.RunFolder.finish

    def stop(self: object, *args: object, **kwargs: object) -> Path:
        raise _Stopped

    runs.RunFolder.finish = stop  # type: ignore[method-assign, assignment]
    try:
        run([argument.format(folder) for argument in _fit("{}/cart.csv", "{}/stopped")])
    finally:
        runs.RunFolder.finish = finish  # type: ignore[method-assign]


def _write_study(folder: Path) -> None:
    """A study's results, made of a run's, and the beginnings of another."""
    import json

    study = folder / "study"
    study.mkdir()
    results = json.loads((folder / "run" / "results.json").read_text())
    results["claims"] = [{"said": "It flies", "measured": "no", "holds": False}]
    grid = {"title": "t", "header": ["a", "b"], "rows": [["1", "2"]]}
    named = [{"name": "drift", "caption": "A car"}], [{"name": "moving", "caption": "It moves"}]
    section = {
        "title": "s",
        "paragraphs": ["p"],
        "grids": [grid],
        "pictures": named[0],
        "animations": named[1],
    }
    certificate = json.loads((folder / "run" / "certificate.json").read_text())
    certificate.pop("approximation_cost")
    lines = [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]
    for result in results["runs"]:
        result["history"] = [line for line in lines if line["method"] == result["method"]]
        if "coverage_D" in result:
            result["certificate"] = certificate
    results |= {"sections": [section], "failed": ["x: broke"], "title": "a study"}
    (study / "results.json").write_text(json.dumps(results))
    (study / "drift.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg"><text>words</text></svg>')
    (study / "moving.gif").write_bytes(b"GIF89a" + bytes(40))
    shutil.copy(folder / "run" / "explorer.json", study)
    open_folder(Plan("drones", "smoke", (0,), {}), folder / "planned")
    data = tether.read_transitions(folder / "cart.csv", states=["x", "v"], controls=["u"], episode="episode")
    probes = tether.Probes.from_jitter(data, count=10)
    write_data(folder / "planned" / "data" / "0.npz", StudyData(data, probes))


if __name__ == "__main__":
    make_originals(Path(sys.argv[1]))
