"""Files of ours, read with suspicion: what is damaged is told in one line that names the file and the place.

A *check* takes a value and its place in a document, and raises :class:`Misfit` where the value is not of the
kind that it stands for. Checks are put together as the documents are: records of lists of numbers.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tether.foundation.errors import StorageError
from tether.foundation.limits import LARGEST_DOCUMENT

Check = Callable[[Any, str], None]
_LARGEST_WHOLE = 2**53
_DEEPEST = 32
_LONGEST = 200
"""Characters of a file's own that a message repeats."""


class Misfit(ValueError):
    """A value of another kind than its place in a document asks for."""


def shorten(text: Any) -> str:
    """What is said of a file, or stands in it, on one line that is short enough for a message."""
    line = " ".join(str(text).split()).rstrip(".")
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}..."


def such(count: int, noun: str) -> str:
    """How many there are of what a message is about."""
    return f"{count:,} such {noun}{'' if count == 1 else 's'}"


def shown(value: Any) -> str:
    """A value of a file, quoted, for a message."""
    try:
        return shorten(repr(value))
    except (ValueError, RecursionError):  # a whole number of too many digits, lists nested too deeply
        return f"a {type(value).__name__} too large to show"


def require_file(path: Path) -> None:
    """Raises unless there is a plain file: a pipe or a device may never end."""
    if path.is_file():
        return
    found = (
        "there is none" if not path.exists() else "it is a folder" if path.is_dir() else "it is no plain one"
    )
    raise StorageError(f"`{path}` must be a file; {found}. Check the path.")


def require_folder(path: Path) -> None:
    """Raises unless a file could be made there."""
    if not path.parent.is_dir():
        raise StorageError(f"`{path}` must be in a folder; there is no `{path.parent}`. Make it first.")


def model_file(path: Path) -> Path:
    """The file itself, or that of a finished run's folder."""
    if not path.is_dir():
        return path
    if (path / "checkpoints").is_dir():
        raise ValueError(f"`{path}` must be a finished run; this one is not. Continue it with `--resume`.")
    return path / "model.safetensors"


def read_bytes(path: Path, *, most: int = LARGEST_DOCUMENT) -> bytes:
    """The contents of a file of at most so many bytes."""
    try:
        require_file(path)
        size = path.stat().st_size
        if size > most:
            raise StorageError(f"`{path}` must have at most {most:,} bytes; got {size:,}.")
        return path.read_bytes()
    except OSError as error:
        raise StorageError(f"`{path}` must be readable; {error.strerror or error}.") from None


def read_text(path: Path, *, most: int = LARGEST_DOCUMENT) -> str:
    """The text of a file in UTF-8."""
    try:
        return read_bytes(path, most=most).decode("utf-8")
    except UnicodeDecodeError as error:
        raise StorageError(f"`{path}` must be text in UTF-8; {error}. Get a fresh copy.") from None


def read_json(path: Path, check: Check, what: str = "JSON written by Tether") -> Any:
    """A document, every part of which is what `check` says."""
    return parse(read_text(path), check, path, what)


def read_json_lines(path: Path, check: Check, what: str = "JSON lines written by Tether") -> list[Any]:
    """One value per line."""
    lines = read_text(path).splitlines()
    return [parse(line, check, path, what, f"line {k}") for k, line in enumerate(lines, 1) if line.strip()]


def parse(text: str | bytes, check: Check, path: Path, what: str, place: str = "") -> Any:
    """A value from JSON text that came out of a file."""
    try:
        value = load_json(text)
    except ValueError as error:
        where = f" at {place}" if place else ""
        raise StorageError(
            f"`{path}` must be {what}; it cannot be read{where} ({shorten(error)}). It may be damaged."
        ) from None
    checked(value, check, path, what, place)
    return value


def checked(value: Any, check: Check, path: Path, what: str, place: str = "") -> None:
    """Raises, naming file and place, unless a value is what `check` says."""
    try:
        check(value, place)
    except Misfit as error:
        raise StorageError(f"`{path}` must be {what}; {shorten(error)}. Get a fresh copy.") from None


def load_json(text: str | bytes) -> Any:
    """JSON as the standard has it: no NaN, no infinity; ValueError for whatever is wrong with it."""
    try:
        return json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


# --- what values may be


def text(value: Any, place: str) -> None:
    """A text."""
    _require(isinstance(value, str), "a text", value, place)


def flag(value: Any, place: str) -> None:
    """True or false."""
    _require(isinstance(value, bool), "true or false", value, place)


def number(value: Any, place: str) -> None:
    """A finite number."""
    fits = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
    _require(fits, "a finite number", value, place)


def at_least_zero(value: Any, place: str) -> None:
    """A finite number of at least 0."""
    number(value, place)
    _require(value >= 0, "at least 0", value, place)


def share(value: Any, place: str) -> None:
    """A number from 0 to 1."""
    number(value, place)
    _require(0 <= value <= 1, "from 0 to 1", value, place)


def whole(least: int = 0, most: int = _LARGEST_WHOLE) -> Check:
    """A whole number."""

    def check(value: Any, place: str) -> None:
        fits = isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
        _require(fits, f"a whole number from {least} to {most}", value, place)

    return check


def one_of(*words: str) -> Check:
    """One of some words."""
    return lambda value, place: _require(
        isinstance(value, str) and value in words, f"one of {', '.join(map(repr, words))}", value, place
    )


def maybe(check: Check) -> Check:
    """Null, or what `check` says."""
    return lambda value, place: None if value is None else check(value, place)


def items(check: Check, *, count: int | None = None) -> Check:
    """A list of such values, so many of them where that is known."""

    def check_items(value: Any, place: str) -> None:
        _require(isinstance(value, list), "a list", value, place)
        if count is not None:
            _require(len(value) == count, f"a list of {count}", value, place)
        for k, item in enumerate(value):
            check(item, f"{place}[{k}]")

    return check_items


def mapping(check: Check) -> Check:
    """Such values by name."""

    def check_mapping(value: Any, place: str) -> None:
        _require(isinstance(value, dict), "a table", value, place)
        for name, item in value.items():
            check(item, _inside(place, name))

    return check_mapping


def record(required: Mapping[str, Check], optional: Mapping[str, Check] | None = None) -> Check:
    """A table with these fields; others may stand beside them if they are plain."""
    known = {**required, **(optional or {})}

    def check_record(value: Any, place: str) -> None:
        _require(isinstance(value, dict), "a table", value, place)
        for name in required:
            if name not in value:
                raise Misfit(f"`{_inside(place, name)}` is missing")
        for name, item in value.items():
            known.get(name, plain)(item, _inside(place, name))

    return check_record


def plain(value: Any, place: str, depth: int = 0) -> None:
    """Any JSON of finite numbers that is not nested without end."""
    _require(depth < _DEEPEST, f"nested at most {_DEEPEST} deep", "more", place)
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            plain(item, place, depth + 1)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        number(value, place)


def _inside(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _require(holds: bool, rule: str, value: Any, place: str) -> None:
    if not holds:
        shown = f"{value!r:.60}" if not isinstance(value, int) or abs(value) < 10**30 else "a huge number"
        raise Misfit(f"`{place or 'it'}` must be {rule}; got {shown if len(shown) < 60 else shown + '...'}")
