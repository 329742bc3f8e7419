"""One run, one folder.

``config.toml``, ``metrics.jsonl``, ``results.json``, ``model.safetensors``, ``certificate.json``,
``explorer.json``, ``report.html``; every file is whole or absent.
"""

from __future__ import annotations

import json
import platform
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tether.atomic import write_json, write_text
from tether.attack import attack
from tether.certificate import ApproximationCost, Certificate, approximation_cost, certify, delta_quantiles
from tether.constrained import ConstrainedModel, is_constrained
from tether.data import Jitter, Probes, Schema, Transitions
from tether.documents import read_bytes, read_text
from tether.monotone import MonotoneCertificate, MonotoneModel, is_monotone
from tether.pipeline import (
    CONSTRAINED,
    DIRECT,
    MONOTONE,
    TETHERED,
    VANILLA,
    VANILLA_INCREMENT,
    FitConfig,
    Method,
    Problem,
    Tether,
    TetherKind,
    TrainedRun,
    build_monotone_tether,
    build_tether,
    build_tether_within,
    measure,
    measure_trusted,
    prepare,
    record,
    train_method,
    train_monotone,
)
from tether.pipeline.choosing import learn
from tether.progress import Reporter, silent
from tether.report.building import chapter_of, run_lead, section_as_dict, write_report
from tether.report.explorer import explorer_data
from tether.report.page import Section, page
from tether.report.tables import Grid, certificate_lines, delta_grid, run_name
from tether.storage import save
from tether.training import Evaluation
from tether.trusted import Function, TrustedModel


@dataclass(frozen=True, eq=False)
class Comparison:
    """Several methods on one problem, trained and measured."""

    problem: Problem
    config: FitConfig
    runs: tuple[TrainedRun, ...]
    results: tuple[dict[str, Any], ...]
    """M alone first, then the runs, as ``results.json`` holds them."""
    certificate: Certificate
    cost: ApproximationCost

    def model(self) -> ConstrainedModel:
        """The model that is certified and saved: the last one with cells."""
        return last_constrained(self.runs)


@dataclass(frozen=True)
class RunFolder:
    """A run's folder on disk."""

    path: Path
    command: str
    is_new: bool = True
    evaluations: dict[str, list[Evaluation]] = field(default_factory=dict)

    @classmethod
    def create(cls, path: Path, command: str, *, resume: bool = False) -> RunFolder:
        """Makes the folder, or takes up one that an interrupted run left behind."""
        if path.exists() and not path.is_dir():
            raise ValueError(f"`{path}` must be a folder; it is a file. Choose another `--out`.")
        if path.exists() and any(path.iterdir()) and not resume:
            raise ValueError(
                f"`{path}` must be new or empty; it holds files and nothing is overwritten. "
                "Choose another `--out`, or continue an interrupted run with `--resume`."
            )
        if (path / "results.json").exists():
            raise ValueError(f"`{path}` must hold an interrupted run to resume; that one is finished.")
        first_command = path / "command.txt"
        if path.exists() and any(path.iterdir()):
            if not first_command.is_file():
                raise ValueError(f"`{path}` must hold an interrupted run to resume; it holds other files.")
            return cls(path, read_text(first_command).strip(), is_new=False)
        is_new = not path.exists()
        try:
            (path / "checkpoints").mkdir(parents=True, exist_ok=True)
            write_text(first_command, command + "\n")
        except OSError as error:
            raise ValueError(
                f"`{path}` must be writable; {error.strerror}. Choose another `--out`."
            ) from None
        return cls(path, command, is_new)

    @contextmanager
    def cleared_on_failure(self) -> Iterator[None]:
        """Leaves no trace of a run that fails before there is anything to resume."""
        try:
            yield
        except BaseException:
            if not (self.path / "metrics.jsonl").exists():
                shutil.rmtree(self.path / "checkpoints", ignore_errors=True)
                for name in ("command.txt", "config.toml"):
                    (self.path / name).unlink(missing_ok=True)
                if self.is_new:
                    self.path.rmdir()
            raise

    def configure(self, config: FitConfig) -> None:
        """Writes ``config.toml``, or checks that it is the one an interrupted run began with."""
        path, text = self.path / "config.toml", to_toml(asdict(config))
        if path.exists() and read_bytes(path) != text.encode():
            raise ValueError(
                f"`{self.path}` must be resumed with the settings it was started with; its config.toml has "
                f"others. It was started with: {self.command}"
            )
        write_text(path, text)

    def checkpoint(self, method: str) -> Path:
        """Where the training of a method, by its name, is saved while it goes on."""
        return self.path / "checkpoints" / f"{method.lower().replace(' ', '_')}.safetensors"

    def note(self, method: str, evaluations: list[Evaluation]) -> None:
        """Writes ``metrics.jsonl`` anew, with all evaluations of all methods so far."""
        self.evaluations[method] = evaluations
        lines = [
            json.dumps({"method": name, **asdict(e)}) for name, es in self.evaluations.items() for e in es
        ]
        write_text(self.path / "metrics.jsonl", "\n".join(lines) + "\n")

    def finish(
        self,
        comparison: Comparison,
        *,
        name: str,
        sections: Sequence[Section] = (),
        headings: Mapping[str, str] | None = None,
    ) -> Path:
        """Writes everything that a finished run holds; the path of the report.

        Args:
            comparison: what was trained and measured.
            name: what the results are called.
            sections: what the caller adds to the report.
            headings: of the columns that the caller added to `comparison.results`, by key.
        """
        schema = comparison.problem.split.train.schema
        versions = package_versions()
        save(comparison.model(), self.path / "model.safetensors")
        certificate = comparison.certificate.as_dict() | {"approximation_cost": asdict(comparison.cost)}
        write_json(self.path / "certificate.json", certificate)
        self._explore(comparison)
        for picture in (picture for section in sections for picture in section.pictures if picture.name):
            write_text(self.path / f"{picture.name}.svg", picture.svg)
        units = {name: schema.unit(name) for name in (*schema.inputs, *schema.outputs)}
        results = {
            "name": name,
            "command": self.command,
            "versions": versions,
            "units": units,
            "headings": dict(headings or {}),
            "sections": [section_as_dict(section) for section in sections],
            "runs": list(comparison.results),
        }
        write_report([chapter_of(results, self.path)], self.path / "report.html")
        # Last but for what it does without: its presence says that the run is finished.
        write_json(self.path / "results.json", results)
        shutil.rmtree(self.path / "checkpoints")
        (self.path / "command.txt").unlink()
        return self.path / "report.html"

    def finish_monotone(self, fitted: MonotoneFit, schema: Schema, name: str) -> None:
        """Writes what a finished run of a monotone model holds."""
        save(fitted.model, self.path / "model.safetensors")
        write_json(self.path / "certificate.json", fitted.certificate.as_dict())
        units = {name: schema.unit(name) for name in (*schema.inputs, *schema.outputs)}
        results = {"name": name, "command": self.command, "versions": package_versions()}
        runs = {"units": units, "headings": {}, "sections": [], "runs": list(fitted.results)}
        write_report([chapter_of(results | runs, self.path)], self.path / "report.html")
        # Last, as its presence says that the run is finished.
        write_json(self.path / "results.json", results | runs)
        shutil.rmtree(self.path / "checkpoints")
        (self.path / "command.txt").unlink()

    def _explore(self, comparison: Comparison) -> None:
        """Writes ``explorer.json``, for which M and the network are needed; of models with cells only."""
        if comparison.model().bounds.kind == "boxes":
            return
        problem = comparison.problem
        data = explorer_data(
            comparison.model(),
            problem.trusted,
            problem.split.test,
            problem.probe_sets[2],
            name=run_name([result for result in comparison.results if "coverage_D" in result][-1]),
        )
        write_json(self.path / "explorer.json", data)


def compare(
    transitions: Transitions,
    *,
    trusted: TrustedModel | Function,
    probes: Probes | Jitter,
    methods: Sequence[Method],
    config: FitConfig,
    folder: RunFolder,
    reporter: Reporter = silent,
) -> Comparison:
    """Trains every method on the same problem with the same tether, and certifies the tether.

    Args:
        transitions: D.
        trusted: M.
        probes: Ω.
        methods: what to train; one must be tethered and one not.
        config: settings shared by all.
        folder: where checkpoints and metrics go.
        reporter: opens progress displays.
    """
    with folder.cleared_on_failure():
        folder.configure(config)
        return _compare(transitions, trusted, probes, methods, config, folder, reporter)


def _compare(
    transitions: Transitions,
    trusted: TrustedModel | Function,
    probes: Probes | Jitter,
    methods: Sequence[Method],
    config: FitConfig,
    folder: RunFolder,
    reporter: Reporter,
) -> Comparison:
    problem = prepare(transitions, trusted=trusted, probes=probes, config=config, reporter=reporter)
    tethers: dict[str | None, Tether] = {}
    kinds: list[TetherKind] = [method.tether for method in methods if method.celled]  # type: ignore[misc]
    # Affine first: a delta asked for decides how many memories there are, for all methods alike.
    for kind in sorted(set(kinds)):
        if kind == "affine":
            tethers[kind] = build_tether_within(problem, replace(config, bounds="affine"), reporter=reporter)
            continue
        partition = tethers["affine"].partition if "affine" in tethers else None
        own = replace(config, bounds=kind)
        tethers[kind] = build_tether(problem, own, kind=kind, partition=partition, reporter=reporter)
    runs, results = [], [measure_trusted(problem, config.seed)]
    for method in methods:
        tether = tethers.get(method.tether)
        noted: dict[str, Any] = {}
        if tether is not None and tether.boxed is not None:
            chosen = learn(
                problem, method, config, tether=tether, checkpoint=folder.checkpoint, reporter=reporter
            )
            run, noted = chosen.run, tether.boxed.record() | {"gain": chosen.gain.tolist()}
        else:
            run = train_method(
                problem,
                method,
                config,
                tether=tether,
                checkpoint=folder.checkpoint(method.name),
                reporter=reporter,
                on_evaluation=lambda evaluations, name=method.name: folder.note(name, evaluations),
            )
        # Again, because a method that was finished before an interruption makes no new evaluation.
        folder.note(method.name, list(run.history.evaluations))
        result = measure(problem, run, tether)
        if is_constrained(run.model):
            run.model.record = record(problem, config, run, transitions) | noted
            # As many inputs as the certificate's fresh check, so that a slow M is not asked for ever.
            tries = 16 * len(run.model.cells)
            found = attack(run.model, problem.trusted, evaluations=tries, seed=config.seed)
            result["attack_max_ratio"], result["attack_evaluations"] = found.max_ratio, found.evaluations
        runs.append(run)
        results.append(result)
    model = last_constrained(runs)
    bare = next(run.model for run in reversed(runs) if not run.model.tether.bounded)
    test = problem.split.test
    certificate = certify(
        model, problem.trusted, transitions=test, probes=problem.probe_sets[2], seed=config.seed + 1
    )
    cost = approximation_cost(model, bare, test)
    return Comparison(problem, config, tuple(runs), tuple(results), certificate, cost)


@dataclass(frozen=True, eq=False)
class MonotoneFit:
    """A model that is monotone by construction, and what M and networks without a tether are beside it."""

    model: MonotoneModel
    results: tuple[dict[str, Any], ...]
    certificate: MonotoneCertificate


def fit_monotone(
    transitions: Transitions,
    *,
    trusted: TrustedModel | Function,
    probes: Probes | Jitter,
    config: FitConfig,
    folder: RunFolder,
    name: str,
    reporter: Reporter = silent,
) -> MonotoneFit:
    """What ``tether fit --decreasing`` does; writes the files of a finished run, but no explorer of cells.

    Args:
        transitions: D.
        trusted: M, affine.
        probes: Ω.
        config: settings, with `decreasing`.
        folder: where everything goes.
        name: what the results are called.
        reporter: opens progress displays.
    """
    with folder.cleared_on_failure():
        folder.configure(config)
        problem = prepare(transitions, trusted=trusted, probes=probes, config=config, reporter=reporter)
        tether = build_monotone_tether(problem, config, reporter=reporter)
        results = [measure_trusted(problem, config.seed)]
        increments = min(transitions.schema.advances) >= 0
        for rival in [VANILLA, VANILLA_INCREMENT] if increments else [VANILLA]:
            bare = train_method(
                problem, rival, config, checkpoint=folder.checkpoint(rival.name), reporter=reporter
            )
            folder.note(rival.name, list(bare.history.evaluations))
            results.append(measure(problem, bare))
        method = replace(MONOTONE, loss=config.training.loss)
        checkpoint = folder.checkpoint(method.name)
        run = train_monotone(problem, tether, config, method=method, checkpoint=checkpoint, reporter=reporter)
        folder.note(method.name, list(run.history.evaluations))
        assert is_monotone(run.model)
        run.model.record = record(problem, config, run, transitions)
        certificate = certify(run.model, problem.trusted, seed=config.seed + 1)
    spread = delta_quantiles(run.model, problem.split.test.inputs)
    assert spread is not None
    values = {
        "memories": len(tether.cells),
        "delta_certified": certificate.delta,
        "evidence_level": certificate.evidence,
        "delta_D": {
            name: {"median": float(spread[0, k]), "q99": float(spread[1, k])}
            for k, name in enumerate(transitions.schema.outputs)
        },
        "coverage_D": 1.0,
        "coverage_omega": 1.0,
        "attack_max_ratio": certificate.max_ratio,
        "attack_evaluations": certificate.points,
        "certificate": certificate.as_dict(),
    }
    fitted = MonotoneFit(run.model, (*results, measure(problem, run) | values), certificate)
    folder.finish_monotone(fitted, transitions.schema, name)
    return fitted


def last_constrained(runs: Sequence[TrainedRun]) -> ConstrainedModel:
    """The last model with cells among the runs."""
    return next(run.model for run in reversed(runs) if is_constrained(run.model))


def fit_methods(config: FitConfig, *, increments: bool) -> list[Method]:
    """What ``tether fit`` trains: the constrained model, and the rivals it must be seen beside."""
    rivals = [VANILLA, VANILLA_INCREMENT] if increments else [VANILLA]
    ours = CONSTRAINED if config.bounds == "interval" else TETHERED
    if config.bounds == "boxes":
        rivals = [*rivals, DIRECT]
    return [*rivals, replace(ours, tether=config.bounds, loss=config.training.loss)]


def certificate_page(certificate: Certificate, *, command: str) -> str:
    """A certificate to read: the claim, its numbers, where it holds, what it assumes."""
    worst = ", ".join(f"{d.name} {d.maximum:.3g} {d.unit}".strip() for d in certificate.deltas)
    box = tuple((name, f"{low:.6g}", f"{high:.6g}") for name, (low, high) in certificate.domain.box.items())
    digest = certificate.trusted_source_sha256 or "not known"
    sections = [
        Section(
            "Distance to the trusted model", grids=[delta_grid(certificate.deltas, certificate.evidence)]
        ),
        Section(
            "Where it holds",
            certificate_lines(certificate)[1:3],
            [Grid("Domain box", ("input", "from", "to"), box)],
        ),
        Section("What it assumes, and what was checked", certificate_lines(certificate)[3:]),
        Section("The trusted model", [f"{certificate.trusted_name}, source sha256 {digest}"]),
    ]
    verdict = f"{certificate.claim} Delta at most: {worst}."
    return page("Tether: certificate", verdict, sections, command=command, versions=package_versions())


def verdict(comparison: Comparison) -> str:
    """The one sentence that a reader takes away."""
    return run_lead(comparison.results, comparison.certificate)


def package_versions() -> dict[str, str]:
    """Versions that a result depends on."""
    packages = ("tether", "torch", "numpy", "numba")
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}


def to_toml(values: dict[str, Any]) -> str:
    """Nested settings as TOML; None is left out, for TOML has no word for it."""
    plain = {key: value for key, value in values.items() if not isinstance(value, dict) and value is not None}
    tables = {key: value for key, value in values.items() if isinstance(value, dict)}
    lines = [f"{key} = {json.dumps(value)}" for key, value in plain.items()]
    for key, table in tables.items():
        # Keys are quoted where they may be names of columns, which hold anything.
        quoted = {k if k.isidentifier() and k.isascii() else json.dumps(k): v for k, v in table.items()}
        lines += ["", f"[{key}]", *(f"{k} = {json.dumps(v)}" for k, v in quoted.items() if v is not None)]
    return "\n".join(lines) + "\n"
