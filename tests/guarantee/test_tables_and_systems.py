"""Tables, linear systems, pieces and angles over boxes, against rational arithmetic: nothing may escape.

Both interpreters, that of `fit` and that of `verify`: NumPy's own value and the exact one lie in the range, they
are no farther apart than the stated rounding, and exact differences lie in the slopes times the step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import flint
import numpy as np
import pytest
from flint import arb, fmpq, fmpq_mat

import tether
from tether.programs import evaluate, trace
from tether.verification import interpreter
from tether.verification import tracing as verification

RNG = np.random.default_rng(5)
POINTS = np.cumsum(RNG.uniform(0.05, 1.3, 9)) - 4.0
VALUES = RNG.normal(size=9) * 10.0 ** RNG.uniform(-3, 3, 9)
CONSTANT = RNG.normal(size=(6, 6)) + 6 * np.eye(6)
FACTOR = RNG.normal(size=(6, 6))
RISE = np.array([0.3, -1.1, 0.7])


def matrices(s, size):
    return (
        CONSTANT[:size, :size]
        + FACTOR[:size, :size] * s[:, 0, None, None]
        + RISE[0] * np.eye(size) * s[:, 1, None, None]
    )


def table(s, u):
    return np.stack(
        [np.interp(s[:, 0], POINTS, VALUES), np.interp(u[:, 0] + s[:, 1], POINTS, VALUES)], axis=1
    )


def ends(s, u):
    return np.interp(s, POINTS, VALUES, left=-7.0, right=3.5)


def weighed(s, u):
    rows = np.stack([np.interp(s[:, 1], POINTS[:4], row) for row in FACTOR[:5, :4]], axis=1)
    weights = np.stack([np.interp(s[:, 0], POINTS[:5], row) for row in np.eye(5)], axis=1)
    return np.sum(rows * weights, axis=1, keepdims=True)


def solve_2(s, u):
    return np.linalg.solve(matrices(s, 2), np.stack([u[:, 0], s[:, 1]], axis=1)[:, :, None])[:, :, 0]


def solve_3(s, u):
    return np.linalg.solve(matrices(s, 3), np.stack([u[:, 0], s[:, 1], 0.3 * s[:, 0]], axis=1)[:, :, None])[
        :, :, 0
    ]


def solve_6(s, u):
    return np.linalg.solve(matrices(s, 6), (u[:, :1] * np.arange(1.0, 7.0))[:, :, None])[:, ::3, 0]


def inverse(s, u):
    return np.linalg.inv(matrices(s, 3))[:, 1] * u


def determinant(s, u):
    return np.stack([np.linalg.det(matrices(s, 2)), np.linalg.det(matrices(s, 3))], axis=1)


def pieces(s, u):
    found = np.piecewise(
        s[:, 0],
        [s[:, 0] < -0.5, (s[:, 0] >= -0.5) & (s[:, 0] < 1.0)],
        [lambda v: 2.0 * v, 1.5, lambda v: v * v],
    )
    return np.stack([found + u[:, 0]], axis=1)


def looked_up(s, u):
    place = np.clip(np.searchsorted(POINTS[:4], s[:, 0]) - 1, 0, 2)
    share = (s[:, 0] - POINTS[place]) / (POINTS[place + 1] - POINTS[place])
    return np.stack([(1.0 - share) * VALUES[place] + share * VALUES[place + 1]], axis=1)


def angle(s, u):
    return np.stack([np.arctan2(0.3 * s[:, 0], s[:, 1] - 0.1) + u[:, 0]], axis=1)


# Exactly ------------------------------------------------------------------------------------------------


def rational(x: float) -> fmpq:
    return fmpq(*float(x).as_integer_ratio())


@cache
def rationals(numbers: bytes) -> list[fmpq]:
    return [rational(x) for x in np.frombuffer(numbers)]


def exact_table(x: fmpq, points=POINTS, values=VALUES) -> fmpq:
    points, values = rationals(points.tobytes()), rationals(values.tobytes())
    if x <= points[0] or x >= points[-1]:
        return values[0] if x <= points[0] else values[-1]
    k = max(j for j, p in enumerate(points) if p <= x)
    return values[k] + (values[k + 1] - values[k]) * (x - points[k]) / (points[k + 1] - points[k])


def exact_matrix(s: list[fmpq], size: int) -> fmpq_mat:
    constant, factor = rationals(CONSTANT.tobytes()), rationals(FACTOR.tobytes())
    places = [(i, j, 6 * i + j) for i in range(size) for j in range(size)]
    rise = rational(RISE[0]) * s[1]
    return fmpq_mat(
        size, size, [constant[k] + factor[k] * s[0] + (rise if i == j else 0) for i, j, k in places]
    )


def exact_solution(s: list[fmpq], right: list[fmpq]) -> list[fmpq]:
    found = exact_matrix(s, len(right)).solve(fmpq_mat(len(right), 1, right))
    return [found[k, 0] for k in range(len(right))]


def exact_ends(x: fmpq) -> fmpq:
    if x < rational(POINTS[0]):
        return fmpq(-7)
    return fmpq(7, 2) if x > rational(POINTS[-1]) else exact_table(x)


def exact_weighed(s: list[fmpq]) -> fmpq:
    rows = [exact_table(s[1], POINTS[:4], row) for row in FACTOR[:5, :4]]
    return sum((rows[k] * exact_table(s[0], POINTS[:5], row) for k, row in enumerate(np.eye(5))), fmpq(0))


def exact_pieces(s: list[fmpq]) -> fmpq:
    x = s[0]
    return (2 * x if x < fmpq(-1, 2) else fmpq(3, 2) if x < 1 else x * x) + s[2]


def exact_looked_up(s: list[fmpq]) -> fmpq:
    points, values = [rational(p) for p in POINTS[:4]], [rational(v) for v in VALUES[:4]]
    k = min(max(sum(p < s[0] for p in points) - 1, 0), 2)
    share = (s[0] - points[k]) / (points[k + 1] - points[k])
    return (1 - share) * values[k] + share * values[k + 1]


def exact_angle(s: list[fmpq]) -> arb:
    return arb.atan2(arb(rational(0.3) * s[0]), arb(s[1] - rational(0.1))) + arb(s[2])


@dataclass(frozen=True)
class Case:
    """A model and what it is exactly; `jumps`: the two may be on either side of a jump."""

    model: Callable[..., Any]
    exact: Callable[[list[fmpq]], list[Any]]
    jumps: bool = False
    outputs: int = 2
    boxes: int = 200


CASES = {
    "table": Case(table, lambda s: [exact_table(s[0]), exact_table(s[2] + s[1])]),
    "ends": Case(ends, lambda s: [exact_ends(x) for x in s[:2]], jumps=True),
    "weighed": Case(weighed, lambda s: [exact_weighed(s)], outputs=1),
    "solve 2": Case(solve_2, lambda s: exact_solution(s, [s[2], s[1]])),
    "solve 3": Case(solve_3, lambda s: exact_solution(s, [s[2], s[1], rational(0.3) * s[0]]), outputs=3),
    "solve 6": Case(solve_6, lambda s: exact_solution(s, [s[2] * k for k in range(1, 7)])[::3], boxes=40),
    "inverse": Case(inverse, lambda s: [exact_matrix(s, 3).inv()[1, k] * s[2] for k in range(3)], outputs=3),
    "determinant": Case(determinant, lambda s: [exact_matrix(s, 2).det(), exact_matrix(s, 3).det()]),
    "pieces": Case(pieces, lambda s: [exact_pieces(s)], jumps=True, outputs=1),
    "looked up": Case(looked_up, lambda s: [exact_looked_up(s)], jumps=True, outputs=1),
    "angle": Case(angle, lambda s: [exact_angle(s)], jumps=True, outputs=1),
}


# Looking ------------------------------------------------------------------------------------------------


def make_boxes(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Boxes of all sizes, some with a corner on a point of the table or on the cut."""
    place = rng.uniform(-4.0, 4.0, (count, 3))
    special = rng.choice([*POINTS, 0.0, -0.5, 1.0, 0.1], place.shape)
    place = np.where(rng.random(place.shape) < 0.3, special, place)
    reach = 10.0 ** rng.uniform(-9, 0.5, (count, 1)) * rng.uniform(0, 1, place.shape)
    reach[rng.random(place.shape) < 0.1] = 0.0
    return place - reach * (rng.random(place.shape) < 0.7), place + reach


def make_points(rng: np.random.Generator, low: np.ndarray, high: np.ndarray, count: int) -> np.ndarray:
    """(K, count, 3) points of the boxes, many at their corners."""
    share = rng.random((len(low), count, 3))
    share = np.where(rng.random(share.shape) < 0.25, np.round(share), share)
    return np.clip(low[:, None] * (1 - share) + high[:, None] * share, low[:, None], high[:, None])


def enclosed(case: Case, low: np.ndarray, high: np.ndarray) -> list[tuple[np.ndarray, ...]]:
    """Lower, upper, rounding (K, P) and slopes (2, K, P, 3), of `fit` and of `verify`."""
    found = evaluate(trace(case.model, states=2, controls=1), low, high, derivatives=True)
    one = found.lower, found.upper, found.rounding, np.stack([found.jacobian_lower, found.jacobian_upper])
    other = interpreter.enclose(verification.trace(case.model, 2, 1, case.outputs), low, high, slopes=True)
    slopes = np.zeros((2, len(low), case.outputs, 3))
    for output, parts in enumerate(other.slopes):
        for column, ends in parts.items():
            slopes[0, :, output, column], slopes[1, :, output, column] = ends
    return [one, (other.lower.T, other.upper.T, other.error.T, slopes)]


def escapes(case: Case, seed: int, boxes: int, points: int) -> tuple[int, int, list[str]]:
    """How many points were looked at, in how many boxes something is known, and what escaped."""
    rng = np.random.default_rng(seed)
    flint.ctx.prec = 200
    low, high = make_boxes(rng, boxes)
    at = make_points(rng, low, high, points)
    rows = at.reshape(-1, 3)
    with np.errstate(all="ignore"):
        computed = case.model(rows[:, :2], rows[:, 2:]).reshape(boxes, points, -1)
    exact = [[case.exact([rational(x) for x in point]) for point in many] for many in at.tolist()]
    wrong, known = [], 0
    for who, parts in zip(("fit", "verify"), enclosed(case, low, high), strict=True):
        for row, output in np.argwhere(np.isfinite(parts[0]) & np.isfinite(parts[1])):
            known += 1
            values = [exact[row][k][output] for k in range(points)]
            text = _escape(
                case,
                [part[row, output] for part in parts[:3]],
                parts[3][:, row, output],
                at[row],
                computed[row, :, output],
                values,
            )
            if text:
                wrong.append(f"{who}: output {output} over {low[row].tolist()}, {high[row].tolist()}: {text}")
    return boxes * points, known, wrong


def _escape(
    case: Case,
    bounds: list[float],
    slopes: np.ndarray,
    at: np.ndarray,
    computed: np.ndarray,
    exact: list[Any],
) -> str:
    lower, upper, rounding = bounds
    ends = rational(lower), rational(upper)
    if not ((lower <= computed) & (computed <= upper)).all():
        return f"NumPy's value outside [{lower!r}, {upper!r}]"
    number = rational if type(exact[0]) is fmpq else lambda x: arb(rational(x))
    for k, value in enumerate(exact):
        if value < ends[0] or value > ends[1]:
            return f"{float(value)!r} outside [{lower!r}, {upper!r}]"
        off = abs(number(computed[k]) - value)
        if case.jumps and off > fmpq(1, 10**6):
            continue  # on the other side
        if np.isfinite(rounding) and off > number(rounding):
            return f"rounding {float(off):g} above {rounding:g}"
    if np.isfinite(slopes).all():
        for k in range(1, len(exact)):
            step = [(rational(b) - rational(a)) for a, b in zip(at[k - 1], at[k], strict=True)]
            ways = [
                sorted((rational(slopes[0, d]) * step[d], rational(slopes[1, d]) * step[d])) for d in range(3)
            ]
            change = exact[k] - exact[k - 1]
            if change < sum(way[0] for way in ways) or change > sum(way[1] for way in ways):
                return f"change by {float(change)!r} is not in the slopes {slopes.tolist()}"
    return ""


@pytest.mark.parametrize("name", CASES)
def test_nothing_escapes(name):
    count, known, wrong = escapes(CASES[name], 1, boxes=CASES[name].boxes, points=50)
    assert not wrong, wrong[:3]
    assert known > count / 100  # in two interpreters, of each output


def test_a_narrower_table_is_caught(monkeypatch):
    shifted = Case(table, lambda s: [exact_table(s[0]) + fmpq(1, 10**9), exact_table(s[2] + s[1])])
    assert escapes(shifted, 2, boxes=20, points=10)[2]


def test_enclosures_are_tight():
    low, high = np.full((1, 3), 0.49), np.full((1, 3), 0.51)
    for name in ("table", "solve 2", "solve 3", "solve 6", "inverse"):
        for lower, upper, rounding, slopes in enclosed(CASES[name], low, high):
            assert (upper - lower < 50 * 0.02 * np.abs(slopes).max()).all(), name
            assert (rounding < 1e-10).all() and np.isfinite(slopes).all(), name
            assert (slopes[1] - slopes[0] < 0.2 * np.abs(slopes).max() + 1e-12).all(), name


def test_a_singular_matrix_is_not_known():
    def singular(s, u):
        one = np.ones(len(s))
        return np.linalg.inv(np.stack([np.stack([s[:, 0], one], 1), np.stack([one, s[:, 0]], 1)], 1))[:, 0]

    for low, high, known in ((0.9, 1.1, False), (1.0, 1.0, False), (1.5, 1.6, True)):
        box = np.full((1, 3), low), np.full((1, 3), high)
        for lower, *_ in enclosed(Case(singular, lambda s: []), *box):
            assert np.isfinite(lower).all() == known


def entries_solved(s, u):
    return np.linalg.solve(s[:, :4].reshape(-1, 2, 2), s[:, 4:].reshape(-1, 2, 1))[:, :, 0]


def entries_determined(s, u):
    return np.stack([np.linalg.det(s[:, :4].reshape(-1, 2, 2)) + 0 * s[:, 0], 0 * s[:, 1]], axis=1)


def extremes(rng: np.random.Generator, count: int) -> np.ndarray:
    """(K, 6) matrices and right sides of all sizes down to the last bits: each column, and the right side."""
    size = rng.choice([-322.0, -312, -303, -200, -100, 0, 100, 200, 300], (count, 3)) + rng.uniform(
        0, 4, (count, 3)
    )
    with np.errstate(all="ignore"):
        return rng.normal(size=(count, 6)) * 10.0 ** size[:, [0, 1, 0, 1, 2, 2]]


@pytest.mark.parametrize("model", [entries_solved, entries_determined])
def test_nothing_escapes_where_numbers_underflow_or_overflow(model):
    rows = extremes(np.random.default_rng(7), 1000)
    rows = rows[np.isfinite(rows).all(axis=1)]
    with np.errstate(all="ignore"):
        computed = []
        for row in rows:  # one that is singular to LAPACK says so for all
            try:
                computed.append(model(row[None], np.empty((1, 0)))[0])
            except np.linalg.LinAlgError:
                computed.append(np.full(2, np.nan))
    found = evaluate(trace(model, states=6, controls=0), rows, rows, derivatives=True)
    other = interpreter.enclose(verification.trace(model, 6, 0, 2), rows, rows, slopes=True)
    known = 0
    for lower, upper, rounding in (
        (found.lower, found.upper, found.rounding),
        (other.lower.T, other.upper.T, other.error.T),
    ):
        for k in np.flatnonzero(np.isfinite(lower).all(axis=1) & np.isfinite(upper).all(axis=1)):
            known += 1
            a, b, c, d, e, f = (rational(x) for x in rows[k])
            whole = a * d - b * c
            exact = (
                [(e * d - b * f) / whole, (a * f - e * c) / whole]
                if model is entries_solved
                else [whole, fmpq(0)]
            )
            for j in range(2):
                where = f"{rows[k].tolist()}: {computed[k][j]!r} and {float(exact[j])!r}"
                assert lower[k, j] <= computed[k][j] <= upper[k, j], where
                assert rational(lower[k, j]) <= exact[j] <= rational(upper[k, j]), where
                if np.isfinite(rounding[k, j]):
                    assert abs(rational(computed[k][j]) - exact[j]) <= rational(rounding[k, j]), where
    assert known > 100


def test_jumps_have_no_slope_and_both_sides():
    low, high = np.array([[-0.1, -2.0, 0.0]]), np.array([[0.1, -1.0, 0.0]])
    for lower, upper, rounding, slopes in enclosed(CASES["angle"], low, high):
        assert lower[0, 0] <= -np.pi and upper[0, 0] >= np.pi and np.isnan(slopes[:, 0, 0, :2]).all()
        assert (slopes[:, 0, 0, 2] == 1).all() and rounding[0, 0] < 1e-14
    for lower, upper, *_ in enclosed(CASES["pieces"], np.array([[-0.6, 0, 0]]), np.array([[-0.4, 0, 0]])):
        np.testing.assert_allclose([lower[0, 0], upper[0, 0]], [-1.2, 1.5])  # no third piece, no 0 of none


def arm(s, u):
    """A mass matrix, a drag by table, an angle and a friction in pieces."""
    x, v = s.T
    mass = np.stack(
        [np.stack([2.0 + np.cos(x), 0.3 * np.cos(x)], 1), np.stack([0.3 * np.cos(x), 1.0 + 0.0 * x], 1)], 1
    )
    drag = np.interp(v, [-1.0, 0.0, 0.4, 1.0], [-0.5, 0.0, 0.1, 0.6])
    forces = np.stack([u[:, 0] - drag, 0.2 * np.arctan2(v - 0.2, x - 2.0)], axis=1)
    pull = np.linalg.solve(mass, forces[:, :, None])[:, :, 0]
    friction = np.piecewise(v, [v < -0.5, v >= -0.5], [lambda w: 0.02 * w, 0.0])
    return np.stack([x + 0.1 * v, v + 0.1 * (pull[:, 0] + pull[:, 1] - friction)], axis=1)


def test_fitted_certified_verified(tmp_path):
    rng = np.random.default_rng(0)
    states, controls = rng.uniform(-1, 1, (300, 2)), rng.uniform(-2, 2, (300, 1))
    after = arm(states, controls) + rng.normal(0, 0.01, (300, 2))
    schema = tether.make_schema(["x", "v"], ["u"])
    data = tether.Transitions.from_arrays(
        states, controls, after, episodes=np.arange(300) // 30, schema=schema
    )
    small = {"memories": 10, "hidden": (4,), "training": tether.TrainingConfig(steps=5), "leaves": 600}
    model = tether.fit(data, trusted=arm, evidence="proved", **small)
    assert tether.certify(model, arm).evidence == "proved"
    tree = model.bounds.tree
    inputs = rng.uniform(tree.lower, tree.upper, (100_000, 3))
    found = model.predict(inputs[:, :2], inputs[:, 2:], details=True)
    assert found.in_domain.all()
    off = np.abs(found.next_states - arm(inputs[:, :2], inputs[:, 2:]))
    assert (off <= found.delta).all()
    tether.save(model, tmp_path / "model.safetensors")
    assert tether.verify(tmp_path / "model.safetensors", arm).verified
