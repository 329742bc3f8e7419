"""Verbs about what is guaranteed: certify, verify, attack."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tether.cli.parsing import inputs_over
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
from tether.cli.tubes import attack_tube_file, verify_tube_file
from tether.foundation.documents import model_file, shorten
from tether.foundation.progress import console_reporter

OfModel = Annotated[
    Path | None, typer.Option("--model", help="Of a tube: its model; by default where the tube says it is.")
]
Policy = Annotated[str | None, typer.Option(help="Of a tube with feedback: file.py:policy.")]
Carried = Annotated[
    str | None, typer.Option(help="Of a tube whose model does not predict every state: file.py:rule.")
]
Over = Annotated[
    str | None,
    typer.Option(help="file.py:function over whose draws a statistical claim is, where it is over these."),
]


def certify_command(
    model: ModelPath,
    trusted: TrustedSpec,
    out: Annotated[
        Path | None,
        typer.Option(help="New .json file for the certificate; a page to read is put beside it as .html."),
    ] = None,
    over: Over = None,
) -> None:
    """State what is guaranteed, after checking it against the trusted model at fresh points."""
    if out is not None and out.suffix == ".html":
        raise ValueError(f"`{out}` must end in .json; got '.html', which is the page beside it.")
    for path in () if out is None else (out, out.with_suffix(".html")):
        if path.exists():
            raise ValueError(f"`{path}` must be a new file; it exists and nothing is overwritten.")
    with starting():
        from tether.claims.certificate import certify
        from tether.files.runs import certificate_page
        from tether.foundation.atomic import write_json, write_text
        from tether.report.tables import certificate_lines, delta_grid, rich_table
        from tether.trusted.loading import load_trusted
    known = load_trusted(trusted)
    learned = claiming_model(model, known, "tether to certify")
    certificate = certify(learned, known, over=None if over is None else inputs_over(over))
    measured = {
        name: learned.record[name] for name in ("coverage_D", "coverage_omega") if name in learned.record
    }
    certificate = certificate.covering(**measured)
    console.print(rich_table(delta_grid(certificate.deltas, certificate.evidence)))
    for line in certificate_lines(certificate):
        say(line)
    if out is not None:
        with writing(out):
            write_json(out, certificate.as_dict())
            write_text(out.with_suffix(".html"), certificate_page(certificate, command=command_line()))
        say(f"certificate: {out}, {out.with_suffix('.html')}")
    if not certificate.certified:
        say(f"not certified: evidence `{certificate.evidence}` is an estimate.", style="bold")
        raise typer.Exit(1)


def verify_command(
    model: ModelPath,
    trusted: TrustedSpec,
    certificate: Annotated[
        Path | None,
        typer.Option(help="A certificate.json that must say the same; by default that of the run."),
    ] = None,
    of: OfModel = None,
    policy: Policy = None,
    carried: Carried = None,
    scheduler: Scheduler = None,
    over: Over = None,
) -> None:
    """Establish a claim again from a model file, an exported one or a tube, and the trusted model alone."""
    if model.suffix == ".json":
        _refuse("a model", certificate=certificate, over=over)
        verify_tube_file(model, trusted, of, scheduler, policy=policy, carried=carried)
        return
    _refuse("a tube", model=of, policy=policy, carried=carried)
    with starting():
        from tether.export import verify
        from tether.trusted.loading import load_trusted
    path = model_file(model)
    with console_reporter(console)("Verify") as progress:
        drawn = None if over is None else inputs_over(over)
        result = verify(path, load_trusted(trusted), certificate, progress, client=scheduler, over=drawn)
    for name, (largest, median) in result.deltas.items():
        say(f"{name}: delta at most {largest:.6g}, median {median:.6g}")
    for line in (result.statement, *result.notes):
        say(line)
    if result.not_vouched:
        say(f"Not vouched for: {_in_words(result.not_vouched)}.")
    if not result.verified:
        say(f"not verified: evidence `{result.evidence}` is an estimate.", style="bold")
        raise typer.Exit(1)
    say(f"verified: {result.cells} {result.unit}, evidence `{result.evidence}`.", style="bold")


def _in_words(not_vouched: tuple[str, ...]) -> str:
    """Fields of a certificate, which are one word each, said to be that."""
    fields = [name for name in not_vouched if " " not in name]
    others = [name for name in not_vouched if " " in name]
    said = f"the certificate's {', '.join(fields)} (names, and what was measured)"
    return "; ".join([*others, said] if fields else others)


def attack_command(
    model: ModelPath,
    trusted: TrustedSpec,
    evaluations: Annotated[int, typer.Option(help="Inputs to try.")] = 1_000_000,
    seed: int = 0,
    jobs: Annotated[
        int | None, typer.Option(help="Processes; by default all cores where that takes less time.")
    ] = None,
    of: OfModel = None,
    policy: Policy = None,
    carried: Carried = None,
    scheduler: Scheduler = None,
) -> None:
    """Search for a counter-example to a model's certificate, or for a rollout that leaves a tube."""
    if model.suffix == ".json":
        _refuse("a model", jobs=jobs, scheduler=scheduler)
        attack_tube_file(model, trusted, of, policy, evaluations=evaluations, seed=seed, carried=carried)
        return
    _refuse("a tube", model=of, policy=policy, carried=carried)
    with starting():
        from tether.claims.attack import attack
        from tether.evidence import Proved
        from tether.report.tables import ratio
        from tether.trusted.loading import load_trusted
    known = load_trusted(trusted)
    learned = claiming_model(model, known, "certificate to attack")
    with console_reporter(console)("Attack") as progress:
        found = attack(
            learned,
            known,
            evaluations=evaluations,
            seed=seed,
            progress=progress,
            jobs=jobs,
            client=scheduler,
        )
    unit = learned.schema.unit(found.output)
    distance, claimed = (f"{value:.6g} {unit}".rstrip() for value in (found.distance, found.delta))
    evidence = learned.bounds.evidence if learned.tether.limited else Proved()
    say(
        f"{found.evaluations} inputs tried. The largest distance to the trusted model that any weights can "
        f"reach is {distance} in '{found.output}', {ratio(found.max_ratio)} of the {claimed} claimed there "
        f"(evidence level {evidence.name}).",
    )
    if found.broken and evidence.draws:
        say("The claim is about a share of random inputs, so that this one does not refute it.")
    elif found.broken:
        place = ", ".join(f"{name}={value!r}" for name, value in found.inputs.items())
        say(f"COUNTER-EXAMPLE at {place}", style="bold red")
        raise typer.Exit(1)


def _refuse(which: str, **given: object) -> None:
    """Options that say something of another kind of file than this one."""
    for name, value in given.items():
        if value is not None:
            raise ValueError(f"`--{name}` must come with {which}; got '{shorten(value)}'. Leave it out.")
