"""What a model file claims of its tether, whatever that is over, and the checks of its form.

What is claimed over cells is in `cellclaims`, over the leaves of trees in `leafclaims`; `content` reads both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tether.data import Array, Schema
from tether.foundation.documents import shown
from tether.foundation.errors import CertificateError
from tether.verification.levels import Level, level_of

if TYPE_CHECKING:
    from tether.trusted import TrustedModel
    from tether.verification.tracing import Program

ROUNDOFF = 2.0**-53
"""Relative error of one float64 operation."""
HALF_TURN = float(np.nextafter(np.pi, 4.0))
"""The float64 number above π: no two angles are farther apart on the circle."""
_SMALL, _LARGE = 1e-100, 1e100
"""Sizes between which squares, and products of three numbers, neither overflow nor lose their precision."""


class Limits(NamedTuple):
    """What a model allows at inputs, and what it claims there; (N, P) each."""

    lower: Array
    upper: Array
    delta: Array


@dataclass(frozen=True, eq=False)
class Claim(ABC):
    """Everything a file says about its tether.

    Attributes:
        evidence: how delta is said to be known.
        schema: what the columns mean.
        target: `next_state` or `increment`.
        arrays: by name, ``cells.*``, ``bounds.*`` and, of leaves, ``tree.*``.
        epsilon: for `statistical` evidence.
        beta: for `statistical` evidence.
        over: what is said of inputs that such evidence is over, where these are the user's own.
        trusted_digest: SHA-256 of the trusted model's source, where recorded.
        band: what was recorded of the statistical claim about reality, where there is one.
        why: what was recorded of why nothing stronger could be had of M.
        one: what the claim is about, for a message.
        unit: the same of many.
        distribution: key of the words of what is drawn where no inputs are the user's own.
        shapes: axes of the arrays that there are beside those of the cells.
        optional: axes of those that there may be.
        infinite: names of those in which infinity has a meaning.
    """

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

    one: ClassVar[str]
    unit: ClassVar[str]
    distribution: ClassVar[str]
    shapes: ClassVar[dict[str, str]]
    optional: ClassVar[dict[str, str]]
    infinite: ClassVar[tuple[str, ...]] = ()

    def cells(self, name: str) -> Array:
        """An array of the cells."""
        return self.arrays[f"cells.{name}"]

    def bounds(self, name: str) -> Array:
        """An array of the bounds."""
        return self.arrays[f"bounds.{name}"]

    @property
    def level(self) -> Level:
        """What its evidence is to whoever verifies it."""
        return level_of(self.evidence)

    def output(self, number: int) -> str:
        """`output 'name'`, for a message."""
        return f"output {shown(self.schema.outputs[number])}"

    @property
    def centers(self) -> Array:
        """(K, D) memories in physical units, rounded as the model rounds them."""
        return self.cells("memories") * self.cells("scale")

    @property
    def base(self) -> Array:
        """(P,) the largest value of what is added to an increment; zeros where next states are bounded."""
        if self.target != "increment":
            return np.zeros(len(self.schema.outputs))
        extent = np.maximum(*map(np.abs, self.box))
        return np.where(self.schema.advanced >= 0, extent[self.schema.advanced], 0.0)

    @abstractmethod
    def __len__(self) -> int:
        """How many cells or leaves the claim is about."""

    @abstractmethod
    def check_form(self) -> None:
        """Refuses numbers that cannot be bounds, beyond what `check_form` refuses of all claims."""

    # --- where something is claimed

    @property
    @abstractmethod
    def box(self) -> tuple[Array, Array]:
        """(D,) the limits of the domain."""

    @property
    @abstractmethod
    def places(self) -> Array:
        """(N, D) inputs of the domain at which M is asked."""

    @abstractmethod
    def holds(self, inputs: Array, squared: Array) -> NDArray[np.bool_]:
        """(N,) whether something is claimed at inputs (N, D) of the box, `squared` (N, K) from memories."""

    @abstractmethod
    def tried(self, count: int, rng: np.random.Generator) -> Array:
        """(N, D) at most so many points of the domain, around every memory or in every leaf."""

    @abstractmethod
    def spread(self, inputs: Array, rng: np.random.Generator) -> Array:
        """(N, D) what is drawn, of inputs (N, D) drawn around memories."""

    # --- what is claimed

    @abstractmethod
    def limits(self, inputs: Array, nearest: NDArray[np.int64]) -> Limits:
        """What is allowed and claimed at inputs (N, D), by their nearest memories (N,)."""

    @abstractmethod
    def parts(self, output: int) -> NDArray[np.int64]:
        """(N,) the cells or leaves of which something is claimed of an output."""

    @abstractmethod
    def delta_of(self, output: int) -> Array:
        """(N,) largest distance to M of an output over each of its `parts`."""

    @abstractmethod
    def single_delta(self) -> Array | None:
        """(P,) the largest delta in float32, of a claim about every input; None where it is too coarse."""

    # --- what a certificate says of it

    @property
    @abstractmethod
    def radius(self) -> list[float] | None:
        """Least and largest radius of what it is about, where that is balls."""

    @property
    @abstractmethod
    def share(self) -> float | None:
        """Of the box by volume, outside of what nothing is claimed of; None of what is not within boxes."""

    @abstractmethod
    def remainder(self, output: int) -> float | None:
        """Largest distance of M from A, where that is part of delta."""

    @property
    @abstractmethod
    def left_out(self) -> str:
        """In a sentence with a blank before it, what nothing is claimed of; empty where there is no such."""

    # --- whether it is so

    @abstractmethod
    def compare(self, trusted: TrustedModel) -> None:
        """Raises CertificateError for another M than the values stated are of, where some are."""

    @abstractmethod
    def shortfalls(self, program: Program) -> Iterator[tuple[int, str | None]]:
        """How many were looked at by M's own code, and what cannot be shown of the first that fails."""

    @abstractmethod
    def constants_shortfall(self, trusted: TrustedModel) -> str | None:
        """What does not follow from the constants given for M, in words; None where all does."""


def check_form(claim: Claim) -> None:
    """Refuses numbers that cannot be bounds, or whose squares overflow or vanish, naming cell and output."""
    for name, values in claim.arrays.items():
        fine = np.abs(values) <= _LARGE
        if name == "bounds.pinned":
            fine = fine | np.isnan(values)
        if name in claim.infinite:
            fine = fine | (values == np.inf)
        require(fine, f"`{name}` must be finite and at most {_LARGE:g}", claim)
    for name in ("scale", "radii"):
        require(claim.cells(name) >= _SMALL, f"`cells.{name}` must be at least {_SMALL:g}", claim)
    require(np.abs(claim.centers) <= _LARGE, f"the memories must be at most {_LARGE:g}", claim)
    require(claim.cells("box_lower") <= claim.cells("box_upper"), "the domain box must not be empty", claim)
    if claim.target == "increment" and min(claim.schema.advances) < 0:
        raise CertificateError("not verified: an increment must be of an output that advances a state.")
    claim.check_form()


def require(holds: NDArray[np.bool_], rule: str, claim: Claim) -> None:
    """Raises unless all hold.

    Raises:
        CertificateError: some do not; it names the first cell, leaf or input and its output.
    """
    if holds.all():
        return
    place = np.argwhere(~holds)[0]
    names = f"{claim.one} {place[0]}" if len(holds) == len(claim) else f"input {place[0]}"
    if holds.ndim > 1 and holds.shape[-1] == len(claim.schema.outputs):
        names += f", {claim.output(place[-1])}"
    raise CertificateError(f"not verified: {names}: {rule}.")
