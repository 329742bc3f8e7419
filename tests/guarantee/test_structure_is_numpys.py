"""Views, copies, assignment and structure are NumPy's own: what was once guessed wrong, and what is accepted."""

from __future__ import annotations

import copy
import math
from math import cos, sin

import numpy as np
import pytest
from numpy import zeros

import tether
from tether.programs import EnclosureError, enclose


def bump(x):
    """39 high, a millionth wide: no sample finds it."""
    return 39.0 * np.maximum(0.0, 1.0 - np.abs(x - 0.123456) * 2e6)


# What broke a proved certificate -------------------------------------------------------------------------


def scalars_are_copies(states, controls):
    rows = []
    for r, c in zip(states, controls, strict=True):
        q = r.copy()
        x, v = q[0], q[1]
        q[0] = x + 0.1 * v
        q[1] = v + 0.1 * (c[0] - 9.81 * np.sin(x))
        rows.append(q)
    return np.stack(rows)


def splits_are_views(split):
    def model(states, controls):
        following = states * 1.0
        _, v = split(following)
        v += bump(states[:, :1])
        return following

    return model


def copies_of_the_copy_module(states, controls):
    following = states * 1.0
    other = copy.copy(following)
    other[:, 1] += bump(states[:, 0])
    return following + other


def clip_without_limits(states, controls):
    following = states * 1.0
    other = np.clip(following, None, None)
    following[:, 1] += bump(states[:, 0])
    return other + following


def sum_over_no_axes(states, controls):
    following = states * 1.0
    other = np.sum(following, axis=())
    following[:, 1] += bump(states[:, 0])
    return other + following


def filled_with_a_column(states, controls):
    return states + np.full_like(states, bump(states[:, :1]))


def einsum_that_only_looks(states, controls):
    following = states * 1.0
    part = np.split(following, 2, axis=1)[1]
    other = np.einsum("ij->ij", part)
    other += bump(states[:, :1])
    return following


BROKEN = {
    "einsum": einsum_that_only_looks,
    "scalars are copies": scalars_are_copies,
    "split": splits_are_views(lambda x: np.split(x, 2, axis=1)),
    "array_split": splits_are_views(lambda x: np.array_split(x, 2, axis=1)),
    "hsplit": splits_are_views(lambda x: np.hsplit(x, 2)),
    "vsplit": splits_are_views(lambda x: [part.T for part in np.vsplit(x.T, 2)]),
    "copy.copy": copies_of_the_copy_module,
    "clip": clip_without_limits,
    "sum": sum_over_no_axes,
    "full_like": filled_with_a_column,
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_was_enclosed_wrongly_is_enclosed_rightly(name):
    model = BROKEN[name]
    rng = np.random.default_rng(0)
    points = rng.uniform(-1, 1, (500, 3))
    points[:100, 0] = 0.123456 + rng.uniform(-1e-6, 1e-6, 100)
    values = model(points[:, :2].copy(), points[:, 2:].copy())
    for reach in (0.0, 1e-7, 0.1):
        box = enclose(model, points - reach, points + reach, states=2)
        assert (box.lower <= values).all() and (values <= box.upper).all()
    exact = enclose(model, points, points, states=2)
    assert (exact.upper - exact.lower).max() < 1e-12 * (1 + np.abs(values).max())


@pytest.mark.parametrize("name", BROKEN)
def test_no_certificate_is_broken_where_it_was(name):
    model = BROKEN[name]
    rng = np.random.default_rng(1)
    states, controls = rng.uniform(-1, 1, (600, 2)), rng.uniform(-1, 1, (600, 1))
    data = tether.Transitions.from_arrays(
        states, controls, model(states, controls), episodes=np.arange(600) // 30
    )
    probes = tether.Probes.from_box({"x1": 0.0, "u0": 0.0}, count=200, like=data)
    fitted = tether.fit(
        data, trusted=model, probes=probes, bounds="affine", evidence="proved", memories=30,
        training=tether.TrainingConfig(steps=20),
    )  # fmt: skip
    points = rng.uniform(-1, 1, (20_000, 3))
    points[::2, 0] = 0.123456 + rng.uniform(-1e-6, 1e-6, 10_000)
    found = fitted.predict(points[:, :2], points[:, 2:], details=True)
    gap = np.abs(found.next_states - model(points[:, :2].copy(), points[:, 2:].copy()))
    assert found.in_domain.any() and (gap <= found.delta)[found.in_domain].all()


def test_bits_of_a_condition_are_refused():
    with pytest.raises(EnclosureError, match="`bitwise operation` must be given conditions on both sides"):
        enclose(lambda s, u: np.where((s > 0) & 2, s, 0.0), [[-1.0]], [[1.0]], states=1)


# What must be accepted -----------------------------------------------------------------------------------


def row_loop(s, u):
    out = zeros((len(s), 2))
    for k in range(len(s)):
        q = s[k].copy()
        x, v = q[0], q[1]
        q[0] = x + 0.1 * v
        q[1] = v + 0.1 * (u[k, 0] - 9.81 * np.sin(x))
        out[k] = q[:2]
    return out


def split_views(s, u):
    nxt = s[:, :2] * 1.0
    _x, v = np.split(nxt, 2, axis=1)
    v += s[:, :1]
    return nxt


def full_like(s, u):
    return np.full_like(s[:, :1], 0) + np.full_like(s, 2.0) * s


def array_transposed(s, u):
    return np.array([s[:, 0] * 2, s[:, 1]]).T


def c_(s, u):
    return np.c_[s[:, 0], s[:, 1] ** 2]


def block(s, u):
    return np.block([[s[:, :1], s[:, 1:2] * 3]])


def dstack(s, u):
    return np.dstack([s[:, 0], s[:, 1]])[0]


def asarray_astype(s, u):
    return np.asarray(s).astype(float) * 1.5


def math_in_lists(s, u):
    return [[sin(a) * cos(b), math.sqrt(a) + math.atan2(a, b)] for a, b, _ in s]


def einsum(s, u):
    return np.einsum("ij,kj->ik", s, np.arange(9.0).reshape(3, 3))


def einsum_outer(s, u):
    return np.einsum("ni,nj->nij", s, u).reshape(len(s), -1)


def outer(s, u):
    return np.stack([np.outer(r, c).ravel() for r, c in zip(s, u, strict=False)])


def inner_tensordot(s, u):
    return np.inner(s, np.ones((2, 3))) + np.tensordot(s, np.ones((3, 2)), axes=1)


def cumsum_diff(s, u):
    return np.cumsum(s, axis=1) + np.diff(s, axis=1, prepend=0)


def logarithms(s, u):
    return (
        np.log10(s)
        + np.log2(s)
        + np.exp2(s)
        + np.cbrt(s)
        + np.arcsinh(s)
        + np.logaddexp(s, 1.0)
        + np.polyval([1, 2, 3.0], s)
    )


def rounding(s, u):
    return np.round(s / 100) + s + np.rint(s / 100)


def copies(s, u):
    y = copy.copy(s)
    z = copy.deepcopy(s)
    y[:, 0] = 1
    z[:, 1] = y[:, 0] * s[:, 2]
    return np.hstack([y, z, np.clip(s, None, None), np.sum(s, axis=())])


def eye_assigned(s, u):
    np.eye(3)
    out = []
    for r in s:
        M = np.eye(3)
        M[0, 1] = r[0]
        M[1, 2] = -r[1]
        out.append(M @ r)
    return np.array(out)


def apply_along_axis(s, u):
    return np.apply_along_axis(lambda r: r * r[0], 1, s)


def empty_and_mask(s, u):
    o = np.empty(s.shape)
    o[:] = s
    o[o > 1.0] = 1.0
    return o


def select(s, u):
    return np.select([s > 100, s > -100], [s, s * 2], 0.0)


def norm_of_list(s, u):
    return np.linalg.norm([s[:, 0], s[:, 1]], axis=0)[:, None]


def mean_of_list(s, u):
    return np.mean([s, 2 * s], axis=0)


def insert_append(s, u):
    return np.insert(s, 1, 5.0, axis=1) + np.append(s, u[:, :1], axis=1)


def constant_matrices(s, u):
    a = np.linspace(0, 1, 3)
    A = np.diag([1.0, 2.0, 3.0])
    B = np.linalg.inv(np.array([[2.0, 1], [1, 3]]))
    return s @ A + a + (u @ B).sum(1, keepdims=True)


def constant_routines(s, u):
    A = np.array([[2.0, 1, 0], [1, 3, 0], [0, 0, 1]])
    gains = np.linalg.solve(A, np.array([1.0, 2.0, 3.0])) * np.linalg.det(A)
    looked = np.interp(np.array([0.2, 0.4, 3.0]), [0, 1], [2, 5.0]) + np.interp(0.3, [0, 1], [2, 5.0])
    places = np.digitize(np.array([0.5, 1.5, 2.5]), [0, 1, 2]) + np.searchsorted(np.arange(3.0), 1.5)
    return s * gains + looked + places


def counting(s, u):
    return (s * (s > 0)).sum(1, keepdims=True) + np.sum(1.0 * (s > 0), axis=1)[:, None]


def hypot_rows(s, u):
    return np.vstack([np.hypot(*r[:2]) for r in s])


def scalars(s, u):
    return np.column_stack(
        [np.float64(2) * s[:, 0], s[:, 1] * np.float32(0.1), s[:, 2] // 100, s[:, 0] % 100]
    )


ACCEPTED = [
    row_loop,
    split_views,
    full_like,
    array_transposed,
    c_,
    block,
    dstack,
    asarray_astype,
    math_in_lists,
    einsum,
    einsum_outer,
    outer,
    inner_tensordot,
    cumsum_diff,
    logarithms,
    rounding,
    copies,
    eye_assigned,
    apply_along_axis,
    empty_and_mask,
    select,
    norm_of_list,
    mean_of_list,
    insert_append,
    constant_matrices,
    constant_routines,
    counting,
    hypot_rows,
    scalars,
]


@pytest.mark.parametrize("model", ACCEPTED, ids=lambda model: model.__name__)
def test_constructs_of_real_models_are_accepted(model):
    points = np.random.default_rng(0).uniform(0.6, 1.6, (50, 5))
    values = np.array(model(points[:, :3].copy(), points[:, 3:].copy()))
    box = enclose(model, points, points, states=3)
    assert (box.lower <= values).all() and (values <= box.upper).all()
    assert (box.upper - box.lower).max() < 1e-12
    assert (box.rounding >= 0).all() and box.rounding.max() < 1e-12
