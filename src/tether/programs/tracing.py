"""`trace`: M, run once on symbols for its inputs, as a straight-line program.

M is given one row of symbols: what it returns is the program. Where M branches on a condition, it is run
again for the other answer, and the two results are joined by the condition: what comes out is defined where
the condition is decided.

Then M is given batches of rows, of which each goes another of these ways, and must return of each row what it
returned of that row alone: then M treats rows one by one, and the program is M.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tether.programs import arrays, refusal, scalars
from tether.programs import graph as codes
from tether.programs.graph import Graph
from tether.programs.program import Program
from tether.programs.reading import Nodes
from tether.programs.refusal import EnclosureError
from tether.programs.scalars import Node
from tether.trusted.reading import Reader

Function = Callable[[Any, Any], Any]

_MOST_PATHS = 256
_MOST_CONDITIONS = 64
_MOST_PAIRS = 144
_TOO_MANY = (
    f"`if` may meet at most {_MOST_CONDITIONS} conditions and branch into {_MOST_PATHS} ways; there are "
    "more, or a loop ends where its numbers say. Use np.where, np.minimum or np.maximum, and a fixed "
    "number of rounds."
)


class _TooManyBranchesError(EnclosureError):
    """More branches than are followed."""


class _ImpureError(EnclosureError):
    """M may keep something from call to call, on one of its ways: no other way is known then."""


class _OtherwiseError(EnclosureError):
    """A row of several is computed otherwise than alone."""


@dataclass
class _Path:
    """One way of a row through M: how each condition that it meets is answered.

    Attributes:
        answers: by condition.
        asked: those not answered before, in order.
        lines: by condition asked, where M branched on it.
    """

    graph: Graph
    answers: dict[int, bool]
    asked: list[int] = field(default_factory=list)
    lines: dict[int, str] = field(default_factory=dict)

    def decide(self, condition: Node) -> bool:
        """The answer on this way; a condition met for the first time is taken to hold."""
        number = condition.number
        answer = _known(self.graph, number, self.answers)
        if answer is not None:
            return answer
        if len(self.asked) > _MOST_CONDITIONS:
            raise _TooManyBranchesError(_TOO_MANY)
        self.answers[number] = True
        self.asked.append(number)
        self.lines[number] = refusal.users_line()
        return True


def _known(graph: Graph, number: int, answers: dict[int, bool]) -> bool | None:
    """The answer to a condition or to its negation, where there is one."""
    if number in answers:
        return answers[number]
    opposites = [graph.add(codes.NOT, (number,))]
    if graph.operations[number] in _OPPOSITE:  # of numbers: where one may be NaN nothing is claimed
        one, two = graph.operands[number]
        opposites.append(graph.add(_OPPOSITE[graph.operations[number]], (two, one)))
    return next((not answers[k] for k in opposites if k in answers), None)


_OPPOSITE = {codes.LESS: codes.LESS_EQUAL, codes.LESS_EQUAL: codes.LESS}


@dataclass(frozen=True)
class _Way:
    """A way through M that was gone to its end.

    Attributes:
        answers: by condition, those that follow from others included.
        outputs: nodes that it gives.
    """

    answers: dict[int, bool]
    outputs: list[int]

    @classmethod
    def of(cls, graph: Graph, answers: dict[int, bool], outputs: list[int]) -> _Way:
        """With what the answers entail of the parts of a condition."""
        known, waiting = dict(answers), list(answers.items())
        while waiting:
            number, holds = waiting.pop()
            operation = graph.operations[number]
            if operation == codes.NOT:
                follows = [(graph.operands[number][0], not holds)]
            elif (operation, holds) in ((codes.AND, True), (codes.OR, False)):
                follows = [(part, holds) for part in graph.operands[number]]
            else:
                follows = []
            waiting += [(part, answer) for part, answer in follows if part not in known]
            known.update(follows)
        return cls(known, outputs)


@dataclass
class _Batch:
    """Rows that go ways of their own, one for each.

    Attributes:
        inputs: how many inputs a row has.
        ways: of each row.
        renamed: by row, its nodes as those of the first.
    """

    graph: Graph
    inputs: int
    ways: list[_Way]
    renamed: list[dict[int, int]]

    def decide(self, condition: Node) -> bool:
        """The answer on the way of the row that asks; of rows together, what their answers come to."""
        answer = self._answer(condition.number)
        if answer is None:
            raise EnclosureError(
                "`function` must treat rows independently; of several rows it asks what it does not ask of "
                f"one ({self.graph.lines[condition.number]}). Use np.where, which decides row by row."
            )
        return answer

    def _answer(self, number: int) -> bool | None:
        graph, rows = self.graph, self.rows_of(number)
        if len(rows) == 1:
            (row,) = rows
            found = _known(graph, _renamed(graph, number, self.renamed[row]), self.ways[row].answers)
            if found is not None:
                return found
        operation = graph.operations[number]
        if operation not in (codes.AND, codes.OR, codes.NOT):
            return None
        parts = [self._answer(part) for part in graph.operands[number]]
        if operation == codes.NOT:
            return None if parts[0] is None else not parts[0]
        decisive = operation == codes.OR
        if decisive in parts:
            return decisive
        return None if None in parts else not decisive

    def rows_of(self, number: int) -> set[int]:
        """The rows that a node depends on."""
        graph = self.graph
        reached = graph.reaches([number])
        return {int(graph.values[k]) // self.inputs for k in reached if graph.operations[k] == codes.INPUT}


def trace(function: Function, *, states: int, controls: int, batches: bool = True) -> Program:
    """The program of M.

    Args:
        function: M, ``(states (K, dx), controls (K, du)) -> (K, P)``, row by row, in NumPy.
        states: dx.
        controls: du.
        batches: whether to see that rows of a batch are treated as each is alone; without, it is assumed.

    Raises:
        EnclosureError: M uses something that has no meaning for symbols; the user's line is named.
        ValueError: M does not return a row for a row.
    """
    try:
        return _traced(function, states, controls, batches, sharing=True)
    except _OtherwiseError:  # two layouts may be alike for one row alone, and not for several
        return _traced(function, states, controls, batches, sharing=False)


def _traced(function: Function, states: int, controls: int, batches: bool, sharing: bool) -> Program:
    graph = Graph(sharing=sharing)
    run = _Run(function, graph, states, states + controls)
    outputs = run.explore({})
    program = Program.from_graph(graph, outputs, states + controls)
    if batches:
        run.check_batches(program)
    return program


@dataclass
class _Run:
    function: Function
    graph: Graph
    states: int
    inputs: int
    paths: int = 0
    ways: list[_Way] = field(default_factory=list)

    def explore(self, answers: dict[int, bool]) -> list[int]:
        """Nodes of the outputs, given some answers: one run, and more for the other answers."""
        self.paths += 1
        if self.paths > _MOST_PATHS:
            raise _TooManyBranchesError(_TOO_MANY)
        path = _Path(self.graph, dict(answers))
        try:
            (result,) = self._call(path.decide, 1)
            self.ways.append(_Way.of(self.graph, path.answers, result))
        except (_TooManyBranchesError, _ImpureError):
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
        except (_TooManyBranchesError, _ImpureError):
            raise
        except (EnclosureError, ValueError) as error:
            other = error
        if isinstance(held, Exception) and isinstance(other, Exception):
            return held
        if isinstance(held, Exception):
            held = self._undefined(len(other))
        elif isinstance(other, Exception):
            other = self._undefined(len(held))
        if len(held) != len(other):
            raise ValueError(
                f"`function` must return one shape on every branch; got {len(held)} and {len(other)} outputs."
            )
        line = path.lines[condition]  # M has returned: nothing on the stack is its own any more
        pairs = zip(held, other, strict=True)
        return [a if a == b else self.graph.add(codes.WHERE, (condition, a, b), 0.0, line) for a, b in pairs]

    def check_batches(self, program: Program) -> None:
        """Raises unless each row of a batch gives what it gives alone, whatever ways the others go.

        Of a few counts, one of which nobody can foresee; and until every way was gone at least twice.
        """
        rng = np.random.default_rng(int(program.digest[:8], 16))
        largest = 4 + 2 * (int(program.digest[8:12], 16) % 3)
        ways = range(len(self.ways))
        # Rows that all go one way, as real ones mostly do; and all pairs, where these are not many.
        for one in ways:
            for two in ways if len(ways) ** 2 <= _MOST_PAIRS else (one,):
                self._check_batch([self.ways[one], self.ways[two]])
        waiting: list[int] = []
        counts = [3, largest]
        while counts or waiting:
            count = counts.pop(0) if counts else largest
            if len(waiting) < count and counts:
                waiting += [*rng.permutation(len(self.ways)), *rng.permutation(len(self.ways))]
            chosen = [
                self.ways[waiting.pop() if waiting else rng.integers(len(self.ways))] for _ in range(count)
            ]
            self._check_batch(chosen)

    def _check_batch(self, ways: list[_Way]) -> None:
        renamed = [self._names(row) for row in range(len(ways))]
        batch = _Batch(self.graph, self.inputs, ways, renamed)
        rows, names = self._call(batch.decide, len(ways)), self._names(0)
        for row, (outputs, way) in enumerate(zip(rows, ways, strict=True)):
            others = set().union(*map(batch.rows_of, outputs)) - {row}
            if others:
                raise EnclosureError(
                    f"`function` must treat rows independently; an output of row {row} depends on row "
                    f"{min(others)}. Use axis=-1, not the whole batch."
                )
            alone = [_renamed(self.graph, number, names) for number in way.outputs]
            if [_renamed(self.graph, number, renamed[row]) for number in outputs] != alone:
                raise _OtherwiseError(
                    f"`function` must treat all rows alike; row {row} of {len(ways)} is computed otherwise "
                    "than a row alone. Use np.where, which decides row by row, and nothing that counts rows."
                )

    def _names(self, row: int) -> dict[int, int]:
        """Inputs of a row, as those of the first."""
        return {self._input(row, k): self._input(0, k) for k in range(self.inputs)}

    def _input(self, row: int, column: int) -> int:
        return self.graph.add(codes.INPUT, (), float(row * self.inputs + column), f"input {column}")

    def _undefined(self, outputs: int) -> list[int]:
        return [self.graph.add(codes.UNDEFINED, (), 0.0, "a branch that raises")] * outputs

    def _call(self, decide: Callable[[Node], bool], count: int) -> list[list[int]]:
        """Nodes of the outputs of each of `count` rows."""
        self.graph.start()
        symbols = np.empty((count, self.inputs), dtype=object)
        for row, column in np.ndindex(symbols.shape):
            symbols[row, column] = Node(self.graph, self._input(row, column))
        given = [
            part.copy().view(arrays.Traced) for part in (symbols[:, : self.states], symbols[:, self.states :])
        ]
        nodes, before = Nodes(), (scalars.decide, refusal.swallowed)
        scalars.decide, refusal.swallowed = decide, []
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                with Reader(nodes) as reader:
                    result, _ = reader.prepared(reader.call(self.function, *given), "return")
            if refusal.swallowed:
                raise refusal.swallowed[0]
            _check_untouched(given, symbols)
            return self._outputs(result, count)
        except EnclosureError as error:
            if nodes.impure:
                raise _ImpureError(str(error)) from None
            raise
        except (Exception, SystemExit) as error:
            if nodes.impure:
                raise _ImpureError(str(refusal.swallowed[0] if refusal.swallowed else error)) from None
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

    def _outputs(self, result: Any, count: int) -> list[list[int]]:
        if isinstance(result, list | tuple):
            arrays.refuse_others("function", result)
            result = np.array([arrays.plain_objects(part) for part in result], dtype=object)
        elif type(result) is np.ndarray and result.dtype == object:
            raise EnclosureError("`function` must return numbers; got an array of objects. Use np.array.")
        array = arrays.plain_objects(result)
        if array.ndim != 2 or len(array) != count:
            raise ValueError(
                f"`function` must return shape ({count}, P) for {count} rows; got {array.shape}. Use "
                "np.stack(..., axis=1)."
            )
        for row, output in np.ndindex(array.shape):
            if array[row, output] is arrays.UNASSIGNED:
                raise EnclosureError(
                    f"`function` must assign every output; output {output} of row {row} was never assigned. "
                    "Start from np.zeros_like(states)."
                )
        return [[self._number(value) for value in row] for row in array]

    def _number(self, value: Any) -> int:
        value = scalars.as_number(value)
        if not isinstance(value, Node):
            value = scalars.as_constant(value, "function")
        return scalars.as_node(value, self.graph).number


def _check_untouched(given: list[Any], symbols: Any) -> None:
    whole = np.concatenate([np.asarray(part).view(np.ndarray) for part in given], axis=1)
    if any(one is not two for one, two in zip(whole.flat, symbols.flat, strict=True)):
        raise EnclosureError("`function` must not change its arguments; it wrote to them. Copy them first.")


def _renamed(graph: Graph, number: int, known: dict[int, int]) -> int:
    """The node that a node of another row is in the first; `known` grows."""
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
            given = graph.operations[node], operands, graph.values[node], graph.lines[node]
            turn = 0 if graph.closed[node] else graph.turns[node]
            known[node] = graph.add(*given, turn=turn, whole=graph.wholes[node])
    return known[number]


def _last_line(error: BaseException) -> str:
    """The last line of the user's on the way to an error."""
    place, frame = "", error.__traceback__
    while frame is not None:
        name = frame.tb_frame.f_code.co_filename
        if refusal.is_users(name):
            place = f"{Path(name).name}:{frame.tb_lineno}"
        frame = frame.tb_next
    return place
