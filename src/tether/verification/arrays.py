"""NumPy arrays of terms: structure is NumPy's own, mathematics is that of :mod:`operations`.

Views, copies, assignment, splitting, stacking and iteration happen in NumPy, on an array of immutable
objects. What computes is known by name, or refused.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tether.verification.graph import (
    ASARRAY,
    EMPTY,
    Graph,
    Term,
    as_term,
    asked_by_user,
    called_by_user,
    constant_of,
    is_derived,
    number,
    numpys,
    pythons,
    select,
    truth,
)
from tether.verification.operations import SCALAR, apply_or_fold, total

_FLOATS = (
    None,
    float,
    np.float64,
    np.dtype(np.float64),
    "float",
    "float64",
    "d",
    "f8",
)
FUNCTIONS: dict[Any, Callable[..., Any]] = {}
"""What computes, by NumPy's function; filled in by :mod:`reductions`."""
_COMPARE = {
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "equal",
    "not_equal",
    "logical_not",
    "logical_and",
}
_COMPARE |= {"logical_or", "logical_xor"}
_NAMES = (
    "stack", "concatenate", "concat", "vstack", "hstack", "dstack", "column_stack", "block", "append",
    "reshape", "ravel", "transpose", "swapaxes", "moveaxis", "rollaxis", "squeeze", "expand_dims",
    "broadcast_to", "broadcast_arrays", "take", "take_along_axis", "roll", "rot90", "flip", "fliplr",
    "flipud", "repeat", "tile", "split", "array_split", "hsplit", "vsplit", "dsplit", "copy", "diagonal",
    "diag", "diagflat", "tril", "triu", "atleast_1d", "atleast_2d", "atleast_3d", "shape", "ndim", "size",
    "delete", "insert", "resize", "meshgrid", "fill_diagonal", "unstack", "permute_dims",
    "matrix_transpose", "tensordot", "kron", "polyval", "trapezoid", "gradient", "average", "put",
    "put_along_axis",
)  # fmt: skip
STRUCTURE = frozenset(getattr(np, name) for name in _NAMES if hasattr(np, name))
"""What only moves entries, or is written in terms of functions that are known."""


CURRENT: list[Graph] = []
"""The graph of the trace that is going on, last."""


class TermArray(np.ndarray):
    """An object array of terms and plain numbers."""

    __array_priority__ = 1000.0  # type: ignore[assignment,override]

    def __array_finalize__(self, array: Any) -> None:
        if isinstance(array, TermArray) and not self.size:
            self._of_truths = holds_truths(array)  # which no entry is left to tell

    @property
    def graph(self) -> Graph:
        """The graph of the trace that is going on."""
        return CURRENT[-1]

    @property
    def dtype(self) -> np.dtype:  # type: ignore[override]
        """What M's own array has; NumPy's code is told what there is."""
        if not called_by_user():
            return _DTYPE(self)
        return np.dtype(bool if holds_truths(self) else np.float64)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        return handle_ufunc(ufunc, method, inputs, options)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        graph = self.graph
        rule = FUNCTIONS.get(func)
        if rule is not None:
            return conforming(graph, func, args, kwargs, lambda: rule(graph, *args, **kwargs))
        if func in STRUCTURE:
            boxed = _boxed(graph, args), _boxed(graph, kwargs)
            parent = super().__array_function__
            moved = lambda: wrapped(graph, parent(func, types, *boxed))  # noqa: E731
            return conforming(graph, func, args, kwargs, moved, moves=True)
        return handle_rest(graph, func, args, kwargs)

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(index, TermArray):
            if not is_condition(index) or index.shape != self.shape[: index.ndim]:
                self.graph.refuse("an assignment by a mask of other shape")
            if np.ndim(value) > self.ndim - index.ndim:  # as many as the mask has truths, which is not known
                self.graph.refuse("an assignment of several values by a mask (np.where chooses instead)")
            mask = index.reshape(index.shape + (1,) * (self.ndim - index.ndim))
            masked = select_arrays(self.graph, mask, value, self)
            if np.shape(masked) != self.shape:
                self.graph.refuse("an assignment by a mask of other shape")
            super().__setitem__(..., self._fitting(ASARRAY(masked)))
            return
        value = checked(self.graph, value)
        if type(value) is not Term and not isinstance(value, TermArray):
            value = objects(value)
            value = value if value.ndim else value[()]
        super().__setitem__(index, self._fitting(value))

    def _fitting(self, value: Any) -> Any:
        """What is assigned, as an array of this type holds it."""
        if self.size and is_condition(self):
            if not is_condition(value):
                self.graph.refuse("numbers put into an array of truth values")
            return value
        if type(value) is Term:
            return number(value)
        return numbers(value) if isinstance(value, np.ndarray) and _DTYPE(value).kind == "O" else value

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, TermArray):
            index = index_of(self.graph, index)
        return _numpys(super().__getitem__(index))

    def take(self, *args: Any, **options: Any) -> Any:
        """As NumPy's."""
        return _numpys(super().take(*args, **options))

    def tolist(self) -> Any:
        """As NumPy's: Python's own numbers where they are known."""
        return _pythons(super().tolist())

    def item(self, *args: Any) -> Any:
        """As NumPy's."""
        return _pythons(super().item(*args))

    def astype(self, dtype: Any, order: Any = "K", *rest: Any, copy: bool = True, **more: Any) -> Any:
        """Itself exactly where NumPy returns it, else a copy; float64 is all there is."""
        if rest or more or (called_by_user() and dtype is not None and np.dtype(dtype).kind == "O"):
            self.graph.refuse("a conversion with options, or to objects")
        condition = bool(self.size) and is_condition(self)
        if is_float64(dtype):
            made = super().astype(object, order=order, copy=copy or condition)
            return numbers(made) if condition else made
        if np.dtype(dtype).kind == "b":
            if condition:
                return super().astype(object, order=order, copy=copy)
            if order not in ("K", "A"):
                self.graph.refuse("a conversion to bool in an order of its own")
            asked = elementwise(self.graph, np.not_equal, self, 0.0)
            return _laid_out(asked, self) if isinstance(asked, TermArray) else asked
        self.graph.refuse(f"a conversion to {np.dtype(dtype)}")

    def conjugate(self, *out: Any, **options: Any) -> Any:
        """Itself, as of real numbers; NumPy copies objects."""
        if out or options:
            self.graph.refuse("`.conjugate` with `out=`")
        return self

    conj = conjugate

    def __repr__(self) -> str:
        self.graph.refuse("an array written as text")

    __str__ = __repr__

    @property
    def flat(self) -> Any:
        """NumPy's own code and ours only: what is assigned through it is not seen."""
        if called_by_user():
            self.graph.refuse("`.flat` (write `.ravel()` or `.reshape(-1)`)")
        return super().flat

    @flat.setter
    def flat(self, value: Any) -> None:
        if called_by_user():
            self.graph.refuse("an assignment to `.flat`")
        _FLAT(self, value)

    def view(self, *args: Any, **options: Any) -> Any:
        """NumPy's own code and ours only, and as no other kind of array."""
        kinds = [value for value in (*args, *options.values()) if isinstance(value, type)]
        if called_by_user() or not all(kind in (np.ndarray, TermArray) for kind in kinds):
            self.graph.refuse("`.view`, which has no rule here")
        return super().view(*args, **options)

    def fill(self, value: Any) -> None:
        """As NumPy's."""
        self[...] = value


def _numpys(entry: Any) -> Any:
    """An entry as NumPy gives it: not Python's own number, which rounds otherwise."""
    if type(entry) is Term:
        return numpys(entry)
    if type(entry) is bool:
        return np.bool_(entry)
    return np.float64(entry) if type(entry) in (int, float) else entry


def _pythons(entry: Any) -> Any:
    if isinstance(entry, list):
        return [_pythons(part) for part in entry]
    if type(entry) is Term:
        return pythons(entry)
    return entry.item() if isinstance(entry, np.bool_ | np.floating) else entry


_FLAT = np.ndarray.flat.__set__  # type: ignore[attr-defined]
_DTYPE = np.ndarray.dtype.__get__  # type: ignore[attr-defined]


def _is_truth(entry: Any) -> bool:
    return entry.boolean if type(entry) is Term else isinstance(entry, bool | np.bool_)


def holds_truths(array: TermArray) -> bool:
    """Whether M's own array is one of truth values."""
    if not array.size:
        return getattr(array, "_of_truths", False)
    return all(map(_is_truth, array.view(np.ndarray).flat))


def is_condition(value: Any) -> bool:
    """Whether all of it are truth values."""
    if type(value) is Term:
        return value.boolean
    array = ASARRAY(value)
    return array.dtype.kind == "b" or (
        array.dtype == object and all(map(_is_truth, array.view(np.ndarray).flat))
    )


def numbers(array: np.ndarray) -> np.ndarray:
    """An array with its truth values as 1 and 0: itself where it holds none."""
    entries = array.view(np.ndarray)
    if not any(map(_is_truth, entries.flat)):
        return array
    result = np.empty_like(entries)
    for place in np.ndindex(result.shape):
        entry = entries[place]
        if _is_truth(entry):
            entry = number(entry) if type(entry) is Term else np.float64(entry)
        result[place] = entry
    return result.view(type(array))


def _dummy(value: Any, scalar: bool) -> Any:
    """What M's own value is like: type, shape, layout. A scalar may be NumPy's or Python's."""
    if type(value) is Term:
        kind = (np.bool_ if scalar else bool) if value.boolean else (np.float64 if scalar else float)
        return kind(1)
    if isinstance(value, TermArray):
        kind = np.dtype(bool if holds_truths(value) else np.float64)
        strides = [step // 8 * kind.itemsize for step in value.strides]
        spans = [step * (n - 1) for step, n in zip(strides, value.shape, strict=True) if n]
        low, high = sum(min(0, span) for span in spans), sum(max(0, span) for span in spans)
        buffer = np.ones((high - low) // kind.itemsize + 1, dtype=kind)
        return np.ndarray(value.shape, kind, buffer, -low, strides)
    if type(value) in (tuple, list):
        return type(value)(_dummy(part, scalar) for part in value)
    if isinstance(value, dict):
        return {key: _dummy(part, scalar) for key, part in value.items()}
    return value.copy(order="K") if isinstance(value, np.ndarray) else value


def _laid_out_like(array: TermArray) -> np.ndarray | None:
    """M's own array, in its type and layout, where there is no term in this one."""
    entries = array.view(np.ndarray)
    if any(type(entry) is Term for entry in entries.flat):
        return None
    made = _dummy(array, True)
    made[...] = entries  # what overlaps holds the same
    return made


def _by_numpy(function: Any, args: Any, kwargs: Any) -> Any:
    """What NumPy makes of numbers that inputs have no part in; None where they have, or none is new."""
    if function is np.empty_like:
        return None
    arrays: list[np.ndarray] = []
    actual = _actual((args, kwargs), arrays)
    if actual is None:
        return None
    try:
        with np.errstate(all="ignore"):
            result = function(*actual[0], **actual[1])
    except Exception:
        return None
    return _made_by_numpy(result, arrays)


def _actual(value: Any, arrays: list[np.ndarray]) -> Any:
    """With M's own arrays, which are added to a list; None where a term is among them."""
    if type(value) is Term:
        return None
    if isinstance(value, TermArray):
        value = _laid_out_like(value)
    elif type(value) in (tuple, list):
        parts = [_actual(part, arrays) for part in value]
        missing = any(part is None and own is not None for part, own in zip(parts, value, strict=True))
        return None if missing else type(value)(parts)
    elif type(value) is dict:
        parts = _actual(list(value.values()), arrays)
        return None if parts is None else dict(zip(value, parts, strict=True))
    if isinstance(value, np.ndarray):
        arrays.append(value)
    return value


def _made_by_numpy(result: Any, arrays: list[np.ndarray]) -> Any:
    if type(result) in (tuple, list):
        parts = [_made_by_numpy(part, arrays) for part in result]
        return None if any(part is None for part in parts) else type(result)(parts)
    if not isinstance(result, np.ndarray):
        return result
    shared = result.dtype == object or any(np.may_share_memory(result, array) for array in arrays)
    if shared or result.dtype.char not in "?d" or (result.dtype.char == "?" and not result.size):
        return None if shared else result
    return objects(result).view(TermArray)


def conforming(
    graph: Graph, function: Any, args: Any, kwargs: Any, make: Callable[[], Any], moves: bool = False
) -> Any:
    """What `make` makes, of the type and layout NumPy's function has for M's own arrays; else refused."""
    refuse_others(graph, args, kwargs)
    before = [(_dummy(args, scalar), _dummy(kwargs, scalar)) for scalar in (True, False)]
    held = [(part, part.size and is_condition(part)) for part in args if isinstance(part, TermArray)]
    known = None if moves else _by_numpy(function, args, kwargs)
    if known is not None:
        return known
    name = getattr(function, "__name__", "function")
    try:
        result = make()
    except (TypeError, AttributeError) as error:  # NumPy might not raise it of numbers
        graph.refuse(f"np.{name}, which cannot be followed here ({error})")
    if result is None:  # something was written to
        for part, condition in held:
            if part.size and (not is_condition(part) if condition else numbers(part) is not part):
                graph.refuse("numbers put into an array of truth values, or the other way round")
    for dummies, options in before:
        try:
            with np.errstate(all="ignore"):
                template = function(*dummies, **options)
        except Exception as error:
            graph.refuse(f"np.{name}, which NumPy refuses ({type(error).__name__}: {error})")
        if options.get("out") is None:
            result = _conformed(graph, name, template, result, moves)
    return result


def _conformed(graph: Graph, name: str, template: Any, result: Any, moves: bool) -> Any:
    if isinstance(template, tuple | list) and isinstance(result, tuple | list):
        pairs = zip(template, result, strict=True)
        return type(result)([_conformed(graph, name, one, two, moves) for one, two in pairs])
    if not isinstance(result, TermArray) and type(result) is not Term:
        arrays = isinstance(result, np.ndarray) and isinstance(template, np.ndarray)
        same = arrays and not moves and np.shape(result) == np.shape(template)
        return _laid_out(result, template) if same else result
    kind = ASARRAY(template).dtype
    if kind.kind == "b" and isinstance(result, TermArray) and not result.size:
        result._of_truths = True
    if kind.kind == "b":
        if result.size and not is_condition(result):
            graph.refuse(f"np.{name}, which makes an array of truth values of numbers")
    elif kind != np.float64:
        graph.refuse(f"np.{name}, which makes numbers of type {kind} (multiply by 1.0 first)")
    elif type(result) is Term:
        result = number(result)
    else:
        result = numbers(result)  # type: ignore[arg-type]
    if np.shape(result) != np.shape(template):
        graph.refuse(f"np.{name} of shape {np.shape(result)}, not {np.shape(template)}")
    if moves or type(result) is Term:
        return result
    return _laid_out(result, template)


def _laid_out(result: Any, template: Any) -> Any:
    """With its entries in memory as those of another array."""
    entries, size = result.view(np.ndarray), result.itemsize
    like = template.view(np.ndarray) if isinstance(template, np.ndarray) else ASARRAY(template)
    steps = zip(entries.shape, entries.strides, like.strides, strict=True)
    if all(n == 1 or one * like.itemsize == two * size for n, one, two in steps) or not result.size:
        return result
    made = np.empty_like(like, dtype=entries.dtype)
    made[...] = entries
    return made.view(type(result))


def handle_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """``__array_ufunc__`` of terms and their arrays, of the type and layout that NumPy's result has."""
    function = ufunc if method == "__call__" else getattr(ufunc, method)
    given = dict(options)
    return conforming(
        _graph_among(inputs, options),
        function,
        inputs,
        given,
        lambda: _handle_ufunc(ufunc, method, inputs, options),
    )


def _handle_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    graph = _graph_among(inputs, options)
    out = options.pop("out", None)
    _check_options(graph, ufunc.__name__, options)
    known = FUNCTIONS.get((ufunc.__name__, method))
    if known is not None:
        result = known(graph, *inputs, **options)
    elif method == "__call__" and not options:
        result = elementwise(graph, ufunc, *inputs)
    elif method == "outer" and not options and len(inputs) == 2:
        one, two = (plain(graph, value) for value in inputs)
        spread = wrapped(graph, one.reshape(one.shape + (1,) * two.ndim))
        result = elementwise(graph, ufunc, spread, inputs[1])
    else:
        graph.refuse(f"np.{ufunc.__name__} used as `{method}`, or with options {sorted(options)}")
    return result if out is None else _stored(graph, result, out)


def handle_rest(graph: Graph, func: Any, args: Any, kwargs: Any) -> Any:
    """What is not known: worked out where it is of plain numbers only, else refused."""
    plain_args, plain_kwargs = _as_floats(args), _as_floats(kwargs)
    if plain_args is None or plain_kwargs is None:
        graph.refuse(f"np.{getattr(func, '__name__', func)}, which has no rule here")
    return _sealed(func(*plain_args, **plain_kwargs))


def _sealed(result: Any) -> Any:
    """Not to be written to: it may be a view in NumPy, and is none of M's arrays here."""
    if isinstance(result, tuple | list):
        return type(result)(map(_sealed, result)) if type(result) in (tuple, list) else result
    if isinstance(result, np.ndarray):
        result.flags.writeable = False
    return result


def _term_function(self: Term, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    rule = FUNCTIONS.get(func)
    if rule is not None:
        return conforming(self.graph, func, args, kwargs, lambda: rule(self.graph, *args, **kwargs))
    return func(*_boxed(self.graph, args), **_boxed(self.graph, kwargs))


def _boxed(graph: Graph, value: Any) -> Any:
    """With every term that stands alone in an array of its own."""
    if type(value) is Term:
        return wrapped(graph, plain(graph, value))
    if isinstance(value, tuple | list):
        return type(value)(_boxed(graph, part) for part in value)
    return {key: _boxed(graph, part) for key, part in value.items()} if isinstance(value, dict) else value


setattr(Term, "__array_ufunc__", lambda self, ufunc, method, *inputs, **options: handle_ufunc(  # noqa: B010
    ufunc, method, inputs, options
))  # fmt: skip
setattr(Term, "__array_function__", _term_function)  # noqa: B010


def _method(function: Any) -> Callable[..., Any]:
    def method(self: TermArray, *args: Any, **kwargs: Any) -> Any:
        rule = partial(FUNCTIONS[function], self.graph, self, *args, **kwargs)
        return conforming(self.graph, function, (self, *args), kwargs, rule)

    return method


def install_methods() -> None:
    """Methods that compute, as the functions of the same name do; other such methods raise."""
    for name in (
        "sum",
        "mean",
        "prod",
        "min",
        "max",
        "cumsum",
        "cumprod",
        "clip",
        "dot",
        "std",
        "var",
        "trace",
    ):
        setattr(TermArray, name, _method(getattr(np, name)))
    for name in ("any", "all", "round"):
        setattr(TermArray, name, _method(getattr(np, name)))
    for name in [
        "argmax",
        "argmin",
        "argsort",
        "sort",
        "partition",
        "argpartition",
        "searchsorted",
        "nonzero",
        "choose",
        "compress",
        "put",
        "resize",
    ]:
        setattr(TermArray, name, _refused_method(name))
    for name in ["tobytes", "tofile", "dump", "dumps", "byteswap", "setfield", "getfield", "view"]:
        if name != "view":
            setattr(TermArray, name, _refused_method(name))
    for name in dir(np.ndarray):
        if not name.startswith("__") and name not in _ANSWERED and name not in vars(TermArray):
            setattr(TermArray, name, _refused_attribute(name))


_ANSWERED = frozenset(
    {"T", "copy", "diagonal", "flatten", "mT", "ndim", "ravel", "real", "repeat", "reshape", "shape", "size",
     "squeeze", "swapaxes", "transpose"}
)  # fmt: skip
"""Attributes that NumPy answers of objects as it does of numbers; others that have no rule are refused."""


def _refused_attribute(name: str) -> Any:
    def asked(self: TermArray) -> Any:
        if called_by_user():
            self.graph.refuse(f"`.{name}`, which has no rule here")
        return getattr(np.ndarray, name).__get__(self)

    return property(asked)


def _refused_method(name: str) -> Callable[..., Any]:
    def method(self: TermArray, *args: Any, **kwargs: Any) -> Any:
        floats = _as_floats(self)
        if floats is None:
            self.graph.refuse(f"`.{name}`, which has no rule here")
        return getattr(floats, name)(*args, **kwargs)

    return method


def is_float64(dtype: Any) -> bool:
    """Whether a `dtype=` leaves float64 numbers as they are; objects are, where NumPy's own code says so."""
    if dtype is object or (dtype is not None and np.dtype(dtype).kind == "O"):
        if asked_by_user():
            CURRENT[-1].refuse("an array of objects (`dtype=object`)")
        return True
    return any(dtype is known for known in _FLOATS) or (
        isinstance(dtype, str | np.dtype) and dtype in _FLOATS[3:]
    )


def _check_options(graph: Graph, name: str, options: dict[str, Any]) -> None:
    """Drops options that change nothing; refuses those that change what is computed."""
    for key in ("subok", "order"):
        options.pop(key, None)
    dtype, casting, where = (
        options.pop("dtype", None),
        options.pop("casting", "same_kind"),
        options.pop("where", True),
    )
    if not is_float64(dtype) and not (name in _COMPARE and dtype in (bool, np.bool_)):
        graph.refuse(f"np.{name} with dtype={dtype}")
    if casting not in ("same_kind", "safe"):
        graph.refuse(f"np.{name} with casting={casting!r}")
    if where is not True and where is not np._NoValue:
        graph.refuse(f"np.{name} with `where=`")
    if "signature" in options or "sig" in options:
        graph.refuse(f"np.{name} with a signature")


def _graph_among(inputs: Any, options: dict[str, Any]) -> Graph:
    values = (*inputs, *(options.get("out") or ()), options.get("where"))
    return next(value.graph for value in values if isinstance(value, TermArray) or type(value) is Term)


def refuse_others(graph: Graph, *values: Any) -> None:
    """Refuses arrays and numbers of derived kinds: `*` of a matrix is not that of its entries."""
    for value in values:
        if type(value) in (list, tuple):
            refuse_others(graph, *value)
        elif type(value) is dict:
            refuse_others(graph, *value.values())
        elif is_derived(value) or (
            isinstance(value, np.ndarray) and type(value) not in (np.ndarray, TermArray)
        ):
            graph.refuse(f"a {type(value).__name__}, which may compute otherwise than NumPy's own")


def checked(graph: Graph, value: Any) -> Any:
    """What is put into an array: numbers that float64 holds, terms, arrays of these."""
    if type(value) is Term or isinstance(value, TermArray):
        return value
    refuse_others(graph, value)
    array = ASARRAY(value)
    if array.dtype.kind in "iu" and constant_of(int(np.abs(array).max(initial=0))) is None:
        graph.refuse("an integer that float64 does not hold exactly")
    if array.dtype.kind == "b":
        return array.astype(np.float64) if array.ndim else float(array)
    if array.dtype.kind not in "iufO" or array.dtype == np.longdouble or _are_objects(value, array):
        graph.refuse(f"numbers of type {array.dtype}")
    return value if array.dtype.kind == "O" else array.astype(np.float64)


def _are_objects(value: Any, array: np.ndarray) -> bool:
    """Whether what is no array of ours is one of Python's objects: integers without end, among others."""
    return array.dtype.kind == "O" and not any(type(entry) is Term for entry in array.flat)


def plain(graph: Graph, value: Any) -> np.ndarray:
    """An object array of terms and plain numbers, as the base class."""
    if type(value) is Term:
        whole = EMPTY((), dtype=object)
        whole[()] = value
        return whole
    if isinstance(value, TermArray):
        return value.view(np.ndarray)
    refuse_others(graph, value)
    array = ASARRAY(value)
    if array.dtype.kind not in "biufO" or array.dtype == np.longdouble or _are_objects(value, array):
        graph.refuse(f"numbers of type {array.dtype}")
    return objects(array.view(np.ndarray))


def objects(array: Any) -> np.ndarray:
    """An object array of the same numbers: of NumPy's own, because ``~True`` of Python's is -2."""
    array = ASARRAY(array)
    if array.dtype.kind in "fb" and array.dtype != object:
        return _BOOLEANS(array) if array.dtype.kind == "b" else _FLOATING(array)
    return array.astype(object)


def _scalar_maker(kind: Any) -> Callable[[np.ndarray], np.ndarray]:
    make = np.frompyfunc(kind, 1, 1)

    def made(array: np.ndarray) -> np.ndarray:
        result = np.empty_like(array, dtype=object, subok=False)
        make(array, out=result) if array.ndim else result.__setitem__((), kind(array[()]))
        return result

    return made


_BOOLEANS, _FLOATING = _scalar_maker(np.bool_), _scalar_maker(np.float64)


def wrapped(graph: Graph, result: Any) -> Any:
    """Object arrays as arrays of terms; a single entry as itself."""
    if isinstance(result, tuple | list):
        return type(result)(wrapped(graph, part) for part in result)
    if isinstance(result, np.ndarray) and result.dtype == object:
        return result.view(TermArray)
    return result


def _stored(graph: Graph, result: Any, out: Any) -> Any:
    target = out[0] if isinstance(out, tuple) else out
    if not isinstance(target, TermArray):
        graph.refuse("an assignment into an array that was made elsewhere (make it inside M with np.zeros)")
    if np.broadcast_shapes(np.shape(result), target.shape) != target.shape:
        graph.refuse("an `out=` of another shape")
    target.view(np.ndarray)[...] = target._fitting(plain(graph, result))
    return target


def _as_floats(value: Any) -> Any:
    """With every array of terms as one of float64, None where a term is among them."""
    if type(value) is Term:
        return None
    if isinstance(value, TermArray):
        floats = _laid_out_like(value)
        if floats is not None:
            floats.flags.writeable = False
        return floats
    if isinstance(value, tuple | list):
        parts = [_as_floats(part) for part in value]
        missing = any(part is None and own is not None for part, own in zip(parts, value, strict=True))
        return None if missing else type(value)(parts)
    if isinstance(value, dict):
        parts = _as_floats(list(value.values()))
        return None if parts is None else dict(zip(value, parts, strict=True))
    return value


def index_of(graph: Graph, index: TermArray) -> Any:
    """A mask or index that does not depend on the inputs."""
    floats = _as_floats(index)
    if floats is None or floats.dtype != bool:
        graph.refuse("an index or mask that depends on the inputs (np.where chooses instead)")
    return floats


def elementwise(graph: Graph, ufunc: np.ufunc, *inputs: Any) -> Any:
    """A function of one result, entry by entry."""
    name = ufunc.__name__
    if name not in SCALAR:
        floats = _as_floats(list(inputs))
        if floats is None:
            graph.refuse(f"np.{name}, which has no rule here")
        return ufunc(*floats)
    arrays = np.broadcast_arrays(*(plain(graph, value) for value in inputs))
    result = EMPTY(arrays[0].shape, dtype=object)
    floats = _as_floats([wrapped(graph, array) for array in arrays])
    if floats is not None:  # by NumPy itself, as M's own numbers are
        with np.errstate(all="ignore"):
            result[...] = objects(ufunc(*floats))
    else:
        for place in np.ndindex(result.shape):
            result[place] = apply_or_fold(graph, name, *(array[place] for array in arrays))
    return wrapped(graph, result) if result.ndim else result[()]


def select_arrays(graph: Graph, condition: Any, one: Any, two: Any) -> Any:
    """``np.where`` of three arguments."""
    one, two = (part if is_condition(part) else checked(graph, part) for part in (one, two))
    parts = (plain(graph, condition), plain(graph, one), plain(graph, two))
    arrays = np.broadcast_arrays(*parts)
    result = EMPTY(arrays[0].shape, dtype=object)
    for place in np.ndindex(result.shape):
        entries = [array[place] for array in arrays]
        if type(entries[0]) is Term:
            result[place] = select(entries[0], entries[1], entries[2], graph)
        else:
            result[place] = entries[1] if entries[0] else entries[2]
    return wrapped(graph, result)


def add_up(graph: Graph, values: np.ndarray) -> np.ndarray:
    """The sums along the last axis of an object array."""
    result = EMPTY(values.shape[:-1], dtype=object)
    for place in np.ndindex(result.shape):
        entries = list(values[place])
        result[place] = total(graph, entries) if entries else 0.0
    return result


def as_outputs(graph: Graph, value: Any) -> np.ndarray:
    """What M returned, as an object array of terms that are numbers."""
    array = plain(graph, make_array(graph, value))
    result = EMPTY(array.shape, dtype=object)
    for place in np.ndindex(array.shape):
        result[place] = number(as_term(graph, array[place]))
    return result


def make_array(graph: Graph, value: Any) -> Any:
    """``np.array(value)`` without the copy of what is an array of terms already."""
    if isinstance(value, TermArray):
        return value
    if isinstance(value, tuple | list):
        value = [make_array(graph, part) for part in value]
        if any(isinstance(part, TermArray) or type(part) is Term for part in value):
            joined = np.stack([plain(graph, part) for part in value])
            for scalar in (True, False):
                kind = np.array(_dummy(value, scalar)).dtype
                if kind.char not in "?d" or (kind.char == "?" and not is_condition(joined)):
                    graph.refuse(f"an array of numbers of type {kind} (multiply by 1.0 first)")
            return wrapped(graph, joined if kind.char == "?" else numbers(joined))
        if not value:
            return ASARRAY(value)
    if type(value) is Term:
        return wrapped(graph, plain(graph, value))
    refuse_others(graph, value)
    array = ASARRAY(value)
    if _are_objects(value, array):
        graph.refuse(f"an array of objects of type {type(value).__name__}")
    if array.dtype == np.float64 and not isinstance(value, float | np.floating):
        return wrapped(graph, objects(array))
    return wrapped(graph, array)


def truths(graph: Graph, value: Any) -> np.ndarray:
    """An object array of truth values."""
    array = plain(graph, value)
    result = EMPTY(array.shape, dtype=object)
    for place in np.ndindex(array.shape):
        entry = array[place]
        result[place] = truth(entry) if type(entry) is Term else bool(entry)
    return result
