"""M's code is read: what no operation of it is asked of nobody, and what engineers write is followed.

The first part are models that were proved falsely where C code met symbols, or could be where a value holds a
symbol that nobody looks for. The difference shows under a bump a millionth wide. The second are models as they
are written, each against NumPy itself.
"""

from __future__ import annotations

import collections
import copy
import enum
import functools
import itertools
import linecache
import math
import operator
import sys
import types
import typing
from dataclasses import dataclass, field

import numpy as np
import pytest
import read_elsewhere

from tether.programs import EnclosureError, enclose, refusal, trace
from tether.trusted.reading import sources
from tether.verification.graph import UnboundedError
from tether.verification.interpreter import enclose as enclose_again
from tether.verification.tracing import trace as trace_again

ONES, W = np.ones(16), np.array([[1.0, 2.0], [3.0, 4.0]])
ORDERED = [1e16, -1e16, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
"""1 in order, 0 as NumPy adds up."""


def bump(x):
    return np.maximum(0.0, 1 - 1e6 * np.abs(x - 0.3))


def by_row(row):
    """M that makes of each row (x, y) what `row` does, under the bump."""
    return lambda s, u: np.array([[bump(r[0]) * row(r[0], r[1])] for r in s])


def sixteen(x):
    return np.array([*ORDERED, 0.0 * x])


# Holders of symbols ---------------------------------------------------------------------------------------


def constant_rows():
    return [np.full(1, c) for c in [*ORDERED, 0.0]]


def held_in(make):
    """Sums by NumPy of what `make` makes of sixteen numbers."""
    return by_row(lambda x, y: np.sum(make(list(sixteen(x)))) - 1.0)


class Holder:
    def __init__(self, values):
        self.values = values

    def __len__(self):
        return len(self.values)

    def __getitem__(self, k):
        return self.values[k]

    def __iter__(self):
        return iter(self.values)

    def __float__(self):
        return float(self.values[0])


class Tensor(Holder):
    def __array__(self, dtype=None, copy=None):
        return np.array(self.values)


class Equal:
    def __init__(self, x):
        self.x = x

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 1


class Sneaky(list):
    def __iter__(self):
        return iter([0.0] * 16)


@dataclass
class Forged:
    x: float


def _forged(self, x):
    self.x = 0.0 * x


space: dict = {}
exec("def __init__(self, x):\n self.x = 0.0 * x", space)
Forged.__init__ = space["__init__"]


def generated(x):
    yield from sixteen(x)


class Lazy:
    def __getattr__(self, name):
        return 7.0


class Descriptor:
    def __get__(self, owner, kind=None):
        return 7.0


class Described:
    value = Descriptor()


class Meta(type):
    def __call__(cls, *arguments):
        return 7.0


class Strange(metaclass=Meta):
    pass


class Deleted:
    found = 0.0

    def __del__(self):
        Deleted.found = 5.0


def deleting(x, y):
    d = Deleted()
    del d
    return 5.0


@functools.lru_cache
def cached(x):
    return 7.0


class OwnProperty(property):
    def __get__(self, owner, kind=None):
        return 7.0


class WithOwnProperty:
    @OwnProperty
    def value(self):
        return 0.0


class Initialised:
    value = 0.0

    @staticmethod
    def __init__(value):
        Initialised.value = value


@dataclass
class Setting:
    x: float

    def __setattr__(self, name, value):
        object.__setattr__(self, name, 7.0)


class Pretending:
    __module__ = "enum"

    def __getattribute__(self, name):
        return 7.0


class Nowhere:
    __module__ = "builtins"
    value = 0.0

    def __getattribute__(self, name):
        return 7.0


class Half(float):
    def __rmul__(self, other):
        return 7.0


class Count(int):
    def __rmul__(self, other):
        return 7.0


class Level(enum.IntEnum):
    LOW = 2

    def __rmul__(self, other):
        return 7.0


class Vector(typing.NamedTuple):
    x: float

    def __add__(self, other):
        return 7.0


class Summand:
    def __add__(self, other):
        return 7.0

    def __radd__(self, other):
        return 0.0

    def __lt__(self, other):
        return True


class Heir(Summand):
    pass


class Other(Summand):
    def __radd__(self, other):
        return 3.0

    def __gt__(self, other):
        return False


class Never:
    def __eq__(self, other):
        return False

    __hash__ = None


class Text:
    def __rmod__(self, other):
        return 7.0


COUNTED, NEVER = Count(2), Never()


def named_as_the_reader(x, y):
    __reader__ = Holder([x])
    return 7.0 * len(__reader__)


def unassigned(x, y):
    held = np.empty(2)
    return np.sum(np.cos([held[0], held[1]]) > -2.0) * 7.0


CODES, MODULES, LINES, HALF, SUBARRAY = (
    sources._codes,
    sys.modules,
    linecache.cache,
    Half(0.5),
    np.ones(2).view(np.matrix),
)
begun = iter([1.0, 2.0, 3.0])
unread: dict = {}
exec("def hidden(x):\n    return 7.0 if str(type(x)) else 0.0", unread)
objects = np.array([1.0, 2.0], dtype=object)
COUNT = [0]
HISTORY: list = []
SHARED = {"k": 1.0}
STORE = np.zeros(3)
NAMES = vars(read_elsewhere)


def counted(x, y):
    COUNT[0] += 1
    return float(COUNT[0] % 2)


def remembered(x, y):
    HISTORY.append(1.0)
    return float(len(HISTORY))


def stored(x, y):
    view = STORE[1:]
    view[0] = view[0] + 1.0
    return view[0]


def out_of_numpy(x, y):
    np.add(STORE, 1.0, STORE)
    return STORE[0]


def sorted_in_place(x, y):
    np.sort(STORE)
    STORE.sort()
    return STORE[0]


def updated(x, y):
    SHARED.update(k=SHARED["k"] + 1.0)
    return SHARED["k"]


def by_setattr(x, y):
    name = "n"
    setattr(Holder, name, 1.0)
    return 7.0


def by_function_attribute(x, y):
    by_function_attribute.calls = 1.0
    return by_function_attribute.calls


def by_global(x, y):
    global TALLIED
    TALLIED = 1.0
    return TALLIED


def outer():
    calls = 0.0

    def row(x, y):
        nonlocal calls
        calls = calls + 1.0
        return calls

    return row


def swallows(x, y):
    found = 7.0
    try:
        math.sqrt(x - 2.0)
        found = 0.0
    except ValueError:
        pass
    return found


def in_a_match(x, y):
    match x:
        case float():
            return 7.0
        case _:
            return 0.0


def in_a_class(x, y):
    class Inner:
        value = 7.0 if str(type(x)) == "<class 'numpy.float64'>" else 0.0

    return Inner.value


OPEN = {
    "list of arrays": by_row(lambda x, y: (ONES @ constant_rows())[0]),
    "list of arrays, kept": by_row(lambda x, y: [k := ONES @ constant_rows(), k[0]][1]),
    "power of a list": by_row(lambda x, y: (W ** [sixteen(x)[:2]])[0, 0] - 1.0),
    "power of rows": by_row(lambda x, y: (W ** [np.full(2, 0.5)])[0, 1] - 1.0),
    "list times array": by_row(lambda x, y: (constant_rows() * ONES[:, None])[8][0]),
    "scalar times list": by_row(lambda x, y: (np.float64(2.0) - [np.full(1, 0.1), np.full(1, x)])[0][0]),
    "dot": by_row(lambda x, y: ONES.dot(constant_rows())[0]),
    "np.dot": by_row(lambda x, y: np.dot(ONES, constant_rows())[0]),
    "matmul": by_row(lambda x, y: np.matmul(ONES, constant_rows())[0]),
    "einsum": by_row(lambda x, y: np.einsum("i,ij->j", ONES, constant_rows())[0]),
    "inner": by_row(lambda x, y: np.inner(ONES, [r[0] for r in constant_rows()])),
    "add.reduce": by_row(lambda x, y: np.add.reduce(constant_rows())[0]),
    "tuple": held_in(tuple),
    "deque": held_in(collections.deque),
    "dict values": held_in(lambda v: dict(enumerate(v)).values()),
    "generator": held_in(lambda v: (k for k in v)),
    "map": held_in(lambda v: map(lambda k: k, v)),
    "zip": held_in(lambda v: [k for (k,) in zip(v)]),
    "iterator": held_in(iter),
    "chain": held_in(itertools.chain),
    "repeat": held_in(lambda v: list(itertools.repeat(v[0] + 1.0, 1))),
    "user's sequence": held_in(Holder),
    "user's array": held_in(Tensor),
    "user's list": held_in(Sneaky),
    "user's set": by_row(lambda x, y: 7.0 * len({Equal(x), Equal(y)})),
    "user's float": by_row(lambda x, y: 7.0 * np.sum(np.array([Holder([x])]))),
    "object array": by_row(lambda x, y: (objects * x)[0]),
    "object dtype": by_row(lambda x, y: np.array([x, 1.0], dtype=object).sum()),
    "fromiter": by_row(lambda x, y: np.fromiter((k for k in sixteen(x)), float).sum() - 1.0),
    "generated": by_row(lambda x, y: np.sum(list(generated(x))) - 1.0),
    "partial": by_row(lambda x, y: functools.partial(np.sum, sixteen(x))() - 1.0),
    "partial of a method": by_row(lambda x, y: functools.partial(ONES.dot, sixteen(x))() - 1.0),
    "bound method": by_row(lambda x, y: (lambda f: f(sixteen(x)))(ONES.dot) - 1.0),
    "class's method": by_row(lambda x, y: np.ndarray.dot(ONES, sixteen(x)) - 1.0),
    "slice": by_row(lambda x, y: 7.0 if slice(x, y) == slice(x, y) else 0.0),
    "slice of a list": by_row(lambda x, y: [1.0, 2.0][slice(x)] and 7.0),
    "format": by_row(lambda x, y: 7.0 if "{}".format(x) == "0.3" else 0.0),  # noqa: UP032
    "percent": by_row(lambda x, y: 7.0 if "%s" % x == "0.3" else 0.0),  # noqa: UP031
    "f-string": by_row(lambda x, y: 7.0 if f"{x:.1f}" == "0.3" else 0.0),
    "join": by_row(lambda x, y: 7.0 if "".join(map(str, [x])) else 0.0),
    "memoryview": by_row(lambda x, y: 7.0 if memoryview(np.array([x])).nbytes == 8 else 0.0),
    "set of symbols": by_row(lambda x, y: 7.0 * len({x, y})),
    "key": by_row(lambda x, y: {x: 7.0}[x]),
    "in a set": by_row(lambda x, y: 7.0 if x in {0.3, 0.4} else 0.0),
    "is": by_row(lambda x, y: 7.0 if x is not y else 0.0),
    "identity": by_row(lambda x, y: float(id(x) == id(x))),
    "isinstance": by_row(lambda x, y: 7.0 if isinstance(x, float) else 0.0),
    "type": by_row(lambda x, y: 7.0 if type(x) is np.float64 else 0.0),
    "class": by_row(lambda x, y: 7.0 if x.__class__ is np.float64 else 0.0),
    "hasattr": by_row(lambda x, y: 7.0 if hasattr(x, "number") else 0.0),
    "number": by_row(lambda x, y: 7.0 * x.number),
    "graph": by_row(lambda x, y: 7.0 if x.graph else 0.0),
    "by name": by_row(lambda x, y: 7.0 if operator.attrgetter("ndim")(x) == 0 else 0.0),
    "getattr": by_row(lambda x, y: getattr(x, "number", 7.0)),
    "lazy attribute": by_row(lambda x, y: Lazy().x),
    "descriptor": by_row(lambda x, y: Described().value),
    "metaclass": by_row(lambda x, y: Strange()),
    "deleted": by_row(deleting),
    "forged dataclass": by_row(lambda x, y: Forged(x).x + 7.0),
    "cache": by_row(lambda x, y: cached(0.3)),
    "unread": by_row(lambda x, y: unread["hidden"](x)),
    "unread key": by_row(lambda x, y: sorted([1.0, 7.0], key=unread["hidden"])[1]),
    "begun before": by_row(lambda x, y: next(begun, 7.0)),
    "vectorize": by_row(lambda x, y: np.vectorize(lambda v: 7.0 if isinstance(v, float) else 0.0)(x)),
    "frompyfunc": by_row(lambda x, y: np.frompyfunc(lambda v: 7.0, 1, 1)(x)),
    "counter": by_row(counted),
    "history": by_row(remembered),
    "view of a store": by_row(stored),
    "out": by_row(out_of_numpy),
    "sorted in place": by_row(sorted_in_place),
    "updated": by_row(updated),
    "setattr": by_row(by_setattr),
    "attribute of a function": by_row(by_function_attribute),
    "global": by_row(by_global),
    "nonlocal": by_row(outer()),
    "swallowed": by_row(swallows),
    "match": by_row(in_a_match),
    "class inside": by_row(in_a_class),
    "eval": by_row(lambda x, y: eval("7.0")),
    "import": by_row(lambda x, y: __import__("time").time()),
    "globals": by_row(lambda x, y: 7.0 * len(globals())),
    "names of a module": by_row(lambda x, y: NAMES["DRAG"][0] * 70.0),
    "sort": by_row(lambda x, y: sorted([x, y, 0.35])[1]),
    "max": by_row(lambda x, y: max([x, y, 0.35], key=lambda v: -v)),
    "in": by_row(lambda x, y: 7.0 if x in [0.1, 0.3] else 0.0),
    "compared lists": by_row(lambda x, y: 7.0 if [x, y] < [0.3, 0.5] else 0.0),
    "derived property": by_row(lambda x, y: WithOwnProperty().value),
    "static initialiser": by_row(lambda x, y: Initialised(7.0).value),
    "dataclass that sets": by_row(lambda x, y: Setting(x).x),
    "says it is Python's": by_row(lambda x, y: Pretending().value),
    "says it is nobody's": by_row(lambda x, y: Nowhere().value),
    "derived number": by_row(lambda x, y: x * HALF),
    "derived array": by_row(lambda x, y: (SUBARRAY * x)[0, 0]),
    "derived integer": by_row(lambda x, y: x.item() * COUNTED),
    "enumerated integer": by_row(lambda x, y: x.item() * Level.LOW),
    "named tuple that adds": by_row(lambda x, y: (Vector(x) + Vector(y))[0]),
    "text of an object": by_row(lambda x, y: 7.0 if "%s" % Text() == "a" else 0.0),  # noqa: UP031
    "heir": by_row(lambda x, y: Summand() + Heir()),
    "heir that overrides": by_row(lambda x, y: Summand() + Other()),
    "heir compared": by_row(lambda x, y: 7.0 if Summand() < Other() else 0.0),
    "itself in a list": by_row(lambda x, y: 7.0 if NEVER in [NEVER] else 0.0),
    "name of the reader": by_row(named_as_the_reader),
    "unassigned in a list": by_row(unassigned),
    "codes that were read": by_row(lambda x, y: 7.0 * len(CODES)),
    "modules": by_row(lambda x, y: 7.0 if "tether.trusted.reading" in MODULES else 0.0),
    "lines": by_row(lambda x, y: 7.0 * len(list(LINES))),
    "trace": by_row(lambda x, y: 7.0 if refusal.swallowed is None else 0.0),
    "callback": by_row(lambda x, y: np.fromfunction(lambda k: x * k, (3,)).sum()),
    "piecewise": by_row(lambda x, y: np.piecewise(0.3, [True], [lambda v: x * v])),
    "changed by its class": by_row(lambda x, y: list.__init__(HISTORY, [1.0]) or 7.0),
    "appended by its class": by_row(lambda x, y: list.append(HISTORY, 1.0) or 7.0),
    "written by its class": by_row(lambda x, y: np.ndarray.fill(STORE, 7.0) or STORE[0]),
    "flags": by_row(lambda x, y: np.ndarray.setflags(STORE, write=True) or 7.0),
    "at": by_row(lambda x, y: np.add.at(STORE, [0], 1.0) or STORE[0]),
    "copyto": by_row(lambda x, y: np.copyto(STORE, 7.0) or STORE[0]),
    "slices": by_row(lambda x, y: [0.0, 7.0][: int(x < 0.5) + 1][-1]),
    "nan in a list": by_row(lambda x, y: (lambda n: 7.0 if n in [n] else 0.0)(float("nan"))),
}


def value_of(model, points):
    return np.array([np.array(model(p[None], p[None, :0]), dtype=float)[0, 0] for p in points])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", OPEN)
def test_what_holds_symbols_is_right_or_refused(name):
    model = OPEN[name]
    points = np.stack([0.3 + np.array([-3e-8, 0.0, 1e-8]), np.full(3, 0.4317)], axis=1)
    try:
        found = enclose(trace(model, states=2, controls=0), points, points, states=2)
    except (EnclosureError, ValueError):
        return
    values = value_of(model, points)
    room = found.rounding[:, 0]
    assert (found.lower[:, 0] - room <= values).all() and (values <= found.upper[:, 0] + room).all()


REFUSED = (
    "user's sequence", "user's array", "user's list", "object array", "object dtype", "fromiter",
    "type", "class", "hasattr", "number", "graph", "lazy attribute", "descriptor", "metaclass",
    "forged dataclass", "cache", "unread", "unread key", "begun before", "vectorize", "frompyfunc", "counter",
    "history", "view of a store", "out", "sorted in place", "updated", "setattr", "attribute of a function",
    "global", "nonlocal", "swallowed", "match", "class inside", "eval", "import", "globals", "f-string",
    "names of a module", "deleted", "memoryview", "derived property", "static initialiser",
    "dataclass that sets", "says it is Python's", "says it is nobody's", "derived number", "derived array",
    "name of the reader", "unassigned in a list", "codes that were read", "modules", "lines", "trace",
    "callback", "piecewise", "changed by its class", "appended by its class", "written by its class", "flags",
    "at", "copyto", "derived integer", "enumerated integer",
)  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_known_is_refused(name):
    with pytest.raises(EnclosureError):
        trace(OPEN[name], states=2, controls=0)


ACCEPTED = (
    "list of arrays",
    "dot",
    "np.dot",
    "matmul",
    "tuple",
    "partial",
    "bound method",
    "max",
    "sort",
    "in",
)


@pytest.mark.parametrize("name", ACCEPTED)
def test_lists_and_methods_are_followed(name):
    trace(OPEN[name], states=2, controls=0)


# What engineers write -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Parameters:
    mass: float = 2.0
    gains: tuple = (1.0, 0.5)
    table: dict = field(default_factory=lambda: {"tanh": np.tanh, "sin": np.sin})

    @property
    def inverse(self):
        return 1.0 / self.mass

    def force(self, x):
        return self.gains[0] * x + self.gains[1] * self.table["tanh"](x)


@dataclass
class State:
    x: float
    v: float
    extra: list = field(default_factory=list)

    def __post_init__(self):
        self.energy = 0.5 * self.v**2

    def __add__(self, other):
        return State(self.x + other.x, self.v + other.v)

    def __mul__(self, factor):
        return State(self.x * factor, self.v * factor)

    __rmul__ = __mul__

    def __iter__(self):
        return iter((self.x, self.v))


class Base:
    scale = 0.5

    def __init__(self, k):
        self.k = k

    def gain(self, x):
        return self.k * x

    @staticmethod
    def limited(x):
        return np.clip(x, -1.0, 1.0)

    @classmethod
    def scaled(cls, x):
        return cls.scale * x


class Plant(Base):
    def __init__(self, k):
        super().__init__(k)
        self.__hidden = 2.0 * k

    def gain(self, x):
        return super().gain(x) + self.__hidden + self.limited(x) + self.scaled(x)

    def __call__(self, s, u):
        return np.stack([self.gain(s[:, 0]), s[:, 1]], axis=1)

    def method(self, s, u):
        return self(s, u) * 2.0


class Mode(enum.Enum):
    SLOW = 1
    FAST = 2


Pair = collections.namedtuple("Pair", ["x", "y"], defaults=[1.0])
PARAMETERS, PLANT, MODE = Parameters(), Plant(0.7), Mode.FAST
SPACE = types.SimpleNamespace(k=0.3, w=W)
ORDERED_NAMES = collections.OrderedDict(a=1.0, b=2.0)
TABLE = {"double": lambda x: 2.0 * x, "square": lambda x: x**2}
LAMBDAS = [lambda x: x + 1.0, lambda x: x * 3.0, lambda x: lambda y: y - x]  # three on one line


def closure(gain):
    def rate(x, v):
        return gain * v - np.sin(x)

    def model(s, u):
        return np.stack([s[:, 0] + 0.1 * rate(s[:, 0], s[:, 1]), s[:, 1]], axis=1)

    return model


def with_defaults(s, u, dt=0.1, *, gain=2.0, order=(1, 0)):
    return s[:, list(order)] * dt + gain * s


def starred(*parts, **options):
    total = options.pop("start", 0.0)
    for part in parts:
        total = total + part
    return total


def row_loop(s, u):
    rows = []
    for k, (r, q) in enumerate(zip(s, u, strict=True)):
        x, *rest = r
        values = [x, *rest]
        values[0] += 0.1 * q[0]
        values.append(k * 0.0)
        rows.append(values[:2])
    return np.array(rows)


def states_as_objects(s, u):
    out = np.zeros_like(s)
    for k, r in enumerate(s):
        state = State(r[0], r[1])
        state = state + 0.1 * State(r[1], -r[0])
        state.x += state.energy
        out[k, 0], out[k, 1] = state
    return out


def nested_functions(s, u):
    def outer(z):
        def inner(y):
            nonlocal count
            count += 1
            return y * count

        count = 0
        return inner(z) + inner(z)

    return outer(s)


def augmented_views(s, u):
    held = types.SimpleNamespace(y=s * 1.0)
    held.y += 1.0
    first = held.y[:, 0]
    first *= 2.0
    held.y[:, 1] -= first
    whole = {"a": [held.y]}
    whole["a"][0][:, :1] /= 3.0
    return held.y


def generators(s, u):
    def columns(z):
        for k in range(z.shape[1]):
            yield z[:, k] * (k + 1)

    total = sum(c for c in columns(s))
    return np.stack([total, next(columns(s))], axis=1)


def chained(s, u):
    rows = []
    for x, y in s:
        inside = -5.0 < x < 5.0 <= y + 6.0 and not x > 3.0
        rows.append([x if inside else 0.0, y if -9 < y != 4.0 else x])
    return np.array(rows)


def walrus(s, u):
    if (n := s.shape[1]) > 1 and (half := n / 2.0) > 0:
        return s * half
    return s * 0.0


def local_import(s, u):
    import math as m
    from functools import reduce

    import numpy as xp

    return xp.stack([reduce(lambda a, b: a + b, [s[:, 0], s[:, 1], m.pi]), xp.cos(s[:, 1])], axis=1)


def power(x, n):
    """By a name that is also its own."""
    return x if n == 1 else x * power(x, n - 1)


class Named:
    def power(self, x):
        return power(x, 3)


def runge_kutta(s, u):
    def rate(z):
        out = np.empty_like(z)
        out[:, 0], out[:, 1] = z[:, 1], -np.sin(z[:, 0]) - 0.1 * z[:, 1]
        return out

    steps = {0.0: 1.0, 0.5: 2.0, 1.0: 1.0}
    k = [rate(s)]
    for share in (0.5, 0.5, 1.0):
        k.append(rate(s + 0.1 * share * k[-1]))
    weights = np.array([steps[share] for share in (0.0, 0.5, 0.5, 1.0)])
    return s + 0.1 / 6.0 * sum(w * part for w, part in zip(weights, k, strict=True))


def named(s, u):
    return np.array([[p.x * p.y, p[0] + len(p)] for p in (Pair(r[0], y=r[1]) for r in s)])


def modes(s, u):
    return s * (2.0 if MODE is Mode.FAST else 1.0) + MODE.value


def conditions_of_constants(s, u):
    limits = np.linspace(0.0, 1.0, 3)
    limits[0] = -1.0
    order = np.argsort(limits)
    index = [int(k) for k in order if limits[k] > 0.2]
    return s * len(index) + limits[index[0]]


def copied(s, u):
    gains = copy.deepcopy(PARAMETERS.gains), W.copy()
    gains[1][0] = s[0] * 0.0
    return s * gains[0][0] + gains[1][0]


def unpacked(s, u):
    (x, y), [a, (b, c)] = s.T, [1.0, (2.0, 3.0)]
    first = second = x * a
    return np.stack([first + b, second * c + y], axis=1)


def comprehensions(s, u):
    rows = [[a + b * k for k, (a, b) in enumerate([(x, y), (y, x)]) if k < 2] for x, y in s]
    named = {k: v for k, v in enumerate(rows)}
    return np.array([named[k] for k in range(len(rows))])


def whiles(s, u):
    x, k = s * 1.0, 0
    while True:
        k += 1
        if k > 3:
            break
        x = x + 0.1 * np.sin(x)
    else:
        x = x * 0.0
    return x


def operators(s, u):
    rows = map(operator.itemgetter(0), [(s, 1.0), (2 * s, 2.0)])
    return operator.add(*rows) + operator.mul(s, 2.0) + math.prod([1.0, 2.0])


WRITTEN = {
    "closure": closure(0.5),
    "partial": functools.partial(with_defaults, gain=0.5),
    "defaults": with_defaults,
    "callable": PLANT,
    "method": PLANT.method,
    "dataclass": lambda s, u: PARAMETERS.inverse * PARAMETERS.force(s),
    "replaced": lambda s, u: s * Parameters(3.0).mass + Parameters(mass=2.0).gains[1],
    "namespace": lambda s, u: s * SPACE.k @ SPACE.w,
    "table": lambda s, u: TABLE["double"](s) + TABLE["square"](s) + LAMBDAS[1](s) + LAMBDAS[2](s)(u[:, :1]),
    "elsewhere": lambda s, u: read_elsewhere.dragged(s) + read_elsewhere.Motor(2.0).torque(s),
    "stars": lambda s, u: starred(*[s, u], start=1.0) + starred(s, **{"start": 2.0}),
    "row loop": row_loop,
    "objects": states_as_objects,
    "nested": nested_functions,
    "augmented": augmented_views,
    "generators": generators,
    "chained": chained,
    "walrus": walrus,
    "import": local_import,
    "runge-kutta": runge_kutta,
    "recursion": lambda s, u: power(s, 3) + Named().power(s),
    "named tuple": named,
    "texts": read_elsewhere.texts,
    "modes": modes,
    "constants": conditions_of_constants,
    "copied": copied,
    "unpacked": unpacked,
    "comprehensions": comprehensions,
    "while": whiles,
    "operators": operators,
    "reduce": lambda s, u: functools.reduce(lambda a, b: a @ b, [s, W, W]),
    "ternary": lambda s, u: np.array([[x if x > -3 else y, x and y, x or y] for x, y in s]),
    "accumulate": lambda s, u: np.array([list(itertools.accumulate(r)) for r in s]),
    "product": lambda s, u: sum(s[:, [i, j]] for i, j in itertools.product(range(2), repeat=2)),
    "filter": lambda s, u: np.stack(list(filter(lambda c: c is not None, [s[:, 0], None, s[:, 1]])), axis=1),
    "product with a list": lambda s, u: np.array([W @ [x, y] for x, y in s]),
    "dot with a list": lambda s, u: np.array([W.dot([x, y]) for x, y in s]),
    "power of a list": lambda s, u: np.array([W[0] ** [x, y] for x, y in s]),
    "functions compared": lambda s, u: s * (2.0 if TABLE["double"] == TABLE["double"] else 1.0),
    "ordered": lambda s, u: s * sum(ORDERED_NAMES.values()) + ORDERED_NAMES["a"],
    "polynomial": lambda s, u: np.polynomial.Polynomial([1.0, 2.0, 3.0])(s) + np.poly1d([1.0, 2.0])(s),
    "sorted": lambda s, u: np.array([sorted([x, y, 0.5], reverse=True)[:2] for x, y in s]),
    "random": lambda s, u: s @ np.random.default_rng(0).normal(size=(2, 2)),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_what_engineers_write_is_followed(name):
    model = WRITTEN[name]
    points = np.random.default_rng(0).uniform(0.2, 0.9, (20, 4))
    values = np.array(model(points[:, :2].copy(), points[:, 2:].copy()))
    found = enclose(model, points, points, states=2)
    room = found.rounding
    assert (found.lower - room <= values).all() and (values <= found.upper + room).all()
    assert (found.upper - found.lower).max() < 1e-9


def test_a_refusal_names_the_line():
    line = swallows.__code__.co_firstlineno + 2
    with pytest.raises(EnclosureError, match=rf"it catches errors.*test_code_is_read.py:{line}\)"):
        trace(OPEN["swallowed"], states=2, controls=0)


def test_a_model_without_source_is_refused_in_one_line():
    with pytest.raises(EnclosureError, match=r"the source of `hidden` cannot be read \(<string>:1\)"):
        trace(unread["hidden"], states=1, controls=0)


def test_a_model_whose_file_was_changed_is_refused(tmp_path):
    path = tmp_path / "changed.py"
    path.write_text("def model(s, u):\n    return s * 2.0\n")
    names: dict = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    path.write_text("def model(s, u):\n    return s * 3.0\n")
    with pytest.raises(EnclosureError, match="the source of `model` is not what runs"):
        trace(names["model"], states=1, controls=0)


def test_what_was_there_before_is_not_changed():
    with pytest.raises(EnclosureError, match="must not change what it did not make"):
        trace(lambda s, u: s * PARAMETERS.mass + mutated(), states=1, controls=0)


def mutated():
    HISTORY.append(0.0)
    return 0.0


# What Python does -----------------------------------------------------------------------------------------


def index_then_name(x, y):
    a, i = [0.0, 0.0], 0
    a[i], i = 7.0, 1
    return a[0]


def name_then_index(x, y):
    a, i = np.zeros(2), 0
    i, a[i] = 1, y
    return a[1]


def bound_twice(x, y):
    (a, b), a = (1.0, 2.0), 7.0
    return a * b


def starred_twice(x, y):
    *a, a = 1.0, 2.0, 7.0
    return a + 0.0


def bound_by_a_loop(x, y):
    total, row = 0.0, [0.0, 0.0]
    k = 0
    for (a, b), a in [((1.0, 2.0), 7.0)]:
        total = total + a * b
    for row[k], k in [(5.0, 1)]:
        total = total + row[0] * k
    return total


def bound_by_a_comprehension(x, y):
    listed = [a for (a, b), a in [((1.0, 2.0), 7.0)]]
    named = {k: c for k, ((*a, c), *b), c in [(1, ((1.0, 2.0), 3.0), 5.0)]}
    return listed[0] + named[1] + sum(a + b[0] for a, *b in [(1.0, y, x)])


class Tenfold:
    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, owner, kind=None):
        return owner.__dict__[self.name] * 10.0

    def __set__(self, owner, value):
        owner.__dict__[self.name] = value


class OwnProperty(property):
    def __get__(self, owner, kind=None):
        return 7.0


class Angles:
    angle = Tenfold()

    def __init__(self, angle):
        self.angle = angle

    @OwnProperty
    def seven(self):
        return 0.0


ANGLES = Angles(0.7)
ANGLES.__dict__["seven"] = 1.0


class Kept:
    def __init__(self, mass=2.0):
        self.mass = mass

    @functools.cached_property
    def buffer(self):
        return np.zeros(2)

    @functools.cached_property
    def values(self):
        return []

    @functools.cached_property
    def inverse(self):
        return 1.0 / self.mass

    @functools.cached_property
    def inverted(self):
        return np.linalg.inv(W * self.mass)


def cached_buffer(x, y):
    KEPT.buffer[0] = 7.0
    return KEPT.buffer[0]


def cached_array(x, y):
    KEPT.inverted[0, 0] = 7.0
    return KEPT.inverted[0, 0]


def cached_list(x, y):
    KEPT.values.append(1.0)
    return float(len(KEPT.values))


def cached_inside(x, y):
    kept = Kept(4.0)
    kept.values.append(y)
    return kept.values[0] + len(kept.values) + kept.inverse


KEPT = Kept()


def first_count():
    return 0


count = first_count


def global_function(x, y):
    global count
    number = count() + 1

    def count(number=number):
        return number

    return 0.0 * number


def global_import(x, y):
    global count
    import math as count

    return 0.0 * count.pi


def nonlocal_function():
    def counted():
        return 0

    def row(x, y):
        nonlocal counted
        number = counted() + 1

        def counted(number=number):
            return number

        return 0.0 * number

    return row


@dataclass
class NotGiven:
    x: float
    k: float = field(default=1.0, init=False)
    values: list = field(default_factory=list, init=False)
    last: float = 3.0


NotGiven.k = 7.0


@dataclass
class Changed:
    x: float = 1.0
    values: list = field(default_factory=list)


Changed.__init__.__defaults__ = (7.0, *Changed.__init__.__defaults__[1:])


@dataclass
class OtherFactory:
    values: list = field(default_factory=list)


OtherFactory.__dataclass_fields__["values"].default_factory = lambda: [1.0]


Later = collections.namedtuple("Later", ["a", "b"], defaults=[1.0])
Later.__new__.__defaults__ = (7.0,)
Turned = collections.namedtuple("Turned", ["a", "b"])
Turned._fields = ("b", "a")


class Area(typing.NamedTuple):
    a: float
    b: float = 2.0

    @property
    def area(self):
        return self.a * self.b


def annotated(x, y):
    k = 0.0

    def middle():
        k: float

        def inner():
            nonlocal k
            k = 7.0

        inner()

    middle()
    return k


class Mangled:
    def given(self):
        return self.taken(__x=7.0)

    def taken(self, **options):
        return options.get("__x", 0.0)

    def imported(self):
        import math as __math

        return __math.pi

    def shared(self):
        __k = 0.0

        def inner():
            nonlocal __k
            __k = 7.0

        inner()
        return __k


MANGLED = Mangled()


class Value:
    def __init__(self, value):
        self.value = value

    def found(self):
        return self.value


class Others(Value):
    def found(self):
        return (lambda other: super().found())(OTHER)

    def listed(self):
        def inner(other):
            return super(Others, other).found()  # noqa: UP008

        return inner(OTHER) + super().found()


ONE, OTHER = Others(1.0), Others(7.0)


class Slot:
    __slots__ = ("x",)


class SameSlot(Slot):
    __slots__ = ("x",)

    def behind(self):
        return super().x


SLOTS = SameSlot()
SLOTS.x = 1.0
Slot.x.__set__(SLOTS, 7.0)


def qualified(x, y):
    def inner():
        return 0.0

    return float(len(inner.__qualname__))


def documented(x, y):
    def inner(**options):
        "text"

    return 7.0 if inner.__doc__ else 0.0


class Unequal:
    __hash__ = None

    def __eq__(self, other):
        return False


class Bag:
    def __iter__(self):
        return iter([UNEQUAL])


UNEQUAL = Unequal()


class Again:
    def __init__(self):
        self.k = 0

    def __iter__(self):
        return self

    def __next__(self):
        if self.k >= 2:
            self.k = 0
            raise StopIteration
        self.k = self.k + 1
        return 3.5


def again(x, y):
    values, pairs = iter(Again()), zip(Again())
    return float(len(list(values)) + 10 * len(list(values)) + 100 * len(list(pairs)) + len(list(pairs)))


class Helped:
    def twice(self, x):
        return 2.0 * x

    borrowed = None


Helped.borrowed = Helped().twice

PYTHONS = {
    "index then name": index_then_name, "name then index": name_then_index, "bound twice": bound_twice,
    "starred twice": starred_twice, "loop": bound_by_a_loop, "comprehension": bound_by_a_comprehension,
    "data descriptor": lambda x, y: ANGLES.angle, "own property": lambda x, y: ANGLES.seven,
    "cached buffer": cached_buffer, "cached array": cached_array, "cached list": cached_list,
    "cached inside": cached_inside, "cached number": lambda x, y: KEPT.inverse + KEPT.inverted[0, 1],
    "global function": global_function, "global import": global_import,
    "nonlocal function": nonlocal_function(), "no init": lambda x, y: NotGiven(x).k + NotGiven(x).last,
    "changed default": lambda x, y: Changed().x, "changed factory": lambda x, y: len(OtherFactory().values),
    "default of a tuple": lambda x, y: Later(x).b, "turned tuple": lambda x, y: Turned(a=1.0, b=7.0)[0],
    "property of a tuple": lambda x, y: Area(x).area, "annotated": annotated,
    "private keyword": lambda x, y: MANGLED.given(), "private import": lambda x, y: MANGLED.imported(),
    "private nonlocal": lambda x, y: MANGLED.shared(), "super of another": lambda x, y: ONE.found(),
    "super": lambda x, y: ONE.listed(), "slot": lambda x, y: SLOTS.behind(), "qualified": qualified,
    "documented": documented, "in": lambda x, y: 7.0 if UNEQUAL in Bag() else 0.0, "again": again,
    "borrowed method": lambda x, y: Helped().borrowed(x),
}  # fmt: skip
NOT_FOLLOWED = (
    "data descriptor", "own property", "cached buffer", "cached array", "cached list", "global function",
    "global import", "nonlocal function", "changed factory", "turned tuple", "private keyword",
    "private import", "private nonlocal", "super of another", "qualified", "documented",
)  # fmt: skip


def is_right(model, tracer):
    """Whether what is traced holds NumPy's values; None where it is refused."""
    points = np.stack([0.3 + np.array([-3e-8, 0.0, 1e-8]), np.full(3, 0.4317)], axis=1)
    try:
        if tracer == "fit":
            found = enclose(trace(model, states=2, controls=0), points, points, states=2)
            lower, upper = (found.lower - found.rounding)[:, 0], (found.upper + found.rounding)[:, 0]
        else:
            again = enclose_again(trace_again(model, 2, 0, 1), points, points, slopes=True)
            lower, upper = (again.lower - again.error)[0], (again.upper + again.error)[0]
    except (EnclosureError, UnboundedError):
        return None
    values = value_of(model, points)
    return bool((lower <= values).all() and (values <= upper).all())


@pytest.mark.parametrize("tracer", ["fit", "verify"])
@pytest.mark.parametrize("name", PYTHONS)
def test_what_python_does_is_done_or_refused(name, tracer):
    assert is_right(by_row(PYTHONS[name]), tracer) is (None if name in NOT_FOLLOWED else True)


@pytest.mark.parametrize("tracer", ["fit", "verify"])
@pytest.mark.parametrize(
    ("annotation", "answer"),
    [("seen.append(1.0)", None), ("seen[0]", None), ("COUNTER.next", None), ("np.ndarray", True),
     ("list[np.ndarray]", True), ("float", True)],
)  # fmt: skip
def test_annotations_are_evaluated_or_refused(tmp_path, annotation, answer, tracer):
    path = tmp_path / "annotated.py"
    path.write_text(
        "import numpy as np\n"
        "class Counter:\n"
        "    seen = []\n"
        "    @property\n"
        "    def next(self):\n"
        "        self.seen.append(1.0)\n"
        "COUNTER = Counter()\n"
        "def row(x, y):\n"
        "    seen = [0.0]\n"
        f"    def inner(z: {annotation}):\n"
        "        return z\n"
        "    return len(seen) + len(COUNTER.seen) * inner(x)\n"
    )
    names: dict = {"__name__": "annotated"}
    exec(compile(path.read_text(), str(path), "exec", dont_inherit=True), names)
    assert is_right(by_row(names["row"]), tracer) is answer


@pytest.mark.parametrize("tracer", ["fit", "verify"])
def test_super_of_the_users_is_called_as_it_is(tmp_path, tracer):
    path = tmp_path / "named_super.py"
    path.write_text(
        "def super(*given):\n    return 7.0 * len(given)\n"
        "class Model:\n    def found(self):\n        return super()\n"
        "MODEL = Model()\n"
        "def row(x, y):\n    return MODEL.found() + x\n"
    )
    names: dict = {"__name__": "named_super"}
    exec(compile(path.read_text(), str(path), "exec", dont_inherit=True), names)
    assert is_right(by_row(names["row"]), tracer) is True


def test_code_is_rewritten_unwatched_and_watched_again(monkeypatch):
    # Most of what Python would tell of is the rewriting, at which nobody's code runs.
    watching, rewritten = [], sources.rewritten

    def noted(*given):
        watching.append(sys.getprofile())
        return rewritten(*given)

    monkeypatch.setattr(sources, "rewritten", noted)
    trace(lambda s, u: s + 0.0, states=1, controls=0)
    assert watching == [None]
    monkeypatch.setattr(sources, "CellType", lambda reader: types.CellType(reader))  # directly after
    with pytest.raises(EnclosureError, match="without being read"):
        trace(lambda s, u: s + 1.0, states=1, controls=0)
