"""Leaves of second order: enclosed second derivatives, remainders in exact arithmetic, forged files, tubes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import mpmath
import numpy as np
import pytest
import sympy
import torch

import tether
from tether import programs
from tether.claims.tubes import save_tube, tube
from tether.evidence.curvature import Hessian
from tether.evidence.expansions import Second, expand_boxes
from tether.foundation.errors import CertificateError, StorageError
from tether.verification.curvatures import enclose_bend
from tether.verification.tracing import trace
from tether.verification.tubes import verify_tube

sys.path.insert(0, str(Path(__file__).parents[1] / "fuzz"))
from signing import rewrite

REFUSED = (CertificateError, StorageError)
X, Y = sympy.symbols("x y")
SMOOTH = {
    "product": (lambda x, y: x * y * y, X * Y * Y, (-2, 2)),
    "ratio": (lambda x, y: x / (2.5 + y), X / (sympy.Rational(5, 2) + Y), (-2, 2)),
    "reciprocal": (lambda x, y: np.reciprocal(3 + x * y), 1 / (3 + X * Y), (-1, 1)),
    "sine": (lambda x, y: np.sin(x * y) + np.cos(x), sympy.sin(X * Y) + sympy.cos(X), (-2, 2)),
    "tangent": (lambda x, y: np.tan(0.5 * x) * y, sympy.tan(X / 2) * Y, (-2, 2)),
    "exponentials": (
        lambda x, y: np.exp(x) + np.expm1(y) + np.exp2(x * y),
        sympy.exp(X) + sympy.exp(Y) - 1 + sympy.exp(sympy.log(2) * X * Y),
        (-2, 2),
    ),
    "logarithms": (
        lambda x, y: np.log(x) * y + np.log1p(x) + np.log2(y) + np.log10(x * y),
        sympy.log(X) * Y + sympy.log(1 + X) + sympy.log(Y) / sympy.log(2) + sympy.log(X * Y) / sympy.log(10),
        (0.5, 3),
    ),
    "roots": (
        lambda x, y: np.sqrt(x * y) + np.cbrt(x) + np.hypot(x, y),
        sympy.sqrt(X * Y) + X ** sympy.Rational(1, 3) + sympy.sqrt(X**2 + Y**2),
        (0.5, 3),
    ),
    "arcs": (
        lambda x, y: np.arcsin(0.25 * x) + np.arccos(0.25 * y) + np.arctan(x * y),
        sympy.asin(X / 4) + sympy.acos(Y / 4) + sympy.atan(X * Y),
        (-2, 2),
    ),
    "hyperbolic": (
        lambda x, y: np.sinh(x) * np.cosh(y) + np.tanh(x * y) + np.arcsinh(x),
        sympy.sinh(X) * sympy.cosh(Y) + sympy.tanh(X * Y) + sympy.asinh(X),
        (-2, 2),
    ),
    "arc hyperbolic": (
        lambda x, y: np.arccosh(2 + x) * y + np.arctanh(0.25 * y),
        sympy.acosh(2 + X) * Y + sympy.atanh(Y / 4),
        (-0.5, 2),
    ),
    "powers": (
        lambda x, y: x**3 + y**5 - x**-2 + y**1.5 + x**y,
        X**3 + Y**5 - X**-2 + Y ** sympy.Rational(3, 2) + X**Y,
        (0.5, 2),
    ),
    "angle": (lambda x, y: np.arctan2(y, x), sympy.atan2(Y, X), (0.5, 3)),
    "soft": (lambda x, y: np.logaddexp(x, 2 * y), sympy.log(sympy.exp(X) + sympy.exp(2 * Y)), (-2, 2)),
    "degrees": (
        lambda x, y: np.sin(np.deg2rad(x)) * np.rad2deg(y),
        sympy.sin(X * sympy.pi / 180) * Y * 180 / sympy.pi,
        (-2, 2),
    ),
    "sums": (lambda x, y: np.stack([x, x * y, y * y]).sum(axis=0) ** 2, (X + X * Y + Y**2) ** 2, (-2, 2)),
    "decided": (
        lambda x, y: np.where(x < 50, np.abs(x - 9) * np.maximum(y, -7) * y, 0.0) + np.minimum(x * x, 99.0),
        (9 - X) * Y * Y + X**2,
        (-2, 2),
    ),
}


def boxes(rng, low, high, count=24):
    middle = rng.uniform(low, high, (count, 2))
    reach = (high - low) * 10.0 ** rng.uniform(-7, -0.5, (count, 1)) * rng.uniform(0, 1, (count, 2))
    ends = np.clip(middle - reach, low, high), np.clip(middle + reach, low, high)
    return tuple(np.concatenate([end, np.zeros((count, 1))], axis=1) for end in ends)


def program(function):
    def model(states, controls):
        return function(states[:, 0], states[:, 1])[:, None]

    return programs.trace(model, states=2, controls=1), trace(model, 2, 1, 1, (2,))


@pytest.mark.parametrize("name", SMOOTH)
def test_second_derivatives_are_enclosed_by_both(name):
    function, formula, (low, high) = SMOOTH[name]
    made, other = program(function)
    hessian, rng = Hessian.of(made), np.random.default_rng(0)
    assert hessian is not None
    lower, upper = boxes(rng, low, high)
    least, greatest = hessian.over(lower, upper)
    found = enclose_bend(other, lower, upper).curves
    assert np.isfinite(least).all() and np.isfinite(greatest).all()
    where = [[0, 0], [0, 1], [1, 1]]
    exact = [sympy.lambdify((X, Y), sympy.diff(formula, *(((X, Y)[k]) for k in p)), "mpmath") for p in where]
    share = np.concatenate([rng.random((3, *lower.shape)), np.round(rng.random((3, *lower.shape)))])
    points = np.clip(lower + share * (upper - lower), lower, upper)
    with mpmath.workdps(40):
        for (i, j), second in zip(where, exact, strict=True):
            at = [hessian.inputs.tolist().index(k) for k in (i, j)]
            theirs = [np.broadcast_to(end, len(lower)) for end in found.get((i, j), (0.0, 0.0))]
            for row in points:
                for k, (x, y, _) in enumerate(row.tolist()):
                    value = second(mpmath.mpf(x), mpmath.mpf(y))
                    assert least[k, at[0], at[1]] <= value <= greatest[k, at[0], at[1]]
                    assert theirs[0][k] <= value <= theirs[1][k]


@pytest.mark.parametrize("name", SMOOTH)
def test_remainders_hold_in_exact_arithmetic_at_faces_and_corners(name):
    function, formula, (low, high) = SMOOTH[name]
    made, _ = program(function)
    hessian, rng = Hessian.of(made), np.random.default_rng(1)
    assert hessian is not None
    lower, upper = boxes(rng, low, high)
    pairs = np.array([[0, 0], [0, 1], [1, 1]])
    leaves = expand_boxes(made, lower, upper, second=Second(hessian, pairs))
    plain = expand_boxes(made, lower, upper)
    assert (leaves.remainder <= plain.remainder).all()
    assert (leaves.curvature != 0).any(axis=1).sum() > 5
    exact = sympy.lambdify((X, Y), formula, "mpmath")
    with mpmath.workdps(60):
        for k in range(len(lower)):
            corners = np.array(np.meshgrid(*zip(lower[k, :2], upper[k, :2], strict=True))).reshape(2, -1).T
            beside = np.clip(np.nextafter(corners, leaves.middle[k, :2]), lower[k, :2], upper[k, :2])
            inside = rng.uniform(lower[k, :2], upper[k, :2], (6, 2))
            faces = np.where(rng.random((6, 2)) < 0.5, inside, corners[rng.integers(0, 4, 6)])
            for x, y in np.concatenate([corners, beside, faces]).tolist():
                way = mpmath.mpf(x) - leaves.middle[k, 0], mpmath.mpf(y) - leaves.middle[k, 1]
                model = mpmath.mpf(leaves.value[k])
                model += sum(mpmath.mpf(s) * w for s, w in zip(leaves.slope[k], way, strict=False))
                for c, (i, j) in zip(leaves.curvature[k], pairs, strict=True):
                    model += mpmath.mpf(c) * way[i] * way[j]
                assert abs(exact(mpmath.mpf(x), mpmath.mpf(y)) - model) <= leaves.remainder[k]


KINKED = {
    "size": lambda x, y: np.abs(x) * y,
    "clip": lambda x, y: np.clip(x * y, -0.2, 0.3),
    "greater": lambda x, y: np.maximum(x * x, y),
    "where": lambda x, y: np.where(x < 0.1, x * x, y * y),
    "constants": lambda x, y: x * y + np.where(x + y < 0.1, 1.0, 2.0),
    "sign": lambda x, y: x * x + np.sign(y - 0.05),
    "floor": lambda x, y: y * y + np.floor(3 * x),
    "mod": lambda x, y: np.mod(x, 0.7) * y,
    "angle": lambda x, y: np.arctan2(y, x) * x,
    "root": lambda x, y: np.sqrt(x * x) * y + x * y,
    "table": lambda x, y: np.interp(x, [-1.0, 0.1, 1.0], [0.0, 2.0, 1.0]) * y,
}


@pytest.mark.parametrize("name", KINKED)
def test_over_kinks_and_jumps_nothing_is_missed(name):
    function = KINKED[name]
    made, _ = program(function)
    hessian, rng = Hessian.of(made), np.random.default_rng(2)
    lower, upper = boxes(rng, -1.0, 1.0, 200)
    pairs = np.array([[0, 0], [0, 1], [1, 1]])
    leaves = expand_boxes(made, lower, upper, second=Second(hessian, pairs))
    share = rng.random((400, *lower.shape))
    share[::2] = np.round(share[::2])
    points = np.clip(lower + share * (upper - lower), lower, upper)
    away = points - leaves.middle
    model = leaves.value + (leaves.slope * away).sum(axis=2)
    for q, (i, j) in enumerate(pairs):
        model = model + leaves.curvature[:, q] * away[..., i] * away[..., j]
    values = function(points[..., 0].ravel(), points[..., 1].ravel()).reshape(model.shape)
    off = np.abs(values - model).max(axis=0)
    assert (off <= leaves.remainder * (1 + 1e-9) + 1e-12).all()


def test_a_leaf_over_a_kink_is_of_first_order():
    made, other = program(KINKED["size"])
    hessian = Hessian.of(made)
    assert hessian is not None
    lower, upper = np.array([[-0.5, 0.1, 0.0], [0.1, 0.1, 0.0]]), np.array([[0.5, 0.4, 0.0], [0.5, 0.4, 0.0]])
    leaves = expand_boxes(made, lower, upper, second=Second(hessian, np.array([[0, 1]])))
    assert (leaves.curvature[0] == 0).all() and leaves.curvature[1, 0] == 1.0
    found = enclose_bend(other, lower, upper).curves
    assert np.isnan(found[0, 0][0][0]) and found[0, 0][0][1] == found[0, 0][1][1] == 0.0
    assert found[0, 1][0][1] == found[0, 1][1][1] == 1.0


# --- fitted


def cart(states, controls):
    """Quadratic and worse in what it bends along, and pinned where it does not move."""
    speed, heading = states[:, 0], states[:, 1]
    turned = heading + 0.1 * speed * controls[:, 0]
    faster = speed + 0.1 * np.sin(heading) * speed * np.cos(controls[:, 0])
    return np.stack([faster, turned], axis=1)


def fit(order, **settings):
    rng = np.random.default_rng(0)
    inputs = rng.uniform([-1, -2, -1], [1, 2, 1], (400, 3))
    after = cart(inputs[:, :2], inputs[:, 2:]) + 0.01 * np.sin(3 * inputs[:, :2])
    schema = tether.make_schema(["speed", "heading"], ["steering"])
    data = tether.Transitions.from_arrays(
        inputs[:, :2], inputs[:, 2:], after, episodes=np.arange(400) // 20, schema=schema
    )
    training = tether.TrainingConfig(steps=5, evaluate_every=5, dtype="float64")
    settings = {"memories": 20, "leaves": 400, "hidden": (4,), "training": training} | settings
    return tether.fit(data, trusted=cart, order=order, **settings)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    model = fit(2)
    path = tmp_path_factory.mktemp("second") / "model.safetensors"
    tether.save(model, path)
    return model, path


@pytest.fixture
def copied(made, tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(made[1].read_bytes())
    return path


def test_as_many_leaves_leave_less_and_auto_sees_it(made):
    first, second, auto = fit(1).bounds, made[0].bounds, fit("auto").bounds
    assert (first.order, second.order, auto.order) == (1, 2, 2)
    assert first.tree.leaves == second.tree.leaves
    assert 4 * second.remainder.mean() < first.remainder.mean()


def test_files_are_read_again_to_the_bit(made):
    model, path = made
    again = tether.load(path)
    points = model.bounds.points(model.cells, 20, np.random.default_rng(3))
    for one, two in zip(model.limits(points), again.limits(points), strict=True):
        assert np.array_equal(one, two)


def test_every_output_allowed_is_within_delta_of_m(made):
    model, _ = made
    points = model.bounds.points(model.cells, 400, np.random.default_rng(4))
    limits = model.limits(points)
    truth = cart(points[:, :2], points[:, 2:]) - points[:, :2]
    assert limits.in_domain.all()
    assert (np.maximum(limits.upper - truth, truth - limits.lower) <= limits.delta).all()
    single = tether.single_precision(model)
    rounded = points.astype(np.float32)
    found = single(*(torch.from_numpy(part.copy()) for part in (rounded[:, :2], rounded[:, 2:])))
    kept = found.in_domain.numpy()
    exact = rounded.astype(np.float64)
    away = np.abs(found.next_states.detach().double().numpy() - cart(exact[:, :2], exact[:, 2:]))
    assert kept.mean() > 0.5 and (away[kept] <= found.delta.detach().double().numpy()[kept]).all()


def worst_leaf(model):
    """A leaf of second order, and how far M was really seen to be from A in it."""
    bounds = model.bounds
    points = bounds.points(model.cells, 400, np.random.default_rng(5))
    away = np.abs(cart(points[:, :2], points[:, 2:]) - points[:, :2] - bounds.evaluate(points))
    seen = np.zeros(bounds.tree.leaves)
    np.maximum.at(seen, bounds.tree.find(points), away)
    bent = (bounds.bends != 0).any(axis=1)
    leaf = int(np.argmax(np.where(bent, seen, 0.0)))
    return leaf, float(seen[leaf])


def test_what_was_not_changed_is_verified(made):
    model, path = made
    found = tether.verify(path, cart)
    assert found.verified and found.cells == model.bounds.tree.leaves
    assert tether.certify(model, cart).evidence == "proved"


def _shrunk(model, arrays, words):
    leaf, seen = worst_leaf(model)
    arrays["bounds.remainder"][leaf] = 0.99 * seen


def _larger(model, arrays, words):
    leaf, _ = worst_leaf(model)
    lower, upper = (end[leaf] for end in model.bounds.tree.boxes())
    for k, (i, j) in enumerate(arrays["bounds.pairs"]):
        reach = 0.25 * (upper - lower)[i] * (upper - lower)[j]
        arrays["bounds.curvature"][leaf, k] += 3 * arrays["bounds.remainder"][leaf] / reach


def _flat(model, arrays, words):
    leaf, _ = worst_leaf(model)
    arrays["bounds.curvature"][leaf] = 0.0


def _other_pairs(model, arrays, words):
    pairs = arrays["bounds.pairs"]
    arrays["bounds.pairs"] = pairs[::-1].copy()


def _tilted(model, arrays, words):
    leaf, _ = worst_leaf(model)
    arrays["bounds.slope"][leaf] += 0.1


def _descending(model, arrays, words):
    pairs = arrays["bounds.pairs"]
    pairs[pairs[:, 0] < pairs[:, 1]] = pairs[pairs[:, 0] < pairs[:, 1]][:, ::-1]


def _twice(model, arrays, words):
    arrays["bounds.pairs"][:] = arrays["bounds.pairs"][0]


def _beyond(model, arrays, words):
    arrays["bounds.pairs"][-1, 1] = 3


def _without_pairs(model, arrays, words):
    del arrays["bounds.pairs"]


def _without_curvature(model, arrays, words):
    del arrays["bounds.curvature"]


def _dropped(model, arrays, words):
    del arrays["bounds.curvature"], arrays["bounds.pairs"]


def _sampled(model, arrays, words):
    words["evidence"] = "sampled"


def _infinite(model, arrays, words):
    arrays["bounds.curvature"][0, 0] = np.inf


def _pinned(model, arrays, words):
    arrays["bounds.pinned"][:] = 0.5 * arrays["tree.lower"] + 0.3 * arrays["tree.upper"]


FORGED = [
    _shrunk, _larger, _flat, _other_pairs, _tilted, _descending, _twice, _beyond, _without_pairs,
    _without_curvature, _dropped, _sampled, _infinite, _pinned,
]  # fmt: skip


@pytest.mark.parametrize("change", FORGED, ids=lambda change: change.__name__.strip("_"))
def test_forged_files_are_refused(made, copied, change):
    rewrite(copied, lambda arrays, words: change(made[0], arrays, words))
    with pytest.raises(REFUSED):
        tether.verify(copied, cart)


@pytest.mark.parametrize("change", [_shrunk, _larger, _flat, _tilted])
def test_forged_files_are_not_certified(made, copied, change):
    rewrite(copied, lambda arrays, words: change(made[0], arrays, words))
    with pytest.raises(REFUSED):
        tether.certify(tether.load(copied), cart)


def test_another_m_is_refused(made):
    def heavier(states, controls):
        return cart(states, controls) + 0.05 * states[:, :1] ** 2

    with pytest.raises(REFUSED):
        tether.verify(made[1], heavier)


def test_tubes_hold_and_are_shown_again(made, tmp_path):
    model, path = made
    lower, upper = np.array([0.3, -0.4]), np.array([0.4, -0.2])
    found = tube(model, cart, (lower, upper), ([-0.3], [0.3]), steps=5)
    assert found.complete
    save_tube(found, tmp_path / "tube.json")
    assert verify_tube(tmp_path / "tube.json", cart, path).tubes == 1
    rng, below, above = np.random.default_rng(6), *found.ends
    below, above = (np.asarray(end).reshape(-1, 6, 2)[0] for end in (below, above))
    states = rng.uniform(lower, upper, (4000, 2))
    for step in range(1, 6):
        controls = rng.uniform(-0.3, 0.3, (len(states), 1))
        limits = model.limits(np.concatenate([states, controls], axis=1))
        share = np.round(rng.random(states.shape) * 2) / 2
        states = states + limits.lower + share * (limits.upper - limits.lower)
        assert (states >= below[step] - 1e-12).all() and (states <= above[step] + 1e-12).all()
    content = json.loads((tmp_path / "tube.json").read_text())
    matrix = content["starts"][0]["parts"][0]["sets"][4]["generators"]
    content["starts"][0]["parts"][0]["sets"][4]["generators"] = [[0.5 * k for k in row] for row in matrix]
    (tmp_path / "changed.json").write_text(json.dumps(content))
    with pytest.raises(REFUSED):
        verify_tube(tmp_path / "changed.json", cart, path)


def turning(states, controls):
    x, t, u = states[:, 0], states[:, 1], controls[:, 0]
    return np.stack([x + 0.1 * np.cos(t) * u, t + 2.5 * x * u + 0.4 * np.arctan2(x, 1.5 + u)], axis=1)


def test_tubes_are_shown_again_where_room_changes_along_what_does_not_bend(tmp_path):
    """Boxes cut only along inputs that M bends by held cells with more room than the tube went through."""
    rng = np.random.default_rng(0)
    high = np.array([1, np.pi, 1.0])
    inputs = rng.uniform(-high, high, (400, 3))
    inputs[:3], inputs[3:6], inputs[20:40, 2] = high, -high, 0.0
    following = turning(inputs[:, :2], inputs[:, 2:]) + 0.003 * np.sin(5 * inputs[:, :2])
    data = tether.Transitions.from_arrays(
        inputs[:, :2],
        inputs[:, 2:],
        following,
        episodes=np.arange(400) // 20,
        schema=tether.make_schema(["x", "t"], ["u"], angles=["t"]),
    )
    small = {"memories": 20, "leaves": 36, "hidden": (4,), "training": tether.TrainingConfig(steps=3)}
    model = tether.fit(data, trusted=turning, order=2, evidence="proved", **small)
    tether.save(model, tmp_path / "model.safetensors")
    found = tube(model, turning, ([0.1, -0.2], [0.2, 0.1]), ([-0.3], [0.3]), steps=6)
    save_tube(found, tmp_path / "tube.json")
    assert verify_tube(tmp_path / "tube.json", turning, tmp_path / "model.safetensors").tubes == 1


def test_settings_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match=r"`order` must be one of 1, 2, 'auto'; got 3"):
        tether.FitConfig(order=3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"`order` must be 1 with bounds 'interval'"):
        tether.FitConfig(order=2, bounds="interval")
    with pytest.raises(ValueError, match=r"`order` must be 1 with evidence `sampled`.*--order 1"):
        fit(2, evidence="sampled")
    assert fit("auto", evidence="sampled").bounds.order == 1
