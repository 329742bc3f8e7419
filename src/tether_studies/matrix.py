"""The rows that every study has: each method on next states and on increments, and the paper's own method.

Every row is trained for as many steps, at the learning rate that the same search found for it on validation
rows: ``tether study NAME --search`` prints the lines of ``chosen.csv``.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import Any

from tether.data import Target
from tether.fitting import AUGMENTED_LAGRANGIAN, CONSTRAINED, DIRECT, HARDNET, TETHERED, VANILLA, Method
from tether_studies.printed import CLIMBS, FIXED, PaperBounds, constrained
from tether_studies.study import Builder, Entry

TARGETS: tuple[Target, ...] = ("next_state", "increment")
LAGRANGIAN_PAPER = Method("Lagrangian (paper)", None, "augmented_lagrangian", "next_state")
"""What the paper's plots call augmented Lagrangian: weights that stay what they are."""
CONSTRAINED_PAPER = constrained("Constrained (paper)")
"""Sigmoid, the authors' sampling and loss, next states, cells by the spread of the data."""
CONSTRAINED_PAPER_LAGRANGIAN = constrained("Constrained (paper, AL)")
"""The same with an augmented Lagrangian that is one."""
CONSTRAINED_PAPER_CLIP = constrained("Constrained (paper, clip)")
"""The same, and the clip for the sigmoid."""
_SIGMOID: dict[str, Any] = {"operator": "sigmoid"}


def on(method: Method, target: Target) -> Method:
    """A method on next states or, by a name with Δ, on increments."""
    name = method.name if target == "next_state" else f"{method.name} Δ"
    return replace(method, name=name, target=target)


@dataclass(frozen=True)
class Setting:
    """What a search chose for a method.

    Attributes:
        learning_rate: of Adam.
        share: of the steps that everybody may take.
    """

    learning_rate: float
    share: float = 1.0


@cache
def chosen_settings(study: str) -> Mapping[str, Setting]:
    """What the search of a study chose, by method; nothing of one that was not searched."""
    text = files("tether_studies").joinpath("chosen.csv").read_text(encoding="utf-8")
    lines = [line for line in csv.DictReader(text.splitlines()) if line["study"] == study]
    return {line["method"]: Setting(float(line["learning_rate"]), float(line["share"])) for line in lines}


@dataclass(frozen=True)
class Matrix:
    """What the rows of a study's matrix share.

    Attributes:
        study: under whose name their settings were chosen.
        counts: numbers of memories, ascending, of the paper's study.
        steps: that everybody may take.
        training: fields of :class:`TrainingConfig` of rows with the paper's limits, such as its schedule γ.
        build: of the affine tether, where it is not the library's own.
        fewer: seeds of rows that only show a trend, lie between two others or repeat one (Tethered and Direct
            begin at M, so that it hardly matters what they predict); None: all.
    """

    study: str
    counts: tuple[int, ...]
    steps: int
    training: Mapping[str, Any] = field(default_factory=dict)
    build: Builder | None = None
    fewer: int | None = 1

    def entries(self) -> tuple[Entry, ...]:
        """The rows, each with what the search chose for its method."""
        return tuple(self.settled(entry) for entry in self.unsettled())

    def unsettled(self) -> tuple[Entry, ...]:
        """Next states, then increments, then the paper's own method, as they are before any search."""
        rows = [row for target in TARGETS for row in self._on(target)]
        return (*rows, *self._paper())

    def settled(self, entry: Entry, *, like: str | None = None) -> Entry:
        """A row with what the search chose for its method, or for the one it is `like`."""
        setting = chosen_settings(self.study).get(like or entry.method.name)
        if setting is None:
            return entry
        training = {**entry.training, "learning_rate": setting.learning_rate}
        return replace(entry, training=training, steps=max(1, round(setting.share * entry.steps)))

    def _on(self, target: Target) -> list[Entry]:
        steps, middle, most = self.steps, self.counts[len(self.counts) // 2], self.counts[-1]
        to, repeated = {"target": target}, None if target == "next_state" else self.fewer
        climbed = {**to, "bounds": "interval", "sampling": CLIMBS}
        return [
            Entry(on(VANILLA, target), steps),
            Entry(on(AUGMENTED_LAGRANGIAN, target), steps),
            *(
                Entry(
                    on(CONSTRAINED, target), steps, count, climbed, self.training,
                    seeds=None if count == most else self.fewer,
                )
                for count in self.counts
            ),
            Entry(
                on(HARDNET, target), steps, middle, {**to, "operator": "project"}, build=self.build,
                seeds=self.fewer if target == "next_state" else None,
            ),
            Entry(on(TETHERED, target), steps, middle, to, build=self.build, seeds=repeated),
            Entry(on(DIRECT, target), steps, changes=to, seeds=repeated),
        ]  # fmt: skip

    def _paper(self) -> list[Entry]:
        steps, most = self.steps, self.counts[-1]
        to: dict[str, Any] = {"target": "next_state"}
        fixed, bounds = {**self.training, **FIXED}, PaperBounds()
        return [
            Entry(LAGRANGIAN_PAPER, steps, training=FIXED),
            *(Entry(CONSTRAINED_PAPER, steps, count, to | _SIGMOID, fixed, bounds) for count in self.counts),
            Entry(
                CONSTRAINED_PAPER_LAGRANGIAN, steps, most, to | _SIGMOID, self.training, bounds,
                seeds=self.fewer,
            ),
            Entry(CONSTRAINED_PAPER_CLIP, steps, most, to, self.training, bounds, seeds=self.fewer),
        ]  # fmt: skip
