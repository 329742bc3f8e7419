"""Models that would look at what they are given: each was proved, falsely, where symbols answer otherwise.

The difference shows under a bump a ten-millionth wide, which no comparison at points finds.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from tether.programs import EnclosureError, enclose, trace
from tether.verification import interpreter
from tether.verification import tracing as verification

CENTER = 0.3123456789


def bump(x):
    return np.maximum(0.0, 1 - abs(x - CENTER) * 1e7)


def column(s, y):
    return np.column_stack([s[:, 0] + y, s[:, 1]])


def integers(s, u):
    b = 1.6 * bump(s[:, 0])
    k = np.where(s[:, 0] > 5, 1, 0)
    k[:] = b
    return column(s, 100 * (b - k))


def truths(s, u):
    b = 0.3 * bump(s[:, 0])
    k = np.zeros_like(s[:, 0] > 5)
    k[:] = b
    return column(s, 100 * (b - k))


def half_precision(s, u):
    return column(s, 1e6 * (np.exp(s[:, 0] > -5) - np.exp(1.0)) * bump(s[:, 0]))


def single_precision(s, u):
    k = np.zeros(len(s))
    k[:] = np.where(s[:, 0] > 5, np.float32(0.1), np.float32(0.2)) * 0.3
    return column(s, 1e10 * (k - float(np.float32(0.2)) * 0.3) * bump(s[:, 0]))


def weak_scalars(s, u):
    out = s * 1.0
    for row in out:
        row[0] += 1e10 * (np.float32(1) * math.sin(bump(row[0]) / 3) - math.sin(bump(row[0]) / 3))
    return out


def is_true(s, u):
    rows = [[x + (100 * bump(x) if (x > -5) is True else 0.0), v] for x, v in s.tolist()]
    return np.array(rows)


def catches(s, u):
    def many(v):
        try:
            return list(v)
        except TypeError:
            return [v]

    return np.array([[x + 100 * sum(many(bump(x))), v] for x, v in s])


def layout_of_a_maximum(s, u):
    z = np.asfortranarray(np.stack([s * 0, s * 0], axis=2)).max(axis=2)
    q = z.T.reshape(-1)
    q[: len(s)] += 100 * bump(s[:, 0])
    return s + z


def layout_of_einsum(s, u):
    z = np.einsum("ij,jk->ki", s, np.zeros((2, 2)), optimize=True)
    q = z.reshape(-1)
    q[: len(s)] += 100 * bump(s[:, 0])
    return s + z.T


def astype_without_a_copy(s, u):
    z = np.zeros_like(s)
    y = z.astype(float, order="C", copy=False)
    y[:, 0] += 100 * bump(s[:, 0])
    return s + z


def objects(s, u):
    o = np.zeros((len(s), 16))
    o[:, 0], o[:, 1], o[:, 8] = 1e16, -1e16, bump(s[:, 0])
    return column(s, 100 * (o.view(np.ndarray).sum(axis=1) - o[:, 8]))


def buffers(s, u):
    z = np.frombuffer(bump(s[:, 0]).copy())
    return column(s, np.where(z > 0.5, 100.0, 0.0))


def counted_truths(s, u):
    return column(s, 100 * (np.einsum("ij->i", s > -5) - 2) * bump(s[:, 0]))


def kinds(s, u):
    return s + (100 * bump(s[:, :1]) if isinstance(s[0, 0], np.generic) else 0.0)


def raised_by_arithmetic(s, u):
    out = s * 1.0
    with np.errstate(all="raise"):
        for row in out:
            try:
                np.exp(800 * bump(row[0]))
            except FloatingPointError:
                row[0] += 100.0
    return out


def not_a_number(s, u):
    d = bump(s[:, 0]) * 1e308 * 1e2
    d = d - d
    return column(s, np.where(d != d, 100.0, 0.0))


CASES = [
    integers, truths, half_precision, single_precision, weak_scalars, is_true, catches, layout_of_a_maximum,
    layout_of_einsum, astype_without_a_copy, objects, buffers, counted_truths, kinds, raised_by_arithmetic,
    not_a_number,
]  # fmt: skip


@pytest.mark.parametrize("model", CASES, ids=lambda model: model.__name__)
def test_what_symbols_would_answer_otherwise_is_right_or_refused(model):
    points = np.array([[CENTER, 0.5], [CENTER + 3e-8, 0.7], [0.1, 0.2]])
    with np.errstate(all="ignore"):
        values = np.array(model(points.copy(), points[:, :0]), dtype=np.float64)
    try:
        box = enclose(trace(model, states=2, controls=0), points, points, states=2)
    except (EnclosureError, ValueError):
        return
    assert (box.lower <= values).all() and (values <= box.upper).all()


def random_weights(s, u):
    weights = np.random.default_rng(0).normal(size=(2, 2))
    return s + 0.1 * np.tanh(s @ weights)


def test_compiled_code_sees_numpy_as_it_is():
    """NumPy's own random numbers are filled into arrays that they ask NumPy for."""
    points = np.array([[0.1, 0.2], [0.3, -0.4]])
    box = enclose(random_weights, points, points, states=2)
    values = random_weights(points, points[:, :0])
    assert (box.lower <= values).all() and (values <= box.upper).all()


JUMPS = {
    "where": lambda s, u: np.where(s > 0.1234, 0.5 * s + 1.0, 0.5 * s),
    "negated": lambda s, u: -np.where(s > 0.1234, 0.5 * s + 1.0, 0.5 * s),
    "clipped": lambda s, u: np.clip(np.where(s > 0.1234, 0.5 * s + 1.0, 0.5 * s), -9.0, 9.0),
    "floor": lambda s, u: np.floor(s + 0.8766),
    "sign": lambda s, u: np.sign(s - 0.1234),
}


@pytest.mark.parametrize("name", JUMPS)
def test_verification_knows_no_slope_across_a_jump(name):
    """Only a range, of both sides: a claim over a jump was once shown again from its slopes alone."""
    program = verification.trace(JUMPS[name], 1, 0, 1)
    low, high = np.array([[0.1], [0.2]]), np.array([[0.15], [0.25]])
    box = interpreter.enclose(program, low, high, slopes=True)
    values = JUMPS[name](np.linspace(0.1, 0.15, 99)[:, None], np.empty((99, 0)))
    assert box.lower[0, 0] <= values.min() and values.max() <= box.upper[0, 0]
    assert any(np.isnan(np.broadcast_to(part[0], 2)[0]) for part in box.slopes[0].values())
    assert np.isfinite(box.lower[0, 1]) and np.isfinite(box.error[0, 1])
