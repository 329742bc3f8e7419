"""Elementwise functions in NumPy's spelling and in balls (python-flint's arb), values and partial derivatives."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from flint import arb, fmpz


class Tie(Exception):
    """Two sides of a kink or a jump meet here: there is no derivative, or no telling which side it is."""


class Jump(Tie):
    """The value itself jumps here; nothing is promised of a derivative."""


@dataclass(frozen=True)
class Function:
    """One operation; `source` has places {0}, {1}, and {c} for a constant that `ball` is given last."""

    source: str
    ball: Callable[..., arb]
    slopes: Callable[..., list[arb]]
    arity: int = 1
    constants: tuple[float, ...] | None = None


def decided(condition: bool, opposite: bool) -> bool:
    if bool(condition) == bool(opposite):
        raise Tie
    return bool(condition)


def sign(x: arb) -> arb:
    return arb(1) if decided(x > 0, x < 0) else arb(-1)


def step_side(x: arb) -> arb:
    """1 above 0, 0 below; at 0 there is a jump."""
    if bool(x > 0) == bool(x < 0):
        raise Jump
    return arb(1) if x > 0 else arb(0)


def sign_value(x: arb) -> arb:
    return arb(0) if x == 0 else sign(x)


def whole(x: arb, rounding: str = "floor") -> arb:
    result = x.floor() if rounding == "floor" else x.ceil()
    if not result.is_exact():
        raise Tie
    return result


def flat(x: arb, *_: arb) -> list[arb]:
    """The slope of a step function: 0 but at its jumps."""
    if whole(x) == x:
        raise Jump
    return [arb(0)]


def one_if(condition: bool, opposite: bool) -> arb:
    return arb(1) if decided(condition, opposite) else arb(0)


def modulo(x: arb, c: arb) -> arb:
    return x - c * whole(x / c)


def modulo_slope(x: arb, c: arb) -> list[arb]:
    flat(x / c)
    return [arb(1)]


def truncated(x: arb) -> arb:
    return whole(x) if not x < 0 else whole(x, "ceil")


def remainder(x: arb, c: arb) -> arb:
    return x - c * truncated(x / c)


def remainder_slope(x: arb, c: arb) -> list[arb]:
    quotient = x / c
    if whole(quotient) == quotient and not quotient == 0:
        raise Jump
    return [arb(1)]


def rounded(x: arb) -> arb:
    """To the nearest whole number, halves to even."""
    below = whole(x)
    gap = x - below - arb(0.5)
    if gap == 0:
        return below if fmpz(int(below.unique_fmpz())) % 2 == 0 else below + 1
    return below + (1 if decided(gap > 0, gap < 0) else 0)


def rounded_slope(x: arb) -> list[arb]:
    return flat(x + arb(0.5))


def cube_root(x: arb) -> arb:
    if x == 0:
        return arb(0)
    return abs(x).root(3) * sign(x)


def power(x: arb, c: arb) -> arb:
    return x**c


def integer_power(x: arb, c: arb) -> arb:
    return x ** int(float(c))


def integer_slope(x: arb, c: arb) -> list[arb]:
    return [c * x ** (int(float(c)) - 1)]


def angle(y: arb, x: arb) -> arb:
    return arb.atan2(y, x)


def angle_slopes(y: arb, x: arb) -> list[arb]:
    if y == 0 and not x > 0:
        raise Jump
    squared = x * x + y * y
    return [x / squared, -y / squared]


def length(x: arb, y: arb) -> arb:
    return (x * x + y * y).sqrt()


def length_slopes(x: arb, y: arb) -> list[arb]:
    if x == 0 and y == 0:
        raise Tie
    return [x / length(x, y), y / length(x, y)]


def extreme_slopes(x: arb, y: arb) -> list[arb]:
    """Of the larger of two."""
    first = one_if(x > y, y > x)
    return [first, 1 - first]


def root_slope(x: arb) -> list[arb]:
    return [1 / (2 * x.sqrt())]


def log_of(x: arb, base: float) -> arb:
    return x.log() / arb(base).log()


def softplus(x: arb, y: arb) -> arb:
    top, low = x.max(y), x.min(y)
    return top + (low - top).exp().log1p()


def softplus_slopes(x: arb, y: arb) -> list[arb]:
    share = 1 / (1 + (y - x).exp())
    return [share, 1 / (1 + (x - y).exp())]


def softplus2(x: arb, y: arb) -> arb:
    return softplus(x * arb(2).log(), y * arb(2).log()) / arb(2).log()


def softplus2_slopes(x: arb, y: arb) -> list[arb]:
    return softplus_slopes(x * arb(2).log(), y * arb(2).log())


def clipped_slope(x: arb, c: arb) -> list[arb]:
    return [one_if(x > -abs(c), x < -abs(c)) * one_if(x < abs(c), x > abs(c))]


TABLE = ((-1.0, 3.0), (0.5, -1.0), (2.0, 0.25), (9.81, 0.25), (1e5, 7.0))
TABLE_SOURCE = "np.interp({0}, [-1.0, 0.5, 2.0, 9.81, 1e5], [3.0, -1.0, 0.25, 0.25, 7.0]"


def piece(x: arb) -> int:
    """How many points of the table lie below; on one of them two pieces meet."""
    return sum(decided(x > point, x < point) for point, _ in TABLE)


def look_up(x: arb) -> arb:
    on = [value for point, value in TABLE if x == point]
    if on:
        return arb(on[0])
    k = piece(x)
    if k in (0, len(TABLE)):
        return arb(TABLE[max(k - 1, 0)][1])
    return arb(TABLE[k - 1][1]) + table_slope(x)[0] * (x - TABLE[k - 1][0])


def table_slope(x: arb) -> list[arb]:
    k = piece(x)
    if k in (0, len(TABLE)):
        return [arb(0)]
    (x0, y0), (x1, y1) = TABLE[k - 1 : k + 1]
    return [(arb(y1) - arb(y0)) / (arb(x1) - arb(x0))]


def look_up_or_leave(x: arb) -> arb:
    """With other values beyond the ends, where it jumps."""
    beyond = decided(x < TABLE[0][0], x >= TABLE[0][0]), decided(x > TABLE[-1][0], x <= TABLE[-1][0])
    return arb(-5) if beyond[0] else arb(0.125) if beyond[1] else look_up(x)


def leaving_slope(x: arb) -> list[arb]:
    if x == TABLE[0][0] or x == TABLE[-1][0]:
        raise Jump
    return table_slope(x)


MATRIX = "np.stack([np.stack([2.0 + {0} * {0}, {1}], 1), np.stack([-1.0 * {1}, np.ones(len({0}))], 1)], 1)"


def solution_slopes(x: arb, y: arb) -> list[arb]:
    """Of ``(x - y²) / (2 + x² + y²)``."""
    over, under = x - y * y, 2 + x * x + y * y
    return [(under - over * 2 * x) / under**2, (-2 * y * under - over * 2 * y) / under**2]


def inverse_slopes(x: arb, y: arb) -> list[arb]:
    under = 2 + x * x + y * y
    return [2 * x * y / under**2, -(under - 2 * y * y) / under**2]


def side_of_half(x: arb) -> bool:
    return decided(x < 0.5, x >= 0.5)


def piece_slope(x: arb) -> list[arb]:
    if x == 0.5:
        raise Jump
    return [arb(2)] if side_of_half(x) else [2 * x]


def pi() -> arb:
    return arb.pi()


SIZES = (
    0.0, 1.0, -1.0, 2.0, 0.5, -3.0, 0.1, 1 / 3, math.pi, 9.81, 1e-3, 1e5, 1e-8, -1e16, 1e150, -1e-150, 1e300, 1e-300,
    1e-308, 5e-324, -1e-320, 1.7e308, 2.0**-1022, 1 + 2.0**-52,
)  # fmt: skip
PERIODS = (1.0, 0.1, -0.7, 2 * math.pi, 360.0, 3.0, 1e-3, 1e10)
WHOLES = (2, 3, 4, 5, 7, 8, -1, -2, -3, 1, 0)
REALS = (0.5, 1.5, 2.5, -0.5, -1.25, 1 / 3, 0.1, 3.7)

UNARY = {
    "negative": Function("-{0}", lambda x: -x, lambda x: [arb(-1)]),
    "abs": Function("np.abs({0})", abs, lambda x: [sign(x)]),
    "square": Function("np.square({0})", lambda x: x * x, lambda x: [2 * x]),
    "reciprocal": Function("np.reciprocal({0})", lambda x: 1 / x, lambda x: [-1 / (x * x)]),
    "one over": Function("1.0 / {0}", lambda x: 1 / x, lambda x: [-1 / (x * x)]),
    "sqrt": Function("np.sqrt({0})", arb.sqrt, root_slope),
    "cbrt": Function("np.cbrt({0})", cube_root, lambda x: [1 / (3 * cube_root(x) ** 2)]),
    "exp": Function("np.exp({0})", arb.exp, lambda x: [x.exp()]),
    "exp2": Function("np.exp2({0})", lambda x: arb(2) ** x, lambda x: [arb(2) ** x * arb(2).log()]),
    "expm1": Function("np.expm1({0})", arb.expm1, lambda x: [x.exp()]),
    "log": Function("np.log({0})", arb.log, lambda x: [1 / x]),
    "log1p": Function("np.log1p({0})", arb.log1p, lambda x: [1 / (1 + x)]),
    "log2": Function("np.log2({0})", lambda x: log_of(x, 2), lambda x: [1 / (x * arb(2).log())]),
    "log10": Function("np.log10({0})", lambda x: log_of(x, 10), lambda x: [1 / (x * arb(10).log())]),
    "sin": Function("np.sin({0})", arb.sin, lambda x: [x.cos()]),
    "cos": Function("np.cos({0})", arb.cos, lambda x: [-x.sin()]),
    "tan": Function("np.tan({0})", arb.tan, lambda x: [1 + x.tan() ** 2]),
    "arcsin": Function("np.arcsin({0})", arb.asin, lambda x: [1 / (1 - x * x).sqrt()]),
    "arccos": Function("np.arccos({0})", arb.acos, lambda x: [-1 / (1 - x * x).sqrt()]),
    "arctan": Function("np.arctan({0})", arb.atan, lambda x: [1 / (1 + x * x)]),
    "sinh": Function("np.sinh({0})", arb.sinh, lambda x: [x.cosh()]),
    "cosh": Function("np.cosh({0})", arb.cosh, lambda x: [x.sinh()]),
    "tanh": Function("np.tanh({0})", arb.tanh, lambda x: [1 / x.cosh() ** 2]),
    "arcsinh": Function("np.arcsinh({0})", arb.asinh, lambda x: [1 / (1 + x * x).sqrt()]),
    "arccosh": Function("np.arccosh({0})", arb.acosh, lambda x: [1 / (x * x - 1).sqrt()]),
    "arctanh": Function("np.arctanh({0})", arb.atanh, lambda x: [1 / (1 - x * x)]),
    "deg2rad": Function("np.deg2rad({0})", lambda x: x * pi() / 180, lambda x: [pi() / 180]),
    "rad2deg": Function("np.rad2deg({0})", lambda x: x * 180 / pi(), lambda x: [180 / pi()]),
    "floor": Function("np.floor({0})", whole, flat),
    "ceil": Function("np.ceil({0})", lambda x: whole(x, "ceil"), flat),
    "trunc": Function("np.trunc({0})", truncated, flat),
    "rint": Function("np.rint({0})", rounded, rounded_slope),
    "sign": Function("np.sign({0})", sign_value, lambda x: [step_side(x) * 0]),
    "add constant": Function("{0} + {c}", lambda x, c: x + c, lambda x, c: [arb(1)], constants=SIZES),
    "from constant": Function("{c} - {0}", lambda x, c: c - x, lambda x, c: [arb(-1)], constants=SIZES),
    "times constant": Function("{c} * {0}", lambda x, c: c * x, lambda x, c: [c], constants=SIZES),
    "over constant": Function("{0} / {c}", lambda x, c: x / c, lambda x, c: [1 / c], constants=SIZES),
    "constant over": Function("{c} / {0}", lambda x, c: c / x, lambda x, c: [-c / (x * x)], constants=SIZES),
    "integer power": Function("{0} ** {c}", integer_power, integer_slope, constants=WHOLES),
    "float power": Function("np.float_power({0}, {c})", integer_power, integer_slope, constants=WHOLES),
    "real power": Function("{0} ** {c}", power, lambda x, c: [c * x ** (c - 1)], constants=REALS),
    "of constant": Function("{c} ** {0}", lambda x, c: c**x, lambda x, c: [c**x * c.log()], constants=(0.3, 2.0, 10.0, 1.0)),
    "clip": Function("np.clip({0}, -abs({c}), abs({c}))", lambda x, c: x.max(-abs(c)).min(abs(c)), clipped_slope, constants=SIZES),
    "maximum of constant": Function("np.maximum({0}, {c})", lambda x, c: x.max(c), lambda x, c: [one_if(x > c, x < c)], constants=SIZES),
    "mod": Function("np.mod({0}, {c})", modulo, modulo_slope, constants=PERIODS),
    "percent": Function("{0} % {c}", modulo, modulo_slope, constants=PERIODS),
    "floor divide": Function("{0} // {c}", lambda x, c: whole(x / c), lambda x, c: flat(x / c), constants=PERIODS),
    "table": Function(TABLE_SOURCE + ")", look_up, table_slope),
    "table with ends": Function(TABLE_SOURCE + ", left=-5.0, right=0.125)", look_up_or_leave, leaving_slope),
    "piecewise": Function("np.piecewise({0}, [{0} < 0.5], [lambda v: 2.0 * v, lambda v: v * v])", lambda x: 2 * x if side_of_half(x) else x * x, piece_slope),
    "fmod": Function("np.fmod({0}, {c})", remainder, remainder_slope, constants=PERIODS),
    "heaviside": Function("np.heaviside({0}, 0.25)", lambda x: arb(0.25) if x == 0 else one_if(x > 0, x < 0), lambda x: [step_side(x) * 0]),
}  # fmt: skip
BINARY = {
    "add": Function("{0} + {1}", lambda x, y: x + y, lambda x, y: [arb(1), arb(1)], 2),
    "subtract": Function("{0} - {1}", lambda x, y: x - y, lambda x, y: [arb(1), arb(-1)], 2),
    "multiply": Function("{0} * {1}", lambda x, y: x * y, lambda x, y: [y, x], 2),
    "divide": Function("{0} / {1}", lambda x, y: x / y, lambda x, y: [1 / y, -x / (y * y)], 2),
    "power": Function("{0} ** {1}", lambda x, y: x**y, lambda x, y: [y * x ** (y - 1), x**y * x.log()], 2),
    "minimum": Function("np.minimum({0}, {1})", arb.min, lambda x, y: extreme_slopes(-x, -y), 2),
    "maximum": Function("np.maximum({0}, {1})", arb.max, extreme_slopes, 2),
    "hypot": Function("np.hypot({0}, {1})", length, length_slopes, 2),
    "norm": Function("np.linalg.norm(np.stack([{0}, {1}], axis=1), axis=1)", length, length_slopes, 2),
    "arctan2": Function("np.arctan2({0}, {1})", angle, angle_slopes, 2),
    "logaddexp": Function("np.logaddexp({0}, {1})", softplus, softplus_slopes, 2),
    "logaddexp2": Function("np.logaddexp2({0}, {1})", softplus2, softplus2_slopes, 2),
    "sum": Function("np.sum([{0}, {1}, {0}], axis=0)", lambda x, y: x + y + x, lambda x, y: [arb(2), arb(1)], 2),
    "mean": Function("np.mean(np.stack([{0}, {1}], 1), axis=1)", lambda x, y: (x + y) / 2, lambda x, y: [arb(0.5), arb(0.5)], 2),
    "prod": Function("np.prod([{0}, {1}, {0}], axis=0)", lambda x, y: x * y * x, lambda x, y: [2 * x * y, x * x], 2),
    "dot": Function("np.stack([{0}, {1}], axis=1) @ np.array([1e8, -1.0])", lambda x, y: arb(1e8) * x - y, lambda x, y: [arb(1e8), arb(-1)], 2),
    "einsum": Function("np.einsum('ni,ni->n', np.stack([{0}, {1}], 1), np.stack([{1}, {0}], 1))", lambda x, y: 2 * x * y, lambda x, y: [2 * y, 2 * x], 2),
    "polyval": Function("np.polyval([0.3, -1.0, 0.1], {0}) * {1}", lambda x, y: ((arb(0.3) * x - 1) * x + arb(0.1)) * y, lambda x, y: [(2 * arb(0.3) * x - 1) * y, (arb(0.3) * x - 1) * x + arb(0.1)], 2),
    "solve": Function(f"np.linalg.solve({MATRIX}, np.stack([{{0}}, {{1}}], 1)[:, :, None])[:, 0, 0]", lambda x, y: (x - y * y) / (2 + x * x + y * y), solution_slopes, 2),
    "inv": Function(f"np.linalg.inv({MATRIX})[:, 0, 1]", lambda x, y: -y / (2 + x * x + y * y), inverse_slopes, 2),
    "det": Function(f"np.linalg.det({MATRIX})", lambda x, y: 2 + x * x + y * y, lambda x, y: [2 * x, 2 * y], 2),
    "if positive": Function("np.where({0} > 0, {0}, {1})", lambda x, y: x if decided(x > 0, x <= 0) else y, lambda x, y: [step_side(x), 1 - step_side(x)], 2),
}  # fmt: skip
FUNCTIONS = UNARY | BINARY
