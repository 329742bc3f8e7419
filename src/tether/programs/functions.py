"""NumPy's functions on arrays of a trace: those that move entries are NumPy's own, on arrays of objects."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np

from tether.programs.arrays import (
    UNASSIGNED,
    Traced,
    conform,
    constant_arguments,
    constants_of,
    graph_of,
    is_float64,
    numbers_of,
    plain_objects,
    refuse_others,
    refuse_overlap,
    result_of,
    stand_in,
    where,
    wrap,
)
from tether.programs.refusal import refuse, refuse_unsupported, remembered
from tether.programs.routines import ROUTINES, ROUTINES_OF_NUMBERS
from tether.programs.scalars import Whole, entrywise
from tether.programs.sums import length, multiply_matrices
from tether.programs.ufuncs import call_ufunc


@remembered
def call_function(function: Any, arguments: Any, options: dict[str, Any]) -> Any:
    """What NumPy calls for a function of which an argument is traced."""
    refuse_others(function.__name__, *arguments, *options.values())
    if function in ROUTINES_OF_NUMBERS and graph_of(*arguments, *options.values()) is None:
        return _of_constants(function, arguments, options)
    if function in FUNCTIONS:
        try:
            result = FUNCTIONS[function](*arguments, **options)
            if function not in _UNSHAPED:
                result = conform(function.__name__, result, function, arguments, options)
            return _result_of(result)
        except TypeError as error:
            if "argument" not in str(error) or "unexpected" not in str(error):
                raise
            refuse(
                function.__name__, f"was given an argument that is not known here ({error})", "Leave it out"
            )
    if function in _BILINEAR:
        return _bilinear(function, arguments, options)
    if function in _STRUCTURE:
        return _structure(function, arguments, options)
    if graph_of(*arguments, *options.values()) is None:
        return _of_constants(function, arguments, options)
    module = getattr(function, "__module__", "").removeprefix("numpy").lstrip(".")
    refuse_unsupported(f"{module}.{function.__name__}" if module == "linalg" else function.__name__)


def _bilinear(function: Any, arguments: Any, options: dict[str, Any]) -> Any:
    if graph_of(*arguments, *options.values()) is None:
        return _bilinear_constants(function, arguments, options)
    first, last = (1, len(arguments)) if function is np.einsum else (0, 2)
    # Whatever NumPy would make an array of: a list of constants or a number, too.
    operands = [plain_objects(value) if first <= k < last else value for k, value in enumerate(arguments)]
    if function is not np.einsum and len(arguments) < 2:
        refuse(function.__name__, "must be given what it multiplies in order", "Leave the names out")
    asked = {key: value for key, value in options.items()}
    result = _bilinear_function(function, operands, options)
    return result_of(conform(function.__name__, result, function, arguments, asked))


def _bilinear_function(function: Any, operands: list[Any], options: dict[str, Any]) -> Any:
    """As :func:`multiply_matrices`, with arguments that are not arrays in their places."""
    places = [k for k, value in enumerate(operands) if isinstance(value, np.ndarray)]
    if function is np.einsum and not isinstance(operands[0], str):
        refuse("einsum", "must be given its subscripts as text", "Write np.einsum('ij,j->i', a, b)")
    extra = {key: options.pop(key) for key in ("axes", "axis") if key in options and function is np.tensordot}
    if function is np.einsum:
        if len(places) == 1 and not options and _is_view(operands[0], operands[1]):
            return np.einsum(operands[0], operands[1])
        if not is_float64(options.pop("dtype", None)):
            refuse("einsum", "makes float64 only", "Leave `dtype` out")
        # Of two, another order of the same products, which the sum allows for; of more, other products.
        if options.pop("optimize", False) is not False and len(places) > 2:
            refuse("einsum", "multiplies in an order of its own with `optimize`", "Leave it out")

    def call(*arrays: Any) -> Any:
        whole = list(operands)
        for place, array in zip(places, arrays, strict=True):
            whole[place] = array
        return function(*whole, **extra)

    call.__name__ = function.__name__
    return multiply_matrices(call, [operands[k] for k in places], options)


def _bilinear_constants(function: Any, arguments: Any, options: dict[str, Any]) -> Any:
    """By NumPy itself, called in the same way: the order in which it adds depends on all of that."""
    if options.get("out") is not None:
        refuse(function.__name__, "does not take `out`", "Assign the result")
    if function is np.einsum and not isinstance(arguments[0], str):
        refuse("einsum", "must be given its subscripts as text", "Write np.einsum('ij,j->i', a, b)")
    alone = function is np.einsum and len(arguments) == 2 and isinstance(arguments[1], Traced)
    if alone and _is_view(arguments[0], arguments[1]):
        result = np.einsum(arguments[0], arguments[1].view(np.ndarray))
        return result_of(conform("einsum", result, function, arguments, options))
    name = function.__name__
    given = {key: constant_arguments(value, name) for key, value in options.items()}
    return result_of(function(*(constant_arguments(value, name) for value in arguments), **given))


def _is_view(subscripts: str, operand: Any) -> bool:
    """Whether `einsum` of one array only looks at it another way."""
    numbers = np.zeros(operand.shape)
    return np.shares_memory(np.einsum(subscripts, numbers), numbers)


def _structure(function: Any, arguments: Any, options: dict[str, Any]) -> Any:
    """NumPy's own function on arrays of objects; what it gives is traced again."""
    if not is_float64(options.pop("dtype", None)):
        refuse(function.__name__, "makes float64 only", "Leave `dtype` out")
    if function is np.fill_diagonal and (len(arguments) < 2 or arguments[0].dtype == np.bool_):
        refuse("fill_diagonal", "must be given an array of floats, and what to fill it with")
    if function in (np.place, np.putmask):
        target, mask, values = arguments
        if target.dtype == np.bool_:
            refuse(function.__name__, "cannot write into an array of conditions", "Use np.where")
        refuse_overlap(function.__name__, target, values)
        arguments = (target, mask, wrap(numbers_of(values)))
    if function is np.fill_diagonal:
        refuse_overlap("fill_diagonal", *arguments[:2])
        arguments = (arguments[0], numbers_of(arguments[1]), *arguments[2:])
    if function not in _JOINS and any(type(value) is Whole for value in arguments):
        refuse(function.__name__, "must be given floats; NumPy makes integers of these", "Multiply by 1.0")
    with entrywise() if function in _ENTRYWISE else nullcontext():
        result = function._implementation(*arguments, **options)
    if function in _JOINS and isinstance(result, np.ndarray):
        plain = plain_objects(np.asarray(result).view(np.ndarray))  # what lists hold becomes floats
        result = conform(function.__name__, plain, function, arguments, options)
    return _result_of(result)


def _result_of(result: Any) -> Any:
    if isinstance(result, list | tuple):
        return type(result)(_result_of(part) for part in result) if type(result) in (list, tuple) else result
    if type(result) is np.ndarray and result.dtype == object:
        return result.view(Traced)
    return result


def _share(one: Any, two: Any) -> bool:
    parts = two if isinstance(two, list | tuple) else (two,)
    arrays = [part for part in parts if isinstance(part, np.ndarray)]
    return isinstance(one, np.ndarray) and any(np.may_share_memory(one, array) for array in arrays)


def _of_constants(function: Any, arguments: Any, options: dict[str, Any]) -> Any:
    """Any function of constants, by NumPy; what it gives cannot be written to, as it may be a view."""
    if options.get("out") is not None:
        refuse(function.__name__, "does not take `out`", "Assign the result")

    def frozen(value: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return value
        kept = result_of(value)
        if isinstance(kept, np.ndarray):
            kept.flags.writeable = False
        return kept

    name = function.__name__
    given, before = ([constant_arguments(value, name) for value in arguments] for _ in range(2))
    result = function(*given, **{key: constant_arguments(value, name) for key, value in options.items()})
    parts = result if isinstance(result, tuple | list) else (result,)
    pairs = zip(given, before, strict=True)
    if any(isinstance(one, np.ndarray) and not np.array_equal(one, two) for one, two in pairs):
        refuse(name, "writes to its argument, which cannot be followed", "Copy it first")
    if any(_share(part, value) for part in parts for value in given):
        refuse(
            function.__name__, "is a view of its argument, which cannot be followed", "Leave it out, or copy"
        )
    return tuple(map(frozen, result)) if isinstance(result, tuple) else frozen(result)


def _select(conditions: Any, choices: Any, default: Any = 0) -> Any:
    result = default
    for condition, choice in reversed(list(zip(conditions, choices, strict=True))):
        result = where(condition, choice, result)
    return plain_objects(result).copy()  # in C's order, as NumPy makes it


def _apply_along_axis(function: Any, axis: int, values: Any, *arguments: Any, **options: Any) -> Any:
    def plain(lane: Any) -> Any:
        found = function(wrap(lane), *arguments, **options)
        if np.asarray(stand_in(found)).dtype != np.float64:  # what comes first decides on the type of all
            refuse("apply_along_axis", "must be of a function that gives float64 numbers", "Multiply by 1.0")
        return plain_objects(found)

    return np.apply_along_axis(plain, axis, plain_objects(values))


def _mean(values: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    if not is_float64(dtype) or out is not None:
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
        refuse(
            "linalg.norm", "is bounded as the Euclidean norm along one axis only", "Give `axis` and no `ord`"
        )
    if graph_of(array) is None:
        return np.linalg.norm(constants_of(array, "norm"), ord, axis, keepdims)
    return length(array, axis, keepdims)


def _like(fill: Any) -> Callable[..., Any]:
    def make_like(value: Any, *given: Any, **options: Any) -> Any:
        filled, rest = (given[0], given[1:]) if fill is None else (fill, given)
        if fill is None and not given:
            filled = options.pop("fill_value")
        if rest or not is_float64(options.pop("dtype", None)):
            refuse("zeros_like", "makes float64 arrays only", "Leave `dtype` out")
        array = np.empty_like(plain_objects(value), dtype=object, **options)
        if filled is UNASSIGNED:
            array.fill(filled)
        else:
            array[...] = plain_objects(numbers_of(filled))
        return array.view(Traced)

    return make_like


def _copyto(target: Any, source: Any, casting: str = "same_kind", **options: Any) -> None:
    if not isinstance(target, Traced):
        refuse("copyto", "cannot write into an array of floats", "Start from np.zeros inside the function")
    chosen = options.get("where", True)
    target[...] = wrap(source) if chosen is True else where(chosen, source, target)


FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.where: where,
    np.select: _select,
    np.mean: _mean,
    np.round: _round,
    np.linalg.norm: _norm,
    np.copyto: _copyto,
    np.apply_along_axis: _apply_along_axis,
    np.empty_like: _like(UNASSIGNED),
    np.zeros_like: _like(0.0),
    np.ones_like: _like(1.0),
    np.full_like: _like(None),
    **ROUTINES,
}
if hasattr(np, "around"):
    FUNCTIONS[np.around] = _round
_UNSHAPED = (
    np.copyto,
    np.apply_along_axis,
    *(function for function in ROUTINES if function is not np.interp),
)
_JOINS = (
    np.stack, np.concatenate, np.vstack, np.hstack, np.dstack, np.column_stack, np.block,
    np.append, np.insert,
)  # fmt: skip
# Which NumPy does to entries one by one: it multiplies and subtracts them, or asks for their truth.
_ENTRYWISE = (np.cross, np.place, np.putmask)
_BILINEAR = (np.dot, np.inner, np.outer, np.tensordot, np.einsum, np.vdot, np.kron)
_STRUCTURE = (
    np.stack, np.concatenate, np.vstack, np.hstack, np.dstack, np.column_stack, np.block, np.transpose,
    np.reshape, np.ravel, np.squeeze, np.expand_dims, np.swapaxes, np.moveaxis, np.rollaxis, np.flip,
    np.fliplr, np.flipud, np.rot90, np.atleast_1d, np.atleast_2d, np.atleast_3d, np.broadcast_to,
    np.broadcast_arrays,
    np.diagonal, np.diag, np.roll, np.repeat, np.tile, np.take, np.take_along_axis, np.split, np.array_split,
    np.hsplit, np.vsplit, np.dsplit, np.copy, np.shape, np.ndim, np.size, np.sum, np.prod, np.min, np.max,
    np.amin, np.amax, np.any, np.all, np.clip, np.cumsum, np.cumprod, np.diff, np.cross, np.polyval,
    np.append, np.insert, np.delete, np.meshgrid, np.triu, np.tril, np.put_along_axis,
    np.fill_diagonal, np.put, np.place, np.putmask, np.ix_,
    np.unstack if hasattr(np, "unstack") else np.stack,
)  # fmt: skip
