"""Whether M does with each of several rows what it does with that row alone.

M is run on batches in which rows go different ways through its conditions. Each row must return what it
returns alone on its way. Of a condition no more is known than what the rows were answered when alone: one
that none of them asked for, or that tells how two of them compare, is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from tether.verification.graph import COUPLED, Graph, UnboundedError
from tether.verification.running import run

_RUNS = 256
"""Runs of a batch up to which every combination of ways is tried."""
_PAIRED = 128
"""Runs up to which, where there are more combinations, every pair of ways is."""


@dataclass(frozen=True, eq=False)
class Way:
    """Answers given to the conditions of one row, by node, and the nodes M returned, or why it did not."""

    answers: list[tuple[int, bool]]
    result: np.ndarray | str

    @property
    def ends(self) -> bool:
        """Whether M returned nothing."""
        return isinstance(self.result, str)


def check_batches(
    base: Graph, function: Any, states: int, controls: int, ways: list[Way], counts: Sequence[int]
) -> None:
    """Runs M on as many rows as each of the counts says.

    Raises:
        UnboundedError: a row's outputs depend on other rows, or on how many there are.
    """
    for fixed, group in _groups(base, ways):
        for count in counts:
            for taken in _combinations(group, count):
                followed = [dict(way.answers) for way in taken]
                graph = Graph(base=base, followed=[*followed, fixed])
                result = run(graph, function, count, states, controls)
                _compare(graph, result, taken)


def _groups(base: Graph, ways: list[Way]) -> list[tuple[dict[int, bool], list[Way]]]:
    """Ways that agree about all conditions that depend on no row, and what they answer to these."""
    groups: list[tuple[dict[int, bool], list[Way]]] = []
    for way in ways:
        own = {k: answer for k, answer in way.answers if base.row(k) == -1}
        for fixed, group in groups:
            if all(fixed.get(k, answer) == answer for k, answer in own.items()):
                fixed.update(own)
                group.append(way)
                break
        else:
            groups.append((own, [way]))
    return groups


def _combinations(group: list[Way], count: int) -> Iterator[list[Way]]:
    """Which way each row goes: every way in every place, and all pairs of ways where these are not many."""
    open_ways, ends = [way for way in group if not way.ends], [way for way in group if way.ends]
    for chosen in _choices(len(open_ways), count):
        yield [open_ways[k] for k in chosen]
    if open_ways:
        for k, way in enumerate(ends):
            for place in range(count):
                taken = [open_ways[(k + row) % len(open_ways)] for row in range(count)]
                yield [*taken[:place], way, *taken[place + 1 :]]


def _choices(ways: int, count: int) -> Iterator[tuple[int, ...]]:
    if ways**count <= _RUNS:
        yield from product(range(ways), repeat=count)
        return
    prime = max(ways, count)
    while any(prime % k == 0 for k in range(2, int(prime**0.5) + 1)):
        prime += 1
    # Two rows have every pair of ways once, if every stride is taken: an orthogonal array.
    for stride in range(min(prime, max(2, _PAIRED // prime))):
        for start in range(prime):
            yield tuple((start + row * stride) % prime % ways for row in range(count))


def _compare(graph: Graph, result: np.ndarray | str, ways: list[Way]) -> None:
    """Raises unless each row has the outputs of its way."""
    if any(way.ends for way in ways) or isinstance(result, str):
        if isinstance(result, str) and not any(way.ends for way in ways):
            raise UnboundedError(
                result if COUPLED in result else f"no answer for {len(ways)} rows, but for one: {result}"
            )
        if not isinstance(result, str):
            raise UnboundedError(COUPLED)
        return
    width = len(np.ravel(ways[0].result))
    if result.shape != (len(ways), width):
        raise UnboundedError(
            f"outputs of shape {result.shape} for {len(ways)} rows, not {(len(ways), width)}"
        )
    alike = all(way is ways[0] for way in ways)
    for row, way in enumerate(ways):
        for number, alone in zip(result[row].tolist(), np.ravel(way.result).tolist(), strict=True):
            if graph.row(number) not in (-1, row):
                raise UnboundedError("rows that depend on one another")
            if graph.image(number) != alone:
                raise UnboundedError(
                    "answers that depend on how many rows it is asked about" if alike else COUPLED
                )
