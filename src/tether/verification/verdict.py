"""What `verify` returns."""

from __future__ import annotations

from dataclasses import dataclass

from tether.foundation.shown import Facts, Shown, measured


@dataclass(frozen=True, repr=False)
class Verification(Shown):
    """What was verified.

    Attributes:
        verified: whether the claim was established again; False only for `sampled` evidence, which claims
            nothing that could be. Everything else that is not verified raises.
        evidence: the level of the claim.
        deltas: per output, its largest and median distance to M over cells, worked out from the file.
        cells: how many cells the claim is about; of box bounds, leaves.
        statement: what was shown, in a sentence.
        notes: what could not be compared, in sentences.
        not_vouched: fields of the certificate that were measured on data, or are names; and the share and
            confidence of `statistical` evidence, which draws can refute and never establish.
        unit: what `cells` counts, cells or leaves.
    """

    verified: bool
    evidence: str
    deltas: dict[str, tuple[float, float]]
    cells: int
    statement: str
    notes: tuple[str, ...]
    not_vouched: tuple[str, ...] = ()
    unit: str = "cells"

    def facts(self) -> tuple[str, Facts]:
        """What was shown, and what was not."""
        facts = {
            "evidence": self.evidence,
            "delta, worst": measured({name: largest for name, (largest, _) in self.deltas.items()}, {}),
            "about": f"{self.cells:,} {self.unit}",
            "shown": self.statement,
            "notes": " ".join(self.notes),
            "not vouched for": ", ".join(self.not_vouched),
        }
        word = "VERIFIED" if self.verified else "not verified"
        return f"Verification: {word}", {name: fact for name, fact in facts.items() if fact}
