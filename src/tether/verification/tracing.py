"""M's code run on terms, which leaves behind the program of one row.

Where the code asks for a condition, it is run again for the other answer. Of two rows the second goes the way
of the first, so that conditions of one row are not counted with those of the other. That rows do not look at
one another's conditions is seen from runs in which the two go opposite ways; and the program is compared with
that of one row alone, whose every way was tried.
"""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tether.conduct import complain, watched
from tether.verification import reductions as _reductions  # noqa: F401 (fills the tables)
from tether.verification.arrays import TermArray, as_outputs, wrapped
from tether.verification.graph import Graph, Node, Term, UnboundedError, select
from tether.verification.patching import patched

_WAYS = 256
"""Ways through the code, by the answers to its conditions, that are tried at most."""


@dataclass(frozen=True, eq=False)
class Program:
    """One row of M: nodes in order, and which of them are its outputs.

    Attributes:
        nodes: operations on earlier nodes; ``input`` bears its column.
        lines: per node, the user's line.
        outputs: the node of each output.
    """

    nodes: tuple[Node, ...]
    lines: tuple[str, ...]
    outputs: tuple[int, ...]


def trace(function: Callable[..., Any], states: int, controls: int, outputs: int) -> Program:
    """The program of M, the same for each of two rows and for one alone.

    Raises:
        UnboundedError: its code does something that is not known, or mixes rows.
    """
    two, one = (_trace_rows(function, states, controls, outputs, rows) for rows in (2, 1))
    if two.nodes != one.nodes or two.outputs != one.outputs:
        raise UnboundedError("answers that depend on how many rows it is asked about")
    return two


def _trace_rows(function: Any, states: int, controls: int, outputs: int, rows: int) -> Program:
    graph = Graph()
    inputs = np.empty((rows, states + controls), dtype=object)
    for place in np.ndindex(inputs.shape):
        inputs[place] = Term(graph, graph.add("input", data=place))
    with patched(graph, function):
        ways = list(_all_ways(graph, function, wrapped(graph, inputs), states))
        if rows > 1:
            _check_apart(graph, function, wrapped(graph, inputs), states, ways)
    shape = (rows, outputs)
    if not any(isinstance(way.result, np.ndarray) for way in ways):
        raise UnboundedError(str(ways[0].result))
    combined = _combined(graph, ways, 0, shape)
    return _of_one_row(graph, combined)


@dataclass(frozen=True, eq=False)
class _Way:
    """The answers given to conditions, and what M returned, or why it did not."""

    answers: list[tuple[int, bool]]
    result: np.ndarray | str


def _all_ways(graph: Graph, function: Any, inputs: TermArray, states: int) -> Any:
    """Every way through the code, the last condition answered the other way first."""
    script: tuple[bool, ...] | None = ()
    count = 0
    while script is not None:
        graph.begin(script)
        result = _run(graph, function, inputs, states)
        answers = list(graph.answers.items())
        yield _Way(answers, result)
        count += 1
        if count > _WAYS or (not answers and isinstance(result, str)):
            script = None
            if count > _WAYS:
                raise UnboundedError(f"more than {_WAYS} ways through its conditions (np.where, np.minimum)")
            continue
        given = [answer for _, answer in answers]
        while given and not given[-1]:
            given.pop()
        script = (*given[:-1], False) if given else None


def _check_apart(graph: Graph, function: Any, inputs: TermArray, states: int, ways: list[_Way]) -> None:
    """Raises if what a row gives depends on which way another row goes."""
    for way in ways:
        graph.part(dict(way.answers))
        result = _run(graph, function, inputs, states)
        second = {**graph.answers, **graph.mirrored}  # what both rows ask for together is in the first alone
        taken = [_taken(ways, answers) for answers in (graph.answers, second)]
        if isinstance(result, str):  # as it must be where either row alone has no answer
            alike = any(one is not None and isinstance(one.result, str) for one in taken)
        else:
            alike = all(_same_row(result, one, row) for row, one in enumerate(taken))
        if not alike:
            raise UnboundedError("rows that depend on one another's conditions (np.where decides row by row)")


def _taken(ways: list[_Way], answers: dict[int, bool]) -> _Way | None:
    """The way that some answers lead to; None where they do not say."""
    depth = 0
    while len(ways) > 1 or len(ways[0].answers) > depth:
        condition = ways[0].answers[depth][0]
        step = (condition, answers.get(condition))
        ways = [way for way in ways if len(way.answers) > depth and way.answers[depth] == step]
        depth += 1
        if not ways:
            return None
    return ways[0]


def _same_row(result: np.ndarray, way: _Way | None, row: int) -> bool:
    """Whether a row has the outputs that it has where both rows go a way."""
    if way is None or isinstance(way.result, str) or way.result.shape != result.shape:
        return False
    pairs = zip(result[row], way.result[row], strict=True)
    return all(one.number == other.number for one, other in pairs)


def _run(graph: Graph, function: Any, inputs: TermArray, states: int) -> np.ndarray | str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with watched() as found:
                returned = function(inputs[:, :states].copy(), inputs[:, states:].copy())
            complain(found, graph.refusals.append)
            result = as_outputs(graph, returned)
    except UnboundedError as error:
        return str(error)
    except (Exception, SystemExit) as error:
        if graph.refusals:
            return graph.refusals[0]
        return f"{type(error).__name__}: {error}{_place(error)}"
    # Something was refused, and the user's code went on: it is not known what it would have done.
    return graph.refusals[0] if graph.refusals else result


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    own = str(Path(__file__).parent)
    outer = [f for f in frames if "numpy" not in Path(f.filename).parts and not f.filename.startswith(own)]
    return f" at {Path(outer[-1].filename).name}:{outer[-1].lineno}" if outer else ""


def _combined(graph: Graph, ways: list[_Way], depth: int, shape: tuple[int, int]) -> np.ndarray:
    """Outputs by the answers: a choice for each condition that was asked."""
    first = ways[0]
    if len(ways) == 1 and len(first.answers) == depth:
        if isinstance(first.result, str):  # a way that cannot be bounded, and must not be taken
            result = np.empty(shape, dtype=object)
            result[...] = Term(graph, graph.add("unset", data=first.result))
            return result
        if first.result.shape != shape:
            raise UnboundedError(f"outputs of shape {first.result.shape} for {shape[0]} rows, not {shape}")
        return first.result
    condition = first.answers[depth][0]
    sides = [[way for way in ways if way.answers[depth] == (condition, side)] for side in (True, False)]
    if sum(map(len, sides)) != len(ways) or not all(sides):
        raise UnboundedError("conditions that are not the same in each run through the code")
    yes, no = (_combined(graph, side, depth + 1, shape) for side in sides)
    result = np.empty(shape, dtype=object)
    for place in np.ndindex(shape):
        own = Term(graph, graph.of_row(condition, place[0]))
        result[place] = select(own, yes[place], no[place], graph)
    return result


def _of_one_row(graph: Graph, outputs: np.ndarray) -> Program:
    """The program of row 0; raises unless every row's is the same, of its own inputs."""
    programs = [_extract(graph, [term.number for term in row], k) for k, row in enumerate(outputs)]
    if any(other.nodes != programs[0].nodes or other.outputs != programs[0].outputs for other in programs):
        raise UnboundedError("rows that are not treated alike")
    return programs[0]


def _extract(graph: Graph, roots: list[int], row: int) -> Program:
    """What the roots depend on, renumbered in the order of a walk from the roots."""
    place: dict[int, int] = {}
    nodes: list[Node] = []
    lines: list[str] = []
    for root in roots:
        waiting = [root]
        while waiting:
            k = waiting[-1]
            if k in place:
                waiting.pop()
                continue
            node = graph.nodes[k]
            missing = [a for a in reversed(node.arguments) if a not in place]
            if missing:
                waiting += missing
                continue
            data = node.data
            if node.operation == "input":
                if data[0] != row:
                    raise UnboundedError("rows that depend on one another")
                data = data[1]
            place[k] = len(nodes)
            nodes.append(Node(node.operation, tuple(place[a] for a in node.arguments), data))
            lines.append(graph.lines[k])
            waiting.pop()
    return Program(tuple(nodes), tuple(lines), tuple(place[root] for root in roots))
