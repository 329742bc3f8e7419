"""Files of finished runs, none of which is trusted: they may have come from anywhere.

Everything is checked before it is used, drawings must be drawings, and no name leads out of the folder.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.parsers import expat

from tether.foundation.documents import read_bytes, read_json, read_json_lines, read_text, shown
from tether.foundation.errors import StorageError
from tether.report import schema

_LARGEST_PICTURE = 32 << 20
_NAME = re.compile(r"[^\W_][\w .+-]*")
_GIF = (b"GIF87a", b"GIF89a")


def finished_folders(folder: Path) -> list[Path]:
    """The folder itself, or those in it, that hold results."""
    if not folder.is_dir():
        raise ValueError(f"`{folder}` must be a folder of a finished run; there is none.")
    if (folder / "results.json").is_file():
        return [folder]
    inner = sorted(path.parent for path in folder.glob("*/results.json"))
    if not inner:
        raise ValueError(
            f"`{folder}` must hold a finished run; it has no results.json, nor has a folder in it."
        )
    return inner


def read_results(folder: Path) -> dict[str, Any]:
    """What ``results.json`` holds."""
    return read_json(folder / "results.json", schema.results, "results of Tether")


def read_certificate(path: Path) -> dict[str, Any]:
    """What ``certificate.json`` holds."""
    return read_json(path, schema.certificate, "a certificate of Tether")


def read_evaluations(path: Path) -> list[dict[str, Any]]:
    """What ``metrics.jsonl`` holds."""
    return read_json_lines(path, schema.evaluation, "metrics of Tether")


def read_explorer(folder: Path) -> dict[str, Any] | None:
    """What ``explorer.json`` holds; None where there is none, or one of another format."""
    path = folder / "explorer.json"
    if not path.is_file():
        return None
    data = read_json(path, schema.explorer, "a model of Tether to explore")
    return data if data["format"] == schema.EXPLORER_FORMAT else None


def read_drawing(folder: Path, name: str) -> str | None:
    """The SVG of that name in the folder; None where there is none."""
    path = _inside(folder, name, ".svg")
    if path is None:
        return None
    text = read_text(path, most=_LARGEST_PICTURE)
    drawing = text[text.find("<svg") :] if "<svg" in text else ""
    parser = expat.ParserCreate()
    try:
        parser.Parse(drawing, True)
    except expat.ExpatError as error:
        raise StorageError(f"`{path}` must be an SVG drawing; {error}. Get a fresh copy.") from None
    return drawing


def read_animation(folder: Path, name: str) -> bytes | None:
    """The GIF of that name in the folder; None where there is none."""
    path = _inside(folder, name, ".gif")
    if path is None:
        return None
    content = read_bytes(path, most=_LARGEST_PICTURE)
    if not content.startswith(_GIF):
        raise StorageError(f"`{path}` must be a GIF; it begins with {content[:6]!r}. Get a fresh copy.")
    return content


def _inside(folder: Path, name: str, suffix: str) -> Path | None:
    """A file of the folder itself: neither a name nor a link leads out of it."""
    if not _NAME.fullmatch(name) or ".." in name:
        raise StorageError(
            f"`{folder / 'results.json'}` must name pictures of its own folder; got {shown(name)}."
        )
    path = folder / f"{name}{suffix}"
    if not path.is_file():
        return None
    if path.resolve().parent != folder.resolve():
        raise StorageError(f"`{path}` must be a file of its own folder; it is a link to elsewhere.")
    return path
