"""How M is known over a region: each level of evidence bounds M, bounds it again, and words its claim.

A new level is a file of its own, a line in :data:`LEVELS` and its words in :mod:`tether.foundation.wording`.
"""

from dataclasses import fields, replace
from typing import Any

from tether.evidence.evidence import Claimed, Evidence
from tether.evidence.expansions import Expander, Leaves
from tether.evidence.lipschitz import Lipschitz
from tether.evidence.proved import Proved
from tether.evidence.question import Question, SamplingConfig
from tether.evidence.sampled import Sampled
from tether.evidence.statistical import Statistical
from tether.trusted import TrustedModel

__all__ = [
    "LEVELS",
    "Claimed",
    "Evidence",
    "Expander",
    "Leaves",
    "Lipschitz",
    "Proved",
    "Question",
    "Sampled",
    "SamplingConfig",
    "Statistical",
    "as_evidence",
    "strongest",
]

LEVELS: tuple[Evidence, ...] = (Proved(), Lipschitz(), Statistical(), Sampled())
"""Strongest first."""


def as_evidence(evidence: str | Evidence | None, **numbers: Any) -> Evidence | None:
    """A level as it is, or by its name with the numbers it has; None: the strongest that M allows."""
    given = {name: value for name, value in numbers.items() if value is not None}
    if evidence is None or isinstance(evidence, Evidence):
        level = evidence
    elif evidence in (named := {level.name: level for level in LEVELS}):
        level = named[evidence]
    else:
        raise ValueError(f"`evidence` must be one of {', '.join(map(repr, named))}; got {evidence!r}.")
    for name in given:
        if level is None or name not in {field.name for field in fields(level)}:
            given_level = "none" if level is None else f"`{level.name}`"
            raise ValueError(
                f"`{name}` must come with evidence `statistical`; got {given_level}. Leave it out."
            )
    return replace(level, **given) if level is not None and given else level


def strongest(
    trusted: TrustedModel, kind: str, question: Question, *, unproved: str | None = None
) -> tuple[Evidence, str | None]:
    """The strongest evidence that M allows over a box for bounds of a kind, and in a line why not `proved`.

    Args:
        trusted: M.
        kind: of the bounds.
        question: what M is asked, over which box.
        unproved: why a proof failed that was tried.
    """
    why = unproved
    for level in LEVELS:
        lacking = unproved if unproved and level.encloses else level.lacking(trusted, kind, question)
        if lacking is None:
            return level, why
        why = why or lacking
    raise AssertionError("whatever can be called can be sampled")
