"""The command line: one verb per stage.

Exit codes: 0 done (for ``certify`` and ``verify``: and certified), 1 ran but not certified, 2 bad input, 130
interrupted.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["main"]


def main() -> None:
    """Runs the command line; every error becomes one line and a code."""
    with _leaving_at_once():
        # Here, because it takes seconds: interrupted meanwhile, a plain import would end in a traceback.
        from tether.cli.running import run
    sys.exit(run())


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tether.cli.commands import app

    return app


@contextmanager
def _leaving_at_once() -> Iterator[None]:
    """While nothing has begun, an interruption ends the process with a line; later, Python's own way."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    # When all is done, there is nothing left to interrupt, and nothing to say about it.
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_DFL)


def _leave(number: int, frame: Any) -> None:
    del number, frame
    os.write(2, b"error: interrupted. Nothing was done.\n")
    os._exit(130)
