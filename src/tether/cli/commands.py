"""All verbs, put together."""

from __future__ import annotations

from typing import Annotated

import typer

from tether import __version__
from tether.cli.adapting import adapt
from tether.cli.benching import bench
from tether.cli.claims import attack_command, certify_command, verify_command
from tether.cli.exporting import export_command
from tether.cli.learning import fit, info, predict
from tether.cli.registered import Commands
from tether.cli.reporting import report
from tether.cli.terminal import say
from tether.cli.tubes import tube_command

app = typer.Typer(
    cls=Commands,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Learn dynamics models that stay within a bounded distance of a model you trust.",
)

app.command()(fit)
app.command()(predict)
app.command("certify")(certify_command)
app.command("verify")(verify_command)
app.command("attack")(attack_command)
app.command("tube")(tube_command)
app.command("export")(export_command)
app.command()(adapt)
app.command()(info)
app.command()(bench)
app.command()(report)


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False) -> None:
    if version:
        say(__version__)
        raise typer.Exit
