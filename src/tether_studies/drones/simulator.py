"""Drones in PyBullet: rigid bodies, a ground plane, thrust and air applied link by link.

Bullet integrates at 240 Hz and the controller acts at 48 Hz, as in ``gym-pybullet-drones``; Bullet's own
damping is left on. Motors follow their commands at once. Forces of a drone are applied to a link at each
propeller and one in the middle. A flight is a function of its plan and seed alone.
"""

from __future__ import annotations

import importlib
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from tether.data import Array
from tether_studies.drones import aerodynamics, crazyflie
from tether_studies.drones.attitude import angles_of, into_body, quaternion_of, rotation_of
from tether_studies.drones.controller import PositionController, Reference

PHYSICS_HERTZ = 240
CONTROL_HERTZ = 48
SUBSTEPS = PHYSICS_HERTZ // CONTROL_HERTZ
STEP_SECONDS = 1 / CONTROL_HERTZ
LEAST_SPACING = 0.15
_MIDDLE = 4
"""Index of the link in the middle; 0 to 3 are the propellers."""
_ORIGIN = (0.0, 0.0, 0.0)


def load_bullet() -> Any:
    """The ``pybullet`` module; loaded here, because the rest of the library does without it."""
    try:
        return importlib.import_module("pybullet")
    except ImportError as error:
        raise ImportError(
            "the drones study must have PyBullet; it is not installed. Run `pip install pybullet==3.2.7`."
        ) from error


@dataclass(frozen=True, eq=False)
class Bodies:
    """N drones at one moment.

    Attributes:
        position: (N, 3) metres.
        quaternion: (N, 4) x, y, z, w.
        velocity: (N, 3) metres per second, along the world's axes.
        rates: (N, 3) radians per second, about the body's axes, as a gyroscope measures them.
    """

    position: Array
    quaternion: Array
    velocity: Array
    rates: Array

    def states(self, motor_speeds: Array) -> Array:
        """States (N, 20), with the motor speeds (N, 4) that led here."""
        angles = angles_of(rotation_of(self.quaternion))
        # Of q and -q always the one that the angles give, so that a state is a function of its attitude.
        parts = [self.position, quaternion_of(angles), angles, self.velocity, self.rates, motor_speeds]
        return np.concatenate(parts, axis=1)


@dataclass(frozen=True)
class Air:
    """What acts on a drone besides thrust and gravity.

    Attributes:
        drag: whether the air resists.
        ground_effect: whether thrust grows near the ground.
        downwash: whether drones push those below them down.
        damping: whether Bullet's own damping is on, 0.04 (1 + speed) per second.
        gusts: standard deviation of the wind along each axis, metres per second.
        gust_seconds: time over which the wind forgets itself.
    """

    drag: bool = True
    ground_effect: bool = True
    downwash: bool = True
    damping: bool = True
    gusts: float = 0.0
    gust_seconds: float = 0.5

    def __post_init__(self) -> None:
        if self.gusts < 0 or self.gust_seconds <= 0:
            raise ValueError(
                "`gusts` must be at least 0 and `gust_seconds` positive; got "
                f"{self.gusts} and {self.gust_seconds}."
            )


class World:
    """Drones in Bullet; to be used as a context, which closes Bullet's world at its end."""

    def __init__(self, drones: int, air: Air = Air(), *, seed: int = 0) -> None:
        self._bullet = load_bullet()
        self._air, self._rng = air, np.random.default_rng(seed)
        self._wind = np.zeros((drones, 3))
        self._client: int = self._bullet.connect(self._bullet.DIRECT)
        self._drones = self._build(drones)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Bullet may have closed the connection by itself, after an error of its own.
        with suppress(self._bullet.error):
            self._bullet.disconnect(self._client)

    def _build(self, drones: int) -> list[int]:
        bullet, client = self._bullet, self._client
        bullet.setGravity(0, 0, -crazyflie.GRAVITY, physicsClientId=client)
        bullet.setTimeStep(1 / PHYSICS_HERTZ, physicsClientId=client)
        plane = bullet.createCollisionShape(bullet.GEOM_PLANE, physicsClientId=client)
        bullet.createMultiBody(0, plane, physicsClientId=client)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "crazyflie.urdf"
            path.write_text(robot_description(), encoding="utf-8")
            # Apart from one another, because Bullet may shift bodies that are loaded into each other.
            ids = [
                bullet.loadURDF(
                    str(path), (k, 0, 1), flags=bullet.URDF_USE_INERTIA_FROM_FILE, physicsClientId=client
                )
                for k in range(drones)
            ]
        if not self._air.damping:
            for body in ids:
                bullet.changeDynamics(body, -1, linearDamping=0, angularDamping=0, physicsClientId=client)
        return ids

    def place(self, bodies: Bodies) -> None:
        """Puts the drones where `bodies` says, moving as it says."""
        bullet, client = self._bullet, self._client
        turning = (rotation_of(bodies.quaternion) @ bodies.rates[:, :, None])[:, :, 0]
        rows = (bodies.position, bodies.quaternion, bodies.velocity, turning)
        for body, at, attitude, velocity, spin in zip(self._drones, *(r.tolist() for r in rows), strict=True):
            bullet.resetBasePositionAndOrientation(body, at, attitude, client)
            bullet.resetBaseVelocity(body, velocity, spin, client)

    def read(self) -> Bodies:
        """Where the drones are."""
        position, quaternion, velocity, turning = self._kinematics()
        return Bodies(position, quaternion, velocity, into_body(rotation_of(quaternion), turning))

    def _kinematics(self) -> tuple[Array, Array, Array, Array]:
        """Positions, quaternions, velocities and angular velocities along the world's axes."""
        bullet, client = self._bullet, self._client
        # Read off a link, with its kinematics computed anew, because Bullet turns a link's forces by the
        # attitude it computed last: otherwise thrust would lag behind the body by a physics step.
        links = [bullet.getLinkState(body, _MIDDLE, 1, 1, client) for body in self._drones]
        rows = np.array([(*link[0], *link[1], *link[6], *link[7]) for link in links])
        return rows[:, :3], rows[:, 3:7], rows[:, 7:10], rows[:, 10:]

    def advance(self, commands: Array) -> Array:
        """One control step under motor-speed commands (N, 4); the motor speeds (N, 4) they lead to."""
        speeds = np.clip(commands, 0.0, crazyflie.TOP_SPEED)
        for _ in range(SUBSTEPS):
            self._blow()
            self._push(speeds)
            self._bullet.stepSimulation(self._client)
        return speeds

    def _blow(self) -> None:
        """The wind wanders (an Ornstein-Uhlenbeck process), each drone in its own."""
        if self._air.gusts == 0:
            return
        keep = np.exp(-1 / (PHYSICS_HERTZ * self._air.gust_seconds))
        noise = self._rng.standard_normal(self._wind.shape) * self._air.gusts
        self._wind = keep * self._wind + np.sqrt(1 - keep**2) * noise

    def _push(self, speeds: Array) -> None:
        """Applies this physics step's forces, one call per link."""
        thrusts, middle = self._forces(speeds)
        yaw = crazyflie.TORQUE * (speeds**2 @ crazyflie.SPINS)
        bullet, client, frame = self._bullet, self._client, self._bullet.LINK_FRAME
        force, torque = bullet.applyExternalForce, bullet.applyExternalTorque
        rows = (thrusts.tolist(), middle.tolist(), yaw.tolist())
        for body, lifts, push, turn in zip(self._drones, *rows, strict=True):
            for link, lift in enumerate(lifts):
                force(body, link, (0.0, 0.0, lift), _ORIGIN, frame, client)
            force(body, _MIDDLE, push, _ORIGIN, frame, client)
            torque(body, _MIDDLE, (0.0, 0.0, turn), frame, client)

    def _forces(self, speeds: Array) -> tuple[Array, Array]:
        """Thrust of each propeller (N, 4), and the force on the middle (N, 3), along the body's axes."""
        position, quaternion, velocity, _ = self._kinematics()
        rotation, air = rotation_of(quaternion), self._air
        thrusts, middle = crazyflie.THRUST * speeds**2, np.zeros((len(speeds), 3))
        if air.ground_effect:
            heights = position[:, 2:] + rotation[:, 2, :2] @ crazyflie.PROPELLERS.T
            upright = rotation[:, 2, 2:] > 0
            thrusts = thrusts + np.where(upright, aerodynamics.ground_effect(heights, speeds), 0.0)
        if air.drag:
            middle += aerodynamics.drag(into_body(rotation, velocity - self._wind), speeds)
        if air.downwash:
            middle[:, 2] -= aerodynamics.downwash(position)
        return thrusts, middle


def robot_description() -> str:
    """URDF of a Crazyflie: a body, and a massless link at each propeller and in the middle."""
    places = [*crazyflie.PROPELLERS.tolist(), [0.0, 0.0]]
    links = "".join(
        f'<link name="link{k}"><inertial><mass value="0"/>{_inertia(0, 0, 0)}</inertial></link>'
        f'<joint name="joint{k}" type="fixed"><origin xyz="{x!r} {y!r} 0"/>'
        f'<parent link="body"/><child link="link{k}"/></joint>'
        for k, (x, y) in enumerate(places)
    )
    return (
        f'<?xml version="1.0"?><robot name="crazyflie"><link name="body"><inertial>'
        f'<mass value="{crazyflie.MASS}"/>{_inertia(*crazyflie.INERTIA)}</inertial><collision><geometry>'
        f'<cylinder radius="{crazyflie.BODY_RADIUS}" length="{crazyflie.BODY_HEIGHT}"/>'
        f"</geometry></collision></link>{links}</robot>"
    )


def _inertia(x: float, y: float, z: float) -> str:
    return f'<inertia ixx="{x}" iyy="{y}" izz="{z}" ixy="0" ixz="0" iyz="0"/>'


@dataclass(frozen=True)
class CirclePlan:
    """Drones on one circle, evenly apart, one above the other.

    Attributes:
        drones: how many.
        radius: of the circle, metres.
        period: seconds of one round; negative: clockwise.
        lowest: height of the lowest drone, metres.
        spacing: between the heights of two neighbours; at less than 0.15 m downwash wins.
        phase: angle at which the lowest drone starts.
        yaws: heading that each drone keeps; by default all 0.
        disturbance: how far from the circle drones start, at most: this many metres, metres per second,
            radians and radians per second, along each axis.
        air: what acts besides thrust and gravity.
        seed: of disturbance and gusts.
    """

    drones: int = 6
    radius: float = 0.3
    period: float = 6.0
    lowest: float = 0.2
    spacing: float = LEAST_SPACING
    phase: float = 0.0
    yaws: tuple[float, ...] = ()
    disturbance: float = 0.0
    air: Air = Air()
    seed: int = 0

    def __post_init__(self) -> None:
        if self.drones < 1:
            raise ValueError(f"`drones` must be at least 1; got {self.drones}.")
        if self.spacing < LEAST_SPACING:
            raise ValueError(
                f"`spacing` must be at least {LEAST_SPACING} m; got {self.spacing}. "
                "Closer drones are driven into the ground by the downwash of those above."
            )
        if self.radius < 0 or self.period == 0 or self.lowest <= crazyflie.BODY_HEIGHT:
            raise ValueError(
                "`radius` must be at least 0, `period` not 0 and `lowest` above the ground; got "
                f"{self.radius}, {self.period}, {self.lowest}."
            )
        if self.yaws and len(self.yaws) != self.drones:
            raise ValueError(f"`yaws` must name {self.drones} headings; got {len(self.yaws)}.")

    def reference(self, seconds: float) -> Reference:
        """Where the drones should be after some seconds."""
        order, rate = np.arange(self.drones, dtype=np.float64), 2 * np.pi / self.period
        angle = self.phase + 2 * np.pi * order / self.drones + rate * seconds
        cosine, sine, flat = np.cos(angle), np.sin(angle), np.zeros(self.drones)
        heights = self.lowest + self.spacing * order
        return Reference(
            np.stack([self.radius * cosine, self.radius * sine, heights], axis=1),
            self.radius * rate * np.stack([-sine, cosine, flat], axis=1),
            -self.radius * rate**2 * np.stack([cosine, sine, flat], axis=1),
            np.array(self.yaws or flat),
        )

    def start(self) -> Bodies:
        """On the circle, moving along it, tilted as the turn asks; all a little disturbed."""
        goal, rng = self.reference(0.0), np.random.default_rng(self.seed)
        noise = self.disturbance * rng.uniform(-1.0, 1.0, (4, self.drones, 3))
        cosine, sine = np.cos(goal.yaw), np.sin(goal.yaw)
        forward = cosine * goal.acceleration[:, 0] + sine * goal.acceleration[:, 1]
        left = cosine * goal.acceleration[:, 1] - sine * goal.acceleration[:, 0]
        pitch = np.arctan2(forward, crazyflie.GRAVITY)
        roll = -np.arctan2(left, np.hypot(forward, crazyflie.GRAVITY))
        angles = np.stack([roll, pitch, goal.yaw], axis=1) + noise[2]
        return Bodies(goal.position + noise[0], quaternion_of(angles), goal.velocity + noise[1], noise[3])


@dataclass(frozen=True, eq=False)
class Flight:
    """One flight of N drones over T control steps.

    Attributes:
        states: (T + 1, N, 20).
        commands: (T, N, 4) motor speeds commanded.
    """

    states: Array
    commands: Array


def fly_circle(plan: CirclePlan, steps: int) -> Flight:
    """Simulates a flight of `steps` control steps (48 a second)."""
    controller = PositionController(plan.drones, STEP_SECONDS)
    motors = np.full((plan.drones, 4), crazyflie.HOVER_SPEED)
    with World(plan.drones, plan.air, seed=plan.seed) as world:
        world.place(plan.start())
        bodies = world.read()
        states, commands = [bodies.states(motors)], []
        for step in range(steps):
            goal = plan.reference(step * STEP_SECONDS)
            commands.append(
                controller.command(bodies.position, bodies.quaternion, bodies.velocity, bodies.rates, goal)
            )
            motors = world.advance(commands[-1])
            bodies = world.read()
            states.append(bodies.states(motors))
    flight = Flight(np.stack(states), np.stack(commands))
    _refuse_crash(flight)
    return flight


def fly_commands(start: Bodies, commands: Array, air: Air = Air(), *, seed: int = 0) -> Flight:
    """Simulates drones from `start` under given commands (T, N, 4), with no controller."""
    motors = np.full((len(start.position), 4), crazyflie.HOVER_SPEED)
    with World(len(start.position), air, seed=seed) as world:
        world.place(start)
        states = [world.read().states(motors)]
        for command in commands:
            motors = world.advance(command)
            states.append(world.read().states(motors))
    return Flight(np.stack(states), np.asarray(commands, dtype=np.float64))


def _refuse_crash(flight: Flight) -> None:
    low = flight.states[:, :, 2].min(axis=0)
    if not (low > crazyflie.BODY_HEIGHT).all():
        raise ValueError(
            f"`plan` must keep the drones off the ground; drone {int(np.argmin(low))} touched it. "
            "Fly higher, slower or further apart."
        )
