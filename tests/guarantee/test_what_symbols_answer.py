"""Models that were proved, falsely, because a symbol answered otherwise than NumPy's own numbers and arrays.

The difference shows under a bump a millionth wide, which no comparison at points finds. Each tracer must refuse
such a model, or hold its value under the bump.
"""

from __future__ import annotations

import functools
import math
import operator

import numpy as np
import pytest
from narrow import refused_or_held_by_programs, refused_or_held_by_verification

from tether.programs import enclose
from tether.verification import interpreter
from tether.verification import tracing as verification


def bump(x):
    return np.maximum(0.0, 1 - 1e6 * np.abs(x - 0.3))


def by_row(row):
    """M that makes of each row (x, y) what `row` does, under the bump."""
    return lambda s, u: np.array([[bump(r[0]) * row(r, q)] for r, q in zip(s, u, strict=True)])


# Roundings ---------------------------------------------------------------------------------------------


def two_tangents(s, u):
    gap = np.tanh(s[:, 0]) - np.array([math.tanh(v) for v in s[:, 0]])
    return (bump(s[:, 0]) * np.where(gap == 0, 0.0, 100.0))[:, None]


def two_powers(s, u):
    gap = s[:, 0] ** 3 - np.array([v**3 for v in s[:, 0]])
    return (bump(s[:, 0]) * np.where(gap == 0, 0.0, 100.0))[:, None]


def two_layouts(s, u):
    wide = np.tanh(s * np.linspace(1.0, 2.0, 9))
    gap = wide[:, 0] - np.tanh((s * np.linspace(1.0, 2.0, 9))[:, 0])
    return (bump(s[:, 0]) * np.where(gap == 0, 0.0, 100.0))[:, None]


def two_sums(s, u):
    v = s * np.arange(1.0, 13.0) * 0.1
    gap = v.sum(axis=1) - np.einsum("ij->i", v)
    return (bump(s[:, 0]) * np.where(gap == 0, 0.0, 100.0))[:, None]


def two_products_of_matrices(s, u):
    v, w = s * np.arange(1.0, 13.0) * 0.1, np.linspace(0.3, 0.7, 12)
    gap = v @ w - np.einsum("ij,j->i", v, w)
    return (bump(s[:, 0]) * np.where(gap == 0, 0.0, 100.0))[:, None]


def optimized(s, u):
    x = s[:, 0]
    found = np.einsum("i,ij,ij->ij", x, u * [[0.7]], u + 0.1, optimize=True)
    gap = found[:, 0] - x * (u[:, 0] * 0.7) * (u[:, 0] + 0.1)
    return (bump(x) * np.where(gap == 0, 0.0, 100.0))[:, None]


def product_in_memory(r, q):
    a, b = r[0], q[0]
    turned = np.array([[a, b], [a + 0.1, b + 0.7]]).T
    gap = np.prod(turned) - turned[0, 0] * turned[0, 1] * turned[1, 0] * turned[1, 1]
    return 100.0 if gap != 0 else 0.0


# Views, masks and memory -------------------------------------------------------------------------------


def conjugated(s, u):
    z = s.copy()
    w = z.conj()
    w[:, 0] = 7.0
    return bump(s[:, :1]) * z


def conjugated_by_name(s, u):
    z = s.copy()
    w = z.conjugate()
    w[:, 0] = 7.0
    return bump(s[:, :1]) * z


def copied_where_it_must_be(s, u):
    z = s.copy()
    w = np.array(z, copy=None)
    w[:, 0] = 7.0
    return bump(s[:, :1]) * z


def mask_of_rows(r, q):
    table = np.zeros((2, 2))
    table[np.array([r[0] > -1, q[0] > 5])] = 7.0
    return table[0, 1]


def mask_and_row(r, q):
    table = np.zeros((2, 3))
    table[np.array([r[0] > -1, q[0] > 5])] = np.array([1.0, 2.0, 3.0])
    return table[0, 2] - table[1, 2]


def empty_mask(s, u):
    return bump(s[:, :1]) * (7.0 if (s[:, :0] > 0).dtype.itemsize == 1 else 0.0)


def slice_of_a_mask(s, u):
    return bump(s[:, :1]) * (7.0 if (s > 0)[:, :0].dtype.itemsize == 1 else 0.0)


def joined_to_an_empty_mask(s, u):
    whole = np.concatenate([(s > 0)[:, :0], s > 0], axis=1)
    return bump(s[:, :1]) * (whole + whole)


def bytes_of_a_mask(s, u):
    return bump(s[:, :1]) * (s > 0.5).itemsize - 100 * bump(s[:, :1]) * ((s > 0.5).nbytes < 8 * len(s))


def strides_of_a_mask(s, u):
    return bump(s[:, :1]) * (s > 0.5).strides[1]


def interface(s, u):
    return bump(s[:, :1]) * (5.0 if s.__array_interface__["typestr"] == "<f8" else 0.0)


def priority(s, u):
    return bump(s[:, :1]) * (5.0 if s.__array_priority__ == 0.0 else 0.0)


# Errors that are swallowed -----------------------------------------------------------------------------


class Ignore:
    """Takes every error for an answer."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return True


class Length:
    """Python asks for its length, and takes a TypeError for an answer."""

    def __init__(self, ask):
        self.ask, self.found = ask, 0.0

    def __len__(self):
        self.ask()
        self.found = 5.0
        return 0

    def __getitem__(self, index):
        return (1.0, 2.0)[index]


def by_length(ask):
    def row(r, q):
        asked = Length(lambda: ask(r[0]))
        list(asked)
        return asked.found

    return row


def ignoring(ask, before, after):
    def row(r, q):
        found = before
        with Ignore():
            ask(r[0])
            found = after
        return found

    return row


class State:
    """An AttributeError of a property is taken for a name that is missing."""

    def __init__(self, x):
        self.x = x

    @property
    def whole(self):
        self.x.is_integer()
        return 5.0

    @property
    def shaped(self):
        return 0.0 * len(self.x.item().shape)

    def __getattr__(self, name):
        return 0.0 if name == "whole" else 5.0


# Names -------------------------------------------------------------------------------------------------

kind, holder = type, {"kind": type}


class Kinds:
    """`type` by yet another name."""

    ask = type


KINDS = Kinds()


@functools.singledispatch
def dispatched(x):
    return 0.0


@dispatched.register(float)
def _(x):
    return 5.0


@dispatched.register(np.float64)
def _(x):
    return 0.0


def by_default(r, q, f=isinstance):
    return 0.0 if f(r[0].item(), np.float64) else 5.0


def by_closure():
    ask = type
    return lambda r, q: 5.0 if ask(r[0]) == np.float64 else 0.0


# Kinds of constants ------------------------------------------------------------------------------------

MATRIX = np.array([[0.0, 0.0], [3.0, 0.0]]).view(np.matrix)
MASKED = np.ma.array([1.0, -9.0], mask=[False, True])


class Mine(np.ndarray):
    """An array that multiplies in its own way."""

    def __rmul__(self, other):
        return 50.0 * np.asarray(other)


MINE = np.array([1.0, 1.0]).view(Mine)


class Gain(float):
    """A number that multiplies in its own way."""

    def __rmul__(self, other):
        return 50.0 * other


class Count(int):
    """An integer that adds in its own way."""

    def __radd__(self, other):
        return 50.0 + other


def both(r, q):
    return np.concatenate([r, q])


MODELS = {
    "two tangents": two_tangents,
    "two powers": two_powers,
    "two layouts": two_layouts,
    "two sums": two_sums,
    "two products of matrices": two_products_of_matrices,
    "einsum, optimized": optimized,
    "product in memory": by_row(product_in_memory),
    "conj": conjugated,
    "conjugate": conjugated_by_name,
    "copy=None": copied_where_it_must_be,
    "mask of rows": by_row(mask_of_rows),
    "mask and a row": by_row(mask_and_row),
    "empty mask": empty_mask,
    "slice of a mask": slice_of_a_mask,
    "joined to an empty mask": joined_to_an_empty_mask,
    "bytes of a mask": bytes_of_a_mask,
    "strides of a mask": strides_of_a_mask,
    "interface": interface,
    "priority": priority,
    "flags": by_row(lambda r, q: 0.0 if r[0].flags.writeable else 5.0),
    "hash": by_row(lambda r, q: 0.0 if r[0].__hash__ is None else 5.0),
    "domain, ignored": by_row(ignoring(lambda x: math.sqrt(x - 2), 5.0, 0.0)),
    "hash, ignored": by_row(ignoring(lambda x: {x: 1}, 0.0, 5.0)),
    "divmod, ignored": by_row(ignoring(lambda x: divmod(x, 10.0), 0.0, 5.0)),
    "hash in a length": by_row(by_length(lambda x: {x: 1})),
    "divmod in a length": by_row(by_length(lambda x: divmod(x, 10.0))),
    "index in a length": by_row(by_length(lambda x: x[()])),
    "list in a length": by_row(by_length(lambda x: x + [1.0, 2.0])),  # noqa: RUF005
    "complex in a length": by_row(by_length(lambda x: x + 1j)),
    "property": by_row(lambda r, q: State(r[0]).whole),
    "property of a Python float": by_row(lambda r, q: State(r[0]).shaped),
    "alias": by_row(lambda r, q: 5.0 if kind(r[0]) == np.float64 else 0.0),
    "held in a dictionary": by_row(lambda r, q: 5.0 if holder["kind"](r[0]) == np.float64 else 0.0),
    "held in a class": by_row(lambda r, q: 5.0 if KINDS.ask(r[0]) == np.float64 else 0.0),
    "held in a closure": by_row(by_closure()),
    "default": by_row(by_default),
    "dispatched": by_row(lambda r, q: dispatched(r[0].item())),
    "is": by_row(lambda r, q: 0.0 if operator.is_(r[0], r[0]) else 5.0),
    "attrgetter": by_row(lambda r, q: 5.0 if operator.attrgetter("__class__")(r[0].item()) == float else 0.0),  # noqa: E721
    "matrix": by_row(lambda r, q: (both(r, q) * MATRIX)[0, 0]),
    "matrix first": by_row(lambda r, q: (MATRIX * both(r, q)[:, None])[1, 0]),
    "masked": by_row(lambda r, q: (both(r, q) * MASKED).sum()),
    "masked first": by_row(lambda r, q: (MASKED * both(r, q)).sum()),
    "derived array": by_row(lambda r, q: (both(r, q) * MINE)[0]),
    "derived float": by_row(lambda r, q: r[0].item() * Gain(2.0)),
    "derived int": by_row(lambda r, q: r[0].item() + Count(2)),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
def test_programs_refuse_or_hold_the_value(name):
    assert refused_or_held_by_programs(MODELS[name])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
def test_verification_refuses_or_holds_the_value(name):
    assert refused_or_held_by_verification(MODELS[name])


def sines_twice(s, u):
    return np.sin(s) * np.sin(s) + (np.cos(s[:, :1]) - np.cos(s[:, :1])) + 0.5 * u


def in_two_layouts(s, u):
    pair = np.stack([s[:, 0], u[:, 0]])
    turned, straight = np.sin(pair.T + 0.0), np.sin(np.stack([s[:, 0], u[:, 0]], axis=1) + 0.0)
    return turned[:, :1] + straight[:, :1]


ORDINARY = {
    "the same sine": sines_twice,
    "two layouts": in_two_layouts,
    "rows in Python": by_row(lambda r, q: math.sin(r[0]) ** 2 + q[0].item() * 2 + r.tolist()[0] / 3),
    "attributes": lambda s, u: (s.T.reshape(-1, 1) + u.copy()) * s.shape[1] * s.ndim + (s.dtype == float),
    "a mask": lambda s, u: np.where((s > -1.0) & (u < 5.0), s * u, 0.0),
}


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_models_are_still_followed(name):
    model = ORDINARY[name]
    points = np.array([[0.3, 0.4], [0.7, 0.2]])
    values = np.concatenate([model(p[None, :1], p[None, 1:]) for p in points])
    found = enclose(model, points, points, states=1)
    assert (found.lower - found.rounding <= values).all() and (values <= found.upper + found.rounding).all()
    again = interpreter.enclose(verification.trace(model, 1, 1, 1), points, points, slopes=True)
    assert (values >= again.lower.T - again.error.T).all() and (values <= again.upper.T + again.error.T).all()


def test_the_same_call_is_the_same_number():
    found = enclose(sines_twice, [[-1.0, 0.0]], [[1.0, 0.0]], states=1)
    assert found.lower[0, 0] >= 0.0  # a square, and a cosine less itself
