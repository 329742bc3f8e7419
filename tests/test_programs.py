"""What programs are traced from, what they give over boxes, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tether.data import make_schema
from tether.evidence.question import target_program
from tether.programs import EnclosureError, enclose, enclose_range, evaluate, trace
from tether.trusted import TrustedModel

MATRIX = np.array([[1.0, -2.0, 0.5], [0.0, 3.0, 1.0], [2.0, 0.25, -1.0]])


def assigned(x, u):
    out = np.empty_like(x)
    out[:, 2] = x[:, 2] + u[:, 0]
    heading = out[:, 2]
    out[:, 0] = x[:, 0] * np.cos(heading)
    out[:, 1] = x[:, 1] * np.sin(heading)
    return out


def assigned_rows_and_masks(x, u):
    out = np.zeros_like(x)
    out[...] = x
    out[:, [0, 2]] = x[:, [2, 0]] * 2
    out[:, np.array([False, True, False])] = u[:, :1]
    return out


def updated_in_place(x, u):
    y = x * 1.0
    y += u[:, :1]
    y[:, 0] *= 3.0
    view = y[:, 1]
    view -= x[:, 2]
    y[:, 2] = view
    return y


def viewed_after_change(x, u):
    y = x.copy()
    column, turned = y[:, 0], y.T
    y[:, 0] = x[:, 1] * x[:, 2]
    return np.stack([column, turned[0], y[:, 0]], axis=1)


def overlapping(x, u):
    y = x.copy()
    y[:, 0], y[:, 1] = 1.0 * y[:, 1], 1.0 * y[:, 0]
    return y


def rotated(x, u):
    cosine, sine, zero = np.cos(x[:, 0]), np.sin(x[:, 0]), np.zeros_like(x[:, 0])
    rows = [
        np.stack([cosine, -sine, zero], -1),
        np.stack([sine, cosine, zero], -1),
        np.stack([zero, zero, zero + 1], -1),
    ]
    return (np.stack(rows, -2) @ x[:, :, None]).squeeze(-1)


# Everything that moves, joins or reduces, run on intervals and on floats.
MODELS = {
    "unpacking": lambda x, u: np.stack(list(x.T), axis=1),
    "columns": lambda x, u: np.column_stack([x[:, 0] * u[:, 1], x[:, 1:], np.ones(len(x))]),
    "hstack": lambda x, u: np.hstack([x, u]),
    "hstack 1d": lambda x, u: np.hstack([x[:, 0], x[:, 1]]).reshape(2, -1).T,
    "vstack": lambda x, u: np.vstack([x[:, 0], u[:, 1]]).T,
    "concatenate": lambda x, u: np.concatenate([u, x, np.zeros((len(x), 2))], axis=-1),
    "concatenate flat": lambda x, u: np.concatenate([x[:, :2], u], axis=None).reshape(2, len(x), 2)[1],
    "stack last": lambda x, u: np.stack([x[:, 0], x[:, 2]], axis=-1),
    "expand": lambda x, u: np.expand_dims(x[:, 0], 1) + x,
    "none index": lambda x, u: x[:, 0, None] * x,
    "ellipsis": lambda x, u: x[..., ::-1],
    "integer arrays": lambda x, u: x[:, [2, 0, 0]],
    "two integer arrays": lambda x, u: x[np.arange(len(x)), np.full(len(x), 2)][:, None],
    "separated integer arrays": lambda x, u: x.reshape(len(x), 1, 3)[:, :, [0, 1]][:, 0],
    "mask": lambda x, u: x[:, np.array([True, False, True])],
    "reshape": lambda x, u: x.reshape(len(x), 3, 1).reshape((-1, 3)),
    "ravel": lambda x, u: np.ravel(x).reshape(-1, 3) + x.ravel().reshape(x.shape),
    "transpose": lambda x, u: x.transpose().transpose(1, 0) + np.transpose(x.T, (1, 0)),
    "moves": lambda x, u: np.moveaxis(np.swapaxes(x[:, :, None], 1, 2), 2, 1)[..., 0],
    "roll, flip, tile": lambda x, u: np.roll(x, 1, axis=1) + np.flip(x, axis=1) + np.tile(u[:, :1], (1, 3)),
    "repeat, take": lambda x, u: np.repeat(u[:, :1], 3, axis=1) * np.take(x, [2, 1, 0], axis=1),
    "split": lambda x, u: np.concatenate(np.split(x, 3, axis=1)[::-1], axis=1),
    "broadcast_to": lambda x, u: np.broadcast_to(x[:, :1], (len(x), 4)),
    "atleast_2d": lambda x, u: np.atleast_2d(x),
    "broadcasting": lambda x, u: (x[:, :, None] * u[:, None, :]).reshape(len(x), 6),
    "sum": lambda x, u: x.sum(axis=1, keepdims=True) + np.sum(u, axis=1)[:, None],
    "sum of all axes": lambda x, u: x[:, :, None].sum(axis=(1, 2))[:, None],
    "negative axis": lambda x, u: np.mean(x, axis=-1, keepdims=True),
    "prod": lambda x, u: np.prod(x, axis=1, keepdims=True),
    "add.reduce": lambda x, u: np.add.reduce(x, axis=1)[:, None],
    "max, min": lambda x, u: np.stack([x.max(axis=1), np.min(u, axis=1)], axis=1),
    "matmul": lambda x, u: x @ MATRIX,
    "row times matrix": lambda x, u: np.stack([MATRIX[0] @ x.T, x @ MATRIX[:, 1]], axis=1),
    "matrix first": lambda x, u: (MATRIX @ x.T).T,
    "matmul in batches": lambda x, u: np.matmul(MATRIX, x[:, :, None])[:, :, 0],
    "batch of constants": lambda x, u: (np.stack([MATRIX, -MATRIX]) @ x.T).sum(axis=0).T + x,
    "rotated": rotated,
    "inner product": lambda x, u: (x[:, None, :] @ x[:, :, None])[:, 0],
    "dot": lambda x, u: np.dot(x, MATRIX) + x.dot(MATRIX),
    "cross": lambda x, u: np.cross(x, np.array([1.0, 2.0, 3.0])) + np.cross(x, x[:, ::-1]),
    "cross by axis": lambda x, u: np.cross(x.T, MATRIX[:, :1] + 0 * x.T, axis=0).T,
    "norm": lambda x, u: x / np.linalg.norm(x, axis=1, keepdims=True),
    "norm of one": lambda x, u: np.linalg.norm(x, axis=1)[:, None],
    "clip": lambda x, u: np.clip(x, 0.8, None) + x.clip(-9.0, np.array([9.0, 1.4, 9.0])) + np.clip(x, max=9.0),
    "where": lambda x, u: np.where(x > 0, x * 2, x**2) + np.where(np.array([True, False, True]), x, 1.0),
    "where and": lambda x, u: np.where((x[:, 0] > 0) & ~(x[:, 1] < -5), x[:, 0], u[:, 0])[:, None],
    "decided index": lambda x, u: x[(x[:, 0] > -99)],
    "times condition": lambda x, u: x * (x > 0),
    "sign, floor, mod": lambda x, u: np.sign(x) + np.floor(x / 100) + x % 100.0 + x // 100.0,
    "conversion": lambda x, u: np.deg2rad(np.rad2deg(x)) + np.radians(x) + np.degrees(x),
    "powers": lambda x, u: x**3 + x**2.0 + x**-1 + np.power(x, 0.5) + x**0 + x**1 + 2.0**x + np.float_power(x, 1.5),
    "power of intervals": lambda x, u: x ** u[:, :1],
    "reflected": lambda x, u: 1.0 - x + 2.0 / x + 3 * x + (-x) - (+x) + abs(x),
    "numpy scalars": lambda x, u: np.float64(2.0) * x + np.float32(0.5) * x + np.int64(3) - x,
    "full_like": lambda x, u: np.full_like(x, 2.0) * x + np.ones_like(x),
    "assigned": assigned,
    "assigned by mask": assigned_rows_and_masks,
    "in place": updated_in_place,
    "viewed after change": viewed_after_change,
    "overlapping": overlapping,
    "constant": lambda x, u: np.ones((len(x), 2)),
    "partly constant": lambda x, u: np.stack([x[:, 0], np.full(len(x), 3.0)], axis=1),
}  # fmt: skip


def middles():
    rng = np.random.default_rng(0)
    return rng.uniform(0.6, 1.6, size=(7, 5))


@pytest.mark.parametrize("name", MODELS)
def test_agrees_with_numpy_and_finite_differences(name):
    """Over boxes that are points, the enclosure is the value and the derivative."""
    model, points = MODELS[name], middles()
    box = enclose(model, points, points, states=3)
    values = model(points[:, :3].copy(), points[:, 3:].copy())
    assert box.lower.shape == values.shape and box.jacobian_lower.shape == (*values.shape, 5)
    assert (box.lower <= values).all() and (values <= box.upper).all()
    np.testing.assert_allclose(box.upper, box.lower, rtol=1e-13, atol=1e-14)
    step = 1e-6
    for k in range(5):
        above, below = points.copy(), points.copy()
        above[:, k] += step
        below[:, k] -= step
        slope = (model(above[:, :3], above[:, 3:]) - model(below[:, :3], below[:, 3:])) / (2 * step)
        np.testing.assert_allclose(box.jacobian_lower[..., k], slope, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(box.jacobian_upper[..., k], slope, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_range_is_the_same_with_and_without_derivatives(name):
    lower = middles()
    upper = lower + 0.01
    one = enclose(MODELS[name], lower, upper, states=3)
    two = enclose_range(MODELS[name], lower, upper, states=3)
    np.testing.assert_array_equal(one.lower, two.lower)
    np.testing.assert_array_equal(one.upper, two.upper)


def over(function, lower, upper):
    """Range of a function of one number over intervals."""
    box = enclose_range(
        lambda x, u: function(x), np.reshape(lower, (-1, 1)), np.reshape(upper, (-1, 1)), states=1
    )
    return box.lower[:, 0], box.upper[:, 0]


SIMPLE = {
    "power": (lambda x: x**2, [0, 0.25, 9], [4, 1, 12.25]),
    "product": (lambda x: x * x, [0, 0.25, 9], [4, 1, 12.25]),
    "difference": (lambda x: x - x, [0, 0, 0], [0, 0, 0]),
    "absolute": (np.abs, [0, 0.5, 3], [2, 1, 3.5]),
    "sine": (np.sin, [-math.sin(1), math.sin(0.5), math.sin(3.5)], [1, math.sin(1), math.sin(3)]),
    "cosine": (np.cos, [math.cos(2), math.cos(1), -1], [1, math.cos(0.5), math.cos(3.5)]),
    "hypot": (lambda x: np.hypot(x, 0.0), [0, 0.5, 3], [2, 1, 3.5]),
    "clip": (lambda x: np.clip(x, 0, 1), [0, 0.5, 1], [1, 1, 1]),
}


@pytest.mark.parametrize("name", SIMPLE)
def test_ranges_of_simple_functions_are_tight(name):
    function, lower, upper = SIMPLE[name]
    least, greatest = over(function, [-1.0, 0.5, 3.0], [2.0, 1.0, 3.5])
    np.testing.assert_allclose(least, lower, rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose(greatest, upper, rtol=1e-14, atol=1e-15)


def test_kinks_give_the_hull_of_the_generalized_derivative():
    def kinks(x, u):
        return np.stack(
            [np.abs(x[:, 0]), np.maximum(x[:, 0], 3 * x[:, 1]), np.clip(x[:, 0], -5, 0.5), np.hypot(*x.T)], 1
        )

    box = enclose(kinks, [[-1.0, -1.0]], [[1.0, 1.0]], states=2)
    np.testing.assert_allclose(box.jacobian_lower[0], [[-1, 0], [0, 0], [0, 0], [-1, -1]], rtol=1e-14)
    np.testing.assert_allclose(box.jacobian_upper[0], [[1, 0], [1, 3], [1, 0], [1, 1]], rtol=1e-14)


def test_absent_derivatives_are_exactly_zero():
    box = enclose(lambda x, u: x * np.cos(u), [[1.0, 2.0, 3.0, 4.0]], [[1.5, 2.5, 3.5, 4.5]], states=2)
    absent = np.array([[0, 1, 0, 1], [1, 0, 1, 0]], dtype=bool)
    assert (box.jacobian_lower[0][absent] == 0).all() and (box.jacobian_upper[0][absent] == 0).all()


def test_affine_models_have_points_for_derivatives_up_to_rounding():
    box = enclose(lambda x, u: x @ MATRIX + u @ MATRIX[:2], [[-9.0] * 5], [[9.0] * 5], states=3)
    np.testing.assert_allclose(
        box.jacobian_upper[0], np.vstack([MATRIX, MATRIX[:2]]).T, rtol=1e-13, atol=1e-13
    )
    assert (box.jacobian_upper - box.jacobian_lower).max() < 1e-13


def test_splits_tighten_and_converge():
    def model(x, u):
        return (x[:, 0] ** 2 * (1 - x[:, 0]) + np.sin(u[:, 0]) * x[:, 0])[:, None]

    lower, upper = np.array([[0.0, -1.0], [0.2, 0.1]]), np.array([[1.0, 1.0], [0.4, 0.3]])
    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 201)] * 2), axis=-1).reshape(-1, 1, 2)
    points = (lower + grid * (upper - lower)).reshape(-1, 2)
    true_width = np.ptp(model(points[:, :1], points[:, 1:]).reshape(-1, 2), axis=0)
    widths = []
    for splits in (0, 3, 6, 9):
        box = enclose(model, lower, upper, states=1, splits=splits)
        widths.append(
            [(box.upper - box.lower)[:, 0], (box.jacobian_upper - box.jacobian_lower).sum(axis=(1, 2))]
        )
    assert (np.diff(np.array(widths), axis=0) <= 0).all()
    assert (widths[0][0] > 1.2 * true_width).all() and (widths[-1][0] < 1.1 * true_width).all()
    assert (widths[-1][1] < 0.8 * widths[0][1]).all()


def test_splits_leave_affine_models_alone():
    boxes = [[0.0, 0.0]] * 3, [[1.0, 1.0]] * 3
    one, two = (enclose(lambda x, u: x + u, *boxes, states=1, splits=splits) for splits in (0, 3))
    assert (one.lower == two.lower).all() and (one.jacobian_upper == two.jacobian_upper).all()


def test_sine_far_out_is_the_whole_range():
    assert over(np.sin, [1e5 + 1, -1e300], [1e5 + 1, 1e300])[0].tolist() == [-1, -1]
    assert over(np.cos, [1e5 + 1, -1e300], [1e5 + 1, 1e300])[1].tolist() == [1, 1]


HUGE = {
    "times nothing": lambda huge: huge * 0.0,
    "square": lambda huge: huge * huge,
    "difference": lambda huge: huge - huge * 2,
    "quotient": lambda huge: huge / (1.0 * huge + 1.0),
    "matrix": lambda huge: huge @ [[0.0]],
    "sum": lambda huge: np.sum(huge * [1.0, -1.0, 3.0], axis=1, keepdims=True),
}


@pytest.mark.parametrize("name", HUGE)
def test_what_may_overflow_is_refused(name):
    """NumPy may make NaN of it on its way, whatever is done with it then."""
    with pytest.raises(EnclosureError, match="overflows at row 0"):
        over(lambda x: HUGE[name](np.exp(x)), [700.0], [800.0])


# Conditions -------------------------------------------------------------------------------------------


def branching(x, u):
    """As engineers write it: one row after the other."""
    out = np.zeros((len(x), 2))
    for k, (row, control) in enumerate(zip(x, u, strict=True)):
        if row[0] > 1.0 and control[0] < 5:
            out[k] = [row[0] ** 2, row[1]]
        elif row[0] < 0:
            raise ValueError("never negative")
        else:
            out[k, 0] = math.sin(row[1])
    return out


def test_branches_are_followed_both_ways_and_joined_by_their_condition():
    lower, upper = np.array([[1.5, 0.2, 1.0], [0.5, 0.2, 1.0]]), np.array([[1.6, 0.3, 1.0], [0.6, 0.3, 1.0]])
    box = enclose(branching, lower, upper, states=2)
    np.testing.assert_allclose(box.lower, [[2.25, 0.2], [math.sin(0.2), 0.0]])
    np.testing.assert_allclose(box.jacobian_upper[:, 0, 0], [3.2, 0.0])
    with pytest.raises(
        EnclosureError, match=r"`where` needs a condition.*undecided at row 0 \(test_programs.py"
    ):
        enclose(branching, [[0.9, 0.2, 1.0]], [[1.1, 0.3, 1.0]], states=2)
    with pytest.raises(EnclosureError, match="`function` must not raise; it does on a branch"):
        enclose(branching, [[-1.0, 0.2, 1.0]], [[-0.5, 0.3, 1.0]], states=2)


def written_first(x, u):
    """The comparison stands on another line than the `if` that asks for it."""
    out = []
    for row in x:
        fast = row[0] > 1
        if fast:
            out.append([row[0] ** 2])
        else:
            out.append([row[0] + 3])
    return np.stack([np.stack(row) for row in out])


def test_an_undecided_branch_is_refused_with_the_line_of_the_if():
    """Also where a caller inside the library has wrapped M, and M has returned when branches are joined."""
    line = written_first.__code__.co_firstlineno + 5
    message = rf"undecided at row 0 \(test_programs.py:{line}\)"
    with pytest.raises(EnclosureError, match=message):
        enclose(written_first, [[0.9]], [[1.1]], states=1)
    schema = make_schema(["v"], [])
    low, high = np.array([[0.9]]), np.array([[1.1]])
    for target in ("increment", "next_state"):
        program = target_program(TrustedModel(written_first), schema, target, low, high)
        with pytest.raises(EnclosureError, match=message):
            enclose(program, low, high, states=1)
        assert not any("ranges.py" in line or "tracing.py" in line for line in program.lines)


def test_a_branch_that_is_not_taken_may_be_undefined():
    box = enclose(
        lambda x, u: np.where(x > 0, np.sqrt(x), 1 / (x - 1)), [[1.0], [-2.0]], [[4.0], [-1.0]], states=1
    )
    np.testing.assert_allclose(box.lower[:, 0], [1.0, -0.5])
    np.testing.assert_allclose(box.upper[:, 0], [2.0, -1 / 3])


def test_equal_programs_have_equal_digests():
    one = trace(lambda x, u: np.stack([x[:, 0] + u[:, 0], x[:, 1]], axis=1), states=2, controls=1)

    def loop(x, u):
        out = np.empty((len(x), 2))
        for k in range(len(x)):
            out[k, 0], out[k, 1] = x[k, 0] + u[k, 0], x[k, 1]
        return out

    assert trace(loop, states=2, controls=1).digest == one.digest
    assert trace(lambda x, u: x + u, states=2, controls=1).digest != one.digest


# Refusals ---------------------------------------------------------------------------------------------


def boxes_of(lower, upper, rows=4):
    """Boxes that are [1, 2] but for row 2."""
    low, high = np.ones((rows, 1)), np.full((rows, 1), 2.0)
    low[2], high[2] = lower, upper
    return low, high


def masked(x):
    out = 2 * x
    chosen = x[:, 0] > 0
    out[chosen] = np.sqrt(x[chosen])
    return out


DOMAIN = {
    "sqrt": (lambda x, u: np.sqrt(x), -1, 4, "`sqrt` must not be given negative values; got \\[-1, 4\\] at row 2"),
    "steep sqrt": (lambda x, u: np.sqrt(x), 0, 4, "`sqrt` has no bounded slope at 0.*row 2.*np.hypot"),
    "log": (lambda x, u: np.log(x), 0, 1, "`log` must be given values above 0; got \\[0, 1\\] at row 2"),
    "log1p": (lambda x, u: np.log1p(x), -1, 1, "`log1p` must be given values above -1.*row 2"),
    "divide": (lambda x, u: 1 / x, -1, 1, "`divide` must not divide by an interval that contains 0; got \\[-1, 1\\] at row 2"),
    "reciprocal": (lambda x, u: np.reciprocal(x), 0, 1, "`reciprocal` must not divide.*row 2"),
    "negative power": (lambda x, u: x**-2, -1, 1, "`power\\(-2\\)` must not divide.*row 2"),
    "real power": (lambda x, u: x**1.5, -1, 1, "`power` must be given a positive base.*row 2"),
    "steep power": (lambda x, u: x**0.25, 0, 1, "`power` has no bounded slope at 0.*row 2"),
    "arcsin": (lambda x, u: np.arcsin(x / 4), 0, 5, "`arcsin` must be given values in \\[-1, 1\\].*row 2.*np.clip"),
    "steep arccos": (lambda x, u: np.arccos(np.clip(x - 1.5, -1, 1)), 1, 2.5, "`arccos` has no bounded slope at -1 and 1.*row 2"),
    "tan": (lambda x, u: np.tan(x / 2), 1, 4, "`tan` must not meet a pole.*row 2"),
    "arctan2": (lambda x, u: np.arctan2(x, -1.0), -1, 1, "`arctan2` jumps at its cut.*row 2"),
    "floor": (lambda x, u: np.floor(x / 10), -1, 1, "`floor` must be constant over each box.*row 2"),
    "sign": (lambda x, u: np.sign(x), -1, 1, "`sign` must be constant over each box.*row 2"),
    "mod": (lambda x, u: x % 3, 2, 4, "`mod` must stay within one period.*row 2.*unwrapped"),
    "where": (lambda x, u: np.where(x > 0, x, 0), -1, 1, "`where` needs a condition.*undecided at row 2.*np.maximum"),
    "mask": (lambda x, u: masked(x), -1, 1, "`where` needs a condition.*undecided at row 2"),
    "condition": (lambda x, u: x * (x > 0), -1, 1, "`multiply` needs a condition.*undecided at row 2"),
}  # fmt: skip


@pytest.mark.parametrize("name", DOMAIN)
def test_domain_violations_name_operation_and_row(name):
    model, lower, upper, message = DOMAIN[name]
    with pytest.raises(EnclosureError, match=f"(?s){message}"):
        enclose(model, *boxes_of(lower, upper), states=1)


def forget_an_output(x, u):
    out = np.empty_like(x)
    out[:, 0] = x[:, 1]
    return out


BUFFER = np.zeros((2, 2))


def fill_a_buffer(x, u):
    BUFFER[:, 0] = x[:, 0]
    return BUFFER


def add_to_a_buffer(x, u):
    out = BUFFER
    out += x
    return out


def swallow(x, u):
    try:
        return float(x[0, 0]) * x
    except TypeError:
        return x


def write_to_arguments(x, u):
    x[:, 0] = 0.0
    return x


UNSUPPORTED = {
    "copysign": (lambda x, u: np.copysign(x, -1.0), "`copysign` cannot be bounded.*np.abs"),
    "round": (lambda x, u: np.round(x), "`round` must be constant over each box"),
    "decimals": (lambda x, u: x.round(1), "`round` is bounded for whole numbers only"),
    "interp": (lambda x, u: np.interp(x, [0, 1, 1], [0, 1, 2]), "`interp` must be given finite points that rise"),
    "interp of inputs": (lambda x, u: np.interp(x, [0, 1], [0, x[0, 0]]), "`interp` must be given a table of const"),
    "period": (lambda x, u: np.interp(x, [0, 1], [0, 1], period=2.0), "`interp` does not take `period`.*np.mod"),
    "inverse": (lambda x, u: np.linalg.inv(x[0, 0] * np.eye(9))[None, 0], "`linalg.inv` is bounded .*up to 8 rows"),
    "pseudo-inverse": (lambda x, u: np.linalg.pinv(x[:, :, None]), "`linalg.pinv` cannot be bounded"),
    "searchsorted": (lambda x, u: np.searchsorted([1.0, 0.0], x) * x, "`searchsorted` must be given finite points"),
    "piecewise": (lambda x, u: np.piecewise(x, x > 0, [1.0, 0.0]), "`piecewise` must be given a list of conditions"),
    "std": (lambda x, u: x.std(axis=1), "`std` cannot be bounded"),
    "argmax": (lambda x, u: np.stack([row[[row.argmax(), 0]] for row in x]), "`where` needs a condition"),
    "isnan": (lambda x, u: np.isnan(x) * x, "`isnan` cannot be bounded"),
    "astype": (lambda x, u: x.astype(np.float32), "`astype` must be to float64"),
    "float": (lambda x, u: float(x[0, 0]) * x, "`float` would drop what a number depends on"),
    "integer": (lambda x, u: x[:, int(x[0, 0])], "`float` would drop what a number depends on"),
    "a buffer": (fill_a_buffer, "it writes into an array of floats.*np.zeros"),
    "add to a buffer": (add_to_a_buffer, "it writes into an array of floats.*np.zeros"),
    "index": (lambda x, u: x[:, x[:, 0]], "`indexing` must be by constants"),
    "norm order": (lambda x, u: np.linalg.norm(x, ord=1, axis=1), "`linalg.norm` is bounded as the Euclidean norm"),
    "nan": (lambda x, u: x * np.nan, "`multiply` must be given finite constants"),
    "infinity": (lambda x, u: x + np.inf, "`add` must be given finite constants"),
    "complex": (lambda x, u: x * 1j, "must be .* of at most float64's precision; got complex"),
    "long double": (lambda x, u: x * np.longdouble("0.1"), "of at most float64's precision; got"),
    "long doubles": (lambda x, u: x * np.array(["0.1", "1"], dtype=np.longdouble), "float64's precision; got"),
    "large integer": (lambda x, u: x + (2**60 + 1), "`add` must be given integers that float64 holds"),
    "two conditions": (lambda x, u: x * ((x > 0) + (x > 1)), "`add` of conditions and integers is not float64"),
    "bits": (lambda x, u: np.where((x > 0) & 2, x, 0), "`bitwise operation` must be given conditions on both sides"),
    "dtype": (lambda x, u: np.zeros_like(x, dtype=int) + x, "`zeros_like` makes float64 arrays only"),
    "dtype of a ufunc": (lambda x, u: np.add(x, 1, dtype=np.float32), "`add` makes float64 only"),
    "where option": (lambda x, u: np.add(x, 1, where=np.array([True, False])), "`add` does not take `where`"),
    "initial": (lambda x, u: np.sum(x, axis=1, initial=2.0)[:, None], "does not take initial"),
    "unassigned": (forget_an_output, "`function` must assign every output; output 1 of row 0"),
        "mixed rows": (lambda x, u: x - x.mean(axis=0), "`function` must treat rows independently"),
    "one row": (lambda x, u: x + np.arange(len(x))[:, None], "`function` must treat all rows alike"),
    "swallowed": (swallow, "`trusted` must only compute.*it catches errors"),
    "arguments": (write_to_arguments, "`function` must not change its arguments"),
    "exception": (lambda x, u: x.nothing, "`function` must not raise when called on symbols; got AttributeError.*test_programs"),
    "number of rows": (lambda x, u: x * len(x), "`function` must treat all rows alike; row 0 of 2"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_what_cannot_be_bounded_is_refused_by_name(name):
    model, message = UNSUPPORTED[name]
    with pytest.raises(EnclosureError, match=f"(?s){message}"):
        enclose(model, np.ones((4, 2)), np.full((4, 2), 2.0), states=2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: enclose(lambda x, u: x, [[1.0]], [[0.0]], states=1), "`lower` must be <= `upper`; got 1.0 > 0.0"),
        (lambda: enclose(lambda x, u: x, [[1.0]], [[np.inf]], states=1), "must be finite"),
        (lambda: enclose(lambda x, u: x, [[1.0]], [[1.0, 2.0]], states=1), "must have one shape; got \\(1, 1\\) and \\(1, 2\\)"),
        (lambda: enclose(lambda x, u: x, [1.0], [2.0], states=1), "`lower` must have shape \\(K, D\\); got \\(1,\\)"),
        (lambda: enclose(lambda x, u: x, [[1.0]], [[2.0]], states=2), "`states` must lie between 0 and 1 inputs; got 2"),
        (lambda: enclose(lambda x, u: x[:, 0], [[1.0]], [[2.0]], states=1), "must return shape \\(1, P\\) for 1 rows; got \\(1,\\)"),
        (lambda: enclose(lambda x, u: [x[:, 0], x[:, 1]], [[1.0, 1.0]], [[2.0, 2.0]], states=2), "must return shape \\(1, P\\) for 1 rows; got \\(2, 1\\)"),
        (lambda: enclose(lambda x, u: x @ np.ones((3, 1)), [[1.0]], [[2.0]], states=1), "matmul: Input operand 1 has a mismatch"),
        (lambda: enclose(lambda x, u: x, [[1.0]], [[2.0]], states=1, splits=-1), "`splits` must be 0 or more; got -1"),
    ],
)  # fmt: skip
def test_bad_arguments_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_no_boxes_give_no_bounds():
    box = enclose(
        lambda x, u: np.sin(x) * u @ np.ones((1, 1)), np.empty((0, 2)), np.empty((0, 2)), states=1, splits=1
    )
    assert box.lower.shape == (0, 1) and box.jacobian_upper.shape == (0, 1, 2)


def test_boxes_are_the_same_alone_and_together():
    """However many there are at a time: what choices, steps and solutions are in lanes of their own."""

    def model(states, controls):
        x, v = states[:, 0], states[:, 1]
        turned = np.where(x > 0.2, np.sin(x) * v, np.floor(v) - x)
        matrix = np.stack([np.stack([2.0 + x * x, v], axis=1), np.stack([v, 3.0 + 0.0 * x], axis=1)], axis=1)
        solved = np.linalg.solve(matrix, np.stack([x, v], axis=1)[:, :, None])[:, :, 0]
        return np.concatenate([np.maximum(turned, x * v)[:, None], solved + controls], axis=1)

    program = trace(model, states=2, controls=1)
    rng = np.random.default_rng(0)
    low = rng.uniform(-1, 1, (70, 3))
    high = low + rng.choice([0.0, 1e-3, 0.3], (70, 3))
    whole = evaluate(program, low, high, derivatives=True)
    for size in (1, 5, 31, 33):
        for begin in range(0, 70, size):
            rows = slice(begin, begin + size)
            part = evaluate(program, low[rows], high[rows], derivatives=True)
            for name, values in vars(part).items():
                assert np.array_equal(values, getattr(whole, name)[rows], equal_nan=True), (name, size)
