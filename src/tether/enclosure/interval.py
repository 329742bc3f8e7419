"""`Interval`: an array of intervals, with derivatives if seeded, that NumPy functions accept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from tether.enclosure.decision import Decision
from tether.enclosure.derivative import Derivative, choose, union
from tether.enclosure.refusal import EnclosureError, refuse, refuse_unsupported
from tether.enclosure.rounding import Array, Pair, point

# What NumPy's functions do to intervals; filled by `operations` and `functions`.
UFUNCS: dict[np.ufunc, Callable[..., Any]] = {}
REDUCTIONS: dict[np.ufunc, Callable[..., Any]] = {}
FUNCTIONS: dict[Any, Callable[..., Any]] = {}

_DROPPED = "would drop the interval and keep a float"


class _View:
    """Where a view came from, so that it follows later assignments as NumPy's views do."""

    def __init__(
        self, base: Interval, read: Callable[[Interval], Interval] | None, index: Any = None
    ) -> None:
        self.base, self.read, self.index = base, read, index
        self.version = base.version


class Interval(np.lib.mixins.NDArrayOperatorsMixin):
    """An array of closed intervals, rounded outward by every operation.

    Args:
        lower: array-like of any shape, finite.
        upper: array-like of the same shape, ``>= lower``.

    Example:
        >>> import numpy as np
        >>> x = Interval([-1.0], [2.0])
        >>> (x**2).lower, np.maximum(x, 0.0).upper
        (array([0.]), array([2.]))
    """

    def __init__(self, lower: ArrayLike, upper: ArrayLike) -> None:
        low, high = np.array(lower, dtype=np.float64), np.array(upper, dtype=np.float64)
        if low.shape != high.shape:
            raise ValueError(f"`lower` and `upper` must have one shape; got {low.shape} and {high.shape}.")
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            raise ValueError("`lower` and `upper` must be finite; got NaN or infinity.")
        if (low > high).any():
            raise ValueError(f"`lower` must be <= `upper`; got {low[low > high][0]} > {high[low > high][0]}.")
        self._set(low, high, None)

    def _set(self, lower: Any, upper: Any, derivative: Derivative | None) -> None:
        self._lower = np.asarray(lower)
        self._upper = self._lower if upper is lower else np.asarray(upper)
        self._derivative = derivative
        self._view: _View | None = None
        self._version = 0
        self._owned = False  # whether assignment may write into the arrays

    @classmethod
    def of(cls, bounds: Pair, derivative: Derivative | None = None) -> Interval:
        """Without checks or copies, from bounds known to be sound."""
        interval = cls.__new__(cls)
        interval._set(*bounds, derivative)
        return interval

    # Views ------------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """Counts the assignments into the array that this one belongs to."""
        return self._version if self._view is None else self._view.base.version

    def as_view(
        self, base: Interval, read: Callable[[Interval], Interval] | None, index: Any = None
    ) -> Interval:
        """Mark this fresh interval as a view of `base`."""
        self._view = _View(base, read, index)
        return self

    def _refresh(self) -> None:
        view = self._view
        if view is None or view.version == view.base.version:
            return
        if view.read is None:
            rule = "was taken of an array that was changed since"
            refuse("reshape", rule, "Take it after the change, or take a .copy()")
        now = view.read(view.base)
        self._lower, self._upper, self._derivative = now._lower, now._upper, now._derivative
        self._owned = False
        view.version = view.base.version

    @property
    def bounds(self) -> Pair:
        """(lower, upper)."""
        self._refresh()
        self._owned = False  # others may now hold these arrays
        return self._lower, self._upper

    @property
    def lower(self) -> Array:
        """Lower bounds."""
        return self.bounds[0]

    @property
    def upper(self) -> Array:
        """Upper bounds."""
        return self.bounds[1]

    @property
    def derivative(self) -> Derivative | None:
        """Derivatives with respect to the seeded inputs, None where there are none."""
        self._refresh()
        self._owned = False
        return self._derivative

    # What an array has ------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return self._lower.shape

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self._lower.ndim

    @property
    def size(self) -> int:
        """Number of entries."""
        return self._lower.size

    @property
    def dtype(self) -> np.dtype:
        """Always float64."""
        return self._lower.dtype

    @property
    def T(self) -> Interval:
        """Transpose."""
        return np.transpose(self)  # type: ignore[return-value]

    def __len__(self) -> int:
        return len(self._lower)

    def __iter__(self) -> Iterator[Interval]:
        return (self[row] for row in range(len(self)))

    def __repr__(self) -> str:
        return f"Interval(\n{self._lower},\n{self._upper})"

    def __getitem__(self, index: Any) -> Interval:
        index = _plain_index(index)
        if not _is_basic(index):
            return take(self, np.arange(self.size).reshape(self.shape)[index])
        return _read(self, index).as_view(self, lambda base: _read(base, index), index)

    def __setitem__(self, index: Any, value: Any) -> None:
        index = _plain_index(index)
        new = as_interval(value, "assignment", infinite=True)
        columns, derivative = self._columns_with(new), new.derivative
        self._own(columns)
        self._lower[index], self._upper[index] = new.bounds
        if columns:
            places = np.arange(self.size).reshape(self.shape)[index]
            if derivative is None:
                parts: Any = (0.0, 0.0)
            else:
                parts = derivative.on_columns(columns).broadcast(places.shape).bounds
            assert self._derivative is not None
            for bound, part in zip(self._derivative.bounds, parts, strict=True):
                if _is_basic(index):
                    bound[(slice(None), *(index if isinstance(index, tuple) else (index,)))] = part
                else:
                    bound.reshape(len(columns), -1)[:, places] = part
        self._changed()

    def _columns_with(self, other: Interval) -> tuple[int, ...]:
        self._refresh()
        return union([self._derivative, other.derivative])

    def _own(self, columns: tuple[int, ...]) -> None:
        """Make the arrays writable, private and wide enough for `columns`."""
        if not self._owned:
            self._lower, self._upper = self._lower.copy(), self._upper.copy()
        old = self._derivative
        if columns and not (self._owned and old is not None and old.columns == columns):
            shape = (len(columns), *self.shape)
            spread = point(np.zeros(shape)) if old is None else old.on_columns(columns).bounds
            copies = (np.array(spread[0], order="C"), np.array(spread[1], order="C"))
            self._derivative = Derivative(columns, copies)
        self._owned = True

    def _changed(self) -> None:
        view = self._view
        if view is None:
            self._version += 1
            return
        if view.index is None:
            refuse("assignment", "into a rearranged view cannot be followed", "Assign into the array itself")
        view.base[view.index] = Interval.of((self._lower.copy(), self._upper.copy()), self._derivative)
        view.version = view.base.version

    # What an array does -----------------------------------------------------------------------------

    def copy(self) -> Interval:
        """An independent copy."""
        return Interval.of(self.bounds, self.derivative)

    def flatten(self) -> Interval:
        """An independent copy with one axis."""
        return self.copy().reshape(-1).copy()

    def reshape(self, *shape: Any, **options: Any) -> Interval:
        """As ``ndarray.reshape``."""
        return np.reshape(self, shape[0] if len(shape) == 1 else shape, **options)  # type: ignore[return-value]

    def transpose(self, *axes: Any) -> Interval:
        """As ``ndarray.transpose``."""
        order = axes[0] if len(axes) == 1 else (axes or None)
        return np.transpose(self, order)  # type: ignore[return-value]

    def __getattr__(self, name: str) -> Any:
        if name in _METHODS:
            function = _METHODS[name]
            return lambda *arguments, **options: dispatch(function, (self, *arguments), options)
        if not name.startswith("_") and hasattr(np.ndarray, name):
            refuse_unsupported(name)
        raise AttributeError(f"'Interval' object has no attribute '{name}'")

    # What an array of floats does and this must not -------------------------------------------------

    def astype(self, dtype: Any, **_: Any) -> NoReturn:
        """Refuses: there is no other type to turn into."""
        refuse("astype", _DROPPED, "Leave it out: states and controls are float64 already")

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        instead = "Leave np.asarray out; build arrays with np.stack, np.concatenate or np.zeros_like(states)"
        refuse("asarray", _DROPPED, instead)

    def __float__(self) -> NoReturn:
        refuse(
            "float", _DROPPED, "Use NumPy's functions in place of math's, and whole columns in place of rows"
        )

    __int__ = __index__ = __complex__ = __float__

    def __bool__(self) -> NoReturn:
        refuse("if", "cannot branch on an interval", "Compare it, and use np.where on decided conditions")

    # Protocols --------------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        out = options.pop("out", None)
        table = {"__call__": UFUNCS, "reduce": REDUCTIONS}.get(method, {})
        if ufunc not in table:
            refuse_unsupported(ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}")
        if options.pop("where", True) is not True:
            refuse(ufunc.__name__, "does not take `where`", "Use np.where on the result")
        result = table[ufunc](*inputs, **options)
        return result if out is None else _write_out(out, result, ufunc.__name__)

    def __array_function__(self, function: Any, _types: Any, arguments: Any, options: Any) -> Any:
        return dispatch(function, arguments, options)


_METHODS: dict[str, Any] = {
    "sum": np.sum,
    "mean": np.mean,
    "prod": np.prod,
    "min": np.min,
    "max": np.max,
    "clip": np.clip,
    "dot": np.dot,
    "ravel": np.ravel,
    "squeeze": np.squeeze,
    "swapaxes": np.swapaxes,
    "take": np.take,
    "repeat": np.repeat,
}


def dispatch(function: Any, arguments: Any, options: dict[str, Any]) -> Any:
    """Call the interval version of a NumPy function, or refuse it by name."""
    if function not in FUNCTIONS:
        module = getattr(function, "__module__", "").removeprefix("numpy").lstrip(".")
        name = f"{module}.{function.__name__}" if module == "linalg" else function.__name__
        refuse_unsupported(name)
    try:
        return FUNCTIONS[function](*arguments, **options)
    except EnclosureError:
        raise
    except TypeError as error:
        if "argument" not in str(error):
            raise
        refuse(
            function.__name__, f"was given an argument that has no interval version ({error})", "Leave it out"
        )


def as_interval(value: Any, operation: str, *, infinite: bool = False) -> Interval:
    """A constant as a point; refuses what float64 cannot hold exactly, and NaN.

    Args:
        value: an interval, decided condition, number or array of numbers.
        operation: named in the refusal.
        infinite: whether infinite constants make sense (for `minimum`, comparisons and the like).
    """
    if isinstance(value, Interval):
        return value
    if isinstance(value, Decision):
        value = value.decided(operation)
    given = np.asarray(value)
    if given.dtype.kind not in "fiub":
        refuse(operation, f"must be given real numbers; got {given.dtype}", "Use np.stack to join intervals")
    constant = given.astype(np.float64)
    if given.dtype.kind in "iu" and (constant.astype(given.dtype) != given).any():
        refuse(operation, "must be given integers that float64 holds exactly", "Use a float")
    if np.isnan(constant).any() or not (infinite or np.isfinite(constant).all()):
        refuse(operation, "must be given finite constants; got NaN or infinity", "Use a finite number")
    return Interval.of((constant, constant))


def take(interval: Interval, positions: Any) -> Interval:
    """A rearranged copy, from positions into the flattened array."""
    lower, upper = (bound.reshape(-1)[positions] for bound in interval.bounds)
    derivative = interval.derivative
    if derivative is not None:
        derivative = derivative.map(
            lambda bound: bound.reshape(bound.shape[0], -1)[:, positions]
        ).compressed()
    return Interval.of((lower, upper), derivative)


def _read(interval: Interval, index: Any) -> Interval:
    lower, upper = interval.bounds
    picked = lower[index]
    bounds = (picked, picked if lower is upper else upper[index])
    derivative = interval.derivative
    if derivative is not None:
        inner = (slice(None), *(index if isinstance(index, tuple) else (index,)))
        derivative = derivative.map(lambda bound: bound[inner]).compressed()
    return Interval.of(bounds, derivative)


def _plain_index(index: Any) -> Any:
    def plain(part: Any) -> Any:
        if isinstance(part, Decision):
            return part.decided("indexing")
        if isinstance(part, Interval):
            refuse("indexing", "must be by constants; got an interval", "Use np.where on decided conditions")
        return part

    return tuple(plain(part) for part in index) if isinstance(index, tuple) else plain(index)


def _is_basic(index: Any) -> bool:
    parts = index if isinstance(index, tuple) else (index,)
    whole = (int, np.integer, slice, type(None), type(Ellipsis))
    return all(isinstance(part, whole) and not isinstance(part, bool) for part in parts)


def _write_out(out: tuple[Any, ...], result: Any, operation: str) -> Any:
    target = out[0]
    if not isinstance(target, Interval):
        instead = "Write `x = x + y` in place of `x += y`, or start from np.zeros_like(states)"
        refuse(operation, "cannot write intervals into an array of floats", instead)
    if target.shape != result.shape:
        raise ValueError(f"`{operation}` cannot write shape {result.shape} into {target.shape}.")
    target[...] = result
    return target


def select(mask: Any, one: Interval, two: Interval) -> Interval:
    """`one` where the constant `mask` holds, `two` elsewhere; broadcast."""
    shape = np.broadcast_shapes(np.shape(mask), one.shape, two.shape)
    mask = np.broadcast_to(mask, shape)
    lower, upper = (np.where(mask, a, b) for a, b in zip(one.bounds, two.bounds, strict=True))
    parts = [None if d is None else d.broadcast(shape) for d in (one.derivative, two.derivative)]
    return Interval.of((lower, upper), choose(mask, parts[0], parts[1]))
