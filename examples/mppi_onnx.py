"""MPPI with an exported ONNX file: a thousand rollouts a step, none believed outside the domain."""

import os
import tempfile
import time

import numpy as np
import onnxruntime
from matplotlib.figure import Figure

import tether
from tether.export import export
from tether_studies import parked_car

TINY = bool(os.environ.get("TETHER_TINY"))
SAMPLES, HORIZON, STEPS = (50, 5, 3) if TINY else (1000, 30, 40)
GOAL, SPREAD, TEMPERATURE = np.array([12.0, 6.0]), np.array([1.5, 0.3]), 0.5

driven = parked_car.drive(episodes=12 if TINY else 60)
car = tether.fit(
    driven, trusted=parked_car.TRUSTED, probes=parked_car.parked(driven, count=500), domain=parked_car.DOMAIN,
    memories=50 if TINY else 200, leaves=300 if TINY else 2000, hidden=(64, 64),
    training=tether.TrainingConfig(steps=20 if TINY else 1000),
)  # fmt: skip
with tempfile.TemporaryDirectory() as folder:
    path = export(car, to="onnx", out=folder, name="car", dtype="float32")[0]
    print(tether.verify(path, parked_car.TRUSTED).statement)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def costs(pose: np.ndarray, controls: np.ndarray) -> np.ndarray:
    """(K,) of controls (T, K, 2) from one pose: the way to the goal, and much for leaving the domain."""
    states, total = np.repeat(pose[None], controls.shape[1], axis=0), np.zeros(controls.shape[1])
    for control in controls:
        names = ["next_states", "in_domain"]
        states, inside = session.run(names, {"states": states, "controls": control})
        states[:, 2] = (states[:, 2] + np.pi) % (2 * np.pi) - np.pi  # float32 wraps none
        total += ((states[:, :2] - GOAL) ** 2).sum(axis=1) + 1e4 * ~inside
    return total + 20 * controls[-1, :, 0] ** 2


rng = np.random.default_rng(0)
pose, plan = np.zeros(3, np.float32), np.tile(np.array([2.0, 0.0]), (HORIZON, 1))
driven_path = [pose[:2].copy()]
for step in range(STEPS):
    start = time.perf_counter()
    tried = plan[:, None] + rng.normal(size=(HORIZON, SAMPLES, 2)) * SPREAD
    tried = np.clip(tried, [0.0, -0.8], [8.0, 0.8]).astype(np.float32)
    cost = costs(pose, tried)
    weight = np.exp(-(cost - cost.min()) / (TEMPERATURE * (cost.std() + 1e-9) / 10))
    plan = np.einsum("k,tkd->td", weight / weight.sum(), tried)
    taken = time.perf_counter() - start
    truth = parked_car.unicycle(pose[None].astype(np.float64), plan[:1])[0]
    answer = session.run(None, {"states": pose[None], "controls": plan[:1].astype(np.float32)})
    pose, delta = answer[0][0], answer[3][0]
    pose[2] = (pose[2] + np.pi) % (2 * np.pi) - np.pi
    driven_path.append(pose[:2].copy())
    plan = np.concatenate([plan[1:], plan[-1:]])
    if step % 10 == 0 or step == STEPS - 1:
        away, gap = np.linalg.norm(pose[:2] - GOAL), np.abs(pose - truth)[:2].max()
        print(f"step {step}: {away:.2f} m to go, planned in {1e3 * taken:.0f} ms; {gap:.3f} m from M, "
              f"delta {delta[:2].max():.3f} m")  # fmt: skip

figure = Figure(figsize=(6, 4), layout="constrained")
axes = figure.subplots()
axes.plot(*np.transpose(driven_path), "o-", ms=3, label="where the car drove")
axes.plot(*GOAL, "k*", ms=14, label="goal")
axes.set(xlabel="x [m]", ylabel="y [m]", aspect="equal")
axes.legend()
figure.savefig("mppi_onnx.png", dpi=120)
print("picture: mppi_onnx.png")
