"""NumPy's elementwise functions on terms, by NumPy's names."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from tether.verification.graph import (
    Graph,
    Term,
    as_term,
    graph_of,
    number,
    select,
    truth,
)

ELEMENTARY = (
    "sqrt", "exp", "expm1", "exp2", "log", "log1p", "log2", "log10", "sin", "cos", "tan", "arcsin", "arccos",
    "arctan", "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh", "cbrt", "deg2rad", "rad2deg",
)  # fmt: skip
"""Functions of one argument that a node bears the name of."""
STEPS = ("sign", "floor", "ceil", "trunc", "rint")
_EXACT = frozenset(
    {"add", "subtract", "multiply", "divide", "negative", "positive", "conjugate", "absolute", "fabs", "sqrt"}
    | {"minimum", "maximum", "square", "reciprocal", "copysign"}
    | {"less", "less_equal", "greater", "greater_equal", "equal", "not_equal"}
    | {"logical_and", "logical_or", "logical_xor", "logical_not"}
    | {"bitwise_and", "bitwise_or", "bitwise_xor", "invert", *STEPS}
)
"""What gives the same bits for a number alone and in an array."""


def apply(name: str, *values: Any) -> Any:
    """One of :data:`SCALAR` of numbers, at least one of which is a term."""
    graph = graph_of(values)
    rule = SCALAR.get(name)
    if rule is None:
        graph.refuse(f"np.{name}, which has no rule here")
    return rule(graph, *(as_term(graph, value) for value in values))


def apply_or_fold(graph: Graph, name: str, *values: Any) -> Any:
    """The same where there may be no term among them: numbers are then worked out at once."""
    if any(type(value) is Term for value in values):
        return apply(name, *values)
    if name in _EXACT:
        plain = [value if isinstance(value, bool | np.bool_) else np.float64(value) for value in values]
        with np.errstate(all="ignore"):
            return getattr(np, name)(*plain)
    return apply(name, as_term(graph, values[0]), *values[1:])


def _node(operation: str) -> Callable[..., Term]:
    def rule(graph: Graph, *terms: Term) -> Term:
        return Term(graph, graph.add(operation, *(number(term).number for term in terms)))

    return rule


def _swapped(operation: str) -> Callable[..., Term]:
    return lambda graph, one, two: _node(operation)(graph, two, one)


def _subtract(graph: Graph, one: Term, two: Term) -> Term:
    if one.boolean and two.boolean:
        graph.refuse("a difference of truth values")
    return _node("subtract")(graph, one, two)


def _multiply(graph: Graph, one: Term, two: Term) -> Term:
    if one.boolean and two.boolean:
        return _logic("and")(graph, one, two)
    if one.number == two.number:
        return _node("square")(graph, one)
    return _node("multiply")(graph, one, two)


def _add(graph: Graph, one: Term, two: Term) -> Term:
    return _logic("or")(graph, one, two) if one.boolean and two.boolean else _node("add")(graph, one, two)


def _logic(operation: str) -> Callable[..., Term]:
    def rule(graph: Graph, one: Term, two: Term) -> Term:
        return Term(graph, graph.add(operation, truth(one).number, truth(two).number))

    return rule


def _only_truth(rule: Callable[..., Term]) -> Callable[..., Term]:
    """`&`, `|`, `^` and `~` mean logic of truth values only."""

    def strict(graph: Graph, *terms: Term) -> Term:
        if not all(term.boolean for term in terms):
            graph.refuse("an operation on the bits of a number")
        return rule(graph, *terms)

    return strict


def _not(graph: Graph, one: Term) -> Term:
    return Term(graph, graph.add("not", truth(one).number))


def _xor(graph: Graph, one: Term, two: Term) -> Term:
    either, both = _logic("or")(graph, one, two), _logic("and")(graph, one, two)
    return _logic("and")(graph, either, _not(graph, both))


def _constant(graph: Graph, term: Term) -> float | None:
    node = graph.nodes[number(term).number]
    return float.fromhex(node.data) if node.operation == "constant" and node.data != "nan" else None


def _power(graph: Graph, base: Term, exponent: Term) -> Term:
    by, base, exponent = _constant(graph, exponent), number(base), number(exponent)
    if by is None or not np.isfinite(by):
        # Of a constant it is the same for every row: it stands for the exact one, not for a call of NumPy's.
        turn = None if _constant(graph, base) is None else 0
        logarithm = Term(graph, graph.add("log", base.number, turn=turn))
        return _node("exp")(graph, _node("multiply")(graph, exponent, logarithm))
    if by.is_integer() and abs(by) <= 2**20:
        return Term(graph, graph.add("power", base.number, data=int(by)))
    # Not a square root, also by 0.5: that is rounded correctly, and a power need not be.
    return Term(graph, graph.add("real_power", base.number, data=by.hex()))


def _floor_divide(graph: Graph, one: Term, two: Term) -> Term:
    # NumPy takes what is left over from the dividend first, which rounds once more than a division.
    return _node("floor")(graph, _node("quotient")(graph, one, two))


def _turns(step: str) -> Callable[..., Term]:
    """What is left after whole numbers of the divisor: `remainder` and `fmod`."""

    def rule(graph: Graph, one: Term, two: Term) -> Term:
        whole = _node(step)(graph, _node("divide")(graph, one, two))
        parts = (number(part).number for part in (one, two, whole))
        return Term(graph, graph.add("left_over", *parts, data=step))

    return rule


def _clip(graph: Graph, value: Term, low: Term, high: Term) -> Term:
    return _node("minimum")(graph, _node("maximum")(graph, value, low), high)


def _copysign(graph: Graph, size: Term, sign: Term) -> Term:
    size = _node("absolute")(graph, size)
    zero = Term(graph, graph.constant(0.0))
    clear = _node("less")(graph, zero, sign)
    other = select(_node("less")(graph, sign, zero), _node("negative")(graph, size), _unset(graph), graph)
    return select(clear, size, other, graph)


def _unset(graph: Graph) -> Term:
    return Term(graph, graph.add("unset"))


def _heaviside(graph: Graph, one: Term, middle: Term) -> Term:
    zero, above = Term(graph, graph.constant(0.0)), Term(graph, graph.constant(1.0))
    rest = select(_node("equal")(graph, one, zero), middle, above, graph)
    return select(_node("less")(graph, one, zero), zero, rest, graph)


def _equal(graph: Graph, one: Term, two: Term) -> Term:
    if one.number == two.number:
        graph.refuse("a number compared with itself, which asks whether it is NaN")
    return _node("equal")(graph, one, two)


def _not_equal(graph: Graph, one: Term, two: Term) -> Term:
    return _not(graph, _equal(graph, one, two))


SCALAR: dict[str, Callable[..., Any]] = {
    "add": _add,
    "subtract": _subtract,
    "multiply": _multiply,
    "divide": _node("divide"),
    "true_divide": _node("divide"),
    "negative": _node("negative"),
    "positive": lambda graph, one: number(one),
    "conjugate": lambda graph, one: number(one),
    "power": _power,
    "float_power": _power,
    "pow": _power,
    "remainder": _turns("floor"),
    "mod": _turns("floor"),
    "fmod": _turns("trunc"),
    "floor_divide": _floor_divide,
    "minimum": _node("minimum"),
    "maximum": _node("maximum"),
    "clip": _clip,
    "absolute": _node("absolute"),
    "abs": _node("absolute"),
    "fabs": _node("absolute"),
    "square": _node("square"),
    "reciprocal": lambda graph, one: _node("divide")(graph, Term(graph, graph.constant(1.0)), one),
    "radians": _node("deg2rad"),
    "degrees": _node("rad2deg"),
    "arctan2": _node("arctan2"),
    "hypot": _node("length"),
    "logaddexp": _node("logaddexp"),
    "copysign": _copysign,
    "heaviside": _heaviside,
    "less": _node("less"),
    "less_equal": _node("less_equal"),
    "greater": _swapped("less"),
    "greater_equal": _swapped("less_equal"),
    "equal": _equal,
    "not_equal": _not_equal,
    "logical_and": _logic("and"),
    "logical_or": _logic("or"),
    "logical_xor": _xor,
    "logical_not": _not,
    "bitwise_and": _only_truth(_logic("and")),
    "bitwise_or": _only_truth(_logic("or")),
    "bitwise_xor": _only_truth(_xor),
    "invert": _only_truth(_not),
} | {name: _node(name) for name in (*ELEMENTARY, *STEPS)}
"""Every elementwise function that is known, from a graph and terms."""
SCALAR |= {short: SCALAR[name] for short, name in {
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2", "asinh": "arcsinh",
    "acosh": "arccosh", "atanh": "arctanh",
}.items()}  # fmt: skip


def total(graph: Graph, values: list[Any]) -> Any:
    """A sum in whatever order NumPy adds up."""
    terms = [number(as_term(graph, value)).number for value in values]
    return Term(graph, graph.add("sum", *terms)) if len(terms) > 1 else Term(graph, terms[0])


def length(graph: Graph, values: list[Any]) -> Term:
    """Euclidean length."""
    return _node("length")(graph, *(as_term(graph, value) for value in values))


def operate(graph: Graph, name: str, *values: Any) -> Any:
    """An operator of single numbers, by its ufunc's name: a number of the kind that Python or NumPy gives."""
    kinds = tuple(value.kind if type(value) is Term else type(value) for value in values)
    kind = _kind_of(name, kinds)
    if kind is None:
        shown = " and ".join(part.__name__ for part in kinds)
        graph.refuse(f"np.{name} of {shown}, which makes no float64 (multiply by 1.0 first)")
    result = apply(name, *values)
    if kind in (float, np.float64):
        result = number(result)
    elif not result.boolean:
        graph.refuse(f"np.{name} of single truth values (multiply by 1.0 first)")
    return Term(graph, result.number, python=kind in (bool, float))


@cache
def _kind_of(name: str, kinds: tuple[type, ...]) -> type | None:
    """What the operator makes of numbers of these kinds, where it is float64 or a truth value."""
    if not set(kinds) <= _KNOWN or name not in _OPERATORS:
        return None
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            kind = type(_OPERATORS[name](*(kind(1) for kind in kinds)))
        except TypeError:
            return None
    return kind if kind in (float, bool, np.float64, np.bool_) else None


_KNOWN = frozenset({bool, int, float}) | {
    kind for kind in np.sctypeDict.values() if issubclass(kind, np.number | np.bool_)
}
_OPERATORS: dict[str, Callable[..., Any]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "divide": operator.truediv,
    "power": operator.pow, "remainder": operator.mod, "floor_divide": operator.floordiv,
    "bitwise_and": operator.and_, "bitwise_or": operator.or_, "bitwise_xor": operator.xor,
    "less": operator.lt, "less_equal": operator.le, "greater": operator.gt, "greater_equal": operator.ge,
    "equal": operator.eq, "not_equal": operator.ne, "negative": operator.neg, "positive": operator.pos,
    "absolute": abs, "invert": operator.invert,
}  # fmt: skip
