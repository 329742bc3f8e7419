"""The verb that measures this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from tether.cli.starting import starting
from tether.cli.terminal import ModelPath, console, say

_BATCHES = (1, 1024)


def bench(
    model: ModelPath,
    trusted: Annotated[str | None, typer.Option(help="The trusted model, for direct models.")] = None,
    rounds: Annotated[int, typer.Option(help="Of each measurement; medians are told.")] = 30,
) -> None:
    """How long a prediction takes on this machine, and what of that is the tether."""
    with starting():
        import torch

        from tether.files.storage import load
        from tether.foundation.limits import check_whole
        from tether.model.speed import measure_speed
        from tether.report.tables import Grid, rich_table
        from tether.trusted.loading import load_trusted
    check_whole("rounds", rounds, least=1, most=100_000)
    learned = load(model, trusted=load_trusted(trusted) if trusted else None)
    found = [measure_speed(learned, rows=rows, rounds=rounds) for rows in _BATCHES]
    rows = tuple(
        (
            f"{one.rows:,}",
            *(f"{1e3 * part:.3g}" for part in (one.network, one.lookup, one.predict)),
            f"{one.ratio:.2f}",
        )
        for one in found
    )
    header = ("rows", "bare network", "lookup", "predict", "predict / network")
    console.print(rich_table(Grid("Milliseconds of the clock, medians", header, rows)))
    threads = torch.get_num_threads()
    say(
        f"Lookup is the tether alone. Small batches run on one thread, large ones on {threads}; another "
        "number by OMP_NUM_THREADS. Where others use the machine, more threads wait for each other."
    )
