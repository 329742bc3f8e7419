"""The functions of :mod:`math` and Python's own on nodes."""

from __future__ import annotations

import builtins
import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tether.programs import graph as codes
from tether.programs.arrays import Traced, graph_of
from tether.programs.refusal import refuse, refuse_unsupported
from tether.programs.scalars import (
    Node,
    Plain,
    Whole,
    apply,
    as_constant,
    as_number,
    is_condition,
    make,
    operate,
    refuse_kin,
    to_whole,
)


def _mathematical(original: Callable[..., Any], ufunc: np.ufunc) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        given = [as_number(value) if type(value) is Whole else _scalar(value) for value in arguments]
        for value in given:
            refuse_kin(value, original.__name__)
        if not any(isinstance(value, Node) for value in given):
            return original(*given)
        if original in _TO_WHOLE:
            return to_whole(ufunc, *given)
        with graph_of(*given).called(("math", ufunc)):
            return _pythons(apply(ufunc, *given))

    return call


_TO_WHOLE = (math.floor, math.ceil, math.trunc)


def _scalar(value: Any) -> Any:
    if isinstance(value, Traced):
        if value.size != 1:
            refuse(
                "math", f"must be given scalars; got an array of shape {value.shape}", "Use NumPy's function"
            )
        return value.reshape(-1)[0]
    return value


def _hypot(*parts: Any) -> Any:
    graph = graph_of(*map(_scalar, parts))
    if graph is None:
        return math.hypot(*map(_scalar, parts))
    scalars = [as_number(_scalar(part)) for part in parts]
    with graph.called("math.hypot"):
        return _pythons(
            apply(np.hypot, *scalars)
            if len(parts) == 2
            else make(graph, codes.NORM, *scalars, value=len(parts) + 8.0)
        )


def _log(value: Any, *base: Any) -> Any:
    parts = [_scalar(part) for part in (value, *base)]
    graph = graph_of(*parts)
    if graph is None:
        return math.log(*parts)
    with graph.called("math.log"):
        result = apply(np.log, parts[0])
        return _pythons(apply(np.divide, result, apply(np.log, parts[1])) if base else result)


def _prod(values: Any, *, start: Any = 1) -> Any:
    """A product is in order, and rounds as `*` does."""
    for value in values:
        start = _operated(np.multiply, start, value)
    return start


def _operated(ufunc: np.ufunc, one: Any, two: Any) -> Any:
    """An operator of Python's, on plain numbers too."""
    if any(isinstance(value, Node | np.ndarray) for value in (one, two)):
        return operate(ufunc, one, two)
    return one + two if ufunc is np.add else one * two


def _sum(values: list[Any], start: Any = 0) -> Any:
    """Python's own `sum`: of Python's floats it is compensated from 3.12 on, of all else it is in order."""
    parts = values if type(start) is int and start == 0 else [start, *values]
    if any(type(part) is float or (type(part) is Plain and not part.is_condition) for part in parts):
        return _sum_of_floats(parts)
    total: Any = 0
    for part in parts:
        total = _operated(np.add, total, part)
    return total


def _sum_of_floats(parts: list[Any]) -> Any:
    """Sound because the error of a sum in any order, which the node allows for, is not less than either's."""
    if not all(isinstance(part, Node | int | float) for part in parts) or any(map(is_condition, parts)):
        refuse("sum", "of Python's floats and others cannot be followed", "Use np.sum on one array")
    graph = graph_of(*parts)
    terms = [as_number(part) if isinstance(part, Node) else as_constant(part, "sum") for part in parts]
    own = all(type(part) in (Plain, Whole, int, float) for part in parts)
    if len(terms) < 3:  # a sum of two is rounded once, compensated or not
        total = terms[0] if len(terms) == 1 else apply(np.add, *terms)
    else:
        total = make(graph, codes.SUM, *terms, value=len(terms) + 2.0)
    return _pythons(total) if own else total


def _pythons(value: Any) -> Any:
    """What math gives is Python's own number."""
    return Plain(value.graph, value.number) if isinstance(value, Node) else value


def _len(values: Any) -> int:
    if not isinstance(values, Traced) or not values.ndim:
        raise TypeError("object of type 'numpy.float64' has no len()")
    return len(values)


def _round(value: Any, digits: int | None = None) -> Any:
    if not isinstance(value, Node):
        refuse_unsupported("round")
    return to_whole(np.rint, value) if digits is None else np.round(value, digits)  # type: ignore[call-overload]


def _divmod(one: Any, two: Any) -> Any:
    return operate(np.floor_divide, one, two), operate(np.remainder, one, two)


def _float(*values: Any) -> Any:
    del values
    refuse(
        "float",
        "would drop what a number depends on",
        "Use NumPy's functions, start arrays with np.zeros, and leave float() out",
    )


_UFUNCS = {
    "sqrt": np.sqrt, "exp": np.exp, "expm1": np.expm1, "log1p": np.log1p, "log2": np.log2, "log10": np.log10,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "atan2": np.arctan2, "pow": np.power, "fabs": np.absolute, "floor": np.floor,
    "ceil": np.ceil, "trunc": np.trunc, "degrees": np.rad2deg, "radians": np.deg2rad, "exp2": np.exp2,
    "cbrt": np.cbrt,
}  # fmt: skip
MATHEMATICS: dict[Any, Callable[..., Any]] = {
    **{getattr(math, name): _mathematical(getattr(math, name), ufunc) for name, ufunc in _UFUNCS.items()},
    math.hypot: _hypot,
    math.log: _log,
    math.prod: _prod,
    builtins.sum: _sum,
    len: _len,
    round: _round,
    divmod: _divmod,
    pow: lambda one, two: operate(np.power, one, two),
    float: _float,
    int: _float,
    complex: _float,
    copy.copy: copy.copy,
    copy.deepcopy: copy.deepcopy,
    **{kind: _float for kind in set(np.sctypeDict.values())},
}
"""What is done where a node is among the arguments, by the function."""
