"""NumPy's routines that are more than a sum: tables, linear systems, pieces chosen by conditions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tether.programs import graph as codes
from tether.programs.arrays import (
    Traced,
    conform,
    constant_arguments,
    graph_of,
    numbers_of,
    plain_objects,
    result_of,
    wrap,
)
from tether.programs.refusal import refuse
from tether.programs.scalars import Node, apply, as_number, choose, make, truth_of
from tether.programs.systems import MOST


def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    """As ``np.interp``, of a table of constants."""
    if period is not None:
        refuse("interp", "does not take `period`", "Use np.mod first, and repeat the first point at the end")
    if np.ndim(left) or np.ndim(right):
        refuse("interp", "must be given single numbers for `left` and `right`")
    graph = graph_of(x)
    points, values = _table(xp, fp)
    entries = plain_objects(x, "interp")

    def look(entry: Any) -> Any:
        found = make(graph, codes.TABLE, as_number(entry), *points, *values)
        for end, limit, ufunc in ((left, points[0], np.less), (right, points[-1], np.greater)):
            if end is not None:  # a jump, unless it is the value at the end
                found = choose(apply(ufunc, as_number(entry), limit), numbers_of(end), found, graph)
        return found

    return np.frompyfunc(look, 1, 1)(entries)


def _table(xp: Any, fp: Any) -> tuple[list[float], list[float]]:
    if graph_of(xp, fp) is not None:
        refuse("interp", "must be given a table of constants", "Weigh rows of a table by interp of each")
    points, values = (np.asarray(constant_arguments(part, "interp"), dtype=np.float64) for part in (xp, fp))
    if points.ndim != 1 or points.shape != values.shape or not len(points):
        raise ValueError("fp and xp are not of the same length.")
    with np.errstate(all="ignore"):
        steps, rises = np.diff(points), np.diff(values)
        fine = np.isfinite([points, values]).all() and np.isfinite([steps, rises, rises / steps]).all()
    if not (fine and (steps > 0).all()):
        refuse("interp", "must be given finite points that rise, and slopes that do not overflow")
    return points.tolist(), values.tolist()


def solve(a: Any, b: Any) -> Any:
    """As ``np.linalg.solve``, for small matrices."""
    matrices, right = _matrices("solve", a), plain_objects(b, "linalg.solve")
    columns = right[:, None] if right.ndim == 1 else right
    if columns.shape[-2] != matrices.shape[-1]:
        raise ValueError("solve: the right side does not fit the matrix.")
    found = _solved(graph_of(matrices, right), matrices, columns)
    found = found[..., 0] if right.ndim == 1 else found
    return result_of(conform("linalg.solve", found, _regular(np.linalg.solve), (a, b), {}))


def inv(a: Any) -> Any:
    """As ``np.linalg.inv``, for small matrices: LAPACK solves for each column of the unit matrix."""
    matrices = _matrices("inv", a)
    unit = np.eye(matrices.shape[-1]).astype(object)
    found = _solved(graph_of(matrices), matrices, unit)
    return result_of(conform("linalg.inv", found, _regular(np.linalg.inv), (a,), {}))


def det(a: Any) -> Any:
    """As ``np.linalg.det``, for small matrices."""
    matrices = _matrices("det", a)
    graph = graph_of(matrices)
    found = np.empty(matrices.shape[:-2], dtype=object)
    for place in np.ndindex(found.shape):
        found[place] = _determinant(graph, matrices[place])
    return result_of(conform("linalg.det", found, _regular(np.linalg.det), (a,), {}))


def _matrices(name: str, value: Any) -> Any:
    """An array of numbers whose last two axes are those of small square matrices."""
    entries = plain_objects(value, f"linalg.{name}")
    if entries.ndim < 2 or entries.shape[-1] != entries.shape[-2]:
        raise np.linalg.LinAlgError("Last 2 dimensions of the array must be square")
    if not 1 <= entries.shape[-1] <= MOST:
        refuse(f"linalg.{name}", f"is bounded for matrices of up to {MOST} rows", "Take the system apart")
    return plain_objects(numbers_of(entries))


def _regular(function: Callable[..., Any]) -> Callable[..., Any]:
    """NumPy's function on matrices it can take: stand-ins are ones, which are singular."""

    def called(matrices: Any, *others: Any) -> Any:
        unit = np.zeros_like(matrices)
        unit[...] = np.eye(unit.shape[-1])
        return function(unit, *others)

    return called


def _solved(graph: Any, matrices: Any, right: Any) -> Any:
    rows, columns = right.shape[-2:]
    shape = np.broadcast_shapes(matrices.shape[:-2], right.shape[:-2])
    matrices = np.broadcast_to(matrices, (*shape, rows, rows))
    right = np.broadcast_to(right, (*shape, rows, columns))
    found = np.empty(right.shape, dtype=object)
    for place in np.ndindex(*shape, columns):
        given = [
            *matrices[place[:-1]].flat,
            *(as_number(part) for part in right[(*place[:-1], ..., place[-1])]),
        ]
        for row in range(rows):
            found[(*place[:-1], row, place[-1])] = make(graph, codes.SOLUTION, *given, value=float(row))
    return found


def _determinant(graph: Any, matrix: Any) -> Any:
    """By minors of the first rows, from one row on; then what LAPACK makes of it."""
    size = len(matrix)
    minors: dict[tuple[int, ...], Any] = {(): 1.0}
    for row in range(size):
        grown: dict[tuple[int, ...], list[Any]] = {}
        for columns, minor in minors.items():
            for column in set(range(size)) - set(columns):
                chosen = tuple(sorted((*columns, column)))
                sign = -1.0 if (len(chosen) - 1 - chosen.index(column)) % 2 else 1.0
                part = apply(np.multiply, sign, apply(np.multiply, matrix[row, column], minor))
                grown.setdefault(chosen, []).append(part)
        minors = {chosen: _added(parts) for chosen, parts in grown.items()}
    sizes = [_added([apply(np.absolute, entry) for entry in column]) for column in matrix.T]
    return make(graph, codes.DETERMINANT, minors[tuple(range(size))], *sizes)


def _added(parts: list[Any]) -> Any:
    total = parts[0]
    for part in parts[1:]:
        total = apply(np.add, total, part)
    return total


def piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Any:
    """As ``np.piecewise``: its conditions are answered one way and the other, in turn."""
    entries = wrap(x)
    conditions = (
        [wrap(part) for part in condlist] if isinstance(condlist, list | tuple) else list(wrap(condlist))
    )
    if not isinstance(condlist, list | tuple) and np.ndim(condlist) == np.ndim(x):
        refuse("piecewise", "must be given a list of conditions", "Write np.piecewise(x, [x < 0], [...])")
    if any(part.shape != entries.shape or part.dtype != np.bool_ for part in conditions):
        refuse("piecewise", "must be given conditions of the shape of its first argument")
    if not entries.ndim:
        refuse("piecewise", "of a single number is not followed", "Use `if`, or np.where")
    masks = [_decided(part) for part in conditions]
    if len(funclist) == len(masks) + 1:
        masks.append(~np.logical_or.reduce(masks))
    if len(funclist) != len(masks):
        raise ValueError("piecewise: there must be as many functions as conditions, or one more.")
    made: Any = np.zeros(entries.shape).astype(object).view(Traced)
    for mask, function in zip(masks, funclist, strict=True):
        if not callable(function):
            made[mask] = function
        elif mask.any():
            made[mask] = function(entries[mask], *args, **kw)
    return made


def _decided(conditions: Any) -> Any:
    answers = [_answered(entry) for entry in conditions.flat]
    return np.array(answers, dtype=bool).reshape(conditions.shape)


def _answered(condition: Any) -> bool:
    """By the comparisons that a condition is made of: what one says of another is then known."""
    if not isinstance(condition, Node):
        return bool(condition)
    graph = condition.graph
    operation, parts = graph.operations[condition.number], graph.operands[condition.number]
    if operation == codes.NOT:
        return not _answered(Node(graph, parts[0]))
    if operation == codes.AND:
        return all(_answered(Node(graph, part)) for part in parts)
    return truth_of(condition)


def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    """As ``np.searchsorted`` of constants: where a number lies is decided one way and the other."""
    if sorter is not None or graph_of(a) is not None or side not in ("left", "right"):
        refuse("searchsorted", "must be given a sorted array of constants", "Leave `sorter` out")
    points = np.asarray(constant_arguments(a, "searchsorted"), dtype=np.float64)
    _check_rising("searchsorted", points)
    entries = plain_objects(v, "searchsorted")
    found = np.empty(entries.shape, dtype=np.intp)
    for place in np.ndindex(entries.shape):
        found[place] = _place(
            points.tolist(), as_number(entries[place]), np.less_equal if side == "right" else np.less
        )
    return found if entries.ndim else np.intp(found[()])


def digitize(x: Any, bins: Any, right: Any = False) -> Any:
    """As ``np.digitize`` of rising bins."""
    return searchsorted(bins, x, side="left" if right else "right")


def _check_rising(name: str, points: Any) -> None:
    if points.ndim != 1 or not np.isfinite(points).all() or (np.diff(points) <= 0).any():
        refuse(name, "must be given finite points that rise")


def _place(points: list[float], value: Any, before: np.ufunc) -> int:
    """How many points lie before a number, by halves, as is decided."""
    low, high = 0, len(points)
    while low < high:
        middle = (low + high) // 2
        holds = apply(before, points[middle], value)
        if _answered(holds):
            low = middle + 1
        else:
            high = middle
    return low


ROUTINES: dict[Any, Callable[..., Any]] = {
    np.interp: interp,
    np.linalg.solve: solve,
    np.linalg.inv: inv,
    np.linalg.det: det,
    np.piecewise: piecewise,
    np.searchsorted: searchsorted,
    np.digitize: digitize,
}
ROUTINES_OF_NUMBERS = [function for function in ROUTINES if function is not np.piecewise]
"""Of constants, NumPy's own: unlike those of pieces, all that they are made of is given."""
