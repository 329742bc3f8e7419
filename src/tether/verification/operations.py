"""NumPy's elementwise functions on terms, by NumPy's names."""

from __future__ import annotations

import dis
import operator
import sys
from collections.abc import Callable
from functools import cache, lru_cache
from types import CodeType, FrameType
from typing import Any

import numpy as np

from tether.verification.graph import (
    Graph,
    Term,
    as_term,
    graph_of,
    is_derived,
    number,
    numpys,
    pythons,
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
    return _node("floor")(graph, _node("divide")(graph, one, two))


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


def _binary(name: str, *, reflected: bool = False) -> Callable[[Term, Any], Any]:
    def method(self: Term, other: Any) -> Any:
        if type(other) is not Term and isinstance(other, np.ndarray):
            ufunc = getattr(np, name)
            return ufunc(other, self) if reflected else ufunc(self, other)
        if name == "add" and self.boolean and isinstance(other, bool | np.bool_):
            # 1 of NumPy's truth values, 2 of Python's, which `.item()` gives.
            self.graph.refuse("a sum of single truth values")
        if is_derived(other) or (type(other) is not Term and isinstance(other, complex | list | tuple)):
            self.graph.refuse(f"np.{name} of a number and a {type(other).__name__}")
        if type(other) is not Term and not isinstance(other, int | float | np.number | np.bool_):
            return _of_another(self, name, other)
        if self.boolean and self.python and _is_pythons_truth(other) and name in _ARITHMETIC:
            self.graph.refuse(f"np.{name} of two of Python's truth values, which makes an integer")
        if _in_product(sys._getframe(1)):
            self.graph.refuse("`@` of an array and a list of arrays (make it with np.array)")
        pair = (other, self) if reflected else (self, other)
        kind = tuple((part.boolean, None) if type(part) is Term else (None, type(part)) for part in pair)
        if not _is_right(name, kind):
            self.graph.refuse(
                f"np.{name} of single numbers whose result is not float64 (multiply by 1.0 first)"
            )
        result = apply(name, *pair)
        own = all(part.python if type(part) is Term else type(part) in _PYTHONS for part in pair)
        return pythons(result) if own else numpys(result)

    return method


def _in_product(frame: FrameType) -> bool:
    """Whether `@` is at work, which only NumPy does to numbers one by one, in an order of its own."""
    return frame.f_lasti in _products(frame.f_code)


@lru_cache(maxsize=4096)
def _products(code: CodeType) -> frozenset[int]:
    lines = dis.get_instructions(code)
    return frozenset(
        line.offset for line in lines if line.opname == "BINARY_OP" and line.argrepr in ("@", "@=")
    )


def _of_another(self: Term, name: str, other: Any) -> Any:
    """An operator of a number and what is none."""
    if name in ("equal", "not_equal") and (other is None or isinstance(other, str)):
        return NotImplemented
    if self.python and not hasattr(type(other), "__array_ufunc__"):
        return NotImplemented  # as Python's own number does
    # NumPy's own number would make an array of it, or ask its `__array_ufunc__`; Python, its operator.
    self.graph.refuse(f"np.{name} of a number and a {type(other).__name__}")


def _is_pythons_truth(value: Any) -> bool:
    return value.boolean and value.python if type(value) is Term else type(value) is bool


_PYTHONS = (float, int, bool)
_ARITHMETIC = ("add", "subtract", "multiply", "divide", "power", "remainder", "floor_divide")


@cache
def _is_right(name: str, kinds: tuple[tuple[bool | None, Any], ...]) -> bool:
    """Whether an operator of NumPy's scalars, and of Python's, gives float64 or a truth value."""
    for number_, truth_ in ((np.float64(1.0), np.bool_(True)), (1.0, True)):
        values = [kind(1) if is_term is None else truth_ if is_term else number_ for is_term, kind in kinds]
        with np.errstate(all="ignore"):
            try:
                result = _OPERATORS[name](*values) if name in _OPERATORS else getattr(np, name)(*values)
            except TypeError:
                return False
        both = all(is_term or kind in (bool, np.bool_) for is_term, kind in kinds)
        fine = isinstance(result, float | bool | np.bool_) or (name == "multiply" and both)
        if not fine:
            return False
    return True


_OPERATORS: dict[str, Callable[..., Any]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "divide": operator.truediv,
    "power": operator.pow, "remainder": operator.mod, "floor_divide": operator.floordiv,
    "bitwise_and": operator.and_, "bitwise_or": operator.or_, "bitwise_xor": operator.xor,
}  # fmt: skip


def _unary(name: str) -> Callable[[Term], Any]:
    def method(self: Term) -> Any:
        if self.boolean and name in ("negative", "positive", "absolute"):
            self.graph.refuse(f"np.{name} of a single truth value (multiply by 1.0 first)")
        result = apply(name, self)
        return pythons(result) if self.python else numpys(result)

    return method


def _whole(self: Term) -> Any:
    self.graph.refuse("math.floor, math.ceil or math.trunc, which make integers (write np.floor)")


def _inverted(self: Term) -> Any:
    # ``~True`` is False of NumPy's truth values, and -2 of Python's, which `.item()` gives.
    self.graph.refuse("`~` of a single truth value (write `not`)")


def _install() -> None:
    """Operators of :class:`Term`."""
    operators = {
        "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "pow": "power",
        "mod": "remainder", "floordiv": "floor_divide", "and": "bitwise_and", "or": "bitwise_or",
        "xor": "bitwise_xor",
    }  # fmt: skip
    for symbol, name in operators.items():
        setattr(Term, f"__{symbol}__", _binary(name))
        setattr(Term, f"__r{symbol}__", _binary(name, reflected=True))
    Term.__invert__ = _inverted  # type: ignore[attr-defined]
    comparisons = {"lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal"}
    for symbol, name in (comparisons | {"ne": "not_equal"}).items():
        setattr(Term, f"__{symbol}__", _binary(name))
    for symbol, name in {
        "neg": "negative",
        "pos": "positive",
        "abs": "absolute",
    }.items():
        setattr(Term, f"__{symbol}__", _unary(name))
    for symbol in ("floor", "ceil", "trunc"):
        setattr(Term, f"__{symbol}__", _whole)


_install()
