"""Progress of long steps: a bar on a terminal, plain lines elsewhere, nothing where nobody looks."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tether.foundation.printing import make_console, plain

Report = Callable[[int, int], None]
"""Told (done, total) as work goes on."""


Reporter = Callable[[str], AbstractContextManager[Report]]
"""Opens one progress display per named step."""


@contextmanager
def silent(title: str) -> Iterator[Report]:
    """Reports nothing."""
    del title
    yield lambda done, total: None


def watched() -> Reporter:
    """What a library call shows: bars on a terminal, lines in a notebook, nothing where nobody looks.

    On standard error, so that what a script prints stays its own.
    """
    if "ipykernel" not in sys.modules and not sys.stderr.isatty():
        return silent
    return console_reporter(make_console(stderr=True))


def console_reporter(console: Console) -> Reporter:
    """Bars where `console` is a terminal, a line every few seconds where it is not."""

    @contextmanager
    def bar(title: str) -> Iterator[Report]:
        columns = [
            # A method's or a file's name may hold brackets.
            TextColumn("{task.description:<28}", markup=False),
            BarColumn(bar_width=32),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        ]
        with Progress(*columns, console=console) as progress:
            task = progress.add_task(title, total=None)
            yield lambda done, total: progress.update(task, completed=done, total=total)

    @contextmanager
    def lines(title: str) -> Iterator[Report]:
        start = last = time.monotonic()

        def report(done: int, total: int) -> None:
            nonlocal last
            if time.monotonic() - last > 5:
                last = time.monotonic()
                console.print(plain(f"{title}: {done}/{total}"))

        yield report
        console.print(plain(f"{title}: done in {time.monotonic() - start:.1f} s"))

    return bar if console.is_terminal else lines
