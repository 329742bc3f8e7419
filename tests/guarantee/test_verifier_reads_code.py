"""The verifier reads M's code as the prover does, with a tracer of its own.

Models of `test_code_is_read`, put to verification; what memory, types and lists of symbols are there; and symbols
that somebody else asks, which is a refusal that sticks whoever catches the error.
"""

from __future__ import annotations

import copy
import math
import operator
import pickle

import numpy as np
import pytest
from test_code_is_read import ACCEPTED, OPEN, REFUSED, WRITTEN, W, bump, by_row
from test_structure_is_numpys import ACCEPTED as CONSTRUCTS

from tether.verification.arrays import TermArray, packed
from tether.verification.graph import Graph, Term, UnboundedError
from tether.verification.interpreter import enclose
from tether.verification.tracing import trace

POINTS = np.stack([0.3 + np.array([-3e-8, 0.0, 1e-8, 0.2]), np.array([0.4317, 0.4317, 0.4317, 0.61])], axis=1)


def check(model, points=POINTS, outputs=1, narrow=None):
    """M's values at points, each row alone and all at once, are in the ranges of its program."""
    program = trace(model, 2, points.shape[1] - 2, outputs)
    values = np.array(model(points[:, :2].copy(), points[:, 2:].copy()), dtype=float)
    found = enclose(program, points, points, slopes=True)
    low, high = found.lower.T - found.error.T, found.upper.T + found.error.T
    with np.errstate(all="ignore"):
        alone = np.concatenate([np.array(model(p[None, :2], p[None, 2:]), dtype=float) for p in points])
    for own in (values, alone):
        assert (np.isnan(low) | np.isnan(high) | ((low <= own) & (own <= high))).all()
    if narrow is not None:
        assert (high - low).max() < narrow


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", OPEN)
def test_what_holds_symbols_is_right_or_refused(name):
    try:
        check(OPEN[name])
    except UnboundedError:
        assert name not in ACCEPTED


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_known_is_refused(name):
    with pytest.raises(UnboundedError):
        trace(OPEN[name], 2, 0, 1)


@pytest.mark.parametrize("name", [name for name in WRITTEN if name != "copied"])
def test_what_engineers_write_is_followed(name):
    points = np.random.default_rng(0).uniform(0.2, 0.9, (6, 4))
    outputs = np.shape(WRITTEN[name](points[:, :2].copy(), points[:, 2:].copy()))[1]
    check(WRITTEN[name], points, outputs, narrow=1e-9)


def test_rows_that_share_a_row_are_refused():
    with pytest.raises(UnboundedError, match="rows that depend on one another"):
        trace(WRITTEN["copied"], 2, 2, 2)


# Lists of symbols, and memory -----------------------------------------------------------------------------


def constants(x):
    return [np.full(2, 3.0), np.array([0.25, 1.0])]


def taken_apart(x, y):
    k = W @ constants(x)
    return k[0, 0] + k[1, 1]


def put_together(x, y):
    return (W ** [np.array([x, y])])[1, 0]


def written_to_a_product(x, y):
    k = W @ [np.full(2, 1.0), np.full(2, 2.0)]
    view = k[0]
    view += x
    return k[0, 1]


def stored_in_one_entry(x, y):
    a = np.zeros(2)
    a[0] = np.array([x])
    return a[0]


def stored_by_an_array(x, y):
    a = np.zeros(2)
    a[np.array(1)] = x
    a[np.int64(0)] = np.array(y)
    return a[0] - a[1]


def converted(x, y):
    a = np.array([x, y])
    same, other, third = np.asarray(a), np.array(a), a.astype(float)
    wide = np.array(a, copy=None, ndmin=2)
    same[0], other[1], third[1], wide[0, 1] = 7.0, 9.0, 11.0, 5.0
    return a[0] + a[1]


def conjugated(x, y):
    a = np.array([x, y])
    a.conj()[0] = 7.0
    np.conj(a)[1] = 7.0
    np.real(a)[1] += 1.0
    return a[0] + a[1]


def without_dimensions(x, y):
    a = np.array(x)
    b = a
    b += 1.0
    c = np.where(x > -9.0, x, 0.0)
    d = c
    d *= 2.0
    return a + c


def numbers_are_values(x, y):
    a = np.array([x, y])
    first = a[0]
    before = first
    first += 1.0
    a[0] = 9.0
    return before + 0.0 * first


def rows_are_views(x, y):
    table = np.zeros((2, 2))
    for k, row in enumerate(table):
        row[:] = [x, y]
        table[k, 0] += k
    return table[1, 0] + table.T[0, 0]


def turned(x, y):
    a = np.array([[x, y], [1.0, 2.0]])
    b = np.einsum("ij->ji", a)
    b[0, 1] = 5.0
    c = np.einsum("ii->i", a)
    c += 0.5
    return a[1, 0] + a[0, 0]


def windows(x, y):
    a = np.zeros(3)
    wide = np.lib.stride_tricks.sliding_window_view(a, 2)
    a[0] = 7.0
    return wide[0, 0]


def added_at(x, y):
    a = np.ones(2) * 2.0
    np.add.at(a, [0, 0], 2.0)
    return a[0]


def whole_truths(x, y):
    mask = np.array([x > -9.0, y > 9.0])
    return (mask + mask)[0] * 1.0 + np.add(mask, mask, dtype=float)[0] + np.sum(mask * 1.0)


def single_truths(x, y):
    return 1.0 * ((x > -9.0) + (y > -9.0)) + (~(x > -9.0)) * 5.0


def floats(x, y):
    return float(x) + np.float64(y) * float(np.array(x)) + bool(x > -9.0)


def limits(x, y):
    return np.diff([x, y], prepend=0.0)[0] + np.diff(np.array([x, y]), append=[1.0, x])[2]


MEMORY = {
    "taken apart": taken_apart, "put together": put_together, "product": written_to_a_product,
    "one entry": stored_in_one_entry, "by an array": stored_by_an_array, "converted": converted,
    "conjugated": conjugated, "no dimensions": without_dimensions, "numbers": numbers_are_values,
    "rows": rows_are_views, "turned": turned, "windows": windows, "at": added_at, "truths": whole_truths,
    "single truths": single_truths, "floats": floats, "differences": limits,
    "dot with a list": lambda x, y: np.dot(W, [x, y])[0] + W.dot([1.0, y])[1],
    "list of constants": lambda x, y: (W @ [np.full(1, 1e16), np.full(1, -1e16)])[0][0] * 1e-16,
    "sum in order": lambda x, y: sum([1e16, -1e16, 1.0, x]) + math.fsum([1e16, 1.0, -1e16]),
    "sum of a column": lambda x, y: np.array([[x, y], [y, x], [1.0, 2.0]]).T.copy().sum(axis=0)[1],
    "mask": lambda x, y: np.where(np.array([True, False]), x, np.array([1.0, y]))[1],
    "out": lambda x, y: np.add(np.array([x]), y, out=np.zeros(1))[0],
}  # fmt: skip
NOT_FOLLOWED = {"one entry", "windows", "at"}  # the first not by NumPy, either


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MEMORY)
def test_lists_and_memory_are_numpys(name):
    model = by_row(MEMORY[name])
    if name not in NOT_FOLLOWED:
        check(model, narrow=1e-6)
        return
    with pytest.raises(UnboundedError):
        trace(model, 2, 0, 1)


# Symbols that others ask ----------------------------------------------------------------------------------

ASKED = {
    "float": float, "int": int, "complex": complex, "bool": bool, "hash": hash, "repr": repr, "str": str,
    "format": format, "len": len, "iter": iter, "list": list, "abs": abs, "round": round, "floor": math.floor,
    "sine": math.sin, "equal": lambda v: v == 1.0, "in": lambda v: 1.0 in [v], "set": lambda v: {v},
    "sum": lambda v: sum([v, v]), "max": lambda v: max(v, 1.0), "index": lambda v: [1, 2][v],
    "item": lambda v: v[0], "times": lambda v: 2.0 * v, "power": lambda v: v**2, "product": lambda v: W @ v,
    "array": np.asarray, "array of a list": lambda v: np.array([v, v]), "ufunc": np.sin,
    "ufunc of two": lambda v: np.add(1.0, v), "function": np.sum, "stack": lambda v: np.stack([v, v]),
    "into floats": lambda v: np.zeros(2).__setitem__(0, v), "of an array": lambda v: np.ones(2) * v,
    "copy": copy.copy, "deepcopy": copy.deepcopy, "pickle": pickle.dumps, "buffer": memoryview,
    "compared": lambda v: v < 1.0, "and": lambda v: v & True, "negated": operator.neg,
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["number", "array"])
@pytest.mark.parametrize("name", ASKED)
def test_a_symbol_that_is_asked_refuses_for_good(name, kind):
    graph = Graph()
    term = Term(graph, graph.add("input", data=(0, 0)))
    symbol = term if kind == "number" else TermArray(graph, packed([term, term], (2,)))
    try:
        ASKED[name](symbol)
    except (UnboundedError, TypeError, ValueError, AttributeError):
        assert graph.refusals or name == "buffer"
        return
    raise AssertionError("an answer")


def test_object_loops_of_numpys_are_refused():
    graph = Graph()
    term = Term(graph, graph.add("input", data=(0, 0)))
    for ask in (np.sum, np.prod, np.max, np.sort, lambda v: v @ v, lambda v: v + v, lambda v: v == v, np.exp):
        graph.refusals.clear()
        with pytest.raises((UnboundedError, TypeError)):
            ask(packed([term, term], (2,)))
        assert graph.refusals or ask is np.exp  # which looks for a method of that name, and finds none


def test_a_line_of_the_users_is_named():
    def model(s, u):
        return s + np.sort(s, axis=1) * bump(s)

    line = model.__code__.co_firstlineno + 1
    with pytest.raises(UnboundedError, match=rf"np.sort, which has no rule here at {__name__}.py:{line}$"):
        trace(model, 2, 0, 2)


@pytest.mark.parametrize("model", CONSTRUCTS, ids=lambda model: model.__name__)
def test_constructs_of_real_models_are_accepted(model):
    points = np.random.default_rng(0).uniform(0.6, 1.6, (5, 5))
    values = np.array(model(points[:, :3].copy(), points[:, 3:].copy()))
    if model.__name__ == "apply_along_axis":
        with pytest.raises(UnboundedError, match="np.apply_along_axis, which has no rule here"):
            trace(model, 3, 2, values.shape[1])
        return
    found = enclose(trace(model, 3, 2, values.shape[1]), points, points, slopes=True)
    low, high = found.lower.T - found.error.T, found.upper.T + found.error.T
    assert (low <= values).all() and (values <= high).all() and (high - low).max() < 1e-11
