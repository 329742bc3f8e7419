"""Arrays of a trace: NumPy's own, of objects. Structure is NumPy's; only mathematics is ours.

Views, copies, assignment, splitting, stacking and iteration are what NumPy does with an array of objects, and
the objects are immutable. What is ours: elementwise mathematics (:mod:`scalars`), comparisons, and sums and
products over entries, of which NumPy does not say in which order it adds.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Number
from typing import Any

import numpy as np

from tether.programs.refusal import refuse, refuse_unsupported
from tether.programs.scalars import (
    Boxed,
    Node,
    Plain,
    Whole,
    as_constant,
    as_number,
    choose,
    is_condition,
    refuse_kin,
    truth_of,
)


class Traced(np.ndarray):
    """An array of objects: nodes, and plain numbers where entries are constant."""

    def __array_finalize__(self, array: Any) -> None:
        if isinstance(array, Traced) and not self.size:
            self._of_truths = array.dtype == np.bool_  # which no entry is left to tell

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        from tether.programs.ufuncs import call_ufunc

        return call_ufunc(ufunc, method, inputs, options)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        from tether.programs.functions import call_function

        return call_function(func, args, kwargs)

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(_plain_index(index))
        return found if isinstance(found, np.ndarray) else _scalar(found)

    def __setitem__(self, index: Any, value: Any) -> None:
        self._check_writable()
        if self.size and all(map(is_condition, self.flat)):
            if _has_mask(index):
                refuse_overlap("assignment", self, value)
            value = plain_objects(value)
            if not all(map(is_condition, value.flat)):
                refuse("assignment", "into an array of conditions must be of conditions", "Compare first")
        elif _is_conditional(index) and np.ndim(value) == 0:
            mask = np.reshape(index, (*np.shape(index), *(1,) * (self.ndim - np.ndim(index))))
            super().__setitem__(..., where(mask, value, self))
            return
        else:
            if _has_mask(index):
                refuse_overlap("assignment", self, value)
            value = numbers_of(value)
        super().__setitem__(_plain_index(index), value)

    def astype(self, dtype: Any, *arguments: Any, **options: Any) -> Any:
        """A copy, or itself where NumPy would give that; there is no other type to turn into but float64."""
        whole = self.size > 0 and all(map(is_condition, self.flat))
        if not is_float64(dtype) and not (whole and dtype in (bool, np.bool_)):
            refuse(
                "astype",
                f"must be to float64; got {dtype!r}",
                "Leave it out; for an index into a table use np.searchsorted or np.interp",
            )
        if whole and is_float64(dtype):
            return conform(
                "astype", numbers_of(self), np.ndarray.astype, (self, float, *arguments), options
            ).view(Traced)
        # An object is as wide as a float64: what is a copy and what is not is the same.
        return np.ndarray.astype(self, object, *arguments, **options).view(Traced)

    def tolist(self) -> Any:
        """As ``ndarray.tolist``: nodes, and Python's numbers."""
        return _pythons(plain_objects(self).tolist())

    def item(self, *arguments: Any) -> Any:
        """As ``ndarray.item``."""
        return _pythons(np.ndarray.item(self, *arguments))

    def conjugate(self, *arguments: Any, **options: Any) -> Any:
        """Itself, as of floats; NumPy copies objects."""
        if arguments or options:
            refuse("conjugate", "does not take `out`", "Leave it out")
        return self

    conj = conjugate

    def take(self, *arguments: Any, **options: Any) -> Any:
        """As ``ndarray.take``."""
        found = np.ndarray.take(self, *arguments, **options)
        return found if isinstance(found, np.ndarray) else _scalar(found)

    def fill(self, value: Any) -> None:
        """As ``ndarray.fill``."""
        self[...] = value

    def put(self, indices: Any, values: Any, mode: Any = "raise") -> None:
        """As ``ndarray.put``, of numbers."""
        if self.size and all(map(is_condition, self.flat)):
            refuse_unsupported("put")
        self._check_writable()
        np.ndarray.put(self, _plain_index(indices), numbers_of(values), mode)

    def _check_writable(self) -> None:
        """Refuses what is M's to write, and is not followed where it is written."""
        if not self.flags.writeable:
            refuse("assignment", "into an array without axes, or one that may be a view, cannot be followed",
                   "Write x = x + y, or copy it with np.array")  # fmt: skip

    @property
    def dtype(self) -> Any:
        """What M would see: float64, or bool."""
        if not self.size:
            return np.dtype(bool if getattr(self, "_of_truths", False) else np.float64)
        return np.dtype(bool if self.size and all(map(is_condition, self.flat)) else np.float64)

    def mean(self, *arguments: Any, **options: Any) -> Any:
        """As ``ndarray.mean``."""
        return np.mean(self, *arguments, **options)

    def dot(self, other: Any) -> Any:  # type: ignore[override]
        """As ``ndarray.dot``."""
        return np.dot(self, other)

    def round(self, decimals: int = 0) -> Any:  # type: ignore[override]
        """As ``ndarray.round`` without decimals."""
        return np.round(self, decimals)


class Flat:
    """An array's entries one after the other, as M sees them."""

    def __init__(self, array: Traced) -> None:
        self.array, self._next = array, 0

    def __len__(self) -> int:
        return self.array.size

    def _check_start(self) -> None:
        if self._next:
            refuse("flat", "must not be indexed in the middle of a loop over it", "Index the array")

    def __getitem__(self, index: Any) -> Any:
        self._check_start()
        return self._entry(index)

    def _entry(self, index: Any) -> Any:
        found = np.ndarray.flat.__get__(self.array)[_plain_index(index)]  # type: ignore[attr-defined]
        return found.view(Traced) if isinstance(found, np.ndarray) else _scalar(found)

    def __setitem__(self, index: Any, value: Any) -> None:
        self._check_start()
        array = self.array
        if array.size and all(map(is_condition, array.flat)):
            refuse("flat", "of conditions cannot be assigned to", "Index the array")
        refuse_overlap("flat", array, value)
        np.ndarray.flat.__get__(array)[_plain_index(index)] = numbers_of(value)  # type: ignore[attr-defined]

    def __iter__(self) -> Flat:
        return self

    def __next__(self) -> Any:
        if self._next >= len(self):
            raise StopIteration
        self._next += 1
        return self._entry(self._next - 1)

    def copy(self) -> Any:
        """A copy, along one axis."""
        return self[:].copy()


def _of_objects(array: np.ndarray) -> bool:
    return isinstance(array, Traced) or array.dtype == object


def _scalar(value: Any) -> Any:
    """An entry as NumPy would give it: its own float64 or bool where that is known."""
    if isinstance(value, Node | _Unassigned):
        return value.as_numpys() if type(value) is Plain else value
    return np.bool_(value) if isinstance(value, bool | np.bool_) else np.float64(value)


def _pythons(values: Any) -> Any:
    """Nodes as Python's own numbers, in lists or alone."""
    if type(values) is list:
        return [_pythons(value) for value in values]
    return values.item() if isinstance(values, Node) else values


# Nodes in an array of objects answer these as floats would; no other attribute is answered.
ANSWERED = frozenset(
    {"T", "all", "any", "argmax", "argmin", "astype", "choose", "clip", "compress", "conj", "conjugate",
     "copy", "cumprod", "cumsum", "diagonal", "dot", "dtype", "fill", "flatten", "item", "mT", "max", "mean",
     "min", "ndim", "nonzero", "prod", "put", "ravel", "real", "repeat", "reshape", "round", "shape", "size",
     "sort", "squeeze", "sum", "swapaxes", "take", "tolist", "transpose"}
)  # fmt: skip


def wrap(value: Any) -> Any:
    """Anything as an array of a trace; shares memory with an array of objects."""
    if isinstance(value, Node):
        value = value.as_numpys() if type(value) is Plain else value
        array = np.empty((), dtype=object)
        array[()] = value
        return array.view(Traced)
    if type(value) is np.ndarray and value.dtype == object:
        return value.view(Traced)
    return plain_objects(value).view(Traced)


def result_of(values: Any) -> Any:
    """What NumPy would give back: a scalar where there are no axes; plain booleans where all are known."""
    if not isinstance(values, np.ndarray):
        return _scalar(values) if isinstance(values, bool | float) else values
    if not values.ndim:
        return _scalar(values[()])
    if not _of_objects(values):
        return values.astype(object).view(Traced) if values.dtype == np.float64 else values
    if values.size and all(isinstance(value, bool) for value in values.flat):
        return values.astype(bool)
    return values.view(Traced)


def plain_objects(value: Any, name: str = "array") -> Any:
    """An array of objects without our methods; constants as float64 has them."""
    if isinstance(value, Node):
        return wrap(value).view(np.ndarray)
    if isinstance(value, Traced):
        return value.view(np.ndarray)
    refuse_others(name, value)
    array = np.asarray(value)
    if array.dtype == object:
        return _over(_entry, array)
    if array.dtype.kind not in "fiub" or array.dtype.itemsize > 8:
        refuse(name, f"must be of real numbers of at most float64's precision; got {array.dtype}")
    if array.dtype.kind in "iu" and array.size and (array.astype(np.float64).astype(object) != array).any():
        refuse(name, "must be given integers that float64 holds exactly", "Use a float")
    return array.astype(bool if array.dtype.kind == "b" else np.float64).astype(object)


def refuse_others(name: str, *values: Any) -> None:
    """Refuses arrays and numbers of derived kinds: `*` of a matrix is not that of its entries."""
    for value in values:
        if type(value) in (list, tuple):
            refuse_others(name, *value)
        elif isinstance(value, np.ndarray) and type(value) not in (np.ndarray, Traced):
            kind = type(value).__name__
            refuse(name, f"must be given arrays of NumPy's own kind; got {kind}", "Use np.asarray outside")
        elif value is not UNASSIGNED:
            refuse_kin(value, name)


def refuse_overlap(name: str, target: Any, value: Any) -> None:
    """Refuses what NumPy does entry by entry, without a buffer: it may read what it has just written."""
    value = value.array if isinstance(value, Flat) else value
    if isinstance(value, np.ndarray) and np.may_share_memory(target.view(np.ndarray), value.view(np.ndarray)):
        refuse(name, "must not write an array into itself, which NumPy does entry by entry", "Copy it first")


def _has_mask(index: Any) -> bool:
    """Whether truth values are in an index."""
    if isinstance(index, tuple):
        return any(map(_has_mask, index))
    if isinstance(index, slice) or index is None or index is ...:
        return False
    return _is_conditional(index) or np.asarray(stand_in(index)).dtype == np.bool_


def _over(function: Callable[[Any], Any], entries: Any) -> Any:
    """A function of each entry of an array of objects, as another one."""
    found = np.frompyfunc(function, 1, 1)(entries.view(np.ndarray))
    if isinstance(found, np.ndarray):
        return found
    return wrap(found).view(np.ndarray) if isinstance(found, Node) else np.array(found, dtype=object)


def _entry(value: Any) -> Any:
    """What an array holds: nodes, and of constants Python's float or bool, whatever they were."""
    if isinstance(value, Node):
        if type(value) is Plain:
            return value.as_numpys()
        return value.as_float() if type(value) is Whole else value
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if type(value) is float or value is UNASSIGNED:
        return value
    if not isinstance(value, Number):
        refuse("array", f"must be given numbers in rows of one length; got {type(value).__name__}")
    return as_constant(value, "array", infinite=True) if value == value else float(value)  # type: ignore[arg-type]


def graph_of(*values: Any) -> Any:
    """The graph that any of the nodes among `values` belongs to; None: all are constant."""
    for value in values:
        if isinstance(value, Node):
            return value.graph
        if isinstance(value, np.ndarray) and _of_objects(value):
            found = next((entry for entry in value.flat if isinstance(entry, Node)), None)
            if found is not None:
                return found.graph
        if isinstance(value, list | tuple):
            graph = graph_of(*value)
            if graph is not None:
                return graph
    return None


def _is_conditional(index: Any) -> bool:
    """Whether an index is a condition, or an array of them, that is not known."""
    return (isinstance(index, Node) and index.is_condition) or (
        isinstance(index, np.ndarray)
        and _of_objects(index)
        and index.size > 0
        and all(map(is_condition, index.flat))
    )


def _plain_index(index: Any) -> Any:
    """An index of constants; conditions are decided one way and the other, in turn."""
    if isinstance(index, tuple):
        return tuple(_plain_index(part) for part in index)
    if isinstance(index, list) and graph_of(index) is not None:
        index = wrap(index)
    if _is_conditional(index):
        decided = np.frompyfunc(truth_of, 1, 1)(plain_objects(index))
        return np.asarray(decided).astype(bool)
    if graph_of(index) is not None:
        refuse("indexing", "must be by constants", "Use np.where on decided conditions")
    if isinstance(index, Traced):  # constants, among them whole numbers that an index may be
        refuse("indexing", "must be by integers or conditions; got floats", "Give dtype=int")
    return index


def numbers_of(value: Any) -> Any:
    """What an array of floats makes of a value that is put into it."""
    if isinstance(value, Node | Number | np.bool_):
        return as_number(_entry(value))
    return _over(as_number, plain_objects(value))


def stand_in(value: Any) -> Any:
    """A plain value of the kind and layout that a value of the trace has in M."""
    if type(value) is Whole:
        return 1
    if type(value) is Plain:
        return True if value.is_condition else 1.0
    if isinstance(value, Node):
        return np.True_ if value.is_condition else np.float64(1.0)
    if isinstance(value, Traced):
        array = laid_like(value, value.dtype)
        array[...] = 1
        return array
    if type(value) in (list, tuple):
        return type(value)(map(stand_in, value))
    return value


def laid_like(array: Any, dtype: Any) -> Any:
    """An array of the same shape and strides; those of an array of objects are those of float64."""
    size = np.dtype(dtype).itemsize
    steps = [step // 8 * size for step in array.strides]
    reach = [step * (length - 1) for step, length in zip(steps, array.shape, strict=True) if array.size]
    before = -sum(part for part in reach if part < 0)
    after = sum(part for part in reach if part > 0)
    buffer = np.empty((before + after) // size + 1, dtype)
    return np.ndarray(array.shape, dtype, buffer, before, steps)


def conform(  # noqa: C901
    name: str, result: Any, function: Callable[..., Any], arguments: Any, options: dict[str, Any]
) -> Any:
    """The result, in the memory layout that NumPy gives it; refused where NumPy gives another type.

    NumPy itself says so: it is called on stand-ins. Where it gives a view of them, the result must be one.
    """
    given, named = [stand_in(value) for value in arguments], {k: stand_in(v) for k, v in options.items()}
    with np.errstate(all="ignore"):
        like = function(*given, **named)
    if isinstance(like, list | tuple):
        return result
    viewed = _is_view(like, [*given, *named.values()])
    if viewed != _is_view(result, [*arguments, *options.values()]):
        refuse(name, "must give a view where NumPy does, and else none", "Copy what it is given")
    if viewed:
        return result
    dtype, entries = np.asarray(like).dtype, plain_objects(result)
    found = {is_condition(entry) for entry in entries.flat}
    if dtype == np.float64 and True in found:
        result, found = _over(as_number, entries), {False}
    conditions = found == {True}
    if dtype != (np.bool_ if conditions else np.float64) and entries.size:
        refuse(
            name,
            f"must give float64 numbers; NumPy makes {dtype} of these",
            "Multiply by 1.0, or write 1.0 for 1",
        )
    if isinstance(like, np.ndarray) and not like.size and dtype == np.bool_:
        return like
    if isinstance(like, np.ndarray) and not like.ndim:
        return _without_axes(entries[()])
    if not isinstance(like, np.ndarray) or not isinstance(result, np.ndarray):
        return result
    if like.shape != result.shape:
        refuse(name, f"must give shape {like.shape}; got {result.shape}")
    if like.strides == result.strides:
        return result
    laid = np.empty_like(like, dtype=object)
    laid[...] = result
    return laid


def _without_axes(value: Any) -> Any:
    """What stands for an array without axes, which NumPy can change in place where a number cannot be."""
    if isinstance(value, Node):
        return Boxed(value.graph, value.number)
    array = np.array(value)
    array.flags.writeable = False
    return array


def _is_view(result: Any, arguments: list[Any]) -> bool:
    """Whether a result may share memory with an argument, or a part of one."""
    if not isinstance(result, np.ndarray):
        return False
    parts = [part for value in arguments for part in (value if isinstance(value, list | tuple) else (value,))]
    arrays = [np.ndarray.view(part, np.ndarray) for part in parts if isinstance(part, np.ndarray)]
    return any(np.may_share_memory(result.view(np.ndarray), array) for array in arrays)


def is_float64(dtype: Any) -> bool:
    """Whether a `dtype` asks for what arrays of a trace stand for: float64, or nothing."""
    try:
        return dtype is None or np.dtype(dtype) == np.float64
    except TypeError:
        return False


def constants_of(operand: Any, name: str) -> Any:
    """An array of objects that are all constants, as the floats or truth values that they are."""
    operand = operand.view(np.ndarray)
    truths = operand.size > 0 and all(isinstance(value, bool | np.bool_) for value in operand.flat)
    for value in operand.flat:
        as_constant(value, name, infinite=True)
    # NumPy adds up in an order that depends on the layout.
    array = laid_like(operand, bool if truths else np.float64)
    array[...] = operand
    return array


def constant_arguments(values: Any, name: str) -> Any:
    """Arguments of a call as they are in M, where nothing in them depends on an input."""
    if isinstance(values, Traced):
        return constants_of(values, name)
    if type(values) in (list, tuple):
        return type(values)(constant_arguments(value, name) for value in values)
    return values


def where(condition: Any, *branches: Any) -> Any:
    """As ``np.where`` with both branches."""
    if len(branches) != 2:
        refuse("where", "must be given both branches", "Use np.where(condition, one, two)")
    graph = graph_of(condition, *branches)
    parts = [plain_objects(part) for part in (condition, *branches)]
    return np.frompyfunc(lambda c, a, b: choose(c, a, b, graph), 3, 1)(*parts)


class _Unassigned(float):
    """What np.empty holds until it is assigned: whatever was there. Nothing may be made of it."""

    def _refuse(self, *others: Any) -> Any:
        del others
        refuse("empty", "must be assigned before it is used", "Start from np.zeros")

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refuse
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __divmod__ = __rdivmod__ = _refuse
    __pow__ = __rpow__ = __neg__ = __pos__ = __abs__ = __round__ = __int__ = __trunc__ = _refuse
    __floor__ = __ceil__ = is_integer = as_integer_ratio = hex = _refuse
    __hash__ = float.__hash__


UNASSIGNED = _Unassigned("nan")
