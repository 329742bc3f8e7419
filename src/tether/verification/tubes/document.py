"""What a tube's file must hold to be looked at, and of which model it is."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from tether.foundation import documents as what
from tether.foundation.errors import CertificateError
from tether.verification.claim import Claim
from tether.verification.leafclaims import LeafClaim

WHAT = "a tube written by Tether"
_DIGESTED = ("reference", "value", "slope", "remainder", "half_width", "most", "pinned")
_TREE = ("lower", "upper", "roots", "cut", "threshold", "left", "right")
_COLUMNS = ("states", "controls", "outputs", "angles", "advances")

_numbers = what.items(what.number)
_matrix = what.items(_numbers)
_PART = what.record(
    {
        "sets": what.items(what.record({"center": _numbers, "generators": _matrix})),
        "moves": what.items(
            what.record(
                {
                    "kept": what.items(what.whole()),
                    "point": _numbers,
                    "turns": _numbers,
                    "value": _numbers,
                    "slope": _matrix,
                }
            )
        ),
    }
)
_ROW = what.record(
    {"lower": _matrix, "upper": _matrix, "ended": what.maybe(what.whole()), "parts": what.items(_PART)}
)
DOCUMENT = what.record(
    {
        "format": what.one_of("tether tube"),
        "version": what.whole(1, 1),
        "evidence": what.text,
        "weights": what.maybe(what.text),
        "schema": what.plain,
        "about": what.mapping(what.maybe(what.text)),
        "steps": what.whole(1),
        "start": what.record({"lower": _matrix, "upper": _matrix}),
        "controls": what.record({"kind": what.one_of("box", "feedback")}),
        "starts": what.items(_ROW),
        "system": what.plain,
    }
)


def check_beside(content: dict[str, Any], beside: dict[str, Any]) -> None:
    """It must be for any weights, of the same starts and controls, and stand for itself."""
    same = all(content[name] == beside[name] for name in ("about", "steps", "start", "controls"))
    same = same and content.get("carried") == beside.get("carried")
    alone = beside["weights"] is None and beside.get("beside") is None
    require(same and alone, "the tube beside it must be for any weights, from the same starts")
    require(len(beside["starts"]) == len(content["starts"]), "the tube beside it must have as many starts")


def model_file(path: Path, content: dict[str, Any], given: str | Path | None) -> Path:
    """The one that is given, or else where the tube says it is."""
    named = content["about"].get("model")
    if given is None and named is None:
        raise ValueError(f"`{path}` must say which model it is of; it does not. Name it with `--model`.")
    place = path.parent / str(named) if given is None else Path(given)
    return place / "model.safetensors" if place.is_dir() else place


def recognise(claim: Claim, content: dict[str, Any], place: Path) -> LeafClaim:
    """The tube must be of this very tether, and speak of it as the model file does."""
    if not isinstance(claim, LeafClaim):
        raise CertificateError("not verified: tubes of models with a box tree alone are shown again.")
    schema = claim.schema
    means = {name: list(getattr(schema, name)) for name in _COLUMNS} | {"units": dict(schema.units)}
    require(content["schema"] == means, f"its columns must be those of `{place}`")
    known = "proved" if claim.level.by_code else "construction"
    require(content["evidence"] == known, f"its evidence must be `{known}`, by that of `{place}`")
    digest = hashlib.sha256()
    parts = [claim.arrays[f"tree.{name}"] for name in _TREE] + [claim.bounds(name) for name in _DIGESTED]
    parts += [claim.curvature, np.array(claim.pairs, dtype=np.int64)]
    for part in (*parts, claim.cells("memories"), claim.cells("scale")):
        digest.update(np.ascontiguousarray(part).tobytes())
    if digest.hexdigest() != content["about"].get("tether"):
        raise CertificateError(f"not verified: the tube is not of the tether in `{place}`.")
    return claim


def require(holds: bool | np.bool_, rule: str) -> None:
    """Raises unless something holds.

    Raises:
        CertificateError: it does not, by this rule.
    """
    if not holds:
        raise CertificateError(f"not verified: {rule}.")
