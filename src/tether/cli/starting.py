"""While a command starts: what it needs takes seconds to import, and may be interrupted meanwhile."""

from __future__ import annotations

import atexit
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def starting() -> Iterator[None]:
    """While nothing has begun, an interruption ends the process with a line; later, Python's own way.

    Verbs import what they need inside this: interrupted in a plain import, compiled packages end in
    tracebacks, or in errors of their own.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def leave_quietly() -> None:
    """When all is done, there is nothing left to interrupt, and nothing to say about it."""
    if threading.current_thread() is threading.main_thread():
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_DFL)


def _leave(number: int, frame: Any) -> None:
    del number, frame
    os.write(2, b"error: interrupted. Nothing was done.\n")
    os._exit(130)
