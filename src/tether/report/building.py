"""A report from folders of finished runs, without training anything again.

A folder is read by ``results.json`` (what was measured, what whoever ran it added and claims), beside it
``certificate.json`` and ``metrics.jsonl`` of a fit, ``explorer.json``, and the figures that it names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tether.claims.claims import Certificate
from tether.claims.cost import ApproximationCost
from tether.foundation.atomic import write_text
from tether.foundation.wording import BROKEN
from tether.report.curves import TITLES, History, curves_data
from tether.report.page import Animation, Chapter, Picture, Section, Verdict, book
from tether.report.reading import (
    finished_folders,
    read_animation,
    read_certificate,
    read_drawing,
    read_evaluations,
    read_explorer,
    read_results,
)
from tether.report.seeds import certificates_grid, deltas_grid, grouped, has_cells, seeds_grid, values_of
from tether.report.tables import (
    Grid,
    band_lines,
    cost_line,
    delta_grid,
    delta_words,
    domain_lines,
    errors_grid,
    monotonicity_lines,
    number,
    percent,
    ratio,
    recheck_line,
    run_name,
    symbols,
    why_lines,
)

_CAPTIONS = {
    "bars": "Held-out data at the end; bars are standard deviations.",
    "plane": "Accuracy against conformance: the lower left corner wins.",
}
_MEASURED = {"memories", "seed", "steps", "best_step", "constraint_loss_D_max", *TITLES}
"""Numbers of a run that are no added column."""


def build_report(folders: Sequence[Path], out: Path) -> Path:
    """Writes one page about all runs in `folders`; its path.

    Args:
        folders: each holds a ``results.json``, or folders that do.
        out: the file to write.

    Raises:
        ValueError: where a folder holds no finished run, or a damaged one.
    """
    found = [path for folder in folders for path in finished_folders(Path(folder))]
    if not found:
        raise ValueError("`folders` must name at least one finished run; got none.")
    return write_report([read_chapter(path) for path in found], Path(out))


def write_report(chapters: Sequence[Chapter], out: Path) -> Path:
    """Writes chapters as one page, with an overview first where there are several; its path."""
    title = chapters[0].title if len(chapters) == 1 else f"Tether: {len(chapters)} results"
    out.parent.mkdir(parents=True, exist_ok=True)
    write_text(out, book(title, chapters if len(chapters) == 1 else [_overview(title, chapters), *chapters]))
    return out


def read_chapter(folder: Path) -> Chapter:
    """What a folder's files say."""
    return chapter_of(read_results(folder), folder)


def chapter_of(results: Mapping[str, Any], folder: Path) -> Chapter:
    """Results, from what ``results.json`` holds or will hold, and the files beside it."""
    runs, units = results["runs"], results["units"]
    certificate = _certificate(results, folder)
    claims = results.get("claims")
    verdicts = _run_verdicts(runs, certificate) if claims is None else [Verdict(**claim) for claim in claims]
    sections = [
        Section("Verdicts", [symbols(runs)] if verdicts else [], verdicts=verdicts),
        Section("Failed runs", results.get("failed", [])),
        Section("Results", [] if verdicts else [symbols(runs)], grids=_results_grids(results)),
        Section("Training", [_CURVES], curves=results.get("curves") or curves_data(_histories(runs, folder))),
        *_own_sections(results, folder),
        *_certificate_sections(runs, units, certificate),
        Section("Explorer", [_EXPLORER], explorer=read_explorer(folder)),
    ]
    title = results.get("title") or results["name"]
    return Chapter(
        f"Tether: {title}",
        _lead(results, certificate),
        [section for section in sections if _is_filled(section)],
        results.get("command", ""),
        results.get("versions", {}),
    )


def _results_grids(results: Mapping[str, Any]) -> list[Grid]:
    """Losses of all methods, and of one seed's the errors of each output in its unit."""
    runs = results["runs"]
    grids = [seeds_grid(runs, _headings(results))]
    errors = errors_grid(runs, results["units"])
    alone = len({run.get("seed") for run in runs}) == 1
    return [*grids, errors] if errors is not None and alone else grids


_CURVES = (
    "On validation data while training went on. Drag to zoom, double-click to zoom out, click a method to "
    "hide or show it."
)
_EXPLORER = (
    "How far from M a prediction can be, and what is predicted, around reference rows. A slice is flat: two "
    "inputs vary, all others stay at the values of a row. A line goes along one input."
)


def _is_filled(section: Section) -> bool:
    """Whether anything but an introduction stands in it."""
    if section.paragraphs and section.paragraphs[0] not in (_CURVES, _EXPLORER):
        return True
    parts = (section.verdicts, section.facts, section.pictures, section.animations)
    return any([*map(bool, parts), section.curves, section.explorer, *(grid.rows for grid in section.grids)])


def section_as_dict(section: Section) -> dict[str, Any]:
    """A section as ``results.json`` keeps it; figures by the names of their files."""
    return {
        "title": section.title,
        "paragraphs": list(section.paragraphs),
        "grids": [{"title": g.title, "header": g.header, "rows": g.rows} for g in section.grids],
        "pictures": [{"name": p.name, "caption": p.caption} for p in section.pictures if p.name],
        "animations": [{"name": a.name, "caption": a.caption} for a in section.animations],
    }


def _own_sections(results: Mapping[str, Any], folder: Path) -> list[Section]:
    if "sections" in results:
        return [_section(section, folder) for section in results["sections"]]
    # As older folders have it: figures without a word about them. Curves are drawn by the page itself.
    names = [path.stem for path in sorted(folder.glob("*.svg")) if path.stem != "curves"]
    pictures = [
        Picture(drawing, _CAPTIONS.get(name, name), name)
        for name in names
        if (drawing := read_drawing(folder, name)) is not None
    ]
    return [Section("Figures", pictures=pictures)]


def _section(section: Mapping[str, Any], folder: Path) -> Section:
    pictures = [(read_drawing(folder, p["name"]), p) for p in section["pictures"]]
    animations = [(read_animation(folder, a["name"]), a) for a in section.get("animations", [])]
    return Section(
        section["title"],
        section["paragraphs"],
        [Grid(g["title"], tuple(g["header"]), tuple(map(tuple, g["rows"]))) for g in section["grids"]],
        [Picture(drawing, p["caption"], p["name"]) for drawing, p in pictures if drawing is not None],
        [Animation(content, a["caption"], a["name"]) for content, a in animations if content is not None],
    )


def _headings(results: Mapping[str, Any]) -> dict[str, str]:
    """Added columns, key to heading; older folders do not name theirs."""
    if "headings" in results:
        return dict(results["headings"])
    keys = {key: None for run in results["runs"] for key, value in run.items() if isinstance(value, float)}
    skipped = ("seconds_", "operator_", "attack_", "coverage_")
    keys = [key for key in keys if key not in _MEASURED and not key.startswith(skipped)]
    return {key: key.replace("_", " ") for key in keys}


def _histories(runs: Sequence[dict[str, Any]], folder: Path) -> dict[str, list[History]]:
    """Evaluations by method and seed: of several seeds in the results, of a fit in ``metrics.jsonl``."""
    if any("history" in run for run in runs):
        return {name: [run.get("history", []) for run in group] for name, group in grouped(runs).items()}
    path = folder / "metrics.jsonl"
    if not path.is_file():
        return {}
    lines = read_evaluations(path)
    return {run_name(run): [[line for line in lines if line["method"] == run["method"]]] for run in runs}


def _certificate(results: Mapping[str, Any], folder: Path) -> dict[str, Any] | None:
    """Of a fit: its own. Of several seeds: that of the last tethered method, first seed."""
    path = folder / "certificate.json"
    if path.is_file():
        return read_certificate(path)
    held = [run for run in results["runs"] if run.get("certificate")]
    tethered = [run for run in held if run["method"] == "Tethered"] or held
    if not tethered:
        return None
    group = grouped(tethered)[run_name(tethered[-1])]
    return group[0]["certificate"] | {"of": f"{run_name(group[0])}, seed {group[0]['seed']}"}


def _certificate_sections(
    runs: Sequence[dict[str, Any]], units: Mapping[str, str], content: Mapping[str, Any] | None
) -> list[Section]:
    sections = []
    if content is not None:
        certificate = Certificate.from_dict(content)
        cost = content.get("approximation_cost")
        whose = f" of {content['of']}" if "of" in content else ""
        box = tuple((n, f"{low:.6g}", f"{high:.6g}") for n, (low, high) in certificate.domain.box.items())
        sections.append(
            Section(
                f"The certificate{whose}, in plain words",
                facts=_certificate_facts(
                    certificate, None if cost is None else ApproximationCost.from_dict(cost)
                ),
                grids=[delta_grid(certificate.deltas, certificate.evidence)],
                folded=[Grid("The box of the domain, input by input", ("input", "from", "to"), box)],
            )
        )
    # A fit has one model with cells, whose deltas the certificate has said.
    of_all = [deltas_grid(runs, units)] if any("certificate" in run for run in runs) else []
    sections.append(Section("The attack", _attack_lines(runs), [certificates_grid(runs), *of_all]))
    return sections


def _certificate_facts(
    certificate: Certificate, cost: ApproximationCost | None
) -> list[tuple[str, Sequence[str]]]:
    digest = certificate.trusted_source_sha256 or "not known"
    facts = [
        ("What is claimed", [certificate.claim, delta_words(certificate.deltas), *why_lines(certificate)]),
        ("Where it holds", domain_lines(certificate)),
        ("What it is worth", [f"{concern}." for concern in certificate.conformance.concerns]),
        ("What is claimed of declared inputs", monotonicity_lines(certificate)),
        ("What is claimed of reality", band_lines(certificate)),
        ("What it assumes", certificate.conformance.assumptions),
        ("What was checked", [recheck_line(certificate), *([] if cost is None else [cost_line(cost)])]),
        ("The trusted model", [f"{certificate.trusted_name}, source sha256 {digest}"]),
    ]
    return [(name, lines) for name, lines in facts if lines]


def _attack_lines(runs: Sequence[dict[str, Any]]) -> list[str]:
    """What the search for counter-examples found, by what each claim is worth."""
    groups = grouped([run for run in runs if run.get("attack_max_ratio") is not None])
    if not groups:
        return []
    over = {name: group for name, group in groups.items() if max(values_of(group, "attack_max_ratio")) > 1}
    levels = {name: group[0]["evidence_level"] for name, group in over.items()}
    found = [f"{name} ({level}): {BROKEN.get(level, 'A COUNTER-EXAMPLE')}." for name, level in levels.items()]
    introduction = (
        "A search over the whole domain for an input at which some weights would take the model farther from "
        "M than delta; a ratio above 1 would be one."
    )
    return [f"{introduction}{'' if over else ' None was found.'}", *found]


def _lead(results: Mapping[str, Any], certificate: Mapping[str, Any] | None) -> str:
    runs, claims = results["runs"], results.get("claims")
    if claims is None:
        return "" if certificate is None else run_lead(runs, Certificate.from_dict(certificate))
    failed = len(results.get("failed", []))
    scale = f" at scale {results['scale']}" if results.get("scale") else ""
    verdicts = [Verdict(**claim) for claim in claims]
    return f"{_held(verdicts)}; {len(runs)} runs{scale}, {failed} failed."


def _held(verdicts: Sequence[Verdict]) -> str:
    """How many claims hold, ours and others' apart: a claim of somebody else refuted is a result, too."""
    sources = sorted({verdict.source for verdict in verdicts} - {""})
    own = _count([verdict for verdict in verdicts if not verdict.source])
    if not sources:
        return f"{own} claims hold"
    others = [f"{_count([v for v in verdicts if v.source == source])} of {source}" for source in sources]
    return f"{own} claims of ours hold, and {', '.join(others)}"


def _count(verdicts: Sequence[Verdict]) -> str:
    return f"{sum(verdict.holds for verdict in verdicts)} of {len(verdicts)}"


def run_lead(runs: Sequence[Mapping[str, Any]], certificate: Certificate) -> str:
    """The one sentence that a reader of a fit takes away."""
    held = [run for run in runs if has_cells(run)]
    if not held:
        return ""
    run = held[-1]
    worst = ", ".join(f"{d.name} {d.maximum:.3g} {d.unit}".strip() for d in certificate.deltas)
    level = (
        f"within delta of the trusted model ({worst}), evidence level {certificate.evidence}"
        if certificate.certified
        else f"sampled distance to the trusted model at most {worst}: an estimate, not a guarantee"
    )
    coverage = (
        f"{100 * run['coverage_D']:.1f} % of held-out data and {100 * run['coverage_omega']:.1f} % of probes"
    )
    little = f" Of little use: {'; '.join(certificate.concerns)}." if certificate.concerns else ""
    beside = _beside_rival(runs, run)
    return f"{run_name(dict(run))}: {level}, on a domain that covers {coverage}.{beside}{little}"


_WORSE = 1.01
"""Times M's error on held-out data above which a model is worse than M."""


def _beside_rival(runs: Sequence[Mapping[str, Any]], ours: Mapping[str, Any]) -> str:
    """How accurate it is, beside the most accurate of the others."""
    best = strongest_rival(runs, ours)
    if best is None:
        return ""
    error, other = ours["approximation_loss_D"], best["approximation_loss_D"]
    rival = run_name(dict(best))
    said = f" Its squared error is {number(error)}; the strongest rival shown, {rival}, has {number(other)}."
    alone = _better_alone(runs, ours)
    return said if alone is None else f"{said} M alone has {number(alone)}: it is the better model here."


def _better_alone(runs: Sequence[Mapping[str, Any]], ours: Mapping[str, Any]) -> float | None:
    """M's own error on held-out data, where it is smaller than that of the model."""
    alone = next((run["approximation_loss_D"] for run in runs if run["method"] == "Trusted"), None)
    return alone if alone is not None and ours["approximation_loss_D"] > _WORSE * alone else None


def _beside_trusted(runs: Sequence[Mapping[str, Any]], ours: Mapping[str, Any]) -> list[Verdict]:
    """Said only where it does not hold: that M has errors is why a model is learned."""
    alone = _better_alone(runs, ours)
    if alone is None:
        return []
    measured = f"squared error {number(ours['approximation_loss_D'])} against {number(alone)}"
    return [Verdict("It is more accurate on held-out data than M alone", measured, False)]


def strongest_rival(runs: Sequence[Mapping[str, Any]], ours: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The run with the smallest error on held-out data, of free networks and those that ask M itself."""
    rivals = [run for run in runs if run["method"] != "Trusted" and run is not ours and _is_rival(run)]
    return min(rivals, key=lambda run: run["approximation_loss_D"], default=None)


def _run_verdicts(runs: Sequence[dict[str, Any]], certificate: Mapping[str, Any] | None) -> list[Verdict]:
    """What any fit can be asked: is it certified, where, did it withstand attack, is it as accurate."""
    held = [run for run in runs if has_cells(run)]
    if not held or certificate is None:
        return []
    ours = held[-1]
    covered = min(ours["coverage_D"], ours["coverage_omega"])
    # What makes a claim useless comes before its tick, for a reader in haste.
    verdicts = [
        *(
            Verdict("Its certificate is of use", concern, False)
            for concern in certificate.get("concerns", ())
        ),
        *_beside_trusted(runs, ours),
        Verdict(
            f"{run_name(ours)} stays within delta of the trusted model, for any weights",
            f"evidence level {certificate['evidence']}",
            bool(certificate["certified"]),
        ),
        Verdict(
            "Its domain covers at least 99 % of the held-out data D and of the probes Ω",
            percent(covered),
            covered >= 0.99,
        ),
        *_band_verdicts(Certificate.from_dict(certificate)),
    ]
    if ours.get("attack_max_ratio") is not None:
        worst = ours["attack_max_ratio"]
        verdicts.append(Verdict("It withstands attack", f"{ratio(worst)} of delta", worst <= 1))
    best = strongest_rival(runs, ours)
    if best is not None:
        rival = run_name(dict(best))
        error, other = ours["approximation_loss_D"], best["approximation_loss_D"]
        verdicts.append(
            Verdict(
                f"It is as accurate on held-out data, to 5 %, as the strongest rival shown, {rival}",
                f"squared error {number(error)} against {number(other)}",
                error <= 1.05 * other,
            )
        )
    return verdicts


def _is_rival(run: Mapping[str, Any]) -> bool:
    """Whether a run is of a free network, or of one that asks M itself at run time."""
    return not run.get("memories")


def _band_verdicts(certificate: Certificate) -> list[Verdict]:
    """Whether held-out rows lay in the band as often as it claims, where it claims anything."""
    band = certificate.band
    if band is None or not band.missed:
        return []
    missed, claimed = max(band.missed), 1 - band.probability
    measured = f"{percent(missed)} of held-out rows outside, at most {percent(claimed)} claimed"
    return [Verdict("Reality stays in the band as often as claimed", measured, missed <= claimed)]


def _overview(title: str, chapters: Sequence[Chapter]) -> Chapter:
    """All verdicts, and what each chapter has come to."""
    rows, sections = [], []
    for chapter in chapters:
        verdicts = [verdict for section in chapter.sections for verdict in section.verdicts]
        held = sum(verdict.holds for verdict in verdicts)
        name = chapter.title.removeprefix("Tether: ")
        rows.append((name, f"{held} of {len(verdicts)}", chapter.lead))
        sections.append(Section(name, verdicts=verdicts))
    every = [verdict for section in sections for verdict in section.verdicts]
    table = Grid("In this report", ("results", "claims that hold", "in short"), tuple(rows))
    filled = [section for section in sections if section.verdicts]
    return Chapter(title, f"{_held(every)}.", [Section("Overview", grids=[table]), *filled])
