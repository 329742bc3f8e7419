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
    assign,
    choose,
    entrywise,
    has_symbols,
    packed,
    plain,
    truths,
)
from tether.verification.graph import Graph, Term
from tether.verification.operations import apply_or_fold, length

_NONE = np._NoValue


def _is_float64(dtype: Any) -> bool:
    return dtype is None or np.dtype(dtype) == np.float64


def _reduction(fold: Callable[[Graph, np.ndarray], np.ndarray], ordered: bool = False) -> Callable[..., Any]:
    """A reduction by a fold along the last axis; several axes are folded as one.

    `ordered`: the fold rounds, in the order of entries, which NumPy follows along one axis of the array only.
    """

    def reduced(
        graph: Graph, value: Any, axis: Any = None, dtype: Any = None, keepdims: Any = False,
        initial: Any = _NONE, where: Any = True,
    ) -> np.ndarray:  # fmt: skip
        if not _is_float64(dtype) or initial is not _NONE or not (where is True or where is _NONE):
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
            whole = int(np.prod([entries.shape[k] for k in axes]))
            moved = entries.transpose(*kept, *axes).reshape([*(entries.shape[k] for k in kept), whole])
            result = fold(graph, moved)
        else:
            result = entries.copy()
        if keepdims is True:
            result = result.reshape([1 if k in axes else n for k, n in enumerate(entries.shape)])
        return result

    return reduced


def _folded(name: str) -> Callable[[Graph, np.ndarray], np.ndarray]:
    def fold(graph: Graph, values: np.ndarray) -> np.ndarray:
        if not values.shape[-1]:
            graph.refuse(f"np.{name} over nothing")
        rows = values.reshape(-1, values.shape[-1])
        return packed(
            (reduce(partial(apply_or_fold, graph, name), list(row)) for row in rows), values.shape[:-1]
        )

    return fold


_sum, _prod = _reduction(add_up), _reduction(_folded("multiply"), ordered=True)
_min, _max = _reduction(_folded("minimum")), _reduction(_folded("maximum"))


def _logical(name: str) -> Callable[..., Any]:
    reduced = _reduction(_folded(name))
    return lambda graph, value, *args, **options: reduced(graph, truths(graph, value), *args, **options)


_any, _all = _logical("logical_or"), _logical("logical_and")


def _count(graph: Graph, value: Any, axis: Any) -> int:
    shape = plain(graph, value).shape
    axes = range(len(shape)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    return int(np.prod([shape[k] for k in axes]))


def _mean(graph: Graph, value: Any, axis: Any = None, dtype: Any = None, keepdims: Any = False) -> np.ndarray:
    total = _sum(graph, value, axis, dtype, keepdims=keepdims)
    return entrywise(graph, "divide", total, float(_count(graph, value, axis)))


def _average(
    graph: Graph,
    value: Any,
    axis: Any = None,
    weights: Any = None,
    returned: bool = False,
    keepdims: Any = False,
) -> np.ndarray:
    if returned or (
        weights is not None and (has_symbols(weights) or np.shape(weights) != plain(graph, value).shape)
    ):
        graph.refuse("np.average with such weights, or `returned`")
    if weights is None:
        return _mean(graph, value, axis, keepdims=keepdims)
    products = entrywise(graph, "multiply", value, weights)
    whole = np.sum(np.asarray(weights), axis=axis, dtype=np.float64, keepdims=keepdims is True)
    return entrywise(graph, "divide", _sum(graph, products, axis, keepdims=keepdims), whole)


def _var(
    graph: Graph, value: Any, axis: Any = None, dtype: Any = None, *, ddof: int = 0, keepdims: Any = False,
    **options: Any,
) -> np.ndarray:  # fmt: skip
    if options or not _is_float64(dtype) or not ddof < _count(graph, value, axis):
        graph.refuse(f"np.var with {', '.join(sorted(options)) or 'such `dtype` or `ddof`'}")
    away = entrywise(graph, "subtract", value, _mean(graph, value, axis, keepdims=True))
    squares = _sum(graph, entrywise(graph, "square", away), axis, keepdims=keepdims)
    return entrywise(graph, "divide", squares, float(_count(graph, value, axis) - ddof))


def _std(graph: Graph, value: Any, *args: Any, **options: Any) -> np.ndarray:
    return entrywise(graph, "sqrt", _var(graph, value, *args, **options))


def _ptp(graph: Graph, value: Any, axis: Any = None) -> np.ndarray:
    return entrywise(graph, "subtract", _max(graph, value, axis), _min(graph, value, axis))


def _running(step: Callable[[Graph, np.ndarray], np.ndarray]) -> Callable[..., Any]:
    def accumulate(graph: Graph, value: Any, axis: Any = None, dtype: Any = None) -> np.ndarray:
        if not _is_float64(dtype):
            graph.refuse("an accumulation with dtype")
        entries = plain(graph, value)
        entries, axis = (entries.ravel(), 0) if axis is None else (entries, axis)
        moved = np.moveaxis(entries, axis, -1)
        sums = [step(graph, moved[..., : k + 1]) for k in range(moved.shape[-1])]
        return np.moveaxis(np.stack(sums, axis=-1) if sums else moved, -1, axis)

    return accumulate


def _matmul(graph: Graph, one: Any, two: Any) -> np.ndarray:
    left, right = plain(graph, one), plain(graph, two)
    wide = left[None, :] if left.ndim == 1 else left, right[:, None] if right.ndim == 1 else right
    rows, columns = wide[0][..., :, None, :], np.swapaxes(wide[1], -1, -2)[..., None, :, :]
    result = add_up(graph, entrywise(graph, "multiply", rows, columns))
    result = result[..., 0] if right.ndim == 1 else result
    return result if left.ndim > 1 else result[..., 0] if right.ndim == 1 else result[..., 0, :]


def _dot(graph: Graph, one: Any, two: Any) -> np.ndarray:
    left, right = plain(graph, one), plain(graph, two)
    if not left.ndim or not right.ndim:
        return entrywise(graph, "multiply", left, right)
    return _over(graph, left, right if right.ndim == 1 else np.moveaxis(right, -2, -1))


def _over(graph: Graph, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Sums of products over the last axis of each."""
    wide = left.reshape(left.shape[:-1] + (1,) * (right.ndim - 1) + left.shape[-1:])
    return add_up(graph, entrywise(graph, "multiply", wide, right))


def _inner(graph: Graph, one: Any, two: Any) -> np.ndarray:
    left, right = plain(graph, one), plain(graph, two)
    scalar = not left.ndim or not right.ndim
    return entrywise(graph, "multiply", left, right) if scalar else _over(graph, left, right)


def _tensordot(graph: Graph, one: Any, two: Any, axes: Any = 2) -> np.ndarray:
    left, right = plain(graph, one), plain(graph, two)
    pair = (range(left.ndim - axes, left.ndim), range(axes)) if isinstance(axes, int) else axes
    ends = [np.atleast_1d(part).astype(int).tolist() for part in pair]
    moved = []
    for array, own in zip((left, right), ends, strict=True):
        own = [k % array.ndim for k in own]
        kept = [k for k in range(array.ndim) if k not in own]
        shape = [array.shape[k] for k in kept]
        moved.append(
            array.transpose(*kept, *own).reshape([*shape, int(np.prod([array.shape[k] for k in own]))])
        )
    return _over(graph, *moved)


def _outer(graph: Graph, one: Any, two: Any) -> np.ndarray:
    left, right = plain(graph, one).ravel(), plain(graph, two).ravel()
    return entrywise(graph, "multiply", left[:, None], right)


def _kron(graph: Graph, one: Any, two: Any) -> np.ndarray:
    left, right = plain(graph, one), plain(graph, two)
    depth = max(left.ndim, right.ndim)
    shapes = [(1,) * (depth - array.ndim) + array.shape for array in (left, right)]
    left = left.reshape([k for n in shapes[0] for k in (n, 1)])
    right = right.reshape([k for n in shapes[1] for k in (1, n)])
    return entrywise(graph, "multiply", left, right).reshape([n * m for n, m in zip(*shapes, strict=True)])


def _vecdot(graph: Graph, one: Any, two: Any) -> np.ndarray:
    return add_up(graph, entrywise(graph, "multiply", one, two))


def _vdot(graph: Graph, one: Any, two: Any) -> np.ndarray:
    return _vecdot(graph, plain(graph, one).ravel(), plain(graph, two).ravel())


def _polyval(graph: Graph, factors: Any, value: Any) -> np.ndarray:
    entries = plain(graph, value)
    result = packed([np.float64(0.0)] * entries.size, entries.shape)
    for factor in plain(graph, factors):
        result = entrywise(graph, "add", entrywise(graph, "multiply", result, entries), factor)
    return result


def _polynomial(graph: Graph, value: Any, factors: Any, tensor: bool = True) -> np.ndarray:
    """``np.polynomial.polynomial.polyval``, whose constant comes first."""
    *rest, last = plain(graph, factors).reshape(-1, *[1] * plain(graph, value).ndim)
    if plain(graph, factors).ndim != 1 or tensor is not True:
        graph.refuse("a polynomial of several rows of factors")
    result = entrywise(graph, "add", last, entrywise(graph, "multiply", value, 0.0))
    for factor in reversed(rest):
        result = entrywise(graph, "add", factor, entrywise(graph, "multiply", result, value))
    return result


def _trapezoid(graph: Graph, value: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> np.ndarray:
    entries = np.moveaxis(plain(graph, value), axis, -1)
    if x is not None and (has_symbols(x) or np.ndim(x) != 1):
        graph.refuse("np.trapezoid with such `x`")
    steps = dx if x is None else np.diff(np.asarray(x, dtype=np.float64))
    both = entrywise(graph, "add", entries[..., 1:], entries[..., :-1])
    return add_up(graph, entrywise(graph, "divide", entrywise(graph, "multiply", steps, both), 2.0))


def _gradient(graph: Graph, value: Any, *spacing: Any, axis: Any = None, edge_order: int = 1) -> np.ndarray:
    entries = plain(graph, value)
    along = 0 if axis is None and entries.ndim == 1 else axis
    if edge_order != 1 or not isinstance(along, int) or len(spacing) > 1 or any(map(np.ndim, spacing)):
        graph.refuse("np.gradient other than along one axis in equal steps")
    step = spacing[0] if spacing else 1.0
    rows = np.moveaxis(entries, along, -1)

    def slope(after: slice, before: slice, gap: Any) -> np.ndarray:
        return entrywise(
            graph, "divide", entrywise(graph, "subtract", rows[..., after], rows[..., before]), gap
        )

    ends = slope(slice(1, 2), slice(0, 1), step), slope(slice(-1, None), slice(-2, -1), step)
    middle = slope(slice(2, None), slice(None, -2), entrywise(graph, "multiply", 2.0, step))
    return np.moveaxis(np.concatenate([ends[0], middle, ends[1]], axis=-1), -1, along)


def _cross(
    graph: Graph, one: Any, two: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: Any = None
) -> Any:
    axes = (axisa, axisb, axisc) if axis is None else (axis, axis, axis)
    a, b = (np.moveaxis(plain(graph, part), k, 0) for part, k in ((one, axes[0]), (two, axes[1])))
    if len(a) != 3 or len(b) != 3:
        graph.refuse("np.cross of other than vectors of three")

    def minor(k: int, m: int) -> np.ndarray:
        pairs = ((a[k, ...], b[m, ...]), (a[m, ...], b[k, ...]))
        return entrywise(graph, "subtract", *(entrywise(graph, "multiply", *pair) for pair in pairs))

    return np.stack([minor(1, 2), minor(2, 0), minor(0, 1)], axis=axes[2])


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
    result = np.empty([sizes[c] for c in wanted] + [int(np.prod([sizes[c] for c in summed]))], dtype=object)
    for place in product(*(range(sizes[c]) for c in wanted)):
        for k, inner in enumerate(product(*(range(sizes[c]) for c in summed))):
            at = dict(zip([*wanted, *summed], [*place, *inner], strict=True))
            entries = [array[tuple(at[c] for c in n)] for n, array in zip(inputs, arrays, strict=True)]
            result[(*place, k)] = reduce(partial(apply_or_fold, graph, "multiply"), entries)
    return add_up(graph, result)


def _norm(graph: Graph, value: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    entries = plain(graph, value)
    flat = ord is None and axis is None
    if not flat and (ord not in (None, 2) or isinstance(axis, tuple) or (axis is None and entries.ndim != 1)):
        graph.refuse("np.linalg.norm other than the Euclidean one along one axis")
    rows = entries.ravel() if flat else np.moveaxis(entries, -1 if axis is None else axis, -1)
    flat_rows = rows.reshape(-1, rows.shape[-1])
    result = packed((length(graph, list(row)) for row in flat_rows), rows.shape[:-1])
    if keepdims:
        kept = [1] * entries.ndim if flat else None
        result = (
            np.expand_dims(result, -1 if axis is None else axis) if kept is None else result.reshape(kept)
        )
    return result


def _where(graph: Graph, condition: Any, *branches: Any) -> np.ndarray:
    if len(branches) != 2:
        graph.refuse("np.where without both branches")
    return choose(graph, condition, *branches)


def _select(graph: Graph, conditions: Any, choices: Any, default: Any = 0.0) -> np.ndarray:
    result = plain(graph, default)
    for condition, choice in reversed(list(zip(conditions, choices, strict=True))):
        result = choose(graph, condition, choice, result)
    return result


def _clip(graph: Graph, value: Any, a_min: Any = None, a_max: Any = None, **options: Any) -> np.ndarray:
    low, high = options.pop("min", a_min), options.pop("max", a_max)
    low, high = (None if end is _NONE else end for end in (low, high))
    if options:
        graph.refuse(f"np.clip with {sorted(options)}")
    entries = plain(graph, value).copy()  # never the array itself: NumPy returns a new one
    entries = entries if low is None else entrywise(graph, "maximum", entries, low)
    return entries if high is None else entrywise(graph, "minimum", entries, high)


def _round(graph: Graph, value: Any, decimals: int = 0) -> np.ndarray:
    if not 0 <= decimals <= 15:
        graph.refuse("np.round with such decimals")
    if not decimals:
        return entrywise(graph, "rint", value)
    tens = 10.0**decimals
    return entrywise(
        graph, "divide", entrywise(graph, "rint", entrywise(graph, "multiply", value, tens)), tens
    )


def _diff(
    graph: Graph, value: Any, n: int = 1, axis: int = -1, prepend: Any = _NONE, append: Any = _NONE
) -> np.ndarray:
    if n < 1:
        graph.refuse("np.diff with n=0")
    entries = np.moveaxis(plain(graph, value), axis, -1)
    ends = [None if end is _NONE else plain(graph, end) for end in (prepend, append)]
    wide = [
        np.broadcast_to(end, (*entries.shape[:-1], 1)) if end.ndim == 0 else np.moveaxis(end, axis, -1)
        for end in ends if end is not None
    ]  # fmt: skip
    wide.insert(0 if ends[0] is None else 1, entries)
    entries = np.concatenate(wide, axis=-1)
    for _ in range(n):
        entries = entrywise(graph, "subtract", entries[..., 1:], entries[..., :-1])
    return np.moveaxis(entries, -1, axis)


def _trace(graph: Graph, value: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> np.ndarray:
    return _sum(graph, np.diagonal(plain(graph, value), offset, axis1, axis2), -1)


def _full(graph: Graph, shape: Any, fill_value: Any, *_: Any, **__: Any) -> np.ndarray:
    return np.broadcast_to(plain(graph, fill_value), shape).copy()


def _full_like(
    graph: Graph, value: Any, fill_value: Any, *_: Any, shape: Any = None, **__: Any
) -> np.ndarray:
    return _full(graph, plain(graph, value).shape if shape is None else shape, fill_value)


def _empty_like(graph: Graph, value: Any, *_: Any, shape: Any = None, **__: Any) -> np.ndarray:
    return _full_like(graph, value, Term(graph, graph.add("unset")), shape=shape)


def _copyto(graph: Graph, target: Any, source: Any, casting: str = "same_kind", where: Any = True) -> None:
    if where is not True or type(target) is not TermArray:
        graph.refuse("np.copyto into an array that was made elsewhere, or with `where=`")
    assign(graph, target, ..., source)


def _divmod(graph: Graph, one: Any, two: Any) -> Any:
    return entrywise(graph, "floor_divide", one, two), entrywise(graph, "remainder", one, two)


FUNCTIONS.update(
    {
        np.sum: _sum, np.prod: _prod, np.min: _min, np.amin: _min, np.max: _max, np.amax: _max,
        np.mean: _mean,
        np.var: _var, np.std: _std, np.ptp: _ptp, np.any: _any, np.all: _all, np.trace: _trace,
        np.cumsum: _running(add_up), np.cumprod: _running(_folded("multiply")), np.average: _average,
        np.tensordot: _tensordot, np.kron: _kron, np.polyval: _polyval, np.trapezoid: _trapezoid,
        np.gradient: _gradient, np.full: _full, np.polynomial.polynomial.polyval: _polynomial,
        np.dot: _dot, np.inner: _inner, np.outer: _outer, np.vdot: _vdot, np.cross: _cross,
        np.linalg.cross: _cross, np.linalg.outer: _outer, np.linalg.matmul: _matmul,
        np.einsum: _einsum, np.linalg.norm: _norm, np.where: _where, np.select: _select, np.clip: _clip,
        np.round: _round, np.around: _round, np.diff: _diff, np.copyto: _copyto,
        np.fix: lambda graph, value: entrywise(graph, "trunc", value),
        np.empty_like: _empty_like, np.full_like: _full_like,
        ("matmul", ""): _matmul, ("vecdot", ""): _vecdot, ("divmod", ""): _divmod, ("clip", ""): _clip,
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
    FUNCTIONS[_name, "accumulate"] = lambda graph, value, axis=0, _step=_step: _running(_step)(
        graph, value, axis
    )
