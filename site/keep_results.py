"""What the repository keeps of a finished study: ``python site/keep_results.py FOLDER``.

FOLDER is what ``tether study`` or ``tether reproduce`` wrote of one study; nothing in it is changed, nothing
is run. Into ``docs/results/NAME`` go

- of tables: the summary, written anew from the runs by the code as it is, the figures that it shows (drawn
  from their SVG by Chromium, with a palette) and ``runs.csv``;
- of a search: ``search.md``; and its lines into the package's ``chosen.csv``;
- of an ablation: ``ablation.md`` and its figure.

The table in ``docs/results/README.md`` gets the command and the links.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image, ImageChops
from playwright.sync_api import sync_playwright

if TYPE_CHECKING:
    from tether_studies.tasks import Plan

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs" / "results"
CHOSEN = ROOT / "src" / "tether_studies" / "chosen.csv"
# Too long for a table: the study's own folder has them.
_LEFT_OUT = {"certificate", "delta_D", "tether_miss_D", "band_miss_D", "history", "settings", "rmse",
             "worst_error", "gain"}  # fmt: skip
_NOT_KEPT = {"bars", "error_grid"}
"""Figures whose numbers stand in a table of the same summary."""
_DIGITS = 6
_SHOWN = re.compile(r"!\[[^\]]*\]\(([\w.-]+)\.(svg|png|gif)\)")
_PIXELS_PER_UNIT = 1.0
_COLOURS = (32, 64, 128, 256)
_UNSEEN = 24
_FILES = ("traces", "flights")
"""Options that are folders: a reader has them elsewhere."""


def keep(folder: Path, target: Path) -> None:
    """Writes to `target` what is kept of the study in `folder`; they may be one."""
    summary = _without((folder / "summary.md").read_text(encoding="utf-8"), _NOT_KEPT)
    runs = json.loads((folder / "results.json").read_text(encoding="utf-8"))["runs"]
    target.mkdir(parents=True, exist_ok=True)
    (target / "runs.csv").write_text(runs_table(runs), encoding="utf-8")
    _keep_pictures(summary, folder, target)
    (target / "summary.md").write_text(summary.replace(".svg)", ".png)"), encoding="utf-8")


def keep_anew(folder: Path, name: str, target: Path) -> None:
    """The same of runs that have all ended, with verdicts and tables by the code as it is."""
    from tether_studies.summary import study_command, write_ablation, write_search, write_summary

    plan, tried = _plan_in(folder)
    command = study_command(_for_readers(plan), Path("runs") / _folder_name(plan, name))
    with tempfile.TemporaryDirectory() as made:
        copy = Path(made) / name
        copy.mkdir()
        for held in tried:  # what is written stays out of the folder
            (copy / held).parent.mkdir(parents=True, exist_ok=True)
            (copy / held).symlink_to((folder / held).resolve())
        _check_ended(plan, copy)
        if plan.part == "ablation":
            write_ablation(plan, copy, command=command)
            _keep_page(copy, "ablation", target)
        elif plan.part == "search":
            write_search(plan, copy, command=command)
            _keep_page(copy, "search", target)
            lines = (copy / "chosen.csv").read_text(encoding="utf-8")
            if target.parent == RESULTS:
                put_chosen(lines, CHOSEN)
            print(lines, end="")
        else:
            write_summary(plan, copy, command=command, failed=[])
            keep(copy, target)
    if target.parent == RESULTS:
        tell(RESULTS / "README.md", target)


def _check_ended(plan: Plan, folder: Path) -> None:
    """Ends everything where runs are missing, or of settings that are not those of the code as it is."""
    from tether_studies.tasks import tasks_of
    from tether_studies.trying import ablation_plans

    parts = ablation_plans(plan, folder).values() if plan.part == "ablation" else [(plan, folder)]
    tasks = [task for own, where in parts for stage in tasks_of(own, where) for task in stage]
    missing = [task.name for task in tasks if not task.done]
    if missing:
        sys.exit(f"all runs must have ended, with settings as they are; missing: {', '.join(missing)}.")


def _plan_in(folder: Path) -> tuple[Plan, list[str]]:
    """What was asked for, and the folders with what came of it."""
    from tether_studies.tasks import Plan

    parts = [part for part in ("ours", "authors") if (folder / part / "study.json").is_file()]
    asked = [
        json.loads((folder / part / "study.json").read_text(encoding="utf-8")) for part in parts or ["."]
    ]
    options = {key: value for each in asked for key, value in each["options"].items()}
    first = asked[0]
    plan = Plan(first["study"], first["scale"], tuple(first["seeds"]), options, first["part"])
    kinds = ("runs", "data")
    return plan, [f"{part}/{kind}" for part in parts for kind in kinds] or list(kinds)


def _for_readers(plan: Plan) -> Plan:
    """With folders by their names alone."""
    options = {key: Path(value).name if key in _FILES else value for key, value in plan.options.items()}
    return replace(plan, options=options)


def _folder_name(plan: Plan, name: str) -> str:
    return f"paper/{name}" if plan.part == "tables" else f"{plan.part}-{name}"


def _keep_page(folder: Path, part: str, target: Path) -> None:
    """A page of its own, with its figures."""
    text = (folder / f"{part}.md").read_text(encoding="utf-8")
    target.mkdir(parents=True, exist_ok=True)
    _keep_pictures(text, folder, target)
    (target / f"{part}.md").write_text(text.replace(".svg)", ".png)"), encoding="utf-8")


def _keep_pictures(text: str, folder: Path, target: Path) -> None:
    shown = _SHOWN.findall(text)
    drawings = [folder / f"{name}.svg" for name, kind in shown if kind != "gif"]
    for drawing, picture in zip(drawings, drawn(drawings) if drawings else (), strict=True):
        (target / f"{drawing.stem}.png").write_bytes(with_palette(picture))
    for name, kind in shown:
        if kind == "gif" and folder.resolve() != target.resolve():
            shutil.copy(folder / f"{name}.gif", target)


def _without(summary: str, names: Iterable[str]) -> str:
    """The summary without some of its figures, and their captions."""
    for name in names:
        summary = re.sub(rf"\n!\[{name}\]\({name}\.\w+\)\n\n\*[^\n]*\*\n", "", summary)
    return summary


def put_chosen(lines: str, path: Path) -> None:
    """Replaces what a search of the same study had chosen before."""
    study = lines.split(",", 1)[0]
    kept = [
        line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith(f"{study},")
    ]
    path.write_text("\n".join([*kept, *lines.splitlines()]) + "\n", encoding="utf-8")


def tell(readme: Path, target: Path) -> None:
    """The row of a study in the table of results, replaced or added at its end: command and other files."""
    name, summary = target.name, target / "summary.md"
    text = summary.read_text(encoding="utf-8") if summary.is_file() else ""
    command = re.search(r"^    (tether study .*)$", text, re.MULTILINE)
    files = {"runs": "runs.csv", "search": "search.md", "ablation": "ablation.md"}
    links = [f"[{word}]({name}/{file})" for word, file in files.items() if (target / file).is_file()]
    study, made = (f"[{name}]({name}/summary.md)", f"`{command[1]}`") if command else (name, "not run yet")
    row = f"| {study} | {made} | {', '.join(links)} |"
    lines = readme.read_text(encoding="utf-8").split("\n")
    first = next(k for k, line in enumerate(lines) if line.startswith("| folder |")) + 2
    last = next(k for k in range(first, len(lines)) if not lines[k].startswith("|"))
    own = [k for k in range(first, last) if re.match(rf"\| \[?{name}[\] ]", lines[k])]
    lines[slice(own[0], own[0] + 1) if own else slice(last, last)] = [row]
    readme.write_text("\n".join(lines), encoding="utf-8")


def runs_table(runs: Sequence[Mapping[str, Any]]) -> str:
    """One row per run, as CSV; nested numbers get a column each, `delta_certified.x.max`; six digits."""
    rows = [dict(_flat(run)) for run in runs]
    columns = list(dict.fromkeys(key for row in rows for key in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _flat(entry: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in entry.items():
        if key in _LEFT_OUT:
            continue
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            # A ratio just below 1 stays below it.
            short = isinstance(value, float) and not key.startswith("attack")
            yield prefix + key, float(f"{value:.{_DIGITS}g}") if short else value


def drawn(drawings: Iterable[Path]) -> Iterator[bytes]:
    """Each SVG as a PNG of all colours, on white."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    with sync_playwright() as drive:
        browser = drive.chromium.launch(executable_path=found, args=["--no-sandbox"], timeout=180_000)
        page = browser.new_page(device_scale_factor=_PIXELS_PER_UNIT)
        for drawing in drawings:
            svg = drawing.read_text(encoding="utf-8")
            page.set_content(
                f"<style>body{{margin:0}} svg{{display:block}}</style>{svg[svg.index('<svg') :]}"
            )
            yield page.locator("svg").first.screenshot()
        browser.close()


def with_palette(picture: bytes) -> bytes:
    """The same picture in the fewest colours of `_COLOURS` that leave every pixel as it looks.

    Maximal coverage, because a palette by frequency gives a thin line the colour of another.
    """
    whole = Image.open(io.BytesIO(picture)).convert("RGB")
    for colours in _COLOURS:
        few = whole.quantize(colours, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        if _furthest(few.convert("RGB"), whole) <= _UNSEEN:
            break
    buffer = io.BytesIO()
    few.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def _furthest(picture: Image.Image, whole: Image.Image) -> int:
    """By how much, of 255, the pixel and channel that differ most do."""
    return max(high for _, high in ImageChops.difference(picture, whole).getextrema())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--name", help="of the study, where it is not the folder's, without `search-` or `-ablation`"
    )
    parser.add_argument("--to", type=Path, help="instead of docs/results/NAME")
    asked = parser.parse_args()
    called = asked.name or re.sub("^(search|ablation)-|-ablation$", "", asked.folder.resolve().name)
    place = asked.to or RESULTS / called
    # Without its runs, what a study wrote is kept as it is.
    anew = any((asked.folder / part / "study.json").is_file() for part in (".", "ours"))
    keep_anew(asked.folder, called, place) if anew else keep(asked.folder, place)
