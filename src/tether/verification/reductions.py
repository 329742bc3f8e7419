"""NumPy's functions that compute over axes: sums, products, extremes, matrix products, lengths."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from itertools import product
from typing import Any

import numpy as np

from tether.verification.arrays import (
    FUNCTIONS,
    TermArray,
    add_up,
    checked,
    elementwise,
    install_methods,
    is_float64,
    plain,
    select_arrays,
    truths,
    wrapped,
)
from tether.verification.graph import EMPTY, Graph, Term
from tether.verification.operations import apply_or_fold, length

_NONE, _FULL, _EINSUM = np._NoValue, np.full, np.einsum


def _reduction(fold: Callable[[Graph, np.ndarray], np.ndarray], ordered: bool = False) -> Callable[..., Any]:
    """A reduction by a fold along the last axis; several axes are folded as one.

    `ordered`: the fold rounds, in the order of entries, which NumPy follows along one axis of the array only.
    """

    def reduced(
        graph: Graph, value: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False,
        initial: Any = _NONE, where: Any = True,
    ) -> Any:  # fmt: skip
        if not is_float64(dtype) or initial not in (_NONE, None) or where not in (True, _NONE):
            graph.refuse("a reduction with dtype, initial or where")
        entries = plain(graph, value)
        axes = tuple(range(entries.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
        axes = tuple(np.lib.array_utils.normalize_axis_tuple(axes, entries.ndim))
        kept = [k for k in range(entries.ndim) if k not in axes]
        long = [k for k in axes if entries.shape[k] > 1]
        count = int(np.prod([entries.shape[k] for k in long]))
        if ordered and count > 2 and (len(long) > 1 or entries.strides[long[0]] < 0):
            graph.refuse("np.prod over several axes or backwards, in an order of NumPy's own")
        if axes:
            moved = entries.transpose(*kept, *axes).reshape([entries.shape[k] for k in kept] + [-1])
            result = fold(graph, moved)
        else:
            result = entries.copy()
        if keepdims is True:
            result = result.reshape([1 if k in axes else n for k, n in enumerate(entries.shape)])
        result = wrapped(graph, result) if result.ndim else result[()]
        if out is None:
            return result
        out[...] = result
        return out

    return reduced


def _folded(name: str) -> Callable[[Graph, np.ndarray], np.ndarray]:
    def fold(graph: Graph, values: np.ndarray) -> np.ndarray:
        result = EMPTY(values.shape[:-1], dtype=object)
        for place in np.ndindex(result.shape):
            entries = list(values[place])
            if not entries:
                graph.refuse(f"np.{name} over nothing")
            total = entries[0]
            for entry in entries[1:]:
                total = apply_or_fold(graph, name, total, entry)
            result[place] = total
        return result

    return fold


_sum, _prod = _reduction(add_up), _reduction(_folded("multiply"), ordered=True)
_min, _max = _reduction(_folded("minimum")), _reduction(_folded("maximum"))


def _logical(name: str) -> Callable[..., Any]:
    reduce = _reduction(_folded(name))
    return lambda graph, value, *args, **options: reduce(
        graph, wrapped(graph, truths(graph, value)), *args, **options
    )


_any, _all = _logical("logical_or"), _logical("logical_and")


def _count(value: Any, axis: Any) -> int:
    shape = np.shape(value)
    axes = range(len(shape)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    return int(np.prod([shape[k] for k in axes]))


def _mean(
    graph: Graph, value: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False
) -> Any:
    total = _sum(graph, value, axis, dtype, keepdims=keepdims)
    result = elementwise(graph, np.divide, total, float(_count(value, axis)))
    if out is None:
        return result
    out[...] = result
    return out


def _var(
    graph: Graph, value: Any, axis: Any = None, ddof: int = 0, keepdims: Any = False, **options: Any
) -> Any:
    if options:
        graph.refuse(f"np.var with {sorted(options)}")
    away = elementwise(graph, np.subtract, value, _mean(graph, value, axis, keepdims=True))
    squares = _sum(graph, elementwise(graph, np.square, away), axis, keepdims=keepdims)
    return elementwise(graph, np.divide, squares, float(_count(value, axis) - ddof))


def _std(graph: Graph, value: Any, *args: Any, **options: Any) -> Any:
    return elementwise(graph, np.sqrt, _var(graph, value, *args, **options))


def _ptp(graph: Graph, value: Any, axis: Any = None) -> Any:
    return elementwise(graph, np.subtract, _max(graph, value, axis), _min(graph, value, axis))


def _running(step: Callable[[Graph, list[Any]], Any]) -> Callable[..., Any]:
    def accumulate(graph: Graph, value: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        if not is_float64(dtype) or out is not None:
            graph.refuse("an accumulation with dtype or out")
        entries = plain(graph, value)
        entries, axis = (entries.ravel(), 0) if axis is None else (entries, axis)
        moved = np.moveaxis(entries, axis, -1)
        result = EMPTY(moved.shape, dtype=object)
        for place in np.ndindex(moved.shape[:-1]):
            for k in range(moved.shape[-1]):
                result[(*place, k)] = step(graph, list(moved[place][: k + 1]))
        return wrapped(graph, np.moveaxis(result, -1, axis))

    return accumulate


def _last(fold: Callable[[Graph, np.ndarray], np.ndarray]) -> Callable[[Graph, list[Any]], Any]:
    def step(graph: Graph, entries: list[Any]) -> Any:
        row = EMPTY((1, len(entries)), dtype=object)
        row[0] = entries
        return fold(graph, row)[0]

    return step


def _matmul(graph: Graph, one: Any, two: Any) -> Any:
    left, right = plain(graph, checked(graph, one)), plain(graph, checked(graph, two))
    if not left.ndim or not right.ndim:
        graph.refuse("a matrix product with a scalar")
    wide = left[None, :] if left.ndim == 1 else left, right[:, None] if right.ndim == 1 else right
    if wide[0].shape[-1] != wide[1].shape[-2]:
        raise ValueError(f"matmul: shapes {left.shape} and {right.shape} do not match")
    rows, columns = wide[0][..., :, None, :], np.swapaxes(wide[1], -1, -2)[..., None, :, :]
    result = add_up(graph, _products(graph, rows, columns))
    result = result[..., 0] if right.ndim == 1 else result
    if left.ndim == 1:
        result = result[..., 0] if right.ndim == 1 else result[..., 0, :]
    return wrapped(graph, result) if result.ndim else result[()]


def _products(graph: Graph, one: np.ndarray, two: np.ndarray) -> np.ndarray:
    return plain(graph, elementwise(graph, np.multiply, wrapped(graph, one), wrapped(graph, two)))


def _dot(graph: Graph, one: Any, two: Any, out: Any = None) -> Any:
    if out is not None:
        graph.refuse("np.dot with out")
    if np.ndim(one) == 0 or np.ndim(two) == 0:
        return elementwise(graph, np.multiply, one, two)
    if np.ndim(two) > 2:
        left, right = plain(graph, one), np.moveaxis(plain(graph, two), -2, -1)
        wide = left.reshape(left.shape[:-1] + (1,) * (right.ndim - 1) + left.shape[-1:])
        return wrapped(graph, add_up(graph, _products(graph, wide, right)))
    if np.ndim(one) > 2 and np.ndim(two) == 1:
        return wrapped(graph, add_up(graph, _products(graph, plain(graph, one), plain(graph, two))))
    return _matmul(graph, one, two)


def _inner(graph: Graph, one: Any, two: Any) -> Any:
    if np.ndim(one) == 0 or np.ndim(two) == 0:
        return elementwise(graph, np.multiply, one, two)
    return _dot(
        graph, one, wrapped(graph, np.moveaxis(plain(graph, two), -1, -2 if np.ndim(two) > 1 else -1))
    )


def _outer(graph: Graph, one: Any, two: Any, out: Any = None) -> Any:
    if out is not None:
        graph.refuse("np.outer with out")
    left, right = plain(graph, one).ravel(), plain(graph, two).ravel()
    return elementwise(graph, np.multiply, wrapped(graph, left[:, None]), wrapped(graph, right))


def _vecdot(graph: Graph, one: Any, two: Any) -> Any:
    result = add_up(graph, _products(graph, plain(graph, one), plain(graph, two)))
    return wrapped(graph, result) if result.ndim else result[()]


def _vdot(graph: Graph, one: Any, two: Any) -> Any:
    return _vecdot(
        graph, wrapped(graph, plain(graph, one).ravel()), wrapped(graph, plain(graph, two).ravel())
    )


def _cross(
    graph: Graph, one: Any, two: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: Any = None
) -> Any:
    axes = (axisa, axisb, axisc) if axis is None else (axis, axis, axis)
    a, b = (np.moveaxis(plain(graph, part), k, 0) for part, k in ((one, axes[0]), (two, axes[1])))
    if len(a) != 3 or len(b) != 3:
        graph.refuse("np.cross of other than vectors of three")

    def minor(k: int, m: int) -> np.ndarray:
        parts = (_products(graph, a[k], b[m]), _products(graph, a[m], b[k]))
        return plain(graph, elementwise(graph, np.subtract, *(wrapped(graph, part) for part in parts)))

    return wrapped(graph, np.stack([minor(1, 2), minor(2, 0), minor(0, 1)], axis=axes[2]))


def _check_einsum(graph: Graph, subscripts: Any, options: dict[str, Any]) -> None:
    if not isinstance(subscripts, str) or "..." in subscripts or set(options) - {"optimize"}:
        graph.refuse("np.einsum other than with letters")
    if options.get("optimize", False) is not False:
        graph.refuse("np.einsum with `optimize`, which multiplies in an order of its own")


def _einsum(graph: Graph, subscripts: Any, *operands: Any, **options: Any) -> Any:
    _check_einsum(graph, subscripts, options)
    terms, _, wanted = subscripts.replace(" ", "").partition("->")
    inputs, letters = terms.split(","), sorted(set(terms) - {","})
    if "->" not in subscripts:
        wanted = "".join(c for c in letters if terms.count(c) == 1)
    arrays, sizes = [plain(graph, part) for part in operands], {}
    for names, array in zip(inputs, arrays, strict=True):
        if len(names) != array.ndim:
            raise ValueError(f"einsum: '{names}' does not fit shape {array.shape}")
        for letter, size in zip(names, array.shape, strict=True):
            if sizes.setdefault(letter, size) != size:
                graph.refuse("np.einsum that broadcasts")
    summed = [c for c in letters if c not in wanted]
    if len(arrays) == 1 and not summed:  # moves entries only, and is a view
        return wrapped(graph, _EINSUM(subscripts, arrays[0]))
    result = EMPTY([sizes[c] for c in wanted] + [int(np.prod([sizes[c] for c in summed]))], dtype=object)
    for place in product(*(range(sizes[c]) for c in wanted)):
        for k, inner in enumerate(product(*(range(sizes[c]) for c in summed))):
            at = dict(zip([*wanted, *summed], [*place, *inner], strict=True))
            entries = [array[tuple(at[c] for c in n)] for n, array in zip(inputs, arrays, strict=True)]
            result[(*place, k)] = reduce(partial(apply_or_fold, graph, "multiply"), entries)
    result = add_up(graph, result)
    return wrapped(graph, result) if result.ndim else result[()]


def _norm(graph: Graph, value: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    entries = plain(graph, value)
    flat = ord is None and axis is None
    if not flat and (ord not in (None, 2) or isinstance(axis, tuple) or (axis is None and entries.ndim != 1)):
        graph.refuse("np.linalg.norm other than the Euclidean one along one axis")
    rows = entries.ravel() if flat else np.moveaxis(entries, -1 if axis is None else axis, -1)
    result = EMPTY(rows.shape[:-1], dtype=object)
    for place in np.ndindex(result.shape):
        result[place] = length(graph, list(rows[place]))
    if keepdims:
        result = (
            result.reshape([1] * entries.ndim)
            if flat
            else np.expand_dims(result, -1 if axis is None else axis)
        )
    return wrapped(graph, result) if result.ndim else result[()]


def _where(graph: Graph, condition: Any, *branches: Any) -> Any:
    if len(branches) != 2:
        graph.refuse("np.where without both branches")
    return select_arrays(graph, condition, *branches)


def _select(graph: Graph, conditions: Any, choices: Any, default: Any = 0.0) -> Any:
    result = default
    for condition, choice in reversed(list(zip(conditions, choices, strict=True))):
        result = select_arrays(graph, condition, choice, result)
    return result


def _clip(
    graph: Graph, value: Any, a_min: Any = None, a_max: Any = None, out: Any = None, **options: Any
) -> Any:
    low, high = options.pop("min", a_min), options.pop("max", a_max)
    low, high = (None if end is _NONE else end for end in (low, high))
    if options:
        graph.refuse(f"np.clip with {sorted(options)}")
    value = wrapped(graph, plain(graph, value).copy())  # never the array itself: NumPy returns a new one
    value = value if low is None else elementwise(graph, np.maximum, value, low)
    value = value if high is None else elementwise(graph, np.minimum, value, high)
    if out is None:
        return value if np.ndim(value) else value[()] if isinstance(value, TermArray) else value
    out[...] = value
    return out


def _round(graph: Graph, value: Any, decimals: int = 0, out: Any = None) -> Any:
    if out is not None or not 0 <= decimals <= 15:
        graph.refuse("np.round with `out` or such decimals")
    if not decimals:
        return elementwise(graph, np.rint, value)
    tens = 10.0**decimals
    return elementwise(
        graph, np.divide, elementwise(graph, np.rint, elementwise(graph, np.multiply, value, tens)), tens
    )


def _diff(
    graph: Graph, value: Any, n: int = 1, axis: int = -1, prepend: Any = _NONE, append: Any = _NONE
) -> Any:
    if prepend is not _NONE or append is not _NONE:
        graph.refuse("np.diff with prepend or append")
    entries = np.moveaxis(plain(graph, value), axis, -1)
    for _ in range(n):
        ends = wrapped(graph, entries[..., 1:]), wrapped(graph, entries[..., :-1])
        entries = plain(graph, elementwise(graph, np.subtract, *ends))
    return wrapped(graph, np.moveaxis(entries, -1, axis))


def _trace(graph: Graph, value: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    return _sum(graph, wrapped(graph, np.diagonal(plain(graph, value), offset, axis1, axis2)), -1)


def _like(fill: Any) -> Callable[..., Any]:
    def make(
        graph: Graph, value: Any, *given: Any, dtype: Any = None, shape: Any = None, **options: Any
    ) -> Any:
        rest = list(given)
        entry = rest.pop(0) if fill is _NONE and rest else fill
        entry = options.pop("fill_value", entry)
        if not is_float64(rest[0] if rest else dtype):
            return _FULL(np.shape(value) if shape is None else shape, entry, dtype=rest[0] if rest else dtype)
        result = EMPTY(np.shape(value) if shape is None else shape, dtype=object)
        result[...] = (
            Term(graph, graph.add("unset")) if entry is None else plain(graph, checked(graph, entry))
        )
        return wrapped(graph, result)

    return make


def _copyto(graph: Graph, target: Any, source: Any, casting: str = "same_kind", where: Any = True) -> None:
    if where is not True or casting != "same_kind" or not isinstance(target, TermArray):
        graph.refuse("np.copyto with options")
    target[...] = source


def _divmod(graph: Graph, one: Any, two: Any) -> Any:
    return elementwise(graph, np.floor_divide, one, two), elementwise(graph, np.remainder, one, two)


FUNCTIONS.update(
    {
        np.sum: _sum, np.prod: _prod, np.min: _min, np.amin: _min, np.max: _max, np.amax: _max,
        np.mean: _mean,
        np.var: _var, np.std: _std, np.ptp: _ptp, np.any: _any, np.all: _all, np.trace: _trace,
        np.cumsum: _running(_last(add_up)), np.cumprod: _running(_last(_folded("multiply"))),
        np.dot: _dot, np.inner: _inner, np.outer: _outer, np.vdot: _vdot, np.cross: _cross,
        np.linalg.cross: _cross, np.linalg.outer: _outer, np.linalg.matmul: _matmul,
        np.einsum: _einsum, np.linalg.norm: _norm, np.where: _where, np.select: _select, np.clip: _clip,
        np.round: _round, np.around: _round, np.diff: _diff, np.copyto: _copyto,
        np.fix: lambda graph, value: elementwise(graph, np.trunc, value),
        np.real: lambda graph, value: value,
        np.zeros_like: _like(np.float64(0.0)), np.ones_like: _like(np.float64(1.0)),
        np.empty_like: _like(None), np.full_like: _like(_NONE),
        ("matmul", "__call__"): _matmul, ("vecdot", "__call__"): _vecdot, ("divmod", "__call__"): _divmod,
        ("clip", "__call__"): _clip,
    }
)  # fmt: skip
for _name, _rule in {
    "add": _sum, "multiply": _prod, "minimum": _min, "maximum": _max, "logical_or": _any, "logical_and": _all,
}.items():  # fmt: skip
    # A reduction by a ufunc is along the first axis unless told otherwise.
    FUNCTIONS[_name, "reduce"] = lambda graph, value, axis=0, _rule=_rule, **options: _rule(
        graph, value, axis, **options
    )
for _name, _step in {"add": add_up, "multiply": _folded("multiply"), "maximum": _folded("maximum"),
                     "minimum": _folded("minimum")}.items():  # fmt: skip
    FUNCTIONS[_name, "accumulate"] = lambda graph, value, axis=0, _step=_step: _running(_last(_step))(
        graph, value, axis
    )
install_methods()
