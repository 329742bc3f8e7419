"""The simulator, real PyBullet throughout, against hand calculations from the published constants."""

import sys

import numpy as np
import pytest

from tether_studies.drones import aerodynamics, crazyflie
from tether_studies.drones.attitude import angles_of, into_body, quaternion_of, rotation_of
from tether_studies.drones.simulator import (
    STEP_SECONDS,
    Air,
    Bodies,
    CirclePlan,
    World,
    fly_circle,
    fly_commands,
    load_bullet,
    robot_description,
)

STILL = Air(drag=False, ground_effect=False, downwash=False, damping=False)
VERTICAL_SPEED = 12


def level(positions, velocities=None) -> Bodies:
    positions = np.array(positions, dtype=float)
    still = np.zeros_like(positions)
    velocities = still if velocities is None else np.array(velocities, dtype=float)
    return Bodies(positions, quaternion_of(still), velocities, still)


def hold(start: Bodies, air: Air, steps: int, share: float = 1.0):
    commands = np.full((steps, len(start.position), 4), share * crazyflie.HOVER_SPEED)
    return fly_commands(start, commands, air).states


def test_hover_thrust_is_the_weight():
    thrusts = [4 * crazyflie.THRUST * speed**2 for speed in (crazyflie.HOVER_SPEED, crazyflie.TOP_SPEED)]
    assert thrusts == pytest.approx([0.027 * 9.8, 2.25 * 0.027 * 9.8], rel=1e-12)
    assert abs(crazyflie.HOVER_SPEED - 14468.43) < 0.01
    states = hold(level([[0, 0, 1]]), STILL, 240)
    np.testing.assert_allclose(states[-1, 0, :16], states[0, 0, :16], atol=1e-10)


def test_a_drone_without_thrust_falls_as_semi_implicit_euler_says():
    states = hold(level([[0, 0, 10]]), STILL, 48, share=0.0)
    assert states[-1, 0, VERTICAL_SPEED] == pytest.approx(-9.8, rel=1e-9)
    assert states[-1, 0, 2] == pytest.approx(10 - 9.8 * 240 * 241 / 2 / 240**2, rel=1e-9)


def test_descent_ends_where_drag_carries_the_missing_thrust():
    share = 0.9
    missing = crazyflie.MASS * crazyflie.GRAVITY * (1 - share**2)
    slope = crazyflie.DRAG[2] * 4 * 2 * np.pi / 60 * share * crazyflie.HOVER_SPEED
    terminal = missing / slope
    assert 8.5 < terminal < 9.5
    air = Air(ground_effect=False, downwash=False, damping=False)
    for factor in (0.8, 1.0, 1.2):
        states = hold(level([[0, 0, 200]], [[0, 0, -factor * terminal]]), air, 96, share)
        expected = terminal * (1 + (factor - 1) * np.exp(-slope / crazyflie.MASS * 96 * STEP_SECONDS))
        assert -states[-1, 0, VERTICAL_SPEED] == pytest.approx(expected, rel=1e-3)


def test_coasting_loses_speed_to_drag_and_to_bullets_damping():
    start = level([[0, 0, 50]], [[2.0, 0, 0]])
    slope = crazyflie.DRAG[0] * 4 * 2 * np.pi / 60 * crazyflie.HOVER_SPEED / crazyflie.MASS
    drag_only = hold(start, Air(ground_effect=False, downwash=False, damping=False), 48)[-1, 0, 10]
    assert drag_only == pytest.approx(2 * np.exp(-slope), rel=1e-3)
    damped = hold(start, Air(drag=False, ground_effect=False, downwash=False), 48)[-1, 0, 10]
    # v' = -0.04 v (1 + v), Bullet's own.
    ratio = 2 / 3 * np.exp(-0.04)
    assert damped == pytest.approx(ratio / (1 - ratio), rel=1e-3)


@pytest.mark.parametrize("height", [0.05, 0.1, 0.2, 0.5, 2.0])
def test_ground_effect_falls_with_the_square_of_the_height(height):
    states = hold(level([[0, 0, height]]), Air(drag=False, downwash=False, damping=False), 1)
    lift = states[-1, 0, VERTICAL_SPEED] / STEP_SECONDS / crazyflie.GRAVITY
    # As published: 11.37 (r / 4h)^2 of the thrust, 0.038 at 10 cm.
    assert lift == pytest.approx(11.36859 * (0.0231348 / (4 * height)) ** 2, rel=0.01)


def test_ground_effect_stops_growing_near_the_ground():
    heights = np.array([[0.001], [0.037], [0.039]]) * np.ones(4)
    extra = aerodynamics.ground_effect(heights, np.full((3, 4), crazyflie.HOVER_SPEED))
    np.testing.assert_array_equal(extra[0], extra[1])
    assert (extra[2] < extra[1]).all()


@pytest.mark.parametrize(("below", "aside"), [(0.3, 0.0), (0.3, 0.06), (0.5, 0.05), (0.3, 1.0)])
def test_downwash_pushes_the_lower_drone_down(below, aside):
    positions = [[0, 0, 5], [aside, 0, 5 - below]]
    states = hold(level(positions), Air(drag=False, ground_effect=False, damping=False), 1)
    force = crazyflie.MASS * states[-1, :, VERTICAL_SPEED] / STEP_SECONDS
    strength, spread = 2267.18 * (0.0231348 / (4 * below)) ** 2, 0.16 * below - 0.11
    assert force[0] == pytest.approx(0.0, abs=1e-12)
    # The drone gives way a little within the step, so the push is not quite constant.
    expected = -strength * np.exp(-0.5 * (aside / spread) ** 2)
    assert force[1] == pytest.approx(expected, rel=0.05, abs=1e-9)


def test_downwash_adds_up_as_a_loop_would():
    positions = np.random.default_rng(0).uniform([-0.3, -0.3, 0.2], [0.3, 0.3, 1.4], (6, 3))
    expected = np.zeros(6)
    for k, lower in enumerate(positions):
        for upper in positions:
            rise = upper[2] - lower[2]
            if rise > 0:
                strength = 2267.18 * (0.0231348 / (4 * rise)) ** 2
                aside = np.linalg.norm((upper - lower)[:2])
                expected[k] += strength * np.exp(-0.5 * (aside / (0.16 * rise - 0.11)) ** 2)
    np.testing.assert_allclose(aerodynamics.downwash(positions), expected, rtol=1e-9, atol=1e-15)


def test_six_drones_keep_to_their_circle():
    plan = CirclePlan(radius=0.4, period=5.0, yaws=(0.0, 1.0, 2.0, 3.0, -1.0, -2.0), disturbance=0.02)
    flight = fly_circle(plan, 96)
    off = flight.states[-1, :, :3] - plan.reference(96 * STEP_SECONDS).position
    assert np.linalg.norm(off, axis=1).max() < 0.04
    yaws = flight.states[-1, :, 9] - np.array(plan.yaws)
    assert np.abs((yaws + np.pi) % (2 * np.pi) - np.pi).max() < 0.05


def test_a_flight_is_a_function_of_its_plan():
    plan = CirclePlan(drones=3, disturbance=0.02, air=Air(gusts=0.3), seed=5)
    one, two = (fly_circle(plan, 12) for _ in range(2))
    np.testing.assert_array_equal(one.states, two.states)
    other = fly_circle(CirclePlan(drones=3, disturbance=0.02, air=Air(gusts=0.3), seed=6), 12)
    assert (one.states[-1] != other.states[-1]).any()


def test_gusts_carry_a_drone_away():
    start = level([[0, 0, 5]])
    calm, windy = (hold(start, Air(ground_effect=False, gusts=gusts), 24)[-1, 0, :2] for gusts in (0.0, 2.0))
    assert np.abs(calm).max() < 1e-12
    assert np.linalg.norm(windy) > 1e-3


def test_a_crash_is_refused():
    with pytest.raises(ValueError, match="keep the drones off the ground; drone 0"):
        # Right above one another: the lower drone cannot carry the other's downwash.
        fly_circle(CirclePlan(drones=2, radius=0.0, spacing=0.2, lowest=0.15), 48)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"spacing": 0.1}, "`spacing` must be at least 0.15 m; got 0.1"),
        ({"drones": 0}, "`drones` must be at least 1; got 0"),
        ({"period": 0.0}, "`period` not 0"),
        ({"lowest": 0.0}, "`lowest` above the ground"),
        ({"yaws": (0.0,)}, "`yaws` must name 6 headings; got 1"),
    ],
)
def test_bad_plans_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        CirclePlan(**change)


def test_bad_air_is_refused():
    with pytest.raises(ValueError, match="`gusts` must be at least 0"):
        Air(gusts=-1.0)


def test_bullet_reads_our_constants():
    bullet = load_bullet()
    with World(1) as world:
        mass, _, inertia, *_ = bullet.getDynamicsInfo(world._drones[0], -1, physicsClientId=world._client)
        assert bullet.getNumJoints(world._drones[0], physicsClientId=world._client) == 5
    assert mass == crazyflie.MASS
    assert inertia == pytest.approx(crazyflie.INERTIA, rel=1e-12)
    assert robot_description().count("<joint ") == 5


def test_absent_bullet_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pybullet", None)
    with pytest.raises(ImportError, match=r"pip install pybullet") as caught:
        load_bullet()
    assert "\n" not in str(caught.value)


def test_attitudes_agree_with_bullets():
    bullet = load_bullet()
    angles = np.random.default_rng(0).uniform([-3, -1.5, -3], [3, 1.5, 3], (50, 3))
    quaternions = quaternion_of(angles)
    expected = [bullet.getQuaternionFromEuler(row) for row in angles.tolist()]
    np.testing.assert_allclose(quaternions, expected, atol=1e-12)
    matrices = [bullet.getMatrixFromQuaternion(row) for row in quaternions.tolist()]
    np.testing.assert_allclose(rotation_of(quaternions).reshape(-1, 9), matrices, atol=1e-12)
    np.testing.assert_allclose(angles_of(rotation_of(quaternions)), angles, atol=1e-12)
    up = into_body(rotation_of(quaternions), np.tile([0.0, 0.0, 1.0], (50, 1)))
    np.testing.assert_allclose(up, rotation_of(quaternions)[:, 2], atol=1e-15)
