"""The site opens from a folder, without a server; of a study the repository keeps little, and nothing unused."""

import csv
import io
import json
import re
import runpy
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from test_docs import DOCS, LINK, PAGES, ROOT, prose

RESULTS = DOCS / "results"
KEEPING = ROOT / "site" / "keep_results.py"


def committed() -> list[Path]:
    """Files in docs/results that git has, or all that are there where this is no checkout."""
    listed = subprocess.run(
        ["git", "ls-files", "docs/results"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode == 0 and listed.stdout:
        return [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).exists()]
    return [path for path in RESULTS.rglob("*") if path.is_file()]


def linked() -> set[Path]:
    """Files that pages show or link to."""
    return {
        (page.parent / target.partition("#")[0]).resolve()
        for page in PAGES
        for target in LINK.findall(prose(page))
        if not re.match(r"[a-z]+:", target)
    }


def test_results_stay_small():
    sizes = {str(path.relative_to(RESULTS)): path.stat().st_size for path in committed()}
    assert sum(sizes.values()) < 1_500_000, sorted(sizes.items(), key=lambda item: -item[1])[:10]


def test_every_committed_result_is_shown_or_linked():
    unused = set(committed()) - linked() - {RESULTS / "README.md"}
    assert not unused, sorted(unused)


def test_every_picture_that_a_page_shows_is_committed():
    tracked = {path.resolve() for path in committed()}
    pictures = {path for path in linked() if path.suffix in (".png", ".gif", ".svg")}
    assert len(pictures) > 30
    missing = {
        path for path in pictures if not path.is_file() or (RESULTS in path.parents and path not in tracked)
    }
    assert not missing, sorted(missing)


def test_every_summary_has_its_command_and_its_runs():
    told = (RESULTS / "README.md").read_text()
    for summary in RESULTS.glob("*/summary.md"):
        command = re.search(r"^    (tether study .*)$", summary.read_text(), re.MULTILINE)
        assert command and f"`{command[1]}`" in told, summary
        assert not re.search(r"\.\./| /", command[1]), "a folder that no reader has"
        seeds = re.search(r"--seeds ([\d,]+)", command[1])
        rows = list(csv.DictReader((summary.parent / "runs.csv").read_text(encoding="utf-8").splitlines()))
        assert seeds and {row["seed"] for row in rows} == set(seeds[1].split(",")), summary
        assert all(float(row["approximation_loss_D"]) > 0 for row in rows), summary


def test_what_is_kept_of_a_study(browser, small_study, tmp_path):
    """The command itself, on a study with one figure."""
    study, target = tmp_path / "study", tmp_path / "kept"
    shutil.copytree(small_study, study)
    bars = "\n![bars](bars.svg)\n\n*What stands in a table, too.*\n"
    (study / "summary.md").write_text(f"# A study\n\n![drift](drift.svg)\n{bars}")
    subprocess.run([sys.executable, KEEPING, study, "--to", target], check=True, timeout=300)
    assert {path.name for path in target.iterdir()} == {"summary.md", "runs.csv", "drift.png"}
    kept = (target / "summary.md").read_text()
    assert "![drift](drift.png)" in kept and "bars" not in kept and "What stands" not in kept
    runs = json.loads((study / "results.json").read_text())["runs"]
    rows = list(csv.DictReader((target / "runs.csv").read_text(encoding="utf-8").splitlines()))
    found, meant = ([float(run["approximation_loss_D"]) for run in some] for some in (rows, runs))
    assert found == pytest.approx(meant, rel=1e-5) and "settings" not in rows[0]
    certified = [(run, row) for run, row in zip(runs, rows, strict=True) if "delta_certified" in run]
    assert certified
    for run, row in certified:
        assert float(row["delta_certified.x.max"]) == pytest.approx(
            run["delta_certified"]["x"]["max"], rel=1e-5
        )
        assert float(row["attack_max_ratio"]) == run["attack_max_ratio"], "no rounding over 1"


def test_what_was_chosen_and_where_it_stands(tmp_path):
    """Lines of one study replace those of it alone; a row of the table of results does, too."""
    pytest.importorskip("PIL.Image")
    pytest.importorskip("playwright.sync_api")
    script = runpy.run_path(str(KEEPING))
    chosen, readme = tmp_path / "chosen.csv", tmp_path / "README.md"
    chosen.write_text("study,method\npancreas,A,1\npancreas-traces,A,2\n")
    script["put_chosen"]("pancreas,B,3\n", chosen)
    assert chosen.read_text() == "study,method\npancreas-traces,A,2\npancreas,B,3\n"
    readme.write_text("| folder | tables | besides |\n|---|---|---|\n| [a](a/summary.md) | `x` |  |\n\nEnd\n")
    for name, page in (("a-b", "search.md"), ("a", "summary.md"), ("a-b", "summary.md")):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / page).write_text(f"# It\n\n    tether study {name}\n")
        script["tell"](readme, tmp_path / name)
    assert readme.read_text().splitlines()[2:] == [
        "| [a](a/summary.md) | `tether study a` |  |",
        "| [a-b](a-b/summary.md) | `tether study a-b` | [search](a-b/search.md) |",
        "",
        "End",
    ]


def test_a_reader_has_other_folders(tmp_path):
    """What is kept of a study of the authors' data names their folder alone."""
    pytest.importorskip("PIL.Image")
    pytest.importorskip("playwright.sync_api")
    script = runpy.run_path(str(KEEPING))
    asked = {"study": "pancreas", "scale": "paper", "seeds": [3], "options": {"traces": "../far/traces"},
             "part": "ablation"}  # fmt: skip
    for part in ("ours", "authors"):
        (tmp_path / part).mkdir()
        own = asked | ({"options": {}} if part == "ours" else {})
        (tmp_path / part / "study.json").write_text(json.dumps(own))
    plan, held = script["_plan_in"](tmp_path)
    assert plan.options == {"traces": "../far/traces"} and "authors/runs" in held
    assert script["_for_readers"](plan).options == {"traces": "traces"}


def test_a_palette_keeps_the_colour_of_a_thin_line():
    image = pytest.importorskip("PIL.Image")
    pytest.importorskip("playwright.sync_api")
    whole = image.linear_gradient("L").convert("RGB").resize((600, 600))
    for x in range(30):
        whole.putpixel((x, 5), (213, 94, 0))
    buffer = io.BytesIO()
    whole.save(buffer, "PNG")
    kept = image.open(io.BytesIO(runpy.run_path(str(KEEPING))["with_palette"](buffer.getvalue())))
    assert kept.mode == "P"
    seen = kept.convert("RGB").getpixel((10, 5))
    assert max(abs(a - b) for a, b in zip(seen, (213, 94, 0), strict=True)) <= 16


class _References(HTMLParser):
    """What a page links to, and what it loads."""

    def __init__(self, text: str):
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        elif tag == "form" and values.get("action"):
            self.links.append(values["action"])
        elif tag in ("script", "img", "link") and (values.get("src") or values.get("href")):
            self.loaded.append(values.get("src") or values["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "properdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert built.returncode == 0, built.stderr
    return folder


def test_pages_refer_to_files_beside_them(site):
    """Relative, and to a file rather than a folder, which no browser opens as a page from disk."""
    pages = [page for page in site.rglob("*.html") if page.name != "404.html"]  # that one is for servers
    assert len(pages) > len(PAGES) - 1
    for page in pages:
        found = _References(page.read_text(encoding="utf-8"))
        assert not [target for target in found.loaded if re.match(r"https?:|/", target)], page
        for target in (*found.links, *found.loaded):
            path = re.split("[#?]", target)[0]
            if path and not re.match(r"[a-z]+:", target):
                assert not path.startswith("/") and (page.parent / path).is_file(), f"{page.name}: {target}"


def test_search_needs_no_server(site):
    loaded = _References((site / "search.html").read_text(encoding="utf-8")).loaded
    assert loaded[-2:] == ["./search/index.js", "./js/search.js"]
    script = (site / "search" / "index.js").read_text(encoding="utf-8")
    entries = json.loads(script.removeprefix("const searchIndex = ").rstrip().removesuffix(";"))
    assert {entry["location"].partition("#")[0] for entry in entries} >= {"api.html", "guarantees.html"}
    assert all((site / entry["location"].partition("#")[0]).is_file() for entry in entries)
    asks = re.compile(r"new Worker|fetch\(|XMLHttpRequest|getScript")
    assert not asks.search((site / "js" / "search.js").read_text(encoding="utf-8"))


def test_the_site_in_a_browser_from_disk(browser, site):
    complaints: list[str] = []
    page = browser.new_page()
    page.set_default_timeout(180_000)
    page.on("console", lambda m: complaints.append(m.text) if m.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("requestfailed", lambda request: complaints.append(request.url))
    page.goto((site / "results" / "vehicle" / "summary.html").as_uri())
    assert page.evaluate("[...document.images].every(image => image.naturalWidth > 0)")
    page.fill("#rtd-search-form input", "proved <delta>")
    page.press("#rtd-search-form input", "Enter")
    page.wait_for_selector("#properdocs-search-query")
    page.wait_for_load_state()  # the script fills it in
    assert page.input_value("#properdocs-search-query") == "proved <delta>"
    assert page.inner_text("#properdocs-search-results") == "No results found"
    page.fill("#properdocs-search-query", "Certificate")
    page.locator("#properdocs-search-results a").first.click()
    page.wait_for_selector("h1")
    assert "search.html" not in page.url and page.url.startswith("file:")
    assert page.evaluate("document.getElementById(decodeURIComponent(location.hash.slice(1))) !== null")
    page.close()
    assert not complaints
