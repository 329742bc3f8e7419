"""The command line: one verb per stage.

Exit codes: 0 done (for ``certify`` and ``verify``: and certified), 1 ran but not certified, 2 bad input.
"""

from __future__ import annotations

import csv
import io
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tether import __version__
from tether.adapters.callables import load_trusted
from tether.adapters.files import read_probes, read_transitions
from tether.atomic import write_json, write_text
from tether.attack import attack
from tether.certificate import Certificate, certify, output_deltas
from tether.constrained import ConstrainedModel, DirectModel, LearnedModel, Prediction
from tether.data import Box, Jitter, Probes, Transitions
from tether.errors import CertificateError
from tether.pipeline import FitConfig, resolve_target
from tether.progress import console_reporter
from tether.ranges import SamplingConfig
from tether.report.tables import certificate_lines, delta_grid, ratio, results_grid, rich_table, run_name
from tether.runs import Comparison, RunFolder, certificate_page, compare, fit_methods, study_columns, verdict
from tether.storage import load, peek
from tether.studies.demo import demo_config, run_demo
from tether.studies.registry import NAMES, find_study
from tether.studies.runner import Plan, Task, open_folder, outcome_of, run_all, tasks_of
from tether.studies.summary import certificates_grid, claim_lines, seeds_grid, study_command, write_summary
from tether.training import TrainingConfig
from tether.verification import verify

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Learn dynamics models that stay within a bounded distance of a model you trust.",
)
# Wide where nobody watches: a table in a log should not wrap.
console = Console(width=None if sys.stdout.isatty() else 110)
errors = Console(stderr=True)

ModelPath = Annotated[Path, typer.Argument(help="A model file, or the folder of a run.")]
TrustedSpec = Annotated[
    str, typer.Option(help="The trusted model: module:name or file.py:name, a function or a TrustedModel.")
]


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("runs/demo"),
    seed: int = 0,
    steps: Annotated[int | None, typer.Option(help="Gradient steps per method.")] = None,
) -> None:
    """A parked car in under a minute: what drifts, what does not, and a certificate."""
    config = demo_config(seed)
    if steps is not None:
        config = replace(config, training=replace(config.training, steps=steps))
    folder = RunFolder.create(_fresh(out) if out == Path("runs/demo") else out, _command())
    comparison, report = run_demo(folder, config=config, reporter=console_reporter(console))
    _show(comparison, report)


@app.command()
def study(
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(NAMES)}.")],
    out: Annotated[Path, typer.Option(help="Folder; an interrupted study in it goes on.")],
    scale: Annotated[Literal["smoke", "paper"], typer.Option(help="Of data, networks and runs.")] = "smoke",
    seeds: Annotated[str, typer.Option(help="Comma separated; by default 0 at smoke, 0,1,2 at paper.")] = "",
    jobs: Annotated[int | None, typer.Option(help="Processes; by default one per core.")] = None,
) -> None:
    """A case study: every method, every seed, tables, figures, certificates and verdicts."""
    find_study(name)
    numbers = _integers("seeds", seeds) or ([0] if scale == "smoke" else [0, 1, 2])
    plan = Plan(name, scale, tuple(numbers), {})
    open_folder(plan, out)
    failed = run_all(
        tasks_of(plan, out), jobs=jobs or os.cpu_count() or 1, reporter=console_reporter(console)
    )
    _show_study(plan, out, failed)


@app.command()
def fit(
    data: Annotated[Path, typer.Option(help="Transitions: .csv, .npz or .parquet.")],
    states: Annotated[str, typer.Option(help="State columns, comma separated.")],
    trusted: TrustedSpec,
    out: Annotated[Path, typer.Option(help="New folder for the run.")],
    controls: Annotated[str, typer.Option(help="Control columns, comma separated.")] = "",
    next_states: Annotated[
        str, typer.Option(help="Outcome columns; by default the states of the next row of the episode.")
    ] = "",
    episode: Annotated[str | None, typer.Option(help="Column of the episode id.")] = None,
    angle: Annotated[str, typer.Option(help="Columns in radians that wrap, comma separated.")] = "",
    unit: Annotated[str, typer.Option(help="Units, as column=unit, comma separated.")] = "",
    independent_rows: Annotated[bool, typer.Option(help="Every row is an episode of its own.")] = False,
    probes: Annotated[
        str, typer.Option(help="A file, a box 'v=0,x=-5:5' (other columns as in the data), or 'jitter=0.1'.")
    ] = "jitter=0.1",
    probe_count: Annotated[
        int | None, typer.Option(help="Probes to draw; by default as many as data.")
    ] = None,
    memories: int = 1000,
    bounds: Annotated[Literal["interval", "affine"], typer.Option(help="Kind of tether.")] = "interval",
    delta: Annotated[
        str,
        typer.Option(help="Distance to M to stay within: '0.05' or 'x=0.05,heading=0.01'; affine bounds."),
    ] = "",
    evidence: Annotated[
        Literal["auto", "sampled", "statistical", "lipschitz", "proved"],
        typer.Option(help="How delta is known; auto: lipschitz where M has constants, else sampled."),
    ] = "auto",
    epsilon: Annotated[
        float, typer.Option(help="Statistical evidence: share of inputs that may exceed delta.")
    ] = 1e-3,
    beta: Annotated[float, typer.Option(help="Statistical evidence: one minus the confidence.")] = 1e-6,
    smooth: Annotated[
        bool, typer.Option(help="Affine bounds: blend neighbouring cells, so that predictions do not jump.")
    ] = False,
    target: Annotated[
        Literal["auto", "next_state", "increment"], typer.Option(help="What the network predicts.")
    ] = "auto",
    operator: Annotated[Literal["clip", "sigmoid"], typer.Option(help="Constraining operator.")] = "clip",
    loss: Annotated[Literal["squared_error", "augmented_lagrangian"], typer.Option()] = "squared_error",
    hidden: Annotated[str, typer.Option(help="Layer widths, comma separated.")] = "256,256",
    steps: int = 2000,
    gamma: Annotated[float, typer.Option(help="Bounds start wider by gamma^step of their width.")] = 0.0,
    learning_rate: float = 1e-3,
    patience: Annotated[
        int | None, typer.Option(help="Evaluations without progress before stopping.")
    ] = None,
    domain: Annotated[
        str, typer.Option(help="Limits of inputs, as 'v=0:15'; nothing is claimed beyond.")
    ] = "",
    jobs: Annotated[
        int | None, typer.Option(help="Processes for a slow trusted model; -1: all cores.")
    ] = None,
    device: Annotated[str, typer.Option(help="Where to train: cpu, cuda.")] = "cpu",
    seed: int = 0,
    resume: Annotated[
        bool, typer.Option(help="Continue an interrupted run with the same arguments.")
    ] = False,
) -> None:
    """Learn a constrained model from logged transitions and a trusted model."""
    transitions = read_transitions(
        data,
        states=_names(states),
        controls=_names(controls),
        next_states=_names(next_states) or None,
        episode=episode,
        angles=_names(angle),
        units=_pairs("unit", unit),
        independent_rows=independent_rows,
    )
    model = load_trusted(trusted)
    config = FitConfig(
        memories=memories,
        bounds=bounds,
        delta=_delta(delta),
        target=None if target == "auto" else target,
        evidence=None if evidence == "auto" else evidence,
        operator=operator,
        smooth=smooth,
        sampling=SamplingConfig(epsilon=epsilon, beta=beta),
        hidden=tuple(_integers("hidden", hidden)),
        domain=_box("domain", domain) or None,
        training=TrainingConfig(
            steps=steps,
            loss=loss,
            gamma=gamma,
            learning_rate=learning_rate,
            patience=patience,
            device=_device(device),
        ),
        seed=seed,
    )
    omega = _probes(probes, probe_count, transitions, seed)
    increments = resolve_target(config.target, transitions) == "increment"
    folder = RunFolder.create(out, _command(), resume=resume)
    comparison = compare(
        transitions,
        trusted=model if jobs is None else replace(model, jobs=jobs),
        probes=omega,
        methods=fit_methods(config, increments=increments),
        config=config,
        folder=folder,
        reporter=console_reporter(console),
    )
    _show(comparison, folder.finish(comparison, study=f"fit of {data.name}", scale=None, sections=[]))


@app.command()
def predict(
    model: ModelPath,
    data: Annotated[
        Path, typer.Option(help="Inputs: .csv, .npz or .parquet with state and control columns.")
    ],
    out: Annotated[Path, typer.Option(help="New .csv file for the predictions.")],
    outside: Annotated[
        Literal["flag", "fallback", "raise"], typer.Option(help="What to do outside the domain.")
    ] = "flag",
    trusted: Annotated[
        str | None, typer.Option(help="The trusted model, for --outside fallback and direct models.")
    ] = None,
) -> None:
    """Predict next states, with bounds, cell and domain membership of each row."""
    if out.suffix.lower() != ".csv":
        raise ValueError(f"`{out}` must end in .csv; got '{out.suffix}'. Predictions are written as CSV.")
    if out.exists():
        raise ValueError(f"`{out}` must be a new file; it exists and nothing is overwritten.")
    known = load_trusted(trusted) if trusted else None
    learned = load(_model_file(model), trusted=known)
    rows = read_probes(data, learned.schema, name="data")
    prediction = learned.predict(
        rows.states,
        rows.controls,
        details=True,
        outside=outside,
        trusted=known,
    )
    with _writing(out):
        write_text(out, _prediction_csv(prediction, learned))
    outside_rows = int((~prediction.in_domain).sum())
    console.print(f"{len(rows)} predictions, {outside_rows} outside the domain: {out}", highlight=False)


@app.command(name="certify")
def certify_command(
    model: ModelPath,
    trusted: TrustedSpec,
    out: Annotated[
        Path | None,
        typer.Option(help="New .json file for the certificate; a page to read is put beside it as .html."),
    ] = None,
) -> None:
    """State what is guaranteed, after checking it against the trusted model at fresh points."""
    if out is not None and out.suffix == ".html":
        raise ValueError(f"`{out}` must end in .json; got '.html', which is the page beside it.")
    for path in () if out is None else (out, out.with_suffix(".html")):
        if path.exists():
            raise ValueError(f"`{path}` must be a new file; it exists and nothing is overwritten.")
    learned = _constrained(model, "tether to certify")
    certificate = _with_recorded_coverage(certify(learned, load_trusted(trusted)), learned)
    console.print(rich_table(delta_grid(certificate.deltas, certificate.evidence)))
    for line in certificate_lines(certificate):
        console.print(line, highlight=False)
    if out is not None:
        with _writing(out):
            write_json(out, certificate.as_dict())
            write_text(out.with_suffix(".html"), certificate_page(certificate, command=_command()))
        console.print(f"certificate: {out}, {out.with_suffix('.html')}", highlight=False)
    if not certificate.certified:
        console.print(f"not certified: evidence `{certificate.evidence}` is an estimate.", style="bold")
        raise typer.Exit(1)


@app.command(name="verify")
def verify_command(
    model: ModelPath,
    trusted: TrustedSpec,
    certificate: Annotated[
        Path | None,
        typer.Option(help="A certificate.json that must say the same; by default that of the run."),
    ] = None,
) -> None:
    """Establish a model's claim again from its file and the trusted model alone."""
    path = _model_file(model)
    with console_reporter(console)("Verify") as progress:
        result = verify(path, load_trusted(trusted), certificate, progress)
    for name, (largest, median) in result.deltas.items():
        console.print(f"{name}: delta at most {largest:.6g}, median {median:.6g}", highlight=False)
    for line in (result.statement, *result.notes):
        console.print(line, highlight=False)
    if not result.verified:
        console.print(f"not verified: evidence `{result.evidence}` is an estimate.", style="bold")
        raise typer.Exit(1)
    console.print(f"verified: {result.cells} cells, evidence `{result.evidence}`.", style="bold")


@app.command(name="attack")
def attack_command(
    model: ModelPath,
    trusted: TrustedSpec,
    evaluations: Annotated[int, typer.Option(help="Inputs to try.")] = 1_000_000,
    seed: int = 0,
    jobs: Annotated[
        int | None, typer.Option(help="Processes; by default all cores where that takes less time.")
    ] = None,
) -> None:
    """Search for a counter-example to a model's certificate."""
    learned = _constrained(model, "certificate to attack")
    with console_reporter(console)("Attack") as progress:
        found = attack(
            learned, load_trusted(trusted), evaluations=evaluations, seed=seed, progress=progress, jobs=jobs
        )
    unit = learned.schema.unit(found.output)
    console.print(
        f"{found.evaluations} inputs tried. The largest distance to the trusted model that any weights can "
        f"reach is {found.distance:.6g} {unit} in '{found.output}', {ratio(found.max_ratio)} of the "
        f"{found.delta:.6g} {unit} claimed there (evidence level {learned.bounds.evidence}).",
        highlight=False,
    )
    if found.broken and learned.bounds.evidence == "statistical":
        console.print("The claim is about a share of random inputs, so that this one does not refute it.")
    elif found.broken:
        place = ", ".join(f"{name}={value!r}" for name, value in found.inputs.items())
        console.print(f"COUNTER-EXAMPLE at {place}", style="bold red", highlight=False)
        raise typer.Exit(1)


@app.command()
def info(model: ModelPath) -> None:
    """What a model file holds."""
    learned = peek(_model_file(model))
    schema, record = learned.schema, learned.record
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    rows: dict[str, Any] = {
        "states": ", ".join(_with_unit(learned, name) for name in schema.states),
        "controls": ", ".join(_with_unit(learned, name) for name in schema.controls) or "none",
        "outputs": ", ".join(_with_unit(learned, name) for name in schema.outputs),
        "predicts": learned.frame.target.replace("_", " "),
        "parameters": f"{sum(p.numel() for p in learned.network.parameters()):,}",
    }
    if isinstance(learned, ConstrainedModel):
        rows |= {
            "tether": f"{learned.bounds.kind}, {len(learned.cells)} memories, {learned.operator}",
            "evidence": learned.bounds.evidence,
            "coverage radius": f"{learned.cells.radii.max():.4g} (scaled) at most",
        }
    elif isinstance(learned, DirectModel):
        rows |= {
            "tether": "direct: the trusted model at run time, and a network within the half-width of it",
            "half-width": ", ".join(
                f"{_with_unit(learned, name)} {width:.4g}"
                for name, width in zip(schema.outputs, learned.half_width, strict=True)
            ),
        }
    named = {
        "steps": "steps",
        "trusted": "trusted model",
        "coverage_D": "coverage of D",
        "coverage_omega": "coverage of Ω",
    }
    rows |= {label: record[key] for key, label in named.items() if key in record}
    rows |= {key: record[key][:16] for key in ("data_sha256", "trusted_source_sha256") if record.get(key)}
    for label, value in rows.items():
        table.add_row(label, escape(str(value)))
    console.print(table)
    if isinstance(learned, ConstrainedModel):
        console.print(rich_table(delta_grid(output_deltas(learned), learned.bounds.evidence)))


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False) -> None:
    if version:
        console.print(__version__, highlight=False)
        raise typer.Exit


def main() -> None:
    """Runs the command line; every error the user can cause becomes one line and a code."""
    try:
        app(prog_name="tether")
    except KeyboardInterrupt:
        _fail("interrupted. Continue a fit with the same arguments and `--resume`.", 130)
    except CertificateError as error:
        _fail(str(error), 1)
    except (ValueError, TypeError) as error:
        if os.environ.get("TETHER_TRACEBACK"):
            raise
        _fail(str(error), 2)
    except OSError as error:
        place = "" if error.filename is None else f"`{error.filename}` "
        _fail(f"{place}must be readable and writable; {error.strerror or error}.", 2)


def _fail(message: str, code: int) -> None:
    errors.print(f"error: {' '.join(message.split())}", highlight=False, markup=False, soft_wrap=True)
    sys.exit(code)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ValueError(f"`{path}` must be writable; {error.strerror}. Choose another `--out`.") from None


def _show(comparison: Comparison, report: Path) -> None:
    console.print()
    console.print(rich_table(results_grid(comparison.results, study_columns(comparison.results))))
    console.print()
    console.print(rich_table(delta_grid(comparison.certificate.deltas, comparison.certificate.evidence)))
    for line in certificate_lines(comparison.certificate, comparison.cost):
        console.print(line, highlight=False)
    console.print()
    console.print(verdict(comparison), style="bold", highlight=False)
    console.print(f"report: {report}", highlight=False, soft_wrap=True)


def _show_study(plan: Plan, out: Path, failed: list[Task]) -> None:
    for task in failed:
        console.print(f"failed: {task.name}: {task.failure}", style="bold red", highlight=False)
    outcome = outcome_of(plan, out)
    if {task.method_name for task in tasks_of(plan, out)[1]} > {run_name(run) for run in outcome.runs}:
        raise typer.Exit(1)
    report = write_summary(plan, out, command=study_command(plan, out), failed=failed)
    console.print(rich_table(seeds_grid(outcome.runs, plan.definition.headings)))
    console.print(rich_table(certificates_grid(outcome.runs)))
    for line in claim_lines(plan.definition.claims(outcome)):
        console.print(line, highlight=False)
    console.print(f"report: {report}", highlight=False, soft_wrap=True)
    if failed:
        raise typer.Exit(1)


def _with_recorded_coverage(certificate: Certificate, model: LearnedModel) -> Certificate:
    keys = ("coverage_D", "coverage_omega")
    return replace(certificate, domain=replace(certificate.domain, **{k: model.record.get(k) for k in keys}))


def _fresh(base: Path) -> Path:
    """`base`, or `base-2`, `base-3`, ...: the demo may be run again and overwrites nothing."""
    number, path = 1, base
    while path.exists() and any(path.iterdir()):
        number += 1
        path = base.with_name(f"{base.name}-{number}")
    return path


def _command() -> str:
    return shlex.join(["tether", *sys.argv[1:]])


def _model_file(path: Path) -> Path:
    if not path.is_dir():
        return path
    if (path / "checkpoints").is_dir():
        raise ValueError(f"`{path}` must be a finished run; this one is not. Continue it with `--resume`.")
    return path / "model.safetensors"


def _constrained(path: Path, missing: str) -> ConstrainedModel:
    learned = peek(_model_file(path))
    if isinstance(learned, DirectModel):
        raise ValueError(
            f"`{path}` must have cells; a direct model has none. It is within its half-width of the trusted "
            "model by construction: see `tether info`."
        )
    if not isinstance(learned, ConstrainedModel):
        raise ValueError(f"`{path}` must be a constrained model; this one has no {missing}.")
    return learned


def _with_unit(model: LearnedModel, name: str) -> str:
    unit = model.schema.unit(name)
    return f"{name} [{unit}]" if unit else name


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _integers(option: str, text: str) -> list[int]:
    try:
        return [int(part) for part in _names(text)]
    except ValueError:
        raise ValueError(f"`--{option}` must be whole numbers, comma separated; got '{text}'.") from None


def _device(name: str) -> str:
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"`--device` must be one that torch can use; got '{name}' ({error}).") from None
    return name


def _pairs(option: str, text: str) -> dict[str, str]:
    parts = [part.partition("=") for part in _names(text)]
    pairs = {name: value for name, _, value in parts}
    if not all(pairs.values()):
        raise ValueError(f"`--{option}` must be name=value, comma separated; got '{text}'.")
    return pairs


def _box(option: str, text: str) -> Box:
    box: dict[str, float | tuple[float, float]] = {}
    for name, limits in _pairs(option, text).items():
        try:
            numbers = [float(part) for part in limits.split(":")]
        except ValueError:
            numbers = []
        if len(numbers) not in (1, 2):
            raise ValueError(f"`--{option}` must be name=low:high or name=value; got '{name}={limits}'.")
        box[name] = numbers[0] if len(numbers) == 1 else (numbers[0], numbers[1])
    return box


def _delta(text: str) -> float | dict[str, float] | None:
    if not text:
        return None
    try:
        if "=" not in text:
            return float(text)
        return {name: float(value) for name, value in _pairs("delta", text).items()}
    except ValueError:
        raise ValueError(
            f"`--delta` must be a number, or name=number, comma separated; got '{text}'."
        ) from None


def _probes(spec: str, count: int | None, transitions: Transitions, seed: int) -> Probes | Jitter:
    if Path(spec).suffix.lower() in (".csv", ".npz", ".parquet"):
        return read_probes(Path(spec), transitions.schema)
    box = _box("probes", spec)
    if not box:
        raise ValueError(f"`--probes` must be a file, a box or jitter=SPREAD; got '{spec}'.")
    if set(box) == {"jitter"} and isinstance(box["jitter"], float):
        return Jitter(box["jitter"], count)
    rows = len(transitions) if count is None else count
    return Probes.from_box(box, count=rows, like=transitions, seed=seed)


def _prediction_csv(prediction: Prediction, model: LearnedModel) -> str:
    outputs = model.schema.outputs
    columns: dict[str, Any] = {f"next_{name}": prediction.next_states[:, k] for k, name in enumerate(outputs)}
    for label in ("lower", "upper", "delta"):
        columns |= {f"{label}_{name}": getattr(prediction, label)[:, k] for k, name in enumerate(outputs)}
    columns |= {"cell": prediction.cell, "in_domain": prediction.in_domain.astype(int)}
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
    return buffer.getvalue()


if __name__ == "__main__":
    main()
