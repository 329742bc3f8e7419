"""The verb that teaches a model that is there already: adapt."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tether.cli.learning import (
    Block,
    DataPaths,
    DropInvalid,
    EpisodeColumn,
    History,
    IndependentRows,
    NextStates,
    TimeColumn,
    TimeStep,
    Tolerance,
)
from tether.cli.parsing import counts, names, rows_or_time
from tether.cli.starting import starting
from tether.cli.terminal import ModelPath, console, say, with_unit, writing
from tether.foundation.documents import model_file
from tether.foundation.progress import console_reporter

if TYPE_CHECKING:
    from tether.claims.claims import Certificate
    from tether.fitting import Adaptation
    from tether.trusted import TrustedModel


def adapt(
    model: ModelPath,
    data: DataPaths,
    out: Annotated[Path, typer.Option(help="New folder for the model with new weights.")],
    steps: Annotated[
        int | None, typer.Option(help="Steps of gradient descent; by default 500, or --seconds.")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="About how long to learn, instead of --steps.")
    ] = None,
    regrow: Annotated[
        bool,
        typer.Option(
            "--regrow", help="Widen the room where the data ask for it: a new certificate; needs --trusted."
        ),
    ] = False,
    trusted: Annotated[
        str | None,
        typer.Option(help="The trusted model: the certificate is then derived anew; for direct models."),
    ] = None,
    next_states: NextStates = "",
    episode: EpisodeColumn = None,
    time: TimeColumn = None,
    step: TimeStep = None,
    tolerance: Tolerance = 0.2,
    block: Block = "",
    drop_invalid: DropInvalid = False,
    history: History = None,
    independent_rows: IndependentRows = False,
    seed: int = 0,
) -> None:
    """Learn new weights from new data; the tether, and what is certified of it, stays."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ValueError(f"`{out}` must be a new or empty folder; nothing is overwritten. Choose another.")
    if regrow and trusted is None:
        raise ValueError(
            "`--regrow` must come with `--trusted`, to certify the wider room; got none. Name the trusted "
            "model."
        )
    with starting():
        from tether.data.files import naming
        from tether.data.logs.inputs import read_more
        from tether.files.storage import load
        from tether.fitting import adapt as learn
        from tether.trusted.loading import load_trusted
    known = load_trusted(trusted) if trusted else None
    path = model_file(model)
    learned = load(path, trusted=known)
    transitions = read_more(
        data[0] if len(data) == 1 else data,
        learned.schema,
        next_states=names(next_states) or None,
        episode=episode,
        time=time,
        step=step,
        tolerance=tolerance,
        block=rows_or_time(block),
        drop_invalid=drop_invalid,
        history=counts("history", history or []),
        independent_rows=independent_rows,
    )
    for line in transitions.report.lines if transitions.report else ():
        say(line)
    certificate = path.with_name("certificate.json")
    before = _written(certificate) if path.name == "model.safetensors" and certificate.is_file() else None
    with naming(data[0] if len(data) == 1 else None, ("`transitions`", "columns", "numbers")):
        found = learn(
            learned,
            transitions,
            steps=steps,
            seconds=seconds,
            regrow=regrow,
            seed=seed,
            reporter=console_reporter(console),
        )
    _finish(out, found, _certified(found, before, known))
    _tell(found, learned.record.get("band"))
    say(f"model: {out / 'model.safetensors'}", wrap=False)


def _written(path: Path) -> Certificate:
    """A certificate as its file has it."""
    from tether.claims.claims import Certificate
    from tether.foundation.documents import plain, read_json
    from tether.foundation.errors import StorageError

    content = read_json(path, plain, "a Tether certificate")
    try:
        return Certificate.from_dict(content)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StorageError(
            f"`{path}` must be a Tether certificate; {type(error).__name__}: {error}."
        ) from None


def _certified(
    found: Adaptation, before: Certificate | None, trusted: TrustedModel | None
) -> Certificate | None:
    """Derived anew where M is there, else what was certified of the same tether before."""
    from tether.claims.certificate import carry_over, certify

    if trusted is not None and found.model.tether.holds:
        return certify(found.model, trusted, transitions=found.held_out)
    return None if before is None else carry_over(before, found.model, transitions=found.held_out)


def _finish(out: Path, found: Adaptation, certificate: Certificate | None) -> None:
    """The folder: the certificate first, so that a model is never there without it."""
    from tether.files.storage import save
    from tether.foundation.atomic import write_json

    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        if certificate is not None:
            write_json(out / "certificate.json", certificate.as_dict())
        write_json(out / "adaptation.json", _as_dict(found))
        save(found.model, out / "model.safetensors")


def _as_dict(found: Adaptation) -> dict[str, Any]:
    numbers = ("before", "after", "changed", "outside", "in_domain", "regrown")
    return {name: getattr(found, name) for name in numbers} | {"rows_held_out": len(found.held_out)}


def _tell(found: Adaptation, band: dict[str, Any] | None) -> None:
    """What it did, and what the new data say of the band."""
    from tether.report.tables import Grid, rich_table

    rows = [
        (
            with_unit(found.model, name),
            f"{before:.4g}",
            f"{found.after[name]:.4g}",
            "new" if name in found.changed else "as before",
            f"{found.outside[name]:.2%}",
        )
        for name, before in found.before.items()
    ]
    band_then = "new rows outside the old band" if found.regrown else "new rows outside the band"
    heads = ("output", "before", "now", "weights", band_then)
    console.print(rich_table(Grid("Error on held-out new episodes (root mean square)", heads, tuple(rows))))
    if found.in_domain < 1:
        say(f"{1 - found.in_domain:.2%} of new rows lie outside the domain; only a new fit can widen it.")
    if found.regrown:
        say(f"The room is wider than before in {found.regrown} cells, with a certificate of its own.")
    elif band is not None and max(found.outside.values()) > band["alpha"]:
        say("The new data leave the band more often than it was made for: `--regrow --trusted M` widens it.")
