"""One run, one folder.

``config.toml``, ``metrics.jsonl``, ``results.json``, ``model.safetensors``, ``certificate.json``,
``explorer.json``, ``report.html`` and its figures; every file is whole or absent.
"""

from __future__ import annotations

import json
import platform
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tether.claims.claims import Band, Certificate
from tether.claims.cost import ApproximationCost, approximation_cost
from tether.data import Jitter, Probes, Transitions
from tether.files.storage import save
from tether.fitting import (
    DIRECT,
    VANILLA,
    VANILLA_INCREMENT,
    Fit,
    FitConfig,
    Method,
    Problem,
    build_for,
    judge,
    learn_method,
    measure_trusted,
    method_of,
    plain_settings,
    prepare,
)
from tether.foundation.atomic import write_json, write_text
from tether.foundation.documents import read_bytes, read_text
from tether.foundation.progress import Reporter, silent
from tether.foundation.version import __version__
from tether.learning.history import Evaluation
from tether.report.boxes import box_sections
from tether.report.building import chapter_of, run_lead, section_as_dict, write_report
from tether.report.explorer import explorer_data
from tether.report.page import Section, page
from tether.report.tables import Grid, checked_lines, delta_grid, domain_lines, run_name, why_lines
from tether.trusted import Function, TrustedModel


@dataclass(frozen=True, eq=False)
class Comparison:
    """Several methods on one problem, trained and judged.

    Attributes:
        problem: what they learned.
        config: settings shared by all.
        fits: the methods, in the order in which they were asked for.
        results: M alone first, then the methods, as ``results.json`` holds them; a caller may add columns.
        cost: what constraining costs in accuracy; None where there is nothing to compare with.
    """

    problem: Problem
    config: FitConfig
    fits: tuple[Fit, ...]
    results: tuple[dict[str, Any], ...]
    cost: ApproximationCost | None

    @property
    def kept(self) -> Fit:
        """The one that is saved: the last one with a certificate."""
        return [fit for fit in self.fits if fit.certificate is not None][-1]

    @property
    def certificate(self) -> Certificate | None:
        """Of the one that is saved."""
        return self.kept.certificate


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
        path, text = self.path / "config.toml", to_toml(plain_settings(config))
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
        schema, kept = comparison.problem.split.train.schema, comparison.kept
        save(kept.model, self.path / "model.safetensors")
        if kept.certificate is not None:
            cost = {} if comparison.cost is None else {"approximation_cost": asdict(comparison.cost)}
            write_json(self.path / "certificate.json", kept.certificate.as_dict() | cost)
        self._explore(comparison)
        sections = [*sections, *box_sections(kept.model, comparison.problem, _band(kept))]
        for picture in (picture for section in sections for picture in section.pictures if picture.name):
            write_text(self.path / f"{picture.name}.svg", picture.svg)
        units = {name: schema.unit(name) for name in (*schema.inputs, *schema.outputs)}
        results = {
            "name": name,
            "command": self.command,
            "versions": package_versions(),
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

    def _explore(self, comparison: Comparison) -> None:
        """Writes ``explorer.json``, of the model that is kept; M and the network are needed for it."""
        problem, kept = comparison.problem, comparison.kept
        data = explorer_data(
            kept.model,
            problem.trusted,
            problem.split.test,
            problem.probe_sets[2],
            name=run_name(kept.measures.as_dict()),
        )
        write_json(self.path / "explorer.json", data)


def _band(fit: Fit) -> Band | None:
    """What is claimed of reality."""
    return None if fit.certificate is None else fit.certificate.band


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
        problem = prepare(transitions, trusted=trusted, probes=probes, config=config, reporter=reporter)
        # All of them first: what cannot be bounded is said before anything is trained.
        built = [build_for(problem, method, config, reporter=reporter) for method in methods]
        fits = []
        for method, tether in zip(methods, built, strict=True):
            learned = learn_method(
                problem,
                method,
                config,
                built=tether,
                checkpoint=folder.checkpoint,
                reporter=reporter,
                on_evaluation=lambda evaluations, name=method.name: folder.note(name, evaluations),
            )
            # Again, because a method that was finished before an interruption makes no new evaluation.
            folder.note(method.name, list(learned.history.evaluations))
            fits.append(judge(problem, learned))
        measured = (measure_trusted(problem, config.seed), *(fit.measures for fit in fits))
        results = tuple(each.as_dict() for each in measured)
        return Comparison(problem, config, tuple(fits), results, _cost(problem, fits))


def _cost(problem: Problem, fits: Sequence[Fit]) -> ApproximationCost | None:
    """What the last certified model's limits cost the last network without any."""
    free = [fit.model for fit in fits if not fit.model.tether.bounded]
    held = [fit.model for fit in fits if fit.certificate is not None]
    return approximation_cost(held[-1], free[-1], problem.split.test) if free and held else None


def fit_methods(config: FitConfig, *, increments: bool) -> list[Method]:
    """What ``tether fit`` trains: the model asked for, and the rivals it must be seen beside."""
    ours = method_of(config)
    rivals = [VANILLA, VANILLA_INCREMENT] if increments else [VANILLA]
    beside = [DIRECT] if ours.tether == "affine" else []
    return [*rivals, *beside, ours]


def certificate_page(certificate: Certificate, *, command: str) -> str:
    """A certificate to read: the claim, its numbers, where it holds, what it assumes."""
    worst = ", ".join(f"{d.name} {d.maximum:.3g} {d.unit}".strip() for d in certificate.deltas)
    box = tuple((name, f"{low:.6g}", f"{high:.6g}") for name, (low, high) in certificate.domain.box.items())
    digest = certificate.trusted_source_sha256 or "not known"
    sections = [
        Section(
            "Distance to the trusted model",
            why_lines(certificate),
            [delta_grid(certificate.deltas, certificate.evidence)],
        ),
        Section(
            "Where it holds", domain_lines(certificate), [Grid("Domain box", ("input", "from", "to"), box)]
        ),
        Section("What it assumes, and what was checked", checked_lines(certificate)),
        Section("The trusted model", [f"{certificate.trusted_name}, source sha256 {digest}"]),
    ]
    verdict = f"{certificate.claim} Delta at most: {worst}."
    return page("Tether: certificate", verdict, sections, command=command, versions=package_versions())


def verdict(comparison: Comparison) -> str:
    """The one sentence that a reader takes away."""
    return "" if comparison.certificate is None else run_lead(comparison.results, comparison.certificate)


def package_versions() -> dict[str, str]:
    """Versions that a result depends on."""
    others = {name: version(name) for name in ("torch", "numpy", "numba")}
    return {"python": platform.python_version(), "tether": __version__, **others}


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
