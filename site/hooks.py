"""What building the site adds to the pages: navigation by folder, mathematics, options of verbs, search."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from properdocs.plugins import event_priority
from typer.main import get_command
from typer.testing import CliRunner

_VERB = re.compile(r"^#{2,3} tether (\w+)$.*?(?=^#|\Z)", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r'<span class="arithmatex">\\\((.*?)\\\)</span>', re.DOTALL)
_DISPLAY = re.compile(r'<div class="arithmatex">\s*\\\[(.*?)\\\]\s*</div>', re.DOTALL)
_ROLE = re.compile(r":(?:func|class|meth|data|attr):(?=<code>)")


def on_config(config: Any) -> Any:
    """Entries of the navigation that hold a `*` become all pages of that pattern."""
    docs = Path(config.docs_dir)
    for entry in config.nav:
        ((title, place),) = entry.items()
        if "*" in place:
            entry[title] = [str(page.relative_to(docs)) for page in sorted(docs.glob(place))]
    return config


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Puts what `tether VERB --help` says under every verb of the command-line page."""
    if page.file.src_uri != "command-line.md":
        return markdown
    return _VERB.sub(lambda section: section[0] + _help(section[1]), markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Mathematics as MathML, which browsers show without a script; roles of docstrings go."""
    html = _INLINE.sub(lambda found: convert(unescape(found[1])), html)
    html = _DISPLAY.sub(lambda found: convert(unescape(found[1]), display="block"), html)
    return _ROLE.sub("", html)


@event_priority(-100)  # after the plugin that writes the index
def on_post_build(config: Any) -> None:
    """The index of the search as a script, which a page may load without a server; it replaces the JSON."""
    index = Path(config.site_dir) / "search" / "search_index.json"
    entries = json.loads(index.read_text(encoding="utf-8"))["docs"]
    script = f"const searchIndex = {json.dumps(entries, ensure_ascii=False)};\n"
    index.with_name("index.js").write_text(script, encoding="utf-8")
    index.unlink()


def _help(*verbs: str) -> str:
    """What the command line says of a verb, and of those below it, as code blocks."""
    from tether.cli import app

    group: Any = get_command(app)
    for verb in verbs:
        group = group.get_command(None, verb)
        if group is None:  # not in this version
            return ""
    words = " ".join(verbs)
    said = CliRunner().invoke(app, [*verbs, "--help"], prog_name="tether", env={"COLUMNS": "100"})
    text = f"```text\n$ tether {words} --help\n{said.output.strip()}\n```\n\n"
    inner = group.list_commands(None) if hasattr(group, "list_commands") else []
    return text + "".join(_help(*verbs, name) for name in inner)
