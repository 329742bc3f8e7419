"""The variables of an FMU, in the order of their value references."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from tether.data import Schema


@dataclass(frozen=True)
class Variable:
    """A real variable: its name, unit, what it is to others, and what is said of it."""

    name: str
    unit: str
    attributes: str
    text: str


@dataclass(frozen=True)
class Variables:
    """States, controls, by state `next`, `lower`, `upper`, `delta`, the step, the time, and one Boolean."""

    schema: Schema

    @cached_property
    def reals(self) -> tuple[Variable, ...]:
        """All numbers but the time; the place of one is its value reference."""
        return tuple(self._distinct(self._all()))

    def _all(self) -> Iterator[Variable]:
        schema = self.schema
        exact = 'causality="output" variability="continuous" initial="exact" start="0"'
        given = 'causality="input" variability="continuous" start="0"'
        found = 'causality="output" variability="continuous" initial="calculated"'
        for name in schema.states:
            yield Variable(name, schema.unit(name), exact, "State.")
        for name in schema.controls:
            yield Variable(name, schema.unit(name), given, "Control.")
        words = {
            "next": "What it will be after a step from here.",
            "lower": "The least that it may be then.",
            "upper": "The greatest that it may be then.",
            "delta": "How far it will be from the trusted model at most; infinite outside the domain.",
        }
        for word, text in words.items():
            for name in schema.states:
                yield Variable(f"{word}_{name}", schema.unit(name), found, text)
        step = 'causality="parameter" variability="fixed" initial="exact" start="1"'
        yield Variable("step", "s", step, "How long one step of the model is.")

    def _distinct(self, variables: Iterator[Variable]) -> Iterator[Variable]:
        taken = {"in_domain", "time"}
        for own in variables:
            name = " ".join(own.name.split()) or "_"
            while name in taken:
                name += "_"
            taken.add(name)
            yield Variable(name, own.unit, own.attributes, own.text)

    @property
    def states(self) -> int:
        """How many there are."""
        return len(self.schema.states)

    @property
    def controls(self) -> int:
        """How many there are."""
        return len(self.schema.controls)

    @property
    def step(self) -> int:
        """The value reference of the step."""
        return len(self.reals) - 1

    @property
    def time(self) -> int:
        """The value reference of the time."""
        return len(self.reals)

    @property
    def inside(self) -> int:
        """The value reference of `in_domain`."""
        return len(self.reals) + 1

    @property
    def units(self) -> list[str]:
        """All that there are."""
        return sorted({own.unit for own in self.reals if own.unit})

    @property
    def computed(self) -> list[int]:
        """References of what is found from states and controls: `next` and all after it, and `in_domain`."""
        return [*range(self.states + self.controls, self.step), self.inside]
