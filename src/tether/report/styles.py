"""One style for each method, the same in figures and on the page; for print and for the colour-blind."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import cycle
from typing import Any

# Okabe and Ito's palette; line styles repeat the distinction for print in grey.
_COLOURS = ("#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000", "#882255")
_DASHES = ("--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)), "-", (0, (4, 4)))
_ON_PAGE = {"-": [], "--": [7, 4], "-.": [9, 3, 2, 3], ":": [2, 3]}


def kind_of(name: str) -> str:
    """A method's name without the number of its memories."""
    return re.sub(r" \(\d+\)$", "", name)


def line_styles(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """A style for each method: M thin and grey, tethered models thick and solid, rivals dashed.

    A method that occurs with several numbers of memories keeps its colour; more memories, stronger lines.
    """
    names = list(names)
    families: dict[str, list[str]] = {}
    for name in names:
        families.setdefault(kind_of(name), []).append(name)
    # The second time round with other dashes, so that no two methods look alike.
    dashes = (*_DASHES, *_DASHES[3:], *_DASHES[:3])
    styles, rivals = {}, cycle(zip(_COLOURS * 2, dashes, strict=True))
    for family, members in families.items():
        if family == "Trusted":
            style = {"color": "#777777", "ls": "-", "lw": 1.0}
        elif family == "Tethered":
            style = {"color": "#0072B2", "ls": "-", "lw": 2.6}
        elif family.startswith("Tethered"):
            style = {"color": "#0072B2", "ls": "--", "lw": 1.5}
        else:
            colour, dash = next(rivals)
            style = {"color": colour, "ls": dash, "lw": 1.5}
        for k, name in enumerate(members):
            strength = (k + 1) / len(members)
            styles[name] = style | {
                "lw": style["lw"] * (0.4 + 0.6 * strength),
                "alpha": 0.35 + 0.65 * strength,
            }
    return {name: styles[name] for name in names}


def page_styles(names: Iterable[str]) -> list[dict[str, Any]]:
    """The same styles as a page draws them: a dash is a list of lengths in pixels."""
    return [
        {
            "name": name,
            "color": style["color"],
            "width": round(style["lw"], 2),
            "alpha": round(style["alpha"], 2),
            "dash": _page_dash(style["ls"]),
        }
        for name, style in line_styles(names).items()
    ]


def _page_dash(style: str | tuple[int, tuple[int, ...]]) -> list[int]:
    return _ON_PAGE[style] if isinstance(style, str) else [2 * length for length in style[1]]
