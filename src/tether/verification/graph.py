"""M as a graph of elementary operations: what a trace of its code leaves behind.

A :class:`Graph` is a list of nodes, each an operation on earlier ones; equal nodes are one. A
:class:`Term` is
the number of a node, immutable, so that NumPy may copy it, store it and hand it out as it does any object.
"""

from __future__ import annotations

import functools
import operator
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from tether.trusted import reading

BOOLEAN = frozenset({"less", "less_equal", "equal", "and", "or", "not", "truth"})
_OTHERS = (*(str(Path(str(m.__file__)).parent) for m in (reading, np)), str(Path(__file__).parent), "<frozen")
"""Where code that is not the user's is."""
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
_OPPOSITE = {"less": "less_equal", "less_equal": "less"}
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


def _node(*parts: Any) -> Node:
    return tuple.__new__(Node, parts)  # `Node` itself is code of no file, which may not run while M does


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
        node = _node(operation, arguments, data, turn or 0)
        if turn is None and operation not in _STABLE:
            turn = self._turns.get(node, 0)
            self._turns[node] = turn + 1
            node = _node(operation, arguments, data, turn)
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
        opposite = self.opposite(condition)
        if opposite in self.answers:
            return not self.answers[opposite]
        if condition not in self.answers:
            place = len(self.answers)
            if place >= _DECISIONS:
                self.refuse(f"more than {_DECISIONS} conditions on one way through the code")
            self.answers[condition] = self.script[place] if place < len(self.script) else True
        return self.answers[condition]

    def opposite(self, condition: int) -> int | None:
        """The comparison that holds wherever another of the same numbers does not, if it was ever made."""
        operation, arguments = self.nodes[condition][:2]
        if operation not in _OPPOSITE:
            return None
        return self._known.get(_node(_OPPOSITE[operation], arguments[::-1], None, 0))

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
        if row is None or image is None:
            return None
        answers, opposite = self.followed[row], self.base.opposite(image) if self.base else None
        return not answers[opposite] if opposite in answers else answers.get(image)

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
            images[k] = None if None in inner else self.base._known.get(_node(operation, inner, data, turn))  # type: ignore[arg-type]
        return images[number]

    def taken_over(self, other: Graph) -> list[int]:
        """The numbers that the nodes of another graph have here, added where they were missing."""
        places: list[int] = []
        for node, line in zip(other.nodes, other.lines, strict=True):
            arguments = (places[a] for a in node.arguments)
            places.append(self.add(node.operation, *arguments, data=node.data, line=line, turn=node.turn))
        return places


def is_users(filename: str) -> bool:
    """Whether code is neither ours nor NumPy's."""
    return not filename.startswith(_OTHERS)


def user_line() -> str:
    """``file:line`` of the innermost frame of the user's."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if is_users(name):
            return f"{Path(name).name}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


_WHOLE = frozenset({int, *(kind for kind in np.sctypeDict.values() if issubclass(kind, np.integer))})
_FLOATING = frozenset({bool, float, np.bool_, np.float16, np.float32, np.float64})


def constant_of(value: Any) -> float | None:
    """A number as float64 has it; None for what is not a number that float64 holds exactly."""
    if type(value) in _FLOATING:
        return float(value)
    if type(value) not in _WHOLE or abs(int(value)) > 2**1023:
        return None
    return float(value) if int(float(value)) == int(value) else None


class Unasked:
    """What has no answer for anybody but this package, which does not ask: each question is a refusal."""

    __slots__ = ()
    graph: Graph


def _question(name: str) -> Any:
    def asked(self: Unasked, *_: Any, **__: Any) -> NoReturn:
        self.graph.refuse(f"a number that depends on the inputs where only a plain one will do (`{name}`)")

    return property(asked) if name in _LOOKED_UP else asked


_LOOKED_UP = ("__array_interface__", "__array_struct__", "__array_priority__")
_TWO = "add and divmod floordiv lshift matmul mod mul or pow rshift sub truediv xor"
_QUESTIONS = (
    "abs array array_function array_ufunc array_wrap bool buffer bytes call ceil complex contains copy "
    "deepcopy delattr delitem dlpack dlpack_device enter eq exit float floor format ge getitem gt hash index "
    "int invert iter le len lt ne neg next pos reduce reduce_ex repr reversed round setitem str trunc"
)
for _name in (*_QUESTIONS.split(), *(f"{side}{name}" for side in ("", "r", "i") for name in _TWO.split())):
    setattr(Unasked, f"__{_name}__", _question(f"__{_name}__"))
for _name in _LOOKED_UP:
    setattr(Unasked, _name, _question(_name))


class Term(Unasked):
    """One number of M's code, or one truth value; `python` where it is not one of NumPy's."""

    __slots__ = ("graph", "number", "python")

    def __init__(self, graph: Graph, number: int, python: bool = False) -> None:
        self.graph, self.number, self.python = graph, number, python

    @property
    def boolean(self) -> bool:
        """Whether this is a truth value."""
        return self.graph.nodes[self.number].operation in BOOLEAN

    @property
    def kind(self) -> type:
        """What M's own number is."""
        if self.python:
            return bool if self.boolean else float
        return np.bool_ if self.boolean else np.float64


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
