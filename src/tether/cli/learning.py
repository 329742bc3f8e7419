"""Verbs that make and use a model: fit, predict, info."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from tether.cli.parsing import (
    box,
    budget,
    counts,
    device_named,
    inputs_over,
    integers,
    names,
    pairs,
    probes_asked,
    rows_or_time,
)
from tether.cli.starting import starting
from tether.cli.terminal import (
    ModelPath,
    Scheduler,
    TrustedSpec,
    command_line,
    console,
    say,
    with_unit,
    writing,
)
from tether.foundation.printing import plain
from tether.foundation.progress import console_reporter

if TYPE_CHECKING:
    from tether.data import Jitter, Probes, Transitions
    from tether.data.logs import LogConfig
    from tether.data.logs.inputs import Inputs
    from tether.files.runs import RunFolder
    from tether.fitting import FitConfig
    from tether.fitting.config import Order
    from tether.model import Model, Prediction
    from tether.trusted import TrustedModel


DataPaths = Annotated[
    list[str],
    typer.Option(
        help="A .csv, .npz, .parquet or .npy file, a folder, or a pattern 'logs/*.csv'; may be repeated."
    ),
]
EpisodeColumn = Annotated[
    str | None, typer.Option(help="Column of the episode id; without it each file is one episode.")
]
TimeColumn = Annotated[
    str | None, typer.Option(help="Column of the time: the log is split where it does not advance evenly.")
]
Tolerance = Annotated[
    float, typer.Option(help="Share by which a step of --time may deviate from the median.")
]
DropInvalid = Annotated[
    bool, typer.Option("--drop-invalid", help="Drop rows with a missing or invalid value, and count them.")
]
History = Annotated[
    list[str] | None,
    typer.Option(
        help="Older values as inputs, as column=count: M receives column_1 (one row ago) and so on."
    ),
]
NextStates = Annotated[
    str, typer.Option(help="Outcome columns; by default the states of the next row of the episode.")
]
TimeStep = Annotated[
    float | None,
    typer.Option(help="Resample to this step, in the unit of --time: states interpolated, controls held."),
]
Block = Annotated[
    str, typer.Option(help="Cut episodes into blocks of so many rows, or of so much time: '500', '10s'.")
]
IndependentRows = Annotated[bool, typer.Option(help="Every row is an episode of its own.")]

_ORDERS: dict[str, Order] = {"1": 1, "2": 2, "auto": "auto"}


def fit(
    data: DataPaths,
    states: Annotated[
        str,
        typer.Option(
            help="State columns, comma separated; here and below 'v,\"x, y\"' where a name has commas."
        ),
    ],
    trusted: TrustedSpec,
    out: Annotated[Path, typer.Option(help="New folder for the run.")],
    controls: Annotated[str, typer.Option(help="Control columns, comma separated.")] = "",
    next_states: NextStates = "",
    episode: EpisodeColumn = None,
    time: TimeColumn = None,
    step: TimeStep = None,
    tolerance: Tolerance = 0.2,
    block: Block = "",
    drop_invalid: DropInvalid = False,
    history: History = None,
    angle: Annotated[str, typer.Option(help="Columns in radians that wrap, comma separated.")] = "",
    not_angle: Annotated[
        str, typer.Option(help="Columns that jump like an angle and are none, comma separated.")
    ] = "",
    unit: Annotated[
        str, typer.Option(help="Units, as column=unit, comma separated; the last = counts.")
    ] = "",
    independent_rows: IndependentRows = False,
    most_rows: Annotated[
        int | None,
        typer.Option(help="Read in pieces, fit to a sample of so many transitions, measure on all held out."),
    ] = None,
    probes: Annotated[
        str, typer.Option(help="A file, a box 'v=0,x=-5:5' (other columns as in the data), or 'jitter=0.1'.")
    ] = "jitter=0.1",
    probe_count: Annotated[
        int | None, typer.Option(help="Probes to draw; by default as many as data.")
    ] = None,
    memories: int = 1000,
    bounds: Annotated[
        Literal["interval", "affine", "direct"],
        typer.Option(help="Kind of tether; affine: over a whole operating box; direct: M at run time."),
    ] = "affine",
    leaves: Annotated[int, typer.Option(help="Affine: into how many of them the box may be cut.")] = 20_000,
    order: Annotated[
        Literal["1", "2", "auto"],
        typer.Option(
            help="Affine: of models over leaves; 2: quadratic where less remains; auto: where 1 falls short."
        ),
    ] = "1",
    alpha: Annotated[
        float, typer.Option(help="Affine: share of observed rows that may lie outside the band.")
    ] = 0.01,
    unseen: Annotated[
        Literal["follow", "open"],
        typer.Option(help="Affine, where no data are: follow M, or leave as much room as the widest."),
    ] = "follow",
    delta: Annotated[
        str,
        typer.Option(help="Distance to M to stay within: '0.05' or 'x=0.05,heading=0.01'; affine bounds."),
    ] = "",
    where: Annotated[
        Literal["box", "data"],
        typer.Option(
            help="Where a delta must hold: over the whole box, or in leaves that data or probes touch."
        ),
    ] = "box",
    evidence: Annotated[
        Literal["auto", "sampled", "statistical", "lipschitz", "proved"],
        typer.Option(help="How delta is known; auto: proved if M allows, else lipschitz, else statistical."),
    ] = "auto",
    epsilon: Annotated[
        float | None, typer.Option(help="Statistical evidence: share of inputs that may exceed delta.")
    ] = None,
    beta: Annotated[
        float | None, typer.Option(help="Statistical evidence: one minus the confidence.")
    ] = None,
    over: Annotated[
        str,
        typer.Option(
            help="Statistical evidence, inputs it is over: data, box, limits 'v=0:15', or file.py:function."
        ),
    ] = "",
    decreasing: Annotated[
        str,
        typer.Option(
            help="Inputs in which no prediction may rise, comma separated; affine bounds, M an AffineModel."
        ),
    ] = "",
    target: Annotated[
        Literal["auto", "next_state", "increment"], typer.Option(help="What the network predicts.")
    ] = "auto",
    operator: Annotated[Literal["clip", "sigmoid"], typer.Option(help="Constraining operator.")] = "clip",
    loss: Annotated[Literal["squared_error", "augmented_lagrangian"], typer.Option()] = "squared_error",
    hidden: Annotated[
        str, typer.Option(help="Layer widths, comma separated; affine: by default a few sizes are tried.")
    ] = "",
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
    scheduler: Scheduler = None,
    seed: int = 0,
    resume: Annotated[
        bool, typer.Option(help="Continue an interrupted run with the same arguments.")
    ] = False,
) -> None:
    """Learn a constrained model from logged transitions and a trusted model."""
    with starting():
        from tether.data import Jitter
        from tether.data.files import naming
        from tether.data.logs import LogConfig, read_log
        from tether.data.logs.sources import describe_sources
        from tether.evidence import as_evidence
        from tether.files.runs import RunFolder
        from tether.fitting import FitConfig, resolve_target
        from tether.foundation.executors import spread_over
        from tether.learning.config import TrainingConfig
        from tether.trusted.loading import load_trusted
    reading = LogConfig(
        states=names(states),
        controls=names(controls),
        next_states=names(next_states) or None,
        episode=episode,
        time=time,
        step=step,
        tolerance=tolerance,
        block=rows_or_time(block),
        drop_invalid=drop_invalid,
        history=counts("history", history or []),
        angles=names(angle),
        not_angles=names(not_angle),
        units=pairs("unit", unit),
        independent_rows=independent_rows,
        most_rows=most_rows,
    )
    transitions = read_log(data[0] if len(data) == 1 else data, config=reading)
    model = load_trusted(trusted)
    config = FitConfig(
        memories=memories,
        bounds=bounds,
        leaves=leaves,
        order=_ORDERS[order],
        alpha=alpha,
        unseen=unseen,
        delta=budget(delta),
        where=where,
        target=None if target == "auto" else target,
        evidence=as_evidence(
            None if evidence == "auto" else evidence, epsilon=epsilon, beta=beta, over=inputs_over(over)
        ),
        operator=operator,
        decreasing=tuple(names(decreasing)),
        not_angles=tuple(names(not_angle)),
        hidden=tuple(integers("hidden", hidden)) if hidden else None,
        domain=box("domain", domain) or None,
        training=TrainingConfig(
            steps=steps,
            loss=loss,
            gamma=gamma,
            learning_rate=learning_rate,
            patience=patience,
            device=device_named(device),
        ),
        seed=seed,
    )
    omega = probes_asked(probes, probe_count, transitions, seed)
    resolve_target(config.target, transitions)
    model = model if jobs is None else replace(model, jobs=jobs)
    with spread_over(scheduler), naming(data[0] if len(data) == 1 else None, _ABOUT_DATA):
        folder = RunFolder.create(out, command_line(), resume=resume)
        for line in transitions.report.lines if transitions.report else ():
            say(line)
        if isinstance(omega, Jitter):
            say(f"probes: training rows moved at random by {omega.spread:g} standard deviations (`--probes`)")
        _fit(transitions, model, omega, config, folder, describe_sources(data))
        if most_rows is not None:
            _measure_all(out, model, data, transitions, reading, config)


_ABOUT_DATA = ("`transitions`", "`probes`", "columns", "`radii`", "numbers")
"""How complaints begin whose cause is in the data."""


def _fit(
    transitions: Transitions,
    model: TrustedModel,
    probes: Probes | Jitter,
    config: FitConfig,
    folder: RunFolder,
    data: str,
) -> None:
    from tether.cli.results import show_comparison
    from tether.files.runs import compare, fit_methods
    from tether.fitting import resolve_target

    increments = resolve_target(config.target, transitions) == "increment"
    comparison = compare(
        transitions,
        trusted=model,
        probes=probes,
        methods=fit_methods(config, increments=increments),
        config=config,
        folder=folder,
        reporter=console_reporter(console),
    )
    show_comparison(comparison, folder.finish(comparison, name=f"fit of {data}"))


def _measure_all(
    out: Path,
    trusted: TrustedModel,
    data: list[str],
    sampled: Transitions,
    reading: LogConfig,
    config: FitConfig,
) -> None:
    """What a sample was fitted to, against all that was held out."""
    from tether.files.storage import load
    from tether.fitting.streaming import measure_log
    from tether.foundation.atomic import write_json

    model = load(out, trusted=trusted)
    found = measure_log(model, trusted, data, sampled, reading=reading, config=config)
    write_json(out / "whole.json", found.as_dict())
    for line in found.lines:
        say(line)


def predict(
    model: ModelPath,
    data: DataPaths,
    out: Annotated[Path, typer.Option(help="New .csv file for the predictions.")],
    episode: EpisodeColumn = None,
    time: TimeColumn = None,
    tolerance: Tolerance = 0.2,
    drop_invalid: DropInvalid = False,
    history: History = None,
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
    with starting():
        from tether.data.files import naming
        from tether.data.logs.inputs import read_inputs
        from tether.files.storage import load
        from tether.foundation.atomic import write_text
        from tether.trusted.loading import load_trusted
    known = load_trusted(trusted) if trusted else None
    learned = load(model, trusted=known)
    inputs = read_inputs(
        data,
        learned.schema,
        episode=episode,
        time=time,
        tolerance=tolerance,
        drop_invalid=drop_invalid,
        history=counts("history", history or []),
    )
    rows = inputs.probes
    with naming(model, "the network"):
        prediction = learned.predict(rows.states, rows.controls, details=True, outside=outside, trusted=known)
    with writing(out):
        write_text(out, _prediction_csv(prediction, learned, inputs))
    outside_rows = int((~prediction.in_domain).sum())
    if inputs.left_out:
        say(f"{inputs.left_out} rows left out: invalid, repeated, or with too few older ones")
    say(f"{len(rows)} predictions, {outside_rows} outside the domain: {out}")


def info(model: ModelPath) -> None:
    """What a model file holds."""
    with starting():
        from rich.table import Table

        from tether.claims.certificate import output_deltas
        from tether.files.storage import peek
        from tether.report.tables import delta_grid, rich_table
    learned = peek(model)
    schema, record = learned.schema, learned.record
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    rows: dict[str, Any] = {
        "states": ", ".join(with_unit(learned, name) for name in schema.states),
        "controls": ", ".join(with_unit(learned, name) for name in schema.controls) or "none",
        "outputs": ", ".join(with_unit(learned, name) for name in schema.outputs),
        "predicts": learned.frame.target.replace("_", " "),
        "parameters": f"{sum(p.numel() for p in learned.network.parameters()):,}",
    }
    if learned.tether.bounded:
        why = f", because {record['why']}" if record.get("why") else ""
        rows |= {"tether": _described(learned), "evidence": f"{learned.tether.evidence}{why}"}
    if learned.decreasing:
        rows["never rises in"] = ", ".join(learned.decreasing)
    rows |= _domain(learned) if learned.tether.limited else _half_width(learned)
    named = {
        "steps": "steps",
        "trusted": "trusted model",
        "coverage_D": "coverage of D",
        "coverage_omega": "coverage of Ω",
    }
    rows |= {label: record[key] for key, label in named.items() if key in record}
    rows |= {key: record[key][:16] for key in ("data_sha256", "trusted_source_sha256") if record.get(key)}
    rows |= dict(line.split(": ", 1) for line in record.get("log", ()) if line.startswith("step: "))
    for label, value in rows.items():
        table.add_row(label, plain(str(value)))
    console.print(table)
    if learned.tether.limited:
        console.print(rich_table(delta_grid(output_deltas(learned), learned.bounds.evidence.name)))


def _described(model: Model) -> str:
    """The tether in a line."""
    if model.tether.memories is None:
        return "direct: the trusted model at run time, and a network within the half-width of it"
    kind = "monotone by construction" if model.decreasing else model.tether.kind
    return f"{kind}, {model.tether.memories} memories, {model.operator}"


def _half_width(model: Model) -> dict[str, str]:
    """How far from M outputs may be, where that is so everywhere."""
    if not model.tether.bounded:
        return {}
    widths = zip(model.schema.outputs, model.tether.deltas, strict=True)
    named = (f"{with_unit(model, name)} {width.max():.4g} at most" for name, width in widths)
    return {"half-width": ", ".join(named)}


def _domain(model: Model) -> dict[str, str]:
    """Where something is claimed: near memories, or in a box."""
    bounds: Any = model.bounds
    if not model.tether.over_boxes:
        return {"coverage radius": f"{model.cells.radii.max():.4g} (scaled) at most"}
    limits = zip(model.schema.inputs, bounds.tree.lower, bounds.tree.upper, strict=True)
    box = ", ".join(f"{name} {low:.4g} to {high:.4g}" for name, low, high in limits)
    second = int((bounds.bends != 0).any(axis=1).sum())
    told = f", {second:,} of second order" if second else ""
    return {"leaves": f"{bounds.tree.leaves:,}{told}", "operating box": box}


def _prediction_csv(prediction: Prediction, model: Model, inputs: Inputs) -> str:
    """One line per row; where it is from, unless that is the whole of one table."""
    from tether.model.tables import predicted_columns

    several = inputs.left_out or len(set(inputs.tables.tolist())) > 1
    columns: dict[str, Any] = {"file": inputs.tables, "row": inputs.rows} if several else {}
    columns |= predicted_columns(prediction, model.schema.outputs, details=True)
    columns["in_domain"] = prediction.in_domain.astype(int)
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
    return buffer.getvalue()
