"""Figures: readable in print and by the colour-blind, vector by default."""

from __future__ import annotations

import io
from contextlib import contextmanager

from matplotlib.figure import Figure
from matplotlib.style import context

from tether.report.styles import line_styles as line_styles

_RC = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "tether",
}


@contextmanager
def styled():
    """The style of every figure."""
    with context(_RC):
        yield


def as_svg(figure: Figure) -> str:
    """The figure as SVG text, to be put into a page."""
    buffer = io.StringIO()
    with styled():
        _lay_out(figure)
        figure.savefig(buffer, format="svg", dpi=160, metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def as_png(figure: Figure) -> bytes:
    """The figure as PNG."""
    buffer = io.BytesIO()
    _lay_out(figure)
    figure.savefig(buffer, format="png", dpi=160)
    return buffer.getvalue()


def _lay_out(figure: Figure) -> None:
    """Once for all formats: it takes as long as drawing."""
    if figure.get_layout_engine() is not None:
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
