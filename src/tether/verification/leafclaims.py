"""What a model file claims over leaves of trees: an A of first or second order, and how far M is from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from tether.data import Array
from tether.foundation.documents import shown
from tether.foundation.errors import CertificateError
from tether.verification.claim import HALF_TURN, Claim, Limits, require
from tether.verification.trees import Trees, read_trees

if TYPE_CHECKING:
    from tether.trusted import TrustedModel
    from tether.verification.tracing import Program

_MOST_PLACES = 4096
_PINNED_REACH = 0.05  # as the format has it: where a pinned tether is fully open
_BOUNDS = {
    "reference": "D", "value": "L", "slope": "LD", "remainder": "L", "half_width": "KP", "most": "P",
    "pinned": "D",
}  # fmt: skip
_TREE = {"lower": "D", "upper": "D", "roots": "P", "cut": "V", "threshold": "V", "left": "V", "right": "V"}


@final
@dataclass(frozen=True, eq=False)
class LeafClaim(Claim):
    """Of each of L leaves, an A for the output that it belongs to."""

    one: ClassVar[str] = "leaf"
    unit: ClassVar[str] = "leaves"
    distribution: ClassVar[str] = "boxes"
    shapes: ClassVar[dict[str, str]] = {f"bounds.{name}": axes for name, axes in _BOUNDS.items()} | {
        f"tree.{name}": axes for name, axes in _TREE.items()
    }
    optional: ClassVar[dict[str, str]] = {"bounds.curvature": "LQ", "bounds.pairs": "Q2"}
    infinite: ClassVar[tuple[str, ...]] = ("bounds.remainder", "bounds.most")
    """Where infinity says that nothing is claimed, or that nothing was asked for."""

    def __len__(self) -> int:
        return len(self.bounds("value"))

    def check_form(self) -> None:
        """Trees, numbers that can be, and something that is claimed."""
        for name in ("remainder", "half_width", "most"):
            require(self.bounds(name) >= 0, f"`bounds.{name}` must be at least 0", self)
        if len(self.trees.owner) != len(self):
            raise CertificateError("not verified: `bounds.value` must have one number for each leaf.")
        if "bounds.curvature" in self.arrays or "bounds.pairs" in self.arrays:
            self._check_curvature()
        known = np.bincount(self.trees.owner[self.claimed], minlength=len(self.schema.outputs)) > 0
        if not known.all():
            name = self.output(int(np.argmin(known)))
            raise CertificateError(f"not verified: {name}: nothing is claimed; every remainder is infinite.")
        if not len(self.places):
            raise CertificateError(
                "not verified: nothing is claimed of all outputs in the middle of any leaf."
            )

    def _check_curvature(self) -> None:
        for name in ("curvature", "pairs"):
            if f"bounds.{name}" not in self.arrays:
                raise CertificateError(
                    f"not verified: `bounds.{name}` must be there, where the other of both is."
                )
        if not self.level.by_code:
            known = shown(self.evidence)
            raise CertificateError(
                f"not verified: leaves of second order must be proved; the evidence is {known}."
            )
        pairs, inputs = self.pairs, len(self.schema.inputs)
        fine = all(0 <= i <= j < inputs for i, j in pairs) and len(set(pairs)) == len(pairs)
        if not fine or len(pairs) != self.curvature.shape[1]:
            raise CertificateError("not verified: `bounds.pairs` must be inputs, ascending, each pair once.")

    # --- leaves and their A

    @cached_property
    def trees(self) -> Trees:
        """The tree of each output."""
        return read_trees(self.arrays)

    @cached_property
    def claimed(self) -> NDArray[np.bool_]:
        """(L,) leaves of which something is claimed."""
        return np.isfinite(self.bounds("remainder"))

    @cached_property
    def curvature(self) -> Array:
        """(L, Q) of A, by pairs of inputs; no columns where no leaf is of second order."""
        return self.arrays.get("bounds.curvature", np.zeros((len(self), 0)))

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The Q pairs of inputs."""
        return [tuple(pair) for pair in self.arrays["bounds.pairs"].tolist()] if self.curvature.size else []

    @cached_property
    def curved(self) -> NDArray[np.bool_]:
        """(L,) leaves of second order."""
        return (self.curvature != 0).any(axis=1)

    @cached_property
    def centre(self) -> Array:
        """(L, D) where curvatures are counted from, the middle or what is pinned in the leaf."""
        return self.followed_from(self.trees.lower, self.trees.upper)

    def followed_from(self, low: Array, high: Array) -> Array:
        """(B, D) a point of each box: the middle, or the pinned values of a box that holds them all."""
        pinned = self.bounds("pinned")
        middle = np.clip(0.5 * low + 0.5 * high, low, high)
        free = np.isnan(pinned)
        held = np.logical_and.reduce(free | ((low <= pinned) & (pinned <= high)), axis=1)
        return np.where(held[:, None] & ~free, pinned, middle)

    # --- where something is claimed

    @property
    def box(self) -> tuple[Array, Array]:
        """(D,) what the trees cut."""
        return self.arrays["tree.lower"], self.arrays["tree.upper"]

    @property
    def places(self) -> Array:
        """(N, D) middles of leaves, where something is claimed of every output."""
        return self._middles

    @cached_property
    def _middles(self) -> Array:
        trees = self.trees
        chosen = np.flatnonzero(self.claimed)
        chosen = chosen[np.unique(np.linspace(0, max(len(chosen) - 1, 0), _MOST_PLACES).astype(np.int64))]
        low, high = trees.lower[chosen], trees.upper[chosen]
        middles = np.clip(0.5 * low + 0.5 * high, low, high)
        return middles[self._claimed_at(middles)]

    def _claimed_at(self, inputs: Array) -> NDArray[np.bool_]:
        """(N,) whether something is claimed of every output at inputs (N, D) of the box."""
        return np.logical_and.reduce(self.claimed[self.trees.find(inputs)], axis=1)

    def holds(self, inputs: Array, squared: Array) -> NDArray[np.bool_]:
        """(N,) whether something is claimed of every output."""
        return self._claimed_at(inputs)

    def tried(self, count: int, rng: np.random.Generator) -> Array:
        """(N, D) in leaves, where something is claimed of every output."""
        inputs = len(self.schema.inputs)
        leaf = rng.choice(np.flatnonzero(self.claimed), count)
        low, high = self.trees.lower[leaf], self.trees.upper[leaf]
        points = np.clip(low + rng.random((count, inputs)) * (high - low), low, high)
        return points[self._claimed_at(points)]

    def spread(self, inputs: Array, rng: np.random.Generator) -> Array:
        """(N, D) half of them anywhere in the box."""
        anywhere = self.box[0] + rng.random(inputs.shape) * (self.box[1] - self.box[0])
        return np.where(rng.random((len(inputs), 1)) < 0.5, anywhere, inputs)

    # --- what is claimed

    def limits(self, inputs: Array, nearest: NDArray[np.int64]) -> Limits:
        """A of each output's leaf, plus and minus what is open of the nearest memory's half-width."""
        leaf = self.trees.find(inputs)
        slope, remainder = self.bounds("slope")[leaf], self.bounds("remainder")[leaf]
        way = inputs - self.bounds("reference")
        anchor = self.bounds("value")[leaf] + (way[:, None] * slope).sum(axis=2)
        width = self.bounds("half_width")[nearest] * self._opening(inputs)[:, None]
        width = np.minimum(width, np.maximum(self.bounds("most") - remainder, 0.0))
        delta = remainder + width
        circle = np.where(self.schema.output_angles, np.minimum(delta, HALF_TURN), delta)
        return Limits(anchor - width, anchor + width, circle)

    def _opening(self, inputs: Array) -> Array:
        """(N,) share of the half-width that is open: none where all probes agree on the inputs."""
        pinned = self.bounds("pinned")
        if np.isnan(pinned).all():
            return np.ones(len(inputs))
        columns = ~np.isnan(pinned)
        away = np.abs(inputs[:, columns] - pinned[columns]) / self.cells("scale")[columns]
        return np.minimum(away.max(axis=1) / _PINNED_REACH, 1.0) ** 2

    def parts(self, output: int) -> NDArray[np.int64]:
        """(N,) its leaves of which something is claimed."""
        return np.flatnonzero((self.trees.owner == output) & self.claimed)

    def delta_of(self, output: int) -> Array:
        """(N,) anywhere in each leaf."""
        return self.delta[self.parts(output)]

    @cached_property
    def delta(self) -> Array:
        """(L,) anywhere in a leaf, were its room the largest there is; infinite where nothing is claimed."""
        output, claimed = self.trees.owner, self.claimed
        remainder = np.where(claimed, self.bounds("remainder"), 0.0)
        room = self.bounds("half_width").max(axis=0)[output]
        delta = remainder + np.minimum(np.maximum(self.bounds("most")[output] - remainder, 0.0), room)
        delta = np.where(self.schema.output_angles[output], np.minimum(delta, HALF_TURN), delta)
        return np.where(claimed, delta, np.inf)

    def single_delta(self) -> Array | None:
        """(P,) of the leaves as float32 has them."""
        from tether.verification.float32leaves import largest_delta

        return largest_delta(self)

    @property
    def radius(self) -> list[float] | None:
        """None: leaves are boxes."""
        return None

    @property
    def share(self) -> float | None:
        """Of the box, by volume, outside leaves of which nothing is claimed."""
        extent = self.box[1] - self.box[0]
        sides = (self.trees.upper - self.trees.lower)[~self.claimed] / np.where(extent > 0, extent, 1.0)
        return float(1 - min(1.0, np.where(extent > 0, sides, 1.0).prod(axis=1).sum()))

    def remainder(self, output: int) -> float | None:
        """The largest of its leaves."""
        return float(self.bounds("remainder")[self.parts(output)].max())

    @property
    def left_out(self) -> str:
        """Leaves of which nothing is claimed."""
        if self.claimed.all():
            return ""
        return f" Of {int((~self.claimed).sum())} of these leaves nothing is claimed."

    # --- whether it is so

    def compare(self, trusted: TrustedModel) -> None:
        """A file over leaves states no values of M."""

    # Only now, so that nobody waits for interval arithmetic who does not need it.

    def shortfalls(self, program: Program) -> Iterator[tuple[int, str | None]]:
        """By M's range and derivatives over each leaf."""
        from tether.verification.boxproofs import leaf_shortfalls

        return leaf_shortfalls(self, program)

    def constants_shortfall(self, trusted: TrustedModel) -> str | None:
        """By how fast M's Jacobian can change."""
        from tether.verification.constants import leaves_shortfall

        return leaves_shortfall(self, trusted)
