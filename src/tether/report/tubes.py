"""A tube as a figure and as a page."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from tether.claims.tubes import Tube
from tether.data import Array
from tether.report.figures import as_svg, styled
from tether.report.page import Picture, Section, page
from tether.report.tables import Grid

MOST_DRAWN = 20
"""Tubes."""
_MOST_ROWS = 200


def tube_figure(found: Tube, *, paths: Array | None = None) -> Figure:
    """Each state over the steps: the tube's boxes, some rollouts (K, T + 1, dx), and the system tube."""
    schema, steps = found.schema, np.arange(found.steps + 1)
    lower, upper = found.ends
    count = len(schema.states)
    columns = min(3, count)
    lines = -(-count // columns)
    with styled():
        figure = Figure(figsize=(3.4 * columns, 2.5 * lines), layout="constrained")
        axes = np.atleast_1d(figure.subplots(lines, columns, squeeze=False)).ravel()
        for k, name in enumerate(schema.states):
            _draw(axes[k], found, k, steps, lower[:MOST_DRAWN], upper[:MOST_DRAWN], paths)
            unit = schema.unit(name)
            axes[k].set_ylabel(f"{name} [{unit}]" if unit else name)
            axes[k].set_xlabel("step")
        for spare in axes[count:]:
            spare.set_visible(False)
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=4)
    return figure


def _draw(
    axis: Any, found: Tube, state: int, steps: Any, lower: Array, upper: Array, paths: Array | None
) -> None:
    for row in range(len(lower)):
        label = None if row else f"model tube ({'by construction' if found.without_trusted else 'proved'})"
        axis.fill_between(
            steps, lower[row, :, state], upper[row, :, state], color="#56B4E9", alpha=0.35, lw=0, label=label
        )
        axis.plot(steps, lower[row, :, state], color="#0072B2", lw=1.0)
        axis.plot(steps, upper[row, :, state], color="#0072B2", lw=1.0)
    if found.system is not None:
        for row in range(min(len(lower), len(found.system["lower"]))):
            label = "system tube (statistical)" if row == 0 else None
            axis.plot(
                steps, found.system["lower"][row, :, state], color="#D55E00", lw=1.2, ls="--", label=label
            )
            axis.plot(steps, found.system["upper"][row, :, state], color="#D55E00", lw=1.2, ls="--")
    last = int(np.flatnonzero(~np.isnan(lower[:, :, state]).all(axis=0))[-1])
    if last < found.steps:
        axis.axvline(last, color="#444444", lw=1.0, ls=":", label="the tube ends, rollouts go on")
    if paths is not None:
        for number, path in enumerate(paths):
            label = None if number else "rollouts" if found.weights else "rollouts with extreme weights"
            axis.plot(steps, path[:, state], color="#444444", lw=0.4, alpha=0.5, label=label)


def tube_page(found: Tube, figure: Figure, *, command: str, versions: dict[str, str]) -> str:
    """The claim, the figure, and the boxes as numbers."""
    sections = [
        Section("The tube", pictures=[Picture(as_svg(figure), _caption(found))]),
        Section("What holds" if found.without_trusted else "What is proved", [found.words, _assumed(found)]),
    ]
    if found.system is not None:
        sections.append(Section("What is statistical", [str(found.system["words"])]))
    grids = [_grid(found, "Boxes by step", *found.ends)]
    if found.system is not None:
        title = "Boxes of the system tube (statistical) by step"
        grids = [_grid(found, "Boxes of the model tube by step", *found.ends)]
        grids.append(_grid(found, title, found.system["lower"], found.system["upper"]))
    sections.append(Section("Boxes", _few(found), grids))
    lead = f"{found.steps} steps ahead, from {len(found)} start{'s' if found.many else ''}. {found.words}"
    return page("Tether: tube", lead, sections, command=command, versions=versions)


def _caption(found: Tube) -> str:
    whose = "the learned model can do" if found.weights is None else "the network at hand can do"
    text = f"Each state after each step: between the lines lies whatever {whose}."
    if found.many and len(found) > MOST_DRAWN:
        text += f" The first {MOST_DRAWN} of {len(found)} tubes are drawn."
    if found.schema.angles:
        text += " Angles go on past ±π and stand for themselves and whole turns."
    return text


def _assumed(found: Tube) -> str:
    numbers = "float64" if found.weights is None else "float32 and float64"
    if found.without_trusted:
        return f"Assumed: the machine's {numbers} is IEEE 754."
    return (
        f"Assumed: the machine's {numbers} is IEEE 754, NumPy's functions err by at most 4 units in the last "
        "place, and the trusted model treats rows alone, as for the certificate of the model."
    )


def _few(found: Tube) -> list[str]:
    text = "Least and greatest value of each state, of the first start." if found.many else ""
    return [text] if text else []


def _grid(found: Tube, title: str, lower: Array, upper: Array) -> Grid:
    heads = ["step"] + [f"{name} {end}" for name in found.schema.states for end in ("from", "to")]
    rows = []
    for t in range(min(found.steps + 1, _MOST_ROWS)):
        if np.isnan(lower[0, t]).any():
            break
        pairs = zip(lower[0, t], upper[0, t], strict=True)
        rows.append((str(t), *(f"{end:.6g}" for pair in pairs for end in pair)))
    return Grid(title, tuple(heads), tuple(rows))
