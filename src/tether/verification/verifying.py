"""`verify`: the claim of a model file, established again from the file and M alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tether.foundation.errors import CertificateError
from tether.foundation.progress import Report
from tether.trusted import Function, TrustedModel, as_trusted, check_trusted
from tether.verification.claim import Claim
from tether.verification.construction import verify_direct, verify_monotone
from tether.verification.content import Content, claim_of, read_content
from tether.verification.draws import distribution_words, draw, refuted
from tether.verification.evaluation import values_at
from tether.verification.verdict import Verification
from tether.verification.written import check_certificate

if TYPE_CHECKING:
    from tether.verification.reading import Read
    from tether.verification.tracing import Program

_TRIED = 4096
"""Points at which M is compared with the program that its code was read as."""


_OPEN_SHARE = "ε and β (not refuted by fresh draws, which establish neither)"


def verify(
    path: str | Path,
    trusted: TrustedModel | Function,
    certificate: str | Path | None = None,
    progress: Report | None = None,
    *,
    seed: int = 0,
    over: Callable[..., Any] | None = None,
) -> Verification:
    """Establishes the claim of a model file again, sharing no code with what built its bounds.

    Args:
        path: the model file, or the folder of a run.
        trusted: M.
        certificate: a ``certificate.json`` that must say the same; by default the one beside a run's model.
        progress: told (cells or draws done, to do).
        seed: of the draws that `statistical` evidence is tested with.
        over: the function over whose draws such a claim is, where it is over these.

    Raises:
        CertificateError: something does not match or cannot be shown; the message names it.
        StorageError: a file is not what it should be.
    """
    path, trusted = Path(path), as_trusted(trusted)
    if path.is_dir():
        path = path / "model.safetensors"
    beside = path.with_name("certificate.json")
    if certificate is None and path.name == "model.safetensors" and beside.is_file():
        certificate = beside
    content = read_content(path)
    if content.kind in _BY_CONSTRUCTION:
        beside = None if certificate is None else Path(certificate)
        found = _BY_CONSTRUCTION[content.kind](content, trusted, beside)
        return replace(found, notes=(*_compare_sources(content, trusted, certificate), *found.notes))
    claim = claim_of(content)
    notes = _compare_sources(content, trusted, certificate)
    not_vouched: tuple[str, ...] = ()
    if certificate is not None:
        not_vouched = check_certificate(Path(certificate), claim, trusted)
    if claim.level.of_a_share:  # draws cannot tell how likely draws were to mislead
        not_vouched = (_OPEN_SHARE, *not_vouched)
    check_trusted(trusted, claim.places, claim.schema)
    claim.compare(trusted)
    statement = _establish(claim, trusted, seed, progress, over)
    own = [claim.delta_of(output) for output in range(len(claim.schema.outputs))]
    ends = [(float(delta.max()), float(np.median(delta))) for delta in own]
    deltas = dict(zip(claim.schema.outputs, ends, strict=True))
    return Verification(
        verified=claim.level.claims,
        evidence=claim.evidence,
        deltas=deltas,
        cells=len(claim),
        statement=statement,
        notes=tuple(notes),
        not_vouched=not_vouched,
        unit=claim.unit,
    )


_BY_CONSTRUCTION = {"monotone": verify_monotone, "direct": verify_direct}
"""Tethers whose claim rests on no number for each cell or leaf."""


def _compare_sources(content: Content, trusted: TrustedModel, certificate: str | Path | None) -> list[str]:
    """What could not be compared, in sentences; another source than the recorded one is refused."""
    own, notes = content.trusted_digest, []
    if own is None or trusted.source_digest is None:
        where = "the model file" if own is None else "the trusted model given"
        notes.append(f"The source of the trusted model was not compared: {where} has no digest of it.")
    elif own != trusted.source_digest:
        raise CertificateError(
            "not verified: the source of the trusted model given is not that of the one the model was fitted "
            f"to (digest {trusted.source_digest[:16]}, recorded {own[:16]})."
        )
    if certificate is None:
        notes.append("No certificate was given to compare the model with.")
    return notes


def _establish(claim: Claim, trusted: TrustedModel, seed: int, progress: Report | None, over: Any) -> str:
    if over is not None and (claim.over or {}).get("kind") != "sampler":
        raise ValueError(
            "`over` must come with a claim over what a function draws; this one is over other inputs."
        )
    if not claim.level.claims:
        return f"Nothing to verify: evidence `{claim.evidence}` is an estimate, not a claim."
    if claim.level.of_a_share:
        return _test(claim, trusted, seed, progress, over)
    assumed = ""
    if claim.level.by_code:
        reading = read_trusted(claim, trusted)
        reason = _unproved(claim, trusted, reading.program, progress)
        assumed = f" {reading.assumed('trusted model')}"
        how = "in interval arithmetic on the trusted model's own code"
    else:
        reason = claim.constants_shortfall(trusted)
        how = "from the constants given for the trusted model, if those hold"
    if reason is not None:
        raise CertificateError(f"not verified: {reason}.")
    shown = f"Delta was shown again for each of {len(claim)} {claim.unit}, {how}."
    return shown + claim.left_out + assumed


def _test(claim: Claim, trusted: TrustedModel, seed: int, progress: Report | None, over: Any) -> str:
    draws = draw(claim, trusted, seed, progress, over)
    assert claim.epsilon is not None
    if refuted(draws, claim.epsilon):
        raise CertificateError(
            f"not verified: at most a share {claim.epsilon:g} of inputs may exceed delta; of {draws.count} "
            f"fresh draws {draws.exceeded} did."
        )
    return (
        f"Not refuted: of {draws.count} fresh draws {draws.exceeded} exceeded delta, which is credible if at "
        f"most a share {claim.epsilon:g} of all do. That it does so with confidence 1 - β is not tested. A "
        f"draw is: {distribution_words(claim)}. Of inputs that are not drawn so this says nothing."
    )


def read_trusted(claim: Claim, trusted: TrustedModel) -> Read:
    """M's program, tried.

    Raises:
        CertificateError: its code is not known, or is not followed.
    """
    from tether.verification.graph import UnboundedError
    from tether.verification.reading import read

    schema = claim.schema
    sizes = len(schema.states), len(schema.controls), len(schema.outputs)
    draw_by = (trusted.source_digest or "").encode() + np.ascontiguousarray(claim.places).tobytes()
    places = claim.tried(_TRIED, np.random.Generator(np.random.PCG64DXSM(0x7A1)))
    try:
        return read(trusted.function, sizes, places, draw_by)
    except UnboundedError as error:
        raise CertificateError(f"not verified: the trusted model has {error}.") from None


def _unproved(claim: Claim, trusted: TrustedModel, program: Program, progress: Report | None) -> str | None:
    """What cannot be shown of some cell, in words; None where all can be."""
    from tether.verification.proofs import target_program

    program = target_program(program, claim)
    reason = check_program(claim, trusted, program)
    if reason is not None:
        return reason
    done = 0
    for count, reason in claim.shortfalls(program):
        if reason is not None:
            return reason
        done += count
        if progress is not None:
            progress(done, len(claim))
    return None


def check_program(claim: Claim, trusted: TrustedModel, program: Program) -> str | None:
    """Whether M itself, at memories and at points of the domain, does what its program says."""
    from tether.verification.reading import first_unlike

    rng = np.random.Generator(np.random.PCG64DXSM(0x7ACE))
    inputs = np.concatenate([claim.places, claim.tried(_TRIED, rng)])
    values = values_at(claim, trusted, inputs)
    # M's own value lies in the range but for unwrapping an angle and subtracting a state from it.
    beside = claim.base + 4 * np.pi
    found = first_unlike(program, inputs, values, beside=beside, turning=claim.schema.output_angles)
    if found is None:
        return None
    return (
        f"{claim.output(found.output)}: the trusted model gives {found.value!r} at "
        f"{found.point.tolist()}, and its code as read here {found.read!r}"
    )
