"""A written certificate against the model file it is about, field by field.

Every field is worked out again from the model file, or is named as one that is not vouched for: what was
measured on data that `verify` does not have. A field that no certificate has is refused.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tether.foundation.documents import read_text, shorten, shown
from tether.foundation.errors import CertificateError, StorageError
from tether.foundation.wording import MEANING, assumptions, statistical_claim
from tether.trusted import TrustedModel
from tether.verification.claim import Claim
from tether.verification.draws import distribution_words
from tether.verification.float32 import single_deltas

_FIELDS = {"claim", "evidence", "certified", "deltas", "domain", "assumptions", "recheck", "trusted_name"}
_FIELDS |= {"trusted_source_sha256", "approximation_cost", "monotonicity", "band", "concerns", "why"}
_DELTA_FIELDS = {"name", "unit", "maximum", "median", "held_out", "lemma", "worst_cells", "single"}
_DELTA_FIELDS |= {"remainder"}
_DOMAIN_FIELDS = {"radius", "box", "coverage_D", "coverage_omega", "coverage_box"}
_BAND_FIELDS = {"probability", "alpha", "inside", "episodes", "missed", "rows"}
_NOT_VOUCHED = ("recheck", "trusted_name", "approximation_cost", "band")
_LARGEST = float(np.finfo(np.float64).max)
Pairs = Callable[[dict[str, Any]], Iterator[tuple[str, Any, Any]]]


def check_certificate(path: Path, claim: Claim, trusted: TrustedModel) -> tuple[str, ...]:
    """The fields that are not vouched for, of those that the certificate fills in.

    Raises:
        CertificateError: a field says anything else than the model file; the message names it.
        StorageError: it is not a certificate.
    """
    open_fields: list[str] = []

    def pairs(content: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
        open_fields.extend(_not_vouched(content))
        return _pairs(content, claim, trusted)

    check_fields(path, pairs)
    return tuple(open_fields)


def check_fields(path: Path, pairs: Pairs) -> None:
    """Compares what a certificate says with what follows from the model file.

    Args:
        path: of the certificate.
        pairs: from its content, fields with what it says and what follows from the model file.

    Raises:
        CertificateError: a field says anything else than the model file; the message names it.
        StorageError: it is not a certificate.
    """
    content = _read(path)
    try:
        found = [*_known("", content, _FIELDS), *pairs(content)]
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise StorageError(f"`{path}` must be a Tether certificate; {shown(error)}.") from None
    for field, stated, own in found:
        if not _same(stated, own):
            raise CertificateError(
                f"not verified: `{shorten(field)}` of `{path.name}` is {shown(stated)}, and by the model "
                f"file {shown(own)}."
            )


def _read(path: Path) -> dict[str, Any]:
    text = read_text(path)
    try:
        content = json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise StorageError(f"`{path}` must be a Tether certificate; {shorten(error)}.") from None
    if not isinstance(content, dict):
        raise StorageError(f"`{path}` must be a Tether certificate; it holds a {type(content).__name__}.")
    return content


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A field that is given twice could be read either way."""
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a field is given twice")
    return dict(pairs)


def _pairs(content: dict[str, Any], claim: Claim, trusted: TrustedModel) -> Iterator[tuple[str, Any, Any]]:
    """Field, what the certificate says, what follows from the model file."""
    evidence = claim.evidence
    yield "evidence", content["evidence"], evidence
    yield "certified", content["certified"], claim.level.claims
    yield "claim", content["claim"], _claim_text(claim)
    yield "why", content.get("why"), claim.why
    yield "assumptions", content["assumptions"], list(assumptions(evidence, claim.schema.angles))
    digest = claim.trusted_digest if claim.trusted_digest is not None else trusted.source_digest
    yield "trusted_source_sha256", content["trusted_source_sha256"], digest
    yield from _known("domain.", content["domain"], _DOMAIN_FIELDS)
    yield "domain.radius", content["domain"]["radius"], claim.radius
    yield "domain.coverage_box", content["domain"].get("coverage_box"), claim.share
    yield "monotonicity", content.get("monotonicity"), None
    yield from _band_pairs(content.get("band"), claim)
    limits = zip(claim.box[0].tolist(), claim.box[1].tolist(), strict=True)
    box = dict(zip(claim.schema.inputs, map(list, limits), strict=True))
    yield "domain.box", content["domain"]["box"], box
    yield "deltas", [entry["name"] for entry in content["deltas"]], list(claim.schema.outputs)
    single = single_deltas(claim)
    for output, entry in enumerate(content["deltas"]):
        yield from _output_pairs(entry, claim, output, single[output])


def _known(prefix: str, content: dict[str, Any], fields: set[str]) -> Iterator[tuple[str, Any, Any]]:
    for field in sorted(set(content) - fields):
        yield f"{prefix}{field}", content[field], "no such field"


def _output_pairs(entry: dict[str, Any], claim: Claim, output: int, single: float | None) -> Any:
    name, delta = claim.schema.outputs[output], claim.delta_of(output)
    yield from _known(f"deltas['{name}'].", entry, _DELTA_FIELDS)
    yield f"deltas['{name}'].unit", entry["unit"], claim.schema.units.get(name, "")
    yield f"deltas['{name}'].median", entry["median"], float(np.median(delta))
    largest = float(delta.max())
    if not claim.level.claims:  # an estimate is raised to what later points showed
        largest = max(largest, float(entry["maximum"]))
    yield f"deltas['{name}'].maximum", entry["maximum"], largest
    lemma = claim.arrays.get("bounds.lemma")
    yield f"deltas['{name}'].lemma", entry["lemma"], None if lemma is None else float(lemma[output])
    worst = claim.parts(output)[np.argsort(-delta, kind="stable")[:5]]
    remainder: Any = entry.get("remainder")
    own = claim.remainder(output)
    if own is None:
        yield f"deltas['{name}'].remainder", remainder, None
    else:  # what it is over data stands beside it
        yield f"deltas['{name}'].remainder", len(remainder), 2
        yield f"deltas['{name}'].remainder", remainder[0], own
    yield f"deltas['{name}'].worst_cells", entry["worst_cells"], worst.tolist()
    yield f"deltas['{name}'].single", entry["single"], single


def _band_pairs(stated: dict[str, Any] | None, claim: Claim) -> Iterator[tuple[str, Any, Any]]:
    """What the file records of the claim about reality, which data alone could vouch for."""
    own = claim.band
    if stated is None or own is None:
        yield "band", stated, own
        return
    yield from _known("band.", stated, _BAND_FIELDS)
    for field in ("alpha", "inside", "episodes", "rows"):
        yield f"band.{field}", stated[field], own[field]
    # By n episodes at most n / (n + 1) of what a quantile holds can be claimed of a new one.
    episodes = own["episodes"]
    enough = own["inside"] >= 1 - own["alpha"]
    held = (1 - own["alpha"]) * episodes / (episodes + 1)
    less = max(0.0, own["inside"] - 2 / (episodes + 1))
    yield "band.probability", stated["probability"], held if enough else less
    if stated["missed"] is not None:
        yield "band.missed", len(stated["missed"]), len(claim.schema.outputs)


def _claim_text(claim: Claim) -> str:
    if not claim.level.of_a_share:
        return MEANING.get(claim.evidence, claim.evidence)
    epsilon, beta = claim.epsilon, claim.beta
    if not (isinstance(epsilon, float) and isinstance(beta, float) and 1e-9 <= epsilon < 1 and 0 < beta < 1):
        raise ValueError(f"ε is {shown(epsilon)} and β {shown(beta)}")
    # Four times as many draws as the least, (1 - ε)^n <= β, and the most exceedances that leave a chance
    # of β.
    draws = 4 * math.ceil(math.log(beta) / math.log1p(-epsilon))
    return statistical_claim(epsilon, beta, draws, _allowed(draws, epsilon, beta), distribution_words(claim))


def _allowed(draws: int, epsilon: float, beta: float) -> int:
    """The largest k with P[Bin(n, ε) <= k] <= β; 0 where there is none."""
    below, allowed = 0.0, -1
    for k in range(draws + 1):
        log = math.lgamma(draws + 1) - math.lgamma(k + 1) - math.lgamma(draws - k + 1)
        below += math.exp(log + k * math.log(epsilon) + (draws - k) * math.log1p(-epsilon))
        if below > beta:
            break
        allowed = k
    return max(allowed, 0)


def _not_vouched(content: dict[str, Any]) -> Iterator[str]:
    """The fields that were measured on data, or are names, where they say something."""
    for field in _NOT_VOUCHED:
        if content.get(field) is not None:
            yield field
    for field in ("coverage_D", "coverage_omega"):
        if content["domain"][field] is not None:
            yield f"domain.{field}"
    for field in ("held_out", "lemma"):
        if any(entry[field] is not None for entry in content["deltas"]):
            yield f"deltas.{field}"
    if any((entry.get("remainder") or (None, None))[1] is not None for entry in content["deltas"]):
        yield "deltas.remainder[1]"
    if content.get("concerns"):
        yield "concerns"


def _same(stated: Any, own: Any) -> bool:
    """Equal, numbers up to the rounding of sums taken in another order."""
    if isinstance(own, float) and isinstance(stated, int | float) and not isinstance(stated, bool):
        return abs(stated) <= _LARGEST and math.isclose(stated, own, rel_tol=1e-12, abs_tol=0.0)
    if isinstance(own, list) and isinstance(stated, list):
        return len(own) == len(stated) and all(map(_same, stated, own))
    if isinstance(own, dict) and isinstance(stated, dict):
        return own.keys() == stated.keys() and all(_same(stated[key], own[key]) for key in own)
    return type(stated) is type(own) and stated == own
