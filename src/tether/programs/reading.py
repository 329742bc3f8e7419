"""What the reader of M's code is told of nodes and arrays of a trace: this tracer's tables."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np

from tether.programs.arrays import ANSWERED, UNASSIGNED, Flat, Traced, stand_in, wrap
from tether.programs.constructors import CONSTRUCTORS, array_of, is_traced, made
from tether.programs.functions import call_function
from tether.programs.mathematics import MATHEMATICS
from tether.programs.refusal import refuse, refuse_unsupported, remembered
from tether.programs.scalars import Boxed, Node, Plain, Whole, entrywise, operate, truth_of
from tether.trusted.reading import Symbols

_UFUNCS = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "//": np.floor_divide,
    "%": np.remainder, "**": np.power, "&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor,
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal,
    "!=": np.not_equal, "neg": np.negative, "pos": np.positive, "abs": np.absolute, "@": np.matmul,
}  # fmt: skip
_ARRAYS: dict[str, Callable[..., Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow, "@": operator.matmul, "&": operator.and_, "|": operator.or_,
    "^": operator.xor, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "==": operator.eq, "!=": operator.ne, "neg": operator.neg, "pos": operator.pos, "~": operator.invert,
    "abs": abs, "+=": operator.iadd, "-=": operator.isub, "*=": operator.imul, "/=": operator.itruediv,
    "//=": operator.ifloordiv, "%=": operator.imod, "**=": operator.ipow, "@=": operator.imatmul,
    "&=": operator.iand, "|=": operator.ior, "^=": operator.ixor,
}  # fmt: skip
_ENTRYWISE = frozenset({"argmax", "argmin", "sort", "nonzero", "compress", "choose"})
"""Methods by which NumPy compares entries, or asks for their truth, and does nothing else to them."""
_OF_SEQUENCES = (
    np.stack, np.concatenate, np.vstack, np.hstack, np.dstack, np.column_stack, np.select,
    np.linalg.multi_dot, np.piecewise,
)  # fmt: skip
"""Of arrays in a list."""


class Nodes(Symbols):
    """Nodes, and arrays of them."""

    kinds = frozenset({Node, Plain, Whole, Boxed, Traced, Flat, type(UNASSIGNED)})

    def refuse(self, what: str, remedy: str = "") -> NoReturn:
        """As in the base class."""
        remedy = remedy or "It is given float64 arrays: compute with them, or use evidence `statistical`"
        refuse("trusted", f"must only compute, for evidence `proved`: {what}", remedy)

    def is_pythons(self, symbol: Any) -> bool:
        """As in the base class."""
        return type(symbol) in (Plain, Whole)

    def kind(self, symbol: Any) -> type:
        """As in the base class."""
        _check_assigned(symbol)
        if isinstance(symbol, Flat):
            return np.flatiter
        return np.ndarray if type(symbol) is Boxed else type(stand_in(symbol))

    def truth(self, symbol: Any) -> bool:
        """As in the base class."""
        _check_assigned(symbol)
        if isinstance(symbol, Node):
            return truth_of(symbol)
        if not isinstance(symbol, Traced):
            refuse_unsupported("flat")
        if symbol.size != 1:
            raise ValueError("The truth value of an array with more than one element is ambiguous.")
        return truth_of(symbol.reshape(-1)[0])

    def operator(self, name: str, *operands: Any) -> Any:
        """As in the base class."""
        for operand in operands:
            _check_assigned(operand)
        if name.endswith("=") and name not in _UFUNCS and not isinstance(operands[0], np.ndarray):
            if type(operands[0]) is Boxed:
                refuse(
                    "assignment", "in place, to an array without axes, cannot be followed", "Write x = x + y"
                )
            name = name[:-1]
        listed = [isinstance(operand, list | tuple) for operand in operands]
        if any(listed) and not any(isinstance(operand, np.ndarray) for operand in operands):
            refuse(name, "of a number and a list is not followed", "Make it with np.array")
        given = [array_of(operand) for operand in operands]
        if any(isinstance(operand, Node) for operand in given):
            return self._of_nodes(name, given)
        if name not in _ARRAYS:
            refuse_unsupported(name)
        return _followed(_ARRAYS[name], tuple(given), {})

    def _of_nodes(self, name: str, operands: list[Any]) -> Any:
        if isinstance(operands[0], Traced) and name in _ARRAYS and name not in _UFUNCS:
            return _followed(_ARRAYS[name], tuple(operands), {})  # in place
        if name == "~":
            refuse("~", "of one condition depends on whether it is Python's or NumPy's", "Use `not`")
        if name not in _UFUNCS or (name == "@" and not any(isinstance(v, np.ndarray) for v in operands)):
            refuse_unsupported(name)
        return operate(_UFUNCS[name], *operands)

    def attribute(self, symbol: Any, name: str) -> Any:
        """As in the base class."""
        _check_assigned(symbol)
        if isinstance(symbol, Node):
            return symbol.answer(name)
        if isinstance(symbol, Flat):
            if name != "copy":
                refuse_unsupported(name)
            return symbol.copy
        return _of_array(symbol, name)

    def item(self, values: Any, index: Any) -> Any:
        """As in the base class."""
        if type(values) is np.ndarray:
            if values.dtype not in (np.float64, np.bool_):
                refuse("indexing", "must be by constants", "Use np.where on decided conditions")
            values = wrap(values)
        if type(values) is Boxed and index != ():
            _refuse_view()
        return values[index]

    def assign(self, values: Any, index: Any, value: Any) -> None:
        """As in the base class."""
        if type(values) is Boxed:
            refuse("assignment", "in place, to an array without axes, cannot be followed", "Write x = x + y")
        if not isinstance(values, Traced | Flat):
            raise TypeError("'numpy.float64' object does not support item assignment")
        values[index] = value

    def iterate(self, symbol: Any) -> Iterator[Any]:
        """As in the base class."""
        if isinstance(symbol, Flat):
            return iter(symbol)
        if not isinstance(symbol, Traced) or not symbol.ndim:
            raise TypeError("iteration over a 0-d array")
        return (symbol[k] for k in range(len(symbol)))

    def call(self, function: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """As in the base class."""
        for value in (*arguments, *options.values()):
            _check_assigned(value)
        _check_views(function, arguments, options)
        if function in CONSTRUCTORS:
            return CONSTRUCTORS[function](*arguments, **options)
        if function in MATHEMATICS:
            return MATHEMATICS[function](*arguments, **options)
        return _followed(function, arguments, options)

    def made(self, function: Any, result: Any) -> Any:
        """As in the base class."""
        return made(function, result)


def _check_assigned(value: Any) -> None:
    if value is UNASSIGNED:
        refuse("empty", "must be assigned before it is used", "Start from np.zeros")


def _refuse_view() -> NoReturn:
    refuse("view", "of an array without axes, or of `flat`, cannot be followed", "Copy it with np.array")


def _check_views(function: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    """Refuses functions that give a view of what has no memory of its own here: NumPy says which do."""
    given = [*arguments, *options.values()]
    if not any(type(value) in (Boxed, Flat) for value in given):
        return
    arrays = {
        k: np.ones(()) if type(value) is Boxed else stand_in(value.array)
        for k, value in enumerate(given)
        if type(value) in (Boxed, Flat)
    }
    stands = [
        stand_in(value) if k not in arrays else arrays[k] if type(value) is Boxed else arrays[k].flat
        for k, value in enumerate(given)
    ]
    named = dict(zip(options, stands[len(arguments) :], strict=True))
    with np.errstate(all="ignore"):
        like = function(*stands[: len(arguments)], **named)
    parts = like if isinstance(like, list | tuple) else (like,)
    made = [part for part in parts if isinstance(part, np.ndarray)]
    if any(np.may_share_memory(part, array) for part in made for array in arrays.values()):
        _refuse_view()


def _of_array(array: Traced, name: str) -> Any:
    if name == "flat":
        return Flat(array)
    if name not in ANSWERED:
        if name in dir(np.ndarray):
            refuse_unsupported(name)
        raise AttributeError(f"'numpy.ndarray' object has no attribute '{name}'")
    found = getattr(array, name)
    if name not in _ENTRYWISE:
        return found

    def call(*arguments: Any, **options: Any) -> Any:
        with entrywise():
            return found(*arguments, **options)

    return call


@remembered
def _followed(function: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """A function of NumPy's, or an operator of arrays: lists of nodes are arrays before NumPy sees them.

    NumPy would make arrays of objects of them, and add those up one after the other, in an order that is
    not that of floats.
    """
    if function is np.polynomial.polynomial.polyval and len(arguments) == 2 and not is_traced(arguments[1]):
        return function(array_of(arguments[0]), arguments[1])
    convert = _rows_of if function in _OF_SEQUENCES else array_of
    if function is not np.block:  # its lists are rows and columns
        arguments = tuple(convert(_plain(value)) for value in arguments)
        options = {key: convert(_plain(value)) for key, value in options.items()}
    given = (*arguments, *options.values())
    if function is not np.apply_along_axis and any(callable(v) and not isinstance(v, type) for v in given):
        refuse_unsupported(function.__name__)  # it would call what may know of nodes, in its own way
    owner = getattr(function, "__self__", None)
    if isinstance(function, np.ufunc) or isinstance(owner, np.ufunc) or function in _OPERATORS:
        return function(*arguments, **options)
    if not hasattr(function, "_implementation"):
        refuse_unsupported(function.__name__)
    return call_function(function, arguments, options)


_OPERATORS = frozenset(_ARRAYS.values())


def _plain(value: Any) -> Any:
    return value[:] if isinstance(value, Flat) else value


def _rows_of(value: Any) -> Any:
    """A list of arrays, with those that are lists as arrays of the trace."""
    return type(value)(map(array_of, value)) if type(value) in (list, tuple) else value
