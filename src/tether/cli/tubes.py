"""The verb that looks many steps ahead: tube."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tether.cli.learning import DropInvalid
from tether.cli.parsing import box as parsed_box
from tether.cli.starting import starting
from tether.cli.terminal import (
    ModelPath,
    Scheduler,
    TrustedSpec,
    claiming_model,
    command_line,
    console,
    say,
    writing,
)
from tether.foundation.documents import model_file, shorten
from tether.foundation.progress import console_reporter

if TYPE_CHECKING:
    from tether.model import Model

_FILES = (".csv", ".npz", ".parquet")


def tube_command(
    model: ModelPath,
    trusted: TrustedSpec,
    start: Annotated[
        str, typer.Option(help="x=0:1,v=0 (a box or a point), or a file with a column per state.")
    ],
    out: Annotated[Path, typer.Option(help="New .json file; a page and a figure are put beside it.")],
    steps: Annotated[
        int | None, typer.Option(help="How many; by default as many as the controls are.")
    ] = None,
    controls: Annotated[
        str,
        typer.Option(
            help="A file with a column per control, a row per step; `zero`; `box` for all of the operating "
            "box; u=-1:1; or file.py:policy, a function of the states."
        ),
    ] = "zero",
    halvings: Annotated[int, typer.Option(help="At most how many times to halve a start box.")] = 0,
    generators: Annotated[int, typer.Option(help="At most how many a set may have.")] = 256,
    cuts: Annotated[
        int | None, typer.Option(help="How often to halve sets over which M bends much, at each step.")
    ] = None,
    weights: Annotated[
        str, typer.Option(help="any; or own: for the weights at hand alone, which is narrower.")
    ] = "any",
    carried: Annotated[
        str | None,
        typer.Option(
            help="file.py:rule: what states follow that the model does not predict, a function of states, "
            "controls and predictions."
        ),
    ] = None,
    held_out: Annotated[
        Path | None,
        typer.Option(help="Episodes kept from fitting: adds a system tube, which is statistical."),
    ] = None,
    alpha: Annotated[float, typer.Option(help="Chance that reality leaves the system tube.")] = 0.1,
    episode: Annotated[
        str | None, typer.Option(help="Column of the held-out data that numbers episodes.")
    ] = None,
    drop_invalid: DropInvalid = False,
    scheduler: Scheduler = None,
) -> None:
    """Sets that hold every rollout of the learned model for many steps, whatever its weights."""
    beside = [out, out.with_suffix(".html"), out.with_suffix(".png")]
    if out.suffix != ".json":
        raise ValueError(f"`{out}` must end in .json; got '{out.suffix}'. A page is put beside it.")
    for path in beside:
        if path.exists():
            raise ValueError(f"`{path}` must be a new file; it exists and nothing is overwritten.")
    if episode is not None and held_out is None:
        raise ValueError(f"`--episode` must come with `--held-out`; got '{shorten(episode)}' alone.")
    if drop_invalid and held_out is None:
        raise ValueError("`--drop-invalid` must come with `--held-out`; got it alone.")
    with starting():
        from dataclasses import replace

        from tether.claims.tubes import attack_tube, tube
        from tether.claims.tubes.storing import as_dict
        from tether.files.runs import package_versions
        from tether.foundation.atomic import write_bytes, write_json, write_text
        from tether.report.figures import as_png
        from tether.report.tubes import tube_figure, tube_page
        from tether.trusted.loading import load_trusted
    known = load_trusted(trusted)
    learned = claiming_model(model, known, "tether to make a tube of")
    applied, policy = _controls(controls, learned, steps)
    begin = _start(start, learned)
    options: dict[str, Any] = {"steps": steps, "generators": generators, "halvings": halvings, "cuts": cuts}
    rule = _function(carried)
    options |= {"weights": weights, "client": scheduler, "carried": rule}
    found = tube(learned, known, begin, applied if policy is None else policy, **options)
    where = os.path.relpath(model_file(model).resolve(), out.resolve().parent)
    found = replace(found, about={**found.about, "model": where})
    if held_out is not None:
        system = _system(learned, found, held_out, alpha, policy, episode=episode, drop_invalid=drop_invalid)
        found = replace(found, system=system)
    tried = attack_tube(learned, found, rollouts=2000, policy=policy, carried=rule)
    paths = _some_paths(learned, found, policy, rule)
    figure = tube_figure(found, paths=paths)
    with writing(out):
        write_json(out, as_dict(found))
        write_text(beside[1], tube_page(found, figure, command=command_line(), versions=package_versions()))
        write_bytes(beside[2], as_png(figure))
    _show(found)
    if controls == "zero" and learned.schema.controls:
        say("Controls: zero at every step; `--controls` takes others.")
    say(
        f"Tried: {tried.rollouts} rollouts {'' if found.weights else 'at extreme weights '}reach "
        f"{100 * min(tried.max_ratio, 1):.0f} % of its width, in '{tried.state}' after step {tried.step}."
    )
    say(f"tube: {out}, {beside[1]}, {beside[2]}", wrap=False)
    if tried.broken:
        say(
            "COUNTER-EXAMPLE: a rollout left the tube. This is a defect of Tether: please report it.",
            style="bold red",
        )
        raise typer.Exit(1)
    if not found.complete:
        raise typer.Exit(1)


def verify_tube_file(
    path: Path,
    trusted: str,
    model: Path | None,
    scheduler: str | None = None,
    *,
    policy: str | None = None,
    carried: str | None = None,
) -> None:
    """Shows a tube again, from its file, the model file and the trusted model alone."""
    with starting():
        from tether.foundation.executors import spread_over
        from tether.trusted.loading import load_trusted
        from tether.verification.tubes import verify_tube
    with spread_over(scheduler), console_reporter(console)("Verify") as progress:
        rules = {"policy": _function(policy), "carried": _function(carried)}
        result = verify_tube(path, load_trusted(trusted), model, progress, **rules)
    say(result.statement)
    if result.ended:
        say(f"{result.ended} of {result.tubes} tubes end before their last step; until then they hold.")
    say(f"Not vouched for: {', '.join(result.not_vouched)}.")
    say(
        f"verified: {result.tubes} {'tube' if result.tubes == 1 else 'tubes'}, {result.moves} steps.",
        style="bold",
    )


def attack_tube_file(
    path: Path,
    trusted: str,
    model: Path | None,
    policy: str | None,
    *,
    evaluations: int,
    seed: int,
    carried: str | None = None,
) -> None:
    """Tries rollouts at extreme weights, starts and controls; so many steps in all."""
    with starting():
        from tether.claims.tubes import attack_tube, load_tube
        from tether.claims.tubes.network import Weights
        from tether.trusted.loading import load_trusted
    found = load_tube(path)
    named = found.about.get("model")
    if model is None and named is None:
        raise ValueError(f"`{path}` must say which model it is of; it does not. Name it with `--model`.")
    place = path.parent / str(named) if model is None else model
    learned = claiming_model(place, load_trusted(trusted), "tube to attack")
    if found.weights is not None and found.weights != Weights(learned).digest:
        raise ValueError(f"`{path}` must be of the weights in `{place}`; it is of others. Make it anew.")
    rules = {"policy": _function(policy), "carried": _function(carried)}
    count = max(1, evaluations // found.steps)
    with console_reporter(console)("Attack") as progress:
        worst = attack_tube(learned, found, rollouts=count, seed=seed, progress=progress, **rules)
    say(
        f"{worst.rollouts} rollouts tried. The farthest from the middle that "
        f"{'starts' if found.weights else 'any weights, starts'} and controls went is "
        f"{worst.max_ratio:.6g} of the tube's half-width, in '{worst.state}' after step "
        f"{worst.step} (start {worst.row})."
    )
    if worst.broken:
        say("COUNTER-EXAMPLE: a rollout left the tube.", style="bold red")
        raise typer.Exit(1)


def _show(found: Any) -> None:
    told = [("Half-width after step", found.ends)]
    if found.system is not None:
        told = [("Half-width of the model tube after step", found.ends)]
        ends = found.system["lower"], found.system["upper"]
        told.append(("Half-width of the system tube (statistical) after step", ends))
    for title, (lower, upper) in told:
        _show_widths(found, title, 0.5 * (upper - lower))
    for line in (found.words, *([found.system["words"]] if found.system is not None else [])):
        say(line)
    if not found.complete:
        say(_LONGER[found.weights is None])


def _show_widths(found: Any, title: str, half: Any) -> None:
    """Of a few steps, of whichever tube is widest: half-widths (tubes, T + 1, states)."""
    from tether.report.tables import Grid, rich_table

    reached = [t for t in range(found.steps + 1) if (half[:, t] == half[:, t]).all()]
    shown = sorted({1, found.steps // 4, found.steps // 2, found.steps, max(reached, default=0)} - {0})
    rows = []
    for t in shown:
        cells = half[:, t].max(axis=0)
        rows.append((str(t), *("ended" if cell != cell else f"{cell:.4g}" for cell in cells.tolist())))
    units = [found.schema.unit(name) for name in found.schema.states]
    heads = [f"{n} [{u}]" if u else n for n, u in zip(found.schema.states, units, strict=True)]
    console.print(rich_table(Grid(title, ("step", *heads), tuple(rows))))


_LONGER = {
    True: "A narrower start or narrower controls may go farther, and so may `--weights own`, which holds the "
    "network at hand alone and not all that room and data would allow.",
    False: "A narrower start or narrower controls may go farther.",
}


def _start(text: str, model: Model) -> Any:
    """A box by name, or rows of a file."""
    if Path(text).suffix.lower() in _FILES:
        return _columns(Path(text), model.schema.states)
    return parsed_box("start", text)


def _columns(path: Path, names: tuple[str, ...]) -> Any:
    import numpy as np

    from tether.data.files import find_column, read_table

    table = read_table(path)
    try:
        return np.stack([np.asarray(find_column(table, name), dtype=np.float64) for name in names], axis=1)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"`{path}` must have columns of numbers ({', '.join(names)}); {shorten(error)}."
        ) from None


def _controls(text: str, model: Model, steps: int | None) -> tuple[Any, Any]:
    """Controls, and the policy where they are one."""
    import numpy as np

    from tether.claims.tubes.limits import limits_of

    names = model.schema.controls
    if text == "zero" or not names:
        return np.zeros((_needed(steps), len(names))), None
    if text == "box":
        dx = len(model.schema.states)
        low, high = (end[dx:] for end in limits_of(model).box)
        if not np.isfinite(high - low).all():
            raise ValueError("`--controls` box must be of a model with an operating box; this one has none.")
        return (low, high), None
    if Path(text).suffix.lower() in _FILES:
        return _columns(Path(text), names), None
    if ":" in text and "=" not in text:
        return None, _function(text)
    limits = parsed_box("controls", text)
    if not limits:
        raise ValueError(
            f"`--controls` must be a file, zero, box, name=low:high or file.py:policy; got '{shorten(text)}'."
        )
    return limits, None


def _function(spec: str | None) -> Any:
    """A function in NumPy, loaded as M is."""
    from tether.trusted.loading import load_trusted

    return None if spec is None else load_trusted(spec).function


def _needed(steps: int | None) -> int:
    if steps is None or steps < 1:
        raise ValueError(f"`--steps` must be at least 1 where the controls do not say how many; got {steps}.")
    return steps


def _system(
    model: Model, found: Any, held_out: Path, alpha: float, policy: Any, **reading: Any
) -> dict[str, Any]:
    """Ends of the system tube around the model's own rollouts from the middles of the starts."""
    import numpy as np

    from tether.claims.tubes import calibrate_system, nominal
    from tether.data.logs import read_log

    if policy is not None:
        raise ValueError("`--held-out` must come with a sequence of controls; got feedback.")
    schema = model.schema
    if not schema.rolls_out:
        raise ValueError("`--held-out` must come with a model that predicts every state; this one does not.")
    columns = {"states": schema.states, "controls": schema.controls, "angles": schema.angles}
    data = read_log(held_out, **columns, **reading)
    band = calibrate_system(model, data, steps=found.steps, alpha=alpha)
    lower, upper = found.start
    known = found.controls
    if not (np.array_equal(known.lower, known.upper) and np.array_equal(lower, upper)):
        raise ValueError(
            "`--held-out` must come with points to start from and a sequence of controls; got a box."
        )
    rows = np.broadcast_to(known.lower, (len(lower), *known.lower.shape[1:]))
    path = nominal(model, 0.5 * lower + 0.5 * upper, rows)
    low, high = band.around(path)
    noted = {"alpha": band.alpha, "episodes": band.episodes, "stretches": band.stretches, "words": band.words}
    return {"lower": low, "upper": high, "constant": band.constant, **noted}


def _some_paths(model: Model, found: Any, policy: Any, carried: Any) -> Any:
    import numpy as np

    from tether.claims.tubes.attacking import extreme_rollouts
    from tether.report.tubes import MOST_DRAWN

    rng = np.random.default_rng(1)
    row = np.arange(60) % min(len(found), MOST_DRAWN)
    lower, upper = (end[row] for end in found.start)
    states = lower + np.round(rng.random(lower.shape)) * (upper - lower)
    return extreme_rollouts(model, found, states, row, rng, policy, carried)
