"""Models of first and second order over leaves, in C."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether.export.c.numbers import literal, table
from tether.export.c.rooms.opening import opening_code, pins_code
from tether.export.c.rooms.tables import buffers, tables_code
from tether.export.c.search import search_code
from tether.export.c.trees import Tree, tree_code
from tether.model import Model
from tether.model.single import single_precision


def affine(model: Model) -> str:
    """In float64."""
    cells, tether = model.cells, buffers(model.tether)
    rows = _Rows.of(
        model,
        [tether["value"], tether["remainder"], tether["left"]],
        [tether["slope"]],
        (tether["curvature"], tether["pairs"], tether["centre"]),
    )
    tables = {
        "box_low": tether["leaves.lower"],
        "box_high": tether["leaves.upper"],
        "reference": tether["reference"],
        "half_width": tether["half_width"],
        "pinned": tether["pinned"],
        "pinned_rate": tether["pinned_rate"],
    }
    tree = _tree(tether, ("leaves.lower", "leaves.upper"), cells.centers)
    before = "for (d = 0; d < @_INPUTS; ++d) gaps[d] = x[d] - @_reference[d];"
    code = _away(rows.bending(_LEAVES), "gaps[uses[{}]]").replace("SPREAD", "row[1] + width")
    code = code.replace("BEFORE", before)
    return "".join(
        [
            search_code(cells.memories, cells.scale, None, "double"),
            tree_code(tree, rows.starts, "double"),
            rows.code("double"),
            tables_code("double", tables),
            pins_code(tether["pinned_rate"]),
            opening_code(range(len(cells.scale))),
            _without_size(code),
        ]
    )


def affine_single(model: Model) -> str:
    """In float32."""
    single = single_precision(model).tether
    own = buffers(single)
    rows = _Rows.of(
        model,
        [own["value"], own["remainder"], own["most"]],
        [own["slope"], own["point"]],
        (own["curvature"], own["pairs"], own["point"]),
    )
    tables = {
        "box_low": own["box_lower"],
        "box_high": own["box_upper"],
        "half_width": own["half_width"],
        "pinned": own["pinned"],
        "pinned_rate": own["pinned_rate"],
    }
    magnified: Any = single.magnified  # type: ignore[attr-defined]
    spread = f"row[1] + width + {literal(float(magnified), 'float')} * (size + width)"
    code = _away(rows.bending(_LEAVES), "(x[uses[{0}]] - row[3 + count + {0}])").replace("SPREAD", spread)
    code = code.replace("    BEFORE\n", "").replace(", gaps[@_INPUTS]", "")
    return "".join(
        [
            search_code(own["centers"], None, own["inverse_scale"], "float"),
            tree_code(_tree(own, ("box_lower", "box_upper"), own["centers"]), rows.starts, "float"),
            rows.code("float"),
            tables_code("float", tables),
            pins_code(own["pinned_rate"]),
            opening_code(range(len(own["inverse_scale"]))),
            code,
        ]
    )


@dataclass(frozen=True, eq=False)
class _Rows:
    """What is known of each leaf, without slopes along inputs that no leaf of an output has one along.

    Attributes:
        used: of each output, the inputs that it has slopes along.
        starts: (L,) where the row of a leaf begins.
        values: all rows, one after another.
        parts: numbers that a row holds of each such input.
        pairs: of each output, (B, 2) inputs that it has curvatures along: of each pair a row ends with the
            curvature, and with where both inputs are counted from.
    """

    used: list[np.ndarray]
    starts: np.ndarray
    values: np.ndarray
    parts: int
    pairs: list[np.ndarray]

    @classmethod
    def of(
        cls,
        model: Model,
        single: list[np.ndarray],
        by_input: list[np.ndarray],
        curved: tuple[np.ndarray, np.ndarray, np.ndarray],
    ) -> _Rows:
        """From tables (L,) and (L, D), of which the first says what is used; and what is of second order."""
        bounds: Any = model.bounds
        output, used, values, bends = bounds.output, [], [], []
        curvature, pairs, centre = curved
        starts, length = np.zeros(len(output), dtype=np.int64), 0
        for q in range(len(model.schema.outputs)):
            own = np.flatnonzero(output == q)
            columns = np.flatnonzero((by_input[0][own] != 0).any(axis=0))
            parts = [part[own][:, columns] for part in by_input]
            bent = np.flatnonzero((curvature[own] != 0).any(axis=0))
            for k in bent:
                parts += [curvature[own, k][:, None], centre[own][:, pairs[k]]]
            bends.append(pairs[bent])
            row = np.column_stack([*(part[own] for part in single), *parts])
            starts[own] = length + row.shape[1] * np.arange(len(own))
            length += row.size
            used.append(columns)
            values.append(row.reshape(-1))
        return cls(used, starts, np.concatenate(values), len(by_input), bends)

    def bending(self, code: str) -> str:
        """The code of leaves, with what curvatures add where there are some."""
        there = any(len(own) for own in self.pairs)
        for mark, added in _BENDING.items():
            code = code.replace(mark, added if there else "")
        return code

    def code(self, kind: str) -> str:
        """Tables."""
        counts = [len(own) for own in self.used]
        return "".join(
            [
                f"enum {{ @_PARTS = {self.parts} }};\n",
                table(kind, "@_leaves", self.values),
                table("int", "@_uses", np.concatenate(self.used)),
                table("int", "@_use", np.concatenate([[0], np.cumsum(counts)])),
                self._bends(),
            ]
        )

    def _bends(self) -> str:
        counts = [len(own) for own in self.pairs]
        if not sum(counts):
            return ""
        places = table("int", "@_bend", np.concatenate([[0], np.cumsum(counts)]))
        return table("int", "@_pairs", np.concatenate(self.pairs).reshape(-1)) + places


def _away(code: str, way: str) -> str:
    """How far an input is from where A starts, by its place in the row."""
    return re.sub(r"AWAY\(([^)]*)\)", lambda found: way.format(found[1]), code)


def _without_size(code: str) -> str:
    """In float64 the size of A's parts is in the remainder."""
    return "\n".join(line for line in code.splitlines() if "size" not in line or "sizeof" in line) + "\n"


_LEAVES = """
/* What is known of a leaf is fetched before it is needed. */
#ifdef __GNUC__
#define FETCH(at) __builtin_prefetch(at)
#else
#define FETCH(at) ((void)(at))
#endif

static void @_begin(const REAL *x, struct @_room *room)
{
    int q, k;
    @_enter_trees(x, room->leaf);
    while (!@_descend(x, room->leaf)) continue;
    for (q = 0; q < @_OUTPUTS; ++q) {
        const int length = 3 + @_PARTS * (@_use[q + 1] - @_use[q])MORE;
        room->leaf[q] = -1 - room->leaf[q];
        for (k = 0; k < length; k += 64 / (int)sizeof(REAL)) FETCH(@_leaves + room->leaf[q] + k);
    }
}

static void @_finish(const REAL *x, struct @_room *room)
{
    REAL share, gaps[@_INPUTS];
    int q, d, k;
    room->cell = @_nearest(x, 0);
    room->inside = 1;
    for (d = 0; d < @_INPUTS; ++d)
        if (!(x[d] >= @_box_low[d] && x[d] <= @_box_high[d])) room->inside = 0;
    share = @_opening(x);
    BEFORE
    for (q = 0; q < @_OUTPUTS; ++q) {
        const REAL *row = @_leaves + room->leaf[q];
        const int *uses = @_uses + @_use[q];
        const int count = @_use[q + 1] - @_use[q];
        REAL anchor, width, one = 0, two = 0;
        REAL size = 0;
        for (k = 0; k + 2 <= count; k += 2) {
            const REAL even = row[3 + k] * AWAY(k), odd = row[4 + k] * AWAY(k + 1);
            one += even;
            two += odd;
            size += FABS(even) + FABS(odd);
        }
        if (k < count) {
            const REAL even = row[3 + k] * AWAY(k);
            one += even;
            size += FABS(even);
        }
BENT        anchor = row[0] + (one + two);
        size += FABS(row[0]);
        width = @_half_width[room->cell * @_OUTPUTS + q] * share;
        room->closed[q] = !(width < row[2]);
        if (room->closed[q]) width = row[2];
        room->anchor[q] = anchor;
        room->lower[q] = anchor - width;
        room->upper[q] = anchor + width;
        room->delta[q] = SPREAD;
        if (!(row[1] < INFINITY)) room->inside = 0;
    }
}

static void @_slopes(const REAL *x, const struct @_room *room, int output, REAL *anchor, REAL *middle,
                     REAL *width)
{
    const REAL *row = @_leaves + room->leaf[output];
    REAL share = @_half_width[room->cell * @_OUTPUTS + output];
    int d, k;
    if (room->closed[output]) share = 0;
    @_opening_slopes(x, share, width);
    for (d = 0; d < @_INPUTS; ++d) anchor[d] = middle[d] = 0;
    for (k = @_use[output]; k < @_use[output + 1]; ++k) {
        d = @_uses[k];
        anchor[d] = middle[d] = row[3 + k - @_use[output]];
    }
STEEP}
"""
_BENDING = {
    "MORE": " + 3 * (@_bend[q + 1] - @_bend[q])",
    "BENT": """        for (k = @_bend[q], row += 3 + @_PARTS * count; k < @_bend[q + 1]; ++k, row += 3) {
            const REAL term = row[0] * (x[@_pairs[2 * k]] - row[1]) * (x[@_pairs[2 * k + 1]] - row[2]);
            one += term;
            size += FABS(term);
        }
        row = @_leaves + room->leaf[q];
""",
    "STEEP": """    row += 3 + @_PARTS * (@_use[output + 1] - @_use[output]);
    for (k = @_bend[output]; k < @_bend[output + 1]; ++k, row += 3) {
        const int i = @_pairs[2 * k], j = @_pairs[2 * k + 1];
        anchor[i] += row[0] * (x[j] - row[2]);
        anchor[j] += row[0] * (x[i] - row[1]);
        middle[i] = anchor[i];
        middle[j] = anchor[j];
    }
""",
}
"""What leaves of second order have besides; without them the code is as it was before there were any."""


def _tree(own: dict[str, np.ndarray], box: tuple[str, str], likely: np.ndarray) -> Tree:
    """From the buffers of a tether; `box` has the names of its ends."""
    prefix = "leaves." if "leaves.roots" in own else ""
    roots, cut, threshold, left, right = (
        own[f"{prefix}{name}"] for name in ("roots", "cut", "threshold", "left", "right")
    )
    lower, upper = (own[name] for name in box)
    return Tree(roots, cut, threshold, left, right, lower, upper, likely)
