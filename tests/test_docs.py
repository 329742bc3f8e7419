"""What the documentation shows runs, what it links to exists, and nothing public is left out of it."""

import linecache
import re
import shlex
from pathlib import Path

import pytest
from latex2mathml.converter import convert
from markdown.extensions.toc import slugify
from typer.main import get_command
from typer.testing import CliRunner

import tether
from tether.cli import app

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
# A study that runs inside docs/results leaves more behind than its summary.
PAGES = [
    ROOT / "README.md",
    *DOCS.glob("*.md"),
    *DOCS.glob("studies/*.md"),
    DOCS / "results" / "README.md",
    *(page for name in ("summary", "search", "ablation") for page in DOCS.glob(f"results/*/{name}.md")),
]
FENCE = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
MATHEMATICS = re.compile(r"\$\$(.*?)\$\$|\$([^$\n]+)\$", re.DOTALL)


# What a page trains for a thousand steps is tried with a hundred.
FEWER_STEPS = re.compile(r"(steps[= ])1000\b")


def name_of(page):
    return str(page.relative_to(ROOT))


def prose(page):
    """The page without its code, in which brackets and dollars mean other things."""
    text = FENCE.sub("", page.read_text())
    text = re.sub(r"^( {4}|\t).*$", "", text, flags=re.MULTILINE)
    return re.sub(r"(`+)[^`].*?\1", "", text, flags=re.DOTALL)


def anchors(page):
    titles = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    return {slugify(title.replace("`", ""), "-") for title in titles}


def runnable(page):
    return [block for block in FENCE.findall(page.read_text()) if block[0] in ("python", "console")]


def commands(text):
    """The lines of a console block that begin with `$ `, continued lines joined."""
    lines = text.replace("\\\n", " ").splitlines()
    return [shlex.split(line.removeprefix("$ ")) for line in lines if line.startswith("$ ")]


# The README's example is run by test_readme.py, which also looks at what it gives.
@pytest.mark.parametrize("page", [p for p in PAGES[1:] if runnable(p)], ids=name_of)
def test_what_a_page_shows_runs_in_its_order(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace: dict = {}
    for language, info, shown in runnable(page):
        text = FEWER_STEPS.sub(r"\g<1>100", shown)
        title = re.search(r'title="([^"]+)"', info)
        if title:
            Path(title[1]).write_text(text)
        elif language == "python":
            linecache.cache[name_of(page)] = len(text), None, text.splitlines(keepends=True), name_of(page)
            exec(compile(text, name_of(page), "exec"), namespace)
        else:
            for words in commands(text):
                assert words[0] == "tether", words
                result = CliRunner().invoke(app, words[1:])
                assert result.exit_code == 0, (words, result.output, result.exception)


def test_bring_your_own_system_shows_every_stage():
    shown = [words[1] for _, _, text in runnable(DOCS / "your-own-system.md") for words in commands(text)]
    assert [verb for verb in shown if verb != "info"] == ["fit", "certify", "verify", "attack", "predict"]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_internal_links_lead_somewhere(page):
    for target in LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        place = (page.parent / path).resolve() if path else page
        assert place.exists(), f"{name_of(page)}: {target}"
        assert not anchor or anchor in anchors(place), f"{name_of(page)}: {target}"


def test_every_verb_is_documented():
    verbs = set(get_command(app).list_commands(None))
    text = (DOCS / "command-line.md").read_text()
    sections = set(re.findall(r"^##+ tether (\w+)$", text, re.MULTILINE))
    assert verbs, "the command line has verbs"
    assert verbs <= sections, f"docs/command-line.md has no `## tether {', '.join(sorted(verbs - sections))}`"


def test_every_public_name_is_in_the_api_page():
    shown = re.findall(r"^::: tether\.(?:\w+\.)*(\w+)$", (DOCS / "api.md").read_text(), re.MULTILINE)
    assert set(tether.__all__) <= set(shown), sorted(set(tether.__all__) - set(shown))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_mathematics_becomes_mathml(page):
    for display, inline in MATHEMATICS.findall(prose(page)):
        shown = convert(display or inline)
        assert "\\" not in shown, f"{name_of(page)}: not understood in {display or inline}"


def test_the_site_has_every_page():
    listed = re.findall(r"^ +- [^:\n]+: (\S+)$", (ROOT / "properdocs.yml").read_text(), re.MULTILINE)
    pages = {page for pattern in listed for page in DOCS.glob(pattern)}
    assert pages == set(PAGES[1:])


@pytest.mark.parametrize("page", ["how-it-works", "guarantees", "differences", "dependencies", "benchmarks"])
def test_code_that_a_page_names_is_there(page):
    ours = [
        f"/{path.relative_to(ROOT)}"
        for top in ("src", "tests", "benchmarks", "examples")
        for path in (ROOT / top).rglob("*.py")
    ]
    for name in re.findall(r"`([\w/]+\.py)`", (DOCS / f"{page}.md").read_text()):
        assert any(path.endswith(f"/{name}") for path in ours), name
