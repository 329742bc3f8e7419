"""A real 1:10 race car (F1TENTH log), box bounds with default settings, against what else could be learned.

    python benchmarks/real_car.py            # the log is looked for in TETHER_REAL_LOGS, else ../shared/reference/real

M is a kinematic bicycle with first-order speed, its four constants fitted on training runs. For three splits by
run: root mean square error by output as a share of M's, the geometric mean over outputs, the same of ridge and of
boosted trees on M's residual (fitted on training and validation runs), the worst leaf's remainder as a share of what
M is off by, and how much of held-out driving is in the domain and in the band. The third split's numbers were seen
while the margin of the operating box was chosen.
"""

import os
import time
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import RidgeCV

import tether
from sizes import size

ROOT = Path(__file__).resolve().parent.parent
FOLDER = Path(os.environ.get("TETHER_REAL_LOGS", ROOT.parent / "shared" / "reference" / "real"))
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


def root_mean_square(error):
    return np.sqrt((error**2).mean(axis=0))


def rivals(trusted, seen, test):
    """Errors of ridge and of boosted trees that learn what M is off by."""
    inputs = np.concatenate([part.inputs for part in seen])
    residual = np.concatenate([part.next_states - trusted(part.states, part.controls) for part in seen])
    left = test.next_states - trusted(test.states, test.controls)
    center, scale = inputs.mean(axis=0), inputs.std(axis=0)
    kinds = {
        "ridge": lambda: RidgeCV(np.logspace(-3, 5, 20)),
        "boosted trees": lambda: HistGradientBoostingRegressor(early_stopping=True, random_state=0),
    }
    for name, kind in kinds.items():
        found = [kind().fit((inputs - center) / scale, column) for column in residual.T]
        answers = [one.predict((test.inputs - center) / scale) for one in found]
        yield name, root_mean_square(left - np.stack(answers, axis=1))


def report(data, seed):
    split = data.split(seed=seed)
    trusted, test = fitted(split.train), split.test
    start = time.perf_counter()
    training = tether.TrainingConfig(steps=size(2000, 50))
    model = tether.fit(data, trusted=trusted, bounds="boxes", seed=seed, training=training)
    seconds = time.perf_counter() - start
    own = root_mean_square(test.next_states - trusted(test.states, test.controls))
    found = model.predict(test.states, test.controls, details=True)
    bounds, outside = model.bounds, (test.next_states < found.lower) | (test.next_states > found.upper)
    worst = np.array([bounds.remainder[bounds.output == k].max() for k in range(4)])
    share = root_mean_square(test.next_states - found.next_states) / own
    print(f"split {seed}: fit in {seconds:.1f} s, {bounds.tree.leaves} leaves ({model.record['stopped']})")
    print(f"  error / M's: {share.round(4)}, geometric mean {np.exp(np.log(share).mean()):.4f}")
    for name, error in rivals(trusted, (split.train, split.validation), test):
        print(f"  {name}: geometric mean {np.exp(np.log(error / own).mean()):.4f}")
    print(f"  worst leaf / M's error: {(worst / own).round(4)}")
    print(f"  in the domain: {found.in_domain.mean():.4f}; outside the band: {outside.mean(axis=0).round(4)}")


def main():
    log = FOLDER / "f1tenth.csv"
    if not log.is_file():
        print(f"no log of a real car: {log.name} is not there. Set TETHER_REAL_LOGS to its folder.")
        return
    data = tether.read_log(
        log,
        states=["x", "y", "heading", "speed"],
        controls=["steering_command", "speed_command"],
        episode="run",
        angles=["heading"],
        units={"x": "m", "y": "m", "heading": "rad", "speed": "m/s"},
    )
    for seed in range(size(3, 1)):
        report(data, seed)


if __name__ == "__main__":
    main()
