"""A network in C: layers in panels of units that compilers take together, and its derivatives backwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tether.export.c.layers import Layer
from tether.export.c.numbers import table

_PANELS = (4, 8, 16)
BLOCK = 32
"""Rows that are predicted together."""
_TOGETHER = 8
"""Products that are added up before a sum is put back."""


@dataclass(frozen=True, eq=False)
class Packed:
    """A layer as the C code goes through it.

    Attributes:
        panel: units that are added up side by side.
        weights: for each panel, for each input of its span, one weight for each of its units.
        bias: (padded units,).
        span: (panels, 2) first input that a panel has a weight for, and how many there are.
        layer: what it was made from.
    """

    panel: int
    weights: np.ndarray
    bias: np.ndarray
    span: np.ndarray
    layer: Layer

    @property
    def units(self) -> int:
        """With those that fill up the last panel."""
        return len(self.bias)


def pack(layer: Layer) -> Packed:
    """Panels of a layer; a sum of networks has blocks of weights, and nothing is added up between them."""
    units, inputs = layer.weight.shape
    panel = next((size for size in _PANELS if units <= size), _PANELS[-1])
    padded = -(-units // panel) * panel
    weight = np.zeros((padded, inputs), layer.weight.dtype)
    weight[:units] = layer.weight
    bias = np.zeros(padded, layer.bias.dtype)
    bias[:units] = layer.bias
    parts, spans = [], []
    for start in range(0, padded, panel):
        own = weight[start : start + panel]
        used = np.flatnonzero((own != 0).any(axis=0))
        first, last = (used[0], used[-1] + 1) if len(used) else (0, 0)
        spans.append((first, last - first))
        parts.append(own[:, first:last].T.reshape(-1))
    return Packed(panel, np.concatenate(parts), bias, np.array(spans), layer)


def network_code(layers: Sequence[Layer], kind: str) -> str:
    """Tables, ``@_network`` and ``@_backwards``.

    Args:
        layers: from features to outputs.
        kind: `double` or `float`, in which it computes.
    """
    packed = [pack(layer) for layer in layers]
    inner = packed[:-1]
    starts = np.concatenate([[0], np.cumsum([own.units for own in inner], dtype=np.int64)])
    widest = max([layers[0].weight.shape[1], *(own.units for own in packed)])
    sizes = {"UNITS": max(1, int(starts[-1])), "WIDEST": widest, "BLOCK": BLOCK}
    parts = [f"enum {{ {', '.join(f'@_{name} = {value}' for name, value in sizes.items())} }};\n"]
    for number, own in enumerate(packed):
        parts += [
            table(kind, f"@_weights{number}", own.weights),
            table(kind, f"@_bias{number}", own.bias),
            table("int", f"@_span{number}", own.span),
        ]
    for panel in sorted({own.panel for own in packed}):
        parts.append(_panel_code(panel, kind))
    parts += [_forwards(packed, starts, kind), _rows(packed, kind), _backwards(packed, starts, kind)]
    return "".join(parts)


def _forwards(packed: Sequence[Packed], starts: np.ndarray, kind: str) -> str:
    lines = [f"static void @_network(const {kind} *features, {kind} *units, {kind} *outputs)\n{{"]
    if any(own.layer.rising or own.layer.falling for own in packed):
        lines.append("    int k;")
    source = "features"
    for number, own in enumerate(packed):
        last = number == len(packed) - 1
        goal = "outputs" if last else f"units + {starts[number]}"
        tables = f"@_weights{number}, @_bias{number}, @_span{number}"
        lines.append(f"    @_panels{own.panel}({source}, {goal}, {tables}, {own.units // own.panel});")
        for (first, end), test in zip(_cut_off(own.layer), ("<", ">"), strict=True):
            if end > first:
                unit = f"units[{starts[number]} + k]"
                lines.append(f"    for (k = {first}; k < {end}; ++k) if ({unit} {test} 0) {unit} = 0;")
        source = goal
    if len(packed) == 1:
        lines.append("    (void)units;")
    return "\n".join([*lines, "}\n\n"])


def _rows(packed: Sequence[Packed], kind: str) -> str:
    """The same of a block of rows: of each feature, unit and output, the values of all rows side by side."""
    lines = [f"static void @_network_rows(const {kind} *features, {kind} *outputs)\n{{"]
    names = ["one", "two"]
    if len(packed) > 1:
        lines.append(f"    {kind} one[@_WIDEST * @_BLOCK]{', two[@_WIDEST * @_BLOCK]' * (len(packed) > 2)};")
    if any(own.layer.rising or own.layer.falling for own in packed):
        lines.append("    int k;")
    source = "features"
    for number, own in enumerate(packed):
        goal = "outputs" if number == len(packed) - 1 else names[0]
        tables = f"@_weights{number}, @_bias{number}, @_span{number}"
        lines.append(f"    @_rows{own.panel}({source}, {goal}, {tables}, {own.units // own.panel});")
        for (first, end), test in zip(_cut_off(own.layer), ("<", ">"), strict=True):
            if end > first:
                ends = f"k = {first} * @_BLOCK; k < {end} * @_BLOCK; ++k"
                lines.append(f"    for ({ends}) {goal}[k] = {goal}[k] {test} 0 ? 0 : {goal}[k];")
        source = goal
        names.reverse()
    return "\n".join([*lines, "}\n\n"])


def _backwards(packed: Sequence[Packed], starts: np.ndarray, kind: str) -> str:
    """Of one output by all features, through the units as they were."""
    lines = [
        f"static void @_backwards(const {kind} *units, int output, {kind} *by_features)\n{{",
        f"    {kind} one[@_WIDEST], two[@_WIDEST];",
        "    int k;",
    ]
    names = ["one", "two"]
    own = packed[-1]
    lines.append(f"    for (k = 0; k < {own.units}; ++k) one[k] = k == output ? 1 : 0;")
    for number in range(len(packed) - 1, -1, -1):
        own, here, there = packed[number], names[0], names[1] if number else "by_features"
        for (first, end), test in zip(_cut_off(own.layer), (">", "<"), strict=True):
            if end > first:
                unit = f"units[{starts[number]} + k]"
                lines.append(f"    for (k = {first}; k < {end}; ++k) if (!({unit} {test} 0)) {here}[k] = 0;")
        width = packed[number - 1].units if number else own.layer.weight.shape[1]
        tables = f"@_weights{number}, @_span{number}"
        lines.append(f"    for (k = 0; k < {width}; ++k) {there}[k] = 0;")
        lines.append(f"    @_back{own.panel}({here}, {there}, {tables}, {own.units // own.panel});")
        names.reverse()
    if len(packed) == 1:
        lines += ["    (void)units;", "    (void)two;"]
    return "\n".join([*lines, "}\n"])


def _cut_off(layer: Layer) -> tuple[tuple[int, int], tuple[int, int]]:
    """First unit and end, of those cut off below 0 and of those cut off above."""
    return (0, layer.rising), (layer.rising, layer.rising + layer.falling)


_PANEL = """
/* Sums of products, four of them in pairs before a sum is put back: none waits for more than one other. */
static void @_panelsPANEL(const NET *restrict in, NET *restrict out, const NET *restrict weights,
                          const NET *restrict bias, const int *restrict span, int panels)
{
    int p, j, t;
    for (p = 0; p < panels; ++p) {
        const NET *at = in + span[2 * p];
        const int count = span[2 * p + 1];
        for (t = 0; t < PANEL; ++t) out[t] = bias[t];
        for (j = 0; j + 4 <= count; j += 4) {
            const NET one = at[j], two = at[j + 1], three = at[j + 2], four = at[j + 3];
            for (t = 0; t < PANEL; ++t) {
                const NET first = weights[t] * one + weights[PANEL + t] * two;
                const NET second = weights[2 * PANEL + t] * three + weights[3 * PANEL + t] * four;
                out[t] += first + second;
            }
            weights += 4 * PANEL;
        }
        for (; j < count; ++j) {
            const NET value = at[j];
            for (t = 0; t < PANEL; ++t) out[t] += weights[t] * value;
            weights += PANEL;
        }
        bias += PANEL;
        out += PANEL;
    }
}

/* The same for a block of rows, whose values are side by side. */
static void @_rowsPANEL(const NET *restrict in, NET *restrict out, const NET *restrict weights,
                        const NET *restrict bias, const int *restrict span, int panels)
{
    int p, j, t, r;
    for (p = 0; p < panels; ++p) {
        const int count = span[2 * p + 1];
        for (t = 0; t < PANEL; ++t) {
            const NET *at = in + span[2 * p] * @_BLOCK, *own = weights + t;
            for (r = 0; r < @_BLOCK; ++r) out[r] = bias[t];
            for (j = 0; j + TOGETHER <= count; j += TOGETHER) {
                for (r = 0; r < @_BLOCK; ++r) {
                    NET total = out[r];
                    ADDED
                    out[r] = total;
                }
                at += TOGETHER * @_BLOCK;
                own += TOGETHER * PANEL;
            }
            for (; j < count; ++j) {
                for (r = 0; r < @_BLOCK; ++r) out[r] += own[0] * at[r];
                at += @_BLOCK;
                own += PANEL;
            }
            out += @_BLOCK;
        }
        weights += count * PANEL;
        bias += PANEL;
    }
}

static void @_backPANEL(const NET *restrict by_out, NET *restrict by_in, const NET *restrict weights,
                        const int *restrict span, int panels)
{
    int p, j, t;
    for (p = 0; p < panels; ++p) {
        NET *at = by_in + span[2 * p];
        const int count = span[2 * p + 1];
        for (j = 0; j < count; ++j) {
            NET part[PANEL];
            for (t = 0; t < PANEL; ++t) part[t] = weights[t] * by_out[t];
            HALVES
            at[j] += (part[0] + part[2]) + (part[1] + part[3]);
            weights += PANEL;
        }
        by_out += PANEL;
    }
}

"""


def _panel_code(panel: int, kind: str) -> str:
    halves = []
    half = panel // 2
    while half >= 4:
        halves.append(f"for (t = 0; t < {half}; ++t) part[t] += part[{half} + t];")
        half //= 2
    lines = "\n            ".join(halves)
    code = _PANEL.replace("            HALVES\n", f"            {lines}\n" if halves else "")
    added = [f"total += own[{k} * PANEL] * at[{k} * @_BLOCK + r];" for k in range(_TOGETHER)]
    code = code.replace("ADDED", "\n                    ".join(added)).replace("TOGETHER", str(_TOGETHER))
    return code.replace("PANEL", str(panel)).replace("NET", kind)
