"""What a model file claims, read from the file itself and checked for form.

Nothing is taken from the code that wrote it but the format: names of arrays, what its digest is of, and what
a file must hold to be read at all, so that `verify` speaks of no file that `load` refuses.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether.data import Array, Schema
from tether.files.modelfile import WHAT, check_format
from tether.foundation.documents import shorten, shown
from tether.foundation.errors import CertificateError, StorageError
from tether.verification.files import checked_arrays, digest_of, read_file
from tether.verification.levels import Level, level_of
from tether.verification.trees import Trees, read_trees

ROUNDOFF = 2.0**-53
"""Relative error of one float64 operation."""
HALF_TURN = float(np.nextafter(np.pi, 4.0))
"""The float64 number above π: no two angles are farther apart on the circle."""
_SMALL, _LARGE = 1e-100, 1e100
"""Sizes between which squares, and products of three numbers, neither overflow nor lose their precision."""

_GEOMETRY = {"memories": "KD", "scale": "D", "radii": "K", "box_lower": "D", "box_upper": "D"}
_SHAPES = {
    "interval": {"lower": "KP", "upper": "KP", "delta": "KP", "center": "KP"},
    "boxes": {
        "reference": "D", "value": "L", "slope": "LD", "remainder": "L", "half_width": "KP", "most": "P",
        "pinned": "D",
    },
}  # fmt: skip
_OPTIONAL = {"interval": {"lemma": "P"}, "boxes": {"curvature": "LQ", "pairs": "Q2"}}
_OVER = {"over.inputs": "RD", "over.lower": "D", "over.upper": "D", "over.columns": "D"}
_TREE = {"lower": "D", "upper": "D", "roots": "P", "cut": "V", "threshold": "V", "left": "V", "right": "V"}
_INFINITE = ("bounds.remainder", "bounds.most")
"""Where infinity says that nothing is claimed, or that nothing was asked for."""
_MOST_PLACES = 4096
_TEXTS = ("states", "controls", "outputs", "angles")


@dataclass(frozen=True, eq=False)
class Claim:
    """Everything a file says about its tether.

    Attributes:
        kind: `interval`, or `boxes` for models over leaves, of first or second order.
        evidence: how delta is said to be known.
        schema: what the columns mean.
        target: `next_state` or `increment`.
        arrays: by name, ``cells.*``, ``bounds.*`` and, of boxes, ``tree.*``.
        epsilon: for `statistical` evidence.
        beta: for `statistical` evidence.
        over: what is said of inputs that such evidence is over, where these are the user's own.
        trusted_digest: SHA-256 of the trusted model's source, where recorded.
        band: what was recorded of the statistical claim about reality, where there is one.
        why: what was recorded of why nothing stronger could be had of M.
    """

    kind: str
    evidence: str
    schema: Schema
    target: str
    arrays: dict[str, Array]
    epsilon: float | None
    beta: float | None
    trusted_digest: str | None
    band: dict[str, Any] | None = None
    why: str | None = None
    over: dict[str, Any] | None = None

    def cells(self, name: str) -> Array:
        """An array of the cells."""
        return self.arrays[f"cells.{name}"]

    def bounds(self, name: str) -> Array:
        """An array of the bounds."""
        return self.arrays[f"bounds.{name}"]

    def __len__(self) -> int:
        """How many cells the claim is about; of boxes, leaves."""
        return len(self.bounds("value") if self.kind == "boxes" else self.cells("memories"))

    @property
    def level(self) -> Level:
        """What its evidence is to whoever verifies it."""
        return level_of(self.evidence)

    @property
    def unit(self) -> str:
        """What the claim is about: `cells`, or `leaves`."""
        return "leaves" if self.kind == "boxes" else "cells"

    @cached_property
    def trees(self) -> Trees:
        """Of boxes: the tree of each output."""
        return read_trees(self.arrays)

    @cached_property
    def curvature(self) -> Array:
        """(L, Q) of boxes: of A, by pairs of inputs; no columns where no leaf is of second order."""
        return self.arrays.get("bounds.curvature", np.zeros((len(self), 0)))

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The Q pairs of inputs."""
        return [tuple(pair) for pair in self.arrays["bounds.pairs"].tolist()] if self.curvature.size else []

    @cached_property
    def curved(self) -> NDArray[np.bool_]:
        """(L,) of boxes: leaves of second order."""
        return (self.curvature != 0).any(axis=1)

    @cached_property
    def centre(self) -> Array:
        """(L, D) of boxes: where curvatures are counted from, the middle or what is pinned in the leaf."""
        return self.followed_from(self.trees.lower, self.trees.upper)

    def followed_from(self, low: Array, high: Array) -> Array:
        """(B, D) a point of each box: the middle, or the pinned values of a box that holds them all."""
        pinned = self.bounds("pinned")
        middle = np.clip(0.5 * low + 0.5 * high, low, high)
        free = np.isnan(pinned)
        held = np.logical_and.reduce(free | ((low <= pinned) & (pinned <= high)), axis=1)
        return np.where(held[:, None] & ~free, pinned, middle)

    @cached_property
    def claimed(self) -> NDArray[np.bool_]:
        """(L,) of boxes: leaves of which something is claimed."""
        return np.isfinite(self.bounds("remainder"))

    def in_domain(self, inputs: Array) -> NDArray[np.bool_]:
        """(N,) of boxes: whether something is claimed of every output at inputs (N, D) of the box."""
        return np.logical_and.reduce(self.claimed[self.trees.find(inputs)], axis=1)

    @cached_property
    def places(self) -> Array:
        """(N, D) inputs of the domain at which M is asked: memories, or middles of leaves."""
        if self.kind != "boxes":
            return self.centers
        trees = self.trees
        chosen = np.flatnonzero(self.claimed)
        chosen = chosen[np.unique(np.linspace(0, max(len(chosen) - 1, 0), _MOST_PLACES).astype(np.int64))]
        low, high = trees.lower[chosen], trees.upper[chosen]
        middles = np.clip(0.5 * low + 0.5 * high, low, high)
        return middles[self.in_domain(middles)]

    @property
    def box(self) -> tuple[Array, Array]:
        """(D,) the limits of the domain."""
        if self.kind == "boxes":
            return self.arrays["tree.lower"], self.arrays["tree.upper"]
        return self.cells("box_lower"), self.cells("box_upper")

    def output(self, number: int) -> str:
        """`output 'name'`, for a message."""
        return f"output {shown(self.schema.outputs[number])}"

    @property
    def centers(self) -> Array:
        """(K, D) memories in physical units, rounded as the model rounds them."""
        return self.cells("memories") * self.cells("scale")

    @property
    def delta(self) -> Array:
        """(K, P) distance to M that is claimed over each cell's coverage; (L,) of boxes, by leaf."""
        return self._leaf_delta if self.kind == "boxes" else self.bounds("delta")

    @property
    def _leaf_delta(self) -> Array:
        """(L,) anywhere in a leaf, were its room the largest there is; infinite where nothing is claimed."""
        output, claimed = self.trees.owner, self.claimed
        remainder = np.where(claimed, self.bounds("remainder"), 0.0)
        room = self.bounds("half_width").max(axis=0)[output]
        delta = remainder + np.minimum(np.maximum(self.bounds("most")[output] - remainder, 0.0), room)
        delta = np.where(self.schema.output_angles[output], np.minimum(delta, HALF_TURN), delta)
        return np.where(claimed, delta, np.inf)

    @property
    def reach(self) -> Array:
        """(K,) what the scaled distance of an accepted input from its cell's centre can be at most.

        An input s is accepted where its computed squared distance to the memory m is at most the computed
        square of the radius r. With u the roundoff: ``s / scale`` is off by u of itself in each coordinate,
        so by u |s / scale| in length; differences, squares, their sum over D inputs in whatever order and
        the square of r are off by a relative D + 4 roundings in the squares, half as many in the root; and
        ``memory * scale`` is off by u |m|. An accepted s has |s / scale| of at most |m| + r and some
        roundings, twice which is certainly enough. What underflows goes under in the last term: sizes are
        such (`check_form`) that no square of a radius does.
        """
        radii, inputs = self.cells("radii"), self.cells("memories").shape[1]
        size = np.sqrt((self.cells("memories") ** 2).sum(axis=1))
        relative = radii * (1 + (inputs + 8) * ROUNDOFF)
        return (relative + 4 * ROUNDOFF * (size + radii)) * (1 + 8 * ROUNDOFF) + 1e-150

    @property
    def base(self) -> Array:
        """(P,) the largest value of what is added to an increment; zeros where next states are bounded."""
        if self.target != "increment":
            return np.zeros(len(self.schema.outputs))
        extent = np.maximum(*map(np.abs, self.box))
        return np.where(self.schema.advanced >= 0, extent[self.schema.advanced], 0.0)


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
    if content.kind not in _SHAPES:
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
    return Claim(
        kind=metadata["kind"],
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
    wanted = {f"cells.{name}": axes for name, axes in _GEOMETRY.items()}
    wanted |= {f"bounds.{name}": axes for name, axes in _SHAPES[claim.kind].items()}
    wanted |= {f"tree.{name}": axes for name, axes in _TREE.items()} if claim.kind == "boxes" else {}
    optional = {f"bounds.{name}": axes for name, axes in _OPTIONAL[claim.kind].items()} | _OVER
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


def check_form(claim: Claim) -> None:
    """Refuses numbers that cannot be bounds, or whose squares overflow or vanish, naming cell and output."""
    for name, values in claim.arrays.items():
        fine = np.abs(values) <= _LARGE
        if name == "bounds.pinned":
            fine = fine | np.isnan(values)
        if claim.kind == "boxes" and name in _INFINITE:
            fine = fine | (values == np.inf)
        _require(fine, f"`{name}` must be finite and at most {_LARGE:g}", claim)
    for name in ("scale", "radii"):
        _require(claim.cells(name) >= _SMALL, f"`cells.{name}` must be at least {_SMALL:g}", claim)
    _require(np.abs(claim.centers) <= _LARGE, f"the memories must be at most {_LARGE:g}", claim)
    _require(claim.cells("box_lower") <= claim.cells("box_upper"), "the domain box must not be empty", claim)
    if claim.target == "increment" and min(claim.schema.advances) < 0:
        raise CertificateError("not verified: an increment must be of an output that advances a state.")
    {"interval": _check_interval, "boxes": _check_boxes}[claim.kind](claim)


def _check_interval(claim: Claim) -> None:
    _require(claim.bounds("delta") >= 0, "`bounds.delta` must be at least 0", claim)
    _require(claim.bounds("lower") <= claim.bounds("upper"), "`lower` must be at most `upper`", claim)


def _check_boxes(claim: Claim) -> None:
    for name in ("remainder", "half_width", "most"):
        _require(claim.bounds(name) >= 0, f"`bounds.{name}` must be at least 0", claim)
    if len(claim.trees.owner) != len(claim):
        raise CertificateError("not verified: `bounds.value` must have one number for each leaf.")
    if "bounds.curvature" in claim.arrays or "bounds.pairs" in claim.arrays:
        _check_curvature(claim)
    known = np.bincount(claim.trees.owner[claim.claimed], minlength=len(claim.schema.outputs)) > 0
    if not known.all():
        name = claim.output(int(np.argmin(known)))
        raise CertificateError(f"not verified: {name}: nothing is claimed; every remainder is infinite.")
    if not len(claim.places):
        raise CertificateError("not verified: nothing is claimed of all outputs in the middle of any leaf.")


def _check_curvature(claim: Claim) -> None:
    for name in ("curvature", "pairs"):
        if f"bounds.{name}" not in claim.arrays:
            raise CertificateError(
                f"not verified: `bounds.{name}` must be there, where the other of both is."
            )
    if not claim.level.by_code:
        raise CertificateError(
            f"not verified: leaves of second order must be proved; the evidence is {shown(claim.evidence)}."
        )
    pairs, inputs = claim.pairs, len(claim.schema.inputs)
    fine = all(0 <= i <= j < inputs for i, j in pairs) and len(set(pairs)) == len(pairs)
    if not fine or len(pairs) != claim.curvature.shape[1]:
        raise CertificateError("not verified: `bounds.pairs` must be inputs, ascending, each pair once.")


def _require(holds: np.ndarray, rule: str, claim: Claim) -> None:
    if holds.all():
        return
    place = np.argwhere(~holds)[0]
    unit = "leaf" if claim.kind == "boxes" else "cell"
    names = f"{unit} {place[0]}" if len(holds) == len(claim) else f"input {place[0]}"
    if holds.ndim > 1 and holds.shape[-1] == len(claim.schema.outputs):
        names += f", {claim.output(place[-1])}"
    raise CertificateError(f"not verified: {names}: {rule}.")
