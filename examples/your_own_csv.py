"""Your own CSV: a log of a pendulum, a textbook formula as the trusted model, one picture of both.

Change three things to make it yours: the file, the names of its columns, and the formula.
"""

import csv
import os

import numpy as np
from matplotlib.figure import Figure

import tether

TINY = bool(os.environ.get("TETHER_TINY"))
STEP = 0.05  # seconds


def write_log(path: str, runs: int = 40, rows: int = 100) -> None:
    """Stands for your recorder: a row per time step, a column that tells runs apart. It has friction."""
    rng = np.random.default_rng(0)
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["run", "angle", "speed", "torque"])
        for run in range(runs):
            angle, speed, torque = rng.uniform(-2, 2), rng.uniform(-3, 3), 0.0
            for _ in range(rows):
                torque = 0.9 * torque + 0.6 * rng.normal()
                writer.writerow([run, angle, speed, torque])
                speed += STEP * (torque - 9.81 * np.sin(angle) - 0.15 * speed)
                angle = (angle + STEP * speed + np.pi) % (2 * np.pi) - np.pi


def textbook(states: np.ndarray, controls: np.ndarray) -> np.ndarray:
    """The trusted model, all rows at once: no friction."""
    angle, speed = states[:, 0], states[:, 1]
    speed = speed + STEP * (controls[:, 0] - 9.81 * np.sin(angle))
    return np.column_stack([angle + STEP * speed, speed])


write_log("log.csv", runs=12 if TINY else 40)
data = tether.read_log(
    "log.csv", states=["angle", "speed"], controls=["torque"], episode="run", angles=["angle"],
    units={"angle": "rad", "speed": "rad/s"},
)  # fmt: skip
probes = tether.Probes.from_box({"speed": 0.0, "torque": 0.0}, count=500, like=data)  # at rest, as M says
model = tether.fit(
    data, trusted=textbook, probes=probes,
    memories=20 if TINY else 300, leaves=100 if TINY else 5000, hidden=(16,) if TINY else (64, 64),
    training=tether.TrainingConfig(steps=20 if TINY else 1000),
)  # fmt: skip
print(model)

test = data.split().test  # episodes that the fit has held out
found = model.predict(test.states, test.controls, details=True)
errors = {"textbook": textbook(test.states, test.controls), "tethered": found.next_states}
for name, following in errors.items():
    off = data.schema.distance(following, test.next_states)
    rms, worst = np.sqrt((off**2).mean(axis=0)), np.abs(off).max(axis=0)
    for k, output in enumerate(data.schema.outputs):
        print(f"{name}: {output} off by {rms[k]:.2g} (root mean square), {worst[k]:.2g} (worst)")

order = np.argsort(test.states[:, 1])
speed, base = test.states[order, 1], errors["textbook"][order, 1]
figure = Figure(figsize=(7, 4), layout="constrained")
axes = figure.subplots()
low, high = found.lower[order, 1] - base, found.upper[order, 1] - base
axes.fill_between(speed, low, high, step="mid", alpha=0.25, label="where any weights may answer (proved)")
axes.plot(speed, test.next_states[order, 1] - base, "k.", ms=4, label="measured (friction)")
axes.plot(speed, found.next_states[order, 1] - base, "r.", ms=2, label="predicted")
axes.set(xlabel="speed [rad/s]", ylabel="next speed, less the textbook's [rad/s]")
figure.legend(loc="outside upper center", ncols=3)
figure.savefig("your_own_csv.png", dpi=120)
print("picture: your_own_csv.png")
