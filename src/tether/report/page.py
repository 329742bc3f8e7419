"""One self-contained HTML page that opens offline from disk."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from tether.report.tables import Grid

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --accent: #0072B2; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.7rem; margin-bottom: 0; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
.verdict { border-left: .3rem solid var(--accent); padding: .4rem 1rem; background: var(--soft); }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .8rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } caption { text-align: left; font-weight: 600; }
figure { margin: 1rem 0; background: #fff; border-radius: .4rem; padding: .5rem; }
figure svg { width: 100%; height: auto; } figure img { max-width: 100%; }
figcaption { color: #444; font-size: .9rem; padding: 0 .5rem; }
code, pre { font-family: ui-monospace, monospace; font-size: .85rem; } pre { overflow-x: auto; }
"""
_EMBEDDED_BYTES = 1_000_000
"""Size up to which an animation is put into the page."""


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
class Section:
    """A heading and what stands under it."""

    title: str
    paragraphs: Sequence[str] = ()
    grids: Sequence[Grid] = ()
    pictures: Sequence[Picture] = ()
    animations: Sequence[Animation] = ()


def page(
    title: str, verdict: str, sections: Sequence[Section], *, command: str, versions: dict[str, str]
) -> str:
    """The whole page as text."""
    body = "\n".join(_section(section) for section in sections)
    made_by = ", ".join(f"{name} {version}" for name, version in versions.items())
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title><style>{_STYLE}</style></head><body>
<h1>{escape(title)}</h1>
<p class="verdict">{escape(verdict)}</p>
{body}
<h2>How this was made</h2><pre>{escape(command)}</pre><p>{escape(made_by)}</p>
</body></html>
"""


def _section(section: Section) -> str:
    parts = [f"<h2>{escape(section.title)}</h2>"]
    parts += [f"<p>{escape(text)}</p>" for text in section.paragraphs]
    parts += [_table(grid) for grid in section.grids]
    parts += [
        f"<figure>{picture.svg}<figcaption>{escape(picture.caption)}</figcaption></figure>"
        for picture in section.pictures
    ]
    parts += [_animation(animation) for animation in section.animations]
    return "\n".join(parts)


def _animation(animation: Animation) -> str:
    """In the page itself, or from the file beside it where that would make the page heavy."""
    source = f"{animation.name}.gif"
    if len(animation.content) < _EMBEDDED_BYTES:
        source = f"data:image/gif;base64,{b64encode(animation.content).decode()}"
    caption = escape(animation.caption)
    return f'<figure><img src="{source}" alt="{caption}"><figcaption>{caption}</figcaption></figure>'


def _table(grid: Grid) -> str:
    head = "".join(f"<th scope=col>{escape(cell)}</th>" for cell in grid.header)
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in grid.rows
    )
    caption = f"<caption>{escape(grid.title)}</caption>"
    return (
        f"<div class=scroll><table>{caption}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )
