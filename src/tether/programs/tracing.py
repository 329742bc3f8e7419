"""`trace`: M, run once on symbols for its inputs, as a straight-line program.

M is given two rows of different symbols. What it returns in the first must depend on the first alone, and
what it returns in the second must be the same program: then M treats rows one by one, and the program is M.

Where M branches on a condition, it is run again for the other answer, and the two results are joined by the
condition: what comes out is defined where the condition is decided.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from tether.conduct import complain, watched
from tether.programs import arrays, refusal, scalars
from tether.programs import graph as codes
from tether.programs.constructors import tracing_constructors
from tether.programs.graph import Graph
from tether.programs.program import Program
from tether.programs.refusal import EnclosureError
from tether.programs.scalars import Node

Function = Callable[[Any, Any], Any]

_ROWS = 2
_MOST_PATHS = 256
_MOST_CONDITIONS = 64
_TOO_MANY = (
    f"`if` may meet at most {_MOST_CONDITIONS} conditions and branch into {_MOST_PATHS} ways; there are "
    "more, or a loop ends where its numbers say. Use np.where, np.minimum or np.maximum, and a fixed "
    "number of rounds."
)


class _TooManyBranchesError(EnclosureError):
    """More branches than are followed."""


@dataclass
class _Path:
    """One way through M: how each condition met is answered, the same for both rows.

    Attributes:
        answers: by condition, of the first row.
        asked: those not answered before, in order.
        rows: conditions that each row asked for; what the two do not share couples them.
        mixed: conditions that depend on both rows at once.
        lines: by condition asked, where M branched on it.
    """

    graph: Graph
    inputs: int
    renamed: dict[int, int]
    answers: dict[int, bool]
    asked: list[int] = field(default_factory=list)
    rows: tuple[set[int], set[int]] = field(default_factory=lambda: (set(), set()))
    mixed: set[int] = field(default_factory=set)
    lines: dict[int, str] = field(default_factory=dict)

    def decide(self, condition: Node) -> bool:
        """The answer on this path; a condition met for the first time is taken to hold."""
        number = _renamed(self.graph, condition.number, self.renamed)
        rows = self._rows_of(condition.number)
        negated = self.graph.operations[number] == codes.NOT
        named = {number, self.graph.operands[number][0] if negated else self.graph.add(codes.NOT, (number,))}
        if len(rows) == 2:
            self.mixed |= named
        for row in rows:
            self.rows[row].update(named)
        for known, flipped in ((number, False), (self.graph.add(codes.NOT, (number,)), True)):
            if known in self.answers:
                return self.answers[known] != flipped
        if len(self.asked) > _MOST_CONDITIONS:
            raise _TooManyBranchesError(_TOO_MANY)
        self.answers[number] = True
        self.asked.append(number)
        self.lines[number] = refusal.users_line()
        return True

    @property
    def coupling(self) -> set[int]:
        """Conditions of one row that may change what the other gives."""
        return self.mixed | (self.rows[0] ^ self.rows[1])

    def _rows_of(self, number: int) -> set[int]:
        graph = self.graph
        reached = graph.reaches([number])
        return {int(graph.values[k] >= self.inputs) for k in reached if graph.operations[k] == codes.INPUT}


def trace(function: Function, *, states: int, controls: int) -> Program:
    """The program of M.

    Args:
        function: M, ``(states (K, dx), controls (K, du)) -> (K, P)``, row by row, in NumPy.
        states: dx.
        controls: du.

    Raises:
        EnclosureError: M uses something that has no meaning for symbols; the user's line is named.
        ValueError: M does not return two rows for two rows.
    """
    graph = Graph()
    inputs = states + controls
    symbols = np.empty((_ROWS, inputs), dtype=object)
    for row in range(_ROWS):
        for k in range(inputs):
            symbols[row, k] = Node(graph, graph.add(codes.INPUT, (), float(row * inputs + k), f"input {k}"))
    renamed = {symbols[1, k].number: symbols[0, k].number for k in range(inputs)}
    run = _Run(function, graph, symbols, states, renamed)
    with tracing_constructors(function):
        outputs = run.explore({})
    return Program.from_graph(graph, outputs, inputs)


@dataclass
class _Run:
    function: Function
    graph: Graph
    symbols: Any
    states: int
    renamed: dict[int, int]
    paths: int = 0
    width: int = -1

    def explore(self, answers: dict[int, bool]) -> list[int]:
        """Nodes of the outputs, given some answers: one run, and more for the other answers."""
        self.paths += 1
        if self.paths > _MOST_PATHS:
            raise _TooManyBranchesError(_TOO_MANY)
        path = _Path(self.graph, self.symbols.shape[1], self.renamed, dict(answers))
        try:
            result: Any = self._outputs(self._call(path))
        except _TooManyBranchesError:
            raise
        except (EnclosureError, ValueError) as error:
            result = error
        for condition in reversed(path.asked):
            result = self._joined(condition, path, result)
        if isinstance(result, Exception):
            raise result
        return result

    def _joined(self, condition: int, path: _Path, held: Any) -> Any:
        """What held where the condition does, and otherwise what another run gives."""
        before = path.asked.index(condition)
        answers = {k: v for k, v in path.answers.items() if k not in path.asked[before:]}
        try:
            other: Any = self.explore({**answers, condition: False})
        except _TooManyBranchesError:
            raise
        except (EnclosureError, ValueError) as error:
            other = error
        if isinstance(held, Exception) and isinstance(other, Exception):
            return held
        if isinstance(held, Exception):
            held = self._undefined(len(other))
        elif isinstance(other, Exception):
            other = self._undefined(len(held))
        elif condition in path.coupling:
            raise EnclosureError(
                "`function` must treat rows independently; what it gives for one row depends on a condition "
                f"on another ({self.graph.lines[condition]}). Use np.where, which decides row by row."
            )
        if len(held) != len(other):
            raise ValueError(
                f"`function` must return one shape on every branch; got {len(held)} and {len(other)} outputs."
            )
        line = path.lines[condition]  # M has returned: nothing on the stack is its own any more
        pairs = zip(held, other, strict=True)
        return [a if a == b else self.graph.add(codes.WHERE, (condition, a, b), 0.0, line) for a, b in pairs]

    def _undefined(self, outputs: int) -> list[int]:
        return [self.graph.add(codes.UNDEFINED, (), 0.0, "a branch that raises")] * outputs

    def _call(self, path: _Path) -> Any:
        given = [
            part.copy().view(arrays.Traced)
            for part in (self.symbols[:, : self.states], self.symbols[:, self.states :])
        ]
        before = scalars.decide, refusal.swallowed
        scalars.decide, refusal.swallowed = path.decide, []
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                with watched() as found:
                    result = self.function(*given)
            complain(found, _raise_refusal)
            if refusal.swallowed:
                raise refusal.swallowed[0]
            self._check_untouched(given)
            return result
        except EnclosureError:
            raise
        except (Exception, SystemExit) as error:
            if refusal.swallowed:  # NumPy has put another error in its place
                raise refusal.swallowed[0] from None
            if isinstance(error, ValueError):
                raise
            raise EnclosureError(
                f"`function` must not raise when called on symbols; got {type(error).__name__}: {error} "
                f"({_last_line(error)}). Use NumPy functions on the arrays alone."
            ) from error
        finally:
            scalars.decide, refusal.swallowed = before

    def _check_untouched(self, given: list[Any]) -> None:
        whole = np.concatenate([np.asarray(part).view(np.ndarray) for part in given], axis=1)
        if any(one is not two for one, two in zip(whole.flat, self.symbols.flat, strict=True)):
            raise EnclosureError(
                "`function` must not change its arguments; it wrote to them. Copy them first."
            )

    def _outputs(self, result: Any) -> list[int]:
        if isinstance(result, list | tuple):
            result = np.array([arrays.plain_objects(part) for part in result], dtype=object)
        array = arrays.plain_objects(result)
        if array.ndim != 2 or len(array) != _ROWS:
            raise ValueError(
                f"`function` must return shape ({_ROWS}, P); got {array.shape}. Use np.stack(..., axis=1)."
            )
        for row, output in np.ndindex(array.shape):
            value = array[row, output]
            if value is arrays.UNASSIGNED or (not isinstance(value, Node) and value != value):
                raise EnclosureError(
                    f"`function` must assign every output; output {output} of row {row} was never assigned. "
                    "Start from np.zeros_like(states)."
                )
        rows = [[self._number(value) for value in row] for row in array]
        self._check_rows(rows)
        return rows[0]

    def _number(self, value: Any) -> int:
        value = scalars.as_number(value)
        if not isinstance(value, Node):
            value = scalars.as_constant(value, "function")
        return scalars.as_node(value, self.graph).number

    def _check_rows(self, rows: list[list[int]]) -> None:
        others = {float(len(self.renamed) + k) for k in range(len(self.renamed))}
        for number in self.graph.reaches(rows[0]):
            if self.graph.operations[number] == codes.INPUT and self.graph.values[number] in others:
                raise EnclosureError(
                    "`function` must treat rows independently; an output of the first row depends on the "
                    "second. Use axis=-1, not the whole batch."
                )
        if [_renamed(self.graph, number, self.renamed) for number in rows[1]] != rows[0]:
            raise EnclosureError(
                "`function` must treat all rows alike; the second row is computed otherwise than the first."
            )


def _renamed(graph: Graph, number: int, known: dict[int, int]) -> int:
    """The node that a node of the second row is in the first."""
    waiting = [number]
    while waiting:
        node = waiting[-1]
        missing = [k for k in graph.operands[node] if k not in known]
        if node in known:
            waiting.pop()
        elif missing:
            waiting += missing
        else:
            waiting.pop()
            operands = tuple(known[k] for k in graph.operands[node])
            known[node] = graph.add(graph.operations[node], operands, graph.values[node], graph.lines[node])
    return known[number]


def _raise_refusal(message: str) -> NoReturn:
    raise EnclosureError(message)


def _last_line(error: BaseException) -> str:
    """The last line of the user's on the way to an error."""
    place, frame = "", error.__traceback__
    while frame is not None:
        name = frame.tb_frame.f_code.co_filename
        if refusal.is_users(name):
            place = f"{Path(name).name}:{frame.tb_lineno}"
        frame = frame.tb_next
    return place
