"""What is driven, and how it becomes transitions, probes and trusted models."""

import numpy as np
import pytest

from tether.claims.rollout import rollout
from tether.data import Transitions, wrap_angle
from tether.fitting import TETHERED, FitConfig, judge, learn_method, prepare
from tether.learning.config import TrainingConfig
from tether.programs import enclose
from tether.trusted import check_trusted
from tether_studies import carla
from tether_studies.vehicle.data import (
    DOMAINS,
    SCHEMAS,
    TEST_SHARE,
    TRUSTED_MODELS,
    Variant,
    as_pose_step,
    as_transitions,
    parked_probes,
)
from tether_studies.vehicle.driving import Recording, drive_episodes
from tether_studies.vehicle.town import HALF_WIDTH, SPACING, TERRAINS, build_town, plan_route
from tether_studies.vehicle.trusted import TOP_SPEED, TRUSTED, compose, unicycle

pytest.importorskip(
    "vehiclemodels",
    reason="commonroad-vehicle-models is not installed: pip install commonroad-vehicle-models==3.0.2",
)

VARIANTS: list[Variant] = ["pose", "body", "rich", "rich_body"]


@pytest.fixture(scope="module")
def recording() -> Recording:
    return drive_episodes(episodes=30, steps=60, seed=3)


@pytest.fixture(scope="module")
def poses(recording: Recording) -> Transitions:
    return as_transitions(recording, "pose")


def test_driving_is_a_function_of_the_seed():
    one, same, other = (drive_episodes(episodes=3, steps=5, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.measured, same.measured)
    np.testing.assert_array_equal(one.commands, same.commands)
    assert not np.array_equal(one.measured, other.measured)


def test_drives_show_what_logs_show(recording: Recording):
    measured = recording.measured
    speed, yaw_rate = measured[..., 3], measured[..., 4]
    assert np.isfinite(measured).all() and np.abs(measured[..., :2]).max() < HALF_WIDTH
    assert np.ptp(measured[..., 0]) > 250 and np.ptp(measured[..., 1]) > 250
    assert (speed >= 0).all() and speed.max() > 10
    standing = (speed[:-1] < 0.01) & (speed[1:] < 0.01)
    assert standing.any() and not standing.all()
    assert np.diff(speed, axis=0).min() < -0.25, "somebody brakes"
    assert np.abs(yaw_rate).max() > 0.4, "somebody turns"
    assert (
        set(np.unique(recording.friction)) <= set(TERRAINS.values())
        and len(np.unique(recording.friction)) > 1
    )


def test_cars_follow_their_routes_and_nobody_spins(recording: Recording, poses: Transitions):
    body = as_transitions(recording, "body")
    sideways = np.abs(body.next_states[:, 1])
    assert sideways.max() < 0.15
    error = poses.schema.distance(unicycle(poses.states, poses.controls), poses.next_states)
    # M is good but not exact: slip, lag and braking are there to be learnt.
    assert 1e-3 < np.sqrt((error[:, :2] ** 2).mean()) < 0.02
    assert 1e-4 < np.sqrt((error[:, 2] ** 2).mean()) < 0.005


def test_controls_come_from_the_beginning_of_the_step(recording: Recording, poses: Transitions):
    by_car = np.swapaxes(recording.measured, 0, 1)
    np.testing.assert_array_equal(poses.controls, by_car[:, :-1, 3:].reshape(-1, 2))
    # The next row's state is this row's outcome, within an episode.
    same = poses.episodes[1:] == poses.episodes[:-1]
    gap = poses.next_states[:-1][same] - poses.states[1:][same]
    assert np.abs(gap[:, :2]).max() == 0 and np.abs(wrap_angle(gap[:, 2])).max() < 1e-12


def test_headings_wrap(poses: Transitions):
    assert (np.abs(poses.states[:, 2]) <= np.pi).all()
    assert np.abs(poses.next_states[:, 2] - poses.states[:, 2]).max() < 0.2


@pytest.mark.parametrize("variant", VARIANTS)
def test_parked_cars_stay_parked_exactly(recording: Recording, variant: Variant):
    transitions = as_transitions(recording, variant)
    probes = parked_probes(transitions, count=500)
    assert (probes.inputs[:, 3:] == 0).all() and np.ptp(probes.states[:, 0]) > 1.9 * HALF_WIDTH
    trusted = TRUSTED_MODELS[variant]
    check_trusted(trusted, np.concatenate([transitions.inputs, probes.inputs]), transitions.schema)
    step = as_pose_step(trusted.function) if "body" in variant else trusted.function
    np.testing.assert_array_equal(step(probes.states, probes.controls), probes.states)


@pytest.mark.parametrize("variant", VARIANTS)
def test_trusted_models_can_be_enclosed(recording: Recording, variant: Variant):
    transitions = as_transitions(recording, variant)
    inputs, dx = transitions.inputs[:50], len(transitions.schema.states)
    trusted = TRUSTED_MODELS[variant].function
    box = enclose(trusted, inputs - 0.05, inputs + 0.05, states=dx)
    value = np.asarray(trusted(inputs[:, :dx], inputs[:, dx:]))
    assert (box.lower <= value).all() and (value <= box.upper).all()


def test_variants_say_the_same(recording: Recording, poses: Transitions):
    body, rich, both = (as_transitions(recording, name) for name in ("body", "rich", "rich_body"))
    np.testing.assert_allclose(compose(body.states, body.next_states), poses.next_states, atol=1e-12)
    np.testing.assert_allclose(compose(both.states, both.next_states), rich.next_states, atol=1e-12)
    step = as_pose_step(TRUSTED_MODELS["body"].function)
    np.testing.assert_allclose(
        step(poses.states, poses.controls), unicycle(poses.states, poses.controls), atol=1e-12
    )


def test_lipschitz_constants_hold(rng: np.random.Generator):
    low, high = [-9, -9, -3, 0, -1.5], [9, 9, 3, TOP_SPEED, 1.5]
    one, two = rng.uniform(low, high, (2, 4000, 5))
    change = np.abs(unicycle(one[:, :3], one[:, 3:]) - unicycle(two[:, :3], two[:, 3:]))
    assert (change <= np.abs(one - two) @ np.asarray(TRUSTED.lipschitz).T + 1e-12).all()


def test_carla_recordings_have_the_same_columns():
    assert SCHEMAS["pose"] == carla.SCHEMA


def test_routes_are_evenly_spaced_and_gently_bent(rng: np.random.Generator):
    town = build_town(0)
    for _ in range(10):
        route = plan_route(town, rng, length=300.0)
        gaps = np.linalg.norm(np.diff(route.points, axis=0), axis=1)
        assert np.abs(gaps - SPACING).max() < 0.05
        assert np.abs(route.curvature).max() < 0.6
        assert (np.diff(route.stops) >= 0).all()
        assert len(route.points) == len(route.curvature) == len(route.limit) == len(route.friction) == 600


@pytest.mark.parametrize(("variant", "most"), [("body", (0.08, 0.08, 0.02)), ("pose", (2.5, 2.5, 0.02))])
def test_a_tethered_car_is_proved_close_and_does_not_drift(recording: Recording, variant: Variant, most):
    transitions = as_transitions(recording, variant)
    config = FitConfig(
        memories=200, bounds="affine", evidence="proved", domain=DOMAINS[variant], test=TEST_SHARE,
        hidden=(32, 32), training=TrainingConfig(steps=100),
    )  # fmt: skip
    problem = prepare(
        transitions,
        trusted=TRUSTED_MODELS[variant],
        probes=parked_probes(transitions, count=2000),
        config=config,
    )
    fitted = judge(problem, learn_method(problem, TETHERED, config))
    result = fitted.measures.as_dict()
    for limit, delta in zip(most, result["delta_certified"].values(), strict=True):
        assert delta["max"] < limit
    assert result["coverage_omega"] > 0.98
    start = parked_probes(transitions, count=200, seed=9).states
    step = as_pose_step(fitted.model.predict) if variant == "body" else fitted.model.predict
    end = rollout(step, start, np.zeros((50, 200, 2)), schema=SCHEMAS["pose"])[-1]
    drift = np.hypot(*(end - start)[:, :2].T)
    assert (drift < 1e-9).mean() >= 0.99
