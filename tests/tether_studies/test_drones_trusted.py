"""The trusted quadrotor: against Bullet without air, at hover, and over boxes."""

import numpy as np
import pytest

from tether.fitting import FitConfig, build_tether, prepare
from tether.programs import enclose
from tether.tethers import tether_over
from tether.trusted import check_trusted
from tether_studies.drones import crazyflie
from tether_studies.drones.attitude import quaternion_of
from tether_studies.drones.data import (
    DOMAIN,
    OUTPUTS,
    SCHEMA,
    Campaign,
    as_transitions,
    fly,
    hover_commands,
    hover_probes,
    hovering,
)
from tether_studies.drones.simulator import Air, Bodies, fly_commands
from tether_studies.drones.trusted import TRUSTED, quadrotor

STILL = Air(drag=False, ground_effect=False, downwash=False, damping=False)


def tumbling(rng: np.random.Generator, drones: int = 6) -> Bodies:
    positions = np.column_stack([2.0 * np.arange(drones), np.zeros(drones), np.full(drones, 5.0)])
    angles = rng.normal(size=(drones, 3)) * [0.3, 0.3, 2.0]
    return Bodies(
        positions, quaternion_of(angles), rng.normal(size=(drones, 3)), rng.normal(size=(drones, 3))
    )


def test_agrees_with_bullet_without_air(rng):
    commands = crazyflie.HOVER_SPEED * (1 + 0.05 * rng.normal(size=(4, 6, 4)))
    data = as_transitions([fly_commands(tumbling(rng), commands, STILL)])
    error = SCHEMA.distance(quadrotor(data.states, data.controls), data.next_states)
    limits = dict(x=1e-8, roll=3e-6, velocity_x=1e-6, rate_roll=1e-12)
    for name, limit in limits.items():
        first = OUTPUTS.index(name)
        assert error[:, first : first + 3].max() < limit, name
    # Not a comparison of nothing with nothing: the drones turned and accelerated.
    moved = np.abs(data.target("increment"))
    assert moved[:, 3].max() > 0.02 and moved[:, 9].max() > 0.1


def test_hover_stays_hover_to_the_last_digit(rng):
    states = hovering(rng.uniform(-1, 1, (100, 3)), rng.uniform(-np.pi, np.pi, 100))
    outputs = quadrotor(states, hover_commands(100))
    np.testing.assert_array_equal(outputs, states[:, list(SCHEMA.advances)])


def test_does_not_know_the_air():
    data = fly(Campaign(flights=1, steps=24), seed=1)
    error = np.sqrt(
        (SCHEMA.distance(quadrotor(data.states, data.controls), data.next_states) ** 2).mean(axis=0)
    )
    velocity = error[OUTPUTS.index("velocity_x")]
    assert 2e-4 < velocity < 5e-3
    assert error[OUTPUTS.index("x")] < 1e-4 and error[OUTPUTS.index("roll")] < 1e-4


def test_keeps_the_contract_of_a_trusted_model():
    data = fly(Campaign(flights=1, steps=6))
    check_trusted(TRUSTED, data.inputs, SCHEMA)


def test_enclosures_contain_the_model(rng):
    data = fly(Campaign(flights=1, steps=12))
    middle = data.inputs[::12]
    reach = 0.5 * data.inputs.std(axis=0)
    box = enclose(quadrotor, middle - reach, middle + reach, states=20)
    points = middle + rng.uniform(-1, 1, (200, *middle.shape)) * reach
    values = np.stack([quadrotor(p[:, :20], p[:, 20:]) for p in points])
    assert ((values >= box.lower) & (values <= box.upper)).all()
    at_middle = quadrotor(middle[:, :20], middle[:, 20:])
    slopes = np.maximum(np.abs(box.jacobian_lower), np.abs(box.jacobian_upper))
    bound = np.einsum("kpd,d->kp", slopes, reach)
    assert (np.abs(values - at_middle) <= bound * (1 + 1e-9)).all()


@pytest.fixture(scope="module")
def tether():
    data = fly(Campaign(flights=6, steps=36), seed=2)
    config = FitConfig(
        memories=150,
        leaves=1000,
        bounds="affine",
        evidence="proved",
        domain=DOMAIN,
        validation=0.17,
        test=0.17,
    )
    probes = hover_probes(data, count=600, seed=2)
    problem = prepare(data, trusted=TRUSTED, probes=probes, config=config)
    return problem, build_tether(problem, config)


def test_tether_is_proved_and_close_at_hover(tether):
    problem, built = tether
    assert built.bounds.evidence.name == "proved"
    inputs = problem.probes[2].inputs
    location = built.cells.locate(inputs)
    assert location.in_domain.mean() > 0.95
    limits = tether_over(built.cells, built.bounds).rows(inputs)
    trusted = problem.probes[2].trusted - SCHEMA.base(inputs[:, :20])
    # At hover no room is left, and the first-order model is M but for rounding.
    np.testing.assert_array_equal(limits.lower, limits.upper)
    assert np.abs(limits.anchor - trusted).max() < 1e-14
