"""What a model file claims, read from the file itself and checked for form.

Nothing is taken from the code that wrote it but the format: names of arrays, and what its digest is of.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, deserialize, safe_open

from tether.data import Array, Schema
from tether.errors import CertificateError, StorageError

ROUNDOFF = 2.0**-53
"""Relative error of one float64 operation."""

_FORMAT, _VERSION = "tether-model", 1
_TORCH_NAMES = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64",
    "F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64",
}  # fmt: skip
_GEOMETRY = {"memories": "KD", "scale": "D", "radii": "K", "box_lower": "D", "box_upper": "D"}
_SHAPES = {
    "interval": {"lower": "KP", "upper": "KP", "delta": "KP", "center": "KP"},
    "affine": {
        "center": "KP", "jacobian": "KPD", "radii": "KL", "slopes": "KLP", "offset": "KP", "half_width": "KP",
    },
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Claim:
    """Everything a file says about its tether.

    Attributes:
        kind: `interval` or `affine`.
        evidence: how delta is said to be known.
        schema: what the columns mean.
        target: `next_state` or `increment`.
        arrays: by name, ``cells.*`` and ``bounds.*``.
        epsilon: for `statistical` evidence.
        beta: for `statistical` evidence.
        blend: how many neighbouring cells are blended.
        trusted_digest: SHA-256 of the trusted model's source, where recorded.
    """

    kind: str
    evidence: str
    schema: Schema
    target: str
    arrays: dict[str, Array]
    epsilon: float | None
    beta: float | None
    blend: int
    trusted_digest: str | None

    def cells(self, name: str) -> Array:
        """An array of the cells."""
        return self.arrays[f"cells.{name}"]

    def bounds(self, name: str) -> Array:
        """An array of the bounds."""
        return self.arrays[f"bounds.{name}"]

    def __len__(self) -> int:
        return len(self.cells("memories"))

    @property
    def centers(self) -> Array:
        """(K, D) memories in physical units, rounded as the model rounds them."""
        return self.cells("memories") * self.cells("scale")

    @property
    def delta(self) -> Array:
        """(K, P) distance to M that is claimed, at the rim of each cell's coverage."""
        if self.kind == "interval":
            return self.bounds("delta")
        rim = self.bounds("slopes")[:, -1] * self.bounds("radii")[:, -1:] + self.bounds("offset")
        return self.bounds("half_width") + rim

    @property
    def reach(self) -> Array:
        """(K,) what the scaled distance of an accepted input from its cell's centre can be at most.

        An input s is accepted where its computed squared distance to the memory m is at most the computed
        square of the radius r. With u the roundoff: ``s / scale`` is off by u of itself in each coordinate,
        so by u |s / scale| in length; differences, squares, their sum over D inputs in whatever order and
        the square of r are off by a relative D + 4 roundings in the squares, half as many in the root; and
        ``memory * scale`` is off by u |m|. An accepted s has |s / scale| of at most |m| + r and some
        roundings, twice which is certainly enough. A denormal number or two go under in the last term.
        """
        radii, inputs = self.cells("radii"), self.cells("memories").shape[1]
        size = np.sqrt((self.cells("memories") ** 2).sum(axis=1))
        relative = radii * (1 + (inputs + 8) * ROUNDOFF)
        return relative + 4 * ROUNDOFF * (size + radii) + 1e-150

    @property
    def base(self) -> Array:
        """(P,) the largest value of what is added to an increment; zeros where next states are bounded."""
        if self.target != "increment":
            return np.zeros(len(self.schema.outputs))
        extent = np.maximum(np.abs(self.cells("box_lower")), np.abs(self.cells("box_upper")))
        return np.where(self.schema.advanced >= 0, extent[self.schema.advanced], 0.0)


def read_claim(path: Path) -> Claim:
    """The claim of a model file.

    Raises:
        StorageError: it is not a complete model file.
        ValueError: it holds a model without a tether.
        CertificateError: its digest is not its own, or its numbers cannot be bounds.
    """
    tensors, metadata = _read(path)
    if metadata.get("format") != _FORMAT or metadata.get("format_version") != _VERSION:
        raise StorageError(
            f"`{path}` must be a Tether model of format version {_VERSION}; got "
            f"{metadata.get('format')!r}, version {metadata.get('format_version')!r}."
        )
    stated = metadata.pop("digest", None)
    if stated != _digest(tensors, metadata):
        raise CertificateError(
            f"not verified: the digest of `{path}` is not that of its contents; the file was changed."
        )
    if metadata.get("kind") == "monotone":
        raise ValueError(
            f"`{path}` must have interval or affine bounds to be verified; this one is monotone by "
            "construction. Its claim is proved by an argument whose premises `tether certify` checks."
        )
    if metadata.get("kind") not in _SHAPES:
        raise ValueError(f"`{path}` must be a constrained model; this one has no tether to verify.")
    try:
        claim = _build(tensors, metadata)
    except (KeyError, TypeError, ValueError) as error:
        raise StorageError(f"`{path}` must be a complete Tether model; {error}.") from None
    _check_shapes(path, claim)
    check_form(claim)
    return claim


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    if not path.is_file():
        raise StorageError(f"`{path}` must be a file; there is none. Check the path.")
    try:
        with safe_open(path, framework="np") as file:
            metadata = {key: json.loads(value) for key, value in (file.metadata() or {}).items()}
        return dict(deserialize(path.read_bytes())), metadata
    except (SafetensorError, json.JSONDecodeError, OSError) as error:
        raise StorageError(
            f"`{path}` must be a safetensors file written by Tether; it cannot be read ({error})."
        ) from None


def _digest(tensors: dict[str, Any], metadata: dict[str, Any]) -> str:
    """SHA-256 of the metadata as sorted JSON, then of name, type, shape and bytes of every tensor."""
    digest = hashlib.sha256(json.dumps(metadata, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        kind = _TORCH_NAMES.get(tensor["dtype"], tensor["dtype"])
        digest.update(f"{name}torch.{kind}{tuple(tensor['shape'])}".encode())
        digest.update(bytes(tensor["data"]))
    return digest.hexdigest()


def _build(tensors: dict[str, Any], metadata: dict[str, Any]) -> Claim:
    arrays = {}
    for name, tensor in tensors.items():
        if name.startswith(("cells.", "bounds.")) and tensor["dtype"] == "F64":
            arrays[name] = np.frombuffer(tensor["data"], dtype="<f8").reshape(tensor["shape"])
    fields: dict[str, Any] = metadata["schema"]
    fields = {key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()}
    schema = Schema(**fields)
    if metadata["target"] not in ("next_state", "increment"):
        raise ValueError(f"its target is {metadata['target']!r}")
    return Claim(
        kind=metadata["kind"],
        evidence=metadata["evidence"],
        schema=schema,
        target=metadata["target"],
        arrays=arrays,
        epsilon=metadata.get("epsilon"),
        beta=metadata.get("beta"),
        blend=int(metadata.get("blend", 0)),
        trusted_digest=(metadata.get("record") or {}).get("trusted_source_sha256"),
    )


def _check_shapes(path: Path, claim: Claim) -> None:
    sizes = {"D": len(claim.schema.inputs), "P": len(claim.schema.outputs)}
    wanted = {f"cells.{name}": axes for name, axes in _GEOMETRY.items()}
    wanted |= {f"bounds.{name}": axes for name, axes in _SHAPES[claim.kind].items()}
    for name, axes in wanted.items():
        if name not in claim.arrays:
            raise StorageError(f"`{path}` must be a complete Tether model; `{name}` is missing.")
        shape = claim.arrays[name].shape
        for axis, size in zip(axes, shape, strict=False):
            sizes.setdefault(axis, size)
        if shape != tuple(sizes[axis] for axis in axes) or 0 in shape:
            raise StorageError(f"`{path}` must be a complete Tether model; `{name}` has shape {shape}.")


def check_form(claim: Claim) -> None:
    """Refuses numbers that cannot be bounds, naming cell and output."""
    for name, values in claim.arrays.items():
        if name != "bounds.pinned":
            _require(np.isfinite(values), f"`{name}` must be finite", claim)
    for name in ("scale", "radii"):
        _require(claim.cells(name) > 0, f"`cells.{name}` must be positive", claim)
    _require(claim.cells("box_lower") <= claim.cells("box_upper"), "the domain box must not be empty", claim)
    if claim.kind == "interval":
        _require(claim.bounds("delta") >= 0, "`bounds.delta` must be at least 0", claim)
        _require(claim.bounds("lower") <= claim.bounds("upper"), "`lower` must be at most `upper`", claim)
        return
    for name in ("slopes", "offset", "half_width"):
        _require(claim.bounds(name) >= 0, f"`bounds.{name}` must be at least 0", claim)
    radii = claim.bounds("radii")
    rising = np.concatenate([radii[:, :1] > 0, np.diff(radii, axis=1) > 0], axis=1)
    _require(rising, "`bounds.radii` must be positive and ascending", claim)
    # In the model, delta is that of the computed distance plus what the last radius has over the coverage
    # radius: that must be enough for the roundings of the distance, too.
    enough = radii[:, -1] >= claim.reach
    _require(enough, "the last shell must reach every input that is accepted, roundings included", claim)


def _require(holds: np.ndarray, rule: str, claim: Claim) -> None:
    if holds.all():
        return
    place = np.argwhere(~holds)[0]
    names = f"cell {place[0]}" if len(holds) == len(claim) else f"input {place[0]}"
    if holds.ndim > 1 and holds.shape[-1] == len(claim.schema.outputs):
        names += f", output '{claim.schema.outputs[place[-1]]}'"
    raise CertificateError(f"not verified: {names}: {rule}.")
