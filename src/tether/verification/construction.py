"""Models whose claim holds by construction: monotone ones, and direct ones, which ask M at run time.

*Monotone.* M is affine and travels with the file, and limits are ``fl(M ± w)``, where w is at most the
half-width of a cell. That M is what the file has is shown on its code: traced, it must be the sum of the same
products in the same order, ``((b + w_0 x_0) + w_1 x_1) + ...``, each of them rounded correctly, so that the
model's own sum is M's to the last bit, at every input. Limits are then within w and one rounding of
themselves of M; delta has two. What is clipped to limits is between them, whatever the weights.

No prediction rises in a declared input if M's weights of it are at most 0, since rounding is monotone, if
cells do not look at it, and if the network does not rise in it. The first two are shown on the file; of the
network, the file says only that it is of the kind that does not.

*Direct.* The limits are M's answer at run time plus and minus the half-width: there is nothing to prove over
a domain, and nothing in the file to prove it of but the half-width and answers by which M is recognised.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tether.data import Array, Schema
from tether.foundation.documents import shown
from tether.foundation.errors import CertificateError
from tether.foundation.wording import AS_RETURNED, BY_CONSTRUCTION, NEVER_RISES, construction_assumptions
from tether.trusted import TrustedModel
from tether.verification.claim import HALF_TURN
from tether.verification.content import Content
from tether.verification.verdict import Verification
from tether.verification.written import check_fields

_EPS = 2.0**-52
_REACH = 1e3
"""Scales away from the centre of the inputs up to which the delta of a certificate includes rounding."""
_MEASURED = ("recheck", "trusted_name", "approximation_cost")
"""Fields of a certificate that are measured on data, or names."""
_FALLING = "monotonicity (its premises hold in the file; that the network's code keeps to them is not shown)"


def verify_monotone(content: Content, trusted: TrustedModel, certificate: Path | None) -> Verification:
    """That M is the affine function of the file, and that limits around it cannot rise."""
    schema, width = content.schema, content.arrays["monotone.half_width"]
    _check_premises(content, schema)
    _check_sum(content, schema, trusted)
    size = _usual_size(content)
    delta = width * (1 + 2 * _EPS) + 2 * _EPS * size
    names = [schema.inputs[k] for k in content.arrays["monotone.declared"].tolist()]
    falling = {"claim": NEVER_RISES, "declared": names, "assumptions": list(AS_RETURNED)}
    not_vouched = (_FALLING, *_compared(certificate, content, trusted, delta, size, falling))
    named = zip(schema.outputs, delta.max(axis=0), np.median(delta, axis=0), strict=True)
    return Verification(
        verified=True,
        evidence="proved",
        deltas={name: (float(most), float(median)) for name, most, median in named},
        cells=len(width),
        statement=(
            "The trusted model's code is the sum of products that the file has, in the same order, so that "
            f"limits are within the half-width of each of {len(width)} cells of it, and a rounding, at every "
            "finite input."
        ),
        notes=(),
        not_vouched=not_vouched,
    )


def _check_premises(content: Content, schema: Schema) -> None:
    arrays, words = content.arrays, content.words
    declared, inputs = arrays["monotone.declared"].tolist(), len(schema.inputs)
    rules = {
        "the declared inputs must be some of the inputs, in order, and leave some": 0 < len(declared) < inputs
        and declared == sorted(set(declared) & set(range(inputs))),
        "half-widths must be finite and at least 0": _at_least_zero(arrays["monotone.half_width"]),
        "cells must look at the inputs that are not declared, alone": arrays["cells.memories"].shape[1]
        == inputs - len(declared),
        "no input or output may be an angle": not schema.angles,
        "next states must be bounded, not increments": words["target"] == "next_state",
        "the network must be of the kind that never rises in the declared inputs": words["network"]["kind"]
        == "monotone"
        and words["network"]["decreasing"] == declared,
    }
    unmet = [rule for rule, holds in rules.items() if not holds]
    if not unmet and not (arrays["monotone.weights"][:, declared] <= 0).all():
        unmet = ["weights of the declared inputs must be at most 0"]
    if unmet:
        raise CertificateError(f"not verified: {unmet[0]}; that is not so.")


def _at_least_zero(values: Array) -> bool:
    return bool(((values >= 0) & np.isfinite(values)).all())


def _check_sum(content: Content, schema: Schema, trusted: TrustedModel) -> None:
    """Raises unless M's code adds up the products of the file, in its order."""
    # Only now, so that nobody waits for the tracer who does not need it.
    from tether.verification.graph import UnboundedError
    from tether.verification.tracing import trace

    sizes = len(schema.states), len(schema.controls), len(schema.outputs)
    try:
        program = trace(trusted.function, *sizes)
    except UnboundedError as error:
        raise CertificateError(f"not verified: the trusted model has {error}.") from None
    weights, intercept = content.arrays["monotone.weights"], content.arrays["monotone.intercept"]
    for output, root in enumerate(program.outputs):
        terms = _terms(program.nodes, root)
        wanted = [(None, float(intercept[output])), *enumerate(weights[output].tolist())]
        if list(map(_bits, terms)) != list(map(_bits, wanted)):
            raise CertificateError(
                f"not verified: output {shown(schema.outputs[output])}: the trusted model must add up the "
                "file's intercept and products of weights with inputs, in their order; its code does else."
            )


def _terms(nodes: Any, root: int) -> list[tuple[int | None, float]]:
    """The input and the weight of each term of a sum that grows to the left, its constant first.

    Of what is no such sum, some last terms. Either order of two operands is the same number.
    """
    terms: list[tuple[int | None, float]] = []
    while nodes[root].operation == "add":
        one, two = nodes[root].arguments
        root, product = (one, two) if _product(nodes, two)[1] is not None else (two, one)
        weight, column = _product(nodes, product)
        if column is None:
            return terms
        terms.insert(0, (column, weight))
    if nodes[root].operation == "constant":
        terms.insert(0, (None, float.fromhex(nodes[root].data)))
    return terms


def _product(nodes: Any, number: int) -> tuple[float, int | None]:
    """A constant and the input that it is multiplied with; None where it is something else."""
    node = nodes[number]
    if node.operation == "multiply":
        for one, two in (node.arguments, node.arguments[::-1]):
            if nodes[one].operation == "constant" and nodes[two].operation == "input":
                return float.fromhex(nodes[one].data), int(nodes[two].data)
    return 0.0, None


def _bits(term: tuple[int | None, float]) -> tuple[int | None, str]:
    """A term whose zeros have signs."""
    return term[0], term[1].hex()


def _usual_size(content: Content) -> Array:
    """(P,) what limits come to at most a thousand scales away from the centre of the inputs."""
    arrays = content.arrays
    extent = np.abs(arrays["frame.inputs.center"]) + _REACH * arrays["frame.inputs.scale"]
    swing = np.abs(arrays["monotone.weights"]) @ extent
    return np.abs(arrays["monotone.intercept"]) + swing + arrays["monotone.half_width"].max(axis=0)


def _compared(
    certificate: Path | None,
    content: Content,
    trusted: TrustedModel,
    delta: Array,
    size: Array,
    falling: dict[str, Any] | None = None,
) -> tuple[str, ...]:
    """The fields of a certificate that are not vouched for, after the others were found to be the file's."""
    if certificate is None:
        return ()
    open_fields: list[str] = []

    def pairs(stated: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
        open_fields.extend(field for field in _MEASURED if stated.get(field) is not None)
        return _pairs(stated, content, trusted, delta=delta, size=size, falling=falling)

    check_fields(certificate, pairs)
    return tuple(open_fields)


def _pairs(
    stated: dict[str, Any],
    content: Content,
    trusted: TrustedModel,
    *,
    delta: Array,
    size: Array,
    falling: dict[str, Any] | None,
) -> Iterator[tuple[str, Any, Any]]:
    """Field, what the certificate says, what follows from the file."""
    schema = content.schema
    sizes = dict(zip(schema.outputs, size.tolist(), strict=True))
    assumed = construction_assumptions(content.kind, sizes, schema.units, schema.angles)
    yield "evidence", stated["evidence"], "proved"
    yield "certified", stated["certified"], True
    yield "claim", stated["claim"], BY_CONSTRUCTION[content.kind]
    yield "assumptions", stated["assumptions"], list(assumed)
    digest = content.trusted_digest if content.trusted_digest is not None else trusted.source_digest
    yield "trusted_source_sha256", stated["trusted_source_sha256"], digest
    everywhere = {"radius": None, "box": {}, "coverage_D": 1.0, "coverage_omega": 1.0, "coverage_box": None}
    yield "domain", stated["domain"], everywhere
    yield "band", stated.get("band"), None
    yield "concerns", stated.get("concerns", []), []
    yield "why", stated.get("why"), None
    yield "monotonicity", stated["monotonicity"], falling
    yield "deltas", [entry["name"] for entry in stated["deltas"]], list(schema.outputs)
    for output, entry in enumerate(stated["deltas"]):
        name, own = schema.outputs[output], delta[:, output]
        numbers = {"maximum": float(own.max()), "median": float(np.median(own)), "worst_cells": []}
        nothing = dict.fromkeys(("held_out", "lemma", "single", "remainder"))
        whole = {"name": name, "unit": schema.units.get(name, ""), **numbers, **nothing}
        yield f"deltas['{name}']", entry, whole


def verify_direct(content: Content, trusted: TrustedModel, certificate: Path | None) -> Verification:
    """That the M given is the one the file was saved with, and how far from it outputs may be."""
    schema, width = content.schema, content.arrays["direct.half_width"]
    if not np.isfinite(width).any():
        raise CertificateError("not verified: nothing is claimed; every half-width is infinite.")
    _check_answers(content, schema, trusted)
    size = _added_up(content)
    delta = width * (1 + 1e-15) + 8 * _EPS * size
    delta = np.where(schema.output_angles, np.minimum(delta, HALF_TURN), delta)
    compared = _compared(certificate, content, trusted, delta[None], size)
    return Verification(
        verified=True,
        evidence="proved",
        deltas={name: (most, most) for name, most in zip(schema.outputs, delta.tolist(), strict=True)},
        cells=len(content.arrays["direct.inputs"]),
        statement=(
            "By construction: the model asks the trusted model itself at run time and stays within the "
            "half-width of its answer, and the rounding of adding it. Its answers were compared at inputs "
            "that the file records. What it does elsewhere needs no proof; that it is this one which is "
            "asked at run time cannot be verified from a file."
        ),
        notes=(),
        not_vouched=("the trusted model that is asked at run time", *compared),
        unit="recorded answers",
    )


def _added_up(content: Content) -> Array:
    """(P,) a thousand times what M answered where the file records it, and states a thousand scales away."""
    schema, arrays = content.schema, content.arrays
    size = _REACH * np.abs(arrays["direct.answers"]).max(axis=0) + 4 * np.pi * schema.output_angles
    if content.words["target"] == "increment":
        extent = np.abs(arrays["frame.inputs.center"]) + _REACH * arrays["frame.inputs.scale"]
        size = size + 2 * extent[schema.advanced]
    return size


def _check_answers(content: Content, schema: Schema, trusted: TrustedModel) -> None:
    """Raises where M does not give the answers of the file."""
    inputs, before = content.arrays["direct.inputs"], content.arrays["direct.answers"]
    states = np.ascontiguousarray(inputs[:, : len(schema.states)])
    controls = np.ascontiguousarray(inputs[:, len(schema.states) :])
    off = trusted(states, controls, schema) - before
    off = np.abs(off - 2 * np.pi * np.round(off / (2 * np.pi)) * schema.output_angles)
    # Another machine's sine may differ in the last place.
    tolerance = 1e-9 * (np.abs(before).max(axis=0) + content.arrays["frame.outputs.scale"])
    if not (off <= tolerance).all():
        row, output = np.unravel_index(int(np.argmax(off / tolerance)), off.shape)
        raise CertificateError(
            f"not verified: output {shown(schema.outputs[int(output)])}: the trusted model differs from the "
            f"answer that the file records at {inputs[row].tolist()} by {off[row, output]:.6g}."
        )
