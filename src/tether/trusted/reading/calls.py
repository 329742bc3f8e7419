"""Calls: what a function is by its identity, and who computes it.

Functions of the user's are read. Of Python's and NumPy's own those that are known to compute are called, where
no symbol is in what they are given; else they are the tracer's. No others are called.
"""

from __future__ import annotations

import copy
import functools
import itertools
import math
import operator
import types
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from tether.trusted.reading import objects, sources
from tether.trusted.reading.kinds import ATOMS, ITERATORS, is_namedtuple, is_namespace, is_users_class
from tether.trusted.reading.rewriting import UnreadableError

if TYPE_CHECKING:
    from tether.trusted.reading.reader import Reader

Arguments = tuple[Any, ...]
Options = dict[str, Any]
_SPACES = (np, np.linalg, np.fft, np.polynomial.polynomial, np.lib.stride_tricks)
_UNKNOWN = frozenset(
    {"DataSource", "array2string", "array_repr", "array_str", "asmatrix", "asarray_chkfinite", "astype",
     "base_repr", "binary_repr", "bmat", "broadcast", "busday_count", "busday_offset", "can_cast",
     "common_type", "datetime_as_string", "datetime_data", "errstate", "flatiter", "format_float_positional",
     "format_float_scientific", "from_dlpack", "frombuffer", "fromfile", "fromiter", "frompyfunc",
     "fromregex", "fromstring", "genfromtxt", "get_include", "get_printoptions", "getbufsize", "geterr",
     "geterrcall", "info", "is_busday", "isfortran", "isscalar", "issubdtype", "iterable", "load", "loadtxt",
     "matrix", "may_share_memory", "memmap", "min_scalar_type", "mintypecode", "ndarray", "ndenumerate",
     "nditer", "nested_iters", "printoptions", "promote_types", "put_along_axis", "require", "result_type",
     "save", "savetxt", "savez", "savez_compressed", "set_printoptions", "setbufsize", "seterr",
     "seterrcall", "shares_memory", "show_config", "show_runtime", "test", "typename", "vectorize",
     "busdaycalendar", "recarray", "record", "chararray", "isdtype", "lexsort"}
)  # fmt: skip
"""What NumPy has besides what computes."""
_CLASSES = frozenset({np.poly1d, np.dtype, np.finfo, np.iinfo, np.ndindex})
_WRITING = frozenset({np.copyto, np.put, np.place, np.putmask, np.fill_diagonal})
_TEXT = frozenset({str, repr, format, ascii, print, bin, oct, hex, chr, ord})
_OF_TRACER = frozenset({divmod, pow, round, float, int, complex})
_RNG = np.random.default_rng
_MUTATING = frozenset(
    {"fill", "sort", "put", "partition", "append", "extend", "insert", "pop", "remove", "clear", "reverse",
     "update", "setdefault", "popitem", "add", "discard", "appendleft", "extendleft", "popleft", "rotate",
     "intersection_update", "difference_update", "symmetric_difference_update"}
)  # fmt: skip
_NATIVE_OWNERS = (*ATOMS, tuple, frozenset, type, np.poly1d)


def _numpys() -> dict[int, Any]:
    """NumPy's functions that compute, by identity."""
    found: dict[int, Any] = {}
    kinds = (np.ufunc, type(np.sum), types.FunctionType, types.BuiltinFunctionType)
    for space in _SPACES:
        for name, value in vars(space).items():
            if isinstance(value, kinds) and not name.startswith("_") and name not in _UNKNOWN:
                found[id(value)] = value
    scalars = {kind for kind in np.sctypeDict.values() if kind not in (np.object_, np.void)}
    return found | {id(kind): kind for kind in (*_CLASSES, *scalars)}


_NUMPYS = _numpys()
_MATH = {id(value): value for name, value in vars(math).items() if callable(value) and name[0] != "_"}


class Called:
    """A function of the user's as compiled code may call it."""

    def __init__(self, reader: Reader, function: Any) -> None:
        self._reader, self._function = reader, function
        self.__name__ = getattr(function, "__name__", type(function).__name__)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self._reader.call(self._function, *arguments, **options)


class OfSymbol:
    """A method of a symbol."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function


def is_native(function: Any) -> bool:
    """Whether a function is NumPy's or math's: it has no state, and may be handed around."""
    return id(function) in _NUMPYS or id(function) in _MATH


def call(reader: Reader, function: Any, arguments: Arguments, options: Options) -> Any:
    """``function(*arguments, **options)``."""
    kind = type(function)
    if kind is types.FunctionType and sources.was_read(function.__code__):
        return _result(reader, function(*arguments, **options))
    if id(function) in _NUMPYS or id(function) in _MATH:
        return computed(reader, function, arguments, options)
    handler = _handler(function)
    if handler is not None:
        return handler(reader, *arguments, **options)
    if kind is types.FunctionType:
        return _result(reader, read(reader, function)(*arguments, **options))
    if kind is types.MethodType:
        return call(reader, function.__func__, (function.__self__, *arguments), options)
    if kind is OfSymbol:
        return _of_symbol(reader, function, arguments, options)
    if kind is Called:
        return function(*arguments, **options)
    if isinstance(function, type):
        return _constructed(reader, function, arguments, options)
    if kind is functools.partial:
        return call(reader, function.func, (*function.args, *arguments), {**function.keywords, **options})
    if objects.is_object(reader, function):
        found = objects.special(reader, function, "__call__")
        if found is not None:
            return call(reader, found, arguments, options)
    return _compiled(reader, function, arguments, options)


def read(reader: Reader, function: types.FunctionType) -> Callable[..., Any]:
    """A function of the user's, read; refused where it cannot be."""
    try:
        return sources.read(function, reader)
    except UnreadableError as error:
        reader.refuse(f"{error.why} ({sources.line_of(function.__code__, error.line)})")


def _result(reader: Reader, result: Any) -> Any:
    return reader.fresh(result) if type(result) is types.GeneratorType else result


def _handler(function: Any) -> Callable[..., Any] | None:
    try:
        return _HANDLERS.get(function)
    except TypeError:  # not hashable
        return None


def _given(
    reader: Reader, name: str, arguments: Arguments, options: Options
) -> tuple[Arguments, Options, bool]:
    pairs = [reader.prepared(value, name) for value in arguments]
    named = {key: reader.prepared(value, name) for key, value in options.items()}
    symbolic = any(pair[1] for pair in (*pairs, *named.values()))
    return tuple(pair[0] for pair in pairs), {key: pair[0] for key, pair in named.items()}, symbolic


def computed(reader: Reader, function: Any, arguments: Arguments, options: Options) -> Any:
    """What NumPy or math computes: by itself of plain values, by the tracer where there is a symbol."""
    name = function.__name__
    arguments, options, symbolic = _given(reader, name, arguments, options)
    if symbolic:
        return _known(reader, reader.symbols.call(function, arguments, options))
    return reader.made(function, function(*arguments, **options), (*arguments, *options.values()))


def _known(reader: Reader, result: Any) -> Any:
    if type(result) is list:
        return reader.fresh([_known(reader, part) for part in result])
    return result


def _of_symbol(reader: Reader, function: OfSymbol, arguments: Arguments, options: Options) -> Any:
    arguments, options, _ = _given(reader, "it", arguments, options)
    return _known(reader, function.function(*arguments, **options))


def joined(reader: Reader, joiner: Any, index: Any) -> Any:
    """``np.c_[...]`` and its like."""
    given, symbolic = reader.prepared(index, "c_")
    if symbolic:
        return reader.symbols.call(joiner, (given,), {})
    return reader.made(joiner, joiner[given], (given,))


def _constructed(reader: Reader, kind: type, arguments: Arguments, options: Options) -> Any:
    if issubclass(kind, BaseException):
        arguments, options, symbolic = _given(reader, kind.__name__, arguments, options)
        if symbolic or options:
            reader.refuse("it raises an error that holds numbers which are not known", "Leave them out")
        return kind(*arguments)
    if is_users_class(kind):
        return objects.construct(reader, kind, arguments, options)
    reader.refuse(f"it uses `{kind.__name__}`")


# Compiled methods -----------------------------------------------------------------------------------------


def _compiled(reader: Reader, function: Any, arguments: Arguments, options: Options) -> Any:
    """A function or a method that is not written in Python."""
    name = getattr(function, "__name__", type(function).__name__)
    owner = getattr(function, "__self__", None)
    if type(function) is types.BuiltinFunctionType and not isinstance(owner, types.ModuleType | None):
        return _method(reader, owner, function, name, arguments, options)
    descriptors = (types.MethodDescriptorType, types.WrapperDescriptorType)
    if isinstance(function, descriptors) and arguments and function.__objclass__ is type(arguments[0]):
        bound = function.__get__(arguments[0])
        return _method(reader, arguments[0], bound, name, arguments[1:], options)
    if function == object.__setattr__ and len(arguments) == 3:
        return objects.set_plainly(reader, *arguments)
    if function == object.__init__ and len(arguments) == 1:
        return None
    if type(function) is np.poly1d:
        return computed(reader, np.polyval, (function.coeffs, *arguments), options)
    if type(function) is operator.itemgetter:
        return _got(reader, function, arguments[0])
    module = getattr(function, "__module__", None) or type(function).__module__
    reader.refuse(f"it uses `{name}`" if module == "builtins" else f"it uses `{module}.{name}`")


def _got(reader: Reader, getter: Any, values: Any) -> Any:
    keys = getter.__reduce__()[1]
    found = tuple(reader.item(values, key) for key in keys)
    return found if len(keys) > 1 else found[0]


def _method(
    reader: Reader, owner: Any, function: Any, name: str, arguments: Arguments, options: Options
) -> Any:
    kind = type(owner)
    if kind is np.ufunc:
        return _of_ufunc(reader, owner, function, name, arguments, options)
    if kind in _MOVES and name in _MOVES[kind]:
        return _moved(reader, owner, function, name, arguments, options)
    if name in _MUTATING:
        reader.check_own(owner)
    if kind is np.ndarray:
        return _of_array(reader, owner, function, name, arguments, options)
    if owner is itertools.chain and name == "from_iterable":
        return reader.fresh(part for values in reader.iterate(arguments[0]) for part in reader.iterate(values))
    if name == "__next__" and kind in ITERATORS:
        return _next(reader, owner)
    own = kind is np.random.Generator and reader.is_own(owner) and name not in ("shuffle", "spawn")
    if kind in (list, tuple, dict, set, frozenset, deque) or own or kind in _NATIVE_OWNERS:
        if kind not in ATOMS and not own and reader.prepared(owner, name)[1]:
            reader.refuse(f"it uses `{name}` of a {kind.__name__} of numbers that are not known")
        if kind is str and name == "join":
            arguments = tuple(list(reader.iterate(value)) for value in arguments)
        arguments, options, symbolic = _given(reader, name, arguments, options)
        if symbolic or (kind is type and owner not in (dict, float, int)):
            reader.refuse(f"it uses `{kind.__name__}.{name}`")
        return reader.made(name, function(*arguments, **options), arguments)
    reader.refuse(f"it uses `{name}` of a {kind.__name__}")


_MOVES: dict[type, frozenset[str]] = {
    list: frozenset({"append", "extend", "insert", "pop", "copy", "clear", "reverse", "sort"}),
    dict: frozenset(
        {"get", "pop", "setdefault", "update", "items", "keys", "values", "copy", "clear", "popitem"}
    ),
    deque: frozenset({"append", "appendleft", "extend", "pop", "popleft", "copy", "clear", "rotate"}),
    set: frozenset({"add", "copy", "clear", "discard"}),
}
"""Methods that move entries, whatever they are, and look at none of them but keys."""


def _moved(
    reader: Reader, owner: Any, function: Any, name: str, arguments: Arguments, options: Options
) -> Any:
    if name in _MUTATING:
        reader.check_own(owner)
    if any(type(value) in reader.symbols.kinds for value in arguments[:1]) and name in _KEYED.get(
        type(owner), ()
    ):
        reader.refuse("it looks something up by a number that is not known", "Use np.where")
    if name == "sort":
        owner[:] = _sorted(reader, owner, *arguments, **options)
        return None
    if name == "extend":
        owner.extend(list(reader.iterate(arguments[0])))
        return None
    if name == "update":
        owner.update(_dict(reader, *arguments, **options))
        return None
    if type(owner) is dict and is_namespace(owner):
        reader.refuse("it looks into the names of a module", "Import what it needs")
    found = function(*arguments, **options)
    return reader.fresh(found) if name == "copy" else found


_KEYED = {
    dict: ("get", "pop", "setdefault"), list: ("pop", "insert"), set: ("add", "discard"), deque: ("rotate",)
}  # fmt: skip


def _of_ufunc(
    reader: Reader, owner: Any, function: Any, name: str, arguments: Arguments, options: Options
) -> Any:
    if id(owner) not in _NUMPYS:
        reader.refuse(f"it uses `{owner.__name__}.{name}`")
    arguments, options, symbolic = _given(reader, name, arguments, options)
    if symbolic:
        return reader.symbols.call(function, arguments, options)
    return reader.made(function, function(*arguments, **options), (*arguments, *options.values()))


def _of_array(
    reader: Reader, owner: Any, function: Any, name: str, arguments: Arguments, options: Options
) -> Any:
    """A method of one of NumPy's own arrays; with a symbol, the function of that name."""
    arguments, options, symbolic = _given(reader, name, arguments, options)
    if owner.dtype.hasobject:
        reader.refuse("it uses an array of objects", "Make it with np.array")
    if not symbolic:
        return reader.made(name, function(*arguments, **options), (owner, *arguments, *options.values()))
    same = getattr(np, name, None)
    if id(same) not in _NUMPYS or name in _MUTATING:
        reader.refuse(f"it uses `{name}` of an array of floats with numbers that are not known")
    return reader.symbols.call(same, (reader.prepared(owner, name)[0], *arguments), options)  # type: ignore[arg-type]


# Functions of Python's own --------------------------------------------------------------------------------


def _len(reader: Reader, values: Any) -> Any:
    kind = type(values)
    if kind in reader.symbols.kinds:
        return reader.symbols.call(len, (values,), {})
    if objects.is_object(reader, values) or is_namedtuple(kind):
        return objects.length(reader, values)
    return len(values)


def _sum(reader: Reader, values: Any, /, start: Any = 0) -> Any:
    parts = list(reader.iterate(values))
    if any(objects.is_object(reader, part) or type(part) in (list, tuple) for part in (*parts, start)):
        total = start
        for part in parts:
            total = reader.binary("+", total, part)
        return total
    given, symbolic = reader.prepared([start, *parts], "sum")
    if symbolic:
        return reader.symbols.call(sum, (given[1:], given[0]), {})
    return reader.made(sum, sum(given[1:], given[0]), given)


def _extreme(name: str) -> Callable[..., Any]:
    def extreme(reader: Reader, *values: Any, key: Any = None, default: Any = _len) -> Any:
        parts = list(reader.iterate(values[0])) if len(values) == 1 else list(values)
        if not parts:
            if default is _len:
                raise ValueError(f"{'max' if name == '>' else 'min'}() arg is an empty sequence")
            return default
        keys = parts if key is None else [reader.call(key, part) for part in parts]
        best = 0
        for k in range(1, len(parts)):
            if reader.truth(reader.binary(name, keys[k], keys[best])):
                best = k
        return parts[best]

    return extreme


def _sorted(reader: Reader, values: Any, /, *, key: Any = None, reverse: bool = False) -> Any:
    parts = list(reader.iterate(values))
    keys = parts if key is None else [reader.call(key, part) for part in parts]
    simple = all(type(one) in ATOMS for one in keys)
    if simple:
        order = sorted(range(len(parts)), key=keys.__getitem__, reverse=reverse)
        return reader.fresh([parts[k] for k in order])
    if reverse:
        reader.refuse("it sorts numbers that are not known from the greatest", "Sort, then reverse")
    order = []
    for k in range(len(parts)):  # stable, as Python's is
        place = len(order)
        while place and reader.truth(reader.binary("<", keys[k], keys[order[place - 1]])):
            place -= 1
        order.insert(place, k)
    return reader.fresh([parts[k] for k in order])


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
    if type(values) in (list, tuple, range, str):
        return reader.fresh(iter(list(values)[::-1]))
    if type(values) not in (*reader.symbols.kinds, np.ndarray):
        reader.refuse(f"it reverses a {type(values).__name__}")
    return reader.fresh(iter(list(reader.iterate(values))[::-1]))


def _iter(reader: Reader, values: Any) -> Any:
    return reader.fresh(reader.iterate(values))


def _next(reader: Reader, values: Any, *default: Any) -> Any:
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


def _dict(reader: Reader, values: Any = (), /, **options: Any) -> Any:
    pairs = values if type(values) is dict else [tuple(reader.iterate(p)) for p in reader.iterate(values)]
    return reader.fresh(dict(pairs, **options))


def _namespace(reader: Reader, **options: Any) -> Any:
    return reader.fresh(types.SimpleNamespace(**options))


def _reduce(reader: Reader, function: Any, values: Any, *start: Any) -> Any:
    parts = [*start, *reader.iterate(values)]
    if not parts:
        raise TypeError("reduce() of empty iterable with no initial value")
    total = parts[0]
    for part in parts[1:]:
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


def _repeat(reader: Reader, value: Any, times: Any = None) -> Any:
    return reader.fresh(itertools.repeat(value) if times is None else itertools.repeat(value, times))


def _setattr(reader: Reader, owner: Any, name: str, value: Any) -> None:
    reader.set_attribute(value, owner, name)


def _bool(reader: Reader, value: Any = False) -> bool:
    return reader.truth(value)


def _super(reader: Reader, *arguments: Any) -> Any:
    if len(arguments) != 2 or not objects.is_object(reader, arguments[1]):
        reader.refuse("it uses `super` in a way that cannot be followed")
    return super(*arguments)


def _range(reader: Reader, *limits: Any) -> Any:
    if not all(type(limit) in ATOMS for limit in limits):
        reader.refuse("it counts to a number that is not known", "Use a fixed number of rounds")
    return range(*limits)


def _slice(reader: Reader, *limits: Any) -> Any:
    del reader
    return slice(*limits)


def _copy(reader: Reader, value: Any) -> Any:
    kind = type(value)
    if kind in (list, dict, set, deque):
        return reader.fresh(copy.copy(value))
    if kind in ATOMS or kind in (tuple, frozenset):
        return value
    return _copied(reader, copy.copy, value)


def _deepcopy(reader: Reader, value: Any) -> Any:
    kind = type(value)
    if kind is list:
        return reader.fresh([_deepcopy(reader, part) for part in value])
    if kind is dict:
        return reader.fresh({key: _deepcopy(reader, part) for key, part in value.items()})
    if kind is tuple:
        return tuple(_deepcopy(reader, part) for part in value)
    return value if kind in ATOMS else _copied(reader, copy.deepcopy, value)


def _copied(reader: Reader, function: Any, value: Any) -> Any:
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
        arguments, options, symbolic = _given(reader, function.__name__, values, options)
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


_HANDLERS: dict[Any, Callable[..., Any]] = {
    len: _len, sum: _sum, min: _extreme("<"), max: _extreme(">"), sorted: _sorted, any: _any, all: _all,
    map: _map, filter: _filter, zip: _zip, enumerate: _enumerate, reversed: _reversed, iter: _iter,
    next: _next, list: _list, tuple: _tuple, set: _set, frozenset: _frozenset, dict: _dict, deque: _deque,
    types.SimpleNamespace: _namespace, functools.reduce: _reduce, functools.partial: _partial,
    itertools.accumulate: _accumulate, itertools.starmap: _starmap, itertools.repeat: _repeat,
    setattr: _setattr, bool: _bool, super: _super, range: _range, slice: _slice, copy.copy: _copy,
    copy.deepcopy: _deepcopy, _RNG: _random,
    operator.getitem: lambda reader, values, index: reader.item(values, index),
    operator.not_: lambda reader, value: not reader.truth(value),
    operator.truth: lambda reader, value: reader.truth(value),
    operator.contains: lambda reader, values, value: reader.compare("in", value, values),
    operator.itemgetter: lambda reader, *keys: operator.itemgetter(*keys),
    **{function: _operator(name) for function, name in objects.OPERATORS.items()},
    **{function: _unary(name) for function, name in objects.ONE.items()},
    **{function: _text(function) for function in _TEXT},
    **{function: _traced(function) for function in _OF_TRACER},
    **{
        kind: _moving(kind)
        for kind in (
            itertools.chain, itertools.product, itertools.combinations, itertools.permutations,
            itertools.islice, itertools.zip_longest, itertools.count, itertools.cycle, itertools.pairwise,
            itertools.combinations_with_replacement,
        )
    },
}  # fmt: skip
"""What Python's own functions and classes do, by what they are."""
