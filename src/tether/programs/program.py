"""M as a straight-line program, laid out for the interpreters."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tether.programs import graph as codes
from tether.programs.graph import Graph

Array = NDArray[np.float64]
Numbers = NDArray[np.int64]


class Tape(NamedTuple):
    """What kernels read: N nodes, their operands one after the other, and which inputs each depends on.

    Attributes:
        operations: (N,) codes.
        values: (N,) constants.
        starts: (N + 1,) where the operands of each begin in `operands`.
        operands: node of each operand.
        columns: (N + 1,) where the derivatives of each begin; one for each input that it depends on, be it
            by a condition alone. Conditions have none.
        inputs: which input each derivative is by, ascending within a node.
        places: (N + 1,) where the slots of each node begin, one for each derivative of each operand; of a
            choice, before these, one for each input that its condition depends on.
        slots: where, among the derivatives of a node, the next derivative of an operand goes.
        outputs: (P,) nodes.
    """

    operations: Numbers
    values: Array
    starts: Numbers
    operands: Numbers
    columns: Numbers
    inputs: Numbers
    places: Numbers
    slots: Numbers
    outputs: Numbers


@dataclass(frozen=True, eq=False)
class Program:
    """M for one row, as numbered operations on its inputs.

    Attributes:
        tape: as kernels read it.
        dimensions: D, how many inputs there are.
        lines: per node, where the user wrote it.
    """

    tape: Tape
    dimensions: int
    lines: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.tape.operations)

    @property
    def digest(self) -> str:
        """SHA-256 of the operations, whatever the source looks like."""
        tape = self.tape
        parts = (tape.operations, tape.values, tape.starts, tape.operands, tape.outputs)
        return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()

    @classmethod
    def from_graph(cls, graph: Graph, outputs: list[int], dimensions: int) -> Program:
        """The part of a graph that the outputs rest on."""
        kept = graph.reaches(outputs)
        place = {number: k for k, number in enumerate(kept)}
        return cls._of(
            [graph.operations[number] for number in kept],
            [graph.values[number] for number in kept],
            [[place[k] for k in graph.operands[number]] for number in kept],
            [place[k] for k in outputs],
            dimensions,
            tuple(graph.lines[number] for number in kept),
        )

    def only(self, output: int) -> Program:
        """The program of one output alone."""
        tape = self.tape
        operands = [tape.operands[start:stop].tolist() for start, stop in pairwise(tape.starts.tolist())]
        needed = {int(tape.outputs[output])}
        for k in range(len(self) - 1, -1, -1):
            if k in needed:
                needed.update(operands[k])
        kept = sorted(needed)
        place = {number: k for k, number in enumerate(kept)}
        return self._of(
            tape.operations[kept].tolist(),
            tape.values[kept].tolist(),
            [[place[k] for k in operands[number]] for number in kept],
            [place[int(tape.outputs[output])]],
            self.dimensions,
            tuple(self.lines[number] for number in kept),
        )

    @classmethod
    def _of(
        cls,
        codes_: list[int],
        constants: list[float],
        operands: list[list[int]],
        outputs: list[int],
        dimensions: int,
        lines: tuple[str, ...],
    ) -> Program:
        operations = np.array(codes_, dtype=np.int64)
        values = np.array(constants, dtype=np.float64)
        touched: list[list[int]] = []
        for k, parts in enumerate(operands):
            if operations[k] == codes.INPUT:
                touched.append([int(values[k])])
            elif operations[k] == codes.MULTIPLY and any(_is_zero(operations, values, j) for j in parts):
                touched.append([])  # 0 wherever it is defined
            else:
                touched.append(sorted({column for part in parts for column in touched[part]}))
        depends = [
            [] if operation in codes.CONDITIONS else columns
            for operation, columns in zip(codes_, touched, strict=True)
        ]
        slots = [
            [
                columns.index(column)
                for part in _by_operand(operation, parts, touched, depends)
                for column in part
            ]
            if columns
            else []
            for operation, parts, columns in zip(codes_, operands, depends, strict=True)
        ]
        tape = Tape(
            operations, values, _starts(operands), _flat(operands), _starts(depends), _flat(depends),
            _starts(slots), _flat(slots), np.array(outputs, dtype=np.int64),
        )  # fmt: skip
        return cls(tape, dimensions, lines)


def _by_operand(
    operation: int, parts: list[int], touched: list[list[int]], depends: list[list[int]]
) -> list[list[int]]:
    """Inputs that the derivatives of each operand are by; of a condition that chooses, all it depends on."""
    if operation in codes.CONDITIONS or operation in codes.FLAT:
        return []
    return [
        touched[part] if operation == codes.WHERE and q == 0 else depends[part]
        for q, part in enumerate(parts)
    ]


def _is_zero(operations: Numbers, values: Array, node: int) -> bool:
    return bool(operations[node] == codes.CONSTANT and values[node] == 0)


def _starts(lists: list[list[int]]) -> Numbers:
    return np.concatenate([[0], np.cumsum([len(part) for part in lists])]).astype(np.int64)


def _flat(lists: list[list[int]]) -> Numbers:
    return np.array([item for part in lists for item in part], dtype=np.int64)
