"""Which files are meant: names, patterns, folders, several of them; data frames pass through."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tether.data.files import READABLE
from tether.foundation.documents import shorten

MOST_FILES = 100_000


def find_sources(source: Any) -> list[Any]:
    """Files and data frames, in the order given; those of a folder or a pattern by name."""
    given = list(source) if isinstance(source, Sequence) and not isinstance(source, str) else [source]
    found = [each for one in given for each in _find(one)]
    if not found:
        raise ValueError("`data` must name at least one file; got none.")
    files = [each for each in found if isinstance(each, Path)]
    seen: set[Path] = set()
    for file in files:
        place = file.resolve()
        if place in seen:
            raise ValueError(
                f"`data` must name each file once; got '{file}' twice, and a row must not be in training and "
                "test data. Leave one out."
            )
        seen.add(place)
    if len(found) > MOST_FILES:
        raise ValueError(f"`data` must name at most {MOST_FILES:,} files; got {len(found):,}.")
    return found


def describe_sources(source: Any) -> str:
    """What was asked for, in a few words."""
    given = list(source) if isinstance(source, Sequence) and not isinstance(source, str) else [source]
    first = Path(given[0]).name if isinstance(given[0], str | Path) else type(given[0]).__name__
    return first if len(given) == 1 else f"{first} and {len(given) - 1} more"


def _find(one: Any) -> list[Any]:
    if not isinstance(one, str | Path):
        return [one]
    if not str(one):
        raise ValueError("`data` must name a file, a folder or a pattern; got an empty text.")
    path = Path(one)
    if path.is_dir():
        return _in_folder(path)
    # A name that exists is meant literally, brackets and all.
    if path.exists() or not glob.has_magic(str(one)):
        return [path]
    matches = sorted(map(Path, glob.glob(str(one), recursive=True)))
    found = [file for match in matches for file in (_tables(match) if match.is_dir() else [match])]
    if not found:
        raise ValueError(f"`{shorten(one)}` must match at least one file; it matches none. Check the path.")
    return list(dict.fromkeys(found))


def _in_folder(folder: Path) -> list[Path]:
    found = _tables(folder)
    if not found:
        raise ValueError(
            f"`{folder}` must hold files to read ({', '.join(READABLE)}); it holds none. Check the path."
        )
    return found


def _tables(folder: Path) -> list[Path]:
    """What can be read directly in a folder, by name."""
    files = (file for file in folder.iterdir() if file.is_file() and not file.name.startswith("."))
    return sorted(file for file in files if file.suffix.lower() in READABLE)
