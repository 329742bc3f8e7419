"""What a model file claims over cells: an interval around M at each memory, within a ball and the box."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from tether.data import Array
from tether.foundation.errors import CertificateError
from tether.verification.claim import ROUNDOFF, Claim, Limits, require
from tether.verification.evaluation import circular, values_at

if TYPE_CHECKING:
    from tether.trusted import TrustedModel
    from tether.verification.tracing import Program


@final
@dataclass(frozen=True, eq=False)
class CellClaim(Claim):
    """Of each of K cells, an interval for each output."""

    one: ClassVar[str] = "cell"
    unit: ClassVar[str] = "cells"
    distribution: ClassVar[str] = "cells"
    shapes: ClassVar[dict[str, str]] = {
        f"bounds.{name}": "KP" for name in ("lower", "upper", "delta", "center")
    }
    optional: ClassVar[dict[str, str]] = {"bounds.lemma": "P"}

    def __len__(self) -> int:
        return len(self.cells("memories"))

    def check_form(self) -> None:
        """Intervals that are not empty, at distances that can be."""
        require(self.bounds("delta") >= 0, "`bounds.delta` must be at least 0", self)
        require(self.bounds("lower") <= self.bounds("upper"), "`lower` must be at most `upper`", self)

    @property
    def box(self) -> tuple[Array, Array]:
        """(D,) beside the balls, the limits of the domain."""
        return self.cells("box_lower"), self.cells("box_upper")

    @property
    def places(self) -> Array:
        """(K, D) the memories."""
        return self.centers

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

    def holds(self, inputs: Array, squared: Array) -> NDArray[np.bool_]:
        """(N,) whether inputs are in the ball of their nearest memory."""
        cell = squared.argmin(axis=1)
        return squared[np.arange(len(cell)), cell] <= self.cells("radii")[cell] ** 2

    def tried(self, count: int, rng: np.random.Generator) -> Array:
        """(N, D) around memories, moved into the box."""
        inputs = len(self.schema.inputs)
        cell = rng.integers(0, len(self), count)
        reach = rng.uniform(-1, 1, (count, inputs)) * self.cells("scale")
        points = self.centers[cell] + reach * self.cells("radii")[cell, None]
        return np.minimum(np.maximum(points, self.cells("box_lower")), self.cells("box_upper"))

    def spread(self, inputs: Array, rng: np.random.Generator) -> Array:
        """(N, D) as they are: the distribution is around memories."""
        return inputs

    def limits(self, inputs: Array, nearest: NDArray[np.int64]) -> Limits:
        """Those of the nearest memory's cell."""
        return Limits(*(self.bounds(name)[nearest] for name in ("lower", "upper", "delta")))

    def parts(self, output: int) -> NDArray[np.int64]:
        """(K,) every cell."""
        return np.arange(len(self))

    def delta_of(self, output: int) -> Array:
        """(K,) over each cell's coverage."""
        return self.bounds("delta")[:, output]

    def single_delta(self) -> Array | None:
        """(P,) of the intervals as float32 has them."""
        from tether.verification.float32cells import largest_delta

        return largest_delta(self)

    @property
    def radius(self) -> list[float] | None:
        """Of the balls."""
        radii = self.cells("radii")
        return [float(radii.min()), float(radii.max())]

    @property
    def share(self) -> float | None:
        """None: balls have no share of the box that is known."""
        return None

    def remainder(self, output: int) -> float | None:
        """None: there is no A."""
        return None

    @property
    def left_out(self) -> str:
        """Nothing."""
        return ""

    def compare(self, trusted: TrustedModel) -> None:
        """Another M is recognised at the memories, whatever the claim rests on."""
        stated = self.bounds("center")
        off = circular(self, values_at(self, trusted, self.centers) - stated)
        # Another machine's sine may differ in the last place; an increment is small beside what it is added
        # to.
        size = np.abs(stated) + np.abs(stated).max(axis=0) + self.base + 1e-3 * self.bounds("delta")
        excess = off - 1e-9 * size
        if not (excess <= 0).all():
            cell, output = np.unravel_index(int(np.argmax(excess)), excess.shape)
            raise CertificateError(
                f"not verified: cell {cell}, {self.output(int(output))}: the trusted model at the "
                f"memory differs from what the file says by {off[cell, output]:.6g}."
            )

    # Only now, so that nobody waits for interval arithmetic who does not need it.

    def shortfalls(self, program: Program) -> Iterator[tuple[int, str | None]]:
        """By derivatives along the way from each memory."""
        from tether.verification.proofs import shortfalls

        return shortfalls(self, program)

    def constants_shortfall(self, trusted: TrustedModel) -> str | None:
        """By how fast M can change."""
        from tether.verification.constants import cells_shortfall

        return cells_shortfall(self, trusted)
