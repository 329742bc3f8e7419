"""A real 1:10 race car (F1TENTH log), box bounds with default settings, against what else could be learned.

    python benchmarks/real_car.py            # the log is looked for in TETHER_REAL_LOGS, else ../shared/reference/real

M is a kinematic bicycle with first-order speed, its four constants fitted on training runs. For what is printed see
`real_logs.py`. Splits 0 to 2; the margin of the operating box was chosen when split 2 had been seen, the rest on splits
10 to 13, on drives that none of 0 to 2 tests, and on other logs.
"""

import numpy as np
from scipy.optimize import least_squares

import tether
from real_logs import log, report, splits

STEP = 0.025


class Bicycle:
    """Wheelbase, lag of the speed, offset and gain of the steering."""

    def __init__(self, constants):
        self.wheelbase, self.lag, self.offset, self.gain = (float(value) for value in constants)

    def __call__(self, states, controls):
        _, _, heading, speed = states.T
        steering, wanted = controls.T
        turn = speed * np.tan(self.gain * steering + self.offset) / self.wheelbase
        change = [speed * np.cos(heading), speed * np.sin(heading), turn, (wanted - speed) / self.lag]
        return states + STEP * np.stack(change, axis=1)


def fitted(part):
    """The bicycle that fits best."""
    scale = (part.next_states - part.states).std(axis=0)

    def miss(constants):
        return ((Bicycle(constants)(part.states, part.controls) - part.next_states) / scale).ravel()

    return Bicycle(least_squares(miss, [0.33, 0.33, 0.0, 1.0], loss="soft_l1").x)


def main():
    path = log("f1tenth.csv")
    if path is None:
        return
    data = tether.read_log(
        path,
        states=["x", "y", "heading", "speed"],
        controls=["steering_command", "speed_command"],
        episode="run",
        angles=["heading"],
        units={"x": "m", "y": "m", "heading": "rad", "speed": "m/s"},
    )
    for seed in splits():
        report(data, fitted(data.split(seed=seed).train), seed)


if __name__ == "__main__":
    main()
