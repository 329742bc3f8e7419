"""The command line: one verb per stage.

Exit codes: 0 done (for ``certify`` and ``verify``: and certified), 1 ran but not certified, 2 bad input.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer
from rich.console import Console

from tether import __version__
from tether.cli.claims import attack_command, certify_command, verify_command
from tether.cli.collecting import collecting
from tether.cli.learning import fit, info, predict
from tether.cli.reporting import report
from tether.cli.studying import demo, reproduce, study
from tether.cli.terminal import console
from tether.errors import CertificateError

__all__ = ["app", "main"]

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Learn dynamics models that stay within a bounded distance of a model you trust.",
)
errors = Console(stderr=True)

for verb in (demo, study, reproduce, fit, predict):
    app.command()(verb)
app.command("certify")(certify_command)
app.command("verify")(verify_command)
app.command("attack")(attack_command)
app.command()(info)
app.command()(report)
app.add_typer(collecting, name="collect")


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False) -> None:
    if version:
        console.print(__version__, highlight=False)
        raise typer.Exit


def main() -> None:
    """Runs the command line; every error the user can cause becomes one line and a code."""
    try:
        app(prog_name="tether")
    except KeyboardInterrupt:
        _fail("interrupted. Continue a fit with the same arguments and `--resume`.", 130)
    except CertificateError as error:
        _fail(str(error), 1)
    except (ValueError, TypeError) as error:
        if os.environ.get("TETHER_TRACEBACK"):
            raise
        _fail(str(error), 2)
    except OSError as error:
        place = "" if error.filename is None else f"`{error.filename}` "
        _fail(f"{place}must be readable and writable; {error.strerror or error}.", 2)


def _fail(message: str, code: int) -> None:
    errors.print(f"error: {' '.join(message.split())}", highlight=False, markup=False, soft_wrap=True)
    sys.exit(code)
