"""Models that were proved, falsely, because compiled code met symbols and nobody asked the tracer.

NumPy's loops over objects, Python's own functions that swallow errors, stand-ins that are not what they stand
for, and the interpreter itself. The difference shows under a bump a millionth wide, which no comparison at
points finds. Each tracer must refuse such a model, or hold its value under the bump; and models that are
written much the same way, and compute, must still be followed.
"""

from __future__ import annotations

import _thread
import collections
import functools
import gc
import itertools
import math
import operator
import sys
from dataclasses import dataclass

import numpy as np
import out_of_reach
import pytest
from narrow import refused_or_held_by_programs, refused_or_held_by_verification

from tether.programs import EnclosureError, enclose, trace
from tether.verification import interpreter
from tether.verification import tracing as verification

ONES, INDEX, GAINS = np.ones(16), np.array([0, 1]), np.array([1.0, 2.0])
ORDERED = [1e16, -1e16, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
"""1 in order, 0 as NumPy adds up."""


def bump(x):
    return np.maximum(0.0, 1 - 1e6 * np.abs(x - 0.3))


def by_row(row):
    """M that makes of each row (x, y) what `row` does, under the bump."""
    return lambda s, u: np.array([[bump(r[0]) * row(r, q)] for r, q in zip(s, u, strict=True)])


def sixteen(r):
    return np.array([*ORDERED, 0.0 * r[0]])


# NumPy's loops over objects -----------------------------------------------------------------------------


class Arrayed:
    def __init__(self, entries):
        self.entries = entries

    def __array__(self, dtype=None, copy=None):
        return self.entries


class Sequence:
    def __init__(self, *rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, k):
        return self.rows[k]


def by_broadcast(r, q):
    a = np.array([0.615, r[0]])
    for value, _ in np.broadcast(a, a):
        return round(value, 2) - 0.61
    return 0.0


def by_choose(r, q):
    return round(INDEX.choose([np.array([0.615, r[0]]), np.array([1.0, 2.0])])[0], 2) - 0.61


def lists_of_rows(r, q):
    t = sixteen(r)
    return (ONES @ [t[k : k + 1] for k in range(16)])[0] - 1.0


LOOPS = {
    "dot": by_row(lambda r, q: ONES.dot(sixteen(r)) - 1.0),
    "dot of constants": by_row(lambda r, q: ONES.dot(np.array([*ORDERED, 0.0])) - 1.0),
    "dot, by the class": by_row(lambda r, q: np.ndarray.dot(ONES, sixteen(r)) - 1.0),
    "array protocol": by_row(lambda r, q: np.sum(Arrayed(sixteen(r))) - 1.0),
    "array protocol, of floats": by_row(lambda r, q: (ONES @ Arrayed(sixteen(r))) - 1.0),
    "sequence": by_row(lambda r, q: np.sum(Sequence(sixteen(r))) - 1.0),
    "sequence, of floats": by_row(lambda r, q: (Sequence(sixteen(r)) @ ONES[:, None])[0, 0] - 1.0),
    "deque": by_row(lambda r, q: np.sum(collections.deque([sixteen(r)])) - 1.0),
    "rows in a list": by_row(lists_of_rows),
    "broadcast": by_row(by_broadcast),
    "choose": by_row(by_choose),
    "in a list elsewhere": by_row(lambda r, q: out_of_reach.FUNCTIONS[0](sixteen(r)) - 1.0),
    "reduced elsewhere": by_row(lambda r, q: out_of_reach.FUNCTIONS[1](sixteen(r)) - 1.0),
    "rounded elsewhere": by_row(lambda r, q: out_of_reach.FUNCTIONS[2](np.array([0.615, r[0]])) - 0.61),
    "object in a list elsewhere": by_row(lambda r, q: out_of_reach.FUNCTIONS[3](sixteen(r)) - 1.0),
    "in two containers": by_row(lambda r, q: out_of_reach.BY_NAME["total"]["deep"][0](sixteen(r)) - 1.0),
}

# Stand-ins -----------------------------------------------------------------------------------------------


def layer(x, f=np.tanh):
    return f(x) if f == np.tanh else 0.0


class Held:
    def __init__(self):
        self.f = np.tanh


TABLE, NAMES, ACTIVATIONS, HELD = {np.sin: 1.0}, {math.sin: 1.0, np.zeros: 1.0}, [np.tanh, np.sin], Held()
STANDING = {
    "default argument": by_row(lambda r, q: layer(r[0])),
    "dictionary by function": by_row(lambda r, q: TABLE.get(np.sin, 0.0)),
    "in a list": by_row(lambda r, q: 1.0 if np.tanh in ACTIVATIONS else 0.0),
    "attribute": by_row(lambda r, q: 1.0 if HELD.f == np.tanh else 0.0),
    "math": by_row(lambda r, q: NAMES.get(math.sin, 0.0)),
    "constructor": by_row(lambda r, q: NAMES.get(np.zeros, 0.0)),
    "text": by_row(lambda r, q: 1.0 if "ufunc" in str(np.sin) else 0.0),
    "format": by_row(lambda r, q: 1.0 if "ufunc" in f"{np.sin}" else 0.0),
    "name": by_row(lambda r, q: 1.0 if np.array.__name__ == "array" and math.sin.__name__ == "sin" else 0.0),
    "documentation": by_row(lambda r, q: 1.0 if "sine" in np.sin.__doc__ and math.sin.__doc__ else 0.0),
    "itself": by_row(lambda r, q: 1.0 if np.sin == np.sin else 0.0),
    "norm itself": by_row(lambda r, q: 1.0 if np.linalg.norm == np.linalg.norm else 0.0),
    "math itself": by_row(lambda r, q: 1.0 if math.sin == math.sin and math.hypot == math.hypot else 0.0),
    "two names": by_row(lambda r, q: 1.0 if np.abs == np.absolute else 0.0),
    "module": by_row(lambda r, q: 1.0 if np.linalg == np.linalg else 0.0),
    "another": by_row(lambda r, q: 0.0 if np.sin == np.cos else 1.0),
}

# Operators of other classes ------------------------------------------------------------------------------


class Reflected:
    def __array__(self, dtype=None, copy=None):
        return np.array([1.0])

    def __rmul__(self, other):
        return 0.0 * other * np.ones(1)

    def __gt__(self, other):
        return False


class Ufunced:
    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        return 1.0 * inputs[0]

    def __rmul__(self, other):
        return 0.0 * other

    def __gt__(self, other):
        return False


OPERATORS = {
    "array": by_row(lambda r, q: (r[0] * Reflected())[0]),
    "ufunc": by_row(lambda r, q: r[0] * Ufunced()),
    "compared": by_row(lambda r, q: 1.0 if r[0] < Ufunced() else 0.0),
}

# Errors that C swallows ----------------------------------------------------------------------------------


class Rows:
    def __init__(self, ask):
        self.ask, self.found = ask, 0.0

    def __len__(self):
        self.ask()
        self.found = 1.0
        return 0

    def __getitem__(self, k):
        return (1.0,)[k]


def swallowed(ask):
    def row(r, q):
        rows = Rows(lambda: ask(r[0]))
        list(rows)
        return rows.found

    return by_row(row)


ERRORS = {
    "is_integer": swallowed(lambda x: float.is_integer(x)),
    "hex": swallowed(lambda x: float.hex(x)),
    "gcd": swallowed(lambda x: math.gcd(math.floor(x), 2)),
    "fsum": swallowed(lambda x: math.fsum([x])),
    "round": swallowed(lambda x: round(x)),
}

# Nodes that are not the same computation -----------------------------------------------------------------


def integers_and_floats(r, q):
    k, f = math.floor(r[0] + 7.0), np.floor(r[0] + 7.0)
    exact, rounded = (k * 10**17 + 1) - k * 10**17, (f * 1e17 + 1.0) - f * 1e17
    return 1.0 if exact - rounded > 0.5 else 0.0


def integers_made_floats(r, q):
    k = math.floor(r[0] + 7.0) * 10**17 + 1
    return 1.0 if k > k * 1.0 else 0.0


def orders_of_einsum(s, u):
    x = s[:, 0]
    a, b, c = 1e-200 * (1 + x), 1e200 * (1 + x), 1e200 * (1 + 0 * x)
    e = np.einsum("i,i,i->i", a, b, c, optimize=True)
    return (bump(x) * (np.minimum(1e-200 * e, 10.0) - (1 + x) ** 2))[:, None]


def powers_and_roots(s, u):
    gap = np.array([np.sqrt(v) - v**0.5 for v in u[:, 0]])
    return (bump(s[:, 0]) * np.where(gap == 0, 0.0, 100.0))[:, None]


def products_of_truths(r, q):
    k = np.array([(r[0] > -9.0).item() * (q[0] > -9.0).item()])
    return (k + k)[0] * 1.0 - 1.0


def sums_of_truths(r, q):
    return ((r[0] > -9.0).item() + (q[0] > -9.0).item()) * 1.0 - 1.0


NODES = {
    "integers and floats": by_row(integers_and_floats),
    "integers made floats": by_row(integers_made_floats),
    "orders of einsum": orders_of_einsum,
    "powers and roots": powers_and_roots,
    "products of truths": by_row(products_of_truths),
    "sums of truths": by_row(sums_of_truths),
}

# The interpreter -----------------------------------------------------------------------------------------


def ask(x):
    return 1.0 if str(type(x)) == "<class 'numpy.float64'>" else 0.0


def off():
    sys.setprofile(None)


def unwatched(r, q):
    off()
    return ask(r[0])


def threaded(r, q):
    found, x, lock = [], r[0], _thread.allocate_lock()
    lock.acquire()
    _thread.start_new_thread(lambda: (found.append(ask(x)), lock.release()), ())
    lock.acquire()
    return found[0]


def by_modules(r, q):
    module = sys.modules.get("tether.programs.refusal")
    return 1.0 if module is None or module.swallowed is None else 0.0


STATE = {
    "collector": by_row(lambda r, q: 1.0 if gc.isenabled() else 0.0),
    "profile": by_row(lambda r, q: 1.0 if sys.getprofile() is None else 0.0),
    "profile taken away": by_row(unwatched),
    "thread": by_row(threaded),
    "modules": by_row(by_modules),
}
MODELS = {
    f"{group}: {name}": model
    for group, models in {
        "loops": LOOPS, "standing": STANDING, "operators": OPERATORS, "errors": ERRORS, "nodes": NODES,
        "state": STATE,
    }.items()
    for name, model in models.items()
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
def test_programs_refuse_or_hold_the_value(name):
    assert refused_or_held_by_programs(MODELS[name])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODELS)
def test_verification_refuses_or_holds_the_value(name):
    assert refused_or_held_by_verification(MODELS[name])


# What must still be followed -----------------------------------------------------------------------------


@dataclass
class Gains:
    k: float = 2.0

    def __call__(self, x):
        return self.k * np.tanh(x)


Pair = collections.namedtuple("Pair", "x y")
RULE = {"tanh": np.tanh, "gain": Gains(), "parts": [out_of_reach.total]}
A = np.array([[1.0, 0.1], [0.0, 0.9]])


def both(r, q):
    return np.array([r[0], q[0]])


def step(values):
    return A @ values


def iterated(r, q):
    x = both(r, q)
    for _ in range(2):
        x = step(x)
    return x[0]


def with_lists(r, q):
    parts = []
    parts.append(r[0])
    parts.extend([q[0], 1.0])
    return sum(parts) + len(parts) + max(parts) + sorted([1.0, 2.0])[0]


def choices(r, q):
    f = RULE["tanh"] if RULE.get("tanh") == np.tanh else np.sin
    return f(r[0]) + RULE["gain"](q[0])


ORDINARY = {
    "products": lambda s, u: (np.concatenate([s, u], axis=1) @ A.T)[:, :1] + np.dot(s, A[:1, :1]),
    "functions in containers": by_row(choices),
    "elsewhere": by_row(lambda r, q: RULE["parts"][0](both(r, q))),
    "iterated": by_row(iterated),
    "lists": by_row(with_lists),
    "reduce": by_row(lambda r, q: functools.reduce(operator.add, [r[0], q[0]]) + math.prod([r[0], q[0]])),
    "map": by_row(lambda r, q: sum(map(operator.mul, both(r, q), [1.0, 2.0]))),
    "accumulate": by_row(lambda r, q: list(itertools.accumulate([r[0], q[0]]))[-1]),
    "chain": by_row(lambda r, q: sum(itertools.chain([r[0]], [q[0]]))),
    "sum of Python's": lambda s, u: np.array([[sum(r + q)] for r, q in zip(s.tolist(), u.tolist())]),  # noqa: B905
    "methods of constants": by_row(lambda r, q: GAINS.sum() * r[0] + GAINS.max() + GAINS.copy().tolist()[1]),
    "a limit of sys": by_row(lambda r, q: r[0] + sys.float_info.epsilon),
    "next": by_row(lambda r, q: next(v for v in (r[0], q[0]))),
    "any": by_row(lambda r, q: r[0] if any(v > 5.0 for v in (0.1, 6.0, 7.0)) else q[0]),
    "integers": by_row(lambda r, q: r[0] * (math.floor(r[0] + 7.0) + 1)),
    "namedtuple": by_row(lambda r, q: Pair(r[0], q[0]).x + Pair(r[0], q[0]).y),
    "compared with nothing": by_row(lambda r, q: 0.0 if r[0] == None else r[0] if r[0] != "a" else 0.0),  # noqa: E711
    "einsum": lambda s, u: np.einsum("ij,jk->ik", s, A[:1, :1]),
    "roots": lambda s, u: s**0.5 + np.sqrt(u),
}


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_models_are_still_followed_by_programs(name):
    points, values = points_and_values(ORDINARY[name])
    found = enclose(ORDINARY[name], points, points, states=1)
    assert (found.lower - found.rounding <= values).all() and (values <= found.upper + found.rounding).all()


@pytest.mark.parametrize("name", [name for name in ORDINARY if name != "integers"])  # refused by design
def test_ordinary_models_are_still_followed_by_verification(name):
    points, values = points_and_values(ORDINARY[name])
    found = interpreter.enclose(verification.trace(ORDINARY[name], 1, 1, 1), points, points, slopes=True)
    assert (values >= found.lower.T - found.error.T).all() and (values <= found.upper.T + found.error.T).all()


def points_and_values(model):
    points = np.array([[0.3, 0.4], [0.7, 0.2]])
    return points, np.concatenate([model(p[None, :1], p[None, 1:]) for p in points])


def test_entries_of_products_with_lists_of_constant_arrays():
    def row(r, q):
        found = ONES @ [np.full(1, c) for c in [*ORDERED, 0.0]]
        return found[0]

    model = by_row(row)
    point = np.array([[0.3, 0.2]])
    value = model(point, point[:, :0])[0, 0]
    try:
        found = enclose(trace(model, states=2, controls=0), point, point, states=2)
    except EnclosureError:
        return
    assert found.lower[0, 0] - found.rounding[0, 0] <= value <= found.upper[0, 0] + found.rounding[0, 0]
