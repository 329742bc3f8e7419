"""Sampled: an estimate from points, and no guarantee."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from tether.evidence.evidence import Claimed
from tether.evidence.seen import Seen


@dataclass(frozen=True)
class Sampled(Seen):
    """The largest distance seen at sampled points: a lower bound on the true one."""

    name: str = field(default="sampled", init=False, repr=False)
    certifies: ClassVar[bool] = False

    def recheck(self, claimed: Claimed, *, seed: int) -> None:
        """Nothing is claimed."""
        del claimed, seed
