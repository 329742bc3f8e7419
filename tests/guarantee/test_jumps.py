"""Models that jump: known over the whole box, with half of the jump where it is and next to nothing elsewhere."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tether
from conftest import seeds
from tether.evidence.expansions import expand_boxes, needed_remainder
from tether.foundation.errors import CertificateError
from tether.model.assembling import constrained_model
from tether.programs import evaluate, trace
from tether.verification import interpreter
from tether.verification import tracing as verification

SCHEMA = tether.make_schema(["x", "v"], ["u"])
EDGE = 0.3


def moved(s, change):
    return np.stack([s[:, 0] + 0.1 * s[:, 1], s[:, 1] + change], axis=1)


def coulomb(s, u):
    return moved(s, 0.1 * (u[:, 0] - 0.5 * np.sign(s[:, 1])))


def quantised(s, u):
    return moved(s, 0.1 * np.floor(2 * u[:, 0]) + 0.01 * np.rint(3 * s[:, 0]))


def gears(s, u):
    return moved(s, np.where(u[:, 0] > EDGE, 0.2 * s[:, 0] ** 2 + 0.1 * s[:, 1], 0.1 * np.sin(s[:, 0])))


def sawtooth(s, u):
    return moved(s, 0.1 * (3 * s[:, 0] + u[:, 0]) % 0.25 + 0.02 * (u[:, 0] // 0.7))


def by_branches(s, u):
    rows = []
    for (x, v), (force,) in zip(s, u, strict=True):
        if v > EDGE:
            friction = -0.3
        elif v < -EDGE:
            friction = 0.3
        else:
            friction = -v
        rows.append([x + 0.1 * v, v + 0.1 * (force + friction)])
    return np.array(rows)


def counted(s, u):
    """A truth value as a number, of two inputs."""
    return moved(s, 0.1 * u[:, 0] + 0.3 * (s[:, 0] + s[:, 1] > EDGE))


def nested(s, u):
    level = np.where(s[:, 1] > 0, np.floor(4 * u[:, 0]), np.where(u[:, 0] < 0, -1.0, 2.0))
    return moved(s, 0.05 * level * np.cos(s[:, 0]))


MODELS = {
    function.__name__: function
    for function in (coulomb, quantised, gears, sawtooth, by_branches, counted, nested)
}
LARGEST_JUMP = {"coulomb": 0.1, "quantised": 0.12, "gears": 0.9, "sawtooth": 0.3, "by_branches": 0.0, "counted": 0.3,
                "nested": 0.75}  # fmt: skip


@pytest.fixture(scope="module", params=MODELS)
def fitted(request):
    function = MODELS[request.param]
    rng = np.random.default_rng(0)
    states, controls = rng.uniform(-1, 1, (600, 2)), rng.uniform(-2, 2, (600, 1))
    after = function(states, controls) + rng.normal(0, 0.01, (600, 2))
    data = tether.Transitions.from_arrays(
        states, controls, after, episodes=np.arange(600) // 30, schema=SCHEMA
    )
    training = tether.TrainingConfig(steps=5)
    return tether.fit(
        data, trusted=function, evidence="proved", leaves=3000, memories=10, hidden=(4,), training=training
    ), function  # fmt: skip


def near_jumps(model, rng, rows):
    """Inputs of the box, many of them next to where the models jump, to the last place."""
    tree = model.bounds.tree
    inputs = rng.uniform(tree.lower, tree.upper, (rows, 3))
    places = np.array([0.0, EDGE, -EDGE, 0.5, 0.25, 0.7, 1.0, 1 / 6, 0.5 / 3, 1.5])
    chosen = rng.random(inputs.shape) < 0.5
    inputs = np.where(chosen, rng.choice(places, inputs.shape), inputs)
    inputs[:, 1] = np.where(rng.random(rows) < 0.2, EDGE - inputs[:, 0], inputs[:, 1])
    ulps = rng.integers(-3, 4, inputs.shape)
    inputs = inputs + ulps * np.spacing(inputs) * chosen
    return np.clip(inputs, tree.lower, tree.upper)


def test_all_of_the_box_is_known(fitted):
    assert fitted[0].bounds.known_share == 1.0
    assert np.isfinite(fitted[0].bounds.remainder).all()
    if fitted[1] is coulomb:
        assert fitted[0].bounds.tree.leaves <= 60


def test_no_weights_leave_delta(fitted):
    model, function = fitted
    inputs = near_jumps(model, np.random.default_rng(1), 60_000)
    found = model.predict(inputs[:, :2], inputs[:, 2:], details=True)
    assert found.in_domain.all()
    trusted = function(inputs[:, :2], inputs[:, 2:])
    for end in (found.lower, found.upper):
        assert (np.abs(end - trusted) <= found.delta).all()


def test_the_jump_is_halved_and_the_rest_is_sharp(fitted):
    model, function = fitted
    speed = model.bounds.output == 1
    worst = model.bounds.remainder[speed].max()
    assert worst <= 0.5 * LARGEST_JUMP[function.__name__] + 0.015  # what a leaf that jumps is wide
    inputs = np.random.default_rng(2).uniform([-1, -1, -2], [1, 1, 2], (5000, 3))
    assert np.median(model.bounds.remainder_at(inputs)[:, 1]) < 0.005


def test_it_is_certified_attacked_and_verified(fitted, tmp_path):
    model, function = fitted
    assert tether.certify(model, function).certified
    assert not tether.attack(model, function, evaluations=20_000).broken
    tether.save(model, tmp_path / "model.safetensors")
    assert tether.verify(tmp_path / "model.safetensors", function).verified


def test_less_than_half_of_a_jump_is_found_out(fitted, tmp_path):
    model, function = fitted
    if not LARGEST_JUMP[function.__name__]:
        pytest.skip("it does not jump")
    bounds = model.bounds
    worst = np.argmax(np.where(bounds.output == 1, bounds.remainder, 0.0))
    remainder = bounds.remainder.copy()
    remainder[worst] *= 0.9
    false = constrained_model(model.network, model.frame, model.cells, replace(bounds, remainder=remainder))
    with pytest.raises(CertificateError):
        tether.certify(false, function)
    tether.save(false, tmp_path / "model.safetensors")
    with pytest.raises(CertificateError, match="not verified"):
        tether.verify(tmp_path / "model.safetensors", function)


# --- random programs full of jumps


def composed(plan):  # noqa: C901
    """M of three inputs, from random steps: each adds a value made of two earlier ones."""

    def function(s, u):
        values = [s[:, 0], s[:, 1], u[:, 0]]
        for step, first, second, third, number in plan:
            x, y, z = values[first], values[second], values[third]
            if step == 0:
                values.append(np.floor(3 * x) + number * y)
            elif step == 1:
                values.append(np.where(x + number > y, z, 0.5 * x))
            elif step == 2:
                values.append((x + y) % 0.75 + number * z)
            elif step == 3:
                values.append(np.sign(x - number) * y)
            elif step == 4:
                values.append(np.sin(x) * y + number)
            elif step == 5:
                values.append(x + number * ((y < z) & (x > number)))
            elif step == 6:
                values.append(np.rint(2 * x) - np.trunc(y) + np.ceil(number * z))
            elif step == 7:
                values.append(np.minimum(x, y) + z // 0.6)
            else:
                values.append(np.maximum(np.abs(x) - 0.5, number * y))
        return values[-1][:, None]

    return function


def random_plan(rng):
    plan = []
    for k in range(int(rng.integers(2, 6))):
        picks = [int(value) for value in rng.integers(0, 3 + k, 3)]
        plan.append((int(rng.integers(0, 9)), *picks, float(np.round(rng.normal(), 2))))
    return plan


def sampled_in(lower, upper, rng, each):
    """(K, each, D) points of boxes, corners and round numbers among them."""
    share = rng.random((len(lower), each, lower.shape[1]))
    share[:, ::3] = np.round(share[:, ::3])
    points = lower[:, None] + share * (upper - lower)[:, None]
    rounded = np.round(points * 12) / 12
    inside = (rounded >= lower[:, None]) & (rounded <= upper[:, None])
    points = np.where(inside & (rng.random(points.shape) < 0.5), rounded, points)
    return np.clip(points, lower[:, None], upper[:, None])


@pytest.mark.parametrize("seed", seeds(15, 30))
def test_random_programs_with_jumps(seed):
    rng = np.random.default_rng([seed, 0xF])
    function = composed(random_plan(rng))
    program = trace(function, states=2, controls=1)
    middle = np.round(rng.uniform(-2, 2, (64, 3)) * 12) / 12
    reach = 10.0 ** rng.uniform(-6, 0.3, (64, 1)) * rng.choice([0.0, 0.3, 1.0], (64, 3))
    lower, upper = middle - reach * rng.choice([0.0, 1.0], (64, 3)), middle + reach
    points = sampled_in(lower, upper, rng, 60)
    flat = points.reshape(-1, 3)
    values = function(flat[:, :2], flat[:, 2:]).reshape(64, 60)
    enclosed = evaluate(program, lower, upper, derivatives=True)
    assert ((values >= enclosed.lower) & (values <= enclosed.upper)).all()
    own = verification.trace(function, 2, 1, 1)
    found = interpreter.enclose(own, lower, upper, slopes=True)
    assert ((found.lower[0] <= values.T) & (found.upper[0] >= values.T)).all()
    leaves = expand_boxes(program, lower, upper)
    model = leaves.value[:, None] + ((points - leaves.middle[:, None]) * leaves.slope[:, None]).sum(axis=2)
    rounding = 1e-12 * (1 + np.abs(values))
    assert (np.abs(values - model) <= leaves.remainder[:, None] + rounding).all()
    given = {"middle": leaves.middle, "slope": leaves.slope, "value": leaves.value}
    assert (needed_remainder(program, lower, upper, **given) <= leaves.remainder * (1 + 1e-9) + 1e-300).all()
    # What no way along is without a jump has no slope: a finite one must hold between any two points.
    change = values[:, :, None] - values[:, None]
    ways = points[:, :, None] - points[:, None]
    slopes = enclosed.jacobian_lower[:, 0], enclosed.jacobian_upper[:, 0]
    bounded = np.isfinite(slopes[0]).all(axis=1)
    most = np.maximum(ways * slopes[0][:, None, None], ways * slopes[1][:, None, None]).sum(axis=3)
    assert (change[bounded] <= most[bounded] + 1e-9 * (1 + np.abs(change[bounded]))).all()


# --- what float64 decides, and not exact arithmetic


def test_huge_quotients_are_numpys():
    def function(s, u):
        return s // u

    program = verification.trace(function, 1, 1, 1)
    pairs = np.array([[6135197176964719.0, 0.7], [1.8359829466419664e16, 7.0], [1.0, 0.1]])
    found = interpreter.enclose(program, pairs, pairs, slopes=False)
    values = pairs[:, 0] // pairs[:, 1]
    assert ((found.lower[0] <= values) & (values <= found.upper[0])).all()


def test_a_condition_is_decided_by_what_numpy_compares():
    """The sum is 0 in NumPy's order of adding, and exactly 1e-17."""

    def function(s, u):
        zero = np.zeros(len(s))
        total = np.sum(np.stack([-s[:, 0], zero, s[:, 0], u[:, 0], zero, zero, zero, zero], axis=1), axis=1)
        return np.where(total > 0, 1.0, 0.0)[:, None]

    program = verification.trace(function, 1, 1, 1)
    point = np.array([[1.0, 1e-17]])
    assert function(point[:, :1], point[:, 1:])[0, 0] == 0.0
    low, high = interpreter.exact_values(program, point)
    assert (low[0, 0], high[0, 0]) == (0.0, 1.0)


def test_what_fmod_leaves_has_the_sign_of_what_is_divided():
    """Over several periods as well: the verifier took it for either sign, and refused what had been proved."""
    from tether.verification.interpreter import enclose as enclose_again
    from tether.verification.tracing import trace as trace_again

    program = trace_again(lambda states, controls: np.fmod(states, 0.3), 1, 0, 1, counts=(2,))
    found = enclose_again(
        program, np.array([[0.1], [-0.9], [-0.1]]), np.array([[0.9], [0.0], [0.9]]), slopes=True
    )
    np.testing.assert_allclose(found.lower[0], [0.0, -0.3, -0.3], atol=1e-15)
    np.testing.assert_allclose(found.upper[0], [0.3, 0.0, 0.3], atol=1e-15)
