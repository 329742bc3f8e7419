"""Gymnasium's Pendulum-v1 with friction, M being its published step: as accurate as M at run time plus a network?

    python benchmarks/gym_pendulum.py

Noise-free episodes of random torques; friction is viscous, and in a second system Coulomb's besides. *Direct* is M at
run time plus a network whose output is clipped, trained as long. For what else is printed see `real_logs.py`.
"""

import numpy as np

from real_logs import report, splits
from sizes import size
from tether.data import Transitions, make_schema
from tether.fitting import DIRECT, FitConfig, prepare, train_method

STEP, SPEED, TORQUE = 0.05, 8.0, 2.0
SCHEMA = make_schema(["angle", "speed"], ["torque"], angles=["angle"])


def pendulum(states, controls, viscous=0.0, coulomb=0.0):
    angle, speed = states[:, 0], states[:, 1]
    torque = np.clip(controls[:, 0], -TORQUE, TORQUE)
    friction = viscous * speed + coulomb * np.tanh(speed / 0.1) if viscous or coulomb else 0.0
    speed = np.clip(speed + STEP * (15.0 * np.sin(angle) + 3.0 * torque - friction), -SPEED, SPEED)
    return np.stack([angle + STEP * speed, speed], axis=1)


def trusted(states, controls):
    return pendulum(states, controls)


def episodes(viscous, coulomb, *, count=100, steps=50):
    """Random torques from random angles."""
    rng = np.random.default_rng(1000)
    states = np.stack([rng.uniform(-np.pi, np.pi, count), rng.uniform(-1, 1, count)], axis=1)
    rows = []
    for _ in range(steps):
        controls = rng.uniform(-TORQUE, TORQUE, (count, 1))
        following = pendulum(states, controls, viscous, coulomb)
        rows.append((states, controls, following))
        states = following
    columns = (np.stack(part, axis=1).reshape(count * steps, -1) for part in zip(*rows, strict=True))
    return Transitions.from_arrays(*columns, episodes=np.repeat(np.arange(count), steps), schema=SCHEMA)


def direct(data, trusted, seed, training):
    config = FitConfig(seed=seed, training=training)
    return {
        "Direct": train_method(prepare(data, trusted=trusted, config=config), DIRECT, config).model.predict
    }


def main():
    for viscous, coulomb in ((0.25, 0.0), (0.1, 0.3)):
        print(f"friction: {viscous} of the speed, {coulomb} besides")
        for seed in splits():
            report(episodes(viscous, coulomb, count=size(100, 20)), trusted, seed, direct)


if __name__ == "__main__":
    main()
