"""A learned policy that cannot leave its trusted controller, and a tube around the loop it closes.

M is a controller: LQR with a limited torque, for a pendulum held upright. An expert's demonstrations teach
a policy that stays within 0.5 Nm of it, whatever its weights. The dynamics are learned of the state and of
what is added to LQR: a box of additions holds every such policy, so the tube holds for any weights of both.
Not shown: that the real pendulum is in the tube, and anything after its last step.
"""

import os

import numpy as np
import torch
from matplotlib.figure import Figure

import tether

TINY = bool(os.environ.get("TETHER_TINY"))
STEP, TORQUE, MOST, STEPS = 0.05, 8.0, 0.5, 10 if TINY else 40
SMALL = {
    "memories": 20 if TINY else 100, "leaves": 400 if TINY else 4000, "hidden": (8,) if TINY else (32, 32),
    "training": tether.TrainingConfig(steps=20 if TINY else 600),
}  # fmt: skip
BOX = {"angle": (-0.6, 0.6), "speed": (-2.5, 2.5)}


def lqr(states: np.ndarray, controls: np.ndarray) -> np.ndarray:
    """The trusted controller, all rows at once; it has no controls of its own."""
    return np.clip(-22.0 * states[:, :1] - 7.0 * states[:, 1:], -TORQUE, TORQUE)


def closed(states: np.ndarray, controls: np.ndarray) -> np.ndarray:
    """The trusted pendulum under LQR plus an addition: no friction."""
    torque = np.clip(lqr(states, controls) + controls, -TORQUE - MOST, TORQUE + MOST)[:, 0]
    speed = states[:, 1] + STEP * (9.81 * np.sin(states[:, 0]) + torque)
    return np.column_stack([states[:, 0] + STEP * speed, speed])


rng, (runs, rows) = np.random.default_rng(0), (10, 20) if TINY else (80, 25)
log, states = [], rng.uniform([-0.3, -0.8], [0.3, 0.8], (runs, 2))
for _ in range(rows):  # the expert brakes a little more at speed; the real pendulum has friction
    added = np.clip(-0.35 * np.tanh(2 * states[:, 1:]) + 0.05 * rng.normal(size=(runs, 1)), -MOST, MOST)
    following = closed(states, added) - STEP * 0.2 * states * [0.0, 1.0]
    states, log = following, [*log, (states, added, following)]
seen, asked, following = (np.concatenate(part) for part in zip(*log, strict=True))
episodes, columns = np.tile(np.arange(runs), rows), ["angle", "speed"]
taught, driven = tether.make_schema(columns, [], ["torque"]), tether.make_schema(columns, ["added"])
nothing, shown = np.zeros((len(seen), 0)), lqr(seen, asked) + asked
demonstrations = tether.Transitions.from_arrays(seen, nothing, shown, episodes=episodes, schema=taught)
moves = tether.Transitions.from_arrays(seen, asked, following, episodes=episodes, schema=driven)
policy = tether.fit(demonstrations, trusted=lqr, domain=BOX, delta={"torque": MOST}, **SMALL)
dynamics = tether.fit(moves, trusted=closed, domain=BOX | {"added": (-0.6, 0.6)}, **SMALL)
print(tether.certify(policy, lqr).claim)
start, additions = {"angle": (0.2, 0.25), "speed": 0.0}, {"added": (-MOST, MOST)}
tube = tether.tube(dynamics, closed, start, additions, steps=STEPS)
print(tube)
ways = []
for _ in range(3 if TINY else 30):
    way = [np.array([[rng.uniform(0.2, 0.25), 0.0]])]
    while len(way) < len(tube.lower):
        added = policy.predict(way[-1], np.zeros((1, 0))) - lqr(way[-1], way[-1])
        way.append(dynamics.predict(way[-1], added))
    ways.append(np.concatenate(way))
    for weight in [*policy.network.parameters(), *dynamics.network.parameters()]:
        torch.nn.init.normal_(weight, 0, 2)  # the next one has other weights
inside = all(((way >= tube.lower) & (way <= tube.upper)).all() for way in ways)
print(f"{len(ways)} pairs of weights, the first trained: all in the tube: {inside}")

figure = Figure(figsize=(7, 4), layout="constrained")
axes = figure.subplots()
time = STEP * np.arange(len(tube.lower))
axes.fill_between(time, tube.lower[:, 0], tube.upper[:, 0], alpha=0.25, label="any weights (proved)")
axes.plot(time, np.array(ways)[1:, :, 0].T, "k", lw=0.3)
axes.plot(time, ways[0][:, 0], "r", label="trained (black: random weights)")
axes.set(xlabel="time [s]", ylabel="angle from upright [rad]")
axes.legend()
figure.savefig("certified_policy.png", dpi=120)
print("picture: certified_policy.png")
