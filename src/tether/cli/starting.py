"""Commands may be interrupted: while they start, which takes seconds, and while they run."""

from __future__ import annotations

import atexit
import os
import signal
import sys
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


class Interruption:
    """What Ctrl-C sets off: an interruption, and again each second until it is heard.

    Compiled code swallows one now and then, where it calls back; nothing is said of it: there is another.
    """

    def __init__(self) -> None:
        self.asked = False

    def __call__(self, number: int, frame: Any) -> None:
        """As Python calls it."""
        del number, frame
        self.asked = True
        if hasattr(signal, "setitimer"):
            signal.signal(signal.SIGALRM, self)
            signal.setitimer(signal.ITIMER_REAL, 1.0)
        raise KeyboardInterrupt

    def heard(self) -> None:
        """No more of them."""
        if threading.current_thread() is threading.main_thread():
            if hasattr(signal, "setitimer"):
                signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """While a command runs."""
    interruption = Interruption()
    if threading.current_thread() is not threading.main_thread():
        yield interruption
        return
    before, telling = signal.signal(signal.SIGINT, interruption), sys.unraisablehook
    sys.unraisablehook = lambda told: None if told.exc_type is KeyboardInterrupt else telling(told)
    try:
        yield interruption
    finally:
        sys.unraisablehook = telling
        if not interruption.asked:
            signal.signal(signal.SIGINT, before)


def leave_quietly() -> None:
    """When all is done, there is nothing left to interrupt, and nothing to say about it."""
    if threading.current_thread() is threading.main_thread():
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_DFL)


def _leave(number: int, frame: Any) -> None:
    del number, frame
    os.write(2, b"error: interrupted. Nothing was done.\n")
    os._exit(130)
