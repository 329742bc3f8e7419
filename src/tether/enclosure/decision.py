"""Three-valued booleans: what a comparison of intervals gives."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from tether.enclosure.refusal import place, refuse, refuse_unsupported
from tether.enclosure.rounding import Pair

_SPLIT = "Use np.minimum, np.maximum or np.clip in place of the condition, or smaller boxes"


class Decision(np.lib.mixins.NDArrayOperatorsMixin):
    """A condition per entry: true over its whole box, false over its whole box, or undecided.

    Attributes:
        true: boolean array, where the condition holds for every point of the box.
        false: boolean array of the same shape, where it holds for none.
    """

    def __init__(self, true: Any, false: Any) -> None:
        self.true, self.false = np.asarray(true), np.asarray(false)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the condition."""
        return self.true.shape

    def decided(self, operation: str) -> np.ndarray:
        """The plain boolean array; refuses, naming the first entry, where one is undecided."""
        undecided = ~(self.true | self.false)
        if undecided.any():
            where = place(np.unravel_index(int(undecided.argmax()), undecided.shape))
            rule = f"needs a condition that is the same over each whole box; undecided {where}"
            refuse(operation, rule, _SPLIT)
        return self.true

    def __bool__(self) -> bool:
        if self.true.size != 1:
            rule = f"needs a single condition; got an array of shape {self.shape}"
            refuse("if", rule, "Use np.where, which decides row by row")
        return bool(self.decided("if"))

    def any(self, axis: int | None = None) -> Decision:
        """Whether any entry along `axis` holds."""
        return Decision(self.true.any(axis=axis), self.false.all(axis=axis))

    def all(self, axis: int | None = None) -> Decision:
        """Whether all entries along `axis` hold."""
        return Decision(self.true.all(axis=axis), self.false.any(axis=axis))

    def __getitem__(self, index: Any) -> Decision:
        return Decision(self.true[index], self.false[index])

    def __len__(self) -> int:
        return len(self.true)

    def __repr__(self) -> str:
        return f"Decision(true={self.true}, false={self.false})"

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        refuse("asarray", "cannot turn a three-valued condition into a plain array", _SPLIT)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if ufunc in _LOGIC and method == "__call__" and not options:
            return _LOGIC[ufunc](*(as_decision(value) for value in inputs))
        from tether.enclosure.interval import Interval  # arithmetic on a decided condition

        plain = [value.decided(ufunc.__name__) if isinstance(value, Decision) else value for value in inputs]
        if any(isinstance(value, Interval) for value in plain):
            return getattr(ufunc, method)(*plain, **options)
        refuse_unsupported(ufunc.__name__)

    def __array_function__(self, function: Any, _types: Any, arguments: Any, options: Any) -> Any:
        if function in (np.any, np.all):
            return getattr(arguments[0], function.__name__)(*arguments[1:], **options)
        from tether.enclosure.interval import dispatch

        return dispatch(function, arguments, options)


def as_decision(value: Any) -> Decision:
    """A plain boolean array as a decided condition."""
    if isinstance(value, Decision):
        return value
    value = np.asarray(value, dtype=bool)
    return Decision(value, ~value)


def _both(one: Decision, two: Decision) -> Decision:
    return Decision(one.true & two.true, one.false | two.false)


def _either(one: Decision, two: Decision) -> Decision:
    return Decision(one.true | two.true, one.false & two.false)


def _invert(one: Decision) -> Decision:
    return Decision(one.false, one.true)


_LOGIC: dict[np.ufunc, Any] = {
    np.logical_and: _both,
    np.bitwise_and: _both,
    np.logical_or: _either,
    np.bitwise_or: _either,
    np.logical_not: _invert,
    np.invert: _invert,
}


def _less(one: Pair, two: Pair) -> Decision:
    return Decision(one[1] < two[0], one[0] >= two[1])


def _less_equal(one: Pair, two: Pair) -> Decision:
    return Decision(one[1] <= two[0], one[0] > two[1])


def _equal(one: Pair, two: Pair) -> Decision:
    same = (one[0] == one[1]) & (two[0] == two[1]) & (one[0] == two[0])
    return Decision(same, (one[1] < two[0]) | (one[0] > two[1]))


COMPARE: dict[np.ufunc, Any] = {
    np.less: _less,
    np.less_equal: _less_equal,
    np.greater: lambda one, two: _less(two, one),
    np.greater_equal: lambda one, two: _less_equal(two, one),
    np.equal: _equal,
    np.not_equal: lambda one, two: _invert(_equal(one, two)),
}
