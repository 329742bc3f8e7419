"""What M's code does with terms and arrays of them: each operation by what it is, none by its name."""

from __future__ import annotations

import copy
import math
import operator
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, ClassVar, NoReturn

import numpy as np

from tether.trusted.reading import Symbols
from tether.verification import arrays
from tether.verification import reductions as _reductions  # noqa: F401 (fills the tables)
from tether.verification import routines as _routines  # noqa: F401 (likewise)
from tether.verification.arrays import (
    TermArray,
    alike,
    fitted,
    has_symbols,
    moved,
    packed,
    plain,
    truths,
)
from tether.verification.graph import Graph, Term, as_term, number, pythons, truth
from tether.verification.operations import apply, length, operate, total

_UFUNCS: dict[str, np.ufunc] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "//": np.floor_divide,
    "%": np.remainder, "**": np.power, "@": np.matmul, "&": np.bitwise_and, "|": np.bitwise_or,
    "^": np.bitwise_xor, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
    "==": np.equal, "!=": np.not_equal, "neg": np.negative, "pos": np.positive, "~": np.invert,
    "abs": np.absolute,
}  # fmt: skip
_COMPUTED = frozenset(
    {"all", "any", "clip", "cumprod", "cumsum", "dot", "max", "mean", "min", "prod", "put", "round", "std",
     "sum", "trace", "var"}
)  # fmt: skip
"""Methods that are the functions of the same name."""
_MOVED = frozenset(
    {"copy", "diagonal", "flatten", "ravel", "repeat", "reshape", "squeeze", "swapaxes", "take", "transpose"}
)
"""Methods that only move entries."""
_KNOWN = frozenset({"argmax", "argmin", "argsort", "choose", "compress", "nonzero", "searchsorted"})
"""Methods of arrays that depend on no input."""
_SAID = frozenset({"dtype", "itemsize", "nbytes", "ndim", "shape", "size"})
_MATH = {
    "sin": "sin", "cos": "cos", "tan": "tan", "asin": "arcsin", "acos": "arccos", "atan": "arctan",
    "atan2": "arctan2", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "asinh": "arcsinh",
    "acosh": "arccosh", "atanh": "arctanh", "exp": "exp", "expm1": "expm1", "exp2": "exp2",
    "log1p": "log1p", "log2": "log2", "log10": "log10", "sqrt": "sqrt", "cbrt": "cbrt", "fabs": "fabs",
    "fmod": "fmod", "pow": "power", "copysign": "copysign", "radians": "deg2rad", "degrees": "rad2deg",
}  # fmt: skip
_OF_NUMBERS = {getattr(math, name): rule for name, rule in _MATH.items() if hasattr(math, name)}
_CONVERTERS = frozenset({np.array, np.asarray, np.asanyarray, np.ascontiguousarray, np.asfortranarray})
_MAKERS = _CONVERTERS | {
    np.zeros, np.ones, np.full, np.eye, np.identity, np.zeros_like, np.ones_like, np.full_like, np.copy,
    np.diag, np.tile, np.repeat, copy.copy, copy.deepcopy, "copy", "astype", "flatten",
}  # fmt: skip
"""What M calls to make arrays that it then writes to."""


class Terms(Symbols):
    """The numbers and arrays of one run of M's code."""

    kinds: ClassVar[frozenset[type]] = frozenset({Term, TermArray})

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._calls: dict[Any, Callable[..., Any]] = {
            len: self._length, sum: self._sum, float: self._float, np.float64: self._float64,
            np.bool_: self._bool, bool: self.truth, pow: lambda one, two: self.operator("**", one, two),
            abs: partial(self.operator, "abs"), divmod: self._divmod, copy.copy: self._copy,
            copy.deepcopy: self._copy, np.real: lambda value: self.attribute(value, "real"),
            math.hypot: self._hypot, math.log: self._log, math.fsum: self._fsum, math.prod: self._prod,
            **dict.fromkeys((math.floor, math.ceil, math.trunc, round, int), self._whole),
        }  # fmt: skip

    def refuse(self, what: str, remedy: str = "") -> NoReturn:
        """In the reader's words, which are about M."""
        self._refuse(f"code that cannot be followed: {what}", remedy)

    def _refuse(self, what: str, remedy: str = "") -> NoReturn:
        self._graph.refuse(f"{what} ({remedy[0].lower()}{remedy[1:]})" if remedy else what)

    def truth(self, symbol: Any) -> bool:
        """The answer of this run; of a constant, its own."""
        entries = plain(self._graph, symbol)
        if entries.size != 1:
            self._refuse("the truth of an array of several entries", "np.where decides entry by entry")
        entry = entries.reshape(-1)[0]
        return (
            self._graph.decide(truth(as_term(self._graph, entry)).number)
            if type(entry) is Term
            else bool(entry)
        )

    def is_pythons(self, symbol: Any) -> bool:
        """As in the base class."""
        return type(symbol) is Term and symbol.python

    def kind(self, symbol: Any) -> type:
        """As in the base class."""
        return type(alike(symbol))

    # Operators --------------------------------------------------------------------------------------------

    def operator(self, name: str, *operands: Any) -> Any:
        """As in the base class."""
        in_place = name.endswith("=") and name not in _UFUNCS
        ufunc = _UFUNCS.get(name[:-1] if in_place else name)
        if ufunc is None:
            self._refuse(f"`{name}` of numbers that depend on the inputs")
        if any(type(value) in (TermArray, np.ndarray) for value in operands):
            options = {"out": operands[0]} if in_place and type(operands[0]) is TermArray else {}
            return arrays.call(self._graph, ufunc, operands, options)
        if name in ("==", "!=") and any(value is None or type(value) is str for value in operands):
            return name == "!="
        for value in operands:
            if type(value) is Term:
                as_term(self._graph, value)
        return operate(self._graph, ufunc.__name__, *operands)

    # Parts ------------------------------------------------------------------------------------------------

    def attribute(self, symbol: Any, name: str) -> Any:
        """As in the base class."""
        if type(symbol) is Term:
            return self._of_term(symbol, name)
        if name in _SAID:
            return getattr(alike(symbol), name)
        if name in ("T", "mT"):
            return moved(self._graph, operator.attrgetter(name), (symbol,), {})
        if name == "real":
            return symbol
        if name in ("conj", "conjugate"):
            return lambda: symbol
        if name in _COMPUTED:
            return lambda *args, **options: self.call(getattr(np, name), (symbol, *args), options)
        if name in _MOVED:
            return lambda *args, **options: moved(self._graph, _method(name), (symbol, *args), options)
        if name in _KNOWN:
            return lambda *args, **options: self._known(name, (symbol, *args), options)
        own = {"astype": self._astype, "fill": self._fill, "item": self._item, "tolist": self._tolist}
        if name not in own:
            self._refuse(f"`.{name}` of an array, which has no rule here")
        return partial(own[name], symbol)

    def _of_term(self, term: Term, name: str) -> Any:
        if name in ("real", "conjugate"):
            return term if name == "real" else lambda: term
        if not term.python:
            if name in _SAID:
                return getattr(alike(term), name)
            if name in ("item", "tolist"):
                return lambda: pythons(term)
            if name in ("copy", "conj", "squeeze"):
                return lambda: term
            if name == "T":
                return term
        self._refuse(f"`.{name}` of a number of {'Python' if term.python else 'NumPy'}'s own")

    def _known(self, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        return arrays.call(self._graph, _method(name), args, options)

    def item(self, values: Any, index: Any) -> Any:
        """As in the base class."""
        if type(values) is Term:
            if values.python or type(index) is not tuple or index:
                self._refuse("an index into a scalar")
            return values
        return arrays.item(self._graph, values, index)

    def assign(self, values: Any, index: Any, value: Any) -> None:
        """As in the base class."""
        if type(values) is Term:
            self._refuse("an assignment to a part of a number")
        arrays.assign(self._graph, values, index, value)

    def iterate(self, symbol: Any) -> Iterator[Any]:
        """As in the base class: each entry or row when it is its turn."""
        count = self._length(symbol)
        return (arrays.item(self._graph, symbol, k) for k in range(count))

    # Methods ----------------------------------------------------------------------------------------------

    def _astype(
        self, array: TermArray, dtype: Any, order: str = "K", *, copy: bool = True, **more: Any
    ) -> Any:
        if more:
            self._refuse("a conversion with options")
        like = alike(array)
        template = like.astype(dtype, order=order, copy=copy)
        return self._converted(array, template, np.may_share_memory(template, like))

    def _converted(self, value: Any, template: np.ndarray, shared: bool) -> Any:
        if template.dtype not in (np.float64, np.bool_):
            self._refuse(f"a conversion to {template.dtype}")
        if shared:
            same = template.shape == value.entries.shape
            return (
                value if same else TermArray(self._graph, value.entries.reshape(template.shape), value.truths)
            )
        entries = plain(self._graph, value)
        if template.dtype == bool:
            entries = truths(self._graph, entries)
        return fitted(self._graph, "array", template, entries.reshape(template.shape).copy())

    def _fill(self, array: TermArray, value: Any) -> None:
        if plain(self._graph, value).ndim:
            self._refuse("`.fill` with an array")
        arrays.assign(self._graph, array, ..., value)

    def _item(self, array: TermArray, *place: int) -> Any:
        return _pythons(array.entries.item(*place))

    def _tolist(self, array: TermArray) -> Any:
        return _pythons(array.entries.tolist())

    # Calls ------------------------------------------------------------------------------------------------

    def call(self, function: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """As in the base class."""
        if function is np.c_ or function is np.r_:
            return moved(self._graph, function.__getitem__, arguments, options)
        if function in self._calls:
            return self._calls[function](*arguments, **options)
        if function in _CONVERTERS:
            return self._convert(function, *arguments, **options)
        if function in _OF_NUMBERS and not options:
            values = [self._single(value) for value in arguments]
            return pythons(apply(_OF_NUMBERS[function], *values))
        if not (type(function) is np.ufunc or _is_numpys(function)):
            self._refuse(
                f"{function.__name__}() of a number that depends on the inputs, which has no rule here"
            )
        return arrays.call(self._graph, function, arguments, options)

    def made(self, function: Any, result: Any) -> Any:
        """As in the base class."""
        if function is np.empty or function is np.empty_like:
            return self._unset(result)
        if function not in _MAKERS or result.dtype not in (np.float64, np.bool_):
            return result
        return TermArray(self._graph, arrays.objects(self._graph, result), result.dtype == bool)

    def _unset(self, result: np.ndarray) -> Any:
        """An array of which nothing may be used."""
        if result.dtype != np.float64 and result.size:
            self._refuse(f"np.empty of type {result.dtype}", "Use np.zeros")
        entries = np.empty_like(result, dtype=object)
        entries[...] = packed([Term(self._graph, self._graph.add("unset"))], ())
        return TermArray(self._graph, entries) if result.dtype == np.float64 else result

    def _convert(self, function: Any, value: Any, dtype: Any = None, **options: Any) -> Any:
        if has_symbols((dtype, options)):
            self._refuse("a conversion of an array with such options")
        like = alike(value)
        template = function(like, dtype, **options)
        shared = type(value) is TermArray and np.may_share_memory(template, like)
        return self._converted(value, template, shared)

    def _copy(self, value: Any) -> Any:
        return value if type(value) is Term else moved(self._graph, copy.copy, (value,), {})

    def _length(self, value: Any) -> int:
        return len(alike(value))

    def _single(self, value: Any) -> Any:
        """A number that a function of single numbers is given."""
        entries = plain(self._graph, value)
        if entries.ndim:
            self._refuse("an array where one number will do", "Use NumPy's function")
        return number(as_term(self._graph, entries[()]))

    def _float(self, value: Any) -> Any:
        return pythons(self._single(value))

    def _float64(self, value: Any) -> Any:
        return Term(self._graph, self._single(value).number)

    def _bool(self, value: Any) -> Any:
        return Term(self._graph, truth(self._single(value)).number)

    def _whole(self, *_: Any) -> NoReturn:
        self._refuse("a conversion to an integer", "Use np.floor or np.round")

    def _divmod(self, one: Any, two: Any) -> Any:
        if not any(type(value) in (TermArray, np.ndarray) for value in (one, two)):
            self._refuse("divmod() of single numbers", "Use // and %")
        return arrays.call(self._graph, np.divmod, (one, two), {})

    def _hypot(self, *values: Any) -> Any:
        return pythons(length(self._graph, [self._single(value) for value in values]))

    def _log(self, value: Any, *base: Any) -> Any:
        top, *rest = (apply("log", self._single(part)) for part in (value, *base))
        return pythons(apply("divide", top, *rest) if rest else top)

    def _fsum(self, values: Any) -> Any:
        return pythons(total(self._graph, [self._single(value) for value in self._listed(values)]))

    def _listed(self, values: Any) -> list[Any]:
        return list(self.iterate(values) if type(values) is TermArray else values)

    def _prod(self, values: Any, *, start: Any = 1) -> Any:
        result = start
        for value in self._listed(values):  # in order, and rounded as `*` rounds
            result = self.operator("*", result, value) if has_symbols((result, value)) else result * value
        return result

    def _sum(self, values: list[Any], start: Any = 0) -> Any:
        """Python's own: of Python's floats it is compensated from 3.12 on, of all else it is in order."""
        parts = values if type(start) is int and start == 0 else [start, *values]
        if any(type(part) is Term and part.kind is float for part in parts):
            return self._sum_of_floats(parts)
        first = next(k for k, part in enumerate(parts) if has_symbols(part))
        result = sum(parts[:first])
        for part in parts[first:]:
            result = self.operator("+", result, part) if has_symbols((result, part)) else result + part
        return result

    def _sum_of_floats(self, parts: list[Any]) -> Any:
        """Sound because the node allows for the error of any order, which is not less than either's."""
        kinds = {part.kind if type(part) is Term else type(part) for part in parts}
        if not kinds <= {float, int, np.float64}:
            self._refuse("sum() of Python's floats and others", "Use np.sum of one array")
        # A sum of two is rounded once, compensated or not.
        found = apply("add", *parts) if len(parts) == 2 else total(self._graph, parts)
        return Term(self._graph, found.number, python=np.float64 not in kinds)


def _is_numpys(function: Any) -> bool:
    owner = getattr(function, "__self__", None)
    return type(owner) is np.ufunc or str(getattr(function, "__module__", "")).startswith("numpy")


def _method(name: str) -> Callable[..., Any]:
    """A method of arrays as a function."""

    def method(array: Any, *args: Any, **options: Any) -> Any:
        return getattr(array, name)(*args, **options)

    method.__name__ = name
    return method


def _pythons(entry: Any) -> Any:
    """Entries as Python's own numbers."""
    if type(entry) is list:
        return [_pythons(part) for part in entry]
    return pythons(entry) if type(entry) is Term else entry.item() if isinstance(entry, np.generic) else entry
