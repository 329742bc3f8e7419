"""What NumPy writes entry by entry, by position, or through an array without axes: right, or refused."""

import builtins
import contextlib
import enum
import numbers
import types

import numpy as np
import pytest

from tether.programs import EnclosureError, enclose
from tether.programs import trace as trace_to_fit
from tether.verification.graph import UnboundedError
from tether.verification.interpreter import enclose as enclose_again
from tether.verification.tracing import trace as trace_to_verify

POINT = np.array([[0.3, 0.4317]])


def first_is_an_int(x, y):
    seen = []

    def take(lane):
        seen.append(1)
        return 1 if len(seen) == 1 else lane[0]

    return np.apply_along_axis(take, 1, np.array([[x, 1.0], [y, 2.0]]))[1]


def flat_of_itself(x, y):
    a = np.array([x, y, 3.0])
    a.flat[:] = a[::-1]
    return a[2]


def diagonal_of_itself(x, y):
    m = np.array([[x, y], [2.0, 3.0]])
    np.fill_diagonal(m, np.einsum("ii->i", m)[::-1])
    return m[1, 1]


def placed_into_itself(x, y):
    a = np.array([x, y, 3.0])
    np.place(a[1:], np.ones(2, bool), a[:-1])
    return a[2]


def masked_itself(x, y):
    a = np.array([x, y, 3.0])
    a[np.ones(3, bool)] = a[::-1]
    return a[2]


def masked_by_a_list(x, y):
    a = np.array([x, y, 3.0])
    a[[True, True, True]] = a[::-1]
    return a[2]


def masked_in_stretches(x, y):
    a = np.array([x, y, 3.0, 4.0, 5.0, 6.0])
    a[np.array([0, 1, 1, 1, 0, 0], bool)] = a[:3]
    return a[3]


def summed_into(x, y):
    b = np.zeros(2)
    np.array([[x, y], [1.0, 2.0]]).sum(0, None, b)
    return b[0]


def greatest_into(x, y):
    b = np.zeros(2)
    np.max(np.array([[x, y], [1.0, 2.0]]), 0, b)
    return b[0]


def all_into(x, y):
    b = np.zeros(2)
    np.all(np.array([[x, y], [1.0, 2.0]]), 0, b)
    return b[0]


def joined_into(x, y):
    b = np.zeros(2)
    np.concatenate([np.array([x > -9.0]), np.array([y > -9.0])], 0, b)
    return b[0] + b[1]


def without_freedom(x, y):
    with_none = np.var(np.array([x, y, 2.0 * y]), ddof=5)
    return 1.0 / with_none


def viewed_by_none(x, y):
    b = np.where(x > -9.0, x, y)
    b[None][0] = 7.0
    return b + 0.0


def viewed_by_dots(x, y):
    b = np.where(x > -9.0, x, y)
    b[...][()] = 7.0
    return b + 0.0


def viewed_with_an_axis(x, y):
    b = np.where(x > -9.0, x, y)
    np.atleast_1d(b)[0] = 7.0
    return b + 0.0


def viewed_as_an_array(x, y):
    b = np.where(x > -9.0, x, y)
    np.asarray(b)[()] = 7.0
    return b + 0.0


def flat_as_an_array(x, y):
    a = np.array([x, y, 3.0])
    np.ravel(a.flat)[0] = 9.0
    return a[0]


def looked_at(x, y):
    a = np.array([x, y])
    np.einsum("i", a)[0] = 8.0
    return a[0]


def turned(x, y):
    a = np.array([[x, y], [1.0, 2.0]])
    np.einsum("ji", a)[0, 1] = 8.0
    return a[0, 1] + a[1, 0]


KNOWN = np.array([1.0, 2.0, 3.0])


def compressed(x, y):
    return KNOWN.compress(np.array([0.0, 1.0, 1.0]))[0]


class Counting:
    def __init__(self):
        self.log = []

    @property
    def kind(self):
        self.log.append(1)
        return float

    def default(self):
        self.log.append(1)
        return 1.0 * len(self.log)


def defaults_before_annotations(x, y):
    p = Counting()

    def inner(a: p.kind = p.default()):  # noqa: B008 (that is the point)
        return a

    return inner() * x


ROWS = [
    first_is_an_int, flat_of_itself, diagonal_of_itself, placed_into_itself, masked_itself, masked_by_a_list,
    masked_in_stretches, summed_into, greatest_into, all_into, joined_into, without_freedom, viewed_by_none,
    viewed_by_dots, viewed_with_an_axis, viewed_as_an_array, flat_as_an_array, defaults_before_annotations,
    looked_at, turned, compressed,
]  # fmt: skip


def model_of(row):
    return lambda s, u: np.array([[row(r[0], r[1])] for r in s])


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_is_right_or_refused(row):
    model = model_of(row)
    value = model(POINT, np.zeros((1, 0)))[0, 0]
    try:
        found = enclose(trace_to_fit(model, states=2, controls=0), POINT, POINT, states=2)
        assert found.lower[0, 0] <= value <= found.upper[0, 0]
    except EnclosureError:
        pass
    try:
        again = enclose_again(trace_to_verify(model, 2, 0, 1, (2,)), POINT, POINT, slopes=False)
        assert np.isnan(again.lower[0, 0]) or again.lower[0, 0] <= value <= again.upper[0, 0]
    except UnboundedError:
        pass


def masked_by_another(x, y):
    a = np.array([x, y, 3.0])
    a[np.array([True, False, True])] = a[:2].copy()
    return a[2]


def reversed_in_place(x, y):
    a = np.array([x, y, 3.0])
    a[:] = a[::-1]
    return a[2]


def chosen(x, y):
    return np.clip(np.where(x > 0.1, x, y), 0.0, 1.0) + np.array([np.where(y > 0.1, x, y), y])[0]


def summed(x, y):
    return np.sum(np.array([x, y]), 0) + np.array([x, y]).mean(0) + np.var(np.array([x, y]), 0)


@pytest.mark.parametrize("row", [masked_by_another, reversed_in_place, chosen, defaults_before_annotations])
def test_what_does_not_overlap_is_followed(row):
    model = model_of(row)
    value = model(POINT, np.zeros((1, 0)))[0, 0]
    found = enclose(trace_to_fit(model, states=2, controls=0), POINT, POINT, states=2)
    again = enclose_again(trace_to_verify(model, 2, 0, 1, (2,)), POINT, POINT, slopes=False)
    assert found.lower[0, 0] <= value <= found.upper[0, 0]
    assert again.lower[0, 0] <= value <= again.upper[0, 0]


@pytest.mark.parametrize("row", [summed_into, greatest_into, summed])
def test_what_is_given_by_position_is_followed_by_the_verifier(row):
    model = model_of(row)
    value = model(POINT, np.zeros((1, 0)))[0, 0]
    again = enclose_again(trace_to_verify(model, 2, 0, 1, (2,)), POINT, POINT, slopes=False)
    assert again.lower[0, 0] <= value <= again.upper[0, 0]


def masked_by_conditions(states, controls):
    out = np.zeros_like(states)
    x = states[:, 0]
    above = x > 0.35
    out[above, 0] = x[above] ** 2
    out[~above, 0] = -x[~above]
    out[:, 1] = states[:, 1]
    out[above] = out[above] * 2.0
    return out


def without_warnings(states, controls):
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = states[:, 0] / np.sqrt(states[:, 1])
    return np.column_stack([ratio, states[:, 1]])


@pytest.mark.parametrize("model", [masked_by_conditions, without_warnings])
def test_what_fit_follows_the_verifier_follows(model):
    points = np.random.default_rng(0).uniform(0.1, 0.9, (64, 2))
    values = model(points, np.zeros((64, 0)))
    found = enclose(trace_to_fit(model, states=2, controls=0), points, points, states=2)
    again = enclose_again(trace_to_verify(model, 2, 0, 2), points, points, slopes=False)
    for low, high in ((found.lower, found.upper), (again.lower.T, again.upper.T)):
        assert ((low <= values) & (values <= high)).all()


def raises_on_division(states, controls):
    with np.errstate(all="raise"):
        return states / controls


def hides_errors(states, controls):
    with contextlib.suppress(ValueError):
        raise ValueError
    return states * 1.0


@pytest.mark.parametrize("model", [raises_on_division, hides_errors])
def test_other_contexts_are_refused(model):
    with pytest.raises(EnclosureError, match="`with`"):
        trace_to_fit(model, states=2, controls=2)
    with pytest.raises(UnboundedError, match="`with`"):
        trace_to_verify(model, 2, 2, 2)


class Gain:
    value = 2.0


GAIN = Gain()


def asks_what_it_is_given(states, controls):
    rows = []
    for row in states:
        x = row[0]
        known = isinstance(states, np.ndarray) and isinstance(x, float) and isinstance(x, np.floating)
        plain = isinstance(x.item(), float) and not isinstance(x.item(), np.floating)
        others = isinstance(x, (int, float)) and isinstance(2, int) and isinstance(GAIN, Gain)
        truths = isinstance(x > 0.1, np.bool_) and isinstance(x.item() > 0.1, bool) and not isinstance(x, int)
        boxed = isinstance(np.where(x > 0.1, x, 1.0), np.ndarray) and isinstance(x, numbers.Real)
        rows.append([GAIN.value * x if known and plain and others and truths and boxed else -x, row[1]])
    return np.array(rows)


def test_what_a_value_is_can_be_asked():
    test_what_fit_follows_the_verifier_follows(asks_what_it_is_given)
    assert asks_what_it_is_given(POINT, POINT)[0, 0] == 2.0 * POINT[0, 0]


class Answering(type):
    def __instancecheck__(cls, value):
        return True


class Anything(metaclass=Answering):
    pass


def asks_whoever_answers(states, controls):
    return states * (2.0 if isinstance(states, Anything) else 1.0)


def test_a_class_that_answers_for_itself_is_refused():
    with pytest.raises(EnclosureError, match="isinstance"):
        trace_to_fit(asks_whoever_answers, states=2, controls=0)
    with pytest.raises(UnboundedError, match="isinstance"):
        trace_to_verify(asks_whoever_answers, 2, 0, 2)


class Column(enum.IntEnum):
    PLACE = 0
    SPEED = 1


class Odd(enum.IntEnum):
    ONE = 1

    def __index__(self):
        return 0


NAMES = ["place", "speed"]


def by_names(states, controls):
    out = np.zeros_like(states)
    out[:, Column.PLACE] = states[:, Column.PLACE] + 0.1 * states[:, Column.SPEED]
    out[:, Column.SPEED] = states[:, int(Column.SPEED)] * (Column.SPEED + 1) - len(NAMES[Column.PLACE])
    return out


def by_odd_names(states, controls):
    return states * 1.0 + states[:, Odd.ONE, None]


def test_columns_by_name():
    test_what_fit_follows_the_verifier_follows(by_names)
    with pytest.raises(EnclosureError, match="Odd"):
        trace_to_fit(by_odd_names, states=2, controls=0)


STORE, SEEN = np.array([0.0]), []


def keeps_in_an_array(x, y):
    if x > 1e6:
        STORE[0] = 5.0
    return x + STORE[0]


def keeps_what_it_is_given(x, y):
    if x > 1e6:
        STORE[0] = x
    return x + STORE[0]


def keeps_by_adding(x, y):
    store = STORE
    if x > 1e6:
        store += x
    return x + STORE[0]


def keeps_in_a_list(x, y):
    if x > 1e6:
        SEEN.append(x)
    return x + len(SEEN)


def counted():
    global COUNT
    COUNT += 1
    return 0.0


COUNT = 0


def keeps_elsewhere(x, y):
    return x + (counted() if x > 1e6 else 1.0 * COUNT)


KEEPING = [keeps_in_an_array, keeps_what_it_is_given, keeps_by_adding, keeps_in_a_list, keeps_elsewhere]


@pytest.mark.parametrize("row", KEEPING)
def test_what_keeps_something_on_a_rare_way_is_refused_as_a_whole(row):
    model = model_of(row)
    with pytest.raises(EnclosureError):
        trace_to_fit(model, states=2, controls=0)
    with pytest.raises(UnboundedError):
        trace_to_verify(model, 2, 0, 1)


def raises_on_a_rare_way(x, y):
    if x > 1e6:
        raise ValueError(f"`x` must be small; got {x}.")
    return x * y


def test_what_raises_on_a_rare_way_is_followed_elsewhere():
    model = model_of(raises_on_a_rare_way)
    found = enclose(trace_to_fit(model, states=2, controls=0), POINT, POINT, states=2)
    again = enclose_again(trace_to_verify(model, 2, 0, 1), POINT, POINT, slopes=False)
    assert found.lower[0, 0] <= model(POINT, POINT)[0, 0] <= found.upper[0, 0]
    assert again.lower[0, 0] <= model(POINT, POINT)[0, 0] <= again.upper[0, 0]


def other_builtins(s, u):
    return np.abs(s) + abs(s)


def test_other_functions_of_pythons_are_refused():
    other = types.FunctionType(other_builtins.__code__, {**globals(), "__builtins__": {"abs": np.negative}})
    other.__globals__["__builtins__"] = builtins
    with pytest.raises(EnclosureError, match="Python's"):
        trace_to_fit(other, states=2, controls=0)


def test_code_that_calls_itself_frozen_is_seen():
    text = "class Key:\n    def __hash__(self): return 1\n    def __eq__(self, other): return True\n"
    space = {"__name__": "frozen_key"}
    exec(compile(text, "<frozen key>", "exec"), space)
    one, two = space["Key"](), space["Key"]()
    table = {one: 5.0}
    with pytest.raises(EnclosureError, match="without being read"):
        trace_to_fit(lambda s, u: s + table.get(two, 0.0), states=2, controls=0)


def test_what_has_no_axes_and_is_changed_by_another_name_is_refused_in_words():
    def model(states, controls):
        del controls
        found = []
        for row in states:
            total = np.zeros(())
            other = total
            other += row[0]
            found.append([total + row[1]])
        return np.array(found)

    with pytest.raises(EnclosureError, match="into an array without axes, or one that may be a view"):
        trace_to_fit(model, states=2, controls=0)
