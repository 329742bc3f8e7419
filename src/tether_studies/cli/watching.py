"""Runs of studies while they go on: a live picture on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tether.foundation.printing import plain
from tether_studies.overview import Overview

_SECONDS_BETWEEN_LINES = 15.0


@contextmanager
def watching(console: Console) -> Iterator[Callable[[Overview], None]]:
    """Something to tell how things stand."""
    if console.is_terminal:
        with Live(console=console, refresh_per_second=4) as live:
            yield lambda overview: live.update(_picture(overview))
        return
    last = -_SECONDS_BETWEEN_LINES

    def report(overview: Overview) -> None:
        nonlocal last
        if time.monotonic() - last >= _SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            console.print(plain(_line(overview)), soft_wrap=True)

    yield report


def _picture(overview: Overview) -> Group:
    """Studies with their bars, then what runs, then how long it will take."""
    studies = Table.grid(padding=(0, 2))
    for name, (done, failed, total) in overview.studies.items():
        count = f"{done} of {total} done" + (f", {failed} failed" if failed else "")
        studies.add_row(plain(name), ProgressBar(total=total, completed=done + failed, width=32), count)
    running = Table.grid(padding=(0, 2))
    for name, share in overview.running:
        running.add_row("▸", plain(name), f"{share:.0%}")
    return Group(studies, running, Text(f"{overview.share:.0%}, {_left(overview)}", style="bold"))


def _line(overview: Overview) -> str:
    studies = ", ".join(
        f"{name} {done}/{total}" + (f" ({failed} failed)" if failed else "")
        for name, (done, failed, total) in overview.studies.items()
    )
    running = "; ".join(f"{name} {share:.0%}" for name, share in overview.running) or "nothing yet"
    return f"{overview.share:.0%} ({studies}), {_left(overview)}; running: {running}"


def _left(overview: Overview) -> str:
    if overview.seconds_left is None:
        return "time left not known yet"
    minutes, seconds = divmod(round(overview.seconds_left), 60)
    return f"{minutes} min {seconds:02d} s left" if minutes < 100 else f"{minutes / 60:.1f} h left"
