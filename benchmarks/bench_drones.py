"""Physics steps per second of six drones, against Bullet alone doing the same calls.

Bullet alone: the same world, the same kinematics read and forces applied (constants), no aerodynamics, no
controller, no record. The rest of our time is NumPy. Setting up a world is not counted; it is printed.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from sizes import size
from tether_studies.drones import crazyflie
from tether_studies.drones.controller import PositionController
from tether_studies.drones.simulator import PHYSICS_HERTZ, STEP_SECONDS, SUBSTEPS, CirclePlan, World

TARGET = 2500
STEPS, ROUNDS = size((192, 7), (24, 1))
PLAN = CirclePlan(radius=0.4, period=5.0, disturbance=0.02)


def ours(world: World) -> None:
    controller, motors = PositionController(PLAN.drones, STEP_SECONDS), np.zeros((PLAN.drones, 4))
    world.place(PLAN.start())
    states = []
    for step in range(STEPS):
        bodies = world.read()
        states.append(bodies.states(motors))
        goal = PLAN.reference(step * STEP_SECONDS)
        motors = world.advance(
            controller.command(bodies.position, bodies.quaternion, bodies.velocity, bodies.rates, goal)
        )
    assert np.linalg.norm(world.read().position - PLAN.reference(STEPS * STEP_SECONDS).position) < 0.2


def bullet_alone(world: World) -> None:
    world.place(PLAN.start())
    bullet, client, frame = world._bullet, world._client, world._bullet.LINK_FRAME
    lift = (0.0, 0.0, crazyflie.MASS * crazyflie.GRAVITY / 4)
    nothing = (0.0, 0.0, 0.0)
    for _ in range(STEPS * SUBSTEPS):
        for body in world._drones:
            bullet.getLinkState(body, 4, 1, 1, client)
        for body in world._drones:
            for link in range(4):
                bullet.applyExternalForce(body, link, lift, nothing, frame, client)
            bullet.applyExternalForce(body, 4, nothing, nothing, frame, client)
            bullet.applyExternalTorque(body, 4, nothing, frame, client)
        bullet.stepSimulation(client)


def seconds(call: Callable[[], object]) -> tuple[float, float]:
    """Wall and processor time of one call."""
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - wall, time.process_time() - cpu


def main() -> None:
    with World(PLAN.drones) as world:
        # In turns, because the machine is shared; the best of each.
        rows = np.array(
            [[seconds(lambda: ours(world)), seconds(lambda: bullet_alone(world))] for _ in range(ROUNDS)]
        )

    def set_up() -> None:
        with World(PLAN.drones):
            pass

    rate, alone = STEPS * SUBSTEPS / rows.min(axis=0)
    verdict = "PASS" if rate[0] >= TARGET else "MISS"
    print(
        f"{PLAN.drones} drones, {STEPS * SUBSTEPS} physics steps at {PHYSICS_HERTZ} Hz, controller and aerodynamics "
        f"included: {rate[0]:.0f} steps/s ({rate[1]:.0f} per second of processor time)   target >= {TARGET}   {verdict}\n"
        f"Bullet alone, same calls: {alone[0]:.0f} steps/s ({alone[1]:.0f})   ratio {alone[0] / rate[0]:.2f}\n"
        f"a new world: {1e3 * min(seconds(set_up)[0] for _ in range(ROUNDS)):.0f} ms"
    )


if __name__ == "__main__":
    main()
