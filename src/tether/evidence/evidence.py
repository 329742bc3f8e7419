"""What every level of evidence can be asked: to bound M, to bound it again, and to say what that is worth."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, cast

import numpy as np

from tether.data import Schema, Target
from tether.evidence.expansions import Expander
from tether.evidence.question import Question
from tether.evidence.ranges import Range
from tether.foundation import wording
from tether.geometry.cells import Cells
from tether.trusted import TrustedModel


class Claimed(Protocol):
    """What a model claims of M, as the evidence it rests on looks at it once more."""

    def derive(self, evidence: Evidence) -> None:
        """Derives delta again from M.

        Raises:
            CertificateError: it is larger than claimed.
        """

    def exceeded(self, draws: int, rng: np.random.Generator) -> int:
        """At how many of so many fresh draws from the stated distribution delta is exceeded."""
        ...


@dataclass(frozen=True)
class Evidence(ABC):
    """How M is known over a region. Each level is a file of its own.

    Attributes:
        name: as files, tables and settings call it.
    """

    name: str = field(init=False, repr=False)
    certifies: ClassVar[bool] = True
    """Whether anything is claimed at all."""
    everywhere: ClassVar[bool] = True
    """Whether the claim is about every input of the domain: then one that exceeds delta refutes it."""
    encloses: ClassVar[bool] = False
    """Whether M's own code was enclosed: then it can be over other sets too, as tubes need."""
    draws: ClassVar[int] = 0
    """Fresh draws that the claim rests on."""
    allowed: ClassVar[int] = 0
    """How many of them may exceed delta."""
    # Without an annotation: a dataclass would put the field of that name of a level before all others.
    over = cast(Any, None)
    """The distribution that these are from; None: what bounds are over."""
    refuted_by: ClassVar[str] = ""
    """What to do where a value of M is seen outside what this bounds it by."""

    @abstractmethod
    def lacking(self, trusted: TrustedModel, kind: str, question: Question | None = None) -> str | None:
        """Why it cannot be had of M for bounds of a kind, in one line; None: it can, as far as is known.

        Without a `question` only what takes no call of M is looked at.
        """

    @abstractmethod
    def range_over(self, cells: Cells, trusted: TrustedModel, schema: Schema, target: Target) -> Range | None:
        """A range of M's target that holds over each cell; None: only what is seen of it can be had."""

    @abstractmethod
    def expander(self, question: Question) -> Expander:
        """What makes first-order models of M over boxes, to grow a tree of them."""

    @abstractmethod
    def recheck(self, claimed: Claimed, *, seed: int) -> None:
        """Establishes a claim again, as far as it can be.

        Raises:
            CertificateError: it does not follow from M any more.
        """

    def claim(self, over: str) -> str:
        """What is claimed, in words, by bounds over `cells` or `boxes`."""
        del over
        return wording.MEANING[self.name]
