"""A real torque-limited pendulum under six controllers, box bounds with default settings, against rivals.

    python benchmarks/real_pendulum.py       # the log is looked for in TETHER_REAL_LOGS, else ../shared/reference/real

M is a pendulum with viscous and Coulomb friction, its four constants fitted on training episodes: blocks of 2 s of the
log, resampled to 50 Hz, because its steps differ. One controller's torques are ten times those of the others; its two
blocks are in training in all three splits. For what is printed see `real_logs.py`.
"""

import numpy as np
from scipy.optimize import least_squares

import tether
from real_logs import log, report, splits

STEP = 0.02
SLIDING = 0.2
"""Speed in rad/s around which Coulomb friction changes its sign."""


class Pendulum:
    """Gravity, viscous and Coulomb friction, and gain of the torque, over the inertia each."""

    def __init__(self, constants):
        self.gravity, self.viscous, self.coulomb, self.gain = (float(value) for value in constants)

    def __call__(self, states, controls):
        position, velocity = states[:, 0], states[:, 1]
        friction = self.viscous * velocity + self.coulomb * np.tanh(velocity / SLIDING)
        after = velocity + STEP * (self.gain * controls[:, 0] - self.gravity * np.sin(position) - friction)
        return np.stack([position + STEP * 0.5 * (velocity + after), after], axis=1)


def fitted(part):
    """The pendulum that fits best, wild rows counting less."""

    def miss(constants):
        found = Pendulum(constants)(part.states, part.controls)
        return ((part.schema.near(part.next_states, found) - found) * [1 / STEP, 1.0]).ravel()

    return Pendulum(least_squares(miss, [19.0, 0.5, 0.5, 6.0], loss="soft_l1", f_scale=0.3).x)


def main():
    path = log("pendulum.csv")
    if path is None:
        return
    data = tether.read_log(
        path,
        states=["position", "velocity"],
        controls=["torque"],
        angles=["position"],
        episode="run",
        time="time",
        step=STEP,
        block="2s",
        units={"position": "rad", "velocity": "rad/s", "torque": "N m"},
    )
    for seed in splits():
        report(data, fitted(data.split(seed=seed).train), seed)


if __name__ == "__main__":
    main()
