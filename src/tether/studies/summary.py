"""All runs of a study put together: tables over seeds, figures, verdicts, one report."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tether.atomic import write_bytes, write_json, write_text
from tether.report.page import Picture, Section, page
from tether.report.tables import Grid, number, percent, ratio, run_name
from tether.runs import package_versions
from tether.studies.runner import Plan, Task, outcome_of
from tether.studies.study import Claim, Outcome

LOSSES = {
    "approximation_loss_D": "error on D",
    "constraint_loss_D_mean": "to M on D",
    "constraint_loss_omega_mean": "to M on Ω",
    "constraint_loss_omega_max": "worst on Ω",
}


def grouped(runs: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Runs by name of the method, seeds together, in the order of the runs."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for run in runs:
        groups.setdefault(run_name(run), []).append(run)
    return groups


def values_of(runs: Iterable[dict[str, Any]], key: str) -> list[float]:
    """What was measured over seeds."""
    return [run[key] for run in runs if run.get(key) is not None]


def mean_of(outcome: Outcome, name: str, key: str) -> float:
    """Mean over seeds of one method."""
    return float(np.mean(values_of(grouped(outcome.runs)[name], key)))


def seeds_grid(runs: Sequence[dict[str, Any]], extra: Mapping[str, str]) -> Grid:
    """Mean over seeds, and the standard deviation where there are several; one row per method."""
    columns = {**LOSSES, **extra}
    rows = [
        (name, *(_spread(values_of(group, key)) for key in columns)) for name, group in grouped(runs).items()
    ]
    title = (
        "Held-out data, mean ± standard deviation over seeds; squared errors and squared distances to the "
        "trusted model M, physical units"
    )
    return Grid(title, ("method", *columns.values()), tuple(rows))


def _spread(values: Sequence[float]) -> str:
    if not values:
        return "-"
    middle = number(float(np.mean(values)))
    return middle if len(values) < 2 else f"{middle} ± {number(float(np.std(values, ddof=1)))}"


def certificates_grid(runs: Sequence[dict[str, Any]]) -> Grid:
    """What is certified of each method with cells: the worst over seeds."""
    rows = []
    for name, group in grouped(runs).items():
        held = [run for run in group if "certificate" in run]
        if held:
            rows.append(
                (
                    name,
                    held[0]["evidence_level"],
                    percent(min(values_of(held, "coverage_D"))),
                    percent(min(values_of(held, "coverage_omega"))),
                    ratio(max(values_of(held, "attack_max_ratio"))),
                    f"{sum(values_of(held, 'attack_evaluations')):,.0f}",
                )
            )
    header = ("method", "evidence", "coverage D", "coverage Ω", "attack / delta", "inputs tried")
    return Grid("Certificates, worst of all seeds", header, tuple(rows))


def deltas_grid(runs: Sequence[dict[str, Any]], units: Mapping[str, str]) -> Grid:
    """Certified delta of each output by method: worst cell, and the median held-out input, worst seed."""
    held = {n: [r for r in g if "certificate" in r] for n, g in grouped(runs).items()}
    held = {name: group for name, group in held.items() if group}
    # Of all methods, because one may be fitted in other outputs than the rest.
    outputs = list(dict.fromkeys(name for group in held.values() for name in group[0]["delta_certified"]))
    rows = []
    for output in outputs:
        cells = []
        for group in held.values():
            if output not in group[0]["delta_certified"]:
                cells.append("-")
                continue
            worst = max(run["delta_certified"][output]["max"] for run in group)
            middle = max(run["delta_D"][output]["median"] for run in group if run["delta_D"])
            cells.append(f"{number(worst)} / {number(middle)}")
        rows.append((f"{output} [{units.get(output) or '-'}]", *cells))
    return Grid("Certified delta: worst cell / median held-out input", ("output", *held), tuple(rows))


def claim_lines(claims: Sequence[Claim]) -> list[str]:
    """Said, measured, holds or not."""
    return [f"{'✓ holds' if c.holds else '✗ does not hold'}: {c.said}: {c.measured}." for c in claims]


def write_summary(plan: Plan, folder: Path, *, command: str, failed: Sequence[Task]) -> Path:
    """Writes ``results.json``, figures and ``report.html``; the path of the report."""
    # Here, because drawing takes half a second to import and most commands draw nothing.
    from tether.report.figures import as_png, as_svg
    from tether.studies.figures import bars_figure, curves_figure, plane_figure

    study, outcome = plan.definition, outcome_of(plan, folder)
    units = _units(plan, folder)
    claims = study.claims(outcome)
    figures = {
        "curves": (curves_figure(outcome.runs), "The paper's metrics during training, on validation data."),
        "bars": (bars_figure(outcome.runs), "Held-out data at the end; bars are standard deviations."),
        "plane": (plane_figure(outcome.runs), "Accuracy against conformance: the lower left corner wins."),
    }
    for name, (figure, _) in figures.items():
        write_bytes(folder / f"{name}.png", as_png(figure))
        write_text(folder / f"{name}.svg", as_svg(figure))
    own = study.sections(outcome)
    for picture in (picture for section in own for picture in section.pictures if picture.name):
        write_text(folder / f"{picture.name}.svg", picture.svg)
    for animation in (animation for section in own for animation in section.animations):
        write_bytes(folder / f"{animation.name}.gif", animation.content)
    sections = [
        Section("Verdicts", claim_lines(claims)),
        Section("Results", grids=[seeds_grid(outcome.runs, study.headings)]),
        *own,
        Section("Certificates", grids=[certificates_grid(outcome.runs), deltas_grid(outcome.runs, units)]),
        Section(
            "Figures", pictures=[Picture(as_svg(f), caption, name) for name, (f, caption) in figures.items()]
        ),
    ]
    if failed:
        texts = [f"{task.name}: {_last_line(task)}" for task in failed]
        sections.insert(0, Section("Failed runs", texts))
    versions = package_versions()
    held = sum(claim.holds for claim in claims)
    verdict = f"{held} of {len(claims)} claims hold; {len(outcome.runs)} runs, {len(failed)} failed."
    report = page(f"Tether: {study.title}", verdict, sections, command=command, versions=versions)
    write_text(folder / "report.html", report)
    write_text(folder / "summary.md", _markdown(f"# {study.title.capitalize()}", command, sections))
    header = {
        "study": plan.study,
        "scale": plan.scale,
        "command": command,
        "versions": versions,
        "units": units,
        "claims": [claim.__dict__ for claim in claims],
    }
    write_json(folder / "results.json", header | {"runs": list(outcome.runs)})
    return folder / "report.html"


def _markdown(title: str, command: str, sections: Sequence[Section]) -> str:
    """The sections in words and tables, with links to figures that are files."""
    lines = [title, "", f"    {command}", ""]
    for section in sections:
        named = [*section.animations, *(picture for picture in section.pictures if picture.name)]
        if section.paragraphs or section.grids or named:
            lines += [f"## {section.title}", ""]
        lines += [f"- {text}" for text in section.paragraphs]
        for grid in section.grids:
            lines += ["", grid.title, "", f"| {' | '.join(grid.header)} |", "|---" * len(grid.header) + "|"]
            lines += [f"| {' | '.join(row)} |" for row in grid.rows]
        for picture in section.pictures:
            if picture.name:
                lines += ["", f"![{picture.name}]({picture.name}.svg)", "", f"*{picture.caption}*"]
        for shown in section.animations:
            lines += ["", f"![{shown.name}]({shown.name}.gif)", "", f"*{shown.caption}*"]
        lines.append("")
    return "\n".join(lines)


def _units(plan: Plan, folder: Path) -> dict[str, str]:
    from tether.studies.storing import read_data

    data = read_data(folder / "data" / f"{plan.seeds[0]}.npz")
    recast = [recast.data(data) for recast in plan.definition.recasts.values()]
    schemas = [each.transitions.schema for each in (data, *recast)]
    return {name: schema.unit(name) for schema in schemas for name in (*schema.inputs, *schema.outputs)}


def _last_line(task: Task) -> str:
    if not task.failure.is_file():
        return "its process ended without a word"
    return task.failure.read_text(encoding="utf-8").strip().splitlines()[-1]


def study_command(plan: Plan, folder: Path) -> str:
    """The command that makes this study again."""
    words = ["tether", "study", plan.study, "--scale", plan.scale]
    words += ["--seeds", ",".join(map(str, plan.seeds))]
    for name, value in plan.options.items():
        words += [f"--{name}", value]
    return shlex.join([*words, "--out", str(folder)])
