"""One run of M's code on terms, in a graph of its own."""

from __future__ import annotations

import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from tether.trusted.reading import Reader
from tether.verification.arrays import TermArray, as_outputs, packed
from tether.verification.graph import Graph, Term, UnboundedError, is_users
from tether.verification.symbols import Terms


def run(graph: Graph, function: Any, rows: int, states: int, controls: int) -> np.ndarray | str:
    """The nodes that M returns for some rows, or why it returns none.

    Raises:
        UnboundedError: M may keep something from call to call.
    """
    terms = Terms(graph)
    result = _returned(terms, graph, function, rows, states, controls)
    if terms.impure:  # on whichever way: M may have changed by it
        raise UnboundedError(graph.refusals[0])
    graph.finished = True  # whatever M keeps of it must not be asked about later
    # Where something was refused, it is not known what M would have done.
    if graph.refusals:
        return graph.refusals[0]
    if isinstance(result, str):
        return result
    return np.array([term.number for term in result.flat], dtype=int).reshape(result.shape)


def _returned(
    terms: Terms, graph: Graph, function: Any, rows: int, states: int, controls: int
) -> np.ndarray | str:
    try:
        with warnings.catch_warnings(), Reader(terms) as reader:
            warnings.simplefilter("ignore")
            given = (
                _inputs(graph, rows, range(states)),
                _inputs(graph, rows, range(states, states + controls)),
            )
            return as_outputs(graph, reader.call(function, *given))
    except UnboundedError as error:
        return str(error)
    except (Exception, SystemExit) as error:
        return f"{type(error).__name__}: {error}{_place(error)}"


def _inputs(graph: Graph, rows: int, columns: range) -> TermArray:
    places = ((row, column) for row in range(rows) for column in columns)
    terms = (Term(graph, graph.add("input", data=place)) for place in places)
    return TermArray(graph, packed(terms, (rows, len(columns))))


def _place(error: BaseException) -> str:
    outer = [frame for frame in traceback.extract_tb(error.__traceback__) if is_users(frame.filename)]
    return f" at {Path(outer[-1].filename).name}:{outer[-1].lineno}" if outer else ""
