"""The reader: what M's code, rewritten, asks for each of its operations."""

from __future__ import annotations

import builtins
import importlib
import operator
import sys
import types
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, NoReturn

import numpy as np

from tether.trusted.reading import calls, objects
from tether.trusted.reading.computing import is_native, joined
from tether.trusted.reading.kinds import (
    ATOMS,
    DESCRIBED,
    FUNCTIONS,
    ITERABLE,
    ITERATORS,
    KEYED,
    MOVED,
    NUMBERS,
    POLYNOMIALS,
    READ,
    is_anothers,
    is_namedtuple,
    root_of,
    without_name,
)
from tether.trusted.reading.symbols import Symbols
from tether.trusted.reading.tripwire import Tripwire

_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow, "@": operator.matmul, "&": operator.and_, "|": operator.or_,
    "^": operator.xor, "<<": operator.lshift, ">>": operator.rshift, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip
_IN_PLACE = {
    "+=": operator.iadd, "-=": operator.isub, "*=": operator.imul, "/=": operator.itruediv,
    "//=": operator.ifloordiv, "%=": operator.imod, "**=": operator.ipow, "@=": operator.imatmul,
    "&=": operator.iand, "|=": operator.ior, "^=": operator.ixor, "<<=": operator.ilshift,
    ">>=": operator.irshift,
}  # fmt: skip
_UNARY = {"neg": operator.neg, "pos": operator.pos, "~": operator.invert, "abs": abs}
_WHOLE = (*(np.dtype(code).type for code in np.typecodes["AllInteger"]),)
_JOINERS = (type(np.c_), type(np.r_))
_GRIDS = (type(np.mgrid), type(np.ogrid), type(np.s_))
_DEEPEST = 40


class Reader:
    """Runs M, and does or passes on each operation in its code; one for each run.

    Attributes:
        symbols: what the tracer makes of its own values.
    """

    def __init__(self, symbols: Symbols) -> None:
        self.symbols = symbols
        self._kinds = symbols.kinds
        self._own: dict[int, Any] = {}
        self._kept: Any = None
        self._links: list[Any] = []
        self._known: dict[Any, Any] = {}
        self._complaints: list[str] = []
        self._wire = Tripwire(self._complaints.append)

    def __enter__(self) -> Reader:
        self._wire.start()
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self._wire.stop()
        if self._complaints and (kind is None or issubclass(kind, Exception)):
            self.refuse_whole(self._complaints[0])

    def aside(self) -> AbstractContextManager[None]:
        """While nobody's code can run."""
        return self._wire.aside()

    def refuse(self, what: str, remedy: str = "") -> NoReturn:
        """Raises, in the tracer's words."""
        self.symbols.refuse(what, remedy)

    def refuse_whole(self, what: str, remedy: str = "") -> NoReturn:
        """Raises for what may change M itself, whatever way through its code it is on."""
        self.symbols.impure = True
        self.symbols.refuse(what, remedy)

    # What is whose --------------------------------------------------------------------------------------

    def fresh(self, value: Any) -> Any:
        """What was made while M runs, and may be changed by it."""
        owner = root_of(value) if type(value) is np.ndarray else value
        self._own[id(owner)] = owner
        return value

    def is_own(self, value: Any) -> bool:
        """Whether it was made while M runs."""
        if type(value) is np.ndarray:
            value = root_of(value)
        return id(value) in self._own

    def check_own(self, value: Any) -> None:
        """Refuses a change of what was there before: M must be a function of its arguments alone."""
        if not self.is_own(value):
            kind = type(value).__name__
            self.refuse_whole(
                f"it must not change what it did not make; it changes a {kind}", "Copy it first"
            )

    def check_names(self, values: Any) -> None:
        """Refuses a module's own dictionary and the like, which tell of those who trace."""
        if is_anothers(values):
            self.refuse("it looks into what belongs to another module", "Import what it needs")

    def prepared(self, value: Any, name: str, depth: int = 0) -> tuple[Any, bool]:
        """A value as NumPy and Python may be given it, and whether there is a symbol in it.

        Arrays that were there before become ones that cannot be written to; functions are read.
        """
        kind = type(value)
        if kind in ATOMS or isinstance(value, (type, types.ModuleType, *DESCRIBED)):
            return value, False
        if kind in self._kinds:
            return value, True
        if kind is np.ndarray:
            return self._plain_array(value, name), False
        if depth > _DEEPEST:
            self.refuse(f"it gives `{name}` what is nested too deeply")
        if (kind in MOVED and kind is not deque) or kind is slice or is_namedtuple(kind):
            return self._prepared_container(value, kind, name, depth)
        if isinstance(value, FUNCTIONS) or kind is objects.PARTIAL:
            return (value, False) if is_native(value) else (self.callable(value), True)
        plain = without_name(value)
        if type(plain) is int:
            return plain, False
        self.refuse(
            f"it gives `{name}` a {kind.__name__}, which cannot be followed", "Give arrays or numbers"
        )

    def _plain_array(self, value: np.ndarray, name: str) -> np.ndarray:
        if value.dtype.hasobject:
            self.refuse(f"it gives `{name}` an array of objects", "Make it with np.array")
        if self.is_own(value):
            return value
        view = value.view()
        view.flags.writeable = False
        return view

    def _prepared_container(self, value: Any, kind: Any, name: str, depth: int) -> tuple[Any, bool]:
        self.check_names(value)
        if kind is slice:
            parts: Any = (value.start, value.stop, value.step)
        elif kind is dict:
            parts = [*value.keys(), *value.values()]
        else:
            parts = tuple.__iter__(value) if isinstance(value, tuple) else value
        if kind in (set, frozenset) and name not in _ORDERLESS:
            self._check_order(value)
        pairs = [self.prepared(part, name, depth + 1) for part in parts]
        found, symbolic = [pair[0] for pair in pairs], any(pair[1] for pair in pairs)
        if kind is dict:
            return dict(zip(value, found[len(value) :], strict=True)), symbolic
        if kind is slice:
            return value, symbolic
        if kind is list:
            return found, symbolic
        return (tuple(found) if isinstance(value, tuple) else value), symbolic

    def made(self, function: Any, result: Any, given: Any = ()) -> Any:
        """What M gets of what NumPy made of plain values."""
        kind = type(result)
        if kind is np.ndarray:
            return self._made_array(function, result, given)
        if kind in (list, tuple):
            parts = [self.made(function, part, given) for part in result]
            return self.fresh(parts) if kind is list else tuple(parts)
        if kind in (set, dict) or kind in ITERATORS:
            return self.fresh(result)
        if kind in ATOMS or isinstance(result, (tuple, *DESCRIBED, *POLYNOMIALS)):
            return result
        self.refuse(f"it gets a {kind.__name__} of `{_name(function)}`, which cannot be followed")

    def _made_array(self, function: Any, result: np.ndarray, given: Any) -> Any:
        if result.dtype.hasobject:
            self.refuse("it makes an array of objects", "Leave `dtype` out")
        arrays = [value for value in _flat(given) if type(value) is np.ndarray]
        if any(np.may_share_memory(result, array) for array in arrays):
            return result
        made = self.symbols.made(function, result)
        return self.fresh(made) if type(made) is np.ndarray else made

    # Truth ----------------------------------------------------------------------------------------------

    def truth(self, value: Any) -> bool:
        """``bool(value)``."""
        kind = type(value)
        if kind in self._kinds:
            return self.symbols.truth(value)
        if kind in MOVED:
            self.check_names(value)
        if kind in ATOMS or kind in MOVED or kind in (np.ndarray, type) or isinstance(value, FUNCTIONS):
            return bool(value)
        return objects.truth(self, value)

    def holds(self, value: Any) -> bool:
        """The truth of a value, which is kept."""
        answer = self.truth(value)
        self._kept = value
        return answer

    def kept(self) -> Any:
        """What was asked last by `holds`, directly before."""
        return self._kept

    def link(self, name: str, one: Any, two: Any) -> Any:
        """The first of several comparisons; the right side is kept."""
        result = self.compare(name, one, two)
        self._links.append(two)
        return result

    def linked(self) -> Any:
        """The right side that was kept."""
        return self._links.pop()

    def broken(self) -> Any:
        """The comparison that does not hold."""
        self._links.pop()
        return self._kept

    # Operators ------------------------------------------------------------------------------------------

    def binary(self, name: str, one: Any, two: Any) -> Any:
        """An operator of two, comparisons included."""
        first, second = type(one), type(two)
        if first in NUMBERS and second in NUMBERS:
            return _BINARY[name](one, two)
        if (first in self._kinds or first in NUMBERS) and (second in self._kinds or second in NUMBERS):
            return self.symbols.operator(name, one, two)
        if objects.is_object(self, one) or objects.is_object(self, two):
            plain = without_name(one), without_name(two)
            if type(plain[0]) is not first or type(plain[1]) is not second:
                return self.binary(name, *plain)
            return objects.binary(self, name, one, two)
        if name in ("==", "!=") and _is_named(one) and _is_named(two):
            return _BINARY[name](one, two)  # functions, classes, modules: which is which
        one, two = (tuple(tuple.__iter__(v)) if is_namedtuple(type(v)) else v for v in (one, two))
        if name == "*" and (type(one) in (list, tuple) or type(two) in (list, tuple)):
            one, two = (int(v) if isinstance(v, _WHOLE) else v for v in (one, two))
        if {type(one), type(two)} <= MOVED | {int, bool} and name in _MOVING:
            self.check_names(one)
            self.check_names(two)
            result = _BINARY[name](one, two)  # which moves entries, and looks at none
            return self.fresh(result) if type(result) is not tuple else result
        return self._computed(name, _BINARY[name], one, two)

    def _computed(self, name: str, function: Callable[..., Any], *operands: Any) -> Any:
        pairs = [self.prepared(operand, name) for operand in operands]
        given = [pair[0] for pair in pairs]
        if not any(pair[1] for pair in pairs):
            result = function(*given)
            if type(result) in MOVED:
                self.refuse(f"it applies `{name}` to a list and what is no int", "Use an int")
            return self.made(name, result, given)
        if not any(map(self._is_numpys, given)):
            self.refuse(f"it applies `{name}` to lists of numbers that are not known", "Use arrays")
        return self.symbols.operator(name, *given)

    def _is_numpys(self, value: Any) -> bool:
        """Whether it is an array or a number of NumPy's, which makes an array of a list that it meets."""
        if type(value) in self._kinds:
            return not self.symbols.is_pythons(value)
        return isinstance(value, np.ndarray | np.generic)

    def unary(self, name: str, value: Any) -> Any:
        """An operator of one."""
        kind = type(value)
        if kind in NUMBERS:
            return _UNARY[name](value)
        if kind in self._kinds:
            return self.symbols.operator(name, value)
        if objects.is_object(self, value):
            return objects.unary(self, name, value)
        return self._computed(name, _UNARY[name], value)

    def augmented(self, name: str, one: Any, two: Any) -> Any:
        """``one += two`` and its like: what the name on the left is then."""
        first, second = type(one), type(two)
        if first in NUMBERS and second in NUMBERS:
            return _BINARY[name[:-1]](one, two)
        if first in self._kinds and not objects.is_object(self, two):
            return self.symbols.operator(name, one, self.prepared(two, name)[0])
        if objects.is_object(self, one):
            return objects.augmented(self, name, one, two)
        if first in (list, dict, deque):
            return self._augmented_container(name, one, two)
        if first in (set, np.ndarray):
            given, symbolic = self.prepared(two, name)
            if not self.is_own(one):
                self.symbols.impure = True
            if symbolic and (first is np.ndarray or second in self._kinds):
                self.refuse("it writes into an array of floats", "Start from np.zeros inside the function")
            if first is set and second not in (set, frozenset):
                self.refuse(f"it joins a set and a {second.__name__}", "Use two sets")
            self.check_own(one)
            return _IN_PLACE[name](one, given)
        return self.binary(name[:-1], one, two)

    def _augmented_container(self, name: str, one: Any, two: Any) -> Any:
        """In place, with the entries themselves."""
        first, second = type(one), type(two)
        if (first is dict) is not (name == "|=") or (name == "*=" and second not in (int, bool, *_WHOLE)):
            return self.binary(name[:-1], one, two)
        if name not in ("+=", "*=", "|="):
            return self.binary(name[:-1], one, two)
        self.check_own(one)
        if name == "+=":
            numpys = second in self._kinds or isinstance(two, np.ndarray | np.generic)
            if numpys or objects.special(self, two, "__radd__") is not None:  # which Python asks first
                self.refuse(f"it adds a {second.__name__} to a {first.__name__} in place", "Use extend")
            one.extend(self.handed(two))
        elif second in _WHOLE or (name == "|=" and second is not dict):
            self.refuse(f"it applies `{name}` to a {first.__name__} and a {second.__name__}", "Use its like")
        else:
            self.check_names(two)
            one = _IN_PLACE[name](one, two)
        return one

    def compare(self, name: str, one: Any, two: Any) -> Any:
        """``one < two`` and its like, ``in`` and ``is``."""
        if name in _BINARY:
            return self.binary(name, one, two)
        if name in ("in", "not in"):
            return self._contains(two, one) is (name == "in")
        return self._is(one, two) is (name == "is")

    def _is(self, one: Any, two: Any) -> bool:
        values = (one, two)
        if any(value is None or value is ... for value in values):
            return one is two
        for value in values:
            known = isinstance(value, (*FUNCTIONS, type, types.ModuleType)) or objects.is_object(self, value)
            if not known:
                self.refuse("it compares with `is`", "Use ==")
        return one is two

    def _contains(self, values: Any, value: Any) -> bool:
        if objects.is_object(self, values):
            return objects.contains(self, values, value)
        if type(values) in KEYED:
            if type(value) in self._kinds:
                self.refuse("it looks for a number that is not known by `in`", "Compare it")
            self.check_names(values)
            return value in values
        return any(self._is_equal(part, value) for part in self.iterate(values))

    def _is_equal(self, part: Any, value: Any) -> bool:
        if part is value and objects.is_object(self, part):
            return True  # whatever its own `==` says
        if type(part) in NUMBERS and part != part:  # which is itself for Python, and not equal to itself
            self.refuse("it looks for something among NaN", "Leave it out")
        return self.truth(self.binary("==", part, value))

    # Attributes and items -------------------------------------------------------------------------------

    def attribute(self, value: Any, name: str) -> Any:
        """``value.name``."""
        if type(value) in self._kinds:
            if name.startswith("__"):
                self.refuse(f"it uses `{name}`")
            found = self.symbols.attribute(value, name)
            return calls.OfSymbol(found) if callable(found) and type(found) not in self._kinds else found
        return objects.attribute(self, value, name)

    def set_attribute(self, value: Any, owner: Any, name: str) -> None:
        """``owner.name = value``."""
        if type(owner) in self._kinds:
            self.refuse(f"it sets `{name}` of an array", "Assign to its entries")
        objects.set_attribute(self, value, owner, name)

    def item(self, values: Any, index: Any) -> Any:
        """``values[index]``."""
        kind, by = type(values), type(index)
        if kind in self._kinds:
            return self.symbols.item(values, index if by is int else self.prepared(index, "indexing")[0])
        if by in self._kinds and kind is not np.ndarray:
            self.refuse("it looks something up by a number that is not known", "Use np.where")
        if kind in (list, tuple, deque, str, range, bytes):
            self.check_names(values)
            found = values[self._integer_index(index)]
            return self.fresh(found) if kind is list and by is slice else found
        if kind in READ:
            self.check_names(values)
            return values[index]
        if kind is np.ndarray:
            return self._item_of_array(values, index)
        if kind in _JOINERS or kind in _GRIDS:
            return joined(self, values, index)
        return objects.item(self, values, index)

    def _integer_index(self, index: Any) -> Any:
        if type(index) is slice and self.prepared(index, "indexing")[1]:
            self.refuse("it looks something up by a number that is not known", "Use np.where")
        index = without_name(index)
        if objects.is_object(self, index):
            self.refuse("it looks something up by an object", "Use an int")
        return index

    def _item_of_array(self, values: np.ndarray, index: Any) -> Any:
        given, symbolic = self.prepared(index, "indexing")
        if symbolic:
            return self.symbols.item(self._plain_array(values, "indexing"), given)
        found = values[given]
        if type(found) is not np.ndarray:
            return found
        shared = np.may_share_memory(found, values)
        return found if shared else self.fresh(found)

    def set_item(self, value: Any, values: Any, index: Any) -> None:
        """``values[index] = value``."""
        kind = type(values)
        if kind in self._kinds:
            given = value if type(value) in self._kinds else self.prepared(value, "assignment")[0]
            self.symbols.assign(values, self.prepared(index, "indexing")[0], given)
        elif objects.is_object(self, values):
            objects.set_item(self, value, values, index)
        elif kind in (list, dict, deque):
            self.check_own(values)
            if type(index) in self._kinds:
                self.refuse("it stores something by a number that is not known", "Use np.where")
            values[self._integer_index(index)] = (
                self.handed(value) if type(index) is slice and kind is list else value
            )
        elif kind is np.ndarray:
            self._set_in_array(value, values, index)
        else:
            self.refuse(f"it assigns to an entry of a {kind.__name__}")

    def _set_in_array(self, value: Any, values: np.ndarray, index: Any) -> None:
        place, chosen = self.prepared(index, "indexing")
        given, symbolic = self.prepared(value, "assignment")
        if not self.is_own(values):
            self.symbols.impure = True
        if symbolic or chosen:
            self.refuse("it writes into an array of floats", "Start from np.zeros inside the function")
        self.check_own(values)
        values[place] = given

    def delete_item(self, values: Any, index: Any) -> None:
        """``del values[index]``."""
        if type(values) not in (list, dict, deque):
            self.refuse(f"it deletes an entry of a {type(values).__name__}")
        self.check_own(values)
        del values[self._integer_index(index)]

    def slice(self, start: Any, stop: Any, step: Any) -> Any:
        """``start:stop:step``."""
        return builtins.slice(start, stop, step)

    # Loops ----------------------------------------------------------------------------------------------

    def iterate(self, values: Any) -> Iterator[Any]:
        """What a loop goes through, a star unpacks, and a list is made of."""
        kind = type(values)
        if kind in self._kinds:
            return iter(self.symbols.iterate(values))
        if kind in ITERABLE or kind is np.ndarray:
            if kind is np.ndarray and values.dtype.hasobject:
                self.refuse("it goes through an array of objects", "Make it with np.array")
            self.check_names(values)
            if kind in (set, frozenset):
                self._check_order(values)
            return iter(values)
        if kind in ITERATORS:
            if not self.is_own(values):
                self.refuse("it goes on with a loop that was begun before", "Make the iterator inside")
            return values
        if is_namedtuple(kind):
            return tuple.__iter__(values)
        return objects.iterate(self, values)

    def handed(self, values: Any) -> Any:
        """What Python's own containers are given to go through: an iterator, or a container itself."""
        found = self.iterate(values)
        return values if type(values) in ITERABLE else found

    def _check_order(self, values: Any) -> None:
        """Refuses sets whose order is not that of their entries alone: text is elsewhere in each process."""
        if len(values) < 2:
            return
        known = all(type(value) in (int, bool, float) and value == value for value in values)
        ordered = sorted(values) if known else []
        orders = (list(values), list(set(ordered)), list(set(ordered[::-1])))
        if not known or not orders[0] == orders[1] == orders[2]:
            self.refuse("it goes through a set, which is in no order", "Use a list or sorted")

    def mapping(self, values: Any) -> dict[Any, Any]:
        """What two stars unpack."""
        if type(values) is not dict:
            self.refuse(f"it unpacks a {type(values).__name__}", "Use a dict")
        self.check_names(values)
        return values

    def text(self, value: Any) -> Any:
        """A value that becomes text."""
        if not isinstance(value, BaseException) and self.prepared(value, "str")[1]:
            self.refuse("it makes text of a number that is not known", "Leave it out")
        return value

    # Calls ----------------------------------------------------------------------------------------------

    def call(self, function: Any, /, *arguments: Any, **options: Any) -> Any:
        """``function(*arguments, **options)``."""
        return calls.call(self, function, arguments, options)

    def silence(self, function: Any, /, **options: Any) -> None:
        """``with function(**options):``, which may change nothing but what NumPy warns of."""
        quiet = all(type(value) is str and value in ("ignore", "warn") for value in options.values())
        if function is not np.errstate or not quiet:
            self.refuse("it uses `with`, which may hide errors", "Leave it out, or use np.errstate")

    def callable(self, function: Any) -> Callable[..., Any]:
        """A function that compiled code may call: whatever it does is asked of this reader."""
        known = self._known.get(id(function))
        if known is None:
            known = (function, calls.Called(self, function))
            self._known[id(function)] = known
        return known[1]

    def importing(self, module: str, name: str | None = None) -> None:
        """Before ``import module`` or ``from module import name``."""
        if module not in sys.modules and not objects.may_be_imported(module):
            self.refuse(f"it imports `{module}` while it runs", "Import it at the top")
        found = importlib.import_module(module)
        if name is not None:
            if name not in vars(found):
                self.refuse(f"it imports `{module}.{name}` while it runs", "Import it at the top")
            objects.check_module(self, found, name)


_MOVING = frozenset({"+", "*", "|", "&", "-", "^"})
_ORDERLESS = frozenset(
    {*_BINARY, *_IN_PLACE, "copy", "count", "difference", "index", "intersection", "isdisjoint", "issubset",
     "issuperset", "sorted", "union"}
) - {"%", "%="}  # fmt: skip
"""To which the order of a set is nothing."""


def _is_named(value: Any) -> bool:
    return value is None or type(value) is str or isinstance(value, (*FUNCTIONS, type, types.ModuleType))


def _name(function: Any) -> str:
    return function if isinstance(function, str) else getattr(function, "__name__", "it")


def _flat(values: Any) -> Iterator[Any]:
    for value in values:
        if type(value) in (list, tuple):
            yield from _flat(value)
        else:
            yield value
