"""One run of M's code on terms, in a graph of its own."""

from __future__ import annotations

import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from tether.trusted.conduct import complain, watched
from tether.verification import reductions as _reductions  # noqa: F401 (fills the tables)
from tether.verification.arrays import as_outputs, wrapped
from tether.verification.graph import Graph, Term, UnboundedError
from tether.verification.patching import patched


def run(graph: Graph, function: Any, rows: int, states: int, controls: int) -> np.ndarray | str:
    """The nodes that M returns for some rows, or why it returns none."""
    inputs = np.empty((rows, states + controls), dtype=object)
    for place in np.ndindex(inputs.shape):
        inputs[place] = Term(graph, graph.add("input", data=place))
    with patched(graph, function) as adopt:
        result = _returned(graph, function, wrapped(graph, inputs), states, adopt)
    graph.finished = True  # whatever M keeps of it must not be asked about later
    if isinstance(result, str):
        return result
    return np.array([term.number for term in result.ravel()], dtype=int).reshape(result.shape)


def _returned(graph: Graph, function: Any, inputs: Any, states: int, adopt: Any) -> np.ndarray | str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with watched(adopt) as found:
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
