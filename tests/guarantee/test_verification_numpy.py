"""What NumPy does that is easily read otherwise: verification refuses it, or has the values that NumPy has."""

import math

import numpy as np
import pytest

from tether.verification.graph import UnboundedError
from tether.verification.interpreter import enclose
from tether.verification.tracing import trace

POINTS = np.array([[0.1, 0.0], [0.3, 0.2], [0.7, -0.2], [0.3, -0.9], [-0.5, 0.4]])
TABLE = np.sin(np.arange(900.0)).reshape(30, 30)
COLUMNS = np.sin(np.arange(1.0, 41.0)).reshape(2, 20)


def spike(x):
    return np.maximum(0.0, 1.0 - 1e6 * np.abs(x - 0.3))


def beside(s, y):
    return np.stack([s[:, 0] + y, s[:, 1]], axis=1)


def each(value):
    """M row by row: the first output of a number of `value`'s making, times the spike."""

    def function(s, u):
        return np.array([[x + value(x, v) * spike(x), v] for x, v in s])

    return function


def overwritten(make, number=0.75):
    def value(x, v):
        made = make(x, v)
        made[1] = number
        return made[1] - number

    return each(value)


def check(function):
    """Refused; or M's values, each row alone and in a batch, are in the ranges of its program."""
    try:
        program = trace(function, 2, 0, 2)
    except UnboundedError:
        return
    found = enclose(program, POINTS, POINTS, slopes=False)
    with np.errstate(all="ignore"):
        alone = np.concatenate([function(row[None].copy(), np.empty((1, 0))) for row in POINTS])
        batch = function(POINTS.copy(), np.empty((len(POINTS), 0)))
    for values in (alone, batch):
        unknown = np.isnan(found.lower) | np.isnan(found.upper)
        inside = (found.lower <= values.T) & (found.upper >= values.T)
        assert (unknown | inside).all(), (values.T, found.lower, found.upper)


def table():
    return np.array(TABLE.tolist())


def far(one, two):
    return np.abs(one - two).sum() * 1e14


ROUNDINGS = {
    "einsum, optimized": lambda s, u: beside(s, spike(s[:, 0]) * far(
        np.einsum("ij,jk->ik", table(), table(), optimize=True), np.einsum("ij,jk->ik", table(), table()))),
    "einsum of three": lambda s, u: beside(s, spike(s[:, 0]) * far(
        np.einsum("ij,jk,kl->il", table(), table(), table(), optimize=True),
        np.einsum("ij,jk,kl->il", table(), table(), table()))),
    "strides": lambda s, u: beside(s, spike(s[:, 0]) * far(
        table()[::2, ::2] @ table()[::2, ::2], table()[::2, ::2].copy() @ table()[::2, ::2].copy())),
    "sums of rows and columns": lambda s, u: beside(s, spike(s[:, 0]) * far(
        table().sum(axis=0), np.asfortranarray(table()).sum(axis=0))),
    "elementwise of strides": lambda s, u: beside(s, spike(s[:, 0]) * far(
        np.exp(table()[:, ::3]), np.exp(table()[:, ::3].copy()))),
    "lanes": lambda s, u: beside(s, spike(s[:, 0]) * sum(
        abs(np.sin(np.array([k * 0.01]))[0] - math.sin(k * 0.01)) * 1e17 for k in range(1, 99))),
    "sums of inputs": lambda s, u: beside(s, 1e14 * ((s[:, :1] * table()[0]).sum(axis=1) - np.asfortranarray(
        s[:, :1] * table()[0]).sum(axis=1))),
    "products of inputs": lambda s, u: beside(s, 1e14 * (s @ COLUMNS - np.einsum(
        "nd,dk->nk", s, COLUMNS)).sum(axis=1)),
    "libraries": lambda s, u: np.array([[1e16 * (np.exp(x) - math.exp(x)), v] for x, v in s]),
    "hypotenuse": lambda s, u: np.array([[1e16 * (np.hypot(x, v) - math.hypot(x, v)), v] for x, v in s]),
    "powers": lambda s, u: beside(s, 1e14 * (s[:, 1] ** 3 - np.array([v**3 for v in s[:, 1]]))),
    "cumulative": lambda s, u: beside(s, 1e14 * (
        np.cumsum(s[:, :1] * table()[0], axis=1)[:, -1] - (s[:, :1] * table()[0]).sum(axis=1))),
}  # fmt: skip


@pytest.mark.parametrize("name", ROUNDINGS)
def test_roundings_that_differ_are_not_the_same_number(name):
    check(ROUNDINGS[name])


TYPES = {
    "full of a truth": overwritten(lambda x, v: np.full(2, x > -100.0)),
    "full of a floor": overwritten(lambda x, v: np.full(2, math.floor(x * 1e-3 + 0.5))),
    "array of a truth and 1": overwritten(lambda x, v: np.array([x > -100.0, 1])),
    "array of truths": overwritten(lambda x, v: np.array([x > -100.0, v > -100.0])),
    "array of a round": overwritten(lambda x, v: np.array([round(x * 1e-3), 1])),
    "array of a listed number": overwritten(lambda x, v: np.array(integers().tolist())),
    "full of an item": overwritten(lambda x, v: np.full(2, integers().item(0))),
    "array of entries": overwritten(lambda x, v: np.array([integers()[0], integers()[1]])),
    "reciprocal of a listed number": each(lambda x, v: np.reciprocal(np.array(integers().tolist()))[0]),
    "a quotient of listed numbers": each(lambda x, v: integers().tolist()[0] // 2 * 0.25),
    "float32 in a list": each(lambda x, v: (single().tolist()[0] * 1.1 - float(np.float32(0.1) * 1.1)) * 1e9),
    "float32 as an item": each(lambda x, v: (single()[0] * 1.1 - float(np.float32(0.1)) * 1.1) * 1e9),
    "sum of a list": each(lambda x, v: np.add.reduce(spread(x)) - 1.0),
    "dot of a list": each(lambda x, v: np.dot(spread(x), [1.0] * 16) - 1.0),
    "inner of a list": each(lambda x, v: np.inner([1.0] * 16, spread(x)) - 1.0),
    "matmul of a list": each(lambda x, v: np.matmul(spread(x), [1.0] * 16) - 1.0),
    "sum of an array": each(lambda x, v: np.array(spread(x)).sum() - 1.0),
    "K of a broadcast": lambda s, u: beside(s, spike(s[:, 0]) * (
        (np.broadcast_to(np.array([1.0, 2.0, 3.0]), (2, 3)) * 1.0).ravel(order="K")[1] - 1.0)),
    "K of a broadcast column": lambda s, u: beside(s, spike(s[:, 0]) * (
        (np.broadcast_to(np.array([[1.0], [2.0], [3.0]]), (3, 2)) + np.zeros((1, 2))).ravel(order="K")[1] - 1.0)),
    "K of rows": lambda s, u: beside(s, np.stack([s[:, 0], s[:, 1]]).T.copy(order="K").ravel(order="K")[: len(s)]),
    "0 times an overflow": lambda s, u: beside(s, np.where(
        0.0 * ((1.0 - np.abs(s[:, 0] - 0.3)) * 1.7976931348623157e308 * 1.0000001) <= 1.0, 0.0, 1.0)),
    "maximum with infinity": lambda s, u: beside(s, np.where(
        np.maximum(np.sqrt((s[:, 0] - 0.3) ** 2 - 1e-14), np.inf) > 1.0, 0.0, 1.0)),
    "minimum with infinity": lambda s, u: beside(s, np.where(
        np.minimum(np.log(np.abs(s[:, 0] - 0.3) - 1e-7), -np.inf) < 5.0, 0.0, 1.0)),
    "norm that underflows": lambda s, u: beside(s, 1e158 * np.linalg.norm(s * 1e-161, axis=1)),
    "root that underflows": lambda s, u: beside(s, 1e158 * np.sqrt(((s * 1e-161) ** 2).sum(axis=1))),
}  # fmt: skip


def integers():
    made = np.zeros(2)
    made[:] = [3, 4]
    made[0] = np.int64(3)
    return made


def single():
    made = np.zeros(2)
    made[0] = np.float32(0.1)
    return made


def spread(x):
    return [1e16, -1e16, *[0.0] * 6, 1.0, *[0.0] * 6, 0.0 * x]


@pytest.mark.parametrize("name", TYPES)
def test_types_and_layouts(name):
    check(TYPES[name])


def placed(s, u):
    y = s[:, 0].copy()
    np.place(y, np.abs(s[:, 0] - 0.3) > 1e-7, s[:, 0])
    return beside(s, y)


def put_by_mask(s, u):
    y = s[:, 0].copy()
    np.putmask(y, np.abs(y - 0.3) < 1e-7, y[:1] + 0.0)
    return beside(s, y)


def parted(s, u):
    mask = np.abs(s[:, 0] - 0.3) < 1e-7
    made = np.empty_like(s)
    count = len(s[mask])
    made[:count], made[count:] = s[mask], s[~mask]
    return made * 1.0


def regrouped(s, u):
    mask = np.abs(s[:, 0] - 0.3) < 1e-7
    return np.concatenate([s[mask], s[~mask]]) * 1.0


def asked_masks(s, u):
    mask = [bool(abs(x - 0.3) < 1e-7) for x in s[:, 0]]
    return np.concatenate(
        [s[[k for k, m in enumerate(mask) if m]], s[[k for k, m in enumerate(mask) if not m]]]
    )


def sorted_rows(s, u):
    y = spike(s[:, 0])
    y.sort()
    return beside(s, y)


@pytest.mark.parametrize(
    "function", [placed, put_by_mask, parted, regrouped, asked_masks, sorted_rows], ids=lambda f: f.__name__
)
def test_masks_that_move_rows_are_refused(function):
    with pytest.raises(UnboundedError):
        trace(function, 2, 0, 2)
