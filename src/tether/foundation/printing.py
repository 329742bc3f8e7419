"""Text on a terminal, as it is: names, units and messages of users are never read as markup."""

from __future__ import annotations

import re
import sys

from rich.console import Console
from rich.text import Text

_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u202a-\u202e\u2028\u2029\u2066-\u2069\ud800-\udfff]")
_LOG_WIDTH = 110


def make_console(*, stderr: bool = False) -> Console:
    """A console that takes brackets and colons for what they are."""
    # Wide where nobody watches: a table in a log should not wrap.
    watched = (sys.stderr if stderr else sys.stdout).isatty()
    width = None if watched or stderr else _LOG_WIDTH
    return Console(stderr=stderr, width=width, markup=False, emoji=False, highlight=False)


def plain(text: str, style: str = "") -> Text:
    """`text` letter by letter; what a terminal would obey, or has no letters for, is spelled out."""
    return Text(_CONTROL.sub(lambda match: f"\\x{ord(match.group()):02x}", text), style=style)


def one_line(text: str) -> str:
    """`text` with every run of white space a single blank, and nothing that a terminal would obey."""
    return plain(" ".join(text.split())).plain
