"""NumPy's tables, linear systems and choices of pieces, on terms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tether.verification.arrays import (
    DECIDED,
    FUNCTIONS,
    TEMPLATES,
    HasTermsError,
    TermArray,
    actual,
    as_array,
    assign,
    fitting,
    item,
    packed,
    plain,
)
from tether.verification.graph import Graph, Term, as_term, number, select
from tether.verification.operations import apply, apply_or_fold

_ROWS = 8
"""Of a matrix, at most."""


def _constants(graph: Graph, name: str, value: Any) -> np.ndarray:
    try:
        found = np.asarray(actual(value, []))
    except HasTermsError:
        graph.refuse(f"np.{name} of a table that depends on the inputs")
    if found.dtype.kind not in "iuf" or found.dtype.itemsize > 8:
        graph.refuse(f"np.{name} of a table of {found.dtype}")
    return found.astype(np.float64)


def _interp(
    graph: Graph, x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None
) -> np.ndarray:
    points, values = _constants(graph, "interp", xp), _constants(graph, "interp", fp)
    with np.errstate(all="ignore"):
        steps, rises = np.diff(points), np.diff(values)
        numbers = [points, values, steps, rises, rises / steps]
    if period is not None or not all(np.isfinite(part).all() for part in numbers) or not (steps > 0).all():
        graph.refuse("np.interp with `period`, or points that do not rise")
    data = tuple(tuple(entry.hex() for entry in part.tolist()) for part in (points, values))
    entries = plain(graph, x)

    def look(entry: Any) -> Any:
        term = number(as_term(graph, entry))
        found = Term(graph, graph.add("interp", term.number, data=data))
        if right is not None:
            found = select(apply("greater", term, points[-1]), right, found, graph)
        if left is not None:
            found = select(apply("less", term, points[0]), left, found, graph)
        return found

    return packed(map(look, entries.flat), entries.shape)


# Linear systems -----------------------------------------------------------------------------------------


def _matrices(graph: Graph, name: str, value: Any) -> np.ndarray:
    entries = plain(graph, value)
    if not 1 <= entries.shape[-1] <= _ROWS:
        graph.refuse(f"np.linalg.{name} of matrices of more than {_ROWS} rows")
    return fitting(graph, entries, truths=False)


def _solved(graph: Graph, matrices: np.ndarray, right: np.ndarray) -> np.ndarray:
    rows, columns = right.shape[-2:]
    shape = np.broadcast_shapes(matrices.shape[:-2], right.shape[:-2])
    matrices = np.broadcast_to(matrices, (*shape, rows, rows))
    right = np.broadcast_to(right, (*shape, rows, columns))
    found = np.empty(right.shape, dtype=object)
    for place in np.ndindex(*shape):
        left = [as_term(graph, entry).number for entry in matrices[place].flat]
        for column in range(columns):
            sides = [as_term(graph, right[(*place, row, column)]).number for row in range(rows)]
            for row in range(rows):
                made = graph.add("solve", *left, *sides, data=row)
                found[(*place, row, column)] = Term(graph, made)
    return found


def _solve(graph: Graph, a: Any, b: Any) -> np.ndarray:
    right = fitting(graph, plain(graph, b), truths=False)
    flat = right.ndim == 1
    found = _solved(graph, _matrices(graph, "solve", a), right[:, None] if flat else right)
    return found[..., 0] if flat else found


def _inv(graph: Graph, a: Any) -> np.ndarray:
    matrices = _matrices(graph, "inv", a)
    return _solved(graph, matrices, plain(graph, np.eye(matrices.shape[-1])))


def _det(graph: Graph, a: Any) -> np.ndarray:
    matrices = _matrices(graph, "det", a)
    found = [_determinant(graph, matrices[place]) for place in np.ndindex(matrices.shape[:-2])]
    return packed(found, matrices.shape[:-2])


def _determinant(graph: Graph, matrix: np.ndarray) -> Term:
    """By cofactors of the last row, and of what is left; then what NumPy makes of it."""
    minors: dict[tuple[int, ...], Any] = {}

    def minor(columns: tuple[int, ...]) -> Any:
        if not columns:
            return np.float64(1.0)
        if columns not in minors:
            row, total = len(columns) - 1, None
            for k, column in enumerate(columns):
                part = apply_or_fold(
                    graph, "multiply", matrix[row, column], minor(columns[:k] + columns[k + 1 :])
                )
                part = apply_or_fold(graph, "negative", part) if (row + k) % 2 else part
                total = part if total is None else apply_or_fold(graph, "add", total, part)
            minors[columns] = total
        return minors[columns]

    exact = as_term(graph, minor(tuple(range(len(matrix)))))
    sizes = []
    for column in matrix.T:
        parts = [apply_or_fold(graph, "absolute", entry) for entry in column]
        total = parts[0]
        for part in parts[1:]:
            total = apply_or_fold(graph, "add", total, part)
        sizes.append(as_term(graph, total).number)
    return Term(graph, graph.add("det", exact.number, *sizes))


def _regular(function: Callable[..., Any]) -> Callable[..., Any]:
    """NumPy's function, of unit matrices: of ones it would raise."""

    def made(a: Any, *others: Any) -> Any:
        unit = np.empty_like(a)
        unit[...] = np.eye(np.shape(a)[-1])
        return function(unit, *others)

    return made


# Choices --------------------------------------------------------------------------------------------------


def _answered(graph: Graph, entry: Any) -> bool:
    """A condition's answer in this run, by the parts that it is made of."""
    if type(entry) is not Term:
        return bool(entry)
    return _asked(graph, entry.number)


def _asked(graph: Graph, condition: int) -> bool:
    node = graph.nodes[condition]
    if node.operation == "and":
        return all(_asked(graph, part) for part in node.arguments)
    if node.operation == "or":
        return any(_asked(graph, part) for part in node.arguments)
    return not _asked(graph, node.arguments[0]) if node.operation == "not" else graph.decide(condition)


def _piecewise(graph: Graph, x: Any, condlist: Any, funclist: Any, *args: Any, **options: Any) -> Any:
    if type(condlist) not in (list, tuple) or type(funclist) not in (list, tuple):
        graph.refuse("np.piecewise without a list of conditions and one of functions")
    array = x if type(x) is TermArray else as_array(graph, x)
    masks = []
    for part in condlist:
        entries = plain(graph, part)
        if entries.shape != array.entries.shape or not entries.ndim:
            graph.refuse("np.piecewise with conditions of another shape, or of a single number")
        if not all(
            isinstance(entry, np.bool_) or (type(entry) is Term and entry.boolean) for entry in entries.flat
        ):
            graph.refuse("np.piecewise with conditions that are none")
        masks.append(
            np.array([_answered(graph, entry) for entry in entries.flat], dtype=bool).reshape(entries.shape)
        )
    if len(funclist) == len(masks) + 1:
        masks.append(~np.logical_or.reduce(masks))
    if len(funclist) != len(masks):
        raise ValueError("piecewise: there must be as many functions as conditions, or one more.")
    made = TermArray(graph, packed([np.float64(0.0)] * array.entries.size, array.entries.shape))
    for mask, function in zip(masks, funclist, strict=True):
        if not callable(function) or type(function) in (Term, TermArray):
            assign(graph, made, mask, function)
        elif mask.any():
            assign(graph, made, mask, function(item(graph, array, mask), *args, **options))
    return made


def _searchsorted(graph: Graph, a: Any, v: Any, side: Any = "left", sorter: Any = None) -> Any:
    points = _constants(graph, "searchsorted", a)
    rising = points.ndim == 1 and np.isfinite(points).all() and (np.diff(points) > 0).all()
    if sorter is not None or side not in ("left", "right") or not rising:
        graph.refuse("np.searchsorted other than in finite numbers that rise")
    entries = plain(graph, v)
    name = "less" if side == "left" else "less_equal"
    found = [_before(graph, points, entry, name) for entry in entries.flat]
    return np.array(found, dtype=np.intp).reshape(entries.shape) if entries.ndim else np.intp(found[0])


def _before(graph: Graph, points: np.ndarray, entry: Any, name: str) -> int:
    """How many of the points lie before a number: those in the middle are asked about first."""
    first, last = 0, len(points)
    while first < last:
        half = first + (last - first) // 2
        if _answered(graph, apply_or_fold(graph, name, points[half], entry)):
            first = half + 1
        else:
            last = half
    return first


def _digitize(graph: Graph, x: Any, bins: Any, right: Any = False) -> Any:
    return _searchsorted(graph, bins, x, side="left" if right else "right")


FUNCTIONS.update({np.interp: _interp, np.linalg.solve: _solve, np.linalg.inv: _inv, np.linalg.det: _det})
TEMPLATES.update(
    {function: _regular(function) for function in (np.linalg.solve, np.linalg.inv, np.linalg.det)}
)
DECIDED.update({np.piecewise: _piecewise, np.searchsorted: _searchsorted, np.digitize: _digitize})
