"""Arrays of a trace: NumPy's own, of objects. Structure is NumPy's; only mathematics is ours.

Views, copies, assignment, splitting, stacking and iteration are what NumPy does with an array of objects, and
the objects are immutable. What is ours: elementwise mathematics (:mod:`scalars`), comparisons, and sums and
products over entries, of which NumPy does not say in which order it adds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tether.programs import graph as codes
from tether.programs.refusal import refuse, refuse_unsupported
from tether.programs.scalars import (
    RULES,
    Node,
    apply,
    as_constant,
    as_node,
    as_number,
    choose,
    is_condition,
    make,
    multiply,
)

_FLOATS = (None, float, np.float64, np.dtype(np.float64), "float64", "float", "d", "f8")


class Traced(np.ndarray):
    """An array of objects: nodes, and plain numbers where entries are constant."""

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        return call_ufunc(ufunc, method, inputs, options)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return call_function(func, types, args, kwargs)

    def __getitem__(self, index: Any) -> Any:
        return super().__getitem__(_plain_index(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        if _is_conditional(index) and np.size(value) == 1:
            mask = np.reshape(index, (*np.shape(index), *(1,) * (self.ndim - np.ndim(index))))
            super().__setitem__(..., _where(mask, value, self))
            return
        if not self.size or not all(map(is_condition, self.flat)):
            value = _numbers(value)
        super().__setitem__(_plain_index(index), value)

    def astype(self, dtype: Any, *_: Any, **__: Any) -> Any:
        """A copy; there is no other type to turn into but float64."""
        whole = all(map(is_condition, self.flat))
        if dtype is bool and whole:
            return self.copy()
        if dtype not in _FLOATS and not (whole and dtype in (int, np.int64)):
            refuse("astype", f"must be to float64; got {dtype!r}", "Leave it out")
        return wrap(_numbers(self.view(np.ndarray).copy()))

    def mean(self, *arguments: Any, **options: Any) -> Any:
        """As ``ndarray.mean``."""
        return _mean(self, *arguments, **options)

    def dot(self, other: Any) -> Any:  # type: ignore[override]
        """As ``ndarray.dot``."""
        return call_function(np.dot, (), (self, other), {})

    def round(self, decimals: int = 0) -> Any:  # type: ignore[override]
        """As ``ndarray.round`` without decimals."""
        return _round(self, decimals)


def _refused(name: str) -> Callable[..., Any]:
    return lambda *_, **__: refuse_unsupported(name)


for _name in ("trace", "var", "std", "partition", "tobytes", "byteswap"):
    setattr(Traced, _name, _refused(_name))
setattr(Traced, "imag", property(_refused("imag")))  # noqa: B010


def wrap(value: Any) -> Any:
    """Anything as an array of a trace; shares memory with an array of objects."""
    if isinstance(value, Node):
        array = np.empty((), dtype=object)
        array[()] = value
        return array.view(Traced)
    return np.asarray(value).astype(object, copy=False).view(Traced)


def _result(values: Any) -> Any:
    """What NumPy would give back: a scalar where there are no axes; plain booleans where all are known."""
    if not isinstance(values, np.ndarray):
        return values
    if not values.ndim:
        return values[()]
    if values.dtype != object:
        return values.astype(object).view(Traced) if values.dtype == np.float64 else values
    if values.size and all(isinstance(value, bool) for value in values.flat):
        return values.astype(bool)
    return values.view(Traced)


def plain_objects(value: Any) -> Any:
    """An array of objects without our methods; constants as float64 has them."""
    if isinstance(value, Node):
        return wrap(value).view(np.ndarray)
    array = np.asarray(value)
    if array.dtype == object:
        return array.view(np.ndarray)
    if array.dtype.kind not in "fiub" or array.dtype.itemsize > 8:
        refuse("array", f"must be of real numbers of at most float64's precision; got {array.dtype}")
    return array.astype(object)


def graph_of(*values: Any) -> Any:
    """The graph that any of the nodes among `values` belongs to; None: all are constant."""
    for value in values:
        if isinstance(value, Node):
            return value.graph
        if isinstance(value, np.ndarray) and value.dtype == object:
            found = next((entry for entry in value.flat if isinstance(entry, Node)), None)
            if found is not None:
                return found.graph
        if isinstance(value, list | tuple):
            graph = graph_of(*value)
            if graph is not None:
                return graph
    return None


def _is_conditional(index: Any) -> bool:
    """Whether an index is a condition, or an array of them, that is not known."""
    return (isinstance(index, Node) and index.is_condition) or (
        isinstance(index, np.ndarray)
        and index.dtype == object
        and index.size > 0
        and all(map(is_condition, index.flat))
    )


def _plain_index(index: Any) -> Any:
    """An index of constants; conditions are decided one way and the other, in turn."""
    if isinstance(index, tuple):
        return tuple(_plain_index(part) for part in index)
    if isinstance(index, list) and graph_of(index) is not None:
        index = wrap(index)
    if _is_conditional(index):
        decided = np.frompyfunc(bool, 1, 1)(plain_objects(index))
        return np.asarray(decided).astype(bool)
    if graph_of(index) is not None:
        refuse("indexing", "must be by constants", "Use np.where on decided conditions")
    if isinstance(index, Traced):  # constants, among them whole numbers that an index may be
        refuse("indexing", "must be by integers or conditions; got floats", "Give dtype=int")
    return index


def _numbers(value: Any) -> Any:
    """Conditions among the entries as 0 or 1."""
    if isinstance(value, Node):
        return as_number(value)
    if graph_of(value) is None:
        return value
    return np.frompyfunc(as_number, 1, 1)(plain_objects(value))


# Ufuncs -----------------------------------------------------------------------------------------------


def call_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """What NumPy calls for a ufunc of which an operand, or the output, is traced."""
    name, out = ufunc.__name__, options.pop("out", None)
    if options.pop("where", True) is not True:
        refuse(name, "does not take `where`", "Use np.where on the result")
    if not _is_float64(options.pop("dtype", None)):
        refuse(name, "makes float64 only", "Leave `dtype` out")
    for harmless in ("casting", "order", "subok", "signature"):
        if options.pop(harmless, None) is not None and harmless == "signature":
            refuse(name, "does not take `signature`", "Leave it out")
    operands = [plain_objects(value) for value in inputs]
    if method == "__call__" and ufunc is np.matmul:
        result = _bilinear(np.matmul, operands, options)
    elif method == "__call__" and not options:
        result = _elementwise(ufunc, operands)
    elif method == "reduce" and ufunc in _REDUCTIONS:
        result = _reduce(ufunc, *operands, **options)
    elif method == "accumulate" and ufunc in (np.add, np.multiply):
        result = _accumulate(ufunc, *operands, **options)
    elif method == "outer" and not options:
        result = _elementwise(ufunc, [np.expand_dims(operands[0], tuple(range(-operands[1].ndim, 0))), operands[1]])
    else:
        refuse_unsupported(name if method == "__call__" else f"{name}.{method}")
    return _result(result) if out is None else _write(out, result, name)


def _is_float64(dtype: Any) -> bool:
    return dtype is None or dtype is float or (not isinstance(dtype, type(NotImplemented)) and _same_type(dtype))


def _same_type(dtype: Any) -> bool:
    try:
        return np.dtype(dtype) in (np.dtype(np.float64), np.dtype(object))
    except TypeError:
        return False


def _elementwise(ufunc: np.ufunc, operands: list[Any]) -> Any:
    if graph_of(*operands) is None:  # NumPy's own values, by its own loops
        return ufunc(*(_constants(operand, ufunc.__name__) for operand in operands))
    if ufunc not in RULES:
        refuse_unsupported(ufunc.__name__)
    return np.frompyfunc(lambda *scalars: apply(ufunc, *scalars), len(operands), 1)(*operands)


def _constants(operand: Any, name: str) -> Any:
    """An array of objects that are all constants, as the floats or truth values that they are."""
    if operand.size and all(isinstance(value, bool | np.bool_) for value in operand.flat):
        return operand.astype(bool)
    for value in operand.flat:
        as_constant(value, name, infinite=True)
    return operand.astype(np.float64)


def _write(out: tuple[Any, ...], result: Any, name: str) -> Any:
    target = out[0]
    if not isinstance(target, Traced):
        instead = "Start from np.zeros or np.zeros_like(states) inside the function"
        refuse(name, "cannot write into an array of floats", instead)
    if np.shape(result) != target.shape:
        raise ValueError(f"`{name}` cannot write shape {np.shape(result)} into {target.shape}.")
    target[...] = wrap(result)
    return target


# Sums and products ------------------------------------------------------------------------------------


class _Bag:
    """A sum of products whose order nobody knows; stands for an entry while NumPy multiplies and adds."""

    __slots__ = ("terms",)

    def __init__(self, terms: list[Any]) -> None:
        self.terms = terms

    def __add__(self, other: Any) -> _Bag:
        return self if not isinstance(other, _Bag) else _Bag(self.terms + other.terms)

    __radd__ = __add__

    def __mul__(self, other: Any) -> _Bag:
        if not isinstance(other, _Bag):  # einsum starts from 1
            return self
        return _Bag([(one, two) for one in self.terms for two in other.terms])

    __rmul__ = __mul__

    def conjugate(self) -> _Bag:
        return self


def _factors(term: Any) -> list[Any]:
    return [*_factors(term[0]), *_factors(term[1])] if isinstance(term, tuple) else [term]


def _total(bag: Any, graph: Any) -> Any:
    """The sum of a bag: one node for all of it, however long."""
    if not isinstance(bag, _Bag):
        return 0.0  # nothing was added up
    terms, roundings = [], 0
    for term in bag.terms:
        factors = [as_number(factor) for factor in _factors(term)]
        roundings = max(roundings, len(factors))
        product = factors[0]
        for factor in factors[1:]:
            product = apply(np.multiply, product, factor)
        terms.append(product)
    known = [term for term in terms if not isinstance(term, Node)]
    nodes = [term for term in terms if isinstance(term, Node)]
    if not nodes:
        return float(np.sum([as_constant(term, "sum") for term in known]))
    # Zeros are exact in any order.
    nodes += [as_node(as_constant(term, "sum"), graph) for term in known if term != 0]
    if len(nodes) == 1:
        return nodes[0]
    if len(nodes) == 2 and roundings < 3:
        fused = roundings == 2
        return make(graph, codes.SUM, *nodes, value=4.0) if fused else make(graph, codes.ADD, *nodes)
    return make(graph, codes.SUM, *nodes, value=float(len(nodes) + 2 * roundings))


def _bilinear(function: Callable[..., Any], operands: list[Any], options: dict[str, Any]) -> Any:
    """Products of matrices and the like: NumPy's own structure on bags, each then one sum."""
    if options:
        refuse(function.__name__, f"does not take {', '.join(sorted(options))}", "Leave it out")
    graph = graph_of(*operands)
    if graph is None:
        return function(*(_constants(operand, function.__name__) for operand in operands))
    bags = [np.frompyfunc(lambda value: _Bag([value]), 1, 1)(operand) for operand in operands]
    bags = [bag if isinstance(bag, np.ndarray) else _boxed(bag) for bag in bags]
    product = function(*bags)
    return np.frompyfunc(lambda bag: _total(bag, graph), 1, 1)(product)


def _boxed(value: Any) -> Any:
    whole = np.empty((), dtype=object)
    whole[()] = value
    return whole


def _reduce(ufunc: np.ufunc, values: Any, axis: Any = 0, keepdims: bool = False, **options: Any) -> Any:
    if any(value is not np._NoValue and value is not None for value in options.values()):
        refuse(ufunc.__name__, f"over entries does not take {', '.join(sorted(options))}", "Leave it out")
    graph = graph_of(values)
    if graph is None:
        return ufunc.reduce(_constants(values, ufunc.__name__), axis=axis, keepdims=keepdims)
    if ufunc is np.add:
        bags = np.frompyfunc(lambda value: _Bag([value]), 1, 1)(values)
        sums = np.add.reduce(bags if isinstance(bags, np.ndarray) else _boxed(bags), axis=axis, keepdims=keepdims)
        return np.frompyfunc(lambda bag: _total(bag, graph), 1, 1)(sums)
    if ufunc is np.multiply:
        lists = np.frompyfunc(lambda value: _Bag([value]), 1, 1)(values)
        whole = np.add.reduce(lists, axis=axis, keepdims=keepdims)
        return np.frompyfunc(lambda bag: _product(bag, graph), 1, 1)(whole)
    fold = np.frompyfunc(lambda one, two: apply(ufunc, one, two), 2, 1)
    axes = range(values.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    if not values.size:
        refuse(ufunc.__name__, "must be given entries; got none")
    for k in sorted((int(k) % max(values.ndim, 1) for k in axes), reverse=True):
        values = fold.reduce(values, axis=k, keepdims=keepdims)
    return values


def _product(bag: Any, graph: Any) -> Any:
    if not isinstance(bag, _Bag):
        return 1.0
    product = as_number(bag.terms[0])
    for factor in bag.terms[1:]:
        product = apply(np.multiply, product, as_number(factor))
    if len(bag.terms) < 3 or not isinstance(product, Node):
        return product
    return make(graph, codes.PRODUCT, product, value=float(len(bag.terms)))


def _accumulate(ufunc: np.ufunc, values: Any, axis: int = 0, **options: Any) -> Any:
    """Running sums, which NumPy takes in order."""
    if any(value is not None for value in options.values()):
        refuse(f"{ufunc.__name__}.accumulate", "does not take options", "Leave them out")
    parts = [_numbers(part) for part in np.moveaxis(values, axis, 0)]
    for k in range(1, len(parts)):
        parts[k] = plain_objects(_elementwise(ufunc, [plain_objects(parts[k - 1]), plain_objects(parts[k])]))
    return np.moveaxis(np.stack([plain_objects(part) for part in parts]), 0, axis) if parts else values


_REDUCTIONS = (np.add, np.multiply, np.minimum, np.maximum, np.logical_and, np.logical_or)


# Functions --------------------------------------------------------------------------------------------


def call_function(function: Any, types: Any, arguments: Any, options: dict[str, Any]) -> Any:
    """What NumPy calls for a function of which an argument is traced."""
    if function in FUNCTIONS:
        try:
            return _result_of(FUNCTIONS[function](*arguments, **options))
        except TypeError as error:
            if "argument" not in str(error) or "unexpected" not in str(error):
                raise
            refuse(function.__name__, f"was given an argument that is not known here ({error})", "Leave it out")
    if function in _BILINEAR:
        operands = [plain_objects(value) if _is_operand(value) else value for value in arguments]
        return _result(_bilinear_function(function, operands, options))
    if function in _STRUCTURE:
        return _structure(function, types, arguments, options)
    if graph_of(*arguments, *options.values()) is None:
        return _of_constants(function, arguments, options)
    module = getattr(function, "__module__", "").removeprefix("numpy").lstrip(".")
    refuse_unsupported(f"{module}.{function.__name__}" if module == "linalg" else function.__name__)


def _is_operand(value: Any) -> bool:
    return isinstance(value, Node | np.ndarray) or (isinstance(value, list | tuple) and graph_of(value) is not None)


def _bilinear_function(function: Any, operands: list[Any], options: dict[str, Any]) -> Any:
    """As :func:`_bilinear`, with arguments that are not arrays in their places."""
    places = [k for k, value in enumerate(operands) if _is_operand(value)]
    if function is np.einsum and not isinstance(operands[0], str):
        refuse("einsum", "must be given its subscripts as text", "Write np.einsum('ij,j->i', a, b)")
    extra = {key: options.pop(key) for key in ("axes", "axis") if key in options and function is np.tensordot}
    if function is np.einsum:
        if not _is_float64(options.pop("dtype", None)):
            refuse("einsum", "makes float64 only", "Leave `dtype` out")
        options.pop("optimize", None)  # another order of the same products, which the sum allows for

    def call(*arrays: Any) -> Any:
        whole = list(operands)
        for place, array in zip(places, arrays, strict=True):
            whole[place] = array
        return function(*whole, **extra)

    call.__name__ = function.__name__
    return _bilinear(call, [operands[k] for k in places], options)


def _structure(function: Any, types: Any, arguments: Any, options: dict[str, Any]) -> Any:
    """NumPy's own function on arrays of objects; what it gives is traced again."""
    if not _is_float64(options.pop("dtype", None)):
        refuse(function.__name__, "makes float64 only", "Leave `dtype` out")
    return _result_of(function._implementation(*arguments, **options))


def _result_of(result: Any) -> Any:
    if isinstance(result, list | tuple):
        return type(result)(_result_of(part) for part in result) if type(result) in (list, tuple) else result
    if isinstance(result, np.ndarray) and result.dtype == object and not isinstance(result, Traced):
        return result.view(Traced)
    return result


def _of_constants(function: Any, arguments: Any, options: dict[str, Any]) -> Any:
    """Any function of constants, by NumPy; what it gives cannot be written to, as it may be a view."""

    def floats(value: Any) -> Any:
        if isinstance(value, Traced):
            return _constants(value.view(np.ndarray), function.__name__)
        return type(value)(map(floats, value)) if type(value) in (list, tuple) else value

    def frozen(value: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return value
        kept = _result(value)
        if isinstance(kept, np.ndarray):
            kept.flags.writeable = False
        return kept

    result = function(*map(floats, arguments), **{key: floats(value) for key, value in options.items()})
    return tuple(map(frozen, result)) if isinstance(result, tuple) else frozen(result)


def _where(condition: Any, *branches: Any) -> Any:
    if len(branches) != 2:
        refuse("where", "must be given both branches", "Use np.where(condition, one, two)")
    graph = graph_of(condition, *branches)
    parts = [plain_objects(part) for part in (condition, *branches)]
    return np.frompyfunc(lambda c, a, b: choose(c, a, b, graph), 3, 1)(*parts)


def _select(conditions: Any, choices: Any, default: Any = 0) -> Any:
    result = default
    for condition, choice in reversed(list(zip(conditions, choices, strict=True))):
        result = _where(condition, choice, result)
    return result


def _mean(values: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    if not _is_float64(dtype) or out is not None:
        refuse("mean", "takes no `dtype` or `out`", "Leave it out")
    keep = keepdims is True
    total = call_ufunc(np.add, "reduce", (values,), {"axis": axis, "keepdims": keep})
    count = np.size(values) / max(np.size(total), 1)
    return np.true_divide(total, float(count))


def _round(values: Any, decimals: int = 0, out: Any = None) -> Any:
    if decimals != 0 or out is not None:
        refuse("round", "is bounded for whole numbers only, where it is constant over each box")
    return np.rint(values)


def _norm(values: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    array = plain_objects(values)
    flat = axis is None and (ord is None or array.ndim == 1)
    if ord not in (None, 2) or not (flat or isinstance(axis, int | np.integer)):
        refuse("linalg.norm", "is bounded as the Euclidean norm along one axis only", "Give `axis` and no `ord`")
    graph = graph_of(array)
    if graph is None:
        return np.linalg.norm(_constants(array, "norm"), ord, axis, keepdims)
    bags = np.frompyfunc(lambda value: _Bag([value]), 1, 1)(array)
    whole = np.add.reduce(bags, axis=axis, keepdims=keepdims)
    return np.frompyfunc(lambda bag: _length([as_number(term) for term in bag.terms], graph), 1, 1)(whole)


def _length(terms: list[Any], graph: Any) -> Any:
    return make(graph, codes.NORM, *terms, value=float(len(terms) + 2))


def _like(fill: Any) -> Callable[..., Any]:
    def make_like(value: Any, *given: Any, **options: Any) -> Any:
        filled, rest = (given[0], given[1:]) if fill is None else (fill, given)
        if fill is None and not given:
            filled = options.pop("fill_value")
        if rest or not _is_float64(options.pop("dtype", None)):
            refuse("zeros_like", "makes float64 arrays only", "Leave `dtype` out")
        shape = options.pop("shape", None)
        array = np.empty(np.shape(value) if shape is None else shape, dtype=object)
        array[...] = plain_objects(_numbers(filled))
        return array.view(Traced)

    return make_like


def _copyto(target: Any, source: Any, casting: str = "same_kind", where: Any = True) -> None:
    if not isinstance(target, Traced):
        refuse("copyto", "cannot write into an array of floats", "Start from np.zeros inside the function")
    target[...] = wrap(source) if where is True else _where(where, source, target)


UNASSIGNED = float("nan")
"""What np.empty holds until it is assigned; no output and no operation may use it."""

FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.where: _where,
    np.select: _select,
    np.mean: _mean,
    np.round: _round,
    np.linalg.norm: _norm,
    np.copyto: _copyto,
    np.empty_like: _like(UNASSIGNED),
    np.zeros_like: _like(0.0),
    np.ones_like: _like(1.0),
    np.full_like: _like(None),
}
if hasattr(np, "around"):
    FUNCTIONS[np.around] = _round
_BILINEAR = (np.dot, np.inner, np.outer, np.tensordot, np.einsum, np.vdot, np.kron)
_STRUCTURE = (
    np.stack, np.concatenate, np.vstack, np.hstack, np.dstack, np.column_stack, np.block, np.transpose,
    np.reshape, np.ravel, np.squeeze, np.expand_dims, np.swapaxes, np.moveaxis, np.rollaxis, np.flip, np.fliplr,
    np.flipud, np.rot90, np.atleast_1d, np.atleast_2d, np.atleast_3d, np.broadcast_to, np.broadcast_arrays,
    np.diagonal, np.diag, np.roll, np.repeat, np.tile, np.take, np.take_along_axis, np.split, np.array_split,
    np.hsplit, np.vsplit, np.dsplit, np.copy, np.shape, np.ndim, np.size, np.sum, np.prod, np.min, np.max,
    np.amin, np.amax, np.any, np.all, np.clip, np.cumsum, np.cumprod, np.diff, np.cross, np.polyval,
    np.append, np.insert, np.delete, np.meshgrid, np.triu, np.tril, np.put_along_axis, np.apply_along_axis,
    np.fill_diagonal, np.ix_, np.unstack if hasattr(np, "unstack") else np.stack,
)  # fmt: skip
__all__ = ["Traced", "UNASSIGNED", "call_function", "call_ufunc", "graph_of", "multiply", "plain_objects", "wrap"]
