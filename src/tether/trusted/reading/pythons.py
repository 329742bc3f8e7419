"""What Python's own functions and classes do, with whatever they are given: they move and compare entries."""

from __future__ import annotations

import copy
import functools
import itertools
import operator
import types
from abc import ABCMeta
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from tether.trusted.reading import objects
from tether.trusted.reading.computing import computed, given
from tether.trusted.reading.kinds import ATOMS, ITERATORS, MOVED, READ, is_librarys, is_namedtuple

if TYPE_CHECKING:
    from tether.trusted.reading.reader import Reader

_TEXT = frozenset({str, repr, format, ascii, print, bin, oct, hex, chr, ord})
_OF_TRACER = frozenset({divmod, pow, round, float, int, complex})
_RNG = np.random.default_rng


_NOTHING = object()
_REAL = (int, float, np.integer, np.floating, np.bool_)


def _len(reader: Reader, values: Any) -> Any:
    kind = type(values)
    if kind in reader.symbols.kinds:
        return reader.symbols.call(len, (values,), {})
    if objects.is_object(reader, values) or is_namedtuple(kind):
        return objects.length(reader, values)
    reader.check_names(values)
    return len(values)


def _sum(reader: Reader, values: Any, /, start: Any = 0) -> Any:
    if type(start) in (str, bytes):
        raise TypeError("sum() can't sum strings")
    rest = reader.iterate(values)
    if not _is_pythons_number(reader, start):
        return _added(reader, start, rest)
    leading = []  # Python's numbers, which it adds up in its own way; whatever comes then, one by one
    for part in rest:
        if not _is_pythons_number(reader, part):
            return _added(reader, reader.binary("+", _total(reader, leading, start), part), rest)
        leading.append(part)
    return _total(reader, leading, start)


def _is_pythons_number(reader: Reader, value: Any) -> bool:
    kind = type(value)
    if kind in reader.symbols.kinds:
        return reader.symbols.is_pythons(value)
    return kind in (int, float, bool, complex)


def _total(reader: Reader, leading: list[Any], start: Any) -> Any:
    if any(type(part) in reader.symbols.kinds for part in (*leading, start)):
        return reader.symbols.call(sum, (leading, start), {}) if leading else start
    return sum(leading, start)


def _added(reader: Reader, total: Any, rest: Iterator[Any]) -> Any:
    for part in rest:
        total = reader.binary("+", total, part)
    return total


def _extreme(name: str) -> Callable[..., Any]:
    def extreme(reader: Reader, *values: Any, key: Any = None, default: Any = _NOTHING) -> Any:
        best = best_key = _NOTHING
        for part in reader.iterate(values[0] if len(values) == 1 else values):
            found = part if key is None else reader.call(key, part)
            if best is _NOTHING or reader.truth(reader.binary(name, found, best_key)):
                best, best_key = part, found
        if best is not _NOTHING:
            return best
        if default is _NOTHING:
            raise ValueError(f"{'max' if name == '>' else 'min'}() arg is an empty sequence")
        return default

    return extreme


def make_sorted(reader: Reader, values: Any, /, *, key: Any = None, reverse: bool = False) -> Any:
    """``sorted``."""
    if type(values) in (set, frozenset) and key is None and all(type(part) is str for part in values):
        parts = list(values)  # whatever their order is
    else:
        parts = list(reader.iterate(values))
    keys = parts if key is None else [reader.call(key, part) for part in parts]
    given, symbolic = reader.prepared(keys, "sorted")
    if not symbolic:
        order = sorted(range(len(parts)), key=given.__getitem__, reverse=reverse)
        return reader.fresh([parts[k] for k in order])
    for one in keys:
        if type(one) not in reader.symbols.kinds and (not isinstance(one, _REAL) or one != one):
            reader.refuse("it sorts numbers that are not known and others", "Use np.sort")
    order = []
    for k in range(len(parts))[:: -1 if reverse else 1]:  # stable, as Python's is
        place = len(order)
        while place and reader.truth(reader.binary("<", keys[k], keys[order[place - 1]])):
            place -= 1
        order.insert(place, k)
    return reader.fresh([parts[k] for k in order][:: -1 if reverse else 1])


def _any(reader: Reader, values: Any) -> bool:
    return any(reader.truth(part) for part in reader.iterate(values))


def _all(reader: Reader, values: Any) -> bool:
    return all(reader.truth(part) for part in reader.iterate(values))


def _map(reader: Reader, function: Any, *values: Any) -> Iterator[Any]:
    lanes = [reader.iterate(part) for part in values]
    return reader.fresh(reader.call(function, *parts) for parts in zip(*lanes, strict=False))


def _filter(reader: Reader, function: Any, values: Any) -> Iterator[Any]:
    def kept(part: Any) -> bool:
        return reader.truth(part if function is None else reader.call(function, part))

    lane = reader.iterate(values)
    return reader.fresh(part for part in lane if kept(part))


def _zip(reader: Reader, *values: Any, strict: bool = False) -> Any:
    return reader.fresh(zip(*(reader.iterate(part) for part in values), strict=strict))


def _enumerate(reader: Reader, values: Any, start: int = 0) -> Any:
    return reader.fresh(enumerate(reader.iterate(values), start))


def _reversed(reader: Reader, values: Any) -> Any:
    if type(values) in (list, tuple, range):
        return reader.fresh(reversed(values))
    if type(values) not in (*reader.symbols.kinds, np.ndarray):
        reader.refuse(f"it reverses a {type(values).__name__}")
    places = range(_len(reader, values) - 1, -1, -1)
    return reader.fresh(reader.item(values, k) for k in places)


def _iter(reader: Reader, values: Any) -> Any:
    return reader.fresh(reader.iterate(values))


def step(reader: Reader, values: Any, *default: Any) -> Any:
    """``next``."""
    if objects.is_object(reader, values):
        reader.refuse("it calls `next` on an object", "Use a loop")
    if type(values) not in ITERATORS:
        reader.refuse(f"it calls `next` on a {type(values).__name__}", "Use a loop")
    return next(reader.iterate(values), *default)


def _list(reader: Reader, values: Any = ()) -> Any:
    return reader.fresh(list(reader.iterate(values)))


def _tuple(reader: Reader, values: Any = ()) -> Any:
    return tuple(reader.iterate(values))


def _set(reader: Reader, values: Any = ()) -> Any:
    return reader.fresh(set(reader.iterate(values)))


def _frozenset(reader: Reader, values: Any = ()) -> Any:
    return frozenset(reader.iterate(values))


def _deque(reader: Reader, values: Any = (), maxlen: int | None = None) -> Any:
    return reader.fresh(deque(reader.iterate(values), maxlen))


def make_dict(reader: Reader, values: Any = (), /, **options: Any) -> Any:
    """``dict``."""
    return reader.fresh(update(reader, {}, values, **options))


def update(reader: Reader, owner: dict[Any, Any], values: Any = (), /, **options: Any) -> dict[Any, Any]:
    """``owner.update(values, **options)``: pair by pair, as they come."""
    if type(values) in READ:
        reader.check_names(values)
        owner.update(values)
    elif objects.is_object(reader, values) or is_namedtuple(type(values)):
        reader.refuse(f"it makes a dict of a {type(values).__name__}", "Use pairs in a list")
    else:
        for part in reader.iterate(values):
            pair = tuple(reader.iterate(part))
            if len(pair) != 2:
                raise ValueError(f"dictionary update sequence element has length {len(pair)}; 2 is required")
            owner[pair[0]] = pair[1]
    owner.update(options)
    return owner


def _namespace(reader: Reader, **options: Any) -> Any:
    return reader.fresh(types.SimpleNamespace(**options))


def _reduce(reader: Reader, function: Any, values: Any, *start: Any) -> Any:
    rest = reader.iterate(values)
    total = start[0] if start else next(rest, _NOTHING)
    if total is _NOTHING:
        raise TypeError("reduce() of empty iterable with no initial value")
    for part in rest:
        total = reader.call(function, total, part)
    return total


def _partial(reader: Reader, function: Any, /, *arguments: Any, **options: Any) -> Any:
    del reader
    return functools.partial(function, *arguments, **options)


def _accumulate(reader: Reader, values: Any, function: Any = operator.add, *, initial: Any = None) -> Any:
    def step(one: Any, two: Any) -> Any:
        return reader.call(function, one, two)

    return reader.fresh(itertools.accumulate(reader.iterate(values), step, initial=initial))


def _starmap(reader: Reader, function: Any, values: Any) -> Any:
    return reader.fresh(reader.call(function, *reader.iterate(part)) for part in reader.iterate(values))


def _moving(kind: Any) -> Callable[..., Any]:
    """An iterator that only moves entries, of iterables and of plain numbers."""

    def move(reader: Reader, *values: Any, **options: Any) -> Any:
        given = [part if type(part) in ATOMS else reader.iterate(part) for part in values]
        return reader.fresh(kind(*given, **options))

    return move


def _chain(reader: Reader, *values: Any) -> Any:
    return reader.fresh(part for lane in values for part in reader.iterate(lane))


def _product(reader: Reader, *values: Any, repeat: int = 1) -> Any:
    return reader.fresh(itertools.product(*[tuple(reader.iterate(lane)) for lane in values], repeat=repeat))


def _repeat(reader: Reader, value: Any, times: Any = None) -> Any:
    return reader.fresh(itertools.repeat(value) if times is None else itertools.repeat(value, times))


def _setattr(reader: Reader, owner: Any, name: str, value: Any) -> None:
    reader.set_attribute(value, owner, name)


def _bool(reader: Reader, value: Any = False) -> bool:
    return reader.truth(value)


def _isinstance(reader: Reader, value: Any, kinds: Any, /) -> bool:
    """Of what is exactly known: numbers, arrays, containers, and objects of the user's."""
    parts = kinds.__args__ if type(kinds) is types.UnionType else kinds if type(kinds) is tuple else (kinds,)
    if not all(type(part) is type or (type(part) is ABCMeta and is_librarys(part)) for part in parts):
        reader.refuse("it asks `isinstance` of a class that may answer for itself", "Leave it out")
    kind = type(value)
    if kind in reader.symbols.kinds:
        return issubclass(reader.symbols.kind(value), parts)
    known = kind in ATOMS | MOVED or kind is np.ndarray or objects.is_object(reader, value)
    if not known or any("__class__" in vars(part) for part in kind.__mro__[:-1]):
        reader.refuse(f"it asks `isinstance` of a {kind.__name__}", "Leave it out")
    return issubclass(kind, parts)


def _super(reader: Reader, *arguments: Any) -> Any:
    if len(arguments) != 2 or not objects.is_object(reader, arguments[1]):
        reader.refuse("it uses `super` in a way that cannot be followed")
    return super(arguments[0], arguments[1])


def _range(reader: Reader, *limits: Any) -> Any:
    if not all(type(limit) in ATOMS for limit in limits):
        reader.refuse("it counts to a number that is not known", "Use a fixed number of rounds")
    return range(*limits)


def _slice(reader: Reader, *limits: Any) -> Any:
    del reader
    return slice(*limits)


def _copy(reader: Reader, value: Any) -> Any:
    kind = type(value)
    if kind is dict:
        return make_dict(reader, value)
    if kind in (list, set, deque):
        return reader.fresh(copy.copy(value))
    if kind in ATOMS or kind in (tuple, frozenset):
        return value
    return _copied(reader, copy.copy, value)


def _deepcopy(reader: Reader, value: Any) -> Any:
    return _deeply(reader, value, {})


def _deeply(reader: Reader, value: Any, known: dict[int, Any]) -> Any:
    """A deep copy, in which what was one value is one again: `known` are the copies, by whose they are."""
    kind = type(value)
    if kind in ATOMS:
        return value
    if id(value) in known:
        return known[id(value)]
    if kind is list:
        known[id(value)] = copied = reader.fresh([])
        copied.extend(_deeply(reader, part, known) for part in value)
    elif kind is dict:
        reader.check_names(value)
        known[id(value)] = copied = reader.fresh({})
        for key, part in value.items():
            copied[_deeply(reader, key, known)] = _deeply(reader, part, known)
    elif kind is tuple:
        copied = tuple(_deeply(reader, part, known) for part in value)
        copied = known.setdefault(id(value), copied)
    else:
        known[id(value)] = copied = _copied(reader, copy.deepcopy, value)
    return copied


def _copied(reader: Reader, function: Any, value: Any) -> Any:
    if is_namedtuple(type(value)):
        reader.refuse(f"it copies a {type(value).__name__}", "Make it again")
    given, symbolic = reader.prepared(value, "copy")
    if symbolic:
        return reader.symbols.call(function, (given,), {})
    return reader.made(function, function(given))


def _random(reader: Reader, seed: Any = None) -> Any:
    if type(seed) not in ATOMS or seed is None:
        reader.refuse("it draws random numbers without a seed", "Give np.random.default_rng a number")
    return reader.fresh(_RNG(seed))


def _text(function: Any) -> Callable[..., Any]:
    def make(reader: Reader, *values: Any, **options: Any) -> Any:
        arguments, options, symbolic = given(reader, function.__name__, values, options)
        if symbolic:
            reader.refuse("it makes text of a number that is not known", "Leave it out")
        return function(*arguments, **options)

    return make


def _traced(function: Any) -> Callable[..., Any]:
    return lambda reader, *values, **options: computed(reader, function, values, options)


def _operator(name: str) -> Callable[..., Any]:
    return lambda reader, one, two: reader.binary(name, one, two)


def _unary(name: str) -> Callable[..., Any]:
    return lambda reader, value: reader.unary(name, value)


_OPERATORS = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/", operator.floordiv: "//",
    operator.mod: "%", operator.pow: "**", operator.matmul: "@", operator.and_: "&", operator.or_: "|",
    operator.xor: "^", operator.lt: "<", operator.le: "<=", operator.gt: ">", operator.ge: ">=",
    operator.eq: "==", operator.ne: "!=",
}  # fmt: skip
_UNARY = {operator.neg: "neg", operator.pos: "pos", operator.invert: "~", operator.abs: "abs", abs: "abs"}
HANDLERS: dict[Any, Callable[..., Any]] = {
    len: _len, sum: _sum, min: _extreme("<"), max: _extreme(">"), sorted: make_sorted, any: _any, all: _all,
    map: _map, filter: _filter, zip: _zip, enumerate: _enumerate, reversed: _reversed, iter: _iter,
    next: step, list: _list, tuple: _tuple, set: _set, frozenset: _frozenset, dict: make_dict, deque: _deque,
    types.SimpleNamespace: _namespace, functools.reduce: _reduce, functools.partial: _partial,
    itertools.chain: _chain, itertools.product: _product,
    itertools.accumulate: _accumulate, itertools.starmap: _starmap, itertools.repeat: _repeat,
    setattr: _setattr, isinstance: _isinstance, bool: _bool, super: _super, range: _range, slice: _slice,
    copy.copy: _copy, copy.deepcopy: _deepcopy, _RNG: _random,
    operator.getitem: lambda reader, values, index: reader.item(values, index),
    operator.not_: lambda reader, value: not reader.truth(value),
    operator.truth: lambda reader, value: reader.truth(value),
    operator.contains: lambda reader, values, value: reader.compare("in", value, values),
    operator.itemgetter: lambda reader, *keys: operator.itemgetter(*keys),
    **{function: _operator(name) for function, name in _OPERATORS.items()},
    **{function: _unary(name) for function, name in _UNARY.items()},
    **{function: _text(function) for function in _TEXT},
    **{function: _traced(function) for function in _OF_TRACER},
    **{
        kind: _moving(kind)
        for kind in (
            itertools.combinations, itertools.permutations, itertools.islice,
            itertools.zip_longest, itertools.count, itertools.cycle, itertools.pairwise,
            itertools.combinations_with_replacement,
        )
    },
}  # fmt: skip
"""What Python's own functions and classes do, by what they are."""
