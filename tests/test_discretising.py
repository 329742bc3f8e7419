"""Rates of change as steps: against SciPy's and closed forms, and enclosed."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import tether
from tether.data import Array, make_schema
from tether.programs import enclose, trace
from tether.trusted import check_trusted
from tether.verification.tracing import trace as trace_again

INPUTS = np.random.default_rng(0).uniform(-1, 1, (40, 3))


def pendulum(states: Array, controls: Array) -> Array:
    angle, speed = states[:, 0], states[:, 1]
    return np.stack([speed, controls[:, 0] - 9.81 * np.sin(angle) - 0.1 * speed], axis=1)


def values(trusted: tether.TrustedModel) -> Array:
    return np.asarray(trusted.function(INPUTS[:, :2], INPUTS[:, 2:]))


def test_many_substeps_are_the_solution() -> None:
    found = values(tether.discretise(pendulum, 0.3, substeps=50))
    for row, after in zip(INPUTS, found, strict=True):
        solved = solve_ivp(
            lambda t, x, u=row[2:]: pendulum(x[None], u[None])[0], (0, 0.3), row[:2], rtol=1e-10, atol=1e-12
        )
        np.testing.assert_allclose(after, solved.y[:, -1], atol=1e-7)


@pytest.mark.parametrize(("method", "order"), [("euler", 1), ("semi-implicit", 1), ("rk4", 4)])
def test_each_method_has_its_order(method, order: int) -> None:
    exact = values(tether.discretise(pendulum, 0.2, substeps=400))
    errors = [
        np.abs(values(tether.discretise(pendulum, 0.2, method=method, substeps=n)) - exact).max()
        for n in (4, 8)
    ]
    assert 2 ** (order - 0.2) < errors[0] / errors[1] < 2 ** (order + 0.7)


def test_semi_implicit_moves_by_the_new_velocity() -> None:
    found = values(tether.discretise(pendulum, 0.1, method="semi-implicit"))
    speed = INPUTS[:, 1] + 0.1 * pendulum(INPUTS[:, :2], INPUTS[:, 2:])[:, 1]
    np.testing.assert_allclose(found, np.stack([INPUTS[:, 0] + 0.1 * speed, speed], axis=1), rtol=1e-14)


def test_substeps_do_not_widen_what_is_enclosed() -> None:
    lower, upper = [[0.4, 0.1, -0.2]], [[0.6, 0.5, 0.2]]
    one, many = (
        enclose(trace(tether.discretise(pendulum, 0.05, substeps=n).function, states=2, controls=1, batches=False),
                lower, upper, states=2)
        for n in (1, 10)
    )  # fmt: skip
    width = [(e.jacobian_upper - e.jacobian_lower)[0] for e in (one, many)]
    np.testing.assert_allclose(width[1], width[0], rtol=0.02, atol=1e-6)


def test_both_sides_follow_it() -> None:
    function = tether.discretise(pendulum, 0.05, method="semi-implicit", substeps=2).function
    found = enclose(function, [[0.4, 0.1, -0.2]], [[0.6, 0.5, 0.2]], states=2)
    assert (found.lower < found.upper).all()
    assert trace_again(function, states=2, controls=1, outputs=2) is not None


def test_a_rate_in_another_form() -> None:
    sympy = pytest.importorskip("sympy")
    angle, speed, torque = sympy.symbols("angle speed torque")
    rate = torque - sympy.Float(9.81) * sympy.sin(angle) - sympy.Float(0.1) * speed
    pair = sympy.Matrix([angle, speed, torque]), sympy.Matrix([speed, rate])
    trusted = tether.discretise(pair, 0.05, substeps=3)
    check_trusted(trusted, INPUTS, make_schema(["angle", "speed"], ["torque"]))
    np.testing.assert_allclose(
        values(trusted), values(tether.discretise(pendulum, 0.05, substeps=3)), rtol=1e-13
    )
    assert trusted.translation is not None


def scaled(gain: float):
    def rate(states, controls):
        return gain * states

    return rate


def test_rates_that_look_alike_stay_apart() -> None:
    one, two = (tether.discretise(scaled(gain), 0.1, method="euler") for gain in (1.0, 2.0))
    np.testing.assert_allclose(values(one), 1.1 * INPUTS[:, :2])
    np.testing.assert_allclose(values(two), 1.2 * INPUTS[:, :2])


def test_the_step_and_the_rate_are_in_the_digest() -> None:
    settings = [(pendulum, 0.1, 1), (pendulum, 0.1, 2), (pendulum, 0.2, 1), (scaled(1.0), 0.1, 1)]
    digests = {tether.discretise(f, h, substeps=n).source_digest for f, h, n in settings}
    assert len(digests) == 4 and None not in digests


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="`step` must be positive; got -1"):
        tether.discretise(pendulum, -1)
    with pytest.raises(ValueError, match="`substeps` must be at least 1"):
        tether.discretise(pendulum, 0.1, substeps=0)
    with pytest.raises(ValueError, match="`method` must be one of rk4, euler, semi-implicit; got 'rk5'"):
        tether.discretise(pendulum, 0.1, method="rk5")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="a column for each state"):
        values(tether.discretise(lambda x, u: x[:, :1], 0.1))
