"""Scalars of a trace: immutable nodes of the graph, and what each of NumPy's ufuncs means for them."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Number
from types import FrameType
from typing import Any, NoReturn

import numpy as np

from tether.programs import graph as codes
from tether.programs.graph import Graph
from tether.programs.refusal import refuse, refuse_unsupported

# Asked for the truth of a condition; set by the trace that is running.
decide: Callable[[Node], bool] | None = None


class Node:
    """One number, or one condition, of the program: what an entry of an array stands for.

    Immutable, so that whoever holds it holds a value and never a view.
    """

    __slots__ = ("graph", "number")

    def __init__(self, graph: Graph, number: int) -> None:
        self.graph, self.number = graph, number

    @property
    def is_condition(self) -> bool:
        """Whether it is a condition rather than a number."""
        return self.graph.conditions[self.number]

    def __bool__(self) -> bool:
        if not asked:
            refuse("if", "reaches a number by code that is not read", "Use arrays")
        return truth_of(self)

    def __float__(self) -> NoReturn:
        refuse(
            "float",
            "would drop what a number depends on",
            "Use NumPy's functions, start arrays with np.zeros, and leave float() out",
        )

    __int__ = __index__ = __complex__ = __float__

    def __hash__(self) -> NoReturn:
        refuse("hash", "of a number that is not known cannot be taken", "Leave dictionaries and sets out")

    def __copy__(self) -> Node:
        return self

    def __deepcopy__(self, _memo: Any) -> Node:
        return self

    def __reduce__(self) -> NoReturn:
        refuse("pickle", "would drop what a number depends on")

    def __repr__(self) -> str:
        if decide is not None:
            refuse("str", "of a number that is not known cannot be taken", "Leave it out")
        return f"Node({self.number})"

    def __format__(self, _specification: str) -> str:
        return repr(self)

    def tolist(self) -> Node:
        """Itself, as Python's number."""
        return Plain(self.graph, self.number)

    def item(self) -> Node:
        """Itself, as Python's number."""
        return Plain(self.graph, self.number)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        from tether.programs.ufuncs import call_ufunc

        return call_ufunc(ufunc, method, inputs, options)

    def __array_function__(self, function: Any, _types: Any, arguments: Any, options: Any) -> Any:
        from tether.programs.functions import call_function

        return call_function(function, arguments, options)

    def _as_array(self) -> Any:
        from tether.programs.arrays import wrap

        return wrap(self)

    __iter__ = __contains__ = None  # type: ignore[assignment]

    def __getitem__(self, index: Any) -> Any:
        return self._as_array()[index]

    _answers = frozenset(
        {"T", "all", "any", "astype", "clip", "conj", "conjugate", "copy", "cumprod", "cumsum", "dtype",
         "flatten", "max", "mean", "min", "ndim", "prod", "ravel", "real", "repeat", "reshape", "round",
         "shape", "size", "squeeze", "sum", "swapaxes", "take", "transpose"}
    )  # fmt: skip

    def answer(self, name: str) -> Any:
        """An attribute, as M's number has it."""
        if name in ("tolist", "item"):
            return getattr(self, name)
        if name not in self._answers:
            refuse(name, "of a number that is not known is not answered", "Leave it out")
        found = getattr(self._as_array(), name)
        if not callable(found):
            return _without_axes(found)
        return lambda *arguments, **options: _without_axes(found(*arguments, **options))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.answer(name)  # NumPy's own code asks; M's asks for the answer

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        """For this package only: NumPy adds up what it makes an array of objects of in another order."""
        del copy
        if not asked_by_us(sys._getframe(1)):
            if dtype == np.float64:
                float(self)
            refuse("array", "cannot be made by NumPy itself of numbers that are not known", "Use np.array")
        return self._as_array().view(np.ndarray)


class Plain(Node):
    """A number that is Python's float in M, or a truth value of its own: neither has what NumPy's have."""

    __slots__ = ()
    _answers = frozenset({"real", "conjugate"})

    def tolist(self) -> NoReturn:
        """Refused: Python's numbers have no such thing."""
        refuse("tolist", "is not known to Python's own numbers", "Leave it out")

    def item(self) -> NoReturn:
        """Refused: Python's numbers have no such thing."""
        refuse("item", "is not known to Python's own numbers", "Leave it out")

    def __getitem__(self, index: Any) -> NoReturn:
        del index
        refuse("indexing", "is not known to Python's own numbers", "Leave it out")

    def answer(self, name: str) -> Any:
        """An attribute, as Python's number has it."""
        Node.answer(self, name)
        return self if name == "real" else lambda: self

    def as_numpys(self) -> Node:
        """The same number as NumPy's."""
        return Node(self.graph, self.number)


class Whole(Node):
    """A number that is Python's int in M: no float64 until a float has to do with it."""

    __slots__ = ()
    _answers = frozenset()
    tolist, item, __getitem__ = Plain.tolist, Plain.item, Plain.__getitem__

    def as_float(self) -> Node:
        """The same number as a float: rounded, unless it was one before it was an integer."""
        graph = self.graph
        if graph.operations[self.number] in _INTEGERS or not graph.wholes[self.number]:
            return Node(graph, self.number)
        with graph.called("float of an integer"):
            return make(graph, codes.SUM, Node(graph, self.number), value=3.0)

    def as_exact(self) -> Node:
        """The same number, to be used in exact arithmetic and comparisons only."""
        return Node(self.graph, self.number)


class Boxed(Node):
    """A number that is an array without axes in M: it could be changed in place, and others would see it."""

    __slots__ = ()
    _answers = frozenset({"clip", "dtype", "max", "mean", "min", "ndim", "prod", "shape", "size", "sum"})


def to_whole(ufunc: np.ufunc, *operands: Any) -> Any:
    """What is exact in Python's integers: the same number, with at most the rounding that is allowed for."""
    if any(isinstance(value, Node) and value.is_condition for value in operands):
        refuse(ufunc.__name__, "of conditions is not float64", "Multiply by 1.0 first")
    name = ufunc.__name__
    floats = [_exact(value) if isinstance(value, Node) else as_constant(value, name) for value in operands]
    graph = next(value.graph for value in floats if isinstance(value, Node))
    # Of integers: no float64 arithmetic is the same, because it rounds.
    with graph.exactly(all(type(value) in (Whole, int) for value in operands)):
        result = as_node(apply(ufunc, *floats), graph)
    return Whole(result.graph, result.number)


def _exact(value: Node) -> Any:
    return value.as_exact() if type(value) is Whole else as_number(value)


_INTEGERS = frozenset({codes.FLOOR, codes.CEIL, codes.TRUNC, codes.RINT, codes.CONSTANT})
"""Integers that are float64 numbers."""


def asked_by_us(frame: FrameType | None) -> bool:
    """Whether NumPy was called by this package."""
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "numpy":
        frame = frame.f_back
    return frame is not None and str(frame.f_globals.get("__name__")).startswith("tether.programs")


def _without_axes(value: Any) -> Any:
    """A scalar for an array without axes: what is mutable must not stand for a number."""
    return value[()] if isinstance(value, np.ndarray) and not value.ndim else value


def operate(ufunc: np.ufunc, *operands: Any) -> Any:
    """What Python's operator gives that stands for a ufunc, of a node among others or of arrays."""
    if any(isinstance(value, np.ndarray) for value in operands):
        return ufunc(*operands)
    for value in operands:
        refuse_kin(value, ufunc.__name__)
    if not all(isinstance(value, Node | Number | np.bool_) for value in operands):
        return _of_another(ufunc, operands)
    if ufunc in _OF_WHOLE and all(type(value) in (Whole, int) for value in operands):
        return to_whole(ufunc, *operands)
    graph = next(value.graph for value in operands if isinstance(value, Node))
    kinds = tuple(map(type, operands))
    with graph.called(("operator", ufunc, kinds)):
        result = apply(ufunc, *operands)
    if isinstance(result, Node) and all(kind in _PYTHONS for kind in kinds):
        return Plain(result.graph, result.number)
    if type(result) is Plain:
        return result.as_numpys()
    if isinstance(result, bool) and ufunc in (np.bitwise_and, np.bitwise_or, np.bitwise_xor):
        refuse(ufunc.__name__, "with what decides it leaves a truth value of unknown kind", "Leave it out")
    return result


def _of_another(ufunc: np.ufunc, operands: tuple[Any, ...]) -> Any:
    """An operator of a number and what is none."""
    other = next(value for value in operands if not isinstance(value, Node | Number | np.bool_))
    if ufunc in (np.equal, np.not_equal) and (other is None or type(other) is str):
        return ufunc is np.not_equal
    refuse(ufunc.__name__, f"of a number and a {type(other).__name__} is not followed", "Use arrays")


def truth_of(node: Any) -> bool:
    """``bool`` of a number or condition, which is decided one way and the other, in turn."""
    if not isinstance(node, Node):
        return bool(node)
    if decide is None:
        refuse("if", "cannot be decided after the trace has ended")
    return decide(node if node.is_condition else as_node(apply(np.not_equal, node, 0.0), node.graph))


asked = False
"""Whether NumPy asks entries because this package asked it to."""


@contextmanager
def entrywise() -> Iterator[None]:
    """While NumPy does to entries, one by one, what Python does to numbers."""
    global asked
    before, asked = asked, True
    try:
        yield
    finally:
        asked = before


def _answer(ufunc: np.ufunc, reflected: bool = False) -> Callable[..., Any]:
    """Python's method for an operator: whoever calls it was not read, but for NumPy where it was asked to."""

    def method(self: Node, *other: Any) -> Any:
        if not asked:
            refuse(ufunc.__name__, "reaches a number by code that is not read", "Use arrays")
        return operate(ufunc, *((*other, self) if reflected else (self, *other)))

    return method


_PYTHONS = (Plain, Whole, float, int, bool)
_OF_WHOLE = frozenset({np.add, np.subtract, np.multiply, np.negative, np.positive, np.absolute})
_COMPARING = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal,
    "ne": np.not_equal,
}  # fmt: skip
_ARITHMETIC = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "truediv": np.divide,
    "neg": np.negative,
}
for _name, _ufunc in (_COMPARING | _ARITHMETIC).items():
    setattr(Node, f"__{_name}__", _answer(_ufunc))
    if _name in _ARITHMETIC and _name != "neg":
        setattr(Node, f"__r{_name}__", _answer(_ufunc, reflected=True))


_SHORT: Any = (np.float16, np.float32)
_TOO_LONG: Any = np.longdouble
_REAL: tuple[Any, ...] = (int, float, np.floating, np.integer)


_NUMPYS = frozenset(np.sctypeDict.values())


def refuse_kin(value: Any, operation: str) -> None:
    """Refuses a number of a kind derived from Python's or NumPy's: it may have operators of its own."""
    kind = type(value)
    known = kind in (float, int, bool, complex) or kind in _NUMPYS or issubclass(kind, Node)
    if not known and issubclass(kind, int | float | complex | np.generic):
        refuse(
            operation, f"must be given Python's or NumPy's own numbers; got {kind.__name__}", "Use float()"
        )


def as_constant(value: Any, operation: str, *, infinite: bool = False) -> float | bool:
    """A plain number as float64 has it; refuses what float64 cannot hold exactly, and NaN.

    Args:
        value: a number of Python's or NumPy's.
        operation: named in the refusal.
        infinite: whether infinite constants make sense (for `minimum`, comparisons and the like).
    """
    if isinstance(value, bool | np.bool_):
        return bool(value)
    refuse_kin(value, operation)
    if isinstance(value, _TOO_LONG) or not isinstance(value, _REAL):
        kind = type(value).__name__
        refuse(operation, f"must be given real numbers of at most float64's precision; got {kind}")
    try:
        constant = float(value)
    except OverflowError:
        constant = math.inf
    if isinstance(value, int | np.integer) and (not math.isfinite(constant) or int(constant) != int(value)):
        refuse(operation, "must be given integers that float64 holds exactly", "Use a float")
    if math.isnan(constant) or (math.isinf(constant) and not infinite):
        refuse(operation, "must be given finite constants; got NaN or infinity", "Use a finite number")
    return constant


def as_node(value: Any, graph: Graph) -> Node:
    """A node for a constant, or the node itself."""
    return value if isinstance(value, Node) else Node(graph, graph.constant(float(value)))


def is_condition(value: Any) -> bool:
    """Whether a scalar is a condition: a node of that kind, or True or False."""
    return value.is_condition if isinstance(value, Node) else isinstance(value, bool | np.bool_)


def as_number(value: Any) -> Any:
    """A condition as 0 or 1; an integer that is not known as a float; anything else as it is."""
    if type(value) is Whole:
        return value.as_float()
    if type(value) is Plain and not value.is_condition:
        return value.as_numpys()
    if isinstance(value, Node) and value.is_condition:
        return Node(value.graph, value.graph.add(codes.NUMBER, (value.number,)))
    return float(value) if isinstance(value, bool | np.bool_) else value


def apply(ufunc: np.ufunc, *operands: Any) -> Any:
    """What a ufunc gives for scalars: a node, or a constant where all of them are."""
    nodes = [operand for operand in operands if isinstance(operand, Node)]
    name = ufunc.__name__
    if not nodes:
        return _folded(ufunc, operands)
    if ufunc not in RULES:
        refuse_unsupported(name)
    _check_kinds(ufunc, operands)
    graph = nodes[0].graph
    infinite = ufunc in _TAKES_INFINITY
    scalars = [
        operand if isinstance(operand, Node) else as_constant(operand, name, infinite=infinite)
        for operand in operands
    ]
    if ufunc in _NOT_OF_CONDITIONS and all(map(is_condition, scalars)):
        refuse(name, "of two conditions is another thing for truth values than for numbers", "Use & and |")
    if ufunc in _COMPARISONS:  # Python compares integers exactly
        scalars = [_exact(scalar) if isinstance(scalar, Node) else as_number(scalar) for scalar in scalars]
    elif ufunc not in _OF_CONDITIONS:
        scalars = [as_number(scalar) for scalar in scalars]
    if not all(type(operand) in (Whole, int) for operand in operands):
        return RULES[ufunc](graph, *scalars)
    with graph.exactly(True):
        return RULES[ufunc](graph, *scalars)


def apply_in(graph: Graph, ufunc: np.ufunc, *operands: Any) -> Any:
    """As `apply`, for entries of an array: how NumPy rounds there depends on how the array is laid out."""
    result = apply(ufunc, *operands)
    if isinstance(result, Node) or ufunc in EXACT or ufunc not in RULES or not math.isfinite(result):
        return result
    if result in (0.0, 1.0) and all(operand in (0.0, 1.0) for operand in operands):
        return result
    constants = [as_number(as_constant(operand, ufunc.__name__)) for operand in operands]
    return RULES[ufunc](graph, *constants)


def _check_kinds(ufunc: np.ufunc, operands: tuple[Any, ...]) -> None:
    """Refuses what NumPy does in integers, in truth values or in less than float64."""
    if any(isinstance(operand, _SHORT) for operand in operands):
        refuse(ufunc.__name__, "of float32 and a scalar may round to float32", "Use float64")
    if ufunc in _OF_CONDITIONS or ufunc in _COMPARISONS:
        return
    if ufunc is np.divide and all(type(operand) in (Whole, int) for operand in operands):
        return
    if not any(
        (type(operand) in (Node, Plain) and not operand.is_condition) or type(operand) in (float, np.float64)
        for operand in operands
    ):
        refuse(ufunc.__name__, "of conditions and integers is not float64", "Multiply by 1.0 first")


def _folded(ufunc: np.ufunc, operands: tuple[Any, ...]) -> Any:
    """A constant, by NumPy itself, in float64 as an entry of an array of floats would be."""
    constants = [as_constant(operand, ufunc.__name__, infinite=True) for operand in operands]
    result = ufunc(*(value if isinstance(value, bool) else np.float64(value) for value in constants))
    return bool(result) if isinstance(result, np.bool_) else float(result)


# Rules ------------------------------------------------------------------------------------------------


def make(graph: Graph, operation: int, *operands: Any, value: float = 0.0) -> Node:
    """A node of an operation on nodes and constants."""
    numbers = tuple(as_node(operand, graph).number for operand in operands)
    return Node(graph, graph.add(operation, numbers, value))


def _rule(operation: int) -> Callable[..., Any]:
    return lambda graph, *operands: make(graph, operation, *operands)


def _same(one: Any, two: Any) -> bool:
    return isinstance(one, Node) and isinstance(two, Node) and one.number == two.number


# Exact in real numbers and in floats alike: no rounding is left out.
def _add(graph: Graph, one: Any, two: Any) -> Any:
    if not isinstance(two, Node) and two == 0:
        return one
    if not isinstance(one, Node) and one == 0:
        return two
    return make(graph, codes.ADD, one, two)


def _subtract(graph: Graph, one: Any, two: Any) -> Any:
    if not isinstance(two, Node) and two == 0:
        return one
    return make(graph, codes.SUBTRACT, one, two)


def multiply(graph: Graph, one: Any, two: Any) -> Any:
    """A product."""
    if _same(one, two):
        return make(graph, codes.SQUARE, one)
    for factor, other in ((one, two), (two, one)):
        if not isinstance(factor, Node):
            if factor == 1:
                return other
            if factor == -1:
                return make(graph, codes.NEGATIVE, other)
            if factor == 0 and graph.totals[other.number]:
                return as_node(0.0, graph)
    return make(graph, codes.MULTIPLY, one, two)


def _divide(graph: Graph, one: Any, two: Any) -> Any:
    return one if not isinstance(two, Node) and two == 1 else make(graph, codes.DIVIDE, one, two)


def _power(graph: Graph, base: Any, exponent: Any) -> Any:
    if isinstance(exponent, Node):
        return make(graph, codes.POWER, base, exponent)
    exponent = float(exponent)
    if exponent == 0:
        return as_node(1.0, graph)
    if exponent == 1:
        return base
    if exponent.is_integer() and abs(exponent) <= 2**31:
        return make(graph, codes.INTEGER_POWER, base, value=exponent)
    return make(graph, codes.REAL_POWER, base, value=exponent)


def _not(graph: Graph, one: Any) -> Any:
    return make(graph, codes.NOT, one) if isinstance(one, Node) else not one


def _truth(graph: Graph, one: Any) -> Any:
    """A number as the condition that it is not 0."""
    return one if is_condition(one) else _not(graph, make(graph, codes.EQUAL, one, 0.0))


def _both(graph: Graph, one: Any, two: Any) -> Any:
    for known, other in ((one, two), (two, one)):
        if not isinstance(known, Node):
            return other if known else False
    return one if _same(one, two) else make(graph, codes.AND, one, two)


def _either(graph: Graph, one: Any, two: Any) -> Any:
    return _not(graph, _both(graph, _not(graph, one), _not(graph, two)))


def _equal(graph: Graph, one: Any, two: Any) -> Any:
    if _same(one, two):
        refuse("equal", "of a number and itself asks whether it is NaN, which is not known", "Leave it out")
    return make(graph, codes.EQUAL, as_number(one), as_number(two))


def _differ(graph: Graph, one: Any, two: Any) -> Any:
    return _not(graph, _equal(graph, one, two))


def _bitwise(rule: Callable[..., Any]) -> Callable[..., Any]:
    def of_conditions(graph: Graph, *operands: Any) -> Any:
        if not all(map(is_condition, operands)):
            refuse(
                "bitwise operation", "must be given conditions on both sides", "Compare with a number first"
            )
        return rule(graph, *operands)

    return of_conditions


def _logical(rule: Callable[..., Any]) -> Callable[..., Any]:
    return lambda graph, *operands: rule(graph, *(_truth(graph, operand) for operand in operands))


def choose(condition: Any, one: Any, two: Any, graph: Graph) -> Any:
    """`one` where the condition holds, `two` elsewhere; needs it decided over each box."""
    condition = _truth(graph, condition) if isinstance(condition, Node) else condition
    if not isinstance(condition, Node):
        return one if condition else two
    if _same(one, two) or (not isinstance(one, Node) and not isinstance(two, Node) and one is two):
        return one
    if not (is_condition(one) and is_condition(two)):
        one, two = as_number(one), as_number(two)
    return make(graph, codes.WHERE, condition, one, two)


def _clip(graph: Graph, value: Any, low: Any, high: Any) -> Any:
    return apply(np.minimum, apply(np.maximum, value, low), high)


def _minimum(operation: int) -> Callable[..., Any]:
    def rule(graph: Graph, one: Any, two: Any) -> Any:
        # An infinite limit is no limit, or the value itself.
        lesser = operation == codes.MINIMUM
        for limit, other in ((one, two), (two, one)):
            if not isinstance(limit, Node) and math.isinf(limit):
                if (limit > 0) == lesser:
                    return other
                if graph.totals[other.number]:  # not where it may be NaN
                    return limit
        return one if _same(one, two) else make(graph, operation, one, two)

    return rule


def _size(value: Any) -> Any:
    return apply(np.absolute, value) if isinstance(value, Node) else abs(float(value))


def _fmod(graph: Graph, one: Any, two: Any) -> Any:
    """What is left with the sign of what is divided: of positive numbers NumPy's `mod`, bit by bit."""
    left = apply(np.remainder, _size(one), _size(two))
    return choose(make(graph, codes.LESS, one, 0.0), apply(np.negative, left), left, graph)


def _heaviside(graph: Graph, one: Any, middle: Any) -> Any:
    side = choose(make(graph, codes.LESS, one, 0.0), 0.0, 1.0, graph)
    return choose(make(graph, codes.EQUAL, one, 0.0), middle, side, graph)


RULES: dict[np.ufunc, Callable[..., Any]] = {
    np.add: _add,
    np.subtract: _subtract,
    np.multiply: multiply,
    np.divide: _divide,
    np.negative: _rule(codes.NEGATIVE),
    np.positive: lambda graph, one: one,
    np.conjugate: lambda graph, one: one,
    np.absolute: _rule(codes.ABSOLUTE),
    np.fabs: _rule(codes.ABSOLUTE),
    np.square: _rule(codes.SQUARE),
    np.reciprocal: _rule(codes.RECIPROCAL),
    np.sqrt: _rule(codes.SQRT),
    np.cbrt: _rule(codes.CBRT),
    np.exp: _rule(codes.EXP),
    np.expm1: _rule(codes.EXPM1),
    np.exp2: _rule(codes.EXP2),
    np.log: _rule(codes.LOG),
    np.log1p: _rule(codes.LOG1P),
    np.log2: _rule(codes.LOG2),
    np.log10: _rule(codes.LOG10),
    np.sin: _rule(codes.SIN),
    np.cos: _rule(codes.COS),
    np.tan: _rule(codes.TAN),
    np.arcsin: _rule(codes.ARCSIN),
    np.arccos: _rule(codes.ARCCOS),
    np.arctan: _rule(codes.ARCTAN),
    np.sinh: _rule(codes.SINH),
    np.cosh: _rule(codes.COSH),
    np.tanh: _rule(codes.TANH),
    np.arcsinh: _rule(codes.ARCSINH),
    np.arccosh: _rule(codes.ARCCOSH),
    np.arctanh: _rule(codes.ARCTANH),
    np.sign: _rule(codes.SIGN),
    np.floor: _rule(codes.FLOOR),
    np.ceil: _rule(codes.CEIL),
    np.trunc: _rule(codes.TRUNC),
    np.rint: _rule(codes.RINT),
    np.deg2rad: _rule(codes.DEG2RAD),
    np.radians: _rule(codes.DEG2RAD),
    np.rad2deg: _rule(codes.RAD2DEG),
    np.degrees: _rule(codes.RAD2DEG),
    np.power: _power,
    np.float_power: _power,
    np.arctan2: _rule(codes.ARCTAN2),
    np.hypot: _rule(codes.HYPOT),
    np.logaddexp: _rule(codes.LOGADDEXP),
    np.minimum: _minimum(codes.MINIMUM),
    np.maximum: _minimum(codes.MAXIMUM),
    np.remainder: _rule(codes.REMAINDER),
    np.floor_divide: _rule(codes.FLOOR_DIVIDE),
    np.fmod: _fmod,
    np.heaviside: _heaviside,
    np._core.umath.clip: _clip,  # type: ignore[attr-defined]
    np.less: _rule(codes.LESS),
    np.less_equal: _rule(codes.LESS_EQUAL),
    np.greater: lambda graph, one, two: make(graph, codes.LESS, two, one),
    np.greater_equal: lambda graph, one, two: make(graph, codes.LESS_EQUAL, two, one),
    np.equal: _equal,
    np.not_equal: _differ,
    np.bitwise_and: _bitwise(_both),
    np.bitwise_or: _bitwise(_either),
    np.bitwise_xor: _bitwise(_differ),
    np.invert: _bitwise(_not),
    np.logical_and: _logical(_both),
    np.logical_or: _logical(_either),
    np.logical_xor: _logical(_differ),
    np.logical_not: _logical(_not),
}
_TAKES_INFINITY = frozenset(
    {np.minimum, np.maximum, np.less, np.less_equal, np.greater, np.greater_equal, np.equal,
     np.not_equal, np._core.umath.clip}  # type: ignore[attr-defined]
)  # fmt: skip
_OF_CONDITIONS = frozenset(
    {np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.invert, np.logical_and, np.logical_or, np.logical_xor,
     np.logical_not}
)  # fmt: skip
# Rounded as IEEE says, or not at all, whichever of its loops NumPy takes.
EXACT = frozenset(
    {np.add, np.subtract, np.multiply, np.divide, np.negative, np.positive, np.conjugate, np.absolute,
     np.fabs, np.square, np.reciprocal, np.sqrt, np.sign, np.floor, np.ceil, np.trunc, np.rint, np.minimum,
     np.maximum, np.remainder, np.floor_divide, np.fmod, np.heaviside, np.deg2rad, np.radians, np.rad2deg,
     np.degrees, np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal,
     *_OF_CONDITIONS, np._core.umath.clip}  # type: ignore[attr-defined]
)  # fmt: skip
_COMPARISONS = frozenset({np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal})
# For truth values NumPy reads these as `or`, `and` and their like, or not at all.
_NOT_OF_CONDITIONS = frozenset(
    {np.add, np.subtract, np.multiply, np.negative, np.positive, np.minimum, np.maximum,
     np.absolute, np.square, np.power, np.remainder, np.floor_divide, np._core.umath.clip}  # type: ignore[attr-defined]
)  # fmt: skip
