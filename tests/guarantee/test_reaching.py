"""M's own reachable sets, compiled as a whole: every rollout is inside, and a share less is left."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tether.claims.tubes import Reaching
from tether.data import make_schema

SCHEMA = make_schema(["x", "v"], ["u"])


def pendulum(states, controls):
    x, v, u = states[:, 0], states[:, 1], controls[:, 0]
    return np.stack([x + 0.1 * v, v + 0.1 * (2.0 * np.sin(x) + u) - 0.05 * v * v], axis=1)


def kinked(states, controls):
    x, v, u = states[:, 0], states[:, 1], controls[:, 0]
    push = np.where(np.abs(x) > 0.2, -np.sign(x), 3.0 * u)
    return np.stack([x + 0.1 * np.maximum(v, -0.1), v + 0.1 * push - 0.05 * np.abs(v)], axis=1)


def bumped(states, controls):
    x, v, u = states[:, 0], states[:, 1], controls[:, 0]
    bump = np.exp(-((x - 0.123456) ** 2) * 1e8)
    return np.stack([x + 0.02 * v, v + 0.2 * bump + 0.01 * u], axis=1)


def wound(states, controls):
    x, v, u = states[:, 0], states[:, 1], controls[:, 0]
    return np.stack([x + 2.0 + 0.1 * np.arctan2(np.sin(x), np.cos(x)), 0.9 * v + np.cos(x) + u], axis=1)


def steep(states, controls):
    x, v, u = states[:, 0], states[:, 1], controls[:, 0]
    return np.stack([0.9 * x + 0.01 / (v - 1.0), 0.99 * v + 0.001 * u * x / v], axis=1)


START = np.array([0.1, 0.2]), np.array([0.15, 0.3])


def rollouts(function, start, applied, steps, rng, count=4000):
    """(count, T + 1, 2) from corners and inside, controls mostly at an end."""
    share = rng.random((count, 2))
    share[: count // 2] = np.round(share[: count // 2])
    states, paths = np.clip(start[0] + share * (start[1] - start[0]), *start), []
    held = rng.choice([-1.0, 1.0], (count, 1)) * applied
    for _ in range(steps):
        paths.append(states)
        held = np.where(rng.random(held.shape) < 0.1, -held, held)
        with np.errstate(all="ignore"):
            states = function(states, held * np.where(rng.random(held.shape) < 0.9, 1.0, rng.random()))
    return np.stack([*paths, states], axis=1)


@pytest.mark.parametrize("cuts", [0, 4])
@pytest.mark.parametrize("function", [pendulum, kinked, bumped, wound, steep])
def test_every_rollout_is_inside(function, cuts):
    rng = np.random.default_rng(0)
    found = Reaching(function, SCHEMA, cuts=cuts)(START, ([-0.2], [0.2]), steps=25)
    last = 25 if found.complete else int(found.ended[0])
    assert last > 3
    paths = rollouts(function, START, 0.2, last, rng)
    assert ((paths >= found.lower[: last + 1]) & (paths <= found.upper[: last + 1])).all()
    assert np.isnan(found.lower[last + 1 :]).all()


def test_a_share_less_is_left():
    rng = np.random.default_rng(0)
    found = Reaching(pendulum, SCHEMA)(START, ([-0.2], [0.2]), steps=6)
    paths = rollouts(pendulum, START, 0.2, 6, rng, 20_000)
    middle, half = 0.5 * (found.lower + found.upper), 0.5 * (found.upper - found.lower)
    reach = (np.abs(paths - middle) / half).max(axis=(0, 1))
    assert (reach > 0.95).all() and (reach <= 1.0).all()


@pytest.mark.parametrize("generators", [4, 256])
def test_linear_systems_are_met_exactly(generators):
    # The exact hull after T steps is in it, and with enough generators it is hardly wider.
    gain, push = [[0.98, 0.2], [-0.15, 0.97]], [0.01, 0.05]

    def linear(states, controls):
        x, v, u = states[:, 0], states[:, 1], controls[:, 0]
        return np.stack([0.98 * x + 0.2 * v + 0.01 * u, -0.15 * x + 0.97 * v + 0.05 * u], axis=1)

    found = Reaching(linear, SCHEMA, generators=generators)(START, ([-0.2], [0.3]), steps=15)
    exact = [[Fraction(value) for value in row] for row in gain]
    applied = [Fraction(value) for value in push]
    low, high = (([Fraction(value) for value in end]) for end in START)
    center = [(a + b) / 2 for a, b in zip(low, high, strict=True)]
    vectors = [[(high[0] - low[0]) / 2, Fraction(0)], [Fraction(0), (high[1] - low[1]) / 2]]
    ends = Fraction(-0.2), Fraction(0.3)
    for step in range(1, 16):
        vectors = [*vectors_after(exact, vectors), [b * (ends[1] - ends[0]) / 2 for b in applied]]
        center = vectors_after(exact, [center])[0]
        center = [c + b * (ends[0] + ends[1]) / 2 for c, b in zip(center, applied, strict=True)]
        for k in range(2):
            half = sum(abs(vector[k]) for vector in vectors)
            assert Fraction(found.lower[step, k]) <= center[k] - half
            assert Fraction(found.upper[step, k]) >= center[k] + half
            if generators > 100:
                assert found.upper[step, k] - found.lower[step, k] <= float(2 * half) * (1 + 1e-11)


def vectors_after(matrix, vectors):
    return [[sum(a * v for a, v in zip(row, vector, strict=True)) for row in matrix] for vector in vectors]


@pytest.mark.parametrize("target", ["next_state", "increment"])
def test_what_stays_near_m_is_inside(target):
    delta = np.array([0.002, 0.001])
    found = Reaching(pendulum, SCHEMA, half_width=delta, target=target)(START, ([-0.2], [0.2]), steps=12)
    rng = np.random.default_rng(0)
    side = rng.choice([-1.0, 1.0], (3000, 3))
    path = [np.where(rng.random((3000, 2)) < 0.5, *START)]
    for _ in range(12):
        side = np.where(rng.random(side.shape) < 0.1, -side, side)
        path.append(pendulum(path[-1], 0.2 * side[:, 2:]) + 0.999999 * delta * side[:, :2])
    paths = np.stack(path, axis=1)
    assert ((paths >= found.lower) & (paths <= found.upper)).all()
    assert (np.ptp(paths[:, -1], axis=0) > 0.75 * (found.upper - found.lower)[-1]).all()


def test_outputs_in_another_order_are_the_same():
    swapped = make_schema(["x", "v"], ["u"], ["v", "x"])
    one = Reaching(pendulum, SCHEMA)(START, ([-0.2], [0.2]), steps=8)
    other = Reaching(lambda s, c: pendulum(s, c)[:, ::-1], swapped)(START, ([-0.2], [0.2]), steps=8)
    assert np.array_equal(one.upper, other.upper)


def test_rows_are_as_one_each():
    rng = np.random.default_rng(0)
    low = rng.uniform(-0.2, 0.2, (40, 2))
    controls = rng.uniform(-0.1, 0.1, (40, 5, 1))
    reaching = Reaching(pendulum, SCHEMA)
    many = reaching((low, low + 0.05), controls)
    assert many.lower.shape == (40, 6, 2) and many.complete
    for k in range(0, 40, 7):
        one = reaching((low[k], low[k] + 0.05), controls[k])
        assert np.array_equal(one.lower, many.lower[k]) and np.array_equal(one.upper, many.upper[k])


def test_it_ends_where_the_box_does():
    box = np.array([-1.0, -1.0, -0.5]), np.array([0.4, 1.0, 0.5])
    found = Reaching(pendulum, SCHEMA, box=box)(START, ([-0.2], [0.2]), steps=40)
    assert not found.complete and 0 < found.ended[0] < 40
    assert "'x' may be between" in found.reasons[0] and "ends at -1 and 0.4" in found.reasons[0]
    last = int(found.ended[0])
    assert np.isfinite(found.upper[last]).all() and np.isnan(found.upper[last + 1 :]).all()
    beyond = Reaching(pendulum, SCHEMA, box=box)(START, [[0.1], [0.7], [0.1]])
    assert beyond.ended[0] == 1
    assert beyond.reasons[0] == "'u' may be between 0.7 and 0.7, and the operating box ends at -0.5 and 0.5"


def test_poles_and_overflows_end_it():
    def pole(states, controls):
        x, v = states[:, 0], states[:, 1]
        return np.stack([1.0 / x, v], axis=1)

    def growing(states, controls):
        x, v = states[:, 0], states[:, 1]
        return np.stack([x * x * x, v], axis=1)

    around = (np.array([-0.1, 0.0]), np.array([0.1, 0.0]))
    lost = Reaching(pole, SCHEMA)(around, [0.0], steps=3)
    assert lost.ended[0] == 0 and lost.reasons[0] == "the trusted model has no bound over the set"
    beside = Reaching(pole, SCHEMA)((np.array([5e-324, 0.0]), np.array([0.1, 0.0])), [0.0], steps=3)
    assert beside.ended[0] in (0, 1)
    huge = Reaching(growing, SCHEMA)((np.array([1e100, 0.0]), np.array([2e100, 0.0])), [0.0], steps=9)
    assert 0 <= huge.ended[0] < 3
    for found in (lost, beside, huge):
        assert np.isnan(found.upper[found.ended[0] + 1 :]).all()


def test_a_point_without_doubt_stays_a_point():
    def still(states, controls):
        return states + 0.0 * controls

    found = Reaching(still, SCHEMA)([0.3, 0.7], [0.0], steps=50)
    assert (found.upper - found.lower).max() < 1e-11


def test_what_cannot_be_done_is_said():
    with pytest.raises(ValueError, match="`schema` must have no angles"):
        Reaching(pendulum, make_schema(["x", "v"], ["u"], angles=["x"]))
    reaching = Reaching(pendulum, SCHEMA)
    with pytest.raises(TypeError, match="`controls` must be numbers; got a policy"):
        reaching(START, lambda states: states[:, :1], steps=3)
    with pytest.raises(ValueError, match="`controls` must be for 1 or 1 starts"):
        reaching(START, np.zeros((2, 3, 1)))
