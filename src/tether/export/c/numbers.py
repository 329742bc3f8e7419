"""Numbers and tables as C99 writes them, exactly."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

_WIDTH = 104


def literal(value: float, kind: str = "double") -> str:
    """A number in hexadecimal, so that no compiler rounds it."""
    if math.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    if math.isnan(value):
        raise ValueError("tables must hold numbers; got NaN. The model's weights are damaged.")
    text = "0.0" if value == 0 else _short(float(value).hex())
    return text + "f" if kind == "float" else text


def _short(text: str) -> str:
    """Without the zeros that end the digits."""
    digits, exponent = text.split("p")
    return f"{digits.rstrip('0').rstrip('.')}p{exponent}" if "." in digits else text


def table(kind: str, name: str, values: np.ndarray | Iterable[float]) -> str:
    """A constant array of one dimension; of none, one zero, which C99 asks for."""
    flat = np.asarray(values).reshape(-1)
    size = max(1, flat.size)
    if kind == "int":
        words = [str(int(value)) for value in flat] or ["0"]
    else:
        words = [literal(value, kind) for value in flat.tolist()] or [literal(0.0, kind)]
    return f"static const {kind} {name}[{size}] = {{\n{_lines(words)}\n}};\n"


def records(name: str, kind: str, rows: Iterable[Iterable[str]]) -> str:
    """A constant array of a struct."""
    words = ["{" + ", ".join(row) + "}" for row in rows]
    return f"static const struct {kind} {name}[{len(words)}] = {{\n{_lines(words)}\n}};\n"


def _lines(words: list[str]) -> str:
    lines, line, length = [], [], 0
    for word in words:
        if line and length + len(word) > _WIDTH:
            lines.append("    " + ", ".join(line) + ",")
            line, length = [], 0
        line.append(word)
        length += len(word) + 2
    return "\n".join([*lines, "    " + ", ".join(line)])
