"""Controls of a tube, joined to its states: a sequence, a box for each step, or feedback by a policy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether.claims.tubes.ties import tied
from tether.claims.tubes.zonotopes import Zonotopes
from tether.data import Array
from tether.programs import Program

FREE = float(np.finfo(np.float64).max)
"""No limit."""
_WORTH = 1e-6
"""As a share of what a policy's line allows, how much its own range must be narrower to be a limit."""


class Controls(ABC):
    """What is applied at each step."""

    @abstractmethod
    def joined(self, states: Zonotopes, step: int) -> tuple[Zonotopes, Any]:
        """Sets of inputs (states and controls together), and what is to be kept of how they were found."""


@dataclass(frozen=True, eq=False)
class Boxed(Controls):
    """Anything in a box, independently at each step; a sequence has boxes without extent.

    Attributes:
        lower: (N or 1, T, du).
        upper: (N or 1, T, du).
    """

    lower: Array
    upper: Array

    def joined(self, states: Zonotopes, step: int) -> tuple[Zonotopes, Any]:
        """States and controls side by side."""
        rows = len(states.center)
        low, high = (np.broadcast_to(end[:, step], (rows, end.shape[2])) for end in (self.lower, self.upper))
        box = Zonotopes.boxes(low, high)
        if (low == high).all():
            box = Zonotopes(low.copy(), np.zeros((rows, low.shape[1], 0)))
        return beside(states, box), None


@dataclass(frozen=True, eq=False)
class Feedback(Controls):
    """A policy of the states: ``u = policy(x)``, enclosed to first order, so that both stay tied together.

    Attributes:
        program: of the policy; it sees angles in [-π, π).
        angles: (dx,) which states are angles.
        turning: (du,) which controls are.
        box: (du,) ends of the operating box.
        steps: for how many.
        name: of the function.
    """

    program: Program
    angles: NDArray[np.bool_]
    turning: NDArray[np.bool_]
    box: tuple[Array, Array]
    steps: int
    name: str = ""

    def joined(self, states: Zonotopes, step: int) -> tuple[Zonotopes, Any]:
        """``u = value + gain (x - point) ± apart``: the states' generators moved by the gain, and a box.

        A policy that saturates stays within limits that the line does not know of; they are kept beside it.
        """
        del step
        found = tied(self.program, states, self.angles, self.turning)
        own = found.rest[:, :, None] * np.eye(found.rest.shape[1])
        nothing = np.zeros((*states.center.shape, found.rest.shape[1]))
        follow = np.concatenate([found.generators, own], axis=2)
        generators = np.concatenate([np.concatenate([states.generators, nothing], axis=2), follow], axis=1)
        inputs = Zonotopes(np.concatenate([states.center, found.center], axis=1), generators)
        low, high = (end[:, states.center.shape[1] :] for end in inputs.hull())
        spare = _WORTH * (high - low)
        # Another's arithmetic need not find the same range; but what saturates at the box's end is there.
        least, most = found.least - spare, found.most + spare
        least = np.where(found.least >= self.box[0], np.maximum(least, self.box[0]), least)
        most = np.where(found.most <= self.box[1], np.minimum(most, self.box[1]), most)
        limits = {
            "lower": np.where((least > low + spare) & ~self.turning, least, -FREE),
            "upper": np.where((most < high - spare) & ~self.turning, most, FREE),
        }
        return inputs, {**found.line, "center": found.center, "generators": follow, **limits}


@dataclass(frozen=True, eq=False)
class Named(Controls):
    """A policy that is known by name only, in a tube that was read from a file."""

    name: str
    steps: int

    def joined(self, states: Zonotopes, step: int) -> tuple[Zonotopes, Any]:
        """Not without the policy itself."""
        raise ValueError(
            f"the policy '{self.name}' must be given to go on from here; a file has its name only."
        )


def beside(states: Zonotopes, others: Zonotopes) -> Zonotopes:
    """Sets of pairs that know nothing of one another."""
    rows, one, two = len(states.center), states.generators, others.generators
    upper = np.concatenate([one, np.zeros((rows, one.shape[1], two.shape[2]))], axis=2)
    lower = np.concatenate([np.zeros((rows, two.shape[1], one.shape[2])), two], axis=2)
    return Zonotopes(
        np.concatenate([states.center, others.center], axis=1), np.concatenate([upper, lower], axis=1)
    )
