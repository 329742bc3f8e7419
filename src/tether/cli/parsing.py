"""What the texts of options mean."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tether.foundation.documents import shorten

if TYPE_CHECKING:
    from tether.data import Box, Jitter, Probes, Transitions


def names(text: str) -> list[str]:
    """Parts between commas; one that begins with a double quote goes on to the next, as in CSV."""
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), skipinitialspace=True))
    except csv.Error as error:
        raise ValueError(f"names must be comma separated; got '{shorten(text)}' ({error}).") from None
    return [name.strip() for row in rows for name in row if name.strip()]


def integers(option: str, text: str) -> list[int]:
    """Whole numbers between commas."""
    try:
        return [int(part) for part in names(text)]
    except ValueError:
        raise ValueError(
            f"`--{option}` must be whole numbers, comma separated; got '{shorten(text)}'."
        ) from None


def device_named(name: str) -> str:
    """The name, if torch can use the device."""
    from tether.learning.config import check_device

    check_device("--device", name)
    return name


def pairs(option: str, text: str) -> dict[str, str]:
    """name=value between commas; of several `=` the last counts, so that names may hold others."""
    parts = [part.rpartition("=") for part in names(text)]
    found = {name.strip(): value.strip() for name, _, value in parts}
    if not all(found) or not all(found.values()):
        raise ValueError(f"`--{option}` must be name=value, comma separated; got '{shorten(text)}'.")
    if len(found) < len(parts):
        raise ValueError(f"`--{option}` must give each name once; got '{shorten(text)}'.")
    return found


def counts(option: str, texts: Sequence[str]) -> dict[str, int]:
    """Whole numbers by name: name=count between commas, or one after another."""
    found: dict[str, int] = {}
    for text in texts:
        for name, count in pairs(option, text).items():
            if name in found:
                raise ValueError(f"`--{option}` must give each name once; got '{shorten(name)}' twice.")
            found |= {name: integers(option, count)[0]}
    return found


def rows_or_time(text: str) -> int | str | None:
    """A number of rows, or a time like 10s, which is understood later; None where nothing was typed."""
    try:
        return int(text) if text else None
    except ValueError:
        return text


def box(option: str, text: str) -> Box:
    """Limits by name: name=low:high or name=value between commas."""
    limited: dict[str, float | tuple[float, float]] = {}
    for name, limits in pairs(option, text).items():
        try:
            numbers = [float(part) for part in limits.split(":")]
        except ValueError:
            numbers = []
        if len(numbers) not in (1, 2):
            raise ValueError(
                f"`--{option}` must be name=low:high or name=value; got '{shorten(f'{name}={limits}')}'."
            )
        limited[name] = numbers[0] if len(numbers) == 1 else (numbers[0], numbers[1])
    return limited


def budget(text: str) -> float | dict[str, float] | None:
    """Delta to stay within: one number or name=number between commas."""
    if not text:
        return None
    try:
        if "=" not in text:
            return float(text)
        return {name: float(value) for name, value in pairs("delta", text).items()}
    except ValueError:
        raise ValueError(
            f"`--delta` must be a number, or name=number, comma separated; got '{shorten(text)}'."
        ) from None


def inputs_over(text: str) -> Any:
    """What a statistical claim is over: data, box, limits by name, a function; None where none was typed."""
    from tether.trusted.loading import load_trusted

    if text in ("", "data", "box"):
        return text or None
    if "=" in text:
        return box("over", text)
    with _calling({"`trusted`": "`--over`"}):
        return load_trusted(text).function


def probes_asked(spec: str, count: int | None, transitions: Transitions, seed: int) -> Probes | Jitter:
    """Probes of a file, a box or jitter=SPREAD."""
    from tether.data import Jitter, Probes, check_probes
    from tether.data.files import read_probes

    if Path(spec).suffix.lower() in (".csv", ".npz", ".parquet"):
        return read_probes(Path(spec), transitions.schema)
    limited = box("probes", spec)
    if not limited:
        raise ValueError(f"`--probes` must be a file, a box or jitter=SPREAD; got '{shorten(spec)}'.")
    with _calling(_PROBES):
        if count is not None:
            check_probes(count, transitions.schema)
        if set(limited) == {"jitter"} and isinstance(limited["jitter"], float):
            return Jitter(limited["jitter"], count)
        rows = len(transitions) if count is None else count
        return Probes.from_box(limited, count=rows, like=transitions, seed=seed)


_PROBES = {"`box`": "`--probes`", "`spread`": "`--probes` jitter", "`count`": "`--probe-count`"}
"""What the library calls them, and what was typed."""


@contextmanager
def _calling(options: Mapping[str, str]) -> Iterator[None]:
    """Complaints about an argument of the library begin with the option that it came from."""
    try:
        yield
    except (ValueError, TypeError) as error:
        message = str(error)
        name = next((name for name in options if message.startswith(name)), "")
        raise type(error)(options.get(name, "") + message.removeprefix(name)) from None
