"""M's code run on terms, which leaves behind the program of one row.

What M is, is what it does with one row alone. Where its code asks for a condition, it is run again for the
other answer. That rows of a batch are treated as each is alone is seen in :mod:`batches`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tether.verification.batches import Way, check_batches
from tether.verification.graph import Graph, Node, Term, UnboundedError, select
from tether.verification.running import run

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

    def only(self, output: int) -> Program:
        """The program of one output, without what it does not depend on."""
        needed, root = {self.outputs[output]}, self.outputs[output]
        for number in range(root, -1, -1):  # arguments come before
            if number in needed:
                needed.update(self.nodes[number].arguments)
        kept = sorted(needed)
        place = {number: k for k, number in enumerate(kept)}
        nodes = [self.nodes[k] for k in kept]
        nodes = [node._replace(arguments=tuple(place[a] for a in node.arguments)) for node in nodes]
        return Program(tuple(nodes), tuple(self.lines[k] for k in kept), (place[root],))


def trace(
    function: Callable[..., Any],
    states: int,
    controls: int,
    outputs: int,
    counts: Sequence[int] = (2, 5, 6, 7),
) -> Program:
    """The program of M for one row, found again in every row of batches of some counts of rows.

    Raises:
        UnboundedError: its code does something that is not known, or mixes rows.
    """
    base = Graph()
    ways = list(_all_ways(base, function, states, controls))
    if all(way.ends for way in ways):
        raise UnboundedError(str(ways[0].result))
    roots = _combined(base, ways, 0, outputs)
    check_batches(base, function, states, controls, ways, counts)
    return _extract(base, [term.number for term in roots])


def _all_ways(base: Graph, function: Any, states: int, controls: int) -> Iterator[Way]:
    """Every way through the code, the last condition answered the other way first."""
    script: tuple[bool, ...] | None = ()
    count = 0
    while script is not None:
        graph = Graph(script=script)
        result = run(graph, function, 1, states, controls)
        answers, places = list(graph.answers.items()), np.array(base.taken_over(graph))
        yield Way(
            [(int(places[k]), answer) for k, answer in answers],
            result if isinstance(result, str) else places[result],
        )
        count += 1
        if count > _WAYS:
            raise UnboundedError(f"more than {_WAYS} ways through its conditions (np.where, np.minimum)")
        given = [answer for _, answer in answers]
        while given and not given[-1]:
            given.pop()
        script = (*given[:-1], False) if given else None


def _combined(graph: Graph, ways: list[Way], depth: int, outputs: int) -> list[Term]:
    """Outputs by the answers: a choice for each condition that was asked."""
    first = ways[0]
    if len(ways) == 1 and len(first.answers) == depth:
        if isinstance(first.result, str):  # a way that cannot be bounded, and must not be taken
            return [Term(graph, graph.add("unset", data=first.result))] * outputs
        if first.result.shape != (1, outputs):
            raise UnboundedError(f"outputs of shape {first.result.shape} for 1 row, not {(1, outputs)}")
        return [Term(graph, number) for number in first.result[0].tolist()]
    if any(len(way.answers) <= depth for way in ways):
        raise UnboundedError("conditions that are not the same in each run through the code")
    condition = first.answers[depth][0]
    sides = [[way for way in ways if way.answers[depth] == (condition, side)] for side in (True, False)]
    if sum(map(len, sides)) != len(ways) or not all(sides):
        raise UnboundedError("conditions that are not the same in each run through the code")
    yes, no = (_combined(graph, side, depth + 1, outputs) for side in sides)
    own = Term(graph, condition)
    return [select(own, *pair, graph) for pair in zip(yes, no, strict=True)]


def _extract(graph: Graph, roots: list[int]) -> Program:
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
            place[k] = len(nodes)
            data = node.data[1] if node.operation == "input" else node.data
            nodes.append(node._replace(arguments=tuple(place[a] for a in node.arguments), data=data))
            lines.append(graph.lines[k])
            waiting.pop()
    return Program(tuple(nodes), tuple(lines), tuple(place[root] for root in roots))
