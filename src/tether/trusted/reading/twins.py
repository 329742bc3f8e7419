"""Twins of M: its own code with other numbers in it, by which a mistake in the reading shows.

Whether M's code was followed rightly has to do with its structure: which array is a view, what is unpacked
first, which method is called. Where M was misread, its program differs from M; but maybe only where no point
that is tried lies, behind a bump of width 1e-6 or a threshold far away. Structure does not depend on numbers.
So M is copied with its numbers replaced by ones of moderate size, its conditions turned around, and products,
powers and exponents bounded: features become broad, and both sides of conditions are met. Python and NumPy
run the twin; the tracer follows it as it followed M; where the two differ at any of some hundred points, the
tracer cannot be trusted with M.

A twin is M's source text with parts of it replaced, compiled as a file of its own, and the objects that it
reaches by name, copied with other numbers in them. One that raises, or that is not followed, says nothing.
This is a test of the reading, with high probability and no more; no bound rests on it.
"""

from __future__ import annotations

import functools
import linecache
import sys
import types
import warnings
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from enum import Enum
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tether.trusted.reading import sources
from tether.trusted.reading.altering import SOFT, Numbers, Style, altered, softened
from tether.trusted.reading.kinds import is_engine, is_stranger, is_users_class

Array = NDArray[np.float64]
Bounds = tuple[Array, Array]
Follow = Callable[[Callable[..., Any], Array, bool], Bounds | None]

_STYLES = (
    Style(far=True, whole=True),
    Style(),
    Style(far=True, whole=True, turned=1),
    Style(whole=True, turned=2),
)
"""From what is most like M to what is least."""
_ATTEMPTS = 4
_TRACES = 6
_POINTS = 192
_ENOUGH = 16
_STEPS = 400_000
"""Lines that a twin may run: other numbers may make a loop endless."""
_REACH = (2.0, 2.0, 10.0)
_FILE = "<twin {} of {}>"
_UNCOPIED = frozenset({"__dict__", "__weakref__", "_abc_impl"})
_WARNED = "__warningregistry__"
"""Where Python itself keeps something, in a module's names."""
_numbered = count()


def difference(
    function: Callable[..., Any], lower: Array, upper: Array, states: int, seed: int, follow: Follow
) -> str | None:
    """Where a twin of M is not what its program says, in words; None where nothing of the kind was found.

    Args:
        function: M.
        lower: (K, D) lower corners of the boxes that M is asked about.
        upper: (K, D) upper corners.
        states: how many of the inputs are states.
        seed: of the numbers.
        follow: from a twin, (N, D) points, and whether to see that it treats rows one by one, to the (N, P)
            bounds of its program there, NaN where it is not defined; None where the twin cannot be followed.
    """
    rng = np.random.default_rng(seed)
    traces = 0
    for style in _STYLES:
        for attempt in range(_ATTEMPTS):
            twins = _Twins(Numbers(seed, attempt, style))
            try:
                twin = _made(twins, function)
                before = twins.state()
                points, values, same = _run(twin, _points(lower, upper, twins.numbers.drawn, rng), states)
                if len(points) < _ENOUGH or traces >= _TRACES:
                    continue
                if not same or not _is_kept(before, twins.state()):
                    return "with other numbers in it, the code keeps something from call to call"
                traces += 1
                found, compared = _compared(twin, points, values, follow)
            finally:
                twins.forget()
            if found is not None:
                return found
            if compared >= _ENOUGH:
                break
    return None


def _made(twins: _Twins, function: Callable[..., Any]) -> Callable[..., Any]:
    """A twin; M itself where it cannot be copied."""
    try:
        return twins.of(function)
    except (Exception, RecursionError):  # classes of the user's may refuse to be copied in any way
        return function


def _compared(
    twin: Callable[..., Any], points: Array, values: Array, follow: Follow
) -> tuple[str | None, int]:
    """Where a twin differs from its program, and at how many points they could be compared."""
    bounds = follow(twin, points, False)
    if bounds is None or bounds[0].shape != values.shape:
        return None, 0
    found = _outside(points, values, bounds)
    if found is not None and follow(twin, points[:1], True) is None:
        return None, 0  # a twin that treats rows together, as M does not
    return found, int((np.isfinite(values) & ~np.isnan(bounds[0])).any(axis=1).sum())


def _outside(points: Array, values: Array, bounds: Bounds) -> str | None:
    low, high = bounds
    defined = ~np.isnan(low).any(axis=1, keepdims=True) & np.isfinite(values)
    wrong = defined & ((values < low) | (values > high))
    if not wrong.any():
        return None
    row, output = (int(k) for k in np.argwhere(wrong)[0])
    value, *ends = (float(part[row, output]) for part in (values, low, high))
    return (
        f"with other numbers in it, the code gives {value!r} for output {output} at {points[row].tolist()}, "
        f"and as it is followed here {ends[0]!r} to {ends[1]!r}"
    )


def _points(lower: Array, upper: Array, drawn: list[float], rng: np.random.Generator) -> Array:
    """(N, D) points of the boxes, points around 0, and such that have numbers of the code itself in them."""
    inputs = lower.shape[1]
    rows = rng.integers(0, len(lower), _POINTS)
    share = rng.random((_POINTS, inputs))
    found = np.clip(lower[rows] * (1 - share) + upper[rows] * share, lower[rows], upper[rows])
    around = rng.random((_POINTS, 1)) < 0.6
    reach = rng.choice(_REACH, (_POINTS, 1)) * rng.uniform(-1, 1, (_POINTS, inputs))
    found = np.where(around, reach, found)
    special = np.array([*sorted(set(drawn))[:256], 0.0, 1.0, -1.0])
    chosen = (rng.random((_POINTS, 1)) < 0.3) & (rng.random((_POINTS, inputs)) < 0.5)
    return np.where(chosen, rng.choice(special, (_POINTS, inputs)), found)


# Running ----------------------------------------------------------------------------------------------------


class _TooLongError(Exception):
    """A twin that does not end."""


class _Steps:
    """Counts the lines of twins that run, and ends what does not end."""

    def __init__(self) -> None:
        self._left = _STEPS

    def __call__(self, frame: types.FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(_FILE[:6]):
            return None
        self._left -= 1
        if self._left < 0:
            raise _TooLongError
        return self


def _run(twin: Callable[..., Any], points: Array, states: int) -> tuple[Array, Array, bool]:
    """Those of the points at which a twin answers, its answers, and whether it answers the same again.

    All together, or where it does not answer all of them, some of them one by one.
    """
    before = sys.gettrace()
    sys.settrace(_Steps())
    try:
        values = _values(twin, points, states)
        if values is not None:
            return points, values, _is_same(values, _values(twin, points, states))
        rows = [points[k : k + 1] for k in range(0, len(points), 4)]
        alone, again = ([_values(twin, row, states) for row in rows] for _ in range(2))
    except _TooLongError:
        return points[:0], points[:0], True
    finally:
        sys.settrace(before)
    pairs = [(row, part) for row, part in zip(rows, alone, strict=True) if part is not None]
    if len({part.shape for _, part in pairs}) != 1:
        return points[:0], points[:0], True
    same = all(map(_is_same, alone, again))
    return *(np.concatenate(parts) for parts in zip(*pairs, strict=True)), same  # type: ignore[return-value]


def _is_kept(before: dict[int, list[Any]], after: dict[int, list[Any]]) -> bool:
    """Whether nothing was changed: the same is in all that there was; arrays hold the same numbers."""
    return all(
        len(held) == len(after[key]) and all(map(_is_one, held, after[key])) for key, held in before.items()
    )


def _is_one(one: Any, two: Any) -> bool:
    return one is two or (type(one) is bytes and one == two)


def _is_same(one: Array | None, two: Array | None) -> bool:
    """To the last bit: a twin that answers otherwise the second time keeps something."""
    return one is two if one is None or two is None else np.array_equal(one, two, equal_nan=True)


def _values(twin: Callable[..., Any], points: Array, states: int) -> Array | None:
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = np.array(twin(points[:, :states].copy(), points[:, states:].copy()))
            usual = found.dtype.kind in "fiub" and found.ndim == 2 and len(found) == len(points)
            return found.astype(np.float64) if usual else None
    except _TooLongError:
        raise
    except (Exception, SystemExit):
        return None


# Copying ----------------------------------------------------------------------------------------------------


class _Twins:
    """Copies of all that M reaches by name, for one choice of numbers; what is one stays one."""

    def __init__(self, numbers: Numbers) -> None:
        self.numbers = numbers
        self._known: dict[int, tuple[Any, Any]] = {}
        self._codes: dict[tuple[str, int], dict[types.CodeType, types.CodeType]] = {}
        self._names: set[str] = set()
        self._spaces: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self._files: list[str] = []

    def forget(self) -> None:
        """The files that were made."""
        for name in self._files:
            linecache.cache.pop(name, None)

    def state(self) -> dict[int, list[Any]]:
        """What is in all that was copied and can be changed, by identity."""
        made = [twin for value, twin in self._known.values() if twin is not value]
        return {id(twin): found for twin in made if (found := _content(twin)) is not None}

    def of(self, value: Any) -> Any:
        """The twin of a value; the value itself where it has none."""
        if id(value) in self._known:
            return self._known[id(value)][1]
        kind = type(value)
        copier: Callable[[_Twins, Any], Any] | None = _COPIERS.get(kind)
        if copier is None and issubclass(kind, type):
            copier = _Twins._class
        elif copier is None and issubclass(kind, np.floating):
            copier = _Twins._scalar
        elif copier is None and is_users_class(kind) and not issubclass(kind, Enum):
            copier = _Twins._object
        return value if copier is None else copier(self, value)

    def _keep(self, value: Any, twin: Any) -> Any:
        self._known[id(value)] = value, twin
        return twin

    def _float(self, value: float) -> float:
        return self.numbers.real(value)

    def _int(self, value: int) -> int:
        return self.numbers.whole(value)

    def _scalar(self, value: Any) -> Any:
        return type(value)(self.numbers.real(float(value)))

    def _array(self, value: np.ndarray) -> np.ndarray:
        if value.dtype.kind not in "fi":
            return value
        made = value.copy(order="K")
        flat = made.reshape(-1)
        one = self.numbers.entry if value.dtype.kind == "f" else self.numbers.whole
        flat[...] = [one(part) for part in flat.tolist()]
        if not np.shares_memory(flat, made):
            made = flat.reshape(made.shape)
        made.flags.writeable = value.flags.writeable
        return self._keep(value, made)

    def _list(self, value: Any) -> Any:
        made = self._keep(value, type(value)())
        made.extend(self.of(part) for part in value)
        return made

    def _tuple(self, value: tuple[Any, ...]) -> tuple[Any, ...]:
        return self._keep(value, tuple(self.of(part) for part in value))

    def _dict(self, value: Any) -> Any:
        made = self._keep(value, type(value)())
        made.update({self.of(key): self.of(part) for key, part in value.items()})
        return made

    def _proxy(self, value: Any) -> Any:
        return self._keep(value, types.MappingProxyType(self.of(dict(value))))

    def _space(self, value: types.SimpleNamespace) -> Any:
        made = self._keep(value, types.SimpleNamespace())
        vars(made).update({name: self.of(part) for name, part in vars(value).items()})
        return made

    def _polynomial(self, value: Any) -> Any:
        if type(value) is np.poly1d:
            return self._keep(value, np.poly1d(self.of(value.coeffs), variable=value.variable))
        return self._keep(value, type(value)(self.of(value.coef), value.domain, value.window))

    def _partial(self, value: functools.partial[Any]) -> Any:
        options = {name: self.of(part) for name, part in value.keywords.items()}
        return self._keep(value, functools.partial(self.of(value.func), *map(self.of, value.args), **options))

    def _method(self, value: types.MethodType) -> Any:
        owner = self.of(value.__self__)
        return self._keep(value, types.MethodType(self.of(value.__func__), owner))

    def _wrapped(self, value: Any) -> Any:
        return self._keep(value, type(value)(self.of(value.__func__)))

    def _property(self, value: property) -> Any:
        return self._keep(value, property(self.of(value.fget), self.of(value.fset), self.of(value.fdel)))

    def _cached(self, value: Any) -> Any:
        made = functools.cached_property(self.of(value.func))
        made.attrname = value.attrname
        return self._keep(value, made)

    # Functions, classes and modules ---------------------------------------------------------------------

    def _function(self, value: types.FunctionType) -> Any:
        names = value.__globals__
        if _is_others(names.get("__name__")):
            return value
        code, cells = self._code(value), value.__closure__ or ()
        own = _is_ours(names.get("__name__"))
        if code is not value.__code__ or own:
            cells = tuple(self._cell(cell) for cell in cells)
        space = names if own else self._names_of(names)
        made = self._keep(value, types.FunctionType(code, space, value.__name__, None, cells))
        made.__qualname__ = value.__qualname__
        made.__defaults__ = self.of(value.__defaults__)
        made.__kwdefaults__ = self.of(value.__kwdefaults__)
        self._mention({name for part in sources.inside(value.__code__) for name in part.co_names})
        for old, new in zip(value.__closure__ or (), cells, strict=True):
            if old is not new and not _is_filled(new) and _is_filled(old):
                new.cell_contents = self.of(old.cell_contents)
        return made

    def _cell(self, cell: types.CellType) -> types.CellType:
        known = self._known.get(id(cell))
        return known[1] if known is not None else self._keep(cell, types.CellType())

    def _names_of(self, names: dict[str, Any]) -> dict[str, Any]:
        """A module's names, those that functions mention twinned."""
        if id(names) in self._known:
            return self._known[id(names)][1]
        made = self._keep(names, {**names, SOFT: softened})
        self._spaces.append((names, made))
        self._fill(names, made, self._names)
        return made

    def _mention(self, names: set[str]) -> None:
        new = names - self._names
        self._names |= new
        for space in list(self._spaces):
            self._fill(*space, new)

    def _fill(self, names: dict[str, Any], made: dict[str, Any], chosen: set[str]) -> None:
        for name in [name for name in chosen if name in names and not name.startswith("__")]:
            made[name] = self.of(names[name])

    def _module(self, value: types.ModuleType) -> Any:
        if _is_others(value.__name__) or _is_ours(value.__name__):
            return value
        made = self._keep(value, types.ModuleType(value.__name__))
        vars(made).update(vars(value))
        self._spaces.append((vars(value), vars(made)))
        self._fill(vars(value), vars(made), self._names)
        return made

    def _code(self, function: types.FunctionType) -> types.CodeType:
        """The code with other numbers; the same where its source cannot be had."""
        code, names = function.__code__, function.__globals__
        if _is_ours(names.get("__name__")):
            return code
        place = code.co_filename, code.co_flags & sources.FLAGS
        if place not in self._codes:
            self._codes[place] = self._compiled(code, names)
        return self._codes[place].get(code, code)

    def _compiled(self, code: types.CodeType, names: dict[str, Any]) -> dict[types.CodeType, types.CodeType]:
        file = sources.file_of(code, names)
        if file is None or code not in file.codes:
            return {}
        name = _FILE.format(next(_numbered), code.co_filename.rpartition("/")[2])
        text = altered("".join(file.lines), file.tree, self.numbers)
        linecache.cache[name] = len(text), None, [f"{line}\n" for line in text.split("\n")], name
        self._files.append(name)
        made = sources.file_of(code.replace(co_filename=name), names)
        if made is None:
            return {}
        ways = file.codes, made.codes
        alike = [[(part.co_name, part.co_firstlineno, part.co_freevars) for part in way] for way in ways]
        return dict(zip(*ways, strict=True)) if alike[0] == alike[1] else {}

    def _class(self, kind: type) -> Any:
        users = is_users_class(kind) and not issubclass(kind, Enum)
        if not users or _is_others(kind.__module__) or _is_ours(kind.__module__):
            return kind
        if any("__init_subclass__" in vars(part) for part in kind.__mro__[:-1]):
            return kind
        entries = {
            name: entry
            for name, entry in vars(kind).items()
            if name not in _UNCOPIED and type(entry) is not types.MemberDescriptorType
        }
        try:
            made = type(kind)(kind.__name__, tuple(map(self.of, kind.__bases__)), entries)
        except (TypeError, ValueError):
            return self._keep(kind, kind)
        self._keep(kind, made)
        made.__qualname__ = kind.__qualname__
        for name, entry in entries.items():
            twin = entry if name.startswith("__dataclass") else self.of(entry)
            if twin is not entry:
                type.__setattr__(made, name, twin)
        return made

    def _object(self, value: Any) -> Any:
        kind = self.of(type(value))
        if isinstance(value, tuple):
            return self._keep(value, tuple.__new__(kind, [self.of(part) for part in tuple.__iter__(value)]))
        if kind.__new__ is not object.__new__:
            return self._keep(value, value)
        made = self._keep(value, object.__new__(kind))
        for name, part in getattr(value, "__dict__", {}).items():
            vars(made)[name] = self.of(part)
        for name in _slots(value):
            object.__setattr__(made, name, self.of(getattr(value, name)))
        return made


def _content(twin: Any) -> list[Any] | None:
    """What something that can be changed holds now; None for what cannot be, or is not looked at."""
    if type(twin) is np.ndarray:
        return [twin.tobytes()]
    if type(twin) in (list, deque):
        return list(twin)
    if type(twin) in (dict, OrderedDict):
        return [part for pair in twin.items() if pair[0] != _WARNED for part in pair]
    if type(twin) is types.CellType:
        return [twin.cell_contents] if _is_filled(twin) else []
    if isinstance(twin, type | types.FunctionType | types.ModuleType) or not hasattr(twin, "__dict__"):
        return None
    cached = {name for kind in type(twin).__mro__ for name, entry in vars(kind).items() if _is_cached(entry)}
    return [part for pair in vars(twin).items() if pair[0] not in cached for part in pair]


def _is_cached(entry: Any) -> bool:
    return type(entry) is functools.cached_property


def _slots(value: Any) -> Iterator[str]:
    """Names of the fields that are in no dictionary."""
    for kind in type(value).__mro__:
        for name, entry in vars(kind).items():
            if type(entry) is types.MemberDescriptorType and hasattr(value, name):
                yield name


def _is_filled(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018 (raises where it is empty)
    except ValueError:
        return False
    return True


def _is_others(module: Any) -> bool:
    return is_stranger(module) or is_engine(module)


def _is_ours(module: Any) -> bool:
    return str(module).partition(".")[0] == "tether"


_COPIERS: dict[type, Callable[[_Twins, Any], Any]] = {
    float: _Twins._float,
    int: _Twins._int,
    np.ndarray: _Twins._array,
    list: _Twins._list,
    deque: _Twins._list,
    tuple: _Twins._tuple,
    dict: _Twins._dict,
    OrderedDict: _Twins._dict,
    types.MappingProxyType: _Twins._proxy,
    types.SimpleNamespace: _Twins._space,
    np.poly1d: _Twins._polynomial,
    np.polynomial.Polynomial: _Twins._polynomial,
    functools.partial: _Twins._partial,
    functools.cached_property: _Twins._cached,
    types.MethodType: _Twins._method,
    types.FunctionType: _Twins._function,
    types.ModuleType: _Twins._module,
    staticmethod: _Twins._wrapped,
    classmethod: _Twins._wrapped,
    property: _Twins._property,
}
