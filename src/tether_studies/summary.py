"""All runs of a study put together: tables over seeds, figures, verdicts, one report."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tether.files.runs import package_versions
from tether.foundation.atomic import write_bytes, write_json, write_text
from tether.report.building import chapter_of, section_as_dict, write_report
from tether.report.curves import curves_data
from tether.report.page import Picture, Section
from tether.report.seeds import certificates_grid, deltas_grid, grouped, seeds_grid, values_of
from tether_studies.ablation import ALL_DATA, ablation_section, levelled
from tether_studies.claims import ELSEWHERE
from tether_studies.runner import outcome_of
from tether_studies.searching import chosen_lines, search_section
from tether_studies.shown import one_of_each
from tether_studies.study import Claim, Outcome
from tether_studies.tasks import Plan, Task, tasks_of
from tether_studies.trying import ablation_plans

_ROUNDING = 1e-20
"""Squared distances to M below which it is followed."""


_ONE_EACH = "One of each kind of method; the tables have all."


def _of_each_kind(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of the methods that figures show; all, where these are not among them."""
    groups = grouped(runs)
    shown = one_of_each(groups)
    return [run for name in shown for run in groups[name]] if len(shown) > 1 else list(runs)


def missing_methods(plan: Plan, outcome: Outcome) -> list[str]:
    """Methods of which no run has ended."""
    ended = grouped(outcome.runs)
    return [entry.name for entry in plan.entries if entry.name not in ended]


def judge(plan: Plan, outcome: Outcome) -> list[Claim]:
    """The study's verdicts, once every method has a run that ended."""
    missing = missing_methods(plan, outcome)
    if not missing and "Trusted" in grouped(outcome.runs):
        return plan.definition.claims(outcome)
    reason = f"no run ended of {', '.join(missing) or 'M alone'}"
    return [Claim("Every method has a run that ended, so that claims can be judged", reason, False)]


def claim_lines(claims: Sequence[Claim]) -> list[str]:
    """Said, measured, holds or not."""
    return [f"{'✓ holds' if c.holds else '✗ does not hold'}: {c.said}: {c.measured}." for c in claims]


def write_summary(
    plan: Plan, folder: Path, *, command: str, failed: Sequence[Task], more: Sequence[Section] = ()
) -> Path:
    """Writes ``results.json``, figures and ``report.html``; the path of the report.

    Args:
        plan: what was run.
        folder: where.
        command: that runs it again.
        failed: tasks that did.
        more: sections that other runs add.
    """
    # Here, because drawing takes half a second to import and most commands draw nothing.
    from tether.report.figures import as_png, as_svg
    from tether_studies.figures import bars_figure, curves_figure, memories_figure, plane_figure

    study, outcome = plan.definition, outcome_of(plan, folder)
    units = _units(plan, folder)
    claims = judge(plan, outcome)
    few = _of_each_kind(outcome.runs)
    figures = {
        "curves": (
            curves_figure(few),
            f"The paper's metrics on validation data. {_ONE_EACH}",
        ),
        "bars": (bars_figure(outcome.runs), "Held-out data at the end; bars are standard deviations."),
        "plane": (
            plane_figure(few),
            f"The lower left corner wins. {_ONE_EACH}",
        ),
    }
    by_count = memories_figure(outcome.runs, units)
    if by_count is not None:
        figures["memories"] = (by_count, "What is certified against the number of memories.")
    pictures = {}
    for name, (figure, caption) in figures.items():
        write_bytes(folder / f"{name}.png", as_png(figure))
        pictures[name] = Picture(as_svg(figure), caption, name)
        write_text(folder / f"{name}.svg", pictures[name].svg)
    own = [] if missing_methods(plan, outcome) else study.sections(outcome)
    own += more
    for picture in (picture for section in own for picture in section.pictures if picture.name):
        write_text(folder / f"{picture.name}.svg", picture.svg)
    # The page draws curves itself.
    own.append(Section("At the end", pictures=[p for name, p in pictures.items() if name != "curves"]))
    texts = [f"{task.name}: {_last_line(task)}" for task in failed]
    for animation in (animation for section in own for animation in section.animations):
        write_bytes(folder / f"{animation.name}.gif", animation.content)
    sections = [
        *([Section("Failed runs", texts)] if failed else []),
        Section("Verdicts", claim_lines(claims)),
        Section("Results", _follows_lines(outcome), [seeds_grid(outcome.runs, study.headings)]),
        *own,
        Section("Certificates", grids=[certificates_grid(outcome.runs), deltas_grid(outcome.runs, units)]),
        Section("Training", pictures=[pictures["curves"]]),
    ]
    write_text(folder / "summary.md", _markdown(f"# {study.title.capitalize()}", command, sections))
    _keep_explorer(plan, folder)
    results = {
        "name": plan.study,
        "title": study.title,
        "scale": plan.scale,
        "command": command,
        "versions": package_versions(),
        "units": units,
        "claims": [_written(claim) for claim in claims],
        "failed": texts,
        "headings": dict(study.headings),
        "sections": [section_as_dict(section) for section in own],
        # Means over seeds; those of each run are in its own file.
        "curves": curves_data({n: [r["history"] for r in g] for n, g in grouped(outcome.runs).items()}),
        "runs": [{key: value for key, value in run.items() if key != "history"} for run in outcome.runs],
    }
    write_json(folder / "results.json", results)
    return write_report([chapter_of(results, folder)], folder / "report.html")


def write_search(plan: Plan, folder: Path, *, command: str) -> Section:
    """Writes what a search tried (``search.md``) and chose (``chosen.csv``, lines of the package's)."""
    runs = outcome_of(plan, folder).runs
    section = search_section(runs)
    write_text(folder / "search.md", _markdown(f"# Search: {_called(plan)}", command, [section]))
    write_text(folder / "chosen.csv", chosen_lines(_called(plan), runs))
    return section


def _called(plan: Plan) -> str:
    """Under which name settings are looked up."""
    return f"{plan.study}-traces" if "traces" in plan.options else plan.study


def write_ablation(plan: Plan, folder: Path, *, command: str) -> Section:
    """Writes what each change to the paper's method does: ``ablation.md`` and its figure."""
    plans = ablation_plans(plan, folder)
    runs = [
        run for whose, (own, where) in plans.items() for run in levelled(outcome_of(own, where).runs, whose)
    ]
    only_omega = all(set(own.options) <= {"omega"} for own, _ in plans.values())
    section = ablation_section(runs, "Ω alone" if only_omega else ALL_DATA)
    for picture in section.pictures:
        write_text(folder / f"{picture.name}.svg", picture.svg)
    write_text(folder / "ablation.md", _markdown(f"# Ablation: {plan.study}", command, [section]))
    return section


def _written(claim: Claim) -> dict[str, str | bool]:
    """As ``results.json`` keeps it: the paper's claims are counted apart from ours."""
    if claim.said.startswith(ELSEWHERE):
        return asdict(claim) | {"source": "the paper on other studies"}
    return asdict(claim) | ({"source": "the paper"} if claim.said.startswith("The paper") else {})


def _follows_lines(outcome: Outcome) -> list[str]:
    """That 0 on Ω is no merit of what was learned, where that number stands."""
    tethered = ("Tethered", "HardNet")
    following = [
        name
        for name, runs in grouped(outcome.runs).items()
        if name.startswith(tethered)
        and max(values_of(runs, "constraint_loss_omega_max"), default=1.0) < _ROUNDING
    ]
    if not following:
        return []
    why = "by construction: where all probes agree, or in cells that hold one, they follow M"
    return [f"{', '.join(following)}: 0, or rounding, on Ω {why}."]


def _keep_explorer(plan: Plan, folder: Path) -> None:
    """Copies what the explorer shows from the run that wrote it; a study without one goes without."""
    for task in tasks_of(plan, folder)[1]:
        if task.is_explored and task.explorer.is_file():
            write_text(folder / "explorer.json", task.explorer.read_text(encoding="utf-8"))


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
    from tether_studies.storing import read_data

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
    words += [] if plan.part == "tables" else [f"--{plan.part}"]
    return shlex.join([*words, "--out", str(folder)])
