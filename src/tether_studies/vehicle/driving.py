"""A driver who follows routes: all cars of a town at once, a function of the seed alone.

The driver looks at where the car is, ten times a second, and asks for an acceleration and a steering
angle, not quite steadily. He slows down for bends and for slippery terrain, stops, stands for a while and
drives on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tether.data import Array
from tether.foundation.progress import Report
from tether_studies.vehicle.simulator import STEP_SECONDS, Fidelity, Simulator, load_simulator
from tether_studies.vehicle.town import SPACING, Route, Town, build_town, plan_route

WARM_UP = 15
"""Steps driven before the recording, in which suspension and driver settle."""

_GRAVITY = 9.81
_TOP_SPEED = 17.0
_WINDOW = 40
_WHEELBASE = 2.5789128


@dataclass(frozen=True, eq=False)
class Recording:
    """What was driven: E cars, T steps.

    Attributes:
        town: where.
        measured: (T + 1, E, 5) x, y, heading, speed, yaw rate, at the middle of the rear axle; heading
            not wrapped.
        commands: (T, E, 2) acceleration [m/s²] and steering angle [rad] asked for, from each measurement on.
        friction: (T, E) of the terrain.
    """

    town: Town
    measured: Array
    commands: Array
    friction: Array


@dataclass(frozen=True, eq=False)
class _Routes:
    """Routes of E cars, padded to a common length with their last point, and how each is driven."""

    points: Array
    speed: Array
    friction: Array
    stops: Array
    acceleration: Array
    braking: Array


@dataclass(eq=False)
class _Drivers:
    """What E drivers keep in mind.

    Attributes:
        place: (E,) index of the route's point beside the car.
        stop: (E,) index of the next stop.
        wait: (E,) seconds yet to stand.
        wobble: (E, 2) unsteadiness of acceleration and steering.
    """

    place: NDArray[np.int64]
    stop: NDArray[np.int64]
    wait: Array
    wobble: Array


def drive_episodes(
    *,
    episodes: int,
    steps: int,
    seed: int = 0,
    fidelity: Fidelity = "multibody",
    progress: Report | None = None,
) -> Recording:
    """Drives `episodes` cars for `steps` steps of 0.1 s through the town of `seed`."""
    town, simulator = build_town(seed), load_simulator(fidelity)
    rng = np.random.default_rng([seed, 1])
    length = (steps + WARM_UP) * STEP_SECONDS * _TOP_SPEED + 40.0
    routes = _prepare([plan_route(town, rng, length=length) for _ in range(episodes)], rng)
    states = _start(simulator, routes)
    drivers = _Drivers(
        np.zeros(episodes, np.int64),
        np.zeros(episodes, np.int64),
        np.zeros(episodes),
        np.zeros((episodes, 2)),
    )
    measured, commands, friction = [simulator.measure(states)], [], []
    for step in range(steps + WARM_UP):
        commands.append(_decide(measured[-1], routes, drivers, rng))
        friction.append(town.friction(measured[-1][:, :2]))
        states = simulator.advance(states, commands[-1], friction[-1])
        measured.append(simulator.measure(states))
        if progress is not None:
            progress(step + 1, steps + WARM_UP)
    kept = (np.stack(part)[WARM_UP:] for part in (measured, commands, friction))
    return Recording(town, *kept)


def _prepare(routes: list[Route], rng: np.random.Generator) -> _Routes:
    """Routes padded to one length, each with a style of driving."""
    count = max(len(route.points) for route in routes)
    braking, acceleration = rng.uniform(2.0, 5.0, len(routes)), rng.uniform(1.5, 3.5, len(routes))
    sideways = rng.uniform(2.0, 6.0, len(routes))
    speed = [
        _speed_profile(route, grip, brake)
        for route, grip, brake in zip(routes, sideways, braking, strict=True)
    ]
    most = max(len(route.stops) for route in routes) + 1
    stops = np.full((len(routes), most), np.inf)
    for row, route in enumerate(routes):
        stops[row, : len(route.stops)] = route.stops
    points = [np.pad(r.points, ((0, count - len(r.points)), (0, 0)), mode="edge") for r in routes]
    profiles = [np.pad(profile, (0, count - len(profile)), mode="edge") for profile in speed]
    friction = [np.pad(r.friction, (0, count - len(r.friction)), mode="edge") for r in routes]
    return _Routes(np.stack(points), np.stack(profiles), np.stack(friction), stops, acceleration, braking)


def _speed_profile(route: Route, sideways: float, braking: float) -> Array:
    """(L,) speed to drive at: the limit, what bends and terrain allow, and room to brake for both."""
    # The driver sees the terrain, and leaves half of its grip unused.
    grip = np.minimum(sideways, 0.5 * _GRAVITY * route.friction)
    bend = np.maximum(np.abs(route.curvature), 1e-3)
    speed = np.minimum(route.limit, np.sqrt(grip / bend))
    brake = np.minimum(braking, 0.3 * _GRAVITY * route.friction)
    for place in range(len(speed) - 2, -1, -1):
        speed[place] = min(speed[place], np.sqrt(speed[place + 1] ** 2 + 2 * brake[place] * SPACING))
    return speed


def _start(simulator: Simulator, routes: _Routes) -> Array:
    ahead = routes.points[:, 2] - routes.points[:, 0]
    poses = np.column_stack([routes.points[:, 0], np.arctan2(ahead[:, 1], ahead[:, 0])])
    # Slowly, because a start may lie in a bend and cars start straight ahead.
    return simulator.start(poses, 0.6 * routes.speed[:, 0])


def _decide(measured: Array, routes: _Routes, drivers: _Drivers, rng: np.random.Generator) -> Array:
    """(E, 2) acceleration and steering angle asked for."""
    _look(measured, routes, drivers)
    drivers.wobble *= 0.85
    drivers.wobble += rng.normal(0.0, [0.25, 0.004], drivers.wobble.shape)
    acceleration = _accelerate(measured, routes, drivers, rng)
    moving = measured[:, 3] > 0.3
    steering = _steer(measured, routes, drivers) + np.where(moving, drivers.wobble[:, 1], 0.0)
    return np.column_stack([acceleration, np.clip(steering, -0.6, 0.6)])


def _look(measured: Array, routes: _Routes, drivers: _Drivers) -> None:
    """Finds the nearest point of the route, never further back than the last one."""
    near = np.minimum(drivers.place[:, None] + np.arange(_WINDOW), routes.points.shape[1] - 1)
    gaps = routes.points[np.arange(len(near))[:, None], near] - measured[:, None, :2]
    drivers.place = near[np.arange(len(near)), (gaps**2).sum(axis=2).argmin(axis=1)]


def _accelerate(measured: Array, routes: _Routes, drivers: _Drivers, rng: np.random.Generator) -> Array:
    """Follows the speed profile and the stops; a standing car is held by its brake."""
    cars, speed = np.arange(len(measured)), measured[:, 3]
    ahead = np.minimum(drivers.place + (0.3 * speed / SPACING).astype(int), routes.speed.shape[1] - 1)
    left = routes.stops[cars, drivers.stop] - drivers.place * SPACING
    grip = _GRAVITY * routes.friction[cars, ahead]
    brake = np.minimum(0.6 * routes.braking, 0.3 * grip)
    wanted = np.minimum(routes.speed[cars, ahead], np.sqrt(2 * brake * np.maximum(left - 1.0, 0.0)))
    arrived = (speed < 0.05) & (left < 3.0) & (drivers.wait <= 0.0)
    drivers.wait = np.where(arrived, rng.uniform(0.5, 4.0, len(cars)), drivers.wait)
    standing = drivers.wait > 0.0
    drivers.wait = np.maximum(drivers.wait - STEP_SECONDS, 0.0)
    leaving = standing & (drivers.wait <= 0.0)
    # A stop that was overshot is forgotten.
    drivers.stop = drivers.stop + (leaving | (left < -5.0))
    # The driven axle carries half of the car, so that power finds half the grip that brakes do.
    # What a bend takes is not there for it either.
    spare = np.maximum(1.0 - 2.0 * np.abs(speed * measured[:, 4]) / grip, 0.1)
    harder, faster = (
        np.minimum(1.5 * routes.braking, 0.6 * grip),
        np.minimum(routes.acceleration, 0.25 * grip),
    )
    faster = faster * spare
    asked = np.clip(1.5 * (wanted - speed), -harder, faster)
    asked = asked + np.where(speed > 0.3, drivers.wobble[:, 0], 0.0)
    return np.where(standing | ((wanted < 0.3) & (speed < 0.3)), -1.0, asked)


def _steer(measured: Array, routes: _Routes, drivers: _Drivers) -> Array:
    """Pure pursuit: the circle from the rear axle to a point of the route some way ahead."""
    cars, (x, y, heading, speed) = np.arange(len(measured)), measured[:, :4].T
    reach = np.clip(0.55 * speed, 3.5, 10.0)
    ahead = np.minimum(drivers.place + (reach / SPACING).astype(int), routes.points.shape[1] - 1)
    aim = routes.points[cars, ahead] - np.column_stack([x, y])
    sideways = -np.sin(heading) * aim[:, 0] + np.cos(heading) * aim[:, 1]
    curvature = 2 * sideways / np.maximum((aim**2).sum(axis=1), 1.0)
    # No harder than the road can take, or the car would spin.
    most = 0.6 * _GRAVITY * routes.friction[cars, drivers.place] / np.maximum(speed, 3.0) ** 2
    curvature = np.clip(curvature, -most, most)
    # The car understeers: at speed it takes more steering for the same circle.
    return np.arctan(curvature * (_WHEELBASE + 0.004 * speed**2))
