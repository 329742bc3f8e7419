"""What an object says of itself at a prompt and in a notebook."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from html import escape

from tether.foundation.printing import one_line

Facts = dict[str, str]
"""What is said, by name; in the order in which it is read."""


class Shown(ABC):
    """Says its facts instead of its fields: a few lines at a prompt, a small table in a notebook."""

    @abstractmethod
    def facts(self) -> tuple[str, Facts]:
        """A headline, and what is known."""

    def __repr__(self) -> str:
        headline, facts = self.facts()
        width = max(map(len, facts), default=0)
        return "\n".join(
            [one_line(headline), *(f"  {name:<{width}}  {one_line(facts[name])}" for name in facts)]
        )

    def _repr_html_(self) -> str:
        headline, facts = self.facts()
        cell = "<td style='text-align: left'>"
        rows = (
            f"<tr>{cell}{escape(name)}</td>{cell}{escape(one_line(facts[name]))}</td></tr>" for name in facts
        )
        return f"<b>{escape(one_line(headline))}</b><table>{''.join(rows)}</table>"


def measured(values: Mapping[str, float], units: Mapping[str, str]) -> str:
    """Numbers by name, with their units: ``x 0.19 m, heading 0.33``."""
    return ", ".join(f"{name} {value:.3g} {units.get(name, '')}".strip() for name, value in values.items())
