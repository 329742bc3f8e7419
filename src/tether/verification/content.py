"""What a model file holds, read from the file itself, and the claim that it makes.

Nothing is taken from the code that wrote it but the format: names of arrays, what its digest is of, and what
a file must hold to be read at all, so that `verify` speaks of no file that `load` refuses.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tether.data import Array, Schema
from tether.files.modelfile import WHAT, check_format
from tether.foundation.documents import shorten, shown
from tether.foundation.errors import CertificateError, StorageError
from tether.verification.cellclaims import CellClaim
from tether.verification.claim import Claim, check_form
from tether.verification.files import checked_arrays, digest_of, read_file
from tether.verification.leafclaims import LeafClaim

_KINDS: dict[str, type[Claim]] = {"interval": CellClaim, "boxes": LeafClaim}
"""By what a file says its tether is: the one place where that is asked."""
_GEOMETRY = {f"cells.{name}": axes for name, axes in {"memories": "KD", "scale": "D", "radii": "K"}.items()}
_GEOMETRY |= {"cells.box_lower": "D", "cells.box_upper": "D"}
_OVER = {"over.inputs": "RD", "over.lower": "D", "over.upper": "D", "over.columns": "D"}
_TEXTS = ("states", "controls", "outputs", "angles")


@dataclass(frozen=True, eq=False)
class Content:
    """What a model file holds.

    Attributes:
        path: of the file.
        arrays: by name.
        words: its metadata, as the format wants them.
        weights: tensors of the network, as bytes with their shapes.
    """

    path: Path
    arrays: dict[str, Array]
    words: dict[str, Any]
    weights: dict[str, Any]

    @property
    def kind(self) -> str:
        """What tether it has."""
        return self.words["kind"]

    @property
    def trusted_digest(self) -> str | None:
        """SHA-256 of the trusted model's source, where recorded."""
        return (self.words.get("record") or {}).get("trusted_source_sha256")

    @property
    def schema(self) -> Schema:
        """What the columns mean."""
        try:
            return _schema(self.words["schema"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise StorageError(f"`{self.path}` must be {WHAT}; {shorten(error)}.") from None


def read_content(path: Path) -> Content:
    """A model file that `load` would read, of whatever kind.

    Raises:
        StorageError: it is not a complete model file.
        CertificateError: its digest is not its own.
    """
    tensors, metadata = read_file(path)
    check_format(path, metadata)
    stated = metadata.pop("digest", None)
    if stated != digest_of(tensors, metadata):
        raise CertificateError(
            f"not verified: the digest of `{path}` is not that of its contents; the file was changed."
        )
    weights = {name: tensor for name, tensor in tensors.items() if name.startswith("network.")}
    return Content(path, checked_arrays(path, tensors, metadata), metadata, weights)


def claim_of(content: Content) -> Claim:
    """What a file with bounds by cell or leaf claims.

    Raises:
        StorageError: it is not a complete model file.
        ValueError: it holds a model without a tether.
        CertificateError: its numbers cannot be bounds.
    """
    path = content.path
    if content.kind not in _KINDS:
        raise ValueError(f"`{path}` must be a constrained model; this one has no tether to verify.")
    try:
        claim = _build(content.arrays, content.words)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StorageError(f"`{path}` must be {WHAT}; {shorten(error)}.") from None
    _check_shapes(path, claim)
    check_form(claim)
    return claim


def _build(held: dict[str, Array], metadata: dict[str, Any]) -> Claim:
    own = ("cells.", "bounds.", "tree.", "over.")
    arrays = {name: values for name, values in held.items() if name.startswith(own) and name != "cells.edges"}
    record = metadata.get("record") or {}
    digest = record.get("trusted_source_sha256") if isinstance(record, dict) else 0
    if not isinstance(digest, str | None):
        raise ValueError("its record is not one")
    if metadata["target"] not in ("next_state", "increment"):
        raise ValueError(f"its target is {shown(metadata['target'])}")
    if not isinstance(metadata["evidence"], str):
        raise ValueError(f"its evidence is {shown(metadata['evidence'])}")
    return _KINDS[metadata["kind"]](
        evidence=metadata["evidence"],
        schema=_schema(metadata["schema"]),
        target=metadata["target"],
        arrays=arrays,
        epsilon=metadata.get("epsilon"),
        beta=metadata.get("beta"),
        trusted_digest=digest,
        band=record.get("band"),
        why=record.get("why"),
        over=metadata.get("over"),
    )


def _schema(fields: Any) -> Schema:
    for name in _TEXTS:
        if not isinstance(fields[name], list) or not all(isinstance(text, str) for text in fields[name]):
            raise ValueError(f"`{name}` of its schema are not names")
    advances, units = fields["advances"], fields["units"]
    if not isinstance(advances, list) or not all(type(k) is int for k in advances):
        raise ValueError("`advances` of its schema are not whole numbers")
    if not isinstance(units, dict) or not all(isinstance(unit, str) for unit in units.values()):
        raise ValueError("`units` of its schema are not texts")
    if set(fields) != {*_TEXTS, "advances", "units"}:
        raise ValueError(f"its schema has {shown(sorted(fields))}")
    texts = {name: tuple(fields[name]) for name in _TEXTS}
    return Schema(**texts, units=units, advances=tuple(advances))


def _check_shapes(path: Path, claim: Claim) -> None:
    sizes = {"D": len(claim.schema.inputs), "P": len(claim.schema.outputs), "2": 2}
    wanted, optional = _GEOMETRY | claim.shapes, claim.optional | _OVER
    for name, axes in (wanted | optional).items():
        if name in optional and name not in claim.arrays:
            continue
        if name not in claim.arrays:
            raise StorageError(f"`{path}` must be a complete Tether model; `{name}` is missing.")
        shape = claim.arrays[name].shape
        for axis, size in zip(axes, shape, strict=False):
            sizes.setdefault(axis, size)
        if len(shape) != len(axes) or shape != tuple(sizes[axis] for axis in axes) or 0 in shape:
            raise StorageError(f"`{path}` must be a complete Tether model; `{name}` has shape {shape}.")
    unknown = sorted(set(claim.arrays) - set(wanted) - set(optional))
    if unknown:
        raise StorageError(f"`{path}` must be a Tether model; it has `{unknown[0]}`, which no model has.")
