"""What the repository keeps of a finished study: ``python site/keep_results.py FOLDER``.

FOLDER is what ``tether study`` or ``tether reproduce`` wrote. Into ``docs/results/NAME`` go its summary, the
figures that the summary shows (drawn from their SVG by Chromium, with a palette), and ``runs.csv``.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from PIL import Image, ImageChops
from playwright.sync_api import sync_playwright

RESULTS = Path(__file__).parent.parent / "docs" / "results"
# Too long for a table: the study's own folder has them.
_LEFT_OUT = {"certificate", "delta_D", "tether_miss_D", "history"}
_SHOWN = re.compile(r"!\[[^\]]*\]\(([\w.-]+)\.(svg|png|gif)\)")
_PIXELS_PER_UNIT = 1.2
_COLOURS = (64, 128, 256)
_UNSEEN = 16


def keep(folder: Path, target: Path) -> None:
    """Writes to `target` what is kept of the study in `folder`; they may be one."""
    summary = (folder / "summary.md").read_text(encoding="utf-8")
    runs = json.loads((folder / "results.json").read_text(encoding="utf-8"))["runs"]
    shown = _SHOWN.findall(summary)
    target.mkdir(parents=True, exist_ok=True)
    (target / "runs.csv").write_text(runs_table(runs), encoding="utf-8")
    drawings = [folder / f"{name}.svg" for name, kind in shown if kind != "gif"]
    for drawing, picture in zip(drawings, drawn(drawings), strict=True):
        (target / f"{drawing.stem}.png").write_bytes(with_palette(picture))
    for name, kind in shown:
        if kind == "gif" and folder.resolve() != target.resolve():
            shutil.copy(folder / f"{name}.gif", target)
    (target / "summary.md").write_text(summary.replace(".svg)", ".png)"), encoding="utf-8")


def runs_table(runs: Sequence[Mapping[str, Any]]) -> str:
    """One row per run, as CSV; nested numbers get a column each, `delta_certified.x.max`."""
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
            yield prefix + key, value


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
    parser.add_argument("--to", type=Path, help="instead of docs/results/NAME")
    asked = parser.parse_args()
    keep(asked.folder, asked.to or RESULTS / asked.folder.resolve().name)
