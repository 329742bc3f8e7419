"""M as a graph of elementary operations: what a trace of its code leaves behind.

A :class:`Graph` is a list of nodes, each an operation on earlier ones; equal nodes are one. A
:class:`Term` is
the number of a node, immutable, so that NumPy may copy it, store it and hand it out as it does any object.
"""

from __future__ import annotations

import functools
import math
import operator
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

BOOLEAN = frozenset({"less", "less_equal", "equal", "and", "or", "not", "truth"})
EMPTY, ASARRAY = np.empty, np.asarray  # NumPy's own, whatever they are exchanged for while M is traced
_OWN = str(Path(__file__).parent)
_NUMPY = str(Path(np.__file__).parent)
_STABLE = BOOLEAN | {
    *(
        "input",
        "constant",
        "unset",
        "select",
        "add",
        "subtract",
        "multiply",
        "divide",
        "negative",
        "absolute",
    ),
    *("minimum", "maximum", "square", "sqrt", "sign", "floor", "ceil", "trunc", "rint"),
}
COUPLED = "rows that depend on one another's conditions (np.where decides row by row)"
_DECISIONS, _NODES = 128, 2_000_000


class UnboundedError(Exception):
    """Something that cannot be bounded, in words."""


class Node(NamedTuple):
    """An operation, the nodes it is of, a number or name that belongs to it, and for the how manieth time.

    The last tells apart what NumPy may round differently each time: a sum in another order, a sine of the C
    library and one of NumPy's. Whatever is rounded correctly is the same number each time.
    """

    operation: str
    arguments: tuple[int, ...]
    data: Any = None
    turn: int = 0


@dataclass(eq=False)
class Graph:
    """Nodes in the order in which they were made, in one run through M's code.

    Attributes:
        nodes: the operations.
        lines: per node, the user's line that made it.
        refusals: everything that was refused so far in this run, whoever caught it.
        answers: what was answered to conditions in this run, by node.
        script: the answers to give, in order; what is not in it is answered True.
        rows: per node, the sum of ``1 << row`` over the rows of inputs that it depends on.
        base: where several rows are asked about: the graph of one row alone.
        followed: per row, the answers to give, by node of `base`; last to what depends on no row.
        finished: whether the run is over.
    """

    nodes: list[Node] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    answers: dict[int, bool] = field(default_factory=dict)
    script: tuple[bool, ...] = ()
    rows: list[int] = field(default_factory=list)
    base: Graph | None = None
    followed: Sequence[dict[int, bool]] = ()
    finished: bool = False
    _known: dict[Node, int] = field(default_factory=dict)
    _turns: dict[Node, int] = field(default_factory=dict)
    _images: dict[int, int | None] = field(default_factory=dict)

    def add(
        self,
        operation: str,
        *arguments: int,
        data: Any = None,
        line: str | None = None,
        turn: int | None = None,
    ) -> int:
        """The number of a node."""
        node = Node(operation, arguments, data, turn or 0)
        if turn is None and operation not in _STABLE:
            turn = self._turns.get(node, 0)
            self._turns[node] = turn + 1
            node = Node(operation, arguments, data, turn)
        number = self._known.get(node)
        if number is None:
            if len(self.nodes) >= _NODES:
                self.refuse(f"more than {_NODES} operations")
            number = self._known[node] = len(self.nodes)
            self.nodes.append(node)
            self.lines.append(user_line() if line is None and self.base is None else line or "")
            own = 1 << data[0] if operation == "input" else 0
            self.rows.append(functools.reduce(operator.or_, (self.rows[k] for k in arguments), own))
        return number

    def constant(self, value: float) -> int:
        """A float64 number; 0 and -0 are told apart, because ``1 / x`` does."""
        return self.add("constant", data=value.hex() if value == value else "nan")

    def refuse(self, what: str) -> NoReturn:
        """Raises, and remembers it in case the user's code goes on as if nothing had been."""
        raise self.refusal(what)

    def refusal(self, what: str) -> UnboundedError:
        """The error to raise, which is remembered."""
        line = user_line()
        self.refusals.append(f"{what} at {line}" if line else what)
        return UnboundedError(self.refusals[-1])

    def decide(self, condition: int) -> bool:
        """The answer to a condition in this run through the code; another run tries the other one."""
        if self.finished:
            self.refuse("a number kept from an earlier call")
        if self.base is not None:
            answer = self._answer(condition)
            if answer is None:
                self.refuse(COUPLED)
            return answer
        if self.nodes[condition].operation == "not":
            return not self.decide(self.nodes[condition].arguments[0])
        if condition not in self.answers:
            place = len(self.answers)
            if place >= _DECISIONS:
                self.refuse(f"more than {_DECISIONS} conditions on one way through the code")
            self.answers[condition] = self.script[place] if place < len(self.script) else True
        return self.answers[condition]

    def _answer(self, condition: int) -> bool | None:
        """What follows from the answers of the rows that a condition is of; None where nothing does."""
        found: dict[int, bool | None] = {}
        waiting = [condition]
        while waiting:
            k = waiting.pop()
            operation, arguments = self.nodes[k][:2]
            direct = self._given(k)
            if direct is not None or operation not in ("and", "or", "not"):
                found[k] = direct
                continue
            missing = [a for a in arguments if a not in found]
            if missing:
                waiting += [k, *missing]
                continue
            parts = [found[a] for a in arguments]
            if None in parts:
                found[k] = None
            else:
                found[k] = not parts[0] if operation == "not" else (all if operation == "and" else any)(parts)
        return found[condition]

    def _given(self, condition: int) -> bool | None:
        """The answer that the row which a condition is of was given to it."""
        row = self.row(condition)
        image = None if row is None else self.image(condition)
        return None if row is None or image is None else self.followed[row].get(image)

    def row(self, number: int) -> int | None:
        """The row that a node depends on, -1 for none of them, None for several."""
        rows = self.rows[number]
        return None if rows & (rows - 1) else rows.bit_length() - 1

    def image(self, number: int) -> int | None:
        """The node of `base` that a node is, whichever row it is of; None where there is none."""
        assert self.base is not None
        images, waiting = self._images, [number]
        while waiting:
            k = waiting.pop()
            if k in images:
                continue
            operation, arguments, data, turn = self.nodes[k]
            missing = [a for a in arguments if a not in images]
            if missing:
                waiting += [k, *missing]
                continue
            inner = tuple(images[a] for a in arguments)
            data = (0, *data[1:]) if operation == "input" else data
            images[k] = None if None in inner else self.base._known.get(Node(operation, inner, data, turn))  # type: ignore[arg-type]
        return images[number]

    def taken_over(self, other: Graph) -> list[int]:
        """The numbers that the nodes of another graph have here, added where they were missing."""
        places: list[int] = []
        for node, line in zip(other.nodes, other.lines, strict=True):
            arguments = (places[a] for a in node.arguments)
            places.append(self.add(node.operation, *arguments, data=node.data, line=line, turn=node.turn))
        return places


def called_by_user() -> bool:
    """Whether what asks is the user's code, not NumPy's or ours."""
    frame = sys._getframe(2)
    return not frame.f_code.co_filename.startswith((_OWN, _NUMPY, "<__array_function__"))


def asked_by_user() -> bool:
    """Whether the innermost frame that is not ours is the user's, not NumPy's."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_OWN):
        frame = frame.f_back
    return frame is not None and not frame.f_code.co_filename.startswith((_NUMPY, "<__array_function__"))


def user_line() -> str:
    """``file:line`` of the innermost frame that is neither ours nor NumPy's."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith((_OWN, _NUMPY)) and not name.startswith("<__array_function__"):
            return f"{Path(name).name}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def constant_of(value: Any) -> float | None:
    """A number as float64 has it; None for what is not a number that float64 holds exactly."""
    if is_derived(value):
        return None
    if isinstance(value, bool | np.bool_):
        return float(value)
    if isinstance(value, int | np.integer):
        try:
            number = float(value)
        except OverflowError:
            return None
        return number if int(value) == (int(number) if math.isfinite(number) else None) else None
    if isinstance(value, (float, np.floating)) and not _is_long(value):
        return float(value)
    return None


_OWN_KINDS = frozenset({bool, int, float, complex, *np.sctypeDict.values()})


def is_derived(value: Any) -> bool:
    """Whether a number is of a kind derived from Python's or NumPy's, which may compute otherwise."""
    kind = type(value)
    return kind not in _OWN_KINDS and issubclass(kind, int | float | complex | np.generic)


def _is_long(value: Any) -> bool:
    return isinstance(value, np.generic) and value.dtype.itemsize > 8


class Term:
    """One number of M's code, or one truth value; `python` where it is not one of NumPy's."""

    __slots__ = ("graph", "number", "python")
    __array_priority__ = 2000.0

    def __init__(self, graph: Graph, number: int, python: bool = False) -> None:
        object.__setattr__(self, "graph", graph)
        object.__setattr__(self, "number", number)
        object.__setattr__(self, "python", python)

    def __setattr__(self, name: str, value: Any) -> None:
        self.graph.refuse(f"an attempt to set `{name}` of a number")

    @property
    def __class__(self) -> type:  # type: ignore[override] # what `isinstance` is told: a NumPy scalar, as M's own numbers are
        if self.python:
            return bool if self.boolean else float
        return np.bool_ if self.boolean else np.float64

    @property
    def boolean(self) -> bool:
        """Whether this is a truth value."""
        return self.graph.nodes[self.number].operation in BOOLEAN

    def _refused(self, what: str) -> NoReturn:
        raise self.graph.refusal(what)

    def __float__(self) -> float:
        self._refused("a conversion to a plain number (float(), math or an array made elsewhere)")

    def __int__(self) -> int:
        self._refused("a conversion to an integer")

    def __index__(self) -> int:
        self._refused("an index that depends on the inputs")

    def __complex__(self) -> complex:
        self._refused("a conversion to a complex number")

    def __hash__(self) -> int:
        self._refused("a dictionary or set keyed by a number that depends on the inputs")

    def __bool__(self) -> bool:
        return self.graph.decide(truth(self).number)

    def __round__(self, digits: int | None = None) -> NoReturn:
        self._refused("round()")

    def __reduce_ex__(self, _: Any) -> NoReturn:
        self._refused("pickling")

    def __copy__(self) -> Term:
        return self

    def __deepcopy__(self, _: Any) -> Term:
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # NumPy asks; M's code may not name these
            raise AttributeError(name)
        self._refused(f"`.{name}` of a scalar")

    def __getitem__(self, index: Any) -> Term:
        if self.python or type(index) is not tuple or index:
            self._refused("an index into a scalar")
        return self

    def __divmod__(self, _: Any) -> NoReturn:
        self._refused("divmod()")

    __rdivmod__ = __divmod__

    def __repr__(self) -> str:
        if called_by_user():
            self._refused("a number written as text")
        return f"<number {self.number}>"

    def __str__(self) -> str:
        self._refused("a number written as text")

    def __format__(self, _: str) -> str:
        self._refused("a number written as text")

    # What a NumPy scalar has, and has not: `iter` and `in` raise TypeError.
    __iter__ = None
    __contains__ = None

    @property
    def shape(self) -> tuple[()]:
        """No axes."""
        self._check_numpys("shape", called_by_user())
        return ()

    @property
    def ndim(self) -> int:
        """No axes."""
        self._check_numpys("ndim", called_by_user())
        return 0

    @property
    def size(self) -> int:
        """One entry."""
        self._check_numpys("size", called_by_user())
        return 1

    @property
    def dtype(self) -> np.dtype:
        """What M's own scalar has."""
        self._check_numpys("dtype", called_by_user())
        return np.dtype(bool if self.boolean else np.float64)

    @property
    def T(self) -> Term:
        """Itself."""
        self._check_numpys("T", called_by_user())
        return self

    @property
    def real(self) -> Term:
        """Itself."""
        return self

    def item(self) -> Term:
        """Itself, as Python's own number."""
        self._check_numpys("item", called_by_user())
        return Term(self.graph, self.number, python=True)

    def tolist(self) -> Term:
        """Itself, as Python's own number."""
        self._check_numpys("tolist", called_by_user())
        return Term(self.graph, self.number, python=True)

    def copy(self) -> Term:
        """Itself: it cannot change."""
        self._check_numpys("copy", called_by_user())
        return self

    conj = squeeze = copy

    def conjugate(self) -> Term:
        """Itself."""
        return self

    def _check_numpys(self, name: str, asked: bool) -> None:
        """Refuses what M asks of a number of Python's that only NumPy's have."""
        if self.python and asked:
            self._refused(f"`.{name}` of a number of Python's own")


def numpys(term: Term) -> Term:
    """The same number as one of NumPy's."""
    return Term(term.graph, term.number) if term.python else term


def pythons(value: Any) -> Any:
    """The same number as one of Python's; what is no term as it is."""
    return Term(value.graph, value.number, python=True) if type(value) is Term else value


def as_term(graph: Graph, value: Any) -> Term:
    """A number or truth value of M's code as a term."""
    if type(value) is Term:
        if value.graph is not graph:
            graph.refuse("a number kept from an earlier call")
        return value
    if isinstance(value, bool | np.bool_):
        return Term(graph, graph.add("truth", data=bool(value)))
    number = constant_of(value)
    if number is None:
        graph.refuse(f"a {type(value).__name__} among the numbers that float64 does not hold exactly")
    return Term(graph, graph.constant(number))


def number(term: Term) -> Term:
    """A truth value as 1 or 0; a number as it is."""
    if not term.boolean:
        return term
    graph = term.graph
    return Term(graph, graph.add("select", term.number, graph.constant(1.0), graph.constant(0.0)))


def truth(term: Term) -> Term:
    """A number as whether it is not 0; a truth value as it is."""
    if term.boolean:
        return term
    graph = term.graph
    return Term(graph, graph.add("not", graph.add("equal", term.number, graph.constant(0.0))))


def graph_of(values: Sequence[Any]) -> Graph:
    """The graph of the first term among values."""
    return next(value.graph for value in values if type(value) is Term)


def select(condition: Any, one: Any, two: Any, graph: Graph) -> Term:
    """`one` where the condition holds, else `two`."""
    terms = truth(as_term(graph, condition)), as_term(graph, one), as_term(graph, two)
    if terms[1].boolean and terms[2].boolean:
        chosen = graph.add("and", terms[0].number, terms[1].number)
        other = graph.add("and", graph.add("not", terms[0].number), terms[2].number)
        return Term(graph, graph.add("or", chosen, other))
    one, two = number(terms[1]), number(terms[2])
    if one.number == two.number:
        return one
    return Term(graph, graph.add("select", terms[0].number, one.number, two.number))
