"""What intervals accept, what they give, and what they refuse."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tether.programs import EnclosureError, enclose, enclose_range
Interval=Decision=None

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
    "two integer arrays": lambda x, u: x[np.arange(len(x)), np.arange(len(x)) % 3][:, None],
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


def test_ranges_of_simple_functions_are_tight():
    x = Interval([-1.0, 0.5, 3.0], [2.0, 1.0, 3.5])
    for result, lower, upper in [
        (x**2, [0, 0.25, 9], [4, 1, 12.25]),
        (x * x, [0, 0.25, 9], [4, 1, 12.25]),
        (x - x, [0, 0, 0], [0, 0, 0]),
        (np.abs(x), [0, 0.5, 3], [2, 1, 3.5]),
        (np.sin(x), [-math.sin(1), math.sin(0.5), math.sin(3.5)], [1, math.sin(1), math.sin(3)]),
        (np.cos(x), [math.cos(2), math.cos(1), -1], [1, math.cos(0.5), math.cos(3.5)]),
        (np.hypot(x, 0.0), [0, 0.5, 3], [2, 1, 3.5]),
        (np.clip(x, 0, 1), [0, 0.5, 1], [1, 1, 1]),
    ]:
        np.testing.assert_allclose(result.lower, lower, rtol=1e-14, atol=1e-15)
        np.testing.assert_allclose(result.upper, upper, rtol=1e-14, atol=1e-15)


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
    calls = []

    def model(x, u):
        calls.append(len(x))
        return x + u

    enclose(model, [[0.0, 0.0]] * 3, [[1.0, 1.0]] * 3, states=1, splits=3)
    assert calls == [3]


def test_sine_far_out_is_the_whole_range():
    x = Interval([1e5 + 1, -1e300], [1e5 + 1, 1e300])
    np.testing.assert_array_equal(np.sin(x).lower, [-1, -1])
    np.testing.assert_array_equal(np.cos(x).upper, [1, 1])


def test_overflow_gives_infinite_bounds_and_never_nan():
    huge = np.exp(Interval([700.0], [800.0]))
    assert huge.upper[0] == np.inf and np.isfinite(huge.lower[0])
    for result in (
        huge * 0.0,
        huge * huge,
        huge - huge * 2,
        huge / huge.copy(),
        huge.reshape(1, 1) @ [[0.0]],
        np.sum(huge * [1.0, -1.0]),
    ):
        assert not np.isnan(result.lower).any() and not np.isnan(result.upper).any()
    assert (huge * 0.0).upper[0] == 0.0
    box = enclose(lambda x, u: np.exp(x) * u, [[700.0, 0.0]], [[800.0, 0.0]], states=1)
    assert box.upper[0, 0] == 0.0 and box.jacobian_upper[0, 0, 1] == np.inf


def test_uncertain_parameters_may_be_intervals():
    mass = Interval(0.9, 1.1)
    box = enclose(lambda x, u: x + u / mass, [[0.0, 1.0]], [[0.0, 1.0]], states=1)
    np.testing.assert_allclose([box.lower[0, 0], box.upper[0, 0]], [1 / 1.1, 1 / 0.9])
    np.testing.assert_allclose(box.jacobian_lower[0, 0], [1, 1 / 1.1])


# Conditions -------------------------------------------------------------------------------------------


def test_comparisons_have_three_values():
    x = Interval([-1.0, 1.0, -3.0, 0.0], [1.0, 2.0, -2.0, 0.0])
    positive = x > 0
    assert isinstance(positive, Decision)
    np.testing.assert_array_equal(positive.true, [False, True, False, False])
    np.testing.assert_array_equal(positive.false, [False, False, True, True])
    np.testing.assert_array_equal((x == 0).true, [False, False, False, True])
    np.testing.assert_array_equal((x != 0).true, [False, True, True, False])
    np.testing.assert_array_equal((x >= 0).true, [False, True, False, True])
    np.testing.assert_array_equal(
        ((x > 0) | np.array([True, False, False, False])).true, [True, True, False, False]
    )
    assert bool((x[1:] > -5).all()) and not bool(np.any(x > 10))
    assert bool(x[1] > 0)


# Refusals ---------------------------------------------------------------------------------------------


def boxes_of(lower, upper, rows=4):
    """Boxes that are [1, 2] but for row 2."""
    low, high = np.ones((rows, 1)), np.full((rows, 1), 2.0)
    low[2], high[2] = lower, upper
    return low, high


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
    "arctan2": (lambda x, u: np.arctan2(x, -1.0), -1, 1, "`arctan2` must not meet its cut.*row 2"),
    "floor": (lambda x, u: np.floor(x / 10), -1, 1, "`floor` must be constant over each box.*row 2"),
    "sign": (lambda x, u: np.sign(x), -1, 1, "`sign` must be constant over each box.*row 2"),
    "mod": (lambda x, u: x % 3, 2, 4, "`mod` must stay within one period.*row 2.*unwrapped"),
    "where": (lambda x, u: np.where(x > 0, x, 0), -1, 1, "`where` needs a condition.*undecided at row 2.*np.maximum"),
    "mask": (lambda x, u: x[x[:, 0] > 0], -1, 1, "`indexing` needs a condition.*undecided at row 2"),
    "condition": (lambda x, u: x * (x > 0), -1, 1, "`multiply` needs a condition.*undecided at row 2"),
}  # fmt: skip


@pytest.mark.parametrize("name", DOMAIN)
def test_domain_violations_name_operation_and_row(name):
    model, lower, upper, message = DOMAIN[name]
    with pytest.raises(EnclosureError, match=f"(?s){message}"):
        enclose(model, *boxes_of(lower, upper), states=1)


def fill_floats(x, u):
    out = np.zeros(x.shape)
    out[:, 0] = x[:, 0]
    return out


def add_to_floats(x, u):
    out = np.zeros(x.shape)
    out += x
    return out


def forget_an_output(x, u):
    out = np.empty_like(x)
    out[:, 0] = x[:, 1]
    return out


def reshape_then_change(x, u):
    y = x.copy()
    flat = y.reshape(-1)
    y[:, 0] = 0.0
    return (flat + 1).reshape(-1, 2)


UNSUPPORTED = {
    "einsum": (lambda x, u: np.einsum("ij->i", x), "`einsum` cannot be bounded.*`@`"),
    "copysign": (lambda x, u: np.copysign(x, -1.0), "`copysign` cannot be bounded.*np.abs"),
    "heaviside": (lambda x, u: np.heaviside(x, 0.5), "`heaviside` cannot be bounded.*np.where"),
    "round": (lambda x, u: np.round(x), "`round` cannot be bounded.*not continuous"),
    "round method": (lambda x, u: x.round(), "`round` cannot be bounded"),
    "interp": (lambda x, u: np.interp(x, [0, 1], [0, 1]), "`interp` cannot be bounded.*np.clip"),
    "inverse": (lambda x, u: np.linalg.inv(x[:, :, None]), "`linalg.inv` cannot be bounded"),
    "cumsum": (lambda x, u: np.cumsum(x, axis=1), "`cumsum` cannot be bounded"),
    "std": (lambda x, u: x.std(axis=1), "`std` cannot be bounded"),
    "argmax": (lambda x, u: x.argmax(axis=1), "`argmax` cannot be bounded"),
    "accumulate": (lambda x, u: np.add.accumulate(x), "`add.accumulate` cannot be bounded"),
    "isnan": (lambda x, u: np.isnan(x), "`isnan` cannot be bounded"),
    "asarray": (lambda x, u: np.asarray(x), "`asarray` would drop the interval.*np.stack"),
    "array of": (lambda x, u: np.array([x[:, 0], x[:, 1]]), "`asarray` would drop the interval.*np.stack"),
    "astype": (lambda x, u: x.astype(float), "`astype` would drop the interval.*float64 already"),
    "float": (lambda x, u: float(x[0, 0]), "`float` would drop the interval.*NumPy's functions in place of math's"),
    "math": (lambda x, u: math.sin(x[0, 0]), "`float` would drop the interval"),
    "assign to floats": (fill_floats, "`asarray` would drop the interval.*zeros_like"),
    "add to floats": (add_to_floats, "`add` cannot write intervals into an array of floats.*zeros_like"),
    "if": (lambda x, u: x if x[:, 0] > 0 else -x, "`if` needs a single condition; got an array of shape \\(4,\\)"),
    "if undecided": (lambda x, u: x if x[0, 0] > 1.5 else -x, "`if` needs a condition that is the same"),
    "bool": (lambda x, u: x if x else -x, "`if` cannot branch on an interval"),
    "condition as array": (lambda x, u: np.asarray(x > 0), "`asarray` cannot turn a three-valued condition"),
    "index": (lambda x, u: x[:, x[:, 0]], "`indexing` must be by constants"),
    "norm order": (lambda x, u: np.linalg.norm(x, ord=1, axis=1), "`linalg.norm` is bounded as the Euclidean norm"),
    "norm of a matrix": (lambda x, u: np.linalg.norm(x), "`linalg.norm` is bounded as the Euclidean norm"),
    "exponents": (lambda x, u: x ** np.array([1.0, 2.0]), "`power` must be given one exponent"),
    "nan": (lambda x, u: x * np.nan, "`multiply` must be given finite constants"),
    "infinity": (lambda x, u: x + np.inf, "`add` must be given finite constants"),
    "complex": (lambda x, u: x * 1j, "`multiply` must be given real numbers"),
    "large integer": (lambda x, u: x + (2**60 + 1), "`add` must be given integers that float64 holds"),
    "cross of two": (lambda x, u: np.cross(x, x + 1), "`cross` is bounded for vectors of three"),
    "dtype": (lambda x, u: np.zeros_like(x, dtype=int), "`zeros_like` makes float64 arrays only"),
    "option": (lambda x, u: np.sum(x, axis=1, dtype=float), "`sum` was given an argument.*dtype"),
    "where option": (lambda x, u: np.add(x, 1, where=np.array([True, False])), "`add` does not take `where`"),
    "unassigned": (forget_an_output, "`function` must assign every output; output 1 of row 0"),
    "stale reshape": (reshape_then_change, "`reshape` was taken of an array that was changed since"),
    "list": (lambda x, u: [x[:, 0], x[:, 1]], "`function` must return an array \\(K, P\\); got list"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_what_cannot_be_bounded_is_refused_by_name(name):
    model, message = UNSUPPORTED[name]
    with pytest.raises(EnclosureError, match=f"(?s){message}"):
        enclose(model, np.ones((4, 2)), np.full((4, 2), 2.0), states=2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Interval([1.0], [0.0]), "`lower` must be <= `upper`; got 1.0 > 0.0"),
        (lambda: Interval([1.0], [np.inf]), "must be finite"),
        (lambda: Interval([1.0], [1.0, 2.0]), "must have one shape; got \\(1,\\) and \\(2,\\)"),
        (lambda: enclose(lambda x, u: x, [1.0], [2.0], states=1), "`lower` must have shape \\(K, D\\); got \\(1,\\)"),
        (lambda: enclose(lambda x, u: x, [[1.0]], [[2.0]], states=2), "`states` must lie between 0 and 1 inputs; got 2"),
        (lambda: enclose(lambda x, u: x[:, 0], [[1.0]], [[2.0]], states=1), "must return shape \\(1, P\\); got \\(1,\\)"),
        (lambda: enclose(lambda x, u: x @ np.ones((3, 1)), [[1.0]], [[2.0]], states=1), "`matmul` must be given matching"),
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
