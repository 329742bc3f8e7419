"""The command line: one verb per stage.

Exit codes: 0 done (for ``certify`` and ``verify``: and certified), 1 ran but not certified, 2 bad input, 130
interrupted.
"""

from __future__ import annotations

import sys
from typing import Any

from tether.cli.starting import leave_quietly, starting

__all__ = ["main"]


def main() -> None:
    """Runs the command line; every error becomes one line and a code."""
    with starting():
        from tether.cli.running import run
    leave_quietly()
    sys.exit(run())


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tether.cli.commands import app

    return app
