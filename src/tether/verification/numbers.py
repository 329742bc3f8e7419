"""Numbers that carry a range and a gradient.

A :class:`Number` stands for every value that an expression takes over a box of inputs, and for its partial
derivatives there. A condition that holds in one part of the box and not in another raises.
"""

from __future__ import annotations

import math
from typing import Any

from flint import arb

from tether.verification.spans import (
    NOTHING,
    UNARY,
    UNIT,
    Span,
    UnboundedError,
    above,
    add,
    greatest,
    hull,
    least,
    multiply,
    negative,
    point,
    power,
    reciprocal,
    root,
)


class Number:
    """A range, and a range for the derivative by each input it depends on.

    Attributes:
        span: the values.
        gradient: the derivatives, by input; an input left out has none.
    """

    __slots__ = ("gradient", "span")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, span: Span, gradient: dict[int, Span]) -> None:
        self.span, self.gradient = span, gradient

    def chain(self, slope: Span) -> dict[int, Span]:
        """The gradient times the slope of an outer function."""
        return {key: multiply(part, slope) for key, part in self.gradient.items()}

    def __neg__(self) -> Number:
        return Number(negative(self.span), {key: negative(part) for key, part in self.gradient.items()})

    def __pos__(self) -> Number:
        return self

    def __abs__(self) -> Number:
        return unary("absolute", self)

    def __add__(self, other: Any) -> Number:
        other = as_number(other)
        return Number(add(self.span, other.span), _merged(self.gradient, other.gradient))

    def __sub__(self, other: Any) -> Number:
        if other is self:
            return Number(NOTHING, {})
        return self + -as_number(other)

    def __rsub__(self, other: Any) -> Number:
        return -self + other

    def __mul__(self, other: Any) -> Number:
        if other is self:
            return unary("square", self)
        other = as_number(other)
        gradient = self.chain(other.span)
        if other.gradient:
            gradient = _merged(gradient, other.chain(self.span))
        return Number(multiply(self.span, other.span), gradient)

    def __truediv__(self, other: Any) -> Number:
        other = as_number(other)
        inverse = reciprocal(other.span)
        span = multiply(self.span, inverse)
        gradient = self.chain(inverse)
        if other.gradient:
            gradient = _merged(gradient, other.chain(negative(multiply(span, inverse))))
        return Number(span, gradient)

    def __rtruediv__(self, other: Any) -> Number:
        return as_number(other) / self

    def __pow__(self, other: Any) -> Number:
        if isinstance(other, Number):
            return unary("exp", other * unary("log", self))
        if float(other).is_integer() and abs(other) < 2**31:
            exponent = int(other)
            if exponent in (0, 1):
                return as_number(1) if exponent == 0 else self
            slope = multiply(point(exponent), power(self.span, exponent - 1))
            return Number(power(self.span, exponent), self.chain(slope))
        if other == 0.5:
            return unary("sqrt", self)
        return self._real_power(float(other))

    def _real_power(self, exponent: float) -> Number:
        base = above(self.span, 0, "power")

        def raised(by: Any) -> Span:
            ends = base[0] ** by, base[1] ** by
            return (ends[0], ends[1]) if by >= 0 else (ends[1], ends[0])

        slope = multiply(point(exponent), raised(arb(exponent) - 1))
        return Number(raised(arb(exponent)), self.chain(slope))

    def __rpow__(self, other: Any) -> Number:
        return unary("exp", self * unary("log", as_number(other)))

    def __mod__(self, other: Any) -> Number:
        return self - (self // other) * as_number(other)

    def __floordiv__(self, other: Any) -> Number:
        return unary("floor", self / as_number(other))

    __radd__, __rmul__ = __add__, __mul__

    def __lt__(self, other: Any) -> bool:
        a, b = self.span, as_number(other).span
        return _decided(a[1] < b[0], a[0] >= b[1])

    def __le__(self, other: Any) -> bool:
        a, b = self.span, as_number(other).span
        return _decided(a[1] <= b[0], a[0] > b[1])

    def __gt__(self, other: Any) -> bool:
        return as_number(other) < self

    def __ge__(self, other: Any) -> bool:
        return as_number(other) <= self

    def __eq__(self, other: Any) -> bool:
        a, b = self.span, as_number(other).span
        same = a[0] is a[1] and b[0] is b[1] and a[0] == b[0]
        return _decided(same, a[1] < b[0] or a[0] > b[1])

    def __ne__(self, other: Any) -> bool:
        return not self == other

    def __bool__(self) -> bool:
        return self != 0

    def conjugate(self) -> Number:
        """Itself: numbers here are real."""
        return self


def _merged(one: dict[int, Span], two: dict[int, Span]) -> dict[int, Span]:
    if not two:
        return one
    merged = dict(one)
    for key, part in two.items():
        merged[key] = add(merged[key], part) if key in merged else part
    return merged


def _decided(true: bool, false: bool) -> bool:
    if true == false:
        raise UnboundedError("a condition that holds in one part of a cell and not in another")
    return true


def as_number(value: Any) -> Number:
    """A constant, or the number itself."""
    return value if isinstance(value, Number) else Number(point(value), {})


def unary(name: str, value: Any) -> Number:
    """One of :data:`UNARY` of a number."""
    number = as_number(value)
    rule, slope = UNARY[name]
    return Number(rule(number.span), number.chain(slope(number.span)) if number.gradient else {})


def minimum(one: Any, two: Any) -> Number:
    """The lesser; where either may be, the hull of both gradients."""
    if _is_infinite(one) or _is_infinite(two):
        return as_number(two if one == math.inf else one if two == math.inf else -math.inf)
    left, right = as_number(one), as_number(two)
    if left.span[1] < right.span[0]:
        return left
    if right.span[1] < left.span[0]:
        return right
    span = left.span[0].min(right.span[0]), left.span[1].min(right.span[1])
    keys = left.gradient.keys() | right.gradient.keys()
    either = {key: hull(left.gradient.get(key, NOTHING), right.gradient.get(key, NOTHING)) for key in keys}
    return Number(span, either)


def maximum(one: Any, two: Any) -> Number:
    """The greater."""
    return -minimum(-one, -two)


def _is_infinite(value: Any) -> bool:
    return not isinstance(value, Number) and math.isinf(value)


def angle(one: Any, two: Any) -> Number:
    """arctan2 clear of its cut and of the origin: the extremes over a box lie at its corners."""
    y, x = as_number(one), as_number(two)
    if not (x.span[0] > 0 or y.span[0] > 0 or y.span[1] < 0):
        raise UnboundedError("np.arctan2 across its cut")
    corners = [arb.atan2(a, b) for a in y.span for b in x.span]
    inverse = reciprocal(add(power(y.span, 2), power(x.span, 2)))
    slopes = multiply(x.span, inverse), negative(multiply(y.span, inverse))
    gradient = _merged(y.chain(slopes[0]), x.chain(slopes[1]))
    return Number((least(*corners), greatest(*corners)), gradient)


def length(parts: list[Any]) -> Number:
    """Euclidean length; its slope by each part lies in [-1, 1] even where the length is 0."""
    numbers = [as_number(part) for part in parts]
    squares = NOTHING
    for number in numbers:
        squares = add(squares, power(number.span, 2))
    whole = root(squares)
    gradient: dict[int, Span] = {}
    for number in numbers:
        slope = UNIT
        if whole[0] > 0:
            share = multiply(number.span, reciprocal(whole))
            slope = share[0].max(UNIT[0]), share[1].min(UNIT[1])
        gradient = _merged(gradient, number.chain(slope))
    return Number(whole, gradient)
