"""NumPy arrays of terms: structure is NumPy's own, mathematics is that of :mod:`operations`.

Views, copies, splitting, stacking and assignment happen in NumPy, on object arrays of immutable entries that
this package hands over. What NumPy would make of M's own arrays (type, shape, memory) is asked of NumPy, with
arrays of ones that are like them; a result that is not so is refused.
"""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable, Iterable
from functools import lru_cache
from types import FunctionType
from typing import Any

import numpy as np

from tether.verification.graph import Graph, Term, Unasked, as_term, constant_of, number, select, truth
from tether.verification.operations import SCALAR, apply_or_fold, total

FUNCTIONS: dict[Any, Callable[..., Any]] = {}
"""What computes, from a graph and M's arguments to entries, by NumPy's function; see :mod:`reductions`."""
TEMPLATES: dict[Any, Callable[..., Any]] = {}
"""What is called on ones in the place of functions that cannot take them."""
DECIDED: dict[Any, Callable[..., Any]] = {}
"""What answers conditions one way and, in another run, the other; see :mod:`routines`."""
_NAMES = (
    "reshape", "ravel", "transpose", "swapaxes", "moveaxis", "rollaxis", "squeeze", "expand_dims",
    "broadcast_to", "broadcast_arrays", "take", "take_along_axis", "roll", "rot90", "flip", "fliplr",
    "flipud", "repeat", "tile", "split", "array_split", "hsplit", "vsplit", "dsplit", "copy", "diagonal",
    "diag", "diagflat", "tril", "triu", "atleast_1d", "atleast_2d", "atleast_3d", "delete", "insert",
    "append", "resize", "meshgrid", "unstack", "permute_dims", "matrix_transpose",
)  # fmt: skip
STRUCTURE = frozenset(getattr(np, name) for name in _NAMES if hasattr(np, name))
"""What only moves entries."""
JOINERS = frozenset(
    getattr(np, name)
    for name in ("stack", "concatenate", "concat", "vstack", "hstack", "dstack", "column_stack", "block")
    if hasattr(np, name)
)
"""The same of lists of arrays."""
_SAYING = frozenset({np.shape, np.ndim, np.size, np.zeros_like, np.ones_like})
"""What does not depend on the numbers."""
WRITERS = frozenset({np.put, np.fill_diagonal})
"""What moves entries into its first argument."""
_BYTES = np.dtype(object).itemsize


class HasTermsError(Exception):
    """Something depends on the inputs."""


class TermArray(Unasked):
    """An array of M's: its entries, and whether they are truth values.

    Attributes:
        graph: of the trace.
        entries: object array of terms, float64 numbers or NumPy's truth values, in memory as M's own are.
        truths: whether M's own array is of booleans; else it is of float64.
    """

    __slots__ = ("entries", "graph", "truths")

    def __init__(self, graph: Graph, entries: np.ndarray, truths: bool = False) -> None:
        self.graph, self.entries, self.truths = graph, entries, truths

    @property
    def dtype(self) -> np.dtype:
        """That of M's own array."""
        return _TRUTHS if self.truths else _NUMBERS


_NUMBERS, _TRUTHS = np.dtype(np.float64), np.dtype(bool)
_SYMBOLS = frozenset({Term, TermArray})

# What M's own values are like -----------------------------------------------------------------------------


def has_symbols(value: Any) -> bool:
    """Whether there is a term or an array of them in it."""
    kind = type(value)
    if kind in (list, tuple):
        return any(map(has_symbols, value))
    return any(map(has_symbols, value.values())) if kind is dict else kind in _SYMBOLS


def alike(value: Any) -> Any:
    """What M's own value is like: kind, shape, place in memory; its numbers are ones."""
    kind = type(value)
    if kind is Term:
        return value.kind(1)
    if kind is TermArray:
        return _ones(value.entries.shape, _steps(value.entries), value.dtype)
    if kind in (list, tuple):
        return kind(map(alike, value))
    if kind is dict:
        return {key: alike(part) for key, part in value.items()}
    return value.copy(order="K") if kind is np.ndarray and value.flags.writeable else value


def _steps(array: np.ndarray) -> tuple[int, ...]:
    """Strides, counted in entries."""
    return tuple(step // array.itemsize for step in array.strides)


def _ones(shape: tuple[int, ...], steps: tuple[int, ...], kind: np.dtype) -> np.ndarray:
    spans = [step * (n - 1) for step, n in zip(steps, shape, strict=True) if n]
    low, high = sum(min(0, span) for span in spans), sum(max(0, span) for span in spans)
    strides = [step * kind.itemsize for step in steps]
    return np.ndarray(shape, kind, np.ones(high - low + 1, kind), -low * kind.itemsize, strides)


def actual(value: Any, arrays: list[np.ndarray]) -> Any:
    """M's own value, its arrays added to a list; raises HasTermsError where there are terms in it."""
    kind = type(value)
    if kind is Term:
        raise HasTermsError
    if kind is TermArray:
        if any(type(entry) is Term for entry in value.entries.flat):
            raise HasTermsError
        made = alike(value)
        made[...] = value.entries  # what overlaps holds the same
        made.flags.writeable = False
        value = made
    elif kind in (list, tuple):
        return kind([actual(part, arrays) for part in value])
    elif kind is dict:
        return {key: actual(part, arrays) for key, part in value.items()}
    if type(value) is np.ndarray:
        arrays.append(value)
    return value


def from_numpy(graph: Graph, result: Any, arrays: Iterable[np.ndarray] = ()) -> Any:
    """What NumPy made of plain numbers, as M gets it."""
    if isinstance(result, tuple | list):
        parts = [from_numpy(graph, part, arrays) for part in result]
        return parts if isinstance(result, list) else tuple(parts)
    if type(result) is not np.ndarray:
        if isinstance(result, np.ndarray | np.void) or (result is not None and not np.isscalar(result)):
            graph.refuse(f"a {type(result).__name__}, which cannot be followed")
        return result
    if any(np.may_share_memory(result, array) for array in arrays) or result.dtype.hasobject:
        graph.refuse("a view of an array, by a function that has no rule here (write .copy())")
    if result.dtype not in (_NUMBERS, _TRUTHS):
        return result
    return TermArray(graph, objects(graph, result), result.dtype == _TRUTHS)


# Entries --------------------------------------------------------------------------------------------------


def packed(values: Iterable[Any], shape: tuple[int, ...]) -> np.ndarray:
    """An object array of entries in order."""
    return np.fromiter(values, dtype=object, count=math.prod(shape)).reshape(shape)


def objects(graph: Graph, array: np.ndarray) -> np.ndarray:
    """An object array of the same numbers as float64 or NumPy's truth values, alike in memory."""
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        graph.refuse(f"numbers of type {array.dtype}")
    floats = array if array.dtype.kind == "b" else array.astype(np.float64)
    if array.dtype.kind in "iu" and any(constant_of(k) is None for k in array.ravel().tolist()):
        graph.refuse("an integer that float64 does not hold exactly")
    result = np.empty_like(array, dtype=object, subok=False)
    kind = np.bool_ if array.dtype.kind == "b" else np.float64
    result[...] = packed(map(kind, floats.ravel().tolist()), array.shape)
    return result


def plain(graph: Graph, value: Any) -> np.ndarray:
    """The entries of what M gives where NumPy takes an array."""
    kind = type(value)
    if kind is TermArray:
        if value.graph is not graph:
            graph.refuse("an array kept from an earlier call")
        return value.entries
    if kind is Term:
        return packed([value], ())
    if kind is np.ndarray and value.dtype == object:
        return value  # ours: M has none
    if kind in (list, tuple) and has_symbols(value):
        return as_array(graph, value).entries
    array = np.asarray(value)
    if type(array) is not np.ndarray or kind in (dict, set, str, bytes, type(None)):
        graph.refuse(f"a {kind.__name__} in place of an array")
    return objects(graph, array)


def as_array(graph: Graph, value: Any) -> TermArray:
    """``np.array`` of a list with symbols in it, or of one alone."""
    template = np.array(alike(value))
    return fitted(graph, "array", template, _nested(graph, value))


def _nested(graph: Graph, value: Any) -> np.ndarray:
    if type(value) in (list, tuple) and has_symbols(value):
        return np.stack([_nested(graph, part) for part in value])
    return plain(graph, value)


def _as_number(graph: Graph, entry: Any) -> Any:
    kind = type(entry)
    if kind is np.float64:
        return entry
    if kind is Term:
        entry = number(entry) if entry.boolean else entry
        return Term(graph, entry.number) if entry.python else entry
    value = constant_of(entry)
    if value is None:
        graph.refuse(f"a {kind.__name__} among the numbers that float64 does not hold exactly")
    return np.float64(value)


def _as_truth(graph: Graph, entry: Any) -> Any:
    kind = type(entry)
    if kind is np.bool_ or (kind is Term and entry.boolean and not entry.python):
        return entry
    if kind is bool or (kind is Term and entry.boolean):
        return np.bool_(entry) if kind is bool else Term(graph, entry.number)
    graph.refuse("numbers in place of truth values")


def fitting(graph: Graph, entries: np.ndarray, truths: bool) -> np.ndarray:
    """Entries as an array of float64, or of truth values, has them: itself where nothing is to be changed."""
    flat, fit = list(entries.flat), _as_truth if truths else _as_number
    made = [fit(graph, entry) for entry in flat]
    if all(map(operator.is_, flat, made)):
        return entries
    result = np.empty_like(entries)
    result[...] = packed(made, entries.shape)
    return result


def fitted(graph: Graph, name: str, template: Any, found: Any, *, moves: bool = False) -> Any:
    """What was found, as the kind of thing that NumPy makes: `template` is what it made of ones."""
    if type(template) in (tuple, list):
        parts = zip(template, found, strict=True)
        return type(template)([fitted(graph, name, one, two, moves=moves) for one, two in parts])
    single = type(template) is not np.ndarray
    kind = np.dtype(type(template)) if single else template.dtype
    if kind not in (_NUMBERS, _TRUTHS) or (single and type(template) not in _SINGLE):
        graph.refuse(f"np.{name}, which makes numbers of type {kind} (multiply by 1.0 first)")
    entries = found if type(found) is np.ndarray else packed([found], ())
    if entries.dtype != object:
        entries = objects(graph, entries)
    if entries.shape != np.shape(template):
        graph.refuse(f"np.{name} of shape {entries.shape}, not {np.shape(template)}")
    entries = fitting(graph, entries, kind == _TRUTHS)
    if single:
        entry = entries[()]
        if type(entry) is Term:
            return Term(graph, entry.number, python=type(template) in (float, bool))
        return type(template)(entry)
    if not _same_layout(entries, template):
        if moves:
            graph.refuse(f"np.{name}, whose result is not in memory as NumPy's is")
        laid_out = np.empty_like(template, dtype=object)
        laid_out[...] = entries
        entries = laid_out
    return TermArray(graph, entries, kind == _TRUTHS)


_SINGLE = (float, bool, np.float64, np.bool_)


def _same_layout(entries: np.ndarray, template: np.ndarray) -> bool:
    steps = zip(entries.shape, entries.strides, template.strides, strict=True)
    return not entries.size or all(n == 1 or one * template.itemsize == two * _BYTES for n, one, two in steps)


# What NumPy's functions do --------------------------------------------------------------------------------


def call(graph: Graph, function: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """A function of NumPy's with symbols among its arguments."""
    args, options = _named(function, args, options)
    if function in STRUCTURE or function in JOINERS or _is_view_by_einsum(function, args, options):
        return moved(graph, function, args, options)
    if function in WRITERS:
        return _written(graph, function, args, options)
    if function in DECIDED and has_symbols((args, options)):
        return DECIDED[function](graph, *args, **options)
    if function in _SAYING or (function is np.full_like and not has_symbols((*args[1:], options))):
        return from_numpy(graph, function(*alike(args), **alike(options)))
    if type(function) is np.ufunc and len(args) > function.nin:
        options = {**options, "out": args[function.nin :]}
        args = args[: function.nin]
    if options.get("out") is None and function not in (np.empty_like, np.copyto):
        options = {key: value for key, value in options.items() if key != "out"}
        try:
            return _by_numpy(graph, function, args, options)
        except HasTermsError:
            pass
    return _by_rule(graph, function, args, dict(options))


def _with_out() -> dict[Any, tuple[str, ...]]:
    """The arguments of each of NumPy's functions that writes where it is told, in order."""
    found: dict[Any, tuple[str, ...]] = {np.concatenate: ("arrays", "axis", "out")}
    for function in (*vars(np).values(), *vars(np.linalg).values()):
        if type(function) not in (type(np.sum), FunctionType):
            continue
        try:
            parts = inspect.signature(function).parameters.values()
        except (TypeError, ValueError):  # written in C
            continue
        names = tuple(part.name for part in parts if part.kind is not part.KEYWORD_ONLY)
        if "out" in names:
            found[function] = names
    return found


_WITH_OUT = _with_out()  # once, because Python's own code that finds it may not run while M does


def _named(function: Any, args: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """With `out`, and what comes behind it, by name."""
    names = _WITH_OUT.get(function, ())
    first = names.index("out") if names else len(args)
    return args[:first], {**dict(zip(names[first:], args[first:], strict=False)), **options}


def _by_rule(graph: Graph, function: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    owner = getattr(function, "__self__", None)
    if type(function) is np.ufunc or type(owner) is np.ufunc:
        return _of_ufunc(graph, function, function if owner is None else owner, args, options)
    if function not in FUNCTIONS:
        graph.refuse(f"np.{function.__name__}, which has no rule here")
    template = _made_of_ones(TEMPLATES.get(function, function), args, options)
    out = options.pop("out", None)
    given = [array.entries for array, _ in _pairs((args, options), (args, options))]
    own = out.entries if type(out) is TermArray and function not in _IN_PLACE else None
    if own is not None and any(np.may_share_memory(own, entries) for entries in given):
        graph.refuse(f"np.{function.__name__} into an array that it is given")
    try:
        found = FUNCTIONS[function](graph, *args, **options)
    except TypeError as error:
        graph.refuse(f"np.{function.__name__} with arguments that have no rule here ({error})")
    if type(found) is np.ndarray and any(np.may_share_memory(found, entries) for entries in given):
        found = found.copy()  # what computes makes an array of its own
    return None if template is None else _finished(graph, function.__name__, template, found, out)


_IN_PLACE = frozenset({np.clip, np.round, np.around})
"""What is elementwise, and may write into what it is given."""


def _made_of_ones(function: Any, args: Any, options: dict[str, Any]) -> Any:
    """What NumPy makes of what is like M's arguments; raises where NumPy does."""
    if options.get("out") is not None:
        function(*alike(args), **alike(options))
    rest = {key: alike(value) for key, value in options.items() if key != "out"}
    return function(*alike(args), **rest)


def _is_view_by_einsum(function: Any, args: tuple[Any, ...], options: dict[str, Any]) -> bool:
    """Whether it sums nothing of one array, and only looks at it another way: NumPy says so."""
    if function is not np.einsum or options.get("out") is not None:
        return False
    like = alike(args), alike(options)
    made = np.einsum(*like[0], **like[1])
    return any(np.may_share_memory(made, array) for array in _arrays(like))


def _by_numpy(graph: Graph, function: Any, args: Any, options: Any) -> Any:
    """What NumPy itself makes of numbers that no input has a part in."""
    arrays: list[np.ndarray] = []
    given = actual(args, arrays), actual(options, arrays)
    name = function.__name__
    others = (type(value) for value in (*args, *options.values()) if callable(value))
    if name == "at" or not _NAMED.issuperset(others):
        graph.refuse(f"np.{name}, which has no rule here")
    before = [array.tobytes() for array in arrays]
    with np.errstate(all="ignore"):
        result = function(*given[0], **given[1])
    if any(array.tobytes() != was for array, was in zip(arrays, before, strict=True)):
        graph.refuse(f"np.{name}, which writes into what it is given")  # read-only or not
    return from_numpy(graph, result, arrays)


_NAMED = frozenset({Term, TermArray, type, np.ufunc, type(np.sum)})
"""What can be called and runs no code of M's."""


def _finished(graph: Graph, name: str, template: Any, found: Any, out: Any) -> Any:
    result = fitted(graph, name, template, found)
    if out is None:
        return result
    target = out[0] if type(out) is tuple and len(out) == 1 else out
    if type(target) is not TermArray:
        graph.refuse("an assignment into an array that was made elsewhere (make it inside M with np.zeros)")
    entries = plain(graph, result)
    if entries.shape != target.entries.shape:
        graph.refuse("an `out=` of another shape")
    target.entries[...] = fitting(graph, entries, target.truths)
    return target


def moved(graph: Graph, function: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """What only moves entries: done by NumPy to entries; what it does to ones must be the same."""
    if options.get("out") is not None:
        graph.refuse("`out=` of what moves entries (assign to it)")
    if function is np.broadcast_arrays:
        args = tuple(value if has_symbols(value) else _made(graph, value) for value in args)
    if function is not np.block:  # for which lists are no arrays
        lists = function in JOINERS or function in _BRACKETS
        args = tuple(_arrayed(graph, value, inside=lists) for value in args)
        options = {key: _arrayed(graph, value, inside=lists) for key, value in options.items()}
    ones = alike(args), alike(options)
    template = function(*ones[0], **ones[1])
    found = function(*_entries(graph, args), **_entries(graph, options))
    name = getattr(function, "__name__", "function")
    for array in _arrays(found):
        if array.dtype != object and any(
            np.may_share_memory(array, own) and own.flags.writeable for own in _arrays([args, options])
        ):
            graph.refuse(f"np.{name}, whose result is a view of an array of plain numbers")
    pairs = [(array.entries, like) for array, like in _pairs((args, options), ones)]
    for one, two in zip(_arrays(template), _arrays(found), strict=True):
        of = [entries for entries, like in pairs if np.may_share_memory(one, like)]
        for entries, _ in pairs:
            if np.may_share_memory(two, entries) != any(np.may_share_memory(part, entries) for part in of):
                graph.refuse(f"np.{name}, which shares memory otherwise here than in NumPy")
    return fitted(graph, name, template, found, moves=True)


_BRACKETS = {np.c_.__getitem__, np.r_.__getitem__}


def _arrayed(graph: Graph, value: Any, *, inside: bool) -> Any:
    """With lists of symbols as arrays; `inside`: those in a list."""
    if type(value) not in (list, tuple) or not has_symbols(value):
        return value
    if not inside:
        return as_array(graph, value)
    return type(value)(_arrayed(graph, part, inside=False) for part in value)


def _made(graph: Graph, value: Any) -> Any:
    array = np.asarray(value)
    if array.dtype != _NUMBERS or (array is value and value.flags.writeable):
        return value
    return TermArray(graph, objects(graph, array))


def _entries(graph: Graph, value: Any) -> Any:
    """As NumPy is given it: object arrays in place of symbols."""
    if type(value) in _SYMBOLS:
        return plain(graph, value)
    if type(value) in (list, tuple):
        return type(value)(_entries(graph, part) for part in value)
    return {key: _entries(graph, part) for key, part in value.items()} if type(value) is dict else value


def _pairs(value: Any, ones: Any) -> Iterable[tuple[TermArray, np.ndarray]]:
    """Arrays of terms, and what stands for them."""
    if type(value) is TermArray:
        yield value, ones
    elif type(value) in (list, tuple, dict):
        keys = value if type(value) is dict else range(len(value))
        for key in keys:
            yield from _pairs(value[key], ones[key])


def _arrays(value: Any) -> list[np.ndarray]:
    if type(value) in (list, tuple, dict):
        parts = value.values() if type(value) is dict else value
        return [array for part in parts for array in _arrays(part)]
    return [value] if type(value) is np.ndarray else []


def _written(graph: Graph, function: Any, args: tuple[Any, ...], options: dict[str, Any]) -> None:
    """What moves entries into an array: done to a copy, which the array takes over."""
    target, *rest = args
    if type(target) is not TermArray:
        graph.refuse("an assignment into an array that was made elsewhere (make it inside M with np.zeros)")
    rest = [_arrayed(graph, value, inside=False) for value in rest]
    if function is np.fill_diagonal:
        _check_apart(graph, target, *(value for value in rest if type(value) is TermArray))
    function(alike(target), *alike(rest), **alike(options))
    made = target.entries.copy()
    function(made, *_entries(graph, rest), **_entries(graph, options))
    target.entries[...] = fitting(graph, made, target.truths)


def _check_apart(graph: Graph, target: TermArray, *values: TermArray) -> None:
    """Refuses what NumPy does entry by entry, without a buffer: it may read what it has just written."""
    if any(np.may_share_memory(target.entries, value.entries) for value in values):
        graph.refuse("an array written into itself, which NumPy does entry by entry (copy it first)")


# Elementwise ----------------------------------------------------------------------------------------------


def _of_ufunc(graph: Graph, function: Any, ufunc: np.ufunc, args: Any, options: dict[str, Any]) -> Any:
    name, method = ufunc.__name__, "" if function is ufunc else function.__name__
    args = tuple(_arrayed(graph, value, inside=False) for value in args)
    known = FUNCTIONS.get((name, method))
    if known is None and not options and not method and name in SCALAR and len(args) == ufunc.nin:
        return elementwise(graph, ufunc, *args)
    dtype = options.get("dtype")
    if dtype is not None and np.dtype(dtype) not in (_NUMBERS, _TRUTHS):
        graph.refuse(f"np.{name} with dtype={dtype}")
    template, out = _made_of_ones(function, args, options), options.pop("out", None)
    if dtype is not None and np.dtype(dtype) == _NUMBERS:
        args = tuple(TermArray(graph, fitting(graph, plain(graph, value), False)) for value in args)
    _check(graph, name, options)
    if known is not None:
        found = known(graph, *args, **options)
    elif options or method not in ("", "outer") or name not in SCALAR:
        graph.refuse(f"np.{name}{'.' if method else ''}{method}, which has no rule here")
    elif method == "outer":
        one, two = (plain(graph, value) for value in args)
        found = entrywise(graph, name, one.reshape(one.shape + (1,) * two.ndim), two)
    else:
        found = entrywise(graph, name, *args)
    return _finished(graph, name, template, found, out)


def _check(graph: Graph, name: str, options: dict[str, Any]) -> None:
    """Drops options that change nothing but the type and layout of the result; refuses others."""
    for key in ("subok", "order", "dtype"):
        options.pop(key, None)
    if options.pop("casting", "same_kind") not in ("same_kind", "safe"):
        graph.refuse(f"np.{name} with `casting=`")
    if options.pop("where", True) is not True:
        graph.refuse(f"np.{name} with `where=`")


def elementwise(graph: Graph, ufunc: np.ufunc, *values: Any) -> Any:
    """A function of one result, of M's own values, as M gets it."""
    return fitted(
        graph,
        ufunc.__name__,
        _template(ufunc, *map(_described, values)),
        entrywise(graph, ufunc.__name__, *values),
    )


def _described(value: Any) -> tuple[Any, ...]:
    """What the type and memory of NumPy's result depend on."""
    kind = type(value)
    if kind is TermArray:
        return value.entries.shape, _steps(value.entries), value.dtype
    if kind is Term:
        return (value.kind,)
    if np.isscalar(value):
        return (kind,)
    array = np.asarray(value)
    return array.shape, _steps(array), array.dtype


def _standing_for(described: tuple[Any, ...]) -> Any:
    return described[0](1) if len(described) == 1 else _ones(*described)


@lru_cache(maxsize=4096)
def _template(ufunc: np.ufunc, *described: tuple[Any, ...]) -> Any:
    with np.errstate(all="ignore"):
        return ufunc(*map(_standing_for, described))


def entrywise(graph: Graph, name: str, *values: Any) -> np.ndarray:
    """Entries of a function of one result."""
    arrays = [plain(graph, value) for value in values]
    arrays = np.broadcast_arrays(*arrays) if len(arrays) > 1 else arrays
    lanes = zip(*(array.flat for array in arrays), strict=True)
    return packed((apply_or_fold(graph, name, *lane) for lane in lanes), arrays[0].shape)


def choose(graph: Graph, condition: Any, one: Any, two: Any) -> np.ndarray:
    """Entries of ``np.where`` of three arguments."""
    arrays = np.broadcast_arrays(*(plain(graph, value) for value in (condition, one, two)))
    made = []
    for asked, yes, no in zip(*(array.flat for array in arrays), strict=True):
        made.append(select(asked, yes, no, graph) if type(asked) is Term else yes if asked else no)
    return packed(made, arrays[0].shape)


def add_up(graph: Graph, values: np.ndarray) -> np.ndarray:
    """The sums along the last axis of an object array."""
    rows = values.reshape(-1, values.shape[-1]) if values.size else ()
    if not values.size:
        return packed([np.float64(0.0)] * math.prod(values.shape[:-1]), values.shape[:-1])
    return packed((total(graph, list(row)) for row in rows), values.shape[:-1])


# Items ----------------------------------------------------------------------------------------------------


def item(graph: Graph, values: Any, index: Any) -> Any:
    """``values[index]``."""
    index = _known_index(graph, index)
    if type(values) is np.ndarray:
        return from_numpy(graph, values[index], (values,))
    found = plain(graph, values)[index]
    if type(found) is np.ndarray:
        return TermArray(graph, found, values.truths)
    return found


def _known_index(graph: Graph, index: Any) -> Any:
    """An index that does not depend on the inputs."""
    if type(index) is int or not (has_symbols(index) or type(index) is slice):
        return index
    if type(index) is slice:
        if has_symbols([index.start, index.stop, index.step]):
            graph.refuse("an index that depends on the inputs")
        return index
    if type(index) is tuple:
        return tuple(_known_index(graph, part) for part in index)
    try:
        return actual(index, [])
    except HasTermsError:
        return _decided(graph, index)


def _decided(graph: Graph, mask: Any) -> Any:
    """A mask, each condition of which is answered one way and, in another run, the other."""
    if type(mask) is not TermArray or not mask.truths:
        graph.refuse("an index that depends on the inputs (np.where chooses instead)")
    answers = [
        graph.decide(entry.number) if type(entry) is Term else bool(entry) for entry in mask.entries.flat
    ]
    return np.array(answers, dtype=bool).reshape(mask.entries.shape)


def assign(graph: Graph, target: TermArray, index: Any, value: Any) -> None:
    """``target[index] = value``."""
    entries = plain(graph, target)
    parts = index if type(index) is tuple else (index,)
    if type(value) is TermArray and any(map(_is_mask, parts)):
        _check_apart(graph, target, value)
    if type(index) is TermArray and any(type(entry) is Term for entry in index.entries.flat):
        several = plain(graph, value).ndim > entries.ndim - index.entries.ndim
        if not several:  # of as many values as the mask has truths, its conditions must be answered
            _assign_by_mask(graph, target, index, value)
            return
    index = _known_index(graph, index)
    alike(target)[index] = alike(value)  # raises where NumPy does
    given = fitting(graph, plain(graph, value), target.truths)
    parts = index if type(index) is tuple else (index,)
    parts = tuple(int(part) if _is_integer(part) else part for part in parts)
    if all(part is None or type(part) in (int, slice) for part in parts):
        # With dots a view: NumPy would store an array in a single entry.
        entries[(*parts, ...)][...] = given
    else:
        entries[parts] = given


def _is_mask(part: Any) -> bool:
    return (
        type(part) in (TermArray, np.ndarray, list, bool, np.bool_)
        and np.asarray(alike(part)).dtype == _TRUTHS
    )


def _is_integer(part: Any) -> bool:
    whole = type(part) is np.ndarray and part.ndim == 0 and part.dtype.kind in "iu"
    return whole or isinstance(part, np.integer)


def _assign_by_mask(graph: Graph, target: TermArray, mask: TermArray, value: Any) -> None:
    entries, given = target.entries, plain(graph, value)
    if not mask.truths or mask.entries.shape != entries.shape[: mask.entries.ndim]:
        graph.refuse("an assignment by a mask of other shape")
    wide = mask.entries.reshape(mask.entries.shape + (1,) * (entries.ndim - mask.entries.ndim))
    chosen = choose(graph, wide, fitting(graph, given, target.truths), entries)
    if chosen.shape != entries.shape:
        graph.refuse("an assignment by a mask of other shape")
    entries[...] = fitting(graph, chosen, target.truths)


def as_outputs(graph: Graph, value: Any) -> np.ndarray:
    """What M returned, as an object array of terms that are numbers."""
    if type(value) not in (Term, TermArray, list, tuple, np.ndarray, float, int, np.float64):
        graph.refuse(f"outputs that are a {type(value).__name__} (return an array)")
    array = plain(graph, value)
    return packed((number(as_term(graph, entry)) for entry in array.flat), array.shape)


def truths(graph: Graph, value: Any) -> np.ndarray:
    """Entries as truth values."""
    array = plain(graph, value)
    made = (truth(entry) if type(entry) is Term else np.bool_(entry) for entry in array.flat)
    return packed(made, array.shape)
