"""One self-contained HTML page that opens offline from disk, with charts, tables and a model to explore."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from html import escape
from importlib.resources import files
from itertools import count
from typing import Any

from tether.report.tables import Grid

_EMBEDDED_BYTES = 1_000_000
"""Size up to which an animation is put into the page."""
# In JSON, so that no data can end the element it stands in, or begin another.
_UNSAFE = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}


@dataclass(frozen=True)
class Picture:
    """An SVG figure and what it shows; one with a name is also kept as a file of that name."""

    svg: str
    caption: str
    name: str = ""


@dataclass(frozen=True)
class Animation:
    """A GIF and what it shows; it is also kept as a file of its name."""

    content: bytes
    caption: str
    name: str


@dataclass(frozen=True)
class Verdict:
    """What was said, what was measured, whether it holds, and who said it where that was somebody else."""

    said: str
    measured: str
    holds: bool
    source: str = ""


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it, in this order.

    Attributes:
        title: the heading.
        verdicts: shown as a table with marks.
        paragraphs: plain text.
        facts: a term and sentences about it.
        grids: tables that a click on a heading sorts.
        folded: tables that are shown on demand.
        curves: from :func:`tether.report.curves.curves_data`.
        pictures: static figures.
        animations: moving ones.
        explorer: from :func:`tether.report.explorer.explorer_data`.
    """

    title: str
    paragraphs: Sequence[str] = ()
    grids: Sequence[Grid] = ()
    pictures: Sequence[Picture] = ()
    animations: Sequence[Animation] = ()
    verdicts: Sequence[Verdict] = ()
    facts: Sequence[tuple[str, Sequence[str]]] = ()
    folded: Sequence[Grid] = ()
    curves: Mapping[str, Any] | None = None
    explorer: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Chapter:
    """Results of one run or of several: their sections, and how it was made."""

    title: str
    lead: str
    sections: Sequence[Section]
    command: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)


def page(
    title: str, verdict: str, sections: Sequence[Section], *, command: str, versions: dict[str, str]
) -> str:
    """A page of one chapter, as text."""
    return book(title, [Chapter(title, verdict, sections, command, versions)])


def book(title: str, chapters: Sequence[Chapter]) -> str:
    """The whole page as text; several chapters have a table of contents of their own."""
    numbers = count()
    body = "\n".join(_chapter(chapter, number, numbers) for number, chapter in enumerate(chapters))
    styles = _own("vendor/uPlot.min.css") + _own("report.css")
    scripts = (_own("vendor/uPlot.iife.min.js"), _own("report.js"))
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_policy(scripts, styles)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title><style>{styles}</style></head><body>
<header class="bar"><nav aria-label="Contents">{_contents(chapters)}</nav>
<button type="button" id="theme" aria-label="Dark or light" title="Dark or light">◐</button></header>
<main>
{body}
</main>
<noscript><p class="note">Charts, sorting and the explorer need JavaScript; everything else is here
without it, and curves are also kept as <code>curves.svg</code>.</p></noscript>
{"".join(f"<script>{script}</script>" for script in scripts)}
</body></html>
"""


def _policy(scripts: Sequence[str], styles: str) -> str:
    """Our own scripts and styles, known by their digests, and pictures in the page: nothing else."""
    allowed = " ".join(map(_digest, scripts))
    return (
        f"default-src 'none'; script-src {allowed}; style-src {_digest(styles)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _own(name: str) -> str:
    return files("tether.report").joinpath(name).read_text(encoding="utf-8")


def _contents(chapters: Sequence[Chapter]) -> str:
    """Links to chapters, or to the sections of a single one."""
    titles = (
        {f"c{k}": chapter.title for k, chapter in enumerate(chapters)}
        if len(chapters) > 1
        else {_anchor(0, k): section.title for k, section in enumerate(chapters[0].sections)}
    )
    return "".join(f'<a href="#{anchor}">{escape(_short(title))}</a>' for anchor, title in titles.items())


def _short(title: str) -> str:
    """A title up to its first comma or colon."""
    return re.split(r"[,:]\s", title.removeprefix("Tether: "))[0]


def _anchor(chapter: int, section: int) -> str:
    return f"c{chapter}-s{section}"


def _chapter(chapter: Chapter, number: int, numbers: Iterator[int]) -> str:
    level = "h1" if number == 0 else 'h1 class="next"'
    parts = [f"<{level}>{escape(chapter.title)}</h1>"]
    if chapter.lead:
        parts.append(f'<p class="lead">{_prose(chapter.lead)}</p>')
    for k, section in enumerate(chapter.sections):
        parts.append(f'<section id="{_anchor(number, k)}">{_section(section, numbers)}</section>')
    if chapter.command:
        made_by = ", ".join(f"{name} {version}" for name, version in chapter.versions.items())
        parts.append(
            f"<section><h2>How this was made</h2><pre><code>{escape(chapter.command)}</code></pre>"
            f"<p>{escape(made_by)}</p></section>"
        )
    return f'<article id="c{number}">' + "\n".join(parts) + "</article>"


def _section(section: Section, numbers: Iterator[int]) -> str:
    parts = [f"<h2>{escape(section.title)}</h2>"]
    if section.verdicts:
        parts.append(_verdicts(section.verdicts))
    parts += [f"<p>{_prose(text)}</p>" for text in section.paragraphs]
    if section.facts:
        parts.append(_facts(section.facts))
    for grid in section.grids:
        parts += [f'<p class="caption">{escape(grid.title)}</p>', _table(grid)]
    parts += [
        f"<details><summary>{escape(grid.title)}</summary>{_table(grid)}</details>" for grid in section.folded
    ]
    if section.curves:
        parts.append(_interactive("curves", section.curves, next(numbers)))
    parts += [_picture(picture) for picture in section.pictures]
    parts += [_animation(animation) for animation in section.animations]
    if section.explorer:
        parts.append(_interactive("explorer", section.explorer, next(numbers)))
    return "\n".join(parts)


def _prose(text: str) -> str:
    """Escaped, with what stands between backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _interactive(kind: str, data: Mapping[str, Any], number: int) -> str:
    """A place that the page's script fills from data beside it."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False).translate(_UNSAFE)
    return f'<div class="{kind}"></div><script type="application/json" id="{kind}-{number}">{text}</script>'


def _verdicts(verdicts: Sequence[Verdict]) -> str:
    rows = "".join(
        f'<tr class="{"holds" if v.holds else "fails"}"><td><span class="mark">'
        f"{'✓ holds' if v.holds else '✗ does not hold'}</span></td>"
        f"<td>{_prose(v.said)}</td><td>{_prose(v.measured)}</td></tr>"
        for v in verdicts
    )
    head = "<th scope=col>verdict</th><th scope=col>said</th><th scope=col>measured</th>"
    return f'<table class="verdicts"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'


def _facts(facts: Sequence[tuple[str, Sequence[str]]]) -> str:
    rows = "".join(
        f"<dt>{escape(term)}</dt>" + "".join(f"<dd>{_prose(text)}</dd>" for text in texts)
        for term, texts in facts
    )
    return f"<dl>{rows}</dl>"


def _picture(picture: Picture) -> str:
    """As an image: what stands in it is drawn, never run, whoever wrote it."""
    return _figure("image/svg+xml", compact_svg(picture.svg).encode(), escape(picture.caption))


def _figure(kind: str, content: bytes, caption: str) -> str:
    source = f"data:{kind};base64,{b64encode(content).decode()}"
    return f'<figure><img src="{source}" alt="{caption}"><figcaption>{caption}</figcaption></figure>'


def _animation(animation: Animation) -> str:
    """In the page itself, or only named where that would make the page heavy."""
    caption = escape(animation.caption)
    if len(animation.content) > _EMBEDDED_BYTES:
        name = f"<code>{escape(animation.name)}.gif</code>"
        return f"<p class='note'>{caption} An animation, in the file {name} beside the results.</p>"
    return _figure("image/gif", animation.content, caption)


def _table(grid: Grid) -> str:
    head = "".join(f"<th scope=col>{escape(cell)}</th>" for cell in grid.header)
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in grid.rows
    )
    label = f'aria-label="{escape(grid.title)}"'
    return (
        f'<div class="scroll"><table class="sortable" {label}><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def compact_svg(svg: str) -> str:
    """The same drawing in fewer characters: hundredths of a pixel, and no names that nobody refers to."""
    used = set(re.findall(r"#([\w.-]+)", svg))
    svg = re.sub(r' id="([^"]*)"', lambda m: m.group(0) if m.group(1) in used else "", svg)
    svg = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r' (?:d|x|y|points)="[^"]*"', _with_short_numbers, svg)
    return re.sub(r"\s*\n\s*", "\n", svg)


def _with_short_numbers(attribute: re.Match[str]) -> str:
    return re.sub(r"-?\d+\.\d{3,}(?![\de])", lambda m: f"{float(m.group(0)):.2f}", attribute.group(0))
