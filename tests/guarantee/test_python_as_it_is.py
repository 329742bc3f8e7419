"""What Python and NumPy do by themselves, done as they do it: aliases, laziness, orders, memory that nobody set.

Models that were proved falsely because a list was copied that Python keeps, an iterator was emptied before its
time, or an order was taken for another. Both tracers follow them rightly, or refuse.
"""

from __future__ import annotations

import collections
import copy
import functools
import itertools
import types

import numpy as np
import pytest
from test_code_is_read import by_row, value_of

from tether.programs import EnclosureError, enclose, trace
from tether.programs.mathematics import MATHEMATICS
from tether.trusted.reading import computing
from tether.verification.graph import UnboundedError
from tether.verification.interpreter import enclose as enclose_again
from tether.verification.tracing import trace as trace_again

POINTS = np.stack([0.3 + np.array([-3e-8, 0.0, 1e-8]), np.full(3, 0.4317)], axis=1)
ORDERED, PROXY = collections.OrderedDict([("k1", 7.0)]), types.MappingProxyType({"k1": 7.0})
ZEROS, ONES, SINGLE = np.zeros(5), np.ones(5), np.ones(1, np.float32)
NAMES = {"alpha": 1.0, "beta": 2.0, "gamma": 7.0}
Keyed = collections.namedtuple("Keyed", ["keys", "b"])


def bounds_of(model):
    """Of the prover and of the verifier; None where it is refused."""
    try:
        found = enclose(trace(model, states=2, controls=0), POINTS, POINTS, states=2)
        room = found.rounding[:, 0]
        yield found.lower[:, 0] - room, found.upper[:, 0] + room
    except EnclosureError:
        yield None
    try:
        found = enclose_again(trace_again(model, 2, 0, 1), POINTS, POINTS, slopes=True)
        yield (found.lower.T - found.error.T)[:, 0], (found.upper.T + found.error.T)[:, 0]
    except UnboundedError:
        yield None


# Followed as it is ----------------------------------------------------------------------------------------


def deep_alias(x, y):
    row = [0.0]
    copied = copy.deepcopy([row, row])
    copied[0][0] = 7.0
    return copied[1][0]


def deep_alias_of_arrays(x, y):
    a = np.array([x, y])
    copied = copy.deepcopy({"a": a, "b": (a, [a])})
    copied["a"][0] = 7.0
    return copied["b"][1][0][0] + a[0]


def deep_cycle(x, y):
    one = [x]
    one.append(one)
    copied = copy.deepcopy(one)
    copied[1][0] = y
    return copied[0] + one[0]


def joined_dicts(x, y):
    kept, names = [y], {}
    names |= {"a": kept}
    kept[0] = x
    return names["a"][0]


def from_keys(x, y):
    kept = [0.0]
    names = dict.fromkeys("ab", kept)
    kept[0] = 7.0
    return names["a"][0]


def repeated(x, y):
    kept = [0.0]
    rows = [kept] * np.int64(2)
    kept[0] = 7.0
    return rows[1][0]


def dict_of_ordered(x, y):
    return dict(ORDERED).get("k1", 0.0)


def updated_by_proxy(x, y):
    names = {}
    names.update(PROXY, z=1.0)
    return names.get("k1", 0.0) + names["z"]


def reversed_array(x, y):
    a, total = np.array([x, y]), 0.0
    for v in reversed(a):
        a[0] = 7.0
        total = total + v
    return total


def reversed_plain(x, y):
    a, total = np.linspace(0.0, 1.0, 2), 0.0
    for v in reversed(a):
        a[0] = 7.0
        total = total + v
    return total


def extended(x, y):
    values = [x]
    values.extend(float(len(values)) for _ in range(3))
    values += (float(len(values)) for _ in range(3))
    values.extend(values)
    values += values
    return values[-1] + 10.0 * len(values)


def extended_deque(x, y):
    values = collections.deque([x], maxlen=3)
    values.extend(float(len(values)) for _ in range(2))
    values += (float(len(values)) for _ in range(2))
    return values[-1] + 10.0 * values[0]


def put_into_a_slice(x, y):
    values = [1.0, 2.0, 3.0]

    def parts():
        values.append(7.0)
        yield x

    values[1:] = parts()
    return values[-1] + len(values)


def updated_by_parts(x, y):
    names = {}
    names.update((k, float(len(names))) for k in range(4))
    return names[3]


def reduced(x, y):
    seen = []
    return functools.reduce(lambda a, b: (seen.append(b), a + b)[1], (float(len(seen)) for _ in range(5)))


class Logged:
    def __init__(self, v, log):
        self.v, self.log = v, log

    def __gt__(self, other):
        self.log.append(1.0)
        return self.v > other.v

    def __radd__(self, other):
        self.log.append(1.0)
        return self.v + other


def greatest(x, y):
    log = []
    return max(Logged(float(len(log)), log) for _ in range(4)).v


def greatest_by_key(x, y):
    seen = []
    return max((float(len(seen)) for _ in range(3)), key=lambda v: (seen.append(1.0), v)[1])


def added_up(x, y):
    log = []
    return sum(Logged(float(len(log)), log) for _ in range(4))


def added_up_as_they_change(x, y):
    def parts():
        a = np.array([x, 0.0])
        for _ in range(3):
            a += 1.0
            yield a

    return sum(parts())[1]


class Growing:
    def __init__(self):
        self.values = [1.0]

    def __iter__(self):
        return iter(list(self.values))


def chained(x, y):
    growing, total = Growing(), 0.0
    for v in itertools.chain([1.0], growing):
        growing.values.append(5.0)
        total = total + v
    return total


def multiplied_out(x, y):
    growing = Growing()

    def first():
        growing.values.append(5.0)
        yield x

    return float(len(list(itertools.product(first(), growing))))


def sorted_while_empty(x, y):
    values = [1.0, 7.0]
    values.sort(key=lambda v: v if len(values) else -v)
    return values[0]


def sorted_numbers(x, y):
    values = [y, 0.35, x, 1]
    values.sort(reverse=True)
    return values[1] + 10.0 * sorted(values)[0]


def sorted_sets(x, y):
    sets = sorted([frozenset({k % 7, k % 5}) for k in range(40)])
    return sum(float(k * k) * len(part) for k, part in enumerate(sets))


def sorted_names(x, y):
    return NAMES[sorted({"gamma", "alpha", "beta"})[-1]]


def small_set(x, y):
    return sum(float(k) for k in {1, 2, 3})


def sum_of_floats_first(x, y):
    return sum([1e16, 1.0, -1e16, x])


def least_where(x, y):
    return np.min(ONES, where=ZEROS > 0.0, initial=7.0)


def with_out(x, y):
    return np.divide(ONES, ZEROS, out=np.full(5, 7.0) * 1.0, where=ZEROS > 0.0)[2]


FOLLOWED = (
    deep_alias, deep_alias_of_arrays, deep_cycle, joined_dicts, from_keys, repeated, dict_of_ordered,
    updated_by_proxy, reversed_array, reversed_plain, extended, extended_deque, put_into_a_slice,
    updated_by_parts, reduced, greatest, greatest_by_key, added_up, added_up_as_they_change, chained,
    multiplied_out, sorted_while_empty, sorted_numbers, sorted_sets, sorted_names, small_set,
    sum_of_floats_first, least_where,
)  # fmt: skip


@pytest.mark.parametrize("row", FOLLOWED, ids=lambda row: row.__name__)
def test_it_is_followed_as_python_does_it(row):
    model = by_row(row)
    values = value_of(model, POINTS)
    for bounds in bounds_of(model):
        assert bounds is not None
        assert (bounds[0] <= values).all() and (values <= bounds[1]).all()


# Refused --------------------------------------------------------------------------------------------------


class Near:
    def __init__(self, v):
        self.v = v

    def __lt__(self, other):
        return self.v < other.v - 1.0


def sorted_objects(x, y):
    return sorted([Near(float(k * 7 % 5)) for k in range(40)])[3].v


def sorted_by_objects(x, y):
    return sorted([float(k * 7 % 5) for k in range(40)], key=Near)[3]


def sorted_with_nan(x, y):
    return sorted([y, float("nan"), x])[0]


def changed_while_sorted(x, y):
    values = [1.0, 2.0]
    values.sort(key=lambda v: (values.append(v), v)[1])
    return values[0]


def unset_by_where(x, y):
    return np.divide(ONES, ZEROS, where=ZEROS > 0.0)[2]


def unset_outside(x, y):
    return np.add.outer(ONES, ONES, where=False)[0, 0]


def unset_clipped(x, y):
    return np.clip(ONES, 0.0, 1.0, where=ZEROS > 0.0)[0] + ONES.clip(0.0, 1.0, where=ZEROS > 0.0)[0]


def unset_half(x, y):
    return np.divmod(ONES, ONES, np.zeros(5) * 1.0, where=ZEROS > 0.0)[1][0]


def empty_whole(x, y):
    return float(np.empty(5, dtype=np.int64)[2])


def empty_single(x, y):
    return float(np.empty_like(SINGLE)[0])


def set_of_names(x, y):
    return NAMES[list({"alpha", "beta", "gamma"})[-1]]


def loop_over_names(x, y):
    for name in frozenset(NAMES):
        return NAMES[name]


def text_of_names(x, y):
    return float(str({"alpha", "be"}).index("b"))


def set_by_history(x, y):
    return float(list({8, 0, 16})[-1])


def dict_of_keyed(x, y):
    return dict(Keyed(("a", 1.0), ("b", 2.0)))["a"]


def copied_tuple(x, y):
    return copy.deepcopy(Keyed(1.0, 2.0)).b


def repeated_in_place(x, y):
    one = two = [7.0]
    one *= np.int64(2)
    return float(len(two))


def array_added_to_a_list(x, y):
    values = [x, y]
    values += np.array([x, y])
    return float(len(values))


def plain_added_to_a_list(x, y):
    values = [1.0, 2.0]
    values += ONES[:2]
    return float(len(values))


class Right(Growing):
    def __radd__(self, other):
        return [7.0]


def object_added_to_a_list(x, y):
    values = [1.0, 2.0]
    values += Right()
    return values[0]


REFUSED = (
    sorted_objects, sorted_by_objects, sorted_with_nan, changed_while_sorted, unset_by_where, unset_outside,
    unset_clipped, unset_half, empty_whole, empty_single, set_of_names, loop_over_names, text_of_names,
    set_by_history, dict_of_keyed, copied_tuple, repeated_in_place,
    array_added_to_a_list, plain_added_to_a_list, object_added_to_a_list,
)  # fmt: skip


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: row.__name__)
def test_what_may_be_otherwise_is_refused(row):
    with pytest.raises(EnclosureError):
        trace(by_row(row), states=2, controls=0)
    with pytest.raises(UnboundedError):
        trace_again(by_row(row), 2, 0, 1)


def flat_reset(x, y):
    entries = np.array([x, y]).flat
    for _ in entries:
        break
    entries[0]
    return float(len(list(entries)))


def single_and_pythons(x, y):
    return (np.where(np.array([y > 0.0]), x.item(), SINGLE)[0] - x) * 1e9


def single_selected(x, y):
    return (np.select([np.array([y < 0.0])], [SINGLE], x.item())[0] - x) * 1e9


@pytest.mark.parametrize(
    "row", [flat_reset, single_and_pythons, single_selected, with_out], ids=lambda row: row.__name__
)
def test_it_is_right_or_refused(row):
    model = by_row(row)
    values = value_of(model, POINTS)
    for bounds in bounds_of(model):
        assert bounds is None or ((bounds[0] <= values).all() and (values <= bounds[1]).all())


def test_memory_out_of_bounds_is_nobodys():
    assert id(np.lib.stride_tricks.as_strided) not in computing.NUMPYS


def test_floats_before_a_whole_number_are_added_in_any_order():
    """From Python 3.12 on they are compensated: 1, where one after the other gives 0."""

    def row(x, y):
        return sum([1e16, 1.0, -1e16, round(y)])

    assert sum in MATHEMATICS
    found = enclose(trace(by_row(row), states=2, controls=0), POINTS, POINTS, states=2)
    low, high = found.lower[:, 0] - found.rounding[:, 0], found.upper[:, 0] + found.rounding[:, 0]
    assert (low[1:] <= 0.0).all() and (high[1:] >= 1.0).all()
