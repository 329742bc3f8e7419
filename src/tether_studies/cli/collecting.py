"""The verb that records data from simulators: collect."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tether.cli.starting import starting
from tether.cli.terminal import console, say
from tether.foundation.progress import console_reporter

collecting = typer.Typer(no_args_is_help=True, help="Record transitions from a simulator.")


@collecting.callback()
def _collect() -> None:
    """A group, though it has one simulator so far."""


@collecting.command()
def carla(
    out: Annotated[Path, typer.Option(help="New folder for the episodes.")],
    host: Annotated[str, typer.Option(help="Of the CARLA server.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Of the CARLA server.")] = 2000,
    town: Annotated[str | None, typer.Option(help="Map to load; by default the one that is.")] = None,
    minutes: Annotated[float, typer.Option(help="Simulated time to record.")] = 30.0,
    seed: Annotated[int, typer.Option(help="Of starting places and autopilot.")] = 0,
) -> None:
    """Drive with CARLA's own autopilot; read the recordings with tether_studies.carla.read_carla."""
    with starting():
        from tether_studies.carla import collect
    episodes = collect(host, port, town, minutes, out, seed=seed, reporter=console_reporter(console))
    say(f"{len(episodes)} episodes: {out}", wrap=False)
