"""Which methods figures show."""

from __future__ import annotations

from collections.abc import Iterable

from tether.report.styles import kind_of

SHOWN = (
    "Trusted",
    "Vanilla",
    "Vanilla Δ",
    "Augmented Lagrangian",
    "Augmented Lagrangian Δ",
    "Constrained (paper)",
    "Constrained Δ",
    "Direct Δ",
    "Tethered",
)
"""Kinds of methods that figures show; the tables have all."""


def one_of_each(names: Iterable[str], kinds: Iterable[str] = SHOWN) -> list[str]:
    """Some kinds of methods, each with the most memories it was run with: a figure of all shows none."""
    found = {kind_of(name): name for name in names}
    return [found[kind] for kind in kinds if kind in found]
