"""A written certificate against the model file it is about."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from tether.errors import CertificateError, StorageError
from tether.verification.claim import Claim

_OPENINGS = {
    "proved": "PROVED:",
    "lipschitz": "GUARANTEED IF",
    "statistical": "STATISTICAL:",
    "sampled": "ESTIMATE, not a guarantee:",
}


def check_certificate(path: Path, claim: Claim) -> None:
    """Raises, naming the field, where a certificate says anything else than the model file."""
    try:
        content = json.loads(path.read_text())
        pairs = list(_pairs(content, claim))
    except OSError as error:
        raise StorageError(f"`{path}` must be readable; {error.strerror or error}.") from None
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise StorageError(f"`{path}` must be a Tether certificate; {error!r}.") from None
    for field, stated, own in pairs:
        if not _same(stated, own):
            raise CertificateError(
                f"not verified: `{field}` of `{path.name}` is {stated!r}, and by the model file {own!r}."
            )


def _pairs(content: dict[str, Any], claim: Claim) -> Any:
    """Field, what the certificate says, what follows from the model file."""
    evidence = claim.evidence
    yield "evidence", content["evidence"], evidence
    yield "certified", content["certified"], evidence != "sampled"
    opening = _OPENINGS.get(evidence, evidence)
    yield "claim", content["claim"][: len(opening)], opening
    for word in ("epsilon", "beta") if evidence == "statistical" else ():
        number = f"{getattr(claim, word):g}"
        yield "claim", number if number in content["claim"] else content["claim"], number
    if claim.trusted_digest is not None:
        yield "trusted_source_sha256", content["trusted_source_sha256"], claim.trusted_digest
    yield "domain.radius", content["domain"]["radius"], _ends(claim.cells("radii"))
    limits = zip(claim.cells("box_lower").tolist(), claim.cells("box_upper").tolist(), strict=True)
    yield (
        "domain.box",
        content["domain"]["box"],
        dict(zip(claim.schema.inputs, map(list, limits), strict=True)),
    )
    yield "deltas", [entry["name"] for entry in content["deltas"]], list(claim.schema.outputs)
    for output, entry in enumerate(content["deltas"]):
        yield from _output_pairs(entry, claim, output)


def _output_pairs(entry: dict[str, Any], claim: Claim, output: int) -> Any:
    name, delta = claim.schema.outputs[output], claim.delta[:, output]
    yield f"deltas['{name}'].unit", entry["unit"], claim.schema.units.get(name, "")
    yield f"deltas['{name}'].median", entry["median"], float(np.median(delta))
    largest = float(delta.max())
    if claim.evidence == "sampled":  # an estimate is raised to what later points showed
        largest = max(largest, entry["maximum"])
    yield f"deltas['{name}'].maximum", entry["maximum"], largest
    lemma = claim.arrays.get("bounds.lemma")
    yield f"deltas['{name}'].lemma", entry.get("lemma"), None if lemma is None else float(lemma[output])
    worst = entry.get("worst_cells", [])
    yield (
        f"deltas['{name}'].worst_cells",
        [float(delta[k]) for k in worst],
        np.sort(delta)[::-1][: len(worst)].tolist(),
    )


def _ends(values: np.ndarray) -> list[float]:
    return [float(values.min()), float(values.max())]


def _same(stated: Any, own: Any) -> bool:
    """Equal, numbers up to the rounding of sums taken in another order."""
    if isinstance(own, float) and isinstance(stated, int | float) and not isinstance(stated, bool):
        return math.isclose(stated, own, rel_tol=1e-12, abs_tol=0.0)
    if isinstance(own, list) and isinstance(stated, list):
        return len(own) == len(stated) and all(map(_same, stated, own))
    if isinstance(own, dict) and isinstance(stated, dict):
        return own.keys() == stated.keys() and all(_same(stated[key], own[key]) for key in own)
    return type(stated) is type(own) and stated == own
