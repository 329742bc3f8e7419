"""Twins: M's code with other numbers in it shows where it is misread, and never says so where it is not."""

import functools
import math
import types
from collections import namedtuple
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np
import pytest

from tether.programs import EnclosureError, boxes, program_of
from tether.programs.reading import Nodes
from tether.trusted.reading import Symbols, pythons, reader, rewriting, sources, tripwire, twins
from tether.verification.symbols import Terms
from tether.verification.tracing import trace
from tether.verification.twins import unlike_twins

LOWER, UPPER = np.array([[-1.0, -1.0, -0.5]]), np.array([[1.0, 1.0, 0.5]])
SIZES = 2, 1, 2
WIDTH, STEEP, FAR = 1e-6, 1_000_000, 1e5
SCALAR, WIDTHS = np.float64(1e-6), np.array([1e-6, 2.0])
PLACE = {"center": 0.123, "width": 1e-6}
SETTINGS = types.SimpleNamespace(width=1e-6)
Bump = namedtuple("Bump", ["center", "width"])
BUMP = Bump(0.123, 1e-6)


def fitted(model):
    """What `fit` would prove from: the program, checked."""
    return program_of(model, LOWER, UPPER, SIZES[0])


def verified(model):
    """What `verify` says of it, in words; None: nothing."""
    places = np.random.default_rng(3).uniform(LOWER[0], UPPER[0], (64, 3))
    return unlike_twins(model, trace(model, *SIZES, (2,)), places, SIZES, (2,))


@pytest.fixture
def misread(monkeypatch):
    """Sets an attribute of the reading, which then reads all code anew."""
    for name in ("_codes", "_read"):
        monkeypatch.setattr(sources, name, {})
    monkeypatch.setattr(boxes, "_followed", {})
    monkeypatch.setattr(tripwire, "_is_users", lambda frame: False)  # the mistakes themselves are not read
    return monkeypatch


def narrow(x):
    return np.exp(-(((x - 0.123) / 1e-6) ** 2))


def stepped(states, controls):
    out = states.copy()
    out[:, 0] = out[:, 0] + 0.1 * out[:, 1]
    out[:, 1] = out[:, 1] + 0.1 * (controls[:, 0] + -9.81 * np.sin(states[:, 0]))
    return out


# Deliberate mistakes ------------------------------------------------------------------------------------------


def assigns_twice(states, controls):
    out = stepped(states, controls)
    x = out[:, 0] + 0.0
    out[:, 0], out[:, 0] = x + narrow(states[:, 0]), x
    return out


def backwards(patch):
    assigned = rewriting._Rewriter._assigned

    def wrong(self, node, target, value):
        found = assigned(self, node, target, value)
        return [*found[:1], *found[:0:-1]]

    patch.setattr(rewriting._Rewriter, "_assigned", wrong)


def adds_in_place(states, controls):
    out = stepped(states, controls)
    speed = out[:, 1]
    speed += narrow(states[:, 0])
    return out


def apart(patch):
    patch.setattr(reader.Reader, "augmented", lambda self, name, one, two: self.binary(name[:-1], one, two))


def writes_through_a_view(states, controls):
    out = stepped(states, controls)
    speed = out[:, 1]
    speed[:] = speed + narrow(states[:, 0])
    return out


def copied(patch):
    item = reader.Reader.item

    def wrong(self, values, index):
        found = item(self, values, index)
        return self.symbols.call(np.copy, (found,), {}) if type(found) in self._kinds else found

    patch.setattr(reader.Reader, "item", wrong)


def changes_a_copy(states, controls):
    out = stepped(states, controls)
    other = out.copy()
    other[:, 1] += narrow(states[:, 0])
    return out


def uncopied(patch):
    for kind in (Nodes, Terms):
        before = kind.attribute

        def wrong(self, symbol, name, before=before):
            once = [True]  # the arguments themselves are copied, or they would be written to
            found = before(self, symbol, name)
            if name != "copy" or getattr(wrong, "copied", 0) % 2 == 0:
                wrong.copied = getattr(wrong, "copied", 0) + (name == "copy")
                return found
            wrong.copied += 1
            return lambda: symbol if once else found()

        patch.setattr(kind, "attribute", wrong)


def sorts_alike(states, controls):
    out = stepped(states, controls)
    pairs = sorted([(1, 0.0 * states[:, 0]), (1, narrow(states[:, 0]))], key=lambda pair: pair[0])
    out[:, 0] += pairs[0][1]
    return out


def unstable(patch):
    def wrong(given, values, /, *, key=None, reverse=False):
        return pythons.make_sorted(given, list(given.iterate(values))[::-1], key=key, reverse=reverse)

    patch.setitem(pythons.HANDLERS, sorted, wrong)


def subtracts(states, controls):
    out = stepped(states, controls)
    bump = narrow(states[:, 0])
    out[:, 1] += bump * states[:, 1] - bump * out[:, 0]
    return out


def swapped(patch):
    binary = reader.Reader.binary

    def wrong(self, name, one, two):
        both = all(type(part) in self._kinds for part in (one, two))
        return binary(self, name, two, one) if name == "-" and both else binary(self, name, one, two)

    patch.setattr(reader.Reader, "binary", wrong)


def goes_on_later(states, controls):
    out = stepped(states, controls)
    gains = [1.0]
    parts = map(lambda part: part * gains[0], [narrow(states[:, 0])])
    gains[0] = 2.0
    out[:, 1] += next(parts)
    return out


def eager(patch):
    lazy = pythons.HANDLERS[map]
    patch.setitem(pythons.HANDLERS, map, lambda *given: given[0].fresh(iter(list(lazy(*given)))))


class Shaped:
    """A property of the class comes before an attribute of the object."""

    def __init__(self):
        vars(self)["height"] = 1.0

    @property
    def height(self):
        return 3.0

    def __call__(self, states, controls):
        out = stepped(states, controls)
        out[:, 1] += self.height * narrow(states[:, 0])
        return out


def own_first(patch):
    from tether.trusted.reading import objects

    of_object = objects._of_object

    def wrong(given, value, name):
        held = getattr(value, "__dict__", {})
        return held[name] if name in held else of_object(given, value, name)

    patch.setattr(objects, "_of_object", wrong)


MISTAKES = {
    "unpacked from right to left": (assigns_twice, backwards),
    "adding in place makes another": (adds_in_place, apart),
    "views are copies": (writes_through_a_view, copied),
    "copies are views": (changes_a_copy, uncopied),
    "sorting is not stable": (sorts_alike, unstable),
    "operands are swapped": (subtracts, swapped),
    "what is lazy is eager": (goes_on_later, eager),
    "own attributes come first": (Shaped(), own_first),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_behind_a_narrow_bump_shows_in_twins(name, misread):
    model, make = MISTAKES[name]
    make(misread)
    with misread.context() as without:
        without.setattr(boxes, "difference", lambda *_: None)
        without.setattr(boxes, "_followed", {})
        fitted(model)  # which nothing else has seen
    with pytest.raises(EnclosureError, match="followed reliably"):
        fitted(model)
    assert "not followed reliably" in (verified(model) or "")


@pytest.mark.parametrize("name", MISTAKES)
def test_without_the_mistake_nothing_is_said(name):
    model, _ = MISTAKES[name]
    fitted(model)
    assert verified(model) is None


# Ways to be narrow ----------------------------------------------------------------------------------------------


class Params:
    width = 1e-6

    def __init__(self, center):
        self.center = center


class Method:
    def __init__(self):
        self.params = Params(0.123)

    def bump(self, x):
        return np.exp(-(((x - self.params.center) / self.params.width) ** 2))

    @cached_property
    def half(self):
        return 0.5e-6

    @staticmethod
    def other(x):
        return np.exp(-(((x - 0.123) / 0.000001) ** 2))


@dataclass(frozen=True)
class Frozen:
    width: float = 1e-6
    centers: tuple = (0.123, 0.4)
    more: list = field(default_factory=list)

    def bump(self, x):
        return np.exp(-(((x - self.centers[0]) / self.width) ** 2))


@dataclass(slots=True)
class Slotted:
    width: float = 1e-6

    def bump(self, x):
        return np.exp(-(((x - 0.123) / self.width) ** 2))


METHOD, FROZEN, SLOTTED = Method(), Frozen(), Slotted()


def with_default(x, width=1e-6, *, center=0.123):
    return np.exp(-(((x - center) / width) ** 2))


def made(width):
    return lambda x: np.exp(-(((x - 0.123) / width) ** 2))


IN_CLOSURE = made(1e-6)
IN_PARTIAL = partial(with_default, width=1e-6)


def by_a_loop(x):
    width = 1.0
    for _ in range(20):
        width = width / 2.0
    return np.exp(-(((x - 0.123) / width) ** 2))


def of_small_numbers(x):
    nine, three, ten = 9, 3, 10
    away = (x - three / ten) * (nine * nine * nine * nine * nine * nine * nine)
    return np.maximum(0.0, (1 / (1 + away * away)) ** 9 - 0.5)


def of_a_length(x):
    steep = len("a" * 99) ** 3
    return np.exp(-(((x - 0.123) * steep) ** 2))


NARROW = {
    "small whole numbers": of_small_numbers,
    "a length": of_a_length,
    "a number": narrow,
    "a name": lambda x: np.exp(-(((x - 0.123) / WIDTH) ** 2)),
    "a whole number": lambda x: np.exp(-(((x - 0.123) * 1_000_000) ** 2)),
    "a name of one": lambda x: np.exp(-(((x - 0.123) * STEEP) ** 2)),
    "a quotient": lambda x: np.exp(-(((x - 0.123) / (1 / 1_000_000)) ** 2)),
    "a power": lambda x: np.exp(-(((x - 0.123) / 10**-6) ** 2)),
    "a power of floats": lambda x: np.exp(-(((x - 0.123) / 10.0**-6) ** 2)),
    "shifted bits": lambda x: np.exp(-(((x - 0.123) * (1 << 20)) ** 2)),
    "text": lambda x: np.exp(-(((x - 0.123) / float("1e-6")) ** 2)),
    "machine precision": lambda x: np.exp(-(((x - 0.123) / np.finfo(float).eps) ** 2)),
    "a number of NumPy's": lambda x: np.exp(-(((x - 0.123) / SCALAR) ** 2)),
    "an array": lambda x: np.exp(-(((x - 0.123) / WIDTHS[0]) ** 2)),
    "a dictionary": lambda x: np.exp(-(((x - PLACE["center"]) / PLACE["width"]) ** 2)),
    "a namespace": lambda x: np.exp(-(((x - 0.123) / SETTINGS.width) ** 2)),
    "a named tuple": lambda x: np.exp(-(((x - BUMP.center) / BUMP.width) ** 2)),
    "a default": with_default,
    "a closure": IN_CLOSURE,
    "a partial": IN_PARTIAL,
    "an object": METHOD.bump,
    "a cached property": lambda x: np.exp(-(((x - 0.123) / METHOD.half) ** 2)),
    "a static method": Method.other,
    "a dataclass": FROZEN.bump,
    "one with slots": lambda x: SLOTTED.bump(x),
    "one that is made inside": lambda x: Frozen().bump(x),
    "a loop": by_a_loop,
    "a peak": lambda x: np.maximum(0.0, 1.0 / (1.0 + ((x - 0.123) / 1e-6) ** 2) - 0.5),
    "a tent": lambda x: np.maximum(0.0, 1.0 - np.abs(x - 0.123) / 1e-6),
    "a choice": lambda x: np.where(np.abs(x - 0.123) < 1e-6, 1.0, 0.0),
    "a choice by bits": lambda x: np.where(np.abs(x - 0.123) < 2.0 / (1 << 21), 1.0, 0.0),
    "one point": lambda x: np.where(x == 0.123, 1.0, 0.0),
    "far away": lambda x: np.where(x > FAR, 1.0, 0.0),
    "far away, whole": lambda x: np.where(x > 100_000, 1.0, 0.0),
    "far away, exponential": lambda x: np.exp((x - 50.0) * 20.0),
    "both": lambda x: np.where((x > 0.123) & (x < 0.1230001), 1.0, 0.0),
}


def hidden(bump):
    def model(states, controls):
        out = stepped(states, controls)
        speed = out[:, 1]
        speed += bump(states[:, 0])
        return out

    return model


@pytest.mark.parametrize("name", NARROW)
def test_a_mistake_shows_whatever_makes_the_feature_narrow(name, misread):
    model = hidden(NARROW[name])
    apart(misread)
    with pytest.raises(EnclosureError, match="followed reliably"):
        fitted(model)


def as_an_object(states, controls):
    return Method().params.center * stepped(states, controls)


@pytest.mark.parametrize("model", [Shaped(), Shaped().__call__, partial(hidden(narrow)), as_an_object])
def test_whatever_m_is_it_has_twins(model):
    kinds = []
    for style in twins._STYLES:
        made = twins._Twins(twins.Numbers(7, 0, style))
        twin = made.of(model)
        points = np.random.default_rng(0).uniform(-1, 1, (32, 3))
        values = np.asarray(twin(points[:, :2], points[:, 2:]))
        kinds.append(np.allclose(values, model(points[:, :2], points[:, 2:])))
        made.forget()
    assert not all(kinds)


# What honest models must not meet ---------------------------------------------------------------------------------


def never_ends(states, controls):
    """With other numbers it does not end."""
    step, count = 1.0, 0
    while step > 1e-9:
        step /= 2.0
        count += 1
    return stepped(states, controls) * (1.0 + 0.0 * count)


def of_many_rows(states, controls):
    """Turned around, it looks at how many rows there are."""
    if len(states) < 1:
        return np.zeros((0, 2))
    return stepped(states, controls)


def guarded(states, controls):
    if not 0.0 < WIDTH < 1.0:
        raise ValueError("a width that is none")
    return stepped(states, controls) * math.sqrt(1.0 - WIDTH)


def falls_back(states, controls):
    rows = []
    for row, force in zip(states, controls, strict=True):
        x, v = row
        v = v + 0.1 * force[0] if v > -10.0 else v
        rows.append([x + 0.1 * v, max(min(v, 2.0), -2.0)])
    return np.array(rows)


def all_of_them(states, controls):
    out = stepped(states, controls)
    for bump in NARROW.values():
        out[:, 1] += bump(states[:, 0])
    return out


HONEST = [
    all_of_them,
    never_ends,
    of_many_rows,
    guarded,
    falls_back,
    hidden(functools.partial(with_default, center=0.4)),
]


@pytest.mark.parametrize("model", HONEST)
def test_honest_models_are_left_alone(model):
    fitted(model)
    assert verified(model) is None


KEPT = np.array([0.0])


def keeps_something(states, controls):
    for row in states:
        if narrow(row[0]) > 0.5:
            KEPT[0] = 5.0
    return stepped(states, controls) + KEPT[0]


def test_what_is_kept_on_a_rare_way_shows_in_twins(misread):
    misread.setattr(Symbols, "impure", property(lambda self: False, lambda self, value: None))
    with misread.context() as without:
        without.setattr(boxes, "difference", lambda *_: None)
        without.setattr(boxes, "_followed", {})
        fitted(keeps_something)
    with pytest.raises(EnclosureError, match="call to call"):
        fitted(keeps_something)
    assert "call to call" in (verified(keeps_something) or "")
